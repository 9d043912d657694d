// SPDX-License-Identifier: GPL-2.0-or-later
//! Serves one database, from its first appearance on.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use rustix::fd::OwnedFd;
use rustix::fs::Dir;

use super::report::Board;
use super::Machine;
use crate::agent::discard::{self, Plan};
use crate::agent::papers::state::Keeper;
use crate::agent::run::{self, Surroundings};
use crate::agent::{Agent, Fatal, Options};
use crate::mongo::Link;
use database::config::Config;
use database::fiemap;
use database::rules::RulesFiles;
use database::walk::{self, Root};
use database::watch::Watch;
use database::wiredtiger::turtle;
use dm::device::Target;
use dm::mode::Mode;
use dm::reply::{Checkpoint, Status};
use drive::below::Affords;
use proto::control::{self, FileInfo, Server};
use proto::device::State;
use proto::reason::{Reason, ReasonKind};
use proto::regions::{self, checkpoint_text, written_text, Names};
use runtime::log;
use runtime::pulse::Pulses;
use runtime::wake::{Signals, Waker};

/// How long to wait before a database is looked for again.
#[derive(Clone, Copy)]
pub(crate) struct ServePace {
    /// While it is not there.
    pub look: Duration,
    /// After it was lost.
    pub lost: Duration,
}

impl Default for ServePace {
    fn default() -> Self {
        Self {
            look: Duration::from_millis(500),
            lost: Duration::from_secs(2),
        }
    }
}

/// What the command line says beside the configuration.
#[derive(Clone)]
pub struct Run {
    pub run_dir: PathBuf,
    /// Where `dsm-mongo` writes.
    pub mongo_dir: PathBuf,
    pub show_regions: bool,
}

/// A database, and what its agent needs beside it.
pub(crate) struct Served {
    pub config: Config,
    pub run: Run,
    pub board: Arc<Board>,
    pub pulses: Pulses,
    pub signals: Signals,
    pub pace: ServePace,
}

/// Serves until a signal comes, or the database is to be given up.
pub(crate) fn serve<M: Machine>(machine: &M, s: &Served) -> Result<()> {
    let device = &s.config.device;
    let mut reported = None;
    loop {
        let result = s.pulses.agent.work(|| prepare(machine, s));
        let pause = match result {
            Ok((mut agent, mut surroundings)) => match run::run(&mut agent, &mut surroundings) {
                Ok(()) => {
                    log!(Info, "ended", device = device, reason = "signal");
                    return Ok(());
                }
                // It is there, in another size.
                Err(e @ (Fatal::Resized(_) | Fatal::Moved)) => {
                    log!(Info, "begins again", device = device, reason = e);
                    reported = None;
                    continue;
                }
                Err(e) if !s.config.wait => return Err(e.into()),
                Err(e) => {
                    let reason = Reason::of(&e.into());
                    log!(Error, "lost", device = device, reason = reason);
                    s.board.without(State::Waiting, Some(reason));
                    reported = None;
                    s.pace.lost
                }
            },
            Err(e) if !s.config.wait => return Err(e),
            Err(e) => {
                let reason = Some(Reason::of(&e));
                if reported != reason {
                    log!(Warn, "waiting", device = device, reason = format!("{e:#}"));
                    s.board.without(State::Waiting, reason.clone());
                    reported = reason;
                }
                s.pace.look
            }
        };
        if s.signals.wait(pause) {
            return Ok(());
        }
    }
}

/// An agent, when the database can be served, and what it needs.
type Prepared<'a, M> = (
    Agent<<M as Machine>::Target, <M as Machine>::Mapper>,
    Surroundings<'a>,
);

fn prepare<'a, M: Machine>(machine: &M, s: &'a Served) -> Result<Prepared<'a, M>> {
    let d = &s.config;
    let target = machine.open(&d.device)?;
    // Before anything that may hang: so does who has it, perhaps.
    let lock = control::lock(&s.run.run_dir, &d.device)?;
    let (rules_files, rules) = RulesFiles::open(&d.rules)?;
    let dbpath = d.dbpath.as_ref().context("its file has no dbpath")?;
    let root = Root::open(dbpath).with_context(|| {
        let text = format!("{}: cannot open it", dbpath.display());
        Reason::new(ReasonKind::NotMounted, text)
    })?;
    check_dbpath(&root, !d.auto && rules.objects().is_empty())?;
    let mapper = machine.mapper(&root, &target)?;
    let waker = Waker::new()?;
    let wake = waker.clone();
    let server = Server::start(lock, &s.run.run_dir, &d.device, move || wake.wake())?;
    let watch = if d.auto { Watch::following() } else { Watch::new() };
    let mut watch = watch.context("cannot use inotify")?;
    let keeper = Keeper::new(&s.config.state_dir, &d.device);
    let status = target.status()?;
    let streams = status.device_streams;
    let affords = machine.affords(&target);
    if let Err(reason) = rules.stamps(streams) {
        bail!(reason);
    }
    if d.auto && rules.free_streams(streams).len() < 2 {
        bail!(
            "{}: automatic mode needs two streams that no rule states",
            d.device
        );
    }
    let others = !rules.objects().is_empty();
    let options = Options {
        mode: d.boundary,
        outgrown: d.outgrown,
        rules,
        auto: d.auto.then_some(d.period_seconds.0),
        write_hints: d.write_hints,
        state: keeper.load(),
    };
    let mut agent = Agent::new(target, mapper, root, options);
    let outcome = agent.attach(&mut |path, dir| watch.add(path, dir))?;
    log::clear_error(&d.device);
    let info = agent.info();
    log!(
        Info,
        "attached",
        device = d.device,
        dbpath = info.dbpath,
        files = info.files,
        extents = outcome.commit.map_or(0, |c| c.extents),
        boundaries = info.boundaries,
        ms = outcome.took.as_millis(),
    );
    tell_streams(&d.device, &status, affords);
    let link = (!d.auto).then(|| Link::new(&s.run.mongo_dir, &d.device));
    let discard = (d.discard != Mode::Off)
        .then(|| discards(machine, s, agent.root(), others))
        .transpose()?;
    let surroundings = Surroundings {
        device: d.device.clone(),
        server,
        waker,
        signals: &s.signals,
        watch,
        refresh: d.refresh_seconds.0,
        on_checkpoint: if s.run.show_regions {
            show_regions
        } else {
            |_, _, _| {}
        },
        held: None,
        keeper,
        rules: rules_files,
        link,
        discard,
        pulse: s.pulses.agent.clone(),
        publish: Box::new(|info| s.board.served(info)),
    };
    Ok((agent, surroundings))
}

/// The streams in use, and what the drive affords.
fn tell_streams(device: &str, status: &Status, affords: Result<Affords>) {
    let (policy, streams) = (&status.layout, status.streams_used);
    match affords {
        Err(e) => log!(
            Warn,
            "cannot ask what the drive affords",
            device = device,
            reason = format!("{e:#}")
        ),
        Ok(a) if a.too_many(streams).is_some() => {
            log!(
                Warn,
                "more streams than the drive affords",
                device = device,
                policy = policy,
                streams = streams,
                affords = a.why
            );
        }
        Ok(a) => log!(
            Info,
            "streams",
            device = device,
            policy = policy,
            streams = streams,
            affords = a.why
        ),
    }
}

/// Discards are for MongoDB's own files.
fn discards<M: Machine>(machine: &M, s: &Served, root: &Root, others: bool) -> Result<discard::Link> {
    let d = &s.config;
    if d.auto {
        return Ok(discard::Link::off("automatic mode does not know MongoDB's files"));
    }
    if others {
        return Ok(discard::Link::off(
            "the rules are about other engines than MongoDB",
        ));
    }
    let plan = Plan {
        send: d.discard == Mode::On,
        audit_pages: d.audit_pages,
    };
    machine.discards(root, &d.device, plan, s.pulses.discard.clone())
}

/// Other engines than MongoDB need rules with objects, or automatic mode.
fn check_dbpath(root: &Root, mongodb: bool) -> Result<()> {
    let shown = root.path().display();
    let directory = root
        .handle()
        .with_context(|| format!("{shown}: cannot read it"))?
        .with_context(|| format!("{shown}: it was replaced meanwhile"))?;
    let regular =
        |name: &str| walk::find_file(&directory, Path::new(name), root.device()).is_ok_and(|f| f.is_some());
    if mongodb && (!regular("WiredTiger") || !regular(turtle::NAME)) {
        let text = format!("{shown}: it is not a data directory of MongoDB: there is no WiredTiger and {} in it; other engines need rules, or auto", turtle::NAME);
        return Err(Reason::new(ReasonKind::NoDatabase, text).into());
    }
    if !reports_extents(&directory).with_context(|| format!("{shown}: cannot read it"))? {
        bail!("{shown}: its file system does not report extents (no FIEMAP); XFS or ext4 is needed");
    }
    Ok(())
}

/// Any file shows whether the file system does; where there is none yet, the first
/// that is read will.
fn reports_extents(directory: &OwnedFd) -> Result<bool> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
        if let Ok(Some((file, _))) = walk::open_beneath(directory, name) {
            return Ok(fiemap::supported(&file)?);
        }
    }
    Ok(true)
}

fn show_regions(target: &dyn Target, done: &Checkpoint, files: &dyn Fn() -> Vec<FileInfo>) {
    match target.regions() {
        Ok(mut regions) => {
            let names: Names = files().into_iter().map(|f| (f.id, f.path)).collect();
            regions::name(&mut regions, &names);
            print(&format!("{}{}\n", checkpoint_text(done), written_text(&regions)));
        }
        Err(e) => log!(Warn, "cannot show the regions", reason = e),
    }
}

/// Prints to stdout; a reader that is gone does not end the agent.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

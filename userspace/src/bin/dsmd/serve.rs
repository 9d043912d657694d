// SPDX-License-Identifier: GPL-2.0-only
//! Serves one database, from its first appearance on.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::Event;
use dsm::agent::run::{self, Pulse, Signals, Surroundings, Waker};
use dsm::agent::state::Keeper;
use dsm::agent::watch::Watch;
use dsm::agent::{Agent, Options, TURTLE};
use dsm::config::Database;
use dsm::control::{FileInfo, Server};
use dsm::device::{Device, Target};
use dsm::fiemap::{self, Fiemap};
use dsm::mongo::Link;
use dsm::report::{checkpoint_text, written_text, Names};
use dsm::rules::RulesFiles;
use dsm::status::Checkpoint;
use dsm::walk::Root;
use dsm::{log, place};

/// How often a database that is not there is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// After it was lost.
const PAUSE: Duration = Duration::from_secs(2);

/// A database, and what its agent needs beside it.
pub struct Served {
    pub database: Database,
    pub state_dir: PathBuf,
    pub run_dir: PathBuf,
    pub show_regions: bool,
    pub pulse: Pulse,
    pub events: Sender<Event>,
}

/// Serves until a signal comes, or the database is to be given up.
pub fn serve(s: &Served) -> Result<()> {
    let signals = Signals::new()?;
    let device = &s.database.device;
    let mut ready = false;
    let mut told = String::new();
    loop {
        let result = s.pulse.work(|| prepare(s));
        if !std::mem::replace(&mut ready, s.database.wait || result.is_ok()) && ready {
            let _ = s.events.send(Event::Ready);
        }
        let pause = match result {
            Ok(prepared) => match attend(s, prepared, &signals) {
                Ok(()) => {
                    log!(Info, "ended", device = device, reason = "signal");
                    return Ok(());
                }
                Err(e) if !s.database.wait => return Err(e),
                Err(e) => {
                    log!(Error, "lost", device = device, reason = format!("{e:#}"));
                    told.clear();
                    PAUSE
                }
            },
            Err(e) if !s.database.wait => return Err(e),
            Err(e) => {
                let reason = format!("{e:#}");
                if told != reason {
                    log!(Warn, "waiting", device = device, reason = reason);
                    told = reason;
                }
                LOOK
            }
        };
        if signals.wait(pause) {
            return Ok(());
        }
    }
}

/// What is there when a database can be served.
struct Prepared {
    agent: Agent<Device, Fiemap>,
    watch: Watch,
    waker: Waker,
    server: Server,
    keeper: Keeper,
    rules: RulesFiles,
    link: Option<Link>,
}

fn prepare(s: &Served) -> Result<Prepared> {
    let d = &s.database;
    let device = Device::open(&d.device)?;
    let (rules_files, rules) = RulesFiles::open(&d.rules)?;
    check_dbpath(&d.dbpath, !d.auto && rules.objects().is_empty())?;
    let found = place::find(&d.dbpath, &device.name, device.devno, device.sectors)?;
    if let Some(warning) = &found.warning {
        log!(Warn, warning);
    }
    let waker = Waker::new()?;
    let wake = waker.clone();
    let server = Server::start(&s.run_dir, &device.name, move || wake.wake())?;
    let root = Root::open(&d.dbpath).with_context(|| format!("{}: cannot open it", d.dbpath.display()))?;
    let watch = if d.auto { Watch::following() } else { Watch::new() };
    let mut watch = watch.context("cannot use inotify")?;
    let keeper = Keeper::new(&s.state_dir, &device.name);
    let streams = device.status()?.device_streams;
    if let Err(sentence) = rules.stamps(streams) {
        bail!(sentence);
    }
    if d.auto && rules.free_streams(streams).len() < 2 {
        bail!(
            "{}: automatic mode needs two streams that no rule states",
            d.device
        );
    }
    let options = Options {
        mode: d.boundary,
        outgrown: d.outgrown,
        rules,
        auto: d.auto.then_some(d.period_seconds.0),
        preallocate: u64::from(d.preallocate_mib) << 20,
        write_hints: d.write_hints,
        state: keeper.load(),
    };
    let mut agent = Agent::new(device, Fiemap::new(found.place), root, options);
    let outcome = agent.attach(&mut |path, dir| watch.add(path, dir))?;
    log!(
        Info,
        "attached",
        device = d.device,
        dbpath = agent.root().path().display(),
        files = agent.len(),
        extents = outcome.commit.map_or(0, |c| c.extents),
        boundaries = agent.boundaries(),
        ms = outcome.took.as_millis(),
    );
    let link = match &d.uri {
        Some(uri) => {
            let wake = waker.clone();
            Some(Link::start(uri, move || wake.wake())?)
        }
        None => None,
    };
    Ok(Prepared {
        agent,
        watch,
        waker,
        server,
        keeper,
        rules: rules_files,
        link,
    })
}

fn attend(s: &Served, prepared: Prepared, signals: &Signals) -> Result<()> {
    let Prepared {
        mut agent,
        watch,
        waker,
        server,
        keeper,
        rules,
        link,
    } = prepared;
    let mut on_checkpoint = |target: &dyn Target, done: &Checkpoint, files: &dyn Fn() -> Vec<FileInfo>| {
        if s.show_regions {
            show_regions(target, done, files());
        }
    };
    let mut surroundings = Surroundings {
        device: s.database.device.clone(),
        server,
        waker,
        signals,
        watch,
        refresh: s.database.refresh_seconds.0,
        on_checkpoint: &mut on_checkpoint,
        held: None,
        keeper,
        rules,
        link,
        pulse: s.pulse.clone(),
    };
    Ok(run::run(&mut agent, &mut surroundings)?)
}

/// Other engines than MongoDB need rules with objects, or automatic mode.
fn check_dbpath(dbpath: &Path, mongodb: bool) -> Result<()> {
    let shown = dbpath.display();
    let meta = std::fs::metadata(dbpath).with_context(|| format!("{shown}: cannot look at it"))?;
    if !meta.is_dir() {
        bail!("{shown}: it is not a directory");
    }
    let regular = |name: &str| std::fs::symlink_metadata(dbpath.join(name)).is_ok_and(|m| m.is_file());
    if mongodb && (!regular("WiredTiger") || !regular(TURTLE)) {
        bail!("{shown}: it is not a data directory of MongoDB: there is no WiredTiger and {TURTLE} in it; for other engines, give --rules or --auto");
    }
    // Any file tells; where there is none yet, the first that is read will.
    let entries = std::fs::read_dir(dbpath).with_context(|| format!("{shown}: cannot read it"))?;
    let files = entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_file()));
    for file in files.filter_map(|e| std::fs::File::open(e.path()).ok()).take(1) {
        if !fiemap::supported(&file)? {
            bail!("{shown}: its file system does not tell extents (no FIEMAP); XFS or ext4 is needed");
        }
    }
    Ok(())
}

fn show_regions(target: &dyn Target, done: &Checkpoint, files: Vec<FileInfo>) {
    match target.regions() {
        Ok(regions) => {
            let names: Names = files.into_iter().map(|f| (f.id, f.path)).collect();
            run::print(&format!(
                "{}{}\n",
                checkpoint_text(done),
                written_text(&regions, &names)
            ));
        }
        Err(e) => log!(Warn, "cannot show the regions", reason = e),
    }
}

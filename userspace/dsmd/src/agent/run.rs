// SPDX-License-Identifier: GPL-2.0-or-later
//! The loop: waits for events and has the agent answer them.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{anyhow, Result};
use rustix::fd::OwnedFd;
use serde_json::Value;

use super::auto;
use super::clock::Clock;
use super::papers::state::Keeper;
use super::{discard, fatal, Agent, Fatal, Scope};
use crate::mongo::{self, Link};
use database::fiemap::Mapper;
use database::rules::{Rules, RulesFiles};
use database::watch::Watch;
use dm::device::{Device, Target};
use dm::mode::Mode;
use dm::reply::Checkpoint;
use dm::sysfs::Sysfs;
use drive::switch;
use proto::control::{FileInfo, Info, Pending, Request, Server, HOLD, TRIAL};
use proto::left_out::{LeftOut, Omission};
use runtime::log;
use runtime::pulse::Pulse;
use runtime::wake::{wait, Signals, Waker};

/// Events are taken so often however long the pause after a look is: the kernel keeps
/// 16,384 by default, and a file that is made, written and deleted has four.
const EVENTS: Duration = Duration::from_secs(1);
/// Between two things that are published of an agent, at least: all its files are counted.
const PUBLISH: Duration = Duration::from_secs(1);

/// Called after each checkpoint and its refresh; the last argument lists the
/// files.
pub(crate) type OnCheckpoint = fn(&dyn Target, &Checkpoint, &dyn Fn() -> Vec<FileInfo>);

/// What the loop needs beside the agent.
pub struct Surroundings<'a> {
    pub device: String,
    pub server: Server,
    pub waker: Waker,
    pub signals: &'a Signals,
    pub watch: Watch,
    pub refresh: Duration,
    pub on_checkpoint: OnCheckpoint,
    /// Until when somebody else has the table.
    pub held: Option<Instant>,
    pub keeper: Keeper,
    pub rules: RulesFiles,
    /// To who asks the server, where files are MongoDB's.
    pub link: Option<Link>,
    /// Of discards, when they are asked for.
    pub discard: Option<discard::Link>,
    pub pulse: Pulse,
    /// Takes what the agent says of itself, soon after it has done something.
    pub publish: Box<dyn FnMut(Info) + 'a>,
}

/// Serves until a signal comes.
pub fn run<T: Target, M: Mapper>(agent: &mut Agent<T, M>, s: &mut Surroundings<'_>) -> Result<(), Fatal> {
    let status = agent.target.status().map_err(fatal)?;
    let mut clock = Clock::new(s.refresh, Instant::now(), (&status).into());
    if agent.is_auto() {
        clock.duty = auto::DUTY;
    }
    let mut uploads = agent.uploads.count;
    let mut published = Instant::now();
    let now = info(agent, s);
    (s.publish)(now);
    let mut news = false;
    loop {
        let now = Instant::now();
        let mut fds = vec![s.signals.end_fd(), s.waker.as_fd()];
        let timeout = if let Some(end) = s.held {
            // What happens meanwhile waits in the watch.
            end.saturating_duration_since(now)
        } else {
            fds.push(s.signals.reload_fd());
            let mut timeout = clock.timeout(now);
            if agent.is_auto() && clock.names {
                // Events are read together, before the kernel's queue is full.
                timeout = timeout.min(EVENTS);
            } else {
                fds.push(s.watch.as_fd());
            }
            if s.link.is_some() {
                timeout = timeout.min(mongo::LOOK);
            }
            if news {
                timeout = timeout.min(PUBLISH.saturating_sub(published.elapsed()));
            }
            timeout
        };
        wait(&fds, timeout)?;
        if s.signals.came() {
            return Ok(());
        }
        let pulse = s.pulse.clone();
        pulse.work(|| turn(agent, s, &mut clock, &mut uploads))?;
        news = published.elapsed() < PUBLISH;
        if !news {
            let now = info(agent, s);
            (s.publish)(now);
            published = Instant::now();
        }
    }
}

/// Answers what has come.
fn turn<T: Target, M: Mapper>(
    agent: &mut Agent<T, M>,
    s: &mut Surroundings<'_>,
    clock: &mut Clock,
    uploads: &mut u64,
) -> Result<(), Fatal> {
    s.waker.clear();
    while let Some(pending) = s.server.next() {
        serve(agent, s, pending)?;
    }
    if let Some(end) = s.held {
        if Instant::now() < end {
            return Ok(());
        }
        s.held = None;
        agent.files.distrust_table();
        clock.names_changed(Instant::now());
    }
    if s.signals.reload() {
        let rules = s.rules.again();
        follow(agent, rules, clock);
    }
    let events = s.watch.take()?;
    if events.root && agent.root().handle()?.is_none() {
        return Err(Fatal::DbpathGone);
    }
    if events.names {
        clock.names_changed(Instant::now());
    }
    if events.files {
        agent.checkpoints.files_came_or_went();
    }
    if let Some(link) = &mut s.link {
        listen(agent, link, clock);
    }
    if events.turtle {
        clock.turtle();
    }
    let read = clock.read_turtle(Instant::now());
    if events.turtle || read {
        s.discard.iter().for_each(discard::Link::turtle);
    }
    if read {
        checkpoint(agent, s, clock, uploads)?;
    }
    if clock.due(Instant::now()) {
        tick(agent, s, clock)?;
    }
    keep(agent, s, events.turtle);
    Ok(())
}

/// Takes rules that were read again.
fn follow<T: Target, M: Mapper>(agent: &mut Agent<T, M>, rules: Result<Rules>, clock: &mut Clock) {
    match rules.and_then(|r| agent.set_rules(r).map_err(|e| anyhow!(e))) {
        Ok(()) => {
            log!(Info, "rules read again");
            clock.names_changed(Instant::now());
        }
        Err(e) => log!(Error, "the rules stay as they were", reason = format!("{e:#}")),
    }
}

/// Takes what the server said.
fn listen<T: Target, M: Mapper>(agent: &mut Agent<T, M>, link: &mut Link, clock: &mut Clock) {
    if let Some(catalog) = link.look(Instant::now()) {
        let files = catalog.len();
        if agent.set_catalog(catalog) {
            log!(Debug, "the server reported its catalog", files = files);
            clock.names_changed(Instant::now());
        } else {
            link.is_another();
        }
    }
}

/// Writes the state when it changed; after a failure, at a checkpoint only.
fn keep<T: Target, M: Mapper>(agent: &mut Agent<T, M>, s: &mut Surroundings<'_>, at_checkpoint: bool) {
    if s.keeper.failed && !at_checkpoint {
        return;
    }
    if let Some(state) = agent.unsaved_state(&s.device) {
        if !s.keeper.save(&state) {
            agent.boundaries.changed();
        }
    }
}

fn checkpoint<T: Target, M: Mapper>(
    agent: &mut Agent<T, M>,
    s: &mut Surroundings<'_>,
    clock: &mut Clock,
    uploads: &mut u64,
) -> Result<(), Fatal> {
    let Some(done) = agent.turtle_renamed()? else {
        return Ok(());
    };
    clock.window_began(Instant::now());
    let status = agent.target.status().map_err(fatal)?;
    clock.polled(Instant::now(), (&status).into());
    if let Some(rules) = s.rules.changed() {
        follow(agent, rules, clock);
    }
    let watch = &mut s.watch;
    let outcome = agent.after_checkpoint(&mut |path, dir| watch.add(path, dir))?;
    log!(
        Info,
        "checkpoint",
        window = done.window,
        ms = done.ms,
        written = done.written,
        moved = done.moved,
        uploads = agent.uploads.count - *uploads,
        read = outcome.read,
        changed = outcome.changed,
        dropped = outcome.dropped,
        refresh_ms = outcome.took.as_millis(),
    );
    *uploads = agent.uploads.count;
    clock.refreshed(Instant::now(), &outcome);
    (s.on_checkpoint)(&agent.target, &done, &|| agent.file_infos());
    Ok(())
}

fn tick<T: Target, M: Mapper>(
    agent: &mut Agent<T, M>,
    s: &mut Surroundings<'_>,
    clock: &mut Clock,
) -> Result<(), Fatal> {
    let status = agent.target.status().map_err(fatal)?;
    if status.generation != agent.uploads.generation && agent.files.trusts_table() && !clock.failed {
        log!(
            Warn,
            "the table was changed by somebody else; uploading all of it",
            generation = status.generation,
            expected = agent.uploads.generation
        );
        agent.files.distrust_table();
        clock.names_changed(Instant::now());
    }
    agent.set_device_streams(status.device_streams);
    let now = Instant::now();
    if !clock.polled(now, (&status).into()) && !agent.auto_is_due(now) && agent.files.trusts_table() {
        return Ok(());
    }
    // A rename whose event was lost is found by comparing.
    clock.turtle();
    let watch = &mut s.watch;
    let outcome = if agent.is_auto() {
        let changes = watch.take_changes();
        agent.follow(&changes, now, &mut |path, dir| watch.add(path, dir))?
    } else {
        agent.refresh(Scope::Grown, &mut |path, dir| watch.add(path, dir))?
    };
    if outcome.commit.is_some() {
        log!(
            Debug,
            "table updated",
            read = outcome.read,
            changed = outcome.changed,
            dropped = outcome.dropped,
            refresh_ms = outcome.took.as_millis(),
        );
    }
    clock.refreshed(Instant::now(), &outcome);
    Ok(())
}

fn serve<T: Target, M: Mapper>(
    agent: &mut Agent<T, M>,
    s: &mut Surroundings<'_>,
    pending: Pending,
) -> Result<(), Fatal> {
    let watch = &mut s.watch;
    let on_dir = &mut |path: &Path, dir: &OwnedFd| watch.add(path, dir);
    let result = match &pending.request {
        Request::Info => Ok(to_value(info(agent, s))),
        Request::Files => Ok(to_value(agent.file_infos())),
        Request::BoundaryMark => agent.mark(on_dir).map(|marked| {
            log!(
                Info,
                "boundaries marked",
                marked = marked.marked,
                boundaries = marked.boundaries
            );
            to_value(marked)
        }),
        Request::BoundaryMove { paths } => match agent.move_boundaries(paths, on_dir) {
            Ok(Ok(moved)) => {
                log!(Info, "boundaries moved", moved = moved.marked);
                Ok(to_value(moved))
            }
            Ok(Err(reason)) => {
                pending.answer(Err(anyhow!(reason)));
                return Ok(());
            }
            Err(e) => Err(e),
        },
        Request::Refresh => agent.refresh_all(on_dir).map(to_value),
        Request::Hold { probe } => {
            s.held = Some(Instant::now() + HOLD);
            if *probe {
                s.discard.iter().for_each(|link| link.hold(s.held));
            }
            Ok(Value::Null)
        }
        Request::Release { probe } => {
            // It ends now, unless it is a probe's and somebody else says so.
            if *probe || !s.discard.iter().any(discard::Link::is_probed) {
                s.held = s.held.map(|_| Instant::now());
                s.discard.iter().for_each(|link| link.hold(None));
            }
            Ok(Value::Null)
        }
        Request::Trial { withheld } => {
            let until = withheld.then(|| Instant::now() + TRIAL);
            s.discard.iter().for_each(|link| link.withhold(until));
            Ok(Value::Null)
        }
        Request::Discard { mode, who } => {
            let turned = switch_discards(&s.device, *mode, who);
            // The thread of discards goes by it at once.
            s.discard.iter().for_each(discard::Link::turtle);
            pending.answer(turned.map(|()| Value::Null));
            return Ok(());
        }
    };
    match result {
        Ok(value) => {
            pending.answer(Ok(value));
            Ok(())
        }
        Err(e) => {
            pending.answer(Err(anyhow!("{e}")));
            Err(e)
        }
    }
}

fn switch_discards(name: &str, mode: Mode, who: &str) -> Result<()> {
    let device = Device::open(name)?;
    let at = (name, device.devno);
    switch::turn(Path::new(switch::DIR), &Sysfs::default(), at, &device, mode, who)?;
    log!(Info, "discards are switched", mode = mode, by = who);
    Ok(())
}

fn to_value(v: impl serde::Serialize) -> Value {
    serde_json::to_value(v).expect("the replies have no keys but strings")
}

fn info<T: Target, M: Mapper>(agent: &Agent<T, M>, s: &Surroundings<'_>) -> Info {
    let mut info = agent.info();
    let (unwatched, first) = s.watch.unwatched();
    info.left_out
        .extend(LeftOut::some(Omission::Unwatched, unwatched, first));
    Info {
        server: s.link.as_ref().and_then(Link::info),
        discard: s.discard.as_ref().map(discard::Link::info),
        ..info
    }
}

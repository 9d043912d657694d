// SPDX-License-Identifier: GPL-2.0-or-later
//! The thread that looks, audits and discards, so that nothing else waits for it.
//!
//! For each process that opens the database, and each time that all was forgotten, it begins with
//! an audit, in which the target only watches.  A batch takes a [`Permit`], which nothing but what
//! was seen then can make.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::audit::Violation;
use super::notices::{notices, Notice, Notices, Notifier};
use super::pace::{budget, Pace, Queue};
use super::permit::{self, Batch, Permit, Withheld};
use super::{tidy, Database, Found, Halt, Look, Rule};
use dm::device::{MessageError, Target};
use dm::diskstat::DiskStat;
use dm::mode::Mode;
use dm::table::SectorRange;
use drive::switch;
use proto::control::DiscardInfo;
use proto::reason::{Reason, ReasonKind, OFF_FOR_A_TRIAL, PROBED, SWITCHED_OFF};
use runtime::log;
use runtime::pulse::Pulse;
use runtime::time;

/// How often preconditions and owner are checked between checkpoints.
const RECHECK_INTERVAL: Duration = Duration::from_secs(10);
/// A reason comes into the log when the last one has been there for so long.
const SAY_INTERVAL: Duration = Duration::from_secs(5);
/// After what time a device that took no discards is tried again.  A snapshot below it
/// refuses them while it exists.
const AGAIN: Duration = Duration::from_secs(600);
/// A target that is not done with a batch after this has a drive that is stuck.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// What is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Not only audited.
    pub send: bool,
    /// So many pages must be seen to be written before they are used again; 0: none.
    pub audit_pages: u64,
}

/// What an agent has of its discards.
pub struct Link {
    notifier: Option<Notifier>,
    shared: Shared,
    thread: Option<JoinHandle<()>>,
}

/// Until when others have discards withheld; they ask again and again.
#[derive(Clone, Copy, Default)]
struct Holds {
    /// Has the switch, too.
    probe: Option<Instant>,
    /// For a period.
    trial: Option<Instant>,
}

#[derive(Clone, Default)]
struct Shared {
    info: Arc<Mutex<DiscardInfo>>,
    holds: Arc<Mutex<Holds>>,
}

impl Shared {
    fn info(&self) -> MutexGuard<'_, DiscardInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, f: impl FnOnce(&mut DiscardInfo)) {
        f(&mut self.info());
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_held(&self, by: impl Fn(&Holds) -> Option<Instant>) -> bool {
        by(&self.holds()).is_some_and(|until| Instant::now() < until)
    }
}

/// What the thread needs of the machine beside the target.
pub trait Machine: Database {
    fn drive(&self) -> DiskStat;
    fn warning(&self) -> Option<String>;
    /// Why nothing may be discarded on it: a mark, or a person who has switched discards off and
    /// means it until he says otherwise.
    fn forbidden(&self) -> Option<Reason>;
    /// From now on nothing may be discarded on the device, for this reason.
    fn mark(&self, why: &str) -> Result<(), String>;
}

impl Link {
    /// Why discards are asked for and cannot be sent.
    pub fn off(why: &str) -> Self {
        log!(Warn, "nothing is discarded", reason = why);
        let shared = Shared::default();
        shared.info().off = Some(why.into());
        Self {
            notifier: None,
            shared,
            thread: None,
        }
    }

    /// Follows a database on the device of this name.
    pub fn start<T, M>(device: &str, plan: Plan, target: T, machine: M, pulse: Pulse) -> anyhow::Result<Self>
    where
        T: Target + Send + 'static,
        M: Machine + Send + 'static,
    {
        let (notifier, notices) = notices()?;
        let shared = Shared::default();
        let of_thread = shared.clone();
        let name = device.to_owned();
        let thread = thread::Builder::new().name("discard".into()).spawn(move || {
            log::of_device(&name);
            let mut worker = Worker::new(plan, target, machine, of_thread, pulse);
            worker.run(&notices);
            worker.end();
        });
        Ok(Self {
            notifier: Some(notifier),
            shared,
            thread: Some(thread.context("cannot start the thread of discards")?),
        })
    }

    /// The turtle may have changed.
    pub fn turtle(&self) {
        // One that has ended has said why.
        if let Some(notifier) = &self.notifier {
            notifier.turtle();
        }
    }

    /// For a probe, which has the switch until then.
    pub fn hold(&self, until: Option<Instant>) {
        self.shared.holds().probe = until;
        self.turtle();
    }

    pub fn is_probed(&self) -> bool {
        self.shared.is_held(|h| h.probe)
    }

    /// For a period of a trial.
    pub fn withhold(&self, until: Option<Instant>) {
        self.shared.holds().trial = until;
        self.turtle();
    }

    pub fn info(&self) -> DiscardInfo {
        self.shared.info().clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.notifier = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker<T, M> {
    plan: Plan,
    target: T,
    machine: M,
    shared: Shared,
    /// For the watchdog: waits are no work.
    pulse: Pulse,
    rule: Rule,
    pace: Pace,
    /// The target was brought to follow writes.
    begun: bool,
    /// This has switched on tracking in the target.
    switched_on: bool,
    /// What this has switched to last.
    set: Option<Mode>,
    /// What is found is sent.
    sends: bool,
    /// Why nothing may be sent, where that could not be marked.
    unmarked: Option<String>,
    /// Since when the device takes none.
    unsupported: Option<Instant>,
    again: Duration,
    /// The last change of the turtle.
    last: Option<Instant>,
    /// The drive when the last sending was over.
    quiet: Option<DiskStat>,
    /// Why nothing is sent.
    reported: Option<Reason>,
    /// It is not in the log yet, and when something came into it last.
    is_unsaid: bool,
    said: Option<Instant>,
}

/// How a sending ended.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    All,
    /// The next checkpoint has come, or the end.
    Interrupted,
}

impl<T: Target, M: Machine> Worker<T, M> {
    fn new(plan: Plan, target: T, machine: M, shared: Shared, pulse: Pulse) -> Self {
        Self {
            plan,
            target,
            machine,
            shared,
            pulse,
            rule: Rule::default(),
            pace: Pace::default(),
            begun: false,
            switched_on: false,
            set: None,
            sends: false,
            unmarked: None,
            unsupported: None,
            again: AGAIN,
            last: None,
            quiet: None,
            reported: None,
            is_unsaid: false,
            said: None,
        }
    }

    /// Until the agent ends, or the device is gone.
    fn run(&mut self, notices: &Notices) {
        let pulse = self.pulse.clone();
        pulse.work(|| self.follow(notices));
    }

    fn follow(&mut self, notices: &Notices) {
        let begun = self.is_on();
        let mut more = begun.is_ok();
        self.took(begun);
        loop {
            let notice = if std::mem::take(&mut more) {
                notices.take().or(Some(Notice::Turtle))
            } else {
                self.pulse.rest(|| notices.wait(None, RECHECK_INTERVAL))
            };
            let result = match notice {
                Some(Notice::Turtle) => self.turn(notices),
                Some(Notice::End) => return,
                None => self.look_around().map(|()| Sent::All),
            };
            if result == Err(Halt::Gone) {
                return;
            }
            more = result == Ok(Sent::Interrupted);
            self.took(result.map(|_| ()));
        }
    }

    /// Says what came of it, once; and forgets, however it ended, unless what is known
    /// stays.
    fn took(&mut self, result: Result<(), Halt>) {
        let off = match result {
            Ok(()) => None,
            // What is known stays; the next checkpoint is read.
            Err(Halt::Torn(why)) => {
                log!(Debug, "the lists of free blocks were not read", reason = why);
                self.shared.change(|i| i.torn += 1);
                return;
            }
            Err(halt) => {
                self.forget();
                // Else before the next discard.
                let _ = self.rule.forget_in(&self.target);
                match self.because_of_switch(halt) {
                    Halt::Lost(why) => {
                        log!(Info, "the audit begins anew", reason = why);
                        self.shared.change(|i| {
                            i.resets += 1;
                            i.mode = Mode::Audit;
                            i.audit.passed = false;
                        });
                        None
                    }
                    Halt::Reset(why) => Some(why),
                    halt => Some(halt.to_string().into()),
                }
            }
        };
        let early = off.as_ref().is_some_and(|why| why.kind == ReasonKind::Early);
        if self.reported != off {
            self.shared
                .change(|i| i.resets += u64::from(off.is_some() && !early));
            self.reported.clone_from(&off);
            self.is_unsaid = true;
        }
        // A hostile turtle has another reason each time.
        if self.is_unsaid && self.said.is_none_or(|at| at.elapsed() >= SAY_INTERVAL) {
            match &off {
                Some(why) if early => log!(Info, "nothing is discarded yet", reason = why),
                Some(why) => log!(Warn, "nothing is discarded", reason = why),
                None if self.said.is_some() => log!(Info, "checkpoints are followed again"),
                None => {}
            }
            self.said = Some(Instant::now());
            self.is_unsaid = false;
        }
        let (files, warning) = (self.rule.files() as u64, self.machine.warning());
        let commands_per_second = self.pace.most();
        let suspects = self.rule.suspects();
        self.shared.change(|i| {
            if off.is_some() {
                i.mode = Mode::Unknown;
            }
            i.audit.suspect_pages = suspects;
            if off.is_some() {
                (i.waiting_bytes, i.short_bytes, i.unplaced_bytes) = (0, 0, 0);
                i.audit.passed = false;
            }
            i.off = off;
            i.warning = warning;
            i.files = files;
            i.commands_per_second = commands_per_second;
        });
    }

    /// Nothing that is known or was seen counts any longer.  The rule does the same by itself when
    /// the owner or the mount is another one.
    fn forget(&mut self) {
        self.rule.forget();
        self.sends = false;
    }

    /// Whether the target follows writes; brings it to where it should be.
    fn is_on(&mut self) -> Result<(), Halt> {
        let state = self.target.status()?.discard.state;
        if let Some(why) = self.refused() {
            return self.stay_off(state, why);
        }
        if !self.begun {
            return self.begin(state);
        }
        if state == Mode::Unsupported {
            return self.try_again();
        }
        self.unsupported = None;
        match state {
            Mode::On | Mode::Watch => self.steer(state),
            _ => Err(switched_off()),
        }
    }

    /// A message may have come just after somebody's switch, which refuses it.
    fn because_of_switch(&self, halt: Halt) -> Halt {
        match (&halt, self.target.status()) {
            (Halt::Refused(_) | Halt::Lost(_), Ok(status)) if status.discard.state == Mode::Off => {
                switched_off()
            }
            _ => halt,
        }
    }

    /// Why nothing may be sent, whatever the database does.
    fn refused(&mut self) -> Option<Reason> {
        if let Some(why) = self.unmarked.take() {
            if let Err(e) = self.machine.mark(&why) {
                log!(
                    Debug,
                    "the mark that keeps discards off cannot be written",
                    reason = e
                );
                self.unmarked = Some(why);
            }
        }
        let unmarked = || Some(Reason::new(ReasonKind::AuditFailed, self.unmarked.clone()?));
        let forbidden = self.machine.forbidden().or_else(unmarked);
        let failed = self.unmarked.is_some()
            || forbidden.as_ref().is_some_and(|why| {
                matches!(why.kind, ReasonKind::AuditFailed | ReasonKind::AuditFailedInTime)
            });
        self.shared.change(|i| i.audit.failed = failed);
        let probed = || Reason::new(ReasonKind::Probe, PROBED);
        forbidden.or_else(|| self.shared.is_held(|h| h.probe).then(probed))
    }

    /// The switch is a probe's alone while there is one.
    fn stay_off(&mut self, state: Mode, why: Reason) -> Result<(), Halt> {
        if matches!(state, Mode::On | Mode::Watch) && !self.shared.is_held(|h| h.probe) {
            self.target.message("set discard off")?;
        }
        self.begun = false;
        Err(why.into())
    }

    fn try_again(&mut self) -> Result<(), Halt> {
        let now = Instant::now();
        if now - *self.unsupported.get_or_insert(now) >= self.again {
            self.unsupported = Some(now);
            self.target.message("set discard on")?;
            if self.target.status()?.discard.state == Mode::On {
                log!(Info, "discards are tried again");
                self.forget();
                return self.steer(Mode::On);
            }
        }
        let minutes = self.again.as_secs() / 60;
        let why = format!(
            "the underlying device does not support discards, for example because of a snapshot; tried again every {minutes} minutes"
        );
        Err(Reason::new(ReasonKind::Unsupported, why).into())
    }

    /// Once: whoever switches it off later means it.
    fn begin(&mut self, state: Mode) -> Result<(), Halt> {
        if state != Mode::Unsupported || !self.plan.send {
            self.target.message("set discard watch")?;
            self.switched_on |= state == Mode::Off;
            let switched_on = self.switched_on;
            self.shared.change(|i| i.switched_on = switched_on);
            self.set = Some(Mode::Watch);
        }
        self.begun = true;
        self.is_on()
    }

    /// For one batch, if there is one.
    fn permit(&mut self) -> Result<Permit, Withheld> {
        let refused = self.refused();
        Permit::of(&self.plan, &self.rule, refused.as_ref())
    }

    /// Between watch and on.  Who has switched to watch by hand means it; who has switched on
    /// gives the switch back.
    fn steer(&mut self, state: Mode) -> Result<(), Halt> {
        let permit = self.permit();
        let withheld = self.shared.is_held(|holds| holds.trial);
        let mode = match (state, permit.is_ok() && !withheld) {
            (Mode::On, false) => Mode::Watch,
            (Mode::Watch, true) if self.set == Some(Mode::Watch) => Mode::On,
            _ => state,
        };
        let evidence = self.rule.evidence();
        let (pages, checkpoints) = (evidence.pages, evidence.checkpoints);
        if mode != state {
            self.target.message(&format!("set discard {mode}"))?;
            self.set = Some(mode);
            match mode {
                Mode::On if permit::wanted(&self.plan, self.rule.evidence()) == 0 => {
                    log!(Info, "discards are sent: audit-pages = 0")
                }
                _ if permit.is_ok() && withheld => log!(Info, OFF_FOR_A_TRIAL),
                Mode::On => log!(
                    Info,
                    "the audit has passed: discards are sent",
                    pages = pages,
                    checkpoints = checkpoints
                ),
                _ => log!(Info, "nothing is sent before the audit has passed"),
            }
        }
        let sends = mode == Mode::On && permit.is_ok();
        if sends && !self.sends {
            self.rule.nothing_was_sent();
        }
        self.sends = sends;
        let wanted = permit::wanted(&self.plan, self.rule.evidence());
        self.shared.change(|i| {
            i.mode = if sends { Mode::On } else { Mode::Audit };
            i.audit.wanted_pages = wanted;
            i.audit.passed = permit.is_ok();
            i.audit.only = match permit {
                Err(Withheld::Always(why)) => Some(why),
                Ok(_) if withheld => Some(Reason::new(ReasonKind::Trial, OFF_FOR_A_TRIAL)),
                _ => None,
            };
            i.audit.seen_pages = pages;
            i.audit.seen_checkpoints = checkpoints;
        });
        Ok(())
    }

    /// Nothing is ever discarded here again until somebody allows it.
    fn violated(&mut self, v: &Violation) {
        let status = self.target.status().map(|s| s.discard);
        let had = match status {
            Ok(d) if d.discarded == 0 && d.queued == 0 => switch::ALL_KEPT.to_owned(),
            Ok(d) => format!("{} bytes had been discarded by then", d.discarded_sectors * 512),
            Err(_) => "it is not known what had been discarded by then".to_owned(),
        };
        let why = format!("{v}; {had}");
        log!(
            Error,
            "THE AUDIT HAS FAILED: discards are switched off",
            file = v.path.display(),
            offset = v.offset,
            pages = v.pages,
            checkpoints = format!("{} and {}", v.orders.0, v.orders.1),
            wiredtiger = v.version,
            note = had,
        );
        // First: if this is killed now, the next one finds it.
        if let Err(e) = self.machine.mark(&why) {
            log!(
                Error,
                "the mark that keeps discards off cannot be written",
                reason = e
            );
            self.unmarked = Some(why.clone());
        }
        if let Err(e) = self.target.message("set discard off") {
            log!(Error, "discards cannot be switched off", reason = e);
        }
        self.shared.change(|i| {
            i.audit.violations += 1;
            i.audit.failed = true;
        });
    }

    /// The target need not keep track for nobody.
    fn end(&self) {
        if self.switched_on {
            if let Err(e) = self.target.message("set discard off") {
                log!(Debug, "the target keeps track of writes", reason = e);
            }
        }
    }

    /// What can be seen between checkpoints.
    fn look_around(&mut self) -> Result<(), Halt> {
        self.is_on()?;
        self.rule.look_around(&mut self.machine)?;
        self.rule.forget_in(&self.target)
    }

    /// Notices come at each poll as well, in case one was lost.
    fn is_same_turtle(&mut self) -> Result<bool, Halt> {
        Ok(self.rule.turtle().is_some() && self.machine.turtle()?.as_ref() == self.rule.turtle())
    }

    fn turn(&mut self, notices: &Notices) -> Result<Sent, Halt> {
        self.is_on()?;
        // Another look at the same turtle would end the window for nothing.
        if self.is_same_turtle()? {
            return Ok(Sent::All);
        }
        let started = Instant::now();
        let look = self.rule.look(&mut self.machine, &self.target);
        if let Err(Halt::Violation(v)) = &look {
            self.violated(v);
        }
        let look = look?;
        // Before anything is sent: another process may have it open.
        self.is_on()?;
        self.rule.forget_in(&self.target)?;
        let look_ms = started.elapsed().as_millis() as u64;
        let interval = self.last.replace(started).map(|last| started - last);
        self.shared.change(|i| {
            i.looks += 1;
            i.idle_looks += 1;
            i.look_ms = look_ms;
            i.waiting = match look {
                Look::Waiting(n) => n,
                Look::Found(_) => 0,
            };
        });
        match look {
            Look::Waiting(_) => Ok(Sent::All),
            Look::Found(found) => self.send(*found, budget(interval), notices),
        }
    }

    fn send(&mut self, found: Found, budget: Duration, notices: &Notices) -> Result<Sent, Halt> {
        let whole = bytes(&found.granules);
        self.shared.change(|i| {
            i.freed_bytes += found.freed;
            i.idle_bytes += whole;
            i.listless = found.listless;
            i.short_bytes = found.short;
            i.unplaced_bytes = found.named.saturating_sub(found.short + whole);
            i.waiting_bytes = if self.sends { whole } else { 0 };
            i.audit.taken_pages += found.audit.taken;
            i.audit.written_pages += found.audit.written;
        });
        if !self.sends {
            self.shared.change(|i| i.audit.named_pages += whole / 4096);
            self.rule.sent(&found, &found.granules);
            return Ok(Sent::All);
        }
        let started = Instant::now();
        let mut sent = Vec::new();
        let result = self.send_all(&found, budget, notices, &mut sent);
        self.shared
            .change(|i| i.send_ms = started.elapsed().as_millis() as u64);
        if result.is_ok() {
            tidy(&mut sent);
            self.rule.sent(&found, &sent);
        }
        result
    }

    fn send_all(
        &mut self,
        found: &Found,
        budget: Duration,
        notices: &Notices,
        sent: &mut Vec<SectorRange>,
    ) -> Result<Sent, Halt> {
        let mut queue = Queue::new(found.granules.clone(), budget);
        let started = Instant::now();
        let mut drive = self.machine.drive();
        if let Some(quiet) = &self.quiet {
            self.pace.quiet(quiet, &drive);
        }
        let mut result = Ok(Sent::All);
        while result == Ok(Sent::All) {
            let Some(granules) = queue.next(&self.pace) else {
                break;
            };
            let mut took = Duration::ZERO;
            result = self.discard(found, &granules, notices, &mut took, sent);
            // A command that was not waited for says nothing of the drive.
            if result == Ok(Sent::All) {
                self.pace.took(granules.len(), took);
            }
            queue.took(took);
            self.shared.change(|i| i.waiting_bytes -= bytes(&granules));
            let rest = queue.rest().len();
            if result == Ok(Sent::All) && rest > 0 {
                let pause = self.pace.pause(rest, budget.saturating_sub(started.elapsed()));
                result = self.wait(notices, pause.saturating_sub(took));
            }
            let now = self.machine.drive();
            self.pace.sent(&drive, &now);
            drive = now;
        }
        self.quiet = Some(drive);
        result
    }

    /// Sends what of some granules is still the files' alone, and waits for what becomes of it.
    /// `took` is how long the target has taken, without the time in which the files were read again.
    fn discard(
        &mut self,
        found: &Found,
        granules: &[SectorRange],
        notices: &Notices,
        took: &mut Duration,
        sent: &mut Vec<SectorRange>,
    ) -> Result<Sent, Halt> {
        self.rule.is_owner(&mut self.machine)?;
        let pieces = found.again(&mut self.machine, granules)?;
        let permit = self.permit().map_err(|why| match why {
            Withheld::Always(why) => Halt::Reset(why),
            Withheld::NotYet => "the audit has not passed any more".to_owned().into(),
        })?;
        let begun = Instant::now();
        if pieces.is_empty() {
            return Ok(Sent::All);
        }
        let rest = pieces
            .iter()
            .filter(|p| !p.is_fresh)
            .map(|p| p.extent.length * 512);
        let rest: u64 = rest.sum();
        if rest > 0 {
            log!(Debug, "what was free before is discarded", bytes = rest);
        }
        if self.shared.is_held(|h| h.trial) {
            return Ok(Sent::Interrupted);
        }
        let batch = Batch::new(permit, &pieces);
        match self.target.message(batch.message()) {
            // Somebody has switched just before, and means it: what is known stays.
            Err(MessageError::Refused(_)) if self.target.status()?.discard.state == Mode::Watch => {
                return Ok(Sent::Interrupted);
            }
            reply => drop(reply?),
        }
        self.shared.change(|i| {
            i.last_sent = Some(time::now().as_secs());
            i.sent_ranges += batch.ranges().len() as u64;
            i.sent_bytes += bytes(batch.ranges());
            (i.idle_looks, i.idle_bytes) = (0, 0);
        });
        let waited = self.wait(notices, Duration::ZERO)?;
        *took = begun.elapsed();
        match waited {
            Sent::All => sent.extend(batch.ranges()),
            // Nothing that was named outlives its look: it is in the next list again.
            Sent::Interrupted => drop(self.target.message("forget")?),
        }
        Ok(waited)
    }

    /// Waits as long, and until the target has discarded what it was sent.
    fn wait(&mut self, notices: &Notices, pause: Duration) -> Result<Sent, Halt> {
        let started = Instant::now();
        loop {
            // Before the status is read, which may be that of a moment later.
            let events = self.target.events()?;
            let done = self.target.status()?.discard.queued == 0;
            let waited = started.elapsed();
            if done && waited >= pause {
                return Ok(Sent::All);
            }
            if waited >= STALL_TIMEOUT {
                return Err("discards timed out on the device".to_owned().into());
            }
            let (events, step) = if done {
                (None, pause - waited)
            } else {
                (events, STALL_TIMEOUT)
            };
            let step = step.min(STALL_TIMEOUT - waited);
            match self.pulse.rest(|| notices.wait(events, step)) {
                // The next checkpoint, or the end
                Some(n) if n == Notice::End || !self.is_same_turtle()? => return Ok(Sent::Interrupted),
                _ => {}
            }
        }
    }
}

fn switched_off() -> Halt {
    Reason::new(ReasonKind::SwitchedOff, SWITCHED_OFF).into()
}

fn bytes(sector_ranges: &[SectorRange]) -> u64 {
    sector_ranges.iter().map(|s| s.length * 512).sum()
}

impl From<MessageError> for Halt {
    fn from(e: MessageError) -> Self {
        match e {
            MessageError::Gone | MessageError::Resized(..) => Self::Gone,
            e @ MessageError::Refused(_) => Self::Refused(e.to_string()),
            e @ MessageError::Stale(_) => Self::Lost(e.to_string()),
            e => e.to_string().into(),
        }
    }
}

#[cfg(test)]
mod tests;

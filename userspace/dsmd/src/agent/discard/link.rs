// SPDX-License-Identifier: GPL-2.0-or-later
//! The thread that looks, audits and discards, so that nothing else waits for it.
//!
//! It begins in audit, and for each process that opens the database again: what would be
//! discarded is named to the target, which sends nothing.  When enough of it was seen to be
//! written before it was used again, the target is switched on; the audit goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::audit::{self, Violation};
use super::notices::{notices, Notice, Notices, Notifier};
use super::pace::{budget, Of, Pace, Queue};
use super::{Database, Found, Halt, Look, Owner, Rule, OWED};
use dm::device::{MessageError, Target};
use dm::diskstat::DiskStat;
use dm::table::SectorRange;
use drive::broken;
use files::config::AUDIT_PAGES;
use proto::control::{DiscardInfo, OFF_FOR_A_TRIAL, SWITCHED_OFF};
use runtime::log;
use runtime::pulse::Pulse;
use runtime::time;
use wiredtiger::avail::Standing;

/// How often preconditions and owner are checked between checkpoints.
const RECHECK_INTERVAL: Duration = Duration::from_secs(10);
/// After what time a device that took no discards is tried again.  A snapshot below it
/// refuses them while it exists.
const AGAIN: Duration = Duration::from_secs(600);
/// A target that is not done with a batch after this has a drive that is stuck.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// At so many checkpoints pages must have been taken before anything is sent.
const CHECKPOINTS: u32 = 3;
const ONLY_ASKED: &str = "discard = \"audit\" asks for no more";
const NOT_PASSED: &str = "the audit has not passed since a process that nobody has tried opened the database";

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
    info: Shared,
    thread: Option<JoinHandle<()>>,
}

type Shared = Arc<Mutex<DiscardInfo>>;

fn change(info: &Shared, f: impl FnOnce(&mut DiscardInfo)) {
    f(&mut info.lock().unwrap_or_else(PoisonError::into_inner));
}

/// What the thread needs of the machine beside the target.
pub trait Machine: Database {
    fn drive(&self) -> DiskStat;
    fn warning(&self) -> Option<String>;
    /// Why nothing may be discarded on its drive.
    fn broken(&self) -> Option<String>;
    /// Whether somebody switches discards on and off to measure.
    fn trial(&self) -> bool;
    /// From now on nothing may be discarded on the device, for this reason.
    fn mark(&self, why: &str) -> Result<(), String>;
}

impl Link {
    /// Why discards are asked for and cannot be sent.
    pub fn off(why: &str) -> Self {
        log!(Warn, "nothing is discarded", reason = why);
        let info = DiscardInfo {
            off: Some(why.to_owned()),
            ..DiscardInfo::default()
        };
        Self {
            notifier: None,
            info: Arc::new(Mutex::new(info)),
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
        let info = Shared::default();
        let shared = info.clone();
        let name = device.to_owned();
        let several = log::device().is_some_and(|(_, several)| several);
        let thread = thread::Builder::new().name("discard".into()).spawn(move || {
            log::of_device(&name, several);
            let mut worker = Worker::new(plan, target, machine, shared, pulse);
            worker.run(&notices);
            worker.end();
        });
        Ok(Self {
            notifier: Some(notifier),
            info,
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

    pub fn info(&self) -> DiscardInfo {
        self.info.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    info: Shared,
    /// For the watchdog: waits are no work.
    pulse: Pulse,
    rule: Rule,
    pace: Pace,
    /// This has switched on tracking in the target.
    switched_on: bool,
    /// What this has switched to last.
    set: Option<&'static str>,
    /// The module was too old for it.
    older: bool,
    /// Why nothing may be sent, where that could not be marked.
    unmarked: Option<String>,
    evidence: Evidence,
    /// Since when the device takes none.
    unsupported: Option<Instant>,
    again: Duration,
    /// The last change of the turtle.
    last: Option<Instant>,
    /// The drive when the last sending was over.
    quiet: Option<DiskStat>,
    reported: Option<String>,
}

/// What the audit has seen of one process.
#[derive(Debug, Default)]
struct Evidence {
    owner: Option<Owner>,
    pages: u64,
    checkpoints: u32,
    /// `None`: nobody has looked.
    standing: Option<Standing>,
}

/// How a sending ended.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    All,
    /// The next checkpoint has come, or the end.
    Interrupted,
}

impl<T: Target, M: Machine> Worker<T, M> {
    fn new(plan: Plan, target: T, machine: M, info: Shared, pulse: Pulse) -> Self {
        Self {
            plan,
            target,
            machine,
            info,
            pulse,
            rule: Rule::default(),
            pace: Pace::default(),
            switched_on: false,
            set: None,
            older: false,
            unmarked: None,
            evidence: Evidence::default(),
            unsupported: None,
            again: AGAIN,
            last: None,
            quiet: None,
            reported: None,
        }
    }

    /// Until the agent ends, or the device is gone.
    fn run(&mut self, notices: &Notices) {
        let pulse = self.pulse.clone();
        pulse.work(|| self.follow(notices));
    }

    fn follow(&mut self, notices: &Notices) {
        let begun = self.switch_on().and_then(|()| self.rule.forget_in(&self.target));
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
        let early = matches!(result, Err(Halt::Early(_)));
        let off = match result {
            Ok(()) => None,
            // What is known stays; the next checkpoint is read.
            Err(Halt::Torn(why)) => {
                log!(Debug, "the lists of free blocks were not read", reason = why);
                change(&self.info, |i| i.torn += 1);
                return;
            }
            Err(halt) => {
                self.forget();
                change(&self.info, |i| i.owes(0));
                // Else before the next discard.
                let _ = self.rule.forget_in(&self.target);
                Some(self.because_of_switch(halt).to_string())
            }
        };
        match &off {
            Some(why) if early && self.reported.as_ref() != Some(why) => {
                log!(Info, "nothing is discarded yet", reason = why);
            }
            Some(why) if self.reported.as_ref() != Some(why) => {
                log!(Warn, "nothing is discarded", reason = why);
                change(&self.info, |i| i.resets += 1);
            }
            None if self.reported.is_some() => log!(Info, "checkpoints are followed again"),
            _ => {}
        }
        self.reported.clone_from(&off);
        let (files, warning) = (self.rule.files() as u64, self.machine.warning());
        let commands_per_second = self.pace.most();
        let suspects = self.rule.suspects();
        change(&self.info, |i| {
            if off.is_some() {
                i.mode.clear();
            }
            i.audit.suspect_pages = suspects;
            i.off = off;
            i.warning = warning;
            i.files = files;
            i.commands_per_second = commands_per_second;
        });
    }

    /// Nothing that is known counts any longer.  The rule does the same by itself when
    /// the owner or the mount is another one.
    fn forget(&mut self) {
        self.rule.forget();
    }

    /// Whether the target follows writes; brings it to where it should be.
    fn is_on(&mut self) -> Result<(), Halt> {
        if self.older {
            return self.switch_on();
        }
        let state = self.target.status()?.discard.state;
        self.check_mark(&state)?;
        if state == "unsupported" {
            return self.try_again();
        }
        self.unsupported = None;
        match state.as_str() {
            "on" | "audit" => self.steer(&state),
            _ => Err(self.switched_off()),
        }
    }

    /// A message may have come just after somebody's switch, which refuses it.
    fn because_of_switch(&self, halt: Halt) -> Halt {
        match (&halt, self.target.status()) {
            (Halt::Refused(_), Ok(status)) if status.discard.state == "off" => self.switched_off(),
            _ => halt,
        }
    }

    fn switched_off(&self) -> Halt {
        let why = match self.machine.trial() {
            true => OFF_FOR_A_TRIAL,
            false => SWITCHED_OFF,
        };
        why.to_owned().into()
    }

    fn check_mark(&self, state: &str) -> Result<(), Halt> {
        let marked = self.machine.broken();
        let failed = marked.as_ref().map_or_else(
            || self.unmarked.is_some(),
            |why| why.starts_with(broken::AUDIT_FAILED),
        );
        change(&self.info, |i| i.audit.failed = failed);
        let Some(why) = marked.or_else(|| self.unmarked.clone()) else {
            return Ok(());
        };
        if state == "on" || state == "audit" {
            self.target.message("set discard off")?;
        }
        Err(why.into())
    }

    fn try_again(&mut self) -> Result<(), Halt> {
        let now = Instant::now();
        if now - *self.unsupported.get_or_insert(now) >= self.again {
            self.unsupported = Some(now);
            self.target.message("set discard on")?;
            if self.target.status()?.discard.state == "on" {
                log!(Info, "discards are tried again");
                self.forget();
                return self.steer("on");
            }
        }
        let minutes = self.again.as_secs() / 60;
        let why = format!(
            "the underlying device does not support discards, for example because of a snapshot; tried again every {minutes} minutes"
        );
        Err(why.into())
    }

    /// Once: whoever switches it off later means it.  The switch is a trial's alone while
    /// there is one.
    fn switch_on(&mut self) -> Result<(), Halt> {
        let state = self.target.status()?.discard.state;
        self.check_mark(&state)?;
        if !self.machine.trial() && (state != "unsupported" || !self.plan.send) {
            let audits = self.target.message("set discard audit");
            self.older = matches!(audits, Err(MessageError::Refused(_)));
            audits.map_err(|e| match e {
                MessageError::Refused(why) => Halt::Reset(format!(
                    "the kernel module is older than the audit, without which nothing is discarded: {why}"
                )),
                e => e.into(),
            })?;
            self.switched_on |= state == "off";
            let switched_on = self.switched_on;
            change(&self.info, |i| i.switched_on = switched_on);
            self.set = Some("audit");
        }
        self.is_on()
    }

    /// Why it does not send, whatever is seen.
    fn audit_only(&self) -> Option<String> {
        let asked = (!self.plan.send).then(|| ONLY_ASKED.to_owned());
        asked.or_else(|| match &self.evidence.standing {
            Some(Standing::Audit(why) | Standing::Refused(why)) => Some(why.clone()),
            _ => None,
        })
    }

    fn must_prove(&self) -> bool {
        matches!(self.evidence.standing, Some(Standing::Prove(_)))
    }

    /// So many pages must be seen to be written.  Nothing is sent before somebody has looked.
    fn wanted(&self) -> u64 {
        match self.must_prove() {
            true => self.plan.audit_pages.max(AUDIT_PAGES),
            false => self.plan.audit_pages,
        }
    }

    fn has_passed(&self) -> bool {
        let (e, wanted) = (&self.evidence, self.wanted());
        wanted == 0 || (e.pages >= wanted && e.checkpoints >= CHECKPOINTS && self.rule.suspects() == 0)
    }

    /// Each process that opens the database begins with an audit.
    fn count_from_owner(&mut self) {
        let owner = self.rule.owner();
        if owner.is_some() && self.evidence.owner != owner {
            self.evidence = Evidence {
                owner,
                ..Evidence::default()
            };
        }
    }

    /// Between audit and on.  Who has switched to audit by hand means it; who has switched on
    /// gives the switch back.
    fn steer(&mut self, state: &str) -> Result<(), Halt> {
        self.count_from_owner();
        let only = self.audit_only();
        let sends = only.is_none() && self.has_passed();
        let trial = self.machine.trial();
        let mode = match state {
            "on" if trial && only.is_some() => return Err(only.unwrap_or_default().into()),
            "on" if trial && !sends && self.must_prove() => return Err(NOT_PASSED.to_owned().into()),
            "on" if !trial && !sends => "audit",
            "audit" if !trial && sends && self.set == Some("audit") => "on",
            "on" => "on",
            _ => "audit",
        };
        if mode != state {
            self.target.message(&format!("set discard {mode}"))?;
            self.set = Some(mode);
            let (pages, checkpoints) = (self.evidence.pages, self.evidence.checkpoints);
            match mode {
                "on" => log!(
                    Info,
                    "the audit has passed: discards are sent",
                    pages = pages,
                    checkpoints = checkpoints
                ),
                _ => log!(Info, "nothing is sent before the audit has passed"),
            }
        }
        let (e, wanted) = (&self.evidence, self.wanted());
        change(&self.info, |i| {
            i.mode = mode.to_owned();
            i.audit.only = only;
            i.audit.wanted_pages = wanted;
            i.audit.passed = sends;
            i.audit.seen_pages = e.pages;
            i.audit.seen_checkpoints = e.checkpoints;
        });
        Ok(())
    }

    /// Nothing is ever discarded here again until somebody allows it.
    fn violated(&mut self, v: &Violation) {
        let status = self.target.status().map(|s| s.discard);
        let had = match status {
            Ok(d) if d.discarded == 0 && (d.queued == 0 || d.state == "audit") => broken::ALL_KEPT.to_owned(),
            Ok(d) => format!(
                "{} MiB had been discarded by then",
                (d.discarded_sectors * 512) >> 20
            ),
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
        change(&self.info, |i| {
            i.audit.violations += 1;
            i.audit.failed = true;
        });
    }

    /// The target need not keep track for nobody.
    fn end(&self) {
        if self.switched_on && !self.machine.trial() {
            if let Err(e) = self.target.message("set discard off") {
                log!(Debug, "the target keeps track of writes", reason = e);
            }
        }
    }

    /// What can be seen between checkpoints.
    fn look_around(&mut self) -> Result<(), Halt> {
        self.is_on()?;
        self.rule.look_around(&mut self.machine)
    }

    /// Notices come at each poll as well, in case one was lost.
    fn is_same_turtle(&mut self) -> Result<bool, Halt> {
        Ok(self.rule.turtle().is_some() && self.machine.turtle()?.as_ref() == self.rule.turtle())
    }

    fn turn(&mut self, notices: &Notices) -> Result<Sent, Halt> {
        // Another look at the same turtle would end the window for nothing.
        if self.is_same_turtle()? {
            return Ok(Sent::All);
        }
        self.is_on()?;
        let started = Instant::now();
        let look = self.rule.look(&mut self.machine, &self.target);
        if let Err(Halt::Violation(v)) = &look {
            self.violated(v);
        }
        let look = look?;
        if let Look::Found(found) = &look {
            self.audited(found);
        }
        // Before anything is sent: another process may have it open.
        self.is_on()?;
        self.rule.forget_in(&self.target)?;
        let look_ms = started.elapsed().as_millis() as u64;
        let interval = self.last.replace(started).map(|last| started - last);
        change(&self.info, |i| {
            i.looks += 1;
            i.idle_looks += 1;
            i.look_ms = look_ms;
            i.waiting = match look {
                Look::Waiting(n) => n,
                Look::Found(_) => 0,
            };
        });
        match look {
            Look::Waiting(_) => {
                change(&self.info, |i| i.owes(0));
                Ok(Sent::All)
            }
            Look::Found(found) => self.send(*found, budget(interval), notices),
        }
    }

    fn audited(&mut self, found: &Found) {
        self.count_from_owner();
        let seen = found.audit;
        self.evidence.standing.clone_from(&found.standing);
        self.evidence.pages += seen.written;
        self.evidence.checkpoints += u32::from(seen.written > 0);
        change(&self.info, |i| {
            i.audit.taken_pages += seen.taken;
            i.audit.written_pages += seen.written;
        });
    }

    fn send(&mut self, mut found: Found, budget: Duration, notices: &Notices) -> Result<Sent, Halt> {
        let sector_ranges = std::mem::take(&mut found.sector_ranges);
        let mut owed = std::mem::take(&mut found.owed);
        if !self.sends() {
            owed.clear();
        }
        let placed = bytes(&sector_ranges);
        change(&self.info, |i| {
            i.owes(bytes(&owed));
            i.freed_bytes += found.freed;
            i.idle_bytes += found.freed;
            i.listless = found.listless;
            i.unplaced_bytes += found.freed.saturating_sub(placed);
            i.queued_bytes += placed;
        });
        let mut queue = Queue::new(sector_ranges, owed, found.reach > 0, budget);
        let started = Instant::now();
        let mut drive = self.machine.drive();
        if let Some(quiet) = &self.quiet {
            self.pace.quiet(quiet, &drive);
        }
        let (mut result, mut from_before) = (Ok(Sent::All), 0);
        while result == Ok(Sent::All) {
            let Some((of, batch)) = queue.next(&self.pace) else {
                break;
            };
            let mut took = Duration::ZERO;
            result = self.discard(&found, of, &batch, notices, &mut took);
            // An audit says nothing of the drive, nor does a command that was not waited for.
            if self.sends() && result == Ok(Sent::All) {
                self.pace.took(batch.len(), took);
            }
            queue.took(took);
            if of == Of::Before {
                from_before += bytes(&batch);
            }
            change(&self.info, |i| i.queued_bytes -= bytes(&batch));
            let rest = queue.rest().len();
            if result == Ok(Sent::All) && self.sends() && rest > 0 {
                let pause = self.pace.pause(rest, budget.saturating_sub(started.elapsed()));
                result = self.wait(notices, pause.saturating_sub(took));
            }
            let now = self.machine.drive();
            self.pace.sent(&drive, &now);
            drive = now;
        }
        self.quiet = Some(drive);
        if let Ok(sent) = result {
            let waited = self.owe(&found, queue.rest(), notices);
            result = waited.map(|waited| sent.max(waited));
        }
        if from_before > 0 {
            log!(Debug, "discards that were owed were sent", bytes = from_before);
        }
        let late = found.reach > 0 || result.is_err();
        change(&self.info, |i| {
            if late {
                i.dropped_bytes += std::mem::take(&mut i.queued_bytes);
            }
            i.send_ms = started.elapsed().as_millis() as u64;
        });
        result
    }

    /// What was not sent is owed, the longest of it.  Who has the database open is looked at before it
    /// is sent.
    fn owe(&mut self, found: &Found, rest: &[(Of, SectorRange)], notices: &Notices) -> Result<Sent, Halt> {
        let mut waited = Sent::All;
        if found.reach > 0 {
            return Ok(waited);
        }
        let rest = match self.sends() {
            true => &rest[..rest.len().min(OWED)],
            false => &[],
        };
        let fresh: Vec<SectorRange> = rest
            .iter()
            .filter(|(of, _)| *of == Of::Look)
            .map(|r| r.1)
            .collect();
        if !fresh.is_empty() {
            self.target
                .message(&audit::message(&format!("defer {}", found.since), &fresh))?;
            // Whatever comes meanwhile: the drive has nothing to do for it.
            waited = self.wait(notices, Duration::ZERO)?;
            self.name(found, &fresh)?;
        }
        let all: Vec<SectorRange> = rest.iter().map(|r| r.1).collect();
        let owed = self.rule.owe(found, &self.target, &all)?;
        change(&self.info, |i| i.owes(owed));
        Ok(waited)
    }

    fn sends(&self) -> bool {
        self.info.lock().unwrap_or_else(PoisonError::into_inner).mode == "on"
    }

    /// Sends a batch, and waits for what becomes of it.  `took` is how long the target has taken, without
    /// the time in which the files were read again.
    fn discard(
        &mut self,
        found: &Found,
        of: Of,
        batch: &[SectorRange],
        notices: &Notices,
        took: &mut Duration,
    ) -> Result<Sent, Halt> {
        let mut begun = Instant::now();
        let sent = self.send_batch(found, of, batch, &mut begun);
        if sent.is_err() {
            change(&self.info, |i| i.dropped_bytes += bytes(batch));
        }
        let sent = sent?;
        change(&self.info, |i| {
            i.last_sent = Some(time::now().as_secs());
            i.sent_ranges += sent.len() as u64;
            i.sent_bytes += bytes(&sent);
            if !sent.is_empty() {
                (i.idle_looks, i.idle_bytes) = (0, 0);
            }
            i.unplaced_bytes += bytes(batch) - bytes(&sent);
        });
        let waited = self.wait(notices, Duration::ZERO)?;
        *took = begun.elapsed();
        if waited == Sent::All && of == Of::Look {
            self.name(found, &sent)?;
        }
        Ok(waited)
    }

    /// Sends what of a batch is still the files' alone, and returns that.
    fn send_batch(
        &mut self,
        found: &Found,
        of: Of,
        batch: &[SectorRange],
        begun: &mut Instant,
    ) -> Result<Vec<SectorRange>, Halt> {
        self.rule.is_owner(&mut self.machine)?;
        let (machine, owed) = (&mut self.machine, of == Of::Before);
        let batch = self.rule.again(found, machine, &self.target, batch, owed)?;
        *begun = Instant::now();
        if !batch.is_empty() {
            let head = match of {
                Of::Look => format!("discard {}", found.since),
                Of::Before => "discard dead".to_owned(),
            };
            self.target.message(&audit::message(&head, &batch))?;
        }
        Ok(batch)
    }

    /// What was sent counts from now on, where the target has not refused it.
    fn name(&mut self, found: &Found, batch: &[SectorRange]) -> Result<(), Halt> {
        let pages = self.rule.named(found, &self.target, batch)?;
        change(&self.info, |i| i.audit.named_pages += pages);
        Ok(())
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

fn bytes(sector_ranges: &[SectorRange]) -> u64 {
    sector_ranges.iter().map(|s| s.length * 512).sum()
}

impl From<MessageError> for Halt {
    fn from(e: MessageError) -> Self {
        match e {
            MessageError::Gone | MessageError::Resized(..) => Self::Gone,
            e @ MessageError::Refused(_) => Self::Refused(e.to_string()),
            e => Self::Reset(e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;

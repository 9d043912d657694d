// SPDX-License-Identifier: GPL-2.0-or-later
//! The thread that looks and discards, so that nothing else waits for it.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::pace::{batches, budget, Pace};
use super::{Database, Found, Halt, Look, Rule, SectorRange, PAGE};
use dm::device::{MessageError, Target};
use dm::diskstat::DiskStat;
use proto::control::{DiscardInfo, OFF_FOR_A_TRIAL, SWITCHED_OFF};
use runtime::log;
use runtime::pulse::Pulse;
use runtime::time;

/// How often preconditions and owner are checked between checkpoints.
const RECHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How often the target is asked whether it is done.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// After what time a device that took no discards is tried again.  A snapshot below it
/// refuses them while it exists.
const AGAIN: Duration = Duration::from_secs(600);
/// A target that is not done with a batch after this has a drive that is stuck.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes; what is shorter the target discards on no drive.
const SHORTEST: u64 = 16 << 10;

/// What an agent has of its discards.
pub struct Link {
    notices: Option<Sender<()>>,
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
    /// Bytes.
    fn granularity(&self) -> u64;
    fn warning(&self) -> Option<String>;
    /// Why nothing may be discarded on its drive.
    fn broken(&self) -> Option<String>;
    /// Whether somebody switches discards on and off to measure.
    fn trial(&self) -> bool;
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
            notices: None,
            info: Arc::new(Mutex::new(info)),
            thread: None,
        }
    }

    /// Follows a database on the device of this name.
    pub fn start<T, M>(device: &str, target: T, machine: M, pulse: Pulse) -> anyhow::Result<Self>
    where
        T: Target + Send + 'static,
        M: Machine + Send + 'static,
    {
        let (sender, notices) = mpsc::channel();
        let info = Shared::default();
        let shared = info.clone();
        let name = device.to_owned();
        let several = log::device().is_some_and(|(_, several)| several);
        let thread = thread::Builder::new().name("discard".into()).spawn(move || {
            log::of_device(&name, several);
            let mut worker = Worker::new(target, machine, shared, pulse);
            worker.run(&notices);
            worker.end();
        });
        Ok(Self {
            notices: Some(sender),
            info,
            thread: Some(thread.context("cannot start the thread of discards")?),
        })
    }

    /// The turtle may have changed.
    pub fn turtle(&self) {
        if let Some(notices) = &self.notices {
            // One that has ended has said why.
            let _ = notices.send(());
        }
    }

    pub fn info(&self) -> DiscardInfo {
        self.info.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.notices = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker<T, M> {
    target: T,
    machine: M,
    info: Shared,
    /// For the watchdog: waits are no work.
    pulse: Pulse,
    rule: Rule,
    pace: Pace,
    /// This has switched on tracking in the target.
    switched_on: bool,
    /// Since when the device takes none.
    unsupported: Option<Instant>,
    again: Duration,
    /// The last change of the turtle.
    last: Option<Instant>,
    /// The drive when the last sending was over.
    quiet: Option<DiskStat>,
    reported: Option<String>,
}

/// How a sending ended.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    All,
    /// The next checkpoint has come, or the end.
    Interrupted,
}

impl<T: Target, M: Machine> Worker<T, M> {
    fn new(target: T, machine: M, info: Shared, pulse: Pulse) -> Self {
        Self {
            target,
            machine,
            info,
            pulse,
            rule: Rule::default(),
            pace: Pace::default(),
            switched_on: false,
            unsupported: None,
            again: AGAIN,
            last: None,
            quiet: None,
            reported: None,
        }
    }

    /// Until the agent ends, or the device is gone.
    fn run(&mut self, notices: &Receiver<()>) {
        let pulse = self.pulse.clone();
        pulse.work(|| self.follow(notices));
    }

    fn follow(&mut self, notices: &Receiver<()>) {
        let begun = self.switch_on().and_then(|()| self.rule.forget_in(&self.target));
        let mut more = begun.is_ok();
        self.took(begun);
        loop {
            let notice = if std::mem::take(&mut more) {
                Ok(())
            } else {
                self.pulse.rest(|| notices.recv_timeout(RECHECK_INTERVAL))
            };
            let result = match notice {
                Ok(()) => {
                    // Several are one; the end is the end.
                    match std::iter::repeat_with(|| notices.try_recv()).find_map(Result::err) {
                        Some(TryRecvError::Disconnected) => return,
                        _ => self.turn(notices),
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.look_around().map(|()| Sent::All),
                Err(RecvTimeoutError::Disconnected) => return,
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
                // Else before the next discard.
                let _ = self.rule.forget_in(&self.target);
                Some(halt.to_string())
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
        change(&self.info, |i| {
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

    fn is_on(&mut self) -> Result<(), Halt> {
        let state = self.target.status()?.discard.state;
        self.check_drive(&state)?;
        if state == "unsupported" {
            return self.try_again();
        }
        self.unsupported = None;
        match state.as_str() {
            "on" => Ok(()),
            "off" if self.machine.trial() => Err(OFF_FOR_A_TRIAL.to_owned().into()),
            "off" => Err(SWITCHED_OFF.to_owned().into()),
            _ => Err("the kernel module is older than discards".to_owned().into()),
        }
    }

    fn check_drive(&self, state: &str) -> Result<(), Halt> {
        let Some(why) = self.machine.broken() else {
            return Ok(());
        };
        if state == "on" {
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
                return Ok(());
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
        self.check_drive(&state)?;
        if state == "off" && !self.machine.trial() {
            self.target.message("set discard on")?;
            self.switched_on = true;
        }
        self.is_on()
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

    fn turn(&mut self, notices: &Receiver<()>) -> Result<Sent, Halt> {
        // Another look at the same turtle would end the window for nothing.
        if self.rule.turtle().is_some() && self.machine.turtle()?.as_ref() == self.rule.turtle() {
            return Ok(Sent::All);
        }
        self.is_on()?;
        let started = Instant::now();
        let look = self.rule.look(&mut self.machine, &self.target)?;
        self.rule.forget_in(&self.target)?;
        let look_ms = started.elapsed().as_millis() as u64;
        let interval = self.last.replace(started).map(|last| started - last);
        change(&self.info, |i| {
            i.looks += 1;
            i.look_ms = look_ms;
            i.waiting = match look {
                Look::Waiting(n) => n,
                Look::Found(_) => 0,
            };
        });
        match look {
            Look::Waiting(_) => Ok(Sent::All),
            Look::Found(found) => self.send(found, budget(interval), notices),
        }
    }

    fn send(&mut self, mut found: Found, budget: Duration, notices: &Receiver<()>) -> Result<Sent, Halt> {
        let placed = bytes(&found.sector_ranges);
        let sector_ranges = std::mem::take(&mut found.sector_ranges);
        let (batches, short) = batches(sector_ranges, self.shortest()?);
        let mut queued: u64 = batches.iter().map(|b| bytes(b)).sum();
        change(&self.info, |i| {
            i.freed_bytes += found.freed;
            i.unplaced_bytes += found.freed.saturating_sub(placed);
            i.short_bytes += short * 512;
            i.queued_bytes = queued;
        });
        let started = Instant::now();
        let mut drive = self.machine.drive();
        if let Some(quiet) = &self.quiet {
            self.pace.quiet(quiet, &drive);
        }
        let mut result = Ok(Sent::All);
        for (n, batch) in batches.iter().enumerate() {
            let sent = match self.send_batch(&found, batch) {
                Ok(sent) => sent,
                Err(e) => {
                    result = Err(e);
                    break;
                }
            };
            queued -= bytes(batch);
            change(&self.info, |i| {
                i.last_sent = Some(time::now().as_secs());
                i.sent_ranges += sent.len() as u64;
                i.sent_bytes += bytes(&sent);
                i.unplaced_bytes += bytes(batch) - bytes(&sent);
                i.queued_bytes = queued;
            });
            let left = batches.len() - n - 1;
            let pause = self.pace.pause(left, budget.saturating_sub(started.elapsed()));
            result = self.wait(notices, if left > 0 { pause } else { Duration::ZERO });
            let now = self.machine.drive();
            self.pace.sent(&drive, &now);
            drive = now;
            if result != Ok(Sent::All) {
                break;
            }
        }
        self.quiet = Some(drive);
        change(&self.info, |i| {
            i.dropped_bytes += queued;
            i.queued_bytes = 0;
            i.send_ms = started.elapsed().as_millis() as u64;
        });
        result
    }

    /// What the target would not discard it need not be sent, unless it remembers that.
    fn shortest(&self) -> Result<u64, Halt> {
        let target = self.target.status()?.discard;
        Ok(match target.granularity {
            0 => SHORTEST.max(self.machine.granularity()),
            n if n > SHORTEST => PAGE,
            _ => SHORTEST,
        })
    }

    /// Sends what of a batch is still the files' alone, and returns that.
    fn send_batch(&mut self, found: &Found, batch: &[SectorRange]) -> Result<Vec<SectorRange>, Halt> {
        self.rule.is_owner(&mut self.machine)?;
        let batch = self.rule.again(found, &mut self.machine, &self.target, batch)?;
        if !batch.is_empty() {
            let mut text = format!("discard {}", found.since);
            for s in &batch {
                text += &format!(" {}:{}", s.start, s.length);
            }
            self.target.message(&text)?;
        }
        Ok(batch)
    }

    /// Waits as long, and until the target has discarded what it was sent.
    fn wait(&self, notices: &Receiver<()>, pause: Duration) -> Result<Sent, Halt> {
        let started = Instant::now();
        loop {
            let done = self.target.status()?.discard.queued == 0;
            let waited = started.elapsed();
            if done && waited >= pause {
                return Ok(Sent::All);
            }
            if waited >= STALL_TIMEOUT {
                return Err("discards timed out on the device".to_owned().into());
            }
            let step = if done { pause - waited } else { POLL_INTERVAL };
            match self
                .pulse
                .rest(|| notices.recv_timeout(step.min(STALL_TIMEOUT - waited)))
            {
                Err(RecvTimeoutError::Timeout) => {}
                // The next checkpoint, or the end.
                _ => return Ok(Sent::Interrupted),
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
            e => Self::Reset(e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: GPL-2.0-or-later
//! What the process of a database reports to the one that started it: at an interval, and soon
//! after the agent has done something.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Machine;
use dm::devno::DevNo;
use dm::reply::Status;
use policies::layout::{self, Layout};
use proto::control::Info;
use proto::device::{DeviceView, Kernel, Service, State};
use proto::drive::{Media, Source};
use proto::reason::Reason;
use proto::snapshot::{Moment, INTERVAL};
use runtime::pulse::Pulses;
use runtime::{log, time};

/// Between two reports, whatever happens.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at a drive's own statistics: they take commands that the drive
/// answers beside the database's, and count in coarse steps.
const NVME: Duration = Duration::from_secs(15);
/// The same of SATA drives, whose queue has to drain for it, and of drives that do not count.
const OTHERS: Duration = Duration::from_secs(60);
/// What a report waits for a drive.
const ANSWER: Duration = Duration::from_secs(1);

/// A moment that is another one by so much: somebody has set the clock.
const SET: Duration = Duration::from_secs(1);

/// What a process says, a line of JSON each time.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub sample: DeviceView,
    /// How long its threads have been at one thing, in milliseconds.
    pub agent_ms: u64,
    pub discards_ms: u64,
}

#[derive(Default)]
struct BoardState {
    service: Service,
    agent: Option<Info>,
    changed: bool,
    end: bool,
}

/// What the agent says of itself.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<BoardState>,
    news: Condvar,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn served(&self, info: Info) {
        let mut state = self.state();
        state.service.set(State::Served, None);
        if state.agent.as_ref() != Some(&info) {
            state.agent = Some(info);
            state.changed = true;
            self.news.notify_all();
        }
    }

    /// There is no agent, for this reason.
    pub(crate) fn without(&self, now: State, reason: Option<Reason>) {
        let mut state = self.state();
        state.service.set(now, reason);
        state.agent = None;
        state.changed = true;
        self.news.notify_all();
    }

    #[cfg(test)]
    pub(crate) fn service(&self) -> Service {
        self.state().service.clone()
    }

    /// Waits for news, or until then; whether the end has come.
    fn wait(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let state = self
            .news
            .wait_timeout_while(self.state(), left, |t| !t.changed && !t.end)
            .unwrap_or_else(PoisonError::into_inner);
        state.0.end
    }

    /// The same, for the end alone.
    fn rest(&self, pause: Duration) -> bool {
        let state = self
            .news
            .wait_timeout_while(self.state(), pause, |t| !t.end)
            .unwrap_or_else(PoisonError::into_inner);
        state.0.end
    }

    fn take(&self) -> (Service, Option<Info>) {
        let mut state = self.state();
        state.changed = false;
        (state.service.clone(), state.agent.clone())
    }
}

/// Reports in a thread of its own; once more when it is dropped.
pub(crate) struct Reporter {
    board: Arc<Board>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Reporter {
    pub(crate) fn start<M: Machine>(
        machine: &Arc<M>,
        board: &Arc<Board>,
        pulses: &Pulses,
        device: &str,
        mut send: impl FnMut(&Report) -> io::Result<()> + Send + 'static,
    ) -> Result<Self> {
        let mut reads = Readings {
            machine: Arc::clone(machine),
            device: device.to_owned(),
            drive: Drive::new(),
            checkpoint: None,
        };
        let (theirs, pulses, about) = (Arc::clone(board), pulses.clone(), log::device());
        let run = move || {
            if let Some((device, several)) = about {
                log::of_device(&device, several);
            }
            let mut next = Instant::now();
            let mut end = false;
            loop {
                let now = Instant::now();
                if now >= next {
                    // One that is missed is not made up for.
                    next = now.max(next + INTERVAL);
                }
                let report = Report {
                    sample: reads.sample(&theirs),
                    agent_ms: pulses.agent.busy().as_millis() as u64,
                    discards_ms: pulses.discard.busy().as_millis() as u64,
                };
                // Who does not listen any more knows why.
                if send(&report).is_err() || end {
                    return;
                }
                end = theirs.rest(PAUSE) || theirs.wait(next);
            }
        };
        let thread = thread::Builder::new().name("report".into()).spawn(run);
        Ok(Self {
            board: Arc::clone(board),
            thread: Some(thread.context("cannot start a thread")?),
        })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.board.state().end = true;
        self.board.news.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is read of the device, beside the agent.
struct Readings<M> {
    machine: Arc<M>,
    device: String,
    drive: Drive,
    checkpoint: Option<LastCheckpoint>,
}

impl<M: Machine> Readings<M> {
    fn sample(&mut self, board: &Board) -> DeviceView {
        let looked = self.kernel();
        let (service, agent) = board.take();
        DeviceView {
            name: self.device.clone(),
            at: Moment::now(),
            service: Some(service),
            unseen: looked.as_ref().err().cloned(),
            kernel: looked.ok(),
            agent,
            last_error: log::last_error(&self.device),
            ..DeviceView::default()
        }
    }

    fn kernel(&mut self) -> Result<Kernel, Reason> {
        let kernel = self.machine.look(&self.device).map_err(|e| {
            self.drive = Drive::new();
            self.checkpoint = None;
            Reason::of(&e)
        })?;
        self.checkpoint = LastCheckpoint::last(self.checkpoint, &kernel.status, time::now());
        Ok(Kernel {
            uses: layout::uses(&Layout::of(&kernel.table, &kernel.status)),
            media: self.drive.said(&self.machine, kernel.devno),
            last_checkpoint: self.checkpoint.map(|c| c.at),
            ..kernel
        })
    }
}

/// The last checkpoint of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LastCheckpoint {
    /// How many there were.
    count: u64,
    /// In seconds since 1970.
    at: f64,
}

impl LastCheckpoint {
    /// The kernel reports an age, which is older by some milliseconds when the clock is read:
    /// what was said first of a checkpoint stays, so that it is one moment.
    fn last(before: Option<Self>, status: &Status, now: Duration) -> Option<Self> {
        let count = (status.windows > 0).then_some(status.windows)?;
        let at = now.saturating_sub(Duration::from_millis(status.window_ms));
        let at = at.as_millis() as f64 / 1000.0;
        let same = |c: &Self| c.count == count && (c.at - at).abs() < SET.as_secs_f64();
        before.filter(same).or(Some(Self { count, at }))
    }
}

/// What is known of a drive.  It is asked in a thread: one that does not answer holds up no snapshot.
pub(crate) struct Drive {
    said: Result<Media, String>,
    /// When it was asked last.
    asked: Option<Instant>,
    answer: Option<Receiver<Result<Media, String>>>,
}

impl Drive {
    pub(crate) fn new() -> Self {
        Self {
            said: Err("the drive has not answered yet".to_owned()),
            asked: None,
            answer: None,
        }
    }

    fn is_due(&self) -> bool {
        let pause = match &self.said {
            Ok(media) if media.counters.source != Source::SataAttributes => NVME,
            _ => OTHERS,
        };
        self.answer.is_none() && self.asked.is_none_or(|when| when.elapsed() >= pause)
    }

    pub(crate) fn said<M: Machine>(&mut self, machine: &Arc<M>, device: DevNo) -> Result<Media, String> {
        if self.is_due() {
            let (sender, answer) = mpsc::channel();
            let machine = Arc::clone(machine);
            let ask = move || drop(sender.send(machine.ask_drive(device)));
            self.asked = Some(Instant::now());
            match thread::Builder::new().name("drive".into()).spawn(ask) {
                Ok(_) => self.answer = Some(answer),
                Err(e) => self.said = Err(format!("cannot start a thread: {e}")),
            }
        }
        if let Some(answer) = &self.answer {
            match answer.recv_timeout(ANSWER) {
                Ok(said) => self.said = said,
                Err(RecvTimeoutError::Timeout) => return self.said.clone(),
                Err(RecvTimeoutError::Disconnected) => {}
            }
            self.answer = None;
        }
        self.said.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_one_moment() {
        let status = |windows: u64, ms: u64| Status {
            windows,
            window_ms: ms,
            ..Status::default()
        };
        let at = |ms: u64| Duration::from_millis(1_750_000_000_000 + ms);
        let last = |before, status: &Status, now| LastCheckpoint::last(before, status, at(now));
        assert_eq!(last(None, &status(0, 500), 1000), None, "there was none");
        let first = last(None, &status(1, 250), 1000);
        assert_eq!(
            first,
            Some(LastCheckpoint {
                count: 1,
                at: 1_750_000_000.75
            })
        );
        for late in [0, 3, 900] {
            assert_eq!(
                last(first, &status(1, 5250), 6000 + late),
                first,
                "{late} ms late"
            );
        }
        let next = last(first, &status(2, 10), 1110).unwrap();
        assert_eq!((next.count, next.at), (2, 1_750_000_001.1));
        let set = last(first, &status(1, 5250), 3_606_000).unwrap();
        assert_eq!(set.at, 1_750_003_600.75, "the clock was set");
        assert_eq!(
            last(first, &status(0, 5), 2000),
            None,
            "the device is another one"
        );
    }
}

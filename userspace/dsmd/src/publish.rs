// SPDX-License-Identifier: GPL-2.0-or-later
//! Publishes what is known of all devices: at an interval, and soon after the agent of
//! one has done something.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{host, Machine};
use dm::devno::DevNo;
use dm::reply::Status;
use policies::layout::{self, Layout};
use proto::control::Info;
use proto::drive::{Media, Source};
use proto::sample::{Kernel, Sample};
use proto::snapshot::{Moment, PublishDir, Snapshot, INTERVAL};
use runtime::{log, time};

/// Between two snapshots, whatever happens.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at a drive's own statistics: they take commands that the drive
/// answers beside the database's, and count in coarse steps.
const NVME: Duration = Duration::from_secs(15);
/// The same of SATA drives, whose queue has to drain for it, and of drives that do not count.
const OTHERS: Duration = Duration::from_secs(60);
/// What a snapshot waits for a drive.
const ANSWER: Duration = Duration::from_secs(1);

/// A moment that is another one by so much: somebody has set the clock.
const SET: Duration = Duration::from_secs(1);

#[derive(Default)]
struct PublishState {
    agents: BTreeMap<String, Info>,
    changed: bool,
    end: bool,
}

/// What the agents say of themselves.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<PublishState>,
    news: Condvar,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, PublishState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, device: &str, info: Option<Info>) {
        let mut state = self.state();
        if state.agents.get(device) == info.as_ref() {
            return;
        }
        match info {
            Some(info) => state.agents.insert(device.to_owned(), info),
            None => state.agents.remove(device),
        };
        state.changed = true;
        self.news.notify_all();
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

    fn take(&self) -> BTreeMap<String, Info> {
        let mut state = self.state();
        state.changed = false;
        state.agents.clone()
    }
}

/// An agent's place on the board: empty when it is gone.
pub(crate) struct PublishSlot {
    board: Arc<Board>,
    device: String,
}

impl PublishSlot {
    pub(crate) fn new(board: &Arc<Board>, device: &str) -> Self {
        Self {
            board: Arc::clone(board),
            device: device.to_owned(),
        }
    }

    pub(crate) fn put(&self, info: Info) {
        self.board.set(&self.device, Some(info));
    }
}

impl Drop for PublishSlot {
    fn drop(&mut self) {
        self.board.set(&self.device, None);
    }
}

/// Publishes in a thread of its own, until it is dropped.
pub(crate) struct Publisher {
    board: Arc<Board>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Publisher {
    pub(crate) fn start<M: Machine>(
        machine: &Arc<M>,
        board: &Arc<Board>,
        run_dir: &Path,
        devices: Vec<String>,
    ) -> Result<Option<Self>> {
        let place =
            PublishDir::take(run_dir).with_context(|| format!("cannot publish in {}", run_dir.display()))?;
        let Some(place) = place else {
            log!(
                Warn,
                "another dsmd publishes there; dsm-exporter does not show the devices of this one",
                directory = run_dir.display()
            );
            return Ok(None);
        };
        let press = Press {
            machine: Arc::clone(machine),
            place,
            drives: devices.iter().map(|d| (d.clone(), Drive::new())).collect(),
            checkpoints: BTreeMap::new(),
            devices,
            number: 0,
            failed: false,
        };
        let theirs = Arc::clone(board);
        let thread = thread::Builder::new()
            .name("publish".into())
            .spawn(move || press.run(&theirs))
            .context("cannot start a thread")?;
        Ok(Some(Self {
            board: Arc::clone(board),
            thread: Some(thread),
        }))
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.board.state().end = true;
        self.board.news.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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

struct Press<M> {
    machine: Arc<M>,
    place: PublishDir,
    devices: Vec<String>,
    drives: BTreeMap<String, Drive>,
    checkpoints: BTreeMap<String, LastCheckpoint>,
    number: u64,
    failed: bool,
}

impl<M: Machine> Press<M> {
    fn run(mut self, board: &Board) {
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            if now >= next {
                self.number += 1;
                // One that is missed is not made up for.
                next = now.max(next + INTERVAL);
            }
            let snapshot = self.snapshot(board.take());
            match self.place.publish(&snapshot) {
                Ok(()) => self.failed = false,
                Err(e) if !std::mem::replace(&mut self.failed, true) => {
                    log!(Warn, "cannot publish what dsm-exporter shows", reason = e);
                }
                Err(_) => {}
            }
            if board.rest(PAUSE) || board.wait(next) {
                return;
            }
        }
    }

    fn snapshot(&mut self, mut agents: BTreeMap<String, Info>) -> Snapshot {
        let devices = self.devices.clone().into_iter().map(|device| Sample {
            kernel: self.kernel(&device),
            agent: agents.remove(&device),
            last_error: log::last_error(&device),
            device,
        });
        let devices = devices.collect();
        Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            at: Moment::now(),
            number: self.number,
            host: host::now(),
            devices,
        }
    }

    fn kernel(&mut self, device: &str) -> Option<Kernel> {
        let drive = self.drives.get_mut(device)?;
        let look = self.machine.look(device).ok();
        let Some(look) = look else {
            *drive = Drive::new();
            self.checkpoints.remove(device);
            return None;
        };
        let before = self.checkpoints.get(device).copied();
        let last = LastCheckpoint::last(before, &look.status, time::now());
        match last {
            Some(last) => self.checkpoints.insert(device.to_owned(), last),
            None => self.checkpoints.remove(device),
        };
        let media = drive.said(&self.machine, look.devno);
        Some(Kernel {
            uses: layout::uses(&Layout::of(&look.table, &look.status)),
            table: look.table,
            status: look.status,
            disk: look.disk,
            media,
            last_checkpoint: last.map(|c| c.at),
        })
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

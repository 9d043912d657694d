// SPDX-License-Identifier: GPL-2.0-or-later
//! What dsmd reports of its device: to all by a file, and to the service manager; at an interval,
//! and soon after the agent has done something.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sd_notify::NotifyState;

use super::used;
use super::Machine;
use dm::devno::DevNo;
use dm::reply::Status;
use policies::layout::{self, Layout};
use proto::control::Info;
use proto::device::{DeviceView, Kernel, Service, State};
use proto::drive::{Media, Source};
use proto::reason::Reason;
use proto::snapshot::{self, Moment, Used, INTERVAL};
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

/// A thread that is at one thing for longer is stuck.
const STUCK: Duration = Duration::from_secs(10);
/// One that is stuck for longer is killed, unless it waits in the kernel, which may end.
const KILL: Duration = Duration::from_secs(60);
/// A database that is not decided by then holds up no unit.
const READY: Duration = Duration::from_secs(20);

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
        mut to: impl Listener,
    ) -> Result<Self> {
        let mut reads = Readings {
            machine: Arc::clone(machine),
            device: device.to_owned(),
            drive: Drive::new(),
            checkpoint: None,
        };
        let (theirs, pulses) = (Arc::clone(board), pulses.clone());
        let run = move || {
            log::of_device(&reads.device);
            let mut next = Instant::now();
            let mut end = false;
            loop {
                let now = Instant::now();
                if now >= next {
                    // One that is missed is not made up for.
                    next = now.max(next + to.interval());
                }
                let mut sample = reads.sample(&theirs);
                let busy = judge(&mut sample, &pulses, to.stuck());
                to.hear(&sample, busy);
                if end {
                    return;
                }
                end = theirs.rest(PAUSE.min(to.interval())) || theirs.wait(next);
            }
        };
        let thread = thread::Builder::new().name("report".into()).spawn(run);
        Ok(Self {
            board: Arc::clone(board),
            thread: Some(thread.context("cannot start a thread")?),
        })
    }
}

/// Who is told.
pub(crate) trait Listener: Send + 'static {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn stuck(&self) -> Duration {
        STUCK
    }

    /// The last also says how long a thread has been stuck, and whether that is in the kernel.
    fn hear(&mut self, sample: &DeviceView, stuck: Option<Stuck>);
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stuck {
    busy: Duration,
    in_kernel: bool,
}

/// Sees whether a thread is at one thing for too long.
fn judge(sample: &mut DeviceView, pulses: &Pulses, limit: Duration) -> Option<Stuck> {
    let threads = [
        ("its agent", &pulses.agent),
        ("its discard thread", &pulses.discard),
    ];
    let busy = threads.map(|(what, pulse)| (what, pulse.busy()));
    let (what, busy) = busy.into_iter().find(|(_, busy)| *busy > limit)?;
    let waits = waits_in_kernel(Path::new("/proc/self/task"));
    let reason = match &waits {
        Some(place) => format!("{what} waits in the kernel{place}: does the device below it answer?"),
        None => format!("{what} has been busy with one thing for too long"),
    };
    let service = sample.service.get_or_insert_default();
    service.set(State::Stuck, Some(reason.into()));
    service.since = Moment::now().wall - busy.as_secs_f64();
    Some(Stuck {
        busy,
        in_kernel: waits.is_some(),
    })
}

/// Where in the kernel a thread waits that no signal ends.
fn waits_in_kernel(tasks: &Path) -> Option<String> {
    let waits = |task: &Path| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('D'))
    };
    let tasks = fs::read_dir(tasks).ok()?;
    let task = tasks.flatten().map(|t| t.path()).find(|task| waits(task))?;
    Some(match fs::read_to_string(task.join("wchan")) {
        Ok(place) if place.len() > 1 => format!(", in {place}"),
        _ => String::new(),
    })
}

/// The file that everybody reads, and the service manager.
pub(crate) struct Publisher {
    run_dir: PathBuf,
    began: Instant,
    watchdog: Option<Duration>,
    ready: bool,
    status: String,
    last: State,
    failed: bool,
    restarts: u64,
}

impl Publisher {
    pub(crate) fn new(run_dir: &Path, device: &str) -> Self {
        // One that was killed has not said that it ended.
        let before = snapshot::read(run_dir, device)
            .and_then(Result::ok)
            .and_then(|s| s.service);
        let restarts = before.map_or(0, |s| s.restarts + u64::from(s.state != State::Ended));
        Self {
            run_dir: run_dir.to_owned(),
            began: Instant::now(),
            watchdog: sd_notify::watchdog_enabled(),
            ready: false,
            status: String::new(),
            last: State::Starting,
            failed: false,
            restarts,
        }
    }

    fn publish(&mut self, sample: &DeviceView) {
        // What another one that still serves it says is newer.
        let pid = |s: &DeviceView| s.service.as_ref().and_then(|s| s.pid);
        let is_others = |s: DeviceView| {
            pid(&s) != pid(sample) && s.state() != Some(State::Ended) && s.age(sample.at) < 2 * INTERVAL
        };
        let last = || snapshot::read(&self.run_dir, &sample.name)?.ok();
        if sample.state() != Some(State::Served) && last().is_some_and(is_others) {
            return;
        }
        match snapshot::publish(&self.run_dir, sample) {
            Ok(()) => self.failed = false,
            Err(e) if !mem::replace(&mut self.failed, true) => {
                log!(Warn, "cannot publish what dsm-exporter shows", reason = e);
            }
            Err(_) => {}
        }
    }

    /// For the service manager.
    fn news(&mut self, service: &Service, stuck: Option<Stuck>) -> Vec<NotifyState<'_>> {
        let mut news = Vec::new();
        let decided = service.state != State::Starting || self.began.elapsed() > READY;
        if decided && service.state != State::Ended && !mem::replace(&mut self.ready, true) {
            news.push(NotifyState::Ready);
        }
        if self.watchdog.is_some() && !stuck.is_some_and(|s| s.busy > KILL && !s.in_kernel) {
            news.push(NotifyState::Watchdog);
        }
        let status = match &service.reason {
            Some(reason) => format!("{}: {reason}", service.state.name()),
            None => service.state.name().to_owned(),
        };
        if self.status != status {
            self.status = status;
            news.push(NotifyState::Status(&self.status));
        }
        news
    }
}

impl Listener for Publisher {
    fn interval(&self) -> Duration {
        self.watchdog.map_or(INTERVAL, |w| INTERVAL.min(w / 3))
    }

    fn hear(&mut self, sample: &DeviceView, stuck: Option<Stuck>) {
        let mut sample = sample.clone();
        let service = sample.service.get_or_insert_default();
        let Used { cpu, memory } = used::own();
        (service.cpu, service.memory, service.restarts) = (cpu, memory, self.restarts);
        match (mem::replace(&mut self.last, service.state), service.state) {
            (State::Stuck, State::Stuck) => {}
            (_, State::Stuck) => {
                let reason = service
                    .reason
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                log!(Error, "does not answer", reason = reason);
            }
            (State::Stuck, _) => log!(Info, "answers again"),
            _ => {}
        }
        let news = self.news(service, stuck);
        if let Some(Err(e)) = (!news.is_empty()).then(|| sd_notify::notify(&news)) {
            log!(Warn, "cannot notify the service manager", reason = e);
        }
        self.publish(&sample);
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
        let (mut service, agent) = board.take();
        service.version = env!("CARGO_PKG_VERSION").to_owned();
        service.pid = Some(std::process::id());
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
    fn who_waits_in_the_kernel_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let task = |name: &str, state: &str, place: &str| {
            let task = dir.path().join(name);
            fs::create_dir(&task).unwrap();
            fs::write(task.join("stat"), format!("7 (a) b) {state} 1 7 7")).unwrap();
            fs::write(task.join("wchan"), place).unwrap();
        };
        task("7", "S", "do_wait");
        assert_eq!(waits_in_kernel(dir.path()), None);
        task("8", "D", "submit_bio_wait");
        assert_eq!(waits_in_kernel(dir.path()).unwrap(), ", in submit_bio_wait");
        fs::write(dir.path().join("8/wchan"), "0").unwrap();
        assert_eq!(waits_in_kernel(dir.path()).unwrap(), "", "it may be hidden");
    }

    fn sample(pid: u32, state: State) -> DeviceView {
        let mut sample = DeviceView {
            name: "d".into(),
            at: Moment::now(),
            ..DeviceView::default()
        };
        let service = sample.service.get_or_insert_default();
        service.set(state, None);
        service.pid = Some(pid);
        sample
    }

    #[test]
    fn restarts_are_those_without_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let restarts = |state| {
            let mut publisher = Publisher::new(dir.path(), "d");
            publisher.hear(&sample(1, state), None);
            snapshot::read(dir.path(), "d")
                .unwrap()
                .unwrap()
                .service
                .unwrap()
                .restarts
        };
        assert_eq!(restarts(State::Served), 0);
        assert_eq!(restarts(State::Served), 1, "it was killed");
        assert_eq!(restarts(State::Ended), 2, "again");
        assert_eq!(restarts(State::Served), 2, "it had ended");
    }

    #[test]
    fn the_watchdog_ends_what_is_stuck_outside_the_kernel() {
        let mut publisher = Publisher {
            watchdog: Some(Duration::from_secs(60)),
            ..Publisher::new(Path::new("/nonexistent"), "d")
        };
        let mut told = |state, stuck| -> Vec<String> {
            let service = sample(1, state).service.unwrap();
            let news = publisher.news(&service, stuck);
            news.iter().map(ToString::to_string).collect()
        };
        let stuck = |seconds, in_kernel| {
            let busy = Duration::from_secs(seconds);
            Some(Stuck { busy, in_kernel })
        };
        assert_eq!(told(State::Starting, None), ["WATCHDOG=1", "STATUS=starting"]);
        assert_eq!(
            told(State::Waiting, None),
            ["READY=1", "WATCHDOG=1", "STATUS=waiting"]
        );
        assert_eq!(
            told(State::Stuck, stuck(50, false)),
            ["WATCHDOG=1", "STATUS=stuck"]
        );
        assert_eq!(
            told(State::Stuck, stuck(61, true)),
            ["WATCHDOG=1"],
            "it would hang again"
        );
        assert_eq!(told(State::Stuck, stuck(61, false)), [""; 0]);
        assert_eq!(told(State::Served, None), ["WATCHDOG=1", "STATUS=served"]);
    }

    #[test]
    fn one_that_has_ended_is_not_ready() {
        let mut publisher = Publisher::new(Path::new("/nonexistent"), "d");
        let ended = sample(1, State::Ended).service.unwrap();
        let told: Vec<String> = publisher
            .news(&ended, None)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(told, ["STATUS=ended"]);
    }

    #[test]
    fn another_that_serves_it_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut publisher = Publisher::new(dir.path(), "d");
        let mut published = |sample: &DeviceView| {
            publisher.publish(sample);
            let last = snapshot::read(dir.path(), "d").unwrap().unwrap();
            (last.service.as_ref().unwrap().pid.unwrap(), last.state().unwrap())
        };
        assert_eq!(published(&sample(1, State::Served)), (1, State::Served));
        assert_eq!(published(&sample(2, State::Waiting)), (1, State::Served));
        let mut later = sample(2, State::Waiting);
        later.at.monotonic += 3 * INTERVAL;
        assert_eq!(published(&later), (2, State::Waiting), "it says nothing any more");
        assert_eq!(
            published(&sample(3, State::Served)),
            (3, State::Served),
            "who has the lock"
        );
    }

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

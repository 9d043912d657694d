// SPDX-License-Identifier: GPL-2.0-or-later
//! Starts a process for each database, hears what it reports, starts another when it has ended,
//! publishes all that for dsm-exporter, and reports to the service manager.
//!
//! A thread that waits for a device in the kernel cannot be killed, and its process does not
//! end before it. So this process touches no device and no data directory, waits for nobody, and
//! leaves behind what does not end. Documentation/design.md compares other forms.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, mem};

use anyhow::{Context, Result};
use rustix::process::{kill_process, Pid, Signal};
use sd_notify::NotifyState;

use super::report::Report;
use super::used;
use super::worker::{Task, GIVEN_UP, WORKER};
use files::config::{Config, Database};
use proto::device::{DeviceView, Service, State};
use proto::reason::Reason;
use proto::snapshot::{Moment, PublishDir, Snapshot, Used, INTERVAL};
use runtime::log;
use runtime::wake::{self, Signals};

/// A longer report is none.
const LONGEST: usize = 1 << 20;

/// What this process does when.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// Between two looks at the processes.
    pub look: Duration,
    /// Between two snapshots, whatever happens.
    pub publish: Duration,
    /// Before another process takes the place of one that has ended.
    pub restart: Duration,
    /// A thread that is at one thing for longer is stuck; a process that is silent for as much
    /// longer than the interval of its reports, too.
    pub stuck: Duration,
    /// One that is stuck for longer is killed, unless it waits in the kernel, which may end.
    pub kill: Duration,
    /// A database that is not decided by then holds up no other.
    pub ready: Duration,
    /// What the processes get to end.
    pub end: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            look: Duration::from_secs(1),
            publish: Duration::from_secs(1),
            restart: Duration::from_secs(5),
            stuck: Duration::from_secs(10),
            kill: Duration::from_secs(60),
            ready: Duration::from_secs(20),
            end: Duration::from_secs(10),
        }
    }
}

/// A process of a database.
pub(crate) trait Process {
    fn pid(&self) -> u32;
    fn signal(&self, signal: Signal);
    /// How it has ended.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>>;
}

impl Process for Child {
    fn pid(&self) -> u32 {
        self.id()
    }

    fn signal(&self, signal: Signal) {
        // It is not reaped yet, so that the number is no other's.
        let _ = kill_process(Pid::from_child(self), signal);
    }

    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.try_wait()
    }
}

/// Starts the process of a database, which reports on the other end of the socket.
pub(crate) type Start<'a, P> = &'a mut dyn FnMut(&Database) -> Result<(P, UnixStream)>;

/// This program once more, also when the file of it was replaced.
pub(crate) fn start(config: &Config, show_regions: bool, database: &Database) -> Result<(Child, UnixStream)> {
    let task = Task {
        config: Config {
            databases: vec![database.clone()],
            ..config.clone()
        },
        several: config.databases.len() > 1,
        show_regions,
        parent: std::process::id(),
    };
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new("/proc/self/exe")
        .arg0("dsmd")
        .args([WORKER, &database.device])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .env_remove("NOTIFY_SOCKET")
        .env_remove("WATCHDOG_USEC")
        .env_remove("WATCHDOG_PID")
        .spawn()?;
    let mut text = serde_json::to_string(&task)?;
    text.push('\n');
    (&ours).write_all(text.as_bytes())?;
    ours.set_nonblocking(true)?;
    Ok((child, ours))
}

struct Running<P> {
    process: P,
    socket: UnixStream,
    /// The other end is closed: it is about to end.
    closed: bool,
    /// The beginning of a report.
    text: Vec<u8>,
    /// When the last was heard, and what its threads were at then.
    heard: Instant,
    agent: Duration,
    discards: Duration,
    killed: bool,
}

/// A database's place, with a process in it or without.
struct Place<P> {
    database: Database,
    running: Option<Running<P>>,
    /// When one is to be started; nothing: it is there, or is to be no more.
    next: Option<Instant>,
    sample: DeviceView,
    service: Service,
    /// What its process said of the state.
    said: (State, Option<Reason>),
    /// It is served, waited for or given up, or nobody waits for that any longer.
    decided: bool,
    well: bool,
    /// Something is to be published.
    news: bool,
}

/// What a process says of itself.
fn said(view: &DeviceView) -> (State, Option<Reason>) {
    let service = view.service.clone().unwrap_or_default();
    (service.state, service.reason)
}

impl<P: Process> Place<P> {
    fn new(database: &Database) -> Self {
        Self {
            database: database.clone(),
            running: None,
            next: Some(Instant::now()),
            sample: DeviceView {
                name: database.device.clone(),
                ..DeviceView::default()
            },
            service: Service::default(),
            said: (State::Starting, None),
            decided: false,
            well: true,
            news: true,
        }
    }

    fn start(&mut self, start: Start<'_, P>, pace: &Pace) {
        let now = Instant::now();
        if self.next.is_none_or(|at| at > now) {
            return;
        }
        let service = &mut self.service;
        match start(&self.database) {
            Ok((process, socket)) => {
                self.next = None;
                service.set(State::Starting, None);
                service.pid = Some(process.pid());
                self.said = (State::Starting, None);
                self.running = Some(Running {
                    process,
                    socket,
                    closed: false,
                    text: Vec::new(),
                    heard: now,
                    agent: Duration::ZERO,
                    discards: Duration::ZERO,
                    killed: false,
                });
            }
            Err(e) => {
                self.next = Some(now + pace.restart);
                self.decided = true;
                self.gone(format!("cannot start a process: {e:#}"));
            }
        }
    }

    /// There is no process.
    fn gone(&mut self, reason: String) {
        let reason = Reason::from(reason);
        let service = &mut self.service;
        if service.state != State::Ended || service.reason.as_ref() != Some(&reason) {
            log!(
                Error,
                "has no process",
                device = self.database.device,
                reason = reason
            );
        }
        service.pid = None;
        service.set(State::Ended, Some(reason));
        self.news = true;
        self.sample.agent = None;
        self.sample.kernel = None;
        self.sample.unseen = Some("it has no process that looks at it".into());
    }

    /// Takes what the process has reported, and sees whether it has ended.
    fn hear(&mut self, pace: &Pace) {
        let Some(r) = &mut self.running else { return };
        match r.hear() {
            Ok(Some(report)) => {
                self.said = said(&report.sample);
                self.decided |= self.said.0 != State::Starting;
                self.sample = report.sample;
                self.news = true;
            }
            Ok(None) => {}
            Err(e) => {
                log!(
                    Error,
                    "reports what is not understood, and is killed",
                    device = self.database.device,
                    reason = e
                );
                r.closed = true;
                r.process.signal(Signal::KILL);
            }
        }
        let status = match r.process.ended() {
            Ok(None) => return,
            Ok(Some(status)) => status,
            Err(e) => {
                // Nobody else waits for it.
                log!(
                    Error,
                    "cannot wait for its process",
                    device = self.database.device,
                    reason = e
                );
                return;
            }
        };
        // What it said last may still be there.
        if let Ok(Some(report)) = r.hear() {
            self.said = said(&report.sample);
            self.sample.last_error = report.sample.last_error;
        }
        self.running = None;
        self.decided = true;
        if status.success() || status.code() == Some(GIVEN_UP.into()) {
            self.well &= status.success();
            self.service.pid = None;
            self.service.set(State::Ended, self.said.1.take());
            self.sample.agent = None;
            self.news = true;
            return;
        }
        self.service.restarts += 1;
        self.next = Some(Instant::now() + pace.restart);
        self.gone(match status.signal() {
            Some(signal) => format!("signal {signal} ended its process"),
            None => format!("its process ended with {}", status.code().unwrap_or_default()),
        });
    }

    /// Sees whether the process is stuck.
    fn judge(&mut self, pace: &Pace) {
        let Some(r) = &mut self.running else { return };
        let service = &mut self.service;
        let Some((what, busy)) = r.stuck(pace) else {
            if service.state == State::Stuck {
                log!(Info, "answers again", device = self.database.device);
            }
            self.news |= service.state != self.said.0;
            service.set(self.said.0, self.said.1.clone());
            return;
        };
        self.decided = true;
        self.news |= service.state != State::Stuck;
        if r.heard.elapsed() > pace.stuck + INTERVAL {
            (self.sample.kernel, self.sample.agent) = (None, None);
            self.sample.unseen = Some("its process is silent".into());
        }
        let waits = waits_in_kernel(Path::new("/proc"), r.process.pid());
        let reason = match &waits {
            Some(place) => format!("{what} waits in the kernel{place}: does the device below it answer?"),
            None => format!("{what} has been busy with one thing for too long"),
        };
        if service.state != State::Stuck {
            log!(
                Error,
                "does not answer",
                device = self.database.device,
                reason = reason
            );
        }
        service.set(State::Stuck, Some(reason.into()));
        service.since = Moment::now().wall - busy.as_secs_f64();
        if busy > pace.kill && waits.is_none() && !mem::replace(&mut r.killed, true) {
            log!(
                Error,
                "is killed, as it does not answer",
                device = self.database.device
            );
            r.process.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(r) = &self.running {
            r.process.signal(signal);
        }
    }

    fn is_over(&self) -> bool {
        self.running.is_none() && self.next.is_none()
    }
}

impl<P> Running<P> {
    /// The last report that has come.
    fn hear(&mut self) -> Result<Option<Report>> {
        let mut last = None;
        let mut part = [0; 1 << 16];
        while !self.closed {
            match self.socket.read(&mut part) {
                Ok(0) => self.closed = true,
                Ok(n) => self.text.extend_from_slice(&part[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // It was killed before it had read what it was sent.
                Err(_) => self.closed = true,
            }
            while let Some(end) = self.text.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                last = Some(line);
            }
            anyhow::ensure!(self.text.len() <= LONGEST, "longer than {LONGEST} bytes");
        }
        let Some(line) = last else { return Ok(None) };
        let report: Report = serde_json::from_slice(&line)?;
        self.heard = Instant::now();
        self.agent = Duration::from_millis(report.agent_ms);
        self.discards = Duration::from_millis(report.discards_ms);
        Ok(Some(report))
    }

    /// What has been at one thing for too long, and for how long.
    fn stuck(&self, pace: &Pace) -> Option<(&'static str, Duration)> {
        let silent = self.heard.elapsed();
        if silent > pace.stuck + INTERVAL {
            return Some(("its process", silent));
        }
        let threads = [("its agent", self.agent), ("its discards", self.discards)];
        threads.into_iter().find(|(_, busy)| *busy > pace.stuck)
    }
}

/// Where in the kernel a thread of a process waits that no signal ends.
fn waits_in_kernel(proc: &Path, pid: u32) -> Option<String> {
    let tasks = fs::read_dir(proc.join(format!("{pid}/task"))).ok()?;
    let waits = |task: &Path| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('D'))
    };
    let task = tasks.flatten().map(|t| t.path()).find(|task| waits(task))?;
    Some(match fs::read_to_string(task.join("wchan")) {
        Ok(place) if place.len() > 1 => format!(", in {place}"),
        _ => String::new(),
    })
}

/// Publishes what is known of all databases.
struct Press {
    dir: PublishDir,
    began: Instant,
    last: Option<Instant>,
    failed: bool,
}

impl Press {
    /// Nothing: what is shown is no reason not to serve.
    fn new(run_dir: &Path) -> Option<Self> {
        let reason = match PublishDir::take(run_dir) {
            Ok(Some(dir)) => {
                return Some(Self {
                    dir,
                    began: Instant::now(),
                    last: None,
                    failed: false,
                })
            }
            Ok(None) => "another dsmd publishes there".to_owned(),
            Err(e) => e.to_string(),
        };
        log!(
            Warn,
            "dsm-exporter shows nothing of this dsmd",
            directory = run_dir.display(),
            reason = reason
        );
        None
    }

    fn publish<P>(&mut self, places: &[Place<P>]) {
        let mut used = used::own();
        let devices = places.iter().map(|p| {
            let mut sample = p.sample.clone();
            // What this process says of it is newer.
            let ours = log::last_error(&sample.name);
            if ours.as_ref().map(|e| e.at) >= sample.last_error.as_ref().map(|e| e.at) {
                sample.last_error = ours;
            }
            let mut service = p.service.clone();
            if let Some(pid) = service.pid {
                let Used { cpu, memory } = used::by(pid);
                (service.cpu, service.memory) = (cpu, memory);
                used.cpu += cpu;
                used.memory += memory;
            }
            sample.service = Some(service);
            sample
        });
        let devices = devices.collect();
        let snapshot = Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            at: Moment::now(),
            number: self.began.elapsed().as_secs() / INTERVAL.as_secs() + 1,
            used,
            devices,
        };
        self.last = Some(Instant::now());
        match self.dir.publish(&snapshot) {
            Ok(()) => self.failed = false,
            Err(e) if !mem::replace(&mut self.failed, true) => {
                log!(Warn, "cannot publish what dsm-exporter shows", reason = e);
            }
            Err(_) => {}
        }
    }
}

/// What the service manager was told.
#[derive(Default)]
struct Told {
    ready: bool,
    status: String,
    fed: Option<Instant>,
}

impl Told {
    fn tell<P: Process>(
        &mut self,
        places: &[Place<P>],
        watchdog: Option<Duration>,
        tell: &mut dyn FnMut(NotifyState<'_>),
    ) {
        // One that is given up at once does not keep the others from being ready.
        let goes_on = places.iter().any(|p| !p.is_over() && p.said.0 != State::Ended);
        if goes_on && places.iter().all(|p| p.decided) && !mem::replace(&mut self.ready, true) {
            tell(NotifyState::Ready);
        }
        let status = State::ALL.into_iter().filter_map(|state| {
            let mut of = places.iter().filter(|p| p.service.state == state);
            let first = &of.next()?.database.device;
            Some(match of.count() {
                0 => format!("{}: {first}", state.name()),
                n => format!("{}: {first} and {n} more", state.name()),
            })
        });
        let status = status.collect::<Vec<_>>().join("; ");
        if self.status != status {
            tell(NotifyState::Status(&status));
            self.status = status;
        }
        let Some(watchdog) = watchdog else { return };
        if self.fed.is_none_or(|at| at.elapsed() >= watchdog / 3) {
            tell(NotifyState::Watchdog);
            self.fed = Some(Instant::now());
        }
    }
}

/// Serves all databases until all are given up, or a signal comes; whether none failed.
pub(crate) fn supervise<P: Process>(
    config: &Config,
    signals: &Signals,
    pace: &Pace,
    start: Start<'_, P>,
    watchdog: Option<Duration>,
    tell: &mut dyn FnMut(NotifyState<'_>),
) -> bool {
    let mut press = Press::new(&config.run_dir);
    let mut places: Vec<Place<P>> = config.databases.iter().map(Place::new).collect();
    let mut told = Told::default();
    let began = Instant::now();
    loop {
        for p in &mut places {
            p.start(start, pace);
            p.hear(pace);
            p.judge(pace);
            p.decided |= began.elapsed() > pace.ready;
        }
        told.tell(&places, watchdog, tell);
        let news = places.iter().any(|p| p.news);
        let pause = if news { pace.publish } else { INTERVAL };
        if let Some(press) = press
            .as_mut()
            .filter(|p| p.last.is_none_or(|at| at.elapsed() >= pause))
        {
            press.publish(&places);
            places.iter_mut().for_each(|p| p.news = false);
        }
        if places.iter().all(Place::is_over) {
            return places.iter().all(|p| p.well);
        }
        let closed = places
            .iter()
            .any(|p| p.running.as_ref().is_some_and(|r| r.closed));
        let look = watchdog.map_or(pace.look, |w| pace.look.min(w / 6));
        let look = if closed {
            look.min(Duration::from_millis(10))
        } else {
            look
        };
        let mut fds: Vec<BorrowedFd<'_>> = vec![signals.end_fd(), signals.reload_fd()];
        let open = places
            .iter()
            .filter_map(|p| p.running.as_ref())
            .filter(|r| !r.closed);
        fds.extend(open.map(|r| r.socket.as_fd()));
        if let Err(e) = wake::wait(&fds, look) {
            log!(Error, "cannot wait", reason = e);
            std::thread::sleep(look);
        }
        if signals.reload() {
            places.iter().for_each(|p| p.signal(Signal::HUP));
        }
        if signals.came() {
            return end(&mut places, pace);
        }
    }
}

/// Ends what can be ended.
fn end<P: Process>(places: &mut [Place<P>], pace: &Pace) -> bool {
    for (signal, grace) in [(Signal::TERM, pace.end), (Signal::KILL, Duration::from_secs(1))] {
        places.iter().for_each(|p| p.signal(signal));
        let began = Instant::now();
        while began.elapsed() < grace && places.iter().any(|p| p.running.is_some()) {
            std::thread::sleep(Duration::from_millis(10));
            for p in places.iter_mut() {
                let Some(r) = &mut p.running else { continue };
                // Its last words must not hold it up.
                let _ = r.hear();
                if let Ok(Some(status)) = r.process.ended() {
                    p.well &= status.code() != Some(GIVEN_UP.into());
                    p.running = None;
                }
            }
        }
    }
    for p in places.iter().filter(|p| p.running.is_some()) {
        log!(
            Warn,
            "its process is left behind: it ends when the kernel lets it",
            device = p.database.device,
            pid = p.service.pid.unwrap_or_default()
        );
    }
    places.iter().all(|p| p.well)
}

fn tell(state: NotifyState<'_>) {
    if let Err(e) = sd_notify::notify(&[state]) {
        log!(Warn, "cannot notify the service manager", reason = e);
    }
}

/// The databases of a configuration, in processes of their own.
pub(crate) fn run(config: &Config, show_regions: bool) -> Result<bool> {
    // Nothing of a file system may stay in use because of us.
    std::env::set_current_dir("/").context("cannot go to /")?;
    let signals = Signals::new()?;
    let start = &mut |database: &Database| start(config, show_regions, database);
    Ok(supervise(
        config,
        &signals,
        &Pace::default(),
        start,
        // The service manager's watchdog is for this process alone.
        sd_notify::watchdog_enabled(),
        &mut tell,
    ))
}

#[cfg(test)]
mod tests;

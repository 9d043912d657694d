// SPDX-License-Identifier: GPL-2.0-or-later
//! The parent over processes that are threads, which serve databases in memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;
use crate::tests::{until, EndsOnDrop, Setup};
use crate::worker;
use proto::reason::ReasonKind;
use proto::snapshot::Unavailable;
use testing::signals::{by_hand, ByHand};

/// What a thread has of a process.
struct Thread {
    pid: u32,
    signals: ByHand,
    /// A signal that nobody can refuse.
    killed: Arc<AtomicBool>,
    status: Arc<Mutex<Option<i32>>>,
}

impl Process for Thread {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn signal(&self, signal: Signal) {
        match signal {
            Signal::TERM => self.signals.end(),
            Signal::HUP => self.signals.reload(),
            _ => self.killed.store(true, Ordering::Relaxed),
        }
    }

    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.killed.load(Ordering::Relaxed) {
            self.signals.end();
            return Ok(Some(ExitStatus::from_raw(Signal::KILL.as_raw())));
        }
        Ok(self.status.lock().unwrap().map(ExitStatus::from_raw))
    }
}

/// Databases, each with a device of its name.
struct Machines {
    dir: tempfile::TempDir,
    of: Vec<(&'static str, Setup)>,
    config: Config,
    pids: AtomicUsize,
    /// Of this database no process can be started.
    refused: Mutex<&'static str>,
    running: Mutex<Vec<(String, Arc<AtomicBool>)>>,
}

impl Machines {
    fn new(names: &[&'static str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut text = format!("run-dir = {:?}\n", dir.path());
        let mut of = Vec::new();
        for name in names {
            let setup = Setup::new();
            setup.machine.plug();
            text += &format!("[[database]]\ndevice = {name:?}\ndbpath = {:?}\n", setup.at("db"));
            of.push((*name, setup));
        }
        Self {
            config: Config::parse(&text).unwrap(),
            dir,
            of,
            pids: AtomicUsize::new(u32::MAX as usize - 1000),
            refused: Mutex::default(),
            running: Mutex::default(),
        }
    }

    fn setup(&self, name: &str) -> &Setup {
        &self.of.iter().find(|(n, _)| *n == name).unwrap().1
    }

    fn start(&self, database: &Database) -> Result<(Thread, UnixStream)> {
        let name = database.device.clone();
        anyhow::ensure!(*self.refused.lock().unwrap() != name, "there are too many");
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let setup = self.setup(&name);
        let (served, signals) = setup.served(|d| *d = database.clone());
        let machine = Arc::clone(&setup.machine);
        let status = Arc::new(Mutex::new(None));
        let theirs_too = Arc::clone(&status);
        thread::spawn(move || {
            let send = move |report: &Report| {
                let text = serde_json::to_string(report)? + "\n";
                (&theirs).write_all(text.as_bytes())
            };
            let result = worker::report(&machine, &served, send).unwrap();
            *theirs_too.lock().unwrap() = Some(if result.is_ok() { 0 } else { 1 << 8 });
        });
        let killed = Arc::<AtomicBool>::default();
        self.running.lock().unwrap().push((name, Arc::clone(&killed)));
        let process = Thread {
            pid: self.pids.fetch_add(1, Ordering::Relaxed) as u32,
            signals,
            killed,
            status,
        };
        Ok((process, ours))
    }

    /// As by SIGKILL, from somebody.
    fn kill(&self, name: &str) {
        let running = self.running.lock().unwrap();
        let (_, killed) = running.iter().rev().find(|(n, _)| n == name).unwrap();
        killed.store(true, Ordering::Relaxed);
    }

    /// Runs `during` beside a parent, which is ended; whether all was well.
    fn supervised(&self, pace: &Pace, during: impl FnOnce(&Mutex<Vec<String>>)) -> bool {
        let (signals, by_hand) = by_hand();
        let told = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let parent = scope.spawn(|| {
                let tell = &mut |state: NotifyState<'_>| told.lock().unwrap().push(state.to_string());
                let start = &mut |database: &Database| self.start(database);
                supervise(
                    &self.config,
                    &signals,
                    pace,
                    start,
                    Some(Duration::from_millis(60)),
                    tell,
                )
            });
            let end = EndsOnDrop(&by_hand);
            during(&told);
            drop(end);
            parent.join().unwrap()
        })
    }

    fn sample(&self, name: &str) -> Option<DeviceView> {
        let snapshot = Snapshot::read(self.dir.path()).ok()?;
        snapshot.devices.into_iter().find(|d| d.name == name)
    }

    fn until(&self, name: &str, state: State) -> DeviceView {
        let is = || self.sample(name).is_some_and(|s| s.state() == Some(state));
        until(&format!("{name} {}", state.name()), is);
        self.sample(name).unwrap()
    }

    /// Until one more checkpoint of it was seen.
    fn works(&self, name: &str, turtle: u32) {
        let seen = || self.sample(name)?.agent.map(|a| a.checkpoints);
        until("an agent", || seen().is_some());
        let before = seen();
        self.setup(name).turtle(turtle);
        until("a checkpoint", || seen() > before);
    }
}

const FAST: Pace = Pace {
    look: Duration::from_millis(5),
    publish: Duration::from_millis(5),
    restart: Duration::from_millis(50),
    stuck: Duration::from_millis(200),
    kill: Duration::from_secs(3600),
    ready: Duration::from_secs(3600),
    end: Duration::from_millis(300),
};

/// The device of one does not answer, the process of another is killed: the third is served all
/// the time, also by the next dsmd.
#[test]
fn what_hangs_or_dies_is_one_databases_state() {
    let m = Machines::new(&["a", "b", "c"]);
    let hung = Mutex::new(Some(m.setup("a").machine.hung.lock().unwrap()));
    m.supervised(&FAST, |told| {
        m.works("c", 2);
        let reason = m.until("a", State::Stuck).service.unwrap().reason.unwrap();
        assert_eq!(reason.text, "its agent has been busy with one thing for too long");
        assert!(m.sample("a").unwrap().kernel.is_some(), "which is known");
        let said = || told.lock().unwrap().iter().filter(|t| *t == "READY=1").count();
        until("READY=1", || said() == 1);
        let status = "STATUS=served: b and 1 more; stuck: a";
        until(status, || told.lock().unwrap().iter().any(|t| t == status));
        let fed = || told.lock().unwrap().iter().filter(|t| *t == "WATCHDOG=1").count();
        let before = fed();
        until("the watchdog's food", || fed() > before + 3);

        m.works("b", 2);
        m.kill("b");
        let b = || m.sample("b").unwrap().service.unwrap();
        until("another process", || {
            b().restarts == 1 && b().state == State::Served
        });
        assert_eq!(b().reason, None);
        for n in 3..6 {
            m.works("c", n);
            m.works("b", n);
        }
        assert_eq!(m.sample("c").unwrap().service.unwrap().restarts, 0);
        assert_eq!(
            m.sample("a").unwrap().service.unwrap().restarts,
            0,
            "it would hang again"
        );
        assert_eq!(said(), 1);
    });
    // The first dsmd has left a behind.
    m.supervised(&FAST, |told| {
        let a = m.until("a", State::Waiting);
        assert_eq!(
            a.service.unwrap().reason,
            Some("another dsmd serves the device a".into())
        );
        for n in 6..8 {
            m.works("b", n);
            m.works("c", n);
        }
        until("READY=1", || told.lock().unwrap().iter().any(|t| t == "READY=1"));
        drop(hung.lock().unwrap().take());
        m.works("a", 2);
        assert_eq!(m.sample("a").unwrap().service.unwrap().state, State::Served);
    });
}

#[test]
fn one_that_answers_again_is_served() {
    let m = Machines::new(&["a"]);
    m.supervised(&FAST, |_| {
        m.works("a", 2);
        let hung = m.setup("a").machine.hung.lock().unwrap();
        m.until("a", State::Stuck);
        drop(hung);
        assert_eq!(m.until("a", State::Served).service.unwrap().restarts, 0);
        m.works("a", 3);
    });
}

#[test]
fn one_that_is_stuck_is_killed_if_it_can_be() {
    let m = Machines::new(&["a"]);
    let pace = Pace {
        kill: Duration::from_secs(1),
        ..FAST
    };
    m.supervised(&pace, |_| {
        m.works("a", 2);
        let hung = m.setup("a").machine.hung.lock().unwrap();
        let restarts = || m.sample("a").unwrap().service.unwrap().restarts;
        until("another process", || restarts() == 1);
        drop(hung);
        m.works("a", 3);
        assert_eq!(restarts(), 1);
    });
}

#[test]
fn a_thread_in_the_kernel_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let task = |tid: &str, stat: &str, wchan: &str| {
        let task = dir.path().join("7/task").join(tid);
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("stat"), stat).unwrap();
        fs::write(task.join("wchan"), wchan).unwrap();
    };
    assert_eq!(waits_in_kernel(dir.path(), 7), None);
    task("7", "7 (a) D) S 1 7", "do_poll");
    assert_eq!(waits_in_kernel(dir.path(), 7), None);
    task("8", "8 (x) D 1 7", "0");
    assert_eq!(waits_in_kernel(dir.path(), 7).as_deref(), Some(""));
    task("8", "8 (x) D 1 7", "xfs_buf_lock");
    assert_eq!(
        waits_in_kernel(dir.path(), 7).as_deref(),
        Some(", in xfs_buf_lock")
    );
}

/// As where TasksMax= is reached.
#[test]
fn one_without_a_process_is_one_databases_state() {
    let m = Machines::new(&["a", "b"]);
    *m.refused.lock().unwrap() = "a";
    let well = m.supervised(&FAST, |told| {
        let a = m.until("a", State::Ended).service.unwrap();
        assert_eq!(
            a.reason,
            Some("cannot start a process: there are too many".into())
        );
        m.works("b", 2);
        until("READY=1", || told.lock().unwrap().iter().any(|t| t == "READY=1"));
        *m.refused.lock().unwrap() = "";
        m.works("a", 2);
    });
    assert!(well);
    assert!(matches!(
        Snapshot::read(m.dir.path()),
        Err(Unavailable::Absent(_))
    ));
}

#[test]
fn one_that_is_given_up_is_not_started_again() {
    let mut m = Machines::new(&["a", "b"]);
    m.config.databases[0].wait = false;
    m.config.databases[0].dbpath = "/nonexistent".into();
    let well = m.supervised(&FAST, |told| {
        let a = m.until("a", State::Ended).service.unwrap();
        let reason = a.reason.unwrap();
        assert!(reason.text.starts_with("/nonexistent: cannot open it"));
        assert_eq!(reason.kind, ReasonKind::NotMounted);
        m.works("b", 2);
        until("READY=1", || told.lock().unwrap().iter().any(|t| t == "READY=1"));
        assert_eq!(m.sample("a").unwrap().service.unwrap().restarts, 0);
    });
    assert!(!well);
    // With no other there is nothing to do.
    m.config.databases.truncate(1);
    let mut told = Vec::new();
    let (signals, _by_hand) = by_hand();
    let start = &mut |database: &Database| m.start(database);
    let tell = &mut |state: NotifyState<'_>| told.push(state.to_string());
    assert!(!supervise(&m.config, &signals, &FAST, start, None, tell));
    assert!(!told.iter().any(|t| t == "READY=1"), "{told:?}");
}

#[test]
fn reports_that_are_none_end_the_process() {
    let m = Machines::new(&["a"]);
    let killed = AtomicUsize::new(0);
    let (signals, by_hand) = by_hand();
    thread::scope(|scope| {
        let parent = scope.spawn(|| {
            // The first says what nobody understands, the second too much.
            let mut number = 0;
            let start = &mut |database: &Database| {
                number += 1;
                let (process, socket) = m.start(database)?;
                if number > 2 {
                    return Ok((process, socket));
                }
                let (ours, theirs) = UnixStream::pair()?;
                ours.set_nonblocking(true)?;
                thread::spawn(move || match number {
                    1 => (&theirs).write_all(b"{}\n"),
                    _ => (&theirs).write_all(&vec![b'x'; LONGEST + 2]),
                });
                Ok((process, ours))
            };
            supervise(&m.config, &signals, &FAST, start, None, &mut |_| {})
        });
        let end = EndsOnDrop(&by_hand);
        until("the third", || {
            let service = m.sample("a").and_then(|s| s.service).unwrap_or_default();
            killed.store(service.restarts as usize, Ordering::Relaxed);
            service.restarts == 2 && service.state == State::Served
        });
        drop(end);
        parent.join().unwrap()
    });
    assert_eq!(killed.into_inner(), 2);
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The daemon's life over kernels and extents in memory, on real directories: what it
//! takes is counted in a process of its own.

use std::fs;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::bail;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::agent::discard::{Database as Followed, Machine as DiscardMachine, Owner, Plan, Seen as Looked};
use crate::report::Stuck;
use database::fiemap::ExtentCounts;
use database::wiredtiger::avail::{FileEntry, Refusal, TurtleId};
use dm::device::MessageError;
use dm::diskstat::DiskStat;
use dm::mode::Mode;
use dm::reply::Status;
use dm::table::Extent;
use drive::afford::AffordedLayout;
use proto::control::{self, Request};
use proto::device::{self, DeviceView};
use proto::left_out::{self, LeftOut, Omission};
use proto::reason::{Reason, ReasonKind};
use runtime::panic::abort_on_panic;
use runtime::sizes::Seconds;
use testing::kernel::ModelKernel;
use testing::signals::{by_hand, ByHand};

const SECTORS: u64 = 1 << 24;

/// A test waits for what must come; this only ends one that would wait for ever.
const HANG: Duration = Duration::from_secs(600);

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < HANG, "{what} never came");
        thread::sleep(Duration::from_millis(1));
    }
}

/// With the length that it had when it was opened.
#[derive(Clone)]
pub(crate) struct Kernel {
    model: Arc<Mutex<ModelKernel>>,
    sectors: u64,
    /// It does not answer while somebody has this.
    hung: Arc<Mutex<()>>,
}

impl Target for Kernel {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn message(&self, text: &str) -> Result<String, MessageError> {
        drop(self.hung.lock());
        self.model.lock().unwrap().message(text)
    }

    fn status(&self) -> Result<Status, MessageError> {
        drop(self.hung.lock());
        let kernel = self.model.lock().unwrap();
        match kernel.sectors() {
            now if now != self.sectors => Err(MessageError::Resized(self.sectors, now)),
            _ => kernel.status(),
        }
    }
}

/// Each file lies where its inode number says; of those of a few bytes one cannot be read, and the
/// others have what is left out.
pub(crate) struct Places;

impl Mapper for Places {
    fn map(&mut self, file: &dyn AsFd, out: &mut Vec<Extent>) -> std::io::Result<ExtentCounts> {
        let stat = rustix::fs::fstat(file.as_fd())?;
        let mut counts = ExtentCounts::default();
        match stat.st_size {
            1 => return Err(std::io::ErrorKind::Other.into()),
            2 => counts.delalloc = 2,
            3 => counts.inline = 3,
            4 => counts.encoded = 4,
            5 => counts.elsewhere = 5,
            6 => counts.shared = 6,
            _ => {}
        }
        let sectors = (stat.st_size as u64).div_ceil(4096) * 8;
        out.clear();
        if sectors > 0 {
            out.push(Extent::new(0, stat.st_ino % 100_000 * 80, sectors));
        }
        Ok(counts)
    }
}

/// What becomes of the first look at what checkpoints free.
type Look = Box<dyn FnOnce() + Send>;

/// A database to discard for, of which the first look is the last.
struct Odd(Option<Look>);

impl Followed for Odd {
    fn stands(&mut self) -> Result<(), Reason> {
        Ok(())
    }

    fn preconditions(&mut self) -> Result<String, String> {
        if let Some(look) = self.0.take() {
            look();
        }
        Err("there is none".into())
    }

    fn turtle(&mut self) -> Result<Option<TurtleId>, String> {
        Ok(None)
    }

    fn owner(&mut self) -> Result<Option<Owner>, String> {
        Ok(None)
    }

    fn read(&mut self, _: &mut dyn FnMut(&FileEntry) -> bool) -> Result<Looked, Refusal> {
        unreachable!("no preconditions here")
    }

    fn sync_dbpath(&mut self) -> Result<(), Reason> {
        unreachable!("no preconditions here")
    }

    fn places(
        &mut self,
        _: &Path,
        _: (u64, i128),
        _: &[Range<u64>],
        _: &mut dyn FnMut(Extent),
    ) -> Result<(), String> {
        unreachable!("no preconditions here")
    }
}

impl DiscardMachine for Odd {
    fn drive(&self) -> DiskStat {
        DiskStat::default()
    }

    fn warning(&self) -> Option<String> {
        None
    }

    fn forbidden(&self) -> Option<Reason> {
        None
    }

    fn mark(&self, _: &str) -> Result<(), String> {
        unreachable!("nothing is seen here")
    }
}

/// A device, as long as there is one.
#[derive(Default)]
pub(crate) struct Bench {
    kernel: Mutex<Option<Kernel>>,
    opened: AtomicUsize,
    look: Mutex<Option<Look>>,
    /// How often the drive was.
    asked: AtomicUsize,
    /// It does not answer while somebody has this.
    stuck: Mutex<()>,
    /// Nor does the device.
    pub hung: Arc<Mutex<()>>,
}

impl Bench {
    pub(crate) fn plug(&self) {
        *self.kernel.lock().unwrap() = Some(Kernel {
            model: Arc::new(Mutex::new(ModelKernel::new(SECTORS))),
            sectors: SECTORS,
            hung: Arc::clone(&self.hung),
        });
    }

    /// Its table is exchanged for a longer one.
    fn grow(&self, sectors: u64) {
        let kernel = self.kernel.lock().unwrap();
        *kernel.as_ref().unwrap().model.lock().unwrap() = ModelKernel::new(sectors);
    }

    fn refuse(&self) {
        let kernel = self.kernel.lock().unwrap();
        let model = kernel.as_ref().unwrap().model.lock().unwrap();
        model.refuse_commits(u32::MAX);
    }

    fn pull(&self) {
        if let Some(kernel) = self.kernel.lock().unwrap().take() {
            kernel.model.lock().unwrap().remove();
        }
    }

    /// What a look at the database's checkpoints comes to.
    fn looks(&self, look: impl FnOnce() + Send + 'static) {
        *self.look.lock().unwrap() = Some(Box::new(look));
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Machine for Bench {
    type Target = Kernel;
    type Mapper = Places;

    fn open(&self, device: &str) -> Result<Kernel> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        match &*self.kernel.lock().unwrap() {
            Some(kernel) => Ok(Kernel {
                sectors: kernel.model.lock().unwrap().sectors(),
                ..kernel.clone()
            }),
            None => bail!("{device}: there is no device-mapper device of this name"),
        }
    }

    fn mapper(&self, _: &Root, _: &Kernel) -> Result<Places> {
        Ok(Places)
    }

    fn discards(&self, _: &Root, device: &str, plan: Plan, pulse: Pulse) -> Result<discard::Link> {
        let look = self.look.lock().unwrap().take();
        discard::Link::start(device, plan, self.open(device)?, Odd(look), pulse)
    }

    fn look(&self, device: &str) -> Result<device::Kernel> {
        let kernel = self.open(device)?;
        // Of itself: what lies below is not asked.
        let status = kernel.model.lock().unwrap().status()?;
        Ok(device::Kernel::new("259:0 0 0".parse().unwrap(), status))
    }

    fn affords(&self, _: &Kernel) -> Result<Affords> {
        Ok(Affords::new(
            AffordedLayout::None,
            None,
            "no streams: it is a model".into(),
        ))
    }

    fn ask_drive(&self, _: DevNo) -> Result<Media, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        drop(self.stuck.lock());
        Err("it is a model".into())
    }
}

pub(crate) struct EndsOnDrop<'a>(pub &'a ByHand);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A database, and a daemon's thread for it.
pub(crate) struct Setup {
    dir: tempfile::TempDir,
    pub machine: Arc<Bench>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let setup = Self {
            dir,
            machine: Arc::default(),
        };
        for sub in ["db", "run", "state"] {
            fs::create_dir(setup.at(sub)).unwrap();
        }
        fs::write(setup.at("db/WiredTiger"), "WiredTiger 11.3.1").unwrap();
        fs::write(setup.at("db/collection-0-1.wt"), [0; 4096]).unwrap();
        setup.turtle(1);
        setup
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn turtle(&self, n: u32) {
        let text = format!(
            "WiredTiger version\nmajor=11\nfile:WiredTiger.wt\na=1,checkpoint=(WiredTigerCheckpoint.{n}=(addr=\"{n}\"))\n"
        );
        fs::write(self.at("db/WiredTiger.turtle.set"), text).unwrap();
        fs::rename(
            self.at("db/WiredTiger.turtle.set"),
            self.at("db/WiredTiger.turtle"),
        )
        .unwrap();
    }

    fn served(&self, change: impl FnOnce(&mut Config)) -> (Served, ByHand) {
        let mut config = Config {
            refresh_seconds: Seconds(Duration::from_millis(100)),
            state_dir: self.at("state"),
            ..Config::parse("d", &format!("dbpath = {:?}", self.at("db"))).unwrap()
        };
        change(&mut config);
        let (signals, by_hand) = by_hand();
        let served = Served {
            config,
            run: Run {
                run_dir: self.at("run"),
                mongo_dir: self.at("mongo"),
                show_regions: false,
            },
            board: Arc::default(),
            pulses: Pulses::default(),
            signals,
            pace: ServePace {
                look: Duration::ZERO,
                lost: Duration::ZERO,
            },
        };
        (served, by_hand)
    }

    fn info(&self) -> Result<control::Info> {
        control::ask(&self.at("run"), "d", Request::Info)
    }

    /// Runs `during` while a thread serves the database, and ends it by a signal.
    fn serve(&self, change: impl FnOnce(&mut Config), during: impl FnOnce(&Board)) -> Result<()> {
        let (served, by_hand) = self.served(change);
        thread::scope(|scope| {
            let daemon = scope.spawn(|| serve::serve(&*self.machine, &served));
            // Also when `during` panics: the scope waits for the thread.
            let end = EndsOnDrop(&by_hand);
            during(&served.board);
            drop(end);
            daemon.join().unwrap()
        })
    }
}

/// How something comes to be left out: here, or in another file that has this in it.
enum Made {
    Here(fn(&Setup)),
    There(&'static str, &'static str),
}

fn a_file_of(setup: &Setup, bytes: usize) {
    fs::write(setup.at("db/collection-9-9.wt"), vec![0; bytes]).unwrap();
}

fn made(reason: Omission) -> Made {
    use Made::{Here, There};
    match reason {
        Omission::Symlink => Here(|s| std::os::unix::fs::symlink("/etc", s.at("db/journal")).unwrap()),
        Omission::Special => Here(|s| make_fifo(&s.at("db/fifo"))),
        Omission::OtherFileSystem => There(
            include_str!("../../../tests/vm/86-domains.sh"),
            "1 entries on another file system (other)",
        ),
        Omission::TooDeep => Here(|s| {
            let deep: PathBuf = (0..20).map(|n| n.to_string()).collect();
            fs::create_dir_all(s.at("db").join(deep)).unwrap();
        }),
        Omission::Unreadable => Here(|s| a_file_of(s, 1)),
        Omission::Unwatched => Here(|s| {
            for n in 0..8200 {
                fs::create_dir(s.at("db").join(n.to_string())).unwrap();
            }
        }),
        Omission::Refused => Here(|s| s.machine.refuse()),
        Omission::NoBirthTime => There(
            include_str!("agent/tests.rs"),
            "fn boundaries_without_birth_times_do_not_outlive_dsmd()",
        ),
        Omission::NoPlace => Here(|s| a_file_of(s, 2)),
        Omission::Inline => Here(|s| a_file_of(s, 3)),
        Omission::Encoded => Here(|s| a_file_of(s, 4)),
        Omission::Elsewhere => Here(|s| a_file_of(s, 5)),
        Omission::Shared => Here(|s| a_file_of(s, 6)),
        Omission::NoList => There(
            include_str!("agent/discard/tests.rs"),
            "fn lists_are_compared_of_one_file_and_in_their_order()",
        ),
        Omission::DeviceSilent => Here(|s| s.machine.pull()),
        Omission::DriveSilent => Here(|_| ()),
    }
}

/// What is reported.
struct Heard(mpsc::Sender<(DeviceView, Option<Stuck>)>);

impl Listener for Heard {
    fn interval(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn stuck(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn hear(&mut self, sample: &DeviceView, stuck: Option<Stuck>) {
        let _ = self.0.send((sample.clone(), stuck));
    }
}

/// The list of what is left out has nothing that cannot happen, and what happens is said.
#[test]
fn every_reason_happens_and_is_said() {
    for &reason in Omission::ALL {
        let make = match made(reason) {
            Made::There(text, name) => {
                assert!(text.contains(name), "{reason:?}: {name}");
                continue;
            }
            Made::Here(make) => make,
        };
        let setup = Setup::new();
        setup.machine.plug();
        make(&setup);
        let (heard, said) = mpsc::channel();
        let (served, by_hand) = setup.served(|_| {});
        let found = thread::scope(|scope| {
            let daemon = scope.spawn(|| report(&setup.machine, &served, Heard(heard)));
            let end = EndsOnDrop(&by_hand);
            let of = |l: &LeftOut| l.reason == reason && l.count > 0;
            let found = said.iter().flat_map(|(s, _)| left_out::of(&s)).find(of);
            drop(end);
            daemon.join().unwrap().unwrap();
            found.unwrap()
        });
        let counted = matches!(
            reason,
            Omission::NoPlace | Omission::Inline | Omission::Encoded | Omission::Elsewhere | Omission::Shared
        );
        assert_eq!(found.example.is_none(), counted, "{found:?}");
    }
}

/// Runs a test of this name once more in a process of its own, where it is alone; true
/// there.
fn alone(name: &str) -> bool {
    if std::env::var("DSM_ALONE").is_ok_and(|n| n == name) {
        return true;
    }
    let output = run_alone(name);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

fn run_alone(name: &str) -> std::process::Output {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            name,
            "--exact",
            "--nocapture",
            "--include-ignored",
            "--test-threads=1",
        ])
        .env("DSM_ALONE", name)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test\n"), "no test has this name: {name}");
    output
}

/// What the process has: descriptors and threads.
fn held() -> (usize, usize) {
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Kilobytes in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Threads that were asked to end do so in their own time.
fn until_held(what: (usize, usize)) {
    until("the end of what was begun", || held() == what);
}

#[test]
fn a_database_is_waited_for_served_lost_and_found_again() {
    let setup = Setup::new();
    setup
        .serve(
            |_| {},
            |board| {
                let is = |state| board.service().state == state;
                until("that it is waited for", || is(State::Waiting));
                assert_eq!(
                    board.service().reason,
                    Some("d: there is no device-mapper device of this name".into())
                );
                until("another look", || setup.machine.opened() > 2);
                assert!(setup.info().is_err());
                for n in 2..5 {
                    setup.machine.plug();
                    until("an answer", || setup.info().is_ok());
                    until("that it is served", || is(State::Served));
                    let windows = setup.info().unwrap().checkpoints;
                    setup.turtle(n);
                    until("the checkpoint", || {
                        setup.info().is_ok_and(|i| i.checkpoints > windows)
                    });
                    setup.machine.pull();
                    until("the loss", || setup.info().is_err());
                    until("that it is lost", || is(State::Waiting));
                }
            },
        )
        .unwrap();
}

/// By one that does not wait, too.
#[test]
fn a_device_that_grows_is_followed() {
    let setup = Setup::new();
    setup.machine.plug();
    let done = setup.serve(
        |d| d.wait = false,
        |_| {
            until("an answer", || setup.info().is_ok());
            for n in 2..5 {
                let opened = setup.machine.opened();
                setup.machine.grow(SECTORS * n);
                setup.turtle(n as u32);
                until("another look at it", || setup.machine.opened() > opened);
                until("an answer", || setup.info().is_ok_and(|i| i.uploads > 0));
            }
        },
    );
    done.unwrap();
}

#[test]
fn without_wait_it_is_given_up() {
    let setup = Setup::new();
    let (served, _by_hand) = setup.served(|d| d.wait = false);
    let said = serve::serve(&*setup.machine, &served);
    assert_eq!(served.board.service().state, State::Starting);
    assert_eq!(
        said.unwrap_err().to_string(),
        "d: there is no device-mapper device of this name"
    );
}

/// `prepare` fails after the control socket was made: nothing may be left of each try.
#[test]
fn failures_leave_nothing_behind() {
    const NAME: &str = "tests::failures_leave_nothing_behind";
    if !alone(NAME) {
        return;
    }
    let setup = Setup::new();
    setup.machine.plug();
    fs::write(
        setup.at("rules.toml"),
        "[[object]]\nname = \"x\"\nstream = 9\nfiles = [\"*\"]\n",
    )
    .unwrap();
    let before = held();
    let rules = vec![setup.at("rules.toml").to_str().unwrap().parse().unwrap()];
    setup
        .serve(
            |d| d.rules = rules,
            |_| until("200 tries", || setup.machine.opened() >= 200),
        )
        .unwrap();
    until_held(before);
}

/// 10,000 losses and returns in the long form.
fn losses_and_returns(count: u32) {
    let setup = Setup::new();
    let before = held();
    let mut steady = 0;
    setup
        .serve(
            |_| {},
            |_| {
                for n in 0..count {
                    setup.machine.plug();
                    until("an answer", || setup.info().is_ok());
                    setup.machine.pull();
                    until("the loss", || setup.info().is_err());
                    if n == count / 10 {
                        steady = resident();
                    }
                }
            },
        )
        .unwrap();
    until_held(before);
    let (grown, held) = (resident().saturating_sub(steady), held());
    println!("{count} losses and returns: {grown} KiB more after the first tenth, {held:?} descriptors and threads");
    assert!(grown < 2048, "{grown} KiB more");
}

#[test]
fn losses_leave_nothing_behind() {
    const NAME: &str = "tests::losses_leave_nothing_behind";
    if alone(NAME) {
        losses_and_returns(100);
    }
}

#[test]
#[ignore = "tests/check soak"]
fn soak() {
    const NAME: &str = "tests::soak";
    if std::env::var("DSM_ALONE").is_ok_and(|n| n == NAME) {
        losses_and_returns(10_000);
    } else {
        let output = run_alone(NAME);
        print!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_panic_ends_the_process_as_a_failure() {
    use std::os::unix::process::ExitStatusExt;
    const NAME: &str = "tests::a_panic_ends_the_process_as_a_failure";
    if std::env::var("DSM_ALONE").is_ok_and(|n| n == NAME) {
        abort_on_panic();
        let _ = thread::spawn(|| panic!("on purpose")).join();
        return;
    }
    let output = run_alone(NAME);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(String::from_utf8_lossy(&output.stderr).contains("on purpose"));
}

/// A call of the kernel that never returns, as that of a drive which is stuck.
#[test]
fn a_look_for_discards_that_hangs_is_seen() {
    let setup = Setup::new();
    setup.machine.plug();
    let (release, stuck) = mpsc::channel::<()>();
    setup.machine.looks(move || assert!(stuck.recv().is_err()));
    let (served, by_hand) = setup.served(|d| d.discard = Mode::On);
    let pulses = served.pulses.clone();
    let (heard, said) = mpsc::channel();
    thread::scope(|scope| {
        let daemon = scope.spawn(|| report(&setup.machine, &served, Heard(heard)));
        let end = EndsOnDrop(&by_hand);
        let stuck = |(s, _): &(DeviceView, Option<Stuck>)| s.state() == Some(State::Stuck);
        let (sample, _) = said.iter().find(stuck).unwrap();
        let why = sample.service.unwrap().reason.unwrap().to_string();
        assert_eq!(
            why,
            "its discard thread has been busy with one thing for too long"
        );
        assert!(sample.agent.is_some(), "the agent serves it all the same");
        until("an answer of the other thread", || setup.info().is_ok());
        drop(release);
        // It waits for the next checkpoint, and that is no work.
        until("the end of the look", || pulses.discard.busy() == Duration::ZERO);
        until("the reason", || {
            let off = setup.info().unwrap().discard.and_then(|d| d.off);
            off == Some("there is none".into())
        });
        let served = |(s, _): (DeviceView, Option<Stuck>)| s.state() == Some(State::Served);
        assert!(said.iter().any(served), "it answers again");
        drop(end);
        daemon.join().unwrap()
    })
    .unwrap();
}

#[test]
fn a_probe_alone_ends_what_it_holds() {
    let setup = Setup::new();
    setup.machine.plug();
    let discards = |config: &mut Config| config.discard = Mode::On;
    let during = |_: &Board| {
        let ask = |request| control::ask::<serde_json::Value>(&setup.at("run"), "d", request);
        let is_probed = || {
            let discard = setup.info().ok()?.discard?;
            Some(discard.off?.kind == ReasonKind::Probe)
        };
        until("the first look", || setup.info().is_ok());
        ask(Request::Hold { probe: true }).unwrap();
        until("the probe", || is_probed() == Some(true));
        ask(Request::Release { probe: false }).unwrap();
        setup.turtle(2);
        thread::sleep(Duration::from_millis(200));
        assert_eq!(is_probed(), Some(true));
        ask(Request::Release { probe: true }).unwrap();
        until("the end of the probe", || is_probed() != Some(true));
    };
    setup.serve(discards, during).unwrap();
}

#[test]
fn a_panic_while_it_looks_for_discards_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    const NAME: &str = "tests::a_panic_while_it_looks_for_discards_ends_the_process";
    if std::env::var("DSM_ALONE").is_ok_and(|n| n == NAME) {
        abort_on_panic();
        let setup = Setup::new();
        setup.machine.plug();
        setup.machine.looks(|| panic!("on purpose"));
        setup
            .serve(|d| d.discard = Mode::On, |_| until("the end", || false))
            .unwrap();
        return;
    }
    let output = run_alone(NAME);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(String::from_utf8_lossy(&output.stderr).contains("on purpose"));
}

fn make_fifo(path: &Path) {
    use rustix::fs::{mknodat, FileType, Mode, CWD};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Who owns the directory may put anything in the place of its files at any moment.
#[test]
fn fifos_and_links_neither_stop_it_nor_lead_it_away() {
    let setup = Setup::new();
    setup.machine.plug();
    for name in ["WiredTiger.lock", "storage.bson", "a"] {
        make_fifo(&setup.at("db").join(name));
    }
    std::os::unix::fs::symlink("/etc/shadow", setup.at("db/b")).unwrap();
    setup
        .serve(
            |_| {},
            |_| {
                until("an answer", || setup.info().is_ok());
                assert_eq!(setup.info().unwrap().files, 3);
            },
        )
        .unwrap();
    // A turtle that is a FIFO is none.
    fs::remove_file(setup.at("db/WiredTiger.turtle")).unwrap();
    make_fifo(&setup.at("db/WiredTiger.turtle"));
    let (served, _by_hand) = setup.served(|d| d.wait = false);
    let said = serve::serve(&*setup.machine, &served).unwrap_err().to_string();
    assert!(
        said.contains("there is no WiredTiger and WiredTiger.turtle in it"),
        "{said}"
    );
}

#[test]
fn a_drive_that_does_not_answer_holds_nothing_up() {
    let machine = Arc::<Bench>::default();
    let mut drive = report::Drive::new();
    let mut said = || drive.said(&machine, "253:0".parse().unwrap()).unwrap_err();
    let stuck = machine.stuck.lock().unwrap();
    assert_eq!(said(), "the drive has not answered yet");
    assert_eq!(said(), "the drive has not answered yet");
    drop(stuck);
    assert_eq!([said(), said()], ["it is a model"; 2]);
    assert_eq!(machine.asked.load(Ordering::Relaxed), 1);
}

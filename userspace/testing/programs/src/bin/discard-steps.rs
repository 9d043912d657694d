// SPDX-License-Identifier: GPL-2.0-or-later
//! dsmd, with a name for each step of the rule of discards, for tests/discard:
//! `discard-steps --config FILE` is dsmd, and ends itself by a signal at the step that
//! `DISCARD_STEP` names, as `SIGNAL:STEP:N`.  SIGNAL is `kill` or `stop`; of STEP it is
//! the Nth time, and each time for an N of 0.  `discard-steps --steps` prints all of them.
//!
//! A step is a call of the rule, before it or after.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{ensure, Context, Result};
use clap::Parser;
use database::fiemap::Fiemap;
use database::walk::Root;
use database::wiredtiger::avail::{FileEntry, Refusal, TurtleId};
use dm::device::{Device, MessageError, Target};
use dm::devno::DevNo;
use dm::diskstat::DiskStat;
use dm::reply::Status;
use dm::table::Extent;
use drive::below::Affords;
use dsmd::agent::discard::{Database, Disk, Link, Machine, Owner, Plan, Seen};
use dsmd::Local;
use proto::device::Kernel;
use proto::drive::Media;
use proto::reason::Reason;
use runtime::log;
use runtime::pulse::Pulse;
use rustix::process::Signal;
use signal_hook::low_level::raise;

/// In the order in which they come; `lists` is in the middle of `read`.  Only a violation comes
/// to `mark`.  At `rest` there is nothing more to do for a turtle.
const CALLS: [&str; 12] = [
    "on",
    "preconditions",
    "owner",
    "window",
    "read",
    "lists",
    "sync",
    "places",
    "discard",
    "written",
    "mark",
    "rest",
];
const WHEN: [&str; 2] = ["before", "after"];

struct Point {
    step: String,
    signal: Signal,
    always: bool,
    left: AtomicU32,
}

static POINT: OnceLock<Point> = OnceLock::new();

impl Point {
    fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(':').collect();
        let [signal, step, left] = &words[..] else {
            anyhow::bail!("DISCARD_STEP is '{text}', and not SIGNAL:STEP:N");
        };
        ensure!(steps().any(|s| s == *step), "there is no step {step}");
        let left: u32 = left.parse()?;
        Ok(Self {
            step: (*step).to_owned(),
            signal: match *signal {
                "kill" => Signal::KILL,
                "stop" => Signal::STOP,
                other => anyhow::bail!("a signal is kill or stop, and not {other}"),
            },
            always: left == 0,
            left: AtomicU32::new(left),
        })
    }
}

fn steps() -> impl Iterator<Item = String> {
    CALLS
        .iter()
        .flat_map(|call| WHEN.iter().map(move |when| format!("{when}-{call}")))
}

fn come_to(when: &str, call: &str) {
    let Some(point) = POINT.get() else { return };
    if point.step.split_once('-') != Some((when, call)) {
        return;
    }
    if point.always || point.left.fetch_sub(1, Ordering::Relaxed) == 1 {
        // To this thread: with one to the process it might go on until another thread has taken it.
        raise(point.signal.as_raw()).expect("there is such a signal");
    }
}

fn step<R>(call: &str, f: impl FnOnce() -> R) -> R {
    come_to("before", call);
    let r = f();
    come_to("after", call);
    r
}

/// What the rule calls, with steps around it.
struct Steps<T>(T);

impl Target for Steps<Device> {
    fn sectors(&self) -> u64 {
        self.0.sectors()
    }

    fn message(&self, text: &str) -> Result<String, MessageError> {
        let call = match text.split(' ').next() {
            Some("set") => "on",
            Some("window") => "window",
            Some("written") => "written",
            _ => "discard",
        };
        step(call, || self.0.message(text))
    }

    fn status(&self) -> Result<Status, MessageError> {
        self.0.status()
    }

    fn events(&self) -> Result<Option<BorrowedFd<'_>>, MessageError> {
        self.0.events()
    }
}

impl Machine for Steps<Disk> {
    fn drive(&self) -> DiskStat {
        self.0.drive()
    }

    /// Asked for last, when a look and what follows from it are over.
    fn warning(&self) -> Option<String> {
        step("rest", || self.0.warning())
    }

    fn forbidden(&self) -> Option<Reason> {
        self.0.forbidden()
    }

    fn mark(&self, why: &str) -> Result<(), String> {
        step("mark", || self.0.mark(why))
    }
}

impl Database for Steps<Disk> {
    fn preconditions(&mut self) -> Result<String, String> {
        step("preconditions", || self.0.preconditions())
    }

    fn turtle(&mut self) -> Result<Option<TurtleId>, String> {
        self.0.turtle()
    }

    fn owner(&mut self) -> Result<Option<Owner>, String> {
        step("owner", || self.0.owner())
    }

    fn stands(&mut self) -> Result<(), Reason> {
        self.0.stands()
    }

    fn read(&mut self, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Result<Seen, Refusal> {
        let mut each = |f: &FileEntry| step("lists", || wanted(f));
        step("read", || self.0.read(&mut each))
    }

    fn sync_dbpath(&mut self) -> Result<(), Reason> {
        step("sync", || self.0.sync_dbpath())
    }

    fn places(
        &mut self,
        path: &Path,
        file: (u64, i128),
        ranges: &[Range<u64>],
        emit: &mut dyn FnMut(Extent),
    ) -> Result<(), String> {
        step("places", || self.0.places(path, file, ranges, emit))
    }
}

/// This machine, as dsmd has it.
struct Stepped;

impl dsmd::Machine for Stepped {
    type Target = Device;
    type Mapper = Fiemap;

    fn open(&self, device: &str) -> Result<Device> {
        Local.open(device)
    }

    fn mapper(&self, root: &Root, target: &Device) -> Result<Fiemap> {
        Local.mapper(root, target)
    }

    fn discards(&self, root: &Root, device: &str, plan: Plan, pulse: Pulse) -> Result<Link> {
        let target = Device::open(device)?;
        let disk = Disk::new(root.clone(), device, target.devno, target.sectors, pulse.clone());
        Link::start(device, plan, Steps(target), Steps(disk), pulse)
    }

    fn look(&self, device: &str) -> Result<Kernel> {
        Local.look(device)
    }

    fn affords(&self, target: &Device) -> Result<Affords> {
        Local.affords(target)
    }

    fn ask_drive(&self, device: DevNo) -> Result<Media, String> {
        Local.ask_drive(device)
    }
}

fn main() -> Result<()> {
    if std::env::args().nth(1).is_some_and(|a| a == "--steps") {
        steps().for_each(|s| println!("{s}"));
        return Ok(());
    }
    if let Ok(text) = std::env::var("DISCARD_STEP") {
        let point = Point::parse(&text)?;
        POINT.set(point).ok().context("there is one")?;
    }
    let args = dsmd::cli::Args::parse();
    let config = args.config()?;
    log::init(config.log_format, config.verbose);
    runtime::panic::abort_on_panic();
    dsmd::serve(&Arc::new(Stepped), &config, args.run())
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl trial`: on a server at work, discards or streams are switched on and off in periods
//! of random order, and the drive's own counters say what they save.
//!
//! Periods come in pairs, one on and one off.  After each switch the drive still holds what
//! it was given before; what it writes until then (the washout) is not counted.  The
//! saving is estimated from the differences within the pairs ([`estimate`]), so that a load
//! that drifts from day to day does not count.
//!
//! Nothing runs in between: a timer has a sample taken, which goes on where the file says that the
//! trial is, and dsmd has the switch.  Who is late, or never comes again, leaves discards to dsmd.

pub mod estimate;
pub mod report;
pub mod state;
pub mod step;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use rustix::time::{clock_gettime, ClockId};

use crate::cli::{self as args, Output, Switched, TrialCommand, TrialOf, TrialReport, TrialStart};
use crate::{ask_soon, refused};
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::diskstat::{self, DiskStat};
use dm::ioctl::Dm;
use dm::mode::Mode;
use dm::sysfs::Sysfs;
use drive::below::LowerDisk;
use drive::counters;
use drive::media;
use drive::switch;
use proto::control::{DiscardInfo, Info, Request};
use proto::drive::Counters;
use proto::reason::{Reason, ReasonKind};
use report::Report;
use state::{Amount, Machine, Store, TrialPlan, TrialSample, TrialState, TrialSwitch, BY_SIZE};
use step::{step, Bench};

/// In sizes of the device.  After two a live drive below a real database has still free what
/// was discarded before, and too little is found: see tests/bench/live/trial.
const WASHOUT: u64 = 4;
const DISCARD: &str = "discard";

pub(crate) fn trial(command: &TrialCommand, out: Output) -> Result<()> {
    match command {
        TrialCommand::Start(a) => start(a),
        TrialCommand::Step(a) => go_on(a),
        TrialCommand::Stop(a) => stop(a),
        TrialCommand::Report(a) => report(a, out),
    }
}

/// A device, and the drive below it.
struct Live {
    device: Device,
    drive: String,
    plan: TrialPlan,
    /// Whether the drive counts.
    counts: bool,
}

fn find(name: &str) -> Result<(Device, String)> {
    let device = Device::open(name)?;
    let sysfs = Sysfs::default();
    if !diskstat::is_counted(&sysfs, device.devno) {
        let kernel = sysfs.name(device.devno);
        bail!(
            "{name}: the kernel does not count its reads and writes, by which a trial measures: \
             `echo 1 >/sys/block/{kernel}/queue/iostats`"
        );
    }
    let drive = media::drive_of(&sysfs, device.devno);
    let drive = drive.map_err(|why| anyhow!("{name}: a trial is about one drive: {why}"))?;
    Ok((device, drive))
}

impl Live {
    fn open(plan: &TrialPlan, counts: bool) -> Result<Self> {
        let (device, drive) = find(&plan.device)?;
        Ok(Self {
            device,
            drive,
            plan: plan.clone(),
            counts,
        })
    }

    /// The drive, and its size in sectors.  One that is gone, which may come back, has nothing.
    fn look(&self, sysfs: &Sysfs) -> Result<(DevNo, u64)> {
        let drive = sysfs.all().into_iter().find(|d| sysfs.name(*d) == self.drive);
        let found = drive.and_then(|d| Some((d, sysfs.number(d, "size")?)));
        found.with_context(|| format!("{} is gone", self.drive))
    }

    /// What another drive would not have.
    fn identity(&self) -> Result<String> {
        let sysfs = Sysfs::default();
        let (drive, size) = self.look(&sysfs)?;
        Ok(drive::identity::of(&sysfs, drive).unwrap_or_else(|| format!("{BY_SIZE}{size}")))
    }

    fn counters(&self) -> Result<Counters> {
        let (command, drive) = (self.plan.counters.as_deref(), Path::new("/dev").join(&self.drive));
        let found = command.map_or_else(|| counters::of_drive(&drive), counters::of_command);
        found.with_context(|| format!("{} does not report what its flash writes", self.drive))
    }

    fn discards(&self) -> bool {
        self.plan.switch.feature == DISCARD
    }

    fn machine(&self) -> Result<Machine> {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let sysfs = Sysfs::default();
        let drive = LowerDisk::ask(&sysfs, self.look(&sysfs)?.0);
        let module = Dm::open()?.target_version("dsm")?.unwrap_or_default();
        Ok(Machine {
            model: drive.model.unwrap_or_default(),
            firmware: drive.firmware.unwrap_or_default(),
            bytes: drive.bytes,
            kernel: kernel.trim().to_owned(),
            module: module.map(|n| n.to_string()).join("."),
            features: self.device.table_line()?.features,
        })
    }
}

impl Bench for Live {
    fn switch(&mut self, on: bool) -> Result<()> {
        if self.discards() {
            let request = Request::Trial { withheld: !on };
            return ask_soon(&self.device.name, request);
        }
        let TrialSwitch {
            feature,
            on: yes,
            off,
        } = &self.plan.switch;
        let value = if on { yes } else { off };
        if self.device.table_line()?.feature(feature) == Some(value) {
            return Ok(());
        }
        let said = self.device.message(&format!("set {feature} {value}"));
        said.map(drop).map_err(|e| refused(&self.device.name, e))
    }

    fn overruled(&mut self, set: Option<bool>) -> Result<Option<String>> {
        let TrialSwitch { feature, on, off } = &self.plan.switch;
        if self.discards() {
            let off = |d: DiscardInfo| d.off.filter(|why| why.kind == ReasonKind::SwitchedOff);
            let why = match forbidden(&self.device) {
                None => discards(&self.device.name).map(off)?,
                why => why,
            };
            return Ok(why.map(|why| why.text));
        }
        let table = self.device.table_line()?;
        let so = |set| table.feature(feature) == Some(if set { on } else { off });
        let other = set.is_some_and(|set| !so(set));
        Ok(other.then(|| format!("somebody else has set {feature} to another value")))
    }

    fn why_idle(&mut self) -> String {
        match discards(&self.device.name) {
            Ok(d) if d.waiting > 0 => format!("dsmd waits for {} more checkpoints", d.waiting),
            Ok(d) => d.off.map_or_else(
                || "dsmd follows the checkpoints, which freed nothing that could be discarded".to_owned(),
                |why| why.text,
            ),
            Err(e) => format!("{e:#}"),
        }
    }

    fn drive(&mut self) -> Result<String> {
        // It may have been made again, with another number or on another drive.
        (self.device, self.drive) = find(&self.device.name)?;
        self.identity()
    }

    fn sample(&mut self) -> Result<TrialSample> {
        let disk = DiskStat::of(&Sysfs::default(), self.device.devno)
            .context("the device has no counters in sysfs")?;
        let discarded = match self.discards() {
            true => Some(self.device.status()?.discard.discarded_sectors),
            false => None,
        };
        let now = clock_gettime(ClockId::Boottime);
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        Ok(TrialSample {
            at: now.tv_sec as f64 + now.tv_nsec as f64 / 1e9,
            boot: boot.trim().to_owned(),
            disk,
            discarded,
            counters: if self.counts { Some(self.counters()?) } else { None },
        })
    }
}

fn forbidden(device: &Device) -> Option<Reason> {
    let dir = Path::new(switch::DIR);
    switch::forbidden(dir, &Sysfs::default(), &device.name, device.devno)
}

/// What dsmd says of a device's discards.
fn discards(name: &str) -> Result<DiscardInfo> {
    let info: Info =
        ask_soon(name, Request::Info).with_context(|| format!("{name}: nothing would be discarded"))?;
    info.discard.with_context(|| {
        format!("{name}: nothing would be discarded: set discard = true in its file in /etc/dsm first")
    })
}

/// Whether dsmd discards, or would if there were no trial.
fn check_discards(device: &Device) -> Result<()> {
    let name = &device.name;
    let discard = discards(name)?;
    // What dsmd may not have looked at yet.
    if let Some(why) = forbidden(device) {
        bail!("{name}: {why}");
    }
    match &discard.off {
        Some(why) => bail!("{name}: nothing is discarded: {why}"),
        _ if discard.mode == Mode::Audit && !discard.audit.passed => bail!(
            "{name}: nothing is discarded before the audit has passed: {}",
            discard.audit.progress()
        ),
        None if discard.mode == Mode::On || discard.withheld().is_some() => Ok(()),
        _ => bail!("{name}: discard is not on: `dsmctl set {name} discard on` first"),
    }
}

fn start(a: &TrialStart) -> Result<()> {
    let name = &a.of.name;
    let device = Device::open(name)?;
    let store = Store::of(&a.of.state_dir, name);
    let _lock = store.lock()?;
    // One that cannot be read is set aside.
    let before = store.load().ok().flatten();
    if before.is_some_and(|state| state.is_unfinished()) {
        bail!("{name}: there is a trial that is not over: `dsmctl trial stop {name}` first");
    }
    let switch = match a.switch {
        Switched::Discard => {
            check_discards(&device)?;
            // Not off: the audit goes on, and windows, so that a period that is on begins at once.
            let [on, off] = [Mode::On, Mode::Watch].map(|m| m.to_string());
            let feature = DISCARD.to_owned();
            TrialSwitch { feature, on, off }
        }
        Switched::Streams => {
            let table = device.table_line()?;
            let on = table.feature("policy").unwrap_or_default().to_owned();
            if on == "none" {
                bail!("{name}: the policy is none, so that there is nothing to switch off");
            }
            let (feature, off) = ("policy".to_owned(), "none".to_owned());
            TrialSwitch { feature, on, off }
        }
    };
    let size = device.sectors * 512;
    let plan = TrialPlan {
        device: device.name.clone(),
        switch,
        washout: a.washout.unwrap_or(Amount::Bytes(WASHOUT * size)),
        measure: a.measure.unwrap_or(Amount::Bytes(size)),
        pairs: a.pairs.into(),
        seed: a.seed.unwrap_or_else(|| fastrand::u64(..)),
        counters: a.counters.clone(),
    };
    let mut bench = Live::open(&plan, true)?;
    let no_counters = match bench.counters() {
        Ok(_) => None,
        // A command of the user's that does not work is an error of theirs.
        Err(e) if a.counters.is_some() => return Err(e),
        Err(e) => Some(format!("{e:#}")),
    };
    bench.counts = no_counters.is_none();
    let mut state = TrialState::new(plan, bench.machine()?, bench.identity()?, no_counters);
    step(&mut state, &mut bench)?;
    store.set_aside()?;
    store.save(&state)?;
    say(&state);
    eprintln!("dsmctl: `systemctl enable --now dsm-trial@{name}.timer` takes its samples");
    Ok(())
}

fn go_on(a: &TrialOf) -> Result<()> {
    let store = Store::of(&a.state_dir, &a.name);
    let _lock = store.lock()?;
    let before = load(a, &store)?;
    let mut state = before.clone();
    if !state.is_unfinished() {
        return Ok(());
    }
    let mut bench = Live::open(&state.plan, state.no_counters.is_none())?;
    step(&mut state, &mut bench)?;
    if state.ended.is_some() && bench.discards() {
        // What has ended it is for good, and this is not.
        let _ = bench.switch(true);
    }
    store.save(&state)?;
    for why in state.again.iter().skip(before.again.len()) {
        eprintln!("dsmctl: {why}; it begins over");
    }
    let place = |s: &TrialState| {
        s.current
            .as_ref()
            .map(|c| (s.periods.len(), c.measured.is_some()))
    };
    if place(&state) != place(&before) {
        say(&state);
    }
    Ok(())
}

fn load(a: &TrialOf, store: &Store) -> Result<TrialState> {
    let found = store.load()?;
    found.with_context(|| format!("{}: no trial was begun", a.name))
}

fn say(state: &TrialState) {
    let stage = Report::of(state, Duration::ZERO).stage();
    eprintln!("dsmctl: {}: {stage}", state.plan.device);
}

/// Leaves the switch on, as it was before the trial, unless that is somebody else's affair by now.
fn stop(a: &TrialOf) -> Result<()> {
    let store = Store::of(&a.state_dir, &a.name);
    let _lock = store.lock()?;
    let mut state = load(a, &store)?;
    if !state.is_unfinished() {
        bail!("{}: the trial is over", a.name);
    }
    // Of a device that is gone, or without dsmd, nothing is withheld.
    if let Ok(mut bench) = Live::open(&state.plan, false) {
        let set = state.current.as_ref().map(|c| c.on);
        if bench.discards() {
            let _ = bench.switch(true);
        } else if bench.identity()? == state.drive && bench.overruled(set)?.is_none() {
            bench.switch(true)?;
        }
    }
    step::end(&mut state, "it was stopped");
    store.save(&state)
}

/// Whether a trial of a device is not over, which a probe would disturb.
pub(crate) fn is_at_work(name: &str) -> bool {
    let store = Store::of(Path::new(args::TRIALS), name);
    let found = store.load().ok().flatten();
    found.is_some_and(|state| state.is_unfinished())
}

fn report(a: &TrialReport, out: Output) -> Result<()> {
    let store = Store::of(&a.of.state_dir, &a.of.name);
    let state = load(&a.of, &store)?;
    let report = Report::of(&state, store.age());
    if let Some(file) = &a.picture {
        fs::write(file, report.picture()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    crate::print(out, &report, || report.text())
}

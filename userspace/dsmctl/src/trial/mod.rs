// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl trial`: on a server at work, discards or streams are switched on and off in periods
//! of random order, and the drive's own counters say what they save.
//!
//! Periods come in pairs, one on and one off.  After each switch the drive still holds what
//! it was given before; what it writes until then (the washout) is not counted.  The
//! saving is estimated from the differences within the pairs ([`estimate`]), so that a load
//! that drifts from day to day does not count.

pub mod estimate;
pub mod report;
pub mod run;
pub mod state;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use rustix::time::{clock_gettime, ClockId};

use crate::cli::{
    self as args, Output, Switched, TrialCommand, TrialOf, TrialReport, TrialResume, TrialStart,
};
use crate::refused;
use dm::device::{Device, Target};
use dm::diskstat::{self, DiskStat};
use dm::ioctl::Dm;
use dm::mode::Mode;
use dm::sysfs::Sysfs;
use drive::counters;
use drive::media;
use drive::switch;
use proto::control::{self, Info, Request};
use proto::device::TrialView;
use proto::drive::Counters;
use proto::reason::ReasonKind;
use proto::runner::{self, Who};
use report::Report;
use run::{Bench, Replaced, Step};
use runtime::wake::Signals;
use state::{Amount, Machine, Store, Switch, TrialPlan, TrialSample, TrialState, BY_SIZE};

/// In sizes of the device.  After two a live drive below a real database has still free what
/// was discarded before, and too little is found: see tests/bench/live/trial.
const WASHOUT: u64 = 4;
/// How long `stop` waits for the process that it ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Who listens and does not answer within this is no dsmd.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The exit status when a trial has ended for good before it was over, so that its unit
/// does not begin again.
const ENDED: u8 = 3;
const DISCARD: &str = "discard";

/// The exit status.
pub(crate) fn trial(command: &TrialCommand, out: Output) -> Result<u8> {
    match command {
        TrialCommand::Start(a) => start(a, out),
        TrialCommand::Resume(a) => resume(a, out),
        TrialCommand::Stop(a) => stop(a).map(|()| 0),
        TrialCommand::Report(a) => report(a, out).map(|()| 0),
    }
}

/// Where marks and locks are.
fn dir() -> &'static Path {
    Path::new(switch::DIR)
}

/// By device: those that have not been stopped.  Those that cannot be read are no matter of
/// this.
pub(crate) fn views(files: &Path, locks: &Path) -> Vec<(String, TrialView)> {
    let unfinished = |s: &TrialState| s.is_unfinished() && s.switched;
    let view = |s: TrialState| {
        let (name, n) = (s.plan.device.clone(), s.periods.len());
        let view = TrialView {
            period: n + 1,
            periods: 2 * s.plan.pairs,
            on: s.plan.is_on(n),
            runner: runner::trial(locks, &name),
            feature: s.plan.switch.feature,
        };
        (name, view)
    };
    let all = Store::all(files).into_iter();
    all.filter(unfinished).map(view).collect()
}

fn store(a: &TrialOf) -> Store {
    Store::of(&a.state_dir, &a.name)
}

/// A device, and the drive below it.
struct Live {
    device: Device,
    drive: String,
    switch: Switch,
    command: Option<String>,
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
    fn open(name: &str, switch: Switch, command: Option<String>) -> Result<Self> {
        let (device, drive) = find(name)?;
        Ok(Self {
            device,
            drive,
            switch,
            command,
            counts: true,
        })
    }

    /// An attribute of the drive in sysfs.
    fn attribute(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(Path::new("/sys/block").join(&self.drive).join(name)).ok()?;
        Some(text.trim().to_owned())
    }

    fn first_of(&self, names: &[&str]) -> String {
        names.iter().find_map(|n| self.attribute(n)).unwrap_or_default()
    }

    /// What another drive would not have.  A drive that is gone, which may come back, has
    /// nothing.
    fn identity(&self) -> Result<String> {
        let sysfs = Sysfs::default();
        let drive = sysfs.all().into_iter().find(|d| sysfs.name(*d) == self.drive);
        let found = drive.and_then(|d| Some((d, sysfs.text(d, "size")?)));
        let (drive, size) = found.with_context(|| format!("{} is gone", self.drive))?;
        Ok(drive::identity::of(&sysfs, drive).unwrap_or_else(|| format!("{BY_SIZE}{size}")))
    }

    fn counters(&self) -> Result<Counters> {
        let found = match &self.command {
            Some(command) => counters::of_command(command),
            None => counters::of_drive(&Path::new("/dev").join(&self.drive)),
        };
        found.with_context(|| format!("{} does not report what its flash writes", self.drive))
    }

    fn discards(&self) -> bool {
        self.switch.feature == DISCARD
    }

    fn machine(&self) -> Result<Machine> {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let module = Dm::open()?.target_version("dsm")?.unwrap_or_default();
        Ok(Machine {
            model: self.first_of(&["device/model"]),
            firmware: self.first_of(&["device/firmware_rev", "device/rev"]),
            bytes: self
                .attribute("size")
                .and_then(|s| s.parse::<u64>().ok())
                .unwrap_or_default()
                * 512,
            kernel: kernel.trim().to_owned(),
            module: module.map(|n| n.to_string()).join("."),
            features: self.device.table_line()?.features,
        })
    }
}

impl Bench for Live {
    fn switch(&mut self, on: bool) -> Result<()> {
        let value = if on { &self.switch.on } else { &self.switch.off };
        set(&self.device, &self.switch.feature, value)
    }

    fn leave_off(&mut self) -> Result<()> {
        set(&self.device, DISCARD, Mode::Off.name())
    }

    fn is_on(&mut self) -> Result<Option<bool>> {
        let table = self.device.table_line()?;
        let value = table.feature(&self.switch.feature);
        let so = |wanted: &str| value == Some(wanted);
        Ok(so(&self.switch.on)
            .then_some(true)
            .or(so(&self.switch.off).then_some(false)))
    }

    fn barred(&mut self) -> Result<Option<String>> {
        if !self.discards() {
            return Ok(None);
        }
        let why = switch::forbidden(dir(), &Sysfs::default(), &self.device.name, self.device.devno);
        Ok(why.map(|why| why.text))
    }

    fn why_idle(&mut self) -> String {
        match served(&self.device.name) {
            Ok(info) => match info.discard {
                Some(d) if d.waiting > 0 => format!("dsmd waits for {} more checkpoints", d.waiting),
                Some(d) => d.off.map_or_else(
                    || "dsmd follows the checkpoints, which freed nothing that could be discarded".to_owned(),
                    |why| why.text,
                ),
                None => "dsmd has no discards to make".to_owned(),
            },
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
        Ok(TrialSample {
            at: now.tv_sec as f64 + now.tv_nsec as f64 / 1e9,
            boot: boot()?,
            disk,
            discarded,
            counters: if self.counts { Some(self.counters()?) } else { None },
        })
    }
}

fn boot() -> Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

/// What the dsmd of a device says of itself.
fn served(name: &str) -> Result<Info> {
    control::ask_within(TIMEOUT, &args::run_dir(), name, Request::Info)
}

/// Whether dsmd discards, or would if the switch were on.
fn check_discards(name: &str) -> Result<()> {
    let info = served(name).with_context(|| format!("{name}: nothing would be discarded"))?;
    let Some(discard) = info.discard else {
        bail!("{name}: nothing would be discarded: set discard = true in dsmd's configuration first");
    };
    match discard.off {
        Some(why) if !matches!(why.kind, ReasonKind::SwitchedOff | ReasonKind::Trial) => {
            bail!("{name}: nothing is discarded: {why}")
        }
        _ if discard.mode == Mode::Audit && !discard.audit.passed => bail!(
            "{name}: nothing is discarded before the audit has passed: {}",
            discard.audit.progress()
        ),
        _ => Ok(()),
    }
}

fn start(a: &TrialStart, out: Output) -> Result<u8> {
    let name = &a.of.name;
    let device = Device::open(name)?;
    let store = store(&a.of);
    if a.switch == Switched::Discard {
        // First: dsmd leaves the switch alone while the lock is held.
        check_discards(name)?;
    }
    let _lock = runner::lock(dir(), &device.name, Who::Trial)?;
    let mut unfinished = match store.exists() {
        true => store.load().ok().filter(TrialState::is_unfinished),
        false => None,
    };
    if unfinished.is_some() && !a.restart {
        bail!("{name}: there is a trial that is not over: go on with `dsmctl trial resume {name}`, or give --restart");
    }
    let table = device.table_line()?;
    let feature = |name: &str| table.feature(name).unwrap_or_default().to_owned();
    let switch = match a.switch {
        Switched::Discard => {
            // Not off: the audit goes on, and windows, so that a period that is on begins at once.
            let [on, off] = [Mode::On, Mode::Watch].map(|m| m.to_string());
            let feature = DISCARD.to_owned();
            Switch { feature, on, off }
        }
        Switched::Streams => {
            // The process that ran one may have been killed, and have left none.
            let left = unfinished
                .as_ref()
                .filter(|old| old.switched)
                .map(|old| &old.plan.switch);
            let on = match left.filter(|old| old.feature == "policy" && old.off == feature("policy")) {
                Some(old) => old.on.clone(),
                None => feature("policy"),
            };
            if on == "none" {
                bail!("{name}: the policy is none, so that there is nothing to switch off");
            }
            let (feature, off) = ("policy".to_owned(), "none".to_owned());
            Switch { feature, on, off }
        }
    };
    let size = device.sectors * 512;
    let plan = TrialPlan {
        device: device.name.clone(),
        switch: switch.clone(),
        washout: a.washout.unwrap_or(Amount::Bytes(WASHOUT * size)),
        measure: a.measure.unwrap_or(Amount::Bytes(size)),
        pairs: a.pairs.into(),
        seed: a.seed.unwrap_or_else(|| fastrand::u64(..)),
        counters: a.counters.clone(),
    };
    let mut bench = Live::open(name, switch, a.counters.clone())?;
    let no_counters = match bench.counters() {
        Ok(_) => None,
        // A command of the user's that does not work is an error of theirs.
        Err(e) if a.counters.is_some() => return Err(e),
        Err(e) => Some(format!("{e:#}")),
    };
    bench.counts = no_counters.is_none();
    let identity = bench.identity()?;
    if let Some(old) = &mut unfinished {
        run::take_up(old, &boot()?);
        let mut left = Live::open(name, old.plan.switch.clone(), None)?;
        run::restore(old, &mut left)?;
        store.save(old)?;
    }
    check_on(&mut bench)?;
    // From here on nothing is refused.
    if store.exists() {
        store.set_aside()?;
    }
    let mut state = TrialState::new(plan, bench.machine()?, identity, no_counters);
    go_on(&mut state, &store, &mut bench, out)
}

/// A trial begins, and ends, with its switch on.
fn check_on(bench: &mut Live) -> Result<()> {
    let (name, feature) = (bench.device.name.clone(), bench.switch.feature.clone());
    if let Some(why) = bench.barred()? {
        bail!("{name}: {why}");
    }
    if bench.is_on()? != Some(true) {
        let on = &bench.switch.on;
        bail!("{name}: {feature} is not {on}: `dsmctl set {name} {feature} {on}` first");
    }
    Ok(())
}

fn resume(a: &TrialResume, out: Output) -> Result<u8> {
    let name = &a.of.name;
    let store = store(&a.of);
    if !store.exists() {
        bail!("{name}: no trial was begun");
    }
    let begun = store.load()?;
    let goes_on = !begun.is_over() && begun.ended.is_none() && !(a.at_boot && begun.stopped);
    if goes_on && begun.plan.switch.feature == DISCARD {
        // First: dsmd leaves the switch alone while the lock is held, also at boot.
        check_discards(name)?;
    }
    let _lock = runner::lock(dir(), name, Who::Trial)?;
    let mut state = store.load()?;
    if state.is_over() {
        eprintln!("dsmctl: note: {name}: the trial is over; nothing is changed");
        return print(&state, out).map(|()| 0);
    }
    if a.at_boot && (state.stopped || state.ended.is_some()) {
        let how = if state.stopped { "was stopped" } else { "has ended" };
        eprintln!("dsmctl: note: {name}: the trial {how}; nothing is changed");
        return Ok(0);
    }
    if let Some(why) = &state.ended {
        eprintln!(
            "dsmctl: {name}: the trial has ended for good: {why}; nothing was changed. \
             `dsmctl trial start {name}` begins another one, once the reason is gone"
        );
        return Ok(ENDED);
    }
    let mut bench = Live::open(
        &state.plan.device,
        state.plan.switch.clone(),
        state.plan.counters.clone(),
    )?;
    bench.counts = state.no_counters.is_none();
    run::take_up(&mut state, &boot()?);
    if !state.switched && bench.barred()?.is_none() {
        check_on(&mut bench)?;
    }
    run::interrupt(&mut state);
    go_on(&mut state, &store, &mut bench, out)
}

/// When the trial looks again where it is: after a twentieth of the shorter of washout and
/// measurement, by the rate at which the period in progress has been written so far.
fn poll(state: &TrialState) -> Duration {
    let rate = state.current.as_ref().map_or(f64::NAN, |c| {
        let bytes = c.last.disk.written_bytes - c.since.disk.written_bytes;
        bytes as f64 / (c.last.at - c.since.at)
    });
    let seconds = |amount| match amount {
        Amount::Seconds(s) => s / 20.0,
        Amount::Bytes(_) if rate.is_nan() => 1.0,
        Amount::Bytes(n) => n as f64 / rate / 20.0,
    };
    let shortest = seconds(state.plan.washout).min(seconds(state.plan.measure));
    Duration::from_secs_f64(shortest.clamp(0.1, 10.0))
}

/// However it ends, the switch is left as it was, or as somebody else wants it.
fn go_on(state: &mut TrialState, store: &Store, bench: &mut Live, out: Output) -> Result<u8> {
    state.switched = true;
    state.stopped = false;
    store.save(state)?;
    let ended = until_over(state, store, bench);
    let restored = run::restore(state, bench);
    run::interrupt(state);
    let saved = store.save(state);
    restored?;
    match ended {
        // Its unit would try again.
        Err(e) if e.is::<Replaced>() => {
            eprintln!("dsmctl: {e:#}");
            return Ok(ENDED);
        }
        ended => ended?,
    }
    saved?;
    print(state, out)?;
    Ok(if state.ended.is_some() { ENDED } else { 0 })
}

fn print(state: &TrialState, out: Output) -> Result<()> {
    let report = Report::of(state, None);
    crate::print(out, &report, || report.text())
}

fn set(device: &Device, feature: &str, value: &str) -> Result<()> {
    let said = device.message(&format!("set {feature} {value}"));
    said.map(drop).map_err(|e| refused(&device.name, e))
}

/// Or until a signal comes.
fn until_over(state: &mut TrialState, store: &Store, bench: &mut Live) -> Result<()> {
    let signals = Signals::new()?;
    let mut said = String::new();
    loop {
        let mut pause = poll(state);
        match run::step(state, bench) {
            Ok(Step::Wait) => said.clear(),
            Ok(Step::Border) => {
                store.save(state)?;
                said.clear();
                say(state);
                if state.current.is_none() {
                    pause = Duration::ZERO;
                }
            }
            Ok(Step::Again(why)) => {
                store.save(state)?;
                eprintln!("dsmctl: {why}; it begins over");
                pause = Duration::ZERO;
            }
            Ok(Step::Over | Step::Ended) => return Ok(()),
            Err(e) if e.is::<Replaced>() => return Err(e),
            // The device or the drive may come back.
            Err(e) if format!("{e:#}") != said => {
                said = format!("{e:#}");
                eprintln!("dsmctl: {said}; the trial waits");
            }
            Err(_) => {}
        }
        if signals.wait(pause) {
            return Ok(());
        }
    }
}

fn say(state: &TrialState) {
    let report = Report::of(state, None);
    // Between two periods nothing is in progress.
    if let (Some(p), Some(_)) = (&report.progress, &state.current) {
        eprintln!(
            "dsmctl: period {} of {}: {} {}, {}",
            p.period,
            2 * report.pairs,
            report.switch.feature,
            if p.on {
                &report.switch.on
            } else {
                &report.switch.off
            },
            if p.washed_out { "measured" } else { "washout" }
        );
    }
}

fn stop(a: &TrialOf) -> Result<()> {
    let (name, store) = (&a.name, store(a));
    let ran = runner::stop(dir(), name, STOP_TIMEOUT)?;
    if !store.exists() {
        bail!("{name}: no trial was begun");
    }
    // Whose process was killed may have left the switch off.
    let _lock = runner::lock(dir(), name, Who::Trial)?;
    let mut state = store.load()?;
    if !state.is_unfinished() || (state.stopped && !state.switched) {
        return match ran {
            true => Ok(()),
            false => bail!("{name}: no process runs a trial"),
        };
    }
    run::take_up(&mut state, &boot()?);
    if state.switched {
        let mut bench = Live::open(&state.plan.device, state.plan.switch.clone(), None)?;
        run::restore(&mut state, &mut bench)?;
    }
    run::interrupt(&mut state);
    state.stopped = true;
    store.save(&state)
}

fn report(a: &TrialReport, out: Output) -> Result<()> {
    let store = store(&a.of);
    if !store.exists() {
        bail!("{}: no trial was begun", a.of.name);
    }
    let mut state = store.load()?;
    if let Some(current) = &mut state.current {
        // The file has the last border; a look costs nothing.
        let bench = Live::open(&state.plan.device, state.plan.switch.clone(), None);
        if let Ok(now) = bench.and_then(|mut bench| {
            bench.counts = false;
            bench.sample()
        }) {
            if now.boot == current.last.boot && now.disk.written_bytes >= current.last.disk.written_bytes {
                current.last = now;
            }
        }
    }
    let report = Report::of(&state, runner::trial(dir(), &state.plan.device));
    if let Some(file) = &a.picture {
        fs::write(file, report.picture()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    crate::print(out, &report, || report.text())
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl trial`: a trial on a device of this machine.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use rustix::process::{kill_process, Pid, Signal};

use crate::refused;
use ::trial::report::Report;
use ::trial::run::{self, Bench, Replaced, Step};
use ::trial::state::{Amount, Machine, Plan, Sample, State, Store, Switch};
use agent::control;
use base::wake::Signals;
use drive::counters::Counters;
use drive::diskstat::DiskStat;
use drive::media;
use dsmctl::cli::{self as args, Output, Switched, TrialCommand, TrialOf, TrialReport, TrialStart};
use kernel::device::{Device, Target};
use kernel::dm::Dm;
use kernel::sysfs::Sysfs;

/// In sizes of the device.  After two a live drive below a real database has still free what
/// was discarded before, and too little is found: see tests/bench/live/trial.
const WASHOUT: u64 = 4;
/// How long `stop` waits for the process that it ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn trial(command: &TrialCommand, out: Output) -> Result<()> {
    match command {
        TrialCommand::Start(a) => start(a, out),
        TrialCommand::Resume(a) => resume(a, out),
        TrialCommand::Stop(a) => stop(a),
        TrialCommand::Report(a) => report(a, out),
    }
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
    let drive = media::drive_of(&Sysfs::default(), device.devno);
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
        let found = self.first_of(&["wwid", "device/wwid", "device/serial", "size"]);
        match found.is_empty() {
            true => bail!("{} is gone", self.drive),
            false => Ok(found),
        }
    }

    fn counters(&self) -> Result<Counters> {
        let found = match &self.command {
            Some(command) => Counters::of_command(command),
            None => Counters::of_drive(&Path::new("/dev").join(&self.drive)),
        };
        found.with_context(|| format!("{} does not report what its flash writes", self.drive))
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

    fn is_on(&mut self) -> Result<Option<bool>> {
        let table = self.device.table_line()?;
        let value = table.feature(&self.switch.feature);
        let so = |wanted: &str| value == Some(wanted);
        Ok(so(&self.switch.on)
            .then_some(true)
            .or(so(&self.switch.off).then_some(false)))
    }

    fn drive(&mut self) -> Result<String> {
        // It may have been made again, with another number or on another drive.
        (self.device, self.drive) = find(&self.device.name)?;
        self.identity()
    }

    fn sample(&mut self) -> Result<Sample> {
        let disk = DiskStat::of(&Sysfs::default(), self.device.devno)
            .context("the device has no counters in sysfs")?;
        Ok(Sample {
            at: base::time::now().as_secs_f64(),
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")?
                .trim()
                .to_owned(),
            disk,
            counters: if self.counts { Some(self.counters()?) } else { None },
        })
    }
}

fn start(a: &TrialStart, out: Output) -> Result<()> {
    let name = &a.of.name;
    let device = Device::open(name)?;
    let store = store(&a.of);
    let _lock = store.lock()?;
    let unfinished = match store.exists() {
        true => store.load().ok().filter(|s| !s.is_over()),
        false => None,
    };
    if unfinished.is_some() && !a.restart {
        bail!("{name}: there is a trial that is not over: go on with `dsmctl trial resume {name}`, or give --restart");
    }
    let table = device.table_line()?;
    // The process that ran it may have been killed, and have left the switch as it was then.
    let feature = |name: &str| match &unfinished {
        Some(old) if old.plan.switch.feature == name => old.before.clone(),
        _ => table.feature(name).unwrap_or_default().to_owned(),
    };
    let (switch, before) = match a.switch {
        Switched::Discard => {
            if !control::serves(&args::run_dir(), &device.name) {
                bail!("{name}: no dsmd serves the device, so that nothing would be discarded");
            }
            let before = feature("discard");
            if before != "on" {
                bail!("{name}: discards are {before}; set discard = true in dsmd's configuration first");
            }
            let [feature, on, off] = ["discard", "on", "off"].map(str::to_owned);
            (Switch { feature, on, off }, before)
        }
        Switched::Streams => {
            let before = feature("policy");
            if before == "none" {
                bail!("{name}: the policy is none, so that there is nothing to switch off");
            }
            let (feature, off) = ("policy".to_owned(), "none".to_owned());
            let on = before.clone();
            (Switch { feature, on, off }, before)
        }
    };
    let size = device.sectors * 512;
    let plan = Plan {
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
    // From here on nothing is refused.
    if let Some(old) = &unfinished {
        restore(old, &device)?;
    }
    if store.exists() {
        store.set_aside()?;
    }
    let mut state = State::new(plan, bench.machine()?, before, identity, no_counters);
    store.save(&state)?;
    go_on(&mut state, &store, &mut bench, out)
}

fn resume(a: &TrialOf, out: Output) -> Result<()> {
    let store = store(a);
    if !store.exists() {
        bail!("{}: no trial was begun", a.name);
    }
    let _lock = store.lock()?;
    let mut state = store.load()?;
    let mut bench = Live::open(
        &state.plan.device,
        state.plan.switch.clone(),
        state.plan.counters.clone(),
    )?;
    bench.counts = state.no_counters.is_none();
    run::resume(&mut state);
    go_on(&mut state, &store, &mut bench, out)
}

/// When the trial looks again where it is: after a twentieth of the shorter of washout and
/// measurement, by the rate at which the period in progress has been written so far.
fn poll(state: &State) -> Duration {
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

/// However it ends, the device is set to what it was.
fn go_on(state: &mut State, store: &Store, bench: &mut Live, out: Output) -> Result<()> {
    let ended = until_over(state, store, bench);
    let restored = restore(state, &bench.device);
    let saved = store.save(state);
    restored?;
    ended?;
    saved?;
    let report = Report::of(state);
    crate::print(out, &report, || report.text())
}

fn restore(state: &State, device: &Device) -> Result<()> {
    set(device, &state.plan.switch.feature, &state.before)
}

fn set(device: &Device, feature: &str, value: &str) -> Result<()> {
    let said = device.message(&format!("set {feature} {value}"));
    said.map(drop).map_err(|e| refused(&device.name, e))
}

/// Or until a signal comes.
fn until_over(state: &mut State, store: &Store, bench: &mut Live) -> Result<()> {
    let signals = Signals::new()?;
    let mut said = String::new();
    loop {
        match run::step(state, bench) {
            Ok(Step::Wait) => said.clear(),
            Ok(Step::Border) => {
                store.save(state)?;
                said.clear();
                say(state);
            }
            Ok(Step::Again(why)) => {
                store.save(state)?;
                eprintln!("dsmctl: {why}; it begins over");
            }
            Ok(Step::Over) => return Ok(()),
            Err(e) if e.is::<Replaced>() => return Err(e),
            // The device or the drive may come back.
            Err(e) if format!("{e:#}") != said => {
                said = format!("{e:#}");
                eprintln!("dsmctl: {said}; the trial waits");
            }
            Err(_) => {}
        }
        if signals.wait(poll(state)) {
            run::resume(state);
            return Ok(());
        }
    }
}

fn say(state: &State) {
    let report = Report::of(state);
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
    let store = store(a);
    let Some(pid) = store.runner().and_then(Pid::from_raw) else {
        return stop_killed(a, &store);
    };
    kill_process(pid, Signal::TERM).context("cannot end the process that runs the trial")?;
    let step = Duration::from_millis(100);
    for _ in 0..STOP_TIMEOUT.as_millis() / step.as_millis() {
        if store.runner().is_none() {
            return Ok(());
        }
        std::thread::sleep(step);
    }
    bail!(
        "{}: the process {pid:?} was asked to end, and has not yet",
        a.name
    )
}

/// The process that ran it may have been killed, and have left the switch as it was then.
///
/// Nothing is locked where nothing is to be done: a trial may be about to start.
fn stop_killed(a: &TrialOf, store: &Store) -> Result<()> {
    left_switched(a, store)?;
    let _lock = store.lock()?;
    let (mut state, device) = left_switched(a, store)?;
    restore(&state, &device)?;
    run::resume(&mut state);
    store.save(&state)
}

/// The trial that has left its switch other than it was.
fn left_switched(a: &TrialOf, store: &Store) -> Result<(State, Device)> {
    if !store.exists() {
        bail!("{}: no trial was begun", a.name);
    }
    let state = store.load()?;
    let device = Device::open(&state.plan.device)?;
    let table = device.table_line()?;
    if state.is_over() || table.feature(&state.plan.switch.feature) == Some(&state.before) {
        bail!("{}: no process runs a trial", a.name);
    }
    Ok((state, device))
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
    let report = Report::of(&state);
    if let Some(file) = &a.picture {
        fs::write(file, report.picture()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    crate::print(out, &report, || report.text())
}

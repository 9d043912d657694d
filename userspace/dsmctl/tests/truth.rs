// SPDX-License-Identifier: GPL-2.0-or-later
//! Trials on a flash drive whose true saving is known: from long runs with the switch on
//! and off all the time.

use std::time::Duration;

use anyhow::Result;
use dm::diskstat::DiskStat;
use dsmctl::trial::estimate::{outcome, Saving};
use dsmctl::trial::state::{Amount, Machine, TrialPlan, TrialSample, TrialState, TrialSwitch};
use dsmctl::trial::step::{step, Bench};
use proto::drive::{Counters, Source};
use simulate::flash::{Config, Destination, Flash, Gc, PAGE};

const PAGES: u32 = 8192;
/// Of them the database uses so many; an update goes to a free one and frees another.
fn live() -> u32 {
    from_environment("TRIAL_LIVE", 7168) as u32
}

/// In sizes of the drive: enough for a load that is the same everywhere.
fn washout() -> u64 {
    from_environment("TRIAL_WASHOUT", 4)
}

/// A database on a drive, which are at work while nobody looks.
struct Lab {
    flash: Flash,
    random: fastrand::Rng,
    live: Vec<u32>,
    free: Vec<u32>,
    on: bool,
    /// Whether the switch does anything.
    connected: bool,
    seconds: f64,
    written: u64,
    /// Pages a second; it drifts.
    rate: f64,
    /// What is added to what is read.
    fault: fn(&mut TrialSample),
}

impl Lab {
    fn new(seed: u64, connected: bool) -> Self {
        let mut lab = Self::on_a_full_drive(seed, connected);
        lab.work(4 * u64::from(PAGES));
        lab
    }

    fn on_a_full_drive(seed: u64, connected: bool) -> Self {
        let config = Config {
            pages: PAGES.into(),
            unit: 64,
            op: 0.12,
            streams: 1,
            gc: Gc::Greedy,
            destination: Destination::Shared,
            keep_free: 0.0,
        };
        let mut flash = Flash::new(&config).unwrap();
        for page in 0..PAGES {
            flash.write(page, 0);
        }
        Self {
            flash,
            random: fastrand::Rng::with_seed(seed),
            live: (0..live()).collect(),
            free: (live()..PAGES).collect(),
            on: true,
            connected,
            seconds: 1e9,
            written: 0,
            rate: 1000.0,
            fault: |_| {},
        }
    }

    fn work(&mut self, pages: u64) {
        for _ in 0..pages {
            let (a, b) = (
                self.random.usize(..self.live.len()),
                self.random.usize(..self.free.len()),
            );
            self.flash.write(self.free[b], 0);
            std::mem::swap(&mut self.live[a], &mut self.free[b]);
            if self.on && self.connected {
                self.flash.trim(self.free[b]);
            }
        }
        self.written += pages;
        self.seconds += pages as f64 / self.rate;
    }

    /// Measured while MEASURE sizes of the drive are written, behind WARM of them.
    fn waf(&mut self, on: bool, warm: u64, measure: u64) -> f64 {
        self.on = on;
        self.work(warm * u64::from(PAGES));
        let start = self.flash.counts().clone();
        self.work(measure * u64::from(PAGES));
        self.flash.counts().waf_since(&start)
    }
}

impl Bench for Lab {
    fn switch(&mut self, on: bool) -> Result<()> {
        self.on = on;
        Ok(())
    }

    fn overruled(&mut self, _: Option<bool>) -> Result<Option<String>> {
        Ok(None)
    }

    fn why_idle(&mut self) -> String {
        unreachable!("it counts no discards")
    }

    fn drive(&mut self) -> Result<String> {
        Ok("drive".to_owned())
    }

    fn sample(&mut self) -> Result<TrialSample> {
        let counts = self.flash.counts();
        let bytes = |pages: u64| u128::from(pages * PAGE);
        let mut sample = TrialSample {
            at: self.seconds,
            boot: "1".into(),
            disk: DiskStat {
                writes: self.written,
                written_bytes: self.written * PAGE,
                write_ms: self.written / 10,
                ..DiskStat::default()
            },
            discarded: None,
            counters: Some(Counters {
                source: Source::Fdp,
                host: bytes(counts.host_pages()),
                media: bytes(counts.host_pages() + counts.gc_pages()),
                erased: None,
                unit: 1,
            }),
        };
        (self.fault)(&mut sample);
        Ok(sample)
    }
}

fn plan(seed: u64, pairs: usize) -> TrialState {
    let size = Amount::Bytes(u64::from(PAGES) * PAGE);
    let [feature, on, off] = ["discard", "on", "watch"].map(str::to_owned);
    let plan = TrialPlan {
        device: "d".into(),
        switch: TrialSwitch { feature, on, off },
        washout: Amount::Bytes(washout() * u64::from(PAGES) * PAGE),
        measure: size,
        pairs,
        seed,
        counters: None,
    };
    TrialState::new(plan, Machine::default(), "drive".into(), None)
}

/// After another sample.
fn over(state: &mut TrialState, lab: &mut Lab) -> bool {
    step(state, lab).unwrap();
    state.is_over()
}

/// A whole trial, whose load drifts.
fn run(state: &mut TrialState, lab: &mut Lab) {
    while !over(state, lab) {
        lab.rate *= 0.98 + 0.04 * lab.random.f64();
        lab.work(64);
    }
}

fn seeds() -> u64 {
    from_environment("TRIAL_SEEDS", 200)
}

/// 95 % of them, less twice the standard deviation: which intervals miss is chance.
fn enough() -> u64 {
    let n = seeds() as f64;
    (0.95 * n - 2.0 * (n * 0.95 * 0.05).sqrt()) as u64
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("it is a number"))
}

/// What is saved, of long runs
fn truth() -> f64 {
    let waf = |on| {
        (0..4)
            .map(|n| Lab::new(1000 + n, true).waf(on, 10, 100))
            .sum::<f64>()
    };
    let truth = 1.0 - waf(true) / waf(false);
    assert!(truth > 0.1, "{truth}");
    truth
}

#[test]
fn the_interval_holds_the_truth() {
    let truth = truth();
    let mut held = 0;
    for seed in 0..seeds() {
        let mut state = plan(seed, 6);
        run(&mut state, &mut Lab::new(seed, true));
        let found = outcome(&state).flash.unwrap();
        println!(
            "seed {seed}: true {truth:.4}, {:.4} in {:.4} to {:.4}",
            found.saved, found.low, found.high
        );
        assert!(found.is_significant(), "seed {seed}: {found:?}");
        held += u64::from((found.low..=found.high).contains(&truth));
    }
    println!("{held} of {} intervals hold {truth}", seeds());
    assert!(held >= enough(), "{held} of {} intervals hold {truth}", seeds());
}

#[test]
fn no_effect_is_said_where_there_is_none() {
    let mut silent = 0;
    for seed in 0..seeds() {
        let mut state = plan(seed, 6);
        run(&mut state, &mut Lab::new(seed, false));
        let found = outcome(&state).flash.unwrap();
        println!(
            "seed {seed}: {:.4} in {:.4} to {:.4}",
            found.saved, found.low, found.high
        );
        silent += u64::from(!found.is_significant());
    }
    println!("{silent} of {} say nothing", seeds());
    assert!(silent >= enough(), "{silent} of {} say nothing", seeds());
}

/// As tests/bench/drive/bench measures it, with three seeds and its own WARM and MEASURE: for
/// each arm the drive is filled and the database made again.
fn bench(seed: u64, connected: bool) -> Saving {
    let ratio = |seed| {
        let waf = |on| Lab::on_a_full_drive(2 * seed + u64::from(on), connected).waf(on, 2, 1);
        waf(true) / waf(false)
    };
    Saving::of(&[0, 1, 2].map(|n| ratio(10_000 + 3 * seed + n))).unwrap()
}

#[test]
fn the_interval_of_a_bench_holds_the_truth() {
    let truth = truth();
    let held = (0..seeds())
        .map(|seed| bench(seed, true))
        .inspect(|found| {
            println!(
                "true {truth:.4}, {:.4} in {:.4} to {:.4}",
                found.saved, found.low, found.high
            )
        })
        .filter(|found| (found.low..=found.high).contains(&truth))
        .count() as u64;
    println!("{held} of {} intervals of a bench hold {truth}", seeds());
    assert!(held >= enough(), "{held} of {} intervals hold {truth}", seeds());
}

#[test]
fn a_bench_says_no_effect_where_there_is_none() {
    let silent = (0..seeds())
        .filter(|&seed| !bench(seed, false).is_significant())
        .count() as u64;
    println!("{silent} of {} benches say nothing", seeds());
    assert!(silent >= enough(), "{silent} of {} say nothing", seeds());
}

/// What the state says after a trial in which one sample has this fault, in the first period's
/// washout.
fn with_fault(fault: fn(&mut TrialSample)) -> TrialState {
    let (mut state, mut lab) = (plan(1, 2), Lab::new(1, true));
    step(&mut state, &mut lab).unwrap();
    lab.work(64);
    step(&mut state, &mut lab).unwrap();
    lab.fault = fault;
    let _ = step(&mut state, &mut lab);
    lab.fault = |_| {};
    run(&mut state, &mut lab);
    state
}

#[test]
fn a_period_begins_over() {
    type Fault = (fn(&mut TrialSample), &'static str);
    let faults: [Fault; 4] = [
        (
            |s| s.counters.as_mut().unwrap().media -= 1 << 20,
            "a counter of the drive went back",
        ),
        (|s| s.boot = "2".into(), "the machine was restarted"),
        (|s| s.disk.written_bytes = 0, "the device was made again"),
        (|s| s.counters = None, "the drive's counters came or went"),
    ];
    for (fault, why) in faults {
        let state = with_fault(fault);
        assert_eq!(state.again[0], format!("period 1: {why}"));
        assert_eq!(state.periods.len(), 4);
    }
}

#[test]
fn a_counter_that_stands_still() {
    type Fault = (fn(&mut TrialSample), &'static str);
    let faults: [Fault; 3] = [
        (
            |s| s.counters.as_mut().unwrap().media = 7,
            "of flash, a write amplification of 0.0, and 0.5 to 100 is possible",
        ),
        (
            |s| s.counters.as_mut().unwrap().host /= 65_536,
            "bytes from hosts while this machine wrote",
        ),
        (
            |s| s.counters.as_mut().unwrap().unit = 1 << 30,
            "pair 1: the drive's counters moved by ",
        ),
    ];
    for (fault, why) in faults {
        let (mut state, mut lab) = (plan(1, 2), Lab::new(1, true));
        lab.fault = fault;
        run(&mut state, &mut lab);
        let found = outcome(&state);
        assert_eq!(found.flash, None);
        assert!(found.left_out[0].contains(why), "{found:?}");
        assert!(found.write_time.is_some());
    }
}

#[test]
fn a_load_ten_times_the_other_is_left_out() {
    let (mut state, mut lab) = (plan(1, 3), Lab::new(1, true));
    while !over(&mut state, &mut lab) {
        lab.rate = if state.periods.len() == 2 {
            10_000.0
        } else {
            1000.0
        };
        lab.work(64);
    }
    let found = outcome(&state);
    assert_eq!(
        found.left_out,
        ["pair 2: the load of one period was 10.0 times the other's"]
    );
    assert_eq!(found.flash.unwrap().pairs, 2);
}

#[test]
fn a_drive_without_counters_shows_latency() {
    let (mut state, mut lab) = (plan(1, 4), Lab::new(1, true));
    state.no_counters = Some("it has none".into());
    lab.fault = |s| s.counters = None;
    run(&mut state, &mut lab);
    let report = dsmctl::trial::report::Report::of(&state, Duration::ZERO);
    let text = report.text();
    let version = env!("CARGO_PKG_VERSION");
    let first = format!("0 bytes; Linux , dm-dsm {version} (target )\n");
    assert!(text.starts_with(&first), "{text}");
    assert!(text.contains("Flash writes: not known: it has none."), "{text}");
    assert!(
        text.contains("Mean time of a write: no significant effect"),
        "{text}"
    );
    assert!(report.picture().ends_with("</svg>\n"));
}

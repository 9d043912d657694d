// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::trial::report::Report;
use crate::trial::state::{Amount, Machine, TrialPlan, TrialSwitch, BY_SIZE};
use dm::diskstat::DiskStat;
use proto::control::TRIAL;
use std::time::Duration;

/// A device at work, without a drive.
struct Desk {
    on: bool,
    seconds: f64,
    written: u64,
    discarded: Option<u64>,
    boot: &'static str,
    /// Whether dsmd can be asked.
    answers: bool,
    /// Somebody has said so.
    overruled: Option<&'static str>,
    drive: &'static str,
    /// How the trial thinks that it has left the switch.
    set: Option<bool>,
}

impl Desk {
    fn new() -> Self {
        Self {
            on: true,
            seconds: 1e3,
            written: 1 << 30,
            discarded: Some(0),
            boot: "1",
            answers: true,
            overruled: None,
            drive: "drive",
            set: None,
        }
    }

    fn work(&mut self) {
        self.seconds += 1.0;
        self.written += 4096;
        if let Some(n) = self.discarded.as_mut().filter(|_| self.on) {
            *n += 8;
        }
    }

    /// The device is made anew, and its counters with it.
    fn restart(&mut self) {
        (self.boot, self.written, self.seconds) = ("2", 4096, 60.0);
        self.discarded = self.discarded.map(|_| 0);
    }
}

impl Bench for Desk {
    fn switch(&mut self, on: bool) -> Result<()> {
        anyhow::ensure!(self.answers, "dsmd is gone");
        self.on = on;
        Ok(())
    }

    fn overruled(&mut self, set: Option<bool>) -> Result<Option<String>> {
        self.set = set;
        Ok(self.overruled.map(str::to_owned))
    }

    fn why_idle(&mut self) -> String {
        "dsmd refuses".into()
    }

    fn drive(&mut self) -> Result<String> {
        Ok(self.drive.to_owned())
    }

    fn sample(&mut self) -> Result<TrialSample> {
        Ok(TrialSample {
            at: self.seconds,
            boot: self.boot.into(),
            disk: DiskStat {
                written_bytes: self.written,
                ..DiskStat::default()
            },
            discarded: self.discarded,
            counters: None,
        })
    }
}

fn trial() -> (TrialState, Desk) {
    let [feature, on, off] = ["discard", "on", "watch"].map(str::to_owned);
    let plan = TrialPlan {
        device: "d".into(),
        switch: TrialSwitch { feature, on, off },
        washout: Amount::Bytes(8192),
        measure: Amount::Seconds(3.0),
        pairs: 2,
        seed: 1,
        counters: None,
    };
    let state = TrialState::new(plan, Machine::default(), "drive".into(), None);
    (state, Desk::new())
}

/// A step by a process of its own.
fn tick(state: &mut TrialState, desk: &mut Desk) {
    *state = serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap();
    step(state, desk).unwrap();
}

fn run(state: &mut TrialState, desk: &mut Desk) {
    while state.is_unfinished() {
        tick(state, desk);
        desk.work();
    }
    assert_eq!(state.ended, None);
}

/// A trial in its first period of this kind, with something measured.
fn in_a_period(on: bool) -> (TrialState, Desk) {
    let (state, desk) = trial();
    until_measured(state, desk, on)
}

fn until_measured(mut state: TrialState, mut desk: Desk, on: bool) -> (TrialState, Desk) {
    let measured = |s: &TrialState| {
        let c = s.current.as_ref().filter(|c| c.on == on)?;
        c.measured.as_ref().filter(|seen| seen.seconds > 0.0)?;
        Some(())
    };
    while measured(&state).is_none() {
        desk.work();
        tick(&mut state, &mut desk);
    }
    assert_eq!(desk.on, on);
    (state, desk)
}

fn measured(state: &TrialState) -> f64 {
    let c = state.current.as_ref().unwrap();
    c.measured.as_ref().map_or(0.0, |seen| seen.seconds)
}

#[test]
fn it_leaves_on_what_it_has_switched() {
    let (mut state, mut desk) = trial();
    run(&mut state, &mut desk);
    assert_eq!(state.periods.iter().filter(|p| p.on).count(), 2);
    assert!(state.periods.iter().all(|p| p.seen.seconds >= 3.0));
    assert!(desk.on && state.again.is_empty() && state.missed.is_empty());
    // What is another's then is not touched.
    desk.on = false;
    tick(&mut state, &mut desk);
    assert!(!desk.on);
    // Nor is it over while dsmd has not heard of it.
    let (mut state, mut desk) = trial();
    while state.periods.len() < 3 {
        tick(&mut state, &mut desk);
        desk.work();
    }
    desk.answers = false;
    for _ in 0..20 {
        desk.work();
        let mut next = state.clone();
        assert!(step(&mut next, &mut desk).is_err());
    }
    desk.answers = true;
    run(&mut state, &mut desk);
    assert!(desk.on);
}

/// Nothing switches on again what was switched off.
#[test]
fn somebody_else_ends_it() {
    for on in [true, false] {
        let (mut state, mut desk) = in_a_period(on);
        desk.overruled = Some("by hand");
        desk.on = false;
        tick(&mut state, &mut desk);
        assert_eq!(desk.set, Some(on));
        let said = format!("period {}: by hand", state.periods.len() + 1);
        assert_eq!(state.ended.as_ref(), Some(&said));
        tick(&mut state, &mut desk);
        assert!(!desk.on);
        let text = Report::of(&state, Duration::ZERO).text();
        assert!(
            text.contains(&format!("ENDED before it was over: {said}\n")),
            "{text}"
        );
    }
}

/// Time in which nobody has looked is left out; nothing was discarded where it should not be.
#[test]
fn what_was_missed_is_left_out() {
    type Miss = fn(&mut Desk);
    let late: Miss = |desk| desk.seconds += TRIAL.as_secs_f64() + 1.0;
    for on in [true, false] {
        for (miss, why) in [
            (late, "no sample was taken for too long"),
            (Desk::restart, "the machine was restarted"),
            (|desk| desk.written = 0, "the device was made again"),
        ] {
            let (mut state, mut desk) = in_a_period(on);
            let (period, before) = (state.periods.len() + 1, measured(&state));
            miss(&mut desk);
            desk.work();
            tick(&mut state, &mut desk);
            assert_eq!(desk.set, Some(on).filter(|_| why.starts_with("no sample")));
            tick(&mut state, &mut desk);
            let why = format!("period {period}: {why}");
            assert_eq!((measured(&state), &state.missed), (before, &vec![why.clone()]));
            assert_eq!(desk.set, Some(on), "by the second of them it is known");
            run(&mut state, &mut desk);
            assert!(state.again.is_empty(), "{:?}", state.again);
            let text = Report::of(&state, Duration::ZERO).text();
            assert!(text.contains(&format!("left out: {why}\n")), "{text}");
        }
    }
}

/// dsmd discards again when a trial does not ask for long, and after a start.
#[test]
fn a_period_in_which_discards_were_made_is_spoiled() {
    let (mut state, mut desk) = in_a_period(false);
    let period = state.periods.len() + 1;
    *desk.discarded.as_mut().unwrap() += 8;
    desk.work();
    tick(&mut state, &mut desk);
    let again = |why| format!("period {period}: {why}");
    assert_eq!(state.again, [again("discards were made meanwhile")]);
    let c = state.current.clone().unwrap();
    assert_eq!((c.washout, c.measured), (Seen::default(), None));
    let (mut state, mut desk) = until_measured(state, desk, false);
    desk.restart();
    desk.discarded = Some(8);
    tick(&mut state, &mut desk);
    assert_eq!(state.again[1], again("the machine was restarted"));
    assert_eq!((measured(&state), &state.missed), (0.0, &vec![]));
    run(&mut state, &mut desk);
    assert_eq!(state.periods.len(), 4);
}

/// Those that were on their way when dsmd was asked.
#[test]
fn what_is_discarded_as_a_period_begins_is_no_fault() {
    let (mut state, mut desk) = trial();
    while state.current.as_ref().is_none_or(|c| c.on) {
        tick(&mut state, &mut desk);
        desk.work();
    }
    *desk.discarded.as_mut().unwrap() += 800;
    tick(&mut state, &mut desk);
    assert_eq!(state.current.as_ref().unwrap().washout, Seen::default());
    run(&mut state, &mut desk);
    assert!(state.again.is_empty(), "{:?}", state.again);
}

/// The policy that it has had meanwhile is not known.
#[test]
fn of_streams_a_period_begins_over_that_was_interrupted() {
    for on in [true, false] {
        let (state, mut desk) = trial();
        desk.discarded = None;
        let (mut state, mut desk) = until_measured(state, desk, on);
        let period = state.periods.len() + 1;
        desk.restart();
        desk.on = true;
        tick(&mut state, &mut desk);
        assert_eq!(desk.set, None, "the new device's is nobody's");
        assert_eq!(
            state.again,
            [format!("period {period}: the machine was restarted")]
        );
        assert_eq!((desk.on, measured(&state)), (on, 0.0));
        run(&mut state, &mut desk);
    }
}

#[test]
fn a_period_without_a_discard_ends_it() {
    let (mut state, mut desk) = trial();
    // What was before it was measured does not count.
    while state
        .current
        .as_ref()
        .is_none_or(|c| !c.on || c.measured.is_none())
    {
        desk.work();
        tick(&mut state, &mut desk);
    }
    while state.is_unfinished() {
        desk.seconds += 1.0;
        desk.written += 4096;
        tick(&mut state, &mut desk);
    }
    assert!(state.periods.iter().all(|p| !p.on), "within the first that is on");
    let why = state.ended.clone().unwrap();
    let said = ": nothing was discarded while a period with discards on was measured: dsmd refuses";
    assert!(why.ends_with(said), "{why}");
    assert!(desk.on, "nobody else has switched");
    // A trial of streams counts none.
    let (mut state, mut desk) = trial();
    desk.discarded = None;
    run(&mut state, &mut desk);
}

#[test]
fn another_drive_is_waited_for_and_left_alone() {
    let (mut state, mut desk) = in_a_period(false);
    desk.drive = "another";
    desk.on = true;
    let before = state.clone();
    assert!(step(&mut state, &mut desk).is_err());
    assert!(desk.on && state == before);
}

#[test]
fn nobody_takes_samples() {
    let (mut state, _) = in_a_period(true);
    let text = |state: &TrialState, age| Report::of(state, age).text();
    assert!(!text(&state, TRIAL).contains("neither a wwid"));
    state.drive = format!("{BY_SIZE}2048");
    let said = text(&state, TRIAL);
    assert!(said.contains("neither a wwid nor a serial number: another one of its size"));
    assert!(
        said.contains("time left: ") && !said.contains("NO SAMPLE"),
        "{said}"
    );
    let late = Duration::from_secs(7200);
    assert!(text(&state, late).contains("NO SAMPLE FOR 2 h"));
    end(&mut state, "it was stopped");
    assert!(!text(&state, late).contains("NO SAMPLE"));
}

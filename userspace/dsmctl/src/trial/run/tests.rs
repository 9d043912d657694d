// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::trial::report::Report;
use crate::trial::state::{Amount, Machine, Switch, TrialPlan, BY_SIZE};
use dm::diskstat::DiskStat;

/// A device at work, without a drive.
struct Desk {
    on: Option<bool>,
    seconds: f64,
    written: u64,
    discarded: Option<u64>,
    boot: &'static str,
    /// Whether the device can be asked how the switch is.
    answers: bool,
    /// Somebody has said so.
    barred: Option<&'static str>,
    drive: &'static str,
}

impl Desk {
    fn new() -> Self {
        Self {
            on: Some(true),
            seconds: 1e3,
            written: 1 << 30,
            discarded: Some(0),
            boot: "1",
            answers: true,
            barred: None,
            drive: "drive",
        }
    }

    fn work(&mut self) {
        self.seconds += 1.0;
        self.written += 4096;
        if let Some(n) = self.discarded.as_mut().filter(|_| self.on == Some(true)) {
            *n += 8;
        }
    }
}

impl Bench for Desk {
    fn switch(&mut self, on: bool) -> Result<()> {
        self.on = Some(on);
        Ok(())
    }

    fn leave_off(&mut self) -> Result<()> {
        self.on = None;
        Ok(())
    }

    fn is_on(&mut self) -> Result<Option<bool>> {
        anyhow::ensure!(self.answers, "the device is gone");
        Ok(self.on)
    }

    fn barred(&mut self) -> Result<Option<String>> {
        Ok(self.barred.map(str::to_owned))
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
        switch: Switch { feature, on, off },
        washout: Amount::Bytes(8192),
        measure: Amount::Seconds(3.0),
        pairs: 2,
        seed: 1,
        counters: None,
    };
    let mut state = TrialState::new(plan, Machine::default(), "drive".into(), None);
    state.switched = true;
    (state, Desk::new())
}

fn run_to(state: &mut TrialState, desk: &mut Desk, last: &Step) {
    loop {
        let done = step(state, desk).unwrap();
        if done == *last {
            return;
        }
        assert!(!matches!(done, Step::Over | Step::Ended), "{:?}", state.ended);
        desk.work();
    }
}

/// A trial in its first period of this kind.
fn in_a_period(on: bool) -> (TrialState, Desk) {
    let (mut state, mut desk) = trial();
    loop {
        step(&mut state, &mut desk).unwrap();
        if state.current.as_ref().is_some_and(|c| c.on == on) {
            assert_eq!(desk.on, Some(on));
            return (state, desk);
        }
        desk.work();
    }
}

/// As a process that was killed has left it.
fn kept(state: &TrialState) -> TrialState {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

#[test]
fn it_leaves_on_what_it_has_switched() {
    let (mut state, mut desk) = trial();
    run_to(&mut state, &mut desk, &Step::Over);
    assert_eq!(state.periods.iter().filter(|p| p.on).count(), 2);
    assert!(state.periods.iter().all(|p| p.seconds() >= 3.0));
    restore(&mut state, &mut desk).unwrap();
    assert_eq!(desk.on, Some(true));
    // That is another's.
    desk.on = Some(false);
    restore(&mut state, &mut desk).unwrap();
    assert_eq!(desk.on, Some(false));
    let (state, mut desk) = in_a_period(false);
    let mut killed = kept(&state);
    take_up(&mut killed, "1");
    restore(&mut killed, &mut desk).unwrap();
    assert!(desk.on == Some(true) && !killed.switched);
}

/// dsmd, or a hand.
#[test]
fn somebody_else_switches_on() {
    let (mut state, mut desk) = in_a_period(false);
    let period = state.periods.len() + 1;
    desk.on = Some(true);
    let said = format!("period {period}: somebody else has switched it");
    assert_eq!(step(&mut state, &mut desk).unwrap(), Step::Again(said));
    run_to(&mut state, &mut desk, &Step::Over);
    assert_eq!(state.periods.len(), 4);
}

/// Nothing switches on again what was switched off: neither the next steps nor the end, nor
/// who goes on with the file.
fn ends_for_good(mut state: TrialState, desk: &mut Desk, why: &str) {
    let said = format!("period {}: {why}", state.periods.len() + 1);
    let again = state.again.clone();
    assert_eq!(step(&mut state, desk).unwrap(), Step::Ended);
    assert_eq!(state.ended, Some(said));
    assert_eq!(step(&mut state, desk).unwrap(), Step::Ended);
    let mut killed = kept(&state);
    restore(&mut state, desk).unwrap();
    interrupt(&mut state);
    assert_eq!(state.again, again);
    assert_ne!(desk.on, Some(true));
    assert!(!state.switched);
    take_up(&mut killed, "1");
    assert_eq!(step(&mut killed, desk).unwrap(), Step::Ended);
    assert_ne!(desk.on, Some(true));
    assert!(Report::of(&killed, None).text().contains(&format!(": {why}\n")));
}

const OVERRULED: &str = "somebody else has set discard to another value";

#[test]
fn off_by_somebody_else_ends_it() {
    let (state, mut desk) = in_a_period(true);
    desk.on = Some(false);
    ends_for_good(state, &mut desk, OVERRULED);
    // Another policy, in a trial of streams
    for on in [true, false] {
        let (state, mut desk) = in_a_period(on);
        desk.on = None;
        ends_for_good(state, &mut desk, OVERRULED);
    }
}

/// Between two periods.
#[test]
fn off_at_a_border_ends_it() {
    let (mut state, mut desk) = in_a_period(true);
    let periods = state.periods.len();
    while state.periods.len() == periods {
        desk.work();
        step(&mut state, &mut desk).unwrap();
    }
    assert!(state.current.is_none());
    desk.on = Some(false);
    ends_for_good(state, &mut desk, OVERRULED);
}

/// The device does not show it.
#[test]
fn off_by_hand_in_a_period_that_is_off_ends_it() {
    let (state, mut desk) = in_a_period(false);
    desk.barred = Some("by hand");
    ends_for_good(state, &mut desk, "by hand");
    assert_eq!(desk.on, None, "neither on nor watched");
}

/// Who said it has been overtaken by a switch of the trial's.
#[test]
fn off_by_hand_beside_a_switch_ends_with_off() {
    let (state, mut desk) = in_a_period(true);
    desk.barred = Some("by hand");
    ends_for_good(state, &mut desk, "by hand");
    assert_eq!(desk.on, None, "neither on nor watched");
}

#[test]
fn off_while_nobody_runs_it_ends_it() {
    let (state, mut desk) = in_a_period(true);
    desk.on = Some(false);
    let mut killed = kept(&state);
    take_up(&mut killed, "1");
    interrupt(&mut killed);
    ends_for_good(killed, &mut desk, OVERRULED);
    let mut killed = kept(&state);
    take_up(&mut killed, "1");
    restore(&mut killed, &mut desk).unwrap();
    assert_eq!(desk.on, Some(false), "when it is stopped");
    // After a boot the switch is not as the trial has left it.
    let mut killed = kept(&state);
    take_up(&mut killed, "2");
    restore(&mut killed, &mut desk).unwrap();
    assert_eq!(desk.on, Some(false));
    interrupt(&mut killed);
    desk.boot = "2";
    run_to(&mut killed, &mut desk, &Step::Over);
}

/// After a boot it is as others have it.
#[test]
fn what_a_boot_has_set_is_left() {
    let (mut state, mut desk) = in_a_period(false);
    take_up(&mut state, "2");
    restore(&mut state, &mut desk).unwrap();
    assert_eq!(desk.on, Some(false));
    assert!(!state.switched);
}

/// In a new device the feature is off.
#[test]
fn a_device_that_was_made_again_is_no_hand() {
    for change in [|d: &mut Desk| d.written = 0, |d: &mut Desk| d.boot = "2"] {
        let (mut state, mut desk) = in_a_period(true);
        desk.on = Some(false);
        change(&mut desk);
        assert!(matches!(step(&mut state, &mut desk).unwrap(), Step::Again(_)));
        assert_eq!(step(&mut state, &mut desk).unwrap(), Step::Border);
        assert_eq!(desk.on, Some(true));
        run_to(&mut state, &mut desk, &Step::Over);
    }
}

#[test]
fn a_period_without_a_discard_ends_it() {
    let (mut state, mut desk) = trial();
    // What was before it was measured does not count.
    while state
        .current
        .as_ref()
        .is_none_or(|c| !c.on || c.washed_out.is_none())
    {
        step(&mut state, &mut desk).unwrap();
        desk.work();
    }
    desk.discarded = state
        .current
        .as_ref()
        .unwrap()
        .washed_out
        .as_ref()
        .unwrap()
        .discarded;
    loop {
        match step(&mut state, &mut desk).unwrap() {
            Step::Ended => break,
            done => assert_eq!(done, Step::Wait),
        }
        desk.seconds += 1.0;
    }
    assert!(state.periods.iter().all(|p| !p.on), "within the first that is on");
    let why = state.ended.clone().unwrap();
    let said = ": nothing was discarded while a period with discards on was measured: dsmd refuses";
    assert!(why.ends_with(said), "{why}");
    let report = Report::of(&state, None);
    assert!(report.progress.is_none());
    assert!(report
        .text()
        .contains(&format!("ENDED before it was over: {why}\n")));
    restore(&mut state, &mut desk).unwrap();
    assert_eq!(desk.on, Some(true), "nobody else has switched");
    // A trial of streams counts none.
    let (mut state, mut desk) = trial();
    desk.discarded = None;
    run_to(&mut state, &mut desk, &Step::Over);
}

#[test]
fn a_device_that_does_not_answer_is_waited_for() {
    let (mut state, mut desk) = in_a_period(true);
    let before = state.clone();
    desk.answers = false;
    assert!(step(&mut state, &mut desk).is_err());
    assert_eq!(state, before);
}

#[test]
fn what_was_interrupted_begins_over() {
    let (mut state, mut desk) = trial();
    interrupt(&mut state);
    assert!(state.again.is_empty(), "nothing was in progress");
    step(&mut state, &mut desk).unwrap();
    interrupt(&mut state);
    assert_eq!(state.again, ["period 1: the trial was interrupted"]);
    run_to(&mut state, &mut desk, &Step::Over);
    assert_eq!(state.periods.len(), 4);
}

#[test]
fn another_drive_ends_it_and_is_left_alone() {
    let (mut state, mut desk) = in_a_period(false);
    desk.drive = "another";
    let mut killed = kept(&state);
    assert!(step(&mut state, &mut desk).unwrap_err().is::<Replaced>());
    assert!(state.current.is_some(), "it can go on when the drive is back");
    restore(&mut killed, &mut desk).unwrap();
    assert_eq!(desk.on, Some(false));
}

#[test]
fn nobody_runs_it() {
    let (mut state, mut desk) = in_a_period(true);
    desk.work();
    step(&mut state, &mut desk).unwrap();
    let text = |state: &TrialState, runner| Report::of(state, runner).text();
    assert!(!text(&state, None).contains("neither a wwid"));
    state.drive = format!("{BY_SIZE}2048");
    assert!(text(&state, None).contains("neither a wwid nor a serial number: another one of its size"));
    assert!(text(&state, Some(7)).contains("time left: "));
    let said = text(&state, None);
    assert!(
        said.contains("NOBODY RUNS IT") && !said.contains("time left"),
        "{said}"
    );
    state.stopped = true;
    assert!(text(&state, None).contains("STOPPED; "));
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The course of a trial, a step at a time.

use anyhow::{bail, Result};

use crate::state::{Current, Period, Sample, State};

/// Where a trial takes place.
pub trait Bench {
    /// Switches to on or off, and nothing else.
    fn switch(&mut self, on: bool) -> Result<()>;
    /// How the switch is; `None`: neither.
    fn is_on(&mut self) -> Result<Option<bool>>;
    /// What another drive would not have.
    fn drive(&mut self) -> Result<String>;
    fn sample(&mut self) -> Result<Sample>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Wait,
    /// A border: the state is worth a save.
    Border,
    /// What is said of a period that begins over.
    Again(String),
    Over,
}

/// Looks where the trial is, and does what is due.  An error of the drive's counters or of
/// the device is one to wait with; an error that ends the trial is [`Replaced`].
pub fn step(state: &mut State, bench: &mut dyn Bench) -> Result<Step> {
    if state.is_over() {
        return Ok(Step::Over);
    }
    // First: another drive may have no counters.
    if bench.drive()? != state.drive {
        bail!(Replaced);
    }
    let now = bench.sample()?;
    // Before anything is taken: an error leaves the period as it is.
    let is_on = bench.is_on()?;
    let Some(mut current) = state.current.take() else {
        let on = state.plan.is_on(state.periods.len());
        bench.switch(on)?;
        let since = bench.sample()?;
        state.current = Some(Current {
            on,
            last: since.clone(),
            since,
            washed_out: None,
        });
        return Ok(Step::Border);
    };
    let disturbed = match now.follows(&current.last) {
        Err(why) => Some(why),
        Ok(()) if is_on != Some(current.on) => Some("somebody else has switched it"),
        Ok(()) => None,
    };
    if let Some(why) = disturbed {
        let said = format!("period {}: {why}", state.periods.len() + 1);
        state.again.push(said.clone());
        return Ok(Step::Again(said));
    }
    let plan = &state.plan;
    let border = match &current.washed_out {
        None if plan.washout.passed(&current.since, &now) >= 1.0 => {
            current.washed_out = Some(now.clone());
            true
        }
        Some(washed_out) if plan.measure.passed(washed_out, &now) >= 1.0 => {
            let (on, from) = (current.on, washed_out.clone());
            state.periods.push(Period { on, from, to: now });
            return Ok(if state.is_over() { Step::Over } else { Step::Border });
        }
        _ => false,
    };
    current.last = now;
    state.current = Some(current);
    Ok(if border { Step::Border } else { Step::Wait })
}

/// A period that was interrupted begins over: nobody knows what came between.
pub fn resume(state: &mut State) {
    if state.current.take().is_some() {
        let said = format!("period {}: the trial was interrupted", state.periods.len() + 1);
        state.again.push(said);
    }
}

#[derive(Debug)]
pub struct Replaced;

impl std::fmt::Display for Replaced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this is another drive than the one that the trial began with")
    }
}

impl std::error::Error for Replaced {}

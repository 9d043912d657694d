// SPDX-License-Identifier: GPL-2.0-or-later
//! The course of a trial, a step at a time.

use anyhow::{bail, Result};

use crate::trial::state::{Current, Period, TrialSample, TrialState};

/// Where a trial takes place.
pub trait Bench {
    /// Switches to on or off, and nothing else.
    fn switch(&mut self, on: bool) -> Result<()>;
    /// Nothing is discarded, and nobody watches.
    fn leave_off(&mut self) -> Result<()>;
    /// How the switch is; `None`: neither.
    fn is_on(&mut self) -> Result<Option<bool>>;
    /// Why the switch has to stay off, whatever the plan says.
    fn barred(&mut self) -> Result<Option<String>>;
    /// Why nothing may have been discarded in a period.
    fn why_idle(&mut self) -> String;
    /// What another drive would not have.
    fn drive(&mut self) -> Result<String>;
    fn sample(&mut self) -> Result<TrialSample>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Wait,
    /// A border: the state is worth a save.
    Border,
    /// What is said of a period that begins over.
    Again(String),
    Over,
    /// For good, before it was over; the state says why.
    Ended,
}

/// Looks where the trial is, and does what is due.  An error of the drive's counters or of
/// the device is one to wait with; one that it cannot go on with is [`Replaced`].
pub fn step(state: &mut TrialState, bench: &mut dyn Bench) -> Result<Step> {
    if state.ended.is_some() {
        return Ok(Step::Ended);
    }
    if state.is_over() {
        return Ok(Step::Over);
    }
    // First: another drive may have no counters.
    if bench.drive()? != state.drive {
        bail!(Replaced);
    }
    // In a period with the switch off, too: the next one would have it on.
    if let Some(why) = bench.barred()? {
        return Ok(end(state, why));
    }
    let now = bench.sample()?;
    // Before anything is taken: an error leaves the period as it is.
    let is_on = bench.is_on()?;
    // A device that was made again has the switch as all new ones have it.
    let is_new = state
        .current
        .as_ref()
        .is_some_and(|c| now.follows(&c.last).is_err());
    if !is_new && overruled(state, is_on) {
        let other = || {
            format!(
                "somebody else has set {} to another value",
                state.plan.switch.feature
            )
        };
        // It may have come between the two looks.
        let why = bench.barred()?.unwrap_or_else(other);
        return Ok(end(state, why));
    }
    let Some(mut current) = state.current.take() else {
        let on = state.plan.is_on(state.periods.len());
        bench.switch(on)?;
        state.set = Some(on);
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
        state.set = None;
        return Ok(Step::Again(said));
    }
    let plan = &state.plan;
    let border = match &current.washed_out {
        None if plan.washout.passed(&current.since, &now) >= 1.0 => {
            current.washed_out = Some(now.clone());
            true
        }
        Some(washed_out) if plan.measure.passed(washed_out, &now) >= 1.0 => {
            let discarded = washed_out.discarded.zip(now.discarded);
            if current.on && discarded.is_some_and(|(then, now)| then == now) {
                let idle = bench.why_idle();
                return Ok(end(
                    state,
                    format!("nothing was discarded while a period with discards on was measured: {idle}"),
                ));
            }
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

fn end(state: &mut TrialState, why: String) -> Step {
    state.ended = Some(format!("period {}: {why}", state.periods.len() + 1));
    Step::Ended
}

/// Whether the switch is off, or elsewhere, by somebody else.
fn overruled(state: &TrialState, is_on: Option<bool>) -> bool {
    is_on.is_none() || (state.set == Some(true) && is_on == Some(false))
}

/// Leaves the switch on, as it was before the trial, unless that is somebody else's
/// affair by now.
pub fn restore(state: &mut TrialState, bench: &mut dyn Bench) -> Result<()> {
    if !state.switched {
        return Ok(());
    }
    if bench.drive()? != state.drive {
        // Nothing of it is the trial's.
    } else if bench.barred()?.is_some() {
        // Who said so may have been overtaken by a switch of this trial.
        bench.leave_off()?;
    } else {
        let is_on = bench.is_on()?;
        if !overruled(state, is_on) {
            bench.switch(true)?;
        }
    }
    state.switched = false;
    state.set = None;
    Ok(())
}

/// A period that was interrupted begins over: nobody knows what came between.
pub fn interrupt(state: &mut TrialState) {
    if state.current.take().is_some() && state.ended.is_none() {
        let said = format!("period {}: the trial was interrupted", state.periods.len() + 1);
        state.again.push(said);
    }
}

/// How a process that was killed has left the switch: since a boot of the machine, as
/// others have it.
pub fn take_up(state: &mut TrialState, boot: &str) {
    if let Some(current) = state.current.as_ref().filter(|_| state.switched) {
        state.switched = current.last.boot == boot;
        state.set = state.switched.then_some(current.on);
    }
}

#[derive(Debug)]
pub struct Replaced;

impl std::fmt::Display for Replaced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "this is another drive than the one that the trial began with; the switch is left as it is",
        )
    }
}

impl std::error::Error for Replaced {}

#[cfg(test)]
mod tests;

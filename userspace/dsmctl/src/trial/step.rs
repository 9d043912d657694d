// SPDX-License-Identifier: GPL-2.0-or-later
//! The course of a trial, a sample at a time.

use anyhow::{bail, Result};

use crate::trial::state::{Current, Period, Seen, TrialSample, TrialState};

/// Where a trial takes place.
pub trait Bench {
    /// What another drive would not have.
    fn drive(&mut self) -> Result<String>;
    fn sample(&mut self) -> Result<TrialSample>;
    /// Why the switch is somebody else's by now; `set`: how the trial has left it, if the device is
    /// still the one of then.
    fn overruled(&mut self, set: Option<bool>) -> Result<Option<String>>;
    /// Has it on or off until the next sample; off by one that is late is not for longer.
    fn switch(&mut self, on: bool) -> Result<()>;
    /// Why nothing may have been discarded in a period.
    fn why_idle(&mut self) -> String;
}

/// Takes a sample, and does what is due.  After an error the state is to be taken as it was
/// before: of the device, dsmd or the drive's counters, which may come back.
pub fn step(state: &mut TrialState, bench: &mut dyn Bench) -> Result<()> {
    if !state.is_unfinished() {
        return Ok(());
    }
    // First: another drive may have no counters.
    if bench.drive()? != state.drive {
        bail!("this is another drive than the one that the trial began with");
    }
    let now = bench.sample()?;
    // A device that was made again has the switch as all new ones have it.
    let current = state.current.as_ref().filter(|c| now.is_of_device(&c.last));
    if let Some(why) = bench.overruled(current.map(|c| c.on))? {
        end(state, &why);
        return Ok(());
    }
    take(state, now);
    border(state, bench);
    // At the end it is left on, as it was before.
    let on = !state.is_unfinished() || state.plan.is_on(state.periods.len());
    bench.switch(on)?;
    if state.current.is_none() && state.is_unfinished() {
        state.current = Some(Current {
            on,
            washout: Seen::default(),
            measured: None,
            last: bench.sample()?,
        });
    }
    Ok(())
}

/// Adds what was seen since the last sample to the period, if it belongs there.
fn take(state: &mut TrialState, now: TrialSample) {
    let number = state.periods.len() + 1;
    let Some(c) = &mut state.current else { return };
    let seen = Seen::between(&c.last, &now);
    let spoiled = match (now.discarded, c.last.discarded) {
        // A device that was made again counts from its beginning.
        (Some(sectors), before) => {
            !c.on && sectors > 0 && (now.boot != c.last.boot || now.discarded != before)
        }
        // The policy that it has had meanwhile is not known.
        (None, _) => seen.is_err(),
    };
    c.last = now;
    if spoiled {
        let why = seen.as_ref().err().unwrap_or(&"discards were made meanwhile");
        // What was on its way when the period began is no fault.
        if c.washout != Seen::default() || seen.is_err() {
            state.again.push(format!("period {number}: {why}"));
        }
        (c.washout, c.measured) = (Seen::default(), None);
        return;
    }
    match seen {
        Ok(seen) => c.measured.as_mut().unwrap_or(&mut c.washout).add(&seen),
        Err(why) => {
            let missed = format!("period {number}: {why}");
            if state.missed.last() != Some(&missed) {
                state.missed.push(missed);
            }
        }
    }
}

/// What follows from where the period is by now.
fn border(state: &mut TrialState, bench: &mut dyn Bench) {
    let (plan, Some(c)) = (&state.plan, &mut state.current) else {
        return;
    };
    match &c.measured {
        None if plan.washout.passed(&c.washout) >= 1.0 => c.measured = Some(Seen::default()),
        Some(seen) if plan.measure.passed(seen) >= 1.0 => {
            if c.on && seen.discarded == Some(0) {
                let idle = bench.why_idle();
                let what = "nothing was discarded while a period with discards on was measured";
                return end(state, &format!("{what}: {idle}"));
            }
            let (on, seen) = (c.on, seen.clone());
            state.periods.push(Period { on, seen });
            state.current = None;
        }
        _ => {}
    }
}

pub fn end(state: &mut TrialState, why: &str) {
    state.ended = Some(format!("period {}: {why}", state.periods.len() + 1));
}

#[cfg(test)]
mod tests;

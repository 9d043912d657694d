// SPDX-License-Identifier: GPL-2.0-or-later
//! A trial: on a server at work, discards or streams are switched on and off in periods of
//! random order, and the drive's own counters say what they save.
//!
//! Periods come in pairs, one on and one off.  After each switch the drive still holds what
//! it was given before; what it writes until then (the washout) is not counted.  The
//! saving is estimated from the differences within the pairs ([`estimate`]), so that a load
//! that drifts from day to day does not count.

pub mod by_hand;
pub mod estimate;
pub mod report;
pub mod run;
pub mod runner;
pub mod state;

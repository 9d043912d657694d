// SPDX-License-Identifier: GPL-2.0-or-later
//! What would be: traces and recordings of a workload, a model of flash, and the policies
//! on it.

pub mod flash;
pub mod record;
pub mod sim;
pub mod trace;

// What src and tests share names it so.
#[cfg(test)]
extern crate self as simulate;

// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel, its sysfs, the names of WiredTiger's checkpoints, and signals without
//! processes, all in memory; and databases that nobody but an attacker writes: for tests.

pub mod cookie;
pub mod hostile;
pub mod kernel;
pub mod signals;
pub mod sysfs;

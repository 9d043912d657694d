// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel, its sysfs, the names of WiredTiger's checkpoints, and signals without
//! processes: all in memory, for tests.

pub mod cookie;
pub mod kernel;
pub mod signals;
pub mod sysfs;

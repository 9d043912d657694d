// SPDX-License-Identifier: GPL-2.0-or-later
//! What `dsmctl` and `dsmd` share.
//!
//! The rooms stand in the order in which they may use each other: one may use those above it
//! in this list, and none below.  tests/rooms.rs checks it.

/// Logging, waiting, sizes as people write them.
pub mod base;

/// The kernel: device-mapper, the target's interface, sysfs, udev.
pub mod kernel;

/// The drive: NVMe commands and statistics.
pub mod drive;

/// A database's directory: files, extents, checkpoints, rules.
pub mod dbpath;

/// Traces, recordings, and what they would cost on a modelled drive.
pub mod whatif;

/// Keeps the kernel's table equal to what is in a dbpath.
pub mod agent;

/// Reports, metrics, the page.
pub mod show;

/// The life of `dsmd`.
pub mod daemon;

/// What is made when the system starts.
pub mod boot;

/// The command lines.
pub mod cli;

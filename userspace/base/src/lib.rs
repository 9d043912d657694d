// SPDX-License-Identifier: GPL-2.0-or-later
//! What every crate may use, and that knows nothing of disks.

pub mod aligned;
pub mod bytes;
pub mod cli;
pub mod log;
pub mod name;
pub mod panic;
pub mod pulse;
pub mod sizes;
pub mod text;
pub mod time;
pub mod varint;
pub mod wake;
pub mod wrap;

// SPDX-License-Identifier: GPL-2.0-or-later
//! What every room may use, and that knows nothing of disks.

pub mod aligned;
pub(crate) mod bytes;
pub mod log;
pub mod pulse;
pub mod sizes;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod varint;
pub mod wake;

pub use crate::log;

// SPDX-License-Identifier: GPL-2.0-or-later
//! The drive: NVMe commands, media statistics, counters of the block layer, and
//! which discards it takes.

pub mod aligned;
pub mod below;
pub mod counters;
pub mod deallocate;
pub mod identity;
pub mod media;
pub mod nvme;
pub mod prefer;
pub mod probe;
pub mod switch;

pub use proto::afford;

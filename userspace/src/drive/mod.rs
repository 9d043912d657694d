// SPDX-License-Identifier: GPL-2.0-or-later
//! The drive: NVMe commands, media statistics, counters of the block layer, and how many
//! streams it can afford.

pub mod afford;
pub mod below;
pub mod diskstat;
pub mod media;
pub mod nvme;

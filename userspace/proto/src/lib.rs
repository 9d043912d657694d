// SPDX-License-Identifier: GPL-2.0-or-later
//! What the programs say to each other: requests to `dsmd`, what it publishes, what
//! `dsm-mongo` writes, and which process runs a trial.

pub mod afford;
pub mod control;
pub mod device;
pub mod drive;
pub mod envelope;
pub mod feed;
pub mod left_out;
pub mod rates;
pub mod reason;
pub mod regions;
pub mod snapshot;

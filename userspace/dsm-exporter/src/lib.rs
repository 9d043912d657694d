// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `dsm-exporter`, for the manual.

pub mod cli;
pub mod metrics;
pub mod page_history;

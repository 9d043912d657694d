// SPDX-License-Identifier: GPL-2.0-or-later
//! What is shown: reports, `top`, metrics, the page and its history.

pub mod doctor;
pub mod host;
pub mod metrics;
pub mod page_history;
pub(crate) mod rates;
pub mod report;
pub mod sample;
pub mod snapshot;
pub mod top;

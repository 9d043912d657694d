// SPDX-License-Identifier: GPL-2.0-or-later
//! What a mongod says of itself, when there is a `dsm-mongo` that asks it: which file is
//! whose, how many checkpoints it made, and what it was asked to do.
//!
//! A thread listens to `dsm-mongo`.  The agent takes what was said last and never waits for
//! it; without it, it goes by names and by what is written.

pub mod catalog;
pub mod feed;
mod link;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use link::Link;

/// What is known of the server, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Without user and password.
    pub address: String,
    pub connected: bool,
    /// What follows is what it said last.
    pub version: String,
    /// Since it was started.
    pub checkpoints: Option<u64>,
    pub operations: BTreeMap<String, u64>,
    /// Its catalog names files of this data directory.
    pub catalog: bool,
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of a device at an instant.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::control::Info;
use crate::drive::Media;
use crate::reason::Reason;
use crate::snapshot::Moment;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::reply::{Status, TableLine};
use runtime::log::LastError;

/// How far dsmd is with a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its process has not said anything yet.
    #[default]
    Starting,
    /// For the device or the database.
    Waiting,
    Served,
    /// A thread has been at one thing for too long, or is silent.
    Stuck,
    /// Its process has.
    Ended,
}

impl State {
    pub const ALL: [Self; 5] = [
        Self::Starting,
        Self::Waiting,
        Self::Served,
        Self::Stuck,
        Self::Ended,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Waiting => "waiting",
            Self::Served => "served",
            Self::Stuck => "stuck",
            Self::Ended => "ended",
        }
    }
}

/// Whether dsmd serves a database, in a process of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Service {
    pub state: State,
    /// In seconds since 1970.
    pub since: f64,
    /// Why it is not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The process, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How often one ended and another took its place.
    #[serde(default)]
    pub restarts: u64,
    /// Seconds of processors, and bytes in memory that no other process has.
    #[serde(default)]
    pub cpu: f64,
    #[serde(default)]
    pub memory: u64,
}

impl Service {
    /// The same state goes on.
    pub fn set(&mut self, state: State, reason: Option<Reason>) {
        if self.state != state || self.since == 0.0 {
            self.state = state;
            self.since = Moment::now().wall;
        }
        self.reason = reason;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub device: String,
    /// When this was read.
    pub at: Moment,
    pub service: Service,
    /// Nothing: there is no such device, or it cannot be looked at.
    pub kernel: Option<Kernel>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
    /// What its database's agent said last; nothing: there is none.
    pub agent: Option<Info>,
    /// What dsmd said last of what is wrong: why the database is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

/// What the kernel and the drive say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub table: TableLine,
    pub status: Status,
    /// What each stream is used for.
    pub uses: BTreeMap<u32, Vec<String>>,
    /// `Err`: why the drive does not report it.
    pub media: Result<Media, String>,
    /// When the last checkpoint was, in seconds since 1970; nothing before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checkpoint: Option<f64>,
}

/// What the kernel says.
pub struct Look {
    pub devno: DevNo,
    pub table: TableLine,
    pub status: Status,
}

impl Look {
    pub fn at(name: &str) -> Result<Self> {
        let device = Device::open(name)?;
        Ok(Self {
            devno: device.devno,
            table: device.table_line()?,
            status: device.status()?,
        })
    }
}

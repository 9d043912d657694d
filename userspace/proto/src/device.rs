// SPDX-License-Identifier: GPL-2.0-or-later
//! A device as it is seen now: what the kernel, the drive and dsmd say of it.  What could not be
//! asked is nothing, with the reason beside it.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::afford::Affords;
use crate::control::Info;
use crate::drive::Media;
use crate::rates::Rates;
use crate::reason::Reason;
use crate::snapshot::Moment;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::reply::{Region, Status, TableLine};
use dm::sysfs::Sysfs;
use runtime::log::LastError;

/// How far dsmd is with a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, VariantArray, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
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
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Whether dsmd serves a database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Of `dsmd`.
    pub version: String,
    pub state: State,
    /// In seconds since 1970.
    pub since: f64,
    /// Why it is not served.
    pub reason: Option<Reason>,
    /// The process, while there is one.
    pub pid: Option<u32>,
    /// How often one ended and another took its place.
    pub restarts: u64,
    /// Seconds of processors, and bytes in memory.
    pub cpu: f64,
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

/// What the programs show and judge of a device; dsmd publishes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceView {
    pub name: String,
    /// When this was read.
    pub at: Moment,
    /// Nothing: no dsmd publishes it.
    pub service: Option<Service>,
    pub kernel: Option<Kernel>,
    /// Why there is nothing of the kernel's.
    pub unseen: Option<Reason>,
    /// What its database's agent said last.
    pub agent: Option<Info>,
    /// Why the agent has not answered who asked.
    pub silent: Option<Reason>,
    /// What dsmd said last of what is wrong: why the database is waited for.
    pub last_error: Option<LastError>,
    /// Why nothing may be discarded: the device or its drive is marked.
    pub barred: Option<Reason>,
    /// The streams that the drive can afford, of who has asked it.
    #[serde(skip_deserializing)]
    pub affords: Option<Affords>,
    /// Of who has asked for them.
    #[serde(skip_deserializing)]
    pub regions: Option<Vec<Region>>,
    /// What was written since an earlier look, of who has taken one.
    #[serde(skip_deserializing)]
    pub rates: Option<Rates>,
    /// Why regions have no names of files.
    pub nameless: Option<String>,
    /// Who has published this does so no more.
    #[serde(skip)]
    pub over: bool,
}

/// What the kernel and the drive say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub devno: DevNo,
    pub sectors: u64,
    /// The kernel's name of what it lies on.
    pub below: String,
    pub table: TableLine,
    pub status: Status,
    /// What each stream is used for.
    pub uses: BTreeMap<u32, Vec<String>>,
    /// `Err`: why the drive does not report it.
    pub media: Result<Media, String>,
    /// When the last checkpoint was, in seconds since 1970; nothing before the first.
    pub last_checkpoint: Option<f64>,
}

impl Kernel {
    /// Of this target, and nothing of a drive.
    pub fn new(table: TableLine, status: Status) -> Self {
        Self {
            devno: DevNo::new(0, 0),
            sectors: 0,
            below: table.below.clone(),
            table,
            status,
            uses: BTreeMap::new(),
            media: Err("the drive was not asked".to_owned()),
            last_checkpoint: None,
        }
    }

    pub fn at(device: &Device) -> Result<Self> {
        let (table, status) = (device.table_line()?, device.status()?);
        let below = table.below.parse::<DevNo>();
        Ok(Self {
            devno: device.devno,
            sectors: device.sectors,
            below: below.map_or_else(|()| table.below.clone(), |d| Sysfs::default().name(d)),
            ..Self::new(table, status)
        })
    }
}

impl DeviceView {
    /// The state of its database's process, if dsmd publishes it.
    pub fn state(&self) -> Option<State> {
        self.service.as_ref().map(|s| s.state)
    }

    /// What the target says.
    pub fn status(&self) -> Option<&Status> {
        self.kernel.as_ref().map(|k| &k.status)
    }
}

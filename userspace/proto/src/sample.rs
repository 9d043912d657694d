// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of a device at an instant.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::control::Info;
use crate::drive::Media;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::diskstat::DiskStat;
use dm::reply::{Status, TableLine};
use dm::sysfs::Sysfs;
use runtime::log::LastError;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub device: String,
    /// Nothing: there is no such device.
    pub kernel: Option<Kernel>,
    /// Nothing: its database is waited for.
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
    pub disk: DiskStat,
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
    pub disk: DiskStat,
}

impl Look {
    pub fn at(name: &str) -> Result<Self> {
        let device = Device::open(name)?;
        Ok(Self {
            devno: device.devno,
            table: device.table_line()?,
            status: device.status()?,
            disk: DiskStat::of(&Sysfs::default(), device.devno).unwrap_or_default(),
        })
    }
}

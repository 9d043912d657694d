// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of a device at an instant.

use std::path::Path;
use std::time::Duration;

use crate::agent::control::{self, Info, Request};
use crate::drive::diskstat::DiskStat;
use crate::drive::media::{self, Media};
use crate::kernel::device::{Device, Target};
use crate::kernel::reply::{Status, TableLine};
use crate::kernel::sysfs::Sysfs;

/// An agent that is busy for longer counts as absent.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Sample {
    pub device: String,
    /// Nothing: there is no such device.
    pub kernel: Option<Kernel>,
    /// Nothing: its database is waited for.
    pub agent: Option<Info>,
}

/// What the kernel and the drive say.
pub struct Kernel {
    pub table: TableLine,
    pub status: Status,
    pub disk: DiskStat,
    /// A sentence: why the drive does not tell.
    pub media: Result<Media, String>,
}

impl Sample {
    pub fn take(device: &str, run_dir: &Path) -> Self {
        Self {
            device: device.to_owned(),
            kernel: Kernel::look(device).ok(),
            agent: control::ask_within(PATIENCE, run_dir, device, Request::Info).ok(),
        }
    }
}

impl Kernel {
    fn look(name: &str) -> anyhow::Result<Self> {
        let device = Device::open(name)?;
        let sysfs = Sysfs::default();
        Ok(Self {
            table: device.table_line()?,
            status: device.status()?,
            disk: DiskStat::of(&sysfs, device.devno).unwrap_or_default(),
            media: media::of(&sysfs, device.devno),
        })
    }
}

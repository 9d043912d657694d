// SPDX-License-Identifier: GPL-2.0-or-later
//! What the drive below a device says of discards, and counts.

use std::path::Path;

use anyhow::{Context, Result};

use super::Witness;
use crate::counters;
use crate::deallocate::Deallocate;
use crate::nvme::Namespace;
use dm::devno::DevNo;
use dm::diskstat::DiskStat;
use dm::streams::{self, LiveTables};
use dm::sysfs::Sysfs;

pub struct DriveCounts {
    sysfs: Sysfs,
    /// The kernel's names of the disks.
    pub disks: Vec<String>,
    leaves: Vec<DevNo>,
    /// Of the one disk, if it is NVMe's.
    namespace: Option<Namespace>,
}

impl DriveCounts {
    pub fn of(sysfs: Sysfs, tables: &dyn LiveTables, dev: DevNo) -> Result<Self> {
        let below = streams::below(&sysfs, tables, dev)?;
        let namespace = match below.disks.as_slice() {
            [disk] => {
                let node = Path::new("/dev").join(disk);
                Namespace::open(&node).with_context(|| format!("{}: cannot open it", node.display()))?
            }
            _ => None,
        };
        Ok(Self {
            sysfs,
            disks: below.disks,
            leaves: below.leaves,
            namespace,
        })
    }

    /// `None`: it is no NVMe drive, or several disks.
    pub fn deallocate(&self) -> Result<Option<Deallocate>> {
        let asked = self.namespace.as_ref().map(Namespace::deallocate).transpose();
        Ok(asked
            .context("cannot ask the drive what it says of discards")?
            .flatten())
    }

    pub fn now(&self) -> Result<Witness> {
        let fdp = self.namespace.as_ref().map(counters::of_fdp).transpose();
        let fdp = fdp.context("cannot ask the drive what it has written")?;
        let written = |leaf: &DevNo| Some(DiskStat::of(&self.sysfs, *leaf)?.written_bytes);
        Ok(Witness {
            used: self.deallocate()?.map(|d| d.used),
            media: fdp.flatten().map(|c| c.media),
            written: self.leaves.iter().map(written).sum(),
        })
    }
}

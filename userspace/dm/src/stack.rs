// SPDX-License-Identifier: GPL-2.0-or-later
//! The devices that a device stands on, as sysfs links them.

use anyhow::{ensure, Result};

use crate::devno::DevNo;
use crate::sysfs::Sysfs;

/// Stacks are not deeper; a loop in a broken sysfs would be.
const DEPTH: u32 = 16;

/// What a device stands on, one step down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Below {
    /// It is a partition of this disk.
    Disk(DevNo),
    /// Device-mapper, md and the like make it of these; of none: it is a drive.
    Devices(Vec<DevNo>),
}

impl Below {
    pub fn devices(&self) -> &[DevNo] {
        match self {
            Self::Disk(disk) => std::slice::from_ref(disk),
            Self::Devices(devices) => devices,
        }
    }

    pub fn is_drive(&self) -> bool {
        self.devices().is_empty()
    }
}

pub fn below(sysfs: &Sysfs, dev: DevNo) -> Result<Below> {
    Ok(match sysfs.disk_of(dev)? {
        Some(disk) => Below::Disk(disk),
        None => Below::Devices(sysfs.links(dev, "slaves")?),
    })
}

/// Calls `each` with `dev` and everything below it, from above, as often as it is there; a drive
/// once: the data and the metadata of a thin pool may be on one.
pub fn walk(sysfs: &Sysfs, dev: DevNo, each: &mut impl FnMut(DevNo, &Below)) -> Result<()> {
    descend(sysfs, dev, 0, &mut Vec::new(), each)
}

fn descend(
    sysfs: &Sysfs,
    dev: DevNo,
    depth: u32,
    seen: &mut Vec<DevNo>,
    each: &mut impl FnMut(DevNo, &Below),
) -> Result<()> {
    check_depth(dev, depth)?;
    let below = below(sysfs, dev)?;
    if below.is_drive() {
        if seen.contains(&dev) {
            return Ok(());
        }
        seen.push(dev);
    }
    each(dev, &below);
    for &next in below.devices() {
        descend(sysfs, next, depth + 1, seen, each)?;
    }
    Ok(())
}

/// For those who go down by tables, which say more than the links.
pub fn check_depth(dev: DevNo, depth: u32) -> Result<()> {
    ensure!(
        depth <= DEPTH,
        "the devices under {dev} are stacked more than {DEPTH} deep"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::sysfs::Tree;

    #[test]
    fn every_device_below_is_visited() {
        let tree = Tree::make();
        for (dev, name) in [
            ("8:0", "sda"),
            ("8:1", "sda/sda1"),
            ("8:16", "sdb"),
            ("253:0", "dm-0"),
        ] {
            tree.add(dev, name);
        }
        tree.set("8:1", "partition", "1");
        tree.slave("253:0", "8:1");
        tree.slave("253:0", "8:16");
        let mut seen = Vec::new();
        let top: DevNo = "253:0".parse().unwrap();
        walk(&Sysfs::at(tree.block()), top, &mut |dev, below| {
            seen.push((dev.to_string(), below.is_drive()));
        })
        .unwrap();
        let shown: Vec<(&str, bool)> = seen.iter().map(|(d, is)| (d.as_str(), *is)).collect();
        assert_eq!(
            shown,
            [("253:0", false), ("8:1", false), ("8:0", true), ("8:16", true)]
        );
    }

    #[test]
    fn a_loop_ends() {
        let tree = Tree::make();
        tree.add("253:0", "dm-0");
        tree.slave("253:0", "253:0");
        let top = "253:0".parse().unwrap();
        let said = walk(&Sysfs::at(tree.block()), top, &mut |_, _| {})
            .unwrap_err()
            .to_string();
        assert_eq!(said, "the devices under 253:0 are stacked more than 16 deep");
    }

    #[test]
    fn a_drive_below_two_others_is_visited_once() {
        let tree = Tree::make();
        for (dev, name) in [
            ("8:0", "sda"),
            ("253:1", "dm-1"),
            ("253:2", "dm-2"),
            ("253:0", "dm-0"),
        ] {
            tree.add(dev, name);
        }
        for (above, below) in [
            ("253:0", "253:1"),
            ("253:0", "253:2"),
            ("253:1", "8:0"),
            ("253:2", "8:0"),
        ] {
            tree.slave(above, below);
        }
        let mut drives = 0;
        let top = "253:0".parse().unwrap();
        walk(&Sysfs::at(tree.block()), top, &mut |_, below| {
            drives += u32::from(below.is_drive())
        })
        .unwrap();
        assert_eq!(drives, 1);
    }
}

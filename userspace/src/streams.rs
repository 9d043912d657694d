// SPDX-License-Identifier: GPL-2.0-only
//! How many write streams there are below a stacked device.
//!
//! A device-mapper or md device says 0, whatever lies below it, so that the
//! kernel must be told.

use anyhow::{bail, Result};

use crate::devno::DevNo;
use crate::sysfs::Sysfs;

const ATTRIBUTE: &str = "queue/max_write_streams";
/// Stacks are not deeper; a loop in a broken sysfs would be.
const DEPTH: u32 = 16;

/// What was found below a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// The least number of streams of any disk; `None` when this kernel has no
    /// write streams.
    pub streams: Option<u32>,
    /// Whether the kernel cannot find that out by itself.
    pub stacked: bool,
    /// Layers that make new bios, and so lose the streams.
    pub losing: Vec<String>,
    /// The disks, by the kernel's names.
    pub disks: Vec<String>,
}

pub fn below(sysfs: &Sysfs, dev: DevNo) -> Result<Below> {
    let mut found = Below::default();
    let disk = sysfs.disk_of(dev)?.unwrap_or(dev);
    found.stacked =
        (sysfs.is_dm(disk) || sysfs.is_md(disk)) && sysfs.number::<u32>(disk, ATTRIBUTE).unwrap_or(0) == 0;
    descend(sysfs, dev, 0, &mut found)?;
    found.disks.sort();
    found.disks.dedup();
    Ok(found)
}

fn descend(sysfs: &Sysfs, dev: DevNo, depth: u32, found: &mut Below) -> Result<()> {
    if depth > DEPTH {
        bail!("the devices below {dev} are stacked more than {DEPTH} deep");
    }
    if let Some(disk) = sysfs.disk_of(dev)? {
        return descend(sysfs, disk, depth + 1, found);
    }
    if loses_streams(sysfs, dev) {
        found.losing.push(sysfs.name(dev));
    }
    let slaves = sysfs.links(dev, "slaves")?;
    if slaves.is_empty() {
        let name = sysfs.name(dev);
        if !found.disks.contains(&name) {
            let own = sysfs.number::<u32>(dev, ATTRIBUTE);
            found.streams = if found.disks.is_empty() {
                own
            } else {
                found.streams.zip(own).map(|(a, b)| a.min(b))
            };
            found.disks.push(name);
        }
        return Ok(());
    }
    for slave in slaves {
        descend(sysfs, slave, depth + 1, found)?;
    }
    Ok(())
}

/// dm-crypt encrypts into bios of its own; parity RAID writes stripes.
fn loses_streams(sysfs: &Sysfs, dev: DevNo) -> bool {
    let crypt = sysfs
        .text(dev, "dm/uuid")
        .is_some_and(|uuid| uuid.starts_with("CRYPT-"));
    let parity = sysfs
        .text(dev, "md/level")
        .is_some_and(|level| ["raid4", "raid5", "raid6"].contains(&level.as_str()));
    crypt || parity
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    fn dev(s: &str) -> DevNo {
        s.parse().unwrap()
    }

    /// LVM over md over a partition of one disk and the whole of another.
    fn stack() -> Tree {
        let t = Tree::make();
        t.add("259:0", "nvme0n1");
        t.set("259:0", ATTRIBUTE, "8");
        t.add("259:1", "nvme0n1/nvme0n1p1");
        t.set("259:1", "partition", "1");
        t.add("259:2", "nvme1n1");
        t.set("259:2", ATTRIBUTE, "5");
        t.add("9:0", "md0");
        t.set("9:0", "md/level", "raid1");
        t.slave("9:0", "259:1");
        t.slave("9:0", "259:2");
        t.add("253:0", "dm-0");
        t.set("253:0", "dm/uuid", "LVM-x");
        t.slave("253:0", "9:0");
        t
    }

    #[test]
    fn the_least_of_all_disks_counts() {
        let t = stack();
        let found = below(&t.sysfs(), dev("253:0")).unwrap();
        assert_eq!(found.streams, Some(5));
        assert!(found.stacked);
        assert_eq!(found.disks, ["nvme0n1", "nvme1n1"]);
        assert!(found.losing.is_empty());
    }

    #[test]
    fn a_disk_and_its_partition_tell_themselves() {
        let t = stack();
        for d in ["259:0", "259:1"] {
            let found = below(&t.sysfs(), dev(d)).unwrap();
            assert_eq!((found.streams, found.stacked), (Some(8), false));
        }
    }

    #[test]
    fn a_kernel_without_streams() {
        let t = Tree::make();
        t.add("8:0", "sda");
        t.add("253:0", "dm-0");
        t.set("253:0", "dm/uuid", "");
        t.slave("253:0", "8:0");
        let found = below(&t.sysfs(), dev("253:0")).unwrap();
        assert_eq!((found.streams, found.stacked), (None, true));
    }

    #[test]
    fn a_stacked_device_that_tells_itself_is_left_alone() {
        let t = stack();
        t.set("253:0", ATTRIBUTE, "4");
        assert!(!below(&t.sysfs(), dev("253:0")).unwrap().stacked);
    }

    #[test]
    fn layers_that_lose_streams_are_named() {
        let t = stack();
        t.add("253:1", "dm-1");
        t.set("253:1", "dm/uuid", "CRYPT-LUKS2-x");
        t.slave("253:1", "253:0");
        assert_eq!(below(&t.sysfs(), dev("253:1")).unwrap().losing, ["dm-1"]);
        t.set("9:0", "md/level", "raid5");
        assert_eq!(below(&t.sysfs(), dev("253:1")).unwrap().losing, ["dm-1", "md0"]);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What lies below a stacked device: its disks, how many write streams they take,
//! and whether a write's error comes back as the disk gave it.
//!
//! A device-mapper or md device says 0 streams, whatever lies below it, and the target
//! cannot see another device's table.  It is given the disks at the bottom (the
//! feature `leaves`) when nothing but linear mappings lies between.

use anyhow::Result;

use crate::devno::DevNo;
use crate::ioctl::{Dm, Id};
use crate::stack;
use crate::sysfs::Sysfs;

const ATTRIBUTE: &str = "queue/max_write_streams";
/// Targets that send a bio on as it is, and its error back.
const LINEAR: [&str; 5] = ["linear", "striped", "dsm", "error", "zero"];

/// What was found below a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LowerStack {
    /// The least number of streams of any disk; `None` when this kernel has no
    /// write streams.
    pub streams: Option<u32>,
    /// Whether the kernel cannot find that out by itself.
    pub stacked: bool,
    /// Layers that make new bios, and so lose the streams.
    pub losing: Vec<String>,
    /// Layers that are not known to be linear; only of a stacked device.
    pub barring: Vec<String>,
    /// The disks, by the kernel's names.
    pub disks: Vec<String>,
    /// Their numbers.
    pub leaves: Vec<DevNo>,
}

impl LowerStack {
    /// The disks to name to the target, if that helps it.
    pub fn leaves_to_name(&self) -> &[DevNo] {
        let helps = self.stacked && self.barring.is_empty() && self.streams.is_some_and(|n| n > 0);
        if helps {
            &self.leaves
        } else {
            &[]
        }
    }
}

/// The target types of a device-mapper device's live table; `None` when they cannot be
/// known.
pub trait LiveTables {
    fn targets(&self, dev: DevNo) -> Option<Vec<String>>;
}

impl LiveTables for Dm {
    fn targets(&self, dev: DevNo) -> Option<Vec<String>> {
        let (_, lines) = self.table(Id::Dev(dev)).ok()?;
        Some(lines.into_iter().map(|line| line.target).collect())
    }
}

/// For who asks of disks only, and may not be permitted to ask device-mapper.
pub struct Unknown;

impl LiveTables for Unknown {
    fn targets(&self, _: DevNo) -> Option<Vec<String>> {
        None
    }
}

pub fn below(sysfs: &Sysfs, tables: &dyn LiveTables, dev: DevNo) -> Result<LowerStack> {
    let mut found = LowerStack::default();
    let disk = sysfs.disk_of(dev)?.unwrap_or(dev);
    found.stacked = stacked(sysfs, disk) && own(sysfs, disk).unwrap_or(0) == 0;
    stack::walk(sysfs, dev, &mut |dev, on| {
        look(sysfs, tables, dev, on, &mut found)
    })?;
    for list in [&mut found.disks, &mut found.barring] {
        list.sort();
        list.dedup();
    }
    found.leaves.sort();
    Ok(found)
}

/// What devices have, where that is not the same for all: `nvme1n1 has 8, nvme0n1 has none`,
/// each once, in the order in which they are given.
pub fn differing(sysfs: &Sysfs, tables: &dyn LiveTables, devs: &[DevNo]) -> Result<Option<String>> {
    let mut all = Vec::new();
    for &dev in devs {
        // A kernel without write streams has them nowhere.
        let streams = below(sysfs, tables, dev)?.streams.unwrap_or(0);
        let one = (sysfs.name(dev), streams);
        if !all.contains(&one) {
            all.push(one);
        }
    }
    let shown = all.iter().map(|(name, streams)| match streams {
        0 => format!("{name} has none"),
        n => format!("{name} has {n}"),
    });
    let same = all.windows(2).all(|w| w[0].1 == w[1].1);
    Ok((!same).then(|| shown.collect::<Vec<_>>().join(", ")))
}

fn stacked(sysfs: &Sysfs, dev: DevNo) -> bool {
    sysfs.is_dm(dev) || sysfs.is_md(dev)
}

fn own(sysfs: &Sysfs, dev: DevNo) -> Option<u32> {
    sysfs.number(dev, ATTRIBUTE)
}

fn look(sysfs: &Sysfs, tables: &dyn LiveTables, dev: DevNo, on: &stack::Below, found: &mut LowerStack) {
    if matches!(on, stack::Below::Disk(_)) {
        return;
    }
    if loses_streams(sysfs, dev) {
        found.losing.push(sysfs.name(dev));
    }
    if stacked(sysfs, dev) || !on.is_drive() {
        found.barring.extend(bars(sysfs, tables, dev));
    }
    if on.is_drive() {
        let own = own(sysfs, dev);
        found.streams = if found.leaves.is_empty() {
            own
        } else {
            found.streams.zip(own).map(|(a, b)| a.min(b))
        };
        found.disks.push(sysfs.name(dev));
        found.leaves.push(dev);
    }
}

/// What of a stacked device is not linear, if anything is.
fn bars(sysfs: &Sysfs, tables: &dyn LiveTables, dev: DevNo) -> Option<String> {
    let name = sysfs.name(dev);
    if !sysfs.is_dm(dev) {
        let what = sysfs.text(dev, "md/level").unwrap_or_else(|| "unknown".into());
        return Some(format!("{name} ({what})"));
    }
    let Some(targets) = tables.targets(dev) else {
        return Some(format!("{name} (unknown)"));
    };
    let other = targets.iter().find(|t| !LINEAR.contains(&t.as_str()))?;
    Some(format!("{name} ({other})"))
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
    use testing::sysfs::Tree;

    fn dev(s: &str) -> DevNo {
        s.parse().unwrap()
    }

    /// Tables by device number.
    struct Fake(Vec<(&'static str, Vec<&'static str>)>);

    impl LiveTables for Fake {
        fn targets(&self, of: DevNo) -> Option<Vec<String>> {
            let (_, targets) = self.0.iter().find(|(d, _)| dev(d) == of)?;
            Some(targets.iter().map(|t| (*t).to_owned()).collect())
        }
    }

    fn linear() -> Fake {
        Fake(vec![("253:0", vec!["linear", "linear"])])
    }

    /// LVM over md over a partition of one disk and the whole of another.
    fn stack() -> Tree {
        let t = disks();
        t.add("9:0", "md0");
        t.set("9:0", "md/level", "raid1");
        t.slave("9:0", "259:1");
        t.slave("9:0", "259:2");
        t.add("253:0", "dm-0");
        t.set("253:0", "dm/uuid", "LVM-x");
        t.slave("253:0", "9:0");
        t
    }

    /// LVM over both.
    fn volume() -> Tree {
        let t = disks();
        t.add("253:0", "dm-0");
        t.set("253:0", "dm/uuid", "LVM-x");
        t.slave("253:0", "259:1");
        t.slave("253:0", "259:2");
        t
    }

    fn disks() -> Tree {
        let t = Tree::make();
        t.add("259:0", "nvme0n1");
        t.set("259:0", ATTRIBUTE, "8");
        t.add("259:1", "nvme0n1/nvme0n1p1");
        t.set("259:1", "partition", "1");
        t.add("259:2", "nvme1n1");
        t.set("259:2", ATTRIBUTE, "5");
        t
    }

    fn look(t: &Tree, tables: &dyn LiveTables, d: &str) -> LowerStack {
        below(&Sysfs::at(t.block()), tables, dev(d)).unwrap()
    }

    #[test]
    fn the_least_of_all_disks_counts() {
        let found = look(&stack(), &linear(), "253:0");
        assert_eq!(found.streams, Some(5));
        assert!(found.stacked);
        assert_eq!(found.disks, ["nvme0n1", "nvme1n1"]);
        assert!(found.losing.is_empty());
    }

    #[test]
    fn leaves_are_named_below_linear_mappings() {
        let found = look(&volume(), &linear(), "253:0");
        assert_eq!((found.streams, found.stacked), (Some(5), true));
        assert!(found.barring.is_empty());
        assert_eq!(found.leaves_to_name(), [dev("259:0"), dev("259:2")]);
    }

    #[test]
    fn and_below_nothing_else() {
        let found = look(&stack(), &linear(), "253:0");
        assert_eq!(found.barring, ["md0 (raid1)"]);
        assert!(found.leaves_to_name().is_empty());
        let found = look(&stack(), &linear(), "9:0");
        assert!(found.stacked && found.leaves_to_name().is_empty());
        for bad in ["raid", "mirror", "multipath", "crypt", "thin", "snapshot"] {
            let found = look(&volume(), &Fake(vec![("253:0", vec!["linear", bad])]), "253:0");
            assert_eq!(found.barring, [format!("dm-0 ({bad})")]);
            assert!(found.leaves_to_name().is_empty());
        }
        let found = look(&volume(), &Unknown, "253:0");
        assert_eq!(found.barring, ["dm-0 (unknown)"]);
        assert!(found.leaves_to_name().is_empty());
    }

    #[test]
    fn nor_where_a_disk_has_no_streams() {
        let t = volume();
        t.set("259:2", ATTRIBUTE, "0");
        let found = look(&t, &linear(), "253:0");
        assert_eq!(found.streams, Some(0));
        assert!(found.leaves_to_name().is_empty());
    }

    #[test]
    fn devices_that_differ() {
        let t = disks();
        t.add("259:3", "nvme2n1");
        t.set("259:3", ATTRIBUTE, "8");
        t.add("8:0", "sda");
        let differ = |devs: &[&str]| {
            let devs: Vec<DevNo> = devs.iter().map(|d| dev(d)).collect();
            differing(&Sysfs::at(t.block()), &Unknown, &devs).unwrap()
        };
        assert_eq!(differ(&["259:1"]), None);
        assert_eq!(
            differ(&["259:1", "259:3", "259:1"]),
            None,
            "a partition, another disk"
        );
        assert_eq!(
            differ(&["259:3", "8:0", "259:2", "259:3"]).unwrap(),
            "nvme2n1 has 8, sda has none, nvme1n1 has 5",
            "in the order of the segments"
        );
        assert_eq!(differ(&["8:0", "8:0"]), None, "of none");
    }

    #[test]
    fn a_disk_and_its_partition_tell_themselves() {
        for d in ["259:0", "259:1"] {
            let found = look(&stack(), &linear(), d);
            assert_eq!((found.streams, found.stacked), (Some(8), false));
            assert!(found.leaves_to_name().is_empty());
        }
    }

    #[test]
    fn a_kernel_without_streams() {
        let t = Tree::make();
        t.add("8:0", "sda");
        t.add("253:0", "dm-0");
        t.set("253:0", "dm/uuid", "");
        t.slave("253:0", "8:0");
        let found = look(&t, &linear(), "253:0");
        assert_eq!((found.streams, found.stacked), (None, true));
        assert!(found.leaves_to_name().is_empty());
    }

    #[test]
    fn a_stacked_device_that_reports_streams_needs_no_leaves() {
        let t = volume();
        t.set("253:0", ATTRIBUTE, "4");
        let found = look(&t, &linear(), "253:0");
        assert!(!found.stacked && found.leaves_to_name().is_empty());
    }

    #[test]
    fn layers_that_lose_streams_are_named() {
        let t = stack();
        t.add("253:1", "dm-1");
        t.set("253:1", "dm/uuid", "CRYPT-LUKS2-x");
        t.slave("253:1", "253:0");
        assert_eq!(look(&t, &linear(), "253:1").losing, ["dm-1"]);
        t.set("9:0", "md/level", "raid5");
        assert_eq!(look(&t, &linear(), "253:1").losing, ["dm-1", "md0"]);
    }
}

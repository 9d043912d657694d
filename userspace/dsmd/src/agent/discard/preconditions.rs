// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the drives are what the rule needs.

use std::io;
use std::path::Path;

use dm::devno::DevNo;
use dm::diskstat::{self, DiskStat};
use dm::stack;
use dm::streams;
use dm::sysfs::Sysfs;
use drive::nvme::Namespace;

/// Bytes; a drive may ignore what is smaller than its granularity, and most of what
/// WiredTiger frees is smaller than this.
const COARSE: u64 = 64 << 10;
pub(crate) const GRANULARITY: &str = "queue/discard_granularity";

/// The drives below a device: whether a page that was discarded can be read without
/// an error.  Gives a warning.
pub fn drives(sysfs: &Sysfs, dev: DevNo) -> Result<Option<String>, String> {
    let fails = |disk: &str| {
        let namespace = Namespace::open(&Path::new("/dev").join(disk))?;
        namespace.map_or(Ok(false), |n| n.deallocated_reads_fail())
    };
    drives_that(&fails, sysfs, dev)
}

fn drives_that(
    fails: &dyn Fn(&str) -> io::Result<bool>,
    sysfs: &Sysfs,
    dev: DevNo,
) -> Result<Option<String>, String> {
    let below = streams::below(sysfs, &streams::Unknown, dev).map_err(|e| format!("{e:#}"))?;
    for disk in below.disks.iter().filter(|d| d.starts_with("nvme")) {
        let fails = fails(disk);
        if fails.map_err(|e| format!("cannot ask {disk} whether reads of discarded blocks fail: {e}"))? {
            return Err(format!(
                "{disk} fails reads of discarded blocks (DULBE): copies of whole files would end in errors"
            ));
        }
    }
    let warnings: Vec<String> = granularity(sysfs, dev)
        .into_iter()
        .chain(uncounted(sysfs, dev))
        .collect();
    Ok((!warnings.is_empty()).then(|| warnings.join("; ")))
}

/// The pace goes by what discards and reads take.
fn uncounted(sysfs: &Sysfs, dev: DevNo) -> Option<String> {
    let mut names = Vec::new();
    let _ = stack::walk(sysfs, dev, &mut |dev, below| {
        if below.is_drive() && !diskstat::is_counted(sysfs, dev) {
            names.push(sysfs.name(dev));
        }
    });
    let names = (!names.is_empty()).then(|| names.join(", "))?;
    Some(format!(
        "the kernel does not count what {names} does (queue/iostats is 0), so that discards are not slowed down for a slow drive"
    ))
}

/// What the drives below a device count.
pub fn drive(sysfs: &Sysfs, dev: DevNo) -> DiskStat {
    let mut sum = DiskStat::default();
    // What cannot be looked at counts nothing.
    let _ = stack::walk(sysfs, dev, &mut |dev, below| {
        if below.is_drive() {
            sum.add(&DiskStat::of(sysfs, dev).unwrap_or_default());
        }
    });
    sum
}

fn granularity(sysfs: &Sysfs, dev: DevNo) -> Option<String> {
    let bytes: u64 = sysfs.number(dev, GRANULARITY)?;
    (bytes > COARSE).then(|| {
        format!(
            "the drive discards in units of {} KiB, larger than most of what a checkpoint frees: expect little",
            bytes >> 10
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::sysfs::Tree;

    #[test]
    fn the_drives_are_counted_and_not_what_lies_between() {
        let tree = Tree::make();
        for (dev, name, stat) in [
            ("8:0", "sda", "1 0 0 10 0 0 0 0 0 0 0 5 0 0 50"),
            ("8:16", "sdb", "2 0 0 20 0 0 0 0 0 0 0 6 0 0 60"),
            ("9:0", "md0", "9 0 0 90 0 0 0 0 0 0 0 9 0 0 90"),
            ("253:0", "dm-0", "9 0 0 90 0 0 0 0 0 0 0 9 0 0 90"),
        ] {
            tree.add(dev, name);
            tree.set(dev, "stat", stat);
        }
        tree.slave("9:0", "8:0");
        tree.slave("9:0", "8:16");
        tree.slave("253:0", "9:0");
        let sum = drive(&tree.sysfs(), "253:0".parse().unwrap());
        assert_eq!(
            (sum.reads, sum.read_ms, sum.discards, sum.discard_ms),
            (3, 30, 11, 110)
        );
    }

    #[test]
    fn drives_of_large_units_are_reported() {
        let tree = Tree::make();
        tree.add("8:0", "sda");
        tree.add("253:0", "dm-0");
        tree.slave("253:0", "8:0");
        let warning = |bytes: &str| {
            tree.set("253:0", "queue/discard_granularity", bytes);
            drives(&tree.sysfs(), "253:0".parse().unwrap()).unwrap()
        };
        assert_eq!(warning("4096"), None);
        assert_eq!(warning("65536"), None);
        assert!(warning("131072").unwrap().contains("units of 128 KiB"));
        // The pace is blind.
        tree.set("8:0", "queue/iostats", "0");
        assert!(warning("4096")
            .unwrap()
            .starts_with("the kernel does not count what sda does"));
        assert!(warning("131072")
            .unwrap()
            .contains("expect little; the kernel does not count"));
        tree.set("8:0", "queue/iostats", "1");
        assert_eq!(warning("4096"), None);
        // One NVMe drive of two
        tree.add("253:1", "dm-1");
        for (dev, disk) in [("259:1", "nvme8n1"), ("259:2", "nvme9n1")] {
            tree.add(dev, disk);
            tree.slave("253:1", dev);
        }
        let of = |bad: &str| drives_that(&|disk| Ok(disk == bad), &tree.sysfs(), "253:1".parse().unwrap());
        assert_eq!(of("none"), Ok(None));
        for bad in ["nvme8n1", "nvme9n1"] {
            let said = of(bad).unwrap_err();
            assert!(
                said.starts_with(&format!("{bad} fails reads of discarded blocks (DULBE)")),
                "{said}"
            );
        }
        // An NVMe drive that cannot be asked may be one that fails reads.
        tree.add("259:0", "nvme77n1");
        tree.slave("253:0", "259:0");
        let said = drives(&tree.sysfs(), "253:0".parse().unwrap()).unwrap_err();
        assert!(said.starts_with("cannot ask nvme77n1"), "{said}");
    }
}

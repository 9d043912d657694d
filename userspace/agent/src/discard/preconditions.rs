// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the file system, its mount and the drive are what the rule needs.

use std::io;
use std::path::{Path, PathBuf};

use dm::devno::DevNo;
use dm::mounts::Mount;
use dm::stack;
use dm::streams;
use dm::sysfs::Sysfs;
use drive::diskstat::DiskStat;
use drive::nvme::Namespace;

/// Bytes; a drive may ignore what is smaller than its granularity, and most of what
/// WiredTiger frees is smaller than this.
const COARSE: u64 = 64 << 10;
pub(crate) const GRANULARITY: &str = "queue/discard_granularity";

/// What a mount must be: durable when it says so, and with its metadata in a journal.
fn check_mount(m: &Mount) -> Result<(), String> {
    let kind = &m.kind;
    if kind != "ext4" && kind != "xfs" {
        return Err(format!(
            "the file system is {kind}, and only ext4 and XFS are known well enough"
        ));
    }
    check_options(m.options.split(','))
}

fn check_options<'a>(options: impl Iterator<Item = &'a str>) -> Result<(), String> {
    for option in options {
        if ["nobarrier", "barrier=0", "data=writeback", "dax", "dax=always"].contains(&option) {
            return Err(format!("the file system is mounted with {option}"));
        }
        // Extents of a file there look as if they lay on the device of the data.
        if option.starts_with("rtdev=") {
            return Err(format!("the file system has a realtime device ({option})"));
        }
    }
    Ok(())
}

/// The mounts of a device, in words that change when they do.
pub fn mount(mounts: &[Mount], dev: DevNo) -> Result<String, String> {
    let words = |m: &Mount| format!("{} {} {}", m.id, m.kind, m.options);
    let mounts: Vec<&Mount> = mounts.iter().filter(|m| m.dev == dev).collect();
    if mounts.is_empty() {
        return Err(format!(
            "the mount of the file system's device {dev} is not found"
        ));
    }
    mounts.iter().try_for_each(|m| check_mount(m))?;
    Ok(mounts.into_iter().map(words).collect::<Vec<_>>().join("; "))
}

/// Whether a file system of a device is an ext4.
pub(crate) fn is_ext4(mounts: &[Mount], dev: DevNo) -> bool {
    mounts.iter().any(|m| m.dev == dev && m.kind == "ext4")
}

/// ext4 does not say among a mount's options what its superblock has as a default, and
/// can be made without a journal.  `proc` and `sys` have a directory for each of them.
pub fn ext4(proc: &Path, sys: &Path, name: &str) -> Result<(), String> {
    let text = |path: PathBuf| {
        let text = std::fs::read_to_string(&path);
        text.map_err(|e| {
            format!(
                "cannot determine how the ext4 is mounted: {}: {e}",
                path.display()
            )
        })
    };
    if text(sys.join(name).join("journal_task"))?.trim() == "<none>" {
        return Err("the file system is an ext4 without a journal".into());
    }
    let options = text(proc.join(name).join("options"))?;
    check_options(options.lines())?;
    for (needed, one_of) in [
        ("barriers", &["barrier", "barrier=1"][..]),
        ("a mode of its journal", &["data=ordered", "data=journal"]),
    ] {
        if !options.lines().any(|o| one_of.contains(&o)) {
            return Err(format!("the ext4 does not say that it has {needed}"));
        }
    }
    Ok(())
}

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
    Ok(granularity(sysfs, dev))
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
    use dm::mounts;
    use testing::sysfs::Tree;

    const INFO: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
40 27 253:0 / /db rw,noatime shared:5 - xfs /dev/mapper/d rw,attr2,inode64
41 27 253:0 /x /mnt ro - xfs /dev/mapper/d rw,attr2,inode64
42 27 253:1 / /b rw - ext4 /dev/mapper/b rw,nobarrier
43 27 253:2 / /c rw - ext4 /dev/mapper/c rw,errors=remount-ro,data=writeback
44 27 253:3 / /e rw - btrfs /dev/e rw
45 27 253:4 / /f rw - ext4 /dev/f rw,barrier=0
46 27 253:5 / /g rw - xfs /dev/g rw,attr2,rtdev=/dev/h
47 27 253:6 / /h rw - ext4 /dev/i rw
48 27 253:6 / /i rw - ext4 /dev/i rw,nobarrier
";

    #[test]
    fn mounts_that_are_known_well_enough() {
        let of = |dev: &str| mount(&mounts::parse(INFO.as_bytes()), dev.parse().unwrap());
        assert_eq!(
            of("253:0").unwrap(),
            "40 xfs rw,attr2,inode64; 41 xfs rw,attr2,inode64"
        );
        for (dev, why) in [
            ("253:1", "the file system is mounted with nobarrier"),
            ("253:2", "the file system is mounted with data=writeback"),
            (
                "253:3",
                "the file system is btrfs, and only ext4 and XFS are known well enough",
            ),
            ("253:4", "the file system is mounted with barrier=0"),
            ("253:5", "the file system has a realtime device (rtdev=/dev/h)"),
            ("253:6", "the file system is mounted with nobarrier"),
            (
                "253:9",
                "the mount of the file system's device 253:9 is not found",
            ),
        ] {
            assert_eq!(of(dev).unwrap_err(), why);
        }
    }

    #[test]
    fn what_an_ext4_says_of_itself() {
        let dir = tempfile::tempdir().unwrap();
        let said = |task: Option<&str>, options: Option<&str>| {
            let at = dir.path().join("dm-0");
            for (name, text) in [("journal_task", task), ("options", options)] {
                std::fs::create_dir_all(&at).unwrap();
                let _ = std::fs::remove_file(at.join(name));
                if let Some(text) = text {
                    std::fs::write(at.join(name), text).unwrap();
                }
            }
            ext4(dir.path(), dir.path(), "dm-0")
        };
        let good = "rw\nbsddf\nbarrier\nuser_xattr\ndata=ordered\n";
        assert_eq!(said(Some("321\n"), Some(good)), Ok(()));
        assert_eq!(
            said(Some("321\n"), Some(&good.replace("ordered", "journal"))),
            Ok(())
        );
        let no = |task, options: Option<&str>, why: &str| {
            let said = said(task, options).unwrap_err();
            assert!(said.contains(why), "{said}");
        };
        no(Some("<none>\n"), Some(good), "without a journal");
        // In doubt: what cannot be read, or says nothing.
        no(None, Some(good), "journal_task: No such file");
        no(Some("321"), None, "options: No such file");
        no(Some("321"), Some("rw\n"), "does not say that it has barriers");
        no(Some("321"), Some("rw\nbarrier\n"), "a mode of its journal");
        // What a mount of a superblock with such defaults does not show
        no(
            Some("321"),
            Some(&good.replace("barrier", "nobarrier")),
            "is mounted with nobarrier",
        );
        no(
            Some("321"),
            Some(&good.replace("ordered", "writeback")),
            "is mounted with data=writeback",
        );
    }

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

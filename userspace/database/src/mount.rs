// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a file system keeps what it was told to: what discards, and a file that is
//! filled to probe a drive, need of a mount.

use std::path::{Path, PathBuf};

use dm::devno::DevNo;
use dm::mounts::Mount;

/// With data=journal a page may be in use long before its place is written: the audit would
/// take it for one that nobody has written.
const NOT: [&str; 6] = [
    "nobarrier",
    "barrier=0",
    "data=writeback",
    "data=journal",
    "dax",
    "dax=always",
];

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
        if NOT.contains(&option) {
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
pub fn check(mounts: &[Mount], dev: DevNo) -> Result<String, String> {
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
pub fn is_ext4(mounts: &[Mount], dev: DevNo) -> bool {
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
        ("a mode of its journal", &["data=ordered"]),
    ] {
        if !options.lines().any(|o| one_of.contains(&o)) {
            return Err(format!("the ext4 does not say that it has {needed}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm::mounts;

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
        let of = |dev: &str| check(&mounts::parse(INFO.as_bytes()), dev.parse().unwrap());
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
        for other in ["writeback", "journal"] {
            no(
                Some("321"),
                Some(&good.replace("ordered", other)),
                &format!("is mounted with data={other}"),
            );
        }
    }
}

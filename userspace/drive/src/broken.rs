// SPDX-License-Identifier: GPL-2.0-or-later
//! Drives on which a discard has changed what it was not about, as `dsmctl probe-discard`
//! found; and devices of which the audit has found that their database uses pages that it has
//! not written.  A mark on disk says so, until an operator takes it away: it outlives dsmd,
//! the device and the machine's boot.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};

use dm::devno::DevNo;
use dm::streams;
use dm::sysfs::Sysfs;

/// Where marks are, and what else is known of devices by name and has to outlive a boot.
pub const DIR: &str = "/var/lib/dm-dsm";
const PREFIX: &str = "broken-";
/// What the drive itself says first, so that all namespaces are the drive; the size is of one
/// that has no name, and may be another's of the same size, which is the safe error.
const IDENTITY: [&str; 5] = ["device/serial", "wwid", "device/wwid", "serial", "size"];
/// What is said of a device before the reason.
pub const AUDIT_FAILED: &str = "the audit of its database has failed";
/// What the reason then ends with, if no data can have been lost.
pub const ALL_KEPT: &str = "nothing had been discarded by then";
/// Before the name of a device, for which the mark is.
const DEVICE: &str = "dsm ";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The attribute of sysfs by which the drive is known, and its value; or `dsm`, and the name
    /// of a device.
    pub drive: String,
    pub model: String,
    /// The kernel's name of the disk then.
    pub disk: String,
    pub why: String,
    /// Seconds since 1970.
    pub at: u64,
}

impl Mark {
    /// By which an operator names it.
    pub fn name(&self) -> String {
        file_name(&self.drive)[PREFIX.len()..].to_owned()
    }

    /// Of a device and its database, whatever drive it lies on.
    pub fn is_device(&self) -> bool {
        self.drive.starts_with(DEVICE)
    }

    /// Why nothing is discarded there.
    pub fn reason(&self) -> String {
        if self.is_device() {
            return format!("{AUDIT_FAILED}: {}; see `dsmctl broken`", self.why);
        }
        format!(
            "{} is marked as a drive whose discards change other data: see `dsmctl broken`",
            self.disk
        )
    }
}

/// Two drives with one name here are both marked by the mark of one.
fn file_name(drive: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = drive.chars().take(200).map(safe).collect();
    format!("{PREFIX}{name}")
}

fn identity(sysfs: &Sysfs, disk: DevNo) -> Result<String> {
    let of = |name: &&str| {
        let value = sysfs.text(disk, name).filter(|text| !text.is_empty())?;
        Some(format!("{name} {value}"))
    };
    let found = IDENTITY.iter().find_map(of);
    found.with_context(|| format!("{}: it has no identity in sysfs", sysfs.name(disk)))
}

/// Marks every drive below a device: which of several it was is not known.
pub fn mark(dir: &Path, sysfs: &Sysfs, dev: DevNo, why: &str) -> Result<Vec<Mark>> {
    let mut marks = Vec::new();
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for disk in disks(sysfs, dev)? {
        let mark = Mark {
            drive: identity(sysfs, disk)?,
            model: sysfs.text(disk, "device/model").unwrap_or_default(),
            disk: sysfs.name(disk),
            why: why.to_owned(),
            at: runtime::time::now().as_secs(),
        };
        let path = dir.join(file_name(&mark.drive));
        put(dir, &path, &mark).with_context(|| format!("cannot write {}", path.display()))?;
        marks.push(mark);
    }
    if marks.is_empty() {
        bail!("no disk is below the device");
    }
    Ok(marks)
}

/// Marks a device, and not its drive.
pub fn mark_device(dir: &Path, device: &str, why: &str) -> Result<Mark> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mark = Mark {
        drive: format!("{DEVICE}{device}"),
        model: String::new(),
        disk: device.to_owned(),
        why: why.to_owned(),
        at: runtime::time::now().as_secs(),
    };
    let path = dir.join(file_name(&mark.drive));
    put(dir, &path, &mark).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(mark)
}

/// Whole or not at all, and durable.
fn put(dir: &Path, path: &Path, mark: &Mark) -> io::Result<()> {
    let part = dir.join("part");
    let mut file = File::create(&part)?;
    // dsmd's umask is not for this: doctor reads it without root.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(&serde_json::to_vec(mark)?)?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    File::open(dir)?.sync_all()
}

fn disks(sysfs: &Sysfs, dev: DevNo) -> Result<Vec<DevNo>> {
    Ok(streams::below(sysfs, &streams::Unknown, dev)?.leaves)
}

/// Why nothing may be discarded on a device of this name: it is marked, or a drive below it
/// is, or nobody can tell.
pub fn below(dir: &Path, sysfs: &Sysfs, device: &str, dev: DevNo) -> Option<String> {
    let marks = match all(dir) {
        Ok(marks) => marks,
        Err(e) => return Some(format!("which drives are marked cannot be known: {e:#}")),
    };
    let of_device = file_name(&format!("{DEVICE}{device}"));
    if let Some(mark) = marks.iter().find(|m| file_name(&m.drive) == of_device) {
        return Some(mark.reason());
    }
    if marks.iter().all(Mark::is_device) {
        return None;
    }
    let found = disks(sysfs, dev).and_then(|disks| {
        let drives: Result<Vec<String>> = disks.into_iter().map(|d| identity(sysfs, d)).collect();
        let names: Vec<String> = drives?.iter().map(|drive| file_name(drive)).collect();
        Ok(marks.iter().find(|m| names.contains(&file_name(&m.drive))))
    });
    match found {
        Ok(mark) => mark.map(Mark::reason),
        Err(e) => Some(format!(
            "whether a drive below it is marked cannot be known: {e:#}"
        )),
    }
}

/// All marks that there are.
pub fn all(dir: &Path) -> Result<Vec<Mark>> {
    let named = || format!("cannot read {}", dir.display());
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(named)?,
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        paths.push(entry.with_context(named)?.path());
    }
    paths.sort();
    let is_mark = |p: &PathBuf| {
        p.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with(PREFIX))
    };
    let read = |path: PathBuf| {
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))
    };
    paths.into_iter().filter(is_mark).map(read).collect()
}

/// Takes the mark of this name away.
pub fn remove(dir: &Path, name: &str) -> Result<Mark> {
    let found = all(dir)?.into_iter().find(|m| m.name() == name);
    let mark = found.with_context(|| format!("{name}: no mark has this name"))?;
    let path = dir.join(file_name(&mark.drive));
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::sysfs::Tree;

    const SIZE: &str = "2048";

    fn machine() -> (Tree, tempfile::TempDir) {
        let tree = Tree::make();
        for (dev, path) in [
            ("259:0", "nvme0n1"),
            ("259:1", "nvme0n1/nvme0n1p1"),
            ("259:2", "nvme1n1"),
            ("253:0", "dm-0"),
            ("253:1", "dm-1"),
            ("253:2", "dm-2"),
        ] {
            tree.add(dev, path);
            tree.set(dev, "size", SIZE);
        }
        tree.set("259:1", "partition", "1");
        tree.set("259:0", "device/serial", "S 1/2");
        tree.set("259:0", "wwid", "eui.1");
        tree.set("259:2", "wwid", "eui.2");
        tree.slave("253:0", "259:1");
        tree.slave("253:1", "259:2");
        tree.slave("253:2", "259:0");
        (tree, tempfile::tempdir().unwrap())
    }

    fn dev(text: &str) -> DevNo {
        text.parse().unwrap()
    }

    #[test]
    fn a_mark_is_the_drives_and_not_the_devices() {
        let (tree, dir) = machine();
        let sysfs = tree.sysfs();
        let at = dir.path().join("new");
        assert_eq!(below(&at, &sysfs, "d", dev("253:0")), None);
        let marks = mark(&at, &sysfs, dev("253:0"), "4 KiB changed").unwrap();
        assert_eq!(marks.len(), 1);
        assert_eq!(
            (marks[0].disk.as_str(), marks[0].drive.as_str()),
            ("nvme0n1", "device/serial S 1/2")
        );
        for above in ["253:0", "253:2", "259:0", "259:1"] {
            let why = below(&at, &sysfs, "d", dev(above)).unwrap();
            assert!(
                why.starts_with("nvme0n1 is marked as a drive whose discards"),
                "{why}"
            );
        }
        assert_eq!(below(&at, &sysfs, "d", dev("253:1")), None, "another drive");
        assert_eq!(all(&at).unwrap(), marks);
        // The kernel names it otherwise after a boot.
        let (other, _) = machine();
        other.set("259:2", "device/serial", "S 1/2");
        assert!(below(&at, &other.sysfs(), "d", dev("253:1")).is_some());
        let name = marks[0].name();
        assert_eq!(name, "device_serial_S_1_2");
        assert!(remove(&at, "nonesuch")
            .unwrap_err()
            .to_string()
            .contains("no mark has this name"));
        assert_eq!(remove(&at, &name).unwrap(), marks[0]);
        assert_eq!(below(&at, &sysfs, "d", dev("253:0")), None);
    }

    /// Of a database that uses what it has not written: another one on the drive may be right.
    #[test]
    fn a_mark_of_a_device_is_not_the_drives() {
        let (tree, dir) = machine();
        let marked = |device: &str, at: &str| below(dir.path(), &tree.sysfs(), device, dev(at));
        let mark = mark_device(dir.path(), "vg-db", "a.wt: checkpoints 7 and 8 use 3 pages").unwrap();
        assert_eq!(mark.name(), "dsm_vg_db");
        let why = "the audit of its database has failed: a.wt: checkpoints 7 and 8 use 3 pages; see `dsmctl broken`";
        assert_eq!(marked("vg-db", "253:0").as_deref(), Some(why));
        assert_eq!(marked("vg-db", "253:1").as_deref(), Some(why), "also elsewhere");
        assert_eq!(marked("vg", "253:0"), None);
        assert_eq!(all(dir.path()).unwrap(), [mark]);
        super::mark(dir.path(), &tree.sysfs(), dev("253:0"), "4 KiB changed").unwrap();
        assert!(marked("vg", "253:0").unwrap().starts_with("nvme0n1 is marked"));
        remove(dir.path(), "dsm_vg_db").unwrap();
        assert!(marked("vg-db", "253:0").unwrap().starts_with("nvme0n1 is marked"));
        assert_eq!(marked("vg-db", "253:1"), None);
    }

    #[test]
    fn all_drives_of_a_stack_are_marked() {
        let (tree, dir) = machine();
        tree.slave("253:2", "259:2");
        mark(dir.path(), &tree.sysfs(), dev("253:2"), "x").unwrap();
        assert!(below(dir.path(), &tree.sysfs(), "d", dev("253:1")).is_some());
        assert!(below(dir.path(), &tree.sysfs(), "d", dev("253:0")).is_some());
    }

    /// When in doubt, nothing is discarded.
    #[test]
    fn what_cannot_be_read_is_a_mark() {
        let (tree, dir) = machine();
        std::fs::write(dir.path().join("off-x"), "").unwrap();
        assert_eq!(
            below(dir.path(), &tree.sysfs(), "d", dev("253:0")),
            None,
            "no mark"
        );
        std::fs::write(dir.path().join("broken-x"), "torn").unwrap();
        let why = below(dir.path(), &tree.sysfs(), "d", dev("253:0")).unwrap();
        assert!(
            why.starts_with("which drives are marked cannot be known: cannot read "),
            "{why}"
        );
        let file = dir.path().join("off-x");
        assert!(
            below(&file, &tree.sysfs(), "d", dev("253:0")).is_some(),
            "no directory"
        );
    }
}

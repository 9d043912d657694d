// SPDX-License-Identifier: GPL-2.0-or-later
//! Drives on which a discard has changed what it was not about, as `dsmctl probe-discard`
//! found; and devices of which the audit has found that their database uses pages that it has
//! not written.  A mark on disk says so, until an operator takes it away: it outlives dsmd,
//! the device and the machine's boot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};

use dm::devno::DevNo;
use dm::streams;
use dm::sysfs::Sysfs;
use proto::reason::{Reason, ReasonKind, AUDIT_FAILED};
use runtime::{time, whole};

/// Where marks are, and what else is known of devices by name and has to outlive a boot.
pub const DIR: &str = "/var/lib/dm-dsm";
const PREFIX: &str = "broken-";
/// What the drive itself says first, so that all namespaces are the drive; the size is of one
/// that has no name, and may be another's of the same size, which is the safe error.
const IDENTITY: [&str; 5] = ["device/serial", "wwid", "device/wwid", "serial", "size"];
/// What the reason of a device ends with, if no data can have been lost.
pub const ALL_KEPT: &str = "nothing had been discarded by then";
/// Before the name of a device, for which the mark is.
const DEVICE: &str = "dsm ";
const DM_UUID: &str = "dm/uuid";
const OWN_UUID: &str = "DSM-";

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
    /// Of a device: what it lies on, so that it is found below another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
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
    pub fn reason(&self) -> Reason {
        if self.is_device() {
            let kind = match self.why.ends_with(ALL_KEPT) {
                true => ReasonKind::AuditFailedInTime,
                false => ReasonKind::AuditFailed,
            };
            let text = format!("{AUDIT_FAILED}: {}; see `dsmctl broken`", self.why);
            return Reason::new(kind, text);
        }
        let text = format!(
            "{} is marked as a drive whose discards change other data: see `dsmctl broken`",
            self.disk
        );
        Reason::new(ReasonKind::Other, text)
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
    for disk in disks(sysfs, dev)? {
        let mark = Mark {
            drive: identity(sysfs, disk)?,
            model: sysfs.text(disk, "device/model").unwrap_or_default(),
            disk: sysfs.name(disk),
            why: why.to_owned(),
            at: time::now().as_secs(),
            places: Vec::new(),
        };
        put(dir, &mark)?;
        marks.push(mark);
    }
    if marks.is_empty() {
        bail!("no disk is below the device");
    }
    Ok(marks)
}

/// Marks a device, and not its drive; may be called again, for one that could not be written or
/// is there.  What was said first stays.
pub fn mark_device(dir: &Path, sysfs: &Sysfs, device: &str, dev: DevNo, why: &str) -> Result<Mark> {
    let drive = format!("{DEVICE}{device}");
    let found = all(dir).ok();
    let before = found.and_then(|marks| marks.into_iter().find(|m| m.drive == drive));
    let mut mark = before.clone().unwrap_or_else(|| Mark {
        drive,
        model: String::new(),
        disk: device.to_owned(),
        why: why.to_owned(),
        at: time::now().as_secs(),
        places: Vec::new(),
    });
    for place in places(sysfs, dev) {
        if !mark.places.contains(&place) {
            mark.places.push(place);
        }
    }
    if before.as_ref() != Some(&mark) {
        put(dir, &mark)?;
    }
    Ok(mark)
}

/// What a device is, whatever its name: what device-mapper's owner calls it, or what it lies on.
/// Nothing is said of what does not say it of itself.
fn places(sysfs: &Sysfs, dev: DevNo) -> Vec<String> {
    let uuid = |dev| sysfs.text(dev, DM_UUID).filter(|uuid| !uuid.is_empty());
    // The target's own has the device's name in it.
    if let Some(uuid) = uuid(dev).filter(|uuid| !uuid.starts_with(OWN_UUID)) {
        return vec![format!("{DM_UUID} {uuid}")];
    }
    let place = |below: DevNo| {
        if let Some(uuid) = uuid(below) {
            return Some(format!("{DM_UUID} {uuid}"));
        }
        let disk = sysfs.disk_of(below).ok()?;
        let of = identity(sysfs, disk.unwrap_or(below)).ok()?;
        let part = disk.and_then(|_| sysfs.text(below, "start"));
        let names = !of.starts_with("size ");
        names.then(|| format!("{of} from {}", part.unwrap_or_else(|| "0".to_owned())))
    };
    let mut places: Vec<String> = sysfs
        .links(dev, "slaves")
        .into_iter()
        .flatten()
        .filter_map(place)
        .collect();
    places.sort();
    places
}

fn put(dir: &Path, mark: &Mark) -> Result<()> {
    let path = dir.join(file_name(&mark.drive));
    // Doctor reads it without root.
    let written = whole::write(&path, 0o644, &serde_json::to_vec(mark)?);
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn disks(sysfs: &Sysfs, dev: DevNo) -> Result<Vec<DevNo>> {
    Ok(streams::below(sysfs, &streams::Unknown, dev)?.leaves)
}

/// Why nothing may be discarded on a device of this name: it is marked, or a drive below it
/// is, or nobody can tell.
pub fn below(dir: &Path, sysfs: &Sysfs, device: &str, dev: DevNo) -> Option<Reason> {
    let marks = match all(dir) {
        Ok(marks) => marks,
        Err(e) => return Some(format!("which drives are marked cannot be known: {e:#}").into()),
    };
    let of_device = file_name(&format!("{DEVICE}{device}"));
    let places = places(sysfs, dev);
    let is_it =
        |m: &&Mark| file_name(&m.drive) == of_device || m.places.iter().any(|place| places.contains(place));
    if let Some(mark) = marks.iter().find(is_it) {
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
        Err(e) => Some(format!("whether a drive below it is marked cannot be known: {e:#}").into()),
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
        tree.set("259:1", "start", "2048");
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
            let why = below(&at, &sysfs, "d", dev(above)).unwrap().text;
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
        let marked =
            |device: &str, at: &str| below(dir.path(), &tree.sysfs(), device, dev(at)).map(|why| why.text);
        let make = |why: &str| mark_device(dir.path(), &tree.sysfs(), "vg-db", dev("253:0"), why);
        let mark = make("a.wt: checkpoints 7 and 8 use 3 pages").unwrap();
        assert_eq!(make("again").unwrap(), mark, "what was said first");
        assert_eq!(mark.name(), "dsm_vg_db");
        let why = "the audit of its database has failed: a.wt: checkpoints 7 and 8 use 3 pages; see `dsmctl broken`";
        assert_eq!(marked("vg-db", "253:0").as_deref(), Some(why));
        let kind = |mark: &Mark| mark.reason().kind;
        let in_time = Mark {
            why: format!("a.wt; {ALL_KEPT}"),
            ..mark.clone()
        };
        assert_eq!(
            (kind(&mark), kind(&in_time)),
            (ReasonKind::AuditFailed, ReasonKind::AuditFailedInTime)
        );
        assert_eq!(marked("vg-db", "253:1").as_deref(), Some(why), "also elsewhere");
        assert_eq!(marked("vg", "253:2"), None);
        assert_eq!(all(dir.path()).unwrap(), [mark]);
        super::mark(dir.path(), &tree.sysfs(), dev("253:0"), "4 KiB changed").unwrap();
        assert!(marked("vg", "253:2").unwrap().starts_with("nvme0n1 is marked"));
        remove(dir.path(), "dsm_vg_db").unwrap();
        assert!(marked("vg-db", "253:0").unwrap().starts_with("nvme0n1 is marked"));
        assert_eq!(marked("vg-db", "253:1"), None);
    }

    /// As `dsmctl remove` and `create` under another name leave it, and a volume that is renamed.
    #[test]
    fn a_mark_of_a_device_outlives_its_name() {
        let (tree, dir) = machine();
        let marked = |device: &str, at: &str| below(dir.path(), &tree.sysfs(), device, dev(at)).is_some();
        tree.add("259:3", "nvme0n1/nvme0n1p2");
        for (part, start) in [("259:1", "2048"), ("259:3", "9999744")] {
            tree.set(part, "partition", "1");
            tree.set(part, "start", start);
        }
        let device = |at: &str, below: &str, uuid: &str| {
            tree.add(at, &format!("dm-{}", &at[4..]));
            tree.set(at, "dm/uuid", uuid);
            tree.slave(at, below);
        };
        device("253:5", "259:1", "DSM-db");
        device("253:6", "259:3", "DSM-other");
        mark_device(dir.path(), &tree.sysfs(), "db", dev("253:5"), "violated").unwrap();
        assert!(marked("db", "253:6"), "by name");
        assert!(!marked("other", "253:6"), "another partition");
        device("253:7", "259:1", "DSM-new");
        assert!(marked("new", "253:7"), "the same place");
        // A volume: what is below it is the group's, and may move.
        device("253:8", "259:2", "LVM-abc");
        device("253:9", "259:2", "LVM-def");
        mark_device(dir.path(), &tree.sysfs(), "vg-db", dev("253:8"), "violated").unwrap();
        assert!(marked("vg-renamed", "253:8") && !marked("vg-x", "253:9"));
        device("253:10", "253:8", "DSM-upon");
        assert!(marked("upon", "253:10"), "dsm above the volume");
        // What says nothing of itself is known by its name alone.
        tree.add("7:0", "loop0");
        tree.set("7:0", "size", SIZE);
        device("253:11", "7:0", "DSM-l");
        let mark = mark_device(dir.path(), &tree.sysfs(), "l", dev("253:11"), "violated").unwrap();
        assert!(mark.places.is_empty(), "{mark:?}");
    }

    #[test]
    fn two_marks_at_once() {
        let (tree, dir) = machine();
        let sysfs = tree.sysfs();
        std::thread::scope(|s| {
            for thread in 0..2 {
                let (dir, sysfs) = (dir.path(), &sysfs);
                s.spawn(move || {
                    for n in 0..200 {
                        let name = format!("{thread}-{n}");
                        mark_device(dir, sysfs, &name, dev("253:1"), &name).unwrap();
                    }
                });
            }
        });
        let marks = all(dir.path()).unwrap();
        assert_eq!(marks.len(), 400);
        assert!(marks.iter().all(|m| m.disk == m.why));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 400);
    }

    #[test]
    fn a_mark_that_could_not_be_written_is_written_later() {
        let (tree, dir) = machine();
        let at = dir.path().join("dir");
        fs::write(&at, "").unwrap();
        let make = || mark_device(&at, &tree.sysfs(), "db", dev("253:0"), "violated");
        make().unwrap_err();
        fs::remove_file(&at).unwrap();
        make().unwrap();
        assert!(below(&at, &tree.sysfs(), "db", dev("253:0")).is_some());
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
        let why = below(dir.path(), &tree.sysfs(), "d", dev("253:0")).unwrap().text;
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

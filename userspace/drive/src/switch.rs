// SPDX-License-Identifier: GPL-2.0-or-later
//! What keeps discards off, on disk, so that it outlives dsmd, the device and the machine's boot:
//! of a device, in NAME.switch, that a person has switched them off, and that its database has
//! used pages that it had not written, as an audit found; of a drive, in DRIVE.broken, that a
//! discard has changed what it was not about, as `dsmctl probe-discard` found.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};

use dm::device::Target;
use dm::devno::DevNo;
use dm::mode::Mode;
use dm::streams;
use dm::sysfs::Sysfs;
use proto::reason::{Reason, ReasonKind, AUDIT_FAILED, SWITCHED_OFF};
use runtime::{time, whole};

/// Where these files are, and what else is known of devices by name and has to outlive a boot.
pub const DIR: &str = "/var/lib/dm-dsm";
const OF_DEVICE: &str = "switch";
const OF_DRIVE: &str = "broken";
/// What the drive itself says first, so that all namespaces are the drive; the size is of one
/// that has no name, and may be another's of the same size, which is the safe error.
const IDENTITY: [&str; 5] = ["device/serial", "wwid", "device/wwid", "serial", "size"];
/// What the reason of a device ends with, if no data can have been lost.
pub const ALL_KEPT: &str = "nothing had been discarded by then";
const DM_UUID: &str = "dm/uuid";
const OWN_UUID: &str = "DSM-";

/// A person has switched discards off, and means it until a person switches them on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Off {
    /// What was done, by whom.
    who: String,
    /// Seconds since 1970.
    when: u64,
}

/// Nothing may be discarded until an operator takes it away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// By which an operator names it: the device's, or made of the drive's identity, so that two
    /// drives of one name are both marked by the mark of one.
    pub name: String,
    pub model: String,
    /// The kernel's name of the drive then, or the device's.
    pub disk: String,
    pub why: String,
    /// Seconds since 1970.
    pub at: u64,
    /// Of a device and its database, whatever drive it lies on: what it lies on, so that it is
    /// found below another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Vec<String>>,
}

/// NAME.switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Switch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    off: Option<Off>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Mark>,
}

impl Mark {
    pub fn is_device(&self) -> bool {
        self.places.is_some()
    }

    /// Whether it is this device's.
    fn is_of(&self, device: &str, places: &[String]) -> bool {
        let marked = self.places.as_ref();
        marked.is_some_and(|at| self.name == device || at.iter().any(|place| places.contains(place)))
    }

    /// Why nothing is discarded there.
    pub fn reason(&self) -> Reason {
        if self.is_device() {
            let kind = match self.why.ends_with(ALL_KEPT) {
                true => ReasonKind::AuditFailedInTime,
                false => ReasonKind::AuditFailed,
            };
            let text = format!("{AUDIT_FAILED}: {}", self.why);
            return Reason::new(kind, text);
        }
        let text = format!(
            "{} is marked as a drive whose discards change other data: {}",
            self.disk, self.why
        );
        Reason::new(ReasonKind::Other, text)
    }
}

fn name_of_drive(sysfs: &Sysfs, disk: DevNo) -> Result<String> {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    Ok(identity(sysfs, disk)?.chars().take(200).map(safe).collect())
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
pub fn mark_drives(dir: &Path, sysfs: &Sysfs, dev: DevNo, why: &str) -> Result<Vec<Mark>> {
    let mut marks = Vec::new();
    for disk in disks(sysfs, dev)? {
        let mark = Mark {
            name: name_of_drive(sysfs, disk)?,
            model: sysfs.text(disk, "device/model").unwrap_or_default(),
            disk: sysfs.name(disk),
            why: why.to_owned(),
            at: time::now().as_secs(),
            places: None,
        };
        put(&path(dir, &mark.name, OF_DRIVE), &mark)?;
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
    let new = || Mark {
        name: device.to_owned(),
        model: String::new(),
        disk: device.to_owned(),
        why: why.to_owned(),
        at: time::now().as_secs(),
        places: None,
    };
    let mut mark = None;
    change(&path(dir, device, OF_DEVICE), |switch| {
        let failed = switch.failed.get_or_insert_with(new);
        let known = failed.places.get_or_insert_default();
        for place in places(sysfs, dev) {
            if !known.contains(&place) {
                known.push(place);
            }
        }
        mark = Some(failed.clone());
    })?;
    mark.context("nothing was marked")
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

fn path(dir: &Path, name: &str, kind: &str) -> PathBuf {
    dir.join(format!("{name}.{kind}"))
}

fn put<T: Serialize>(path: &Path, contents: &T) -> Result<()> {
    // Doctor reads it without root.
    let written = whole::write(path, 0o644, &serde_json::to_vec(contents)?);
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>> {
    let named = || format!("cannot read {}", path.display());
    match fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        text => serde_json::from_slice(&text.with_context(named)?).with_context(named),
    }
}

/// The thread that discards may mark a device while a person switches it off.
fn change(path: &Path, f: impl FnOnce(&mut Switch)) -> Result<()> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before: Switch = read(path)?.unwrap_or_default();
    let mut now = before.clone();
    f(&mut now);
    match now == before {
        true => Ok(()),
        false if now == Switch::default() => take_away(path),
        false => put(path, &now),
    }
}

fn take_away(path: &Path) -> Result<()> {
    let named = || format!("cannot remove {}", path.display());
    fs::remove_file(path).with_context(named)?;
    // Who has switched on would find it off after a power cut.
    let dir = path.parent().context("it has no folder")?;
    fs::File::open(dir).and_then(|d| d.sync_all()).with_context(named)
}

fn disks(sysfs: &Sysfs, dev: DevNo) -> Result<Vec<DevNo>> {
    Ok(streams::below(sysfs, &streams::Unknown, dev)?.leaves)
}

/// Why nothing may be discarded on a device of this name: it is marked, or a drive below it is, a
/// person has switched discards off, or nobody can tell.
pub fn forbidden(dir: &Path, sysfs: &Sysfs, device: &str, dev: DevNo) -> Option<Reason> {
    marked(dir, sysfs, device, dev).or_else(|| off_by_person(dir, device))
}

fn off_by_person(dir: &Path, device: &str) -> Option<Reason> {
    let text = match read::<Switch>(&path(dir, device, OF_DEVICE)) {
        Ok(found) => {
            let Off { who, when } = found?.off?;
            let since = time::shown(when);
            format!("{SWITCHED_OFF} by {who}, since {since}, until `dsmctl set` has them on again")
        }
        Err(e) => format!("{e:#}"),
    };
    Some(Reason::new(ReasonKind::SwitchedOff, text))
}

/// The same without what a person has said, who may say otherwise.
pub fn marked(dir: &Path, sysfs: &Sysfs, device: &str, dev: DevNo) -> Option<Reason> {
    let marks = match marks(dir) {
        Ok(marks) => marks,
        Err(e) => return Some(format!("which drives are marked cannot be known: {e:#}").into()),
    };
    let places = places(sysfs, dev);
    if let Some(mark) = marks.iter().find(|m| m.is_of(device, &places)) {
        return Some(mark.reason());
    }
    if marks.iter().all(Mark::is_device) {
        return None;
    }
    let found = disks(sysfs, dev).and_then(|disks| {
        let names: Result<Vec<String>> = disks.into_iter().map(|d| name_of_drive(sysfs, d)).collect();
        let names = names?;
        Ok(marks.iter().find(|m| !m.is_device() && names.contains(&m.name)))
    });
    match found {
        Ok(mark) => mark.map(Mark::reason),
        Err(e) => Some(format!("whether a drive below it is marked cannot be known: {e:#}").into()),
    }
}

/// All marks that there are.
pub fn marks(dir: &Path) -> Result<Vec<Mark>> {
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
    let mut marks = Vec::new();
    for path in paths {
        match path.extension().and_then(|kind| kind.to_str()) {
            Some(OF_DRIVE) => marks.extend(read::<Mark>(&path)?),
            Some(OF_DEVICE) => marks.extend(read::<Switch>(&path)?.and_then(|s| s.failed)),
            _ => {}
        }
    }
    Ok(marks)
}

/// Takes the marks of a device and of the drives below it away.
pub fn allow(dir: &Path, sysfs: &Sysfs, device: &str, dev: DevNo) -> Result<Vec<Mark>> {
    let places = places(sysfs, dev);
    let below = disks(sysfs, dev)?.into_iter();
    let drives: Vec<String> = below.map(|d| name_of_drive(sysfs, d)).collect::<Result<_>>()?;
    let mut found = marks(dir)?;
    found.retain(|m| m.is_of(device, &places) || !m.is_device() && drives.contains(&m.name));
    for m in &found {
        match m.is_device() {
            true => change(&path(dir, &m.name, OF_DEVICE), |switch| switch.failed = None)?,
            false => take_away(&path(dir, &m.name, OF_DRIVE))?,
        }
    }
    Ok(found)
}

/// Turns the discards of a device off, to `Watch` or on, for a person, who means it.
pub fn turn(
    dir: &Path,
    sysfs: &Sysfs,
    (device, dev): (&str, DevNo),
    target: &dyn Target,
    mode: Mode,
    who: &str,
) -> Result<()> {
    if mode == Mode::On {
        if let Some(why) = marked(dir, sysfs, device, dev) {
            bail!("{device}: {why}; nothing was changed");
        }
    }
    let say = |off| change(&path(dir, device, OF_DEVICE), |switch| switch.off = off);
    let message = || {
        let done = target.message(&format!("set discard {mode}"));
        done.map(drop).with_context(|| device.to_owned())
    };
    if mode == Mode::Off {
        let (who, when) = (who.to_owned(), time::now().as_secs());
        // First: who finds it off then knows that it is to stay so.
        let said = say(Some(Off { who, when }));
        return message().and(said);
    }
    message()?;
    say(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm::device::MessageError;
    use dm::reply::Status;
    use testing::kernel::ModelKernel;
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
        assert_eq!(marked(&at, &sysfs, "d", dev("253:0")), None);
        let marks = mark_drives(&at, &sysfs, dev("253:0"), "4 KiB changed").unwrap();
        assert_eq!(marks.len(), 1);
        let name = "device_serial_S_1_2";
        assert_eq!(
            (marks[0].disk.as_str(), marks[0].name.as_str()),
            ("nvme0n1", name)
        );
        for above in ["253:0", "253:2", "259:0", "259:1"] {
            let why = marked(&at, &sysfs, "d", dev(above)).unwrap().text;
            assert!(
                why.starts_with("nvme0n1 is marked as a drive whose discards"),
                "{why}"
            );
        }
        assert_eq!(marked(&at, &sysfs, "d", dev("253:1")), None, "another drive");
        assert_eq!(super::marks(&at).unwrap(), marks);
        // The kernel names it otherwise after a boot.
        let (other, _) = machine();
        other.set("259:2", "device/serial", "S 1/2");
        assert!(marked(&at, &other.sysfs(), "d", dev("253:1")).is_some());
        assert_eq!(
            allow(&at, &sysfs, "d", dev("253:1")).unwrap(),
            [],
            "another drive"
        );
        assert_eq!(allow(&at, &sysfs, "d", dev("253:0")).unwrap(), marks);
        assert_eq!(marked(&at, &sysfs, "d", dev("253:0")), None);
    }

    /// Of a database that uses what it has not written: another one on the drive may be right.
    #[test]
    fn a_mark_of_a_device_is_not_the_drives() {
        let (tree, dir) = machine();
        let marked =
            |device: &str, at: &str| marked(dir.path(), &tree.sysfs(), device, dev(at)).map(|why| why.text);
        let make = |why: &str| mark_device(dir.path(), &tree.sysfs(), "vg-db", dev("253:0"), why);
        let mark = make("a.wt: checkpoints 7 and 8 use 3 pages").unwrap();
        assert_eq!(make("again").unwrap(), mark, "what was said first");
        assert_eq!(mark.name, "vg-db");
        let why = "the audit of its database has failed: a.wt: checkpoints 7 and 8 use 3 pages";
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
        assert_eq!(marks(dir.path()).unwrap(), [mark]);
        mark_drives(dir.path(), &tree.sysfs(), dev("253:0"), "4 KiB changed").unwrap();
        assert!(marked("vg", "253:2").unwrap().starts_with("nvme0n1 is marked"));
        let allow = |device, at| allow(dir.path(), &tree.sysfs(), device, dev(at)).unwrap();
        assert!(!allow("vg", "253:2")[0].is_device());
        assert_eq!(marked("vg-db", "253:0").as_deref(), Some(why), "it has its own");
        assert!(allow("vg-db", "253:1")[0].is_device());
        assert_eq!(marked("vg-db", "253:0"), None);
    }

    /// As `dsmctl remove` and `create` under another name leave it, and a volume that is renamed.
    #[test]
    fn a_mark_of_a_device_outlives_its_name() {
        let (tree, dir) = machine();
        let marked = |device: &str, at: &str| marked(dir.path(), &tree.sysfs(), device, dev(at)).is_some();
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
        assert_eq!(mark.places, Some(vec![]));
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
        let marks = marks(dir.path()).unwrap();
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
        assert!(marked(&at, &tree.sysfs(), "db", dev("253:0")).is_some());
    }

    #[test]
    fn all_drives_of_a_stack_are_marked() {
        let (tree, dir) = machine();
        tree.slave("253:2", "259:2");
        mark_drives(dir.path(), &tree.sysfs(), dev("253:2"), "x").unwrap();
        assert!(marked(dir.path(), &tree.sysfs(), "d", dev("253:1")).is_some());
        assert!(marked(dir.path(), &tree.sysfs(), "d", dev("253:0")).is_some());
    }

    /// When in doubt, nothing is discarded.
    #[test]
    fn what_cannot_be_read_is_a_mark() {
        let (tree, dir) = machine();
        std::fs::write(dir.path().join("drive-x"), "").unwrap();
        assert_eq!(
            marked(dir.path(), &tree.sysfs(), "d", dev("253:0")),
            None,
            "no mark"
        );
        for name in ["x.broken", "d.switch", "other.switch"] {
            let file = dir.path().join(name);
            fs::write(&file, "torn").unwrap();
            let why = marked(dir.path(), &tree.sysfs(), "d", dev("253:0")).unwrap().text;
            assert!(
                why.starts_with("which drives are marked cannot be known: cannot read "),
                "{why}"
            );
            fs::remove_file(&file).unwrap();
        }
        let file = dir.path().join("drive-x");
        assert!(
            marked(&file, &tree.sysfs(), "d", dev("253:0")).is_some(),
            "no directory"
        );
    }
    struct Deaf;

    impl Target for Deaf {
        fn sectors(&self) -> u64 {
            0
        }

        fn message(&self, _: &str) -> Result<String, MessageError> {
            Err(MessageError::Gone)
        }

        fn status(&self) -> Result<Status, MessageError> {
            Err(MessageError::Gone)
        }
    }

    #[test]
    fn off_by_a_person_holds_until_a_person_says_on() {
        let (tree, dir) = machine();
        let (at, sysfs) = (dir.path().join("new"), tree.sysfs());
        let target = ModelKernel::new(1 << 20);
        let state = || target.status().unwrap().discard.state;
        let forbidden = |device: &str| forbidden(&at, &sysfs, device, dev("253:0"));
        let say = |mode| turn(&at, &sysfs, ("vg-db", dev("253:0")), &target, mode, "`x`, user 7");
        say(Mode::On).unwrap();
        assert_eq!((forbidden("vg-db"), state()), (None, Mode::On));
        for on in [Mode::On, Mode::Watch] {
            say(Mode::Off).unwrap();
            let why = forbidden("vg-db").unwrap();
            assert_eq!((why.kind, state()), (ReasonKind::SwitchedOff, Mode::Off));
            let said = "discards were switched off on the device by `x`, user 7, since 20";
            assert!(why.text.starts_with(said), "{why}");
            assert_eq!(forbidden("vg"), None);
            say(on).unwrap();
            assert_eq!((forbidden("vg-db"), state()), (None, on));
            assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
        }
        // It is said whatever comes of the switch, and before anything else.
        let deaf = |mode| turn(&at, &sysfs, ("vg-db", dev("253:0")), &Deaf, mode, "x");
        deaf(Mode::Off).unwrap_err();
        deaf(Mode::On).unwrap_err();
        assert!(forbidden("vg-db").is_some());
    }

    /// Neither takes the other away.
    #[test]
    fn a_mark_and_a_person() {
        let (tree, dir) = machine();
        let (at, sysfs) = (dir.path(), tree.sysfs());
        let target = ModelKernel::new(1 << 20);
        let say = |mode| turn(at, &sysfs, ("db", dev("253:0")), &target, mode, "x");
        let kind = || forbidden(at, &sysfs, "db", dev("253:0")).map(|why| why.kind);
        say(Mode::Off).unwrap();
        mark_device(at, &sysfs, "db", dev("253:0"), "violated").unwrap();
        assert_eq!(kind(), Some(ReasonKind::AuditFailed));
        let why = say(Mode::On).unwrap_err().to_string();
        assert!(
            why.starts_with("db: the audit of its database has failed"),
            "{why}"
        );
        assert_eq!(target.status().unwrap().discard.state, Mode::Off);
        say(Mode::Watch).unwrap();
        assert_eq!(kind(), Some(ReasonKind::AuditFailed));
        say(Mode::Off).unwrap();
        allow(at, &sysfs, "db", dev("253:0")).unwrap();
        assert_eq!(kind(), Some(ReasonKind::SwitchedOff));
        say(Mode::On).unwrap();
        assert_eq!(kind(), None);
    }
}

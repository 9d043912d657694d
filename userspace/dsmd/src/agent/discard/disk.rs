// SPDX-License-Identifier: GPL-2.0-or-later
//! The database of this machine, as the rule sees it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;

use super::link::Machine;
use super::owner::{self, Owner};
use super::{preconditions, started, Database, Seen};
use database::fiemap::Solid;
use database::mount;
use database::place;
use database::walk::{self, Root};
use database::wiredtiger::avail::{self, FileEntry, Refusal, Standing, TurtleId};
use database::wiredtiger::turtle;
use dm::devno::DevNo;
use dm::diskstat::DiskStat;
use dm::mounts;
use dm::sysfs::Sysfs;
use dm::table::Extent;
use drive::switch;
use proto::reason::{Reason, ReasonKind};
use runtime::pulse::Pulse;

const EXT4: [&str; 2] = ["/proc/fs/ext4", "/sys/fs/ext4"];
/// What a restart would begin with, while a backup is running.
const BACKUP: &str = "WiredTiger.backup";
/// What is never made anew: who copies the directory by links has it in two.
const METADATA: &str = "WiredTiger.wt";

pub struct Disk {
    root: Root,
    device: String,
    devno: DevNo,
    sectors: u64,
    sysfs: Sysfs,
    /// Of the last check of the preconditions.
    solid: Option<Solid>,
    warning: Option<String>,
    reader: avail::Reader,
    /// Whose metadata the reader knows.
    owner: Option<Owner>,
    /// Files that were not the database's alone.
    strange: BTreeSet<PathBuf>,
    /// A look goes over many files.
    pulse: Pulse,
}

impl Disk {
    pub fn new(root: Root, device: &str, devno: DevNo, sectors: u64, pulse: Pulse) -> Self {
        Self {
            root,
            device: device.to_owned(),
            devno,
            sectors,
            sysfs: Sysfs::default(),
            solid: None,
            warning: None,
            reader: avail::Reader::new(pulse.clone()),
            owner: None,
            strange: [METADATA.into()].into(),
            pulse,
        }
    }

    fn handle(&self) -> Result<OwnedFd, String> {
        let path = || self.root.path().display();
        match self.root.handle() {
            Ok(Some(handle)) => Ok(handle),
            Ok(None) => Err(format!("{}: it was unmounted, moved or removed", path())),
            Err(e) => Err(format!("{}: cannot open it: {e}", path())),
        }
    }

    /// What keeps discards off for as long as it is so, whatever the checkpoints are: cheap
    /// enough for each look, and said before anything is waited for.
    pub fn check_standing(&mut self) -> Result<(), Reason> {
        if let Some(owner) = self.owner {
            // A file that it names may be where nothing ever answers: no other database waits.
            let check = || started::check(Path::new("/proc"), owner.pid, owner.uid);
            self.pulse.rest(check)?;
        }
        let handle = self.handle()?;
        match walk::find_file(&handle, Path::new(BACKUP), self.root.device()) {
            Ok(None) => {}
            Ok(Some(_)) => {
                let text = format!("a backup is running: there is a {BACKUP}");
                return Err(Reason::new(ReasonKind::Backup, text));
            }
            Err(e) => return Err(format!("cannot look for {BACKUP}: {e}").into()),
        }
        let Some(owner) = self.owner else { return Ok(()) };
        for path in self.strange.iter().cloned().collect::<Vec<_>>() {
            let found = walk::open_beneath(&handle, &path);
            let found = found.map_err(|e| format!("cannot look at {}: {e}", path.display()))?;
            if let Some((file, _)) = found {
                is_of(owner, &path, &file)?;
            }
            if path != Path::new(METADATA) {
                self.strange.remove(&path);
            }
        }
        Ok(())
    }
}

/// Why a file below the data directory is not the database's alone: one that has another name, or
/// another owner, may be somebody else's.
fn is_of(owner: Owner, path: &Path, file: &File) -> Result<(), String> {
    let path = path.display();
    let found = file
        .metadata()
        .map_err(|e| format!("cannot look at {path}: {e}"))?;
    if found.nlink() > 1 {
        return Err(format!(
            "{path} has another name (a hard link, as `cp -al` makes them): a discard would be of that file, too"
        ));
    }
    if found.uid() != owner.uid {
        return Err(format!(
            "{path} is user {}'s, and WiredTiger.lock is user {}'s: it may be somebody else's file",
            found.uid(),
            owner.uid
        ));
    }
    Ok(())
}

impl Machine for Disk {
    fn drive(&self) -> DiskStat {
        preconditions::drive(&self.sysfs, self.devno)
    }

    fn warning(&self) -> Option<String> {
        self.warning.clone()
    }

    fn forbidden(&self) -> Option<Reason> {
        switch::forbidden(Path::new(switch::DIR), &self.sysfs, &self.device, self.devno)
    }

    fn mark(&self, why: &str) -> Result<(), String> {
        let dir = Path::new(switch::DIR);
        let marked = switch::mark_device(dir, &self.sysfs, &self.device, self.devno, why);
        marked.map(|_| ()).map_err(|e| format!("{e:#}"))
    }
}

impl Database for Disk {
    fn preconditions(&mut self) -> Result<String, String> {
        self.solid = None;
        if !self.root.has_birth_time() {
            return Err(
                "the file system keeps no birth times (as after mkfs.ext4 -I 128, mkfs.xfs -m crc=0), and \
                 without them a file that was deleted and made again cannot be told from the one before"
                    .into(),
            );
        }
        let found = place::of_root(&self.root, &self.device, self.devno, self.sectors);
        let found = found.map_err(|e| format!("{e:#}"))?;
        let dev = found.place.dev();
        let mounts = mounts::all().map_err(|e| format!("cannot read the mounts: {e}"))?;
        let mounted = mount::check(&mounts, dev)?;
        if mount::is_ext4(&mounts, dev) {
            let [proc, sys] = EXT4.map(Path::new);
            mount::ext4(proc, sys, &self.sysfs.name(dev))?;
        }
        self.warning = preconditions::drives(&self.sysfs, self.devno)?;
        let preconditions = format!("{mounted} {:?}", found.place);
        self.solid = Some(Solid::new(found.place));
        Ok(preconditions)
    }

    fn turtle(&mut self) -> Result<Option<TurtleId>, String> {
        match turtle::read_entry(&self.handle()?) {
            Ok(entry) => Ok(entry.map(TurtleId)),
            Err(e) => Err(format!("cannot read {}: {e}", turtle::NAME)),
        }
    }

    fn owner(&mut self) -> Result<Option<Owner>, String> {
        let owner = owner::of(&self.handle()?);
        if owner.as_ref().ok() != Some(&self.owner) {
            self.reader.forget();
            self.owner = owner.as_ref().ok().copied().flatten();
        }
        owner
    }

    fn read(&mut self, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Result<Seen, Refusal> {
        let mut wanted = |f: &FileEntry| {
            self.pulse.beat();
            wanted(f)
        };
        let (snapshot, lists) = self.reader.read(&self.root, &mut wanted)?;
        snapshot.has_begun()?;
        let standing = match snapshot.standing() {
            Standing::Refused(why) => return Err(avail::unsupported(why)),
            standing => standing,
        };
        Ok(Seen {
            turtle: snapshot.turtle,
            run: snapshot.run,
            version: snapshot.version.to_string(),
            standing,
            files: snapshot.files.into_iter().zip(lists).collect(),
        })
    }

    fn stands(&mut self) -> Result<(), Reason> {
        self.check_standing()
    }

    fn sync_dbpath(&mut self) -> Result<(), Reason> {
        self.check_standing()?;
        let handle = self.handle()?;
        rustix::fs::fsync(&handle).map_err(|e| format!("cannot sync the data directory: {e}").into())
    }

    fn places(
        &mut self,
        path: &Path,
        file: (u64, i128),
        ranges: &[Range<u64>],
        emit: &mut dyn FnMut(Extent),
    ) -> Result<(), String> {
        let failed = |e: &dyn Display| format!("{}: cannot read its extents: {e}", path.display());
        self.pulse.beat();
        let opened = walk::open_file(&self.handle()?, path, file.0).map_err(|e| failed(&e))?;
        let Some((opened, _)) = opened.filter(|(_, stamp)| stamp.btime == file.1) else {
            return Ok(());
        };
        let Some(owner) = self.owner else { return Ok(()) };
        if let Err(why) = is_of(owner, path, &opened) {
            self.strange.insert(path.to_owned());
            return Err(why);
        }
        let solid = self
            .solid
            .as_mut()
            .ok_or_else(|| failed(&"the preconditions are not known"))?;
        places(solid, &opened, ranges, emit).map_err(|e| failed(&e))
    }
}

fn places(
    solid: &mut Solid,
    file: &File,
    ranges: &[Range<u64>],
    emit: &mut dyn FnMut(Extent),
) -> std::io::Result<()> {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return Ok(());
    };
    let mut left = ranges;
    solid.map(file, first.start..last.end, &mut |e| cut(e, &mut left, emit))
}

/// Gives the parts of ranges that lie in an extent, and takes away the ranges that end there.
fn cut(e: Extent, left: &mut &[Range<u64>], emit: &mut dyn FnMut(Extent)) {
    let extent = e.bytes();
    while let [range, rest @ ..] = *left {
        let from = range.start.max(extent.start);
        let to = range.end.min(extent.end);
        if from < to {
            emit(e.part(from..to));
        }
        if range.end > extent.end {
            break;
        }
        *left = rest;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)]
    use super::*;
    use database::place::Place;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::unix::fs::MetadataExt;

    fn disk_of(dir: &Path) -> Disk {
        let root = Root::open(dir).unwrap();
        Disk::new(root, "d", DevNo::from_stat(0), 1, Pulse::default())
    }

    /// Whose file system's device is the target.
    fn solid(opened: &File) -> Solid {
        let dev = DevNo::from_stat(opened.metadata().unwrap().dev());
        Solid::new(Place::whole(dev, u64::MAX >> 9))
    }

    /// procfs has no birth times either.
    #[test]
    fn a_file_system_without_birth_times_is_refused() {
        let root = Root::open(Path::new("/proc")).unwrap();
        let mut disk = Disk::new(root, "d", DevNo::new(253, 0), 8, Pulse::default());
        let why = disk.preconditions().unwrap_err();
        assert!(why.starts_with("the file system keeps no birth times"), "{why}");
    }

    #[test]
    fn a_backup_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = disk_of(dir.path());
        disk.sync_dbpath().unwrap();
        std::fs::write(dir.path().join(BACKUP), "x").unwrap();
        let said = disk.sync_dbpath().unwrap_err();
        let wanted = "a backup is running: there is a WiredTiger.backup";
        assert_eq!(said, Reason::new(ReasonKind::Backup, wanted));
        assert_eq!(disk.owner(), Ok(None));
        std::fs::remove_dir_all(dir.path()).unwrap();
        assert!(disk.owner().unwrap_err().contains("unmounted, moved or removed"));
    }

    /// Of a directory that cannot be synced.
    #[test]
    fn without_a_sync_nothing_is_durable() {
        let mut disk = disk_of(Path::new("/proc"));
        let said = disk.sync_dbpath().unwrap_err().text;
        assert!(said.starts_with("cannot sync the data directory: "), "{said}");
    }

    /// By what is on its command line, as mongod's.
    #[test]
    fn a_process_that_does_not_sync_is_not_durable() {
        let mut process = std::process::Command::new("sh")
            .args(["-c", "read x; exit", "mongod", "checkpoint_sync=false"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It has none while the kernel starts the program.
        let line = format!("/proc/{}/cmdline", process.id());
        while std::fs::read(&line).unwrap().is_empty() {
            std::thread::yield_now();
        }
        let dir = tempfile::tempdir().unwrap();
        let mut disk = disk_of(dir.path());
        disk.owner = Some(Owner {
            pid: process.id() as i32,
            start: 1,
            uid: rustix::process::geteuid().as_raw(),
        });
        let said = disk.sync_dbpath().unwrap_err().text;
        drop(process.stdin.take());
        process.wait().unwrap();
        assert!(said.contains("by the command line of process"), "{said}");
    }

    #[test]
    fn what_may_not_be_discarded_is_not_read() {
        let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/avail/11.3.1");
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(made.join("WiredTiger.wt"), dir.path().join("WiredTiger.wt")).unwrap();
        let turtle = std::fs::read_to_string(made.join(turtle::NAME)).unwrap();
        let mut disk = disk_of(dir.path());
        let mut read = |version: &str| {
            let text = turtle.replace("major=11,minor=3,patch=1", version);
            std::fs::write(dir.path().join(turtle::NAME), text).unwrap();
            disk.read(&mut |_| false)
                .map(|seen| (seen.files.len(), seen.standing, seen.version))
        };
        for version in ["major=11,minor=3,patch=1", "major=12,minor=0,patch=0"] {
            let (files, standing, _) = read(version).unwrap();
            assert_eq!((files, standing), (49, Standing::Discard));
        }
        // Nothing is sent before an audit of it.
        let (_, standing, version) = read("major=12,minor=1,patch=0").unwrap();
        assert!(matches!(standing, Standing::Audit(_)), "{standing:?}");
        assert_eq!(version, "12.1.0");
        // Of MongoDB 5.0.31, and of 6.0.24
        let refused = read("major=10,minor=0,patch=2").unwrap_err();
        assert_eq!(refused.kind, avail::Kind::Unsupported);
        assert!(
            refused.message.contains("is of WiredTiger 10.0.2"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn what_an_attacker_made_of_the_metadata_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pulse = Pulse::default();
        let mut disk = Disk::new(
            Root::open(dir.path()).unwrap(),
            "d",
            DevNo::from_stat(0),
            1,
            pulse.clone(),
        );
        for make in [testing::hostile::visits, testing::hostile::names] {
            make(dir.path());
            let refused = disk.read(&mut |_| true).map(|seen| seen.files.len()).unwrap_err();
            assert_eq!(refused.kind, avail::Kind::Damaged);
            let halt = super::super::Halt::from(refused);
            assert!(
                matches!(halt, super::super::Halt::Reset(why) if why.text.contains(" twice, or a part of it"))
            );
        }
        assert!(
            pulse.busy() > std::time::Duration::ZERO,
            "its blocks are signs of life"
        );
    }

    /// Its pages are not read again while one process has it open, and only then.
    #[test]
    fn another_process_may_have_written_all_of_the_metadata() {
        let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/avail/11.3.1");
        let dir = tempfile::tempdir().unwrap();
        let metadata = dir.path().join("WiredTiger.wt");
        std::fs::copy(made.join(turtle::NAME), dir.path().join(turtle::NAME)).unwrap();
        let mut bytes = std::fs::read(made.join("WiredTiger.wt")).unwrap();
        std::fs::write(&metadata, &bytes).unwrap();
        let mut disk = disk_of(dir.path());
        disk.owner = Some(Owner {
            pid: 1,
            start: 1,
            uid: 0,
        });
        disk.read(&mut |_| false).unwrap();
        // All leaves
        for page in bytes.chunks_mut(4096).filter(|p| p[24] == 7) {
            page[100] ^= 1;
        }
        std::fs::write(&metadata, &bytes).unwrap();
        disk.read(&mut |_| false).unwrap();
        assert_eq!(disk.owner(), Ok(None));
        let refused = disk
            .read(&mut |_| false)
            .map(|seen| seen.files.len())
            .unwrap_err();
        assert_eq!(refused.kind, avail::Kind::Damaged);
    }

    /// Ranges of a file, in extents that the file system gives from their beginnings on.
    #[test]
    fn ranges_are_cut_out_of_extents() {
        let page = |n: u64| n * 4096;
        let extents = [
            Extent::new(0, 1000, 8 * 8),
            // A hole of 2 pages, and elsewhere
            Extent::new(10 * 8, 5000, 4 * 8),
            Extent::new(14 * 8, 200, 8),
        ];
        let cut = |ranges: &[Range<u64>]| {
            let (mut left, mut found) = (ranges, Vec::new());
            for e in extents {
                super::cut(e, &mut left, &mut |e| {
                    found.push((e.offset / 8, e.start, e.length));
                });
            }
            found
        };
        // Two and three of one extent, that begin behind its first page
        assert_eq!(
            cut(&[
                page(2)..page(3),
                page(5)..page(7),
                page(11)..page(12),
                page(13)..page(14)
            ]),
            [(2, 1016, 8), (5, 1040, 16), (11, 5008, 8), (13, 5024, 8)]
        );
        // One range over the hole and the ends of extents
        assert_eq!(
            cut(&[page(7)..page(15)]),
            [(7, 1056, 8), (10, 5000, 32), (14, 200, 8)]
        );
        // To the end of one exactly, from the beginning of the next, and what lies nowhere
        assert_eq!(
            cut(&[
                page(6)..page(8),
                page(8)..page(10),
                page(10)..page(11),
                page(15)..page(16)
            ]),
            [(6, 1048, 16), (10, 5000, 8)]
        );
        assert_eq!(cut(&[]), []);
    }

    /// A file of three written pieces with holes between.
    #[test]
    fn places_of_a_real_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.wt");
        let mut f = File::create(&path).unwrap();
        for at in [0u64, 1 << 20, 2 << 20] {
            f.seek(SeekFrom::Start(at)).unwrap();
            f.write_all(&[1; 65536]).unwrap();
        }
        f.sync_all().unwrap();
        let mut map = solid(&f);
        let mut places = |ranges: &[Range<u64>]| {
            let mut found = Vec::new();
            super::places(&mut map, &f, ranges, &mut |e| found.push(e)).map(|()| found)
        };
        match places(&[0..4096]) {
            Ok(found) if !found.is_empty() => {}
            other => {
                eprintln!("skipped: the directory for temporary files gives no places: {other:?}");
                return;
            }
        }
        let sum = |found: Vec<Extent>| found.iter().map(|s| s.length).sum::<u64>();
        let all = places(&[0..3 << 20]).unwrap();
        assert_eq!(sum(all.clone()), 3 * 128);
        assert_eq!(sum(places(&[65536..1 << 20]).unwrap()), 0, "a hole");
        let some = places(&[
            4096..8192,
            61440..(1 << 20) + 4096,
            (2 << 20) + 8192..(2 << 20) + 12288,
        ])
        .unwrap();
        assert_eq!(sum(some.clone()), 8 + 8 + 8 + 8);
        assert_eq!(some[0].start, all[0].start + 8);
        assert_eq!(some[0].length, 8);
        // A hole that was allocated, but never written.
        rustix::fs::fallocate(&f, rustix::fs::FallocateFlags::empty(), 65536, 65536).unwrap();
        f.sync_all().unwrap();
        assert_eq!(sum(places(&[0..1 << 20]).unwrap()), 128, "unwritten");

        // By name, only for the file that it was.
        let mut disk = disk_of(dir.path());
        disk.solid = Some(solid(&f));
        let uid = std::fs::metadata(&path).unwrap().uid();
        let owner = |uid| {
            Some(Owner {
                pid: 1,
                start: 1,
                uid,
            })
        };
        disk.owner = owner(uid);
        let root = disk.handle().unwrap();
        let found = walk::find_file(&root, Path::new("f.wt"), disk.root.device())
            .unwrap()
            .unwrap();
        assert_eq!(found.ino, std::fs::metadata(&path).unwrap().ino());
        let count = |disk: &mut Disk, ino, born| {
            let mut n = 0;
            let path = PathBuf::from("f.wt");
            let ranges = [0..4096];
            disk.places(&path, (ino, born), &ranges, &mut |_| n += 1)
                .map(|()| n)
        };
        let (ino, born) = (found.ino, found.stamp.btime);
        assert_eq!(count(&mut disk, ino, born), Ok(1));
        assert_eq!(count(&mut disk, ino, born + 1), Ok(0));
        assert_eq!(count(&mut disk, ino + 1, born), Ok(0));

        // Nobody knows whose
        disk.owner = None;
        assert_eq!(count(&mut disk, ino, born), Ok(0), "no owner");
        // A file of somebody else's: the reason stays as long as it is so.
        disk.owner = owner(uid + 1);
        let why = count(&mut disk, ino, born).unwrap_err();
        assert!(why.starts_with(&format!("f.wt is user {uid}'s, and")), "{why}");
        disk.owner = Some(Owner {
            pid: std::process::id() as i32,
            start: 1,
            uid,
        });
        assert_eq!(disk.check_standing(), Ok(()));
        // A second name, in the directory or elsewhere on the file system
        let second = dir.path().join("second");
        std::fs::hard_link(&path, &second).unwrap();
        assert_eq!(disk.check_standing(), Ok(()), "nobody has looked at it");
        let why = count(&mut disk, ino, born).unwrap_err();
        assert!(why.starts_with("f.wt has another name (a hard link"), "{why}");
        assert_eq!(disk.check_standing(), Err(why.into()));
        std::fs::remove_file(second).unwrap();
        assert_eq!(disk.check_standing(), Ok(()));
        assert_eq!(count(&mut disk, ino, born), Ok(1));
        // A copy of the whole directory is seen at once.
        let metadata = dir.path().join(METADATA);
        std::fs::write(&metadata, "x").unwrap();
        assert_eq!(disk.check_standing(), Ok(()));
        std::fs::hard_link(metadata, dir.path().join("copy")).unwrap();
        let why = disk.check_standing().unwrap_err().text;
        assert!(why.starts_with("WiredTiger.wt has another name"), "{why}");
    }

    /// A second thread exchanges the data directory for a link to another file system.
    /// What is said must always be of the directory.
    #[test]
    fn the_preconditions_are_those_of_the_directory_that_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [db, link] = ["db", "link"].map(|name| dir.path().join(name));
        std::fs::create_dir(&db).unwrap();
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        let mut disk = disk_of(&db);
        let own = disk.preconditions().unwrap_err();
        let elsewhere = disk_of(Path::new("/proc")).preconditions().unwrap_err();
        assert!(!own.ends_with(elsewhere.trim_start_matches("/proc")), "{own}");

        let stop = std::sync::atomic::AtomicBool::new(false);
        let exchange = || {
            use rustix::fs::{renameat_with, RenameFlags, CWD};
            renameat_with(CWD, &db, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    exchange();
                    exchange();
                }
            });
            let (mut gone, mut there) = (0, 0);
            while gone < 1000 || there < 1000 {
                let said = disk.preconditions().unwrap_err();
                let is_gone = said.ends_with("it was unmounted, moved or removed");
                if !is_gone && said != own {
                    stop.store(true, std::sync::atomic::Ordering::Relaxed);
                    panic!("{said}");
                }
                gone += u32::from(is_gone);
                there += u32::from(!is_gone);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(disk.preconditions().unwrap_err(), own);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What a command changes on a device only for as long as it runs, written down before it
//! does so: when it is killed, the next command undoes or finishes that.
//!
//! A file in `/run/dm-dsm` for each device, and a lock that ends with the process that has
//! it.  Both are gone after a reboot, and so is the device's table.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::class::Class;
use crate::device::{Identity, Target};
use crate::ioctl::Info;
use crate::mode::Mode;
use crate::reply::{Region, TableLine};
use crate::sysfs::Sysfs;
use crate::table::{FileRecord, Upload, UploadKind};
use runtime::whole;

/// Not that of dsmd, which systemd removes when dsmd stops.
const DIR: &str = "/run/dm-dsm";
const SECTOR: u64 = 512;

/// A feature that was given another value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    pub name: String,
    pub was: String,
    pub set: String,
}

/// A scratch file in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchFile {
    pub id: u64,
    class: Class,
    bytes: u64,
}

impl From<&FileRecord<'_>> for ScratchFile {
    fn from(file: &FileRecord<'_>) -> Self {
        Self {
            id: file.id,
            class: file.class,
            bytes: file.extents.iter().map(|e| e.length * SECTOR).sum(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalRecord {
    /// A record of a device that was removed is about none that has its name now.
    identity: Identity,
    pub features: Vec<Feature>,
    pub files: Vec<ScratchFile>,
    /// The command that puts dsm back where dm-linear has taken its place.
    pub withdrawn: Option<String>,
}

impl JournalRecord {
    fn is_empty(&self) -> bool {
        self.features.is_empty() && self.files.is_empty() && self.withdrawn.is_none()
    }

    /// The features that are still what the command has set: others are somebody else's by now.
    pub fn features_left(&self, table: &TableLine) -> Vec<&Feature> {
        let left = |f: &&Feature| f.was != f.set && value(table, &f.name) == f.set;
        self.features.iter().filter(left).collect()
    }

    /// The files that are in the table still, and no others with their inode numbers.
    pub fn files_left(&self, regions: &[Region]) -> Vec<u64> {
        let left = |f: &&ScratchFile| {
            let of: Vec<&Region> = regions.iter().filter(|r| r.id == f.id).collect();
            !of.is_empty()
                && of.iter().all(|r| r.class == f.class)
                && of.iter().map(|r| r.bytes).sum::<u64>() == f.bytes
        };
        self.files.iter().filter(left).map(|f| f.id).collect()
    }
}

/// What a feature is, also where the table says nothing of it.
pub fn value<'a>(table: &'a TableLine, feature: &str) -> &'a str {
    let default = if feature == "discard" {
        Mode::Off.name()
    } else {
        "auto"
    };
    table.feature(feature).unwrap_or(default)
}

#[derive(Clone, Debug)]
pub struct Journal {
    dir: PathBuf,
    sysfs: Sysfs,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            dir: DIR.into(),
            sysfs: Sysfs::default(),
        }
    }
}

impl Journal {
    fn path(&self, name: &str, suffix: &str) -> PathBuf {
        self.dir.join(format!("{name}.{suffix}"))
    }

    /// One command at a time works on a device of this name.
    pub fn lock(&self, name: &str) -> Result<File> {
        let file = self.lock_file(name)?;
        while !locked(&file, FlockOperation::NonBlockingLockExclusive)? {
            // Who only looks, in left(), has it shared, for a moment.
            ensure!(
                locked(&file, FlockOperation::NonBlockingLockShared)?,
                "{name}: another dsmctl is at work on the device; nothing was changed"
            );
        }
        Ok(file)
    }

    fn lock_file(&self, name: &str) -> Result<File> {
        let path = self.path(name, "lock");
        let what = || format!("{name}: cannot open {}", path.display());
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .with_context(what)?;
        File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(what)
    }

    pub fn claim(&self, device: &Info) -> Result<DeviceClaim> {
        Ok(DeviceClaim {
            _lock: self.lock(&device.name)?,
            journal: self.clone(),
            identity: Identity::of(&self.sysfs, device),
            name: device.name.clone(),
        })
    }

    /// What a command that was killed has left; nothing while one is at work.
    pub fn leftovers(&self, device: &Info) -> Result<Option<JournalRecord>> {
        let Some(record) = self.read(&device.name, &Identity::of(&self.sysfs, device))? else {
            return Ok(None);
        };
        let file = self.lock_file(&device.name)?;
        Ok(locked(&file, FlockOperation::NonBlockingLockShared)?.then_some(record))
    }

    /// Nothing if it is about another device.
    fn read(&self, name: &str, identity: &Identity) -> Result<Option<JournalRecord>> {
        let path = self.path(name, "json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).with_context(|| format!("{name}: cannot read {}", path.display())),
        };
        let record: JournalRecord = serde_json::from_slice(&text).with_context(|| {
            let path = path.display();
            format!(
                "{name}: {path} is not understood; remove it if no other version of dsmctl has written it"
            )
        })?;
        Ok(Some(record).filter(|r| r.identity == *identity))
    }

    fn write(&self, name: &str, record: &JournalRecord) -> Result<()> {
        let path = self.path(name, "json");
        let done = if record.is_empty() {
            match fs::remove_file(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done,
            }
        } else {
            serde_json::to_vec(record)
                .map_err(io::Error::from)
                .and_then(|text| whole::write(&path, 0o600, &text))
        };
        done.with_context(|| format!("{name}: cannot write {}", path.display()))
    }
}

fn locked(file: &File, how: FlockOperation) -> Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e).context("cannot lock a file"),
    }
}

/// A device that no other command changes meanwhile.
pub struct DeviceClaim {
    journal: Journal,
    name: String,
    identity: Identity,
    _lock: File,
}

impl DeviceClaim {
    pub fn record(&self) -> Result<JournalRecord> {
        let record = self.journal.read(&self.name, &self.identity)?;
        Ok(record.unwrap_or_else(|| JournalRecord {
            identity: self.identity.clone(),
            ..JournalRecord::default()
        }))
    }

    pub fn change(&self, change: impl FnOnce(&mut JournalRecord)) -> Result<()> {
        let mut record = self.record()?;
        change(&mut record);
        self.journal.write(&self.name, &record)
    }

    /// Undoes changes to features and files, those of a command that was killed or this one's.
    /// What was undone.
    pub fn restore(&self, target: &impl Target, table: &TableLine) -> Result<Vec<String>> {
        let record = self.record()?;
        let mut done = Vec::new();
        for f in record.features_left(table) {
            let text = format!("set {} {}", f.name, f.was);
            let refused = || format!("{}: {} cannot be {} again", self.name, f.name, f.was);
            target.message(&text).with_context(refused)?;
            done.push(format!("{} is {} again, and not {}", f.name, f.was, f.set));
        }
        if !record.files.is_empty() {
            let refused = || format!("{}: cannot take scratch files out of the table", self.name);
            let left = record.files_left(&target.regions().with_context(refused)?);
            if !left.is_empty() {
                let mut upload =
                    Upload::begin(target, UploadKind::Update(target.generation()?)).with_context(refused)?;
                for id in &left {
                    upload.drop_file(*id).with_context(refused)?;
                }
                upload.commit().with_context(refused)?;
                done.push(format!("{} scratch files are out of the table", left.len()));
            }
        }
        self.change(|r| {
            r.features.clear();
            r.files.clear();
        })?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::MessageError;
    use crate::devno::DevNo;
    use crate::reply::Status;
    use std::cell::RefCell;
    use std::path::Path;

    fn info(uuid: &str) -> Info {
        Info {
            name: "d".into(),
            uuid: uuid.into(),
            dev: DevNo::new(253, 0),
            open_count: 1,
            active: true,
            inactive: false,
            suspended: false,
            read_only: false,
        }
    }

    fn journal(dir: &Path) -> Journal {
        Journal {
            dir: dir.join("run"),
            sysfs: Sysfs::at(dir.join("sys")),
        }
    }

    fn feature(name: &str, was: &str, set: &str) -> Feature {
        Feature {
            name: name.into(),
            was: was.into(),
            set: set.into(),
        }
    }

    fn table(features: &str) -> TableLine {
        let words = features.split_whitespace().count();
        format!("259:0 0 {words} {features}").parse().unwrap()
    }

    /// Has two regions, and notes what it is sent.
    #[derive(Default)]
    struct Noted {
        sent: RefCell<Vec<String>>,
        refuse: Option<&'static str>,
    }

    impl Target for Noted {
        fn sectors(&self) -> u64 {
            1000
        }

        fn message(&self, text: &str) -> Result<String, MessageError> {
            if text.starts_with("regions ") {
                return Ok(String::new());
            }
            if text == "regions" {
                return Ok("7 other - bottom 4096 0 0 - - - 1 0 0\n9 collection 4096 bottom 4096 0 0 - - - 1 0 0\n9 collection 4096 top 8192 0 0 - - - 1 0 0\n".into());
            }
            self.sent.borrow_mut().push(text.to_owned());
            match self.refuse {
                Some(start) if text.starts_with(start) => Err(MessageError::Refused("no".into())),
                _ if text.starts_with("begin") => Ok("upload 1".into()),
                _ if text.starts_with("commit") => Ok("generation 6 files 0 extents 0".into()),
                _ => Ok(String::new()),
            }
        }

        fn status(&self) -> Result<Status, MessageError> {
            Ok(Status {
                generation: 5,
                ..Status::default()
            })
        }
    }

    fn scratch(id: u64, class: Class, bytes: u64) -> ScratchFile {
        ScratchFile { id, class, bytes }
    }

    #[test]
    fn what_a_killed_command_has_changed_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(dir.path());
        let claim = journal.claim(&info("DSM-d")).unwrap();
        let all = [
            feature("discard", "off", "on"),
            feature("discard_granularity", "auto", "4096"),
            feature("discard_alignment", "65536", "4096"),
        ];
        claim
            .change(|r| {
                r.features.extend(all.clone());
                r.files = vec![
                    scratch(9, Class::Collection, 12288),
                    scratch(7, Class::Other, 8192),
                ];
            })
            .unwrap();
        drop(claim);
        // The next command.
        assert!(journal.path("d", "json").exists());
        let claim = journal.claim(&info("DSM-d")).unwrap();
        let now = table("discard on discard_granularity 4096 discard_alignment 4096");
        let refusing = Noted {
            refuse: Some("commit"),
            ..Noted::default()
        };
        let said = claim.restore(&refusing, &now).unwrap_err().to_string();
        assert_eq!(said, "d: cannot take scratch files out of the table");
        assert_eq!(claim.record().unwrap().features.len(), 3, "it is tried again");
        let target = Noted::default();
        // Somebody else has set one of them meanwhile, and one is what it was.
        let now = table("discard on discard_granularity 8192 discard_alignment 4096");
        let done = claim.restore(&target, &now).unwrap();
        assert_eq!(
            *target.sent.borrow(),
            [
                "set discard off",
                "set discard_alignment 65536",
                "begin update 1000 5",
                "upload 1 drop 9",
                "commit 1"
            ]
        );
        assert_eq!(done.len(), 3);
        assert_eq!(done[1], "discard_alignment is 65536 again, and not 4096");
        assert!(claim.record().unwrap().is_empty() && !journal.path("d", "json").exists());
        assert_eq!(claim.restore(&Noted::default(), &now).unwrap(), [""; 0]);
    }

    #[test]
    fn a_record_is_about_one_device() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(dir.path());
        let seq = dir.path().join("sys/253:0/diskseq");
        fs::create_dir_all(seq.parent().unwrap()).unwrap();
        fs::write(&seq, "7\n").unwrap();
        let write = || {
            let claim = journal.claim(&info("LVM-x")).unwrap();
            claim.change(|r| r.withdrawn = Some("insert d".into())).unwrap();
        };
        write();
        let left = |uuid: &str| journal.leftovers(&info(uuid)).unwrap();
        assert_eq!(left("LVM-x").unwrap().withdrawn.unwrap(), "insert d");
        assert_eq!(left("LVM-y"), None, "of the same name");
        fs::write(&seq, "8\n").unwrap();
        assert_eq!(left("LVM-x"), None, "made again");
        // Nothing of the other one goes into a new record.
        let claim = journal.claim(&info("LVM-x")).unwrap();
        claim
            .change(|r| r.features.push(feature("discard", "off", "on")))
            .unwrap();
        assert_eq!(claim.record().unwrap().withdrawn, None);
        assert_eq!(left("LVM-x"), None, "who has it is at work");
        drop(claim);
        assert!(left("LVM-x").is_some());
        fs::write(journal.path("d", "json"), "{").unwrap();
        let said = journal.leftovers(&info("LVM-x")).unwrap_err().to_string();
        assert!(said.contains("d.json is not understood; remove it"), "{said}");
    }

    #[test]
    fn one_command_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(dir.path());
        let first = journal.lock("d").unwrap();
        assert_eq!(
            journal.lock("d").unwrap_err().to_string(),
            "d: another dsmctl is at work on the device; nothing was changed"
        );
        journal.lock("e").unwrap();
        drop(first);
        journal.lock("d").unwrap();
    }

    #[test]
    fn scratch_files_are_known_by_what_they_have() {
        let regions: Vec<Region> = Noted::default().regions().unwrap();
        let left = |files: &[ScratchFile]| {
            let record = JournalRecord {
                files: files.to_vec(),
                ..JournalRecord::default()
            };
            record.files_left(&regions)
        };
        assert_eq!(left(&[scratch(7, Class::Other, 4096)]), [7]);
        assert_eq!(left(&[scratch(9, Class::Collection, 12288)]), [9]);
        for other in [
            scratch(7, Class::Journal, 4096),
            scratch(7, Class::Other, 4097),
            scratch(9, Class::Collection, 4096),
            scratch(8, Class::Other, 0),
        ] {
            assert!(left(&[other]).is_empty());
        }
    }
}

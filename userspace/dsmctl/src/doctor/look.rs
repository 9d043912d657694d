// SPDX-License-Identifier: GPL-2.0-or-later
//! Asks the kernel, the drives, dsmd and the file system, by the readers that the other
//! commands have.  What may not be seen is said to be hidden.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context;

use super::facts::{Configuration, Examined, Facts, Misplaced};
use crate::create::{block_device, User};
use crate::device_file::DeviceFile;
use crate::free;
use crate::grow::Room;
use crate::view::{denied, Asks, Viewer};
use database::place;
use database::walk::{self, Root};
use database::wiredtiger::avail;
use database::wiredtiger::turtle;
use dm::class::Class;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::ioctl::Id;
use dm::journal::Journal;
use dm::module::{KernelRelease, System};
use dm::mounts::{self, Mount};
use dm::stack;
use dm::udev;
use drive::below::LowerDisk;
use proto::device::{Kernel, State};
use runtime::time::now;

/// Looks at these devices, or at all that there are or should be.
pub(crate) fn look(names: &[String], configuration: Configuration, viewer: &Viewer) -> Facts {
    let looker = Looker {
        viewer,
        mounts: mounts::all().map_err(|e| e.to_string()),
        configuration: &configuration,
    };
    let mut wanted: BTreeSet<String> = names.iter().cloned().collect();
    if names.is_empty() {
        wanted.extend(viewer.names().unwrap_or_default());
        wanted.extend(viewer.published.iter().map(|d| d.name.clone()));
        let files = configuration.files.iter();
        let is_wanted = |f: &DeviceFile| f.is_made_at_boot() || f.config.dbpath.is_some();
        wanted.extend(files.filter(|(_, f)| is_wanted(f)).map(|(name, _)| name.clone()));
    }
    let system = System::default();
    let kernel = KernelRelease::of(&system);
    let devices: Vec<Examined> = wanted.iter().map(|name| looker.device(name)).collect();
    let disks = match devices.iter().any(|d| d.view.kernel.is_some()) {
        true => Vec::new(),
        false => looker.disks(&kernel.disks),
    };
    let target = viewer.dm.as_ref().map(|dm| dm.target_version("dsm"));
    let semaphores = fs::read_to_string(system.proc.join("sysvipc/sem")).unwrap_or_default();
    Facts {
        kernel,
        target: target.ok().and_then(|t| t.ok().flatten()),
        permitted: viewer.permitted(),
        disks,
        devices,
        configuration,
        semaphores: udev::left_behind(&semaphores, now().as_secs()),
    }
}

struct Looker<'a> {
    viewer: &'a Viewer,
    /// `Err`: why it is not known.
    mounts: Result<Vec<Mount>, String>,
    configuration: &'a Configuration,
}

impl Looker<'_> {
    fn device(&self, name: &str) -> Examined {
        let asks = Asks {
            drive: true,
            regions: false,
        };
        let mut d = Examined {
            view: self.viewer.view(name, asks),
            file: self.configuration.files.get(name).cloned(),
            ..Examined::default()
        };
        let Some(kernel) = d.view.kernel.clone() else {
            let create = d.file.as_ref().and_then(|f| f.create.as_ref());
            d.held = create.and_then(|c| User::of(&self.viewer.sysfs, block_device(&c.dev).ok()?));
            return d;
        };
        d.left = Some(self.leftovers(name, &kernel).map_err(|e| format!("{e:#}")));
        self.surroundings(&mut d, &kernel);
        if d.view.state() == Some(State::Stuck) {
            // So would be who looks at the file system.
            d.dbpath = Some(Err(Misplaced::Unasked));
            return d;
        }
        if let Some(dbpath) = d.served() {
            let journal = dbpath.join("journal").symlink_metadata();
            d.journal_linked = journal.is_ok_and(|m| m.is_symlink());
            let root = Root::open(&dbpath).with_context(|| format!("{}: cannot open it", dbpath.display()));
            if let Ok(root) = &root {
                d.turtle_age = turtle_age(root);
                d.large_leaves = large_leaves(root);
            }
            let Kernel { devno, sectors, .. } = kernel;
            let found = root.and_then(|r| place::of_root(&r, name, devno, sectors));
            d.dbpath = Some(match found {
                _ if !self.viewer.permitted() => Err(Misplaced::Hidden),
                Ok(_) => Ok(()),
                Err(e) if denied(&e) => Err(Misplaced::Hidden),
                Err(e) => Err(Misplaced::Wrong(format!("{e:#}"))),
            });
        }
        d
    }

    fn leftovers(&self, name: &str, kernel: &Kernel) -> anyhow::Result<Vec<String>> {
        let dm = self.viewer.dm.as_ref().ok();
        let info = dm.and_then(|dm| dm.info(Id::Name(name)).ok());
        let record = info.map(|info| Journal::default().leftovers(&info)).transpose()?;
        let Some(record) = record.flatten() else {
            return Ok(Vec::new());
        };
        let regions = Device::open(name)?.regions()?;
        let features = record.features_left(&kernel.table).into_iter();
        let features = features.map(|f| format!("{} {}, which was {}", f.name, f.set, f.was));
        let files = match record.files_left(&regions).len() {
            0 => None,
            n => Some(format!("{n} scratch files in its table")),
        };
        Ok(features.chain(files).collect())
    }

    /// What a device lies on, and what lies on it.
    fn surroundings(&self, d: &mut Examined, kernel: &Kernel) {
        match self.viewer.stack(&kernel.table, kernel.devno) {
            Ok(stack) => {
                d.disks = stack.leaves.iter().map(|dev| self.disk(*dev)).collect();
                d.stack = stack;
            }
            Err(why) => d.lost = Some(why),
        }
        d.mounts = self.mounts_on(kernel.devno);
        d.unmounted = self.mounts.as_ref().err().cloned();
        d.followed = self.viewer.dm.is_ok();
        let Ok(device) = Device::open(&d.view.name) else {
            return;
        };
        let error = device.message("error").unwrap_or_default();
        d.error = Some(error.trim().to_owned()).filter(|e| !e.is_empty());
        d.room = self.room(&device.name, kernel);
    }

    fn room(&self, name: &str, kernel: &Kernel) -> Option<Room> {
        let info = self.viewer.dm.as_ref().ok()?.info(Id::Name(name)).ok()?;
        let room = Room::of(&self.viewer.sysfs, &info, &kernel.table)?;
        let create = self.configuration.files.get(name).and_then(|f| f.create.as_ref());
        let whole = room.unclear.is_none() && create.is_none_or(|c| c.size.is_none());
        (whole || room.sectors < kernel.sectors).then_some(room)
    }

    /// The file systems on a device, and on what is made of it.
    fn mounts_on(&self, dev: DevNo) -> Vec<Mount> {
        let is_on = |m: &&Mount| {
            let mut found = false;
            // What cannot be followed is not known to be on it.
            let _ = stack::walk(&self.viewer.sysfs, m.dev, &mut |below, _| found |= below == dev);
            found
        };
        self.mounts.iter().flatten().filter(is_on).cloned().collect()
    }

    /// Disks by their names.
    fn disks(&self, names: &[String]) -> Vec<LowerDisk> {
        let all = self.viewer.sysfs.all().into_iter();
        let disks = all.filter(|d| names.contains(&self.viewer.sysfs.name(*d)));
        disks.map(|d| self.disk(d)).collect()
    }

    fn disk(&self, dev: DevNo) -> LowerDisk {
        let mut disk = LowerDisk::ask(&self.viewer.sysfs, dev);
        disk.used |= !self.mounts_on(dev).is_empty();
        disk
    }
}

/// `None`: it is not WiredTiger's, or may not be read.
pub(super) fn large_leaves(root: &Root) -> Option<Result<usize, String>> {
    let (snapshot, lists) = match avail::read(root, &mut free::may_be_large) {
        Ok(read) => read,
        Err(e) if e.kind == avail::Kind::Damaged => return Some(Err(e.message)),
        Err(_) => return None,
    };
    let documents = avail::documents(root, &snapshot).unwrap_or_default();
    let known = snapshot.files.iter().zip(&lists);
    let known = known.filter_map(|(file, list)| Some((file, list.as_ref()?.as_ref().ok()?)));
    Some(Ok(known
        .filter(|(file, list)| free::large_leaves(file, list, &documents) == Some(Class::Collection))
        .count()))
}

/// How long ago the database has made its last checkpoint.
fn turtle_age(root: &Root) -> Option<Duration> {
    let directory = root.handle().ok()??;
    let (file, _) = walk::open_beneath(&directory, Path::new(turtle::NAME)).ok()??;
    let modified = file.metadata().ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(modified).unwrap_or_default())
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Asks the kernel, the drives, dsmd and the file system, by the readers that the other
//! commands have.  What may not be seen is said to be hidden.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use anyhow::Context;
use rustix::io::Errno;

use super::facts::{
    Absent, Below, Configuration, DeviceFacts, DriveFacts, Facts, Left, Misplaced, Published, Size,
};
use crate::free;
use crate::grow::Room;
use dm::class::Class;
use dm::device::{self, Target};
use dm::devno::DevNo;
use dm::ioctl::{Dm, DmError, Id};
use dm::journal::Journal;
use dm::module::{KernelRelease, System};
use dm::mounts::{self, Mount};
use dm::reply::TableLine;
use dm::streams::{self, LiveTables};
use dm::sysfs::Sysfs;
use dm::udev;
use drive::nvme::Namespace;
use drive::{self, broken, media};
use files::place;
use files::walk::{self, Root};
use proto::control::{self, Info, Request};
use proto::reason::Reason;
use proto::sample::{Sample, State};
use proto::snapshot::{Moment, Snapshot};
use runtime::time::now;
use wiredtiger::avail;
use wiredtiger::turtle;

/// A dsmd that takes longer is stuck, for who waits for a diagnosis.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where things are; elsewhere in tests.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub run_dir: PathBuf,
    pub system: System,
    pub sysfs: Sysfs,
    /// Of drives on which nothing may be discarded.
    pub marks: PathBuf,
}

impl Places {
    pub(crate) fn new(run_dir: PathBuf) -> Self {
        Self {
            run_dir,
            system: System::default(),
            sysfs: Sysfs::default(),
            marks: broken::DIR.into(),
        }
    }
}

/// Looks at these devices, or at all that there are or should be.
pub(crate) fn look(names: &[String], configuration: Configuration, places: &Places) -> Facts {
    let dm = Dm::open();
    let published = Snapshot::current(&places.run_dir).map_err(|e| e.to_string());
    let permitted = !matches!(&dm, Err(e) if denied_dm(e));
    let snapshot = published.and_then(|s| {
        // One that was killed leaves what it published; others may not see its process.
        if permitted && !places.system.proc.join(s.pid.to_string()).exists() {
            return Err(format!("dsmd has ended: there is no process {}", s.pid));
        }
        Ok(s)
    });
    let looker = Looker {
        places,
        snapshot: snapshot.as_ref().ok(),
        mounts: mounts::all().map_err(|e| e.to_string()),
        dm: dm.as_ref().ok(),
        permitted,
        configuration: &configuration,
    };
    let mut wanted: BTreeSet<String> = names.iter().cloned().collect();
    if names.is_empty() {
        wanted.extend(device::Device::all().unwrap_or_default());
        wanted.extend(looker.samples().map(|s| s.device.clone()));
        wanted.extend(configuration.databases.keys().cloned());
        wanted.extend(configuration.tab.iter().cloned());
    }
    let kernel = KernelRelease::of(&places.system);
    let devices: Vec<DeviceFacts> = wanted.iter().map(|name| looker.device(name)).collect();
    let disks = match devices.iter().any(|d| d.below.is_some()) {
        true => Vec::new(),
        false => looker.disks(&kernel.disks),
    };
    let target = match &dm {
        Ok(dm) => dm.target_version("dsm").map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    };
    let published = snapshot.map(|s| Published {
        age: s.age(Moment::now()),
        version: s.version,
    });
    Facts {
        kernel,
        target,
        permitted,
        published,
        disks,
        devices,
        configuration,
        semaphores: udev::left_behind(
            &fs::read_to_string(places.system.proc.join("sysvipc/sem")).unwrap_or_default(),
            now().as_secs(),
        ),
        version: env!("CARGO_PKG_VERSION"),
    }
}

fn denied_dm(e: &DmError) -> bool {
    matches!(e.errno(), Some(Errno::ACCESS | Errno::PERM))
}

/// Whether what failed is a question of permission.
fn denied(e: &anyhow::Error) -> bool {
    e.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let dm = cause.downcast_ref::<DmError>();
        io.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied) || dm.is_some_and(denied_dm)
    })
}

struct Looker<'a> {
    places: &'a Places,
    /// One that is not old.
    snapshot: Option<&'a Snapshot>,
    /// `Err`: why it is not known.
    mounts: Result<Vec<Mount>, String>,
    dm: Option<&'a Dm>,
    permitted: bool,
    configuration: &'a Configuration,
}

impl Looker<'_> {
    fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.snapshot.into_iter().flat_map(|s| &s.devices)
    }

    fn sysfs(&self) -> &Sysfs {
        &self.places.sysfs
    }

    fn device(&self, name: &str) -> DeviceFacts {
        let sample = self.samples().find(|s| s.device == name);
        let mut d = DeviceFacts {
            name: name.to_owned(),
            wanted: self.configuration.databases.get(name).cloned(),
            trial: self.configuration.trials.get(name).cloned(),
            last_error: sample.and_then(|s| s.last_error.clone()),
            service: sample.map(|s| s.service.clone()),
            ..DeviceFacts::default()
        };
        let mut sectors = None;
        match device::Device::open(name) {
            Ok(opened) => {
                sectors = Some((opened.devno, opened.sectors));
                match self.kernel_side(&opened) {
                    Ok(below) => d.below = Some(below),
                    Err(e) => d.absent = Some(Absent::Missing(Reason::of(&e))),
                }
            }
            Err(e) if self.permitted => d.absent = Some(Absent::Missing(Reason::of(&e))),
            Err(_) => match self.published(name, sample) {
                Some(below) => d.below = Some(below),
                None => d.absent = Some(Absent::Hidden),
            },
        }
        d.left = match self.left(name, d.below.as_ref()) {
            Ok(left) => left.unwrap_or_default(),
            Err(e) => Left {
                hidden: Some(format!("{e:#}")),
                ..Left::default()
            },
        };
        if d.below.is_none() {
            return d;
        }
        if d.service.as_ref().is_some_and(|s| s.state == State::Stuck) {
            // So would be who looks at the file system.
            d.agent = sample.and_then(|s| s.agent.clone());
            d.dbpath = Some(Err(Misplaced::Unasked));
            return d;
        }
        let answer: anyhow::Result<Info> =
            control::ask_within(TIMEOUT, &self.places.run_dir, name, Request::Info);
        match answer {
            Ok(info) => d.agent = Some(info),
            Err(e) if denied(&e) => d.agent = sample.and_then(|s| s.agent.clone()),
            Err(e) => d.silent = Some(Reason::of(&e)),
        }
        let served = d.agent.as_ref().map(|a| PathBuf::from(&a.dbpath));
        if let Some(dbpath) = served.or_else(|| d.wanted.as_ref().map(|w| w.dbpath.clone())) {
            let journal = dbpath.join("journal").symlink_metadata();
            d.journal_linked = journal.is_ok_and(|m| m.is_symlink());
            let root = Root::open(&dbpath).with_context(|| format!("{}: cannot open it", dbpath.display()));
            if let Ok(root) = &root {
                d.turtle_age = turtle_age(root);
                d.large_leaves = large_leaves(root);
            }
            d.dbpath = Some(match sectors {
                Some((devno, sectors)) => match root.and_then(|r| place::of_root(&r, name, devno, sectors)) {
                    Ok(_) => Ok(()),
                    Err(e) if denied(&e) => Err(Misplaced::Hidden(format!("{e:#}"))),
                    Err(e) => Err(Misplaced::Wrong(format!("{e:#}"))),
                },
                None => Err(Misplaced::Hidden("not permitted".into())),
            });
        }
        d
    }

    fn left(&self, name: &str, below: Option<&Below>) -> anyhow::Result<Option<Left>> {
        // Without a device there is nothing, which is said elsewhere.
        let Some(info) = self.dm.and_then(|dm| dm.info(Id::Name(name)).ok()) else {
            return Ok(None);
        };
        let (Some(below), Some(record)) = (below, Journal::default().left(&info)?) else {
            return Ok(None);
        };
        let regions = match record.files.is_empty() {
            true => Vec::new(),
            false => device::Device::open(name)?.regions()?,
        };
        Ok(Some(Left {
            features: record.features_left(&below.table).into_iter().cloned().collect(),
            files: record.files_left(&regions),
            ..Left::default()
        }))
    }

    fn kernel_side(&self, device: &device::Device) -> anyhow::Result<Below> {
        let error = device.message("error").unwrap_or_default();
        let media = media::of(self.sysfs(), device.devno);
        let tables: &dyn LiveTables = match self.dm {
            Some(dm) => dm,
            None => &streams::Unknown,
        };
        let error = Some(error.trim().to_owned()).filter(|e| !e.is_empty());
        let table = device.table_line()?;
        let below = Below {
            status: device.status()?,
            error,
            stack: self.stack(&table, tables, device.devno),
            size: self.size(device, &table),
            table,
            barred: self.barred(&device.name, device.devno),
            followed: self.dm.is_some(),
            disks: Vec::new(),
            affords: None,
            mounts: self.mounts_on(device.devno),
            unmounted: self.mounts.as_ref().err().cloned(),
            media,
        };
        Ok(self.with_disks(below))
    }

    fn size(&self, device: &device::Device, table: &TableLine) -> Option<Size> {
        let info = self.dm?.info(Id::Name(&device.name)).ok()?;
        let room = Room::of(self.sysfs(), &info, table)?;
        let whole = room.unclear.is_none() && !self.configuration.sized.contains(&device.name);
        (whole || room.sectors < device.sectors).then_some(Size {
            has: device.sectors,
            room: room.sectors,
            below: room.below,
            mount: self
                .mounts
                .iter()
                .flatten()
                .find(|m| m.dev == device.devno)
                .cloned(),
        })
    }

    /// What dsmd publishes for everybody, and sysfs shows.
    fn published(&self, name: &str, sample: Option<&Sample>) -> Option<Below> {
        let kernel = sample?.kernel.clone()?;
        let sysfs = self.sysfs();
        let named = |d: &DevNo| sysfs.text(*d, "dm/name").is_some_and(|n| n == name);
        let devno = sysfs.all().into_iter().find(named)?;
        Some(self.with_disks(Below {
            status: kernel.status,
            error: None,
            stack: self.stack(&kernel.table, &streams::Unknown, devno),
            table: kernel.table,
            barred: self.barred(name, devno),
            size: None,
            followed: false,
            disks: Vec::new(),
            affords: None,
            mounts: self.mounts_on(devno),
            unmounted: self.mounts.as_ref().err().cloned(),
            media: kernel.media,
        }))
    }

    fn barred(&self, name: &str, devno: DevNo) -> Option<Reason> {
        broken::below(&self.places.marks, self.sysfs(), name, devno)
    }

    /// What lies below the device, which is itself none of the volumes between.
    fn stack(
        &self,
        table: &TableLine,
        tables: &dyn LiveTables,
        devno: DevNo,
    ) -> Result<streams::Below, String> {
        let below = table.below.parse().unwrap_or(devno);
        streams::below(self.sysfs(), tables, below).map_err(|e| format!("{e:#}"))
    }

    fn with_disks(&self, below: Below) -> Below {
        let Ok(stack) = &below.stack else { return below };
        Below {
            disks: stack.leaves.iter().map(|d| self.disk(*d)).collect(),
            affords: Some(drive::below::of_stack(self.sysfs(), stack, &|all| all)),
            ..below
        }
    }

    /// The file systems on a device, and on what is made of it.
    fn mounts_on(&self, dev: DevNo) -> Vec<Mount> {
        let sysfs = self.sysfs();
        let mut on = vec![dev];
        let mut next = 0;
        while let Some(&dev) = on.get(next) {
            next += 1;
            let holders = sysfs.links(dev, "holders").unwrap_or_default();
            let partitions = sysfs.all().into_iter();
            let partitions = partitions.filter(|p| sysfs.disk_of(*p).is_ok_and(|d| d == Some(dev)));
            let new: Vec<DevNo> = holders.into_iter().chain(partitions).collect();
            on.extend(new.into_iter().filter(|d| !on.contains(d)).collect::<Vec<_>>());
        }
        let mounts = self.mounts.iter().flatten();
        mounts.filter(|m| on.contains(&m.dev)).cloned().collect()
    }

    /// Disks by their names.
    fn disks(&self, names: &[String]) -> Vec<DriveFacts> {
        let all = self.sysfs().all().into_iter();
        let disks = all.filter(|d| names.contains(&self.sysfs().name(*d)));
        disks.map(|d| self.disk(d)).collect()
    }

    fn disk(&self, dev: DevNo) -> DriveFacts {
        let sysfs = self.sysfs();
        let attribute = |name: &str| sysfs.text(dev, name).filter(|text| !text.is_empty());
        let held = sysfs.links(dev, "holders").is_ok_and(|h| !h.is_empty());
        let mut disk = DriveFacts {
            name: sysfs.name(dev),
            model: attribute("device/model"),
            firmware: attribute("device/firmware_rev").or_else(|| attribute("device/rev")),
            streams: sysfs.number(dev, "queue/max_write_streams"),
            discard_granularity: sysfs.number(dev, "queue/discard_granularity"),
            discard_max: sysfs.number(dev, "queue/discard_max_bytes"),
            used: held || !self.mounts_on(dev).is_empty(),
            ..DriveFacts::default()
        };
        if disk.is_nvme() {
            let node = Path::new("/dev").join(&disk.name);
            match Namespace::open(&node) {
                Ok(Some(namespace)) => {
                    let handles = namespace.handles();
                    disk.handles = handles.ok().map(|h| h.map_or(0, |h| h.len() as u64));
                    disk.placement = namespace.placement().ok();
                }
                Ok(None) => disk.silent = Some("it is no NVMe namespace".into()),
                Err(e) => disk.silent = Some(e.to_string()),
            }
        }
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

// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a file system lies on a dsm device.
//!
//! FIEMAP counts from the start of the device that the file system is on.
//! That may be the dsm device, a partition of it, or a dm-linear device (an
//! LVM volume) on it, also one on another.
//!
//! Who may rename something on the way to a path can have it lead elsewhere between two
//! lookups.  So nothing here looks up a path twice: what is asked about has been opened,
//! and a place holds for files of its own file system only.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use rustix::fs::{Mode, OFlags};

use crate::walk::Root;
use dm::devno::DevNo;
use dm::ioctl::{Dm, Id, Line};
use dm::stack::{self, Below};
use dm::sysfs::Sysfs;
use dm::table::Extent;
use proto::reason::{Reason, ReasonKind};

/// The extents of a device that lie on the target, ordered by `offset`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segments(Vec<Extent>);

impl Segments {
    /// The target itself.
    fn whole(sectors: u64) -> Self {
        Self(vec![Extent::new(0, 0, sectors)])
    }

    /// The part of this device from `start` on, as a device of its own.
    fn slice(&self, start: u64, length: u64) -> Self {
        let mut segments = Vec::new();
        self.map(Extent::new(0, start, length), |e| {
            segments.push(e);
        });
        Self(segments)
    }

    fn shifted(self, by: u64) -> impl Iterator<Item = Extent> {
        self.0.into_iter().map(move |s| Extent {
            offset: s.offset + by,
            ..s
        })
    }

    fn sectors(&self) -> u64 {
        self.0.iter().map(|s| s.length).sum()
    }

    fn map(&self, e: Extent, mut emit: impl FnMut(Extent)) -> u64 {
        let end = e.start.saturating_add(e.length);
        let first = self.0.partition_point(|s| s.offset + s.length <= e.start);
        let mut placed = 0;
        for s in self.0[first..].iter().take_while(|s| s.offset < end) {
            let from = e.start.max(s.offset);
            let to = end.min(s.offset + s.length);
            emit(Extent::new(
                e.offset + (from - e.start),
                s.start + (from - s.offset),
                to - from,
            ));
            placed += to - from;
        }
        placed
    }
}

/// Where the file system of a device lies on the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    dev: DevNo,
    segments: Segments,
}

impl Place {
    /// Of a file system on `dev`, which is the target.
    pub fn whole(dev: DevNo, sectors: u64) -> Self {
        Self {
            dev,
            segments: Segments::whole(sectors),
        }
    }

    /// The file system's device.
    pub fn dev(&self) -> DevNo {
        self.dev
    }

    /// Refuses what is on another file system: its extents are none of this device's.
    pub(crate) fn check(&self, opened: impl AsFd) -> io::Result<()> {
        let dev = device(opened)?;
        if dev == self.dev {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "it is on the device {dev}, not on {}",
            self.dev
        )))
    }

    /// Gives the parts of `e`, whose start counts from the file system's
    /// device, as extents of the target.  Returns the sectors that lie on it.
    pub(crate) fn map(&self, e: Extent, emit: impl FnMut(Extent)) -> u64 {
        self.segments.map(e, emit)
    }
}

fn device(opened: impl AsFd) -> io::Result<DevNo> {
    Ok(DevNo::from_stat(rustix::fs::fstat(opened)?.st_dev))
}

/// How the tables of device-mapper devices are read.
type Tables<'a> = &'a dyn Fn(DevNo) -> Result<Vec<Line>>;

/// Finds out where `dev` lies on the target `dsm`, of `sectors` sectors.
fn locate(
    sysfs: &Sysfs,
    tables: Tables<'_>,
    dev: DevNo,
    dsm: DevNo,
    sectors: u64,
    depth: u32,
) -> Result<Option<Segments>> {
    if dev == dsm {
        return Ok(Some(Segments::whole(sectors)));
    }
    stack::check_depth(dev, depth)?;
    let below = |d| locate(sysfs, tables, d, dsm, sectors, depth + 1);
    if let Below::Disk(disk) = stack::below(sysfs, dev)? {
        let attribute = |name: &str| {
            sysfs
                .number::<u64>(dev, name)
                .with_context(|| format!("cannot read '{name}' of the partition {dev}"))
        };
        let (start, size) = (attribute("start")?, attribute("size")?);
        return Ok(below(disk)?.map(|p| p.slice(start, size)));
    }
    if !sysfs.is_dm(dev) {
        return Ok(None);
    }
    let mut segments = Vec::new();
    for line in tables(dev)? {
        if line.target != "linear" {
            return Ok(None);
        }
        let (on, start) = line
            .linear()
            .with_context(|| format!("the device {dev} has an unexpected table: {}", line.params))?;
        if let Some(p) = below(on)? {
            segments.extend(p.slice(start, line.length).shifted(line.start));
        }
    }
    Ok((!segments.is_empty()).then_some(Segments(segments)))
}

/// All of `dev`, or why not.
fn locate_whole(
    sysfs: &Sysfs,
    tables: Tables<'_>,
    dev: DevNo,
    name: &str,
    dsm: DevNo,
    sectors: u64,
) -> Result<Place> {
    let Some(segments) = locate(sysfs, tables, dev, dsm, sectors, 0)? else {
        let text = format!(
            "it is on {} ({dev}), not on the dsm device {name} ({dsm}) nor on a partition or linear volume of it",
            sysfs.name(dev)
        );
        return Err(Reason::new(ReasonKind::NotMounted, text).into());
    };
    let size = sysfs
        .number::<u64>(dev, "size")
        .with_context(|| format!("cannot read the size of its device {}", sysfs.name(dev)))?;
    ensure!(
        segments.sectors() >= size,
        "only a part of its device {} lies on the dsm device {name}",
        sysfs.name(dev)
    );
    Ok(Place { dev, segments })
}

/// Names for the file systems whose extents say nothing about places.
fn refused_type(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "ZFS",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x794c_7630 => "overlayfs",
        0xca45_1a4e => "bcachefs",
        0x6969 => "NFS",
        0x6573_5546 => "FUSE",
        _ => return None,
    })
}

/// Whether the file system writes changed data to a new place (f2fs).
fn moves_data(magic: u64) -> bool {
    magic == 0xf2f5_2010
}

/// What was found out about a directory or file.
pub struct Found {
    pub place: Place,
    /// A warning about something that works badly.
    pub warning: Option<String>,
}

/// Checks that the file system of what was opened lies on the dsm device `name`, and
/// where.  `path` is only for messages: it may lead elsewhere by now.
pub fn find(opened: impl AsFd, path: &Path, name: &str, dsm: DevNo, sectors: u64) -> Result<Found> {
    let shown = path.display();
    let cannot = || format!("{shown}: cannot determine its file system");
    let magic = rustix::fs::fstatfs(&opened).with_context(cannot)?.f_type as u64;
    if let Some(fs) = refused_type(magic) {
        bail!("{shown}: it is on {fs}, whose extents are not locations on a device; XFS or ext4 is needed");
    }
    let dev = device(&opened).with_context(cannot)?;
    let sysfs = Sysfs::default();
    ensure!(
        sysfs.exists(dev),
        "{shown}: its file system is not on one block device; XFS or ext4 is needed"
    );
    let tables = |d: DevNo| -> Result<Vec<Line>> { Ok(Dm::open()?.table(Id::Dev(d))?.1) };
    let place = locate_whole(&sysfs, &tables, dev, name, dsm, sectors);
    let place = place.with_context(|| shown.to_string())?;
    let warning = moves_data(magic).then(|| {
        format!("{shown}: f2fs moves data when it is written, and the table lags behind; use XFS or ext4")
    });
    Ok(Found { place, warning })
}

/// The same of a data directory, if it is still the one that it was.
pub fn of_root(root: &Root, name: &str, dsm: DevNo, sectors: u64) -> Result<Found> {
    let shown = root.path().display();
    let handle = root
        .handle()
        .with_context(|| Reason::new(ReasonKind::NotMounted, format!("{shown}: cannot open it")))?
        .with_context(|| format!("{shown}: it was unmounted, moved or removed"))?;
    find(handle, root.path(), name, dsm, sectors)
}

/// A directory that somebody named, of a file system that lies on a dsm device: what is
/// made in it is there, whatever its path leads to by then.
pub struct Directory {
    handle: OwnedFd,
    path: PathBuf,
    place: Place,
}

impl Directory {
    /// The path may lead through links, since it comes from the administrator.
    pub fn open(path: &Path, name: &str, dsm: DevNo, sectors: u64) -> Result<Self> {
        Self::of(path, |handle| Ok(find(handle, path, name, dsm, sectors)?.place))
    }

    fn of(path: &Path, place: impl FnOnce(&OwnedFd) -> Result<Place>) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty())
            .with_context(|| format!("{}: cannot open it", path.display()))?;
        Ok(Self {
            place: place(&handle)?,
            handle,
            path: path.to_owned(),
        })
    }

    /// For messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Bytes that are free in its file system.
    pub fn free(&self) -> Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.handle)
            .with_context(|| format!("{}: cannot stat it", self.path.display()))?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    /// A file without a name, for direct I/O.
    pub fn unnamed(&self) -> Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(&self.handle, ".", flags, Mode::RUSR | Mode::WUSR).with_context(|| {
                format!(
                    "{}: cannot create a temporary file (O_TMPFILE)",
                    self.path.display()
                )
            })?;
        Ok(File::from(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use testing::sysfs::Tree;

    fn dev(s: &str) -> DevNo {
        s.parse().unwrap()
    }

    fn line(start: u64, length: u64, target: &str, params: &str) -> Line {
        Line {
            start,
            length,
            target: target.into(),
            params: params.into(),
        }
    }

    fn mapped(p: &Segments, e: Extent) -> Vec<Extent> {
        let mut out = Vec::new();
        p.map(e, |e| out.push(e));
        out
    }

    #[test]
    fn the_device_itself() {
        let t = Tree::make();
        t.add("253:0", "dm-0");
        let p = locate(&t.sysfs(), &|_| Ok(vec![]), dev("253:0"), dev("253:0"), 1000, 0)
            .unwrap()
            .unwrap();
        assert_eq!(mapped(&p, Extent::new(3, 100, 10)), [Extent::new(3, 100, 10)]);
        // What is beyond the end has no place.
        assert_eq!(mapped(&p, Extent::new(0, 995, 10)), [Extent::new(0, 995, 5)]);
    }

    #[test]
    fn a_volume_of_two_pieces_on_a_partition() {
        let t = Tree::make();
        t.add("253:0", "dm-0");
        t.add("259:5", "dm-0/dm-0p1");
        t.set("253:0", "dm/name", "d");
        t.set("259:5", "partition", "1");
        t.set("259:5", "start", "2048");
        t.set("259:5", "size", "10000");
        t.add("253:1", "dm-1");
        t.set("253:1", "dm/name", "vg-lv");
        let tables = |d: DevNo| {
            assert_eq!(d, dev("253:1"));
            Ok(vec![
                line(0, 100, "linear", "259:5 500"),
                line(100, 100, "linear", "259:5 50"),
            ])
        };
        let p = locate(&t.sysfs(), &tables, dev("253:1"), dev("253:0"), 1 << 20, 0)
            .unwrap()
            .unwrap();
        assert_eq!(p.sectors(), 200);
        assert_eq!(
            mapped(&p, Extent::new(8, 90, 20)),
            [Extent::new(8, 2638, 10), Extent::new(18, 2098, 10)]
        );
    }

    #[test]
    fn what_is_elsewhere_is_refused() {
        let t = Tree::make();
        t.add("253:0", "dm-0");
        t.add("8:0", "sda");
        t.add("253:2", "dm-2");
        t.set("253:2", "dm/name", "luks");
        let crypt = |_: DevNo| Ok(vec![line(0, 100, "crypt", "aes - 0 253:0 4096")]);
        for d in ["8:0", "253:2"] {
            assert_eq!(
                locate(&t.sysfs(), &crypt, dev(d), dev("253:0"), 1000, 0).unwrap(),
                None
            );
        }
    }

    #[test]
    fn a_volume_that_is_partly_elsewhere() {
        let t = Tree::make();
        t.add("253:0", "dm-0");
        t.add("8:0", "sda");
        t.add("253:1", "dm-1");
        t.set("253:1", "dm/name", "lv");
        let tables = |_: DevNo| {
            Ok(vec![
                line(0, 100, "linear", "253:0 0"),
                line(100, 100, "linear", "8:0 0"),
            ])
        };
        let p = locate(&t.sysfs(), &tables, dev("253:1"), dev("253:0"), 1000, 0)
            .unwrap()
            .unwrap();
        assert_eq!(p.sectors(), 100);
        assert_eq!(p.map(Extent::new(0, 90, 20), |_| {}), 10);
        // What it has for the other part is not the target's.
        let said = |size: &str| {
            t.set("253:1", "size", size);
            let place = locate_whole(&t.sysfs(), &tables, dev("253:1"), "d", dev("253:0"), 1000);
            place.map_err(|e| e.to_string())
        };
        let part = "only a part of its device dm-1 lies on the dsm device d";
        assert_eq!(said("200").unwrap_err(), part);
        assert_eq!(said("101").unwrap_err(), part);
        assert_eq!(said("?").unwrap_err(), "cannot read the size of its device dm-1");
        let place = said("100").unwrap();
        assert_eq!((place.dev(), place.segments), (dev("253:1"), p));
        let elsewhere = locate_whole(&t.sysfs(), &tables, dev("8:0"), "d", dev("253:0"), 1000);
        assert_eq!(
            elsewhere.unwrap_err().to_string(),
            "it is on sda (8:0), not on the dsm device d (253:0) nor on a partition or linear volume of it"
        );
    }

    /// The path of a directory leads elsewhere from the moment on at which it has been opened.
    #[test]
    fn a_directory_is_the_one_that_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [named, moved] = ["named", "moved"].map(|name| dir.path().join(name));
        std::fs::create_dir(&named).unwrap();
        let own = device(File::open(&named).unwrap()).unwrap();
        let directory = Directory::of(&named, |handle| {
            std::fs::rename(&named, &moved)?;
            std::os::unix::fs::symlink("/proc", &named)?;
            Ok(Place::whole(device(handle)?, 1000))
        });
        let directory = directory.unwrap();
        assert_ne!(device(File::open(&named).unwrap()).unwrap(), own);
        assert_eq!(directory.place().dev(), own);
        let file = directory.unnamed().unwrap();
        assert_eq!(device(&file).unwrap(), own);
        directory.place().check(&file).unwrap();
        let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert!(name.starts_with(&moved), "{}", name.display());
        assert!(directory.free().unwrap() > 0, "in /proc there is none");
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, why) in [
            (file, "Not a directory"),
            (dir.path().join("none"), "No such file"),
        ] {
            let said = Directory::open(&path, "d", dev("253:0"), 1000);
            let said = format!("{:#}", said.map(drop).unwrap_err());
            let wanted = format!("{}: cannot open it: {why}", path.display());
            assert!(said.starts_with(&wanted), "{said}");
        }
    }

    #[test]
    fn a_data_directory_that_was_exchanged_has_no_place() {
        let dir = tempfile::tempdir().unwrap();
        let named = dir.path().join("db");
        std::fs::create_dir(&named).unwrap();
        let root = Root::open(&named).unwrap();
        let said = || {
            of_root(&root, "d", DevNo::new(0, 0), 1)
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        let gone = format!("{}: it was unmounted, moved or removed", named.display());
        assert_ne!(said(), gone);
        std::fs::rename(&named, dir.path().join("moved")).unwrap();
        std::fs::create_dir(&named).unwrap();
        assert_eq!(said(), gone);
    }
}

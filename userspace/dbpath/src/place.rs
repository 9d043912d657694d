// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a file system lies on a dsm device.
//!
//! FIEMAP counts from the start of the device that the file system is on.
//! That may be the dsm device, a partition of it, or a dm-linear device (an
//! LVM volume) on it, also one on another.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};

use kernel::devno::DevNo;
use kernel::dm::{Dm, Id, Line};
use kernel::stack::{self, Below};
use kernel::sysfs::Sysfs;
use kernel::table::Extent;

/// `length` sectors of the file system's device from `from` on lie at `to` of
/// the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    from: u64,
    to: u64,
    length: u64,
}

/// The segments of a device that lie on the target, ordered by `from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    segments: Vec<Segment>,
}

impl Place {
    /// The target itself.
    pub fn whole(sectors: u64) -> Self {
        Self {
            segments: vec![Segment {
                from: 0,
                to: 0,
                length: sectors,
            }],
        }
    }

    /// The part of this device from `start` on, as a device of its own.
    fn slice(&self, start: u64, length: u64) -> Self {
        let mut segments = Vec::new();
        self.map(Extent::new(0, start, length), |e| {
            segments.push(Segment {
                from: e.offset,
                to: e.start,
                length: e.length,
            });
        });
        Self { segments }
    }

    fn shifted(self, by: u64) -> impl Iterator<Item = Segment> {
        self.segments.into_iter().map(move |s| Segment {
            from: s.from + by,
            ..s
        })
    }

    fn sectors(&self) -> u64 {
        self.segments.iter().map(|s| s.length).sum()
    }

    /// Gives the parts of `e`, whose start counts from the file system's
    /// device, as extents of the target.  Returns the sectors that lie on it.
    pub fn map(&self, e: Extent, mut emit: impl FnMut(Extent)) -> u64 {
        let end = e.start.saturating_add(e.length);
        let first = self.segments.partition_point(|s| s.from + s.length <= e.start);
        let mut placed = 0;
        for s in self.segments[first..].iter().take_while(|s| s.from < end) {
            let from = e.start.max(s.from);
            let to = end.min(s.from + s.length);
            emit(Extent::new(
                e.offset + (from - e.start),
                s.to + (from - s.from),
                to - from,
            ));
            placed += to - from;
        }
        placed
    }
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
) -> Result<Option<Place>> {
    if dev == dsm {
        return Ok(Some(Place::whole(sectors)));
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
    let mut place = Place { segments: Vec::new() };
    for line in tables(dev)? {
        if line.target != "linear" {
            return Ok(None);
        }
        let (on, start) = line
            .linear()
            .with_context(|| format!("the device {dev} has an unexpected table: {}", line.params))?;
        if let Some(p) = below(on)? {
            place
                .segments
                .extend(p.slice(start, line.length).shifted(line.start));
        }
    }
    Ok((!place.segments.is_empty()).then_some(place))
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
    pub dev: DevNo,
    /// A warning about something that works badly.
    pub warning: Option<String>,
}

/// Checks that the file system of `path` lies on the dsm device `name`, and
/// where.
pub fn find(path: &Path, name: &str, dsm: DevNo, sectors: u64) -> Result<Found> {
    let file = File::open(path).with_context(|| format!("{}: cannot open it", path.display()))?;
    find_opened(&file, path, name, dsm, sectors)
}

/// The same of what was opened, whatever has that path now.
pub fn find_opened(opened: impl AsFd, path: &Path, name: &str, dsm: DevNo, sectors: u64) -> Result<Found> {
    let shown = path.display();
    let cannot = || format!("{shown}: cannot determine its file system");
    let magic = rustix::fs::fstatfs(&opened).with_context(cannot)?.f_type as u64;
    if let Some(fs) = refused_type(magic) {
        bail!("{shown}: it is on {fs}, whose extents are not locations on a device; XFS or ext4 is needed");
    }
    let dev = DevNo::from_stat(rustix::fs::fstat(&opened).with_context(cannot)?.st_dev);
    let sysfs = Sysfs::default();
    ensure!(
        sysfs.exists(dev),
        "{shown}: its file system is not on one block device; XFS or ext4 is needed"
    );
    let tables = |d: DevNo| -> Result<Vec<Line>> { Ok(Dm::open()?.table(Id::Dev(d))?.1) };
    let place = locate(&sysfs, &tables, dev, dsm, sectors, 0)?;
    let Some(place) = place else {
        bail!(
            "{shown}: it is on {} ({dev}), not on the dsm device {name} ({dsm}) nor on a partition or linear volume of it",
            sysfs.name(dev)
        );
    };
    let size = sysfs.number::<u64>(dev, "size").unwrap_or(0);
    ensure!(
        place.sectors() >= size,
        "{shown}: only a part of its device {} lies on the dsm device {name}",
        sysfs.name(dev)
    );
    let warning = moves_data(magic).then(|| {
        format!("{shown}: f2fs moves data when it is written, and the table lags behind; use XFS or ext4")
    });
    Ok(Found { place, dev, warning })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::sysfs::Tree;

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

    fn mapped(p: &Place, e: Extent) -> Vec<Extent> {
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
    }
}

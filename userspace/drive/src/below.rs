// SPDX-License-Identifier: GPL-2.0-or-later
//! The streams that what is below a device can afford, by what its disks tell.
//!
//! NVMe reports the size of a reclaim unit and the kind of handles (FDP configurations), and
//! what no namespace has of an endurance group.  What a drive keeps for itself it does not
//! tell; nor do SCSI and UFS tell what they erase at a time.  Where streams may hold too
//! much, none are the safe choice: a few per cent are not saved, where up to 35 are lost.

use std::path::Path;

use anyhow::Result;

pub use crate::afford::Affords;
use crate::afford::{Copies, DriveUnits};
use crate::nvme::{Isolated, Namespace, Placement};
use dm::devno::DevNo;
use dm::streams::{self, LiveTables, LowerStack};
use dm::sysfs::Sysfs;
use runtime::sizes;

/// What drives of the field have beyond their size at least, in percent of it.
const KEPT: u64 = 7;
const SECTOR: u64 = 512;
/// That the kernel has a unit which does not fit.
const NO_GRANULARITY: u64 = u32::MAX as u64;

/// How many of so many streams.
pub(crate) type Usable<'a> = dyn Fn(u32) -> u32 + 'a;

/// What a disk reports, and sysfs of it.
#[derive(Clone, Debug, Default)]
pub struct LowerDisk {
    /// The kernel's.
    pub name: String,
    pub model: Option<String>,
    pub firmware: Option<String>,
    pub bytes: u64,
    /// Write streams, if the kernel has them.
    pub streams: Option<u32>,
    /// Bytes that it erases at a time.
    pub unit: Option<u64>,
    /// Of an NVMe namespace, when it could be asked: its handles, and whether it places data.
    pub handles: Option<u64>,
    pub placement: Option<Placement>,
    /// Bytes of its endurance group, and those that no namespace has.
    pub total: Option<u64>,
    pub unallocated: u64,
    pub discard_granularity: Option<u64>,
    /// Bytes of a discard at most; 0: it takes none.
    pub discard_max: Option<u64>,
    /// Somebody uses it.
    pub used: bool,
    /// Why it could not be asked.
    pub silent: Option<String>,
}

pub fn of(sysfs: &Sysfs, tables: &dyn LiveTables, dev: DevNo) -> Result<Affords> {
    Ok(of_stack(sysfs, &streams::below(sysfs, tables, dev)?, &|all| all))
}

/// `usable` of the streams that there are may be used.
pub fn of_stack(sysfs: &Sysfs, below: &LowerStack, usable: &Usable<'_>) -> Affords {
    let disks = below.leaves.iter().map(|leaf| LowerDisk::ask(sysfs, *leaf));
    least(below, &disks.collect::<Vec<_>>(), usable)
}

impl LowerDisk {
    pub fn ask(sysfs: &Sysfs, dev: DevNo) -> Self {
        let granularity = sysfs.number(dev, "queue/write_stream_granularity");
        let sectors: u64 = sysfs.number(dev, "size").unwrap_or_default();
        let attribute = |name: &str| sysfs.text(dev, name).filter(|text| !text.is_empty());
        let mut disk = Self {
            name: sysfs.name(dev),
            model: attribute("device/model"),
            firmware: attribute("device/firmware_rev").or_else(|| attribute("device/rev")),
            bytes: sectors * SECTOR,
            streams: sysfs.number(dev, "queue/max_write_streams"),
            unit: granularity.filter(|n| *n > 0 && *n < NO_GRANULARITY),
            discard_granularity: sysfs.number(dev, "queue/discard_granularity"),
            discard_max: sysfs.number(dev, "queue/discard_max_bytes"),
            used: sysfs.links(dev, "holders").is_ok_and(|h| !h.is_empty()),
            ..Self::default()
        };
        match Namespace::open(&Path::new("/dev").join(&disk.name)) {
            Ok(Some(namespace)) => disk.ask_nvme(&namespace),
            Ok(None) if disk.is_nvme() => disk.silent = Some("it is no NVMe namespace".into()),
            Ok(None) => {}
            Err(e) => disk.silent = Some(e.to_string()),
        }
        disk
    }

    pub fn is_nvme(&self) -> bool {
        self.name.starts_with("nvme")
    }

    fn ask_nvme(&mut self, namespace: &Namespace) {
        let handles = namespace.handles();
        self.handles = handles.ok().map(|h| h.map_or(0, |h| h.len() as u64));
        let placement = match namespace.placement() {
            Ok(placement) => placement,
            Err(e) => {
                self.silent = Some(e.to_string());
                return;
            }
        };
        self.unit = placement.reclaim_unit.or(self.unit);
        if let Ok(Some(capacity)) = namespace.capacity(placement.group) {
            self.total = Some(capacity.total);
            self.unallocated = capacity.unallocated;
        }
        self.placement = Some(placement);
    }

    /// What it is to the arithmetic, or why it is nothing.
    fn drive(&self) -> Result<DriveUnits, String> {
        let name = &self.name;
        let (handles, unit) = match (self.streams, self.unit, &self.silent) {
            (Some(0), _, _) => return Err(format!("{name} has no write streams")),
            // What sysfs has without it is not enough: of handles that are initially isolated a
            // drive affords less.
            (_, _, Some(why)) => return Err(format!("{name} could not be asked for its erase units: {why}")),
            (Some(handles), Some(unit), None) => (handles, unit),
            (_, None, None) => return Err(format!("{name} does not report how large its erase units are")),
            (None, Some(_), _) => return Err("this kernel has no write streams (6.16 has)".to_owned()),
        };
        let kept = (self.whole() / 100).saturating_mul(KEPT);
        Ok(DriveUnits {
            units: self.whole() / unit,
            spare: kept.saturating_add(self.unallocated) / unit,
            handles,
            copies: match self.placement.and_then(|p| p.isolated) {
                Some(Isolated::Initially) => Copies::Mixed,
                _ => Copies::Apart,
            },
        })
    }

    fn whole(&self) -> u64 {
        self.total.unwrap_or_default().max(self.bytes)
    }

    /// Where the numbers come from.
    fn source(&self) -> String {
        let unit = self.unit.map_or_else(String::new, sizes::shown);
        let free = match self.unallocated {
            0 => String::new(),
            bytes => format!(", beside the {} that no namespace has", sizes::shown(bytes)),
        };
        format!(
            "{} erases {unit} at a time, and is taken to keep {KEPT} % to itself, which it does not report{free}",
            self.name
        )
    }
}

fn least(below: &LowerStack, disks: &[LowerDisk], usable: &Usable<'_>) -> Affords {
    if let Some(name) = below.losing.first() {
        return Affords::nothing(format!("{name} below it does not pass streams on"));
    }
    let mut least: Option<Affords> = None;
    for disk in disks {
        let affords = match disk.drive() {
            Ok(drive) => {
                let handles = usable(drive.handles);
                let usable = DriveUnits { handles, ..drive };
                let why = format!("{} ({})", usable.why(), disk.source());
                Affords::new(usable.choose(), Some(drive), why)
            }
            Err(why) => {
                return Affords {
                    silent: disk.silent.is_some() && disk.streams != Some(0),
                    ..Affords::nothing(why)
                }
            }
        };
        if least.as_ref().is_none_or(|l| affords.rank() > l.rank()) {
            least = Some(affords);
        }
    }
    match (least, below.barring.first()) {
        (_, Some(name)) if below.stacked => {
            Affords::nothing(format!("it lies on {name}, above which there are none"))
        }
        (Some(least), _) => least,
        (None, _) => Affords::nothing("no disk is seen below it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::afford::AffordedLayout;
    use testing::sysfs::Tree;

    const GIB: u64 = 1 << 30;

    fn isolated(isolated: Option<Isolated>) -> Option<Placement> {
        Some(Placement {
            isolated,
            ..Placement::default()
        })
    }

    /// 3,500 units, of which 245 are taken to be spare.
    fn disk(name: &str) -> LowerDisk {
        LowerDisk {
            name: name.into(),
            bytes: 3500 * GIB,
            streams: Some(8),
            unit: Some(GIB),
            placement: isolated(Some(Isolated::Persistently)),
            ..LowerDisk::default()
        }
    }

    fn of(disks: &[LowerDisk]) -> Affords {
        least(&LowerStack::default(), disks, &|all| all)
    }

    fn with(change: impl FnOnce(&mut LowerDisk)) -> Affords {
        let mut disk = disk("a");
        change(&mut disk);
        of(&[disk])
    }

    #[test]
    fn what_drives_of_the_field_afford() {
        assert_eq!(
            of(&[disk("a")]).why,
            "life with K = 3, whose 5 streams hold 11 of the 245 spare ones of a drive of 3500 erase units, less than \
             a tenth (a erases 1 GiB at a time, and is taken to keep 7 % to itself, which it does not report)"
        );
        // A PM9D3 of 3.84 TB.
        let pm9d3 = |d: &mut LowerDisk| {
            d.bytes = 3_840_755_982_336;
            d.unit = Some(13_079_937_024);
            d.placement = isolated(Some(Isolated::Initially));
        };
        assert_eq!(
            with(pm9d3).why,
            "no streams on a drive of 293 erase units: streams need 300 of them (a erases 12.2 GiB at a time, and is taken to keep 7 % to itself, which it does not report)"
        );
        // One twice as large, with a namespace of 5 TiB.
        let room = with(|d| {
            pm9d3(d);
            d.total = Some(2 * d.bytes);
            d.bytes = 5120 * GIB;
            d.unallocated = 2034 * GIB;
        });
        assert_eq!(
            (room.layout, room.drive.unwrap().spare),
            (AffordedLayout::Life(3), 208)
        );
        assert!(
            room.why.ends_with(", beside the 2.0 TiB that no namespace has)"),
            "{}",
            room.why
        );
        // QEMU's, which is smaller than one of its units.
        let qemu = with(|d| (d.bytes, d.unit) = (4 * GIB, Some(16 * GIB)));
        assert_eq!(
            (qemu.layout, qemu.drive.unwrap().units),
            (AffordedLayout::None, 0)
        );
    }

    #[test]
    fn the_kind_of_handles_and_their_number_count() {
        let drive = |d: Affords| d.drive.unwrap().copies;
        assert_eq!(
            drive(with(|d| d.placement = isolated(Some(Isolated::Initially)))),
            Copies::Mixed
        );
        assert_eq!(
            drive(with(|d| d.placement = isolated(None))),
            Copies::Apart,
            "the careful one"
        );
        assert_eq!(with(|d| d.streams = Some(4)).layout, AffordedLayout::Life(2));
        let most = |n| least(&LowerStack::default(), &[disk("a")], &|all| all.min(n)).layout;
        assert_eq!(
            [9, 7, 4, 2, 1].map(most),
            [
                AffordedLayout::Life(3),
                AffordedLayout::Life(3),
                AffordedLayout::Life(2),
                AffordedLayout::JournalApart,
                AffordedLayout::None
            ]
        );
    }

    #[test]
    fn the_least_of_all_disks_counts() {
        let mut few = disk("b");
        few.bytes = 700 * GIB;
        let both = [of(&[disk("a"), few.clone()]), of(&[few.clone(), disk("a")])];
        assert_eq!(both[0].layout, of(&[few]).layout);
        assert_eq!(both[0], both[1]);
        assert!(both[0].why.contains("(b erases"), "{}", both[0].why);
        let mut silent = disk("c");
        silent.unit = None;
        let with_silent = of(&[disk("a"), silent]);
        assert_eq!(
            (with_silent.layout, with_silent.drive),
            (AffordedLayout::None, None)
        );
    }

    #[test]
    fn who_does_not_tell_gets_none() {
        let why = |change: fn(&mut LowerDisk)| {
            let found = with(change);
            assert_eq!((found.layout, found.drive), (AffordedLayout::None, None));
            found.why
        };
        assert_eq!(
            why(|d| d.unit = None),
            "no streams: a does not report how large its erase units are"
        );
        assert_eq!(why(|d| d.streams = Some(0)), "no streams: a has no write streams");
        assert_eq!(
            why(|d| d.streams = None),
            "no streams: this kernel has no write streams (6.16 has)"
        );
        assert_eq!(
            why(|d| (d.unit, d.silent) = (None, Some("Permission denied".into()))),
            "no streams: a could not be asked for its erase units: Permission denied"
        );
        let silent = with(|d| d.silent = Some("Permission denied".into()));
        assert_eq!(
            (silent.drive, silent.silent),
            (None, true),
            "sysfs alone has its units"
        );
        let below = LowerStack {
            losing: vec!["dm-1".into()],
            ..LowerStack::default()
        };
        let lost = least(&below, &[disk("a")], &|all| all);
        assert_eq!(lost.why, "no streams: dm-1 below it does not pass streams on");
        let mut below = LowerStack {
            stacked: true,
            barring: vec!["md0 (raid1)".into()],
            ..LowerStack::default()
        };
        let barred = least(&below, &[disk("a")], &|all| all);
        assert_eq!(
            barred.why,
            "no streams: it lies on md0 (raid1), above which there are none"
        );
        below.stacked = false;
        assert_eq!(
            least(&below, &[disk("a")], &|all| all).layout,
            AffordedLayout::Life(3),
            "its own limit"
        );
        assert_eq!(of(&[]).why, "no streams: no disk is seen below it");
    }

    #[test]
    fn streams_that_hold_too_much() {
        let found = with(|d| d.bytes = 700 * GIB);
        assert_eq!(
            (found.layout, found.drive.unwrap().spare),
            (AffordedLayout::None, 49)
        );
        assert_eq!(
            [0, 1, 2, 8].map(|n| found.too_many(n)),
            [None, None, Some((5, 49)), Some((17, 49))]
        );
        let found = with(|d| d.bytes = 2000 * GIB);
        assert_eq!([6, 7].map(|n| found.too_many(n)), [None, Some((15, 140))]);
        // Many spare units, and still there are few.
        let few = with(|d| (d.bytes, d.unallocated) = (200 * GIB, 200 * GIB));
        assert_eq!(
            (few.layout, few.too_many(2)),
            (AffordedLayout::None, Some((5, 214)))
        );
        assert_eq!(with(|d| d.unit = None).too_many(8), None, "nobody knows");
    }

    #[test]
    fn the_features_of_a_layout() {
        let of = |change: fn(&mut LowerDisk)| {
            let words = with(change)
                .features()
                .into_iter()
                .map(|(name, value)| format!("{name} {value}"));
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(|_| {}), "policy life groups 3 streams 5");
        assert_eq!(of(|d| d.streams = Some(4)), "policy life groups 2 streams 4");
        assert_eq!(of(|d| d.streams = Some(2)), "policy file streams 2");
        assert_eq!(of(|d| d.unit = None), "policy none");
    }

    #[test]
    fn what_sysfs_reports() {
        let tree = Tree::make();
        // Every machine has this device, and it is no drive.
        tree.add("7:1", "null");
        tree.set("7:1", "size", "2097152");
        tree.set("7:1", "queue/max_write_streams", "8");
        let dev = "7:1".parse().unwrap();
        let ask = || super::of(&tree.sysfs(), &streams::Unknown, dev).unwrap();
        tree.set("7:1", "queue/write_stream_granularity", "65536");
        assert_eq!(
            (ask().layout, ask().drive.unwrap().units),
            (AffordedLayout::Life(3), 16384)
        );
        for unknown in ["0", "4294967295", "4294967296"] {
            tree.set("7:1", "queue/write_stream_granularity", unknown);
            assert_eq!(
                ask().why,
                "no streams: null does not report how large its erase units are"
            );
        }
    }
}

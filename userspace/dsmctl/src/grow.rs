// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl grow`: a dsm device gets the length that what it lies on has by now, while its file
//! system is mounted and in use.

use std::cmp::Ordering;

use anyhow::{bail, ensure, Context, Result};

use crate::borrowed;
use crate::cli::Grow;
use dm::device::Device;
use dm::devno::DevNo;
use dm::exchange::{self, Guard};
use dm::ioctl::{Dm, Id, Info};
use dm::lvm;
use dm::mounts;
use dm::reply::TableLine;
use dm::sysfs::Sysfs;
use runtime::sizes;

const SECTOR: u64 = 512;

/// What a device may have of what it lies on.
#[derive(Debug)]
pub(crate) struct Room {
    /// What it lies on.
    pub below: String,
    /// Of that, from where the device begins on.
    pub sectors: u64,
    /// Why it is not known that all of it is the device's.
    pub unclear: Option<String>,
}

impl Room {
    /// `None`: what it lies on does not say how long it is.
    pub(crate) fn of(sysfs: &Sysfs, info: &Info, table: &TableLine) -> Option<Self> {
        let dev: DevNo = table.below.parse().ok()?;
        let below = sysfs.given_name(dev);
        let mut holders = sysfs.links(dev, "holders").ok()?;
        holders.retain(|h| *h != info.dev);
        let others: Vec<String> = holders.iter().map(|h| sysfs.given_name(*h)).collect();
        let unclear = match others.as_slice() {
            [] if info.is_own() => None,
            [] => Some("`dsmctl create` did not make it".to_owned()),
            others => Some(format!("{} lies on {below}, too", others.join(", "))),
        };
        let sectors = sysfs.number::<u64>(dev, "size")?.saturating_sub(table.start);
        Some(Self {
            below,
            sectors,
            unclear,
        })
    }
}

/// What makes a file system as long as its device.
pub(crate) fn of_filesystem(kind: &str, point: &str, device: &str) -> Option<String> {
    match kind {
        "xfs" => Some(format!("xfs_growfs {point}")),
        "ext4" => Some(format!("resize2fs /dev/mapper/{device}")),
        _ => None,
    }
}

pub(crate) fn grow(a: &Grow) -> Result<()> {
    let sysfs = Sysfs::default();
    let dm = Dm::open()?;
    let _guard = Guard::new()?;
    // Says what it is, where it is not dsm.
    Device::open(&a.name)?;
    let uuid = dm.info(Id::Name(&a.name))?.uuid;
    ensure!(
        !lvm::is_volume(&uuid),
        "{0}: the volume is LVM's: `lvextend` makes it longer, and `dsmctl insert {0}` puts dsm back after that; nothing was changed",
        a.name
    );
    let (_claim, info, lines) = borrowed::take(&dm, &a.name)?;
    let (name, old) = (&info.name, exchange::only_line(&a.name, &info, &lines)?);
    let room = Room::of(&sysfs, &info, &old.params.parse()?)
        .with_context(|| format!("{name}: cannot determine the size of what it lies on"))?;
    let (below, most) = (&room.below, room.sectors);
    let length = match (a.size, &room.unclear) {
        (Some(size), _) => size,
        (None, None) => most,
        (None, Some(why)) => bail!(
            "{name}: {why}, so that it is not clear how much of {below} is its own: --size says it; nothing was changed"
        ),
    };
    ensure!(
        length <= most,
        "{name}: --size {length} is more than the {most} sectors that {below} has for it; nothing was changed"
    );
    let shown = |sectors: u64| sizes::shown(sectors * SECTOR);
    match length.cmp(&old.length) {
        Ordering::Equal => {
            eprintln!("dsmctl: note: {name} has {} already, and is left as it is", shown(length));
        }
        Ordering::Less if a.size.is_none() => bail!(
            "{name}: {below} has only {} for it, and it has {}: what lies on it would lose its end; nothing was changed",
            shown(length),
            shown(old.length)
        ),
        _ if a.dry.on => {
            let (would, has) = (shown(length), shown(old.length));
            return crate::print_text(&format!("{name}: nothing was changed; it would have {would}, and has {has}\n"));
        }
        _ => exchange::lengthen(&dm, name, old, length)?,
    }
    let mounts = mounts::all().unwrap_or_default();
    let on = mounts.iter().find(|m| m.dev == info.dev);
    let next = on.and_then(|m| of_filesystem(&m.kind, &m.point.to_string_lossy(), name));
    let next = next.map_or_else(String::new, |n| format!("; for the file system: {n}"));
    let (before, now) = (shown(old.length), shown(length));
    crate::print_text(&format!("{name}: {before} before, {now} now{next}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::sysfs::Tree;

    fn device(uuid: &str) -> Info {
        Info {
            name: "d".into(),
            uuid: uuid.into(),
            dev: DevNo::new(253, 1),
            open_count: 1,
            active: true,
            inactive: false,
            suspended: false,
            read_only: false,
        }
    }

    #[test]
    fn what_is_the_devices_own() {
        let tree = Tree::make();
        for (dev, name) in [("253:0", "dm-0"), ("253:1", "dm-1"), ("253:2", "dm-2")] {
            tree.add(dev, name);
        }
        tree.set("253:0", "dm/name", "vol");
        tree.set("253:0", "size", "2000");
        tree.set("253:2", "dm/name", "other");
        let room = |uuid: &str| {
            let table = "253:0 500 2 policy none".parse().unwrap();
            let room = Room::of(&tree.sysfs(), &device(uuid), &table).unwrap();
            assert_eq!((room.below.as_str(), room.sectors), ("vol", 1500));
            room.unclear
        };
        tree.link("253:0", "holders", "253:1");
        assert_eq!(room("DSM-d"), None);
        assert_eq!(room("").unwrap(), "`dsmctl create` did not make it");
        tree.link("253:0", "holders", "253:2");
        assert_eq!(room("DSM-d").unwrap(), "other lies on vol, too");
        // Nobody knows how long it is.
        let table = "253:2 0 0".parse().unwrap();
        assert!(Room::of(&tree.sysfs(), &device("DSM-d"), &table).is_none());
    }
}

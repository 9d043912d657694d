// SPDX-License-Identifier: GPL-2.0-or-later
//! Where discards may start, as the disks below a device prefer.
//!
//! The kernel has one number for the length and the start of a discard, the greater one of
//! NVMe's NPDG and NPDA.

use std::path::Path;

use crate::deallocate::Deallocate;
use crate::nvme::Namespace;
use dm::devno::DevNo;
use dm::sysfs::Sysfs;

/// What the target takes, in bytes.
const LEAST: u64 = 4096;
const MOST: u64 = 64 << 20;

/// Bytes, if all disks say that a discard may start within a piece of the length that
/// they prefer.
pub fn alignment(sysfs: &Sysfs, leaves: &[DevNo]) -> Option<u32> {
    let ask = |leaf: &DevNo| {
        let node = Path::new("/dev").join(sysfs.name(*leaf));
        Namespace::open(&node).ok()??.deallocate().ok()?
    };
    of(&leaves.iter().map(ask).collect::<Vec<_>>())
}

fn of(disks: &[Option<Deallocate>]) -> Option<u32> {
    let start = |disk: &Option<Deallocate>| {
        let (length, start) = disk.as_ref().and_then(|d| d.granularity.zip(d.alignment))?;
        let start = start.max(LEAST);
        (start < length && start.is_power_of_two() && start <= MOST).then_some(start as u32)
    };
    let starts = disks.iter().map(start).collect::<Option<Vec<u32>>>()?;
    starts.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deallocate::Promise;

    fn disk(granularity: u64, alignment: u64) -> Option<Deallocate> {
        Some(Deallocate {
            block: 4096,
            size: 1 << 40,
            capacity: 1 << 40,
            used: 0,
            promise: Promise::Zeroes,
            write_zeroes: false,
            granularity: Some(granularity),
            alignment: Some(alignment),
        })
    }

    #[test]
    fn where_discards_may_start() {
        let k = |n: u64| n << 10;
        assert_eq!(of(&[disk(k(128), k(4))]), Some(4096));
        assert_eq!(of(&[disk(k(128), 512)]), Some(4096), "a page");
        assert_eq!(of(&[disk(k(128), k(4)), disk(k(128), k(16))]), Some(16384));
        for (disks, why) in [
            (vec![disk(k(128), k(128))], "the kernel's number says that"),
            (vec![disk(k(4), k(4))], "small"),
            (vec![disk(512, 512)], "smaller than a page"),
            (vec![disk(k(128), k(12))], "no power of two"),
            (vec![disk(k(128), k(4)), None], "one does not report"),
            (vec![disk(k(128), k(4)), disk(k(4), k(4))], "they differ"),
            (vec![], "none is known"),
        ] {
            assert_eq!(of(&disks), None, "{why}");
        }
    }
}

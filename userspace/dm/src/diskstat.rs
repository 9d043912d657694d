// SPDX-License-Identifier: GPL-2.0-or-later
//! What the block layer counts of a device: the attribute `stat` in sysfs,
//! Documentation/block/stat.rst of the kernel.

use serde::{Deserialize, Serialize};

use crate::devno::DevNo;
use crate::sysfs::Sysfs;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStat {
    pub reads: u64,
    /// Waited for reads, added up over all of them.
    pub read_ms: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub write_ms: u64,
    /// 0 on kernels that do not count them.
    pub discards: u64,
    pub discard_ms: u64,
}

impl DiskStat {
    /// `None`: it is gone, or its counters stand still.
    pub fn of(sysfs: &Sysfs, dev: DevNo) -> Option<Self> {
        if !is_counted(sysfs, dev) {
            return None;
        }
        parse(&sysfs.text(dev, "stat")?)
    }
}

impl DiskStat {
    /// What was done since `then`; `None`: it was made again meanwhile.
    pub fn since(&self, then: &Self) -> Option<Self> {
        // The kernel shows 32 bits of them.
        let ms = |now: u64, then: u64| u64::from((now as u32).wrapping_sub(then as u32));
        Some(Self {
            reads: self.reads.checked_sub(then.reads)?,
            read_ms: ms(self.read_ms, then.read_ms),
            writes: self.writes.checked_sub(then.writes)?,
            written_bytes: self.written_bytes.checked_sub(then.written_bytes)?,
            write_ms: ms(self.write_ms, then.write_ms),
            discards: self.discards.checked_sub(then.discards)?,
            discard_ms: ms(self.discard_ms, then.discard_ms),
        })
    }

    /// Adds what another disk has done.
    pub fn add(&mut self, o: &Self) {
        self.reads += o.reads;
        self.read_ms += o.read_ms;
        self.writes += o.writes;
        self.written_bytes += o.written_bytes;
        self.write_ms += o.write_ms;
        self.discards += o.discards;
        self.discard_ms += o.discard_ms;
    }
}

/// Whether the kernel counts what a device does; a partition's disk decides.
pub fn is_counted(sysfs: &Sysfs, dev: DevNo) -> bool {
    let disk = sysfs.disk_of(dev).ok().flatten().unwrap_or(dev);
    sysfs.number(disk, "queue/iostats") != Some(0)
}

fn parse(text: &str) -> Option<DiskStat> {
    let fields: Vec<u64> = text
        .split_ascii_whitespace()
        .map_while(|w| w.parse().ok())
        .collect();
    let &[reads, _, _, read_ms, writes, _, written_sectors, write_ms, _, _, ..] = fields.as_slice() else {
        return None;
    };
    let later = |n: usize| fields.get(n).copied().unwrap_or_default();
    Some(DiskStat {
        reads,
        read_ms,
        writes,
        written_bytes: written_sectors * 512,
        write_ms,
        discards: later(11),
        discard_ms: later(14),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::sysfs::Tree;

    #[test]
    fn what_is_not_counted_is_not_zero() {
        let tree = Tree::make();
        tree.add("8:0", "sda");
        tree.set("8:0", "stat", &"7 ".repeat(17));
        let sysfs = Sysfs::at(tree.block());
        let of = || DiskStat::of(&sysfs, "8:0".parse().unwrap());
        assert_eq!(of().map(|d| d.reads), Some(7));
        tree.set("8:0", "queue/iostats", "1");
        assert_eq!(of().map(|d| d.reads), Some(7));
        tree.set("8:0", "queue/iostats", "0");
        assert_eq!(of(), None);
    }

    /// After 50 days of waits.
    #[test]
    fn times_begin_again_and_counts_do_not() {
        let at = |read_ms, reads| DiskStat {
            read_ms,
            reads,
            ..DiskStat::default()
        };
        assert_eq!(at(5, 9).since(&at(u64::from(u32::MAX), 7)), Some(at(6, 2)));
        assert_eq!(at(5, 6).since(&at(4, 7)), None);
    }

    #[test]
    fn the_fields_in_use() {
        let tree = Tree::make();
        tree.add("253:0", "dm-0");
        let sysfs = Sysfs::at(tree.block());
        let dev: DevNo = "253:0".parse().unwrap();
        assert_eq!(DiskStat::of(&sysfs, dev), None);
        tree.set("253:0", "stat", "  11 1 88 7  22 2 176 9  0 13 16  3 0 24 1  4 5");
        let wanted = DiskStat {
            reads: 11,
            read_ms: 7,
            writes: 22,
            written_bytes: 176 * 512,
            write_ms: 9,
            discards: 3,
            discard_ms: 1,
        };
        assert_eq!(DiskStat::of(&sysfs, dev), Some(wanted));
        let older = DiskStat {
            discards: 0,
            discard_ms: 0,
            ..wanted
        };
        tree.set("253:0", "stat", "11 1 88 7 22 2 176 9 0 13 16");
        assert_eq!(DiskStat::of(&sysfs, dev), Some(older));
        tree.set("253:0", "stat", "11 1 88 x");
        assert_eq!(DiskStat::of(&sysfs, dev), None);
    }
}

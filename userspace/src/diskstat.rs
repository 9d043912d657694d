// SPDX-License-Identifier: GPL-2.0-only
//! What the block layer counts of a device: the attribute `stat` in sysfs,
//! Documentation/block/stat.rst of the kernel.

use crate::devno::DevNo;
use crate::sysfs::Sysfs;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStat {
    pub reads: u64,
    pub read_bytes: u64,
    /// Waited for reads, added up over all of them.
    pub read_ms: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub write_ms: u64,
    /// With at least one request under way.
    pub busy_ms: u64,
}

impl DiskStat {
    pub fn of(sysfs: &Sysfs, dev: DevNo) -> Option<Self> {
        parse(&sysfs.text(dev, "stat")?)
    }
}

fn parse(text: &str) -> Option<DiskStat> {
    let fields: Vec<u64> = text
        .split_ascii_whitespace()
        .map_while(|w| w.parse().ok())
        .collect();
    let &[reads, _, read_sectors, read_ms, writes, _, written_sectors, write_ms, _, busy_ms, ..] =
        fields.as_slice()
    else {
        return None;
    };
    Some(DiskStat {
        reads,
        read_bytes: read_sectors * 512,
        read_ms,
        writes,
        written_bytes: written_sectors * 512,
        write_ms,
        busy_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    #[test]
    fn the_fields_in_use() {
        let tree = Tree::make();
        tree.add("253:0", "dm-0");
        let dev: DevNo = "253:0".parse().unwrap();
        assert_eq!(DiskStat::of(&tree.sysfs(), dev), None);
        tree.set("253:0", "stat", "  11 1 88 7  22 2 176 9  0 13 16  3 0 24 1  4 5");
        let wanted = DiskStat {
            reads: 11,
            read_bytes: 88 * 512,
            read_ms: 7,
            writes: 22,
            written_bytes: 176 * 512,
            write_ms: 9,
            busy_ms: 13,
        };
        assert_eq!(DiskStat::of(&tree.sysfs(), dev), Some(wanted));
        tree.set("253:0", "stat", "11 1 88 x");
        assert_eq!(DiskStat::of(&tree.sysfs(), dev), None);
    }
}

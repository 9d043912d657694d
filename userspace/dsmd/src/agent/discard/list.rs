// SPDX-License-Identifier: GPL-2.0-or-later
//! A list of free blocks in little memory: there is one for every file.

use std::ops::Range;

use wiredtiger::avail::FreeList;
use wiredtiger::varint::{put, Numbers};

/// What a page of the target has a bit for.
const PAGE: u64 = 4096;

/// The pages that a checkpoint listed as free, as the lengths of used and free
/// ranges in turn, 7 bits a byte.
#[derive(Debug)]
pub(super) struct Compact {
    file: (u64, i128),
    file_size: u64,
    lengths: Box<[u8]>,
}

impl Compact {
    /// A page of which a part is free counts as free: what was free before is never
    /// discarded.
    pub(super) fn of(list: &FreeList) -> Self {
        let mut lengths = Vec::new();
        let mut at = 0;
        let mut open: Option<Range<u64>> = None;
        let mut close = |r: Range<u64>| {
            put(&mut lengths, r.start - at);
            put(&mut lengths, r.end - r.start);
            at = r.end;
        };
        for e in &list.extents {
            let pages = e.start / PAGE..e.end.div_ceil(PAGE);
            open = Some(match open {
                Some(o) if pages.start <= o.end => o.start..o.end.max(pages.end),
                Some(o) => {
                    close(o);
                    pages
                }
                None => pages,
            });
        }
        open.into_iter().for_each(close);
        Self {
            file: list.file,
            file_size: list.file_size,
            lengths: lengths.into(),
        }
    }

    /// Inode number and birth time.
    pub(super) fn file(&self) -> (u64, i128) {
        self.file
    }

    pub(super) fn list(&self) -> FreeList {
        let mut lengths = Numbers::of(&self.lengths);
        let mut extents = Vec::new();
        let mut at = 0;
        while let (Some(used), Some(free)) = (lengths.next(), lengths.next()) {
            let start = at + used;
            at = start + free;
            extents.push(start * PAGE..at * PAGE);
        }
        FreeList {
            file: self.file,
            file_size: self.file_size,
            extents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(extents: Vec<Range<u64>>) -> FreeList {
        FreeList {
            file: (7, 9),
            file_size: 1 << 40,
            extents,
        }
    }

    #[test]
    fn parts_of_pages_count_as_free() {
        let c = Compact::of(&list(vec![0..1, 4095..4097, 12_288..12_289, 40_960..45_056]));
        assert_eq!(c.list().extents, [0..8192, 12_288..16_384, 40_960..45_056]);
        assert_eq!((c.file(), c.list().file_size), ((7, 9), 1 << 40));
        assert_eq!(Compact::of(&list(vec![])).list(), list(vec![]));
    }

    proptest! {
        #[test]
        fn whole_pages_stay_as_they_are(steps in proptest::collection::vec((1..1u64 << 40, 1..1u64 << 30), 0..50)) {
            let mut at = 0;
            let extents: Vec<Range<u64>> = steps.iter().map(|&(gap, length)| {
                let start = at + gap;
                at = start + length;
                start * PAGE..at * PAGE
            }).collect();
            let list = list(extents);
            prop_assert_eq!(Compact::of(&list).list(), list);
        }
    }

    #[test]
    fn little_memory() {
        // As in the lists of WiredTiger's files with pages of 32 KiB.
        let extents = (0..1000u64)
            .map(|n| n * 100 * PAGE..(n * 100 + 5) * PAGE)
            .collect();
        assert_eq!(Compact::of(&list(extents)).lengths.len(), 2000);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! A list of free blocks in little memory: there is one for every file.

use std::ops::Range;

use database::wiredtiger::avail::FreeList;
use database::wiredtiger::varint::{put, Numbers};

/// What a page of the target has a bit for.
const PAGE: u64 = 4096;

/// Sorted ranges of pages that do not touch, as the lengths of what is between them and of
/// themselves in turn, 7 bits a byte.
#[derive(Debug, Default)]
pub(super) struct Pages(Box<[u8]>);

impl Pages {
    fn of(pages: impl IntoIterator<Item = Range<u64>>) -> Self {
        let (mut lengths, mut at) = (Vec::new(), 0);
        for r in pages {
            put(&mut lengths, r.start - at);
            put(&mut lengths, r.end - r.start);
            at = r.end;
        }
        Self(lengths.into())
    }

    /// Of ranges of bytes that are whole pages.
    pub(super) fn of_bytes(ranges: &[Range<u64>]) -> Self {
        Self::of(ranges.iter().map(|r| r.start / PAGE..r.end / PAGE))
    }

    /// As ranges of bytes.
    pub(super) fn bytes(&self) -> Vec<Range<u64>> {
        let mut lengths = Numbers::of(&self.0);
        let (mut ranges, mut at) = (Vec::new(), 0);
        while let (Some(gap), Some(length)) = (lengths.next(), lengths.next()) {
            let start = at + gap;
            at = start + length;
            ranges.push(start * PAGE..at * PAGE);
        }
        ranges
    }
}

/// The pages that a checkpoint listed as free.
#[derive(Debug)]
pub(super) struct Compact {
    file: (u64, i128),
    file_size: u64,
    free: Pages,
}

impl Compact {
    /// A page of which a part is free counts as free: what was free before is never
    /// discarded.
    pub(super) fn of(list: &FreeList) -> Self {
        let mut free: Vec<Range<u64>> = Vec::with_capacity(list.extents.len());
        for e in &list.extents {
            let pages = e.start / PAGE..e.end.div_ceil(PAGE);
            match free.last_mut() {
                Some(last) if pages.start <= last.end => last.end = last.end.max(pages.end),
                _ => free.push(pages),
            }
        }
        Self {
            file: list.file,
            file_size: list.file_size,
            free: Pages::of(free),
        }
    }

    /// Inode number and birth time.
    pub(super) fn file(&self) -> (u64, i128) {
        self.file
    }

    pub(super) fn list(&self) -> FreeList {
        FreeList {
            file: self.file,
            file_size: self.file_size,
            extents: self.free.bytes(),
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
        assert_eq!(Compact::of(&list(extents)).free.0.len(), 2000);
    }
}

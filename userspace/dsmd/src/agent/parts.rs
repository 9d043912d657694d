// SPDX-License-Identifier: GPL-2.0-or-later
//! Files whose parts are objects of their own: the kernel has each of them as a
//! file, with an id that no inode number is.

use std::ops::Range;

use super::tracked::Tracked;
use database::rules::{Parts, Role};
use dm::table::{Extent, FileRecord, StreamStamp};

/// Inode numbers of XFS and ext4 are places on a device, divided by at least 256.
const SHIFT: u32 = 56;

/// The kernel's ids of the first `count` parts of a file.
pub(crate) fn ids(ino: u64, count: usize) -> impl Iterator<Item = u64> {
    (1..=count as u64).map(move |n| ino | (n << SHIFT))
}

/// What a file's parts are; one with an inode number that leaves no room for them
/// is a whole.
pub(crate) fn of(parts: Parts, ino: u64) -> Parts {
    match ino >> SHIFT {
        0 => parts,
        _ => Parts {
            ranges: Vec::new(),
            ..parts
        },
    }
}

impl Tracked {
    pub(crate) fn count_parts(&self) -> usize {
        self.parts.ranges.len()
    }

    /// Calls `each` with what the kernel is to have of the file.
    pub fn records<E>(
        &self,
        ino: u64,
        stamp: impl Fn(Role) -> StreamStamp,
        mut each: impl FnMut(&FileRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let whole = FileRecord {
            id: ino,
            class: self.class(),
            boundary: self.boundary,
            stamp: self.auto.unwrap_or_else(|| stamp(self.parts.rest)),
            extents: &self.extents,
        };
        if self.parts.ranges.is_empty() {
            return each(&whole);
        }
        let taken = self.parts.ranges.iter().map(|(r, _)| r);
        each(&FileRecord {
            extents: &rest(&self.extents, taken),
            ..whole
        })?;
        for (id, (range, kind)) in ids(ino, self.count_parts()).zip(&self.parts.ranges) {
            each(&FileRecord {
                id,
                class: kind.class,
                boundary: None,
                stamp: stamp(*kind),
                extents: &within(&self.extents, range),
            })?;
        }
        Ok(())
    }
}

/// What of the extents lies in a range of bytes of the file.
pub(crate) fn within(extents: &[Extent], bytes: &Range<u64>) -> Vec<Extent> {
    let (start, end) = (bytes.start / 512, bytes.end / 512);
    let clip = |e: &Extent| {
        let from = e.offset.max(start);
        let to = (e.offset + e.length).min(end);
        (from < to).then(|| Extent::new(from, e.start + (from - e.offset), to - from))
    };
    extents.iter().filter_map(clip).collect()
}

fn rest<'a>(extents: &[Extent], taken: impl Iterator<Item = &'a Range<u64>>) -> Vec<Extent> {
    let mut taken: Vec<&Range<u64>> = taken.collect();
    taken.sort_unstable_by_key(|r| r.start);
    let mut left = Vec::new();
    let mut from = 0;
    for r in taken {
        left.extend(within(extents, &(from..r.start)));
        from = r.end;
    }
    left.extend(within(extents, &(from..u64::MAX)));
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn extents_are_cut_at_the_edges() {
        let extents = [Extent::new(0, 1000, 16), Extent::new(24, 5000, 16)];
        assert_eq!(
            within(&extents, &(4096..16384)),
            [Extent::new(8, 1008, 8), Extent::new(24, 5000, 8)]
        );
        assert_eq!(
            rest(&extents, [4096..16384, 20480..u64::MAX].iter()),
            [Extent::new(0, 1000, 8), Extent::new(32, 5008, 8)]
        );
        assert!(within(&extents, &(1 << 20..u64::MAX)).is_empty());
    }

    #[test]
    fn ids_of_parts_are_no_inode_numbers() {
        let all: Vec<u64> = ids(131, 2).collect();
        assert_eq!(all, [131 | (1 << 56), 131 | (2 << 56)]);
    }

    /// The sectors of the file that lie somewhere, each with its place.
    fn sectors(extents: &[Extent]) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = extents
            .iter()
            .flat_map(|e| (0..e.length).map(move |n| (e.offset + n, e.start + n)))
            .collect();
        all.sort_unstable();
        all
    }

    proptest! {
        /// The rest and the parts are the whole, and a sector is where it was.
        #[test]
        fn nothing_is_lost(lengths in prop::collection::vec((0..4u64, 1..9u64), 1..6), cuts in prop::collection::btree_set(0..30u64, 0..6)) {
            let mut offset = 0;
            let extents: Vec<Extent> = lengths.iter().enumerate().map(|(n, (hole, length))| {
                let e = Extent::new(offset + hole * 8, 10_000 * (n as u64 + 1), length * 8);
                offset = e.offset + e.length;
                e
            }).collect();
            let cuts: Vec<u64> = cuts.into_iter().map(|c| c * 4096).collect();
            let ranges: Vec<Range<u64>> = cuts.chunks_exact(2).map(|c| c[0]..c[1]).collect();
            let mut all = rest(&extents, ranges.iter());
            for r in &ranges {
                all.extend(within(&extents, r));
            }
            prop_assert_eq!(sectors(&all), sectors(&extents));
        }
    }
}

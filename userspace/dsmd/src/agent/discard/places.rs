// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the bytes of a file lie.

use std::ops::Range;

use database::wiredtiger::varint::{put, Numbers};
use dm::table::Extent;

/// The parts of pieces that have bytes of these ranges.  All are sorted by their bytes.
pub(super) fn of_ranges(pieces: &[Extent], ranges: &[Range<u64>], emit: &mut dyn FnMut(Extent)) {
    for r in ranges {
        let first = pieces.partition_point(|p| p.bytes().end <= r.start);
        for p in pieces[first..].iter().take_while(|p| p.bytes().start < r.end) {
            let bytes = p.bytes();
            emit(p.part(bytes.start.max(r.start)..bytes.end.min(r.end)));
        }
    }
}

/// All pieces of a file, in little memory: the gap before each, its length, and how far its
/// base is from that of the one before, which is most often 0.
#[derive(Debug, Default)]
pub(super) struct Places(Box<[u8]>);

impl Places {
    pub(super) fn of(pieces: &[Extent]) -> Self {
        let mut numbers = Vec::new();
        let (mut end, mut base) = (0, 0);
        for p in pieces {
            put(&mut numbers, p.offset - end);
            put(&mut numbers, p.length);
            put(&mut numbers, p.base().wrapping_sub(base));
            (end, base) = (p.offset + p.length, p.base());
        }
        Self(numbers.into())
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = Extent> + '_ {
        let mut numbers = Numbers::of(&self.0);
        let (mut end, mut base) = (0, 0_u64);
        std::iter::from_fn(move || {
            let (gap, length, moved) = (numbers.next()?, numbers.next()?, numbers.next()?);
            let offset = end + gap;
            base = base.wrapping_add(moved);
            end = offset + length;
            Some(Extent::new(offset, base.wrapping_add(offset), length))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm::table::SectorRange;
    use proptest::prelude::*;

    /// Of pages: offset, place, length.
    fn piece((offset, start, length): (u64, u64, u64)) -> Extent {
        Extent::new(offset * 8, start * 8, length * 8)
    }

    fn pieces(all: &[(u64, u64, u64)]) -> Vec<Extent> {
        all.iter().copied().map(piece).collect()
    }

    #[test]
    fn parts_of_pieces() {
        let all = pieces(&[(0, 100, 10), (10, 50, 10), (30, 10, 2)]);
        let mut found = Vec::new();
        let ranges = [2, 12, 18, 40].map(|n| n * 4096);
        of_ranges(&all, &[ranges[0]..ranges[1], ranges[2]..ranges[3]], &mut |p| {
            found.push(p)
        });
        assert_eq!(
            found,
            pieces(&[(2, 102, 8), (10, 50, 2), (18, 58, 2), (30, 10, 2)])
        );
        let at = |start: u64, length: u64| SectorRange {
            start: start * 8,
            length: length * 8,
        };
        assert_eq!(all[1].within(&at(40, 12)), Some(piece((10, 50, 2))));
        assert_eq!(all[1].within(&at(55, 99)), Some(piece((15, 55, 5))));
        assert_eq!(all[1].within(&at(60, 9)), None);
    }

    proptest! {
        #[test]
        fn they_stay_as_they_are(steps in proptest::collection::vec((0..9u64, 1..1u64 << 30, 0..1u64 << 40), 0..50)) {
            let mut at = 0;
            let all: Vec<Extent> = steps.into_iter().map(|(gap, length, start)| {
                let offset = at + gap;
                at = offset + length;
                piece((offset, start, length))
            }).collect();
            let places = Places::of(&all);
            prop_assert_eq!(places.pieces().collect::<Vec<_>>(), all);
        }
    }
}

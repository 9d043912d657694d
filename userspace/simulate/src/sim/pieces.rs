// SPDX-License-Identifier: GPL-2.0-or-later
//! In which pieces the target discards: of a file, which stands for the drive. The lengths
//! are `dm-dsm/policies/granule.c`'s.

use std::ops::Range;

use policies::granule::Granule;

use crate::flash::PAGE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces(Granule);

impl Pieces {
    /// On a drive that wants this, in bytes.
    pub fn new(granularity: u64, alignment: u64) -> Self {
        let pages = |bytes: u64| {
            let bytes = bytes.max(PAGE).next_multiple_of(PAGE);
            u32::try_from(bytes).unwrap_or(1 << 31)
        };
        Self(Granule::new(pages(PAGE), pages(granularity), pages(alignment)))
    }

    /// The pieces of a run of pages.
    pub fn of(&self, run: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (unit, cut) = (self.0.unit(), self.0.cut(run.start * SECTORS..run.end * SECTORS));
        let piece = move |at| at / SECTORS..(at + unit) / SECTORS;
        cut.step_by(unit as usize).map(piece)
    }
}

const SECTORS: u64 = PAGE / 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut() {
        let all = |granularity: u64, alignment: u64, run| {
            let pieces = Pieces::new(granularity << 10, alignment << 10).of(&run);
            pieces.map(|p| (p.start, p.end)).collect::<Vec<_>>()
        };
        assert_eq!(all(4, 4, 3..5), [(3, 4), (4, 5)]);
        assert_eq!(all(8, 8, 3..7), [(4, 6)]);
        assert_eq!(all(128, 128, 3..100), [(32, 64), (64, 96)]);
        assert_eq!(all(128, 128, 3..64), [(32, 64)]);
        assert_eq!(all(128, 128, 40..90), []);
        assert_eq!(all(128, 4, 3..100), [(3, 35), (35, 67), (67, 99)]);
        // An alignment that is greater counts for both.
        assert_eq!(all(4, 64, 3..40), [(16, 32)]);
    }
}

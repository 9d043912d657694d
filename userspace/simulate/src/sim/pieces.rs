// SPDX-License-Identifier: GPL-2.0-or-later
//! In which pieces the target discards: of a file, which stands for the drive. The lengths
//! are `dm-dsm/policies/granule.c`'s; what is owed, `dm-dsm/dead.c` has.

use std::ops::Range;

use policies::granule::Granule;

use crate::flash::PAGE;

/// What becomes of pages that may be discarded, and are too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// They are dropped.
    Never,
    /// They are discarded with what is around them, unless they were written.
    UntilWritten,
    /// The same, also when they were written: this loses data.
    ForEver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    granule: Granule,
    pub owed: Owed,
}

impl Pieces {
    /// As the target discards on a drive that wants this, in bytes.
    pub fn of(granularity: u64, alignment: u64) -> Self {
        let owed = if granularity.max(alignment) > PAGE {
            Owed::UntilWritten
        } else {
            Owed::Never
        };
        Self::new(granularity, alignment, owed)
    }

    pub fn new(granularity: u64, alignment: u64, owed: Owed) -> Self {
        let pages = |bytes: u64| {
            let bytes = bytes.max(PAGE).next_multiple_of(PAGE);
            u32::try_from(bytes).unwrap_or(1 << 31)
        };
        Self {
            granule: Granule::new(pages(PAGE), pages(granularity), pages(alignment)),
            owed,
        }
    }

    /// How many pages beside a run may be discarded with it, at each end.
    pub fn reach(&self) -> u64 {
        self.granule.unit() / SECTORS
    }

    /// What is sent of a run of pages.
    pub fn cut(&self, run: &Range<u64>) -> Option<Range<u64>> {
        pages(&self.granule.cut(sectors(run)))
    }

    /// What is sent of a run, all around which may be discarded as well.
    pub(crate) fn cover(&self, run: &Range<u64>, around: &Range<u64>) -> Option<Range<u64>> {
        pages(&self.granule.cover(sectors(run), sectors(around)))
    }
}

const SECTORS: u64 = PAGE / 512;

fn sectors(pages: &Range<u64>) -> Range<u64> {
    pages.start * SECTORS..pages.end * SECTORS
}

fn pages(sectors: &Range<u64>) -> Option<Range<u64>> {
    let pages = sectors.start / SECTORS..sectors.end / SECTORS;
    (!pages.is_empty()).then_some(pages)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)]
    use super::*;

    #[test]
    fn what_is_cut() {
        let p = Pieces::of(4096, 4096);
        assert_eq!(p.owed, Owed::Never);
        assert_eq!(p.cut(&(3..8)), Some(3..8));
        assert_eq!(p.cut(&(3..4)), Some(3..4), "a page");
        let p = Pieces::of(8192, 8192);
        assert_eq!((p.owed, p.reach()), (Owed::UntilWritten, 2));
        assert_eq!(p.cut(&(3..6)), Some(4..6));
        let p = Pieces::of(128 << 10, 128 << 10);
        assert_eq!((p.owed, p.reach()), (Owed::UntilWritten, 32));
        assert_eq!(p.cut(&(3..100)), Some(32..96));
        assert_eq!(p.cut(&(3..64)), Some(32..64));
        assert_eq!(p.cut(&(40..90)), None);
        let p = Pieces::of(128 << 10, 4096);
        assert_eq!(p.cut(&(3..100)), Some(3..99));
        // An alignment that is greater counts for both.
        assert_eq!(Pieces::of(4096, 64 << 10).cut(&(3..40)), Some(16..32));
    }

    #[test]
    fn what_is_covered() {
        let p = Pieces::of(128 << 10, 128 << 10);
        assert_eq!(p.cover(&(40..41), &(32..64)), Some(32..64));
        assert_eq!(p.cover(&(40..41), &(33..64)), None);
        assert_eq!(p.cover(&(40..65), &(0..127)), Some(32..96));
        assert_eq!(p.cover(&(40..65), &(0..95)), Some(32..64));
        assert_eq!(p.cover(&(70..80), &(0..95)), None);
        let p = Pieces::of(128 << 10, 4096);
        assert_eq!(p.cover(&(40..41), &(9..64)), Some(32..64), "it begins earlier");
        assert_eq!(p.cover(&(40..41), &(33..64)), None);
        assert_eq!(p.cover(&(40..41), &(33..66)), Some(34..66));
        assert_eq!(p.cover(&(40..41), &(0..100)), Some(40..72));
    }
}

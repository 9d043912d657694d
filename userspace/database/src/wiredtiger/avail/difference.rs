// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists of free blocks, and what one has that another has not.

use std::ops::Range;

/// What a checkpoint lists as free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeList {
    /// Inode number and birth time of the file it was read from: a file that has the
    /// same name later is another.
    pub file: (u64, i128),
    /// Bytes in the file at the checkpoint.
    pub file_size: u64,
    /// Bytes; sorted, disjoint, not empty, and without the list's own block.
    pub extents: Vec<Range<u64>>,
}

impl FreeList {
    /// Bytes on the list.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|e| e.end - e.start).sum()
    }
}

/// What `new` lists and `old` did not, below the size that the file had in `old`: the
/// blocks that the older checkpoint used and the newer one has freed.
pub fn difference(new: &FreeList, old: &FreeList) -> Vec<Range<u64>> {
    without(&new.extents, &old.extents, old.file_size)
}

/// What sorted ranges have below `below` and others have not.
pub fn without(these: &[Range<u64>], others: &[Range<u64>], below: u64) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    let mut others = others.iter().peekable();
    for range in these {
        let mut at = range.start;
        let end = range.end.min(below);
        while at < end {
            while others.next_if(|o| o.end <= at).is_some() {}
            let next = others.peek().map_or(end, |o| o.start.min(end));
            if next > at {
                left.push(at..next);
            }
            at = others.peek().map_or(end, |o| o.end).max(next);
        }
    }
    left
}

#[cfg(test)]
// A list of one range is meant.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(file_size: u64, extents: &[Range<u64>]) -> FreeList {
        FreeList {
            file_size,
            extents: extents.to_vec(),
            ..FreeList::default()
        }
    }

    #[test]
    fn freed_is_what_was_in_use_before() {
        let old = list(100, &[10..20, 30..40, 90..100]);
        for (new, freed) in [
            (vec![], vec![]),
            (vec![10..20, 30..40, 90..100], vec![]),
            (vec![5..45], vec![5..10, 20..30, 40..45]),
            (vec![12..18, 32..60], vec![40..60]),
            (vec![0..15, 18..35], vec![0..10, 20..30]),
            // What has been added since is nothing that the older one used.
            (vec![80..120, 130..140], vec![80..90]),
            (vec![100..120], vec![]),
        ] {
            assert_eq!(difference(&list(200, &new), &old), freed, "{new:?}");
        }
        assert_eq!(difference(&list(200, &[0..200]), &list(64, &[])), [0..64]);
        assert_eq!(difference(&list(200, &[0..200]), &list(0, &[])), []);
    }

    prop_compose! {
        fn any_list()(size in 0..80u64, free in proptest::collection::vec(any::<bool>(), 80)) -> FreeList {
            let mut extents: Vec<Range<u64>> = Vec::new();
            for at in (0..size).filter(|&at| free[at as usize]) {
                match extents.last_mut() {
                    Some(last) if last.end == at => last.end += 1,
                    _ => extents.push(at..at + 1),
                }
            }
            list(size, &extents)
        }
    }

    proptest! {
        #[test]
        fn each_block_is_asked_for_by_itself(new in any_list(), old in any_list()) {
            let freed = difference(&new, &old);
            prop_assert!(freed.iter().all(|r| r.start < r.end));
            prop_assert!(freed.windows(2).all(|w| w[0].end <= w[1].start));
            let has = |l: &[Range<u64>], at| l.iter().any(|r| r.contains(&at));
            for at in 0..100 {
                let right = has(&new.extents, at) && !has(&old.extents, at) && at < old.file_size;
                prop_assert_eq!(has(&freed, at), right, "{}", at);
            }
        }
    }
}

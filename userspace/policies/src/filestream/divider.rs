// SPDX-License-Identifier: GPL-2.0-or-later
//! How many streams the mapper has (Eq. 4).

use super::File;

/// Who has the streams.  The paper's Fig. 6 compares these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modules {
    /// All are the mapper's, and no file is grouped.
    Mapper,
    /// All are the remapper's: a file has none until it is grouped.
    Remapper,
    /// Half of them each, always.
    Halves,
    #[default]
    All,
}

/// There is at least one stream for each of the two.
pub fn clamp(d: u8, streams: u8) -> u8 {
    d.clamp(1, streams.max(2) - 1)
}

/// Modifications are those of the last period.
pub(crate) fn streams_of_mapper<'a>(files: impl Iterator<Item = &'a File>, streams: u8) -> u8 {
    let (mut number, mut modifications) = ([0u64; 2], [0u64; 2]);
    for f in files {
        number[usize::from(f.remapped)] += 1;
        modifications[usize::from(f.remapped)] += f.recent;
    }
    let share = |of: [u64; 2]| match of[0] + of[1] {
        0 => 0.0,
        all => of[0] as f64 / all as f64,
    };
    let proportion = (share(number) + share(modifications)) / 2.0;
    clamp((f64::from(streams) * proportion + 0.5).floor() as u8, streams)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filestream::Type;
    use proptest::prelude::*;
    use std::path::Path;

    fn file(remapped: bool, recent: u64) -> File {
        File {
            kind: Type::of(Path::new("a.wt")),
            size: 1,
            opened: 0.0,
            created: 0.0,
            modifications: recent,
            recent,
            stream: 1,
            remapped,
            closed: false,
            idle: 0,
        }
    }

    #[test]
    fn the_proportion_of_files_and_of_modifications() {
        let d = |files: &[File]| streams_of_mapper(files.iter(), 8);
        // (1/2 + 30/40) / 2 = 5/8
        assert_eq!(d(&[file(false, 30), file(true, 10)]), 5);
        // (2/4 + 0) / 2 = 1/4
        assert_eq!(
            d(&[file(false, 0), file(false, 0), file(true, 5), file(true, 5)]),
            2
        );
        assert_eq!(d(&[file(false, 9)]), 7);
        assert_eq!(d(&[file(true, 9)]), 1);
        assert_eq!(d(&[]), 1);
    }

    proptest! {
        /// floor(N (a/A + b/B) / 2 + 1/2) in whole numbers.
        #[test]
        fn rounding_is_that_of_eq_4(files in prop::collection::vec((any::<bool>(), 0..1000u64), 1..20), streams in 2..=255u8) {
            let of = |remapped: bool| files.iter().filter(move |f| f.0 == remapped);
            let sums = |remapped| (of(remapped).count() as u64, of(remapped).map(|f| f.1).sum::<u64>());
            let ((fm, mm), (fr, mr)) = (sums(false), sums(true));
            // No modifications count as none of the mapper's.
            let (all_files, all) = (fm + fr, (mm + mr).max(1));
            let (n, over) = (u64::from(streams), 2 * all_files * all);
            let exact = n * (fm * all + mm * all_files) + all_files * all;
            let d = streams_of_mapper(
                files.iter().map(|f| file(f.0, f.1)).collect::<Vec<_>>().iter(),
                streams,
            );
            // On a tie the floating point may fall on either side.
            if exact % over != 0 {
                prop_assert_eq!(u64::from(d), (exact / over).clamp(1, n - 1));
            }
        }
    }
}

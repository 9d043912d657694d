// SPDX-License-Identifier: GPL-2.0-only
//! How many streams the mapper has (Eq. 4).

use super::File;

/// There is at least one stream for each of the two.
pub fn clamp(d: u8, streams: u8) -> u8 {
    d.clamp(1, streams.max(2) - 1)
}

/// Modifications are those of the last period.
pub fn streams_of_mapper<'a>(files: impl Iterator<Item = &'a File>, streams: u8) -> u8 {
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
}

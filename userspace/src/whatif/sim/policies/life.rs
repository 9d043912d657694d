// SPDX-License-Identifier: GPL-2.0-or-later
//! Files of a like life together: all files of the device, whatever their type and without
//! a boundary.  A file's life is how many windows it takes to write as much as it holds.

use std::collections::HashMap;

use super::{Policy, Stream};
use crate::kernel::class::Class;
use crate::whatif::flash::PAGE;
use crate::whatif::sim::files::Files;
use crate::whatif::trace::FileNo;

/// What a file was written before its life is its own; until then it is the mean.
const KNOWN: f64 = 64.0;
/// What remains of the count of a window in the next one.
const DECAY: f64 = 7.0 / 8.0;
/// A life is known to so many steps between the shortest and the longest.
const BINS: usize = 96;

/// Streams of all that is not data, and the first of data.
struct Layout {
    other: Stream,
    journal: Stream,
    first: Stream,
    groups: u8,
}

impl Layout {
    fn new(streams: u8, groups: u8) -> Self {
        let (journal, first) = match streams {
            0..=4 => (1, 2),
            _ => (2, 3),
        };
        Self {
            other: 1,
            journal,
            first: first.min(streams.max(1)),
            groups: groups.min((streams + 1).saturating_sub(first)).max(1),
        }
    }
}

pub struct Life {
    layout: Layout,
    /// Pages written to files of data, of this window and with less and less weight of
    /// those before.
    written: HashMap<FileNo, f64>,
    group: HashMap<FileNo, u8>,
    /// Of files whose life is not known.
    mean: u8,
}

impl Life {
    pub fn new(streams: u8, groups: u8) -> Self {
        Self {
            layout: Layout::new(streams, groups),
            written: HashMap::new(),
            group: HashMap::new(),
            mean: 0,
        }
    }
}

impl Policy for Life {
    fn deleted(&mut self, _files: &Files, file: FileNo, _us: u64) {
        self.written.remove(&file);
        self.group.remove(&file);
    }

    fn place(&mut self, files: &Files, file: FileNo, _page: u32) -> Stream {
        match files.get(file).class {
            Class::Journal => self.layout.journal,
            Class::Other => self.layout.other,
            _ => {
                *self.written.entry(file).or_default() += 1.0;
                self.layout.first + self.group.get(&file).unwrap_or(&self.mean)
            }
        }
    }

    fn checkpoint(&mut self, files: &Files, _us: u64) {
        let mut known: Vec<(FileNo, f64, f64)> = self
            .written
            .iter()
            .filter(|(_, written)| **written >= KNOWN)
            .map(|(file, written)| {
                let pages = files.get(*file).size.div_ceil(PAGE).max(1) as f64;
                (*file, (pages / written).log2(), *written)
            })
            .collect();
        known.sort_by_key(|(file, ..)| *file);
        let points: Vec<(f64, f64)> = known.iter().map(|(_, life, weight)| (*life, *weight)).collect();
        let groups = Groups::new(&points, usize::from(self.layout.groups));
        self.group = known
            .iter()
            .map(|(file, life, _)| (*file, groups.of(*life)))
            .collect();
        let weight: f64 = points.iter().map(|(_, w)| w).sum();
        if weight > 0.0 {
            let mean = points.iter().map(|(x, w)| x * w).sum::<f64>() / weight;
            self.mean = groups.of(mean);
        }
        self.written.values_mut().for_each(|w| *w *= DECAY);
    }
}

/// Values in at most so many groups of neighbours, which have the least sum of squares of
/// the distances to their means.
struct Groups {
    low: f64,
    step: f64,
    /// The group of each bin.
    of: [u8; BINS],
}

impl Groups {
    /// `points`: values and their weights.
    fn new(points: &[(f64, f64)], most: usize) -> Self {
        let low = points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
        let step = (high - low) / BINS as f64;
        let mut groups = Self {
            low,
            step,
            of: [0; BINS],
        };
        if points.is_empty() || step <= 0.0 {
            return groups;
        }

        // Sums of weight, value and square of the bins below each.
        let mut bins = [[0.0; 3]; BINS];
        for (value, weight) in points {
            let bin = &mut bins[groups.bin(*value)];
            *bin = [
                bin[0] + weight,
                bin[1] + weight * value,
                bin[2] + weight * value * value,
            ];
        }
        let mut sums = [[0.0; 3]; BINS + 1];
        for (n, bin) in bins.iter().enumerate() {
            sums[n + 1] = [0, 1, 2].map(|i| sums[n][i] + bin[i]);
        }
        let cost = |from: usize, to: usize| {
            let [w, x, xx] = [0, 1, 2].map(|i| sums[to][i] - sums[from][i]);
            if w > 0.0 {
                xx - x * x / w
            } else {
                0.0
            }
        };

        // The best cost of the bins below each with so many groups, and where the last begins.
        let mut best = vec![[0.0; BINS + 1]; most + 1];
        let mut begin = vec![[0; BINS + 1]; most + 1];
        best[0] = [f64::INFINITY; BINS + 1];
        best[0][0] = 0.0;
        for k in 1..=most {
            for to in 0..=BINS {
                let (from, least) = (0..=to)
                    .map(|from| (from, best[k - 1][from] + cost(from, to)))
                    .min_by(|a, b| a.1.total_cmp(&b.1))
                    .expect("there is the range from 0");
                begin[k][to] = from;
                best[k][to] = least;
            }
        }
        let mut to = BINS;
        for k in (1..=most).rev() {
            let from = begin[k][to];
            groups.of[from..to].fill(k as u8 - 1);
            to = from;
        }
        groups
    }

    fn bin(&self, value: f64) -> usize {
        (((value - self.low) / self.step) as usize).min(BINS - 1)
    }

    fn of(&self, value: f64) -> u8 {
        if self.step > 0.0 {
            self.of[self.bin(value)]
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbpath::rules::Rules;

    #[test]
    fn neighbours_are_together() {
        let points = [(0.0, 1.0), (0.2, 5.0), (4.0, 1.0), (4.1, 9.0), (9.0, 2.0)];
        let groups = Groups::new(&points, 3);
        assert_eq!(points.map(|p| groups.of(p.0)), [0, 0, 1, 1, 2]);
    }

    /// Three groups of four values: the two that cost least together.
    #[test]
    fn weights_count() {
        let of = |weights: [f64; 4]| {
            let points: Vec<_> = [0.0, 1.0, 5.0, 6.0].into_iter().zip(weights).collect();
            let groups = Groups::new(&points, 3);
            points.iter().map(|p| groups.of(p.0)).collect::<Vec<_>>()
        };
        assert_eq!(of([1.0, 1.0, 50.0, 50.0]), [0, 0, 1, 2]);
        assert_eq!(of([50.0, 50.0, 1.0, 1.0]), [0, 1, 2, 2]);
    }

    #[test]
    fn equal_values_and_none_are_one_group() {
        assert_eq!(Groups::new(&[], 5).of(1.0), 0);
        assert_eq!(Groups::new(&[(2.0, 1.0), (2.0, 3.0)], 5).of(2.0), 0);
    }

    /// A large file that is written seldom, and a small one that is written as much, are
    /// apart; one that is hardly known is with the mean, and journal and catalog alone.
    #[test]
    fn files_of_a_like_life() {
        let mut files = Files::new(&[], &Rules::default());
        let names = [
            "collection-0-1.wt",
            "index-1-1.wt",
            "collection-2-1.wt",
            "journal/WiredTigerLog.01",
            "WiredTiger.wt",
        ];
        for (file, name) in (0..).zip(names) {
            files.set_name(file, name);
        }
        let mut life = Life::new(8, 5);
        let write = |life: &mut Life, files: &Files, file, pages: u32| {
            (0..pages).map(|p| life.place(files, file, p)).last()
        };
        for (file, pages) in [(0, 1 << 20), (1, 1 << 10), (2, 1 << 20)] {
            files.grow(file, pages * PAGE);
        }
        let first = [0, 1, 2, 3, 4]
            .map(|file| write(&mut life, &files, file, [500, 500, 63, 9, 9][file as usize]).unwrap());
        assert_eq!(first, [3, 3, 3, 2, 1], "nothing is known");
        life.checkpoint(&files, 1);
        let second = [0, 1, 2, 3, 4].map(|file| write(&mut life, &files, file, 1).unwrap());
        assert_eq!(second[3..], [2, 1]);
        assert!(
            second[0] > second[1],
            "the longest life has the last group: {second:?}"
        );
        assert!((second[1]..=second[0]).contains(&second[2]), "{second:?}");
        // What was written before counts for seven eighths: 63 and 8 are less than 64.
        write(&mut life, &files, 2, 7);
        life.checkpoint(&files, 2);
        assert!(!life.group.contains_key(&2));
        write(&mut life, &files, 2, 9);
        life.checkpoint(&files, 3);
        assert!(life.group.contains_key(&2));
        life.deleted(&files, 0, 4);
        assert!(life.written.len() == 2 && !life.group.contains_key(&0));
    }

    #[test]
    fn streams_are_enough() {
        for streams in 1..=8 {
            let l = Layout::new(streams, 5);
            assert!(l.first + l.groups - 1 <= streams.max(1), "{streams}");
        }
        assert_eq!(Layout::new(8, 5).groups, 5);
        assert_eq!(Layout::new(4, 5).groups, 3);
    }
}

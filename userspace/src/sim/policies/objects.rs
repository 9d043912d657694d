// SPDX-License-Identifier: GPL-2.0-only
//! A stream per object (Choi, Park, Lee: Don't mix pages with different lifetimes
//! in one stream, EDBT '18).  WiredTiger keeps each of its objects, a collection
//! or an index, in a file of its own.  The paper measures average update intervals
//! in a run before; this takes them from the trace itself, so that it knows more
//! than a user does.
//!
//! The paper's guidelines for fewer streams than objects: group what has similar
//! lifetimes, keep the extremely hot apart, do not spend a stream on what is
//! hardly written.  So the objects, in the order of their intervals, are cut into
//! as many groups as there are streams, such that the squared differences of the
//! logarithms, weighted by pages written, are least.

use super::{Policy, Stream};
use crate::sim::files::Files;
use crate::sim::profile::Profile;
use crate::trace::FileNo;

/// What has a smaller share of all writes gets no stream for itself.
const LEAST_SHARE: f64 = 0.01;

pub struct PerObject {
    of: Vec<Stream>,
}

struct Object {
    file: usize,
    lg: f64,
    weight: f64,
}

impl PerObject {
    pub fn new(streams: u8, profile: &Profile) -> Self {
        let total: f64 = profile.run_writes as f64;
        let mut objects: Vec<Object> = profile
            .files
            .iter()
            .enumerate()
            .filter(|(_, f)| f.writes > 0)
            .map(|(file, f)| Object {
                file,
                // What was never written again lives as long as the run.
                lg: f.interval().unwrap_or(total).max(1.0).log2(),
                weight: f.writes as f64,
            })
            .collect();
        objects.sort_by(|a, b| a.lg.total_cmp(&b.lg));
        let (large, small): (Vec<Object>, Vec<Object>) =
            objects.into_iter().partition(|o| o.weight / total >= LEAST_SHARE);
        let mut of = vec![streams; profile.files.len()];
        let groups = partition(&large, usize::from(streams));
        for (o, group) in large.iter().zip(&groups) {
            of[o.file] = *group as Stream + 1;
        }
        for o in &small {
            let nearest = large
                .iter()
                .min_by(|a, b| (a.lg - o.lg).abs().total_cmp(&(b.lg - o.lg).abs()));
            if let Some(near) = nearest {
                of[o.file] = of[near.file];
            }
        }
        Self { of }
    }
}

impl Policy for PerObject {
    fn place(&mut self, _files: &Files, file: FileNo, _page: u32) -> Stream {
        self.of.get(file as usize).copied().unwrap_or(1)
    }
}

/// The best cut of sorted values into at most `groups` runs: for each value the
/// number of its group.  Dynamic programming.
fn partition(objects: &[Object], groups: usize) -> Vec<usize> {
    let n = objects.len();
    if n == 0 {
        return Vec::new();
    }
    let groups = groups.clamp(1, n);
    // Sums of weight, weight * value and weight * value^2 up to an object.
    let mut sums = vec![(0.0, 0.0, 0.0)];
    for o in objects {
        let (w, s, q) = sums[sums.len() - 1];
        sums.push((w + o.weight, s + o.weight * o.lg, q + o.weight * o.lg * o.lg));
    }
    let cost = |from: usize, to: usize| {
        let w = sums[to].0 - sums[from].0;
        let s = sums[to].1 - sums[from].1;
        let q = sums[to].2 - sums[from].2;
        (q - s * s / w).max(0.0)
    };
    let mut best = vec![vec![(f64::INFINITY, 0); n + 1]; groups + 1];
    best[0][0] = (0.0, 0);
    for g in 1..=groups {
        for to in 1..=n {
            for from in 0..to {
                let total = best[g - 1][from].0 + cost(from, to);
                if total < best[g][to].0 {
                    best[g][to] = (total, from);
                }
            }
        }
    }
    let mut of = vec![0; n];
    let mut to = n;
    for g in (1..=groups).rev() {
        let from = best[g][to].1;
        of[from..to].fill(g - 1);
        to = from;
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_lifetimes_share() {
        let objects: Vec<Object> = [1.0, 1.2, 9.0, 9.5, 20.0]
            .into_iter()
            .enumerate()
            .map(|(file, lg)| Object {
                file,
                lg,
                weight: 1.0,
            })
            .collect();
        assert_eq!(partition(&objects, 3), [0, 0, 1, 1, 2]);
        assert_eq!(partition(&objects, 1), [0; 5]);
        assert_eq!(partition(&objects, 9), [0, 1, 2, 3, 4]);
        assert!(partition(&[], 3).is_empty());
    }
}

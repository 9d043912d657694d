// SPDX-License-Identifier: GPL-2.0-or-later
//! Groups of files that stay open, by USM: modifications in a period divided by
//! the size of the file.

use super::{kmeans, File};

/// Unit-size modifications of the current period.
pub(crate) fn usm(f: &File) -> f64 {
    f.recent as f64 / f.size.max(1) as f64
}

#[derive(Debug)]
pub struct Remapper {
    random: fastrand::Rng,
    /// Ascending.
    centers: Vec<f64>,
    /// The number of clusters that was asked for.
    k: u8,
}

impl Remapper {
    pub fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            centers: Vec::new(),
            k: 0,
        }
    }

    /// The cluster of a value, from 1 on.
    pub(crate) fn nearest(&self, usm: f64) -> Option<u8> {
        kmeans::nearest(&self.centers, usm).map(|n| n as u8 + 1)
    }

    /// Gives the files the streams `d` + 1 to `d` + `k`, by ascending USM.  While
    /// every file is nearest to the center that it was in, and k is the same, the
    /// centers only follow.  Whether k-means was run.
    pub(crate) fn regroup(&mut self, files: &mut [&mut File], k: u8, d: u8) -> bool {
        let values: Vec<f64> = files.iter().map(|f| usm(f)).collect();
        let stays = k == self.k
            && files.iter().zip(&values).all(|(f, v)| {
                let now = self.nearest(*v).map(|n| d + n);
                now == Some(f.stream)
            });
        if !stays {
            self.centers = kmeans::cluster(&values, usize::from(k), &mut self.random);
            self.k = k;
        }
        for (f, v) in files.iter_mut().zip(&values) {
            if let Some(n) = self.nearest(*v) {
                f.stream = d + n;
            }
        }
        self.follow(files, &values, d);
        !stays
    }

    /// Centers become the means of their files.
    fn follow(&mut self, files: &[&mut File], values: &[f64], d: u8) {
        for (n, center) in self.centers.iter_mut().enumerate() {
            let mine = || {
                files
                    .iter()
                    .zip(values)
                    .filter(|(f, _)| f.stream == d + n as u8 + 1)
            };
            let count = mine().count();
            if count > 0 {
                *center = mine().map(|(_, v)| v).sum::<f64>() / count as f64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filestream::Type;
    use proptest::prelude::*;
    use std::path::Path;

    fn files(recent: &[u64]) -> Vec<File> {
        let kind = Type::of(Path::new("a.wt"));
        let file = |&recent: &u64| File {
            kind: kind.clone(),
            size: 100,
            opened: 0.0,
            created: 0.0,
            modifications: recent,
            recent,
            stream: 0,
            remapped: true,
            closed: false,
            idle: 0,
        };
        recent.iter().map(file).collect()
    }

    fn regroup(r: &mut Remapper, files: &mut [File], k: u8, d: u8) -> (bool, Vec<u8>) {
        let clustered = r.regroup(&mut files.iter_mut().collect::<Vec<_>>(), k, d);
        (clustered, files.iter().map(|f| f.stream).collect())
    }

    #[test]
    fn stable_files_are_not_clustered_again() {
        let mut r = Remapper::new(1);
        let mut f = files(&[1, 100, 2, 110, 1000]);
        assert_eq!(regroup(&mut r, &mut f, 3, 1), (true, vec![2, 3, 2, 3, 4]));
        f[1].recent = 120;
        assert_eq!(regroup(&mut r, &mut f, 3, 1), (false, vec![2, 3, 2, 3, 4]));
        f[0].recent = 1000;
        assert!(regroup(&mut r, &mut f, 3, 1).0);
        assert_eq!(f[0].stream, f[4].stream);
        // Another number of streams for the remapper.
        assert!(regroup(&mut r, &mut f, 2, 2).0);
        assert!(f.iter().all(|f| (3..=4).contains(&f.stream)));
    }

    #[test]
    fn fewer_files_than_streams() {
        let mut r = Remapper::new(1);
        assert_eq!(regroup(&mut r, &mut files(&[5]), 7, 1).1, [2]);
        assert!(regroup(&mut r, &mut [], 7, 1).1.is_empty());
    }

    proptest! {
        /// What k-means promises: every file is in the cluster whose mean is nearest
        /// to it, busier files have streams as great or greater, and no stream is
        /// wasted on equal files.
        #[test]
        fn clusters_are_those_of_k_means(recent in prop::collection::vec(0..500u64, 1..40), k in 1..8u8, seed in any::<u64>()) {
            let mut f = files(&recent);
            let streams = regroup(&mut Remapper::new(seed), &mut f, k, 3).1;
            let members = |s: u8| f.iter().filter(move |f| f.stream == s).map(usm).collect::<Vec<_>>();
            let mut means = Vec::new();
            for s in 4..4 + k {
                let of = members(s);
                if !of.is_empty() {
                    means.push((s, of.iter().sum::<f64>() / of.len() as f64));
                }
            }
            prop_assert!(streams.iter().all(|s| (4..4 + k).contains(s)));
            for x in &f {
                let own = means.iter().find(|m| m.0 == x.stream).map(|m| (m.1 - usm(x)).abs());
                let best = means.iter().map(|m| (m.1 - usm(x)).abs()).fold(f64::INFINITY, f64::min);
                prop_assert!(own.is_some_and(|own| own <= best + 1e-12), "{x:?} {means:?}");
                prop_assert!(f.iter().all(|y| usm(x) >= usm(y) || x.stream <= y.stream));
            }
            let distinct = recent.iter().collect::<std::collections::BTreeSet<_>>().len();
            if distinct <= k.into() {
                prop_assert_eq!(means.len(), distinct);
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Many objects, few streams: the guidelines of Choi, Park and Lee (Don't mix pages
//! with different lifetimes in one stream, EDBT '18, sec. 4.2), in this order:
//!
//! - a stream is wasted on what is hardly written: it goes where its like is;
//! - what is updated extremely often has a stream of its own;
//! - the others are folded with their like, and a stream for each is best.
//!
//! Alike are those whose update intervals are: in the order of their intervals, the
//! objects are cut into as many groups as there are streams such that the squared
//! differences of the logarithms, weighted by pages written, are least.

/// What has a smaller share of all writes gets no stream for itself.
const LEAST_SHARE: f64 = 0.01;
/// Extremely often is so many times as often as anything else.
const EXTREME: f64 = 16.0;
/// Many objects are first gathered in classes: so many to a doubling of the interval.
const CLASSES: f64 = 8.0;
/// With fewer, each object is looked at.
const FEW: usize = 256;

/// An object as it was measured.
pub(super) struct Object {
    /// Pages written to all objects from one update of a page to the next, on
    /// average.
    pub(super) interval: f64,
    /// Pages written to this one.
    pub(super) pages: u64,
}

/// Objects that are treated as one.
struct GroupUnit {
    lg: f64,
    pages: f64,
    objects: Vec<usize>,
}

fn lg(o: &Object) -> f64 {
    o.interval.max(1.0).log2()
}

/// The groups for so many streams, the hottest first: indices of their objects.  Those that
/// were not written are in none.
pub(super) fn group(objects: &[Object], streams: u8) -> Vec<Vec<usize>> {
    let units = units(objects);
    let total: f64 = units.iter().map(|u| u.pages).sum();
    let (mut large, small): (Vec<GroupUnit>, Vec<GroupUnit>) =
        units.into_iter().partition(|u| u.pages / total >= LEAST_SHARE);
    for s in small {
        let distance = |u: &&mut GroupUnit| (u.lg - s.lg).abs();
        match large
            .iter_mut()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
        {
            Some(near) => near.objects.extend(s.objects),
            None => large.push(s),
        }
    }
    let is_extreme = match large.as_slice() {
        [hot, next, ..] => streams > 1 && next.lg - hot.lg >= EXTREME.log2(),
        _ => false,
    };
    let first = usize::from(is_extreme);
    let cuts = partition(&large[first..], usize::from(streams.max(1)) - first);
    let mut from = 0;
    let ends = is_extreme.then_some(0).into_iter().chain(cuts);
    ends.map(|end| {
        let to = end + first;
        let units = &large[std::mem::replace(&mut from, to)..to];
        units.iter().flat_map(|u| u.objects.iter().copied()).collect()
    })
    .collect()
}

/// The hottest first.
fn units(objects: &[Object]) -> Vec<GroupUnit> {
    let mut units: Vec<GroupUnit> = objects
        .iter()
        .enumerate()
        .filter(|(_, o)| o.pages > 0)
        .map(|(n, o)| GroupUnit {
            lg: lg(o),
            pages: o.pages as f64,
            objects: vec![n],
        })
        .collect();
    units.sort_by(|a, b| a.lg.total_cmp(&b.lg));
    if units.len() <= FEW {
        return units;
    }
    let mut classes: Vec<GroupUnit> = Vec::new();
    for u in units {
        let class = |lg: f64| (lg * CLASSES).floor();
        match classes.last_mut().filter(|c| class(c.lg) == class(u.lg)) {
            Some(c) => {
                c.lg = (c.lg * c.pages + u.lg * u.pages) / (c.pages + u.pages);
                c.pages += u.pages;
                c.objects.extend(u.objects);
            }
            None => classes.push(u),
        }
    }
    classes
}

/// The best cut of sorted values into at most `groups` runs: where each ends.
/// Dynamic programming.
fn partition(units: &[GroupUnit], groups: usize) -> Vec<usize> {
    let n = units.len();
    if n == 0 {
        return Vec::new();
    }
    let groups = groups.clamp(1, n);
    // Sums of weight, weight * value and weight * value^2 up to a unit.
    let mut sums = vec![(0.0, 0.0, 0.0)];
    for u in units {
        let (w, s, q) = sums[sums.len() - 1];
        sums.push((w + u.pages, s + u.pages * u.lg, q + u.pages * u.lg * u.lg));
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
        for to in g..=n {
            for from in g - 1..to {
                let total = best[g - 1][from].0 + cost(from, to);
                if total < best[g][to].0 {
                    best[g][to] = (total, from);
                }
            }
        }
    }
    let mut ends = vec![n];
    for g in (2..=groups).rev() {
        ends.push(best[g][ends[ends.len() - 1]].1);
    }
    ends.reverse();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Named = (&'static str, f64, u64);

    fn object(&(_, interval, pages): &Named) -> Object {
        Object { interval, pages }
    }

    /// The paper's Table 1: names, intervals, and MB written.
    fn innodb() -> Vec<Named> {
        vec![
            ("DWB", 2.0, 1_330_556),
            ("new_orders", 226_410.0, 88_349),
            ("order_line", 26_425_310.0, 202_777),
            ("customer", 7_741_410.0, 157_006),
            ("orders", 2_861_170.0, 108_706),
            ("stock", 2_873_060.0, 771_190),
        ]
    }

    /// Table 2.
    fn forestdb() -> Vec<Named> {
        vec![
            ("header", 764_571.0, 6069),
            ("index", 848_531.0, 1048),
            ("data", 1_457_589.0, 44_858),
            ("super", 752.0, 6222),
        ]
    }

    fn named(objects: &[Named], streams: u8) -> Vec<String> {
        let all: Vec<Object> = objects.iter().map(object).collect();
        let names = |mut of: Vec<usize>| {
            of.sort_by(|a, b| objects[*a].1.total_cmp(&objects[*b].1));
            let names: Vec<&str> = of.iter().map(|n| objects[*n].0).collect();
            names.join("+")
        };
        group(&all, streams).into_iter().map(names).collect()
    }

    /// What the paper found best (Tables 3 and 4, Fig. 2).
    #[test]
    fn the_combinations_of_the_paper() {
        let o = innodb();
        assert_eq!(named(&o, 1), ["DWB+new_orders+orders+stock+customer+order_line"]);
        assert_eq!(
            named(&o, 2),
            ["DWB", "new_orders+orders+stock+customer+order_line"]
        );
        // (H1, H2, C1, C2, W)
        assert_eq!(
            named(&o, 5),
            ["DWB", "new_orders", "orders+stock", "customer", "order_line"]
        );
        assert_eq!(named(&o, 16).len(), 6);

        let o = forestdb();
        assert_eq!(named(&o, 4), ["super", "header", "index", "data"]);
        assert_eq!(named(&o, 3), ["super", "header+index", "data"]);
        assert_eq!(named(&o, 2), ["super", "header+index+data"]);
    }

    #[test]
    fn what_is_hardly_written_gets_no_stream() {
        let mut o = forestdb();
        o.push(("log", 900.0, 5));
        o.push(("nothing", 1.0, 0));
        assert_eq!(named(&o, 8), ["super+log", "header", "index", "data"]);
        assert!(group(&[], 8).is_empty());
        assert!(named(&o[5..], 8).is_empty());
    }

    /// Ten thousand tables, each with too little for a stream.
    #[test]
    fn many_small_objects_are_not_all_small() {
        let o: Vec<Object> = (0..10_000)
            .map(|n| object(&("t", if n % 2 == 0 { 1000.0 } else { 90_000.0 }, 1 + n % 7)))
            .collect();
        let groups = group(&o, 8);
        assert_eq!(groups.len(), 2);
        assert!(groups[0].iter().all(|n| n % 2 == 0));
        assert_eq!(groups[0].len() + groups[1].len(), o.len());
    }

    /// All cuts into runs, tried one by one.
    fn least_cost(units: &[GroupUnit], groups: usize) -> f64 {
        fn cost(u: &[GroupUnit]) -> f64 {
            let w: f64 = u.iter().map(|u| u.pages).sum();
            let mean = u.iter().map(|u| u.pages * u.lg).sum::<f64>() / w;
            u.iter().map(|u| u.pages * (u.lg - mean).powi(2)).sum()
        }
        let whole = cost(units);
        if groups == 1 {
            return whole;
        }
        (1..units.len())
            .map(|n| cost(&units[..n]) + least_cost(&units[n..], groups - 1))
            .fold(whole, f64::min)
    }

    proptest! {
        #[test]
        fn no_cut_is_better(values in prop::collection::vec((0.0..30.0f64, 1..1000u32), 1..9), groups in 1..5usize) {
            let mut units: Vec<GroupUnit> = values
                .iter()
                .map(|(lg, pages)| GroupUnit { lg: *lg, pages: f64::from(*pages), objects: Vec::new() })
                .collect();
            units.sort_by(|a, b| a.lg.total_cmp(&b.lg));
            let ends = partition(&units, groups);
            let mut from = 0;
            let mut cost = 0.0;
            for &to in &ends {
                cost += least_cost(&units[from..to], 1);
                from = to;
            }
            prop_assert_eq!(from, units.len());
            prop_assert!(ends.len() <= groups);
            let least = least_cost(&units, groups);
            prop_assert!(cost <= least + 1e-6 * (1.0 + least), "{cost} {least}");
        }
    }
}

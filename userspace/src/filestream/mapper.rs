// SPDX-License-Identifier: GPL-2.0-only
//! The stream of a file that is being opened: the one in which it will be mixed
//! with the least data of other lifetimes (Eqs. 1-3).

use std::collections::{BTreeMap, VecDeque};

use super::{File, Type};

/// Files of a type that are remembered.
pub const HISTORY: usize = 16;

#[derive(Debug, Default)]
struct History {
    /// Seconds from opening to closing, and from making to deletion.
    durations: VecDeque<f64>,
    lifetimes: VecDeque<f64>,
}

#[derive(Debug, Default)]
pub struct Mapper {
    types: BTreeMap<Type, History>,
}

impl Mapper {
    pub fn closed(&mut self, kind: Type, duration: f64) {
        remember(&mut self.types.entry(kind).or_default().durations, duration);
    }

    pub fn deleted(&mut self, kind: Type, lifetime: f64) {
        remember(&mut self.types.entry(kind).or_default().lifetimes, lifetime);
    }

    /// One of the streams 1 to `d` for a new file of type `kind`.
    pub fn choose<'a>(
        &self,
        files: impl Iterator<Item = &'a File>,
        kind: &Type,
        d: u8,
        period: f64,
        now: f64,
    ) -> u8 {
        let mut score = vec![0.0; usize::from(d)];
        for f in files.filter(|f| !f.remapped && (1..=d).contains(&f.stream)) {
            score[usize::from(f.stream) - 1] += self.amount(f, period, now) * self.difference(&f.kind, kind);
        }
        // The first of the lowest.
        let best = (0..score.len()).min_by(|a, b| score[*a].total_cmp(&score[*b]));
        best.map_or(1, |n| n as u8 + 1)
    }

    /// Eq. 1: what the file may still write to the stream it has.
    fn amount(&self, f: &File, period: f64, now: f64) -> f64 {
        let open = (now - f.opened).max(0.0);
        let expected = self
            .types
            .get(&f.kind)
            .and_then(|h| mean(&h.durations))
            .unwrap_or(period)
            .min(period);
        // A file opened this moment has no rate yet.
        let rate = f.modifications as f64 / open.max(1e-3);
        rate * (expected - open).max(0.0)
    }

    /// Eq. 2: how much the lifetimes of two types differ, 0 to 1.
    fn difference(&self, a: &Type, b: &Type) -> f64 {
        let lifetimes = |kind| {
            self.types
                .get(kind)
                .map(|h| &h.lifetimes)
                .filter(|l| !l.is_empty())
        };
        let (Some(a), Some(b)) = (lifetimes(a), lifetimes(b)) else {
            return 1.0;
        };
        let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
        let sum: f64 = pairs
            .map(|(x, y)| if x + y > 0.0 { (x - y).abs() / (x + y) } else { 0.0 })
            .sum();
        sum / (a.len() * b.len()) as f64
    }
}

fn remember(list: &mut VecDeque<f64>, value: f64) {
    if list.len() == HISTORY {
        list.pop_front();
    }
    list.push_back(value.max(0.0));
}

fn mean(list: &VecDeque<f64>) -> Option<f64> {
    (!list.is_empty()).then(|| list.iter().sum::<f64>() / list.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn kind(extension: &str) -> Type {
        Type::of(Path::new(&format!("db/x.{extension}")))
    }

    #[test]
    fn the_equations() {
        let mut m = Mapper::default();
        for (extension, lifetime) in [("a", 1.0), ("a", 3.0), ("b", 3.0)] {
            m.deleted(kind(extension), lifetime);
        }
        // (|1-3|/4 + 0) / 2
        assert_eq!(m.difference(&kind("a"), &kind("b")), 0.25);
        assert_eq!(m.difference(&kind("a"), &kind("a")), 0.25);
        assert_eq!(m.difference(&kind("a"), &kind("new")), 1.0);

        let f = File {
            kind: kind("a"),
            size: 0,
            opened: 10.0,
            created: 10.0,
            modifications: 40,
            recent: 40,
            stream: 1,
            remapped: false,
        };
        // 40 in 20 s; without a history the rest of T: 2 * (60 - 20)
        assert_eq!(m.amount(&f, 60.0, 30.0), 80.0);
        m.closed(kind("a"), 25.0);
        assert_eq!(m.amount(&f, 60.0, 30.0), 10.0);
        assert_eq!(m.amount(&f, 60.0, 90.0), 0.0);
        // Stream 1 has 10 * 0.25, stream 2 nothing.
        assert_eq!(m.choose([&f].into_iter(), &kind("b"), 2, 60.0, 30.0), 2);
        assert_eq!(m.choose([&f].into_iter(), &kind("b"), 1, 60.0, 30.0), 1);
        let g = File {
            stream: 2,
            ..f.clone()
        };
        assert_eq!(m.choose([&f, &g].into_iter(), &kind("b"), 2, 60.0, 30.0), 1);
    }
}

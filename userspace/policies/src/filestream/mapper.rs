// SPDX-License-Identifier: GPL-2.0-or-later
//! The stream of a file that is being opened: the one in which it will be mixed
//! with the least data of other lifetimes (Eqs. 1-3).

use std::collections::{BTreeMap, VecDeque};

use super::{File, Type};

/// Files of a type that are remembered.
pub const HISTORY: usize = 16;
/// Types that are remembered; folders may come and go without end.
pub(crate) const TYPES: usize = 4096;

#[derive(Debug, Default)]
struct StreamHistory {
    /// Seconds from opening to closing, and from making to deletion.
    durations: VecDeque<f64>,
    lifetimes: VecDeque<f64>,
    /// When it was used, as a count of uses.
    used: u64,
}

/// What the open files of each type may still write to each stream (Eq. 1).
#[derive(Debug)]
struct Amounts {
    now: f64,
    period: f64,
    of: BTreeMap<Type, Vec<f64>>,
}

impl Amounts {
    fn add(&mut self, f: &File, d: u8, amount: f64) {
        if f.remapped || !(1..=d).contains(&f.stream) || amount <= 0.0 {
            return;
        }
        let streams = match self.of.get_mut(&f.kind) {
            Some(streams) => streams,
            None => self
                .of
                .entry(f.kind.clone())
                .or_insert_with(|| vec![0.0; d.into()]),
        };
        streams[usize::from(f.stream) - 1] += amount;
    }
}

#[derive(Debug, Default)]
pub struct Mapper {
    types: BTreeMap<Type, StreamHistory>,
    uses: u64,
    /// Kept for files that are opened at the same time.
    amounts: Option<Amounts>,
}

impl Mapper {
    pub fn closed(&mut self, kind: &Type, duration: f64) {
        remember(&mut self.history(kind).durations, duration);
        self.changed();
    }

    pub fn deleted(&mut self, kind: &Type, lifetime: f64) {
        remember(&mut self.history(kind).lifetimes, lifetime);
    }

    /// An open file was modified so many times more; or it has a stream of 1 to `d`
    /// now, which it had not, and was modified so many times in all.
    pub fn modified(&mut self, f: &File, count: u64, d: u8) {
        if let Some(amounts) = &mut self.amounts {
            let amount = amount(&self.types, f, count, amounts.period, amounts.now);
            amounts.add(f, d, amount);
        }
    }

    /// Files were closed, or have other streams.
    pub fn changed(&mut self) {
        self.amounts = None;
    }

    fn history(&mut self, kind: &Type) -> &mut StreamHistory {
        self.uses += 1;
        if self.types.len() == TYPES && !self.types.contains_key(kind) {
            let mut used: Vec<u64> = self.types.values().map(|h| h.used).collect();
            let (_, median, _) = used.select_nth_unstable(TYPES / 2);
            let median = *median;
            self.types.retain(|_, h| h.used > median);
        }
        let history = self.types.entry(kind.clone()).or_default();
        history.used = self.uses;
        history
    }

    /// One of the streams 1 to `d` for a new file of type `kind`, beside the files
    /// that are open.
    pub fn choose<'a>(
        &mut self,
        open: impl Iterator<Item = &'a File>,
        kind: &Type,
        d: u8,
        period: f64,
        now: f64,
    ) -> u8 {
        let amounts = match self.amounts.take().filter(|a| a.now == now) {
            Some(amounts) => amounts,
            None => self.sum_amounts(open, d, period, now),
        };
        let mut score = vec![0.0; usize::from(d)];
        for (other, of_stream) in &amounts.of {
            let difference = self.difference(other, kind);
            for (score, amount) in score.iter_mut().zip(of_stream) {
                *score += amount * difference;
            }
        }
        self.amounts = Some(amounts);
        // The first of the lowest.
        let best = (0..score.len()).min_by(|a, b| score[*a].total_cmp(&score[*b]));
        best.map_or(1, |n| n as u8 + 1)
    }

    fn sum_amounts<'a>(&self, open: impl Iterator<Item = &'a File>, d: u8, period: f64, now: f64) -> Amounts {
        let mut amounts = Amounts {
            now,
            period,
            of: BTreeMap::new(),
        };
        for f in open {
            amounts.add(f, d, amount(&self.types, f, f.modifications, period, now));
        }
        amounts
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

/// Eq. 1: what the file may still write to the stream it has, after so many
/// modifications.
fn amount(types: &BTreeMap<Type, StreamHistory>, f: &File, modifications: u64, period: f64, now: f64) -> f64 {
    let open = (now - f.opened).max(0.0);
    let expected = types
        .get(&f.kind)
        .and_then(|h| mean(&h.durations))
        .unwrap_or(period)
        .min(period);
    // A file opened this moment has no rate yet.
    let rate = modifications as f64 / open.max(1e-3);
    rate * (expected - open).max(0.0)
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
    use proptest::prelude::*;
    use std::path::Path;

    fn kind(extension: &str) -> Type {
        Type::of(Path::new(&format!("db/x.{extension}")))
    }

    #[test]
    fn the_equations() {
        let mut m = Mapper::default();
        for (extension, lifetime) in [("a", 1.0), ("a", 3.0), ("b", 3.0)] {
            m.deleted(&kind(extension), lifetime);
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
            closed: false,
            idle: 0,
        };
        // 40 in 20 s; without a history the rest of T: 2 * (60 - 20)
        assert_eq!(amount(&m.types, &f, f.modifications, 60.0, 30.0), 80.0);
        m.closed(&kind("a"), 25.0);
        assert_eq!(amount(&m.types, &f, f.modifications, 60.0, 30.0), 10.0);
        assert_eq!(amount(&m.types, &f, f.modifications, 60.0, 90.0), 0.0);
        // Stream 1 has 10 * 0.25, stream 2 nothing.
        assert_eq!(m.choose([&f].into_iter(), &kind("b"), 2, 60.0, 30.0), 2);
        m.changed();
        assert_eq!(m.choose([&f].into_iter(), &kind("b"), 1, 60.0, 30.0), 1);
        m.changed();
        let g = File {
            stream: 2,
            ..f.clone()
        };
        assert_eq!(m.choose([&f, &g].into_iter(), &kind("b"), 2, 60.0, 30.0), 1);
    }

    #[test]
    fn folders_may_come_and_go_without_end() {
        let mut m = Mapper::default();
        for n in 0..3 * TYPES {
            m.deleted(&Type::of(Path::new(&format!("{n}/x.log"))), 1.0);
            m.deleted(&kind("kept"), 2.0);
        }
        assert!(m.types.len() <= TYPES);
        assert_eq!(m.types[&kind("kept")].lifetimes.len(), HISTORY);
    }

    /// Eqs. 1 to 3 as they are written, file by file and pair by pair.
    fn score(history: &[(u8, f64, f64)], open: &[File], kind: &Type, s: u8, period: f64, now: f64) -> f64 {
        let of = |kind: &Type| {
            let mine = history.iter().filter(|h| self::kind(&h.0.to_string()) == *kind);
            mine.map(|(_, d, l)| (*d, *l)).collect::<Vec<_>>()
        };
        let mut score = 0.0;
        for f in open.iter().filter(|f| f.stream == s) {
            let (mine, other) = (of(&f.kind), of(kind));
            let wd = if mine.is_empty() {
                period
            } else {
                (mine.iter().map(|h| h.0).sum::<f64>() / mine.len() as f64).min(period)
            };
            let cd = now - f.opened;
            let amount = f.modifications as f64 / cd * (wd - cd).max(0.0);
            let mut dif = 1.0;
            if !mine.is_empty() && !other.is_empty() {
                dif = 0.0;
                for (_, a) in &mine {
                    for (_, b) in &other {
                        dif += (a - b).abs() / (a + b) / (mine.len() * other.len()) as f64;
                    }
                }
            }
            score += amount * dif;
        }
        score
    }

    proptest! {
        #[test]
        fn the_stream_is_the_one_of_the_least_score(
            history in prop::collection::vec((0..4u8, 0.1..50.0f64, 0.1..500.0f64), 0..12),
            open in prop::collection::vec((0..5u8, 1.0..59.0f64, 0..1000u64, 1..5u8), 0..12),
            new in 0..5u8,
            d in 1..5u8,
        ) {
            let mut m = Mapper::default();
            for (n, duration, lifetime) in &history {
                m.closed(&kind(&n.to_string()), *duration);
                m.deleted(&kind(&n.to_string()), *lifetime);
            }
            let (period, now) = (60.0, 100.0);
            let open: Vec<File> = open.into_iter().map(|(n, age, modifications, stream)| File {
                kind: kind(&n.to_string()),
                size: 1,
                opened: now - age,
                created: 0.0,
                closed: false,
                idle: 0,
                modifications,
                recent: 0,
                stream,
                remapped: false,
            }).collect();
            let new = kind(&new.to_string());
            let naive = |s| score(&history, &open, &new, s, period, now);
            // Every other file writes after the first choice, which is for nothing.
            let mut before = open.clone();
            before.iter_mut().step_by(2).for_each(|f| f.modifications = 0);
            m.choose(before.iter(), &new, d, period, now);
            for f in open.iter().step_by(2) {
                m.modified(f, f.modifications, d);
            }
            let chosen = m.choose(std::iter::empty(), &new, d, period, now);
            prop_assert!((1..=d).contains(&chosen));
            for s in 1..=d {
                prop_assert!(naive(chosen) <= naive(s) * (1.0 + 1e-9) + 1e-9, "{chosen} {s}");
            }
        }
    }
}

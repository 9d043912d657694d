// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of a trace before it is played: its size, and, for methods
//! that look ahead, how long each page lives.

use glob::Pattern;

use super::files::Files;
use super::play::{play, Player};
use super::SimError;
use crate::trace::{FileNo, Trace};
use database::rules::Rules;
use dm::class::Class;

#[derive(Debug, Default)]
pub struct Profile {
    /// The most pages in use at a time.
    pub pages: u32,
    /// Pages written in the load phase, and after it.
    pub load_writes: u64,
    pub run_writes: u64,
    pub checkpoints: u64,
    /// Mean microseconds from one checkpoint to the next, after the load.
    pub window_us: u64,
    /// Of the intervals between two checkpoints; if there is only one, of that up to it.
    pub interval: Option<Interval>,
    /// How long the pages live that are written after the load.
    pub lives: Lives,
    /// By file, after the load.
    pub files: Vec<FileProfile>,
    /// Pages written after the load, by class in the order of [`Class::ALL`].
    pub classes: [u64; Class::ALL.len()],
}

/// What passes from one checkpoint to the next, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub seconds: f64,
    pub pages: f64,
}

#[derive(Clone, Debug, Default)]
pub struct FileProfile {
    pub writes: u64,
    /// Of pages that were written before: how many, and the sum of the pages
    /// written in between.
    pub rewrites: u64,
    pub intervals: u64,
}

impl FileProfile {
    /// The average update interval in pages written; a file whose pages are not
    /// written again has none.
    pub fn interval(&self) -> Option<f64> {
        (self.rewrites > 0).then(|| self.intervals as f64 / self.rewrites as f64)
    }
}

impl Profile {
    pub fn of(trace: &Trace, primary: &[Pattern], rules: &Rules) -> Result<Self, SimError> {
        let mut files = Files::new(primary, rules);
        let mut p = Profiler {
            profile: Self::default(),
            last: Last::default(),
            marks: Marks::default(),
            loaded: !trace.loaded,
        };
        play(trace, &mut files, &mut p)?;
        let mut profile = p.profile;
        profile.pages = files.most_pages();
        profile.interval = p.marks.interval();
        profile.checkpoints = p.marks.count + u64::from(p.marks.loaded.is_some());
        let first = p.marks.loaded.or(p.marks.first);
        if let Some((first, _)) = first.filter(|_| profile.checkpoints > 1) {
            profile.window_us = (p.marks.last.0 - first) / (profile.checkpoints - 1);
        }
        Ok(profile)
    }

    pub fn writes(&self) -> u64 {
        self.load_writes + self.run_writes
    }
}

/// When each page of the drive was written last.
#[derive(Debug, Default)]
pub struct Last {
    /// By page: the number of the write, plus 1.
    writes: Vec<u64>,
    now: u64,
}

/// The end of what a write has put on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its number, from 0 on.
    pub write: u64,
    /// Pages that were written until its page was written again or discarded.
    pub pages: u64,
}

impl Last {
    pub fn write(&mut self, page: u32) -> Option<Life> {
        if page as usize >= self.writes.len() {
            self.writes.resize(page as usize + 1, 0);
        }
        let ended = self.end(page, self.now + 1);
        self.now += 1;
        ended
    }

    pub fn discard(&mut self, page: u32) -> Option<Life> {
        self.end(page, 0)
    }

    fn end(&mut self, page: u32, next: u64) -> Option<Life> {
        let last = self.writes.get_mut(page as usize)?;
        let write = std::mem::replace(last, next).checked_sub(1)?;
        let pages = self.now - write;
        Some(Life { write, pages })
    }
}

/// How many lives are how long: exactly up to 2^14 pages, to a part in 8192 beyond.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    counts: Vec<u64>,
    total: u64,
}

const EXACT: u32 = 14;

impl Lives {
    fn place(pages: u64) -> usize {
        let shift = (u64::BITS - pages.leading_zeros()).saturating_sub(EXACT);
        ((shift as usize) << (EXACT - 1)) + (pages >> shift) as usize
    }

    /// The shortest life that is counted there.
    fn least(place: usize) -> u64 {
        let shift = (place >> (EXACT - 1)).saturating_sub(1);
        ((place - (shift << (EXACT - 1))) as u64) << shift
    }

    fn add(&mut self, pages: u64) {
        let place = Self::place(pages);
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.total += 1;
    }

    /// Lives that divide them into so many parts of as many writes each.
    pub fn divide(&self, parts: usize) -> Vec<u64> {
        let mut limits = Vec::new();
        let mut below = 0;
        for (place, count) in self.counts.iter().enumerate() {
            below += count;
            while limits.len() + 1 < parts && self.total * (limits.len() as u64 + 1) / (parts as u64) < below
            {
                limits.push(Self::least(place));
            }
        }
        limits
    }
}

struct Profiler {
    profile: Profile,
    last: Last,
    marks: Marks,
    loaded: bool,
}

/// Time and pages written, at checkpoints.
#[derive(Default)]
struct Marks {
    loaded: Option<(u64, u64)>,
    first: Option<(u64, u64)>,
    last: (u64, u64),
    count: u64,
}

impl Marks {
    fn checkpoint(&mut self, us: u64, pages: u64) {
        self.last = (us, pages);
        self.first.get_or_insert(self.last);
        self.count += 1;
    }

    fn interval(&self) -> Option<Interval> {
        // A recording begins somewhere in the first one.
        let (from, count) = match self.count {
            0 => return None,
            1 => (self.loaded?, 1),
            n => (self.first?, n - 1),
        };
        Some(Interval {
            seconds: (self.last.0 - from.0) as f64 / 1e6 / count as f64,
            pages: (self.last.1 - from.1) as f64 / count as f64,
        })
    }
}

impl Profiler {
    fn end_life(&mut self, ended: Option<Life>) -> Option<u64> {
        let Life { write, pages } = ended?;
        if write >= self.profile.load_writes {
            self.profile.lives.add(pages);
        }
        Some(pages)
    }
}

impl Player for Profiler {
    fn write(&mut self, all: &Files, file: FileNo, _page: u32, at: u32) {
        let ended = self.last.write(at);
        let life = self.end_life(ended);
        if !self.loaded {
            self.profile.load_writes += 1;
            return;
        }
        self.profile.run_writes += 1;
        self.profile.classes[all.get(file).class as usize] += 1;
        let files = &mut self.profile.files;
        if file as usize >= files.len() {
            files.resize(file as usize + 1, FileProfile::default());
        }
        let f = &mut files[file as usize];
        f.writes += 1;
        if let Some(life) = life {
            f.rewrites += 1;
            f.intervals += life;
        }
    }

    fn discard(&mut self, at: u32) {
        let ended = self.last.discard(at);
        self.end_life(ended);
    }

    fn load_end(&mut self, us: u64) {
        self.loaded = true;
        self.marks.loaded = Some((us, 0));
    }

    fn checkpoint(&mut self, _files: &Files, us: u64) {
        if self.loaded {
            self.marks.checkpoint(us, self.profile.run_writes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_between_checkpoints() {
        let mut marks = Marks::default();
        assert_eq!(marks.interval(), None);
        marks.checkpoint(9_000_000, 7);
        assert_eq!(marks.interval(), None);
        marks.loaded = Some((1_000_000, 0));
        let interval = |seconds, pages| Some(Interval { seconds, pages });
        assert_eq!(marks.interval(), interval(8.0, 7.0));
        marks.checkpoint(19_000_000, 27);
        assert_eq!(marks.interval(), interval(10.0, 20.0));
        marks.checkpoint(49_000_000, 37);
        assert_eq!(marks.interval(), interval(20.0, 15.0));
    }

    #[test]
    fn a_life_ends_with_a_write_or_a_discard() {
        let mut last = Last::default();
        let life = |write, pages| Some(Life { write, pages });
        assert_eq!([last.write(0), last.write(7), last.discard(3)], [None; 3]);
        assert_eq!(last.write(0), life(0, 2));
        assert_eq!(last.write(0), life(2, 1));
        assert_eq!(last.discard(7), life(1, 3));
        assert_eq!([last.discard(7), last.discard(99), last.write(7)], [None; 3]);
        assert_eq!(last.discard(0), life(3, 2));
    }

    #[test]
    fn parts_have_as_many_writes_each() {
        let mut random = fastrand::Rng::with_seed(1);
        for most in [3, 14, 20, 33] {
            let mut lives = Lives::default();
            let mut life = || {
                let bits = random.u32(1..=most);
                random.u64(..1 << bits)
            };
            let mut all: Vec<u64> = (0..5000).map(|_| life()).collect();
            all.iter().for_each(|n| lives.add(*n));
            all.sort_unstable();
            for parts in 1..9 {
                let limits = lives.divide(parts);
                assert_eq!(limits.len(), parts - 1);
                for (n, limit) in (1..).zip(limits) {
                    let exact = all[all.len() * n / parts];
                    assert!(limit <= exact && exact - limit <= exact >> 13, "{limit} {exact}");
                    assert!(exact >= 1 << 14 || limit == exact);
                }
            }
        }
        assert!(Lives::default().divide(8).is_empty());
        for pages in [0, 1, 16383, 16384, 16385, 32767, 32768, 1 << 40, u64::MAX] {
            let least = Lives::least(Lives::place(pages));
            assert!(
                least <= pages && Lives::place(least) == Lives::place(pages),
                "{pages}"
            );
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! How fast discards are sent: the longest first, within a tenth of the time between
//! checkpoints, in commands so short that writes hardly wait for one, and slower when the
//! drive answers more slowly.

use std::cmp::Reverse;
use std::time::Duration;

use dm::diskstat::DiskStat;
use dm::table::SectorRange;

/// Ranges in one command of NVMe.
const COMMAND: usize = 256;
/// What the ranges of a command may take: on some drives writes wait for it.  A command that takes
/// this long without any range has as many as take as long again.
const COMMAND_TIME: Duration = Duration::from_millis(10);
/// Ranges in the first command, of which nothing is known.  No command has more than twice as many as
/// those before: one that had nothing to do for the drive says little.
const FIRST_RANGES: usize = 8;
/// Commands a second at first and at most, and at least.
const FIRST: u32 = 64;
const LEAST: u32 = 1;
const LONGEST: Duration = Duration::from_secs(6);
/// A mean that is shorter than this is no reason to slow down, in microseconds.
const FAST_DISCARD: u64 = 1000;
const FAST_READ: u64 = 200;
/// A mean of fewer says nothing.
const ENOUGH: u64 = 16;

/// How long what was found at a checkpoint may take, when the one before was so long
/// ago.
pub(super) fn budget(interval: Option<Duration>) -> Duration {
    interval.map_or(LONGEST, |i| (i / 10).min(LONGEST))
}

/// What is sent after a look.
pub(super) struct Queue {
    /// The longest first: the time may not be enough for all.
    granules: Vec<SectorRange>,
    next: usize,
    left: Duration,
}

impl Queue {
    pub(super) fn new(mut granules: Vec<SectorRange>, budget: Duration) -> Self {
        granules.sort_unstable_by_key(|g| (Reverse(g.length), g.start));
        Self {
            granules,
            next: 0,
            left: budget,
        }
    }

    /// A command, in the order of its places; nothing if the time is over.
    pub(super) fn next(&mut self, pace: &Pace) -> Option<Vec<SectorRange>> {
        let rest = self.rest();
        if rest.is_empty() || self.left.is_zero() {
            return None;
        }
        let mut batch = rest[..rest.len().min(pace.ranges(self.left))].to_vec();
        self.next += batch.len();
        batch.sort_unstable();
        Some(batch)
    }

    pub(super) fn took(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    pub(super) fn rest(&self) -> &[SectorRange] {
        &self.granules[self.next..]
    }
}

/// A mean in microseconds, of enough.
fn mean(ms: u64, count: u64, enough: u64) -> Option<u64> {
    (count >= enough).then(|| ms * 1000 / count)
}

fn each(time: Duration, of: usize) -> Duration {
    time / u32::try_from(of).unwrap_or(u32::MAX)
}

fn times(time: Duration, n: usize) -> Duration {
    time.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX))
}

pub(super) struct Pace {
    /// Commands a second.
    most: u32,
    /// What a discard and a read take, when nothing is wrong.
    discard: Option<u64>,
    read: Option<u64>,
    /// The last command: its ranges, and what it has taken.
    last: Option<(usize, Duration)>,
    /// What a command takes of itself, and for each range.
    command: Duration,
    range: Duration,
    /// Ranges in a command at most.
    limit: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            most: FIRST,
            discard: None,
            read: None,
            last: None,
            command: Duration::ZERO,
            range: Duration::ZERO,
            limit: FIRST_RANGES,
        }
    }
}

fn reads(from: &DiskStat, to: &DiskStat) -> Option<u64> {
    let (count, ms) = (
        to.reads.checked_sub(from.reads)?,
        to.read_ms.checked_sub(from.read_ms)?,
    );
    mean(ms, count, ENOUGH)
}

fn discards(from: &DiskStat, to: &DiskStat) -> Option<u64> {
    let count = to.discards.checked_sub(from.discards)?;
    mean(to.discard_ms.checked_sub(from.discard_ms)?, count, 1)
}

/// Follows a mean slowly, and says whether the new one is twice of it.
fn doubled(usual: &mut Option<u64>, now: Option<u64>, fast: u64) -> bool {
    let Some(now) = now else { return false };
    let before = *usual.get_or_insert(now);
    *usual = Some((before * 7 + now) / 8);
    now > fast && now > 2 * before
}

impl Pace {
    /// Commands a second.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// From one command to the next, when so many ranges are left and so much time.
    pub(super) fn pause(&self, ranges: usize, left: Duration) -> Duration {
        let shortest = Duration::from_secs(1) / self.most;
        let commands = ranges.div_ceil(self.limit).max(1);
        let even = left / u32::try_from(commands).unwrap_or(u32::MAX);
        even.max(shortest)
    }

    /// So many ranges have taken so long.  Two commands of which one had at least twice as many show
    /// what a command takes of itself.
    pub(super) fn took(&mut self, ranges: usize, time: Duration) {
        let now = (ranges.max(1), time);
        let before = self.last.replace(now).unwrap_or(now);
        let (few, many) = (before.min(now), before.max(now));
        if many.0 >= 2 * few.0 {
            self.range = each(many.1.saturating_sub(few.1), many.0 - few.0);
            self.command = few.1.saturating_sub(times(self.range, few.0));
        } else {
            self.command = self.command.min(time);
            self.range = each(time - self.command, now.0);
        }
        let most = COMMAND.min(2 * self.limit);
        self.limit = self.fit(COMMAND_TIME.max(self.command)).clamp(1, most);
    }

    /// So many ranges the drive may be done with in that time.
    fn fit(&self, time: Duration) -> usize {
        let fit = time.as_nanos() / self.range.as_nanos().max(1);
        usize::try_from(fit).unwrap_or(usize::MAX)
    }

    /// How many there are in a command, in the time left: one at least, which shows it.
    fn ranges(&self, left: Duration) -> usize {
        self.limit.min(self.fit(left)).max(1)
    }

    /// The drive while nothing was discarded.
    pub(super) fn quiet(&mut self, from: &DiskStat, to: &DiskStat) {
        if let Some(now) = reads(from, to) {
            self.read = Some(self.read.map_or(now, |r| (r + now) / 2));
        }
    }

    /// The drive while one batch, or several, was discarded.
    pub(super) fn sent(&mut self, from: &DiskStat, to: &DiskStat) {
        let slow_reads = reads(from, to)
            .zip(self.read)
            .is_some_and(|(now, usual)| now > FAST_READ && now > 2 * usual);
        let slow = doubled(&mut self.discard, discards(from, to), FAST_DISCARD) || slow_reads;
        self.most = if slow {
            (self.most / 2).max(LEAST)
        } else {
            (self.most + self.most.div_ceil(16)).min(FIRST)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn g(start: u64, length: u64) -> SectorRange {
        SectorRange { start, length }
    }

    /// Its commands, where each takes so long, and so long for a range.
    fn commands(q: &mut Queue, command: Duration, range: Duration) -> Vec<Vec<SectorRange>> {
        let mut pace = Pace::default();
        std::iter::from_fn(|| {
            let batch = q.next(&pace)?;
            let time = command + range * batch.len() as u32;
            pace.took(batch.len(), time);
            q.took(time);
            Some(batch)
        })
        .collect()
    }

    fn sizes(count: u64, budget: u64, command_us: u64, range_us: u64) -> Vec<usize> {
        let ranges = (0..count).map(|n| g(n * 100, 32)).collect();
        let mut q = Queue::new(ranges, Duration::from_millis(budget));
        let us = Duration::from_micros;
        commands(&mut q, us(command_us), us(range_us))
            .iter()
            .map(Vec::len)
            .collect()
    }

    #[test]
    fn long_ones_go_first() {
        let ranges = (0..300).map(|n| g(n * 1000, 8 + n)).collect();
        let mut q = Queue::new(ranges, Duration::from_secs(1));
        let all = commands(&mut q, Duration::ZERO, Duration::ZERO);
        let sizes: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!((sizes, q.rest()), (vec![8, 16, 32, 64, 128, 52], &[][..]));
        assert!(all[0].iter().all(|x| x.length >= 8 + 292));
        assert!(all[1].iter().all(|x| x.length >= 8 + 276));
        assert!(all.iter().all(|b| b.windows(2).all(|w| w[0].start < w[1].start)));
        // Those of one length are neighbours, so that a command has a part of the file.
        let ranges = (0..600).rev().map(|n| g(n * 16, 8)).collect();
        let mut q = Queue::new(ranges, Duration::from_secs(1));
        let all = commands(&mut q, Duration::ZERO, Duration::ZERO);
        assert!(all.concat().windows(2).all(|w| w[0].start < w[1].start));
        assert!(Queue::new(vec![], Duration::from_secs(1))
            .next(&Pace::default())
            .is_none());
    }

    #[test]
    fn all_have_the_time_and_no_more() {
        let sum = |sizes: Vec<usize>| sizes.iter().sum::<usize>();
        assert_eq!(sum(sizes(100_000, 1000, 0, 1)), 100_000, "a fast drive");
        assert_eq!(sum(sizes(10, 0, 0, 1)), 0);
        // 10 ms for each: eight in the first, of which nothing is known, then one at a time.
        let slow = sizes(10_000, 1000, 0, 10_000);
        assert_eq!((slow[0], sum(slow)), (8, 100));
        assert_eq!(sizes(10_000, 1000, 0, 10_000).iter().skip(1).max(), Some(&1));
        // 1 ms for each: a command takes 10 ms.
        assert_eq!(sizes(200, 1000, 0, 1000)[..3], [8, 10, 10]);
    }

    #[test]
    fn a_command_that_is_slow_by_itself_has_many() {
        // 20 ms, however many they are: fewer would be no faster.
        assert_eq!(sizes(2000, 6000, 20_000, 0)[..8], [8, 4, 8, 16, 32, 64, 128, 256]);
        // 20 ms, and 1 ms for each: as long again
        assert_eq!(sizes(2000, 6000, 20_000, 1000)[..7], [8, 2, 4, 8, 16, 20, 20]);
    }

    #[test]
    fn what_took_long_once_is_tried_again() {
        let mut pace = Pace::default();
        pace.took(1, Duration::from_secs(10));
        let ranges = (0..1000).map(|n| g(n * 100, 24)).collect();
        let mut q = Queue::new(ranges, Duration::from_millis(100));
        let mut next = |pace: &Pace| q.next(pace).unwrap().len();
        assert_eq!(next(&pace), 1);
        pace.took(1, Duration::from_micros(10));
        assert_eq!(next(&pace), 2);
        // One that took no time is not believed at once.
        pace.took(2, Duration::ZERO);
        assert_eq!(next(&pace), 4);
    }

    #[test]
    fn a_million_ranges() {
        let ranges = (0..1_000_000).map(|n| g(n * 16, 8 + n % 5 * 8)).collect();
        let mut q = Queue::new(ranges, Duration::from_secs(6));
        let all = commands(&mut q, Duration::ZERO, Duration::from_micros(2));
        assert_eq!(all.iter().map(Vec::len).sum::<usize>(), 1_000_000);
        assert_eq!(all.len(), 5 + (1_000_000_usize - 248).div_ceil(256));
    }

    #[test]
    fn a_tenth_of_the_interval() {
        assert_eq!(budget(None), Duration::from_secs(6));
        assert_eq!(budget(Some(Duration::from_secs(300))), Duration::from_secs(6));
        assert_eq!(budget(Some(Duration::from_secs(1))), Duration::from_millis(100));
        // Ten commands of eight
        assert_eq!(
            Pace::default().pause(80, Duration::from_secs(1)),
            Duration::from_millis(100)
        );
        let p = Pace {
            limit: COMMAND,
            ..Pace::default()
        };
        // Few are spread evenly; many go as fast as they may.
        assert_eq!(p.pause(6 * 256, Duration::from_secs(6)), Duration::from_secs(1));
        assert_eq!(
            p.pause(10_000 * 256, Duration::from_secs(6)),
            Duration::from_secs(1) / 64
        );
        assert_eq!(p.pause(1, Duration::ZERO), Duration::from_secs(1) / 64);
    }

    #[test]
    fn a_drive_that_gets_slower() {
        let mut p = Pace::default();
        let zero = DiskStat::default();
        let of = |discards, discard_ms, reads, read_ms| DiskStat {
            discards,
            discard_ms,
            reads,
            read_ms,
            ..zero
        };
        p.sent(&zero, &of(10, 20, 0, 0));
        assert_eq!(p.most(), 64, "2 ms each are what is usual");
        p.sent(&zero, &of(10, 30, 0, 0));
        assert_eq!(p.most(), 64);
        p.sent(&zero, &of(10, 60, 0, 0));
        assert_eq!(p.most(), 32, "and 6 ms are more than twice of it");
        p.sent(&zero, &of(10, 20, 0, 0));
        assert_eq!(p.most(), 34);
        // Reads that suffer.
        p.quiet(&zero, &of(0, 0, 100, 30));
        p.sent(&zero, &of(10, 20, 100, 50));
        assert_eq!(p.most(), 37);
        p.sent(&zero, &of(10, 20, 100, 100));
        assert_eq!(p.most(), 18);
        p.sent(&zero, &of(10, 20, 10, 100));
        assert_eq!(p.most(), 20, "ten reads say nothing");
        for _ in 0..10 {
            p.sent(&zero, &of(10, 20, 100, 100));
        }
        assert_eq!(p.most(), 1);
        // What it always takes is usual after a while.
        let mut p = Pace::default();
        p.sent(&zero, &of(1, 2, 0, 0));
        for _ in 0..200 {
            p.sent(&zero, &of(1, 20, 0, 0));
        }
        assert_eq!(p.most(), 64);
        // Counters that started over.
        p.sent(&of(10, 20, 0, 0), &zero);
        assert_eq!(p.most(), 64);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! How fast discards are sent: within a tenth of the time between checkpoints where
//! the drive can, and slower when it answers more slowly.

use std::time::Duration;

use dm::diskstat::DiskStat;

use dm::table::SectorRange;

/// Ranges in one command of NVMe.
pub(super) const COMMAND: usize = 256;
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

/// Batches of a command each, the longest ranges first, since the time may not be
/// enough for all; and the sectors of those that are shorter than so many bytes.
pub(super) fn batches(mut sector_ranges: Vec<SectorRange>, shortest: u64) -> (Vec<Vec<SectorRange>>, u64) {
    let mut left_out = 0;
    sector_ranges.retain(|s| {
        let long = s.length * 512 >= shortest;
        left_out += if long { 0 } else { s.length };
        long
    });
    sector_ranges.sort_unstable_by_key(|s| std::cmp::Reverse(s.length));
    let batch = |some: &[SectorRange]| {
        let mut some = some.to_vec();
        some.sort_unstable();
        some
    };
    (sector_ranges.chunks(COMMAND).map(batch).collect(), left_out)
}

/// A mean in microseconds, of enough.
fn mean(ms: u64, count: u64, enough: u64) -> Option<u64> {
    (count >= enough).then(|| ms * 1000 / count)
}

pub(super) struct Pace {
    /// Commands a second.
    most: u32,
    /// What a discard and a read take, when nothing is wrong.
    discard: Option<u64>,
    read: Option<u64>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            most: FIRST,
            discard: None,
            read: None,
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

    /// From one command to the next, when so many are left and so much time.
    pub(super) fn pause(&self, commands: usize, left: Duration) -> Duration {
        let shortest = Duration::from_secs(1) / self.most;
        let even = left / u32::try_from(commands.max(1)).unwrap_or(u32::MAX);
        even.max(shortest)
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

    fn s(start: u64, length: u64) -> SectorRange {
        SectorRange { start, length }
    }

    #[test]
    fn long_ones_go_first() {
        let sector_ranges = (0..300)
            .map(|n| s(n * 1000, 32 + n))
            .chain([s(999_999, 31)])
            .collect();
        let (all, left_out) = batches(sector_ranges, 16384);
        assert_eq!(
            (all.len(), all[0].len(), all[1].len(), left_out),
            (2, 256, 44, 31)
        );
        assert!(all[0].iter().all(|x| x.length >= 32 + 44));
        assert!(all.iter().all(|b| b.windows(2).all(|w| w[0].start < w[1].start)));
        assert_eq!(
            batches(vec![s(0, 127), s(500, 128)], 65536),
            (vec![vec![s(500, 128)]], 127)
        );
        assert_eq!(batches(vec![], 0), (vec![], 0));
    }

    #[test]
    fn a_tenth_of_the_interval() {
        assert_eq!(budget(None), Duration::from_secs(6));
        assert_eq!(budget(Some(Duration::from_secs(300))), Duration::from_secs(6));
        assert_eq!(budget(Some(Duration::from_secs(1))), Duration::from_millis(100));
        let p = Pace::default();
        // Few are spread evenly; many go as fast as they may.
        assert_eq!(p.pause(6, Duration::from_secs(6)), Duration::from_secs(1));
        assert_eq!(
            p.pause(10_000, Duration::from_secs(6)),
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

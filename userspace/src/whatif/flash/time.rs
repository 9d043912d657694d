// SPDX-License-Identifier: GPL-2.0-or-later
//! How long writes take on a drive that is never idle.
//!
//! Pages go to the dies in turn, as in a striped erase unit.  A die does one thing
//! at a time: programs a page, reads one to be copied, erases its part of a unit.
//! Collection is done when room is needed, on all dies, and the host's writes wait
//! behind it.  The host keeps a number of page writes outstanding.
//!
//! What this can say is how collection divides throughput and tail latency between
//! policies on one drive.  There is no write cache, no idle time for collection, no
//! bus, no reads of the host and no database that waits for its checkpoint: it
//! cannot say what an application would see.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Work, PAGE};

/// Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub read: u64,
    pub program: u64,
    pub erase: u64,
    pub dies: usize,
    /// Page writes that the host keeps outstanding.
    pub queue: usize,
}

impl Timing {
    /// Samsung K9F8G08U0M, with pages of 4 KiB: 25 us (at most) to read a page,
    /// 200 us (typical) to program one, 1.5 ms (typical) to erase a block; on 8
    /// channels with 4 dies each.
    pub const K9F8G08U0M: Self = Self {
        read: 25_000,
        program: 200_000,
        erase: 1_500_000,
        dies: 32,
        queue: 32,
    };
}

#[derive(Debug)]
pub struct Clock {
    timing: Timing,
    /// When each die is done with what it has to do.
    free: Vec<u64>,
    next: usize,
    outstanding: BinaryHeap<Reverse<u64>>,
    now: u64,
    latencies: Vec<u64>,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    pub mib_per_second: f64,
    pub mean_us: f64,
    pub p99_us: f64,
}

impl Clock {
    pub fn new(timing: Timing) -> Self {
        Self {
            free: vec![0; timing.dies],
            next: 0,
            outstanding: BinaryHeap::with_capacity(timing.queue),
            now: 0,
            latencies: Vec::new(),
            timing,
        }
    }

    /// A page write of the host, and what it has cost the drive.
    pub fn write(&mut self, work: Work) {
        if self.outstanding.len() == self.timing.queue {
            let Reverse(done) = self.outstanding.pop().expect("the queue is not empty");
            self.now = self.now.max(done);
        }
        let t = self.timing;
        for _ in 0..work.copied {
            self.occupy(t.read + t.program);
        }
        if work.erased > 0 {
            for die in &mut self.free {
                *die = (*die).max(self.now) + t.erase * u64::from(work.erased);
            }
        }
        let done = self.occupy(t.program);
        self.outstanding.push(Reverse(done));
        self.latencies.push(done - self.now);
    }

    /// The next die does something more; says when it will be done.
    fn occupy(&mut self, time: u64) -> u64 {
        let die = &mut self.free[self.next];
        self.next = (self.next + 1) % self.timing.dies;
        *die = (*die).max(self.now) + time;
        *die
    }

    pub fn finish(mut self) -> Times {
        let count = self.latencies.len();
        let end = self.outstanding.iter().map(|r| r.0).max().unwrap_or(0);
        if count == 0 || end == 0 {
            return Times::default();
        }
        let mean = self.latencies.iter().sum::<u64>() as f64 / count as f64;
        let (_, p99, _) = self.latencies.select_nth_unstable((count - 1) * 99 / 100);
        Times {
            mib_per_second: (count as u64 * PAGE) as f64 / f64::from(1 << 20) / (end as f64 / 1e9),
            mean_us: mean / 1e3,
            p99_us: *p99 as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_DIES: Timing = Timing {
        read: 1_000,
        program: 10_000,
        erase: 100_000,
        dies: 2,
        queue: 2,
    };

    #[test]
    fn without_collection_all_dies_program() {
        let mut clock = Clock::new(TWO_DIES);
        for _ in 0..1000 {
            clock.write(Work::default());
        }
        let t = clock.finish();
        // Two pages in 10 us.
        assert!((t.mib_per_second - 2.0 * 4096.0 / f64::from(1 << 20) / 10e-6).abs() < 0.01);
        assert_eq!((t.mean_us, t.p99_us), (10.0, 10.0));
    }

    #[test]
    fn a_write_waits_behind_collection() {
        let mut clock = Clock::new(TWO_DIES);
        // Two copies, one on each die, then an erasure on both: 11 + 100 us.
        clock.write(Work { copied: 2, erased: 1 });
        assert_eq!(clock.latencies, [121_000]);
        // The other die was busy as long; it does not wait for the first's program.
        clock.write(Work::default());
        assert_eq!(clock.latencies, [121_000, 121_000]);
        clock.write(Work::default());
        assert_eq!(clock.latencies[2], 10_000);
    }

    #[test]
    fn nothing_takes_no_time() {
        assert_eq!(Clock::new(TWO_DIES).finish(), Times::default());
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! When the next look at the kernel's counts, or at the files, is due.
//!
//! Extents get their places when data is written back (or, without delayed
//! allocation, when it is written), so that the first writes to a grown part of
//! a file are unmapped; what can be done is to learn of the extents soon.
//!
//! The kernel's counts are polled, which costs one ioctl.  When nothing was
//! written at all, nothing need be read: an idle database is only polled.
//! While there are writes the files are looked at once an interval, and sooner
//! when many writes were unmapped.

use std::time::{Duration, Instant};

use super::RefreshOutcome;
use dm::reply::Status;

/// After a file came or went: more of them will.
const DEBOUNCE: Duration = Duration::from_millis(150);
/// Polls in an interval while there are writes.
const HASTE: u32 = 5;
/// Intervals after the last write in which polls come that fast.
const LINGER: u32 = 5;
/// Unmapped sectors that are worth a look at once.  The file system's own log
/// and inodes are never mapped; they are written in smaller amounts.
const MUCH: u64 = 512;
/// Checkpoints that follow each other faster share a window.
const SHORTEST_WINDOW: Duration = Duration::from_millis(100);
/// A refresh is followed by a pause of this many times its own length, unless set
/// otherwise.
const DUTY: u32 = 10;
/// A look although nothing was written, in intervals.
const RECHECK_TURNS: u32 = 30;
/// After the kernel refused a table to the last.
const BACKOFF: Duration = Duration::from_secs(5);

/// What the clock looks at in a status line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteCounts {
    /// All writes that carried data.
    writes: u64,
    unmapped_sectors: u64,
}

impl From<&Status> for WriteCounts {
    fn from(s: &Status) -> Self {
        Self {
            writes: s.streams.iter().map(|c| c.writes).sum(),
            unmapped_sectors: s.unmapped_sectors,
        }
    }
}

pub(crate) struct Clock {
    interval: Duration,
    pub duty: u32,
    next: Instant,
    /// Not before this, whatever happens.
    earliest: Instant,
    /// Files came or went since the last refresh.
    pub names: bool,
    /// The last refresh, and what had been counted then.
    refreshed: Instant,
    counts: WriteCounts,
    /// What had been counted at the last poll.
    polled: WriteCounts,
    /// Until when polls are fast.
    lingers: Instant,
    /// The kernel refused the last upload.
    pub failed: bool,
    /// The turtle must be read, when the last window is old enough.
    turtle: bool,
    window: Instant,
}

impl Clock {
    pub(crate) fn new(interval: Duration, now: Instant, counts: WriteCounts) -> Self {
        Self {
            interval,
            duty: DUTY,
            next: now + interval,
            earliest: now,
            names: false,
            refreshed: now,
            counts,
            polled: counts,
            lingers: now,
            failed: false,
            turtle: false,
            window: now,
        }
    }

    /// How long to wait.
    pub(crate) fn timeout(&self, now: Instant) -> Duration {
        let refresh = self.next.max(self.earliest).saturating_duration_since(now);
        if self.turtle {
            refresh.min(self.window.saturating_duration_since(now))
        } else {
            refresh
        }
    }

    /// The turtle may have changed.
    pub(crate) fn turtle(&mut self) {
        self.turtle = true;
    }

    /// Whether to read the turtle now.
    pub(crate) fn read_turtle(&mut self, now: Instant) -> bool {
        let due = self.turtle && now >= self.window;
        self.turtle &= !due;
        due
    }

    /// A checkpoint was reported to the kernel.
    pub(crate) fn window_began(&mut self, now: Instant) {
        self.window = now + SHORTEST_WINDOW;
    }

    pub(crate) fn due(&self, now: Instant) -> bool {
        now >= self.next && now >= self.earliest
    }

    pub(crate) fn names_changed(&mut self, now: Instant) {
        self.names = true;
        self.next = self.next.min(now + DEBOUNCE);
    }

    /// Notes the counts of a poll; whether the files must be looked at.
    pub(crate) fn polled(&mut self, now: Instant, counts: WriteCounts) -> bool {
        if counts != self.polled {
            self.lingers = now + self.interval * LINGER;
        }
        self.polled = counts;
        self.next = now
            + if now < self.lingers {
                self.interval / HASTE
            } else {
                self.interval
            };
        let age = now.saturating_duration_since(self.refreshed);
        // `reset` makes the counts smaller: that is a difference, too.
        let unmapped = counts.unmapped_sectors.wrapping_sub(self.counts.unmapped_sectors);
        self.names
            || self.failed
            || unmapped >= MUCH
            || (counts.writes != self.counts.writes && age >= self.interval)
            || age >= self.interval * RECHECK_TURNS
    }

    /// The files were looked at, after the counts had been as they were at the
    /// last poll.
    pub(crate) fn refreshed(&mut self, now: Instant, outcome: &RefreshOutcome) {
        self.names = false;
        self.failed = outcome.failed;
        self.refreshed = now;
        self.counts = self.polled;
        self.earliest = now
            + if outcome.failed {
                BACKOFF
            } else {
                outcome.took * self.duty
            };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn counts(writes: u64, unmapped_sectors: u64) -> WriteCounts {
        WriteCounts {
            writes,
            unmapped_sectors,
        }
    }

    fn outcome(took: u64, failed: bool) -> RefreshOutcome {
        RefreshOutcome {
            took: ms(took),
            failed,
            ..RefreshOutcome::default()
        }
    }

    fn clock() -> (Clock, Instant) {
        let now = Instant::now();
        (Clock::new(ms(1000), now, WriteCounts::default()), now)
    }

    #[test]
    fn an_idle_database_is_only_polled() {
        let (mut c, mut now) = clock();
        for _ in 1..RECHECK_TURNS {
            now += ms(1000);
            assert!(c.due(now));
            assert!(!c.polled(now, counts(0, 0)));
            assert_eq!(c.timeout(now), ms(1000));
        }
        now += ms(1000);
        assert!(c.polled(now, counts(0, 0)));
    }

    #[test]
    fn writes_are_followed_once_an_interval() {
        let (mut c, start) = clock();
        let mut looks = 0;
        for n in 1..=20 {
            let now = start + ms(1000) + ms(200) * n;
            if c.polled(now, counts(u64::from(n), 8 * u64::from(n))) {
                looks += 1;
                c.refreshed(now, &outcome(1, false));
            }
            assert_eq!(c.timeout(now), ms(200));
        }
        assert_eq!(looks, 4);
        // After the last of them polls become rare again.
        let now = start + ms(20_000);
        c.polled(now, counts(20, 160));
        assert_eq!(c.timeout(now), ms(1000));
    }

    #[test]
    fn many_unmapped_writes_are_worth_a_look_at_once() {
        let (mut c, now) = clock();
        assert!(!c.polled(now + ms(200), counts(1, MUCH - 1)));
        assert!(c.polled(now + ms(400), counts(2, MUCH)));
        c.refreshed(now + ms(400), &outcome(1, false));
        assert!(!c.polled(now + ms(600), counts(3, 2 * MUCH - 1)));
        // The counters were set to zero.
        assert!(c.polled(now + ms(800), counts(0, 0)));
    }

    #[test]
    fn looks_that_cost_are_rarer() {
        let (mut c, now) = clock();
        c.polled(now, counts(1, MUCH));
        c.refreshed(now, &outcome(300, false));
        assert_eq!(c.timeout(now), ms(3000));
        c.refreshed(now, &outcome(1, true));
        assert_eq!(c.timeout(now), ms(5000));
        assert!(c.failed && c.polled(now + ms(5000), counts(1, MUCH)));
    }

    #[test]
    fn windows_have_a_shortest_length() {
        let (mut c, now) = clock();
        assert!(!c.read_turtle(now));
        c.turtle();
        assert_eq!(c.timeout(now), ms(0));
        assert!(c.read_turtle(now));
        c.window_began(now);
        c.turtle();
        assert_eq!(c.timeout(now + ms(30)), ms(70));
        assert!(!c.read_turtle(now + ms(30)));
        assert!(c.read_turtle(now + ms(100)));
        assert!(!c.read_turtle(now + ms(100)));
    }

    #[test]
    fn names_are_debounced() {
        let (mut c, now) = clock();
        c.names_changed(now);
        assert_eq!(c.timeout(now), ms(150));
        // A second event does not put it off.
        c.names_changed(now + ms(100));
        assert_eq!(c.timeout(now + ms(100)), ms(50));
        assert!(c.due(now + ms(150)));
        assert!(c.polled(now + ms(150), counts(0, 0)));
        c.refreshed(now + ms(150), &outcome(1, false));
        assert!(!c.polled(now + ms(350), counts(0, 0)));
    }
}

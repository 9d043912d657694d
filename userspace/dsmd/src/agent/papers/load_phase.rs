// SPDX-License-Identifier: GPL-2.0-or-later
//! When the load phase is over, for `boundary = "auto"`.
//!
//! While data is loaded, most of what is written makes files longer; later most
//! of it goes to places that were there before, whatever the size of the
//! database.  A window is *steady* when at least 1 MiB was written in it and the
//! collections and indexes grew by less than a tenth of what was written.  The
//! load phase ends with the second steady window in a row.  Windows with less
//! writing say nothing.

/// Bytes.
pub(crate) const LITTLE: u64 = 1 << 20;
/// A steady window grows by less than this part of what it writes.
const TENTH: u64 = 10;
const ENOUGH: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct LoadPhase {
    /// Bytes at the last checkpoint of a window with enough writes to count.
    last: Option<Sums>,
    /// Steady windows in a row.
    steady: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    /// The sizes of all collections and indexes.
    pub sizes: u64,
    /// All that was written to the device.
    pub written: u64,
}

impl LoadPhase {
    /// Notes a checkpoint; whether the load phase is over.
    pub(crate) fn checkpoint(&mut self, now: Sums) -> bool {
        // `reset` makes the count smaller.
        let window = self.last.and_then(|last| {
            let written = now.written.checked_sub(last.written)?;
            Some((written, now.sizes.saturating_sub(last.sizes)))
        });
        let Some((written, grown)) = window else {
            self.last = Some(now);
            return false;
        };
        if written < LITTLE {
            return false;
        }
        self.last = Some(now);
        self.steady = if grown < written / TENTH {
            self.steady + 1
        } else {
            0
        };
        self.steady >= ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Windows as growth and writing, in MiB; the one with which it ends.
    fn ends_with(windows: &[(u64, u64)]) -> Option<usize> {
        let mut load = LoadPhase::default();
        let mut sums = Sums {
            sizes: 7 * MIB,
            written: 100 * MIB,
        };
        assert!(!load.checkpoint(sums));
        windows.iter().position(|&(grown, written)| {
            sums.sizes += grown * MIB;
            sums.written += written * MIB;
            load.checkpoint(sums)
        })
    }

    #[test]
    fn the_second_steady_window_in_a_row_ends_it() {
        assert_eq!(ends_with(&[(100, 250), (100, 250), (1, 50), (0, 50)]), Some(3));
        assert_eq!(ends_with(&[(1, 50), (100, 250), (1, 50), (5, 50), (4, 50)]), None);
        // A large database that is still loaded.
        assert_eq!(ends_with(&[(6000, 13000); 100]), None);
    }

    #[test]
    fn idle_windows_say_nothing() {
        assert_eq!(ends_with(&[(0, 0), (0, 0), (1, 50), (0, 0), (1, 50)]), Some(4));
        assert_eq!(ends_with(&[(0, 0); 50]), None);
    }

    #[test]
    fn a_reset_of_the_counters_is_no_window() {
        let mut load = LoadPhase::default();
        for written in [500 * MIB, 0, 50 * MIB] {
            assert!(!load.checkpoint(Sums { sizes: 0, written }));
        }
        assert!(load.checkpoint(Sums {
            sizes: 0,
            written: 100 * MIB
        }));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What a share of free blocks can mean for a flash drive, by what was measured.
//!
//! Of equal shares discards save by a factor of two and more differently.  What they leave
//! is about the same; what they are compared with is not: where a checkpoint's writes reach
//! the drive in one burst and in the order of the file, as with buffered I/O, blocks that
//! were written together are also overwritten together, and the drive copies less of them by
//! itself.  So what is reported is the least and the most of recordings.

use serde::Serialize;

use super::forecast::{Measure, Range};

/// Of the flash writes, by discards.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Outlook {
    pub saved_on_full_drive: Range,
    pub saved_at_80_percent: Range,
}

impl Outlook {
    /// By the listed share.
    pub(super) fn of(share: f64) -> Self {
        Self {
            saved_on_full_drive: Measure::Discards.range(share),
            saved_at_80_percent: Measure::DiscardsAt80.range(share),
        }
    }

    /// On a drive that is so full; a full one if that is not known.
    pub(super) fn saved(&self, full: Option<f64>) -> Range {
        let t = (full.unwrap_or(1.0).clamp(0.8, 1.0) - 0.8) / 0.2;
        let (from, to) = (self.saved_at_80_percent, self.saved_on_full_drive);
        std::array::from_fn(|n| from[n] + t * (to[n] - from[n]))
    }

    /// In short.  `full`: how much of the file system is in use.
    pub(super) fn summary(&self, share: f64, full: Option<f64>) -> String {
        if share < 0.005 {
            return "Hardly anything is listed as free: discards would save next to nothing.".into();
        }
        let here = match full {
            Some(full) => format!("; this file system is {:.0} % full", 100.0 * full),
            None => String::new(),
        };
        format!(
            "Where such a share came of rewriting, discards should save {} of the flash writes of a full drive with \
             15 % over-provisioning, and {} of one that is 80 % full{here}. The least is of updates spread \
             evenly over a collection, by mongod's default, buffered I/O; the most by direct I/O.",
            percent(self.saved_on_full_drive),
            percent(self.saved_at_80_percent),
        )
    }
}

pub(super) fn percent([least, most]: Range) -> String {
    format!("{:.0} to {:.0} %", 100.0 * least, 100.0 * most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_80_percent_and_full() {
        let o = Outlook {
            saved_on_full_drive: [0.155, 0.258],
            saved_at_80_percent: [0.05, 0.106],
        };
        let saved = |full| o.saved(full).map(|x| (1000.0 * x).round());
        assert_eq!(saved(None), [155.0, 258.0]);
        assert_eq!(saved(Some(0.85)), [76.0, 144.0]);
        assert_eq!(saved(Some(0.3)), [50.0, 106.0]);
        assert_eq!(Outlook::of(0.0).saved(None), [0.0, 0.0]);
    }

    /// By uniform updates below a mongod, and by LinkBench.
    #[test]
    fn each_recording_is_within() {
        for (listed, saved) in [
            (0.064, 0.114),
            (0.176, 0.155),
            (0.296, 0.148),
            (0.181, 0.253),
            (0.175, 0.249),
            (0.17, 0.235),
            (0.274, 0.314),
            (0.341, 0.279),
            (0.352, 0.413),
            (0.392, 0.118),
        ] {
            let [least, most] = Outlook::of(listed).saved_on_full_drive;
            assert!((least..most).contains(&saved), "{listed}: {saved}");
        }
    }

    #[test]
    fn the_summary_has_the_figures() {
        let o = Outlook {
            saved_on_full_drive: [0.136, 0.379],
            saved_at_80_percent: [0.033, 0.149],
        };
        assert_eq!(
            o.summary(0.328, Some(0.61)),
            "Where such a share came of rewriting, discards should save 14 to 38 % of the flash writes of a full drive \
             with 15 % over-provisioning, and 3 to 15 % of one that is 80 % full; this file system is 61 % full. \
             The least is of updates spread evenly over a collection, by mongod's default, buffered I/O; the most \
             by direct I/O."
        );
        assert!(o.summary(0.001, None).starts_with("Hardly anything"));
    }
}

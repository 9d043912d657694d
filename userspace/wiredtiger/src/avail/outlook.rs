// SPDX-License-Identifier: GPL-2.0-or-later
//! What a share of free blocks can mean for a flash drive, by what was measured.
//!
//! Two ratios decide: how much of the database a checkpoint interval writes, which
//! the share of listed blocks says where they come of rewriting, and how full the
//! drive is.  Recordings of LinkBench, updates only, on WiredTiger 11.3.1, by
//! direct I/O, erase units of 1 MiB (80 % full: 4 MiB), over-provisioning of 15 %.

use serde::Serialize;

/// Share listed, share of the database that an interval writes, and the flash writes
/// that discards save of a full drive and of one that is 80 % full.
const MEASURED: [[f64; 4]; 6] = [
    [0.0, 0.0, 0.0, 0.0],
    [0.037, 0.012, 0.135, 0.023],
    [0.099, 0.033, 0.194, 0.06],
    [0.238, 0.078, 0.339, 0.137],
    [0.385, 0.18, 0.444, 0.179],
    [0.473, 0.43, 0.433, 0.179],
];

/// Shares of 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// Of the database, written between two checkpoints.
    pub written_per_checkpoint: f64,
    pub saved_on_full_drive: f64,
    pub saved_at_80_percent: f64,
}

impl Outlook {
    /// By the listed share.  Beyond what was measured nothing more is promised.
    pub fn of(share: f64) -> Self {
        let last = MEASURED[MEASURED.len() - 1];
        let pair = MEASURED.windows(2).find(|w| share < w[1][0]);
        let row = pair.map_or(last, |w| {
            let t = (share - w[0][0]) / (w[1][0] - w[0][0]);
            std::array::from_fn(|n| w[0][n] + t * (w[1][n] - w[0][n]))
        });
        Self {
            written_per_checkpoint: row[1],
            saved_on_full_drive: row[2],
            saved_at_80_percent: row[3],
        }
    }

    /// In short.  `full`: how much of the file system is in use.
    pub fn summary(&self, share: f64, full: Option<f64>) -> String {
        let percent = |x: f64| format!("{:.0} %", 100.0 * x);
        if share < 0.005 {
            return "Hardly anything is listed as free: discards would save next to nothing.".into();
        }
        let here = match full {
            Some(full) => format!("; this file system is {} full", percent(full)),
            None => String::new(),
        };
        format!(
            "If this share comes of rewriting, as when some {} of the database are written from checkpoint to \
             checkpoint, discards saved about {} of the flash writes of a full drive with 15 % over-provisioning \
             and {} of one that is 80 % full{here}.",
            percent(self.written_per_checkpoint),
            percent(self.saved_on_full_drive),
            percent(self.saved_at_80_percent),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_what_was_measured() {
        let at = |share| {
            let o = Outlook::of(share);
            [
                o.written_per_checkpoint,
                o.saved_on_full_drive,
                o.saved_at_80_percent,
            ]
            .map(|x| (1000.0 * x).round())
        };
        assert_eq!(at(0.0), [0.0, 0.0, 0.0]);
        assert_eq!(at(0.238), [78.0, 339.0, 137.0]);
        assert_eq!(at(0.3115), [129.0, 392.0, 158.0]);
        assert_eq!(at(0.99), [430.0, 433.0, 179.0]);
    }

    #[test]
    fn the_summary_has_the_figures() {
        let share = 0.385;
        assert_eq!(
            Outlook::of(share).summary(share, Some(0.61)),
            "If this share comes of rewriting, as when some 18 % of the database are written from checkpoint to \
             checkpoint, discards saved about 44 % of the flash writes of a full drive with 15 % \
             over-provisioning and 18 % of one that is 80 % full; this file system is 61 % full."
        );
        assert!(Outlook::of(0.001)
            .summary(0.001, None)
            .starts_with("Hardly anything"));
    }
}

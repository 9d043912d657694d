// SPDX-License-Identifier: GPL-2.0-or-later
//! What a share of free blocks can mean for a flash drive, by what was measured.
//!
//! Of equal shares discards save by a factor of two and more differently.  What they leave
//! is about the same; what they are compared with is not: where a checkpoint's writes reach
//! the drive in one burst and in the order of the file, as with buffered I/O, blocks that
//! were written together are also overwritten together, and the drive copies less of them by
//! itself.  So what is reported is the least and the most of all recordings.

use serde::Serialize;

/// Of 1.
pub type Range = [f64; 2];

/// Share listed, and the least and the most of the flash writes that discards save of a full
/// drive and of one that is 80 % full, with an over-provisioning of 15 % and erase units of
/// 256 KiB or 1 MiB.  The least are uniform updates below a mongod, buffered, and LinkBench's
/// with long intervals; the most LinkBench's by direct I/O.
const MEASURED: [(f64, Range, Range); 8] = [
    (0.0, [0.0, 0.0], [0.0, 0.0]),
    (0.064, [0.114, 0.14], [0.034, 0.056]),
    (0.087, [0.122, 0.17], [0.037, 0.068]),
    (0.132, [0.139, 0.2], [0.043, 0.084]),
    (0.176, [0.155, 0.258], [0.05, 0.106]),
    (0.214, [0.153, 0.279], [0.046, 0.109]),
    (0.328, [0.136, 0.379], [0.033, 0.149]),
    (0.375, [0.118, 0.433], [0.028, 0.196]),
];

/// Shares of 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outlook {
    pub saved_on_full_drive: Range,
    pub saved_at_80_percent: Range,
}

/// At `t` of the way from one range to the other.
fn between(a: Range, b: Range, t: f64) -> Range {
    std::array::from_fn(|n| a[n] + t * (b[n] - a[n]))
}

impl Outlook {
    /// By the listed share.  Beyond what was measured nothing more is promised.
    pub fn of(share: f64) -> Self {
        let (_, full, at_80) = MEASURED[MEASURED.len() - 1];
        let pair = MEASURED.windows(2).find(|w| share < w[1].0);
        let (full, at_80) = pair.map_or((full, at_80), |w| {
            let t = (share - w[0].0) / (w[1].0 - w[0].0);
            (between(w[0].1, w[1].1, t), between(w[0].2, w[1].2, t))
        });
        Self {
            saved_on_full_drive: full,
            saved_at_80_percent: at_80,
        }
    }

    /// On a drive that is so full; a full one if that is not known.
    pub fn saved(&self, full: Option<f64>) -> Range {
        let t = (full.unwrap_or(1.0).clamp(0.8, 1.0) - 0.8) / 0.2;
        between(self.saved_at_80_percent, self.saved_on_full_drive, t)
    }

    /// In short.  `full`: how much of the file system is in use.
    pub fn summary(&self, share: f64, full: Option<f64>) -> String {
        if share < 0.005 {
            return "Hardly anything is listed as free: discards would save next to nothing.".into();
        }
        let here = match full {
            Some(full) => format!("; this file system is {:.0} % full", 100.0 * full),
            None => String::new(),
        };
        format!(
            "Where such a share came of rewriting, discards saved {} of the flash writes of a full drive with \
             15 % over-provisioning, and {} of one that is 80 % full{here}. The least was of updates spread \
             evenly over a collection, by mongod's default, buffered I/O; the most by direct I/O.",
            percent(self.saved_on_full_drive),
            percent(self.saved_at_80_percent),
        )
    }
}

/// Of a range of shares.
pub fn percent([least, most]: Range) -> String {
    format!("{:.0} to {:.0} %", 100.0 * least, 100.0 * most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_what_was_measured() {
        let at = |share| {
            let o = Outlook::of(share);
            [o.saved_on_full_drive, o.saved_at_80_percent]
                .concat()
                .iter()
                .map(|x| (1000.0 * x).round())
                .collect::<Vec<_>>()
        };
        assert_eq!(at(0.0), [0.0, 0.0, 0.0, 0.0]);
        assert_eq!(at(0.176), [155.0, 258.0, 50.0, 106.0]);
        assert_eq!(at(0.117), [133.0, 190.0, 41.0, 79.0]);
        assert_eq!(at(0.99), [118.0, 433.0, 28.0, 196.0]);
        let o = Outlook::of(0.176);
        let saved = |full| o.saved(full).map(|x| (1000.0 * x).round());
        assert_eq!(saved(None), [155.0, 258.0]);
        assert_eq!(saved(Some(0.85)), [76.0, 144.0]);
        assert_eq!(saved(Some(0.3)), [50.0, 106.0]);
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
            assert!((least - 0.01..most + 0.015).contains(&saved), "{listed}: {saved}");
        }
    }

    #[test]
    fn the_summary_has_the_figures() {
        let share = 0.328;
        assert_eq!(
            Outlook::of(share).summary(share, Some(0.61)),
            "Where such a share came of rewriting, discards saved 14 to 38 % of the flash writes of a full drive \
             with 15 % over-provisioning, and 3 to 15 % of one that is 80 % full; this file system is 61 % full. \
             The least was of updates spread evenly over a collection, by mongod's default, buffered I/O; the most \
             by direct I/O."
        );
        assert!(Outlook::of(0.001)
            .summary(0.001, None)
            .starts_with("Hardly anything"));
    }
}

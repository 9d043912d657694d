// SPDX-License-Identifier: GPL-2.0-or-later
//! What a measure saved of the flash writes of other databases: Documentation/figures/forecast.json,
//! which tests/bench/waf/forecast.py made of recordings, and says how.
//!
//! Of equal shares discards save by a factor of two and more differently.  What they leave
//! is about the same; what they are compared with is not: where a checkpoint's writes reach
//! the drive in one burst and in the order of the file, as with buffered I/O, blocks that
//! were written together are also overwritten together, and the drive copies less of them by
//! itself.  So what is reported is the least and the most of recordings with buffered I/O,
//! which mongod does by itself.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Shares of 1: the least and the most.
pub(super) type Range = [f64; 2];

const FIGURES: &str = include_str!("../../../../Documentation/figures/forecast.json");
/// A forecast must have held in so many cases of workloads that it was not made of.
const HELD: f64 = 0.9;
/// A range whose most is more than so many times its least, and so far from it, helps nobody.
const WIDE: f64 = 4.0;
const FAR: f64 = 0.1;

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "snake_case")]
pub(super) enum Measure {
    Discards,
    #[serde(rename = "discards_at_80")]
    DiscardsAt80,
    Leaves,
    IndexLeaves,
    /// Three times the interval between checkpoints, buffered.
    Interval,
    Spare,
    Streams,
}

#[derive(Deserialize)]
struct Savings {
    nearest: usize,
    /// Of a recording that has listed more.
    in_proportion: bool,
    wider: f64,
    /// In so many of so many cases.
    held: [usize; 2],
    saved: Vec<Observation>,
}

/// Workload, name, the share that is listed as free, and what was saved.
type Observation = (String, String, f64, f64);

static ALL: LazyLock<BTreeMap<Measure, Savings>> =
    LazyLock::new(|| serde_json::from_str(FIGURES).expect("a test reads it"));

impl Savings {
    /// Of the recordings whose listed share is nearest.
    fn range(&self, share: f64, left_out: &str) -> Range {
        let mut near: Vec<&Observation> = self.saved.iter().filter(|r| r.0 != left_out).collect();
        near.sort_by(|a, b| f64::total_cmp(&(a.2 - share).abs(), &(b.2 - share).abs()));
        near.truncate(self.nearest);
        let part = |listed: f64| match self.in_proportion {
            true => (share / listed).min(1.0),
            false => 1.0,
        };
        let saved = || near.iter().map(|r| r.3 * part(r.2));
        let least = saved().fold(f64::INFINITY, f64::min);
        let most = saved().fold(f64::NEG_INFINITY, f64::max);
        // What is saved, or what is left, may differ by so much of it.
        let most = (most + self.wider * most.abs()).min(1.0 - (1.0 - most) * (1.0 - self.wider));
        [least - self.wider * least.abs(), most]
    }
}

impl Measure {
    /// Where so much is listed as free.
    pub(super) fn range(self, share: f64) -> Range {
        ALL[&self].range(share, "")
    }

    /// Whether a range of it holds, and helps.
    pub(super) fn is_known(self, range: Range) -> bool {
        holds(ALL[&self].held) && is_useful(range)
    }
}

fn holds([held, cases]: [usize; 2]) -> bool {
    held as f64 >= HELD * cases as f64
}

fn is_useful([least, most]: Range) -> bool {
    most - least <= FAR || most <= WIDE * least
}

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
            "Where such a share came of rewriting, with buffered I/O, discards should save {} of the flash writes \
             of a full drive with 15 % over-provisioning, and {} of one that is 80 % full{here}. With direct I/O \
             they save more, and with long intervals between checkpoints least.",
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

    const SHARE: f64 = 0.2;

    #[test]
    fn the_page_has_the_ranges() {
        let page = include_str!("../../../../Documentation/before.md");
        for (measure, what) in [
            (
                Measure::Leaves,
                "leaf pages of 8 KiB for collections in larger ones",
            ),
            (Measure::IndexLeaves, "leaf pages of 8 KiB for indexes"),
            (Measure::Interval, "three times the interval, buffered"),
            (Measure::Spare, "a tenth of the drive left empty"),
            (Measure::Discards, "discards, buffered"),
            (Measure::DiscardsAt80, "discards, buffered, drive 80 % full"),
            (Measure::Streams, "streams"),
        ] {
            let [held, cases] = ALL[&measure].held;
            let range = measure.range(SHARE);
            let known = match measure.is_known(range) {
                true => "",
                false => ", cannot be foretold",
            };
            let row = format!("\n| {what} | {}{known} | {held} of {cases} |\n", percent(range));
            assert!(page.contains(&row), "{row}");
        }
    }

    /// Each workload is foretold by the others.
    #[test]
    fn what_is_known_held_for_workloads_that_it_was_not_made_of() {
        for (measure, of) in ALL.iter() {
            let holds = |r: &&Observation| {
                let [least, most] = of.range(r.2, &r.0);
                (least - 0.005..=most + 0.005).contains(&r.3)
            };
            let held = of.saved.iter().filter(holds).count();
            assert_eq!([held, of.saved.len()], of.held, "{measure:?}");
        }
    }

    #[test]
    fn too_wide_a_range_is_no_forecast() {
        assert!(is_useful([0.22, 0.61]) && is_useful([0.0, 0.05]));
        assert!(!is_useful([0.03, 0.2]) && !is_useful([-0.02, 0.15]));
        assert!(holds([18, 20]) && !holds([17, 20]));
    }

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
            (0.175, 0.25),
            (0.153, 0.206),
            (0.289, 0.24),
            (0.33, 0.252),
            (0.385, 0.139),
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
            "Where such a share came of rewriting, with buffered I/O, discards should save 14 to 38 % of the flash \
             writes of a full drive with 15 % over-provisioning, and 3 to 15 % of one that is 80 % full; this file \
             system is 61 % full. With direct I/O they save more, and with long intervals between checkpoints \
             least."
        );
        assert!(o.summary(0.001, None).starts_with("Hardly anything"));
    }
}

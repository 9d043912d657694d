// SPDX-License-Identifier: GPL-2.0-or-later
//! What a measure saved of the flash writes of other databases: Documentation/figures/forecast.json,
//! which tests/bench/waf/forecast.py made of recordings, and says how.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

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
        let [held, cases] = ALL[&self].held;
        held as f64 >= HELD * cases as f64 && is_useful(range)
    }
}

fn is_useful([least, most]: Range) -> bool {
    most - least <= FAR || most <= WIDE * least
}

#[cfg(test)]
mod tests {
    use super::super::outlook::percent;
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
            (Measure::Discards, "discards"),
            (Measure::DiscardsAt80, "discards, drive 80 % full"),
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
        assert!(
            !Measure::IndexLeaves.is_known([0.1, 0.2]),
            "it did not hold often enough"
        );
    }
}

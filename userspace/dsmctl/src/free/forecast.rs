// SPDX-License-Identifier: GPL-2.0-or-later
//! What measures have saved, by Documentation/figures/forecast.json.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use database::wiredtiger::avail::outlook::Range;

const FIGURES: &str = include_str!("../../../../Documentation/figures/forecast.json");
/// Fewer outcomes foretell nothing.
const FEW: usize = 4;
/// A range whose most is more than so many times its least, and so far from it, helps nobody.
const WIDE: f64 = 4.0;
const FAR: f64 = 0.1;

type Outcomes = BTreeMap<String, Vec<f64>>;

#[derive(Deserialize)]
pub(super) struct Forecasts {
    leaves: Outcomes,
    index_leaves: Outcomes,
    interval_large_leaves: Outcomes,
    interval_small_leaves: Outcomes,
    spare: Outcomes,
    streams: Outcomes,
}

static ALL: LazyLock<Forecasts> = LazyLock::new(|| serde_json::from_str(FIGURES).expect("a test reads it"));

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Measure {
    Leaves,
    IndexLeaves,
    /// Three times the interval, by whether most is in large leaf pages.
    Interval {
        large_leaves: bool,
    },
    Spare,
    Streams,
}

impl Measure {
    fn outcomes(self) -> Vec<f64> {
        let all = match self {
            Self::Leaves => &ALL.leaves,
            Self::IndexLeaves => &ALL.index_leaves,
            Self::Interval { large_leaves: true } => &ALL.interval_large_leaves,
            Self::Interval { large_leaves: false } => &ALL.interval_small_leaves,
            Self::Spare => &ALL.spare,
            Self::Streams => &ALL.streams,
        };
        let mut sorted: Vec<f64> = all.values().flatten().map(|percent| percent / 100.0).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// In which nine of ten came out: of fewer than twenty, all.
    pub(super) fn range(self) -> Range {
        let all = self.outcomes();
        let left_out = all.len() / 20;
        [all[left_out], all[all.len() - 1 - left_out]]
    }

    pub(super) fn is_known(self) -> bool {
        self.outcomes().len() >= FEW && is_useful(self.range())
    }
}

/// Whether a range is narrow enough to act on.
pub(super) fn is_useful([least, most]: Range) -> bool {
    most - least <= FAR || most <= WIDE * least
}

/// Of a database in small leaf pages the recordings' ranges missed, by as much as that.
pub(super) fn of_small_leaves([least, most]: Range) -> Range {
    [least * 8.0 / 9.0, most * 22.0 / 18.0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use database::wiredtiger::avail::outlook::{percent, Outlook};

    #[test]
    fn the_page_has_the_ranges() {
        let page = include_str!("../../../../Documentation/before.md");
        for (measure, what) in [
            (
                Measure::Leaves,
                "leaf pages of 8 KiB for collections in larger ones",
            ),
            (Measure::IndexLeaves, "leaf pages of 8 KiB for indexes"),
            (
                Measure::Interval { large_leaves: true },
                "three times the interval, buffered, larger leaf pages",
            ),
            (
                Measure::Interval { large_leaves: false },
                "three times the interval, buffered, leaf pages of at most 8 KiB",
            ),
            (Measure::Spare, "a tenth of the drive left empty"),
            (Measure::Streams, "streams"),
        ] {
            let known = if measure.is_known() {
                ""
            } else {
                ", cannot be foretold"
            };
            let row = format!("\n| {what} | {}{known} |\n", percent(measure.range()));
            assert!(page.contains(&row), "{row}");
        }
    }

    /// The four that the ranges by the listed share had missed.
    #[test]
    fn discards_with_small_leaves_are_within() {
        let small: Outcomes = serde_json::from_value(
            serde_json::from_str::<serde_json::Value>(FIGURES).unwrap()["discards_small_leaves"].clone(),
        )
        .unwrap();
        let said = [[0.13, 0.18], [0.15, 0.23], [0.09, 0.12], [0.14, 0.19]];
        let outcomes = [
            "LinkBench 4 KiB, direct: 13 to 18",
            "LinkBench 8 KiB, direct: 15 to 23 were said",
            "YCSB 8 KiB, buffered: 9 to 12",
            "mongod 8 KiB, buffered: 14 to 19",
        ];
        for (said, name) in said.into_iter().zip(outcomes) {
            let [least, most] = of_small_leaves(said).map(|share| 100.0 * share);
            let came = small[name][0];
            assert!(
                (least - 0.5..=most + 0.5).contains(&came),
                "{name}: {least} to {most}"
            );
        }
        let wide = of_small_leaves(Outlook::of(0.176).saved_on_full_drive);
        assert!(wide[0] < 0.14 && wide[1] > 0.3);
    }

    #[test]
    fn too_wide_a_range_is_no_forecast() {
        assert!(is_useful([0.22, 0.61]) && is_useful([0.0, 0.05]));
        assert!(!is_useful([0.03, 0.2]) && !is_useful([-0.02, 0.15]));
        assert!(!Measure::IndexLeaves.is_known(), "two recordings");
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! From pairs of periods to a saving with its confidence interval.

use serde::Serialize;

use crate::trial::state::{Seen, TrialState};

/// More than this between the loads of the two periods of a pair, and they cannot be compared.
const MOST_LOAD_RATIO: f64 = 4.0;
/// With fewer an interval is of chance: two pairs that happen to agree have none.
pub const LEAST_PAIRS: usize = 4;
/// The number of pairs after which nobody waits for more.
const MOST_PAIRS: usize = 1000;

/// What is lower with the switch on, as a share: 0.2 is 20 % less.  Of the logarithms of
/// the pairs' ratios, Student's t interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Saving {
    pub saved: f64,
    pub low: f64,
    pub high: f64,
    pub pairs: usize,
    /// Pairs after which an interval with this spread would leave out 0; null: not within
    /// reason.
    pub pairs_needed: Option<usize>,
}

impl Saving {
    /// From the ratios "on / off" of the pairs; `None`: fewer than two.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let n = ratios.len();
        if n < 2 {
            return None;
        }
        let logs: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
        let mean = logs.iter().sum::<f64>() / n as f64;
        let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let half = |n: usize| student(n - 1) * (variance / n as f64).sqrt();
        Some(Self {
            saved: 1.0 - mean.exp(),
            low: 1.0 - (mean + half(n)).exp(),
            high: 1.0 - (mean - half(n)).exp(),
            pairs: n,
            pairs_needed: (2..=MOST_PAIRS).find(|&n| half(n) < mean.abs()),
        })
    }

    /// Whether the interval leaves out 0.
    pub fn is_significant(&self) -> bool {
        self.pairs >= LEAST_PAIRS && (self.low > 0.0 || self.high < 0.0)
    }
}

/// The 97.5 % quantile of Student's t distribution.
///
/// By hand: a library of distributions for one quantile of one.
fn student(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=30 => TABLE[degrees - 1],
        // The first terms of its expansion about the normal quantile, right to 0.001 here.
        _ => 1.95996 + 2.37227 / degrees as f64 + 2.8225 / (degrees as f64).powi(2),
    }
}

/// What came of the pairs so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Flash writes for the same host writes.
    pub flash: Option<Saving>,
    /// Mean time of a write and of a read in the block layer.
    pub write_time: Option<Saving>,
    pub read_time: Option<Saving>,
    /// Pairs that do not count, and why.
    pub left_out: Vec<String>,
}

pub fn outcome(state: &TrialState) -> Outcome {
    let (mut flash, mut writes, mut reads) = (vec![], vec![], vec![]);
    let mut left_out = Vec::new();
    for (number, pair) in state.periods.chunks_exact(2).enumerate() {
        let (on, off) = if pair[0].on {
            (&pair[0].seen, &pair[1].seen)
        } else {
            (&pair[1].seen, &pair[0].seen)
        };
        let mut leave_out = |why: String| left_out.push(format!("pair {}: {why}", number + 1));
        let load = on.bytes_per_second() / off.bytes_per_second();
        if !(1.0 / MOST_LOAD_RATIO..=MOST_LOAD_RATIO).contains(&load) {
            leave_out(format!(
                "the load of one period was {:.1} times the other's",
                load.max(1.0 / load)
            ));
            continue;
        }
        match (amplification(on), amplification(off)) {
            (Ok(Some(on)), Ok(Some(off))) => flash.push(on / off),
            (Ok(_), Ok(_)) => {}
            (Err(why), _) | (_, Err(why)) => leave_out(why),
        }
        let ratio = |of: fn(&Seen) -> Option<f64>| Some(of(on)? / of(off)?);
        writes.extend(ratio(Seen::write_ms));
        reads.extend(ratio(Seen::read_ms));
    }
    Outcome {
        flash: Saving::of(&flash),
        write_time: Saving::of(&writes),
        read_time: Saving::of(&reads),
        left_out,
    }
}

/// Of the flash in a period; nothing where the drive does not count.
pub fn amplification(seen: &Seen) -> Result<Option<f64>, String> {
    let Some(written) = &seen.counters else {
        return Ok(None);
    };
    if let Some(why) = written.disagrees(seen.bytes()).or_else(|| written.impossible()) {
        return Err(why);
    }
    let units = |bytes: u128| bytes / u128::from(written.unit);
    let too_little = || {
        format!(
            "the drive's counters moved by {} and {} of their units: longer periods are needed",
            units(written.host),
            units(written.media)
        )
    };
    written.amplification().map(Some).ok_or_else(too_little)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: logs of 0.8, 0.9, 0.7 are -0.22314, -0.10536, -0.35667; mean -0.22839,
    /// standard deviation 0.12574, half width 4.303 * 0.12574 / sqrt(3) = 0.31238.
    #[test]
    fn three_pairs() {
        let s = Saving::of(&[0.8, 0.9, 0.7]).unwrap();
        assert!((s.saved - 0.20419).abs() < 1e-4, "{s:?}");
        assert!((s.low + 0.08762).abs() < 1e-4, "{s:?}");
        assert!((s.high - 0.41772).abs() < 1e-4, "{s:?}");
        assert!(!s.is_significant());
        assert_eq!(s.pairs_needed, Some(4));
    }

    #[test]
    fn few_pairs_are_no_evidence() {
        let agreeing = |n| Saving::of(&vec![0.8; n]).unwrap().is_significant();
        assert!(!agreeing(2) && !agreeing(3) && agreeing(4));
    }

    #[test]
    fn one_pair_says_nothing() {
        assert_eq!(Saving::of(&[0.5]), None);
        let same = Saving::of(&[1.0, 1.0, 1.0]).unwrap();
        assert!(!same.is_significant());
        assert_eq!((same.saved, same.pairs_needed), (0.0, None));
    }

    #[test]
    fn quantiles_go_on_beyond_the_table() {
        assert!((student(31) - 2.0395).abs() < 1e-3);
        assert!((student(120) - 1.9799).abs() < 1e-3);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What a drive counts of its writes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A counter that has moved by fewer of its units says too little: 2 % of error.
const LEAST_UNITS: u128 = 50;
const LEAST_BYTES: u128 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// The kernel's name of the disk.
    pub drive: String,
    pub counters: Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    Fdp,
    OcpSmart,
    AdditionalSmart,
    SataAttributes,
    /// What a command prints.
    Command,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fdp => "FDP statistics",
            Self::OcpSmart => "OCP's SMART log",
            Self::AdditionalSmart => "the additional SMART log",
            Self::SataAttributes => "SATA attributes",
            Self::Command => "a command",
        })
    }
}

/// Written since the drive was made, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub source: Source,
    pub host: u128,
    pub media: u128,
    /// Where the source has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased: Option<u128>,
    /// The coarser counter moves by so many bytes at a time.
    pub unit: u64,
}

impl Counters {
    /// What was written since `then`; nothing if the drive was exchanged, or counts elsewhere.
    pub fn since(&self, then: &Self) -> Option<Self> {
        (self.source == then.source).then_some(())?;
        Some(Self {
            host: self.host.checked_sub(then.host)?,
            media: self.media.checked_sub(then.media)?,
            erased: None,
            ..*self
        })
    }

    /// Write amplification; nothing while the counters have moved too little for a figure.
    pub fn amplification(&self) -> Option<f64> {
        let least = LEAST_BYTES.max(LEAST_UNITS * u128::from(self.unit));
        (self.host.min(self.media) >= least).then(|| self.media as f64 / self.host as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplification_needs_more_than_a_few_units() {
        let at = |host: u128, media: u128| Counters {
            source: Source::AdditionalSmart,
            host: host << 20,
            media: media << 20,
            erased: None,
            unit: 10 << 20,
        };
        let since = |new: Counters, old: &Counters| new.since(old)?.amplification();
        let then = at(1000, 2000);
        assert_eq!(since(at(1500, 2750), &then), Some(1.5));
        assert_eq!(since(at(1499, 2750), &then), None);
        assert_eq!(since(at(1500, 2499), &then), None);
        assert_eq!(since(at(999, 9000), &then), None, "another drive");
        let other = Counters {
            source: Source::OcpSmart,
            ..at(9000, 9000)
        };
        assert_eq!(since(other, &then), None);
        let fine = Counters {
            unit: 1,
            ..at(1001, 2003)
        };
        assert_eq!(since(fine, &then), Some(3.0));
        let little = Counters {
            host: fine.host - 1,
            ..fine
        };
        assert_eq!(since(little, &then), None);
    }
}

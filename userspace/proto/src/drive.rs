// SPDX-License-Identifier: GPL-2.0-or-later
//! What a drive counts of its writes.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// A counter that has moved by fewer of its units says too little: 2 % of error.
const LEAST_UNITS: u128 = 50;
const LEAST_BYTES: u128 = 1 << 20;
/// Write amplification that a drive can have; some compress.
const POSSIBLE: RangeInclusive<f64> = 0.5..=100.0;
/// In bytes: of less, what the maker's tests have written is too large a part.
const SETTLED: u128 = 64 << 30;

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

    /// What was written after that, by the same source.
    pub fn add(&mut self, next: &Self) {
        self.host += next.host;
        self.media += next.media;
    }

    /// Bytes from which on a counter says something.
    fn least(&self) -> u128 {
        LEAST_BYTES.max(LEAST_UNITS * u128::from(self.unit))
    }

    /// Write amplification; nothing while the counters have moved too little for a figure, or
    /// give one that no drive has.
    pub fn amplification(&self) -> Option<f64> {
        let enough = self.host.min(self.media) >= self.least();
        (enough && self.impossible().is_none()).then(|| self.media as f64 / self.host as f64)
    }

    /// Why these are not what they are taken for, if they cannot be.
    pub fn impossible(&self) -> Option<String> {
        let Self { host, media, .. } = self;
        if (*host).max(*media) < self.least() {
            return None;
        }
        let ratio = *media as f64 / *host as f64;
        (!POSSIBLE.contains(&ratio)).then(|| {
            format!(
                "its counters say {host} bytes from hosts and {media} of flash, a write amplification of {ratio:.1}, \
                 and {} to {} is possible: one of them is in another unit, or does not count",
                POSSIBLE.start(),
                POSSIBLE.end()
            )
        })
    }

    /// The same of what was counted since the drive was made.
    pub fn impossible_for_life(&self) -> Option<String> {
        self.impossible().filter(|_| self.host.max(self.media) >= SETTLED)
    }

    /// Why they are not what they are taken for, if this machine has written so many bytes to
    /// the drive meanwhile.  Others may have written, too.
    pub fn disagrees(&self, written: u64) -> Option<String> {
        let (host, written) = (self.host, u128::from(written));
        (written >= self.least() && host < written / 2).then(|| {
            format!(
                "the drive counted {host} bytes from hosts while this machine wrote {written}: \
                 the counter is in another unit, or does not count"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(host: u128, media: u128, unit: u64) -> Counters {
        Counters {
            source: Source::SataAttributes,
            host,
            media,
            erased: None,
            unit,
        }
    }

    /// Attribute 241 in 32 MiB under the name that smartmontools gives to every 241.
    #[test]
    fn counters_in_another_unit() {
        const GIB: u64 = 1 << 30;
        let wrong = counted(1_233_000 * 512, 57_000 << 30, GIB);
        let why = wrong.impossible_for_life().unwrap();
        assert!(
            why.contains("a write amplification of 96948.6, and 0.5 to 100 is possible"),
            "{why}"
        );
        assert_eq!(wrong.amplification(), None);
        let stuck = counted(100 << 30, 0, 1);
        assert!(stuck
            .impossible_for_life()
            .unwrap()
            .contains("amplification of 0.0,"));
        assert!(counted(0, 100 << 30, 1)
            .impossible_for_life()
            .unwrap()
            .contains("amplification of inf,"));
        for (host, media) in [(100, 50), (100, 10_000), (0, 0)] {
            assert_eq!(counted(host << 30, media << 30, GIB).impossible_for_life(), None);
        }
        // A new drive, which its maker has tested
        let new = counted(1 << 20, 5 << 30, 1);
        assert_eq!((new.impossible_for_life(), new.amplification()), (None, None));
        assert!(new.impossible().is_some());
    }

    #[test]
    fn what_the_kernel_has_written_meanwhile() {
        let disagrees = |host, written| counted(host, host, 1 << 20).disagrees(written);
        assert_eq!(disagrees(100 << 20, 200 << 20), None, "of write caches");
        assert_eq!(disagrees(900 << 20, 200 << 20), None, "others write, too");
        assert_eq!(disagrees(0, 49 << 20), None, "too little to say");
        let why = disagrees(1 << 20, 200 << 20).unwrap();
        assert!(why
            .starts_with("the drive counted 1048576 bytes from hosts while this machine wrote 209715200: "));
    }

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

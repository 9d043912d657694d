// SPDX-License-Identifier: GPL-2.0-or-later
//! What a drive counts of itself, as a second witness of what reads say.

use serde::Serialize;

use super::{Place, ProbeTrial};

/// Counts at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// What the namespace has allocated.
    pub used: Option<u64>,
    /// NAND writes.
    pub media: Option<u128>,
    /// What the block layer has written to the drive, where it counts that.
    pub written: Option<u64>,
}

/// What the witnesses say of a trial's discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Freed {
    /// By the count of allocated blocks.
    Nuse,
    /// By the flash's count, which did not rise.
    Media,
    No,
    Unknown,
}

/// Which counts move at all; some drives have one that always says the same.
#[derive(Debug, Default)]
pub(super) struct MovingCounts {
    used: bool,
    media: bool,
}

/// A share of what was discarded that is as good as all, or as none.
const ALL: f64 = 7.0 / 8.0;
const NONE: f64 = 1.0 / 8.0;

fn fell(before: &Witness, after: &Witness) -> Option<i128> {
    Some(i128::from(before.used?) - i128::from(after.used?))
}

fn wrote(before: &Witness, after: &Witness) -> Option<u64> {
    Some(after.written?.saturating_sub(before.written?))
}

fn rose(before: &Witness, after: &Witness) -> Option<u128> {
    Some(after.media?.saturating_sub(before.media?))
}

impl MovingCounts {
    /// So much was written or discarded between two counts.
    pub(super) fn see(&mut self, before: &Witness, after: &Witness, bytes: u64) {
        let enough = u128::from(bytes / 4).max(1);
        self.used |= fell(before, after).is_some_and(|n| n.unsigned_abs() >= enough);
        let written = wrote(before, after).is_some_and(|n| n >= bytes / 2);
        self.media |= written && rose(before, after).is_some_and(|n| n >= enough);
    }

    /// Whether there is nothing to wait for.
    pub(super) fn is_steady(&self, before: &Witness, after: &Witness, places: &[Place]) -> bool {
        let bytes: u64 = places.iter().map(|(_, range)| range.end - range.start).sum();
        !self.used || fell(before, after).is_none_or(|n| n as f64 >= ALL * bytes as f64)
    }

    pub(super) fn judge(
        &self,
        bytes: u64,
        discarded: u64,
        gone: u64,
        before: &Witness,
        after: &Witness,
    ) -> ProbeTrial {
        let mut trial = ProbeTrial {
            bytes,
            discarded_bytes: discarded,
            gone_bytes: gone,
            nuse_fell_bytes: fell(before, after).filter(|_| self.used),
            media_wrote_bytes: rose(before, after).filter(|_| self.media),
            others_bytes: wrote(before, after),
            freed: Freed::Unknown,
        };
        trial.freed = trial.judge();
        trial
    }
}

impl ProbeTrial {
    /// Somebody else wrote so much that the witnesses say little.
    pub(crate) fn is_disturbed(&self) -> bool {
        let witnesses = self.nuse_fell_bytes.is_some() || self.media_wrote_bytes.is_some();
        let much = NONE * self.discarded_bytes as f64;
        witnesses && self.others_bytes.is_some_and(|n| n as f64 > much)
    }

    /// Whether the flash wrote about as much as was discarded.
    pub(crate) fn media_rose(&self) -> bool {
        self.media_wrote_bytes
            .is_some_and(|n| n as f64 >= 0.5 * self.discarded_bytes as f64)
    }

    /// What is freed in part is not freed at this length.
    fn judge(&self) -> Freed {
        if self.discarded_bytes == 0 || self.others_bytes.is_none() || self.is_disturbed() {
            return Freed::Unknown;
        }
        match self.nuse_fell_bytes {
            Some(n) if n as f64 >= ALL * self.discarded_bytes as f64 => return Freed::Nuse,
            Some(_) => return Freed::No,
            None => {}
        }
        match self.media_wrote_bytes {
            Some(_) if self.media_rose() => Freed::No,
            Some(_) => Freed::Media,
            None => Freed::Unknown,
        }
    }
}

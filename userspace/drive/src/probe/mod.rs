// SPDX-License-Identifier: GPL-2.0-or-later
//! Which discards a drive takes: measured, since what it says of them is a preference.
//!
//! A pattern is written, pieces of it are discarded, and all of it is read back: pages that
//! are gone were taken.  Pages beside a piece must be as they were.  What reads as zeroes
//! may still have its place on the flash; of that the namespace's count of allocated blocks
//! (NUSE) or the flash's own count of written bytes is the witness, if the drive has one.

mod counts;
mod pattern;
mod shape;
#[cfg(test)]
mod tests;
mod witness;

use std::io;
use std::ops::Range;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use serde::Serialize;

use crate::aligned::Aligned;
use crate::deallocate::Promise;
pub use counts::DriveCounts;
pub use pattern::Page;
use pattern::Pattern;
use runtime::sizes::shown;
use shape::Shape;
use witness::Freed;
pub use witness::Witness;

pub const PAGE: u64 = 4096;
/// A piece at most.
const LARGEST: u64 = 512 << 10;
/// A slot has one piece behind its middle, with pages beside it, or several.
pub const SLOT: u64 = 2 << 20;
const MIDDLE: u64 = SLOT / 2;
/// At either end of a slot nothing is discarded: what a drive does to neighbours of a piece, it
/// does to pages that are looked at, and not to somebody else's.
const MARGIN: u64 = 256 << 10;
/// What a piece begins behind the middle, beside half of its length.
const OFFSETS: [u64; 5] = [0, 4 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Slots that are worth having.
pub const SLOTS: usize = 48;
/// Ranges that are discarded together, as NVMe takes them in a command.
const COMMAND: usize = 256;
/// How often a round is repeated that something else has disturbed.
const ATTEMPTS: u32 = 3;

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// For the medium.
    pub at: u64,
    /// As the drive counts, a multiple of [`SLOT`].
    pub device: u64,
}

/// What came of discards.
#[derive(Default)]
pub struct ProbeSent {
    /// What went to the drive, and not only to a layer above it.
    pub bytes: u64,
    pub took: Duration,
}

/// What can be written, discarded and read past all caches.  An error ends the measurement.
pub trait Medium {
    fn slots(&self) -> Vec<Slot>;
    fn write(&mut self, at: u64, data: &Aligned) -> io::Result<()>;
    fn read(&mut self, at: u64, data: &mut [u8]) -> io::Result<()>;
    /// Everything is on the drive afterwards, and not only in its write buffer.
    fn sync(&mut self) -> Result<()>;
    /// Begins a round.
    fn begin(&mut self) -> Result<()>;
    /// Returns when the drive is done with all of them.
    fn discard(&mut self, ranges: &[Range<u64>]) -> Result<ProbeSent>;
    /// Whether the slots are still where they were.
    fn is_undisturbed(&mut self) -> Result<bool>;
    fn witness(&mut self) -> Result<Witness>;
    /// A drive may be late.  An error: it was interrupted.
    fn wait(&mut self) -> Result<()>;
}

/// What is known of the drive before.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    pub promise: Promise,
    /// A piece at least.
    pub smallest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Taken,
    NotTaken,
    NotDecidable,
    /// What was beside a piece has changed.
    Broken,
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// What is read, and nothing else.
    Reads,
    /// The drive promises what deallocated blocks read as, and these do not.
    Promise,
    /// The namespace's count of allocated blocks.
    Nuse,
    /// The flash's count of written bytes.
    Media,
    /// Reads that fail.
    Errors,
}

/// A discard, and what was read of it afterwards.
#[derive(Clone, Debug, Serialize)]
pub struct ProbedPiece {
    pub bytes: u64,
    /// Behind an address that is aligned to 1 MiB.
    pub offset: u64,
    pub sent: bool,
    #[serde(skip)]
    device: u64,
    #[serde(skip)]
    pages: Vec<Page>,
    pub gone_bytes: u64,
    odd_bytes: u64,
}

impl ProbedPiece {
    fn is_whole(&self) -> bool {
        self.gone_bytes == self.bytes
    }
}

/// Many pieces of one length with as much between them, and what the witnesses say.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeTrial {
    pub bytes: u64,
    pub discarded_bytes: u64,
    pub gone_bytes: u64,
    pub nuse_fell_bytes: Option<i128>,
    pub media_wrote_bytes: Option<u128>,
    /// What somebody else wrote to the drive meanwhile; `None`: the kernel does not count it.
    pub others_bytes: Option<u64>,
    pub freed: Freed,
}

#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub verdict: Verdict,
    pub proof: Option<Proof>,
    pub reason: String,
    /// What a discard's length is a multiple of, and its begin.
    pub granularity: Option<u64>,
    pub alignment: Option<u64>,
    pub changed_beside_bytes: u64,
    pub slowest_ms: u64,
    pub pieces: Vec<ProbedPiece>,
    pub trials: Vec<ProbeTrial>,
}

/// Where to discard: a slot's number, and the bytes of it.
type Place = (usize, Range<u64>);

/// What was read of the slots of a round, and counted.
struct Round {
    slots: Vec<Vec<Page>>,
    /// Bytes, of each call.
    sent: Vec<u64>,
    before: Witness,
    after: Witness,
}

impl Round {
    fn of(&self, (slot, range): &Place) -> &[Page] {
        &self.slots[*slot][(range.start / PAGE) as usize..(range.end / PAGE) as usize]
    }
}

/// Why a measurement ends early.
enum Stop {
    Broken(u64),
    Slow(Duration),
    Disturbed,
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(e: anyhow::Error) -> Self {
        Self::Failed(e)
    }
}

struct Probe<'a> {
    medium: &'a mut dyn Medium,
    said: Said,
    slots: Vec<Slot>,
    /// Of all discards of a round together.
    limit: Duration,
    seed: u64,
    counted: witness::MovingCounts,
    slowest: Duration,
    pieces: Vec<ProbedPiece>,
    trials: Vec<ProbeTrial>,
}

/// Measures.  A drive on which the discards of a round take
/// longer than `limit` is none for discards.
pub fn run(medium: &mut dyn Medium, said: Said, limit: Duration) -> Result<Measured> {
    let slots = medium.slots();
    if slots.is_empty() {
        bail!("no {} in a row lie at a multiple of it", shown(SLOT));
    }
    let mut probe = Probe {
        medium,
        said,
        slots,
        limit,
        seed: fastrand::u64(..),
        counted: witness::MovingCounts::default(),
        slowest: Duration::ZERO,
        pieces: Vec::new(),
        trials: Vec::new(),
    };
    let judged = probe.pieces().and_then(|()| probe.judge());
    let judged = judged.or_else(Measured::stopped)?;
    Ok(Measured {
        slowest_ms: probe.slowest.as_millis() as u64,
        pieces: probe.pieces,
        trials: probe.trials,
        ..judged
    })
}

impl Measured {
    /// Without what was seen.
    fn new(verdict: Verdict, proof: Option<Proof>, reason: impl Into<String>) -> Self {
        Self {
            verdict,
            proof,
            reason: reason.into(),
            granularity: None,
            alignment: None,
            changed_beside_bytes: 0,
            slowest_ms: 0,
            pieces: Vec::new(),
            trials: Vec::new(),
        }
    }

    fn taken(proof: Proof, granularity: u64, alignment: u64, why: &str) -> Self {
        let at = match alignment {
            PAGE => "that begin anywhere".to_owned(),
            a => format!("that begin at a multiple of {}", shown(a)),
        };
        let reason = format!("pieces of {} are taken {at}: {why}", shown(granularity));
        Self {
            granularity: Some(granularity),
            alignment: Some(alignment),
            ..Self::new(Verdict::Taken, Some(proof), reason)
        }
    }

    fn stopped(stop: Stop) -> Result<Self> {
        let (verdict, beside, reason) = match stop {
            Stop::Broken(beside) => (
                Verdict::Broken,
                beside,
                format!(
                    "{} beside what was discarded changed: the drive, or a layer above it, is broken, and nothing may be discarded on it",
                    shown(beside)
                ),
            ),
            Stop::Slow(most) => (
                Verdict::NotDecidable,
                0,
                format!(
                    "the discards took too long, one of them {:.1} s: leave discards off on this drive",
                    most.as_secs_f64()
                ),
            ),
            Stop::Disturbed => (
                Verdict::NotDecidable,
                0,
                format!("the file system moved the scratch file {ATTEMPTS} times meanwhile"),
            ),
            Stop::Failed(e) => return Err(e),
        };
        Ok(Self {
            changed_beside_bytes: beside,
            ..Self::new(verdict, None, reason)
        })
    }
}

impl Probe<'_> {
    /// One piece in each slot.
    fn pieces(&mut self) -> Result<(), Stop> {
        let mut wanted = Vec::new();
        for bytes in self.sizes() {
            let mut offsets = OFFSETS.to_vec();
            if bytes / 2 >= PAGE && !offsets.contains(&(bytes / 2)) {
                offsets.push(bytes / 2);
            }
            wanted.extend(offsets.into_iter().map(|offset| (bytes, offset)));
        }
        for some in wanted.chunks(self.slots.len()) {
            let places: Vec<Place> = (0..)
                .zip(some)
                .map(|(slot, (bytes, offset))| (slot, MIDDLE + offset..MIDDLE + offset + bytes))
                .collect();
            let round = self.round(&places, 1)?;
            for ((place, sent), (bytes, offset)) in places.iter().zip(&round.sent).zip(some) {
                let pages = round.of(place).to_vec();
                let count =
                    |of: &dyn Fn(Page) -> bool| pages.iter().filter(|p| of(**p)).count() as u64 * PAGE;
                self.pieces.push(ProbedPiece {
                    bytes: *bytes,
                    offset: *offset,
                    sent: sent == bytes,
                    device: self.slots[place.0].device + place.1.start,
                    gone_bytes: count(&Page::is_gone),
                    odd_bytes: count(&|p| p == Page::Odd),
                    pages,
                });
            }
        }
        Ok(())
    }

    fn sizes(&self) -> impl Iterator<Item = u64> {
        let first = self.said.smallest.max(PAGE).next_power_of_two();
        std::iter::successors(Some(first), |n| Some(n * 2)).take_while(|n| *n <= LARGEST)
    }

    /// Writes the pattern, discards so many `together`, and reads; once more if something
    /// came in between.
    fn round(&mut self, places: &[Place], together: usize) -> Result<Round, Stop> {
        for _ in 0..ATTEMPTS {
            let round = self.attempt(places, together)?;
            if self.medium.is_undisturbed()? {
                return Ok(round);
            }
        }
        Err(Stop::Disturbed)
    }

    fn attempt(&mut self, places: &[Place], together: usize) -> Result<Round, Stop> {
        self.seed = self.seed.wrapping_add(1);
        let pattern = Pattern(self.seed.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let used = places.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
        let mut data = Aligned::zeroed(SLOT as usize);
        let empty = self.medium.witness()?;
        for slot in &self.slots[..used] {
            pattern.fill(slot.at, &mut data);
            self.medium.write(slot.at, &data).context("cannot write")?;
        }
        self.medium.sync()?;
        self.medium.begin()?;
        let before = self.medium.witness()?;
        self.counted.see(&empty, &before, used as u64 * SLOT);

        let mut sent = Vec::new();
        let mut took = Duration::ZERO;
        for some in places.chunks(together) {
            let ranges = some.iter().map(|(slot, r)| {
                let at = self.slots[*slot].at;
                at + r.start..at + r.end
            });
            let done = self.medium.discard(&ranges.collect::<Vec<_>>())?;
            sent.push(done.bytes);
            took += done.took;
            self.slowest = self.slowest.max(done.took);
            if took > self.limit {
                return Err(Stop::Slow(self.slowest));
            }
        }
        let mut round = Round {
            slots: self.read(pattern, used, &mut data)?,
            sent,
            before,
            after: self.medium.witness()?,
        };
        let late = places
            .iter()
            .any(|place| !round.of(place).iter().all(|p| p.is_gone()))
            || !self.counted.is_steady(&round.before, &round.after, places);
        if late {
            self.medium.wait()?;
            round.slots = self.read(pattern, used, &mut data)?;
            round.after = self.medium.witness()?;
        }
        self.counted.see(&round.before, &round.after, used as u64 * SLOT);
        match beside(&round.slots, places) {
            0 => Ok(round),
            bytes => Err(Stop::Broken(bytes)),
        }
    }

    fn read(&mut self, pattern: Pattern, slots: usize, data: &mut Aligned) -> Result<Vec<Vec<Page>>> {
        let page = PAGE as usize;
        let mut all = Vec::new();
        for slot in &self.slots[..slots] {
            let at = |n: usize| slot.at + n as u64 * PAGE;
            let whole = self.medium.read(slot.at, data).is_ok();
            let mut pages = Vec::new();
            for (n, page) in data.chunks_exact_mut(page).enumerate() {
                let read = whole || self.medium.read(at(n), page).is_ok();
                pages.push(if read {
                    pattern.page(at(n), page)
                } else {
                    Page::Failed
                });
            }
            all.push(pages);
        }
        Ok(all)
    }

    /// What the pieces come to.
    fn judge(&mut self) -> Result<Measured, Stop> {
        if !self.pieces.iter().any(|p| p.sent) {
            let reason = "none of the discards was sent to the drive";
            return Ok(Measured::new(Verdict::NotDecidable, None, reason));
        }
        if self.pieces.iter().any(|p| p.pages.contains(&Page::Failed)) {
            let reason = "reads of what was discarded fail (DULBE): it was taken, but copies of whole files would end in errors, so that dsmd discards nothing here";
            return Ok(Measured::new(Verdict::Taken, Some(Proof::Errors), reason));
        }
        if self.pieces.iter().any(|p| p.odd_bytes > 0) {
            let reason = "pages of the pieces read neither as before nor as zeroes or ones";
            return Ok(Measured::new(Verdict::NotDecidable, None, reason));
        }
        match shape::of(&self.pieces) {
            Shape::Whole { granularity, alignment } => self.confirm(granularity, alignment, true),
            Shape::Nothing if self.said.promise == Promise::Nothing => {
                let first = self.said.smallest.max(PAGE).next_power_of_two();
                self.confirm(first, first, false)
            }
            Shape::Nothing => Ok(Measured::new(
                Verdict::NotTaken,
                Some(Proof::Promise),
                format!(
                    "all pieces up to {} read as before, and the drive promises that deallocated blocks do not",
                    shown(LARGEST)
                ),
            )),
            Shape::Units { unit, begin } => Ok(Measured::new(
                Verdict::NotDecidable,
                Some(Proof::Reads),
                format!(
                    "whole units of {} are taken that begin {} behind multiples of it, which no feature of dsm can state{}",
                    shown(unit),
                    shown(begin),
                    if begin > 0 { ": align the partition, or the device, to it" } else { "" }
                ),
            )),
            Shape::Irregular => Ok(Measured::new(
                Verdict::NotDecidable,
                None,
                "some pieces are taken in part, by no rule: the drive does as it likes",
            )),
        }
    }

    /// Whether lengths from `granularity` on are freed, as the witnesses have it.
    /// `read`: the pieces read as if.
    fn confirm(&mut self, granularity: u64, alignment: u64, read: bool) -> Result<Measured, Stop> {
        let (mut granularity, mut alignment) = (granularity, alignment);
        while granularity <= LARGEST {
            let freed = self.trial(granularity, alignment)?;
            let (proof, why) = match freed {
                Freed::Nuse => (
                    Proof::Nuse,
                    "the count of allocated blocks (NUSE) falls by as much",
                ),
                Freed::Media if read => (
                    Proof::Media,
                    "they read as deallocated, and the flash writes nothing for them",
                ),
                Freed::Unknown if read => (
                    Proof::Reads,
                    "they read as deallocated; whether the flash is freed, no counter of the drive says",
                ),
                Freed::Media | Freed::Unknown => {
                    let reason = "the pieces read as before, which says nothing: the drive does not promise what deallocated blocks read as, and does not count what is allocated";
                    return Ok(Measured::new(Verdict::NotDecidable, None, reason));
                }
                Freed::No => {
                    granularity *= 2;
                    alignment = granularity;
                    continue;
                }
            };
            return Ok(Measured::taken(proof, granularity, alignment, why));
        }
        let wrote = self.trials.iter().any(|t| t.freed == Freed::No && t.media_rose());
        let (proof, reason) = match (read, wrote) {
            (true, true) => (Proof::Media, "the pieces read as zeroes, and the flash writes as much: nothing is freed"),
            (true, false) => (Proof::Nuse, "the pieces read as zeroes, and the count of allocated blocks (NUSE) does not fall: nothing is freed"),
            (false, _) => (Proof::Nuse, "the pieces read as before, and the count of allocated blocks (NUSE) does not fall"),
        };
        Ok(Measured::new(Verdict::NotTaken, Some(proof), reason))
    }

    /// Every other piece of that length, in all slots.
    fn trial(&mut self, bytes: u64, alignment: u64) -> Result<Freed, Stop> {
        let first = MARGIN.next_multiple_of(bytes) + if alignment < bytes { alignment } else { 0 };
        let mut places: Vec<Place> = Vec::new();
        for slot in 0..self.slots.len() {
            let begins = (0..).map(|n| first + 2 * n * bytes);
            let ranges = begins
                .map(|at| at..at + bytes)
                .take_while(|r| r.end <= SLOT - MARGIN);
            places.extend(ranges.map(|range| (slot, range)));
        }
        let mut freed = Freed::Unknown;
        for _ in 0..ATTEMPTS {
            let round = self.round(&places, COMMAND)?;
            let discarded = round.sent.iter().sum();
            let gone = |place| round.of(place).iter().filter(|p| p.is_gone()).count() as u64 * PAGE;
            let trial = self.counted.judge(
                bytes,
                discarded,
                places.iter().map(gone).sum(),
                &round.before,
                &round.after,
            );
            freed = trial.freed;
            let disturbed = trial.is_disturbed();
            self.trials.push(trial);
            if !disturbed {
                break;
            }
        }
        Ok(freed)
    }
}

/// Bytes outside of all places that are not as they were.
fn beside(slots: &[Vec<Page>], places: &[Place]) -> u64 {
    let mut changed = 0;
    for (n, pages) in slots.iter().enumerate() {
        let mut inside = vec![false; pages.len()];
        for (_, range) in places.iter().filter(|(slot, _)| *slot == n) {
            inside[(range.start / PAGE) as usize..(range.end / PAGE) as usize].fill(true);
        }
        let outside = pages.iter().zip(inside).filter(|(_, inside)| !inside);
        changed += outside.filter(|(p, _)| **p != Page::AsBefore).count() as u64 * PAGE;
    }
    changed
}

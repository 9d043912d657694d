// SPDX-License-Identifier: GPL-2.0-or-later
//! The audit: whether this database writes what the rule discards before it uses it again.
//!
//! The rule rests on what WiredTiger does, and this is looked at.  Of a file with the lists
//! `avail(K°)` and `avail(K)` the pages of `avail(K°)` that are not in `avail(K)`, below the
//! size in `K`, are *taken*: they were free, and are in use.  Each was discarded at the last look,
//! or would have been, by a *claim*: nobody needs what the drive has there unless it was written since
//! a window.  The target is asked which pages were written since the window of their claim.
//!
//! **A page in use must have been written.**  If it was not, then what somebody needs at it is what
//! the claim discards.  This is seen whichever part of the proof does not hold, as long as what
//! needs the page stays, and whether anything was sent or not.
//!
//! **When there is no alarm.**  Let `p` be taken and not written at the look at `K`.  Its block may
//! have been handed out, and its write be on the way, so that `p` is only a *suspect*.  The
//! next checkpoint of the file begins when WiredTiger has waited for the evictions under
//! way (`__wt_sync_file()`), and syncs the file before the turtle is written.  So if `p` is not
//! free in that one either, is at the same place and the file's alone, and has not been written since
//! the last look, then a page is in use that nobody has written: a *violation*.  What is at another
//! place by then, cut off, dropped or shared is no suspect any more, nor is what the target cannot
//! have followed: a page without bits is neither written nor untouched.
//!
//! **What counts** for the database are pages that were sent, or would have been: nobody had written
//! them then; and that were taken later, at the same place, and were seen to be written.
//!
//! **What it does not see**: errors in the target's own bits; who reads the device past
//! WiredTiger; a page that is taken and given back between two looks; what older checkpoints
//! need beside the newest; a salvage, after which a file's checkpoints begin anew.

use std::ops::Range;
use std::path::{Path, PathBuf};

use database::wiredtiger::avail::{without, FreeList, Standing};
use dm::device::Target;
use dm::table::{Extent, SectorRange};

use super::permit::message;
use super::{places, tidy, whole_pages, Halt, Known, Windows};

/// Ranges in a message.
const ASK: usize = 4096;
const PAGE_SECTORS: u64 = super::PAGE / 512;

/// Pages that were listed at a look and not written since a window may be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub since: u64,
    /// The list before had not named them.
    pub is_fresh: bool,
}

/// What was seen of one process, in one run.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Pages that were seen to be written before they were used again, and at how many
    /// checkpoints.
    pub pages: u64,
    pub checkpoints: u32,
    /// `None`: nobody has looked.
    pub standing: Option<Standing>,
}

impl Evidence {
    pub(super) fn add(&mut self, seen: Seen, standing: Standing) {
        self.pages += seen.written;
        self.checkpoints += u32::from(seen.written > 0);
        self.standing = Some(standing);
    }
}

/// A database uses a page that it has not written: discarding it would have lost data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub path: PathBuf,
    /// In bytes, of the first of so many pages.
    pub offset: u64,
    pub pages: u64,
    /// Of the checkpoints that use it.
    pub orders: (u64, u64),
    /// Of WiredTiger.
    pub version: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, second) = self.orders;
        write!(
            f,
            "{}: checkpoints {first} and {second} use {} pages that were free and that nobody has written since, the first at byte {} (WiredTiger {})",
            self.path.display(),
            self.pages,
            self.offset,
            self.version
        )
    }
}

/// What a look has seen, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Of those that were sent, or would have been.
    pub taken: u64,
    /// Of these.
    pub written: u64,
}

/// A piece of a file in use that nobody had written at the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspect {
    piece: Extent,
    /// Of the checkpoint that uses it.
    order: u64,
}

impl Suspect {
    pub(super) fn pages(&self) -> u64 {
        pages(self.piece.at())
    }

    /// What of it is not on a list.
    pub(super) fn still(&self, list: &FreeList) -> Vec<Range<u64>> {
        let bytes = Vec::from([self.piece.bytes()]);
        whole_pages(&without(&bytes, &list.extents, list.file_size))
    }
}

/// Those of a file.
pub(super) type Suspects = (PathBuf, Vec<Suspect>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    /// Listed by the last checkpoint of the file.  It counts if it was sent, and is suspected
    /// if it has a claim.
    Free { counts: bool, has_claim: bool },
    /// A suspect; `renewed`: a later checkpoint than its own uses it.
    Suspect { order: u64, renewed: bool },
}

#[derive(Debug, PartialEq, Eq)]
struct Question {
    file: usize,
    piece: Extent,
    since: u64,
    was: Was,
}

/// What a look asks the target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Questions {
    files: Vec<(PathBuf, u64)>,
    questions: Vec<Question>,
}

/// Whole pages in a range.
fn pages(at: SectorRange) -> u64 {
    ((at.start + at.length) / PAGE_SECTORS).saturating_sub(at.start.div_ceil(PAGE_SECTORS))
}

fn both(these: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    without(these, &without(these, others, u64::MAX), u64::MAX)
}

/// How many whole pages of a range lie in sorted ranges.
fn pages_in(at: SectorRange, ranges: &[SectorRange]) -> u64 {
    let first = ranges.partition_point(|r| r.end() <= at.start);
    ranges[first..]
        .iter()
        .map_while(|r| at.common(r))
        .map(pages)
        .sum()
}

impl Questions {
    fn of_file(&mut self, path: &Path, order: u64) -> usize {
        if self.files.last().is_none_or(|(last, _)| last != path) {
            self.files.push((path.to_owned(), order));
        }
        self.files.len() - 1
    }

    /// A suspect of a file whose checkpoint is the same.
    pub(super) fn still(&mut self, path: &Path, suspect: Suspect, last: Option<u64>) {
        let Some(since) = last else { return };
        let was = Was::Suspect {
            order: suspect.order,
            renewed: false,
        };
        let file = self.of_file(path, suspect.order);
        self.questions.push(Question {
            file,
            piece: suspect.piece,
            since,
            was,
        });
    }

    /// A new checkpoint of a file, where `taken` are in use that were free before; `sent` has
    /// what of them was sent, `at` the places of all of these now, and of suspects.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn file(
        &mut self,
        path: &Path,
        order: u64,
        old: &Known,
        sent: &[Extent],
        taken: &[Range<u64>],
        list: &FreeList,
        at: &[Extent],
        windows: &Windows,
    ) {
        let file = self.of_file(path, order);
        let fresh = both(taken, &old.fresh.bytes());
        let rest = without(taken, &fresh, u64::MAX);
        for (ranges, claim) in [(&fresh, old.fresh_claim), (&rest, old.rest_claim)] {
            let claim = claim.filter(|c| c.since >= windows.valid);
            let Some(since) = claim.map(|c| c.since).or(windows.last) else {
                continue;
            };
            let has_claim = claim.is_some();
            places::of_ranges(at, ranges, &mut |piece| {
                // Where it lay when it was sent
                let mut counted = Vec::new();
                places::of_ranges(sent, &[piece.bytes()], &mut |s| {
                    if s.base() == piece.base() {
                        counted.push(s.bytes());
                    }
                });
                let others = without(&[piece.bytes()], &counted, u64::MAX);
                let parts = counted.into_iter().map(|bytes| (bytes, true));
                for (bytes, counts) in parts.chain(others.into_iter().map(|bytes| (bytes, false))) {
                    if counts || has_claim {
                        self.questions.push(Question {
                            file,
                            piece: piece.part(bytes),
                            since,
                            was: Was::Free { counts, has_claim },
                        });
                    }
                }
            });
        }
        let Some(since) = windows.last else { return };
        for suspect in &old.suspects {
            places::of_ranges(at, &suspect.still(list), &mut |piece| {
                if piece.base() == suspect.piece.base() {
                    let was = Was::Suspect {
                        order: suspect.order,
                        renewed: true,
                    };
                    self.questions.push(Question {
                        file,
                        piece,
                        since,
                        was,
                    });
                }
            });
        }
    }

    /// Asks the target; what was seen, and who is suspected from now on.
    pub(super) fn ask(mut self, target: &dyn Target, version: &str) -> Result<(Seen, Vec<Suspects>), Halt> {
        let asked: Vec<(u64, SectorRange)> = self.questions.iter().map(|q| (q.since, q.piece.at())).collect();
        let answer = written(target, &asked)?;
        let (mut seen, mut suspects) = (Seen::default(), vec![Vec::new(); self.files.len()]);
        let mut violations: Vec<(usize, Extent, u64)> = Vec::new();
        for q in &self.questions {
            let first = answer.untouched.partition_point(|u| u.end() <= q.piece.start);
            let parts = answer.untouched[first..].iter().map_while(|u| q.piece.within(u));
            let untouched: Vec<Extent> = parts.filter(|p| pages(p.at()) > 0).collect();
            let bad: u64 = untouched.iter().map(|p| pages(p.at())).sum();
            let mut suspect = |order| {
                suspects[q.file].extend(untouched.iter().map(|&piece| Suspect { piece, order }));
            };
            match q.was {
                Was::Free { counts, has_claim } => {
                    let unknown = pages_in(q.piece.at(), &answer.unknown);
                    let written = pages(q.piece.at()) - bad - unknown;
                    if counts {
                        seen.written += written;
                        seen.taken += written + if has_claim { bad } else { 0 };
                    }
                    if has_claim {
                        suspect(self.files[q.file].1);
                    }
                }
                Was::Suspect {
                    order,
                    renewed: false,
                } => suspect(order),
                Was::Suspect { order, renewed: true } => {
                    violations.extend(untouched.iter().map(|&piece| (q.file, piece, order)));
                }
            }
        }
        let Some((file, ..)) = violations.iter().min_by_key(|v| v.0) else {
            let files = self.files.drain(..).map(|(path, _)| path);
            return Ok((seen, files.zip(suspects).collect()));
        };
        let (path, order) = &self.files[*file];
        let of_file = violations.iter().filter(|v| v.0 == *file);
        Err(Halt::Violation(Violation {
            path: path.clone(),
            offset: of_file
                .clone()
                .map(|v| v.1.bytes().start)
                .min()
                .unwrap_or_default(),
            pages: of_file.clone().map(|v| pages(v.1.at())).sum(),
            orders: (of_file.map(|v| v.2).min().unwrap_or_default(), *order),
            version: version.to_owned(),
        }))
    }
}

/// Which whole pages of some ranges nobody was seen to write; sorted by place.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The target has followed all writes, and there was none.
    pub untouched: Vec<SectorRange>,
    /// It has not.
    pub unknown: Vec<SectorRange>,
}

/// Asks which pages were written since the window of their range.  The ranges do not overlap.
pub fn written(target: &dyn Target, ranges: &[(u64, SectorRange)]) -> Result<Answer, Halt> {
    let mut answer = Answer::default();
    for some in ranges.chunks(ASK) {
        written_in(target, some, &mut answer)?;
    }
    tidy(&mut answer.untouched);
    tidy(&mut answer.unknown);
    Ok(answer)
}

fn written_in(target: &dyn Target, ranges: &[(u64, SectorRange)], answer: &mut Answer) -> Result<(), Halt> {
    let reply = target.message(&message("written", ranges))?;
    let malformed = || {
        Halt::from(format!(
            "the kernel module's reply to `written` cannot be read: {reply}"
        ))
    };
    let range = |word: &str| {
        let (start, length) = word.split_once(':')?;
        Some(SectorRange {
            start: start.parse().ok()?,
            length: length.parse().ok()?,
        })
    };
    let words: Vec<&str> = reply.split_ascii_whitespace().collect();
    let ["written", words @ .., count] = &words[..] else {
        return Err(malformed());
    };
    let mut all: u64 = count.parse().map_err(|_| malformed())?;
    for word in words {
        let (list, word) = match (word.strip_prefix('-'), word.strip_prefix('?')) {
            (Some(word), _) => (&mut answer.untouched, word),
            (_, Some(word)) => (&mut answer.unknown, word),
            _ => return Err(malformed()),
        };
        let at = range(word).ok_or_else(malformed)?;
        all += pages(at);
        list.push(at);
    }
    // Neighbours are one in the message.
    let asked: u64 = ranges.iter().map(|(_, at)| pages(*at)).sum();
    match all >= asked {
        true => Ok(()),
        false => Err(malformed()),
    }
}

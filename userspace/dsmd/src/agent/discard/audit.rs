// SPDX-License-Identifier: GPL-2.0-or-later
//! The audit: whether this database writes what the rule discards before it uses it again.
//!
//! The rule rests on what WiredTiger does, and this is looked at.  Of a file with the lists
//! `avail(K)` and `avail(K')` the pages of `avail(K)` that are not in `avail(K')`, below the
//! size in `K'`, are *taken*: they were free, and are in use.  The target knows which pages
//! are *dead*: a `discard` has named them, and nothing has written them since the beginning
//! of its window (`dm-dsm/dead.c`).  Whether it was sent makes no difference.
//!
//! **A page in use must not be dead.**  If it is, then what somebody needs at it was written
//! before the window of the discard that named it, and is what that discards.  This is seen
//! whichever part of the proof does not hold, as long as what needs the page stays.
//!
//! **When there is no alarm.**  Let `p` be taken and dead at the look at `K'`.  Its block may
//! have been handed out, and its write be on the way, so that `p` is only a *suspect*.  The
//! next checkpoint of the file, `K''`, begins when WiredTiger has waited for the evictions under
//! way (`__wt_sync_file()`), and syncs the file before the turtle is written.  So if `p` is not
//! free in `K''` either, is at the same place and the file's alone, and is dead when the target
//! is asked after the turtle of `K''` was read, then a page is in use that nobody has written: a
//! *violation*.  What is at another place by then, cut off, dropped or shared is no suspect any
//! more.  A page that is named anew has to be free first.  The target is asked before this look
//! names anything, in the window of this look: one that has lost track of writes has no dead
//! pages.  Where a file system writes its data into a journal first it is later than that, and
//! refused (`preconditions.rs`).
//!
//! **What counts** for the database are pages that were dead when they had been named, were
//! taken later and were not dead then: each was seen to be written in between.  Pages that
//! the target cannot have followed all the while are not counted: everything begins anew when
//! it has lost track of writes.
//!
//! **What it does not see**: errors in the target's own bits; who reads the device past
//! WiredTiger; a page that is taken and given back between two looks; what older checkpoints
//! need beside the newest.

use std::ops::Range;
use std::path::{Path, PathBuf};

use dm::device::{MessageError, Target};
use wiredtiger::avail::{without, FreeList};

use super::list::Pages;
use super::places;
use super::{tidy, whole_pages, Halt};
use dm::table::{Extent, SectorRange};

/// Ranges in a message.
const ASK: usize = 4096;
const PAGE_SECTORS: u64 = super::PAGE / 512;

/// What the audit keeps of a file.
#[derive(Debug, Default)]
pub struct Watch {
    /// They were dead when they had been named.
    named: Pages,
    /// The same, since the last look.
    fresh: Vec<Range<u64>>,
    /// In use and dead at the last look at a new checkpoint, the one of this order.
    suspects: Vec<Extent>,
    order: u64,
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
    /// Of those that had been named.
    pub taken: u64,
    /// Of these, and of suspects.
    pub written: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    /// Named, and seen to be dead.
    Named,
    /// Free, and perhaps named.
    Free,
    /// In use and dead at the checkpoint of this order.
    Suspect(u64),
}

#[derive(Debug, PartialEq, Eq)]
struct Question {
    file: usize,
    piece: Extent,
    was: Was,
}

/// A page in use that is dead, and may be written soon.
#[derive(Debug)]
pub struct Suspect {
    pub path: PathBuf,
    /// Of the checkpoint that uses it.
    order: u64,
    piece: Extent,
}

/// What a look asks the target.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Round {
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

impl Watch {
    /// What of a file is in use now and was not, or is suspected, in whole pages.
    pub(super) fn in_use(&self, taken: &[Range<u64>], list: &FreeList) -> Vec<Range<u64>> {
        let mut all = taken.to_vec();
        all.extend(self.suspects.iter().flat_map(|s| still(s, list)));
        all.sort_unstable_by_key(|r| r.start);
        all
    }

    pub(super) fn suspects(&self) -> u64 {
        self.suspects.iter().map(|s| pages(s.at())).sum()
    }

    /// What has left its place counts no longer.
    pub(super) fn stray(&mut self, strayed: &[Extent]) {
        if strayed.is_empty() {
            return;
        }
        let gone: Vec<Range<u64>> = strayed.iter().map(Extent::bytes).collect();
        self.keep(|named| whole_pages(&without(named, &gone, u64::MAX)));
    }

    /// These pages of the file are dead, and were named.
    pub(super) fn named(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        self.fresh.extend(ranges);
    }

    pub(super) fn suspect(&mut self, suspect: &Suspect) {
        self.order = suspect.order;
        self.suspects.push(suspect.piece);
    }

    fn keep(&mut self, of: impl FnOnce(&[Range<u64>]) -> Vec<Range<u64>>) {
        let mut all = self.named.bytes();
        all.append(&mut self.fresh);
        all.sort_unstable_by_key(|r| r.start);
        self.named = Pages::of_bytes(&of(&whole_pages(&all)));
    }

    /// At a look at a file whose checkpoint is the same.
    pub(super) fn settle(&mut self) {
        if !self.fresh.is_empty() {
            self.keep(<[_]>::to_vec);
        }
    }
}

/// What of a suspect is still in use.
fn still(suspect: &Extent, list: &FreeList) -> Vec<Range<u64>> {
    let bytes = Vec::from([suspect.bytes()]);
    whole_pages(&without(&bytes, &list.extents, list.file_size))
}

impl Round {
    /// A new checkpoint of a file, where `taken` are in use that were free before; `pieces`
    /// has the places of these, and of suspects.  Gives what is kept of it.
    pub(super) fn file(
        &mut self,
        path: &Path,
        order: u64,
        watch: Option<Box<Watch>>,
        taken: &[Range<u64>],
        list: &FreeList,
        pieces: &[Extent],
    ) -> Option<Box<Watch>> {
        let mut named = Vec::new();
        let mut watch = watch.unwrap_or_default();
        watch.keep(|all| {
            named = both(all, taken);
            whole_pages(&both(all, &list.extents))
        });
        let file = self.files.len();
        let questions = &mut self.questions;
        let mut ask = |ranges: &[Range<u64>], was| {
            places::of_ranges(pieces, ranges, &mut |piece| {
                questions.push(Question { file, piece, was });
            });
        };
        ask(&named, Was::Named);
        ask(&without(taken, &named, u64::MAX), Was::Free);
        for suspect in std::mem::take(&mut watch.suspects) {
            places::of_ranges(pieces, &still(&suspect, list), &mut |piece| {
                if piece.base() == suspect.base() {
                    let was = Was::Suspect(watch.order);
                    questions.push(Question { file, piece, was });
                }
            });
        }
        if questions.last().is_some_and(|q| q.file == file) {
            self.files.push((path.to_owned(), order));
        }
        (!watch.named.is_empty()).then_some(watch)
    }

    /// Asks the target; and what is suspected from now on.
    pub(super) fn ask(mut self, target: &dyn Target, version: &str) -> Result<(Seen, Vec<Suspect>), Halt> {
        let (mut seen, mut suspects) = (Seen::default(), Vec::new());
        self.questions.sort_unstable_by_key(|q| q.piece.at());
        let mut dead = Vec::new();
        for some in self.questions.chunks(ASK) {
            let ranges: Vec<SectorRange> = some.iter().map(|q| q.piece.at()).collect();
            dead.extend(self::dead(target, &ranges)?);
        }
        tidy(&mut dead);
        let mut violations: Vec<(usize, Extent, u64)> = Vec::new();
        for q in &self.questions {
            let all = pages(q.piece.at());
            let first = dead.partition_point(|d| d.end() <= q.piece.start);
            let parts = dead[first..].iter().map_while(|d| q.piece.within(d));
            let mut bad = 0;
            for part in parts.filter(|p| pages(p.at()) > 0) {
                bad += pages(part.at());
                match q.was {
                    Was::Suspect(order) => violations.push((q.file, part, order)),
                    _ => {
                        let (path, order) = self.files[q.file].clone();
                        let piece = part;
                        suspects.push(Suspect { path, order, piece });
                    }
                }
            }
            match q.was {
                Was::Named => {
                    seen.taken += all;
                    seen.written += all - bad;
                }
                Was::Suspect(_) => seen.written += all - bad,
                Was::Free => {}
            }
        }
        let Some((file, ..)) = violations.iter().min_by_key(|v| v.0) else {
            return Ok((seen, suspects));
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

/// A message that is about ranges.
pub(super) fn message(head: &str, ranges: &[SectorRange]) -> String {
    use std::fmt::Write as _;
    ranges.iter().fold(head.to_owned(), |mut text, s| {
        write!(text, " {}:{}", s.start, s.length).expect("strings grow");
        text
    })
}

/// Where whole pages of these ranges are dead.
pub fn dead(target: &dyn Target, ranges: &[SectorRange]) -> Result<Vec<SectorRange>, Halt> {
    let mut found = Vec::new();
    for some in ranges.chunks(ASK) {
        dead_in(target, some, &mut found)?;
    }
    Ok(found)
}

fn dead_in(target: &dyn Target, ranges: &[SectorRange], found: &mut Vec<SectorRange>) -> Result<(), Halt> {
    let reply = target.message(&message("dead", ranges)).map_err(older)?;
    let malformed = || {
        Halt::Reset(format!(
            "the kernel module's reply to `dead` cannot be read: {reply}"
        ))
    };
    let mut words = reply.split_ascii_whitespace();
    let count: u64 = words.next().and_then(|w| w.parse().ok()).ok_or_else(malformed)?;
    let range = |word: &str| {
        let (start, length) = word.split_once(':')?;
        Some(SectorRange {
            start: start.parse().ok()?,
            length: length.parse().ok()?,
        })
    };
    let listed: Vec<SectorRange> = words.map_while(range).collect();
    let pages: u64 = listed.iter().map(|s| s.length / PAGE_SECTORS).sum();
    if pages == count {
        found.extend(listed);
        return Ok(());
    }
    // More than a reply has room for
    match ranges {
        [one] if one.length > PAGE_SECTORS => {
            let middle = (one.start + one.length / 2).next_multiple_of(PAGE_SECTORS);
            let (start, end) = (one.start, one.end());
            let halves = [(start, middle.min(end)), (middle.min(end), end)].map(|(start, end)| SectorRange {
                start,
                length: end - start,
            });
            if halves[1].length == 0 {
                return Err(malformed());
            }
            halves
                .iter()
                .try_for_each(|half| dead_in(target, std::slice::from_ref(half), found))
        }
        [] | [_] => Err(malformed()),
        several => {
            let (a, b) = several.split_at(several.len() / 2);
            dead_in(target, a, found)?;
            dead_in(target, b, found)
        }
    }
}

/// A module that cannot audit.
pub(super) fn older(e: MessageError) -> Halt {
    match e {
        MessageError::Refused(why) if why.starts_with("Unknown message") => Halt::Reset(format!(
            "the kernel module is older than the audit, without which nothing is discarded: {why}"
        )),
        e => e.into(),
    }
}

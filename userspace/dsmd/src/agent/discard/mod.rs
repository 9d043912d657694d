// SPDX-License-Identifier: GPL-2.0-or-later
//! What the newest checkpoint lists as free is discarded on the drive, once.
//!
//! A wrong discard loses data; when in doubt there is none.
//!
//! **The rule.**  Look n begins a write window `R(n)` of the target, then reads the turtle `T(n)`
//! and, of each file `f` of WiredTiger whose newest checkpoint `K` is not the one that `T(n-1)`
//! showed, `K°`, its list of free blocks `avail(K)`:
//!
//! 0. `R(n)` is begun, which ends the window before;
//! 1. the turtle, the metadata and the lists are read; the turtle is read again, and all of it is
//!    when it has changed; then the preconditions are checked again;
//! 2. the directory is synced, so that the turtle that was read is durable;
//! 3. the file system is asked where the blocks are;
//! 4. the target is asked which pages were written.  Of `avail(K)` may be discarded
//!    * A, *fresh* pages: not in `avail(K°)`, below the size of the file in `K°`, and not written
//!      since `R(n-1)`;
//!    * B, *the rest* of the list: pages not written since `R(n-2)`, if `T(n-2)` showed a checkpoint
//!      `K°°` of the file that is not `K°`;
//! 5. these are sent, what was sent before left out, each with its window, by which the target
//!    looks again; before each batch the file system is asked again, as another file may share
//!    them by now;
//! 6. `K` and `R(n)` are kept in place of `K°` and `R(n-1)`, and which pages of the list were sent.
//!
//! Between (3) and (4) the audit looks whether the database keeps to what this rests on
//! ([`audit`]).  While nothing but an audit is allowed, steps 0 to 4 are the same and nothing is
//! sent ([`permit`]).  What there is no time for is in the next list again, as B.  A drive that
//! discards in larger pieces gets whole pieces of what may be discarded together at this look.
//!
//! A list names the block that it lies in, which the reader cuts out.  `K°°`, `K°` and `K` all
//! have such a block: a checkpoint without one is that of a file that was just made or loaded.
//!
//! **Why A holds.**  Let `p` be such a page.
//!
//! a. It was in the file and not free when the list of `K°` was made, so that it was
//!    allocated: to `K°`, to an older checkpoint that is kept, to a list, or to a page
//!    of the tree that had just been written.
//! b. What is allocated at a checkpoint can be freed only by a later one, and be
//!    handed out again only when that one's turtle is durable (`__wt_block_checkpoint_resolve()`
//!    merges `ckpt_avail` into `live.avail`, after `__wt_turtle_update()`).  The turtle that was
//!    read after `R(n-1)` had begun still showed `K°`: every new handing-out of `p` comes
//!    after the beginning of `R(n-1)`.
//! c. `K` lists `p` as free and is durable: no checkpoint that a recovery, a backup
//!    or a cursor can come to needs it.  If anything needs it, then something that it
//!    was handed out to after the beginning of `R(n-1)`.
//! d. Such a use needs what is on the drive only after it has written `p`.  The
//!    target has seen that write: if it came before the target looks, the page is
//!    refused; if it comes later, it is held until the discard is done, and wins.
//! e. The discard is sent when `K` is durable.  A power cut finds `K`, or something
//!    newer, for which (d) holds.
//!
//! **Why B holds.**  Let `p` be a page of `avail(K)`.
//!
//! f. `T(n-2)` was read after `R(n-2)` had begun, and showed `K°°`: `K°` was not complete then.
//!    Checkpoints of a file come one after the other, under the checkpoint lock and
//!    `block->ckpt_state`: the list of `K` was made after the turtle of `K°` was renamed
//!    (`__wt_block_checkpoint_start()` refuses before `__wt_block_checkpoint_resolve()` of the one
//!    before), so after `R(n-2)` began, however late the looks are.  Turtles that a change of
//!    the schema has written show no other checkpoint of the file, and count for nothing.
//! g. `p` was handed out to nothing when that list was made (`__ckpt_process()` holds `live_lock` while
//!    it merges and writes the lists).  Whatever is handed `p` later was handed it after `R(n-2)`
//!    began.
//! h. (c), (d) and (e) hold for it with `R(n-2)` in the place of `R(n-1)`.
//!
//! The functions are those of WiredTiger 11.0, 11.2, 11.3 and 12.0, where all of this is so for
//! checkpoints of the whole database.  5.0 checkpoints single files when it closes them, which breaks
//! (b); such databases are refused, and the audit would report them.
//!
//! **Files whose checkpoint is the same** are not named anew: a file in which blocks were handed out
//! may be passed over by a checkpoint (`EBUSY`), so that its list need not be true any more.
//!
//! **What (b) does not cover** is a process that did not write the turtle: after a
//! crash, recovery takes checkpoints from the journal that the turtle does not have
//! yet, and hands out at once what they had freed.  So everything is forgotten when
//! another process holds the database, or the same one has reopened it, and
//! [`TURTLES`] changes of the turtle by the new one are waited for; also when this agent
//! starts, as it cannot know what was before.  Everything is forgotten as well when the reader or the target refuses,
//! when the order of a checkpoint goes back, when there is a `WiredTiger.backup`, from
//! which a restart would make an older checkpoint, and when the mount or the place of
//! the file system is another one.  A file is known by its inode number and birth
//! time; what has the name later is another one.  Nothing is kept on disk.
//!
//! **What (c) does not cover** is a salvage in the running process, which reads free blocks as well;
//! mongod does that with `--repair` only, and is refused then (`started.rs`).

pub mod audit;
mod disk;
mod link;
mod list;
mod notices;
mod owner;
mod pace;
mod permit;
mod places;
pub mod preconditions;
mod process;
mod started;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use database::wiredtiger::avail::{
    difference, without, Cookie, FileEntry, FreeList, Kind, Refusal, Run, Standing, TurtleId,
};
use dm::device::Target;
use dm::reply::Discard;
use dm::table::{Extent, SectorRange};
use proto::reason::{Reason, ReasonKind};

use audit::{Claim, Evidence, Questions, Suspect, Violation};
pub use disk::Disk;
pub use link::{Link, Machine, Plan};
use list::{Compact, Pages};
pub use owner::Owner;
pub use permit::{Batch, Permit};
use places::Places;

/// Changes of the turtle by one process before the first window counts.
pub(crate) const TURTLES: u32 = 2;
/// What the target has a bit for.
const PAGE: u64 = 4096;

/// Why a look ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Everything was forgotten, for this reason.
    #[error("{0}")]
    Reset(Reason),
    /// As a reset, by a message that the target refused.
    #[error("{0}")]
    Refused(String),
    /// As a reset, because the target lost track of writes meanwhile: the next look begins anew.
    #[error("{0}")]
    Lost(String),
    /// Checkpoints completed faster than they could be read.  What is known stays.
    #[error("{0}")]
    Torn(String),
    /// The database does not keep to what the rule rests on.  Everything was forgotten.
    #[error("{0}")]
    Violation(Violation),
    #[error("the device is gone")]
    Gone,
}

impl From<String> for Halt {
    fn from(reason: String) -> Self {
        Self::Reset(reason.into())
    }
}

impl From<Reason> for Halt {
    fn from(reason: Reason) -> Self {
        Self::Reset(reason)
    }
}

impl From<Refusal> for Halt {
    fn from(r: Refusal) -> Self {
        match r.kind {
            Kind::Torn => Self::Torn(r.message),
            Kind::Early => Reason::new(ReasonKind::Early, r.message).into(),
            _ => r.message.into(),
        }
    }
}

/// What was read of one turtle.
pub struct Seen {
    pub turtle: TurtleId,
    /// Who wrote it.
    pub run: Run,
    /// Of WiredTiger.
    pub version: String,
    /// What the audit must have seen before anything may be sent.
    pub standing: Standing,
    /// Each file, with its list if that was wanted.
    pub files: Vec<(FileEntry, Option<Result<FreeList, Refusal>>)>,
}

/// A database as the rule sees it.
pub trait Database {
    /// Whether the file system, its mount and the drive are what the rule needs, in
    /// words that change when any of them does.
    fn preconditions(&mut self) -> Result<String, String>;
    /// The newest checkpoint, to see whether a look is worth it.
    fn turtle(&mut self) -> Result<Option<TurtleId>, String>;
    /// Who has it open.
    fn owner(&mut self) -> Result<Option<Owner>, String>;
    /// What forbids discards as long as it is so, looked for at each look.
    fn stands(&mut self) -> Result<(), Reason>;
    /// Reads all of one turtle; refuses databases whose blocks may not be discarded.
    fn read(&mut self, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Result<Seen, Refusal>;
    /// Makes what was read durable; an error when a restart might not begin there.
    fn sync_dbpath(&mut self) -> Result<(), Reason>;
    /// Gives the places of ranges of a file's bytes that are written, the file's own
    /// and its alone.  Nothing: it is no longer the file with
    /// this inode number and birth time.
    fn places(
        &mut self,
        path: &Path,
        file: (u64, i128),
        ranges: &[Range<u64>],
        emit: &mut dyn FnMut(Extent),
    ) -> Result<(), String>;
}

/// What is known of a file.
struct Known {
    order: u64,
    cookie: Cookie,
    list: Compact,
    /// Pages of the list that were fresh at the last look, and their claim.
    fresh: Pages,
    fresh_claim: Option<Claim>,
    /// The claim of all other pages of the list, made at the last look.
    rest_claim: Option<Claim>,
    /// The checkpoint was another one at the look before the last.
    is_renewed: bool,
    /// Pages of the list that were sent, or would have been in audit, and where they lay.
    sent: Places,
    /// Of most files there is none.
    suspects: Vec<Suspect>,
}

/// A piece of a file that may be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    extent: Extent,
    /// Index of the file.
    file: usize,
    /// The window since which nothing may have been written.
    since: u64,
    is_fresh: bool,
    /// It was sent before, and is named where it completes a granule.
    is_sent: bool,
}

/// What may be discarded after a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What is sent, in whole granules: sorted by place, apart from each other.
    pub granules: Vec<SectorRange>,
    /// What these consist of, and what is too short, sorted by place.
    pieces: Vec<Piece>,
    files: Vec<(PathBuf, (u64, i128))>,
    questions: Questions,
    /// The pieces as they were named, for rules that do not ask.
    #[cfg(test)]
    unasked: Vec<Piece>,
    /// What the audit has seen.
    pub audit: audit::Seen,
    /// Bytes that the checkpoint has freed.
    pub freed: u64,
    /// Bytes that may be discarded as far as WiredTiger is concerned: not sent before.
    pub named: u64,
    /// Bytes that nobody has written, of less than a granule.
    pub short: u64,
    /// Files whose list could not be taken, or not as that of the file.
    pub listless: u64,
}

impl Found {
    /// Adds the places of ranges of a file's bytes.
    fn add(
        &mut self,
        entry: &FileEntry,
        list: &FreeList,
        (ranges, is_sent): (&[Range<u64>], bool),
        at: &[Extent],
        claim: Claim,
    ) {
        if !is_sent {
            self.named += ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        }
        if ranges.is_empty() {
            return;
        }
        if self.files.last().is_none_or(|(path, _)| *path != entry.path) {
            self.files.push((entry.path.clone(), list.file));
        }
        let file = self.files.len() - 1;
        places::of_ranges(at, ranges, &mut |extent| {
            self.pieces.push(Piece {
                extent,
                file,
                since: claim.since,
                is_fresh: claim.is_fresh,
                is_sent,
            });
        });
    }

    /// Keeps of the pieces what nobody has written since their windows, and joins it to whole
    /// granules.
    fn sift(&mut self, target: &dyn Target, unit: &Unit) -> Result<(), Halt> {
        self.pieces.sort_unstable_by_key(|p| p.extent.start);
        #[cfg(test)]
        self.unasked.clone_from(&self.pieces);
        let asked: Vec<(u64, SectorRange)> = self.pieces.iter().map(|p| (p.since, p.extent.at())).collect();
        let untouched = audit::written(target, &asked)?.untouched;
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let first = untouched.partition_point(|u| u.end() <= piece.extent.start);
            let parts = untouched[first..].iter().map_while(|u| piece.extent.within(u));
            pieces.extend(parts.map(|extent| Piece { extent, ..*piece }));
        }
        self.pieces = pieces;
        let mut runs: Vec<SectorRange> = self.pieces.iter().map(|p| p.extent.at()).collect();
        tidy(&mut runs);
        let granules = runs.into_iter().filter_map(|run| unit.cut(run));
        self.granules = granules.flat_map(|g| self.unsent(g, unit.unit)).collect();
        let unsent = |ranges: &mut dyn Iterator<Item = Piece>| -> u64 {
            ranges.filter(|p| !p.is_sent).map(|p| p.extent.length * 512).sum()
        };
        let all = unsent(&mut self.pieces.iter().copied());
        let whole = unsent(&mut self.pieces_in(&self.granules));
        self.short = all - whole;
        Ok(())
    }

    /// Those of some granules of which not all was sent before.
    fn unsent(&self, all: SectorRange, unit: u64) -> Vec<SectorRange> {
        if self.pieces_in(&[all]).all(|p| !p.is_sent) {
            return vec![all];
        }
        let starts = (all.start..all.end()).step_by(usize::try_from(unit).unwrap_or(usize::MAX));
        let units = starts.map(|start| SectorRange { start, length: unit });
        let mut left: Vec<SectorRange> = units
            .filter(|at| !self.pieces_in(&[*at]).all(|p| p.is_sent))
            .collect();
        tidy(&mut left);
        left
    }

    /// What is sent, with its windows, for tests.
    #[doc(hidden)]
    pub fn named(&self) -> Vec<(u64, SectorRange)> {
        let named = self.pieces_in(&self.granules);
        named.map(|p| (p.since, p.extent.at())).collect()
    }

    /// The pieces that lie in sorted ranges.
    fn pieces_in<'a>(&'a self, ranges: &'a [SectorRange]) -> impl Iterator<Item = Piece> + 'a {
        ranges.iter().flat_map(|s| {
            let first = self.pieces.partition_point(|p| p.extent.at().end() <= s.start);
            let parts = self.pieces[first..].iter();
            parts.map_while(|p| p.extent.within(s).map(|extent| Piece { extent, ..*p }))
        })
    }

    /// What of sorted ranges has its place still, and alone: a file of somebody else's may share
    /// it by now.
    fn again(&self, database: &mut dyn Database, ranges: &[SectorRange]) -> Result<Vec<Piece>, String> {
        let mut by_file: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
        for piece in self.pieces_in(ranges) {
            by_file.entry(piece.file).or_default().push(piece);
        }
        let mut left = Vec::new();
        for (file, mut pieces) in by_file {
            pieces.sort_unstable_by_key(|p| p.extent.offset);
            let bytes: Vec<Range<u64>> = pieces.iter().map(|p| p.extent.bytes()).collect();
            let (path, id) = &self.files[file];
            let now = pieces_of(database, path, *id, &bytes)?;
            for piece in pieces {
                places::of_ranges(&now, &[piece.extent.bytes()], &mut |extent| {
                    if extent.base() == piece.extent.base() {
                        left.push(Piece { extent, ..piece });
                    }
                });
            }
        }
        left.sort_unstable_by_key(|p| p.extent.start);
        Ok(left)
    }
}

fn pieces_of(
    database: &mut dyn Database,
    path: &Path,
    file: (u64, i128),
    ranges: &[Range<u64>],
) -> Result<Vec<Extent>, String> {
    let mut found = Vec::new();
    if !ranges.is_empty() {
        database.places(path, file, ranges, &mut |e| found.push(e))?;
    }
    Ok(found)
}

/// What the target discards at a time, in sectors.
struct Unit {
    unit: u64,
    align: u64,
    offset: u64,
}

impl Unit {
    fn of(status: &Discard) -> Self {
        let sectors = |bytes: u64| (bytes / 512).max(1);
        Self {
            unit: sectors(status.granularity),
            align: sectors(status.alignment),
            offset: status.offset / 512,
        }
    }

    /// The whole units of a range.
    fn cut(&self, at: SectorRange) -> Option<SectorRange> {
        let behind = (at.start + self.align - self.offset % self.align) % self.align;
        let start = at.start + (self.align - behind) % self.align;
        let length = at.end().checked_sub(start)? / self.unit * self.unit;
        (length > 0).then_some(SectorRange { start, length })
    }
}

/// What a look came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// So many more changes of the turtle are waited for.
    Waiting(u32),
    Found(Box<Found>),
}

/// The rule's state.
#[derive(Default)]
pub struct Rule {
    preconditions: Option<String>,
    owner: Option<Owner>,
    turtle: Option<TurtleId>,
    run: Run,
    /// Changes of the turtle by this owner, in this run.
    turtles: u32,
    /// R of the last look, and of the one before.
    window: Option<u64>,
    older: Option<u64>,
    /// A window that was begun for a look that did not end.
    begun: Option<u64>,
    /// The target was told to forget what was sent before all was forgotten here.
    target_forgot: bool,
    files: HashMap<PathBuf, Known>,
    evidence: Evidence,
}

/// Sorts ranges, and joins neighbours.
fn tidy(sector_ranges: &mut Vec<SectorRange>) {
    sector_ranges.sort_unstable();
    sector_ranges.dedup_by(|next, last| {
        let joins = last.end() == next.start;
        if joins {
            last.length += next.length;
        }
        joins
    });
}

/// Whole pages within ranges, neighbours joined.
fn whole_pages(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for r in ranges {
        match joined.last_mut() {
            Some(last) if last.end == r.start => last.end = r.end,
            _ => joined.push(r.clone()),
        }
    }
    joined
        .into_iter()
        .map(|r| r.start.next_multiple_of(PAGE)..r.end / PAGE * PAGE)
        .filter(|r| r.start < r.end)
        .collect()
}

fn closed() -> Halt {
    Reason::new(ReasonKind::Closed, "no process has the database open").into()
}

/// The next look starts over with it.
fn restarted() -> Halt {
    Reason::new(ReasonKind::Restarted, "another process has opened the database").into()
}

impl Rule {
    /// How many files have a list.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The turtle of the last look.
    pub fn turtle(&self) -> Option<&TurtleId> {
        self.turtle.as_ref()
    }

    /// Nothing that is known or was seen counts any longer.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// What was sent before all was forgotten, and waits in the target, is not discarded.
    pub fn forget_in(&mut self, target: &dyn Target) -> Result<(), Halt> {
        if !self.target_forgot {
            target.message("forget")?;
            self.target_forgot = true;
        }
        Ok(())
    }

    /// What the audit has seen since all was forgotten.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Pages in use that nobody has written, and may be soon.
    pub fn suspects(&self) -> u64 {
        self.files
            .values()
            .flat_map(|k| &k.suspects)
            .map(Suspect::pages)
            .sum()
    }

    /// These were sent, or would have been if nothing was only watched.
    pub fn sent(&mut self, found: &Found, ranges: &[SectorRange]) {
        let mut by_file: BTreeMap<usize, Vec<Extent>> = BTreeMap::new();
        for piece in found.pieces_in(ranges).filter(|p| !p.is_sent) {
            by_file.entry(piece.file).or_default().push(piece.extent);
        }
        for (file, extents) in by_file {
            let (path, id) = &found.files[file];
            if let Some(known) = self.files.get_mut(path).filter(|k| k.list.file() == *id) {
                let mut all: Vec<Extent> = known.sent.pieces().chain(extents).collect();
                all.sort_unstable_by_key(|e| e.offset);
                known.sent = Places::of(&all);
            }
        }
    }

    /// What would have been sent so far was not.
    pub fn nothing_was_sent(&mut self) {
        self.files.values_mut().for_each(|k| k.sent = Places::default());
    }

    #[cfg(test)]
    fn see(&mut self, pages: u64, checkpoints: u32) {
        (self.evidence.pages, self.evidence.checkpoints) = (pages, checkpoints);
    }

    /// As a wrong rule does, for tests of the audit: what is listed has been named by this window,
    /// whatever was written before; or only what was fresh.
    #[doc(hidden)]
    pub fn name_by(&mut self, since: u64, only_fresh: bool) {
        for known in self.files.values_mut() {
            known.fresh_claim = Some(Claim {
                since,
                is_fresh: true,
            });
            if !only_fresh {
                known.rest_claim = Some(Claim {
                    since,
                    is_fresh: false,
                });
            }
        }
    }

    /// Whether the process that had the database open at the last look still has; if
    /// not, nothing that was found may be discarded.
    pub(crate) fn is_owner(&mut self, database: &mut dyn Database) -> Result<(), Halt> {
        let why = match database.owner() {
            Ok(owner) if owner.is_some() && owner == self.owner => return Ok(()),
            Ok(Some(_)) => restarted(),
            Ok(None) => closed(),
            Err(e) => e.into(),
        };
        self.forget();
        Err(why)
    }

    /// Checks the preconditions, and who has the database open.  Other preconditions, or
    /// another owner, start over.
    fn stand(&mut self, database: &mut dyn Database) -> Result<Owner, Halt> {
        let preconditions = database.preconditions()?;
        let owner = database.owner()?;
        let owner = owner.ok_or_else(closed)?;
        if self.preconditions.as_ref() != Some(&preconditions) || self.owner != Some(owner) {
            self.forget();
            self.preconditions = Some(preconditions);
            self.owner = Some(owner);
        }
        database.stands()?;
        Ok(owner)
    }

    /// The same between checkpoints.
    pub(crate) fn look_around(&mut self, database: &mut dyn Database) -> Result<(), Halt> {
        self.stand(database).map(|_| ())
    }

    /// Looks at what the newest checkpoint lists: steps 0 to 4, and 6.
    pub fn look(&mut self, database: &mut dyn Database, target: &dyn Target) -> Result<Look, Halt> {
        let looked = self.steps(database, target);
        if !matches!(looked, Ok(_) | Err(Halt::Torn(_))) {
            self.forget();
        }
        looked
    }

    fn steps(&mut self, database: &mut dyn Database, target: &dyn Target) -> Result<Look, Halt> {
        let owner = self.stand(database)?;

        // (0)
        let window = match self.begun {
            Some(begun) => begun,
            None => target.window()?,
        };
        self.begun = Some(window);

        // (1)
        let (files, counts) = (&self.files, self.turtles + 1 >= TURTLES);
        let known = |f: &FileEntry| {
            files
                .get(&f.path)
                .is_some_and(|k| Some(&k.cookie) == f.cookie.as_ref())
        };
        let mut wanted = |f: &FileEntry| counts && f.cookie.is_some() && !known(f);
        let seen = database.read(&mut wanted)?;
        if database.owner()? != Some(owner) {
            return Err(restarted());
        }
        // A snapshot that was made before this turtle has what the older one needs.
        if Some(database.preconditions()?) != self.preconditions {
            let why = "what the database lies on has changed meanwhile";
            return Err(why.to_owned().into());
        }
        self.begun = None;
        if self.run != seen.run {
            *self = Self {
                preconditions: self.preconditions.take(),
                owner: Some(owner),
                run: seen.run,
                ..Self::default()
            };
        }
        if self.turtle.as_ref() != Some(&seen.turtle) {
            self.turtles += u32::from(self.turtle.is_some());
            self.turtle = Some(seen.turtle);
        }
        if self.turtles < TURTLES {
            return Ok(Look::Waiting(TURTLES - self.turtles));
        }

        // (2)
        database.sync_dbpath()?;

        let status = target.status()?.discard;
        let is_valid = |since: &u64| *since >= status.valid;
        let windows = Windows {
            last: self.window.filter(is_valid),
            older: self.older.filter(is_valid),
            valid: status.valid,
            is_coarse: status.granularity > PAGE,
        };
        let mut found = Found::default();
        let mut files = HashMap::with_capacity(seen.files.len());
        for (entry, list) in seen.files {
            let old = self.files.remove(&entry.path);
            let has_list = entry.cookie.as_ref().is_some_and(|c| c.avail.is_some());
            match next(database, &entry, list, old, &windows, &mut found)? {
                Some(known) => drop(files.insert(entry.path, known)),
                None => found.listless += u64::from(has_list),
            }
        }
        let (seen_pages, suspects) = std::mem::take(&mut found.questions).ask(target, &seen.version)?;
        found.audit = seen_pages;
        self.evidence.add(seen_pages, seen.standing);
        for (path, suspects) in suspects {
            if let Some(known) = files.get_mut(&path) {
                known.suspects = suspects;
            }
        }
        // (4)
        found.sift(target, &Unit::of(&status))?;

        // (6)
        self.files = files;
        self.older = self.window.replace(window);
        Ok(Look::Found(found.into()))
    }
}

/// Windows of earlier looks, as far as the target has followed all writes since.
struct Windows {
    /// R(n-1)
    last: Option<u64>,
    /// R(n-2)
    older: Option<u64>,
    valid: u64,
    /// A granule has several pages.
    is_coarse: bool,
}

/// What is known of a file after a look.
fn next(
    database: &mut dyn Database,
    entry: &FileEntry,
    list: Option<Result<FreeList, Refusal>>,
    old: Option<Known>,
    windows: &Windows,
    found: &mut Found,
) -> Result<Option<Known>, Halt> {
    let order = entry.order;
    let Some(cookie) = &entry.cookie else {
        return Ok(None);
    };
    let old = match old {
        Some(mut k) if k.cookie == *cookie && k.order <= order => {
            for suspect in k.suspects.drain(..) {
                found.questions.still(&entry.path, suspect, windows.last);
            }
            return Ok(Some(Known {
                order,
                fresh: Pages::default(),
                fresh_claim: None,
                rest_claim: None,
                is_renewed: false,
                ..k
            }));
        }
        Some(k) if k.order >= order => {
            let name = entry.path.display();
            return Err(format!("{name}: its checkpoints have gone back").into());
        }
        old => old,
    };
    let list = match list {
        // It was dropped since.
        Some(Err(r)) if r.kind == Kind::Gone => None,
        list => list.transpose()?,
    };
    // The block of the list shows that this is the file that the metadata
    // means.  An empty list has none.
    let Some(list) = list.filter(|l| cookie.avail.is_some() && l.file.1 != 0) else {
        return Ok(None);
    };
    let mut now = Known {
        order,
        cookie: cookie.clone(),
        list: Compact::of(&list),
        fresh: Pages::default(),
        fresh_claim: None,
        rest_claim: None,
        is_renewed: false,
        sent: Places::default(),
        suspects: Vec::new(),
    };
    // Another file may have its name.
    let Some(old) = old.filter(|old| old.list.file() == list.file) else {
        return Ok(Some(now));
    };
    let before = old.list.list();
    let freed = difference(&list, &before);
    found.freed += freed.iter().map(|r| r.end - r.start).sum::<u64>();
    let fresh = whole_pages(&freed);
    let taken = whole_pages(&difference(&before, &list));
    let free = whole_pages(&list.extents);

    now.is_renewed = true;
    now.fresh = Pages::of_bytes(&fresh);
    now.fresh_claim = windows.last.map(|since| Claim {
        since,
        is_fresh: true,
    });
    now.rest_claim = windows.older.filter(|_| old.is_renewed).map(|since| Claim {
        since,
        is_fresh: false,
    });

    let sent: Vec<Extent> = old.sent.pieces().collect();
    let mut still_sent = Vec::new();
    places::of_ranges(&sent, &free, &mut |e| still_sent.push(e));
    now.sent = Places::of(&still_sent);
    let sent_before: Vec<Range<u64>> = still_sent.iter().map(Extent::bytes).collect();
    let again = match windows.is_coarse {
        true => sent_before.clone(),
        false => Vec::new(),
    };
    let (rest, again) = match now.rest_claim {
        Some(_) => (
            without(&without(&free, &fresh, u64::MAX), &sent_before, u64::MAX),
            again,
        ),
        None => (Vec::new(), Vec::new()),
    };

    // (3)
    let mut wanted: Vec<Range<u64>> = [&fresh[..], &rest, &again, &taken].concat();
    wanted.extend(old.suspects.iter().flat_map(|s| s.still(&list)));
    wanted.sort_unstable_by_key(|r| r.start);
    let at = pieces_of(database, &entry.path, list.file, &wanted)?;
    if let Some(claim) = now.fresh_claim {
        found.add(entry, &list, (&fresh, false), &at, claim);
    }
    if let Some(claim) = now.rest_claim {
        found.add(entry, &list, (&rest, false), &at, claim);
        found.add(entry, &list, (&again, true), &at, claim);
    }
    found
        .questions
        .file(&entry.path, order, &old, &sent, &taken, &list, &at, windows);
    Ok(Some(now))
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What a checkpoint has freed is discarded on the drive.
//!
//! A wrong discard loses data; when in doubt there is none.
//!
//! **The rule.**  Of each file `f` of WiredTiger two things are kept: `K`, a
//! checkpoint of `f` with its list of free blocks `avail(K)` and the size of the
//! file, and `R`, a write window of the target that had begun before the turtle was
//! read that showed `K` as the newest checkpoint of `f`.  When a later turtle shows
//! another one, `K'`:
//!
//! 0. a window `R'` is begun, which ends the one before;
//! 1. the turtle, the metadata and `avail(K')` are read; the turtle is read again,
//!    and all of it is when it has changed; then the preconditions are checked again;
//! 2. the directory is synced, so that the turtle that was read is durable;
//! 3. the file system is asked where the blocks are;
//! 4. discarded are those pages of `avail(K')` that are not in `avail(K)`, are below
//!    the size that `f` had in `K`, and have not been written since `R`; before each
//!    batch the file system is asked again, as another file may share them by now;
//! 5. `K'` and `R'` are kept in place of `K` and `R`.
//!
//! Between (3) and (4) the audit looks whether the database keeps to what this rests on
//! ([`audit`]).  In audit mode the target sends nothing.
//!
//! A list names the block that it lies in, which the reader cuts out.  WiredTiger
//! takes free blocks from the list that it has in memory at once, but what a
//! checkpoint frees only when that one is complete, its turtle renamed and durable.
//!
//! **Why it holds.**  Let `p` be such a page.
//!
//! a. It was in the file and not free when the list of `K` was made, so that it was
//!    allocated: to `K`, to an older checkpoint that is kept, to a list, or to a page
//!    of the tree that had just been written.
//! b. What is allocated at a checkpoint can be freed only by a later one, and be
//!    handed out again only when that one's turtle is durable.  The turtle that was
//!    read after `R` had begun still showed `K`: every new handing-out of `p` comes
//!    after the beginning of `R`.
//! c. `K'` lists `p` as free and is durable: no checkpoint that a recovery, a backup
//!    or a cursor can come to needs it.  If anything needs it, then something that it
//!    was handed out to after the beginning of `R`.
//! d. Such a use needs what is on the drive only after it has written `p`.  The
//!    target has seen that write: if it came before the target looks, the page is
//!    refused; if it comes later, it is held until the discard is done, and wins.
//! e. The discard is sent when `K'` is durable.  A power cut finds `K'`, or something
//!    newer, for which (d) holds.
//!
//! How late the steps come does not matter, and neither do turtles that were never
//! seen: `K` is only older then.
//!
//! **Files whose checkpoint is the same** keep `K` and get `R'`.  What is asked of a
//! window is that it began before the turtle was read that showed `K` as the newest:
//! that is true of `R'` and the turtle of this look.
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
//! **The target keeps dead pages**: those that passed (4) once.  Where a drive wants more of
//! them at a time, they are discarded later, unless they were written since
//! (`dm-dsm/dead.c`).  It must forget them whenever this forgets ([`Rule::forget_in`]), before
//! the next discard: a salvage, or who changes the file system, gives them a meaning without a
//! write.  So does a file of somebody else's that comes to share them, and keeps them when the
//! database's file is given another place for what it writes, is cut off or dropped.
//! Therefore, where the target may discard them later, the places of each file of which
//! something was found are kept from look to look: a dead page is at one of them, as it was
//! there before it was named.  What is the file's and its alone there must be so at the next
//! look (step 3), and before each batch, as far as the batch could complete a piece with it;
//! what is not is forgotten before anything else is named.
//!
//! **What there is no time for is owed** on any drive: (4) is so of it when the target has looked
//! (`defer`), and from then on until it is written.  Its places are kept and looked at in the same
//! way, and what is still dead of it is sent after a later look (`discard dead`).

pub mod audit;
mod disk;
mod link;
mod list;
mod notices;
mod owner;
mod pace;
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

use dm::device::Target;
use wiredtiger::avail::{difference, Cookie, FileEntry, FreeList, Kind, Refusal, Run, Standing, TurtleId};

use audit::{Round, Violation, Watch};
pub use disk::Disk;
use dm::table::{Extent, SectorRange};
pub use link::{Link, Machine, Plan};
use list::Compact;
pub use owner::Owner;
use places::Places;

/// Changes of the turtle by one process before the first window counts.
pub(crate) const TURTLES: u32 = 2;
/// What the target has a bit for.
const PAGE: u64 = 4096;
/// Ranges in a message that has the target forget them.
const FORGET: usize = 16 << 10;
/// Ranges that are owed at most.
const OWED: usize = 16 << 10;

/// Why a look ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Everything was forgotten, for this reason.
    #[error("{0}")]
    Reset(String),
    /// As a reset, by a message that the target refused.
    #[error("{0}")]
    Refused(String),
    /// Checkpoints completed faster than they could be read.  What is known stays.
    #[error("{0}")]
    Torn(String),
    /// The database does not keep to what the rule rests on.  Everything was forgotten.
    #[error("{0}")]
    Violation(Violation),
    /// As a reset, of a database that has made no checkpoint: nothing is wrong.
    #[error("{0}")]
    Early(String),
    #[error("the device is gone")]
    Gone,
}

impl From<String> for Halt {
    fn from(reason: String) -> Self {
        Self::Reset(reason)
    }
}

impl From<Refusal> for Halt {
    fn from(r: Refusal) -> Self {
        match r.kind {
            Kind::Torn => Self::Torn(r.message),
            Kind::Early => Self::Early(r.message),
            _ => Self::Reset(r.message),
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
    /// Reads all of one turtle; refuses databases whose blocks may not be discarded.
    fn read(&mut self, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Result<Seen, Refusal>;
    /// Makes what was read durable; an error when a restart might not begin there.
    fn sync_dbpath(&mut self) -> Result<(), String>;
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
    /// Where all of it lay at the last look, if pages of it may be discarded later.
    places: Option<Places>,
    /// Where what is owed of it lies.
    owed: Places,
    /// Of most files there is nothing.
    watch: Option<Box<Watch>>,
}

/// What may be discarded after a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The window since which nothing may have been written.
    pub since: u64,
    /// Sorted by place; neighbours are one.
    pub sector_ranges: Vec<SectorRange>,
    /// What is owed from before, sorted as well.
    pub owed: Vec<SectorRange>,
    /// What both are of, and what else the target may discard with them, sorted by place;
    /// each with the index of its file.
    origins: Vec<(Extent, usize)>,
    /// How far from what is sent the target may discard what is dead, in sectors.
    reach: u64,
    /// Places of what may be dead and is not where it was, or not the file's alone.
    strayed: Vec<SectorRange>,
    files: Vec<(PathBuf, (u64, i128))>,
    /// Origins of what is owed, until they are among the others.
    owed_origins: Vec<(Extent, usize)>,
    round: Round,
    /// What the audit has seen.
    pub audit: audit::Seen,
    /// What it must have seen before anything may be sent.
    pub standing: Option<Standing>,
    /// Bytes that the checkpoint has freed, also where they have no place of their
    /// own.
    pub freed: u64,
    /// Files whose list could not be taken, or not as that of the file.
    pub listless: u64,
}

impl Found {
    /// The index of a file that is looked at now.
    fn file(&mut self, path: &Path, file: (u64, i128)) -> usize {
        if self.files.last().is_none_or(|(of, _)| of != path) {
            self.files.push((path.to_owned(), file));
        }
        self.files.len() - 1
    }

    /// What lies in sorted ranges, by the file that it is of.
    fn by_file(&self, ranges: &[SectorRange]) -> BTreeMap<usize, Vec<Extent>> {
        let mut by_file: BTreeMap<usize, Vec<Extent>> = BTreeMap::new();
        for s in ranges {
            let first = self.origins.partition_point(|(e, _)| e.at().end() <= s.start);
            for (extent, file) in self.origins[first..]
                .iter()
                .take_while(|(e, _)| e.start < s.end())
            {
                by_file.entry(*file).or_default().extend(extent.within(s));
            }
        }
        by_file
    }

    /// What of `batch`, which is sorted, has its place still, and alone: a file of
    /// somebody else's may share it by now.  And where that is no longer so of what the target
    /// may discard with it.
    fn again(
        &self,
        database: &mut dyn Database,
        batch: &[SectorRange],
    ) -> Result<(Vec<SectorRange>, Vec<SectorRange>), String> {
        let wanted = self.by_file(&widened(batch, self.reach));
        let (mut now, mut strayed) = (Vec::new(), Vec::new());
        for (file, mut pieces) in wanted {
            pieces.sort_unstable_by_key(|p| p.offset);
            let ranges: Vec<Range<u64>> = pieces.iter().map(Extent::bytes).collect();
            let (path, file) = &self.files[file];
            let found = pieces_of(database, path, *file, &ranges)?;
            now.extend(found.iter().map(Extent::at));
            strayed.extend(places::strayed(pieces, &found).iter().map(Extent::at));
        }
        tidy(&mut now);
        Ok((common(batch, &now), strayed))
    }
}

fn pieces_of(
    database: &mut dyn Database,
    path: &Path,
    file: (u64, i128),
    ranges: &[Range<u64>],
) -> Result<Vec<Extent>, String> {
    let mut found = Vec::new();
    database.places(path, file, ranges, &mut |e| found.push(e))?;
    Ok(found)
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
    /// R of all files.
    window: Option<u64>,
    /// A window that was begun for a look that did not end.
    begun: Option<u64>,
    /// The target has forgotten as well what was found before.
    target_forgot: bool,
    /// What it has to forget before anything else is named.
    strayed: Vec<SectorRange>,
    /// Bytes of the pieces that the target discards.
    granularity: u64,
    files: HashMap<PathBuf, Known>,
}

fn forgotten(r: Result<Look, Halt>, rule: &mut Rule) -> Result<Look, Halt> {
    if !matches!(r, Ok(_) | Err(Halt::Torn(_))) {
        rule.forget();
    }
    r
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

/// Sorts, and joins neighbours.
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

/// Sorted ranges, each longer by so much at both ends.
fn widened(sector_ranges: &[SectorRange], by: u64) -> Vec<SectorRange> {
    let mut wide: Vec<SectorRange> = Vec::with_capacity(sector_ranges.len());
    for s in sector_ranges {
        let start = s.start.saturating_sub(by);
        let end = s.end() + by;
        match wide.last_mut() {
            Some(last) if last.end() >= start => last.length = end - last.start,
            _ => wide.push(SectorRange {
                start,
                length: end - start,
            }),
        }
    }
    wide
}

/// What two sorted lists have in common.
fn common(a: &[SectorRange], b: &[SectorRange]) -> Vec<SectorRange> {
    let mut both = Vec::with_capacity(a.len());
    for s in a {
        let first = b.partition_point(|o| o.end() <= s.start);
        both.extend(b[first..].iter().map_while(|o| s.common(o)));
    }
    both
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

    /// Nothing that is known counts any longer.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Pages in use that are dead, and may be written soon.
    pub fn suspects(&self) -> u64 {
        let watches = self.files.values().filter_map(|k| k.watch.as_ref());
        watches.map(|w| w.suspects()).sum()
    }

    /// Has the target forget what was found before this rule forgot it, and what has
    /// strayed: pages are dead for any length of time.  Before anything else is named.
    pub fn forget_in(&mut self, target: &dyn Target) -> Result<(), Halt> {
        let strayed = std::mem::take(&mut self.strayed);
        if !std::mem::replace(&mut self.target_forgot, false) {
            drop(target.message("forget")?);
        } else {
            for some in strayed.chunks(FORGET) {
                drop(target.message(&audit::message("forget", some))?);
            }
        }
        self.target_forgot = true;
        Ok(())
    }

    /// Which pages of a batch that was sent are dead by now, so that they count when they are
    /// taken.  Gives their number.
    pub fn named(&mut self, found: &Found, target: &dyn Target, batch: &[SectorRange]) -> Result<u64, Halt> {
        let mut dead = audit::dead(target, batch)?;
        tidy(&mut dead);
        for (file, pieces) in found.by_file(&dead) {
            let known = self.files.get_mut(&found.files[file].0);
            let known = known.filter(|k| k.list.file() == found.files[file].1);
            if let Some(known) = known {
                let watch = known.watch.get_or_insert_default();
                watch.named(pieces.iter().map(Extent::bytes));
            }
        }
        Ok(dead.iter().map(|s| s.length * 512 / PAGE).sum())
    }

    /// These are owed from now on, as far as they are dead, and nothing else is.  Gives the bytes.
    pub fn owe(&mut self, found: &Found, target: &dyn Target, ranges: &[SectorRange]) -> Result<u64, Halt> {
        let mut dead = audit::dead(target, ranges)?;
        tidy(&mut dead);
        self.files.values_mut().for_each(|k| k.owed = Places::default());
        let mut owed = 0;
        for (file, mut pieces) in found.by_file(&dead) {
            let known = self.files.get_mut(&found.files[file].0);
            if let Some(known) = known.filter(|k| k.list.file() == found.files[file].1) {
                pieces.sort_unstable_by_key(|p| p.offset);
                known.owed = Places::of(&pieces);
                owed += pieces.iter().map(|p| p.length * 512).sum::<u64>();
            }
        }
        Ok(owed)
    }

    /// What of a batch may be sent now.  Has the target forget what is not the database's
    /// alone any more, and may be dead: of what is `owed` on any drive.
    pub fn again(
        &mut self,
        found: &Found,
        database: &mut dyn Database,
        target: &dyn Target,
        batch: &[SectorRange],
        owed: bool,
    ) -> Result<Vec<SectorRange>, Halt> {
        let (batch, strayed) = found.again(database, batch)?;
        if (found.reach > 0 || owed) && !strayed.is_empty() {
            self.strayed = strayed;
            self.forget_in(target)?;
        }
        Ok(batch)
    }

    /// Whether the process that had the database open at the last look still has; if
    /// not, nothing that was found may be discarded.
    pub(crate) fn is_owner(&mut self, database: &mut dyn Database) -> Result<(), Halt> {
        let same = database.owner().map(|o| o.is_some() && o == self.owner);
        let why = match same {
            Ok(true) => return Ok(()),
            Ok(false) => "another process has the database open, or none".to_owned(),
            Err(e) => e,
        };
        self.forget();
        Err(Halt::Reset(why))
    }

    /// Checks the preconditions, and who has the database open.  Other preconditions, or
    /// another owner, start over.
    fn stand(&mut self, database: &mut dyn Database) -> Result<Owner, Halt> {
        let preconditions = database.preconditions()?;
        let owner = database.owner()?;
        let owner = owner.ok_or_else(|| "no process has the database open".to_owned())?;
        if self.preconditions.as_ref() != Some(&preconditions) || self.owner != Some(owner) {
            self.forget();
            self.preconditions = Some(preconditions);
            self.owner = Some(owner);
        }
        Ok(owner)
    }

    /// The same between checkpoints.
    pub(crate) fn look_around(&mut self, database: &mut dyn Database) -> Result<(), Halt> {
        self.stand(database).map(|_| ())
    }

    /// Looks at what the newest checkpoint has freed: steps 0 to 3 and 5.
    pub fn look(&mut self, database: &mut dyn Database, target: &dyn Target) -> Result<Look, Halt> {
        let r = self.steps(database, target);
        forgotten(r, self)
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
            return Err(Halt::Reset("another process has opened the database".to_owned()));
        }
        // A snapshot that was made before this turtle has what the older one needs.
        if Some(database.preconditions()?) != self.preconditions {
            return Err(Halt::Reset(
                "what the database lies on has changed meanwhile".to_owned(),
            ));
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
        let granularity = status.granularity;
        let other = granularity != self.granularity;
        // What is dead may have no places here.
        self.target_forgot &= !other;
        // A page may have come alive that nobody has written.
        if other || self.window.is_some_and(|r| r < status.valid) {
            for known in self.files.values_mut() {
                known.watch = None;
                known.owed = Places::default();
            }
        }
        self.granularity = granularity;
        let mut found = Found {
            since: self.window.unwrap_or_default(),
            reach: if granularity > PAGE { granularity / 512 } else { 0 },
            standing: Some(seen.standing),
            ..Found::default()
        };
        let mut files = HashMap::with_capacity(seen.files.len());
        for (entry, list) in seen.files {
            let old = self.files.remove(&entry.path);
            let has_list = entry.cookie.as_ref().is_some_and(|c| c.avail.is_some());
            match next(database, &entry, list, old, &mut found)? {
                Some(known) => drop(files.insert(entry.path, known)),
                None => found.listless += u64::from(has_list),
            }
        }
        // Those that were dropped
        self.files.values().for_each(|k| all_strayed(Some(k), &mut found));
        let (audit, suspects) = std::mem::take(&mut found.round).ask(target, &seen.version)?;
        found.audit = audit;
        for s in suspects {
            if let Some(known) = files.get_mut(&s.path) {
                known.watch.get_or_insert_default().suspect(&s);
            }
        }
        self.strayed.append(&mut found.strayed);
        found.sector_ranges = found.origins.iter().map(|(e, _)| e.at()).collect();
        tidy(&mut found.sector_ranges);
        if found.reach > 0 {
            around(&mut found, &files);
        }
        found.owed = found.owed_origins.iter().map(|(e, _)| e.at()).collect();
        tidy(&mut found.owed);
        found.origins.append(&mut found.owed_origins);
        found.origins.sort_unstable_by_key(|(e, _)| e.start);

        // (5)
        self.files = files;
        self.window = Some(window);
        Ok(Look::Found(found.into()))
    }
}

/// The origins of all that the target may discard with what was found.
fn around(found: &mut Found, files: &HashMap<PathBuf, Known>) {
    let reached = widened(&found.sector_ranges, found.reach);
    found.origins.clear();
    found.files.clear();
    for (path, known) in files {
        let before = found.origins.len();
        for piece in known.places.iter().flat_map(Places::pieces) {
            let first = reached.partition_point(|r| r.end() <= piece.start);
            let parts = reached[first..].iter().map_while(|r| piece.within(r));
            let file = found.files.len();
            found.origins.extend(parts.map(|piece| (piece, file)));
        }
        if found.origins.len() > before {
            found.files.push((path.clone(), known.list.file()));
        }
    }
}

/// What is known of a file after a look.
fn next(
    database: &mut dyn Database,
    entry: &FileEntry,
    list: Option<Result<FreeList, Refusal>>,
    old: Option<Known>,
    found: &mut Found,
) -> Result<Option<Known>, Halt> {
    let order = entry.order;
    let Some(cookie) = &entry.cookie else {
        all_strayed(old.as_ref(), found);
        return Ok(None);
    };
    let old = match old {
        Some(mut k) if k.cookie == *cookie && k.order <= order => {
            k.order = order;
            if k.places.is_some() {
                again(database, entry, &mut k, found)?;
            }
            owed(database, entry, &mut k, None, found)?;
            if let Some(watch) = &mut k.watch {
                watch.settle();
            }
            return Ok(Some(k));
        }
        Some(k) if k.order >= order => {
            let name = entry.path.display();
            return Err(Halt::Reset(format!("{name}: its checkpoints have gone back")));
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
        all_strayed(old.as_ref(), found);
        return Ok(None);
    };
    let mut now = Known {
        order,
        cookie: cookie.clone(),
        list: Compact::of(&list),
        places: None,
        owed: Places::default(),
        watch: None,
    };
    match old {
        Some(mut old) if old.list.file() == list.file => {
            let before = old.list.list();
            let freed = difference(&list, &before);
            found.freed += freed.iter().map(|r| r.end - r.start).sum::<u64>();
            let freed = whole_pages(&freed);
            let taken = whole_pages(&difference(&before, &list));
            now.watch = old.watch.take();
            now.places = old.places.take();
            now.owed = old.owed;
            // (3)
            let pieces = if now.places.is_some() || (found.reach > 0 && !freed.is_empty()) {
                again(database, entry, &mut now, found)?
            } else {
                let watch = now.watch.as_ref();
                let mut wanted = watch.map_or_else(|| taken.clone(), |w| w.in_use(&taken, &list));
                wanted.extend_from_slice(&freed);
                wanted.sort_unstable_by_key(|r| r.start);
                match wanted.is_empty() {
                    true => Vec::new(),
                    false => pieces_of(database, &entry.path, list.file, &wanted)?,
                }
            };
            now.watch = found
                .round
                .file(&entry.path, order, now.watch, &taken, &list, &pieces);
            let mut freed_pieces = Vec::new();
            places::of_ranges(&pieces, &freed, &mut |piece| freed_pieces.push(piece));
            if !freed_pieces.is_empty() {
                let file = found.file(&entry.path, list.file);
                found.origins.extend(freed_pieces.into_iter().map(|p| (p, file)));
            }
            owed(database, entry, &mut now, Some(&list), found)?;
        }
        // Another file has its name.
        other => all_strayed(other.as_ref(), found),
    }
    Ok(Some(now))
}

/// A file is no longer known.
fn all_strayed(known: Option<&Known>, found: &mut Found) {
    let places = known.into_iter().flat_map(|k| k.places.iter().chain([&k.owed]));
    found
        .strayed
        .extend(places.flat_map(Places::pieces).map(|p| p.at()));
}

/// These are not where they were, or not the file's alone.
fn stray(known: &mut Known, strayed: &[Extent], found: &mut Found) {
    if let Some(watch) = &mut known.watch {
        watch.stray(strayed);
    }
    found.strayed.extend(strayed.iter().map(Extent::at));
}

/// What is owed of a file and is where it was, and the file's alone.  What is used again, by a new
/// list, is not owed any more.
fn owed(
    database: &mut dyn Database,
    entry: &FileEntry,
    known: &mut Known,
    list: Option<&FreeList>,
    found: &mut Found,
) -> Result<(), Halt> {
    let mut before: Vec<Extent> = known.owed.pieces().collect();
    if let Some(list) = list {
        let (all, free) = (std::mem::take(&mut before), whole_pages(&list.extents));
        places::of_ranges(&all, &free, &mut |piece| before.push(piece));
    }
    if before.is_empty() {
        known.owed = Places::default();
        return Ok(());
    }
    let ranges: Vec<Range<u64>> = before.iter().map(Extent::bytes).collect();
    let now = pieces_of(database, &entry.path, known.list.file(), &ranges)?;
    let strayed = places::strayed(before.iter().copied(), &now);
    stray(known, &strayed, found);
    let stays = places::strayed(before, &strayed);
    known.owed = Places::of(&stays);
    let file = found.file(&entry.path, known.list.file());
    found.owed_origins.extend(stays.into_iter().map(|p| (p, file)));
    Ok(())
}

/// Where a file lies now; what it had before and is not all there has strayed.
fn again(
    database: &mut dyn Database,
    entry: &FileEntry,
    known: &mut Known,
    found: &mut Found,
) -> Result<Vec<Extent>, Halt> {
    let all = 0..u64::MAX;
    let pieces = pieces_of(
        database,
        &entry.path,
        known.list.file(),
        std::slice::from_ref(&all),
    )?;
    if let Some(before) = &known.places {
        let strayed = places::strayed(before.pieces(), &pieces);
        stray(known, &strayed, found);
    }
    known.places = Some(Places::of(&pieces));
    Ok(pieces)
}

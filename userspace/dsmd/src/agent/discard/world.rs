// SPDX-License-Identifier: GPL-2.0-or-later
//! A WiredTiger in memory that allocates, checkpoints, crashes and recovers as the
//! real one does, over a drive on which a discarded page turns into rubbish at once.
//!
//! Whenever the rule asks for something, the database goes on first, and after.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fastrand::Rng;

use super::link::Machine;
use super::owner::Owner;
use super::{Database, Seen};
use database::wiredtiger::avail::{FileEntry, FreeList, Kind, Refusal, Run, Standing, TurtleId};
use dm::device::{MessageError, Target};
use dm::diskstat::DiskStat;
use dm::reply::Status;
use dm::table::Extent;
use proto::reason::{Reason, ReasonKind, AUDIT_FAILED};
use runtime::wake::Waker;
use testing::cookie::cookie;
use testing::kernel::ModelKernel;

const PAGE: u64 = 4096;
const FILES: usize = 3;
/// Units in a place for a file; the files that come take the places that are left.
const PLACE: u64 = 1024;
/// A file is not written beyond this.
const MOST: u64 = 900;
/// Blocks of a file's tree.
const FULL: usize = 60;
/// What a discarded unit reads as, less the number of the discard.
const RUBBISH: u64 = u64::MAX;

/// Numbers of units of allocation, a page or less each; below they are called pages.
type Pages = BTreeSet<u64>;
/// Blocks by their first page: pages, and what was written there.
type Blocks = BTreeMap<u64, (u64, u64)>;

/// A checkpoint of a file.
#[derive(Clone, Default)]
struct Checkpoint {
    order: u64,
    /// A cursor, a backup or a name keeps it.
    kept: bool,
    size: u64,
    /// The list on disk, with its own block.
    avail: Pages,
    /// The list's own block, and what was written there.
    own: (u64, u64),
    alloc: Pages,
    discard: Pages,
    tree: Blocks,
}

impl Checkpoint {
    /// The pages that it needs, and what must be there.
    fn needs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let tree = self
            .tree
            .iter()
            .flat_map(|(&at, &(n, tag))| (at..at + n).map(move |p| (p, tag)));
        tree.chain((self.order > 0).then_some(self.own))
    }
}

/// What the metadata says of a file: its checkpoints, the newest last.
#[derive(Clone)]
struct Row {
    file: u64,
    chain: Vec<Checkpoint>,
}

impl Row {
    fn order(&self) -> u64 {
        self.chain.last().map_or(0, |c| c.order)
    }
}

type Rows = BTreeMap<PathBuf, Row>;

#[derive(Clone, Default)]
struct Turtle {
    number: u64,
    /// The start of the database that wrote it.
    run: u64,
    rows: Rows,
}

/// A file that is open, or was.
struct File {
    ino: u64,
    /// Its first page on the target.
    base: u64,
    size: u64,
    avail: Pages,
    alloc: Pages,
    discard: Pages,
    ckpt_avail: Pages,
    tree: Blocks,
    /// Handed out and not yet written.
    pending: Vec<(u64, u64)>,
    chain: Vec<Checkpoint>,
}

/// How far a checkpoint of the database is.
#[derive(Clone, Debug, PartialEq)]
enum Stage {
    None,
    /// Files before this one have their checkpoint.
    Files(usize),
    Journal,
    Rename,
    Sync,
    Resolve,
}

/// What happened, to see that a test is about something.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub discarded: u64,
    /// Of what was asked for, pages that the list before had named, too.
    pub rest: u64,
    pub checkpoints: u64,
    pub kills: u64,
    /// By the process that had it open.
    pub reopened: u64,
    pub cuts: u64,
    pub ahead: u64,
    pub old: u64,
    pub torn: u64,
    pub backups: u64,
    /// Checkpoints that a name or a cursor keeps.
    pub kept: u64,
    pub drops: u64,
    pub snapshots: u64,
    pub alone: u64,
    pub shares: u64,
}

impl Counts {
    pub(super) fn add(&mut self, o: &Self) {
        self.discarded += o.discarded;
        self.rest += o.rest;
        self.checkpoints += o.checkpoints;
        self.kills += o.kills;
        self.reopened += o.reopened;
        self.cuts += o.cuts;
        self.ahead += o.ahead;
        self.old += o.old;
        self.torn += o.torn;
        self.backups += o.backups;
        self.kept += o.kept;
        self.drops += o.drops;
        self.snapshots += o.snapshots;
        self.alone += o.alone;
        self.shares += o.shares;
    }
}

pub(super) struct World {
    pub rng: Rng,
    pub kernel: ModelKernel,
    /// Pages that are discarded between two looks at the status.
    pub at_once: usize,
    /// Its drive is marked.
    pub broken: bool,
    pub off: Option<String>,
    pub standing: Standing,
    /// What was marked for good.
    pub marks: Vec<String>,
    /// Bytes in a unit of allocation.
    unit: u64,
    files: Vec<(PathBuf, File)>,
    bases: Vec<u64>,
    inodes: u64,
    tags: u64,
    /// Units written into the page cache only, by place.
    cache: BTreeMap<u64, u64>,
    device: BTreeMap<u64, u64>,
    visible: Turtle,
    durable: Turtle,
    /// The newest rows that the journal has; the turtle may be older.
    journal: Option<Rows>,
    /// What `WiredTiger.backup` has, when there is one.
    backup: Option<Turtle>,
    durable_backup: Option<Turtle>,
    /// Of a snapshot between the file system and the device: what it needs and has no
    /// copy of, by place.
    snapshot: Option<BTreeMap<u64, u64>>,
    stage: Stage,
    /// So many steps more the checkpoint waits for the drive.
    slow: u32,
    /// Another file shares all extents.
    pub shared: bool,
    /// There is no time for all that was found.
    pub is_slow: bool,
    /// Nothing is sent.
    pub watched: bool,
    /// A tool deduplicates: single pages come to be another file's, too.
    pub sharing: bool,
    /// Not now: a batch has been looked at and is on its way.
    pub sending: bool,
    /// What that other file needs, by place.
    shares: BTreeMap<u64, u64>,
    /// Of places where a page was shared when it was written: where it is.
    copied: BTreeMap<u64, u64>,
    /// Single files have checkpoints of their own, as in MongoDB 5.0.
    pub alone: bool,
    /// There are few crashes, backups and snapshots: what is known is known for long.
    pub calm: bool,
    /// What the next turtle will say.
    rows: Rows,
    checkpointed: Vec<usize>,
    owner: Option<Owner>,
    starts: u64,
    /// Pages that were copied.
    copies: u64,
    cached: bool,
    stalls: bool,
    pub counts: Counts,
    /// What was found lost, once.
    pub lost: Option<String>,
    log: Vec<String>,
}

fn take(from: &mut Pages, pages: Range<u64>) {
    for p in pages {
        assert!(from.remove(&p), "page {p} is not on the list");
    }
}

impl File {
    /// The first range of free pages that is long enough, or the end of the file.
    fn allocate(&mut self, n: u64) -> u64 {
        let fits = |&&at: &&u64| (at..at + n).all(|p| self.avail.contains(&p));
        let found = self.avail.iter().find(fits).copied();
        let at = found.unwrap_or_else(|| {
            self.size += n;
            self.size - n
        });
        if found.is_some() {
            take(&mut self.avail, at..at + n);
        }
        self.alloc.extend(at..at + n);
        at
    }

    /// What was allocated in this interval can be used again at once.
    fn free(&mut self, at: u64, n: u64) {
        for p in at..at + n {
            if self.alloc.remove(&p) {
                self.avail.insert(p);
            } else {
                assert!(self.discard.insert(p));
            }
        }
    }

    /// Deletes the checkpoints that nobody keeps: what only they needed is free once
    /// the new one is complete.
    fn delete_checkpoints(&mut self) {
        let mut chain = std::mem::take(&mut self.chain);
        while let Some(n) = chain.iter().position(|c| !c.kept) {
            let gone = chain.remove(n);
            let next = chain.get_mut(n);
            let (alloc, discard) = match next {
                Some(c) => (&mut c.alloc, &mut c.discard),
                None => (&mut self.alloc, &mut self.discard),
            };
            alloc.extend(gone.alloc);
            discard.extend(gone.discard);
            let both: Vec<u64> = alloc.intersection(discard).copied().collect();
            for p in both {
                alloc.remove(&p);
                discard.remove(&p);
                self.ckpt_avail.insert(p);
            }
            if gone.order > 0 {
                self.ckpt_avail.insert(gone.own.0);
            }
        }
        self.chain = chain;
    }

    fn open(ino: u64, base: u64, chain: &[Checkpoint]) -> Self {
        let last = chain.last().cloned().unwrap_or_default();
        let mut avail = last.avail.clone();
        avail.remove(&last.own.0);
        Self {
            ino,
            base,
            size: last.size.max(1),
            avail,
            alloc: Pages::new(),
            discard: Pages::new(),
            ckpt_avail: Pages::new(),
            tree: last.tree.clone(),
            pending: Vec::new(),
            chain: chain.to_vec(),
        }
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let (cached, logged, stalls) = (rng.bool(), rng.u8(..3) > 0, rng.bool());
        let unit = if rng.u8(..3) == 0 { PAGE / 4 } else { PAGE };
        let kernel = ModelKernel::new(1 << 20);
        kernel.message("set discard on").unwrap();
        let mut w = Self {
            rng,
            kernel,
            unit,
            files: Vec::new(),
            bases: (0..2 * FILES as u64).map(|n| n * PLACE).collect(),
            inodes: 10,
            tags: 0,
            cache: BTreeMap::new(),
            device: BTreeMap::new(),
            visible: Turtle::default(),
            durable: Turtle::default(),
            journal: logged.then(Rows::new),
            backup: None,
            durable_backup: None,
            snapshot: None,
            broken: false,
            off: None,
            at_once: 100,
            standing: Standing::Discard,
            marks: Vec::new(),
            stage: Stage::None,
            slow: 0,
            shared: false,
            is_slow: false,
            watched: false,
            sharing: false,
            sending: false,
            shares: BTreeMap::new(),
            copied: BTreeMap::new(),
            alone: false,
            calm: false,
            rows: Rows::new(),
            checkpointed: Vec::new(),
            owner: None,
            starts: 0,
            copies: 0,
            cached,
            stalls,
            counts: Counts::default(),
            lost: None,
            log: Vec::new(),
        };
        for n in 0..FILES {
            w.create(PathBuf::from(format!("{n}.wt")));
        }
        w.start();
        w
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.log.len() == 400 {
            self.log.drain(..200);
        }
        self.log.push(text());
    }

    /// What happened last.
    pub(super) fn transcript(&self) -> String {
        self.log.join("\n")
    }

    /// It was shut down, and another one may be started.
    pub(super) fn has_owner(&mut self, has: bool) {
        self.owner = None;
        if has {
            self.start();
        }
    }

    fn start(&mut self) {
        self.owner = None;
        self.open();
    }

    /// By the process that had it open before, if there is one.
    fn open(&mut self) {
        self.starts += 1;
        self.owner.get_or_insert(Owner {
            pid: 100,
            start: self.starts,
            uid: 0,
        });
    }

    fn create(&mut self, path: PathBuf) {
        let n = self.rng.usize(..self.bases.len());
        let base = self.bases.swap_remove(n);
        self.inodes += 1;
        self.files.push((path, File::open(self.inodes, base, &[])));
    }

    fn tag(&mut self) -> u64 {
        self.tags += 1;
        self.tags
    }

    /// Units in a page.
    fn per_page(&self) -> u64 {
        PAGE / self.unit
    }

    /// Where the drive has what the files have there.
    fn place(&self, place: u64) -> u64 {
        self.copied.get(&place).copied().unwrap_or(place)
    }

    /// A unit reaches the drive.
    fn arrives(&mut self, place: u64, tag: u64) {
        let mut at = self.place(place);
        if self.shares.contains_key(&at) {
            at = 2 * FILES as u64 * PLACE + self.copies;
            self.copies += 1;
            self.copied.insert(place, at);
        }
        let place = at;
        if let Some(needs) = &mut self.snapshot {
            needs.remove(&place);
        }
        self.kernel.write_page(place / self.per_page());
        self.device.insert(place, tag);
    }

    fn write(&mut self, place: u64, tag: u64) {
        if self.cached {
            self.cache.insert(place, tag);
        } else {
            self.arrives(place, tag);
        }
    }

    /// Whatever comes next; so often.
    pub(super) fn advance(&mut self, most: usize) {
        for _ in 0..self.rng.usize(..=most) {
            // The transcript ends where something was lost.
            if self.lost.is_none() {
                self.step();
            }
        }
    }

    /// How much happens around a call, as a rule; now and then the agent is stopped for as
    /// long as several checkpoints take.
    fn lag(&mut self, usual: usize) -> usize {
        if self.stalls && self.rng.u8(..40) == 0 {
            400
        } else {
            usual
        }
    }

    fn step(&mut self) {
        let n = self.rng.usize(..FILES);
        let what = self.rng.u32(..1000);
        if self.calm && [705..=719, 729..=731].iter().any(|w| w.contains(&what)) && self.rng.u8(..30) > 0 {
            return;
        }
        match what {
            0..=399 => self.allocate(n),
            400..=549 => self.write_pending(n),
            550..=649 => self.free(n),
            650..=699 => self.write_back(),
            700..=709 => self.keep(n),
            710..=714 => self.begin_backup(),
            715..=724 => self.end_backup(),
            725..=728 => self.drop_and_create(n),
            729 => self.crash(),
            // Somebody reloads the table.
            730 => self.kernel.lose_writes(),
            731 => self.begin_snapshot(),
            732..=739 => self.snapshot = None,
            740..=779 if self.alone => self.checkpoint_alone(n),
            745..=749 if self.sharing => self.share(n),
            750 if self.sharing => drop(self.shares.pop_first()),
            740..=799 => {
                let pages = self.rng.usize(1..20);
                self.discard(pages);
            }
            _ => self.checkpoint(),
        }
    }

    fn allocate(&mut self, n: usize) {
        let length = self.rng.u64(1..=3 * self.per_page());
        let file = &mut self.files[n].1;
        if file.tree.len() < FULL && file.size < MOST {
            let at = file.allocate(length);
            file.pending.push((at, length));
        }
    }

    /// A block that was handed out is written.
    fn write_pending(&mut self, n: usize) {
        let file = &mut self.files[n].1;
        if file.pending.is_empty() {
            return;
        }
        let k = self.rng.usize(..file.pending.len());
        let (at, length) = file.pending.swap_remove(k);
        let base = file.base;
        let tag = self.tag();
        self.files[n].1.tree.insert(at, (length, tag));
        for p in at..at + length {
            self.write(base + p, tag);
        }
    }

    fn free(&mut self, n: usize) {
        let file = &mut self.files[n].1;
        let mut blocks: Vec<u64> = file.tree.keys().copied().collect();
        if blocks.len() < 4 {
            return;
        }
        // Most of what is written is written again soon.
        let mut from = blocks.len() / 2;
        if self.rng.bool() {
            blocks.sort_by_key(|at| file.tree[at].1);
            from = blocks.len() * 7 / 8;
        }
        for _ in 0..self.rng.usize(1..6) {
            let at = blocks[self.rng.usize(from..blocks.len())];
            if let Some((length, _)) = file.tree.remove(&at) {
                file.free(at, length);
            }
        }
    }

    /// The page cache writes what it likes.
    fn write_back(&mut self) {
        let dirty: Vec<u64> = self.cache.keys().copied().collect();
        for place in dirty {
            if self.rng.u8(..4) == 0 {
                let tag = self.cache.remove(&place).unwrap();
                self.arrives(place, tag);
            }
        }
    }

    /// A checkpoint gets or loses its cursor.
    fn keep(&mut self, n: usize) {
        let has_backup = self.backup.is_some();
        let rng = &mut self.rng;
        let chain = &mut self.files[n].1.chain;
        if chain.iter().any(|c| c.kept) {
            if !has_backup {
                chain.iter_mut().for_each(|c| c.kept = false);
            }
        } else if let Some(c) = chain.last_mut() {
            c.kept = rng.bool();
            self.counts.kept += u64::from(c.kept);
        }
    }

    fn begin_backup(&mut self) {
        // Not while a checkpoint is at work, which has the lock.
        if self.backup.is_none() && self.stage == Stage::None {
            self.counts.backups += 1;
            for (_, f) in &mut self.files {
                f.chain.iter_mut().for_each(|c| c.kept = true);
            }
            let row = |(path, f): &(PathBuf, File)| {
                let row = Row {
                    file: f.ino,
                    chain: f.chain.clone(),
                };
                (!f.chain.is_empty()).then(|| (path.clone(), row))
            };
            self.backup = Some(Turtle {
                number: 0,
                run: 0,
                rows: self.files.iter().filter_map(row).collect(),
            });
            self.durable_backup = self.backup.clone();
            self.note(|| "a backup begins".into());
        }
    }

    /// The file goes first, then checkpoints may delete what it named.
    fn end_backup(&mut self) {
        if self.backup.take().is_some() {
            for (_, f) in &mut self.files {
                f.chain.iter_mut().for_each(|c| c.kept = false);
            }
            self.note(|| "a backup ends".into());
        }
    }

    fn drop_and_create(&mut self, n: usize) {
        if self.stage != Stage::None || self.backup.is_some() || self.rng.bool() {
            return;
        }
        self.counts.drops += 1;
        let (path, file) = self.files.remove(n);
        self.cache
            .retain(|place, _| !(file.base..file.base + PLACE).contains(place));
        self.bases.push(file.base);
        self.create(path);
        let created = self.files.pop().unwrap();
        self.files.insert(n, created);
    }

    /// What a page has is what another file has, whoever needs it in the database.
    fn share(&mut self, n: usize) {
        if self.sending || self.per_page() != 1 {
            return;
        }
        let file = &self.files[n].1;
        let place = file.base + self.rng.u64(..file.size);
        if let Some(tag) = self.cache.remove(&place) {
            self.arrives(place, tag);
        }
        let at = self.place(place);
        if let Some(tag) = self.device.get(&at).copied() {
            self.counts.shares += 1;
            self.shares.insert(at, tag);
            self.note(|| format!("place {at} is shared"));
        }
    }

    /// The file system is frozen for it, and what it may read is the device's as it is now.
    fn begin_snapshot(&mut self) {
        if self.snapshot.is_some() || self.visible.rows.len() < FILES {
            return;
        }
        self.counts.snapshots += 1;
        for (place, tag) in std::mem::take(&mut self.cache) {
            self.arrives(place, tag);
        }
        self.sync_directory();
        let rows = self.journal.as_ref().unwrap_or(&self.visible.rows);
        let mut needs = BTreeMap::new();
        for (path, file) in &self.files {
            let row = rows.get(path).filter(|r| r.file == file.ino);
            let newest = row.and_then(|r| r.chain.last());
            needs.extend(newest.into_iter().flat_map(|c| {
                let of_file = c.needs();
                of_file.map(|(page, tag)| (self.place(file.base + page), tag))
            }));
        }
        self.snapshot = Some(needs);
        self.note(|| "a snapshot is made".into());
    }

    /// A handle is closed: a checkpoint of this file, complete with the journal and without
    /// a turtle.
    fn checkpoint_alone(&mut self, n: usize) {
        // It makes nothing durable but what is the file's.
        let busy = self.stage != Stage::None || self.durable_backup.is_some() || self.backup.is_some();
        if busy || self.visible.rows.len() < FILES {
            return;
        }
        if self.journal.is_none() {
            return;
        }
        self.counts.alone += 1;
        self.checkpoint_file(n);
        let (path, file) = &mut self.files[n];
        let freed = std::mem::take(&mut file.ckpt_avail);
        file.avail.extend(freed);
        let row = Row {
            file: file.ino,
            chain: file.chain.clone(),
        };
        let path = path.clone();
        self.note(|| format!("a checkpoint of {} alone", path.display()));
        self.journal.as_mut().unwrap().insert(path, row);
    }

    fn checkpoint(&mut self) {
        if self.slow > 0 {
            self.slow -= 1;
            return;
        }
        // Once in a while the journal, the rename or the sync takes long.
        let waits = matches!(self.stage, Stage::Journal | Stage::Rename | Stage::Sync);
        if waits && self.rng.u8(..6) == 0 {
            self.slow = self.rng.u32(..120);
        }
        match self.stage.clone() {
            Stage::None => {
                if self.rng.u8(..8) == 0 {
                    self.stage = Stage::Files(0);
                    self.checkpointed.clear();
                }
            }
            Stage::Files(FILES) => self.stage = Stage::Journal,
            Stage::Files(n) => {
                self.stage = Stage::Files(n + 1);
                // One whose handle is busy is left out, and so is a clean one.
                if self.rng.u8(..5) > 0 {
                    self.checkpoint_file(n);
                    self.checkpointed.push(n);
                }
            }
            Stage::Journal => {
                self.stage = Stage::Rename;
                self.rows = self.visible.rows.clone();
                for &n in &self.checkpointed {
                    let (path, file) = &self.files[n];
                    let row = Row {
                        file: file.ino,
                        chain: file.chain.clone(),
                    };
                    self.rows.insert(path.clone(), row);
                }
                if let Some(journal) = &mut self.journal {
                    // Recovered rows of files that have no new checkpoint are in the
                    // metadata that is checkpointed now.
                    let mut rows = std::mem::take(journal);
                    rows.extend(self.checkpointed.iter().map(|&n| {
                        let path = self.files[n].0.clone();
                        (path.clone(), self.rows[&path].clone())
                    }));
                    *journal = rows.clone();
                    self.rows = rows;
                }
                // It has what the turtle has not yet.
                if self.rng.u8(..20) == 0 && !self.calm {
                    self.crash();
                }
            }
            Stage::Rename => {
                self.stage = Stage::Sync;
                self.visible.number += 1;
                self.visible.run = self.starts;
                self.visible.rows = std::mem::take(&mut self.rows);
                self.counts.checkpoints += 1;
                let number = self.visible.number;
                self.note(|| format!("turtle {number}"));
            }
            Stage::Sync => {
                self.stage = Stage::Resolve;
                self.sync_directory();
            }
            Stage::Resolve => {
                self.stage = Stage::None;
                for &n in &self.checkpointed {
                    let file = &mut self.files[n].1;
                    let freed = std::mem::take(&mut file.ckpt_avail);
                    file.avail.extend(freed);
                }
                self.note(|| "resolved".into());
            }
        }
    }

    fn sync_directory(&mut self) {
        self.durable = self.visible.clone();
        self.durable_backup = self.backup.clone();
    }

    fn checkpoint_file(&mut self, n: usize) {
        // It waits for writes under way; others begin while it is at work.
        while !self.files[n].1.pending.is_empty() {
            self.write_pending(n);
        }
        if self.rng.u8(..3) == 0 {
            self.allocate(n);
        }
        let tag = self.tag();
        let file = &mut self.files[n].1;
        let order = file.chain.last().map_or(0, |c| c.order) + 1;
        // What is deleted is its metadata's: a crash finds it as long as the turtle
        // does.
        file.delete_checkpoints();
        while file.avail.remove(&(file.size - 1)) {
            file.size -= 1;
        }
        let mut avail = file.avail.clone();
        avail.extend(&file.ckpt_avail);
        let own = file.allocate(1);
        file.alloc.remove(&own);
        file.chain.push(Checkpoint {
            order,
            kept: false,
            size: file.size,
            avail,
            own: (own, tag),
            alloc: std::mem::take(&mut file.alloc),
            discard: std::mem::take(&mut file.discard),
            tree: file.tree.clone(),
        });
        let (base, size) = (file.base, file.size);
        self.write(base + own, tag);
        // Its data is synced before the metadata.
        let dirty: Vec<u64> = self.cache.range(base..base + size).map(|(p, _)| *p).collect();
        for place in dirty {
            let tag = self.cache.remove(&place).unwrap();
            self.arrives(place, tag);
        }
    }

    /// The database dies, or the machine does, and recovers.
    fn crash(&mut self) {
        if self.visible.rows.len() < FILES {
            return;
        }
        let cut = self.rng.bool();
        let mut turtle = self.visible.clone();
        let mut backup = self.backup.clone();
        if cut {
            self.counts.cuts += 1;
            self.cache.clear();
            // All that was known of writes is gone with the machine.
            self.kernel.lose_writes();
            self.kernel.run_discards(usize::MAX >> 1);
            if self.rng.bool() {
                turtle = self.durable.clone();
                backup = self.durable_backup.clone();
                self.counts.old += u64::from(turtle.number != self.visible.number);
            }
        } else {
            self.counts.kills += 1;
        }
        if cut || self.rng.bool() {
            self.owner = None;
        } else {
            self.counts.reopened += 1;
        }
        let rows = match (backup, &mut self.journal) {
            (Some(backup), journal) => {
                // The metadata is rebuilt from it, and a turtle with it.
                if let Some(journal) = journal {
                    journal.clone_from(&backup.rows);
                }
                turtle = Turtle {
                    number: self.visible.number + 1,
                    run: self.starts + 1,
                    rows: backup.rows.clone(),
                };
                backup.rows
            }
            (None, Some(journal)) => {
                let older = |(path, row): (&PathBuf, &Row)| {
                    turtle.rows.get(path).is_none_or(|t| t.order() < row.order())
                };
                self.counts.ahead += u64::from(journal.iter().any(older));
                journal.clone()
            }
            (None, None) => turtle.rows.clone(),
        };
        self.note(|| format!("crash, power cut: {cut}"));
        for n in 0..FILES {
            let (path, file) = &mut self.files[n];
            if let Some(row) = rows.get(path).filter(|r| r.file == file.ino) {
                let mut chain = row.chain.clone();
                chain.iter_mut().for_each(|c| c.kept = false);
                *file = File::open(file.ino, file.base, &chain);
            } else {
                // It is as it was made: empty.
                *file = File::open(file.ino, file.base, &[]);
            }
        }
        // The turtle stays as it is until this process has a checkpoint, though the
        // files go on from what the journal has.
        self.visible = turtle;
        self.durable = self.visible.clone();
        self.backup = None;
        self.durable_backup = None;
        self.stage = Stage::None;
        self.slow = 0;
        self.open();
        self.check("after a crash");
    }

    /// The target's worker discards what waits.
    pub(super) fn discard(&mut self, pages: usize) {
        let gone = self.kernel.run_discards(pages);
        if gone.is_empty() {
            return;
        }
        self.counts.discarded += gone.len() as u64;
        for page in &gone {
            let units = page * self.per_page()..(page + 1) * self.per_page();
            let rubbish = RUBBISH - self.counts.discarded;
            self.device.extend(units.map(|place| (place, rubbish)));
        }
        self.note(|| format!("discarded {gone:?}"));
        self.check("after a discard");
    }

    /// Whether everything that anybody can need is there.
    fn check(&mut self, when: &str) {
        if self.lost.is_some() {
            return;
        }
        let there = |place: u64| {
            self.cache
                .get(&place)
                .or_else(|| self.device.get(&self.place(place)))
                .copied()
        };
        let mut lost = None;
        for (path, file) in &self.files {
            let mut need = |what: &str, page: u64, tag: u64, durable: bool| {
                let place = file.base + page;
                let found = if durable {
                    self.device.get(&self.place(place)).copied()
                } else {
                    there(place)
                };
                if found != Some(tag) {
                    let path = path.display();
                    lost = Some(format!(
                        "{when}: {path}: page {page} (place {place}) of {what} has {found:?}, not {tag}"
                    ));
                }
            };
            for (&at, &(n, tag)) in &file.tree {
                (at..at + n).for_each(|p| need("the tree", p, tag, false));
            }
            // What a recovery can begin with.
            let backups = [self.backup.as_ref(), self.durable_backup.as_ref()];
            let turtles = [Some(&self.visible), Some(&self.durable)];
            let turtles = turtles.into_iter().filter(|_| self.journal.is_none());
            let rows = backups
                .into_iter()
                .chain(turtles)
                .flatten()
                .map(|t| &t.rows)
                .chain(&self.journal);
            let chains = rows.filter_map(|r| r.get(path).filter(|r| r.file == file.ino).map(|r| &r.chain));
            for c in chains.filter_map(|c| c.last()) {
                for (page, tag) in c.needs() {
                    need(&format!("checkpoint {}", c.order), page, tag, true);
                }
            }
            for c in file.chain.iter().filter(|c| c.kept) {
                for (page, tag) in c.needs() {
                    need(
                        &format!("checkpoint {}, which is kept,", c.order),
                        page,
                        tag,
                        true,
                    );
                }
            }
        }
        for (place, tag) in self.snapshot.iter().flatten() {
            let found = self.device.get(place);
            if found != Some(tag) {
                lost = Some(format!(
                    "{when}: place {place} of a snapshot has {found:?}, not {tag}"
                ));
            }
        }
        for (place, tag) in &self.shares {
            let found = self.device.get(place);
            if found != Some(tag) {
                lost = Some(format!(
                    "{when}: place {place} of another file has {found:?}, not {tag}"
                ));
            }
        }
        self.lost = lost;
    }

    fn entry(&self, path: &Path, row: &Row) -> FileEntry {
        FileEntry {
            path: path.to_owned(),
            order: row.order(),
            cookie: row.chain.last().map(|c| cookie(c.own, c.size, self.unit)),
            leaf_page: None,
        }
    }

    fn list(&self, path: &Path, row: &Row) -> Result<FreeList, Refusal> {
        let (_, file) = self.files.iter().find(|(p, _)| p == path).unwrap();
        let c = row.chain.last().unwrap();
        if row.file != file.ino {
            // Most of those that are dropped never come back.
            let kind = if row.file % 2 == 0 {
                Kind::Gone
            } else {
                Kind::Damaged
            };
            let message = format!("{}: not a list", path.display());
            return Err(Refusal { kind, message });
        }
        let mut pages = c.avail.clone();
        pages.remove(&c.own.0);
        let unit = self.unit;
        let extents = pages.iter().map(|p| p * unit..(p + 1) * unit).collect();
        Ok(FreeList {
            file: (file.ino, i128::from(file.ino)),
            file_size: c.size * unit,
            extents,
        })
    }
}

fn torn() -> Refusal {
    Refusal {
        kind: Kind::Torn,
        message: "a checkpoint completed meanwhile".into(),
    }
}

/// The world, as the rule and its agent see it.
#[derive(Clone)]
pub(super) struct Side {
    pub world: Rc<RefCell<World>>,
    /// The agent is killed at this call.
    pub dies: Rc<RefCell<Option<u32>>>,
    /// How much happens around each call.
    pub lag: usize,
    /// The target works on its queue while its status is read: there is always an event.
    pub event: Waker,
}

fn awake() -> Waker {
    let waker = Waker::new().unwrap();
    waker.wake();
    waker
}

impl Side {
    pub(super) fn of(world: &Rc<RefCell<World>>) -> Self {
        Self {
            world: world.clone(),
            dies: Rc::default(),
            lag: 3,
            event: awake(),
        }
    }

    fn call<R>(&self, f: impl FnOnce(&mut World) -> R) -> Result<R, String> {
        if let Some(left) = &mut *self.dies.borrow_mut() {
            if *left == 0 {
                return Err("killed".into());
            }
            *left -= 1;
        }
        let mut w = self.world.borrow_mut();
        let before = w.lag(self.lag);
        w.advance(before);
        let r = f(&mut w);
        let after = w.lag(self.lag);
        w.advance(after);
        Ok(r)
    }
}

impl Target for Side {
    fn sectors(&self) -> u64 {
        1 << 20
    }

    fn message(&self, text: &str) -> Result<String, MessageError> {
        self.call(|w| {
            w.note(|| text.to_owned());
            w.kernel.message(text)
        })
        .unwrap_or_else(|e| Err(MessageError::Refused(e)))
    }

    fn status(&self) -> Result<Status, MessageError> {
        let mut w = self.world.borrow_mut();
        let pages = w.at_once;
        w.discard(pages);
        w.kernel.status()
    }

    fn events(&self) -> Result<Option<BorrowedFd<'_>>, MessageError> {
        Ok(Some(self.event.as_fd()))
    }
}

impl Machine for Side {
    fn drive(&self) -> DiskStat {
        DiskStat::default()
    }

    fn warning(&self) -> Option<String> {
        None
    }

    fn forbidden(&self) -> Option<Reason> {
        let world = self.world.borrow();
        let failed = world
            .marks
            .first()
            .map(|why| Reason::new(ReasonKind::AuditFailed, format!("{AUDIT_FAILED}: {why}")));
        let marked = failed.or_else(|| world.broken.then(|| "it is marked".into()));
        marked.or_else(|| world.off.clone().map(Reason::from))
    }

    fn mark(&self, why: &str) -> Result<(), String> {
        self.call(|w| w.marks.push(why.to_owned()))
    }
}

impl Database for Side {
    fn stands(&mut self) -> Result<(), Reason> {
        Ok(())
    }

    fn preconditions(&mut self) -> Result<String, String> {
        self.call(|w| match w.snapshot {
            Some(_) => Err("a snapshot lies below the file system".to_owned()),
            None => Ok("solid".to_owned()),
        })?
    }

    fn turtle(&mut self) -> Result<Option<TurtleId>, String> {
        self.call(|w| Some(TurtleId(w.visible.number.to_string())))
    }

    fn owner(&mut self) -> Result<Option<Owner>, String> {
        self.call(|w| w.owner)
    }

    fn read(&mut self, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Result<Seen, Refusal> {
        let io = |message| Refusal {
            kind: Kind::Io,
            message,
        };
        for _ in 0..3 {
            let turtle = self.call(|w| w.visible.clone()).map_err(io)?;
            let mut files = Vec::new();
            for (path, row) in &turtle.rows {
                let entry = self.world.borrow().entry(path, row);
                let list = if wanted(&entry) {
                    Some(self.call(|w| w.list(path, row)).map_err(io)?)
                } else {
                    None
                };
                files.push((entry, list));
            }
            let same = self.call(|w| w.visible.number == turtle.number).map_err(io)?;
            if same {
                let run = Run {
                    metadata: (1, 1),
                    generation: Some(turtle.run),
                };
                let turtle = TurtleId(turtle.number.to_string());
                let standing = self.world.borrow().standing.clone();
                return Ok(Seen {
                    turtle,
                    run,
                    version: "12.0.0".into(),
                    standing,
                    files,
                });
            }
        }
        self.world.borrow_mut().counts.torn += 1;
        Err(torn())
    }

    fn sync_dbpath(&mut self) -> Result<(), Reason> {
        self.call(|w| {
            if w.backup.is_some() {
                return Err("there is a WiredTiger.backup".into());
            }
            w.sync_directory();
            w.note(|| "synced".into());
            Ok(())
        })?
    }

    fn places(
        &mut self,
        path: &Path,
        file: (u64, i128),
        ranges: &[Range<u64>],
        emit: &mut dyn FnMut(Extent),
    ) -> Result<(), String> {
        let found = self.call(|w| {
            let f = w.files.iter().find(|(p, f)| p == path && f.ino == file.0);
            f.filter(|_| !w.shared)
                .map(|(_, f)| (f.base * w.unit, f.size * w.unit))
        })?;
        let Some((base, size)) = found else {
            return Ok(());
        };
        let w = self.world.borrow();
        // The file system has whole blocks.
        let end = size.next_multiple_of(PAGE);
        for r in ranges {
            let to = r.end.min(end);
            if w.sharing && w.per_page() == 1 {
                for offset in (r.start..to).step_by(PAGE as usize) {
                    let start = w.place((base + offset) / PAGE);
                    if !w.shares.contains_key(&start) {
                        emit(Extent::new(offset / 512, start * PAGE / 512, PAGE / 512));
                    }
                }
            } else if r.start < to {
                let start = (base + r.start) / 512;
                emit(Extent::new(r.start / 512, start, (to - r.start) / 512));
            }
        }
        Ok(())
    }
}

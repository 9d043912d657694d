// SPDX-License-Identifier: GPL-2.0-or-later
//! The agent: keeps the kernel's table equal to what is in a dbpath, and tells
//! the kernel of checkpoints.
//!
//! It knows the kernel as a [`Target`], the file system's extents as a
//! [`Mapper`], and time not at all but in automatic mode: `run` and `clock` say when to
//! do what.

mod auto;
mod clock;
pub mod control;
pub mod discard;
mod files;
mod hint;
mod load;
mod parts;
mod room;
pub mod run;
pub mod state;

#[cfg(test)]
mod auto_tests;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::fd::OwnedFd;
use serde::Deserialize;
use thiserror::Error;

use crate::agent::control::{FileInfo, Marked, ObjectInfo, Refreshed};
use crate::base::log;
use crate::dbpath::fiemap::{Mapper, Seen};
use crate::dbpath::mongo::catalog::Catalog;
use crate::dbpath::rules::{Kind, Rules};
use crate::dbpath::turtle;
use crate::dbpath::walk::{self, open_file, FoundFile, Root, Skipped};
use crate::kernel::class::Class;
use crate::kernel::device::{MessageError, Target};
use crate::kernel::reply::{Checkpoint, Commit};
use crate::kernel::table::{self, resolve_overlaps, Extent, Upload};

use auto::Auto;
pub use files::Scope;
use files::{Collector, Tracked};
use hint::Hints;
use load::{Load, Sums};
use room::Room;
use state::{born, Directory, Kept, State};

/// Uploads that are tried before a refresh is given up.
const ATTEMPTS: u32 = 3;
/// A window in which less was written, in bytes, may be that of a schema change.
const LITTLE: u64 = 1 << 20;
/// Entries of a dbpath that are logged as passed over.
const MAX_LOGGED: usize = 1000;

/// When files get their boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundaryMode {
    /// When the load phase is over.
    #[default]
    Auto,
    /// Not before `dsmctl boundary mark`.
    Manual,
    /// At once for the files that are there.
    Attach,
}

impl BoundaryMode {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
            Self::Attach => "attach",
        }
    }
}

/// What becomes of a boundary that its file has outgrown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outgrown {
    /// It is told.
    #[default]
    Report,
    /// It moves to the size that the file has at a checkpoint.
    Move,
}

/// How an agent does its work.
#[derive(Debug, Default)]
pub struct Options {
    pub mode: BoundaryMode,
    pub outgrown: Outgrown,
    pub rules: Rules,
    /// Bytes of room that a growing file gets beyond its end.
    pub preallocate: u64,
    /// Files get the lifetime hints that name their classes.
    pub write_hints: bool,
    /// FileStream's T, when files get streams by themselves.
    pub auto: Option<Duration>,
    /// What an agent before this one left.
    pub state: Option<State>,
}

/// Why the agent cannot go on.
#[derive(Debug, Error)]
pub enum Fatal {
    #[error("the device is gone")]
    DeviceGone,
    #[error("the dbpath was unmounted, moved or removed")]
    DbpathGone,
    #[error("cannot read the dbpath: {0}")]
    Dbpath(io::Error),
    #[error("{0}; start dsmd again")]
    Resized(MessageError),
    #[error("cannot talk with the kernel: {0}")]
    Kernel(MessageError),
}

impl From<io::Error> for Fatal {
    fn from(e: io::Error) -> Self {
        Self::Dbpath(e)
    }
}

/// What a refresh did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Files whose extents were read.
    pub read: u64,
    /// Files that differ from what the kernel had, and that are gone.
    pub changed: u64,
    pub dropped: u64,
    /// What the kernel has now, when something was uploaded.
    pub commit: Option<Commit>,
    /// The kernel refused to the last.
    pub failed: bool,
    pub took: Duration,
}

/// Figures for `dsmctl`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub checkpoints: u64,
    pub uploads: u64,
    pub refusals: u64,
    pub last_refresh: Duration,
}

/// Called with each directory that a walk enters.
pub type OnDir<'a> = &'a mut dyn FnMut(&Path, &OwnedFd);

pub struct Agent<T: Target, M: Mapper> {
    pub target: T,
    mapper: M,
    root: Root,
    mode: BoundaryMode,
    outgrown: Outgrown,
    rules: Rules,
    /// What the rules' objects are stamped with, on a device with so many streams.
    stamps: Vec<Option<table::Stamp>>,
    device_streams: u32,
    streams_known: bool,
    auto: Option<Auto>,
    load: Load,
    room: Room,
    hints: Hints,
    /// Whether files get boundaries at their first checkpoint.
    marked: bool,
    files: HashMap<u64, Tracked>,
    /// Boundaries that the kernel had when the agent started.
    inherited: HashMap<u64, (Class, u64)>,
    /// Boundaries that an agent before this one had kept.
    kept: HashMap<u64, Kept>,
    /// The state to keep is another one.
    unsaved: bool,
    /// Ids that the kernel has and that are gone.
    drops: HashSet<u64>,
    /// The kernel's generation after the last upload.
    generation: u64,
    /// The next upload must be a full one.
    full: bool,
    /// Files share sectors, so that uploads must be freed of overlaps.
    overlapping: bool,
    /// The checkpoint entry of the last turtle.
    entry: Option<String>,
    /// Tables came or went in this window.
    schema: bool,
    /// What had been written when this window began.
    written: u64,
    walks: u64,
    figures: Figures,
    logged: HashSet<(PathBuf, Skipped)>,
    /// Reused by every reading of extents.
    extents: Vec<Extent>,
}

/// How the reading of a file's extents ended.
enum Reading {
    Done(walk::Stamp, Seen),
    Gone,
    Failed,
}

/// The kernel's answer to an upload: the outer error ends the agent.
type Uploaded = Result<Result<Option<Commit>, String>, Fatal>;

fn directory(root: &Root) -> Directory {
    let (ino, btime) = root.identity();
    Directory {
        ino,
        born: born(btime),
    }
}

fn fatal(e: MessageError) -> Fatal {
    match e {
        MessageError::Gone => Fatal::DeviceGone,
        MessageError::Resized(..) => Fatal::Resized(e),
        e => Fatal::Kernel(e),
    }
}

impl<T: Target, M: Mapper> Agent<T, M> {
    pub fn new(target: T, mapper: M, root: Root, options: Options) -> Self {
        let Options {
            mode,
            outgrown,
            rules,
            preallocate,
            write_hints,
            auto,
            state,
        } = options;
        let here = directory(&root);
        let state = state.filter(|s| {
            if s.root != here {
                log!(Info, "the state file is about another data directory");
            }
            s.root == here
        });
        let marked = state.as_ref().is_some_and(|s| s.marked);
        Self {
            target,
            mapper,
            root,
            mode,
            outgrown,
            rules,
            stamps: Vec::new(),
            device_streams: 0,
            streams_known: false,
            auto: auto.map(|period| Auto::new(period, Instant::now())),
            load: Load::default(),
            room: Room::new(preallocate),
            hints: Hints::new(write_hints),
            marked: marked || mode == BoundaryMode::Attach,
            files: HashMap::new(),
            inherited: HashMap::new(),
            kept: state.map(State::by_ino).unwrap_or_default(),
            unsaved: false,
            drops: HashSet::new(),
            generation: 0,
            full: true,
            overlapping: false,
            entry: None,
            schema: false,
            written: 0,
            walks: 0,
            figures: Figures::default(),
            logged: HashSet::new(),
            extents: Vec::new(),
        }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn mode(&self) -> BoundaryMode {
        self.mode
    }

    pub fn marked(&self) -> bool {
        self.marked
    }

    pub fn figures(&self) -> Figures {
        self.figures
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn boundaries(&self) -> u64 {
        self.files.values().filter(|f| f.boundary.is_some()).count() as u64
    }

    pub fn outgrown(&self) -> u64 {
        self.files.values().filter(|f| f.outgrown()).count() as u64
    }

    /// What an agent after this one must know, when it is not what the last
    /// call gave.
    pub fn unsaved_state(&mut self, device: &str) -> Option<State> {
        if !std::mem::take(&mut self.unsaved) {
            return None;
        }
        let kept = |(&ino, f): (&u64, &Tracked)| {
            f.boundary.map(|boundary| Kept {
                ino,
                born: born(f.stamp.btime),
                boundary,
            })
        };
        let files = self.files.iter().filter_map(kept).collect();
        Some(State::new(device, directory(&self.root), self.marked, files))
    }

    /// What [`Self::unsaved_state`] gave was lost.
    pub fn state_is_unsaved(&mut self) {
        self.unsaved = true;
    }

    /// What was seen of all files' extents at their last reading.
    pub fn seen(&self) -> Seen {
        let mut sum = Seen::default();
        for f in self.files.values() {
            sum += f.seen;
        }
        sum
    }

    /// The generation that the kernel shows unless somebody else uploads.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The kernel's table is not what the agent made it.
    pub fn distrust_table(&mut self) {
        self.full = true;
    }

    /// Whether the next upload may be one of differences.
    pub fn trusts_table(&self) -> bool {
        !self.full
    }

    /// Takes over what the kernel and the state know of boundaries, reads every
    /// extent and uploads a full table.
    ///
    /// Boundaries that are known mean that a dsmd was here before.  Then also in
    /// mode `attach` the files that have none wait for their first checkpoint,
    /// as if that dsmd had gone on.
    pub fn attach(&mut self, on_dir: OnDir<'_>) -> Result<Outcome, Fatal> {
        for r in self.target.regions().map_err(fatal)? {
            if let Some(b) = r.boundary {
                self.inherited.insert(r.id, (r.class, b));
            }
        }
        let streams = self.target.status().map_err(fatal)?.device_streams;
        self.set_device_streams(streams);
        self.hints.begin(&self.target).map_err(fatal)?;
        let continues = !self.inherited.is_empty() || !self.kept.is_empty();
        self.marked |= continues;
        self.entry = turtle::read_entry(&self.handle()?)?;
        let started = Instant::now();
        let mut outcome = Outcome::default();
        self.look(Scope::All, on_dir, &mut outcome)?;
        self.auto_begins();
        self.inherited = HashMap::new();
        self.kept = HashMap::new();
        self.unsaved = self.marked;
        if self.mode == BoundaryMode::Attach && !continues {
            self.give_boundaries(|_| true);
        }
        self.upload_with_retries(outcome, started, on_dir)
    }

    /// Looks for what changed and uploads it.
    pub fn refresh(&mut self, scope: Scope, on_dir: OnDir<'_>) -> Result<Outcome, Fatal> {
        let started = Instant::now();
        let mut outcome = Outcome::default();
        self.look(scope, on_dir, &mut outcome)?;
        self.upload_with_retries(outcome, started, on_dir)
    }

    /// A turtle was renamed into place.  When it describes a new checkpoint,
    /// tells the kernel.
    pub fn turtle_renamed(&mut self) -> Result<Option<Checkpoint>, Fatal> {
        let entry = turtle::read_entry(&self.handle()?)?;
        if entry.is_none() || entry == self.entry {
            return Ok(None);
        }
        let empty = entry.as_deref() == Some("");
        self.entry = entry;
        if empty || self.is_schema_change()? {
            return Ok(None);
        }
        match self.target.checkpoint() {
            Ok(c) => {
                self.figures.checkpoints += 1;
                Ok(Some(c))
            }
            Err(MessageError::Refused(sentence)) => {
                log!(Error, "the kernel refused the checkpoint", reason = sentence);
                Ok(None)
            }
            Err(e) => Err(fatal(e)),
        }
    }

    /// Tables were made, dropped or renamed.
    pub fn files_came_or_went(&mut self) {
        self.schema = true;
    }

    /// Without its log, WiredTiger checkpoints its metadata, and renames the
    /// turtle, when a table is made or dropped.  It writes little, so that the
    /// window may go on, also when this was a checkpoint after all.
    fn is_schema_change(&mut self) -> Result<bool, Fatal> {
        let written = self.target.status().map_err(fatal)?.sectors() * 512;
        // `reset` makes the count smaller.
        let little = written.checked_sub(self.written).is_some_and(|n| n < LITTLE);
        if self.schema && little {
            return Ok(true);
        }
        self.schema = false;
        self.written = written;
        Ok(false)
    }

    /// The refresh that follows a checkpoint.  Files that were known when it
    /// came get their boundaries, once marking has begun.
    pub fn after_checkpoint(&mut self, on_dir: OnDir<'_>) -> Result<Outcome, Fatal> {
        let started = Instant::now();
        let mut outcome = Outcome::default();
        self.look(Scope::Written, on_dir, &mut outcome)?;
        if !self.marked && self.mode == BoundaryMode::Auto && self.load_is_over()? {
            self.marked = true;
            self.unsaved = true;
            log!(Info, "the load phase is over; files get their boundaries");
        }
        if self.marked {
            let checkpoints = self.figures.checkpoints;
            self.give_boundaries(|f| f.since < checkpoints);
            self.look_for_outgrown();
        }
        self.upload_with_retries(outcome, started, on_dir)
    }

    /// Other rules, which the next refresh tells the kernel.  `Err`: a sentence, and
    /// nothing was changed.
    pub fn set_rules(&mut self, mut rules: Rules) -> Result<(), String> {
        self.stamps = rules.stamps(self.device_streams)?;
        rules.set_catalog(self.rules.catalog().clone());
        self.rules = rules;
        self.auto_streams();
        self.classify_anew();
        Ok(())
    }

    /// What the server says of its files.  False, and nothing was changed: none of
    /// them is here, so that it serves another dbpath.
    pub fn set_catalog(&mut self, catalog: Catalog) -> bool {
        if !self.files.values().any(|f| catalog.class(&f.path).is_some()) {
            return false;
        }
        if catalog != *self.rules.catalog() {
            self.rules.set_catalog(catalog);
            self.classify_anew();
        }
        true
    }

    /// The device takes another number of streams.
    pub fn set_device_streams(&mut self, streams: u32) {
        if self.streams_known && self.device_streams == streams {
            return;
        }
        self.streams_known = true;
        self.device_streams = streams;
        self.full = true;
        match self.rules.stamps(streams) {
            Ok(stamps) => self.stamps = stamps,
            Err(reason) => log!(
                Error,
                "the rules have streams that are not there",
                reason = reason
            ),
        }
        self.auto_streams();
    }

    fn auto_streams(&mut self) {
        let free = self.rules.free_streams(self.device_streams);
        if let Some(auto) = &mut self.auto {
            auto.set_streams(free);
        }
    }

    /// By rules, or a catalog, that changed.
    fn classify_anew(&mut self) {
        for (&ino, f) in &mut self.files {
            let parts = parts::of(self.rules.parts(&f.path), ino);
            f.dirty |= parts != f.parts;
            f.parts = parts;
            if !f.class().has_boundary() {
                self.unsaved |= f.boundary.take().is_some();
            }
        }
        // Other objects may have other streams, and files other parts.
        self.full |= !self.stamps.is_empty();
    }

    /// Never one that the device does not have: such an upload would be refused.
    fn stamp(&self, kind: Kind) -> table::Stamp {
        let stated = kind.object.and_then(|n| *self.stamps.get(usize::from(n))?);
        let mut stamp = stated.unwrap_or_default();
        if u32::from(stamp.stream) > self.device_streams {
            stamp.stream = 0;
        }
        stamp
    }

    fn load_is_over(&mut self) -> Result<bool, Fatal> {
        let status = self.target.status().map_err(fatal)?;
        let divided = self.files.values().filter(|f| f.class().has_boundary());
        Ok(self.load.checkpoint(Sums {
            sizes: divided.map(|f| f.stamp.size).sum(),
            written: status.sectors() * 512,
        }))
    }

    /// Tells of files that have outgrown their boundaries, each once, or moves
    /// these.
    fn look_for_outgrown(&mut self) {
        if self.outgrown == Outgrown::Move {
            self.set_boundaries(Tracked::outgrown);
            return;
        }
        let (mut more, mut example) = (0, None);
        for f in self.files.values_mut().filter(|f| !f.reported && f.outgrown()) {
            f.reported = true;
            more += 1;
            example = Some(f.path.clone());
        }
        if let Some(path) = example {
            log!(
                Warn,
                "files have outgrown their boundaries; `dsmctl boundary move` moves them",
                files = more,
                one = path.display(),
            );
        }
    }

    /// `dsmctl boundary move`: of the files with these paths, or of all that
    /// have outgrown theirs.  `Err`: a sentence, and nothing was changed.
    pub fn move_boundaries(
        &mut self,
        paths: &[String],
        on_dir: OnDir<'_>,
    ) -> Result<Result<Marked, String>, Fatal> {
        let started = Instant::now();
        let mut outcome = Outcome::default();
        self.look(Scope::Grown, on_dir, &mut outcome)?;
        for path in paths {
            match self.files.values().find(|f| *f.path == *Path::new(path)) {
                None => return Ok(Err(format!("{path}: there is no such file; nothing was changed"))),
                Some(f) if f.boundary.is_none() => {
                    return Ok(Err(format!("{path}: it has no boundary; nothing was changed")))
                }
                Some(_) => {}
            }
        }
        let named = |f: &Tracked| paths.iter().any(|p| *f.path == *Path::new(p));
        let marked = self.set_boundaries(|f| if paths.is_empty() { f.outgrown() } else { named(f) });
        self.upload_with_retries(outcome, started, on_dir)?;
        Ok(Ok(Marked {
            marked,
            boundaries: self.boundaries(),
        }))
    }

    /// `dsmctl boundary mark`
    pub fn mark(&mut self, on_dir: OnDir<'_>) -> Result<Marked, Fatal> {
        let started = Instant::now();
        let mut outcome = Outcome::default();
        self.look(Scope::Grown, on_dir, &mut outcome)?;
        self.marked = true;
        self.unsaved = true;
        let marked = self.give_boundaries(|_| true);
        self.upload_with_retries(outcome, started, on_dir)?;
        Ok(Marked {
            marked,
            boundaries: self.boundaries(),
        })
    }

    /// `dsmctl refresh`
    pub fn refresh_all(&mut self, on_dir: OnDir<'_>) -> Result<Refreshed, Fatal> {
        let o = self.refresh(Scope::All, on_dir)?;
        Ok(Refreshed {
            files: self.files.len() as u64,
            extents: self.files.values().map(|f| f.extents.len() as u64).sum(),
            changed: o.changed,
            dropped: o.dropped,
        })
    }

    /// What the rules give a stream or a lifetime.
    pub fn object_infos(&self) -> Vec<ObjectInfo> {
        let objects = self.rules.objects().iter().zip(&self.stamps);
        objects
            .filter_map(|(o, stamp)| {
                stamp.map(|s| ObjectInfo {
                    name: o.name.clone(),
                    stream: s.stream,
                    hint: s.hint,
                })
            })
            .collect()
    }

    /// The files of the table, by path.
    pub fn file_infos(&self) -> Vec<FileInfo> {
        let name = |k: Kind| Some(self.rules.objects().get(usize::from(k.object?))?.name.clone());
        let mut infos = Vec::with_capacity(self.files.len());
        for (&id, f) in &self.files {
            let path = f.path.to_string_lossy();
            for (id, (bytes, kind)) in parts::ids(id, f.count_parts()).zip(&f.parts.ranges) {
                let object = name(*kind);
                infos.push(FileInfo {
                    id,
                    path: format!("{path}[{}]", object.as_deref().unwrap_or_default()),
                    class: kind.class,
                    object,
                    size: bytes.end.min(f.stamp.size).saturating_sub(bytes.start),
                    boundary: None,
                    outgrown: false,
                    extents: parts::within(&f.extents, bytes).len() as u64,
                });
            }
            infos.push(FileInfo {
                id,
                path: path.into_owned(),
                class: f.class(),
                object: name(f.parts.rest),
                size: f.stamp.size,
                boundary: f.boundary,
                outgrown: f.outgrown(),
                extents: f.extents.len() as u64,
            });
        }
        infos.sort_by(|a, b| a.path.cmp(&b.path));
        infos
    }

    fn handle(&self) -> Result<OwnedFd, Fatal> {
        self.root.handle()?.ok_or(Fatal::DbpathGone)
    }

    /// Walks the dbpath and brings `files` and `drops` up to date.
    fn look(&mut self, scope: Scope, on_dir: OnDir<'_>, outcome: &mut Outcome) -> Result<(), Fatal> {
        let (handle, to_walk) = (self.handle()?, self.handle()?);
        let logged = &mut self.logged;
        let mut on_skip = |path: &Path, why: Skipped| {
            if logged.len() < MAX_LOGGED && logged.insert((path.to_owned(), why)) {
                log!(Warn, "passed over", path = path.display(), reason = why.reason());
            }
        };
        let mut collector = Collector {
            files: Vec::with_capacity(self.files.len() + 16),
            on_dir,
            on_skip: &mut on_skip,
        };
        self.root.walk(to_walk, &mut collector)?;
        let found = collector.files;
        self.walks += 1;
        for (path, found) in found {
            self.look_at(&handle, scope, &path, &found, outcome)?;
        }
        let gone = |(id, f): (&u64, &Tracked)| (f.walk != self.walks).then_some(*id);
        let gone: Vec<u64> = self.files.iter().filter_map(gone).collect();
        for id in gone {
            self.drop_file(id);
        }
        Ok(())
    }

    fn drop_file(&mut self, id: u64) {
        let Some(f) = self.files.remove(&id) else {
            return;
        };
        self.unsaved |= f.boundary.is_some();
        if f.uploaded {
            self.drops.insert(id);
            self.drops.extend(parts::ids(id, f.count_parts()));
        }
        if let Some(auto) = &mut self.auto {
            auto.gone(id, &f.path);
        }
    }

    fn look_at(
        &mut self,
        root: &OwnedFd,
        scope: Scope,
        path: &Path,
        found: &FoundFile,
        outcome: &mut Outcome,
    ) -> Result<(), Fatal> {
        let (walk, checkpoints) = (self.walks, self.figures.checkpoints);
        if self.files.get(&found.ino).is_some_and(|f| f.walk == walk) {
            // A second link to it.
            return Ok(());
        }
        self.auto_found(path, found);
        let same = |f: &&mut Tracked| f.stamp.btime == found.stamp.btime;
        let known = self.files.get_mut(&found.ino).filter(same);
        if let Some(f) = known {
            if *f.path != *path {
                let parts = parts::of(self.rules.parts(path), found.ino);
                f.dirty |= parts != f.parts;
                // Those that it had must go.
                self.full |= parts.ranges.len() != f.count_parts();
                f.parts = parts;
                f.path = path.into();
            }
            if !scope.covers(f, &found.stamp) {
                f.walk = walk;
                return Ok(());
            }
            if f.class().has_boundary() {
                self.room.make(root, path, found.ino, &f.stamp, &found.stamp);
            }
        }
        let (stamp, seen) = match self.read_extents(root, path, found.ino) {
            Reading::Done(stamp, seen) => (stamp, seen),
            // The end of this walk drops it.
            Reading::Gone => return Ok(()),
            Reading::Failed => {
                if let Some(f) = self.files.get_mut(&found.ino) {
                    f.walk = walk;
                    f.stale = true;
                }
                return Ok(());
            }
        };
        outcome.read += 1;
        let fresh: &[Extent] = &self.extents;
        match self.files.get_mut(&found.ino) {
            Some(f) if f.stamp.btime == stamp.btime => {
                if *f.extents != *fresh {
                    f.extents = fresh.into();
                    f.dirty = true;
                }
                f.stamp = stamp;
                f.seen = seen;
                f.walk = walk;
                f.stale = false;
            }
            old => {
                let parts = parts::of(self.rules.parts(path), found.ino);
                let class = parts.rest.class;
                let had = old.as_ref().map_or(0, |f| f.count_parts());
                // Its number was used again, or dropped and not yet told.
                let uploaded = old.is_some_and(|f| f.uploaded) || self.drops.remove(&found.ino);
                self.full |= uploaded && (had > 0 || !parts.ranges.is_empty());
                let known = self.inherited.get(&found.ino).filter(|(c, _)| c.kin(class));
                let boundary = match self.kept.get(&found.ino) {
                    // Of a file that had the number before.
                    Some(k) if i128::from(k.born) != stamp.btime => None,
                    Some(k) => known.map(|(_, b)| *b).or(Some(k.boundary)),
                    None => known.map(|(_, b)| *b),
                };
                let boundary = boundary.filter(|_| class.has_boundary());
                self.files.insert(
                    found.ino,
                    Tracked {
                        path: path.into(),
                        stamp,
                        parts,
                        auto: None,
                        boundary,
                        extents: fresh.into(),
                        seen,
                        since: checkpoints,
                        walk,
                        stale: false,
                        dirty: true,
                        uploaded,
                        reported: false,
                    },
                );
            }
        }
        Ok(())
    }

    /// Reads a file's extents into `self.extents`.
    fn read_extents(&mut self, root: &OwnedFd, path: &Path, ino: u64) -> Reading {
        let (file, stamp) = match open_file(root, path, ino) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Reading::Gone,
            Err(e) => {
                self.unreadable(path, &e);
                return Reading::Failed;
            }
        };
        if self.hints.on() {
            let kind = self.rules.parts(path).rest;
            let stated = self.stamp(kind).hint;
            let hint = if stated > 0 {
                stated
            } else {
                hint::name(kind.class)
            };
            self.hints.set(&file, path, hint);
        }
        match self.mapper.map(&file, &mut self.extents) {
            Ok(seen) => Reading::Done(stamp, seen),
            Err(e) => {
                self.unreadable(path, &e);
                Reading::Failed
            }
        }
    }

    /// Logs it once.
    fn unreadable(&mut self, path: &Path, why: &io::Error) {
        if self.logged.len() < MAX_LOGGED && self.logged.insert((path.to_owned(), Skipped::Unreadable)) {
            log!(
                Warn,
                "cannot read a file's extents",
                path = path.display(),
                reason = why
            );
        }
    }

    /// To files that want one.
    fn give_boundaries(&mut self, which: impl Fn(&Tracked) -> bool) -> u64 {
        self.set_boundaries(|f| f.wants_boundary() && which(f))
    }

    fn set_boundaries(&mut self, which: impl Fn(&Tracked) -> bool) -> u64 {
        let mut given = 0;
        for f in self.files.values_mut().filter(|f| which(f)) {
            f.set_boundary();
            given += 1;
        }
        self.unsaved |= given > 0;
        given
    }

    /// Uploads what differs.  Extents are read at different instants, so that
    /// they may contradict each other: then they are read again, first those
    /// that changed, then all.
    fn upload_with_retries(
        &mut self,
        mut outcome: Outcome,
        started: Instant,
        on_dir: OnDir<'_>,
    ) -> Result<Outcome, Fatal> {
        for attempt in 1..=ATTEMPTS {
            outcome.changed = self.files.values().filter(|f| f.dirty).count() as u64;
            outcome.dropped = self.drops.len() as u64;
            match self.upload()? {
                Ok(commit) => {
                    outcome.commit = commit;
                    outcome.failed = false;
                    break;
                }
                Err(sentence) => {
                    self.figures.refusals += 1;
                    outcome.failed = true;
                    log!(
                        Warn,
                        "the kernel refused the table",
                        attempt = attempt,
                        reason = sentence
                    );
                }
            }
            match attempt {
                1 => {
                    for f in self.files.values_mut().filter(|f| f.dirty) {
                        f.stale = true;
                    }
                    self.look(Scope::Written, on_dir, &mut outcome)?;
                }
                2 => {
                    self.look(Scope::All, on_dir, &mut outcome)?;
                    self.full = true;
                    self.overlapping = true;
                }
                _ => log!(Error, "the table stays as it was", attempts = ATTEMPTS),
            }
        }
        outcome.took = started.elapsed();
        self.figures.last_refresh = outcome.took;
        Ok(outcome)
    }

    fn free_of_overlaps(&mut self) {
        let mut files: Vec<(u64, &mut Tracked)> = self.files.iter_mut().map(|(id, f)| (*id, f)).collect();
        files.sort_unstable_by_key(|(id, _)| *id);
        let mut extents: Vec<&mut Box<[Extent]>> = Vec::with_capacity(files.len());
        let mut dirty: Vec<&mut bool> = Vec::with_capacity(files.len());
        for (_, f) in files {
            extents.push(&mut f.extents);
            dirty.push(&mut f.dirty);
        }
        let losers = resolve_overlaps(&mut extents);
        for &n in &losers {
            *dirty[n] = true;
        }
        if losers.is_empty() {
            self.overlapping = false;
        } else {
            log!(
                Warn,
                "files share sectors; each goes to one of them",
                files = losers.len()
            );
        }
    }

    fn upload(&mut self) -> Uploaded {
        if self.overlapping {
            self.free_of_overlaps();
        }
        let dirty = self.files.values().any(|f| f.dirty);
        if !self.full && !dirty && self.drops.is_empty() {
            return Ok(Ok(None));
        }
        let sent = match self.send() {
            Err(MessageError::Stale(sentence)) => {
                log!(
                    Warn,
                    "somebody else uploads, too; uploading all of the table",
                    reason = sentence
                );
                self.full = true;
                self.send()
            }
            sent => sent,
        };
        let commit = match sent {
            Ok(commit) => commit,
            Err(MessageError::Refused(sentence) | MessageError::Stale(sentence)) => return Ok(Err(sentence)),
            Err(e) => return Err(fatal(e)),
        };
        for f in self.files.values_mut() {
            f.dirty = false;
            f.uploaded = true;
        }
        self.drops.clear();
        self.full = false;
        self.generation = commit.generation;
        self.figures.uploads += 1;
        Ok(Ok(Some(commit)))
    }

    fn send(&self) -> Result<Commit, MessageError> {
        let kind = if self.full {
            table::Kind::Full
        } else {
            table::Kind::Update(self.generation)
        };
        let mut upload = Upload::begin(&self.target, kind)?;
        if !self.full {
            for &id in &self.drops {
                upload.drop_file(id)?;
            }
        }
        for (&id, f) in &self.files {
            if self.full || f.dirty {
                f.records(id, |kind| self.stamp(kind), |r| upload.file(r))?;
            }
        }
        upload.commit()
    }
}

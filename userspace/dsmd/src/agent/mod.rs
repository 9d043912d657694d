// SPDX-License-Identifier: GPL-2.0-or-later
//! The agent: keeps the kernel's table equal to what is in a dbpath, and reports
//! checkpoints to it.
//!
//! It knows the kernel as a [`Target`], the file system's extents as a
//! [`Mapper`], and time not at all but in automatic mode: `run` and `clock` say when to
//! do what.

mod auto;
mod checkpoints;
mod clock;
pub mod discard;
mod files;
mod hint;
mod logged;
mod objects;
pub mod papers;
mod parts;
pub mod run;
mod tracked;
mod uploads;

#[cfg(test)]
mod auto_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use thiserror::Error;

use database::config::{BoundaryMode, Outgrown};
use database::fiemap::Mapper;
use database::rules::Rules;
use database::walk::Root;
use dm::device::{MessageError, Target};
use dm::reply::{Checkpoint, Commit};
use proto::control::{FileInfo, Info, Marked, Refreshed};
use proto::feed::Catalog;
use proto::left_out::{LeftOut, Omission};
use runtime::log;

use auto::Auto;
use checkpoints::Checkpoints;
use files::{directory, FileTable, WalkObserver};
use papers::boundaries::Boundaries;
use papers::load_phase::{self, Sums};
use papers::state::State;
pub use tracked::Scope;
use tracked::Tracked;
use uploads::Uploads;

/// Uploads that are tried before a refresh is given up.
const ATTEMPTS: u32 = 3;
/// How an agent does its work.
#[derive(Debug, Default)]
pub struct Options {
    pub mode: BoundaryMode,
    pub outgrown: Outgrown,
    pub rules: Rules,
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
    #[error("{0}")]
    Resized(MessageError),
    #[error("what its file system lies on has changed")]
    Moved,
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
pub struct RefreshOutcome {
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

/// Called with each directory that a walk enters.
pub(crate) type OnDir<'a> = &'a mut dyn FnMut(&Path, &OwnedFd);

/// Its parts know of each other only what [`WalkObserver`] has: the agent has them work together.
pub struct Agent<T: Target, M: Mapper> {
    pub target: T,
    files: FileTable<M>,
    boundaries: Boundaries,
    checkpoints: Checkpoints,
    uploads: Uploads,
    auto: Option<Auto>,
    last_refresh: Duration,
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
        Self {
            target,
            files: FileTable::new(root, mapper, rules, write_hints),
            boundaries: Boundaries::new(mode, outgrown, state),
            checkpoints: Checkpoints::default(),
            uploads: Uploads::default(),
            auto: auto.map(|period| Auto::new(period, Instant::now())),
            last_refresh: Duration::ZERO,
        }
    }

    pub fn root(&self) -> &Root {
        &self.files.root
    }

    fn boundaries(&self) -> u64 {
        self.files.all().filter(|f| f.boundary.is_some()).count() as u64
    }

    /// What it says of itself; of its surroundings, nothing.
    pub fn info(&self) -> Info {
        let seen = self.files.seen();
        Info {
            dbpath: self.files.root.path().to_string_lossy().into_owned(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boundary: self.boundaries.mode.to_string(),
            marked: self.boundaries.marked,
            files: self.files.len() as u64,
            bytes: self.files.all().map(|f| f.stamp.size).sum(),
            boundaries: self.boundaries(),
            outgrown: self.files.all().filter(|f| f.outgrown()).count() as u64,
            checkpoints: self.checkpoints.count,
            last_window_ms: self.checkpoints.last_window_ms,
            window_from_bytes: self.checkpoints.window_from,
            uploads: self.uploads.count,
            refusals: self.uploads.refusals,
            refused: self.uploads.refused.clone(),
            last_refresh_ms: self.last_refresh.as_millis() as u64,
            delalloc: seen.delalloc,
            shared: seen.shared,
            auto: self.auto.as_ref().map(Auto::info),
            objects: self.files.objects.infos(),
            left_out: self.left_out(),
            ..Info::default()
        }
    }

    /// The files of the table, by path.
    pub(crate) fn file_infos(&self) -> Vec<FileInfo> {
        self.files.infos()
    }

    /// What is in no table, or in an older one.
    fn left_out(&self) -> Vec<LeftOut> {
        let mut all = self.files.left_out();
        let refused = self.uploads.refused.clone();
        all.extend(refused.map(|why| LeftOut {
            reason: Omission::Refused,
            count: (self.files.dirty().count() as u64).max(1),
            example: Some(why),
        }));
        all
    }

    /// What an agent after this one must know, when it is not what the last
    /// call gave.
    pub(crate) fn unsaved_state(&mut self, device: &str) -> Option<State> {
        let root = directory(&self.files.root);
        self.boundaries.unsaved_state(device, root, self.files.iter())
    }

    /// Takes over what the kernel and the state know of boundaries, reads every
    /// extent and uploads a full table.
    ///
    /// Boundaries that are known mean that a dsmd was here before.  Then also in
    /// mode `attach` the files that have none wait for their first checkpoint,
    /// as if that dsmd had gone on.
    pub fn attach(&mut self, on_dir: OnDir<'_>) -> Result<RefreshOutcome, Fatal> {
        let regions = self.target.regions().map_err(fatal)?;
        let continues = self.boundaries.inherit(&regions);
        let streams = self.target.status().map_err(fatal)?.device_streams;
        self.set_device_streams(streams);
        self.files.hints.begin(&self.target).map_err(fatal)?;
        self.checkpoints.begin(&self.files.handle()?, &self.target)?;
        let started = Instant::now();
        let mut outcome = RefreshOutcome::default();
        self.look(Scope::All, on_dir, &mut outcome)?;
        if let Some(auto) = &mut self.auto {
            auto.begin();
        }
        self.boundaries.begin();
        if self.boundaries.mode == BoundaryMode::Attach && !continues {
            if self.sums()?.sizes < load_phase::LITTLE {
                self.boundaries.await_first_load();
            } else {
                self.boundaries.give(self.files.all_mut());
            }
        }
        self.upload_with_retries(outcome, started, on_dir)
    }

    /// Looks for what changed and uploads it.
    pub fn refresh(&mut self, scope: Scope, on_dir: OnDir<'_>) -> Result<RefreshOutcome, Fatal> {
        let started = Instant::now();
        let mut outcome = RefreshOutcome::default();
        self.look(scope, on_dir, &mut outcome)?;
        self.upload_with_retries(outcome, started, on_dir)
    }

    /// `dsmctl debug refresh`
    pub(crate) fn refresh_all(&mut self, on_dir: OnDir<'_>) -> Result<Refreshed, Fatal> {
        let o = self.refresh(Scope::All, on_dir)?;
        Ok(Refreshed {
            files: self.files.len() as u64,
            extents: self.files.all().map(|f| f.extents.len() as u64).sum(),
            changed: o.changed,
            dropped: o.dropped,
        })
    }

    /// A turtle was renamed into place.  When it describes a new checkpoint, reports it
    /// to the kernel.
    pub(crate) fn turtle_renamed(&mut self) -> Result<Option<Checkpoint>, Fatal> {
        self.checkpoints
            .turtle_renamed(&self.files.handle()?, &self.target)
    }

    /// The refresh that follows a checkpoint.  Files that were known when it
    /// came get their boundaries, once marking has begun.
    pub(crate) fn after_checkpoint(&mut self, on_dir: OnDir<'_>) -> Result<RefreshOutcome, Fatal> {
        let started = Instant::now();
        let mut outcome = RefreshOutcome::default();
        self.look(Scope::Written, on_dir, &mut outcome)?;
        if self.boundaries.awaits_load() {
            let sums = self.sums()?;
            self.boundaries.loaded(sums);
        }
        if self.boundaries.marked {
            let checkpoints = self.checkpoints.count;
            let known = self.files.all_mut().filter(|f| f.since < checkpoints);
            self.boundaries.give(known);
            self.boundaries.look_for_outgrown(self.files.all_mut());
        }
        self.upload_with_retries(outcome, started, on_dir)
    }

    fn sums(&self) -> Result<Sums, Fatal> {
        let status = self.target.status().map_err(fatal)?;
        let divided = self.files.all().filter(|f| f.class().has_boundary());
        Ok(Sums {
            sizes: divided.map(|f| f.stamp.size).sum(),
            written: status.sectors() * 512,
        })
    }

    /// Other rules, which the next refresh uploads.  `Err`: the reason; nothing was
    /// changed.
    pub(crate) fn set_rules(&mut self, rules: Rules) -> Result<(), String> {
        self.files.set_rules(rules, &mut self.boundaries)?;
        self.auto_streams();
        Ok(())
    }

    /// What the server says of its files.  False, and nothing was changed: none of
    /// them is here, so that it serves another dbpath.
    pub fn set_catalog(&mut self, catalog: Catalog) -> bool {
        self.files.set_catalog(catalog, &mut self.boundaries)
    }

    /// The device takes another number of streams.
    pub(crate) fn set_device_streams(&mut self, streams: u32) {
        if self.files.set_device_streams(streams) {
            self.auto_streams();
        }
    }

    fn auto_streams(&mut self) {
        let free = self.files.objects.free_streams();
        if let Some(auto) = &mut self.auto {
            auto.set_streams(free);
        }
    }

    /// `dsmctl boundary move`: of the files with these paths, or of all that
    /// have outgrown theirs.  `Err`: the reason; nothing was changed.
    pub(crate) fn move_boundaries(
        &mut self,
        paths: &[String],
        on_dir: OnDir<'_>,
    ) -> Result<Result<Marked, String>, Fatal> {
        let started = Instant::now();
        let mut outcome = RefreshOutcome::default();
        self.look(Scope::Grown, on_dir, &mut outcome)?;
        for path in paths {
            match self.files.all().find(|f| *f.path == *Path::new(path)) {
                None => return Ok(Err(format!("{path}: there is no such file; nothing was changed"))),
                Some(f) if f.boundary.is_none() => {
                    return Ok(Err(format!("{path}: it has no boundary; nothing was changed")))
                }
                Some(_) => {}
            }
        }
        let named = |f: &Tracked| paths.iter().any(|p| *f.path == *Path::new(p));
        let meant = |f: &&mut Tracked| if paths.is_empty() { f.outgrown() } else { named(f) };
        let marked = self.boundaries.set(self.files.all_mut().filter(meant));
        self.upload_with_retries(outcome, started, on_dir)?;
        Ok(Ok(Marked {
            marked,
            boundaries: self.boundaries(),
        }))
    }

    /// `dsmctl boundary mark`
    pub fn mark(&mut self, on_dir: OnDir<'_>) -> Result<Marked, Fatal> {
        let started = Instant::now();
        let mut outcome = RefreshOutcome::default();
        self.look(Scope::Grown, on_dir, &mut outcome)?;
        self.boundaries.mark();
        let marked = self.boundaries.give(self.files.all_mut());
        self.upload_with_retries(outcome, started, on_dir)?;
        Ok(Marked {
            marked,
            boundaries: self.boundaries(),
        })
    }

    /// The files, and who hears of them.
    fn split(&mut self) -> (&mut FileTable<M>, WalkObserver<'_>) {
        let observer = WalkObserver {
            boundaries: &mut self.boundaries,
            auto: self.auto.as_mut(),
            checkpoints: self.checkpoints.count,
        };
        (&mut self.files, observer)
    }

    /// Walks the dbpath and brings the files up to date.
    fn look(&mut self, scope: Scope, on_dir: OnDir<'_>, outcome: &mut RefreshOutcome) -> Result<(), Fatal> {
        let (files, mut observer) = self.split();
        files.look(scope, on_dir, &mut observer, outcome)
    }

    /// Uploads what differs.  Extents are read at different instants, so that
    /// they may contradict each other: then they are read again, first those
    /// that changed, then all.
    fn upload_with_retries(
        &mut self,
        mut outcome: RefreshOutcome,
        started: Instant,
        on_dir: OnDir<'_>,
    ) -> Result<RefreshOutcome, Fatal> {
        for attempt in 1..=ATTEMPTS {
            outcome.changed = self.files.dirty().count() as u64;
            outcome.dropped = self.files.drops().len() as u64;
            match self.uploads.upload(&self.target, &mut self.files)? {
                Ok(commit) => {
                    outcome.commit = commit;
                    outcome.failed = false;
                    break;
                }
                Err(reason) => {
                    outcome.failed = true;
                    if attempt == ATTEMPTS {
                        log!(
                            Error,
                            "the table stays as it was",
                            attempts = ATTEMPTS,
                            reason = reason
                        );
                    } else {
                        // What the next one mends is no error.
                        log!(
                            Info,
                            "the kernel refused the table",
                            attempt = attempt,
                            reason = reason
                        );
                    }
                }
            }
            match attempt {
                1 => {
                    for f in self.files.all_mut().filter(|f| f.dirty) {
                        f.stale = true;
                    }
                    self.look(Scope::Written, on_dir, &mut outcome)?;
                }
                2 => {
                    self.look(Scope::All, on_dir, &mut outcome)?;
                    self.files.distrust_table();
                    self.uploads.resolve_overlaps();
                }
                _ => {}
            }
        }
        outcome.took = started.elapsed();
        self.last_refresh = outcome.took;
        Ok(outcome)
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Automatic mode: FileStream on a directory that is watched.
//!
//! inotify reports which files come, go and are closed after writing; what is written
//! to them the target counts itself, in pages, which costs the writer nothing, and
//! sees writes through mappings too.  A file is open from when it came, or changed,
//! until it is closed.  Of a file that grew, the pages that it grew by count at once:
//! the target counts them only when they are written back.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{fatal, Agent, Fatal, OnDir, RefreshOutcome, Scope};
use database::fiemap::Mapper;
use database::walk::{self, find_file};
use database::watch::Changes;
use dm::device::Target;
use dm::table::StreamStamp;
use policies::filestream::FileStream;
use proto::control::AutoInfo;
use runtime::{log, time};

/// All files are looked at this often, whatever events report.
const WALK: Duration = Duration::from_secs(30);
/// The target is asked for its counts so many times in a period.
const COUNTS: u32 = 6;
/// A look is followed by a pause of so many times its own length.
pub(crate) const DUTY: u32 = 50;
/// Seconds since the last change of a new file's data when it still counts as open.
const RECENT: f64 = 10.0;
/// A file that was not written for so many periods was closed, though no event said so.
const IDLE: u32 = 10;
/// What a file lived at most that was never seen.
const UNSEEN: f64 = 0.1;
const PAGE: u64 = 4096;

/// What was seen of a file.
#[derive(Default)]
struct SeenFile {
    btime: i128,
    mtime: i128,
    size: u64,
    /// Pages that the target had counted; `None`: it was there before us.
    counted: Option<u64>,
    /// Pages that were taken as written and that it has not counted yet.
    ahead: u64,
}

pub(crate) struct Auto {
    filestream: FileStream,
    period: Duration,
    /// FileStream's streams 1, 2, ...: those of the device that no rule states.
    streams: Vec<u8>,
    began: Instant,
    /// Seconds since it began, and the time of day in nanoseconds.
    now: f64,
    wall: i128,
    seen: HashMap<u64, SeenFile>,
    paths: HashMap<Box<Path>, u64>,
    /// Files that may have another stream.
    changed: Vec<u64>,
    walked: Instant,
    counted: Instant,
    /// Not before this are all open files looked at.
    look: Instant,
    lost: u64,
    /// Files that are there when it begins are not open.
    attaching: bool,
}

impl Auto {
    pub(crate) fn new(period: Duration, now: Instant) -> Self {
        Self {
            filestream: FileStream::new(2, period.as_secs_f64(), 0.0),
            period,
            streams: Vec::new(),
            began: now,
            now: 0.0,
            wall: 0,
            seen: HashMap::new(),
            paths: HashMap::new(),
            changed: Vec::new(),
            walked: now,
            counted: now,
            look: now,
            lost: 0,
            attaching: true,
        }
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now.saturating_duration_since(self.began).as_secs_f64();
        self.wall = time::now().as_nanos() as i128;
    }

    /// Other streams: it starts over.
    pub(crate) fn set_streams(&mut self, streams: Vec<u8>) {
        if self.streams == streams {
            return;
        }
        self.changed.extend(self.seen.keys());
        self.filestream = FileStream::new(streams.len() as u8, self.period.as_secs_f64(), self.now);
        self.streams = streams;
    }

    /// A walk or an event has led to a file.
    /// Rules may have `stated` its stream.
    pub(crate) fn found(&mut self, ino: u64, path: &Path, stamp: &walk::FileStat, stated: bool) {
        if self.seen.get(&ino).is_some_and(|s| s.btime != stamp.btime) {
            // Its number is used again.
            self.filestream.delete(ino, self.now);
            self.seen.remove(&ino);
        }
        let renamed = self.paths.get(path) != Some(&ino);
        if renamed {
            self.paths.insert(path.into(), ino);
        }
        let age = |time: i128| ((self.wall - time) as f64 / 1e9).max(0.0);
        let new = !self.seen.contains_key(&ino);
        let seen = self.seen.entry(ino).or_insert_with(|| SeenFile {
            btime: stamp.btime,
            // One that is moved here was written long ago.
            mtime: if age(stamp.mtime) < RECENT { 0 } else { stamp.mtime },
            counted: (!self.attaching).then_some(0),
            ..SeenFile::default()
        });
        let written = seen.mtime != stamp.mtime && !self.attaching;
        let grown = stamp.size.saturating_sub(seen.size).div_ceil(PAGE);
        seen.mtime = stamp.mtime;
        seen.size = stamp.size;
        if stated {
            return;
        }
        let was_open = self.filestream.is_open(ino);
        if was_open && renamed || written && !was_open {
            let created = match stamp.btime {
                0 => self.now,
                born => self.now - age(born),
            };
            let opened = if new {
                created.max(self.now - RECENT)
            } else {
                self.now
            };
            self.filestream
                .open(ino, path, stamp.size, created, opened, self.now);
            self.changed.push(ino);
        }
        if written {
            seen.ahead += grown;
            self.filestream.modify(ino, grown, stamp.size);
        }
    }

    pub(crate) fn gone(&mut self, ino: u64, path: &Path) {
        if self.paths.get(path) == Some(&ino) {
            self.paths.remove(path);
        }
        self.seen.remove(&ino);
        self.filestream.delete(ino, self.now);
    }

    /// Takes what the target has counted for a file.  True: it was written, though it
    /// is not open.
    fn count(&mut self, ino: u64, total: u64) -> bool {
        let Some(seen) = self.seen.get_mut(&ino) else {
            return false;
        };
        let before = seen.counted.replace(total).unwrap_or(total);
        // It begins at 0 again when the table was lost.
        let more = total.checked_sub(before).unwrap_or(total);
        let new = more.saturating_sub(seen.ahead);
        seen.ahead = seen.ahead.saturating_sub(more);
        if new > 0 {
            self.filestream.modify(ino, new, seen.size);
        }
        more > 0 && !self.filestream.is_open(ino)
    }

    fn stamp(&self, ino: u64) -> Option<StreamStamp> {
        let n = self.filestream.stream(ino)?;
        let stream = *self.streams.get(usize::from(n).checked_sub(1)?)?;
        Some(StreamStamp { stream, hint: 0 })
    }

    /// The files that were found before were there already.
    pub(crate) fn begin(&mut self) {
        self.attaching = false;
    }

    pub(crate) fn info(&self) -> AutoInfo {
        AutoInfo {
            open: self.filestream.open_files().count() as u64,
            mapper_streams: self.filestream.mapper_streams(),
            streams: self.streams.clone(),
            lost: self.lost,
        }
    }
}

impl<T: Target, M: Mapper> Agent<T, M> {
    pub fn is_auto(&self) -> bool {
        self.auto.is_some()
    }

    /// Whether a file has been open for a period, or a period has ended.
    pub(crate) fn auto_is_due(&mut self, now: Instant) -> bool {
        let Some(auto) = &mut self.auto else { return false };
        auto.set_now(now);
        auto.filestream.is_due(auto.now)
    }

    /// Looks at what changed, and gives files their streams.
    pub fn follow(
        &mut self,
        changes: &Changes,
        now: Instant,
        on_dir: OnDir<'_>,
    ) -> Result<RefreshOutcome, Fatal> {
        let started = Instant::now();
        let mut outcome = RefreshOutcome::default();
        let Some(auto) = &mut self.auto else {
            return Ok(outcome);
        };
        auto.set_now(now);
        if changes.lost {
            auto.lost += 1;
            log!(Warn, "events were lost; looking at all files");
        }
        let walk = changes.all || changes.lost || now.saturating_duration_since(auto.walked) >= WALK;
        if walk {
            auto.walked = now;
            self.look(Scope::Grown, on_dir, &mut outcome)?;
        } else {
            self.look_at_names(changes, &mut outcome)?;
            self.look_at_open(now, &mut outcome)?;
        }
        self.take_counts(now, &mut outcome)?;
        self.take_ends(changes);
        self.assign_streams();
        self.upload_with_retries(outcome, started, on_dir)
    }

    fn look_at_names(&mut self, changes: &Changes, outcome: &mut RefreshOutcome) -> Result<(), Fatal> {
        let root = self.files.handle()?;
        self.files.begin_walk();
        for (path, name) in &changes.names {
            if !name.gone {
                self.look_at_name(&root, path, outcome)?;
            }
        }
        Ok(())
    }

    fn look_at_name(
        &mut self,
        root: &rustix::fd::OwnedFd,
        path: &Path,
        outcome: &mut RefreshOutcome,
    ) -> Result<(), Fatal> {
        let before = self.auto.as_ref().and_then(|a| a.paths.get(path).copied());
        let found = match find_file(root, path, self.root().device()) {
            Ok(found) => found,
            Err(e) => {
                self.files.unreadable(path, &e.into());
                return Ok(());
            }
        };
        if let Some(ino) = before.filter(|ino| found.as_ref().is_none_or(|f| f.ino != *ino)) {
            self.forget(ino, path);
        }
        if let Some(found) = found {
            let (files, mut observer) = self.split();
            files.look_at(root, Scope::Grown, path, &found, &mut observer, outcome);
        }
        Ok(())
    }

    /// The files that are open may have grown.
    fn look_at_open(&mut self, now: Instant, outcome: &mut RefreshOutcome) -> Result<(), Fatal> {
        let Some(auto) = self.auto.as_mut().filter(|a| now >= a.look) else {
            return Ok(());
        };
        let open = auto.filestream.open_files().collect();
        let started = Instant::now();
        self.look_at_files(open, outcome)?;
        if let Some(auto) = &mut self.auto {
            auto.look = now + started.elapsed() * DUTY;
        }
        Ok(())
    }

    /// Those that were not looked at yet.
    fn look_at_files(&mut self, inos: Vec<u64>, outcome: &mut RefreshOutcome) -> Result<(), Fatal> {
        let root = self.files.handle()?;
        for ino in inos {
            if let Some(path) = self.files.not_looked_at(ino).map(Path::to_owned) {
                self.look_at_name(&root, &path, outcome)?;
            }
        }
        Ok(())
    }

    /// A name no longer leads to a file, which may have another one.
    fn forget(&mut self, ino: u64, path: &Path) {
        let Some(auto) = &mut self.auto else { return };
        if self.files.get(ino).is_some_and(|f| *f.path != *path) {
            auto.paths.remove(path);
            return;
        }
        auto.gone(ino, path);
        let (files, mut observer) = self.split();
        files.drop_file(ino, &mut observer);
    }

    /// Names that went, and files that were closed, after those that came.
    fn take_ends(&mut self, changes: &Changes) {
        for (path, name) in &changes.names {
            let Some(auto) = &mut self.auto else { return };
            let ino = auto.paths.get(path.as_path()).copied();
            match ino {
                Some(ino) if name.gone => self.forget(ino, path),
                Some(ino) if name.closed => auto.filestream.close(ino, auto.now),
                None if name.gone && name.came => auto.filestream.came_and_went(path, UNSEEN),
                _ => {}
            }
        }
    }

    /// Takes the target's counts when it is time; files that were written though they
    /// are not open are looked at.
    fn take_counts(&mut self, now: Instant, outcome: &mut RefreshOutcome) -> Result<(), Fatal> {
        let due = |a: &Auto| now.saturating_duration_since(a.counted) >= a.period / COUNTS;
        if !self.auto.as_ref().is_some_and(due) {
            return Ok(());
        }
        let regions = self.target.regions().map_err(fatal)?;
        let Some(auto) = &mut self.auto else { return Ok(()) };
        auto.counted = now;
        let mut written = Vec::new();
        for sides in regions.chunk_by(|a, b| a.id == b.id) {
            if auto.count(sides[0].id, sides.iter().map(|r| r.total).sum()) {
                written.push(sides[0].id);
            }
        }
        self.look_at_files(written, outcome)
    }

    fn assign_streams(&mut self) {
        let Some(auto) = &mut self.auto else { return };
        if auto.filestream.tick(auto.now) {
            for ino in auto.filestream.idle(IDLE) {
                auto.filestream.close(ino, auto.now);
            }
            log!(
                Debug,
                "a period has ended",
                mapper_streams = auto.filestream.mapper_streams()
            );
        }
        let mut changed = std::mem::take(&mut auto.changed);
        changed.extend(auto.filestream.take_moved());
        for ino in changed {
            let stamp = auto.stamp(ino);
            self.files.set_auto(ino, stamp);
        }
    }
}

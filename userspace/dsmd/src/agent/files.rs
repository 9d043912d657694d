// SPDX-License-Identifier: GPL-2.0-or-later
//! The files of a dbpath: what was seen of each, and what the kernel does not have yet.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;

use super::auto::Auto;
use super::hint::Hints;
use super::logged::Logged;
use super::objects::Objects;
use super::papers::boundaries::Boundaries;
use super::papers::state::{born, Directory};
use super::parts;
use super::tracked::{Scope, Tracked};
use super::{Fatal, OnDir, RefreshOutcome};
use database::fiemap::{ExtentCounts, Mapper};
use database::rules::Rules;
use database::walk::{self, open_file, Collector, FoundFile, Root, Skipped};
use dm::table::{resolve_overlaps, Extent, FileRecord, StreamStamp};
use proto::control::FileInfo;
use proto::feed::Catalog;
use proto::left_out::{LeftOut, Omission};
use runtime::log;

/// Who hears of files while they are looked at.
pub(crate) struct WalkObserver<'a> {
    pub boundaries: &'a mut Boundaries,
    pub auto: Option<&'a mut Auto>,
    /// Checkpoints until now.
    pub checkpoints: u64,
}

pub(crate) struct FileTable<M> {
    pub root: Root,
    mapper: M,
    pub objects: Objects,
    pub hints: Hints,
    files: HashMap<u64, Tracked>,
    /// Ids that the kernel has and that are gone.
    drops: HashSet<u64>,
    /// The next upload must be a full one.
    full: bool,
    walks: u64,
    logged: Logged,
    /// Of the last walk: how many, and the first.
    left: BTreeMap<Omission, (u64, String)>,
    /// Reused by every reading of extents.
    extents: Vec<Extent>,
}

const fn reason(why: Skipped) -> Omission {
    match why {
        Skipped::Symlink => Omission::Symlink,
        Skipped::Special => Omission::Special,
        Skipped::OtherDevice => Omission::OtherFileSystem,
        Skipped::TooDeep => Omission::TooDeep,
        Skipped::Unreadable => Omission::Unreadable,
    }
}

pub(crate) fn directory(root: &Root) -> Directory {
    let (ino, btime) = root.identity();
    Directory {
        ino,
        born: born(btime),
    }
}

impl<M> FileTable<M> {
    pub(crate) fn new(root: Root, mapper: M, rules: Rules, write_hints: bool) -> Self {
        Self {
            root,
            mapper,
            objects: Objects::new(rules),
            hints: Hints::new(write_hints),
            files: HashMap::new(),
            drops: HashSet::new(),
            full: true,
            walks: 0,
            logged: Logged::default(),
            left: BTreeMap::new(),
            extents: Vec::new(),
        }
    }

    pub(crate) fn handle(&self) -> Result<OwnedFd, Fatal> {
        self.root.handle()?.ok_or(Fatal::DbpathGone)
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Tracked)> {
        self.files.iter().map(|(&ino, f)| (ino, f))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Tracked> {
        self.files.values()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Tracked> {
        self.files.values_mut()
    }

    pub(crate) fn get(&self, ino: u64) -> Option<&Tracked> {
        self.files.get(&ino)
    }

    #[cfg(test)]
    pub(crate) fn get_mut(&mut self, ino: u64) -> Option<&mut Tracked> {
        self.files.get_mut(&ino)
    }

    /// The stream that automatic mode gives a file, unless the rules state one.
    pub(crate) fn set_auto(&mut self, ino: u64, stamp: Option<StreamStamp>) {
        if let Some(f) = self.files.get_mut(&ino) {
            let stamp = stamp.filter(|_| self.objects.stated(f.parts.rest).is_none());
            f.dirty |= f.auto != stamp;
            f.auto = stamp;
        }
    }

    /// What was seen of all files' extents at their last reading.
    pub(crate) fn seen(&self) -> ExtentCounts {
        let mut sum = ExtentCounts::default();
        for f in self.files.values() {
            sum += f.seen;
        }
        sum
    }

    /// What was left out at the last look.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        let entries = self.left.iter();
        let entries =
            entries.filter_map(|(r, (count, first))| LeftOut::some(*r, *count, Some(first.clone())));
        let seen = self.seen();
        let ageless = self
            .files
            .values()
            .filter(|f| f.boundary.is_some() && f.stamp.btime == 0);
        let counts = [
            (Omission::NoBirthTime, ageless.count() as u64),
            (Omission::NoPlace, seen.delalloc + seen.unknown),
            (Omission::Inline, seen.inline),
            (Omission::Encoded, seen.encoded),
            (Omission::Elsewhere, seen.elsewhere),
            (Omission::Shared, seen.shared),
        ];
        let counts = counts
            .into_iter()
            .filter_map(|(r, count)| LeftOut::some(r, count, None));
        entries.chain(counts).collect()
    }

    fn leave(&mut self, path: &Path, why: Skipped) {
        let first = || path.to_string_lossy().into_owned();
        self.left.entry(reason(why)).or_insert_with(|| (0, first())).0 += 1;
    }

    /// The files of the table, by path.
    pub(crate) fn infos(&self) -> Vec<FileInfo> {
        let mut infos = Vec::with_capacity(self.files.len());
        for (&id, f) in &self.files {
            let path = f.path.to_string_lossy();
            for (id, (bytes, kind)) in parts::ids(id, f.count_parts()).zip(&f.parts.ranges) {
                let object = self.objects.name(*kind);
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
                object: self.objects.name(f.parts.rest),
                size: f.stamp.size,
                boundary: f.boundary,
                outgrown: f.outgrown(),
                extents: f.extents.len() as u64,
            });
        }
        infos.sort_by(|a, b| a.path.cmp(&b.path));
        infos
    }

    // What the kernel does not have yet

    /// The kernel's table is not what the agent made it.
    pub(crate) fn distrust_table(&mut self) {
        self.full = true;
    }

    /// Whether the next upload may be one of differences.
    pub(crate) fn trusts_table(&self) -> bool {
        !self.full
    }

    pub(crate) fn dirty(&self) -> impl Iterator<Item = &Tracked> {
        self.files.values().filter(|f| f.dirty)
    }

    /// Whether the kernel has everything.
    pub(crate) fn is_uploaded(&self) -> bool {
        !self.full && self.drops.is_empty() && self.dirty().next().is_none()
    }

    pub(crate) fn drops(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.drops.iter().copied()
    }

    /// Calls `each` with the records of all files, or of those that are dirty.
    pub(crate) fn records<E>(
        &self,
        all: bool,
        mut each: impl FnMut(&FileRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (&id, f) in self.files.iter().filter(|(_, f)| all || f.dirty) {
            f.records(id, |kind| self.objects.stamp(kind), &mut each)?;
        }
        Ok(())
    }

    /// The kernel has everything.
    pub(crate) fn uploaded(&mut self) {
        for f in self.files.values_mut() {
            f.dirty = false;
            f.uploaded = true;
        }
        self.drops.clear();
        self.full = false;
    }

    /// Gives each sector to one file only.  Whether files shared any.
    pub(crate) fn free_of_overlaps(&mut self) -> bool {
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
        if !losers.is_empty() {
            log!(
                Warn,
                "files share sectors; each goes to one of them",
                files = losers.len()
            );
        }
        !losers.is_empty()
    }

    // Classes and streams

    /// Other rules.  `Err`: the reason; nothing was changed.
    pub(crate) fn set_rules(&mut self, rules: Rules, boundaries: &mut Boundaries) -> Result<(), String> {
        self.objects.set_rules(rules)?;
        self.reclassify(boundaries);
        Ok(())
    }

    /// What the server says of its files.  False, and nothing was changed: none of
    /// them is here, so that it serves another dbpath.
    pub(crate) fn set_catalog(&mut self, catalog: Catalog, boundaries: &mut Boundaries) -> bool {
        if !self.all().any(|f| catalog.contains_key(&*f.path)) {
            return false;
        }
        if self.objects.set_catalog(catalog) {
            self.reclassify(boundaries);
        }
        true
    }

    /// Whether the device takes another number of streams than before.
    pub(crate) fn set_device_streams(&mut self, streams: u32) -> bool {
        let other = self.objects.set_device_streams(streams);
        self.full |= other;
        other
    }

    /// By rules, or a catalog, that changed.
    fn reclassify(&mut self, boundaries: &mut Boundaries) {
        for (&ino, f) in &mut self.files {
            let parts = self.objects.parts(&f.path, ino);
            f.dirty |= parts != f.parts;
            f.parts = parts;
            if !f.class().has_boundary() && f.boundary.take().is_some() {
                boundaries.changed();
            }
        }
        // Other objects may have other streams, and files other parts.
        self.full |= self.objects.state_stamps();
    }

    /// Logs it once.
    pub(crate) fn unreadable(&mut self, path: &Path, why: &io::Error) {
        self.leave(path, Skipped::Unreadable);
        if self.logged.is_new(path, Skipped::Unreadable) {
            log!(
                Warn,
                "cannot read a file's extents",
                path = path.display(),
                reason = why
            );
        }
    }

    pub(crate) fn drop_file(&mut self, id: u64, observer: &mut WalkObserver<'_>) {
        let Some(f) = self.files.remove(&id) else {
            return;
        };
        if f.boundary.is_some() {
            observer.boundaries.changed();
        }
        if f.uploaded {
            self.drops.insert(id);
            self.drops.extend(parts::ids(id, f.count_parts()));
        }
        if let Some(auto) = &mut observer.auto {
            auto.gone(id, &f.path);
        }
    }
}

impl<M: Mapper> FileTable<M> {
    /// Walks the dbpath and brings the table up to date.
    pub(crate) fn look(
        &mut self,
        scope: Scope,
        on_dir: OnDir<'_>,
        observer: &mut WalkObserver<'_>,
        outcome: &mut RefreshOutcome,
    ) -> Result<(), Fatal> {
        let (handle, to_walk) = (self.handle()?, self.handle()?);
        let mut skipped = Vec::new();
        let mut on_skip = |path: &Path, why: Skipped| skipped.push((path.to_owned(), why));
        let mut collector = Collector {
            files: Vec::with_capacity(self.files.len() + 16),
            on_dir,
            on_skip: &mut on_skip,
        };
        self.root.walk(to_walk, &mut collector)?;
        let found = collector.files;
        self.left.clear();
        for (path, why) in skipped {
            self.leave(&path, why);
            if self.logged.is_new(&path, why) {
                log!(Warn, "skipped", path = path.display(), reason = why.reason());
            }
        }
        self.begin_walk();
        for (path, found) in found {
            self.look_at(&handle, scope, &path, &found, observer, outcome);
        }
        let gone = |(id, f): (&u64, &Tracked)| (f.walk != self.walks).then_some(*id);
        let gone: Vec<u64> = self.files.iter().filter_map(gone).collect();
        for id in gone {
            self.drop_file(id, observer);
        }
        if self.seen().elsewhere > 0 && self.mapper.moved() {
            return Err(Fatal::Moved);
        }
        Ok(())
    }

    /// From now on files count as not looked at.
    pub(crate) fn begin_walk(&mut self) {
        self.walks += 1;
    }

    /// Where a file is that was not looked at in this walk.
    pub(crate) fn not_looked_at(&self, ino: u64) -> Option<&Path> {
        let f = self.files.get(&ino).filter(|f| f.walk != self.walks)?;
        Some(&f.path)
    }

    pub(crate) fn look_at(
        &mut self,
        root: &OwnedFd,
        scope: Scope,
        path: &Path,
        found: &FoundFile,
        observer: &mut WalkObserver<'_>,
        outcome: &mut RefreshOutcome,
    ) {
        let walk = self.walks;
        if self.files.get(&found.ino).is_some_and(|f| f.walk == walk) {
            // A second link to it.
            return;
        }
        if let Some(auto) = &mut observer.auto {
            auto.found(found.ino, path, &found.stamp, self.objects.is_stated(path));
        }
        if !self.is_read_again(scope, path, found) {
            return;
        }
        let (stamp, seen) = match self.read_extents(root, path, found.ino) {
            Ok(Some(read)) => read,
            // The end of this walk drops it.
            Ok(None) => return,
            Err(e) => {
                self.unreadable(path, &e);
                if let Some(f) = self.files.get_mut(&found.ino) {
                    f.walk = walk;
                    f.stale = true;
                }
                return;
            }
        };
        outcome.read += 1;
        match self.files.get_mut(&found.ino) {
            Some(f) if f.stamp.btime == stamp.btime => {
                if *f.extents != *self.extents {
                    f.extents = self.extents.as_slice().into();
                    f.dirty = true;
                }
                f.stamp = stamp;
                f.seen = seen;
                f.walk = walk;
                f.stale = false;
            }
            _ => self.insert(found.ino, path, stamp, seen, observer),
        }
    }

    /// Whether a file's extents are to be read: it is new, or changed as far as `scope`
    /// looks.
    fn is_read_again(&mut self, scope: Scope, path: &Path, found: &FoundFile) -> bool {
        let same = |f: &&mut Tracked| f.stamp.btime == found.stamp.btime;
        let Some(f) = self.files.get_mut(&found.ino).filter(same) else {
            return true;
        };
        if *f.path != *path {
            let parts = self.objects.parts(path, found.ino);
            f.dirty |= parts != f.parts;
            // Those that it had must go.
            self.full |= parts.ranges.len() != f.count_parts();
            f.parts = parts;
            f.path = path.into();
        }
        if !scope.covers(f, &found.stamp) {
            f.walk = self.walks;
            return false;
        }
        true
    }

    /// A file that is new, in place of one that had its number; its extents were read.
    fn insert(
        &mut self,
        ino: u64,
        path: &Path,
        stamp: walk::FileStat,
        seen: ExtentCounts,
        observer: &WalkObserver<'_>,
    ) {
        let parts = self.objects.parts(path, ino);
        let old = self.files.get(&ino);
        let had = old.map_or(0, Tracked::count_parts);
        // Its number was used again, or dropped and not yet uploaded.
        let uploaded = old.is_some_and(|f| f.uploaded) || self.drops.remove(&ino);
        self.full |= uploaded && (had > 0 || !parts.ranges.is_empty());
        let boundary = observer.boundaries.known(ino, parts.rest.class, stamp.btime);
        self.files.insert(
            ino,
            Tracked {
                path: path.into(),
                stamp,
                parts,
                auto: None,
                boundary,
                extents: self.extents.as_slice().into(),
                seen,
                since: observer.checkpoints,
                walk: self.walks,
                stale: false,
                dirty: true,
                uploaded,
                reported: false,
            },
        );
    }

    /// Reads a file's extents into `self.extents`; nothing: it is gone.
    fn read_extents(
        &mut self,
        root: &OwnedFd,
        path: &Path,
        ino: u64,
    ) -> io::Result<Option<(walk::FileStat, ExtentCounts)>> {
        let Some((file, stamp)) = open_file(root, path, ino)? else {
            return Ok(None);
        };
        if self.hints.on {
            self.hints.set(&file, path, self.objects.hint(path));
        }
        let seen = self.mapper.map(&file, &mut self.extents)?;
        Ok(Some((stamp, seen)))
    }
}

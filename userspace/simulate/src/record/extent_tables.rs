// SPDX-License-Identifier: GPL-2.0-or-later
//! The extents of all files of a dbpath, as far as they have changed.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use rustix::fd::OwnedFd;

use crate::trace::recording::Writer;
use database::fiemap::{self, Fiemap, Mapper};
use database::place::Place;
use database::walk::{self, Collector, FileStat, Root};
use database::watch::Watch;
use database::wiredtiger::turtle;
use dm::devno::DevNo;
use dm::table::Extent;

struct KnownTable {
    path: PathBuf,
    stamp: FileStat,
    extents: Vec<Extent>,
    /// Some of its data had no place yet.
    pending: bool,
}

pub(super) struct ExtentTables {
    root: Root,
    mapper: Fiemap,
    files: BTreeMap<u64, KnownTable>,
    /// The checkpoint entry of the last turtle.
    entry: Option<String>,
}

impl ExtentTables {
    pub(super) fn open(dbpath: &Path, wiredtiger: bool) -> Result<Self> {
        let root = Root::open(dbpath)?;
        let mut tables = Self {
            // Extents as the file system's device has them.
            mapper: Fiemap::new(Place::whole(DevNo::from_stat(root.device()), u64::MAX >> 9)),
            root,
            files: BTreeMap::new(),
            entry: None,
        };
        tables.entry = tables.read_turtle()?;
        if wiredtiger && tables.entry.is_none() {
            bail!("there is no {} in it: this is not the dbpath of a database; for another engine, state --window", turtle::NAME);
        }
        Ok(tables)
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Of a file in the last table.
    pub(super) fn id_of(&self, path: &Path) -> Option<u64> {
        let found = self.files.iter().find(|(_, known)| known.path == path);
        found.map(|(id, _)| *id)
    }

    /// The file system's device.
    pub(super) fn dev(&self) -> DevNo {
        DevNo::from_stat(self.root.device())
    }

    /// Whether the turtle speaks of another checkpoint than at the last look.
    pub(super) fn checkpointed(&mut self) -> Result<bool> {
        let entry = self.read_turtle()?;
        Ok(entry.is_some() && entry != std::mem::replace(&mut self.entry, entry.clone()))
    }

    fn handle(&self) -> Result<OwnedFd> {
        match self.root.handle()? {
            Some(fd) => Ok(fd),
            None => bail!("{}: the directory is gone", self.root.path().display()),
        }
    }

    fn read_turtle(&self) -> Result<Option<String>> {
        Ok(turtle::read_entry(&self.handle()?)?)
    }

    /// Writes what is new, what has changed and what is gone.
    pub(super) fn write<W: Write>(&mut self, watch: &mut Watch, writer: &mut Writer<W>) -> Result<()> {
        let root = self.handle()?;
        let mut found = Collector {
            files: Vec::new(),
            on_dir: &mut |path, dir| watch.add(path, dir),
            on_skip: &mut |_, _| {},
        };
        self.root.walk(self.handle()?, &mut found)?;
        let mut gone: Vec<u64> = self.files.keys().copied().collect();
        for (path, file) in found.files {
            gone.retain(|id| *id != file.ino);
            let same = self
                .files
                .get(&file.ino)
                .filter(|k| !k.pending && k.stamp == file.stamp && k.path == path);
            if same.is_none() {
                self.look(&root, path, file.ino, writer)?;
            }
        }
        for id in gone {
            self.files.remove(&id);
            writer.gone(id)?;
        }
        Ok(())
    }

    fn look<W: Write>(
        &mut self,
        root: &OwnedFd,
        path: PathBuf,
        ino: u64,
        writer: &mut Writer<W>,
    ) -> Result<()> {
        // What cannot be opened has no table; the others have theirs.
        let Ok(Some((file, stamp))) = walk::open_file(root, &path, ino) else {
            return Ok(());
        };
        let mut extents = Vec::new();
        let seen = match self.mapper.map(&file, &mut extents) {
            Ok(seen) => seen,
            Err(e) if fiemap::is_unsupported(&e) => {
                bail!("its file system does not report where files lie (FIEMAP)")
            }
            Err(e) => return Err(e.into()),
        };
        let known = KnownTable {
            path,
            stamp,
            extents,
            pending: seen.pending(),
        };
        let old = self.files.insert(ino, known);
        let new = &self.files[&ino];
        if old
            .is_none_or(|o| o.path != new.path || o.extents != new.extents || o.stamp.size != new.stamp.size)
        {
            writer.file(ino, &new.path, new.stamp.size, &new.extents)?;
        }
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What the agent remembers of a file.

use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;

use crate::dbpath::fiemap::Seen;
use crate::dbpath::rules::Parts;
use crate::dbpath::walk::{self, FoundFile, Skipped, Visitor};
use crate::kernel::class::Class;
use crate::kernel::table::{Extent, Stamp};

/// A boundary inside a page belongs to the page's end.
pub const PAGE: u64 = 4096;
/// A file of WiredTiger begins with a block that describes it; while there is
/// nothing else, there is nothing to divide.
const EMPTY: u64 = 4096;
/// Less than this above a boundary is not worth moving it.
const SMALL: u64 = 1 << 20;

#[derive(Debug)]
pub struct Tracked {
    pub path: Box<Path>,
    pub stamp: walk::Stamp,
    pub parts: Parts,
    /// The stream that automatic mode has given it.
    pub auto: Option<Stamp>,
    pub boundary: Option<u64>,
    pub extents: Box<[Extent]>,
    pub seen: Seen,
    /// Checkpoints that had been seen when the file was.
    pub since: u64,
    /// The walk that found the file last.
    pub walk: u64,
    /// The extents must be read, whatever the stamps say.
    pub stale: bool,
    /// The kernel does not have it like this.
    pub dirty: bool,
    /// The kernel has the id.
    pub uploaded: bool,
    /// It was told that the file has outgrown its boundary.
    pub reported: bool,
}

impl Tracked {
    pub fn class(&self) -> Class {
        self.parts.rest.class
    }

    pub fn wants_boundary(&self) -> bool {
        self.class().has_boundary() && self.boundary.is_none() && self.stamp.size > EMPTY
    }

    pub fn set_boundary(&mut self) {
        self.boundary = Some(self.stamp.size.next_multiple_of(PAGE));
        self.dirty = true;
        self.reported = false;
    }

    /// Whether more of the file lies above its boundary than below.
    pub fn outgrown(&self) -> bool {
        self.boundary.is_some_and(|b| {
            let above = self.stamp.size.saturating_sub(b);
            above > b && above >= SMALL
        })
    }
}

/// How closely a refresh looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Files that grew, or had extents without a place: between checkpoints.
    Grown,
    /// Files that were written at all: at a checkpoint.
    Written,
    All,
}

impl Scope {
    /// Whether the extents of a file must be read again.
    ///
    /// Writes inside a file do not move it on the file systems that are
    /// accepted, so that a new change time alone can wait for the checkpoint.
    pub fn covers(self, old: &Tracked, new: &walk::Stamp) -> bool {
        let grown = old.stamp.size != new.size || old.stamp.blocks != new.blocks;
        old.stale
            || match self {
                Self::All => true,
                Self::Written => grown || old.seen.pending() || old.stamp.ctime != new.ctime,
                Self::Grown => grown || old.seen.pending(),
            }
    }
}

/// What a walk finds, to be looked at when it is over.
pub struct Collector<'a> {
    pub files: Vec<(PathBuf, FoundFile)>,
    pub on_dir: &'a mut dyn FnMut(&Path, &OwnedFd),
    pub on_skip: &'a mut dyn FnMut(&Path, Skipped),
}

impl Visitor for Collector<'_> {
    fn file(&mut self, path: &Path, found: FoundFile) {
        self.files.push((path.to_owned(), found));
    }

    fn directory(&mut self, path: &Path, dir: &OwnedFd) {
        (self.on_dir)(path, dir);
    }

    fn skipped(&mut self, path: &Path, why: Skipped) {
        (self.on_skip)(path, why);
    }
}

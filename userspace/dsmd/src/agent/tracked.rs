// SPDX-License-Identifier: GPL-2.0-or-later
//! What the agent remembers of a file.

use std::path::Path;

use database::fiemap::ExtentCounts;
use database::rules::Parts;
use database::walk;
use dm::class::Class;
use dm::table::{Extent, StreamStamp};

/// A boundary inside a page belongs to the page's end.
pub(crate) const PAGE: u64 = 4096;
/// A file of WiredTiger begins with a block that describes it; while there is
/// nothing else, there is nothing to divide.
const EMPTY: u64 = 4096;
/// Less than this above a boundary is not worth moving it.
const SMALL: u64 = 1 << 20;

#[derive(Debug)]
pub struct Tracked {
    pub path: Box<Path>,
    pub stamp: walk::FileStat,
    pub parts: Parts,
    /// The stream that automatic mode has given it.
    pub auto: Option<StreamStamp>,
    pub boundary: Option<u64>,
    pub extents: Box<[Extent]>,
    pub seen: ExtentCounts,
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
    /// That the file has outgrown its boundary was reported.
    pub reported: bool,
}

impl Tracked {
    pub fn class(&self) -> Class {
        self.parts.rest.class
    }

    pub(crate) fn wants_boundary(&self) -> bool {
        self.class().has_boundary() && self.boundary.is_none() && self.stamp.size > EMPTY
    }

    pub(crate) fn set_boundary(&mut self) {
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
    pub fn covers(self, old: &Tracked, new: &walk::FileStat) -> bool {
        let grown = old.stamp.size != new.size || old.stamp.blocks != new.blocks;
        old.stale
            || match self {
                Self::All => true,
                Self::Written => grown || old.seen.pending() || old.stamp.ctime != new.ctime,
                Self::Grown => grown || old.seen.pending(),
            }
    }
}

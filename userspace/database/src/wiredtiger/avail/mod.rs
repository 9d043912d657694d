// SPDX-License-Identifier: GPL-2.0-or-later
//! What WiredTiger's last checkpoint lists as free, read from outside.
//!
//! `WiredTiger.turtle` names the newest durable checkpoint of the metadata file
//! `WiredTiger.wt`; that file is a B-tree with an entry for every file, which
//! names the newest checkpoint of that file by a cookie; the cookie has the place
//! of the list of the blocks that the checkpoint does not use.
//!
//! The database goes on while this reads.  A block of a checkpoint may be
//! overwritten once a newer checkpoint is durable, and that is when the turtle is
//! renamed: what does not fit its checksum is [`Kind::Torn`] if the turtle has
//! changed, and everything is read again; otherwise it is damage.

pub mod bytes;
pub mod config;
pub mod cookie;
mod difference;
mod documents;
mod files;
pub mod list;
pub mod page;
mod standing;
#[cfg(test)]
mod tests;
pub mod tree;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::walk::Root;
use runtime::pulse::Pulse;

pub use cookie::{Addr, Cookie};
pub use difference::{difference, without, FreeList};
pub use documents::{are_small, documents, Documents};
use files::{Dbpath, Leaves};
pub use standing::Standing;

/// How often everything is read again while checkpoints complete.
const TRIES: u32 = 20;

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: Kind,
    /// A message for people.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This database is not one of those that this understands.
    Unsupported,
    /// It is not what WiredTiger would have written.
    Damaged,
    /// Checkpoints completed meanwhile: try again.
    Torn,
    /// It has made no checkpoint of its files yet: try again later.
    Early,
    /// The file is gone, as one that was dropped after the checkpoint.
    Gone,
    /// A file cannot be opened or read.
    Io,
}

/// Bytes of a message: what it cites may be as long as its writer likes.
const LONGEST: usize = 1024;

pub(crate) fn refuse(kind: Kind, message: impl Into<String>) -> Refusal {
    let mut message = message.into();
    if message.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(end.unwrap_or_default());
        message.push_str(" ...");
    }
    Refusal { kind, message }
}

pub fn unsupported(message: impl Into<String>) -> Refusal {
    refuse(Kind::Unsupported, message)
}

pub(crate) fn damaged(message: impl Into<String>) -> Refusal {
    refuse(Kind::Damaged, message)
}

impl Refusal {
    fn of(mut self, path: &Path) -> Self {
        self.message = format!("{}: {}", path.display(), self.message);
        self
    }
}

/// A checkpoint of the database: the entry of the metadata file in the turtle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TurtleId(pub String);

/// WiredTiger's, as the turtle has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Of a database that was just made; mongod's first checkpoint comes within a minute.
pub const NOT_YET: &str = "not yet: the database has made no checkpoint of its files";

/// Which opening of the database wrote a checkpoint: one process may close it and open
/// it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Inode number and birth time of the metadata file.
    pub metadata: (u64, i128),
    /// What WiredTiger counts up when it opens that; before 10 it does not.
    pub generation: Option<u64>,
}

/// One look at the turtle and the metadata.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub turtle: TurtleId,
    pub run: Run,
    pub version: Version,
    /// In the order of their names, without the metadata file itself.
    pub files: Vec<FileEntry>,
    /// It was configured not to wait for its data when it checkpoints.
    unsynced: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Below the database's directory.
    pub path: PathBuf,
    /// Of the newest checkpoint; grows with each.  0: there is none.
    pub order: u64,
    /// `None`: nothing has been written yet, so that there is no list.
    pub cookie: Option<Cookie>,
    /// The largest leaf page that it is written in, in bytes; not all versions say so.
    pub leaf_page: Option<u32>,
}

impl FileEntry {
    fn name(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }
}

/// What was read of the list of each file.  `None`: it was not wanted, or there is
/// none.  One file's refusal says nothing about the others.
pub type Lists = Vec<Option<Result<FreeList, Refusal>>>;

/// A snapshot and the lists of those files that are `wanted`, all of one turtle: it
/// is read again at the end, and everything is if it has changed.
pub fn read(root: &Root, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Result<(Snapshot, Lists), Refusal> {
    Reader::default().read(root, wanted)
}

/// Reads a database again and again, and of its metadata what has changed.
#[derive(Default)]
pub struct Reader {
    leaves: Leaves,
    pulse: Pulse,
}

impl Reader {
    /// One that says at every block that its thread is at work.
    pub fn new(pulse: Pulse) -> Self {
        Self {
            leaves: Leaves::default(),
            pulse,
        }
    }

    /// As if this were the first time.
    pub fn forget(&mut self) {
        self.leaves = Leaves::default();
    }

    /// As [`read`].
    pub fn read(
        &mut self,
        root: &Root,
        wanted: &mut dyn FnMut(&FileEntry) -> bool,
    ) -> Result<(Snapshot, Lists), Refusal> {
        let dbpath = Dbpath::open(root, &self.pulse)?;
        for _ in 0..TRIES {
            let turtle = dbpath.turtle()?;
            let done = dbpath.snapshot(&turtle, &mut self.leaves).map(|snapshot| {
                let lists = dbpath.lists(&snapshot, wanted);
                (snapshot, lists)
            });
            if dbpath.turtle()? == turtle {
                return done;
            }
            self.forget();
        }
        Err(refuse(
            Kind::Torn,
            format!("checkpoints completed while the lists were read, {TRIES} times in a row"),
        ))
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What WiredTiger's last checkpoint lists as free, read from outside.
//!
//! `WiredTiger.turtle` names the newest durable checkpoint of the metadata file
//! `WiredTiger.wt`; that file is a B-tree with an entry for every file, which
//! names the newest checkpoint of that file by a cookie; the cookie has the place
//! of the list of the blocks that the checkpoint does not use.
//!
//! The database goes on while this reads.  A block of a checkpoint may be
//! overwritten once a newer checkpoint is durable, and that is when the turtle is
//! renamed: what does not fit its checksum is [`Kind::Torn`] as long as the turtle
//! has changed, and everything is read again.

mod difference;

use std::path::PathBuf;

use crate::walk::Root;

pub use difference::{difference, FreeList};

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: Kind,
    /// One sentence for people.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This database is not one of those that this understands.
    Unsupported,
    /// It is not what WiredTiger would have written.
    Damaged,
    /// A checkpoint completed meanwhile: try again.
    Torn,
    /// A file cannot be opened or read.
    Io,
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

/// One look at the turtle and the metadata.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub turtle: TurtleId,
    pub version: Version,
    /// In the order of their names, without the metadata file itself.
    pub files: Vec<FileEntry>,
}

impl Snapshot {
    /// Whether blocks of this database may be discarded, too: its lists are
    /// understood from older versions on.
    pub fn may_discard(&self) -> Result<(), Refusal> {
        Err(refuse(Kind::Unsupported, "lists of free blocks are not read yet"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Below the database's directory.
    pub path: PathBuf,
    /// Of the newest checkpoint; grows with each.
    pub order: u64,
    /// `None`: nothing has been written yet, so that there is no list.
    pub cookie: Option<Cookie>,
}

/// Where a checkpoint of a file is.  One that differs is another checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cookie {
    /// Bytes in a unit of allocation.
    pub alloc: u32,
    /// Where the list of free blocks is; `None`: it is empty.
    pub avail: Option<Addr>,
    /// Bytes in the file at the checkpoint.
    pub file_size: u64,
    text: Box<str>,
}

/// A block: bytes, and the checksum of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addr {
    pub offset: u64,
    pub size: u32,
    pub checksum: u32,
}

fn refuse(kind: Kind, message: impl Into<String>) -> Refusal {
    Refusal {
        kind,
        message: message.into(),
    }
}

/// Reads the turtle and the metadata, again if a checkpoint completes meanwhile.
pub fn read_snapshot(_root: &Root) -> Result<Snapshot, Refusal> {
    Err(refuse(Kind::Unsupported, "lists of free blocks are not read yet"))
}

/// Reads what the newest checkpoint of `file` lists as free.
pub fn read_list(_root: &Root, _file: &FileEntry) -> Result<FreeList, Refusal> {
    Err(refuse(Kind::Unsupported, "lists of free blocks are not read yet"))
}

/// A snapshot and the lists of those files that are `wanted`, all of one turtle: it
/// is read again at the end, and everything is if it has changed.
pub fn read(
    _root: &Root,
    _wanted: &mut dyn FnMut(&FileEntry) -> bool,
) -> Result<(Snapshot, Vec<Option<FreeList>>), Refusal> {
    Err(refuse(Kind::Unsupported, "lists of free blocks are not read yet"))
}

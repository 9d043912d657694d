// SPDX-License-Identifier: GPL-2.0-or-later
//! The files of a database: opened below its directory, without links.
//!
//! **What is read of the metadata.**  A checkpoint of it writes the pages that have
//! changed, and the way to them from the root; the others stay where they are.  So a
//! leaf of this checkpoint that lies where the one before had a leaf of the same address
//! is that leaf: WiredTiger hands out no block of a checkpoint before a later one is
//! durable, which is when the turtle names that.  It is not read again.  That is so of
//! two checkpoints one after the other, by their orders, of the same file and by the
//! same process; in all other cases everything is read.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::config::{self, Turtle};
use super::cookie::Addr;
use super::difference::FreeList;
use super::page::{Block, LIST};
use super::tree::{Blocks, Each, Tree, Visit};
use super::{
    damaged, list, refuse, unsupported, FileEntry, Kind, Lists, Refusal, Run, Snapshot, TurtleId, Version,
};
use crate::turtle;
use crate::walk::{self, FoundFile, Root};

const METADATA: &str = "WiredTiger.wt";
/// What a database was made with, and what its administrator adds.
const SETTINGS: [&str; 2] = ["WiredTiger.basecfg", "WiredTiger.config"];

pub(super) struct Dbpath(OwnedFd);

/// What the leaves of a checkpoint of the metadata have.
#[derive(Default)]
pub(super) struct Leaves {
    /// Inode number and birth time of the metadata file.
    file: (u64, i128),
    turtle: Option<TurtleId>,
    order: u64,
    all: HashMap<Addr, Arc<[FileEntry]>>,
}

impl Leaves {
    /// Whether a leaf of this checkpoint is one of `turtle` when it has its address.
    fn count(&self, file: (u64, i128), turtle: &Turtle) -> bool {
        let same = self.turtle.as_ref() == Some(&turtle.id);
        self.file == file && (same || turtle.order == self.order + 1)
    }
}

/// What has been found while the metadata is read.
struct Entries {
    before: HashMap<Addr, Arc<[FileEntry]>>,
    leaves: HashMap<Addr, Arc<[FileEntry]>>,
    /// Of the leaf that is read.
    open: Vec<FileEntry>,
    files: Vec<FileEntry>,
}

impl Entries {
    fn add(&mut self, addr: &Addr, leaf: Arc<[FileEntry]>) {
        self.files.extend_from_slice(&leaf);
        self.leaves.insert(*addr, leaf);
    }
}

impl Visit for Entries {
    fn knows(&mut self, addr: &Addr) -> bool {
        let known = self.before.remove(addr);
        let knows = known.is_some();
        if let Some(leaf) = known {
            self.add(addr, leaf);
        }
        knows
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        self.open.extend(entry(key, value)?);
        Ok(())
    }

    fn leaf(&mut self, addr: &Addr) {
        let leaf = std::mem::take(&mut self.open).into();
        self.add(addr, leaf);
    }
}

fn io_error(path: &Path, e: &io::Error) -> Refusal {
    refuse(Kind::Io, format!("{}: {e}", path.display()))
}

fn gone(path: &Path) -> Refusal {
    refuse(
        Kind::Gone,
        format!("{}: there is no such regular file", path.display()),
    )
}

/// A file, and its bytes when it was opened.
struct Opened {
    file: File,
    size: u64,
}

impl Blocks for Opened {
    fn block(&mut self, addr: &Addr) -> Result<Block, Refusal> {
        // No memory for what cannot be there.
        if addr.end() > self.size {
            return Err(damaged(format!(
                "the block at {} is beyond the end of the file",
                addr.offset
            )));
        }
        let mut bytes = vec![0; addr.size as usize];
        match self.file.read_exact_at(&mut bytes, addr.offset) {
            Ok(()) => Block::check(bytes, addr),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(damaged(format!("the block at {} is cut off", addr.offset)))
            }
            Err(e) => Err(refuse(Kind::Io, e.to_string())),
        }
    }
}

impl Dbpath {
    pub(super) fn open(root: &Root) -> Result<Self, Refusal> {
        match root.handle() {
            Ok(Some(fd)) => Ok(Self(fd)),
            Ok(None) => Err(refuse(
                Kind::Io,
                format!("{}: the directory is gone", root.path().display()),
            )),
            Err(e) => Err(io_error(root.path(), &e)),
        }
    }

    /// The text of a small file, if there is one.
    fn text(&self, name: &str) -> Result<Option<String>, Refusal> {
        let path = Path::new(name);
        let opened = walk::open_beneath(&self.0, path).map_err(|e| io_error(path, &e))?;
        let Some((file, _)) = opened else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(turtle::MAX_SIZE + 1).read_to_end(&mut bytes);
        read.map_err(|e| io_error(path, &e))?;
        if bytes.len() as u64 > turtle::MAX_SIZE {
            return Err(damaged(format!("{name}: it is longer than 1 MiB")));
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    pub(super) fn turtle(&self) -> Result<Turtle, Refusal> {
        let text = self.text(turtle::NAME)?;
        let text = text.ok_or_else(|| {
            unsupported(format!(
                "there is no {} in it: this is not the directory of a WiredTiger database",
                turtle::NAME
            ))
        })?;
        config::turtle(&text)
    }

    fn unsynced(&self) -> Result<bool, Refusal> {
        for name in SETTINGS {
            let text = self.text(name)?.unwrap_or_default();
            if config::unsynced(&text) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The files in the metadata that the turtle names.  `leaves` are those of the look
    /// before, and then of this.
    pub(super) fn snapshot(&self, turtle: &Turtle, leaves: &mut Leaves) -> Result<Snapshot, Refusal> {
        let before = std::mem::take(leaves);
        let mut files = Vec::new();
        let mut run = Run {
            generation: turtle.generation,
            ..Run::default()
        };
        if let Some((root, cookie)) = turtle.cookie.as_ref().and_then(|c| Some((c.root?, c))) {
            let path = Path::new(METADATA);
            let opened = walk::open_beneath(&self.0, path).map_err(|e| io_error(path, &e))?;
            let (file, found) = opened.ok_or_else(|| damaged(format!("there is no {METADATA}")))?;
            let mut opened = Opened {
                file,
                size: found.stamp.size,
            };
            let file = (found.ino, found.stamp.btime);
            let before = if before.count(file, turtle) {
                before.all
            } else {
                HashMap::new()
            };
            let mut entries = Entries {
                files: Vec::new(),
                leaves: HashMap::with_capacity(before.len()),
                before,
                open: Vec::new(),
            };
            let mut tree = Tree {
                left: opened.size,
                blocks: &mut opened,
                alloc: cookie.alloc,
                old: turtle.version.major < 10,
            };
            tree.visit(&root, &mut entries).map_err(|e| e.of(path))?;
            *leaves = Leaves {
                file,
                turtle: Some(turtle.id.clone()),
                order: turtle.order,
                all: entries.leaves,
            };
            files = entries.files;
            run.metadata = file;
        }
        Ok(Snapshot {
            turtle: turtle.id.clone(),
            run,
            version: turtle.version,
            files,
            unsynced: self.unsynced()?,
        })
    }

    pub(super) fn lists(&self, snapshot: &Snapshot, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Lists {
        let mut list = |f: &FileEntry| (f.cookie.is_some() && wanted(f)).then(|| self.list(f));
        snapshot.files.iter().map(&mut list).collect()
    }

    fn opened(&self, path: &Path) -> Result<(Opened, FoundFile), Refusal> {
        let opened = walk::open_beneath(&self.0, path).map_err(|e| io_error(path, &e))?;
        let (file, found) = opened.ok_or_else(|| gone(path))?;
        let size = found.stamp.size;
        Ok((Opened { file, size }, found))
    }

    /// Calls `each` with the keys and values of the file's checkpoint, in order.
    pub(super) fn walk(
        &self,
        file: &FileEntry,
        version: Version,
        each: &mut Each<'_>,
    ) -> Result<(), Refusal> {
        let Some((root, cookie)) = file.cookie.as_ref().and_then(|c| Some((c.root?, c))) else {
            return Ok(());
        };
        let (mut opened, _) = self.opened(&file.path)?;
        let mut tree = Tree {
            left: opened.size,
            blocks: &mut opened,
            alloc: cookie.alloc,
            old: version.major < 10,
        };
        tree.walk(&root, each).map_err(|e| e.of(&file.path))
    }

    pub(super) fn list(&self, file: &FileEntry) -> Result<FreeList, Refusal> {
        let path = &file.path;
        let Some(cookie) = &file.cookie else {
            return Err(refuse(
                Kind::Gone,
                format!("{}: it has no checkpoint yet", path.display()),
            ));
        };
        let (mut opened, found) = self.opened(path)?;
        let extents = match &cookie.avail {
            None => Ok(Vec::new()),
            Some(addr) => opened.block(addr).and_then(|block| {
                if block.kind() != LIST {
                    return Err(damaged(format!("a list of free blocks of type {}", block.kind())));
                }
                list::parse(block.data()?, cookie)
            }),
        };
        Ok(FreeList {
            file: (found.ino, found.stamp.btime),
            file_size: cookie.file_size,
            extents: extents.map_err(|e| e.of(path))?,
        })
    }
}

/// What an entry of the metadata says of a file.
fn entry(key: &[u8], value: &[u8]) -> Result<Option<FileEntry>, Refusal> {
    let key = key.strip_suffix(b"\0").unwrap_or(key);
    if key.starts_with(b"tiered:") || key.starts_with(b"object:") {
        return Err(unsupported("the database has tiered storage"));
    }
    if key.starts_with(b"layered:") {
        return Err(unsupported("the database has disaggregated storage"));
    }
    let Some(name) = key.strip_prefix(b"file:") else {
        return Ok(None);
    };
    let path = Path::new(OsStr::from_bytes(name));
    if name == METADATA.as_bytes() {
        return Ok(None);
    }
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    let config = std::str::from_utf8(value).map_err(|_| damaged("its entry is not text").of(path))?;
    let newest = config::newest(config).map_err(|e| e.of(path))?;
    Ok(Some(FileEntry {
        path: path.to_owned(),
        order: newest.order,
        cookie: newest.cookie,
        leaf_page: newest.leaf_page,
    }))
}

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

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::config::{self, Turtle};
use super::cookie::{Addr, Cookie, DENSE};
use super::difference::FreeList;
use super::page::{Block, LIST};
use super::tree::{Blocks, Each, Tree, Visit};
use super::{
    damaged, list, refuse, unsupported, FileEntry, Kind, Lists, Refusal, Run, Snapshot, TurtleId, Version,
};
use crate::walk::{self, FoundFile, Root};
use crate::wiredtiger::turtle;
use runtime::pulse::Pulse;

const METADATA: &str = "WiredTiger.wt";
/// What a database was made with, and what its administrator adds.
const SETTINGS: [&str; 2] = ["WiredTiger.basecfg", "WiredTiger.config"];

/// Bytes of memory for what the metadata says, of some 500,000 files.
const MAX_ENTRIES: usize = 128 << 20;
/// Bytes of blocks that are read at one look: of the metadata, with which as many files have
/// 2 KiB each, and of the lists.  Blocks that several files share cost their owner nothing.
const MAX_METADATA: u64 = 1 << 30;
const MAX_LISTS: u64 = 256 << 20;
/// As the kernel's PATH_MAX.
const MAX_NAME: usize = 4096;

pub(super) struct Dbpath {
    directory: OwnedFd,
    /// Beats at every block: there may be many.
    pulse: Pulse,
}

/// What the lists of one look may take yet.
pub(super) struct Budget {
    extents: usize,
    pub bytes: u64,
    /// Inode numbers of the files whose lists were read.
    files: HashSet<u64>,
}

impl Budget {
    pub(super) fn of(extents: usize) -> Self {
        Self {
            extents,
            bytes: MAX_LISTS,
            files: HashSet::new(),
        }
    }
}

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
    files: Vec<FileEntry>,
    /// Where in `files` the leaf that is read begins.
    open: usize,
    /// Bytes of memory that files may take yet.
    room: usize,
}

impl Entries {
    /// The next file: they are in the order of their names, so that none is there twice.
    fn push(&mut self, file: FileEntry) -> Result<(), Refusal> {
        if self.files.last().is_some_and(|last| last.name() >= file.name()) {
            return Err(damaged("it is there twice, or not in order").of(&file.path));
        }
        let takes = size_of::<FileEntry>() + file.name().len();
        self.room = self
            .room
            .checked_sub(takes)
            .ok_or_else(|| unsupported(format!("it has more files than {} MiB hold", MAX_ENTRIES >> 20)))?;
        self.files.push(file);
        Ok(())
    }
}

impl Visit for Entries {
    fn knows(&mut self, addr: &Addr) -> Result<bool, Refusal> {
        let Some(leaf) = self.before.remove(addr) else {
            return Ok(false);
        };
        leaf.iter().try_for_each(|file| self.push(file.clone()))?;
        self.open = self.files.len();
        self.leaves.insert(*addr, leaf);
        Ok(true)
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        entry(key, value)?.map_or(Ok(()), |file| self.push(file))
    }

    fn leaf(&mut self, addr: &Addr) {
        self.leaves.insert(*addr, self.files[self.open..].into());
        self.open = self.files.len();
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
struct Opened<'a> {
    file: File,
    size: u64,
    pulse: &'a Pulse,
    /// Bytes of blocks that may be read yet.
    left: u64,
}

impl Opened<'_> {
    /// Whether there is a hole in a block, where a file system knows of holes.
    fn has_hole(&self, addr: &Addr) -> bool {
        let hole = rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Hole(addr.offset));
        hole.is_ok_and(|at| at < addr.end())
    }
}

impl Blocks for Opened<'_> {
    fn block(&mut self, addr: &Addr) -> Result<Block, Refusal> {
        self.pulse.beat();
        // No memory for what cannot be there.
        if addr.end() > self.size {
            return Err(damaged(format!(
                "the block at {} is beyond the end of the file",
                addr.offset
            )));
        }
        let left = self.left.checked_sub(addr.size.into());
        self.left =
            left.ok_or_else(|| unsupported("with it a look takes more than can be read each time"))?;
        // A sparse file costs its owner nothing.
        if addr.size > DENSE && self.has_hole(addr) {
            return Err(damaged(format!("the block at {} has a hole", addr.offset)));
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
    pub(super) fn open(root: &Root, pulse: &Pulse) -> Result<Self, Refusal> {
        match root.handle() {
            Ok(Some(directory)) => Ok(Self {
                directory,
                pulse: pulse.clone(),
            }),
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
        let opened = walk::open_beneath(&self.directory, path).map_err(|e| io_error(path, &e))?;
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
                "there is no {} in it: {}",
                turtle::NAME,
                self.without_turtle()
            ))
        })?;
        config::turtle(&text)
    }

    /// What a directory without a turtle is.
    fn without_turtle(&self) -> &'static str {
        let is_there =
            |name: &str| matches!(walk::open_beneath(&self.directory, Path::new(name)), Ok(Some(_)));
        if is_there("WiredTiger.backup") {
            "it is a copy that a backup cursor made, and becomes a database when a server opens it"
        } else if is_there("WiredTiger.turtle.set") {
            "there is a WiredTiger.turtle.set, from which it was to be made: the copy, or the server, was stopped before"
        } else {
            "this is not the directory of a WiredTiger database"
        }
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
        if let Some(cookie) = turtle.cookie.as_ref().filter(|c| c.root.is_some()) {
            let path = Path::new(METADATA);
            let opened = self.opened(path, MAX_METADATA);
            let (mut opened, found) = opened.map_err(|e| match e.kind {
                Kind::Gone => damaged(format!("there is no {METADATA}")),
                _ => e,
            })?;
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
                open: 0,
                room: MAX_ENTRIES,
            };
            let done = in_its_unit(cookie, |c| match &c.root {
                Some(root) => {
                    Tree::new(&mut opened, c.alloc, turtle.version.major < 10).visit(root, &mut entries)
                }
                None => Ok(()),
            });
            done.map_err(|e| e.of(path))?;
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
        let mut budget = Budget::of(list::MAX_EXTENTS);
        let mut list = |f: &FileEntry| (f.cookie.is_some() && wanted(f)).then(|| self.list(f, &mut budget));
        snapshot.files.iter().map(&mut list).collect()
    }

    fn opened(&self, path: &Path, left: u64) -> Result<(Opened<'_>, FoundFile), Refusal> {
        let opened = walk::open_beneath(&self.directory, path).map_err(|e| io_error(path, &e))?;
        let (file, found) = opened.ok_or_else(|| gone(path))?;
        let opened = Opened {
            file,
            size: found.stamp.size,
            pulse: &self.pulse,
            left,
        };
        Ok((opened, found))
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
        let (mut opened, _) = self.opened(&file.path, u64::MAX)?;
        let mut tree = Tree::new(&mut opened, cookie.alloc, version.major < 10);
        tree.walk(&root, each).map_err(|e| e.of(&file.path))
    }

    pub(super) fn list(&self, file: &FileEntry, budget: &mut Budget) -> Result<FreeList, Refusal> {
        let path = &file.path;
        let Some(cookie) = &file.cookie else {
            return Err(refuse(
                Kind::Gone,
                format!("{}: it has no checkpoint yet", path.display()),
            ));
        };
        let (mut opened, found) = self.opened(path, budget.bytes)?;
        // By another name, as links cost their owner nothing.
        if !budget.files.insert(found.ino) {
            return Err(damaged("the metadata has this file twice").of(path));
        }
        let extents = in_its_unit(cookie, |c| match &c.avail {
            None => Ok(Vec::new()),
            Some(addr) => opened.block(addr).and_then(|block| {
                if block.kind() != LIST {
                    return Err(damaged(format!("a list of free blocks of type {}", block.kind())));
                }
                list::parse(block.data()?, c, budget.extents)
            }),
        });
        budget.bytes = opened.left;
        let extents = extents.map_err(|e| e.of(path))?;
        budget.extents -= extents.len();
        Ok(FreeList {
            file: (found.ino, found.stamp.btime),
            file_size: cookie.file_size,
            extents,
        })
    }
}

/// Reads what a cookie leads to, in larger units if nothing is there otherwise: a block's
/// checksum and size tell in which unit its address is.
fn in_its_unit<T>(
    cookie: &Cookie,
    mut read: impl FnMut(&Cookie) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    read(cookie).or_else(|e| match e.kind {
        Kind::Damaged => cookie.wider().find_map(|c| read(&c).ok()).ok_or(e),
        _ => Err(e),
    })
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
    if key.starts_with(b"abbrev:") {
        return Err(unsupported("the database's metadata has abbreviated words"));
    }
    let Some(name) = key.strip_prefix(b"file:") else {
        return Ok(None);
    };
    let path = Path::new(OsStr::from_bytes(name));
    if name == METADATA.as_bytes() {
        return Ok(None);
    }
    if name.len() > MAX_NAME {
        return Err(damaged(format!("a name of {} bytes", name.len())));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_that_are_not_in_files_of_their_own() {
        let why = |key: &str| entry(key.as_bytes(), b"checkpoint=").unwrap_err();
        for (key, reason) in [
            ("tiered:a", "the database has tiered storage"),
            ("object:a-1.wtobj", "the database has tiered storage"),
            ("layered:a", "the database has disaggregated storage"),
            ("abbrev:", "the database's metadata has abbreviated words"),
        ] {
            let refused = why(key);
            assert_eq!(
                (refused.kind, refused.message.as_str()),
                (Kind::Unsupported, reason)
            );
        }
        for key in ["table:a", "colgroup:a", "system:x"] {
            assert!(entry(key.as_bytes(), b"").unwrap().is_none(), "{key}");
        }
        let disagg = entry(b"file:a.wt_stable\0", b"block_manager=disagg,checkpoint=\0").unwrap_err();
        assert_eq!(disagg.message, "a.wt_stable: its files have block_manager=disagg");
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Walks a directory that others write to.
//!
//! No symbolic link is followed and nothing but regular files is opened; every
//! name is looked up relative to a directory that was opened before.  Nothing
//! stays open between walks, so that the file system can be unmounted and a
//! deleted file's space comes back at once.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// Databases have four levels of directories at most, and a home may be above them.
const DEPTH: u32 = 16;
/// Entries of all directories of a walk; the kernel has no table of more files.
const MOST: u32 = 1 << 20;

/// What stat says of a file; when it changes, the file may have other extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Bytes.
    pub size: u64,
    /// Sectors, with those that are not allocated yet.
    pub blocks: u64,
    /// Nanoseconds; changes with every change of the inode.
    pub ctime: i128,
    /// Nanoseconds; changes with every change of the data.
    pub mtime: i128,
    /// Nanoseconds, 0 when not known.  Differs when an inode number is used
    /// again.
    pub btime: i128,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    pub ino: u64,
    pub stamp: FileStat,
}

/// Why an entry was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skipped {
    Symlink,
    Special,
    OtherDevice,
    TooDeep,
    Unreadable,
}

impl Skipped {
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Symlink => "it is a symbolic link",
            Self::Special => "it is not a regular file",
            Self::OtherDevice => "it is on another file system",
            Self::TooDeep => "it is nested too deeply",
            Self::Unreadable => "it cannot be read",
        }
    }
}

/// Called with what a walk finds.  Paths are relative to the root.
pub trait Visitor {
    fn file(&mut self, path: &Path, found: FoundFile);
    fn directory(&mut self, path: &Path, dir: &OwnedFd);
    fn skipped(&mut self, path: &Path, why: Skipped);
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

/// A directory to walk, and the file system that it must be on.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    dev: u64,
    ino: u64,
    /// Nanoseconds, 0 when not known.
    btime: i128,
}

fn open_dir(at: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn nanoseconds(t: rustix::fs::StatxTimestamp) -> i128 {
    i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec)
}

fn stamp(s: &Statx) -> FileStat {
    let known = StatxFlags::from_bits_retain(s.stx_mask);
    FileStat {
        size: s.stx_size,
        blocks: s.stx_blocks,
        ctime: nanoseconds(s.stx_ctime),
        mtime: nanoseconds(s.stx_mtime),
        btime: if known.contains(StatxFlags::BTIME) {
            nanoseconds(s.stx_btime)
        } else {
            0
        },
    }
}

fn statx(at: impl AsFd, name: &OsStr, flags: AtFlags) -> Result<Statx, Errno> {
    rustix::fs::statx(
        at,
        name,
        flags | AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS | StatxFlags::BTIME,
    )
}

fn device(s: &Statx) -> u64 {
    rustix::fs::makedev(s.stx_dev_major, s.stx_dev_minor)
}

impl Root {
    /// The directory as it is now.  `path` itself may lead through links: it
    /// comes from the administrator.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = std::fs::canonicalize(path)?;
        let dir = open_dir(rustix::fs::CWD, path.as_os_str())?;
        let s = statx(&dir, OsStr::new(""), AtFlags::EMPTY_PATH)?;
        Ok(Self {
            path,
            dev: device(&s),
            ino: s.stx_ino,
            btime: stamp(&s).btime,
        })
    }

    /// Inode number and birth time, which no other directory has.
    pub fn identity(&self) -> (u64, i128) {
        (self.ino, self.btime)
    }

    /// Whether the file system keeps birth times: a number alone may be another file's later.
    pub fn has_birth_time(&self) -> bool {
        self.btime != 0
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file system's device number.
    pub fn device(&self) -> u64 {
        self.dev
    }

    /// Opens the directory, if it is still the one that it was.
    pub fn handle(&self) -> io::Result<Option<OwnedFd>> {
        let fd = match open_dir(rustix::fs::CWD, self.path.as_os_str()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let s = statx(&fd, OsStr::new(""), AtFlags::EMPTY_PATH)?;
        let found = (device(&s), s.stx_ino, stamp(&s).btime);
        Ok((found == (self.dev, self.ino, self.btime)).then_some(fd))
    }

    /// Walks everything below `handle`.
    pub fn walk(&self, handle: OwnedFd, visitor: &mut dyn Visitor) -> io::Result<()> {
        self.walk_most(handle, visitor, MOST)
    }

    fn walk_most(&self, handle: OwnedFd, visitor: &mut dyn Visitor, most: u32) -> io::Result<()> {
        visitor.directory(Path::new(""), &handle);
        let quota = Quota {
            depth: 0,
            left: &Cell::new(most),
        };
        self.walk_dir(&handle, Path::new(""), quota, visitor)
    }

    fn walk_dir(
        &self,
        dir: &OwnedFd,
        path: &Path,
        quota: Quota<'_>,
        visitor: &mut dyn Visitor,
    ) -> io::Result<()> {
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                quota.takes()?;
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        // The same order in every walk, so that one of two links is kept.
        names.sort_unstable();
        for name in names {
            self.entry(dir, path, &name, quota, visitor)?;
        }
        Ok(())
    }

    fn entry(
        &self,
        dir: &OwnedFd,
        path: &Path,
        name: &OsStr,
        quota: Quota<'_>,
        visitor: &mut dyn Visitor,
    ) -> io::Result<()> {
        let s = match statx(dir, name, AtFlags::empty()) {
            Ok(s) => s,
            // It is gone already.
            Err(Errno::NOENT) => return Ok(()),
            Err(e) => {
                let skip = || visitor.skipped(&path.join(name), Skipped::Unreadable);
                return unless_damaged(Err(e.into()), skip);
            }
        };
        let path = path.join(name);
        let kind = FileType::from_raw_mode(s.stx_mode.into());
        if kind == FileType::Symlink {
            visitor.skipped(&path, Skipped::Symlink);
        } else if device(&s) != self.dev {
            visitor.skipped(&path, Skipped::OtherDevice);
        } else if kind == FileType::RegularFile {
            visitor.file(
                &path,
                FoundFile {
                    ino: s.stx_ino,
                    stamp: stamp(&s),
                },
            );
        } else if kind != FileType::Directory {
            visitor.skipped(&path, Skipped::Special);
        } else if quota.depth >= DEPTH {
            visitor.skipped(&path, Skipped::TooDeep);
        } else {
            match open_dir(dir, name) {
                Ok(sub) => {
                    visitor.directory(&path, &sub);
                    match self.walk_dir(&sub, &path, quota.below(), visitor) {
                        // Removed while it was read.
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                        other => unless_damaged(other, || visitor.skipped(&path, Skipped::Unreadable))?,
                    }
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(e) => unless_damaged(Err(e.into()), || visitor.skipped(&path, Skipped::Unreadable))?,
            }
        }
        Ok(())
    }
}

/// How deep a walk is, and how many entries it may still have.
#[derive(Clone, Copy)]
struct Quota<'a> {
    depth: u32,
    left: &'a Cell<u32>,
}

impl Quota<'_> {
    fn below(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }

    fn takes(self) -> io::Result<()> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| {
            let why = format!("it has more than {MOST} files and directories");
            io::Error::new(io::ErrorKind::OutOfMemory, why)
        })?;
        self.left.set(left);
        Ok(())
    }
}

/// An entry that may not be read, or whose inode is damaged, is skipped: the others are
/// as they were.  When it is this process that lacks something, the walk fails.
fn unless_damaged(result: io::Result<()>, skip: impl FnOnce()) -> io::Result<()> {
    match result {
        Err(e) if lacks_resources(&e) => Err(e),
        Err(_) => {
            skip();
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn lacks_resources(e: &io::Error) -> bool {
    let lacking = [Errno::MFILE, Errno::NFILE];
    let lacks = |errno: &Errno| e.raw_os_error() == Some(errno.raw_os_error());
    e.kind() == io::ErrorKind::OutOfMemory || lacking.iter().any(lacks)
}

/// The regular file that has this path below `root`, on the file system `dev`.  Links
/// on the way are found out when it is opened.
pub fn find_file(root: &OwnedFd, path: &Path, dev: u64) -> Result<Option<FoundFile>, Errno> {
    let s = match statx(root, path.as_os_str(), AtFlags::empty()) {
        Ok(s) => s,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(e) => return Err(e),
    };
    let regular = FileType::from_raw_mode(s.stx_mode.into()) == FileType::RegularFile;
    let found = || FoundFile {
        ino: s.stx_ino,
        stamp: stamp(&s),
    };
    Ok((regular && device(&s) == dev).then(found))
}

/// Opens a regular file below `root` for reading its extents.  `None`: it is
/// gone, or no longer the file with this inode number.
pub fn open_file(root: &OwnedFd, path: &Path, ino: u64) -> io::Result<Option<(File, FileStat)>> {
    let opened = open_regular(root, path)?;
    Ok(opened.and_then(|(file, found)| (found.ino == ino).then_some((file, found.stamp))))
}

/// Opens whatever regular file has this path below `root`, on its file system.
pub fn open_beneath(root: &OwnedFd, path: &Path) -> io::Result<Option<(File, FoundFile)>> {
    Ok(open_regular(root, path)?)
}

fn open_regular(root: &OwnedFd, path: &Path) -> Result<Option<(File, FoundFile)>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let open = |extra| rustix::fs::openat2(root, path, flags | extra, Mode::empty(), resolve);
    let opened = match open(OFlags::NOATIME) {
        // Only the owner and root may leave the access time alone.
        Err(Errno::PERM) => open(OFlags::empty()),
        other => other,
    };
    let fd = match opened {
        Ok(fd) => fd,
        // What O_NOFOLLOW and the resolve flags say of a name that was exchanged.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e),
    };
    let s = statx(&fd, OsStr::new(""), AtFlags::EMPTY_PATH)?;
    let regular = FileType::from_raw_mode(s.stx_mode.into()) == FileType::RegularFile;
    let found = || FoundFile {
        ino: s.stx_ino,
        stamp: stamp(&s),
    };
    Ok(regular.then(|| (File::from(fd), found())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{symlink, MetadataExt};

    #[derive(Default)]
    struct Notes {
        files: Vec<(String, u64)>,
        dirs: Vec<String>,
        skipped: Vec<(String, Skipped)>,
    }

    impl Visitor for Notes {
        fn file(&mut self, path: &Path, found: FoundFile) {
            self.files.push((path.display().to_string(), found.stamp.size));
        }
        fn directory(&mut self, path: &Path, _: &OwnedFd) {
            self.dirs.push(path.display().to_string());
        }
        fn skipped(&mut self, path: &Path, why: Skipped) {
            self.skipped.push((path.display().to_string(), why));
        }
    }

    fn walk(path: &Path) -> Notes {
        let root = Root::open(path).unwrap();
        let mut notes = Notes::default();
        root.walk(root.handle().unwrap().unwrap(), &mut notes).unwrap();
        notes
    }

    #[test]
    fn links_and_fifos_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let at = |p: &str| dir.path().join(p);
        fs::create_dir_all(at("db/collection")).unwrap();
        fs::write(at("db/collection/1-2.wt"), "123").unwrap();
        fs::write(at("a.wt"), "1").unwrap();
        symlink("/etc/passwd", at("index-1-2.wt")).unwrap();
        symlink("/", at("loop")).unwrap();
        symlink("..", at("db/up")).unwrap();
        // Opening it for reading would wait for a writer.
        rustix::fs::mkfifoat(rustix::fs::CWD, at("collection-1-2.wt"), Mode::RUSR).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(at("mongodb-27017.sock")).unwrap();

        let notes = walk(dir.path());
        assert_eq!(
            notes.files,
            [("a.wt".to_owned(), 1), ("db/collection/1-2.wt".to_owned(), 3)]
        );
        assert_eq!(notes.dirs, ["", "db", "db/collection"]);
        assert_eq!(
            notes.skipped,
            [
                ("collection-1-2.wt".to_owned(), Skipped::Special),
                ("db/up".to_owned(), Skipped::Symlink),
                ("index-1-2.wt".to_owned(), Skipped::Symlink),
                ("loop".to_owned(), Skipped::Symlink),
                ("mongodb-27017.sock".to_owned(), Skipped::Special),
            ]
        );
        drop(socket);
    }

    #[test]
    fn directories_end_somewhere() {
        let dir = tempfile::tempdir().unwrap();
        let deep = |n| (1..=n).map(|n| n.to_string()).collect::<Vec<_>>().join("/");
        fs::create_dir_all(dir.path().join(deep(18))).unwrap();
        let notes = walk(dir.path());
        assert_eq!(*notes.dirs.last().unwrap(), deep(16));
        assert_eq!(notes.skipped, [(deep(17), Skipped::TooDeep)]);
    }

    #[test]
    fn a_walk_has_so_many_entries_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("db")).unwrap();
        for name in ["a", "b", "db/c"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let root = Root::open(dir.path()).unwrap();
        let walk = |most| {
            let mut notes = Notes::default();
            let done = root.walk_most(root.handle().unwrap().unwrap(), &mut notes, most);
            done.map(|()| notes.files.len()).map_err(|e| e.to_string())
        };
        assert_eq!(walk(4), Ok(3));
        // Also where it is below: it is not skipped.
        for few in [2, 3] {
            let why = "it has more than 1048576 files and directories";
            assert_eq!(walk(few), Err(why.to_owned()));
        }
    }

    #[test]
    fn a_name_that_was_exchanged_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |p: &str| dir.path().join(p);
        fs::create_dir(at("db")).unwrap();
        fs::write(at("db/f"), "1").unwrap();
        fs::write(at("g"), "1").unwrap();
        let ino = fs::metadata(at("db/f")).unwrap().ino();
        let root = Root::open(dir.path()).unwrap();
        let handle = || root.handle().unwrap().unwrap();
        let opens = |p: &str| open_file(&handle(), Path::new(p), ino).unwrap().is_some();
        assert!(opens("db/f"));
        assert!(!opens("g"), "another inode");
        assert!(!opens("nothing"));
        assert!(!opens("db"), "a directory");
        // A link to the right file, by a name and by a directory.
        symlink("db/f", at("link")).unwrap();
        symlink("db", at("dblink")).unwrap();
        assert!(!opens("link"));
        assert!(!opens("dblink/f"));
        // The right file, outside of the directory
        fs::create_dir(at("db/sub")).unwrap();
        let sub: OwnedFd = File::open(at("db/sub")).unwrap().into();
        assert!(open_file(&sub, Path::new("../f"), ino).unwrap().is_none());
        // A FIFO in its place must not block either.
        fs::remove_file(at("db/f")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("db/f"), Mode::RUSR).unwrap();
        assert!(!opens("db/f"));
    }

    #[test]
    fn a_root_that_was_replaced_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        fs::create_dir(&path).unwrap();
        let root = Root::open(&path).unwrap();
        assert!(root.handle().unwrap().is_some());
        fs::rename(&path, dir.path().join("old")).unwrap();
        assert!(root.handle().unwrap().is_none());
        fs::create_dir(&path).unwrap();
        assert!(root.handle().unwrap().is_none());
        assert!(Root::open(&dir.path().join("none")).is_err());
        // One that has its number, elsewhere or later
        let root = Root::open(&path).unwrap();
        for other in [
            Root {
                dev: root.dev + 1,
                ..root.clone()
            },
            Root {
                ino: root.ino + 1,
                ..root.clone()
            },
            Root {
                btime: root.btime + 1,
                ..root.clone()
            },
        ] {
            assert!(other.handle().unwrap().is_none(), "{other:?}");
        }
    }

    /// As the file system of another is, that is mounted below a data directory.
    #[test]
    fn what_is_on_another_file_system_is_not_opened() {
        let root: OwnedFd = File::open("/").unwrap().into();
        assert!(open_beneath(&root, Path::new("proc/version")).unwrap().is_none());
        let proc: OwnedFd = File::open("/proc").unwrap().into();
        assert!(open_beneath(&proc, Path::new("version")).unwrap().is_some());
    }
}

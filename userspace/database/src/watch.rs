// SPDX-License-Identifier: GPL-2.0-or-later
//! inotify on the directories of a dbpath.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::event::{eventfd, EventfdFlags};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use runtime::log;

/// mongod replaces files in here every second; none of them matters.
const UNWATCHED: [&str; 2] = ["diagnostic.data", "_tmp"];

/// Directories that are watched: who owns the dbpath can make as many as he likes, and what
/// watches there are belongs to all of root's programs.
const MAX_WATCHES: usize = 8192;

/// Names that are kept; with more, all files are looked at.
const MAX_NAMES: usize = 100_000;

/// The file that WiredTiger renames into place at each checkpoint.
pub const TURTLE: &str = "WiredTiger.turtle";

/// What happened since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// A turtle was renamed into place.
    pub turtle: bool,
    /// Files came, went or got other names.
    pub names: bool,
    /// Tables came or went.
    pub files: bool,
    /// The dbpath itself may be gone.
    pub root: bool,
}

/// What became of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name {
    pub came: bool,
    /// The file was closed after writing.
    pub closed: bool,
    /// It went, and did not come again.
    pub gone: bool,
}

/// Names that changed, for those who follow every file.
#[derive(Debug, Default)]
pub struct Changes {
    /// By their paths.
    pub names: BTreeMap<PathBuf, Name>,
    /// Directories changed: any path may be another one.
    pub all: bool,
    /// There were more events than the kernel keeps.
    pub lost: bool,
}

/// The paths of directories, and what happened in them.
#[derive(Default)]
struct Following {
    directories: HashMap<i32, PathBuf>,
    changes: Changes,
    /// The last name that a file was moved from: its cookie, and what was known.
    moved: Option<(u32, Name)>,
}

impl Following {
    fn note(&mut self, path: PathBuf, what: ReadFlags, cookie: u32) {
        if self.changes.names.len() >= MAX_NAMES {
            self.changes.all = true;
            return;
        }
        let name = self.changes.names.entry(path).or_default();
        if what.contains(ReadFlags::CREATE) {
            *name = Name {
                came: true,
                ..Name::default()
            };
        }
        if what.contains(ReadFlags::MOVED_TO) {
            let before = self.moved.take().filter(|m| m.0 == cookie);
            *name = Name {
                came: true,
                closed: before.is_some_and(|m| m.1.closed),
                gone: false,
            };
        }
        name.closed |= what.contains(ReadFlags::CLOSE_WRITE);
        name.gone |= what.contains(ReadFlags::DELETE);
        if what.contains(ReadFlags::MOVED_FROM) {
            self.moved = Some((cookie, *name));
            // The file lives on.
            *name = Name {
                gone: true,
                ..Name::default()
            };
        }
    }
}

pub struct Watch {
    fd: OwnedFd,
    /// The dbpath's descriptor.
    root: Option<i32>,
    failed: bool,
    /// Directories of the last walk without a watch: how many, and the first.
    unwatched: (u64, Option<String>),
    /// The watches that there are, and how many there may be.
    watches: HashSet<i32>,
    most: usize,
    following: Option<Following>,
}

impl Watch {
    pub fn new() -> io::Result<Self> {
        Self::of(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC))
    }

    /// Without an instance, as without watches: the periodic refresh goes on.
    fn of(instance: rustix::io::Result<OwnedFd>) -> io::Result<Self> {
        let failed = matches!(instance, Err(Errno::MFILE));
        let fd = match instance {
            Err(Errno::MFILE) => {
                log!(
                    Warn,
                    "cannot watch directories; they are looked at now and then",
                    reason = "fs.inotify.max_user_instances is reached"
                );
                // Of which nothing ever comes.
                eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?
            }
            instance => instance?,
        };
        Ok(Self {
            fd,
            root: None,
            failed,
            unwatched: (0, None),
            watches: HashSet::new(),
            most: MAX_WATCHES,
            following: None,
        })
    }

    /// One that keeps the names that changed, until [`Self::take_changes`].
    pub fn following() -> io::Result<Self> {
        Ok(Self {
            following: Some(Following::default()),
            ..Self::new()?
        })
    }

    pub fn take_changes(&mut self) -> Changes {
        let following = self.following.as_mut();
        following.map_or_else(Changes::default, |f| std::mem::take(&mut f.changes))
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Watches a directory, by its handle: its name may mean another one by
    /// now.  One that is watched already stays so.
    pub fn add(&mut self, path: &Path, dir: &OwnedFd) {
        let is_root = path.as_os_str().is_empty();
        if self.following.is_none() && UNWATCHED.iter().any(|n| path == Path::new(n)) {
            return;
        }
        let mut flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        if self.following.is_some() {
            flags |= WatchFlags::CLOSE_WRITE;
        }
        if is_root {
            flags |= WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        }
        // A walk begins there.
        if is_root {
            self.unwatched = (0, None);
        }
        // One that is watched already costs nothing, and cannot be told apart before.
        let full = !is_root && self.watches.len() >= self.most;
        let by_handle = format!("/proc/self/fd/{}", dir.as_raw_fd());
        match inotify::add_watch(&self.fd, by_handle.as_str(), flags) {
            Ok(wd) if full && !self.watches.contains(&wd) => {
                // It can have gone by itself.
                let _ = inotify::remove_watch(&self.fd, wd);
                let why = format!("{} are watched already", self.most);
                self.note_unwatched(path, &why);
            }
            Ok(wd) => {
                self.watches.insert(wd);
                if is_root {
                    self.root = Some(wd);
                }
                if let Some(f) = &mut self.following {
                    f.directories.insert(wd, path.to_owned());
                }
            }
            // The kernel's word for it is that of a full disk.
            Err(Errno::NOSPC) => self.note_unwatched(path, &"fs.inotify.max_user_watches is reached"),
            Err(e) => self.note_unwatched(path, &e),
        }
    }

    /// Directories of the last walk without a watch: how many, and the first.
    pub fn unwatched(&self) -> (u64, Option<String>) {
        self.unwatched.clone()
    }

    /// To be logged once: the periodic refresh goes on.
    fn note_unwatched(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        self.unwatched.0 += 1;
        self.unwatched
            .1
            .get_or_insert_with(|| format!("{}: {why}", path.display()));
        if !std::mem::replace(&mut self.failed, true) {
            log!(
                Warn,
                "cannot watch a directory; it and others are looked at now and then",
                path = path.display(),
                reason = why
            );
        }
    }

    /// Takes what is there, without waiting.
    pub fn take(&mut self) -> io::Result<Events> {
        let mut events = Events::default();
        let mut buf = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(self.fd.as_fd(), &mut buf);
        loop {
            let e = match reader.next() {
                Ok(e) => e,
                Err(Errno::AGAIN) => return Ok(events),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            };
            let of_root = Some(e.wd()) == self.root;
            if e.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                events = Events {
                    turtle: true,
                    names: true,
                    files: false,
                    root: true,
                };
                if let Some(f) = &mut self.following {
                    f.changes.lost = true;
                }
                continue;
            }
            let ends =
                ReadFlags::UNMOUNT | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
            if e.events().intersects(ends) {
                events.root |= of_root;
                if e.events().contains(ReadFlags::IGNORED) {
                    self.watches.remove(&e.wd());
                }
                if let Some(f) = &mut self.following {
                    f.directories.remove(&e.wd());
                }
                continue;
            }
            events.names = true;
            if let (Some(f), Some(name)) = (&mut self.following, e.file_name()) {
                if e.events().contains(ReadFlags::ISDIR) {
                    f.changes.all = true;
                } else if let Some(directory) = f.directories.get(&e.wd()) {
                    let path = directory.join(OsStr::from_bytes(name.to_bytes()));
                    f.note(path, e.events(), e.cookie());
                }
            }
            events.files |= e.file_name().is_some_and(|n| n.to_bytes().ends_with(b".wt"));
            events.turtle |= of_root
                && e.events().contains(ReadFlags::MOVED_TO)
                && e.file_name().is_some_and(|n| n.to_bytes() == TURTLE.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_a_turtle_in_the_root_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let at = |p: &str| dir.path().join(p);
        fs::create_dir(at("sub")).unwrap();
        fs::create_dir(at("diagnostic.data")).unwrap();
        let mut w = Watch::new().unwrap();
        for p in ["", "sub", "diagnostic.data"] {
            w.add(Path::new(p), &fs::File::open(at(p)).unwrap().into());
        }
        assert_eq!(w.take().unwrap(), Events::default());
        fs::write(at("diagnostic.data/metrics.interim"), "1").unwrap();
        assert_eq!(w.take().unwrap(), Events::default());
        fs::write(at("WiredTiger.turtle.set"), "1").unwrap();
        fs::write(at("sub/WiredTiger.turtle.set"), "1").unwrap();
        fs::rename(at("sub/WiredTiger.turtle.set"), at("sub/WiredTiger.turtle")).unwrap();
        let names = Events {
            names: true,
            ..Events::default()
        };
        assert_eq!(w.take().unwrap(), names);
        fs::rename(at("WiredTiger.turtle.set"), at("WiredTiger.turtle")).unwrap();
        assert!(w.take().unwrap().turtle);
        // Writing to a file is none of the events.
        fs::write(at("WiredTiger.turtle"), "2").unwrap();
        assert_eq!(w.take().unwrap(), Events::default());
        fs::write(at("sub/index-1-1.wt"), "1").unwrap();
        assert!(w.take().unwrap().files);
        fs::remove_file(at("sub/index-1-1.wt")).unwrap();
        assert!(w.take().unwrap().files);
        fs::remove_dir_all(at("sub")).unwrap();
        assert_eq!(w.take().unwrap(), names);
        fs::rename(dir.path(), dir.path().with_extension("gone")).unwrap();
        assert!(w.take().unwrap().root);
        fs::rename(dir.path().with_extension("gone"), dir.path()).unwrap();
    }

    #[test]
    fn there_are_not_more_watches_than_that() {
        let dir = tempfile::tempdir().unwrap();
        let mut w = Watch::new().unwrap();
        w.most = 3;
        let add = |w: &mut Watch, name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(&path).unwrap();
            w.add(Path::new(name), &fs::File::open(path).unwrap().into());
        };
        for name in ["", "a", "b", "c", "d"] {
            add(&mut w, name);
        }
        assert_eq!((w.watches.len(), w.failed), (3, true));
        let of = |w: &mut Watch, name: &str| {
            w.take().unwrap();
            fs::write(dir.path().join(name), "").unwrap();
            w.take().unwrap().names
        };
        assert!(of(&mut w, "a/x") && of(&mut w, "b/x"));
        assert!(!of(&mut w, "c/x") && !of(&mut w, "d/x"));
        // One that went makes room.
        fs::remove_dir_all(dir.path().join("a")).unwrap();
        w.take().unwrap();
        assert_eq!(w.watches.len(), 2);
        add(&mut w, "d");
        assert!(of(&mut w, "d/y"));
        // The data directory itself is always watched.
        w.most = 0;
        add(&mut w, "");
        assert!(of(&mut w, "z"));
    }

    #[test]
    fn names_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |p: &str| dir.path().join(p);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("old"), "1").unwrap();
        let mut w = Watch::following().unwrap();
        for p in ["", "sub"] {
            w.add(Path::new(p), &fs::File::open(at(p)).unwrap().into());
        }
        let stays_open = fs::File::create(at("sub/open")).unwrap();
        fs::write(at("old"), "2").unwrap();
        fs::write(at("brief"), "1").unwrap();
        fs::remove_file(at("brief")).unwrap();
        fs::rename(at("old"), at("sub/new")).unwrap();
        drop(fs::File::open(at("sub/new")).unwrap());
        assert!(w.take().unwrap().names);
        let changes = w.take_changes();
        let name = |came, closed, gone| Name { came, closed, gone };
        let expected = [
            ("sub/open", name(true, false, false)),
            ("old", name(false, false, true)),
            ("brief", name(true, true, true)),
            ("sub/new", name(true, true, false)),
        ];
        let expected: BTreeMap<PathBuf, Name> = expected.into_iter().map(|(p, n)| (p.into(), n)).collect();
        assert_eq!(
            (changes.names, changes.all, changes.lost),
            (expected, false, false)
        );
        drop(stays_open);
        fs::rename(at("sub"), at("dir")).unwrap();
        w.take().unwrap();
        assert!(w.take_changes().all);
        assert!(w.take_changes().names.is_empty());
    }

    /// As with every instance of the user taken by others.
    #[test]
    fn without_an_instance_directories_are_looked_at_now_and_then() {
        let dir = tempfile::tempdir().unwrap();
        let mut w = Watch::of(Err(Errno::MFILE)).unwrap();
        let handle = std::fs::File::open(dir.path()).unwrap().into();
        w.add(Path::new(""), &handle);
        std::fs::write(dir.path().join(TURTLE), "x").unwrap();
        assert_eq!(w.take().unwrap(), Events::default());
        assert!(Watch::of(Err(Errno::NOMEM)).is_err());
    }

    #[test]
    fn more_events_than_the_kernel_keeps() {
        let max = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let max: usize = max.trim().parse().unwrap();
        if max > 100_000 {
            eprintln!("skipped: the queue has room for {max} events");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut w = Watch::following().unwrap();
        w.add(Path::new(""), &fs::File::open(dir.path()).unwrap().into());
        let path = |n| dir.path().join(if n % 2 == 0 { "a" } else { "b" });
        fs::write(path(0), "").unwrap();
        for n in 0..max {
            fs::rename(path(n), path(n + 1)).unwrap();
        }
        assert!(w.take().unwrap().names);
        assert!(w.take_changes().lost);
    }
}

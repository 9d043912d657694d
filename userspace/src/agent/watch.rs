// SPDX-License-Identifier: GPL-2.0-only
//! inotify on the directories of a dbpath.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::TURTLE;
use crate::log;

/// mongod replaces files in here every second; none of them matters.
const UNWATCHED: [&str; 2] = ["diagnostic.data", "_tmp"];

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

pub struct Watch {
    fd: OwnedFd,
    /// The dbpath's descriptor.
    root: Option<i32>,
    failed: bool,
}

impl Watch {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            fd: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            root: None,
            failed: false,
        })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Watches a directory, by its handle: its name may mean another one by
    /// now.  One that is watched already stays so.
    pub fn add(&mut self, path: &Path, dir: &OwnedFd) {
        let is_root = path.as_os_str().is_empty();
        if UNWATCHED.iter().any(|n| path == Path::new(n)) {
            return;
        }
        let mut flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        if is_root {
            flags |= WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        }
        let by_handle = format!("/proc/self/fd/{}", dir.as_raw_fd());
        match inotify::add_watch(&self.fd, by_handle.as_str(), flags) {
            Ok(wd) if is_root => self.root = Some(wd),
            Ok(_) => {}
            // Once is enough: the periodic refresh goes on.
            Err(e) => {
                if !std::mem::replace(&mut self.failed, true) {
                    log!(
                        Warn,
                        "cannot watch a directory",
                        path = path.display(),
                        reason = e
                    );
                }
            }
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
                continue;
            }
            let ends =
                ReadFlags::UNMOUNT | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
            if e.events().intersects(ends) {
                events.root |= of_root;
                continue;
            }
            events.names = true;
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
}

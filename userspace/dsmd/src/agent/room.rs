// SPDX-License-Identifier: GPL-2.0-or-later
//! Room beyond the end of growing files, so that their next writes have a place
//! that the kernel knows before they are made.
//!
//! The only thing that is ever done to files of the database, and only when it
//! is asked for.  A file's size stays as it is; what it never grows into comes
//! back when it is truncated or dropped.

use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use files::walk::{open_for_writing, FileStat};
use runtime::log;

const MIB: u64 = 1 << 20;
/// A file gets this many times what it grew by.
const TIMES: u64 = 4;
/// This part of the file system stays free.
const RESERVE: u64 = 10;

#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes that a file gets at most; 0: none.
    limit: u64,
}

impl Room {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit }
    }

    /// How much a file needs that was `old` and is `new`.
    fn needs(&self, old: &FileStat, new: &FileStat) -> Option<u64> {
        let grown = new.size.checked_sub(old.size).filter(|&n| n > 0)?;
        let want = (grown * TIMES).next_multiple_of(MIB).min(self.limit);
        let have = (new.blocks * 512).saturating_sub(new.size);
        (have < want / 2).then_some(want)
    }

    /// Gives a file room if it grew.  It may be in want of it, but never fails
    /// for it.
    pub(crate) fn make(&mut self, root: &OwnedFd, path: &Path, ino: u64, old: &FileStat, new: &FileStat) {
        let Some(want) = self.needs(old, new) else {
            return;
        };
        match allocate(root, path, ino, want) {
            Ok(()) | Err(Errno::NOSPC | Errno::DQUOT) => {}
            Err(e) => {
                log!(
                    Warn,
                    "cannot allocate beyond the end of a file; it is not tried again",
                    path = path.display(),
                    reason = io::Error::from(e)
                );
                self.limit = 0;
            }
        }
    }
}

fn allocate(root: &OwnedFd, path: &Path, ino: u64, want: u64) -> Result<(), Errno> {
    let Some((file, stamp)) = open_for_writing(root, path, ino)? else {
        return Ok(());
    };
    let fs = rustix::fs::fstatvfs(&file)?;
    if fs.f_bavail * fs.f_frsize < want + fs.f_blocks * fs.f_frsize / RESERVE {
        return Ok(());
    }
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, stamp.size, want)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn stamp(size: u64, allocated: u64) -> FileStat {
        FileStat {
            size,
            blocks: allocated / 512,
            ctime: 0,
            mtime: 0,
            btime: 0,
        }
    }

    #[test]
    fn what_grows_gets_room() {
        let room = Room::new(64 * MIB);
        let needs = |old, new, allocated| room.needs(&stamp(old, old), &stamp(new, allocated));
        assert_eq!(needs(MIB, 2 * MIB, 2 * MIB), Some(4 * MIB));
        assert_eq!(needs(MIB, MIB + 4096, MIB + 4096), Some(MIB));
        assert_eq!(needs(0, 100 * MIB, 100 * MIB), Some(64 * MIB));
        // It has some, or did not grow.
        assert_eq!(needs(MIB, 2 * MIB, 4 * MIB), None);
        assert_eq!(needs(2 * MIB, 2 * MIB, 2 * MIB), None);
        assert_eq!(needs(2 * MIB, MIB, MIB), None);
        assert_eq!(Room::new(0).needs(&stamp(0, 0), &stamp(MIB, MIB)), None);
    }

    #[test]
    fn the_size_stays() {
        // Where there is room: a disk that is nearly full gives none.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("f");
        fs::write(&path, [1; 8192]).unwrap();
        let meta = fs::metadata(&path).unwrap();
        let root: OwnedFd = fs::File::open(dir.path()).unwrap().into();
        let mut room = Room::new(MIB);
        let (old, new) = (stamp(0, 0), stamp(8192, 8192));
        room.make(&root, Path::new("f"), meta.ino() + 1, &old, &new);
        assert_eq!(fs::metadata(&path).unwrap().blocks(), meta.blocks());
        room.make(&root, Path::new("f"), meta.ino(), &old, &new);
        let after = fs::metadata(&path).unwrap();
        assert_eq!(after.len(), 8192);
        assert!(after.blocks() * 512 >= 8192 + MIB, "{}", after.blocks());
    }
}

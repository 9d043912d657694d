// SPDX-License-Identifier: GPL-2.0-or-later
//! Lifetime hints of inodes, which the file system copies into each write.
//!
//! A file has the hint that its object states, or the one that names its class.
//! Where no extent covers a write, the target takes the stream that goes with the
//! hint (its feature `foreign class`); where one does, it knows better and replaces
//! the hint.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use dm::class::Class;
use dm::device::{MessageError, Target};
use runtime::log;

/// The kernel's `F_SET_RW_HINT`, which libc does not have.
const F_SET_RW_HINT: libc::c_int = 1036;

#[derive(Debug)]
pub(crate) struct Hints {
    pub on: bool,
}

/// The hint that names a class, as the target reads it.
pub(crate) const fn name(class: Class) -> u8 {
    match class {
        Class::Other => 0,
        Class::Journal => 2,
        Class::Index | Class::Primary => 3,
        Class::Collection => 4,
        Class::Oplog => 5,
    }
}

impl Hints {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { on: wanted }
    }

    /// Has the target read hints.
    pub(crate) fn begin(&self, target: &impl Target) -> Result<(), MessageError> {
        match self.on {
            true => target.message("set foreign class").map(drop),
            false => Ok(()),
        }
    }

    /// A hint lives as long as the inode is in memory: it is set at every reading.
    pub(crate) fn set(&mut self, file: &impl AsFd, path: &Path, hint: u8) {
        if !self.on {
            return;
        }
        if let Err(e) = set(file, u64::from(hint)) {
            log!(
                Warn,
                "cannot set the write hint of a file; it is not tried again",
                path = path.display(),
                reason = e
            );
            self.on = false;
        }
    }
}

fn set(file: &impl AsFd, hint: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads 8 bytes at the pointer.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), F_SET_RW_HINT, &hint) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The hint of the file at `path`.
#[cfg(test)]
pub(crate) fn get(path: &Path) -> u64 {
    const F_GET_RW_HINT: libc::c_int = 1035;
    let file = std::fs::File::open(path).unwrap();
    let mut hint = 77u64;
    // SAFETY: the kernel writes 8 bytes at the pointer.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), F_GET_RW_HINT, &mut hint) };
    assert_eq!(done, 0);
    hint
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_inode_has_the_hint() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let _writer = File::create(&path).unwrap();
        let mut hints = Hints::new(true);
        // For reading only, as the agent opens files.
        hints.set(&File::open(&path).unwrap(), &path, name(Class::Collection));
        assert_eq!(get(&path), 4);
        hints.set(&File::open(&path).unwrap(), &path, name(Class::Other));
        assert_eq!(get(&path), 0);
        let mut off = Hints::new(false);
        off.set(&File::open(&path).unwrap(), &path, 5);
        assert_eq!(get(&path), 0);
    }
}

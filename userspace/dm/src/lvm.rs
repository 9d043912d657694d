// SPDX-License-Identifier: GPL-2.0-or-later
//! LVM's lock of a volume group, so that LVM does not exchange a volume's table while
//! we do.
//!
//! By hand: what LVM does in lib/misc/lvm-flock.c is an flock on a file that is there
//! for as long as somebody has it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

const DIR: &str = "/run/lock/lvm";
const TIMEOUT: Duration = Duration::from_secs(10);

/// It is given back with this.
#[derive(Debug)]
pub struct MetadataLock {
    path: PathBuf,
    _file: File,
}

impl Drop for MetadataLock {
    fn drop(&mut self) {
        // As LVM does; who waits for the file looks whether it is still there.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a device is a volume of LVM's.
pub fn is_volume(uuid: &str) -> bool {
    uuid.starts_with("LVM-")
}

/// The volume group in a name of device-mapper's, where hyphens of names are doubled.
fn group(name: &str) -> String {
    let mut group = String::new();
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '-' && rest.next_if_eq(&'-').is_none() {
            break;
        }
        group.push(c);
    }
    group
}

/// Locks the volume group of a volume.
pub fn lock(name: &str) -> Result<MetadataLock> {
    lock_in(Path::new(DIR), name, TIMEOUT)
}

fn lock_in(dir: &Path, name: &str, timeout: Duration) -> Result<MetadataLock> {
    let group = group(name);
    let path = dir.join(format!("V_{group}"));
    let what = || {
        format!(
            "{name}: cannot lock the volume group {group} ({})",
            path.display()
        )
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(what)?;
    let end = Instant::now() + timeout;
    loop {
        match try_lock(&path) {
            Ok(Some(file)) => return Ok(MetadataLock { path, _file: file }),
            Ok(None) if Instant::now() < end => sleep(Duration::from_millis(20)),
            Ok(None) => bail!("{name}: LVM is working on the volume group {group}; nothing was changed"),
            Err(e) => return Err(e).with_context(what),
        }
    }
}

/// None: somebody else has it, or has just given it back.
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).append(true).read(true).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(e) => return Err(e.into()),
    }
    Ok(is_at(&file, path)?.then_some(file))
}

/// Who waited for a file that was taken away meanwhile has no lock.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let here = file.metadata()?;
    let there = fs::metadata(path).ok();
    Ok(there.is_some_and(|m| (m.dev(), m.ino()) == (here.dev(), here.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_names() {
        for (name, wanted) in [
            ("vg-lv", "vg"),
            ("my--vg-lv", "my-vg"),
            ("a----b-c--d", "a--b"),
            ("vg", "vg"),
        ] {
            assert_eq!(group(name), wanted);
        }
    }

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("lvm");
        let soon = Duration::from_millis(60);
        let held = lock_in(&at, "vg-lv", soon).unwrap();
        assert!(at.join("V_vg").exists());
        assert_eq!(
            lock_in(&at, "vg-other", soon).unwrap_err().to_string(),
            "vg-other: LVM is working on the volume group vg; nothing was changed"
        );
        lock_in(&at, "vg2-lv", soon).unwrap();
        drop(held);
        assert!(!at.join("V_vg").exists());
        lock_in(&at, "vg-other", soon).unwrap();
    }

    #[test]
    fn a_file_that_was_replaced_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("V_vg");
        let first = File::create(&path).unwrap();
        assert!(is_at(&first, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&first, &path).unwrap());
        File::create(&path).unwrap();
        assert!(!is_at(&first, &path).unwrap());
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Which process has a database open.
//!
//! WiredTiger keeps a record lock on the first byte of `WiredTiger.lock`, and the
//! kernel reports whose it is.  mongod's own `mongod.lock` has a number as text, which
//! may be that of a process long gone.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{fcntl_getlk, Flock, FlockOffsetType, FlockType};

use database::walk;

const LOCK: &str = "WiredTiger.lock";

/// A process; when it is over, another may get its number, but not its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub pid: i32,
    /// Clock ticks since the machine started.
    pub start: u64,
    /// Whose the database is: the owner of `WiredTiger.lock`.
    pub uid: u32,
}

/// Who has the database open, or why that cannot be known.
pub(super) fn of(handle: &OwnedFd) -> Result<Option<Owner>, String> {
    let path = Path::new(LOCK);
    let cannot =
        |e: &dyn std::fmt::Display| format!("cannot determine from {LOCK} who has the database open: {e}");
    let Some((file, _)) = walk::open_beneath(handle, path).map_err(|e| cannot(&e))? else {
        return Ok(None);
    };
    let asked = Flock {
        start: 0,
        length: 1,
        pid: None,
        typ: FlockType::WriteLock,
        offset_type: FlockOffsetType::Set,
    };
    let Some(held) = fcntl_getlk(&file, &asked).map_err(|e| cannot(&e))? else {
        return Ok(None);
    };
    let pid = held.pid.map(|p| p.as_raw_pid()).filter(|p| *p > 0);
    let pid = pid.ok_or_else(|| cannot(&"the process is in another PID namespace"))?;
    let start = start_of(pid).ok_or_else(|| cannot(&format!("there is no process {pid}")))?;
    let uid = file.metadata().map_err(|e| cannot(&e))?.uid();
    Ok(Some(Owner { pid, start, uid }))
}

/// When the process was started.
fn start_of(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    start_in(&stat)
}

/// The 22nd field; the second is in parentheses and may have blanks and parentheses.
fn start_in(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, Mode, OFlags};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn the_start_is_found_behind_any_name() {
        let rest = (3..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(start_in(&format!("7 (a) b (c) {rest}\n")), Some(22));
        assert_eq!(start_in("7 (a) 3 4"), None);
        assert!(start_of(std::process::id() as i32).unwrap() > 0);
    }

    #[test]
    fn whose_lock_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let handle: OwnedFd = fs::File::open(dir.path()).unwrap().into();
        let owner = || of(&handle).unwrap();
        assert_eq!(owner(), None, "there is no such file");
        fs::write(dir.path().join(LOCK), "WiredTiger lock file\n").unwrap();
        assert_eq!(owner(), None, "nobody has locked it");
        let lock =
            std::ffi::CString::new(dir.path().join(LOCK).into_os_string().into_encoded_bytes()).unwrap();
        let mut holder = Command::new("cat");
        holder.stdin(Stdio::piped());
        // SAFETY: open and fcntl may be called between fork and exec; nothing else is.
        unsafe {
            holder.pre_exec(move || {
                let lock = rustix::fs::open(lock.as_c_str(), OFlags::RDWR, Mode::empty())?;
                rustix::fs::fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive)?;
                // It goes with the process.
                std::mem::forget(lock);
                Ok(())
            });
        }
        let mut holder = holder.spawn().unwrap();
        let found = owner().unwrap();
        assert_eq!(found.pid, holder.id() as i32);
        assert_eq!(Some(found.start), start_of(found.pid));
        assert_eq!(found.uid, fs::metadata(dir.path()).unwrap().uid());
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert_eq!(owner(), None, "its owner has ended");
    }
}

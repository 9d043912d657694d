// SPDX-License-Identifier: GPL-2.0-or-later
//! Which process runs the trial of a device: one at a time, by a record lock, of which the
//! kernel says whose it is.
//!
//! The lock is the process's, and goes with any descriptor of the file that the process
//! closes: who has it must not look for it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::fs::{fcntl_lock, FlockOperation};
use rustix::io::Errno;
use rustix::process::{
    fcntl_getlk, pidfd_open, pidfd_send_signal, Flock, FlockType, Pid, PidfdFlags, Signal,
};

use runtime::wake;

pub struct Lock {
    _file: File,
}

/// Of the device, wherever the file of its trial is.
fn path(dir: &Path, device: &str) -> PathBuf {
    dir.join("trial").join(format!("{device}.lock"))
}

/// Held until it is dropped, or the process ends.
pub fn lock(dir: &Path, device: &str) -> Result<Lock> {
    let path = path(dir, device);
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock { _file: file }),
        Err(Errno::AGAIN | Errno::ACCESS) => {
            let who = holder(&file).map_or_else(String::new, |pid| format!(", as process {pid}"));
            bail!("{device}: a trial is at work already{who}")
        }
        Err(e) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
    }
}

fn holder(file: &File) -> Option<i32> {
    let found = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok()??;
    Some(Pid::as_raw(found.pid))
}

/// The number of the process that runs the trial; 0: it is in another container.
pub fn of(dir: &Path, device: &str) -> Option<i32> {
    holder(&File::open(path(dir, device)).ok()?)
}

/// Asks it to end, and waits until it has.  `false`: there is none.
pub fn stop(dir: &Path, device: &str, timeout: Duration) -> Result<bool> {
    let Some(number) = of(dir, device) else {
        return Ok(false);
    };
    let Some(pid) = Pid::from_raw(number) else {
        bail!("{device}: the process that runs the trial is in another container");
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(false),
        opened => opened.context("cannot open the process that runs the trial")?,
    };
    // The number may have been another's when it was opened.
    if of(dir, device) != Some(number) {
        return Ok(false);
    }
    match pidfd_send_signal(&process, Signal::TERM) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(e) => return Err(e).context("cannot end the process that runs the trial"),
    }
    let until = Instant::now() + timeout;
    while of(dir, device) == Some(number) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("{device}: process {number} was asked to end, and has not yet");
        }
        wake::wait(&[std::os::fd::AsFd::as_fd(&process)], left)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    const DIR: &str = "DSM_TEST_RUNNER";

    /// What another process does: [`other`] runs it.
    #[test]
    fn in_another_process() {
        let Some(dir) = std::env::var_os(DIR) else {
            return;
        };
        let _lock = lock(Path::new(&dir), "vg-db").unwrap();
        print!("locked\n\n");
        let _ = std::io::stdin().read(&mut [0]);
    }

    /// A process that has the lock.
    fn other(dir: &Path) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "runner::tests::in_another_process", "--nocapture"])
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = Vec::new();
        let out = child.stdout.as_mut().unwrap();
        while !said.ends_with(b"locked\n") {
            let mut byte = [0];
            assert_eq!(
                out.read(&mut byte).unwrap(),
                1,
                "{}",
                String::from_utf8_lossy(&said)
            );
            said.push(byte[0]);
        }
        child
    }

    /// What an older one has left.
    fn leave(dir: &Path, text: &str) {
        let path = path(dir, "vg-db");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_kernel_says_who_runs_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(of(dir.path(), "vg-db"), None);
        leave(dir.path(), "1         ");
        assert_eq!(of(dir.path(), "vg-db"), None);
        let mut child = other(dir.path());
        let pid = child.id() as i32;
        assert_eq!(of(dir.path(), "vg-db"), Some(pid));
        assert_eq!(of(dir.path(), "vg"), None, "another device's");
        let said = lock(dir.path(), "vg-db").err().unwrap().to_string();
        assert_eq!(
            said,
            format!("vg-db: a trial is at work already, as process {pid}")
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of(dir.path(), "vg-db"), None);
        drop(lock(dir.path(), "vg-db").unwrap());
    }

    #[test]
    fn who_runs_it_is_stopped_and_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let timeout = Duration::from_secs(60);
        assert!(!stop(dir.path(), "vg-db", timeout).unwrap());
        let mut bystander = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        leave(dir.path(), &bystander.id().to_string());
        let mut child = other(dir.path());
        assert!(stop(dir.path(), "vg-db", timeout).unwrap());
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
        assert!(!stop(dir.path(), "vg-db", timeout).unwrap());
        assert_eq!(bystander.try_wait().unwrap(), None);
        drop(bystander.stdin.take());
        assert!(bystander.wait().unwrap().success());
    }
}

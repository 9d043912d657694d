// SPDX-License-Identifier: GPL-2.0-or-later
//! Who has the switch of a device's discards for a while, a trial or a probe: one at a time, by
//! a record lock, of which the kernel says whose it is.
//!
//! The lock is the process's, and goes with any descriptor of the file that the process
//! closes: who has it must not look for it.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::fs::{fcntl_lock, FlockOperation};
use rustix::io::Errno;
use rustix::process::{
    fcntl_getlk, pidfd_open, pidfd_send_signal, Flock, FlockType, Pid, PidfdFlags, Signal,
};

use runtime::{own, time, wake};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Trial,
    Probe,
}

impl Who {
    fn word(self) -> &'static str {
        match self {
            Self::Trial => "trial",
            Self::Probe => "probe",
        }
    }
}

/// Who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub who: Who,
    /// 0: it is in another container.
    pub pid: i32,
    /// Seconds since 1970.
    pub since: u64,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = match self.pid {
            0 => "in another container".to_owned(),
            pid => format!("process {pid}"),
        };
        let since = time::shown(self.since);
        write!(f, "a {}, {process}, since {since}", self.who.word())
    }
}

pub struct Lock {
    _file: File,
}

fn folder(dir: &Path) -> PathBuf {
    dir.join("hold")
}

/// Of the device, wherever the file of its trial is.
fn path(dir: &Path, device: &str) -> PathBuf {
    folder(dir).join(format!("{device}.lock"))
}

/// Held until it is dropped, or the process ends.
pub fn lock(dir: &Path, device: &str, who: Who) -> Result<Lock> {
    own::folder(&folder(dir), 0o700).context("cannot make the folder of locks")?;
    let path = path(dir, device);
    let mut file = own::file(&path).with_context(|| format!("cannot open {}", path.display()))?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // The file's time is since when.
            let said = file
                .set_len(0)
                .and_then(|()| file.write_all(who.word().as_bytes()));
            said.with_context(|| format!("cannot write {}", path.display()))?;
            Ok(Lock { _file: file })
        }
        Err(Errno::AGAIN | Errno::ACCESS) => {
            let found = of(&mut file).map_or_else(String::new, |h| format!(": {h}"));
            bail!("{device}: a trial or a probe is at work already{found}")
        }
        Err(e) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// Whoever may not open the file has no lock of it; who once could, before it was made its
/// user's alone, is known by its process.
fn of(file: &mut File) -> Option<Holder> {
    if !own::is_alone(file).ok()? {
        return None;
    }
    let found = fcntl_getlk(&*file, &Flock::from(FlockType::WriteLock)).ok()??;
    let pid = Pid::as_raw(found.pid);
    if pid != 0 && !own::is_own_process(pid) {
        return None;
    }
    let mut word = String::new();
    file.take(16).read_to_string(&mut word).ok()?;
    let who = if word == Who::Probe.word() {
        Who::Probe
    } else {
        Who::Trial
    };
    let since = file.metadata().ok()?.mtime().try_into().unwrap_or(0);
    Some(Holder { who, pid, since })
}

/// Who has the switch of a device.
pub fn holder(dir: &Path, device: &str) -> Option<Holder> {
    of(&mut File::open(path(dir, device)).ok()?)
}

/// The number of the process that runs a trial; 0: it is in another container.
pub fn trial(dir: &Path, device: &str) -> Option<i32> {
    let found = holder(dir, device).filter(|h| h.who == Who::Trial);
    found.map(|h| h.pid)
}

/// Asks the process that runs a trial to end, and waits until it has.  `false`: there is none.
pub fn stop(dir: &Path, device: &str, timeout: Duration) -> Result<bool> {
    let Some(number) = trial(dir, device) else {
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
    if trial(dir, device) != Some(number) {
        return Ok(false);
    }
    match pidfd_send_signal(&process, Signal::TERM) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(e) => return Err(e).context("cannot end the process that runs the trial"),
    }
    let until = Instant::now() + timeout;
    while trial(dir, device) == Some(number) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("{device}: process {number} was asked to end, and has not yet");
        }
        wake::wait(&[process.as_fd()], left)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    const DIR: &str = "DSM_TEST_RUNNER";

    /// What another process does: [`other`] runs it.
    #[test]
    fn in_another_process() {
        let Some(dir) = std::env::var_os(DIR) else {
            return;
        };
        let device = std::env::var("DSM_TEST_DEVICE").unwrap();
        let _lock = lock(Path::new(&dir), &device, Who::Trial).unwrap();
        print!("locked\n\n");
        let _ = std::io::stdin().read(&mut [0]);
    }

    /// A process that has the lock.
    fn other(dir: &Path) -> Child {
        other_of(dir, "vg-db")
    }

    fn other_of(dir: &Path, device: &str) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "runner::tests::in_another_process", "--nocapture"])
            .env(DIR, dir)
            .env("DSM_TEST_DEVICE", device)
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

    /// What another one has left.
    fn leave(dir: &Path, text: &str) {
        own::folder(&folder(dir), 0o700).unwrap();
        own::file(&path(dir, "vg-db"))
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    #[test]
    fn the_kernel_says_who_runs_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path(), "vg-db"), None);
        leave(dir.path(), "1         ");
        assert_eq!(holder(dir.path(), "vg-db"), None);
        let before = time::now().as_secs();
        let mut child = other(dir.path());
        let pid = child.id() as i32;
        let found = holder(dir.path(), "vg-db").unwrap();
        assert_eq!((found.who, found.pid), (Who::Trial, pid));
        assert!(
            (before..=time::now().as_secs()).contains(&found.since),
            "{found:?}"
        );
        assert_eq!(holder(dir.path(), "vg"), None, "another device's");
        let said = lock(dir.path(), "vg-db", Who::Probe).err().unwrap().to_string();
        let since = time::shown(found.since);
        assert_eq!(
            said,
            format!("vg-db: a trial or a probe is at work already: a trial, process {pid}, since {since}")
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(holder(dir.path(), "vg-db"), None);
        drop(lock(dir.path(), "vg-db", Who::Probe).unwrap());
        assert_eq!(fs::read(path(dir.path(), "vg-db")).unwrap(), b"probe");
    }

    /// uid 65534, with a lock for reading, which any descriptor is good for; `exec`: of a program
    /// that then has root's rights, as a setuid one.
    fn nobody_locks(at: &Path, exec_as: u32) -> std::io::Result<Child> {
        let name = std::ffi::CString::new(at.as_os_str().as_encoded_bytes()).unwrap();
        let mut nobody = Command::new("cat");
        nobody.stdin(Stdio::piped());
        // SAFETY: these may be called between fork and exec; the numbers are passed as they are.
        unsafe {
            nobody.pre_exec(move || {
                use rustix::fs::{open, Mode, OFlags};
                let become_of = |to: u32| match libc::setresuid(65534, to, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                };
                become_of(65534)?;
                let file = open(name.as_c_str(), OFlags::RDONLY, Mode::empty())?;
                fcntl_lock(&file, FlockOperation::NonBlockingLockShared)?;
                std::mem::forget(file);
                become_of(exec_as)
            });
        }
        nobody.spawn()
    }

    /// What a local user may have done to it.
    #[test]
    fn a_reader_is_no_trial() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can act as another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = path(dir.path(), "d");
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(dir.path(), 0o755);
        drop(lock(dir.path(), "d", Who::Trial).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&at), mode(&folder(dir.path()))), (0o600, 0o700));
        let refused = nobody_locks(&at, 65534).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::ACCESS.raw_os_error()));

        // As if somebody had made them so.
        for exec_as in [65534, 0] {
            set(&folder(dir.path()), 0o755);
            set(&at, 0o644);
            let mut nobody = nobody_locks(&at, exec_as).unwrap();
            assert_eq!(holder(dir.path(), "d"), None, "others may open it");
            set(&folder(dir.path()), 0o700);
            set(&at, 0o600);
            assert_eq!(holder(dir.path(), "d"), None, "whose process it is");
            assert!(!stop(dir.path(), "d", Duration::from_secs(60)).unwrap());
            drop(nobody.stdin.take());
            assert!(nobody.wait().unwrap().success());
        }
        let mut child = other_of(dir.path(), "d");
        assert_eq!(trial(dir.path(), "d"), Some(child.id() as i32));
        child.kill().unwrap();
        child.wait().unwrap();
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

// SPDX-License-Identifier: GPL-2.0-or-later
//! device-mapper's agreement with udev: a System V semaphore, named in the
//! uevent, that `dmsetup udevcomplete` (from the rules) takes down when the
//! rules have run.
//!
//! By hand: libdevmapper is the only library that has it, and it is C.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Upper half of the semaphore's key.
const MAGIC: u32 = 0x0d4d;
/// In the upper half of the cookie that the kernel puts in the uevent: this
/// event comes from the program that made the device.
const PRIMARY_SOURCE: u32 = 0x0040;
/// Likewise, for a device that is part of another: nothing looks into it, mounts it or makes
/// links in /dev/disk to it (DM_UDEV_DISABLE_SUBSYSTEM_RULES_FLAG, _DISK_ and _OTHER_).
const HIDDEN: u32 = 0x0002 | 0x0004 | 0x0008;
const TIMEOUT: Duration = Duration::from_secs(10);
/// No command waits for longer.
const LEFT: Duration = Duration::from_secs(600);

/// Whether udev will make the nodes in /dev/mapper.
pub(crate) fn makes_nodes() -> bool {
    std::env::var_os("DM_DISABLE_UDEV").is_none() && Path::new("/run/udev/control").exists()
}

/// How many semaphores were left by commands that were killed: by /proc/sysvipc/sem, those that are
/// older than any command waits.  `now` is in seconds since 1970.
pub fn left_behind(semaphores: &str, now: u64) -> usize {
    let left = semaphores.lines().skip(1).filter(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<i64>);
        let key = fields.next().and_then(Result::ok);
        // The last but one is when it was used, the last when it was made or set.
        let made = fields.next_back().and_then(Result::ok);
        let is_ours = key.is_some_and(|key| (key as u32) >> 16 == MAGIC);
        is_ours && made.is_some_and(|made| u64::try_from(made).is_ok_and(|made| made + LEFT.as_secs() < now))
    });
    left.count()
}

/// What udev is to make of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Fully,
    /// Its node only.
    Hidden,
}

/// A transaction with udev.  Without udev it does nothing.
pub(crate) struct UdevCookie(Option<Semaphore>);

struct Semaphore {
    base: u16,
    id: libc::c_int,
}

impl UdevCookie {
    pub(crate) fn new() -> Self {
        Self(if makes_nodes() { Semaphore::create() } else { None })
    }

    pub(crate) fn event_nr(&self, shown: Shown) -> u32 {
        self.0.as_ref().map_or(0, |s| number(s.base, shown))
    }

    /// Waits until the rules have run, or until it has taken too long: a udev
    /// without device-mapper's rules never answers.
    pub(crate) fn wait(self) {
        if let Some(s) = &self.0 {
            let end = Instant::now() + TIMEOUT;
            while Instant::now() < end && s.is_interrupted() {}
        }
    }
}

fn number(base: u16, shown: Shown) -> u32 {
    let flags = match shown {
        Shown::Fully => PRIMARY_SOURCE,
        Shown::Hidden => PRIMARY_SOURCE | HIDDEN,
    };
    (flags << 16) | u32::from(base)
}

impl Semaphore {
    fn create() -> Option<Self> {
        // The key must be unused, and udev's rules take 16 bits of it.
        let seed = std::process::id() as u16;
        for n in 0..64u16 {
            let base = seed.wrapping_mul(251).wrapping_add(n) | 1;
            let key = (MAGIC << 16) | u32::from(base);
            // SAFETY: semget has no pointers.
            let id = unsafe { libc::semget(key as libc::key_t, 1, 0o600 | libc::IPC_CREAT | libc::IPC_EXCL) };
            if id >= 0 {
                let s = Self { base, id };
                // SAFETY: SETVAL takes an int as its fourth argument.
                if unsafe { libc::semctl(id, 0, libc::SETVAL, 1 as libc::c_int) } < 0 {
                    return None;
                }
                return Some(s);
            }
        }
        None
    }

    /// Waits until it is down; whether a signal came first.
    fn is_interrupted(&self) -> bool {
        let mut op = libc::sembuf {
            sem_num: 0,
            sem_op: 0,
            sem_flg: 0,
        };
        let timeout = libc::timespec {
            tv_sec: TIMEOUT.as_secs() as libc::time_t,
            tv_nsec: 0,
        };
        // SAFETY: the raw call is what semtimedop(3) makes; `op` and `timeout`
        // live until it returns, and one operation is announced.
        let r = unsafe {
            libc::syscall(
                libc::SYS_semtimedop,
                self.id,
                &raw mut op,
                1usize,
                &raw const timeout,
            )
        };
        r < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: IPC_RMID takes no fourth argument.
        unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `dmsetup udevflags` of these: DM_UDEV_PRIMARY_SOURCE_FLAG='1', and the three that
    /// disable rules.
    #[test]
    fn flags_are_the_upper_half() {
        assert_eq!(number(0x1235, Shown::Fully), 0x0040_1235);
        assert_eq!(number(0x1235, Shown::Hidden), 0x004e_1235);
    }

    #[test]
    fn semaphores_of_killed_commands() {
        let text = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n\
            \x20 223156641          7   600          1     0     0     0     0 1700000000 1700000000\n\
            \x20 223156643          8   600          1     0     0     0     0          0 1700009990\n\
            \x20         5          9   600          1     0     0     0     0          0 1700000000\n";
        assert_eq!(223_156_641 >> 16, i64::from(MAGIC));
        assert_eq!(left_behind(text, 1_700_010_000), 1);
        assert_eq!(left_behind("", 1_700_010_000), 0);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! How much memory there is for a program.

use std::fs;

use rustix::process::{getrlimit, Resource};

/// Bytes that this process can still take without others being pushed out, as far as the
/// kernel reports it.
pub fn available() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let limit = getrlimit(Resource::As).current.unwrap_or(u64::MAX);
    free_in(&meminfo).unwrap_or(u64::MAX).min(limit)
}

/// Returns what was freed to the system: other threads would not take it from glibc.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and moves nothing that is allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// `MemAvailable:   123 kB`
fn free_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_as_the_kernel_reports_it() {
        let text = "MemTotal:  9 kB\nMemAvailable:    2048 kB\nBuffers: 1 kB\n";
        assert_eq!(free_in(text), Some(2 << 20));
        assert_eq!(free_in("MemTotal: 9 kB\n"), None);
        assert_eq!(free_in("MemAvailable: x kB\n"), None);
        assert!(available() > 1 << 20);
    }
}

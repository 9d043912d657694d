// SPDX-License-Identifier: GPL-2.0-or-later
//! What this process has used.

use std::fs;
use std::time::Duration;

use rustix::param::page_size;
use rustix::time::{clock_gettime, ClockId};

use proto::snapshot::Used;

/// What /proc does not have is 0.
pub(crate) fn own() -> Used {
    let cpu = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    Used {
        cpu: cpu.unwrap_or_default().as_secs_f64(),
        memory: pages(&statm).unwrap_or_default() * page_size() as u64,
    }
}

/// In memory.
fn pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn what_this_process_has_used() {
        assert_eq!(pages("900 123 45 6 0 7 0\n"), Some(123));
        let before = own();
        assert!(before.memory > 0);
        let started = Instant::now();
        while own().cpu < before.cpu + 0.02 {
            assert!(started.elapsed() < Duration::from_secs(60), "work is counted");
        }
    }
}

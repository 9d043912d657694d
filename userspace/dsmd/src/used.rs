// SPDX-License-Identifier: GPL-2.0-or-later
//! What this process has used, from /proc.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};

use proto::snapshot::Used;

/// What /proc does not have is 0.
pub(crate) fn own() -> Used {
    let read = |name| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let ticks = clock_ticks_per_second() as f64;
    Used {
        cpu: cpu(&read("stat"), ticks).unwrap_or_default(),
        memory: pages(&read("statm")).unwrap_or_default() * page_size() as u64,
    }
}

fn cpu(stat: &str, ticks: f64) -> Option<f64> {
    // The second field, a name, may have blanks and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / ticks)
}

/// In memory.
fn pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 90 0 0 0 150 50 15 5 20 0 3 0 99";
        assert_eq!(cpu(stat, 100.0), Some(2.0));
        assert_eq!(pages("900 123 45 6 0 7 0\n"), Some(123));
        assert!(own().memory > 0);
    }
}

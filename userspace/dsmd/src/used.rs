// SPDX-License-Identifier: GPL-2.0-or-later
//! What this process and others have used, from /proc.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};

use proto::snapshot::Used;

/// What /proc does not have is 0.
pub(crate) fn own() -> Used {
    of("self", |all, _| all)
}

/// Of another process, and of its memory what no other has.
pub(crate) fn by(pid: u32) -> Used {
    of(&pid.to_string(), u64::saturating_sub)
}

fn of(process: &str, counted: impl Fn(u64, u64) -> u64) -> Used {
    let read = |name| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    let ticks = clock_ticks_per_second() as f64;
    let pages = pages(&read("statm")).map_or(0, |(all, shared)| counted(all, shared));
    Used {
        cpu: cpu(&read("stat"), ticks).unwrap_or_default(),
        memory: pages * page_size() as u64,
    }
}

fn cpu(stat: &str, ticks: f64) -> Option<f64> {
    // The second field, a name, may have blanks and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    // Its children's, when they have ended, too.
    Some((next()? + next()? + next()? + next()?) / ticks)
}

/// In memory, and of this also in others'.
fn pages(statm: &str) -> Option<(u64, u64)> {
    let mut words = statm.split_ascii_whitespace().skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 90 0 0 0 130 50 15 5 20 0 3 0 99";
        assert_eq!(cpu(stat, 100.0), Some(2.0));
        assert_eq!(pages("900 123 45 6 0 7 0\n"), Some((123, 45)));
        assert!(own().memory > 0);
    }
}

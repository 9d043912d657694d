// SPDX-License-Identifier: GPL-2.0-or-later
//! What this machine and this process have used, from /proc.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};

use proto::snapshot::{Cpu, Host};

/// What /proc does not have is 0.
pub(crate) fn now() -> Host {
    let ticks = clock_ticks_per_second() as f64;
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    Host {
        cpu: cpu(&read("/proc/stat"), ticks).unwrap_or_default(),
        own_cpu: own_cpu(&read("/proc/self/stat"), ticks).unwrap_or_default(),
        own_memory: pages(&read("/proc/self/statm")).map_or(0, |(all, _)| all) * page_size() as u64,
    }
}

/// Seconds of processors, and bytes in memory that no other has, of a process.
pub(crate) fn used_by(pid: u32) -> (f64, u64) {
    let ticks = clock_ticks_per_second() as f64;
    let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let cpu = own_cpu(&read("stat"), ticks).unwrap_or_default();
    let own = pages(&read("statm")).map_or(0, |(all, shared)| all.saturating_sub(shared));
    (cpu, own * page_size() as u64)
}

fn cpu(stat: &str, ticks: f64) -> Option<Cpu> {
    let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
    let seconds: Vec<f64> = line
        .split_ascii_whitespace()
        .map_while(|w| w.parse::<f64>().ok())
        .map(|n| n / ticks)
        .collect();
    // A guest's time is in that of user, too.
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = seconds.as_slice() else {
        return None;
    };
    Some(Cpu {
        user: user + nice,
        system: system + irq + softirq + steal,
        iowait,
        idle,
    })
}

fn own_cpu(stat: &str, ticks: f64) -> Option<f64> {
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
        let said = "cpu  100 50 20 700 30 1 2 3 40 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let c = cpu(said, 100.0).unwrap();
        assert_eq!((c.user, c.iowait, c.idle), (1.5, 0.3, 7.0));
        assert!((c.system - 0.26).abs() < 1e-9 && (c.all() - 9.06).abs() < 1e-9);
        assert_eq!(cpu("cpu  1 2\n", 100.0), None);
        let own = "7 (a) b) S 1 7 7 0 -1 4194560 90 0 0 0 130 50 15 5 20 0 3 0 99";
        assert_eq!(own_cpu(own, 100.0), Some(2.0));
        assert_eq!(pages("900 123 45 6 0 7 0\n"), Some((123, 45)));
        let here = now();
        assert!(here.cpu.all() > 0.0 && here.own_memory > 0);
    }
}

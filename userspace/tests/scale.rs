// SPDX-License-Identifier: GPL-2.0-only
//! What the agent's side costs with many files and extents, on the file system
//! of the directory for temporary files and without a kernel.
//!
//! `cargo test --release --test scale -- --ignored --nocapture`; it writes
//! FILES * EXTENTS pages (default 10000 * 100, 4 GB).

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use dsm::agent::{Agent, Options, Scope};
use dsm::device::{MessageError, Target};
use dsm::fiemap::Fiemap;
use dsm::place::Place;
use dsm::status::Status;
use dsm::walk::Root;

/// Takes everything.
#[derive(Default)]
struct Sink {
    messages: Cell<u64>,
    bytes: Cell<u64>,
}

impl Target for Sink {
    fn sectors(&self) -> u64 {
        u64::MAX >> 9
    }

    fn message(&self, text: &str) -> Result<String, MessageError> {
        self.messages.set(self.messages.get() + 1);
        self.bytes.set(self.bytes.get() + text.len() as u64);
        Ok(match text {
            "commit" => "generation 1 files 1 extents 1".into(),
            _ => String::new(),
        })
    }

    fn status(&self) -> Result<Status, MessageError> {
        Ok(Status::default())
    }
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap())
}

/// Every other page is a hole.
fn write_pages(path: &Path, from: u64, to: u64) {
    let f = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap();
    for n in from..to {
        f.write_all_at(&[1; 4096], n * 8192).unwrap();
    }
}

fn rss_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let after = &stat[stat.rfind(')').unwrap()..];
    let ticks: u64 = after
        .split_whitespace()
        .skip(12)
        .take(2)
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

#[test]
#[ignore = "writes gigabytes"]
fn many_files() {
    let (files, extents) = (from_env("FILES", 10_000), from_env("EXTENTS", 100));
    let dir = tempfile::tempdir().unwrap();
    let path = |n: u64| dir.path().join(format!("collection-{n}-1.wt"));
    for n in 0..files {
        write_pages(&path(n), 0, extents);
    }
    rustix::fs::sync();
    let root = Root::open(dir.path()).unwrap();
    let map = Fiemap::new(Place::whole(u64::MAX >> 9));
    println!("before: RSS {:.1} MiB", rss_mib());
    let mut agent = Agent::new(Sink::default(), map, root, Options::default());
    let mut none = |_: &Path, _: &rustix::fd::OwnedFd| {};
    let o = agent.attach(&mut none).unwrap();
    println!(
        "attach: {files} files, {} messages, {} bytes: {:?}, RSS {:.1} MiB",
        agent.target.messages.get(),
        agent.target.bytes.get(),
        o.took,
        rss_mib()
    );
    let o = agent.refresh(Scope::Grown, &mut none).unwrap();
    println!("refresh, nothing changed: {:?}", o.took);

    for n in 0..files / 100 {
        write_pages(&path(n * 100), extents, extents + 10);
    }
    rustix::fs::sync();
    let o = agent.refresh(Scope::Grown, &mut none).unwrap();
    println!("refresh, {} files changed: {:?}", o.changed, o.took);
    let o = agent.refresh(Scope::All, &mut none).unwrap();
    println!("refresh, all read: {:?}, RSS {:.1} MiB", o.took, rss_mib());

    let (started, before) = (Instant::now(), cpu());
    for _ in 0..20 {
        agent.refresh(Scope::Grown, &mut none).unwrap();
    }
    println!(
        "20 walks: {:?}, of which CPU {:?}",
        started.elapsed(),
        cpu() - before
    );
}

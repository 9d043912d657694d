// SPDX-License-Identifier: GPL-2.0-or-later
//! What the agent costs with many files and extents, on the file system of the
//! build directory and without a kernel: `tests/bench/agent`.
//!
//! It writes FILES * EXTENTS pages (default 10000 * 100, 4 GB).  While it idles,
//! the whole loop of dsmd runs, for IDLE seconds (default 61), in which it polls
//! once a second and walks the directory every thirty.
//!
//! Then automatic mode follows the same files for AUTO seconds (default 30), while
//! RATE files (default 1000) are made, written, closed and, ten seconds later, deleted
//! every second.
//!
//! Before that it reads WiredTiger's lists of free blocks, of 1,000 files and of 10 of
//! them.  ONLY=lists and ONLY=files do a part of it; AGENT_JSON is where the figures go.

mod lists;

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use database::config::BoundaryMode;
use database::fiemap::Fiemap;
use database::place::Place;
use database::rules::RulesFiles;
use database::walk::Root;
use database::watch::Watch;
use dm::device::{MessageError, Target};
use dm::devno::DevNo;
use dm::reply::Status;
use dsmd::agent::papers::state::Keeper;
use dsmd::agent::run::{self, Surroundings};
use dsmd::agent::{Agent, Options, Scope};
use proto::control::{self, Server};
use runtime::pulse::Pulse;
use runtime::wake::{Signals, Waker};
use rustix::process::{getpid, kill_process, Signal};

/// Takes everything.
#[derive(Default)]
struct Sink {
    extents: Cell<u64>,
    generation: Cell<u64>,
}

impl Target for Sink {
    fn sectors(&self) -> u64 {
        u64::MAX >> 9
    }

    fn message(&self, text: &str) -> Result<String, MessageError> {
        let extents = text.bytes().filter(|&b| b == b':').count() as u64 / 2;
        self.extents.set(self.extents.get() + extents);
        if text.starts_with("begin") {
            return Ok("upload 1".into());
        }
        if text != "commit 1" {
            return Ok(String::new());
        }
        self.generation.set(self.generation.get() + 1);
        Ok(format!("generation {} files 1 extents 1", self.generation.get()))
    }

    fn status(&self) -> Result<Status, MessageError> {
        Ok(Status {
            device_streams: 8,
            generation: self.generation.get(),
            ..Status::default()
        })
    }
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().expect("a number"))
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

/// User and system time of this process.
fn cpu() -> Duration {
    let usage = fs::read_to_string("/proc/self/schedstat").unwrap();
    Duration::from_nanos(usage.split(' ').next().unwrap().parse().unwrap())
}

/// Runs the loop; the share of a CPU that it takes, in percent.
fn serve(agent: &mut Agent<Sink, Fiemap>, watch: Watch, dir: &Path, seconds: u64) -> f64 {
    let waker = Waker::new().unwrap();
    let signals = Signals::new().unwrap();
    let run_dir = dir.join("run");
    let lock = control::lock(&run_dir, "d").unwrap();
    let mut surroundings = Surroundings {
        device: "d".into(),
        server: Server::start(lock, &run_dir, "d", || {}).unwrap(),
        waker,
        signals: &signals,
        watch,
        refresh: Duration::from_secs(1),
        on_checkpoint: |_, _, _| {},
        held: None,
        keeper: Keeper::new(&dir.join("state"), "d"),
        rules: RulesFiles::open(&[]).unwrap().0,
        link: None,
        discard: None,
        pulse: Pulse::default(),
        publish: Box::new(|_| {}),
    };
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds));
        kill_process(getpid(), Signal::TERM).unwrap();
    });
    // The first turn keeps the state.
    let (started, before) = (Instant::now(), cpu());
    run::run(agent, &mut surroundings).unwrap();
    100.0 * (cpu() - before).as_secs_f64() / started.elapsed().as_secs_f64()
}

/// Makes files at a rate until it is to end; how many there were.
fn churn(dir: &Path, rate: u64, over: &AtomicBool) -> u64 {
    let started = Instant::now();
    let path = |n: u64| dir.join(format!("{n}.sst"));
    let mut made = 0;
    while !over.load(Ordering::Relaxed) {
        while made < started.elapsed().as_millis() as u64 * rate / 1000 {
            fs::write(path(made), [1; 16 << 10]).unwrap();
            if let Some(old) = made.checked_sub(10 * rate) {
                fs::remove_file(path(old)).unwrap();
            }
            made += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    made
}

/// As if the file system's device were the target.
fn own_place(root: &Root) -> Place {
    Place::whole(DevNo::from_stat(root.device()), u64::MAX >> 9)
}

/// Automatic mode on a directory with files, while others come and go.
fn follow(dbpath: &Path, dir: &Path, files: u64) -> serde_json::Value {
    let (seconds, rate) = (from_env("AUTO", 30), from_env("RATE", 1000));
    let options = Options {
        auto: Some(Duration::from_secs(10)),
        ..Options::default()
    };
    let root = Root::open(dbpath).unwrap();
    let map = Fiemap::new(own_place(&root));
    let mut agent = Agent::new(Sink::default(), map, root, options);
    let mut watch = Watch::following().unwrap();
    agent.attach(&mut |path, dir| watch.add(path, dir)).unwrap();
    let over = AtomicBool::new(false);
    let (cpu, made) = std::thread::scope(|s| {
        let churn = s.spawn(|| churn(dbpath, rate, &over));
        let cpu = serve(&mut agent, watch, dir, seconds);
        over.store(true, Ordering::Relaxed);
        (cpu, churn.join().unwrap())
    });
    let processors = std::thread::available_parallelism().unwrap().get();
    let info = agent.info().auto.unwrap();
    assert!(
        agent.info().files > files,
        "{} files were seen",
        agent.info().files
    );
    let row = serde_json::json!({
        "files": files,
        "files_per_second": made as f64 / seconds as f64,
        "cpu_percent": cpu,
        "processors": processors,
        "all_processors_percent": cpu / processors as f64,
        "uploads": agent.info().uploads,
        "events_lost": info.lost,
        "rss_mib": rss_mib(),
    });
    println!(
        "automatic mode, {files} files and {:.0} more a second: {cpu:.2} % of a CPU, {} uploads, {:.1} MiB",
        made as f64 / seconds as f64,
        agent.info().uploads,
        rss_mib(),
    );
    row
}

fn main() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut row = serde_json::Map::new();
    if only != "files" {
        row.insert("lists".into(), lists::measure());
    }
    if only != "lists" {
        files(&mut row);
    }
    let out = PathBuf::from(std::env::var_os("AGENT_JSON").expect("AGENT_JSON has a path"));
    fs::write(out, format!("{}\n", serde_json::Value::from(row))).unwrap();
}

fn files(row: &mut serde_json::Map<String, serde_json::Value>) {
    let (files, extents) = (from_env("FILES", 10_000), from_env("EXTENTS", 100));
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dbpath = dir.path().join("db");
    fs::create_dir(&dbpath).unwrap();
    let path = |n: u64| dbpath.join(format!("collection-{n}-1.wt"));
    for n in 0..files {
        write_pages(&path(n), 0, extents);
    }
    rustix::fs::sync();
    let options = Options {
        mode: BoundaryMode::Attach,
        ..Options::default()
    };
    let root = Root::open(&dbpath).unwrap();
    let map = Fiemap::new(own_place(&root));
    let mut agent = Agent::new(Sink::default(), map, root, options);
    let mut watch = Watch::new().unwrap();
    let attach = agent.attach(&mut |path, dir| watch.add(path, dir)).unwrap();
    let uploaded = agent.target.extents.get();
    assert!(uploaded >= files * extents, "{uploaded} extents were uploaded");

    for n in 0..files / 100 {
        write_pages(&path(n * 100), extents, extents + 10);
    }
    rustix::fs::sync();
    let refresh = agent.refresh(Scope::Grown, &mut |_, _| {}).unwrap();
    assert_eq!(refresh.changed, files / 100);
    agent
        .refresh(Scope::Grown, &mut |path, dir| watch.add(path, dir))
        .unwrap();
    let idle = serve(&mut agent, watch, dir.path(), from_env("IDLE", 61));
    let rss = rss_mib();
    drop(agent);
    let auto = follow(&dbpath, dir.path(), files);

    for (key, value) in [
        ("files", files.into()),
        ("extents", uploaded.into()),
        ("attach_seconds", attach.took.as_secs_f64().into()),
        ("refresh_seconds", refresh.took.as_secs_f64().into()),
        ("idle_cpu_percent", idle.into()),
        ("rss_mib", rss.into()),
        ("auto", auto),
    ] {
        row.insert(key.into(), value);
    }
    println!(
        "{files} files, {uploaded} extents: attach {:.2} s, refresh of 1 % {:.3} s, idle {idle:.2} % of a CPU, {:.1} MiB",
        attach.took.as_secs_f64(),
        refresh.took.as_secs_f64(),
        rss,
    );
}

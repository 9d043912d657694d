// SPDX-License-Identifier: GPL-2.0-or-later
//! What it costs to read WiredTiger's lists after a checkpoint, as dsmd does: the
//! turtle, of the metadata what has changed, and the lists of those files whose
//! checkpoint is another one.
//!
//! WTLOAD names the program that makes the database and changes it (tests/workloads): 100
//! collections with 9 indexes each.  It waits after each checkpoint until somebody has
//! looked.  Many operations before a checkpoint change all 1,000 files; one changes 10:
//! a document is updated, in its collection and in eight indexes, and the collection's
//! size is stored.
//!
//! What is reported is processor time of the one who looks, not the time that passes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use database::walk::Root;
use database::wiredtiger::avail::{Cookie, FileEntry, FreeList, Reader};
use rustix::time::{clock_gettime, ClockId};

/// What the database says after a checkpoint, and that it waits for an answer.
const SAID: &str = "look";
const HOOK: &str = "echo look; read answer";

fn wtload(dbpath: &Path, phase: &str) -> Command {
    let program = std::env::var_os("WTLOAD").expect("WTLOAD has the path of wtload, see tests/build");
    let mut command = Command::new(program);
    command.args(["many", "--collections", "100", "--indexes", "8"]);
    command.args(["--records", "400", "--phase", phase, "--dbpath"]);
    command.arg(dbpath);
    command
}

/// A database at work.
struct Database {
    process: Child,
    says: Lines<BufReader<ChildStdout>>,
    answer: ChildStdin,
}

impl Database {
    /// So many checkpoints, with so many operations before each.
    fn run(dbpath: &Path, mix: &str, operations: u64, checkpoints: u64) -> Self {
        let mut process = wtload(dbpath, "run")
            .args(["--mix", mix, "--checkpoint-ops", &operations.to_string()])
            .args(["--ops", &(operations * checkpoints).to_string()])
            .args(["--on-checkpoint", HOOK])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            says: BufReader::new(process.stdout.take().unwrap()).lines(),
            answer: process.stdin.take().unwrap(),
            process,
        }
    }

    fn until_checkpoint(&mut self) {
        let said = self.says.by_ref().find(|line| line.as_ref().unwrap() == SAID);
        assert!(said.is_some(), "the database has ended");
    }

    fn go_on(&mut self) {
        self.answer.write_all(b"\n").unwrap();
    }

    fn end(mut self) {
        for line in self.says {
            line.unwrap();
        }
        assert!(self.process.wait().unwrap().success());
    }
}

/// User and system time of this thread.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// What one look took, and what it read.
#[derive(Clone, Copy)]
struct Look {
    ms: f64,
    files: usize,
    lists: usize,
    extents: usize,
}

/// Who has looked at the checkpoint before, and remembers what dsmd does.
struct Looker {
    root: Root,
    reader: Reader,
    known: HashMap<PathBuf, Cookie>,
}

impl Looker {
    fn look(&mut self) -> Look {
        let known = &self.known;
        let mut wanted = |f: &FileEntry| known.get(&f.path) != f.cookie.as_ref();
        let before = cpu();
        let (snapshot, lists) = self.reader.read(&self.root, &mut wanted).unwrap();
        let took = cpu() - before;
        let lists: Vec<FreeList> = lists.into_iter().flatten().map(Result::unwrap).collect();
        self.known = snapshot
            .files
            .iter()
            .filter_map(|f| Some((f.path.clone(), f.cookie.clone()?)))
            .collect();
        Look {
            ms: 1000.0 * took.as_secs_f64(),
            files: snapshot.files.len(),
            lists: lists.len(),
            extents: lists.iter().map(|l| l.extents.len()).sum(),
        }
    }
}

fn median<T: Copy + PartialOrd>(looks: &[Look], of: fn(&Look) -> T) -> T {
    let mut all: Vec<T> = looks.iter().map(of).collect();
    all.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap());
    all[all.len() / 2]
}

/// The first look of somebody who knows nothing, and those at the checkpoints after it.
fn looks(dbpath: &Path, mix: &str, operations: u64, checkpoints: u64) -> (Look, Vec<Look>) {
    let mut looker = Looker {
        root: Root::open(dbpath).unwrap(),
        reader: Reader::default(),
        known: HashMap::new(),
    };
    let mut database = Database::run(dbpath, mix, operations, checkpoints + 1);
    let mut all = (0..=checkpoints).map(|_| {
        database.until_checkpoint();
        let look = looker.look();
        database.go_on();
        look
    });
    let first = all.next().unwrap();
    let others = all.collect();
    database.end();
    (first, others)
}

pub(crate) fn measure() -> serde_json::Value {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let load = wtload(dir.path(), "load").stdout(Stdio::null()).status();
    assert!(load.unwrap().success());
    let mut row = serde_json::Map::new();
    // Of many operations some delete what others would update.
    for (changed, mix, operations, checkpoints) in [(10, "update-only", 1, 200), (1000, "mixed", 12_000, 15)]
    {
        let (first, others) = looks(dir.path(), mix, operations, checkpoints);
        let (ms, lists) = (median(&others, |l| l.ms), median(&others, |l| l.lists));
        assert!(lists * 10 >= changed * 9, "a checkpoint changed {lists} files");
        let least = others.iter().fold(f64::INFINITY, |least, l| least.min(l.ms));
        println!(
            "the lists of {lists} of {} files ({} extents): {ms:.2} ms of a processor, {least:.2} at least; a first look at all {:.2} ms",
            first.files,
            median(&others, |l| l.extents),
            first.ms
        );
        let mut put = |key: &str, value: serde_json::Value| row.insert(format!("{changed}_{key}"), value);
        put("lists", lists.into());
        put("extents", median(&others, |l| l.extents).into());
        put("lists_cpu_ms", ms.into());
        put("lists_least_cpu_ms", least.into());
        put("first_look_cpu_ms", first.ms.into());
        row.insert("files".into(), first.files.into());
    }
    row.into()
}

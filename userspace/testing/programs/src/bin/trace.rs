// SPDX-License-Identifier: GPL-2.0-or-later
//! What the scripts of tests/bench/waf read of a recording.
//!
//! `trace events RECORDING` prints a line for each event, with microseconds: "W" and "D" with
//! file, offset and length, "L" at the end of the load phase, "B" and "C" where a checkpoint
//! begins and ends, "X" with a file that is deleted, "R" with its old and its new name.
//! `trace objects RECORDING RULES` prints how often objects are updated, as JSON: the mean
//! number of pages written to all from one write of a page to the next.

use std::collections::HashMap;
use std::env::args;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::{bail, Context, Result};
use database::rules::{Role, Rules};
use serde_json::json;
use simulate::flash::PAGE;
use simulate::sim::files::Files;
use simulate::sim::play::{play, Player};
use simulate::trace::{self, FileNo, Trace, What};

const NEVER: u64 = u64::MAX;

#[derive(Default)]
struct ObjectSums {
    pages: u64,
    /// Of pages that were written before: how many, and the sum of the pages
    /// written in between.
    rewrites: u64,
    intervals: u64,
}

/// A file's objects, as indices of `Meter::sums`.
#[derive(Default)]
struct ObjectParts {
    ranges: Vec<(Range<u64>, usize)>,
    rest: usize,
}

struct Meter<'a> {
    rules: &'a Rules,
    names: Vec<OsString>,
    numbers: HashMap<OsString, usize>,
    sums: Vec<ObjectSums>,
    files: Vec<ObjectParts>,
    /// When a page of the drive was written last, in pages.
    last: Vec<u64>,
    now: u64,
    loaded: bool,
}

/// The objects that the rules have; what is in none is an object of its class.
fn objects(trace: &Trace, rules: &Rules) -> Result<()> {
    let mut m = Meter {
        rules,
        names: Vec::new(),
        numbers: HashMap::new(),
        sums: Vec::new(),
        files: Vec::new(),
        last: Vec::new(),
        now: 0,
        loaded: false,
    };
    play(trace, &mut Files::new(&[], rules), &mut m)?;
    let total: u64 = m.sums.iter().map(|s| s.pages).sum();
    let object = |(name, s): (OsString, ObjectSums)| {
        // What was never written again lives as long as the run.
        let interval = match s.rewrites {
            0 => total as f64,
            n => s.intervals as f64 / n as f64,
        };
        json!({
            "name": name.to_string_lossy(), "interval": interval,
            "pages": s.pages, "share": s.pages as f64 / total as f64,
        })
    };
    let written = m.names.into_iter().zip(m.sums).filter(|(_, s)| s.pages > 0);
    let objects: Vec<_> = written.map(object).collect();
    println!("{}", json!({ "pages": total, "objects": objects }));
    Ok(())
}

impl Meter<'_> {
    fn number(&mut self, kind: Role) -> usize {
        let objects = self.rules.objects();
        let name = match kind.object {
            Some(n) => OsStr::new(&objects[usize::from(n)].name),
            None => OsStr::new(kind.class.name()),
        };
        let next = self.names.len();
        *self.numbers.entry(name.to_owned()).or_insert_with(|| {
            self.names.push(name.to_owned());
            self.sums.push(ObjectSums::default());
            next
        })
    }
}

impl Player for Meter<'_> {
    fn named(&mut self, files: &Files, file: FileNo) {
        let parts = self.rules.parts(Path::new(&files.get(file).name));
        let ranges = parts.ranges.into_iter().map(|(r, k)| (r, self.number(k)));
        let ranges = ranges.collect();
        let rest = self.number(parts.rest);
        let file = file as usize;
        self.files
            .resize_with(self.files.len().max(file + 1), ObjectParts::default);
        self.files[file] = ObjectParts { ranges, rest };
    }

    fn write(&mut self, _files: &Files, file: FileNo, page: u32, at: u32) {
        let at = at as usize;
        self.last.resize(self.last.len().max(at + 1), NEVER);
        let last = std::mem::replace(&mut self.last[at], self.now);
        self.now += 1;
        if !self.loaded {
            return;
        }
        let parts = &self.files[file as usize];
        let offset = u64::from(page) * PAGE;
        let part = parts.ranges.iter().find(|(r, _)| r.contains(&offset));
        let s = &mut self.sums[part.map_or(parts.rest, |p| p.1)];
        s.pages += 1;
        if last != NEVER {
            s.rewrites += 1;
            s.intervals += self.now - 1 - last;
        }
    }

    /// What is deleted has lived until then.
    fn discard(&mut self, at: u32) {
        if let Some(last) = self.last.get_mut(at as usize) {
            *last = NEVER;
        }
    }

    fn load_end(&mut self, _us: u64) {
        self.loaded = true;
    }
}

fn events(trace: &Trace) -> io::Result<()> {
    let mut names = vec![None; trace.files as usize];
    let mut out = BufWriter::new(io::stdout().lock());
    for e in trace.events() {
        let of = |file: FileNo| names[file as usize].unwrap_or_default();
        let rest = match e.what {
            What::Name { file, name } => {
                let new = trace.names[name as usize].to_str().unwrap_or("?");
                match names[file as usize].replace(new) {
                    Some(old) => format!("R,{old},{new}"),
                    None => continue,
                }
            }
            What::Write { file, offset, length } => format!("W,{},{offset},{length}", of(file)),
            What::Discard { file, offset, length } => format!("D,{},{offset},{length}", of(file)),
            What::LoadEnd => "L".to_owned(),
            What::Begins => "B".to_owned(),
            What::Checkpoint => "C".to_owned(),
            What::Delete { file } => format!("X,{}", of(file)),
            What::Stream { .. } | What::Window | What::List { .. } | What::Looked | What::Lost => continue,
        };
        writeln!(out, "{},{rest}", e.us)?;
    }
    out.flush()
}

fn main() -> Result<()> {
    let words: Vec<String> = args().skip(1).collect();
    let read = |path: &String| -> Result<Trace> {
        let file = File::open(path).with_context(|| path.clone())?;
        trace::read(BufReader::new(file))
    };
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["events", _] => Ok(events(&read(&words[1])?)?),
        ["objects", _, rules] => objects(
            &read(&words[1])?,
            &Rules::read(&[rules.parse().map_err(anyhow::Error::msg)?])?,
        ),
        _ => bail!("usage: trace events RECORDING | trace objects RECORDING RULES"),
    }
}

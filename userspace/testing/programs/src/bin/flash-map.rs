// SPDX-License-Identifier: GPL-2.0-or-later
//! The model of a flash drive, to be compared with the drive of tests/bench/live.
//!
//! `flash-map play PAGES UNIT OP STREAMS shared|stream` plays writes ("w PAGE STREAM") and
//! discards ("t PAGE") from standard input, and prints where each page lies, and the
//! counts.  `flash-map ops RECORDING POLICY STREAMS` prints what it reads: the writes and
//! discards of a recording.

use std::env::args;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use anyhow::{bail, Context, Result};
use database::rules::Rules;
use simulate::flash::{Config, Destination, Flash, Gc};
use simulate::sim::policies::Stream;
use simulate::sim::profile::Profile;
use simulate::sim::{place, LoadStream, Model, Sink};
use simulate::trace;

fn play(words: &[String]) -> Result<()> {
    let [pages, unit, op, streams, destination] = words else {
        bail!("play takes PAGES UNIT OP STREAMS shared|stream");
    };
    let mut flash = Flash::new(&Config {
        pages: pages.parse()?,
        unit: unit.parse()?,
        op: op.parse()?,
        streams: streams.parse()?,
        gc: Gc::Greedy,
        destination: match destination.as_str() {
            "stream" => Destination::Stream,
            _ => Destination::Shared,
        },
        keep_free: 0.0,
    })?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        match *line.split(' ').collect::<Vec<_>>() {
            ["w", page, stream] => {
                flash.write(page.parse()?, stream.parse()?);
            }
            ["t", page] => flash.trim(page.parse()?),
            _ => bail!("'{line}' is neither a write nor a discard"),
        }
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    for page in 0..flash.pages() {
        writeln!(out, "{}", flash.at(page).map_or(-1, i64::from))?;
    }
    let c = flash.counts();
    writeln!(
        out,
        "host {} copied {} erases {}",
        c.host_pages(),
        c.gc_pages(),
        c.erases
    )?;
    Ok(())
}

fn ops(words: &[String]) -> Result<()> {
    let [path, policy, streams] = words else {
        bail!("ops takes RECORDING POLICY STREAMS");
    };
    let file = File::open(path).with_context(|| format!("'{path}'"))?;
    let trace = trace::read(BufReader::new(file))?;
    let streams = streams.parse()?;
    let model = Model {
        streams,
        op: 0.15,
        fill: 0.9,
        pages: None,
        unit: 64,
        gc: Gc::Greedy,
        destination: Destination::Shared,
        keep_free: 0.0,
        warmup: 0.0,
        load_stream: LoadStream::Policy,
        keep_deleted: false,
        primary: Vec::new(),
        rules: Rules::default(),
    };
    let profile = Profile::of(&trace, &model.primary, &model.rules)?;
    let mut lines = Lines(Vec::new());
    place(&trace, &profile, &model, &policy.parse()?, &mut lines)?;
    io::stdout().lock().write_all(&lines.0)?;
    Ok(())
}

struct Lines(Vec<u8>);

impl Sink for Lines {
    fn write(&mut self, page: u32, stream: Stream) {
        self.0.extend(format!("w {page} {}\n", stream.max(1) - 1).bytes());
    }

    fn discard(&mut self, page: u32) {
        self.0.extend(format!("t {page}\n").bytes());
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("play") => play(&words[1..]),
        Some("ops") => ops(&words[1..]),
        _ => bail!("play or ops"),
    }
}

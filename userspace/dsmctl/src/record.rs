// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl record`.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::cli::Record;
use simulate::record;

pub(crate) fn record(a: &Record) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let shown = a.recording.display();
    // One that is not complete has no end, and nobody plays it.
    let file = match File::create_new(&a.recording) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown}: it is there already, and is not overwritten")
        }
        file => file.with_context(|| shown.to_string())?,
    };
    if fs::metadata(&a.dbpath).is_ok_and(|d| file.metadata().is_ok_and(|f| f.dev() == d.dev())) {
        eprintln!(
            "dsmctl: note: {shown}: it is on the database's file system, and its own writes are recorded, too"
        );
    }
    let limit = a.seconds.map(Duration::from_secs);
    let done = record::record(
        &a.dbpath,
        BufWriter::with_capacity(1 << 20, file),
        || stop.load(Ordering::Relaxed),
        limit,
        a.window.map(Duration::from_secs),
    );
    let summary = match done {
        Ok(summary) => summary,
        Err(e) => {
            let _ = fs::remove_file(&a.recording);
            return Err(e);
        }
    };
    let begins = match summary.begins {
        0 => String::new(),
        n => format!(", {n} marked where they begin"),
    };
    let lost = match summary.lost {
        0 => String::new(),
        n => format!("; {n} events were lost because they were not read in time"),
    };
    let (events, checkpoints) = (summary.events, summary.checkpoints);
    eprintln!("{shown}: {events} writes and discards, {checkpoints} checkpoints{begins}{lost}");
    let why = summary.lists_refused.as_ref();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    eprintln!("{} lists of free blocks{why}", summary.lists);
    for (stream, sectors) in &summary.streams {
        eprintln!("stream {stream}: {} KiB", sectors / 2);
    }
    Ok(())
}

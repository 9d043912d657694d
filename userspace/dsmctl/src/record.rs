// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl record`.

use std::fs::{self, OpenOptions};
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cli::Record;
use simulate::record;

pub(crate) fn record(a: &Record) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    // The name is there when the recording is complete.
    let mut part = a.recording.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let named = || part.display().to_string();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&part)
        .with_context(named)?;
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
            let _ = fs::remove_file(&part);
            return Err(e);
        }
    };
    fs::rename(&part, &a.recording).with_context(|| a.recording.display().to_string())?;
    eprintln!(
        "{}: {} writes and discards, {} checkpoints{}{}",
        a.recording.display(),
        summary.events,
        summary.checkpoints,
        match summary.begins {
            0 => String::new(),
            n => format!(", {n} marked where they begin"),
        },
        match summary.lost {
            0 => String::new(),
            n => format!("; {n} events were lost because they were not read in time"),
        }
    );
    match &summary.lists_refused {
        None => eprintln!("{} lists of free blocks", summary.lists),
        Some(why) => eprintln!("{} lists of free blocks: {why}", summary.lists),
    }
    for (stream, sectors) in &summary.streams {
        eprintln!("stream {stream}: {} KiB", sectors / 2);
    }
    Ok(())
}

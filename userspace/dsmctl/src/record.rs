// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl record`.

use std::fs::{self, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use rustix::fs::{flock, renameat_with, FlockOperation, RenameFlags, CWD};
use rustix::io::Errno;

use crate::cli::Record;
use simulate::record;

pub(crate) fn record(a: &Record) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let taken = || {
        format!(
            "{}: it is there already, and is not overwritten",
            a.recording.display()
        )
    };
    ensure!(fs::symlink_metadata(&a.recording).is_err(), taken());
    // The name is there when the recording is complete.
    let mut part = a.recording.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let named = || part.display().to_string();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&part)
        .with_context(named)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("{}: another dsmctl record writes it", named()))?;
    file.set_len(0).with_context(named)?;
    if fs::metadata(&a.dbpath).is_ok_and(|d| file.metadata().is_ok_and(|f| f.dev() == d.dev())) {
        eprintln!(
            "dsmctl: note: {}: it is on the database's file system, and its own writes are recorded, too",
            a.recording.display()
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
            let _ = fs::remove_file(&part);
            return Err(e);
        }
    };
    match renameat_with(CWD, &part, CWD, &a.recording, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // Not every file system can.
        Err(Errno::INVAL) if fs::symlink_metadata(&a.recording).is_err() => {
            fs::rename(&part, &a.recording).with_context(|| a.recording.display().to_string())?;
        }
        Err(Errno::EXIST | Errno::INVAL) => bail!("{}; the recording is {}", taken(), named()),
        Err(e) => return Err(e).with_context(|| a.recording.display().to_string()),
    }
    let begins = match summary.begins {
        0 => String::new(),
        n => format!(", {n} marked where they begin"),
    };
    let lost = match summary.lost {
        0 => String::new(),
        n => format!("; {n} events were lost because they were not read in time"),
    };
    let (events, checkpoints, shown) = (summary.events, summary.checkpoints, a.recording.display());
    eprintln!("{shown}: {events} writes and discards, {checkpoints} checkpoints{begins}{lost}");
    let why = summary.lists_refused.as_ref();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    eprintln!("{} lists of free blocks{why}", summary.lists);
    for (stream, sectors) in &summary.streams {
        eprintln!("stream {stream}: {} KiB", sectors / 2);
    }
    Ok(())
}

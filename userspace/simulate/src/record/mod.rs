// SPDX-License-Identifier: GPL-2.0-or-later
//! Records what a running database writes, without touching it: bios from the
//! kernel's trace, extents by FIEMAP, checkpoints by the rename of the turtle.
//! Windows of other engines end after a time.

mod extent_tables;
mod lists;
mod tracefs;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use crate::trace::recording::Writer;
use database::watch::Watch;
use dm::devno::DevNo;
use dm::ioctl::{Dm, Id};
use dm::sysfs::Sysfs;
use extent_tables::ExtentTables;
use lists::RecordedLists;
use runtime::wake;
use tracefs::{Instance, TraceLine};

/// The trace is read as often as that, whatever happens.
const TICK: Duration = Duration::from_millis(100);

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub events: u64,
    pub checkpoints: u64,
    /// Checkpoints whose beginning was marked.
    pub begins: u64,
    pub lost: u64,
    /// Sectors written to each stream, as far as the device is a dsm target.
    pub streams: BTreeMap<u8, u64>,
    /// Lists of free blocks, and why there are none or none can be discarded.
    pub lists: u64,
    pub lists_refused: Option<String>,
}

/// Whether the device is one line of dsm; without the right to ask, it is not.
fn is_dsm(dev: DevNo) -> bool {
    let table = Dm::open().and_then(|dm| dm.table(Id::Dev(dev)));
    table.is_ok_and(|(_, lines)| matches!(lines.as_slice(), [l] if l.target == "dsm"))
}

/// The clock of the trace.
fn now_us() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
}

struct Recorder<W: Write> {
    instance: Instance,
    watch: Watch,
    tables: ExtentTables,
    lists: RecordedLists,
    writer: Writer<W>,
    /// Sectors of the disk at which the file system's partition begins.
    start: u64,
    summary: Summary,
}

/// Records until `stop` says so.  `window` is for a directory that no WiredTiger
/// has: windows are that long.
pub fn record<W: Write>(
    dbpath: &Path,
    out: W,
    stop: impl Fn() -> bool,
    limit: Option<Duration>,
    window: Option<Duration>,
) -> Result<Summary> {
    let named = || dbpath.display().to_string();
    let tables = ExtentTables::open(dbpath, window.is_none()).with_context(named)?;
    let dev = tables.dev();
    if dev.major == 0 {
        bail!(
            "{}: its file system is not on a block device (btrfs, ZFS and tmpfs are not)",
            named()
        );
    }
    let sysfs = Sysfs::default();
    let start = match sysfs.disk_of(dev)? {
        Some(_) => sysfs
            .number(dev, "start")
            .context("cannot read where the partition begins")?,
        None => 0,
    };
    let mut r = Recorder {
        instance: Instance::new(dev, is_dsm(dev))?,
        watch: Watch::new()?,
        tables,
        lists: RecordedLists {
            over: window.is_some(),
            ..RecordedLists::default()
        },
        writer: Writer::new(out, now_us())?,
        start,
        summary: Summary::default(),
    };
    r.table()?;
    r.look()?;
    let begin = Instant::now();
    let mut window_begin = begin;
    while !stop() && limit.is_none_or(|l| begin.elapsed() < l) {
        wake::wait(&[r.watch.as_fd()], TICK)?;
        r.drain()?;
        let events = r.watch.take()?;
        if events.root {
            break;
        }
        let ends = match window {
            Some(length) => window_begin.elapsed() >= length,
            None => events.turtle && r.tables.checkpointed()?,
        };
        // Engines that make files as they go need not wait for a window's end
        // until these are known.
        if ends {
            r.look()?;
        } else if window.is_some() && events.names {
            r.drain()?;
            r.table()?;
        }
        if ends {
            window_begin = Instant::now();
            r.writer.checkpoint(now_us())?;
            r.summary.checkpoints += 1;
        }
    }
    r.drain()?;
    r.table()?;
    r.summary.events = r.writer.events();
    r.summary.lists_refused = r.lists.refused.take();
    r.writer.finish()?;
    Ok(r.summary)
}

impl<W: Write> Recorder<W> {
    fn drain(&mut self) -> Result<()> {
        let (writer, start, summary) = (&mut self.writer, self.start, &mut self.summary);
        self.instance.read(|line| {
            match line {
                TraceLine::Io {
                    us,
                    discard,
                    sector,
                    sectors,
                    stream,
                    hint,
                } => {
                    let sector = sector.saturating_sub(start);
                    if discard {
                        writer.discard(us, sector, sectors)?;
                    } else {
                        writer.write(us, sector, sectors, stream, hint)?;
                        if stream != 0 {
                            *summary.streams.entry(stream).or_default() += sectors;
                        }
                    }
                }
                TraceLine::Begins { us } => {
                    writer.begins(us)?;
                    summary.begins += 1;
                }
                TraceLine::Lost(n) => {
                    summary.lost += n;
                    writer.lost(n)?;
                }
            }
            Ok(())
        })
    }

    /// What dsmd does when the turtle has changed, in its order: a window ends, the
    /// lists are read, then the extents, and then it would discard.
    fn look(&mut self) -> Result<()> {
        self.drain()?;
        let mut changes = None;
        if !self.lists.over {
            self.writer.window(now_us())?;
            changes = self.lists.look(self.tables.root());
            self.drain()?;
        }
        self.table()?;
        if let Some(changes) = changes {
            for (path, list) in changes {
                if let Some(id) = self.tables.id_of(&path) {
                    self.writer.list(id, list.as_ref())?;
                    self.summary.lists += 1;
                }
            }
            self.writer.looked(now_us())?;
        }
        Ok(())
    }

    fn table(&mut self) -> Result<()> {
        self.tables.write(&mut self.watch, &mut self.writer)?;
        self.writer.table(now_us())?;
        Ok(())
    }
}

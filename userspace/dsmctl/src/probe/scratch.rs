// SPDX-License-Identifier: GPL-2.0-or-later
//! A scratch file on the mounted file system, whose sectors are discarded through the target.
//!
//! Why nobody else's data can be hit: the places are read after the window has begun, and
//! then they are the file's.  Whoever is given them later, by a file system that moves the
//! file, writes them before it reads them: the target refuses them, or holds that write
//! until the discard is done.  Nobody else can share them, for the file has no name.  That the
//! places are on this device at all is what the mount must say, as for dsmd, and the
//! directory is opened once: who may exchange it for another exchanges nothing by then.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure, Context, Result};
use rustix::fs::FallocateFlags;

use crate::borrowed::{self, Guest};
use crate::cli::ProbeDiscard;
use crate::refused;
use crate::verify::directory;
use database::fiemap::Solid;
use database::mount;
use dm::class::Class;
use dm::device::{Device, MessageError, Target};
use dm::journal::{self, DeviceClaim, Feature};
use dm::mode::Mode;
use dm::mounts;
use dm::reply::{Discard, Status, TableLine};
use dm::sysfs::Sysfs;
use dm::table::{Extent, FileRecord, StreamStamp};
use drive::aligned::Aligned;
use drive::probe::{DriveCounts, Medium, ProbeSent, Slot, Witness, SLOT, SLOTS};
use runtime::sizes::shown;
use runtime::wake::Signals;

const SECTOR: u64 = 512;
/// More than the slots need: an extent may begin anywhere.
const FILE: u64 = (SLOTS as u64 + 16) * SLOT;
/// Of the file that takes what is written beside; it is written over and over.
const FILLER: u64 = 256 << 20;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// What features are while this runs.
const FEATURES: [(&str, &str); 3] = [
    ("discard", Mode::On.name()),
    ("discard_granularity", "4096"),
    ("discard_alignment", "4096"),
];

pub(super) struct Scratch<'a> {
    device: &'a Device,
    file: File,
    filler_file: File,
    filler: u64,
    map: Solid,
    extents: Vec<Extent>,
    /// Where the target begins on the disk, in bytes.
    start: u64,
    counts: DriveCounts,
    timeout: Duration,
    /// The drive is stuck, or too slow, that is not done after it.
    limit: Duration,
    signals: &'a Signals,
    window: u64,
    disturbed: bool,
    /// With it the device becomes what it was.
    guest: Option<Guest<'a>>,
}

impl<'a> Scratch<'a> {
    pub(super) fn make(
        device: &'a Device,
        a: &ProbeDiscard,
        counts: DriveCounts,
        signals: &'a Signals,
    ) -> Result<Self> {
        let claim = borrowed::claim(device)?;
        let dir = directory(device, a.dir.as_deref())?;
        let shown_dir = dir.path().display();
        let mounts = mounts::all().context("cannot read the mounts")?;
        mount::check(&mounts, dir.place().dev())
            .map_err(|why| anyhow!("{shown_dir}: {why}; nothing was written"))?;
        let free = dir.free()?;
        let needed = FILE + FILLER.min(a.filler);
        ensure!(
            free / 2 >= needed,
            "{shown_dir}: {} are free, and twice {} are needed; nothing was written",
            shown(free),
            shown(needed)
        );
        let mut scratch = Self {
            device,
            file: dir.unnamed()?,
            filler_file: dir.unnamed()?,
            filler: a.filler,
            map: Solid::new(dir.place().clone()),
            extents: Vec::new(),
            start: start(&device.table_line()?),
            counts,
            timeout: Duration::from_secs(a.wait.into()),
            limit: Duration::from_secs(a.limit.into()),
            signals,
            window: 0,
            disturbed: false,
            guest: None,
        };
        scratch
            .fill()
            .with_context(|| format!("{shown_dir}: cannot write a file of {}", shown(FILE)))?;
        scratch.extents = scratch.places()?;
        ensure!(
            scratch.extents.iter().map(|e| e.length * SECTOR).sum::<u64>() == FILE,
            "{shown_dir}: not all of a file that was written lies on the device as its own (FIEMAP)"
        );
        scratch.prepare(claim)?;
        Ok(scratch)
    }

    /// Allocated at once, so that it lies together, and written.
    fn fill(&self) -> Result<()> {
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, FILE)?;
        let mut data = Aligned::zeroed(SLOT as usize);
        fastrand::fill(&mut data);
        for at in (0..FILE).step_by(SLOT as usize) {
            self.running()?;
            self.file.write_all_at(&data, at)?;
        }
        Ok(self.file.sync_all()?)
    }

    /// Only what is written and nobody else's.
    fn places(&mut self) -> Result<Vec<Extent>> {
        let mut extents: Vec<Extent> = Vec::new();
        self.map
            .map(&self.file, 0..FILE, &mut |e| match extents.last_mut() {
                Some(last) if last.joins(&e) => last.length += e.length,
                _ => extents.push(e),
            })
            .context("cannot read the extents of the scratch file")?;
        Ok(extents)
    }

    /// Small pieces go through, of the file's sectors.
    fn prepare(&mut self, claim: DeviceClaim) -> Result<()> {
        let record = FileRecord {
            id: self.file.metadata()?.ino(),
            class: Class::Other,
            boundary: None,
            stamp: StreamStamp::default(),
            extents: &self.extents,
        };
        let guest = self
            .guest
            .insert(Guest::enter(self.device, claim, &[record], true)?);
        let table = self.device.table_line()?;
        let features = FEATURES.map(|(name, set)| Feature {
            name: name.into(),
            was: journal::value(&table, name).into(),
            set: set.into(),
        });
        guest.claim.change(|r| r.features = features.to_vec())?;
        for f in features.iter().filter(|f| f.was != f.set) {
            let set = self.device.message(&format!("set {} {}", f.name, f.set));
            set.map_err(|e| refused(&self.device.name, e))?;
        }
        ensure!(
            self.status()?.discard.state == Mode::On,
            "{}: the underlying device does not support discards",
            self.device.name
        );
        Ok(())
    }

    fn status(&self) -> Result<Status> {
        self.device.status().map_err(|e| refused(&self.device.name, e))
    }

    fn running(&self) -> Result<()> {
        unless(self.signals.came())
    }

    /// What the target counts when it is done; nothing if the drive is stuck.
    fn done(&self, started: Instant) -> Result<Option<Discard>> {
        loop {
            let discard = self.status()?.discard;
            if discard.queued == 0 {
                return Ok(Some(discard));
            }
            if started.elapsed() > self.limit {
                return Ok(None);
            }
            unless(self.signals.wait(POLL_INTERVAL))?;
        }
    }

    /// Where bytes of the file lie on the target, in sectors.
    fn sectors(&self, range: &Range<u64>) -> Result<(u64, u64)> {
        let (at, length) = (range.start / SECTOR, (range.end - range.start) / SECTOR);
        let extent = self
            .extents
            .iter()
            .find(|e| e.offset <= at && at + length <= e.offset + e.length)
            .context("a piece lies in two extents")?;
        Ok((extent.start + at - extent.offset, length))
    }

    fn age(&self) -> Result<()> {
        let mut data = Aligned::zeroed(SLOT as usize);
        fastrand::fill(&mut data);
        let room = FILLER.min(self.filler) / SLOT;
        for n in 0..self.filler / SLOT {
            self.running()?;
            self.filler_file
                .write_all_at(&data, n % room * SLOT)
                .context("cannot write beside the scratch file")?;
        }
        self.filler_file.sync_all().context("cannot flush")
    }
}

fn unless(interrupted: bool) -> Result<()> {
    ensure!(
        !interrupted,
        "interrupted; the scratch file is gone, and the device is as it was"
    );
    Ok(())
}

/// Where the target begins on its disk, as far as the kernel reports it.
fn start(line: &TableLine) -> u64 {
    let sysfs = Sysfs::default();
    let partition = line
        .below
        .parse()
        .ok()
        .and_then(|dev| sysfs.number::<u64>(dev, "start"));
    (line.start + partition.unwrap_or(0)) * SECTOR
}

/// The slots in extents of the file.
fn slots(extents: &[Extent], start: u64) -> Vec<Slot> {
    let mut slots = Vec::new();
    for e in extents {
        let first = start + e.start * SECTOR;
        let end = first + e.length * SECTOR;
        let begins = (0..).map(|n| first.next_multiple_of(SLOT) + n * SLOT);
        slots.extend(begins.take_while(|at| at + SLOT <= end).map(|device| Slot {
            at: e.offset * SECTOR + (device - first),
            device,
        }));
    }
    slots.truncate(SLOTS);
    slots
}

impl Medium for Scratch<'_> {
    fn slots(&self) -> Vec<Slot> {
        slots(&self.extents, self.start)
    }

    fn write(&mut self, at: u64, data: &Aligned) -> io::Result<()> {
        self.file.write_all_at(data, at)
    }

    fn read(&mut self, at: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, at)
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_all().context("cannot flush")?;
        self.age()
    }

    fn begin(&mut self) -> Result<()> {
        self.running()?;
        self.window = self.device.window().map_err(|e| refused(&self.device.name, e))?;
        self.disturbed = self.places()? != self.extents;
        Ok(())
    }

    fn discard(&mut self, ranges: &[Range<u64>]) -> Result<ProbeSent> {
        self.running()?;
        let mut sent = ProbeSent::default();
        if self.disturbed {
            return Ok(sent);
        }
        let mut text = format!("discard {}", self.window);
        for range in ranges {
            let (start, length) = self.sectors(range)?;
            text += &format!(" {start}:{length}");
        }
        let wanted: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        let before = self.status()?.discard;
        let started = Instant::now();
        match self.device.message(&text) {
            Ok(_) => {}
            // Somebody else begins windows, or moves the device.
            Err(MessageError::Stale(_)) => {
                self.disturbed = true;
                return Ok(sent);
            }
            Err(e) => return Err(refused(&self.device.name, e)),
        }
        let done = self.done(started)?;
        sent.took = started.elapsed();
        if let Some(after) = done {
            if after.failed > before.failed {
                bail!("the drive failed a discard; no data is at risk");
            }
            sent.bytes = after.discarded_sectors.saturating_sub(before.discarded_sectors) * SECTOR;
            // A dsmd discards at the same time.
            self.disturbed |= sent.bytes > wanted;
        }
        Ok(sent)
    }

    fn is_undisturbed(&mut self) -> Result<bool> {
        Ok(!self.disturbed && self.places()? == self.extents)
    }

    fn witness(&mut self) -> Result<Witness> {
        self.counts.now()
    }

    fn wait(&mut self) -> Result<()> {
        unless(self.signals.wait(self.timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_as_the_drive_counts() {
        let m = |n: u64| (n << 20) / SECTOR;
        // 1 MiB into the disk; the file begins 2 MiB into the target.
        let extents = [
            Extent::new(0, m(2), m(6)),
            Extent::new(m(6), m(100), m(2)),
            Extent::new(m(8), m(201), m(4)),
        ];
        let found = slots(&extents, 1 << 20);
        let at: Vec<(u64, u64)> = found.iter().map(|s| (s.at >> 20, s.device >> 20)).collect();
        assert_eq!(at, [(1, 4), (3, 6), (8, 202), (10, 204)]);
        assert_eq!(slots(&[Extent::new(0, 0, m(1000))], 0).len(), SLOTS);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! A block device that was given up.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};

use super::{Counts, Medium, ProbeSent, Slot, Witness, SLOT, SLOTS};
use crate::aligned::Aligned;
use dm::devno::DevNo;
use dm::streams::LiveTables;
use dm::sysfs::Sysfs;
use runtime::sizes::shown;
use runtime::wake::Signals;

/// The offset and the length, in bytes.
struct DiscardIoctl([u64; 2]);

// SAFETY: BLKDISCARD takes two numbers of 64 bits, and only reads them.
unsafe impl Ioctl for DiscardIoctl {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        rustix::ioctl::opcode::none(0x12, 119)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

pub struct Raw<'a> {
    file: File,
    bytes: u64,
    pub dev: DevNo,
    /// Where the device begins on its disk.
    start: u64,
    pub counts: Counts,
    filler: u64,
    timeout: Duration,
    limit: Duration,
    signals: &'a Signals,
}

impl<'a> Raw<'a> {
    /// Refuses what anybody has open for itself: a file system, a volume group, an array,
    /// the swap, and a disk with a partition in use.
    pub fn open(
        path: &Path,
        tables: &dyn LiveTables,
        filler: u64,
        timeout: Duration,
        limit: Duration,
        signals: &'a Signals,
    ) -> Result<Self> {
        let shown_path = path.display();
        let seen = std::fs::metadata(path).with_context(|| format!("{shown_path}: cannot stat it"))?;
        ensure!(
            seen.file_type().is_block_device(),
            "{shown_path}: it is no block device"
        );
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_EXCL | libc::O_DIRECT | libc::O_CLOEXEC)
            .open(path);
        let mut file = match opened {
            Ok(file) => file,
            Err(e) if Errno::from_io_error(&e) == Some(Errno::BUSY) => {
                bail!("{shown_path}: it is mounted, or in use otherwise; nothing was written to it")
            }
            Err(e) => return Err(e).with_context(|| format!("{shown_path}: cannot open it")),
        };
        let opened = file.metadata()?;
        ensure!(
            opened.file_type().is_block_device() && opened.rdev() == seen.rdev(),
            "{shown_path}: it was exchanged meanwhile; nothing was written to it"
        );
        let bytes = file.seek(SeekFrom::End(0))?;
        let dev = DevNo::from_stat(opened.rdev());
        let sysfs = Sysfs::default();
        let start: u64 = sysfs.number(dev, "start").unwrap_or(0) * 512;
        let raw = Self {
            file,
            bytes,
            dev,
            start,
            counts: Counts::of(sysfs, tables, dev)?,
            filler,
            timeout,
            limit,
            signals,
        };
        ensure!(
            !raw.slots().is_empty(),
            "{shown_path}: it has {}, and {} are needed at least; nothing was written to it",
            shown(bytes),
            shown(2 * SLOT)
        );
        Ok(raw)
    }

    fn first(&self) -> u64 {
        self.start.next_multiple_of(SLOT) - self.start
    }

    fn running(&self) -> Result<()> {
        ensure!(
            !self.signals.came(),
            "interrupted; what was on the device is lost"
        );
        Ok(())
    }

    /// Writes what is behind the slots, over and over, so that these leave the drive's
    /// write buffer.
    fn age(&self) -> Result<()> {
        let begin = self.first() + self.slots().len() as u64 * SLOT;
        let room = self.bytes.saturating_sub(begin) / SLOT;
        let mut data = Aligned::zeroed(SLOT as usize);
        fastrand::fill(&mut data);
        for n in 0..self.filler / SLOT {
            if room == 0 {
                return Ok(());
            }
            self.running()?;
            self.file
                .write_all_at(&data, begin + n % room * SLOT)
                .context("cannot write")?;
        }
        Ok(())
    }
}

impl Medium for Raw<'_> {
    fn slots(&self) -> Vec<Slot> {
        let slots = (0..SLOTS as u64).map(|n| self.first() + n * SLOT);
        slots
            .take_while(|at| at + SLOT <= self.bytes)
            .map(|at| Slot {
                at,
                device: self.start + at,
            })
            .collect()
    }

    fn clear(&mut self) -> Result<()> {
        let slots = self.slots();
        let whole: Vec<_> = slots.iter().map(|s| s.at..s.at + SLOT).collect();
        self.discard(&whole).map(|_| ())
    }

    fn write(&mut self, at: u64, data: &Aligned) -> io::Result<()> {
        self.file.write_all_at(data, at)
    }

    fn read(&mut self, at: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, at)
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_all().context("cannot flush")?;
        self.age()?;
        self.file.sync_all().context("cannot flush")
    }

    fn begin(&mut self) -> Result<()> {
        self.running()
    }

    fn discard(&mut self, ranges: &[Range<u64>]) -> Result<ProbeSent> {
        let mut done = ProbeSent::default();
        let started = Instant::now();
        for range in ranges {
            self.running()?;
            let (begun, bytes) = (Instant::now(), range.end - range.start);
            // SAFETY: see `Discard`; the file is a block device.
            match unsafe { rustix::ioctl::ioctl(&self.file, DiscardIoctl([range.start, bytes])) } {
                Ok(()) => done.bytes += bytes,
                Err(Errno::OPNOTSUPP) => bail!("it does not support discards"),
                Err(e) => return Err(e).with_context(|| format!("a discard of {} failed", shown(bytes))),
            }
            done.slowest = done.slowest.max(begun.elapsed());
            if started.elapsed() > self.limit {
                break;
            }
        }
        self.file.sync_all().context("cannot flush")?;
        done.took = started.elapsed();
        Ok(done)
    }

    fn is_undisturbed(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn witness(&mut self) -> Result<Witness> {
        self.counts.now()
    }

    fn wait(&mut self) -> Result<()> {
        ensure!(
            !self.signals.wait(self.timeout),
            "interrupted; what was on the device is lost"
        );
        Ok(())
    }
}

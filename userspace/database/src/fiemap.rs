// SPDX-License-Identifier: GPL-2.0-or-later
//! The extents of a file, by `FS_IOC_FIEMAP`.
//!
//! `FIEMAP_FLAG_SYNC` is never set: it would write back the file first, on a
//! live database.
//!
//! By hand: the crate `fiemap` sets that flag as it pleases, and is one ioctl as well.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use serde::Serialize;

use crate::place::Place;
use dm::bytes;
use dm::table::Extent;

/// `struct fiemap` without its extents, and `struct fiemap_extent`.
const HEADER: usize = 32;
const EXTENT: usize = 56;
/// Extents read by one call.
const BATCH: usize = 1024;

mod flag {
    pub(super) const LAST: u32 = 0x1;
    pub(super) const UNKNOWN: u32 = 0x2;
    pub(super) const DELALLOC: u32 = 0x4;
    pub(super) const ENCODED: u32 = 0x8;
    pub(super) const NOT_ALIGNED: u32 = 0x100;
    pub(super) const DATA_INLINE: u32 = 0x200;
    pub(super) const DATA_TAIL: u32 = 0x400;
    pub(super) const UNWRITTEN: u32 = 0x800;
    pub(super) const MERGED: u32 = 0x1000;
    pub(super) const SHARED: u32 = 0x2000;
}

/// What was seen of a file's extents beside those that have a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExtentCounts {
    /// Skipped: not yet allocated.
    pub delalloc: u64,
    /// Skipped: place not known.
    pub unknown: u64,
    /// Skipped: inside the inode, or part of a block.
    pub inline: u64,
    /// Skipped: compressed or encrypted.
    pub encoded: u64,
    /// Skipped: on another device.
    pub elsewhere: u64,
    /// Kept: allocated, not yet written.
    pub unwritten: u64,
    /// Kept: shared with another file.
    pub shared: u64,
}

impl ExtentCounts {
    /// Whether a later look may find places for what has none now.
    pub fn pending(&self) -> bool {
        self.delalloc + self.unknown > 0
    }
}

impl std::ops::AddAssign for ExtentCounts {
    fn add_assign(&mut self, o: Self) {
        self.delalloc += o.delalloc;
        self.unknown += o.unknown;
        self.inline += o.inline;
        self.encoded += o.encoded;
        self.elsewhere += o.elsewhere;
        self.unwritten += o.unwritten;
        self.shared += o.shared;
    }
}

/// Where the extents of files come from.
pub trait Mapper {
    /// Replaces the contents of `out` with the file's extents, ordered by
    /// offset, neighbours merged.
    fn map(&mut self, file: &dyn AsFd, out: &mut Vec<Extent>) -> io::Result<ExtentCounts>;

    /// Whether the file system lies on the target otherwise than when this was made: it may
    /// have got extents that have no place yet.
    fn moved(&self) -> bool {
        false
    }
}

/// The file system, by FIEMAP, and where it lies on the target.
pub struct Fiemap {
    source: MapSource,
    /// Finds the place again, if it still can be.
    again: Option<PlaceAgain>,
}

type PlaceAgain = Box<dyn Fn() -> Option<Place> + Send>;

/// Reads extents of files of one file system, and refuses those of others.
struct MapSource {
    place: Place,
    buf: Box<[u8]>,
}

struct FiemapCall<'a>(&'a mut [u8]);

// SAFETY: FS_IOC_FIEMAP takes a struct fiemap followed by as many extents as
// its fm_extent_count says; `read_batch` sets that to what fits into the buffer.
unsafe impl Ioctl for FiemapCall<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        rustix::ioctl::opcode::read_write::<[u8; HEADER]>(b'f', 11)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// An extent as the file system gives it, in bytes.
#[derive(Clone, Copy, Debug)]
struct RawFiemap {
    logical: u64,
    physical: u64,
    length: u64,
    flags: u32,
}

fn u64_at(buf: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes::at(buf, at).expect("it is in the buffer"))
}

fn u32_at(buf: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes::at(buf, at).expect("it is in the buffer"))
}

fn read_batch(file: &dyn AsFd, start: u64, buf: &mut [u8]) -> Result<usize, Errno> {
    let room = (buf.len() - HEADER) / EXTENT;
    buf[..HEADER].fill(0);
    bytes::put(buf, 0, &start.to_ne_bytes());
    bytes::put(buf, 8, &(u64::MAX - start).to_ne_bytes());
    bytes::put(buf, 24, &(room as u32).to_ne_bytes());
    // SAFETY: see `Call`.
    unsafe { rustix::ioctl::ioctl(file.as_fd(), FiemapCall(buf)) }?;
    Ok((u32_at(buf, 20) as usize).min(room))
}

fn raw_at(buf: &[u8], n: usize) -> RawFiemap {
    let e = &buf[HEADER + n * EXTENT..];
    RawFiemap {
        logical: u64_at(e, 0),
        physical: u64_at(e, 8),
        length: u64_at(e, 16),
        flags: u32_at(e, 40),
    }
}

/// Appends an extent, or makes the last one longer.
fn append(out: &mut Vec<Extent>, e: Extent) {
    match out.last_mut() {
        Some(last) if last.joins(&e) => last.length += e.length,
        _ => out.push(e),
    }
}

/// Keeps, or counts, one extent.
fn take(place: &Place, raw: RawFiemap, out: &mut Vec<Extent>, seen: &mut ExtentCounts) {
    let has = |f| raw.flags & f != 0;
    // The order matters: DELALLOC comes with UNKNOWN, DATA_INLINE with
    // NOT_ALIGNED.
    if has(flag::DELALLOC) {
        seen.delalloc += 1;
    } else if has(flag::UNKNOWN) {
        seen.unknown += 1;
    } else if has(flag::ENCODED) {
        seen.encoded += 1;
    } else if has(flag::DATA_INLINE | flag::DATA_TAIL | flag::NOT_ALIGNED)
        || (raw.logical | raw.physical | raw.length) % 512 != 0
    {
        seen.inline += 1;
    } else {
        seen.unwritten += u64::from(has(flag::UNWRITTEN));
        seen.shared += u64::from(has(flag::SHARED));
        let whole = Extent::new(raw.logical / 512, raw.physical / 512, raw.length / 512);
        let placed = place.map(whole, |e| append(out, e));
        seen.elsewhere += u64::from(placed < whole.length);
    }
}

impl MapSource {
    fn new(place: Place) -> Self {
        Self {
            place,
            buf: vec![0; HEADER + BATCH * EXTENT].into(),
        }
    }

    /// How many extents from `start` on are in the buffer now.
    fn read(&mut self, file: &dyn AsFd, start: u64) -> io::Result<usize> {
        self.place.check(file)?;
        Ok(read_batch(file, start, &mut self.buf)?)
    }

    /// Gives the extents that have bytes of `range`, by offset.
    fn each(
        &mut self,
        file: &dyn AsFd,
        range: std::ops::Range<u64>,
        mut emit: impl FnMut(&Place, RawFiemap),
    ) -> io::Result<()> {
        let mut start = range.start;
        while start < range.end {
            let got = self.read(file, start)?;
            for n in 0..got {
                let raw = raw_at(&self.buf, n);
                emit(&self.place, raw);
                start = raw.logical.saturating_add(raw.length);
                if raw.flags & flag::LAST != 0 || raw.length == 0 {
                    return Ok(());
                }
            }
            if got == 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Fiemap {
    pub fn new(place: Place) -> Self {
        Self {
            source: MapSource::new(place),
            again: None,
        }
    }

    /// Finds out whether it has moved, by where it is now.
    pub fn following(self, again: impl Fn() -> Option<Place> + Send + 'static) -> Self {
        Self {
            again: Some(Box::new(again)),
            ..self
        }
    }
}

impl Mapper for Fiemap {
    fn map(&mut self, file: &dyn AsFd, out: &mut Vec<Extent>) -> io::Result<ExtentCounts> {
        out.clear();
        let mut seen = ExtentCounts::default();
        self.source
            .each(file, 0..u64::MAX, |place, raw| take(place, raw, out, &mut seen))?;
        Ok(seen)
    }

    fn moved(&self) -> bool {
        let again = self.again.as_ref();
        again.is_some_and(|place| place().as_ref() != Some(&self.source.place))
    }
}

/// Extents that are written, aligned, and nobody else's: what is discarded is gone.
pub struct Solid(MapSource);

impl Solid {
    pub fn new(place: Place) -> Self {
        Self(MapSource::new(place))
    }

    /// Gives the extents that have bytes of `range`, by offset.
    pub fn map(
        &mut self,
        file: &dyn AsFd,
        range: std::ops::Range<u64>,
        emit: &mut dyn FnMut(Extent),
    ) -> io::Result<()> {
        self.0.each(file, range, |place, raw| {
            if let Some(whole) = solid(raw) {
                place.map(whole, &mut *emit);
            }
        })
    }
}

/// An extent of which every flag is known to be harmless.
fn solid(raw: RawFiemap) -> Option<Extent> {
    let aligned = (raw.logical | raw.physical | raw.length) % 512 == 0;
    let whole = Extent::new(raw.logical / 512, raw.physical / 512, raw.length / 512);
    (aligned && raw.flags & !(flag::LAST | flag::MERGED) == 0).then_some(whole)
}

/// Whether a file's file system supports FIEMAP at all.
pub fn supported(file: &dyn AsFd) -> Result<bool, Errno> {
    let mut buf = [0u8; HEADER + EXTENT];
    match read_batch(file, 0, &mut buf) {
        Ok(_) => Ok(true),
        Err(e) if is_unsupported(&e.into()) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether reading extents failed because the file system has no FIEMAP.
pub fn is_unsupported(e: &io::Error) -> bool {
    let known = [Errno::OPNOTSUPP, Errno::NOTTY, Errno::INVAL, Errno::NOSYS];
    Errno::from_io_error(e).is_some_and(|e| known.contains(&e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm::devno::DevNo;
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};

    fn raw(logical: u64, physical: u64, length: u64, flags: u32) -> RawFiemap {
        RawFiemap {
            logical,
            physical,
            length,
            flags,
        }
    }

    /// Of a file system whose device is the target.
    fn place_of(f: &File) -> Place {
        let dev = DevNo::from_stat(rustix::fs::fstat(f).unwrap().st_dev);
        Place::whole(dev, u64::MAX >> 9)
    }

    fn taken(raws: &[RawFiemap]) -> (Vec<Extent>, ExtentCounts) {
        let (mut out, mut seen) = (Vec::new(), ExtentCounts::default());
        for &r in raws {
            take(&Place::whole(DevNo::new(8, 0), 1 << 40), r, &mut out, &mut seen);
        }
        (out, seen)
    }

    #[test]
    fn extents_without_a_place_are_counted_and_skipped() {
        let (out, seen) = taken(&[
            raw(0, 1 << 20, 4096, 0),
            raw(4096, 0, 4096, flag::DELALLOC | flag::UNKNOWN),
            raw(8192, 0, 4096, flag::UNKNOWN),
            raw(12288, 2 << 20, 4096, flag::ENCODED),
            raw(16384, 100, 50, flag::DATA_INLINE | flag::NOT_ALIGNED),
            raw(20480, 3 << 20, 4096, flag::UNWRITTEN),
            raw(24576, 4 << 20, 4096, flag::SHARED | flag::LAST),
        ]);
        assert_eq!(
            out,
            [
                Extent::new(0, 2048, 8),
                Extent::new(40, 6144, 8),
                Extent::new(48, 8192, 8)
            ]
        );
        assert_eq!(
            seen,
            ExtentCounts {
                delalloc: 1,
                unknown: 1,
                encoded: 1,
                inline: 1,
                unwritten: 1,
                shared: 1,
                elsewhere: 0
            }
        );
        assert!(seen.pending());
    }

    #[test]
    fn neighbours_are_merged_when_both_sides_go_on() {
        let (out, _) = taken(&[
            raw(0, 1 << 20, 4096, 0),
            raw(4096, (1 << 20) + 4096, 8192, flag::UNWRITTEN),
            // Goes on in the target, not in the file: a hole.
            raw(16384, (1 << 20) + 12288, 4096, 0),
            // Goes on in the file, not in the target.
            raw(20480, 5 << 20, 4096, 0),
        ]);
        assert_eq!(
            out,
            [
                Extent::new(0, 2048, 24),
                Extent::new(32, 2072, 8),
                Extent::new(40, 10240, 8)
            ]
        );
    }

    #[test]
    fn only_solid_extents_are_discarded() {
        let whole = Some(Extent::new(8, 2048, 8));
        for (flags, wanted) in [
            (0, whole),
            (flag::LAST | flag::MERGED, whole),
            (flag::UNKNOWN, None),
            (flag::DELALLOC, None),
            (flag::ENCODED, None),
            (flag::NOT_ALIGNED, None),
            (flag::DATA_INLINE, None),
            (flag::DATA_TAIL, None),
            (flag::UNWRITTEN, None),
            (flag::SHARED, None),
            // None that is known.
            (0x8000_0000, None),
        ] {
            assert_eq!(solid(raw(4096, 1 << 20, 4096, flags)), wanted, "{flags:#x}");
        }
        assert_eq!(solid(raw(4096, 1 << 20, 100, 0)), None);
    }

    /// Its extents would be taken for sectors of the target.
    #[test]
    fn a_file_of_another_file_system_is_refused() {
        let own = tempfile::tempfile().unwrap();
        let other = File::open("/proc/version").unwrap();
        for (place, file) in [(place_of(&own), &other), (place_of(&other), &own)] {
            let wanted = format!(
                "it is on the device {}, not on {}",
                place_of(file).dev(),
                place.dev()
            );
            let said = Fiemap::new(place.clone()).map(file, &mut Vec::new());
            assert_eq!(said.unwrap_err().to_string(), wanted);
            let mut nothing = |e| panic!("{e:?}");
            let said = Solid::new(place).map(file, 0..4096, &mut nothing);
            assert_eq!(said.unwrap_err().to_string(), wanted);
        }
    }

    #[test]
    fn a_place_is_compared_with_where_it_is_now() {
        let place = |sectors| Place::whole(DevNo::new(8, 0), sectors);
        let moved = |now: Option<Place>| Fiemap::new(place(8)).following(move || now.clone()).moved();
        assert!(!Fiemap::new(place(8)).moved());
        assert_eq!(
            [Some(place(8)), Some(place(16)), None].map(moved),
            [false, true, true]
        );
    }

    #[test]
    fn a_real_file_is_paged() {
        let mut f = tempfile::tempfile().unwrap();
        match supported(&f) {
            Ok(true) => {}
            other => {
                eprintln!("skipped: no FIEMAP in the directory for temporary files ({other:?})");
                return;
            }
        }
        // Every other block a hole: more extents than one call returns.
        let blocks = 2 * BATCH as u64 + 100;
        for n in 0..blocks {
            f.seek(SeekFrom::Start(n * 8192)).unwrap();
            f.write_all(&[1; 4096]).unwrap();
        }
        f.sync_all().unwrap();
        let mut map = Fiemap::new(place_of(&f));
        let mut out = Vec::new();
        let seen = map.map(&f, &mut out).unwrap();
        if seen.pending() || seen.encoded > 0 {
            eprintln!("skipped: this file system gives no places: {seen:?}");
            return;
        }
        assert_eq!(out.iter().map(|e| e.length).sum::<u64>(), blocks * 8);
        assert!(out.len() > 2 * BATCH);
        assert!(out.windows(2).all(|w| w[0].offset + w[0].length < w[1].offset));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What writes a recording.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use super::{difference, FIRST};
use database::wiredtiger::avail::FreeList;
use database::wiredtiger::varint;
use dm::table::Extent;

/// Writes a recording.
pub struct Writer<W: Write> {
    out: W,
    us: u64,
    sector: u64,
    events: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, us: u64) -> io::Result<Self> {
        out.write_all(FIRST.as_bytes())?;
        Ok(Self {
            out,
            us,
            sector: 0,
            events: 0,
        })
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn file(
        &mut self,
        id: u64,
        path: impl AsRef<OsStr>,
        size: u64,
        extents: &[Extent],
    ) -> io::Result<()> {
        let path = path.as_ref();
        self.numbers(b'F', &[id, path.len() as u64])?;
        self.out.write_all(path.as_bytes())?;
        self.number(size)?;
        self.number(extents.len() as u64)?;
        let (mut offset, mut start) = (0, 0);
        for e in extents {
            self.number(difference(e.offset, offset))?;
            self.number(difference(e.start, start))?;
            self.number(e.length)?;
            offset = e.offset + e.length;
            start = e.start + e.length;
        }
        Ok(())
    }

    pub fn gone(&mut self, id: u64) -> io::Result<()> {
        self.numbers(b'G', &[id])
    }

    pub fn table(&mut self, us: u64) -> io::Result<()> {
        self.timed(b'T', us)
    }

    pub fn write(&mut self, us: u64, sector: u64, sectors: u64, stream: u8, hint: u8) -> io::Result<()> {
        let (time, sector) = (self.time(us), self.sector(sector, sectors));
        self.events += 1;
        self.numbers(b'W', &[time, sector, sectors, stream.into(), hint.into()])
    }

    pub fn discard(&mut self, us: u64, sector: u64, sectors: u64) -> io::Result<()> {
        let (time, sector) = (self.time(us), self.sector(sector, sectors));
        self.events += 1;
        self.numbers(b'D', &[time, sector, sectors])
    }

    pub fn begins(&mut self, us: u64) -> io::Result<()> {
        self.timed(b'B', us)
    }

    pub fn checkpoint(&mut self, us: u64) -> io::Result<()> {
        self.timed(b'C', us)
    }

    pub fn window(&mut self, us: u64) -> io::Result<()> {
        self.timed(b'M', us)
    }

    /// `None`: the list of the file could not be read.
    pub fn list(&mut self, id: u64, list: Option<&FreeList>) -> io::Result<()> {
        let (size, extents) = list.map_or((0, &[][..]), |l| (l.file_size, &l.extents[..]));
        self.numbers(b'A', &[id, size, extents.len() as u64])?;
        let mut at = 0;
        for e in extents {
            self.number(e.start - at)?;
            self.number(e.end - e.start)?;
            at = e.end;
        }
        Ok(())
    }

    pub fn looked(&mut self, us: u64) -> io::Result<()> {
        self.timed(b'S', us)
    }

    pub fn lost(&mut self, events: u64) -> io::Result<()> {
        self.numbers(b'N', &[events])
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.numbers(b'E', &[self.events])?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Events of several processors are not quite in order.
    fn time(&mut self, us: u64) -> u64 {
        let time = us.saturating_sub(self.us);
        self.us += time;
        time
    }

    fn timed(&mut self, what: u8, us: u64) -> io::Result<()> {
        let time = self.time(us);
        self.numbers(what, &[time])
    }

    fn sector(&mut self, sector: u64, sectors: u64) -> u64 {
        let before = std::mem::replace(&mut self.sector, sector + sectors);
        difference(sector, before)
    }

    fn numbers(&mut self, what: u8, numbers: &[u64]) -> io::Result<()> {
        self.out.write_all(&[what])?;
        numbers.iter().try_for_each(|n| self.number(*n))
    }

    fn number(&mut self, n: u64) -> io::Result<()> {
        varint::write(&mut self.out, n)
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The form in which `dsmctl record` keeps what it sees: writes by sector, and
//! the table of extents that says which file they belong to.
//!
//! The first line is `dsm-recording,2`; B is only there if the workload has marked it.  Then
//! come records: a byte that says what it is, and numbers of 7 bits a byte, least first, the high bit set in all but
//! the last.  Times are microseconds since the record before; sectors have 512
//! bytes.
//!
//! ```text
//! F  id, bytes of the path, path, size, extents, { offset, start, length }
//!        a file of the table that follows is new, or has changed
//! G  id  a file is gone
//! T  time            the table is complete; it was read at this time
//! W  time, sector, sectors, stream, hint
//! D  time, sector, sectors
//! B  time            a checkpoint begins
//! C  time            a checkpoint has completed
//! M  time            a window of the discards begins; the turtle is read after this
//! A  id, size, extents, { offset, length }
//!        what the newest checkpoint of the file lists as free, bytes; it has changed.
//!        A size of 0: the list could not be read
//! S  time            all lists that have changed were read: now dsmd would discard
//! N  lost            so many events were lost
//! E  events          the end: the number of W and D
//! ```
//!
//! Sectors in W and D are the signed difference to the end of the one before,
//! with the sign in the lowest bit.  Offsets and starts of extents are differences
//! to the end of the extent before, in the same form.  Stream and hint are 0 when
//! the device is not a dsm target.
//!
//! A file system gives data a place when it writes it back, so that the table
//! read at the end of a window knows best whose the sectors were: a write is
//! looked up in the table after it and then in the one before.  What no file has
//! is the file system's own.  The first table says what was there before, which
//! is taken for the load phase.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;

use anyhow::{anyhow, bail, ensure, Context, Result};

mod writer;

pub use writer::Writer;

use super::{Builder, Trace, What};
use database::wiredtiger::avail::FreeList;
use database::wiredtiger::varint;
use dm::table::Extent;

pub const FIRST: &str = "dsm-recording,2\n";
/// The name of what no file has.
pub const UNMAPPED: &str = "(file system)";
const SECTOR: u64 = 512;
/// Longer paths and larger tables are not believed.
const MAX_PATH: u64 = 4096;
const MAX_EXTENTS: u64 = 1 << 28;
/// Nor are sectors beyond 2^64 bytes.
const MAX_SECTOR: u64 = 1 << 55;

fn difference(to: u64, from: u64) -> u64 {
    (to.abs_diff(from) << 1) | u64::from(to < from)
}

/// Where so many sectors begin, by the difference to the end of those before.
fn start_of(from: u64, difference: u64, sectors: u64) -> Result<u64> {
    let at = match difference & 1 {
        0 => from.checked_add(difference >> 1),
        _ => from.checked_sub(difference >> 1),
    };
    let is_sector = |at: &u64| at.checked_add(sectors).is_some_and(|end| end <= MAX_SECTOR);
    at.filter(is_sector).context("there is no such sector")
}

struct NamedFile {
    path: OsString,
    size: u64,
    extents: Vec<Extent>,
}

/// What waits until the table that explains it is read.
enum Waiting {
    Io {
        sector: u64,
        sectors: u64,
        /// None: a discard.
        stream: Option<u8>,
    },
    Mark(What),
    List(u64, FreeList),
}

/// Where the extents of a table lie: (start, length, offset, file), by start.
type Places = Vec<(u64, u64, u64, u64)>;

struct RecordingReader<R> {
    input: R,
    builder: Builder,
    us: u64,
    sector: u64,
    events: u64,
    files: BTreeMap<u64, NamedFile>,
    /// Of the table before.
    before: Places,
    names: BTreeMap<u64, OsString>,
    /// With the microseconds.
    pending: Vec<(u64, Waiting)>,
    loaded: bool,
}

/// Reads what follows the first line, as a trace that is to be played with so many bytes of
/// memory.
pub(crate) fn read(memory: u64, input: impl BufRead) -> Result<Trace> {
    let mut r = RecordingReader {
        input,
        builder: Builder::within(memory),
        us: 0,
        sector: 0,
        events: 0,
        files: BTreeMap::new(),
        before: Vec::new(),
        names: BTreeMap::new(),
        pending: Vec::new(),
        loaded: false,
    };
    while r.record().with_context(|| format!("after {} events", r.events))? {}
    Ok(r.builder.finish())
}

impl<R: Read> RecordingReader<R> {
    fn bytes(&mut self, buf: &mut [u8]) -> Result<()> {
        self.input.read_exact(buf).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => anyhow!("it is cut off"),
            _ => e.into(),
        })
    }

    fn number(&mut self) -> Result<u64> {
        let number = varint::decode(|| {
            let mut byte = [0];
            self.bytes(&mut byte).map(|()| byte[0])
        })?;
        number.context("a number has more than 64 bits")
    }

    fn time(&mut self) -> Result<()> {
        let time = self.us.checked_add(self.number()?);
        self.us = time.context("a time is too great")?;
        Ok(())
    }

    /// Whether there is more.
    fn record(&mut self) -> Result<bool> {
        let mut what = [0];
        self.bytes(&mut what)?;
        match what[0] {
            b'F' => self.file()?,
            b'G' => {
                let id = self.number()?;
                self.files.remove(&id);
            }
            b'T' => {
                self.time()?;
                self.table()?;
            }
            b'W' | b'D' => self.io(what[0] == b'D')?,
            b'C' => {
                self.time()?;
                self.flush(None)?;
                self.builder.mark(self.us, What::Checkpoint)?;
            }
            b'B' => self.mark(What::Begins)?,
            b'M' => self.mark(What::Window)?,
            b'A' => self.list()?,
            b'S' => self.mark(What::Looked)?,
            b'N' => {
                self.number()?;
                self.wait(Waiting::Mark(What::Lost));
            }
            b'E' => {
                let events = self.number()?;
                ensure!(
                    events == self.events,
                    "the number of events at its end is another"
                );
                self.flush(None)?;
                return Ok(false);
            }
            _ => bail!("there is no such record"),
        }
        Ok(true)
    }

    fn file(&mut self) -> Result<()> {
        let (id, length) = (self.number()?, self.number()?);
        ensure!(length <= MAX_PATH, "a path is too long");
        let mut path = vec![0; length as usize];
        self.bytes(&mut path)?;
        let path = OsString::from_vec(path);
        let (size, count) = (self.number()?, self.number()?);
        ensure!(count <= MAX_EXTENTS, "a file has too many extents");
        let mut extents = Vec::new();
        let (mut offset, mut start) = (0, 0);
        for _ in 0..count {
            let (o, s, length) = (self.number()?, self.number()?, self.number()?);
            let e = Extent::new(start_of(offset, o, length)?, start_of(start, s, length)?, length);
            (offset, start) = (e.offset + length, e.start + length);
            extents.push(e);
        }
        self.files.insert(id, NamedFile { path, size, extents });
        Ok(())
    }

    fn io(&mut self, discard: bool) -> Result<()> {
        self.time()?;
        let (difference, sectors) = (self.number()?, self.number()?);
        let mut stream = None;
        if !discard {
            let number = u8::try_from(self.number()?);
            stream = Some(number.context("a stream is greater than 255")?);
            // The hint is for those who look at it.
            self.number()?;
        }
        let sector = start_of(self.sector, difference, sectors)?;
        self.sector = sector + sectors;
        self.events += 1;
        self.wait(Waiting::Io {
            sector,
            sectors,
            stream,
        });
        Ok(())
    }

    fn mark(&mut self, what: What) -> Result<()> {
        self.time()?;
        self.wait(Waiting::Mark(what));
        Ok(())
    }

    fn wait(&mut self, what: Waiting) {
        self.pending.push((self.us, what));
    }

    fn list(&mut self) -> Result<()> {
        let (id, file_size, count) = (self.number()?, self.number()?, self.number()?);
        ensure!(count <= MAX_EXTENTS, "a list has too many extents");
        let mut list = FreeList {
            file_size,
            ..FreeList::default()
        };
        let mut at = 0u64;
        for _ in 0..count {
            let start = at.saturating_add(self.number()?);
            at = start.saturating_add(self.number()?);
            ensure!(start < at && at <= file_size, "invalid free extent");
            list.extents.push(start..at);
        }
        self.wait(Waiting::List(id, list));
        Ok(())
    }

    fn table(&mut self) -> Result<()> {
        let mut places: Places = Vec::new();
        for (id, f) in &self.files {
            places.extend(f.extents.iter().map(|e| (e.start, e.length, e.offset, *id)));
        }
        places.sort_unstable();
        if std::mem::replace(&mut self.loaded, true) {
            let gone = self.rename_and_delete()?;
            self.flush(Some(places))?;
            for path in gone {
                self.builder.delete(self.us, path)?;
            }
        } else {
            self.before = places;
            self.load()?;
        }
        self.names = self.files.iter().map(|(id, f)| (*id, f.path.clone())).collect();
        Ok(())
    }

    /// What was there before is the load phase.
    fn load(&mut self) -> Result<()> {
        for f in self.files.values() {
            for e in &f.extents {
                let offset = e.offset * SECTOR;
                // Space that was allocated ahead has no data.
                let end = ((e.offset + e.length) * SECTOR).min(f.size);
                if offset < end {
                    self.builder.write(self.us, &f.path, offset, end - offset)?;
                }
            }
        }
        self.builder.mark(self.us, What::LoadEnd)
    }

    /// Says whose the pending writes were, by the table after them if there is one.
    fn flush(&mut self, after: Option<Places>) -> Result<()> {
        let after = after.unwrap_or_else(|| std::mem::take(&mut self.before));
        for (us, what) in std::mem::take(&mut self.pending) {
            match what {
                Waiting::Io {
                    sector,
                    sectors,
                    stream,
                } => self.resolve(us, sector..sector + sectors, stream, &after)?,
                Waiting::Mark(what) => self.builder.mark(us, what)?,
                Waiting::List(id, list) => {
                    if let Some(path) = self.names.get(&id) {
                        self.builder.list(us, path, list)?;
                    }
                }
            }
        }
        self.before = after;
        Ok(())
    }

    /// Names and deletions are known from the tables only.  New names count from
    /// the beginning of the window; so does the end of a file whose name another
    /// one has now.  Other files end with the window, since the window may have
    /// writes to them: these are returned.
    fn rename_and_delete(&mut self) -> Result<Vec<OsString>> {
        let us = self.pending.first().map_or(self.us, |p| p.0);
        let mut last = Vec::new();
        for (_, path) in self.names.iter().filter(|(id, _)| !self.files.contains_key(id)) {
            match self.files.iter().find(|(_, f)| f.path == *path) {
                None => last.push(path.clone()),
                // That it gets this name ends the one that had it.
                Some((id, _)) if self.names.contains_key(id) => {}
                Some(_) => self.builder.delete(us, path)?,
            }
        }
        for (id, f) in &self.files {
            match self.names.insert(*id, f.path.clone()) {
                Some(old) if old != f.path => self.builder.rename(us, old, &f.path)?,
                _ => {}
            }
        }
        Ok(last)
    }

    fn resolve(&mut self, us: u64, sectors: Range<u64>, stream: Option<u8>, after: &Places) -> Result<()> {
        let Range { start: mut at, end } = sectors;
        while at < end {
            let (mut found, mut to) = find(after, at, end);
            if found.is_none() {
                (found, to) = find(&self.before, at, to);
            }
            let named = found.and_then(|(id, offset)| Some((self.names.get(&id)?.as_os_str(), offset)));
            let (path, offset) = named.unwrap_or((OsStr::new(UNMAPPED), at));
            let (offset, length) = (offset * SECTOR, (to - at) * SECTOR);
            match stream {
                Some(stream) => {
                    self.builder.stream(us, stream)?;
                    self.builder.write(us, path, offset, length)?;
                }
                None => self.builder.discard(us, path, offset, length)?,
            }
            at = to;
        }
        Ok(())
    }
}

/// The file and its offset at a sector, and up to where (at most `end`) that
/// holds; or up to where nothing is known.
fn find(places: &Places, at: u64, end: u64) -> (Option<(u64, u64)>, u64) {
    let next = places.partition_point(|p| p.0 <= at);
    if let Some((start, length, offset, id)) = next.checked_sub(1).map(|n| places[n]) {
        if at < start + length {
            return (Some((id, offset + (at - start))), end.min(start + length));
        }
    }
    (None, places.get(next).map_or(end, |p| end.min(p.0)))
}

#[cfg(test)]
mod tests;

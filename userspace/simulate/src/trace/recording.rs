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
use std::os::unix::ffi::OsStringExt;

use thiserror::Error;

mod writer;

pub use writer::Writer;

use super::{Builder, EventError, Trace, What};
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

#[derive(Debug, Error)]
pub enum RecordingError {
    #[error("the recording is cut off after {0} events")]
    Truncated(u64),
    #[error("the recording is damaged after {0} events: {1}")]
    Damaged(u64, &'static str),
    #[error("the recording is wrong after {0} events: {1}")]
    Event(u64, EventError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn difference(to: u64, from: u64) -> u64 {
    if to >= from {
        (to - from) << 1
    } else {
        ((from - to) << 1) | 1
    }
}

fn apply(from: u64, difference: u64) -> Option<u64> {
    if difference & 1 == 0 {
        from.checked_add(difference >> 1)
    } else {
        from.checked_sub(difference >> 1)
    }
}

/// The sector after so many, if it is one.
fn ends(sector: u64, sectors: u64) -> Option<u64> {
    sector.checked_add(sectors).filter(|end| *end <= MAX_SECTOR)
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
    before: Places,
    /// Paths in the table before, to see what was renamed.
    names: BTreeMap<u64, OsString>,
    changed: Vec<u64>,
    gone: Vec<u64>,
    /// With the microseconds.
    pending: Vec<(u64, Waiting)>,
    loaded: bool,
}

/// Reads what follows the first line, as a trace that is to be played with so many bytes of
/// memory.
pub(crate) fn read(memory: u64, input: impl BufRead) -> Result<Trace, RecordingError> {
    let mut r = RecordingReader {
        input,
        builder: Builder::within(memory),
        us: 0,
        sector: 0,
        events: 0,
        files: BTreeMap::new(),
        before: Vec::new(),
        names: BTreeMap::new(),
        changed: Vec::new(),
        gone: Vec::new(),
        pending: Vec::new(),
        loaded: false,
    };
    while r.record()? {}
    Ok(r.builder.finish())
}

impl<R: Read> RecordingReader<R> {
    fn damaged(&self, why: &'static str) -> RecordingError {
        RecordingError::Damaged(self.events, why)
    }

    fn event<T>(&self, r: Result<T, EventError>) -> Result<T, RecordingError> {
        r.map_err(|e| RecordingError::Event(self.events, e))
    }

    fn bytes(&mut self, buf: &mut [u8]) -> Result<(), RecordingError> {
        let events = self.events;
        self.input.read_exact(buf).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => RecordingError::Truncated(events),
            _ => e.into(),
        })
    }

    fn number(&mut self) -> Result<u64, RecordingError> {
        let number = varint::decode(|| {
            let mut byte = [0];
            self.bytes(&mut byte).map(|()| byte[0])
        })?;
        number.ok_or_else(|| self.damaged("a number has more than 64 bits"))
    }

    fn time(&mut self) -> Result<(), RecordingError> {
        let time = self.number()?;
        self.us = self
            .us
            .checked_add(time)
            .ok_or_else(|| self.damaged("a time is too great"))?;
        Ok(())
    }

    /// Whether there is more.
    fn record(&mut self) -> Result<bool, RecordingError> {
        let mut what = [0];
        self.bytes(&mut what)?;
        match what[0] {
            b'F' => self.file()?,
            b'G' => {
                let id = self.number()?;
                self.files.remove(&id);
                self.gone.push(id);
            }
            b'T' => {
                self.time()?;
                self.table()?;
            }
            b'W' | b'D' => self.io(what[0] == b'D')?,
            b'C' => {
                self.time()?;
                self.flush(false)?;
                let done = self.builder.mark(self.us, What::Checkpoint);
                self.event(done)?;
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
                if events != self.events {
                    return Err(self.damaged("the number of events at its end is another"));
                }
                self.flush(false)?;
                return Ok(false);
            }
            _ => return Err(self.damaged("there is no such record")),
        }
        Ok(true)
    }

    fn file(&mut self) -> Result<(), RecordingError> {
        let id = self.number()?;
        let length = self.number()?;
        if length > MAX_PATH {
            return Err(self.damaged("a path is too long"));
        }
        let mut path = vec![0; length as usize];
        self.bytes(&mut path)?;
        let path = OsString::from_vec(path);
        let size = self.number()?;
        let count = self.number()?;
        if count > MAX_EXTENTS {
            return Err(self.damaged("a file has too many extents"));
        }
        let mut extents = Vec::new();
        let (mut offset, mut start) = (0u64, 0u64);
        for _ in 0..count {
            let (o, s, length) = (self.number()?, self.number()?, self.number()?);
            let e = apply(offset, o)
                .zip(apply(start, s))
                .map(|(o, s)| Extent::new(o, s, length));
            let both = e.and_then(|e| ends(e.offset, length).zip(ends(e.start, length)));
            let (Some(e), Some(both)) = (e, both) else {
                return Err(self.damaged("invalid extent"));
            };
            (offset, start) = both;
            extents.push(e);
        }
        self.files.insert(id, NamedFile { path, size, extents });
        self.changed.push(id);
        Ok(())
    }

    fn io(&mut self, discard: bool) -> Result<(), RecordingError> {
        self.time()?;
        let difference = self.number()?;
        let sectors = self.number()?;
        let mut stream = None;
        if !discard {
            let number = u8::try_from(self.number()?);
            stream = Some(number.map_err(|_| self.damaged("a stream is greater than 255"))?);
            // The hint is for those who look at it.
            self.number()?;
        }
        let sector = apply(self.sector, difference).filter(|s| ends(*s, sectors).is_some());
        let sector = sector.ok_or_else(|| self.damaged("invalid sector"))?;
        self.sector = sector + sectors;
        self.events += 1;
        self.wait(Waiting::Io {
            sector,
            sectors,
            stream,
        });
        Ok(())
    }

    fn mark(&mut self, what: What) -> Result<(), RecordingError> {
        self.time()?;
        self.wait(Waiting::Mark(what));
        Ok(())
    }

    fn wait(&mut self, what: Waiting) {
        self.pending.push((self.us, what));
    }

    fn list(&mut self) -> Result<(), RecordingError> {
        let (id, file_size, count) = (self.number()?, self.number()?, self.number()?);
        if count > MAX_EXTENTS {
            return Err(self.damaged("a list has too many extents"));
        }
        let mut list = FreeList {
            file_size,
            ..FreeList::default()
        };
        let mut at = 0u64;
        for _ in 0..count {
            let (skipped, length) = (self.number()?, self.number()?);
            let start = at.checked_add(skipped);
            let end = start
                .and_then(|s| s.checked_add(length))
                .filter(|e| *e <= file_size);
            let (Some(start), Some(end), true) = (start, end, length > 0) else {
                return Err(self.damaged("invalid free extent"));
            };
            list.extents.push(start..end);
            at = end;
        }
        self.wait(Waiting::List(id, list));
        Ok(())
    }

    fn table(&mut self) -> Result<(), RecordingError> {
        if !std::mem::replace(&mut self.loaded, true) {
            self.before = self.places();
            self.load()?;
        } else {
            self.flush(true)?;
        }
        self.names = self.files.iter().map(|(id, f)| (*id, f.path.clone())).collect();
        self.changed.clear();
        self.gone.clear();
        Ok(())
    }

    fn places(&self) -> Places {
        let mut places: Places = Vec::new();
        for (id, f) in &self.files {
            places.extend(f.extents.iter().map(|e| (e.start, e.length, e.offset, *id)));
        }
        places.sort_unstable();
        places
    }

    /// What was there before is the load phase.
    fn load(&mut self) -> Result<(), RecordingError> {
        for f in self.files.values() {
            for e in &f.extents {
                let offset = e.offset * SECTOR;
                // Space that was allocated ahead has no data.
                let end = ((e.offset + e.length) * SECTOR).min(f.size);
                if offset < end {
                    let done = self.builder.write(self.us, &f.path, offset, end - offset);
                    done.map_err(|e| RecordingError::Event(self.events, e))?;
                }
            }
        }
        let done = self.builder.load_end(self.us);
        self.event(done)
    }

    /// Says whose the pending writes were.
    fn flush(&mut self, table: bool) -> Result<(), RecordingError> {
        let (after, gone) = match table {
            true => (self.places(), self.rename_and_delete()?),
            false => (std::mem::take(&mut self.before), Vec::new()),
        };
        for (us, what) in std::mem::take(&mut self.pending) {
            self.resolve(us, what, &after)?;
        }
        for path in gone {
            let done = self.builder.delete(self.us, &path);
            self.event(done)?;
        }
        self.before = after;
        Ok(())
    }

    /// Names and deletions are known from the tables only.  New names count from
    /// the beginning of the window; so does the end of a file whose name another
    /// one has now.  Other files end with the window, since the window may have
    /// writes to them: these are returned.
    fn rename_and_delete(&mut self) -> Result<Vec<OsString>, RecordingError> {
        let us = self.pending.first().map_or(self.us, |p| p.0);
        let mut last = Vec::new();
        for id in std::mem::take(&mut self.gone) {
            if let Some(path) = self.names.get(&id) {
                let taken = self.files.values().any(|f| f.path == *path);
                if !taken {
                    last.push(path.clone());
                } else if !self.renamed_to(path) {
                    let done = self.builder.delete(us, path);
                    self.event(done)?;
                }
            }
        }
        for id in std::mem::take(&mut self.changed) {
            let (Some(old), Some(f)) = (self.names.get(&id), self.files.get(&id)) else {
                continue;
            };
            if *old != f.path {
                let done = self.builder.rename(us, old, &f.path);
                done.map_err(|e| RecordingError::Event(self.events, e))?;
            }
        }
        Ok(last)
    }

    /// Whether a file that had another name has this one now.
    fn renamed_to(&self, path: &OsStr) -> bool {
        self.changed
            .iter()
            .any(|id| self.names.contains_key(id) && self.files.get(id).is_some_and(|f| f.path == path))
    }

    fn resolve(&mut self, us: u64, what: Waiting, after: &Places) -> Result<(), RecordingError> {
        let done = match what {
            Waiting::Io {
                sector,
                sectors,
                stream,
            } => return self.resolve_io(us, sector, sectors, stream, after),
            Waiting::Mark(what) => self.builder.mark(us, what),
            Waiting::List(id, list) => match self.path_of(id) {
                Some(path) => self.builder.list(us, &path, list),
                None => Ok(()),
            },
        };
        self.event(done)
    }

    /// The name of a file now, or before it was gone.
    fn path_of(&self, id: u64) -> Option<OsString> {
        let now = self.files.get(&id).map(|f| &f.path);
        now.or_else(|| self.names.get(&id)).cloned()
    }

    fn resolve_io(
        &mut self,
        us: u64,
        sector: u64,
        sectors: u64,
        stream: Option<u8>,
        after: &Places,
    ) -> Result<(), RecordingError> {
        let mut at = sector;
        let end = sector + sectors;
        while at < end {
            let (mut found, mut to) = find(after, at, end);
            if found.is_none() {
                (found, to) = find(&self.before, at, to);
            }
            let named = found.and_then(|(id, offset)| {
                let now = self.files.get(&id).map(|f| &f.path);
                Some((now.or_else(|| self.names.get(&id))?.as_os_str(), offset))
            });
            let (path, offset) = named.unwrap_or((OsStr::new(UNMAPPED), at));
            let (offset, length) = (offset * SECTOR, (to - at) * SECTOR);
            let done = match stream {
                Some(stream) => self
                    .builder
                    .stream(us, stream)
                    .and_then(|()| self.builder.write(us, path, offset, length)),
                None => self.builder.discard(us, path, offset, length),
            };
            done.map_err(|e| RecordingError::Event(self.events, e))?;
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

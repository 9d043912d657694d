// SPDX-License-Identifier: GPL-2.0-or-later
//! What a database wrote, file by file, in time order.

pub mod events;
pub mod import;
pub mod recording;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

use anyhow::{bail, ensure, Result};

use crate::flash::PAGE;
use database::wiredtiger::avail::FreeList;
use events::{Events, Lists};

/// Offsets in files are below this: 2^32 pages of 4 KiB.
pub const MAX_OFFSET: u64 = 1 << 44;

/// Reads a trace of any kind, by its first line.
pub fn read(input: impl BufRead) -> Result<Trace> {
    read_within(u64::MAX, input)
}

/// The same, of one that is to be played with so many bytes of memory.
pub fn read_within(memory: u64, mut input: impl BufRead) -> Result<Trace> {
    let mut first = Vec::new();
    input.by_ref().take(4096).read_until(b'\n', &mut first)?;
    let line = String::from_utf8_lossy(&first).into_owned();
    if line == recording::FIRST {
        return recording::read(memory, input);
    }
    let input = BufReader::new(Cursor::new(first).chain(input));
    if line.starts_with(import::FIO) {
        return import::fio(memory, input);
    }
    if import::is_blkparse(&line) {
        return import::blkparse(memory, input);
    }
    bail!("this is no recording, no fio iolog and not what blkparse prints")
}

/// A file of a trace: what keeps its identity when it is renamed.
pub type FileNo = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub us: u64,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The file has this name now; the first that is said of it.
    Name {
        file: FileNo,
        name: u32,
    },
    Write {
        file: FileNo,
        offset: u64,
        length: u64,
    },
    Discard {
        file: FileNo,
        offset: u64,
        length: u64,
    },
    /// The writes that follow carry this stream; 0 is none, as at the beginning.
    Stream {
        stream: u8,
    },
    /// The load phase is over.
    LoadEnd,
    /// A checkpoint begins, which may never complete.
    Begins,
    /// A checkpoint has completed.
    Checkpoint,
    Delete {
        file: FileNo,
    },
    /// What is written from now on is of a new window of the discards: WiredTiger's
    /// lists are read after this.
    Window,
    /// The newest checkpoint of the file lists this as free.
    List {
        file: FileNo,
        list: u32,
    },
    /// All lists that have changed were read: now blocks can be discarded.
    Looked,
    /// Events are missing.
    Lost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    events: Arc<Events>,
    /// What is discarded beside, after each list.
    discards: Lists,
    /// Paths relative to the dbpath, byte by byte as they are on it.
    pub names: Vec<OsString>,
    pub files: u32,
    pub lists: Arc<Lists>,
    /// It says where the load phase ends.
    pub(crate) loaded: bool,
    /// Writes carry streams.
    pub(crate) placed: bool,
    /// It says when checkpoints begin.
    pub(crate) begins: bool,
}

impl Trace {
    pub fn events(&self) -> events::Iter<'_> {
        self.events.with_discards(&self.discards)
    }

    /// The same files and lists with other events.
    pub fn with_events(&self, events: Events) -> Self {
        Self {
            events: events.into(),
            discards: Lists::default(),
            ..self.clone()
        }
    }

    /// The same with these discards.
    pub(crate) fn with_discards(&self, discards: Lists) -> Self {
        Self {
            discards,
            ..self.clone()
        }
    }

    /// When all is known that follows from them: they are as large as the events.
    pub fn drop_lists(&mut self) {
        self.lists = Arc::default();
    }

    /// Bytes of memory that events and lists are in.
    pub fn bytes(&self) -> u64 {
        self.events.bytes() + self.lists.bytes()
    }

    /// Whether it says what WiredTiger's checkpoints have freed.
    pub fn has_lists(&self) -> bool {
        !self.lists.is_empty()
    }
}

/// Puts a trace together from events that name files by their paths.
#[derive(Debug, Default)]
pub struct Builder {
    /// What it may take at most when it is played, in bytes.
    memory: Option<u64>,
    trace: Trace,
    /// By number.
    sizes: Vec<Size>,
    /// Bytes that the pages take which the files have now.
    pages: u64,
    /// The files that exist now.
    files: HashMap<OsString, FileNo>,
    last: u64,
    /// That the last write carried.
    stream: u8,
}

/// What is known of how many pages a file has: up to where it was written, and how much.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    end: u64,
    written: u64,
}

/// What a page takes when a trace is played: its place on the drive, and the flash.
const PER_PAGE: u64 = 16;
/// Pages of a file, written or not, for which a byte is needed.
const PER_BYTE: u64 = 128;

impl Size {
    fn bytes(self) -> u64 {
        self.end.min(self.written) * PER_PAGE + self.end / PER_BYTE
    }
}

impl Builder {
    /// Of a trace that is to be played with so many bytes of memory.
    pub fn within(memory: u64) -> Self {
        Self {
            memory: Some(memory),
            ..Self::default()
        }
    }

    /// The stream of the writes that follow; 0 is none.
    pub fn stream(&mut self, us: u64, stream: u8) -> Result<()> {
        self.check(us, None)?;
        if std::mem::replace(&mut self.stream, stream) != stream {
            self.trace.placed = true;
            self.push(us, What::Stream { stream });
        }
        Ok(())
    }

    pub fn write(&mut self, us: u64, path: impl AsRef<OsStr>, offset: u64, length: u64) -> Result<()> {
        self.check(us, Some((offset, length)))?;
        let file = self.file(us, path.as_ref())?;
        let end = (offset + length).div_ceil(PAGE);
        let size = &mut self.sizes[file as usize];
        self.pages -= size.bytes();
        size.end = size.end.max(end);
        size.written = size.written.saturating_add(end - offset / PAGE);
        self.pages += size.bytes();
        self.has_room()?;
        self.push(us, What::Write { file, offset, length });
        Ok(())
    }

    pub fn discard(&mut self, us: u64, path: impl AsRef<OsStr>, offset: u64, length: u64) -> Result<()> {
        self.check(us, Some((offset, length)))?;
        let file = self.file(us, path.as_ref())?;
        self.push(us, What::Discard { file, offset, length });
        Ok(())
    }

    /// What is of no file.
    pub(crate) fn mark(&mut self, us: u64, what: What) -> Result<()> {
        self.check(us, None)?;
        self.trace.loaded |= what == What::LoadEnd;
        self.trace.begins |= what == What::Begins;
        self.push(us, what);
        Ok(())
    }

    /// The list of a file that was never written is none that matters.
    pub fn list(&mut self, us: u64, path: impl AsRef<OsStr>, list: FreeList) -> Result<()> {
        self.check(us, None)?;
        if let Some(&file) = self.files.get(path.as_ref()) {
            let list = Arc::make_mut(&mut self.trace.lists).push(&list);
            self.push(us, What::List { file, list });
        }
        Ok(())
    }

    /// A file that was never written is none that matters.
    pub fn delete(&mut self, us: u64, path: impl AsRef<OsStr>) -> Result<()> {
        self.check(us, None)?;
        if let Some(file) = self.files.remove(path.as_ref()) {
            self.pages -= std::mem::take(&mut self.sizes[file as usize]).bytes();
            self.push(us, What::Delete { file });
        }
        Ok(())
    }

    /// As rename(2) does it: a file that had the new name is gone.
    pub fn rename(&mut self, us: u64, old: impl AsRef<OsStr>, new: impl AsRef<OsStr>) -> Result<()> {
        let (old, new) = (old.as_ref(), new.as_ref());
        self.check(us, None)?;
        let file = self.file(us, old)?;
        if old == new {
            return Ok(());
        }
        self.delete(us, new)?;
        self.files.remove(old);
        self.name(us, file, new)
    }

    pub fn finish(self) -> Trace {
        Trace {
            files: self.sizes.len() as u32,
            ..self.trace
        }
    }

    fn check(&mut self, us: u64, range: Option<(u64, u64)>) -> Result<()> {
        let last = self.last;
        ensure!(
            us >= last,
            "the time {us} is before the time {last} of the event above"
        );
        if let Some((offset, length)) = range {
            ensure!(length > 0, "a length of 0");
            let fits = offset.checked_add(length).is_some_and(|end| end <= MAX_OFFSET);
            ensure!(fits, "offset {offset} and length {length} reach beyond 16 TiB");
        }
        self.last = us;
        self.has_room()
    }

    fn has_room(&self) -> Result<()> {
        let needed = self.trace.bytes().saturating_add(self.pages);
        if let Some(memory) = self.memory.filter(|memory| needed > *memory) {
            let [needed, memory] = [needed, memory].map(|bytes| bytes >> 20);
            bail!(
                "up to here the trace takes {needed} MiB of memory to be played, and there are {memory} MiB"
            );
        }
        Ok(())
    }

    fn file(&mut self, us: u64, path: &OsStr) -> Result<FileNo> {
        if let Some(&file) = self.files.get(path) {
            return Ok(file);
        }
        let file = self.sizes.len() as FileNo;
        self.name(us, file, path)?;
        self.sizes.push(Size::default());
        Ok(file)
    }

    fn name(&mut self, us: u64, file: FileNo, path: &OsStr) -> Result<()> {
        ensure!(!path.is_empty(), "a file without a name");
        let name = self.trace.names.len() as u32;
        self.trace.names.push(path.to_owned());
        self.files.insert(path.to_owned(), file);
        self.push(us, What::Name { file, name });
        Ok(())
    }

    fn push(&mut self, us: u64, what: What) {
        Arc::make_mut(&mut self.trace.events).push(&Event { us, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_is_too_large_is_not_read_to_its_end() {
        // Many small events are as large as a few large ones.
        let mut b = Builder::within(1 << 20);
        let ends = (0..1 << 20).find(|n| b.write(*n, "a", 0, 1).is_err()).unwrap();
        assert!((1 << 17..1 << 18).contains(&ends), "{ends}");
        // So are files that end far away, and lists.
        let mut b = Builder::within(1 << 30);
        let ends = (0..99).find(|n| b.write(*n, n.to_string(), MAX_OFFSET - 1, 1).is_err());
        assert_eq!(ends, Some(31));
        let mut b = Builder::within(1 << 20);
        b.write(0, "a", 0, 1).unwrap();
        let list = || FreeList {
            file_size: 1 << 20,
            extents: (0..1000).map(|n| n << 10..(n << 10) | 512).collect(),
            ..FreeList::default()
        };
        let ends = (0..1 << 20).find(|n| b.list(*n, "a", list()).is_err()).unwrap();
        assert!((200..300).contains(&ends), "{ends}");
        // What is written over and over takes its pages once, and what is gone none.
        let mut b = Builder::within(20 << 20);
        for n in 0..100 {
            b.write(n, "a", 0, 2 << 30).unwrap();
            b.write(n, "b", 0, 2 << 30).unwrap();
            b.delete(n, "b").unwrap();
        }
        assert!(b.write(100, "c", 0, 4 << 30).is_err());
        for first in ["fio version 2 iolog\n", "fio version 3 iolog\n"] {
            let ms = if first.contains('3') { "1 " } else { "" };
            let text = format!("{first}{ms}a write 0 17592186044416\nthis is not even read\n");
            let said = format!("{:#}", read_within(1 << 30, text.as_bytes()).unwrap_err());
            assert_eq!(
                said,
                "line 2: up to here the trace takes 65568 MiB of memory to be played, and there are 1024 MiB"
            );
            let said = format!("{:#}", read(text.as_bytes()).unwrap_err());
            assert!(said.starts_with("line 3: "), "{said}");
        }
    }
}

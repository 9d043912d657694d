// SPDX-License-Identifier: GPL-2.0-or-later
//! The plain form of a trace, for anyone's program to write.  The first line is
//! `dsm-trace,1`; then one event a line, in time order:
//!
//! ```text
//! <microseconds>,W,<file>,<offset>,<length>[,<stream>]
//!                                             write; with the stream that it carries, 1 to 255
//! <microseconds>,D,<file>,<offset>,<length>   discard
//! <microseconds>,L                            end of the load phase
//! <microseconds>,B                            a checkpoint begins
//! <microseconds>,C                            a checkpoint has completed
//! <microseconds>,X,<file>                     file deleted
//! <microseconds>,R,<old>,<new>                file renamed
//! <microseconds>,M                            WiredTiger's lists are read after this
//! <microseconds>,A,<file>,<size>,<offset>,<length>,...
//!                                             what the newest checkpoint of a file of
//!                                             that size lists as free
//! <microseconds>,S                            all lists that have changed were read
//! <microseconds>,N                            events are missing
//! ```
//!
//! Offsets and lengths are bytes, files are paths relative to the dbpath.  It is CSV as
//! RFC 4180 has it: a path with a comma, a quote or a line's end in it stands in quotes,
//! with its own quotes doubled.  Paths are bytes, in whatever encoding.
//!
//! Who merges what several processors wrote may be a little out of order: times that go
//! back by 100 ms at most are sorted.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use csv::{ByteRecord, ReaderBuilder, Terminator, WriterBuilder};
use thiserror::Error;

use runtime::text::printable;
use wiredtiger::avail::FreeList;

use super::{Builder, EventError, FileNo, Trace, What};

const FIRST: &str = "dsm-trace,1";

/// By how many microseconds a time may go back, and how many events are held for that.
const BACK: u64 = 100_000;
const HELD: usize = 1 << 16;

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("this is not a trace: the first line must be '{FIRST}', not '{0}'")]
    Foreign(String),
    #[error("line {0}: {1}")]
    Line(u64, LineError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug, Error)]
pub enum LineError {
    #[error("'{0}': an event is <microseconds>,<W|D|L|B|C|X|R|M|A|S|N>[,...]")]
    NoEvent(String),
    #[error("the time '{0}' is not a number of microseconds")]
    Time(String),
    #[error("the time {0} is {1} us before that of an event above, of which {BACK} are sorted")]
    Back(u64, u64),
    #[error("there is no event '{0}', only W, D, L, B, C, X, R, M, A, S and N")]
    Kind(String),
    #[error("{kind} takes {takes}, and there are {found} fields after it")]
    Fields {
        kind: String,
        takes: &'static str,
        found: usize,
    },
    #[error("the {0} '{1}' is not a number of bytes")]
    Number(&'static str, String),
    #[error("the stream '{0}' is not a number from 1 to 255")]
    Stream(String),
    #[error("the range at {0} is empty, is not behind the one before, or is not in the file")]
    List(String),
    #[error(transparent)]
    Event(#[from] EventError),
}

/// Reads a trace.  Empty lines say nothing; what ends the first line, `\n` or `\r\n`, ends
/// all.
pub fn read(input: impl BufRead) -> Result<Trace, ReadError> {
    read_within(u64::MAX, input)
}

/// The same, of one that is to be played with so many bytes of memory.
pub fn read_within(memory: u64, mut input: impl BufRead) -> Result<Trace, ReadError> {
    let mut first = Vec::new();
    input.read_until(b'\n', &mut first)?;
    let first = first.strip_suffix(b"\n").unwrap_or(&first);
    let crlf = first.ends_with(b"\r");
    let first = first.strip_suffix(b"\r").unwrap_or(first);
    if first != FIRST.as_bytes() {
        return Err(ReadError::Foreign(short(first)));
    }
    // The crate counts lines at line feeds only, so records end there, too.
    let mut csv = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .terminator(Terminator::Any(b'\n'))
        .from_reader(input.chain(&b"\n"[..]));
    let mut sorter = Sorter {
        builder: Builder::within(memory),
        held: VecDeque::new(),
        newest: 0,
    };
    let mut record = ByteRecord::new();
    while csv.read_byte_record(&mut record).map_err(io::Error::from)? {
        if crlf {
            let mut fields: Vec<&[u8]> = record.iter().collect();
            if let Some(last) = fields.last_mut() {
                *last = last.strip_suffix(b"\r").unwrap_or(last);
            }
            record = ByteRecord::from(fields);
        }
        if record.len() == 1 && record[0].is_empty() {
            continue;
        }
        // The record ends before this line, behind the first one.
        let within = record.as_slice().iter().filter(|&&b| b == b'\n').count() as u64;
        let line = csv.position().line() - within;
        record = sorter.take(line, record)?;
    }
    sorter.give_all()?;
    Ok(sorter.builder.finish())
}

/// An event that waits for earlier ones.
struct HeldEvent {
    us: u64,
    line: u64,
    record: ByteRecord,
}

/// Hands events on in the order of their times.
struct Sorter {
    builder: Builder,
    held: VecDeque<HeldEvent>,
    newest: u64,
}

impl Sorter {
    /// Takes an event, and returns a record that is no longer needed.
    fn take(&mut self, line: u64, record: ByteRecord) -> Result<ByteRecord, ReadError> {
        let us = match time(&record) {
            Ok(us) => us,
            Err(e) => {
                // What is wrong above comes first.
                self.give_all()?;
                return Err(ReadError::Line(line, e));
            }
        };
        let back = self.newest.saturating_sub(us);
        if back > BACK {
            self.give_all()?;
            return Err(ReadError::Line(line, LineError::Back(us, back)));
        }
        self.newest = self.newest.max(us);
        let at = match self.held.back() {
            Some(last) if last.us > us => self.held.partition_point(|h| h.us <= us),
            _ => self.held.len(),
        };
        self.held.insert(at, HeldEvent { us, line, record });
        let mut free = ByteRecord::new();
        while self.held.len() > HELD
            || self
                .held
                .front()
                .is_some_and(|h| h.us < self.newest.saturating_sub(BACK))
        {
            free = self.give()?;
        }
        Ok(free)
    }

    fn give(&mut self) -> Result<ByteRecord, ReadError> {
        let Some(HeldEvent { us, line, record }) = self.held.pop_front() else {
            return Ok(ByteRecord::new());
        };
        let fields: Vec<&[u8]> = record.iter().collect();
        event(&mut self.builder, us, &fields).map_err(|e| ReadError::Line(line, e))?;
        Ok(record)
    }

    fn give_all(&mut self) -> Result<(), ReadError> {
        while !self.held.is_empty() {
            self.give()?;
        }
        Ok(())
    }
}

fn time(record: &ByteRecord) -> Result<u64, LineError> {
    let fields: Vec<&[u8]> = record.iter().take(2).collect();
    let [time, _] = fields.as_slice() else {
        return Err(LineError::NoEvent(short(&fields.concat())));
    };
    digits(time).ok_or_else(|| LineError::Time(short(time)))
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Exact,
    /// For people: what a terminal would obey, or what would look like another name, is
    /// escaped.
    Shown,
}

/// As what it is: who reads may have enough.
fn io_error(e: csv::Error) -> io::Error {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Writes a trace in this form.  A file's first name is not said apart, since the
/// first write says it.
pub fn write(trace: &Trace, how: Names, out: impl Write) -> io::Result<()> {
    let shown: Vec<Vec<u8>> = match how {
        Names::Exact => trace.names.iter().map(|n| n.as_bytes().to_vec()).collect(),
        Names::Shown => trace
            .names
            .iter()
            .map(|n| printable(&n.to_string_lossy()).into_bytes())
            .collect(),
    };
    let mut names: Vec<Option<u32>> = vec![None; trace.files as usize];
    let mut carried = 0;
    let mut csv = WriterBuilder::new()
        .flexible(true)
        .terminator(Terminator::Any(b'\n'))
        .from_writer(out);
    csv.write_record(FIRST.split(',')).map_err(io_error)?;
    let mut record = ByteRecord::new();
    for e in trace.events() {
        let name = |file: FileNo| {
            let number = names[file as usize].expect("a file is named before it is written");
            shown[number as usize].as_slice()
        };
        record.clear();
        push(&mut record, e.us);
        match e.what {
            What::Name { file, name: new } => {
                let renamed = names[file as usize].is_some();
                if renamed {
                    record.push_field(b"R");
                    record.push_field(name(file));
                    record.push_field(&shown[new as usize]);
                }
                names[file as usize] = Some(new);
                if !renamed {
                    continue;
                }
            }
            What::Write { file, offset, length } | What::Discard { file, offset, length } => {
                let is_write = matches!(e.what, What::Write { .. });
                record.push_field(if is_write { b"W" } else { b"D" });
                record.push_field(name(file));
                push(&mut record, offset);
                push(&mut record, length);
                if is_write && carried > 0 {
                    push(&mut record, carried.into());
                }
            }
            What::Stream { stream } => {
                carried = stream;
                continue;
            }
            What::LoadEnd => record.push_field(b"L"),
            What::Begins => record.push_field(b"B"),
            What::Checkpoint => record.push_field(b"C"),
            What::Delete { file } => {
                record.push_field(b"X");
                record.push_field(name(file));
            }
            What::Window => record.push_field(b"M"),
            What::List { file, list } => {
                let list = trace.lists.get(list);
                record.push_field(b"A");
                record.push_field(name(file));
                push(&mut record, list.file_size);
                for e in &list.extents {
                    push(&mut record, e.start);
                    push(&mut record, e.end - e.start);
                }
            }
            What::Looked => record.push_field(b"S"),
            What::Lost => record.push_field(b"N"),
        }
        csv.write_byte_record(&record).map_err(io_error)?;
    }
    csv.flush()
}

fn push(record: &mut ByteRecord, number: u64) {
    record.push_field(number.to_string().as_bytes());
}

fn event(builder: &mut Builder, us: u64, fields: &[&[u8]]) -> Result<(), LineError> {
    let [_, kind, fields @ ..] = fields else {
        return Err(LineError::NoEvent(short(&fields.concat())));
    };
    let wrong = |takes| LineError::Fields {
        kind: short(kind),
        takes,
        found: fields.len(),
    };
    match (*kind, fields) {
        (b"W", [_, _, _]) | (b"W", [_, _, _, _]) | (b"D", [_, _, _]) => {
            let (file, stream) = (fields[0], fields.get(3));
            let offset = bytes("offset", fields[1])?;
            let length = bytes("length", fields[2])?;
            let stream = stream.map_or(Ok(0), |s| number_of_stream(s))?;
            if *kind == b"W" {
                builder.stream(us, stream)?;
                builder.write(us, path(file), offset, length)?;
            } else {
                builder.discard(us, path(file), offset, length)?;
            }
        }
        (b"L", []) => builder.load_end(us)?,
        (b"B", []) => builder.begins(us)?,
        (b"C", []) => builder.checkpoint(us)?,
        (b"X", [file]) => builder.delete(us, path(file))?,
        (b"R", [old, new]) => builder.rename(us, path(old), path(new))?,
        (b"M", []) => builder.window(us)?,
        (b"S", []) => builder.looked(us)?,
        (b"N", []) => builder.lost(us)?,
        (b"A", [file, size, extents @ ..]) if extents.len() % 2 == 0 => {
            let mut list = FreeList {
                file_size: bytes("size", size)?,
                ..FreeList::default()
            };
            for pair in extents.chunks_exact(2) {
                let (offset, length) = (bytes("offset", pair[0])?, bytes("length", pair[1])?);
                let end = offset.checked_add(length);
                let begin = list.extents.last().map_or(0, |l: &Range<u64>| l.end);
                let good = end.filter(|end| length > 0 && offset >= begin && *end <= list.file_size);
                let end = good.ok_or_else(|| LineError::List(short(pair[0])))?;
                list.extents.push(offset..end);
            }
            builder.list(us, path(file), list)?;
        }
        (b"A", _) => {
            return Err(wrong(
                "a file, its size, and an offset and a length for each range",
            ))
        }
        (b"W", _) => return Err(wrong("a file, an offset, a length, and a stream or none")),
        (b"D", _) => return Err(wrong("a file, an offset and a length")),
        (b"L" | b"B" | b"C" | b"M" | b"S" | b"N", _) => return Err(wrong("nothing")),
        (b"X", _) => return Err(wrong("a file")),
        (b"R", _) => return Err(wrong("the old and the new name of a file")),
        _ => return Err(LineError::Kind(short(kind))),
    }
    Ok(())
}

fn path(field: &[u8]) -> &OsStr {
    OsStr::from_bytes(field)
}

fn digits(s: &[u8]) -> Option<u64> {
    let all = s.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(s).ok().filter(|_| all)?.parse().ok()
}

fn bytes(what: &'static str, s: &[u8]) -> Result<u64, LineError> {
    digits(s).ok_or_else(|| LineError::Number(what, short(s)))
}

fn number_of_stream(s: &[u8]) -> Result<u8, LineError> {
    let stream = digits(s).and_then(|n| u8::try_from(n).ok());
    stream
        .filter(|n| *n > 0)
        .ok_or_else(|| LineError::Stream(short(s)))
}

/// What of a line is fit to be shown.
fn short(s: &[u8]) -> String {
    let text = String::from_utf8_lossy(&s[..s.len().min(240)]);
    printable(&text.chars().take(60).collect::<String>())
}

#[cfg(test)]
mod tests;

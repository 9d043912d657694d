// SPDX-License-Identifier: GPL-2.0-or-later
//! The plain form of a trace, for anyone's program to write.  The first line is
//! `dsm-trace,1`; then one event a line, in time order:
//!
//! ```text
//! <microseconds>,W,<file>,<offset>,<length>[,<stream>]
//!                                             write; with the stream that it carries, 1 to 255
//! <microseconds>,D,<file>,<offset>,<length>   discard
//! <microseconds>,L                            end of the load phase
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

use base::text::printable;
use dbpath::avail::FreeList;

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
    #[error("'{0}': an event is <microseconds>,<W|D|L|C|X|R|M|A|S|N>[,...]")]
    NoEvent(String),
    #[error("the time '{0}' is not a number of microseconds")]
    Time(String),
    #[error("the time {0} is {1} us before that of an event above, of which {BACK} are sorted")]
    Back(u64, u64),
    #[error("there is no event '{0}', only W, D, L, C, X, R, M, A, S and N")]
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
struct Held {
    us: u64,
    line: u64,
    record: ByteRecord,
}

/// Hands events on in the order of their times.
struct Sorter {
    builder: Builder,
    held: VecDeque<Held>,
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
        self.held.insert(at, Held { us, line, record });
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
        let Some(Held { us, line, record }) = self.held.pop_front() else {
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
    csv.write_record(FIRST.split(','))?;
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
        csv.write_byte_record(&record)?;
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
        (b"L" | b"C" | b"M" | b"S" | b"N", _) => return Err(wrong("nothing")),
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
mod tests {
    use super::*;
    use crate::trace::Event;

    fn parse(text: &str) -> Result<Trace, ReadError> {
        read(text.as_bytes())
    }

    #[test]
    fn every_kind_of_event() {
        let t = parse(
            "dsm-trace,1\n0,W,a.wt,4096,8192\n1,L\n1,C\n2,W,b,0,1\n3,R,b,a.wt\n4,D,a.wt,0,4096\n5,X,a.wt\n5,X,c\n",
        )
        .unwrap();
        let events: Vec<What> = t.events().map(|e| e.what).collect();
        assert_eq!(
            events,
            [
                What::Name { file: 0, name: 0 },
                What::Write {
                    file: 0,
                    offset: 4096,
                    length: 8192
                },
                What::LoadEnd,
                What::Checkpoint,
                What::Name { file: 1, name: 1 },
                What::Write {
                    file: 1,
                    offset: 0,
                    length: 1
                },
                What::Delete { file: 0 },
                What::Name { file: 1, name: 2 },
                What::Discard {
                    file: 1,
                    offset: 0,
                    length: 4096
                },
                What::Delete { file: 1 },
            ]
        );
        assert_eq!(t.names, ["a.wt", "b", "a.wt"]);
        assert_eq!(t.files, 2);
        assert_eq!(
            t.events().nth(9).unwrap(),
            Event {
                us: 5,
                what: What::Delete { file: 1 }
            }
        );
        // A stream holds for its own write.
        let t = parse("dsm-trace,1\n0,W,a,0,1,3\n1,W,a,0,1,3\n2,W,a,0,1\n").unwrap();
        let streams: Vec<u8> = t
            .events()
            .filter_map(|e| match e.what {
                What::Stream { stream } => Some(stream),
                _ => None,
            })
            .collect();
        assert_eq!(streams, [3, 0]);
        assert!(t.has_streams());
        for bad in ["0", "256", "x", "-1", ""] {
            let e = parse(&format!("dsm-trace,1\n0,W,a,0,1,{bad}\n")).unwrap_err();
            assert!(e.to_string().contains("is not a number from 1 to 255"), "{e}");
        }
        // A last line without an end, and the ends of another system.
        assert_eq!(parse("dsm-trace,1\r\n7,C").unwrap().events().count(), 1);
        assert_eq!(parse("dsm-trace,1\n").unwrap(), Trace::default());
    }

    #[test]
    fn what_is_written_can_be_read() {
        let text = "dsm-trace,1\n0,W,a.wt,4096,8192\n0,W,a.wt,4096,8192,255\n1,L\n1,C\n2,W,b,0,1\n3,R,b,c\n4,D,a.wt,0,4096\n5,X,c\n\
                    6,M\n7,A,a.wt,40960,4096,8192,20480,4096\n7,A,a.wt,4096\n7,S\n8,N\n";
        let trace = parse(text).unwrap();
        let mut written = Vec::new();
        write(&trace, Names::Exact, &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text);
    }

    #[test]
    fn bad_input_is_named_by_its_line() {
        for (text, error) in [
            (
                "",
                "this is not a trace: the first line must be 'dsm-trace,1', not ''",
            ),
            (
                "PK\u{3}\u{4}\n",
                "this is not a trace: the first line must be 'dsm-trace,1', not 'PK\\u{3}\\u{4}'",
            ),
            (
                "dsm-trace,2\n",
                "this is not a trace: the first line must be 'dsm-trace,1', not 'dsm-trace,2'",
            ),
            (
                "dsm-trace,1\n\nnow\n",
                "line 3: 'now': an event is <microseconds>,<W|D|L|C|X|R|M|A|S|N>[,...]",
            ),
            (
                "dsm-trace,1\n1,C\nx,C\n",
                "line 3: the time 'x' is not a number of microseconds",
            ),
            (
                "dsm-trace,1\n-1,C\n",
                "line 2: the time '-1' is not a number of microseconds",
            ),
            (
                "dsm-trace,1\n1,Q,a\n",
                "line 2: there is no event 'Q', only W, D, L, C, X, R, M, A, S and N",
            ),
            (
                "dsm-trace,1\n1,W,a,0\n",
                "line 2: W takes a file, an offset, a length, and a stream or none, and there are 2 fields after it",
            ),
            (
                "dsm-trace,1\n1,C,a\n",
                "line 2: C takes nothing, and there are 1 fields after it",
            ),
            (
                "dsm-trace,1\n1,W,a,0,4k\n",
                "line 2: the length '4k' is not a number of bytes",
            ),
            (
                "dsm-trace,1\n1,W,a,+1,4\n",
                "line 2: the offset '+1' is not a number of bytes",
            ),
            ("dsm-trace,1\n1,W,a,0,0\n", "line 2: a length of 0"),
            ("dsm-trace,1\n1,W,,0,1\n", "line 2: a file without a name"),
            ("dsm-trace,1\n1,R,a,\n", "line 2: a file without a name"),
            (
                "dsm-trace,1\n100006,C\n5,C\n",
                "line 3: the time 5 is 100001 us before that of an event above, of which 100000 are sorted",
            ),
            (
                "dsm-trace,1\n5,L\n6,L\n",
                "line 3: the load phase has ended before",
            ),
            (
                "dsm-trace,1\n1,W,a,17592186044415,2\n",
                "line 2: offset 17592186044415 and length 2 reach beyond 16 TiB",
            ),
            (
                "dsm-trace,1\n1,W,a,18446744073709551615,2\n",
                "line 2: offset 18446744073709551615 and length 2 reach beyond 16 TiB",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), error, "{text:?}");
        }
        assert!(matches!(read(&b"\xff\xfe\n"[..]), Err(ReadError::Foreign(_))));
    }

    #[test]
    fn times_that_go_back_a_little_are_sorted() {
        let sorted = |text: &str| -> Vec<(u64, String)> {
            let t = parse(text).unwrap();
            let name = |what| match what {
                What::Write { offset, .. } => format!("W{offset}"),
                What::Checkpoint => "C".into(),
                other => format!("{other:?}"),
            };
            let named = |e: &Event| !matches!(e.what, What::Name { .. });
            t.events().filter(named).map(|e| (e.us, name(e.what))).collect()
        };
        let is = |us, what: &str| (us, what.to_owned());
        assert_eq!(
            sorted("dsm-trace,1\n7,W,a,0,1\n100007,C\n7,W,a,1,1\n9,W,a,2,1\n8,W,a,3,1\n"),
            [
                is(7, "W0"),
                is(7, "W1"),
                is(8, "W3"),
                is(9, "W2"),
                is(100_007, "C")
            ]
        );
        // More than are held at a time, and far apart: what was handed on stays.
        let mut text = "dsm-trace,1\n".to_owned();
        for n in 0..2 * HELD as u64 {
            text += &format!("{},C\n", n ^ 1);
        }
        let all = sorted(&text);
        assert_eq!(all.len(), 2 * HELD);
        assert!(all.windows(2).all(|w| w[0].0 <= w[1].0));
        // An error above is reported before one below.
        let said = parse("dsm-trace,1\n1,W,a,0,0\nx,C\n").unwrap_err().to_string();
        assert_eq!(said, "line 2: a length of 0");
    }

    /// With names that a comma, a quote, a line's end, a terminal or another encoding would
    /// take apart.
    #[test]
    fn names_survive() {
        let names: [&[u8]; 8] = [
            b"a,b.wt",
            b"new\nline.wt",
            b"cr\r\n",
            b"\"quoted\" and \"",
            b"esc\x1b]0;pwn\x07.wt",
            b"\xff\xfe.wt",
            b"\xff\xfd.wt",
            b" blanks ",
        ];
        let mut b = Builder::default();
        for (us, name) in (0..).zip(names) {
            b.write(us, path(name), 4096, 4096).unwrap();
        }
        b.rename(9, path(names[1]), path(b"\r")).unwrap();
        b.delete(9, path(b"\r")).unwrap();
        let trace = b.finish();
        let mut written = Vec::new();
        write(&trace, Names::Exact, &mut written).unwrap();
        assert_eq!(read(&written[..]).unwrap(), trace);

        let mut shown = Vec::new();
        write(&trace, Names::Shown, &mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert_eq!(shown.lines().count(), 1 + names.len() + 2);
    }

    /// A line is where its record begins, also behind names of several lines.
    #[test]
    fn lines_are_counted_as_an_editor_does() {
        for text in [
            "dsm-trace,1\n1,C\n\n2,X,\"a\nb\nc\"\n3,Q\n",
            "dsm-trace,1\r\n1,C\r\n\r\n2,X,\"a\r\nb\r\nc\"\r\n3,Q\r\n",
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(
                said.starts_with("line 7: there is no event 'Q'"),
                "{text:?}: {said}"
            );
        }
        assert!(parse("dsm-trace,1\n\n\n1,Q")
            .unwrap_err()
            .to_string()
            .starts_with("line 4: "));
        let said = parse("dsm-trace,1\n1,C\n2,X,\"a\n3,C\n4,C\n").unwrap();
        assert_eq!(said.events().count(), 1, "a file that was never written");
    }
}

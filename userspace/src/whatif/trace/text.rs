// SPDX-License-Identifier: GPL-2.0-or-later
//! The plain form of a trace, for anyone's program to write.  The first line is
//! `dsm-trace,1`; then one event a line, in time order:
//!
//! ```text
//! <microseconds>,W,<file>,<offset>,<length>   write
//! <microseconds>,D,<file>,<offset>,<length>   discard
//! <microseconds>,L                            end of the load phase
//! <microseconds>,C                            a checkpoint has completed
//! <microseconds>,X,<file>                     file deleted
//! <microseconds>,R,<old>,<new>                file renamed
//! <microseconds>,M                            WiredTiger's lists are read after this
//! <microseconds>,A,<file>,<size>,<offset>,<length>,...
//!                                             what the newest checkpoint of a file of
//!                                             that size lists as free
//! <microseconds>,S                            every list that has changed was told
//! <microseconds>,N                            events are missing
//! ```
//!
//! Offsets and lengths are bytes, files are paths relative to the dbpath.

use std::io::{self, BufRead, Write};
use std::ops::Range;

use thiserror::Error;

use crate::dbpath::avail::FreeList;

use super::{Builder, EventError, FileNo, Trace, What};

const FIRST: &str = "dsm-trace,1";

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("this is not a trace: the first line must be '{FIRST}', not '{0}'")]
    Foreign(String),
    #[error("line {0}: {1}")]
    Line(usize, LineError),
    #[error("line {0}: this is not text")]
    NoText(usize),
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug, Error)]
pub enum LineError {
    #[error("'{0}': an event is <microseconds>,<W|D|L|C|X|R|M|A|S|N>[,...]")]
    NoEvent(String),
    #[error("the time '{0}' is not a number of microseconds")]
    Time(String),
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
    #[error("the range at {0} is empty, is not behind the one before, or is not in the file")]
    List(String),
    #[error(transparent)]
    Event(#[from] EventError),
}

pub fn read(input: impl BufRead) -> Result<Trace, ReadError> {
    let mut builder = Builder::default();
    let mut number = 0;
    for line in input.split(b'\n') {
        let line = line?;
        number += 1;
        let line = std::str::from_utf8(&line).map_err(|_| match number {
            1 => ReadError::Foreign(short(&String::from_utf8_lossy(&line))),
            n => ReadError::NoText(n),
        })?;
        let line = line.strip_suffix('\r').unwrap_or(line);
        if number > 1 {
            event(&mut builder, line).map_err(|e| ReadError::Line(number, e))?;
        } else if line != FIRST {
            return Err(ReadError::Foreign(short(line)));
        }
    }
    if number == 0 {
        return Err(ReadError::Foreign(String::new()));
    }
    Ok(builder.finish())
}

/// Writes a trace in this form.  A file's first name is not said apart, since the
/// first write says it.
pub fn write(trace: &Trace, mut out: impl Write) -> io::Result<()> {
    let mut names: Vec<Option<u32>> = vec![None; trace.files as usize];
    let name = |names: &[Option<u32>], file: FileNo| {
        let number = names[file as usize].expect("a file is named before it is written");
        &trace.names[number as usize]
    };
    writeln!(out, "{FIRST}")?;
    for e in &trace.events {
        let us = e.us;
        match e.what {
            What::Name { file, name: new } => {
                if names[file as usize].is_some() {
                    let (old, new) = (name(&names, file), &trace.names[new as usize]);
                    writeln!(out, "{us},R,{old},{new}")?;
                }
                names[file as usize] = Some(new);
            }
            What::Write { file, offset, length } => {
                writeln!(out, "{us},W,{},{offset},{length}", name(&names, file))?;
            }
            What::Discard { file, offset, length } => {
                writeln!(out, "{us},D,{},{offset},{length}", name(&names, file))?;
            }
            What::LoadEnd => writeln!(out, "{us},L")?,
            What::Checkpoint => writeln!(out, "{us},C")?,
            What::Delete { file } => writeln!(out, "{us},X,{}", name(&names, file))?,
            What::Window => writeln!(out, "{us},M")?,
            What::List { file, list } => {
                let list = &trace.lists[list as usize];
                write!(out, "{us},A,{},{}", name(&names, file), list.file_size)?;
                for e in &list.extents {
                    write!(out, ",{},{}", e.start, e.end - e.start)?;
                }
                writeln!(out)?;
            }
            What::Looked => writeln!(out, "{us},S")?,
            What::Lost => writeln!(out, "{us},N")?,
        }
    }
    out.flush()
}

fn event(builder: &mut Builder, line: &str) -> Result<(), LineError> {
    let no_event = || LineError::NoEvent(short(line));
    let (time, rest) = line.split_once(',').ok_or_else(no_event)?;
    let us = digits(time).ok_or_else(|| LineError::Time(short(time)))?;
    let mut fields = rest.split(',');
    let kind = fields.next().ok_or_else(no_event)?;
    let fields: Vec<&str> = fields.collect();
    let wrong = |takes| LineError::Fields {
        kind: kind.to_owned(),
        takes,
        found: fields.len(),
    };
    match (kind, fields.as_slice()) {
        ("W" | "D", [file, offset, length]) => {
            let offset = bytes("offset", offset)?;
            let length = bytes("length", length)?;
            if kind == "W" {
                builder.write(us, file, offset, length)?;
            } else {
                builder.discard(us, file, offset, length)?;
            }
        }
        ("L", []) => builder.load_end(us)?,
        ("C", []) => builder.checkpoint(us)?,
        ("X", [file]) => builder.delete(us, file)?,
        ("R", [old, new]) => builder.rename(us, old, new)?,
        ("M", []) => builder.window(us)?,
        ("S", []) => builder.looked(us)?,
        ("N", []) => builder.lost(us)?,
        ("A", [file, size, extents @ ..]) if extents.len() % 2 == 0 => {
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
            builder.list(us, file, list)?;
        }
        ("A", _) => {
            return Err(wrong(
                "a file, its size, and an offset and a length for each range",
            ))
        }
        ("W" | "D", _) => return Err(wrong("a file, an offset and a length")),
        ("L" | "C" | "M" | "S" | "N", _) => return Err(wrong("nothing")),
        ("X", _) => return Err(wrong("a file")),
        ("R", _) => return Err(wrong("the old and the new name of a file")),
        _ => return Err(LineError::Kind(short(kind))),
    }
    Ok(())
}

fn digits(s: &str) -> Option<u64> {
    (s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok())?
}

fn bytes(what: &'static str, s: &str) -> Result<u64, LineError> {
    digits(s).ok_or_else(|| LineError::Number(what, short(s)))
}

/// What of a line is fit to be shown.
fn short(s: &str) -> String {
    s.chars()
        .take(60)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::trace::Event;

    fn parse(text: &str) -> Result<Trace, ReadError> {
        read(text.as_bytes())
    }

    #[test]
    fn every_kind_of_event() {
        let t = parse(
            "dsm-trace,1\n0,W,a.wt,4096,8192\n1,L\n1,C\n2,W,b,0,1\n3,R,b,a.wt\n4,D,a.wt,0,4096\n5,X,a.wt\n5,X,c\n",
        )
        .unwrap();
        let events: Vec<What> = t.events.iter().map(|e| e.what).collect();
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
            t.events[9],
            Event {
                us: 5,
                what: What::Delete { file: 1 }
            }
        );
        // A last line without an end, and the ends of another system.
        assert_eq!(parse("dsm-trace,1\r\n7,C").unwrap().events.len(), 1);
        assert_eq!(parse("dsm-trace,1\n").unwrap(), Trace::default());
    }

    #[test]
    fn what_is_written_can_be_read() {
        let text = "dsm-trace,1\n0,W,a.wt,4096,8192\n1,L\n1,C\n2,W,b,0,1\n3,R,b,c\n4,D,a.wt,0,4096\n5,X,c\n\
                    6,M\n7,A,a.wt,40960,4096,8192,20480,4096\n7,A,a.wt,4096\n7,S\n8,N\n";
        let trace = parse(text).unwrap();
        let mut written = Vec::new();
        write(&trace, &mut written).unwrap();
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
                "this is not a trace: the first line must be 'dsm-trace,1', not 'PK??'",
            ),
            (
                "dsm-trace,2\n",
                "this is not a trace: the first line must be 'dsm-trace,1', not 'dsm-trace,2'",
            ),
            (
                "dsm-trace,1\n\n",
                "line 2: '': an event is <microseconds>,<W|D|L|C|X|R|M|A|S|N>[,...]",
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
                "line 2: W takes a file, an offset and a length, and there are 2 fields after it",
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
                "dsm-trace,1\n5,C\n4,C\n",
                "line 3: the time 4 is before the time 5 of the event above",
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
        assert!(matches!(
            read(&b"dsm-trace,1\n1,X,\xff\n"[..]),
            Err(ReadError::NoText(2))
        ));
        assert!(matches!(read(&b"\xff\xfe\n"[..]), Err(ReadError::Foreign(_))));
    }
}

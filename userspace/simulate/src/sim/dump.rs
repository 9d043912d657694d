// SPDX-License-Identifier: GPL-2.0-or-later
//! The commands that reach the drive, for another model of one.  Text, a command a line:
//!
//! ```text
//! dsm-pages,1,<bytes of a page>,<pages of the drive>
//! W,<page>,<count>,<stream>   pages are written, in ascending order; 0 is no stream
//! D,<page>,<count>            pages are discarded
//! B                           from here on writes count
//! ```
//!
//! Writes without a stream share one with stream 1, as with FDP.

use std::io::{self, Write};

use super::policies::{Spec, Stream};
use super::profile::Profile;
use super::{place, Model, SimError, Sink};
use crate::flash::PAGE;
use crate::trace::Trace;

/// A command, put together from pages that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DumpedRun {
    first: u32,
    count: u32,
    /// None: a discard.
    stream: Option<Stream>,
}

struct Dump<W> {
    out: W,
    run: Option<DumpedRun>,
    /// Pages to be written until they count.
    left: Option<u64>,
    /// What went wrong first.
    result: io::Result<()>,
}

/// Writes what one policy sends to a drive of so many pages.
pub fn dump(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    spec: &Spec,
    pages: u64,
    mut out: impl Write,
) -> Result<io::Result<()>, SimError> {
    let result = writeln!(out, "dsm-pages,1,{PAGE},{pages}");
    let mut dump = Dump {
        out,
        run: None,
        left: Some(model.counted_from(profile)),
        result,
    };
    place(trace, profile, model, spec, &mut dump)?;
    dump.end();
    Ok(dump.result.and_then(|()| dump.out.flush()))
}

impl<W: Write> Dump<W> {
    fn page(&mut self, page: u32, stream: Option<Stream>) {
        match &mut self.run {
            Some(run) if run.stream == stream && run.first + run.count == page => run.count += 1,
            _ => {
                self.end();
                self.run = Some(DumpedRun {
                    first: page,
                    count: 1,
                    stream,
                });
            }
        }
    }

    fn end(&mut self) {
        if let Some(DumpedRun { first, count, stream }) = self.run.take() {
            self.line(&match stream {
                Some(stream) => format!("W,{first},{count},{stream}"),
                None => format!("D,{first},{count}"),
            });
        }
    }

    fn line(&mut self, line: &str) {
        if self.result.is_ok() {
            self.result = writeln!(self.out, "{line}");
        }
    }
}

impl<W: Write> Sink for Dump<W> {
    fn write(&mut self, page: u32, stream: Stream) {
        if self.left == Some(0) {
            self.end();
            self.line("B");
        }
        self.left = self.left.and_then(|left| left.checked_sub(1));
        self.page(page, Some(stream));
    }

    fn discard(&mut self, page: u32) {
        self.page(page, None);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The bound: a policy that knows how many pages will be written until this one
//! is written again.  The last stream takes what is not; the others divide the
//! lives of the run's pages into parts with as many writes each.

use super::{Policy, Stream};
use crate::sim::files::Files;
use crate::sim::play::{play, Player};
use crate::sim::profile::{Last, Life, Profile};
use crate::sim::{Model, SimError};
use crate::trace::{FileNo, Trace};

pub(super) struct Oracle {
    streams: std::vec::IntoIter<Stream>,
}

impl Oracle {
    /// Plays the trace to see the stream of each write: a byte for each page written.
    pub(super) fn new(trace: &Trace, model: &Model, profile: &Profile) -> Result<Self, SimError> {
        // One stream for what is never written again, the others for the rest.
        let parts = usize::from(model.streams.max(1)) - 1;
        let limits = profile.lives.divide(parts);
        let mut future = Future {
            last: Last::default(),
            forever: limits.len() as Stream + 1 + Stream::from(parts > 0),
            limits,
            streams: Vec::with_capacity(profile.writes() as usize),
        };
        let mut files = model.files();
        play(trace, &mut files, &mut future)?;
        Ok(Self {
            streams: future.streams.into_iter(),
        })
    }
}

struct Future {
    last: Last,
    /// Stream n takes what lives less than the n-th of these.
    limits: Vec<u64>,
    forever: Stream,
    streams: Vec<Stream>,
}

impl Future {
    fn end(&mut self, ended: Option<Life>) {
        if let Some(Life { write, pages }) = ended {
            let stream = self.limits.partition_point(|limit| *limit <= pages) as Stream + 1;
            self.streams[write as usize] = stream;
        }
    }
}

impl Player for Future {
    fn write(&mut self, _files: &Files, _file: FileNo, _page: u32, at: u32) {
        let ended = self.last.write(at);
        self.end(ended);
        self.streams.push(self.forever);
    }

    fn discard(&mut self, at: u32) {
        let ended = self.last.discard(at);
        self.end(ended);
    }
}

impl Policy for Oracle {
    fn place(&mut self, _files: &Files, _file: FileNo, _page: u32) -> Stream {
        self.streams.next().expect("the trace is the one of the profile")
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! AutoStream (Yang, Pandurangan, Choi, Balakrishnan, SYSTOR '17): streams from
//! the history of chunks of 1 MiB, below any file system.  Here a chunk is one of
//! a file; on a drive it is one of the block addresses, which for files of many
//! MiB is the same.  Times are counted in requests.

use std::collections::HashMap;

use super::{Policy, Stream};
use crate::sim::files::Files;
use crate::sim::play::WriteRequest;
use crate::sim::profile::Profile;
use crate::trace::FileNo;

/// Pages of a chunk.
const CHUNK: u32 = 256;

type Chunk = (FileNo, u32);

fn chunk(file: FileNo, page: u32) -> Chunk {
    (file, page / CHUNK)
}

/// Sequentiality: a request that goes on where another has ended takes its
/// stream.  Otherwise the logarithm of the chunk's accesses, of which half are
/// forgotten in each decay period.
pub(super) struct Sfr {
    streams: u8,
    decay: f64,
    now: u64,
    chunks: HashMap<Chunk, (f64, u64)>,
    /// Where the last requests have ended, and their stream.
    tails: [(FileNo, u32, Stream); TAILS],
    turn: usize,
    current: Stream,
}

/// Sequences that are followed at a time.
const TAILS: usize = 8;

impl Sfr {
    /// `decay` is in windows of checkpoints; its default is one.
    pub(super) fn new(streams: u8, decay: Option<f64>, profile: &Profile) -> Self {
        let window = profile.run_writes as f64 / profile.checkpoints.max(1) as f64;
        Self {
            streams,
            decay: (decay.unwrap_or(1.0) * window).max(1.0),
            now: 0,
            chunks: HashMap::new(),
            tails: [(FileNo::MAX, 0, 0); TAILS],
            turn: 0,
            current: 1,
        }
    }

    fn by_history(&mut self, request: &WriteRequest) -> Stream {
        let (count, last) = self.chunks.entry(chunk(request.file, request.first)).or_default();
        let age = (self.now - *last) as f64;
        *count = *count / (age / self.decay).exp2() + 1.0;
        *last = self.now;
        (1 + count.log2() as u32).min(u32::from(self.streams)) as Stream
    }
}

impl Policy for Sfr {
    fn request(&mut self, _files: &Files, r: &WriteRequest) {
        self.now += u64::from(r.count);
        let end = r.first.wrapping_add(r.count);
        let follows = self.tails.iter().position(|t| (t.0, t.1) == (r.file, r.first));
        let history = self.by_history(r);
        let (slot, stream) = match follows {
            Some(n) => (n, self.tails[n].2),
            None => {
                self.turn = (self.turn + 1) % TAILS;
                (self.turn, history)
            }
        };
        self.tails[slot] = (r.file, end, stream);
        self.current = stream;
    }

    fn place(&mut self, _files: &Files, _file: FileNo, _page: u32) -> Stream {
        self.current
    }
}

/// Multi-queue: a chunk is promoted when its accesses reach the next power of two
/// and demoted when it was not accessed for the lifetime, which is the time
/// between the last two accesses of the hottest chunk.  Demotion is done when the
/// chunk is next accessed, by as many queues as it would have sunk.
pub(super) struct MultiQueue {
    streams: u8,
    now: u64,
    chunks: HashMap<Chunk, ChunkEntry>,
    hottest: u64,
    lifetime: u64,
    current: Stream,
}

#[derive(Clone, Copy, Default)]
struct ChunkEntry {
    accesses: u64,
    last: u64,
    queue: u32,
}

impl MultiQueue {
    pub(super) fn new(streams: u8) -> Self {
        Self {
            streams,
            now: 0,
            chunks: HashMap::new(),
            hottest: 0,
            lifetime: u64::MAX,
            current: 1,
        }
    }
}

impl Policy for MultiQueue {
    fn request(&mut self, _files: &Files, r: &WriteRequest) {
        self.now += 1;
        let e = self.chunks.entry(chunk(r.file, r.first)).or_default();
        let idle = self.now - e.last;
        if e.accesses > 0 {
            let sunk = (idle / self.lifetime).min(u64::from(e.queue)) as u32;
            e.queue -= sunk;
            e.accesses >>= sunk;
        }
        e.accesses += 1;
        if e.accesses >= self.hottest {
            self.hottest = e.accesses;
            // An access right after another says nothing of a lifetime.
            if e.last > 0 && idle > 1 {
                self.lifetime = idle;
            }
        }
        e.last = self.now;
        if e.accesses >= 1 << (e.queue + 1) {
            e.queue += 1;
        }
        self.current = (e.queue + 1).min(u32::from(self.streams)) as Stream;
        e.queue = e.queue.min(u32::from(self.streams) - 1);
    }

    fn place(&mut self, _files: &Files, _file: FileNo, _page: u32) -> Stream {
        self.current
    }
}

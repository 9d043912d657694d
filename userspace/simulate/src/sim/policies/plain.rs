// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies that need only the names of files, or nothing.

use std::collections::HashMap;
use std::path::Path;

use super::{Policy, Stream};
use crate::sim::files::Files;
use crate::trace::FileNo;
use std::ffi::OsStr;

/// A stream for each file, in the order of their making; when streams run out,
/// the files made later share the last one.
pub(super) struct PerFile {
    streams: u8,
    of: HashMap<FileNo, Stream>,
    free: Vec<Stream>,
}

impl PerFile {
    pub(super) fn new(streams: u8) -> Self {
        Self {
            streams,
            of: HashMap::new(),
            free: (1..streams.max(1)).rev().collect(),
        }
    }
}

impl Policy for PerFile {
    fn deleted(&mut self, _files: &Files, file: FileNo, _us: u64) {
        if let Some(stream) = self.of.remove(&file).filter(|s| *s < self.streams) {
            self.free.push(stream);
        }
    }

    fn place(&mut self, _files: &Files, file: FileNo, _page: u32) -> Stream {
        let (free, last) = (&mut self.free, self.streams.max(1));
        *self.of.entry(file).or_insert_with(|| free.pop().unwrap_or(last))
    }
}

/// F2FS has three temperatures of data and two lists of extensions, hot and cold.
/// Its own lists name no file of a dbpath; these are what an administrator would
/// write: what WiredTiger replaces at each checkpoint or appends to is hot, the
/// catalogue is cold, data files are warm.
pub(super) struct Extension {
    pub streams: u8,
}

impl Extension {
    fn temperature(name: &OsStr) -> Stream {
        let extension = Path::new(name).extension().and_then(|e| e.to_str());
        match extension.unwrap_or_default() {
            "turtle" | "set" => 1,
            e if !e.is_empty() && e.bytes().all(|b| b.is_ascii_digit()) => 1,
            "bson" | "lock" => 3,
            _ => 2,
        }
    }
}

impl Policy for Extension {
    fn place(&mut self, files: &Files, file: FileNo, _page: u32) -> Stream {
        Self::temperature(&files.get(file).name).min(self.streams)
    }
}

/// What placed the writes when they were recorded.
#[derive(Default)]
pub(super) struct Recorded(Stream);

impl Policy for Recorded {
    fn placed(&mut self, stream: Stream) {
        self.0 = stream;
    }

    fn place(&mut self, _files: &Files, _file: FileNo, _page: u32) -> Stream {
        self.0
    }
}

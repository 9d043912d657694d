// SPDX-License-Identifier: GPL-2.0-or-later
//! FileStream on a trace.  A trace does not say when files are opened or closed:
//! a file is open from its first event until it is deleted, which is what mongod
//! does.  A modification is a request, as in the paper, or a page, as dsmd counts them.

use std::path::Path;

use super::{Policy, Stream};
use crate::sim::files::Files;
use crate::sim::play::WriteRequest;
use crate::sim::profile::Profile;
use crate::trace::FileNo;
use policies::filestream::divider::Modules;
use policies::filestream::FileStream;

pub(super) struct Adapter {
    filestream: FileStream,
    count: Modification,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modification {
    Request,
    Page,
}

impl Adapter {
    /// The paper's T is 60 s, as is the time between MongoDB's checkpoints; the
    /// default is the latter as the trace has it.
    pub(super) fn new(
        streams: u8,
        seconds: Option<f64>,
        modules: Modules,
        count: Modification,
        profile: &Profile,
    ) -> Self {
        let window = profile.window_us as f64 / 1e6;
        let period = seconds.unwrap_or(if window > 0.0 { window } else { 60.0 });
        Self {
            filestream: FileStream::with_modules(streams, period, 0.0, modules),
            count,
        }
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

impl Policy for Adapter {
    fn named(&mut self, files: &Files, file: FileNo, us: u64) {
        let f = files.get(file);
        let now = seconds(us);
        self.filestream
            .open(u64::from(file), Path::new(&f.name), f.size, now, now, now);
    }

    fn deleted(&mut self, _files: &Files, file: FileNo, us: u64) {
        self.filestream.delete(u64::from(file), seconds(us));
    }

    fn request(&mut self, files: &Files, r: &WriteRequest) {
        let count = match self.count {
            Modification::Request => 1,
            Modification::Page => u64::from(r.count),
        };
        self.filestream
            .modify(u64::from(r.file), count, files.get(r.file).size);
        self.filestream.tick(seconds(r.us));
    }

    fn place(&mut self, _files: &Files, file: FileNo, _page: u32) -> Stream {
        self.filestream.stream(u64::from(file)).unwrap_or(1)
    }
}

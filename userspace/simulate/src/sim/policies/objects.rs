// SPDX-License-Identifier: GPL-2.0-or-later
//! A stream per object (Choi, Park, Lee: Don't mix pages with different lifetimes
//! in one stream, EDBT '18).  WiredTiger keeps each of its objects, a collection
//! or an index, in a file of its own.  The paper measures average update intervals
//! in a run before; this takes them from the trace itself, so that it knows more
//! than a user does.

use super::group::{group, Object};
use super::{Policy, Stream};
use crate::sim::files::Files;
use crate::sim::profile::Profile;
use crate::trace::FileNo;

pub(super) struct PerObject {
    of: Vec<Stream>,
}

impl PerObject {
    pub(super) fn new(streams: u8, profile: &Profile) -> Self {
        let objects: Vec<Object> = profile
            .files
            .iter()
            .map(|f| Object {
                // What was never written again lives as long as the run.
                interval: f.interval().unwrap_or(profile.run_writes as f64),
                pages: f.writes,
            })
            .collect();
        let mut of = vec![streams; objects.len()];
        // The coldest group has stream 1.
        for (stream, group) in (1..).zip(group(&objects, streams).into_iter().rev()) {
            for n in group {
                of[n] = stream;
            }
        }
        Self { of }
    }
}

impl Policy for PerObject {
    fn place(&mut self, _files: &Files, file: FileNo, _page: u32) -> Stream {
        self.of.get(file as usize).copied().unwrap_or(1)
    }
}

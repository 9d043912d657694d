// SPDX-License-Identifier: GPL-2.0-or-later
//! The bound: a policy that knows how many pages will be written until this one
//! is written again.  The last stream takes what is not; the others divide the
//! lives of the run's pages into parts with as many writes each.

use super::{Policy, Stream};
use crate::whatif::sim::files::Files;
use crate::whatif::sim::profile::{Profile, FOREVER};
use crate::whatif::trace::FileNo;

pub struct Oracle<'a> {
    lives: std::slice::Iter<'a, u32>,
    /// Stream n takes what lives less than the n-th of these.
    limits: Vec<u32>,
}

impl<'a> Oracle<'a> {
    pub fn new(streams: u8, profile: &'a Profile) -> Self {
        let run = &profile.lives[profile.load_writes as usize..];
        let mut lives: Vec<u32> = run.iter().copied().filter(|l| *l != FOREVER).collect();
        lives.sort_unstable();
        // One stream for what is never written again, the others for the rest.
        let parts = usize::from(streams.max(1)) - 1;
        let mut limits: Vec<u32> = (1..parts)
            .filter_map(|n| lives.get(lives.len() * n / parts).copied())
            .collect();
        if parts > 0 {
            limits.push(FOREVER);
        }
        Self {
            limits,
            lives: profile.lives.iter(),
        }
    }
}

impl Policy for Oracle<'_> {
    fn place(&mut self, _files: &Files, _file: FileNo, _page: u32) -> Stream {
        let life = *self.lives.next().expect("the trace is the one of the profile");
        self.limits.partition_point(|limit| *limit <= life) as Stream + 1
    }
}

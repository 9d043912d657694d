// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of a trace before it is played: its size, and, for methods
//! that look ahead, how long each page lives.

use glob::Pattern;

use super::files::Files;
use super::play::{play, Player};
use super::SimError;
use crate::dbpath::rules::Rules;
use crate::kernel::class::Class;
use crate::whatif::trace::{FileNo, Trace};

/// A page that is never written again.
pub const FOREVER: u32 = u32::MAX;

#[derive(Debug, Default)]
pub struct Profile {
    /// The most pages in use at a time.
    pub pages: u32,
    /// Pages written in the load phase, and after it.
    pub load_writes: u64,
    pub run_writes: u64,
    pub checkpoints: u64,
    /// Mean microseconds from one checkpoint to the next, after the load.
    pub window_us: u64,
    /// The drive's pages in the order of writing.
    pub script: Vec<u32>,
    /// Pages that are discarded, and before which write.
    pub discards: Vec<(u64, u32)>,
    /// For each write: how many pages are written until its page is written again
    /// or discarded.
    pub lives: Vec<u32>,
    /// By file, after the load.
    pub files: Vec<FileProfile>,
    /// Pages written after the load, by class in the order of [`Class::ALL`].
    pub classes: [u64; Class::ALL.len()],
}

#[derive(Clone, Debug, Default)]
pub struct FileProfile {
    pub writes: u64,
    /// Of pages that were written before: how many, and the sum of the pages
    /// written in between.
    pub rewrites: u64,
    pub intervals: u64,
}

impl FileProfile {
    /// The average update interval in pages written; a file whose pages are not
    /// written again has none.
    pub fn interval(&self) -> Option<f64> {
        (self.rewrites > 0).then(|| self.intervals as f64 / self.rewrites as f64)
    }
}

impl Profile {
    pub fn of(trace: &Trace, primary: &[Pattern], rules: &Rules) -> Result<Self, SimError> {
        let mut files = Files::new(primary, rules);
        let mut p = Profiler {
            profile: Self::default(),
            last: Vec::new(),
            first_checkpoint: None,
            last_checkpoint: 0,
            loaded: !trace.has_load_end(),
        };
        play(trace, &mut files, &mut p)?;
        let mut profile = p.profile;
        profile.pages = files.most_pages();
        if let Some(first) = p.first_checkpoint.filter(|_| profile.checkpoints > 1) {
            profile.window_us = (p.last_checkpoint - first) / (profile.checkpoints - 1);
        }
        Ok(profile)
    }

    pub fn writes(&self) -> u64 {
        self.load_writes + self.run_writes
    }
}

struct Profiler {
    profile: Profile,
    /// When a page of the drive was written last, as an index of `lives`.
    last: Vec<u64>,
    first_checkpoint: Option<u64>,
    last_checkpoint: u64,
    loaded: bool,
}

const NEVER: u64 = u64::MAX;

impl Profiler {
    fn end_life(&mut self, at: u32, now: u64) -> Option<u64> {
        let last = std::mem::replace(&mut self.last[at as usize], NEVER);
        if last == NEVER {
            return None;
        }
        let life = now - last;
        self.profile.lives[last as usize] = u32::try_from(life).unwrap_or(FOREVER - 1).min(FOREVER - 1);
        Some(life)
    }
}

impl Player for Profiler {
    fn write(&mut self, all: &Files, file: FileNo, _page: u32, at: u32) {
        let now = self.profile.lives.len() as u64;
        if at as usize >= self.last.len() {
            self.last.resize(at as usize + 1, NEVER);
        }
        let life = self.end_life(at, now);
        self.profile.script.push(at);
        self.profile.lives.push(FOREVER);
        self.last[at as usize] = now;
        if !self.loaded {
            self.profile.load_writes += 1;
            return;
        }
        self.profile.run_writes += 1;
        self.profile.classes[all.get(file).class as usize] += 1;
        let files = &mut self.profile.files;
        if file as usize >= files.len() {
            files.resize(file as usize + 1, FileProfile::default());
        }
        let f = &mut files[file as usize];
        f.writes += 1;
        if let Some(life) = life {
            f.rewrites += 1;
            f.intervals += life;
        }
    }

    fn discard(&mut self, at: u32) {
        let now = self.profile.lives.len() as u64;
        self.profile.discards.push((now, at));
        self.end_life(at, now);
    }

    fn load_end(&mut self, _files: &Files, us: u64) {
        self.loaded = true;
        self.first_checkpoint = Some(us);
        self.last_checkpoint = us;
        self.profile.checkpoints = 1;
    }

    fn checkpoint(&mut self, _files: &Files, us: u64) {
        if self.loaded {
            self.first_checkpoint.get_or_insert(us);
            self.last_checkpoint = us;
            self.profile.checkpoints += 1;
        }
    }
}

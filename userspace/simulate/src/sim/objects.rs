// SPDX-License-Identifier: GPL-2.0-or-later
//! How often the objects of a trace are updated: what `dsmctl group` goes by.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::Path;

use super::files::Files;
use super::play::{play, Player};
use super::SimError;
use crate::flash::PAGE;
use crate::group::Object;
use crate::trace::{FileNo, Trace};
use files::rules::{Role, Rules};

const NEVER: u64 = u64::MAX;

#[derive(Default)]
struct ObjectSums {
    pages: u64,
    /// Of pages that were written before: how many, and the sum of the pages
    /// written in between.
    rewrites: u64,
    intervals: u64,
}

/// A file's objects, as indices of `Meter::sums`.
#[derive(Default)]
struct ObjectParts {
    ranges: Vec<(Range<u64>, usize)>,
    rest: usize,
}

struct Meter<'a> {
    rules: &'a Rules,
    names: Vec<OsString>,
    numbers: HashMap<OsString, usize>,
    sums: Vec<ObjectSums>,
    files: Vec<ObjectParts>,
    /// When a page of the drive was written last, in pages.
    last: Vec<u64>,
    now: u64,
    loaded: bool,
}

/// The objects that the rules have; what is in none is an object for itself: with
/// rules by its class, without by its file.
pub fn measure(trace: &Trace, rules: &Rules) -> Result<Vec<Object>, SimError> {
    let mut m = Meter {
        rules,
        names: Vec::new(),
        numbers: HashMap::new(),
        sums: Vec::new(),
        files: Vec::new(),
        last: Vec::new(),
        now: 0,
        loaded: !trace.has_load_end(),
    };
    play(trace, &mut Files::new(&[], rules), &mut m)?;
    let total: u64 = m.sums.iter().map(|s| s.pages).sum();
    if total == 0 {
        return Err(SimError::NoRun);
    }
    let object = |(name, s): (OsString, ObjectSums)| Object {
        name: name.to_string_lossy().into_owned(),
        // What was never written again lives as long as the run.
        interval: match s.rewrites {
            0 => total as f64,
            n => s.intervals as f64 / n as f64,
        },
        pages: s.pages,
    };
    Ok(m.names.into_iter().zip(m.sums).map(object).collect())
}

impl Meter<'_> {
    fn number(&mut self, kind: Role, path: &OsStr) -> usize {
        let objects = self.rules.objects();
        let name = match kind.object {
            Some(n) => OsStr::new(&objects[usize::from(n)].name),
            None if objects.is_empty() => path,
            None => OsStr::new(kind.class.name()),
        };
        let next = self.names.len();
        *self.numbers.entry(name.to_owned()).or_insert_with(|| {
            self.names.push(name.to_owned());
            self.sums.push(ObjectSums::default());
            next
        })
    }
}

impl Player for Meter<'_> {
    fn named(&mut self, files: &Files, file: FileNo, _us: u64) {
        let path = files.get(file).name.as_os_str();
        let parts = self.rules.parts(Path::new(path));
        let ranges = parts.ranges.into_iter().map(|(r, k)| (r, self.number(k, path)));
        let ranges = ranges.collect();
        let rest = self.number(parts.rest, path);
        let file = file as usize;
        self.files
            .resize_with(self.files.len().max(file + 1), ObjectParts::default);
        self.files[file] = ObjectParts { ranges, rest };
    }

    fn write(&mut self, _files: &Files, file: FileNo, page: u32, at: u32) {
        let at = at as usize;
        self.last.resize(self.last.len().max(at + 1), NEVER);
        let last = std::mem::replace(&mut self.last[at], self.now);
        self.now += 1;
        if !self.loaded {
            return;
        }
        let parts = &self.files[file as usize];
        let offset = u64::from(page) * PAGE;
        let part = parts.ranges.iter().find(|(r, _)| r.contains(&offset));
        let s = &mut self.sums[part.map_or(parts.rest, |p| p.1)];
        s.pages += 1;
        if last != NEVER {
            s.rewrites += 1;
            s.intervals += self.now - 1 - last;
        }
    }

    /// What is deleted has lived until then.
    fn discard(&mut self, at: u32) {
        if let Some(last) = self.last.get_mut(at as usize) {
            *last = NEVER;
        }
    }

    fn load_end(&mut self, _files: &Files, _us: u64) {
        self.loaded = true;
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! FileStream: streams for files by what can be seen of them from outside.
//!
//! Zhang, Xue, Zhou: Automatic I/O stream management based on file
//! characteristics, HotStorage '21.  The [`mapper`] gives a file a stream when it
//! is opened; when it has been open for T seconds the [`remapper`] groups it by
//! how often it is modified for its size (USM), and does so again every T
//! seconds; the [`divider`] says how many streams each of the two has.  The mapper
//! has streams 1 to d, the remapper d+1 to N.
//!
//! Nothing here reads a clock or a file: the caller says what happens.  Times are
//! seconds, of any origin.
//!
//! Where the paper is silent: a name's extension of digits only counts as one
//! type; the lifetimes of the last [`mapper::HISTORY`] files of a type are kept;
//! when the mapper loses streams, its files in them are remapped; a file that is open
//! for longer than its type usually is will write nothing more (Eq. 1 would be negative).

pub mod divider;
pub(crate) mod kmeans;
pub mod mapper;
pub mod remapper;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use divider::Modules;
use mapper::Mapper;
use remapper::Remapper;

/// Files of the same folder and extension are of one type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type(Arc<(String, String)>);

impl Type {
    pub fn of(path: &Path) -> Self {
        let text =
            |s: Option<&std::ffi::OsStr>| s.map_or(String::new(), |s| s.to_string_lossy().into_owned());
        let mut extension = text(path.extension());
        if extension.bytes().all(|b| b.is_ascii_digit()) {
            extension = "#".into();
        }
        Self(Arc::new((text(path.parent().map(Path::as_os_str)), extension)))
    }
}

/// A file of the attribute table.  Of the paper's seven attributes the inode number
/// is its key, the name is its type, and the time of its deletion is its end.
#[derive(Clone, Debug)]
pub struct File {
    pub kind: Type,
    pub size: u64,
    pub opened: f64,
    pub created: f64,
    /// Nobody has it open for writing.
    pub closed: bool,
    /// Modifications since it was opened, and since the last clustering.
    pub modifications: u64,
    pub recent: u64,
    /// Periods that have ended since the last one.
    pub idle: u32,
    pub stream: u8,
    /// The remapper has it.
    pub remapped: bool,
}

#[derive(Debug)]
pub struct FileStream {
    streams: u8,
    period: f64,
    modules: Modules,
    next: f64,
    /// Streams of the mapper.
    d: u8,
    files: BTreeMap<u64, File>,
    /// Of these, those that are open.
    open: BTreeSet<u64>,
    mapper: Mapper,
    remapper: Remapper,
    /// Files that have another stream now.
    moved: Vec<u64>,
}

impl FileStream {
    /// `streams`: N, 2 and more.  `period`: T, in seconds.
    pub fn new(streams: u8, period: f64, now: f64) -> Self {
        Self::with_modules(streams, period, now, Modules::All)
    }

    pub fn with_modules(streams: u8, period: f64, now: f64, modules: Modules) -> Self {
        let streams = streams.max(2);
        let d = match modules {
            Modules::Mapper => streams,
            Modules::Remapper => 0,
            Modules::Halves | Modules::All => divider::clamp(streams / 2, streams),
        };
        Self {
            streams,
            period,
            modules,
            next: now + period,
            d,
            files: BTreeMap::new(),
            open: BTreeSet::new(),
            mapper: Mapper::default(),
            remapper: Remapper::new(0),
            moved: Vec::new(),
        }
    }

    /// A file that was made at `created` was opened for writing at `opened`: its
    /// stream.  `id` is an inode number.
    pub fn open(&mut self, id: u64, path: &Path, size: u64, created: f64, opened: f64, now: f64) -> u8 {
        let kind = Type::of(path);
        if let Some(f) = self.files.get_mut(&id).filter(|f| !f.closed) {
            f.kind = kind;
            self.mapper.changed();
            return f.stream;
        }
        let created = self.files.get(&id).map_or(created, |f| f.created);
        let open = self.open.iter().filter_map(|id| self.files.get(id));
        let stream = match self.modules {
            Modules::Remapper => 0,
            _ => self.mapper.choose(open, &kind, self.d, self.period, now),
        };
        let file = File {
            kind,
            size,
            opened,
            created,
            closed: false,
            modifications: 0,
            recent: 0,
            idle: 0,
            stream,
            remapped: false,
        };
        self.files.insert(id, file);
        self.open.insert(id);
        stream
    }

    /// The file was modified `count` times and is that large now.
    pub fn modify(&mut self, id: u64, count: u64, size: u64) {
        if let Some(f) = self.files.get_mut(&id) {
            f.modifications += count;
            f.recent += count;
            f.size = size;
            if !f.closed {
                self.mapper.modified(f, count, self.d);
            }
        }
    }

    /// Nobody has the file open for writing any more.  What is still to be written
    /// of it goes where it went.
    pub fn close(&mut self, id: u64, now: f64) {
        if let Some(f) = self.files.get_mut(&id).filter(|f| !f.closed) {
            f.closed = true;
            self.open.remove(&id);
            self.mapper.closed(&f.kind, now - f.opened);
        }
    }

    pub fn delete(&mut self, id: u64, now: f64) {
        self.close(id, now);
        if let Some(f) = self.files.remove(&id) {
            self.mapper.deleted(&f.kind, now - f.created);
        }
    }

    /// A file came and went before it could be opened here.
    pub fn came_and_went(&mut self, path: &Path, lifetime: f64) {
        let kind = Type::of(path);
        self.mapper.closed(&kind, lifetime);
        self.mapper.deleted(&kind, lifetime);
    }

    pub fn stream(&self, id: u64) -> Option<u8> {
        self.files.get(&id).map(|f| f.stream)
    }

    pub fn is_open(&self, id: u64) -> bool {
        self.open.contains(&id)
    }

    /// The files that are open.
    pub fn open_files(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().copied()
    }

    /// Those that were not modified for so many periods.
    pub fn idle(&self, periods: u32) -> Vec<u64> {
        let idle = |id: &u64| self.files.get(id).is_some_and(|f| f.idle >= periods);
        self.open_files().filter(idle).collect()
    }

    /// Streams of the mapper: 1 to this.
    pub fn mapper_streams(&self) -> u8 {
        self.d
    }

    /// Files whose stream [`Self::tick`] has changed since the last call.
    pub fn take_moved(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.moved)
    }

    /// Whether [`Self::tick`] would do anything.
    pub fn is_due(&self, now: f64) -> bool {
        let old = |f: &File| !f.remapped && now - f.opened >= self.period;
        now >= self.next || self.open.iter().any(|id| self.files.get(id).is_some_and(old))
    }

    /// Does what is due; to be called at least every T seconds.  Says whether a
    /// period has ended, after which any file may have another stream.
    pub fn tick(&mut self, now: f64) -> bool {
        // A file that is open for T seconds is grouped at once.
        let remaps = self.modules != Modules::Mapper;
        for id in self.open.iter().filter(|_| remaps) {
            let Some(f) = self.files.get_mut(id) else { continue };
            if !f.remapped && now - f.opened >= self.period {
                f.remapped = true;
                self.mapper.changed();
                if let Some(stream) = self.remapper.nearest(remapper::usm(f)) {
                    f.stream = self.d + stream;
                    self.moved.push(*id);
                }
            }
        }
        if now < self.next {
            return false;
        }
        self.next = now + self.period;
        let open = self.open.iter();
        let streams_before: Vec<(u64, u8)> = open.filter_map(|id| Some((*id, self.stream(*id)?))).collect();
        if self.modules == Modules::All {
            self.divide(now);
        }
        let k = self.streams - self.d;
        let mut grouped: Vec<&mut File> = self
            .files
            .values_mut()
            .filter(|f| f.remapped && !f.closed)
            .collect();
        self.remapper.regroup(&mut grouped, k, self.d);
        for f in self.files.values_mut() {
            f.idle = if f.recent > 0 { 0 } else { f.idle + 1 };
            f.recent = 0;
        }
        for (id, stream) in streams_before {
            if self.stream(id) != Some(stream) {
                self.moved.push(id);
            }
        }
        true
    }

    fn divide(&mut self, now: f64) {
        let open = self.open.iter().filter_map(|id| self.files.get(id));
        self.d = divider::streams_of_mapper(open, self.streams);
        self.mapper.changed();
        let lost: Vec<u64> = self
            .open
            .iter()
            .filter(|id| {
                self.files
                    .get(id)
                    .is_some_and(|f| !f.remapped && f.stream > self.d)
            })
            .copied()
            .collect();
        for id in lost {
            let Some(mut f) = self.files.remove(&id) else {
                continue;
            };
            let others = self.open.iter().filter_map(|id| self.files.get(id));
            f.stream = self.mapper.choose(others, &f.kind, self.d, self.period, now);
            self.mapper.modified(&f, f.modifications, self.d);
            self.files.insert(id, f);
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    fn path(s: &str) -> &Path {
        Path::new(s)
    }

    #[test]
    fn types_are_folder_and_extension() {
        assert_eq!(Type::of(path("a/x.wt")), Type::of(path("a/y.wt")));
        assert_ne!(Type::of(path("a/x.wt")), Type::of(path("b/x.wt")));
        assert_ne!(Type::of(path("x.wt")), Type::of(path("x.log")));
        assert_eq!(Type::of(path("j/Log.0001")), Type::of(path("j/Log.0002")));
    }

    /// Ten files that stay open, half of them a hundred times as busy.
    #[test]
    fn long_open_files_are_grouped_by_usm() {
        let mut fs = FileStream::new(8, 60.0, 0.0);
        for id in 0..10 {
            let stream = fs.open(id, path(&format!("db/{id}.wt")), 1 << 20, 0.0, 0.0, 0.0);
            assert!((1..=fs.mapper_streams()).contains(&stream));
        }
        assert!(!fs.tick(30.0));
        for id in 0..10 {
            fs.modify(id, if id < 5 { 10 } else { 1000 }, 1 << 20);
        }
        assert!(fs.tick(60.0));
        // All are the remapper's, so that the mapper keeps the one it must have.
        assert_eq!(fs.mapper_streams(), 1);
        let of = |id| fs.stream(id).unwrap();
        assert!((1..5).all(|id| of(id) == of(0)));
        assert!((6..10).all(|id| of(id) == of(5)));
        assert!(of(0) < of(5), "busy files have the greater stream");
        assert!(of(0) > 1);
    }

    /// One file stays open, others come and go.
    #[test]
    fn modules_can_be_switched_off() {
        let streams = |modules| {
            let mut fs = FileStream::with_modules(4, 10.0, 0.0, modules);
            let mut seen = vec![fs.open(0, path("a.db"), 4096, 0.0, 0.0, 0.0)];
            for n in 1..30u64 {
                let now = n as f64;
                seen.push(fs.open(n, path(&format!("{n}.log")), 0, now, now, now));
                fs.modify(0, 3, 4096);
                fs.modify(n, 1, 4096);
                fs.tick(now);
                fs.delete(n, now);
            }
            let short = seen[1..].to_vec();
            (seen[0], fs.stream(0).unwrap(), short, fs.mapper_streams())
        };
        let (_, long, short, d) = streams(Modules::Mapper);
        assert!((1..=4).contains(&long) && short.iter().all(|s| (1..=4).contains(s)) && d == 4);
        let (first, long, short, d) = streams(Modules::Remapper);
        assert_eq!((first, d), (0, 0));
        assert!((1..=4).contains(&long) && short.iter().all(|s| *s == 0));
        let (_, long, short, d) = streams(Modules::Halves);
        assert!((3..=4).contains(&long) && short.iter().all(|s| (1..=2).contains(s)) && d == 2);
    }

    #[test]
    fn a_file_that_is_gone_has_no_stream() {
        let mut fs = FileStream::new(4, 60.0, 0.0);
        fs.open(7, path("a.log"), 0, 0.0, 0.0, 0.0);
        fs.delete(7, 3.0);
        assert_eq!(fs.stream(7), None);
        fs.modify(7, 1, 1);
        fs.close(7, 4.0);
        assert!(fs.tick(60.0));
    }

    #[test]
    fn short_files_of_unlike_lifetimes_are_kept_apart() {
        let mut fs = FileStream::new(4, 60.0, 0.0);
        // History: logs live for a second, tables for fifty.
        for n in 0..10u64 {
            let at = n as f64;
            fs.open(n, path(&format!("{n}.log")), 0, at, at, at);
            fs.delete(n, at + 1.0);
        }
        for n in 10..20u64 {
            fs.open(n, path(&format!("{n}.sst")), 0, 10.0, 10.0, 10.0);
            fs.delete(n, 60.0);
        }
        let log = fs.open(100, path("100.log"), 0, 61.0, 61.0, 61.0);
        fs.modify(100, 50, 1000);
        let table = fs.open(101, path("101.sst"), 0, 61.5, 61.5, 61.5);
        assert_ne!(log, table);
        fs.modify(101, 50, 1000);
        // Both streams have a file: the next log goes to the log's.
        let next = fs.open(102, path("102.log"), 0, 61.6, 61.6, 61.6);
        assert_eq!(next, log);
    }

    /// An append-only file is closed long before it is deleted; its lifetime ends
    /// then, and counts for its type.
    #[test]
    fn lifetimes_go_on_after_closing() {
        let mut fs = FileStream::new(4, 60.0, 0.0);
        for n in 0..4 {
            fs.open(n, path(&format!("{n}.sst")), 0, 0.0, 0.0, 0.0);
            fs.close(n, 1.0);
            fs.open(10 + n, path(&format!("{n}.log")), 0, 0.0, 0.0, 0.0);
            fs.delete(10 + n, 1.0);
        }
        assert_eq!(
            fs.stream(2),
            Some(1),
            "what is written back later goes there, too"
        );
        assert!(fs.open_files().next().is_none());
        (0..4).for_each(|n| fs.delete(n, 50.0));
        fs.came_and_went(path("9.log"), 1.0);
        let sst = fs.open(30, path("30.sst"), 0, 50.0, 50.0, 50.0);
        fs.modify(30, 10, 4096);
        let log = fs.open(31, path("31.log"), 0, 50.5, 50.5, 50.5);
        fs.modify(31, 1000, 4096);
        assert_eq!((sst, log), (1, 2));
        // dif(sst, sst) is 0 and dif(sst, log) is 49/51, so that what little the
        // other table still writes does not matter.
        assert_eq!(fs.open(32, path("32.sst"), 0, 50.8, 50.8, 50.8), 1);
    }

    #[test]
    fn what_moved_is_reported_once() {
        let mut fs = FileStream::new(4, 60.0, 0.0);
        for id in 0..2 {
            fs.open(id, path(&format!("{id}.ibd")), 4096, 0.0, 0.0, 0.0);
        }
        fs.open(7, path("closed"), 4096, 0.0, 0.0, 0.0);
        fs.close(7, 1.0);
        fs.modify(0, 100, 4096);
        assert!(fs.tick(60.0));
        let mut moved = fs.take_moved();
        moved.sort_unstable();
        assert_eq!(moved, [0, 1]);
        fs.modify(0, 100, 4096);
        assert!(fs.tick(120.0));
        assert!(fs.take_moved().is_empty());
    }
}

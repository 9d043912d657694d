// SPDX-License-Identifier: GPL-2.0-only
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
//! when the mapper loses streams, its files in them are mapped anew.

pub mod divider;
pub mod kmeans;
pub mod mapper;
pub mod remapper;

use std::collections::BTreeMap;
use std::path::Path;

use mapper::Mapper;
use remapper::Remapper;

/// Files of the same folder and extension are of one type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type {
    parent: String,
    extension: String,
}

impl Type {
    pub fn of(path: &Path) -> Self {
        let text =
            |s: Option<&std::ffi::OsStr>| s.map_or(String::new(), |s| s.to_string_lossy().into_owned());
        let mut extension = text(path.extension());
        if extension.bytes().all(|b| b.is_ascii_digit()) {
            extension = "#".into();
        }
        Self {
            parent: text(path.parent().map(Path::as_os_str)),
            extension,
        }
    }
}

/// The file attribute table: a file that is open for writing.
#[derive(Clone, Debug)]
pub struct File {
    pub kind: Type,
    pub size: u64,
    pub opened: f64,
    pub created: f64,
    /// Modifications since it was opened, and since the last clustering.
    pub modifications: u64,
    pub recent: u64,
    pub stream: u8,
    /// The remapper has it.
    pub remapped: bool,
}

#[derive(Debug)]
pub struct FileStream {
    streams: u8,
    period: f64,
    next: f64,
    /// Streams of the mapper.
    d: u8,
    files: BTreeMap<u64, File>,
    mapper: Mapper,
    remapper: Remapper,
}

impl FileStream {
    /// `streams`: N, 2 and more.  `period`: T, in seconds.
    pub fn new(streams: u8, period: f64, now: f64) -> Self {
        let streams = streams.max(2);
        Self {
            streams,
            period,
            next: now + period,
            d: divider::clamp(streams / 2, streams),
            files: BTreeMap::new(),
            mapper: Mapper::default(),
            remapper: Remapper::new(0),
        }
    }

    /// A file is opened for writing: its stream.  `id` is an inode number.
    pub fn open(&mut self, id: u64, path: &Path, size: u64, now: f64) -> u8 {
        let kind = Type::of(path);
        if let Some(f) = self.files.get_mut(&id) {
            f.kind = kind;
            return f.stream;
        }
        let stream = self
            .mapper
            .choose(self.files.values(), &kind, self.d, self.period, now);
        let file = File {
            kind,
            size,
            opened: now,
            created: now,
            modifications: 0,
            recent: 0,
            stream,
            remapped: false,
        };
        self.files.insert(id, file);
        stream
    }

    /// The file was modified `count` times and is that large now.
    pub fn modify(&mut self, id: u64, count: u64, size: u64) {
        if let Some(f) = self.files.get_mut(&id) {
            f.modifications += count;
            f.recent += count;
            f.size = size;
        }
    }

    /// Nobody has the file open for writing any more.
    pub fn close(&mut self, id: u64, now: f64) {
        if let Some(f) = self.files.remove(&id) {
            self.mapper.closed(f.kind, now - f.opened);
        }
    }

    pub fn delete(&mut self, id: u64, now: f64) {
        if let Some(f) = self.files.remove(&id) {
            self.mapper.closed(f.kind.clone(), now - f.opened);
            self.mapper.deleted(f.kind, now - f.created);
        }
    }

    pub fn stream(&self, id: u64) -> Option<u8> {
        self.files.get(&id).map(|f| f.stream)
    }

    /// Streams of the mapper: 1 to this.
    pub fn mapper_streams(&self) -> u8 {
        self.d
    }

    /// Does what is due; to be called at least every T seconds.  Says whether a
    /// period has ended, after which any file may have another stream.
    pub fn tick(&mut self, now: f64) -> bool {
        // A file that is open for T seconds is grouped at once.
        for f in self.files.values_mut() {
            if !f.remapped && now - f.opened >= self.period {
                f.remapped = true;
                if let Some(stream) = self.remapper.nearest(remapper::usm(f)) {
                    f.stream = self.d + stream;
                }
            }
        }
        if now < self.next {
            return false;
        }
        self.next = now + self.period;
        self.divide(now);
        let k = self.streams - self.d;
        let mut files: Vec<&mut File> = self.files.values_mut().filter(|f| f.remapped).collect();
        self.remapper.regroup(&mut files, k, self.d);
        for f in self.files.values_mut() {
            f.recent = 0;
        }
        true
    }

    fn divide(&mut self, now: f64) {
        self.d = divider::streams_of_mapper(self.files.values(), self.streams);
        let lost: Vec<u64> = self
            .files
            .iter()
            .filter(|(_, f)| !f.remapped && f.stream > self.d)
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            let Some(mut f) = self.files.remove(&id) else {
                continue;
            };
            f.stream = self
                .mapper
                .choose(self.files.values(), &f.kind, self.d, self.period, now);
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
            let stream = fs.open(id, path(&format!("db/{id}.wt")), 1 << 20, 0.0);
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

    #[test]
    fn a_file_that_is_gone_has_no_stream() {
        let mut fs = FileStream::new(4, 60.0, 0.0);
        fs.open(7, path("a.log"), 0, 0.0);
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
            fs.open(n, path(&format!("{n}.log")), 0, at);
            fs.delete(n, at + 1.0);
        }
        for n in 10..20u64 {
            fs.open(n, path(&format!("{n}.sst")), 0, 10.0);
            fs.delete(n, 60.0);
        }
        let log = fs.open(100, path("100.log"), 0, 61.0);
        fs.modify(100, 50, 1000);
        let table = fs.open(101, path("101.sst"), 0, 61.5);
        assert_ne!(log, table);
        fs.modify(101, 50, 1000);
        // Both streams have a file: the next log goes to the log's.
        let next = fs.open(102, path("102.log"), 0, 61.6);
        assert_eq!(next, log);
    }
}

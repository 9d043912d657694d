// SPDX-License-Identifier: GPL-2.0-or-later
//! The extent table and its upload.

use std::fmt::Write as _;
use std::ops::Range;

use crate::class::Class;
use crate::device::{MessageError, Target};
use crate::reply::{self, Begun, Commit};

/// Bytes of text in a message.  Many records share one, because each costs a
/// system call and an allocation in the kernel.
pub(crate) const MESSAGE_LIMIT: usize = 32 * 1024;

const SECTOR: u64 = 512;

/// A range of the target, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectorRange {
    pub start: u64,
    pub length: u64,
}

impl SectorRange {
    pub const fn end(&self) -> u64 {
        self.start + self.length
    }

    /// The sectors of both; `None` where there are none.
    pub fn common(&self, other: &Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let length = self.end().min(other.end()).checked_sub(start)?;
        (length > 0).then_some(Self { start, length })
    }
}

/// `length` sectors of a file from `offset` on lie at `start` of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub offset: u64,
    pub start: u64,
    pub length: u64,
}

impl Extent {
    pub const fn new(offset: u64, start: u64, length: u64) -> Self {
        Self {
            offset,
            start,
            length,
        }
    }

    pub const fn at(&self) -> SectorRange {
        SectorRange {
            start: self.start,
            length: self.length,
        }
    }

    /// The bytes of the file.
    pub const fn bytes(&self) -> Range<u64> {
        self.offset * SECTOR..(self.offset + self.length) * SECTOR
    }

    /// The part that has these bytes, of which it has all, in whole sectors.
    pub fn part(&self, bytes: Range<u64>) -> Self {
        let (from, to) = (bytes.start / SECTOR, bytes.end / SECTOR);
        Self::new(from, self.start + (from - self.offset), to - from)
    }

    /// The part that lies in these sectors of the target.
    pub fn within(&self, at: &SectorRange) -> Option<Self> {
        let common = self.at().common(at)?;
        Some(Self::new(
            self.offset + (common.start - self.start),
            common.start,
            common.length,
        ))
    }

    /// Where the file would begin, if all of it lay like this.
    pub const fn base(&self) -> u64 {
        self.start.wrapping_sub(self.offset)
    }

    /// Whether `next` goes on where this one ends, in the file and on the
    /// target.
    pub fn joins(&self, next: &Self) -> bool {
        self.offset + self.length == next.offset && self.start + self.length == next.start
    }
}

/// What a file's writes are stamped with, in place of what its class has; 0: that
/// is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStamp {
    pub stream: u8,
    /// The kernel's `enum rw_hint`.
    pub hint: u8,
}

/// A file of the table.
#[derive(Clone, Copy, Debug)]
pub struct FileRecord<'a> {
    pub id: u64,
    pub class: Class,
    /// Bytes.
    pub boundary: Option<u64>,
    pub stamp: StreamStamp,
    pub extents: &'a [Extent],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadKind {
    Full,
    /// Of the table of this generation, and no other.
    Update(u64),
}

/// An upload in progress.  Dropped before [`Upload::commit`], it is abandoned.
///
/// It has a number, by which the kernel separates it from those of others: one that
/// began later ends it.
pub struct Upload<'t, T: Target + ?Sized> {
    target: &'t T,
    number: u64,
    text: String,
    limit: usize,
    /// The kernel has no such upload any more.
    ended: bool,
}

impl<'t, T: Target + ?Sized> Upload<'t, T> {
    pub fn begin(target: &'t T, kind: UploadKind) -> Result<Self, MessageError> {
        Self::with_limit(target, kind, MESSAGE_LIMIT)
    }

    fn with_limit(target: &'t T, kind: UploadKind, limit: usize) -> Result<Self, MessageError> {
        let sectors = target.sectors();
        let begin = match kind {
            UploadKind::Full => format!("begin full {sectors}"),
            UploadKind::Update(generation) => format!("begin update {sectors} {generation}"),
        };
        let Begun { upload: number } = reply::named("begin", &target.message(&begin)?)?;
        Ok(Self {
            target,
            number,
            text: String::with_capacity(limit),
            limit,
            ended: false,
        })
    }

    /// Adds or replaces a file.
    pub fn file(&mut self, record: &FileRecord<'_>) -> Result<(), MessageError> {
        let mut words = format!("file {} {} ", record.id, record.class);
        match record.boundary {
            Some(bytes) => write!(words, "{bytes}").expect("strings grow"),
            None => words.push('-'),
        }
        if record.stamp != StreamStamp::default() {
            let StreamStamp { stream, hint } = record.stamp;
            write!(words, " stamp {stream} {hint}").expect("strings grow");
        }
        self.push(&words, "")?;
        for e in record.extents {
            words.clear();
            write!(words, "{}:{}:{}", e.offset, e.start, e.length).expect("strings grow");
            self.push(&words, "extents ")?;
        }
        Ok(())
    }

    pub fn drop_file(&mut self, id: u64) -> Result<(), MessageError> {
        self.push(&format!("drop {id}"), "")
    }

    pub fn commit(mut self) -> Result<Commit, MessageError> {
        self.flush()?;
        let reply = self.send(&format!("commit {}", self.number))?;
        self.ended = true;
        Ok(reply::named("commit", &reply)?)
    }

    /// Appends words; when they open a message, `opening` comes before them.
    fn push(&mut self, words: &str, opening: &str) -> Result<(), MessageError> {
        if !self.text.is_empty() && self.text.len() + 1 + words.len() > self.limit {
            self.flush()?;
        }
        if self.text.is_empty() {
            write!(self.text, "upload {} {opening}", self.number).expect("strings grow");
        } else {
            self.text.push(' ');
        }
        self.text.push_str(words);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MessageError> {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.send(&text)?;
            self.text = text;
            self.text.clear();
        }
        Ok(())
    }

    /// What is refused has ended the upload, or it had ended before.
    fn send(&mut self, text: &str) -> Result<String, MessageError> {
        let reply = self.target.message(text);
        self.ended = matches!(reply, Err(MessageError::Refused(_) | MessageError::Stale(_)));
        reply
    }
}

impl<T: Target + ?Sized> Drop for Upload<'_, T> {
    fn drop(&mut self) {
        if !self.ended {
            // The reason is with the error that led here.
            let _ = self.target.message(&format!("abort {}", self.number));
        }
    }
}

/// Gives sectors that several files claim to one of them: the one with the
/// earlier extent, and the first file where both begin together.  Returns the
/// indices of the files that lost something.
///
/// Two snapshots of extents that were taken at different instants can overlap,
/// and so can files that share extents (reflinks); the kernel takes neither.
pub fn resolve_overlaps(files: &mut [&mut Box<[Extent]>]) -> Vec<usize> {
    // Where each begins, its file, and its number in it.
    let mut claims: Vec<(u64, u32, u32)> = Vec::with_capacity(files.iter().map(|f| f.len()).sum());
    for (file, extents) in (0..).zip(files.iter()) {
        claims.extend((0..).zip(extents.iter()).map(|(n, e)| (e.start, file, n)));
    }
    claims.sort_unstable();
    let mut losers = Vec::new();
    let mut end = 0;
    for (_, file, n) in claims {
        let file = file as usize;
        let e = &mut files[file][n as usize];
        let claimed = e.start + e.length;
        if e.start < end {
            let lost = (end - e.start).min(e.length);
            *e = Extent::new(e.offset + lost, e.start + lost, e.length - lost);
            losers.push(file);
        }
        end = end.max(claimed);
    }
    losers.sort_unstable();
    losers.dedup();
    for &file in &losers {
        let kept: Vec<Extent> = files[file].iter().copied().filter(|e| e.length > 0).collect();
        *files[file] = kept.into();
    }
    losers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    use crate::reply::Status;

    /// Writes down messages, and answers those that need it.
    pub(super) struct Recorder {
        sectors: u64,
        sent: RefCell<Vec<String>>,
        refuse: RefCell<Option<String>>,
    }

    impl Recorder {
        pub(super) fn new(sectors: u64) -> Self {
            Self {
                sectors,
                sent: RefCell::default(),
                refuse: RefCell::default(),
            }
        }

        /// Messages that begin with this are refused from now on.
        pub(super) fn refuse(&self, start: &str) {
            *self.refuse.borrow_mut() = Some(start.to_owned());
        }

        pub(super) fn sent(&self) -> Vec<String> {
            self.sent.borrow().clone()
        }
    }

    impl Target for Recorder {
        fn sectors(&self) -> u64 {
            self.sectors
        }

        fn message(&self, text: &str) -> Result<String, MessageError> {
            self.sent.borrow_mut().push(text.to_owned());
            match &*self.refuse.borrow() {
                Some(start) if text.starts_with(start.as_str()) => {
                    Err(MessageError::Refused(format!("{start}: refused")))
                }
                _ if text.starts_with("begin") => Ok("upload 1".into()),
                _ if text == "commit 1" => Ok("generation 1 files 1 extents 1".into()),
                _ => Ok(String::new()),
            }
        }

        fn status(&self) -> Result<Status, MessageError> {
            Ok(Status::default())
        }
    }

    fn record(id: u64, boundary: Option<u64>, extents: &[Extent]) -> FileRecord<'_> {
        FileRecord {
            id,
            class: Class::Collection,
            boundary,
            stamp: StreamStamp::default(),
            extents,
        }
    }

    #[test]
    fn the_exact_text_of_an_upload() {
        let target = Recorder::new(2_097_152);
        let mut up = Upload::begin(&target, UploadKind::Full).unwrap();
        up.file(&record(
            131,
            Some(8192),
            &[Extent::new(0, 2048, 16), Extent::new(16, 4096, 8)],
        ))
        .unwrap();
        up.file(&FileRecord {
            class: Class::Journal,
            stamp: StreamStamp { stream: 5, hint: 2 },
            ..record(132, None, &[])
        })
        .unwrap();
        up.commit().unwrap();
        assert_eq!(
            target.sent(),
            [
                "begin full 2097152",
                "upload 1 file 131 collection 8192 0:2048:16 16:4096:8 file 132 journal - stamp 5 2",
                "commit 1"
            ]
        );
    }

    #[test]
    fn a_long_file_goes_on_in_the_next_message() {
        let target = Recorder::new(1000);
        let mut up = Upload::with_limit(&target, UploadKind::Update(3), 39).unwrap();
        up.drop_file(5).unwrap();
        up.file(&record(
            1,
            None,
            &[
                Extent::new(0, 100, 8),
                Extent::new(8, 200, 8),
                Extent::new(16, 300, 8),
                Extent::new(24, 400, 8),
            ],
        ))
        .unwrap();
        up.commit().unwrap();
        assert_eq!(
            target.sent(),
            [
                "begin update 1000 3",
                "upload 1 drop 5 file 1 collection -",
                "upload 1 extents 0:100:8 8:200:8",
                "upload 1 extents 16:300:8 24:400:8",
                "commit 1"
            ]
        );
    }

    #[test]
    fn messages_stay_below_the_limit() {
        let target = Recorder::new(1 << 40);
        let extents: Vec<Extent> = (0..20_000).map(|n| Extent::new(n * 8, n * 16, 8)).collect();
        let mut up = Upload::begin(&target, UploadKind::Full).unwrap();
        for id in 0..3 {
            up.file(&record(id, Some(4096), &extents)).unwrap();
        }
        up.commit().unwrap();
        let sent = target.sent();
        assert!(sent.iter().all(|m| m.len() <= MESSAGE_LIMIT));
        assert!(sent.len() > 20);
        let words: usize = sent
            .iter()
            .map(|m| m.split(' ').filter(|w| w.contains(':')).count())
            .sum();
        assert_eq!(words, 60_000);
    }

    #[test]
    fn an_upload_that_is_given_up_is_abandoned() {
        let target = Recorder::new(1000);
        let mut up = Upload::begin(&target, UploadKind::Full).unwrap();
        up.file(&record(1, None, &[])).unwrap();
        drop(up);
        assert_eq!(target.sent(), ["begin full 1000", "abort 1"]);
    }

    /// The kernel has ended it, and who has begun another one is not disturbed.
    #[test]
    fn an_upload_that_was_refused_is_over() {
        for start in ["upload", "commit"] {
            let target = Recorder::new(1000);
            target.refuse(start);
            let mut up = Upload::begin(&target, UploadKind::Full).unwrap();
            up.file(&record(1, None, &[])).unwrap();
            assert!(up.commit().is_err());
            assert!(target.sent().last().unwrap().starts_with(start));
        }
    }

    #[test]
    fn overlaps_are_given_to_one_file() {
        let mut a: Box<[Extent]> = [Extent::new(0, 100, 50), Extent::new(50, 500, 10)].into();
        let mut b: Box<[Extent]> = [Extent::new(0, 120, 10), Extent::new(10, 140, 20)].into();
        let mut c: Box<[Extent]> = [Extent::new(0, 500, 10), Extent::new(10, 700, 1)].into();
        let losers = resolve_overlaps(&mut [&mut a, &mut b, &mut c]);
        assert_eq!(losers, [1, 2]);
        assert_eq!(a.len(), 2);
        assert_eq!(*b, [Extent::new(20, 150, 10)]);
        assert_eq!(*c, [Extent::new(10, 700, 1)]);
        assert!(resolve_overlaps(&mut [&mut a, &mut b, &mut c]).is_empty());
    }
}

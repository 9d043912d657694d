// SPDX-License-Identifier: GPL-2.0-or-later
//! Events and lists of free blocks in few bytes: a recording of a large database has
//! hundreds of millions of them, and all are needed for each policy that is played.
//!
//! Numbers are those of [`varint`](database::wiredtiger::varint).  An event is a byte that says what
//! it is, the microseconds since the one before, and what it has: a range as the signed
//! difference to the end of the one before, with the sign in the lowest bit, and its length,
//! both in pages where they are whole ones.

use std::ops::Range;

use super::{Event, FileNo, What};
use crate::flash::PAGE;
use database::wiredtiger::avail::FreeList;
use database::wiredtiger::varint::{put, Numbers};

const NAME: u8 = 0;
const WRITE: u8 = 1;
const DISCARD: u8 = 2;
const LOAD_END: u8 = 3;
const CHECKPOINT: u8 = 4;
const DELETE: u8 = 5;
const WINDOW: u8 = 6;
const LIST: u8 = 7;
const LOOKED: u8 = 8;
const LOST: u8 = 9;
const STREAM: u8 = 10;
const BEGINS: u8 = 11;
/// Of a write or discard: in pages.
const PAGES: u8 = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    bytes: Vec<u8>,
    us: u64,
    /// Where the last range ended.
    end: u64,
}

impl Events {
    /// Times go up.
    pub fn push(&mut self, e: &Event) {
        let since = e.us - std::mem::replace(&mut self.us, e.us);
        let mut event = |kind: u8, numbers: &[u64]| {
            self.bytes.push(kind);
            put(&mut self.bytes, since);
            numbers.iter().for_each(|n| put(&mut self.bytes, *n));
        };
        match e.what {
            What::Name { file, name } => event(NAME, &[file.into(), name.into()]),
            What::Write { file, offset, length } => self.range(WRITE, since, file, offset, length),
            What::Discard { file, offset, length } => self.range(DISCARD, since, file, offset, length),
            What::Stream { stream } => event(STREAM, &[stream.into()]),
            What::LoadEnd => event(LOAD_END, &[]),
            What::Begins => event(BEGINS, &[]),
            What::Checkpoint => event(CHECKPOINT, &[]),
            What::Delete { file } => event(DELETE, &[file.into()]),
            What::Window => event(WINDOW, &[]),
            What::List { file, list } => event(LIST, &[file.into(), list.into()]),
            What::Looked => event(LOOKED, &[]),
            What::Lost => event(LOST, &[]),
        }
    }

    fn range(&mut self, kind: u8, since: u64, file: FileNo, offset: u64, length: u64) {
        let before = std::mem::replace(&mut self.end, offset + length);
        let whole = (offset | length | before) % PAGE == 0;
        let (kind, unit) = if whole { (kind | PAGES, PAGE) } else { (kind, 1) };
        let distance = offset.abs_diff(before) / unit;
        self.bytes.push(kind);
        for n in [
            since,
            file.into(),
            (distance << 1) | u64::from(offset < before),
            length / unit,
        ] {
            put(&mut self.bytes, n);
        }
    }

    /// Bytes of memory that are in use.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn iter(&self) -> Iter<'_> {
        Iter {
            numbers: Numbers::of(&self.bytes),
            us: 0,
            end: 0,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Iter<'a> {
    numbers: Numbers<'a>,
    us: u64,
    end: u64,
}

impl Iter<'_> {
    fn range(&mut self, kind: u8) -> Option<(FileNo, u64, u64)> {
        let unit = if kind & PAGES > 0 { PAGE } else { 1 };
        let (file, from, length) = (self.file()?, self.numbers.next()?, self.numbers.next()?);
        let distance = (from >> 1) * unit;
        let offset = match from & 1 {
            0 => self.end + distance,
            _ => self.end - distance,
        };
        let length = length * unit;
        self.end = offset + length;
        Some((file, offset, length))
    }

    fn file(&mut self) -> Option<u32> {
        Some(self.numbers.next()? as u32)
    }
}

impl Iterator for Iter<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let kind = self.numbers.byte()?;
        self.us += self.numbers.next()?;
        let what = match kind & !PAGES {
            WRITE => {
                let (file, offset, length) = self.range(kind)?;
                What::Write { file, offset, length }
            }
            DISCARD => {
                let (file, offset, length) = self.range(kind)?;
                What::Discard { file, offset, length }
            }
            NAME => What::Name {
                file: self.file()?,
                name: self.file()?,
            },
            LIST => What::List {
                file: self.file()?,
                list: self.file()?,
            },
            DELETE => What::Delete { file: self.file()? },
            STREAM => What::Stream {
                stream: self.numbers.next()? as u8,
            },
            LOAD_END => What::LoadEnd,
            BEGINS => What::Begins,
            CHECKPOINT => What::Checkpoint,
            WINDOW => What::Window,
            LOOKED => What::Looked,
            _ => What::Lost,
        };
        Some(Event { us: self.us, what })
    }
}

/// Runs of pages that are discarded: some after each list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discards(Vec<u8>);

impl Discards {
    /// Those of the next list, in ascending order.
    pub fn push(&mut self, runs: &[Range<u64>]) {
        put(&mut self.0, runs.len() as u64);
        let mut at = 0;
        for run in runs {
            put(&mut self.0, run.start - at);
            put(&mut self.0, run.end - run.start);
            at = run.end;
        }
    }
}

/// Events, and after each list what is discarded then.
#[derive(Clone, Debug)]
pub struct WithDiscards<'a> {
    events: Iter<'a>,
    runs: Numbers<'a>,
    /// Of the last list: how many runs there still are, and where the last one ended.
    left: u64,
    us: u64,
    file: FileNo,
    at: u64,
}

impl<'a> WithDiscards<'a> {
    pub fn new(events: &'a Events, discards: &'a Discards) -> Self {
        Self {
            events: events.iter(),
            runs: Numbers::of(&discards.0),
            left: 0,
            us: 0,
            file: 0,
            at: 0,
        }
    }

    fn discard(&mut self) -> Option<Event> {
        self.left -= 1;
        let start = self.at + self.runs.next()?;
        let length = self.runs.next()?;
        self.at = start + length;
        let what = What::Discard {
            file: self.file,
            offset: start * PAGE,
            length: length * PAGE,
        };
        Some(Event { us: self.us, what })
    }
}

impl Iterator for WithDiscards<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        if self.left > 0 {
            return self.discard();
        }
        let e = self.events.next()?;
        if let What::List { file, .. } = e.what {
            self.left = self.runs.next().unwrap_or(0);
            (self.us, self.file, self.at) = (e.us, file, 0);
        }
        Some(e)
    }
}

/// Lists of free blocks, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Lists {
    /// The number that the list has.  Whose it was the events say.
    pub fn push(&mut self, list: &FreeList) -> u32 {
        let number = self.starts.len() as u32;
        self.starts.push(self.bytes.len());
        let whole = list.extents.iter().all(|e| (e.start | e.end) % PAGE == 0);
        let unit = if whole { PAGE } else { 1 };
        put(&mut self.bytes, list.file_size);
        put(&mut self.bytes, unit);
        put(&mut self.bytes, list.extents.len() as u64);
        let mut at = 0;
        for e in &list.extents {
            put(&mut self.bytes, (e.start - at) / unit);
            put(&mut self.bytes, (e.end - e.start) / unit);
            at = e.end;
        }
        number
    }

    pub fn get(&self, number: u32) -> FreeList {
        let mut numbers = Numbers::of(&self.bytes[self.starts[number as usize]..]);
        let mut next = || numbers.next().unwrap_or(0);
        let (file_size, unit, count) = (next(), next(), next());
        let mut at = 0;
        let mut extent = || {
            let start = at + next() * unit;
            at = start + next() * unit;
            start..at
        };
        FreeList {
            file_size,
            extents: (0..count).map(|_| extent()).collect(),
            ..FreeList::default()
        }
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes of memory that are in use.
    pub fn bytes(&self) -> u64 {
        (self.bytes.len() + size_of_val(self.starts.as_slice())) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(all: &[Event]) -> Events {
        let mut kept = Events::default();
        all.iter().for_each(|e| kept.push(e));
        kept
    }

    fn event() -> impl Strategy<Value = Event> {
        let range = (0..u32::MAX, 0..1u64 << 43, 1..1u64 << 43);
        let pages = (0..9u32, 0..1u64 << 31, 1..1u64 << 31);
        let what = prop_oneof![
            range
                .clone()
                .prop_map(|(file, offset, length)| What::Write { file, offset, length }),
            range.prop_map(|(file, offset, length)| What::Discard { file, offset, length }),
            pages.clone().prop_map(|(file, at, n)| What::Write {
                file,
                offset: at * PAGE,
                length: n * PAGE
            }),
            pages.prop_map(|(file, at, n)| What::Discard {
                file,
                offset: at * PAGE,
                length: n * PAGE
            }),
            any::<(u32, u32)>().prop_map(|(file, name)| What::Name { file, name }),
            any::<(u32, u32)>().prop_map(|(file, list)| What::List { file, list }),
            any::<u32>().prop_map(|file| What::Delete { file }),
            any::<u8>().prop_map(|stream| What::Stream { stream }),
            Just(What::LoadEnd),
            Just(What::Begins),
            Just(What::Checkpoint),
            Just(What::Window),
            Just(What::Looked),
            Just(What::Lost),
        ];
        (0..1u64 << 40, what).prop_map(|(us, what)| Event { us, what })
    }

    proptest! {
        #[test]
        fn events_are_what_they_were(mut events in prop::collection::vec(event(), 0..40)) {
            events.sort_by_key(|e| e.us);
            let kept = kept(&events);
            prop_assert!(kept.iter().eq(events.iter().copied()));
            prop_assert!(WithDiscards::new(&kept, &Discards::default()).eq(events));
        }
    }

    #[test]
    fn discards_come_after_their_lists() {
        let at = |us, what| Event { us, what };
        let list = |file, list| What::List { file, list };
        let discard = |file, from: u64, to: u64| What::Discard {
            file,
            offset: from * PAGE,
            length: (to - from) * PAGE,
        };
        let events = kept(&[
            at(1, list(7, 0)),
            at(2, What::Looked),
            at(3, list(8, 1)),
            at(3, list(7, 2)),
            at(4, What::Checkpoint),
        ]);
        let mut discards = Discards::default();
        discards.push(&[]);
        discards.push(&[3..5, 5..6, 1000..1001]);
        discards.push(std::slice::from_ref(&(0..1)));
        let all: Vec<Event> = WithDiscards::new(&events, &discards).collect();
        assert_eq!(
            all,
            [
                at(1, list(7, 0)),
                at(2, What::Looked),
                at(3, list(8, 1)),
                at(3, discard(8, 3, 5)),
                at(3, discard(8, 5, 6)),
                at(3, discard(8, 1000, 1001)),
                at(3, list(7, 2)),
                at(3, discard(7, 0, 1)),
                at(4, What::Checkpoint),
            ]
        );
    }

    #[test]
    fn lists_are_what_they_were() {
        let list = |file_size, extents: &[Range<u64>]| FreeList {
            file_size,
            extents: extents.to_vec(),
            ..FreeList::default()
        };
        let all = [
            list(0, &[]),
            list(1 << 40, &[0..4096, 8192..1 << 39, 1 << 39..1 << 40]),
            list(4096, &[512..1024, 1024..1025]),
            list(8192, &[0..4096, 4096..4608]),
        ];
        let mut lists = Lists::default();
        assert!(lists.is_empty());
        let numbers = all.each_ref().map(|l| lists.push(l));
        assert_eq!((numbers, lists.len()), ([0, 1, 2, 3], 4));
        for (n, list) in (0..).zip(all) {
            assert_eq!(lists.get(n), list);
        }
    }

    /// Writes of 24 KiB at random in a file of 16 GiB.
    #[test]
    fn an_event_takes_few_bytes() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut events = Events::default();
        for n in 0..1000 {
            let what = What::Write {
                file: 3,
                offset: random.u64(..1 << 22) * PAGE,
                length: 6 * PAGE,
            };
            events.push(&Event { us: n * 500, what });
        }
        assert!(events.bytes() < 10 * 1000, "{}", events.bytes());
    }
}

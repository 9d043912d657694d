// SPDX-License-Identifier: GPL-2.0-or-later
//! Events and lists of free blocks in few bytes: a recording of a large database has
//! hundreds of millions of them, and all are needed for each policy that is played.
//!
//! Numbers are those of [`varint`](database::wiredtiger::varint).  An event is a byte that says what
//! it is, the microseconds since the one before, and what it has: a range as the signed
//! difference to the end of the one before, with the sign in the lowest bit, and its length,
//! both in pages where they are whole ones.

use std::ops::Range;
use std::vec;

use super::{Event, FileNo, What};
use crate::flash::PAGE;
use database::wiredtiger::avail::FreeList;
use database::wiredtiger::varint::{put, Numbers};

const NAME: u8 = 0;
const WRITE: u8 = 1;
const DISCARD: u8 = 2;
const DELETE: u8 = 3;
const LIST: u8 = 4;
const STREAM: u8 = 5;
/// What has no numbers: its place in [`MARKS`] is added.
const MARK: u8 = 6;
const MARKS: [What; 6] = [
    What::LoadEnd,
    What::Begins,
    What::Checkpoint,
    What::Window,
    What::Looked,
    What::Lost,
];
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
        match e.what {
            What::Name { file, name } => self.put(NAME, &[since, file.into(), name.into()]),
            What::Write { file, offset, length } => self.range(WRITE, since, file, offset, length),
            What::Discard { file, offset, length } => self.range(DISCARD, since, file, offset, length),
            What::Delete { file } => self.put(DELETE, &[since, file.into()]),
            What::List { file, list } => self.put(LIST, &[since, file.into(), list.into()]),
            What::Stream { stream } => self.put(STREAM, &[since, stream.into()]),
            mark => {
                let place = MARKS.iter().position(|m| *m == mark);
                self.put(MARK + place.expect("all others have numbers") as u8, &[since]);
            }
        }
    }

    fn range(&mut self, kind: u8, since: u64, file: FileNo, offset: u64, length: u64) {
        let before = std::mem::replace(&mut self.end, offset + length);
        let whole = (offset | length | before) % PAGE == 0;
        let (kind, unit) = if whole { (kind | PAGES, PAGE) } else { (kind, 1) };
        let from = ((offset.abs_diff(before) / unit) << 1) | u64::from(offset < before);
        self.put(kind, &[since, file.into(), from, length / unit]);
    }

    fn put(&mut self, kind: u8, numbers: &[u64]) {
        self.bytes.push(kind);
        numbers.iter().for_each(|n| put(&mut self.bytes, *n));
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
            discards: Numbers::of(&[]),
            file: 0,
            runs: Vec::new().into_iter(),
        }
    }

    /// The same, and after each list what is discarded then: the next one of these.
    pub(super) fn with_discards<'a>(&'a self, discards: &'a Lists) -> Iter<'a> {
        Iter {
            discards: Numbers::of(&discards.bytes),
            ..self.iter()
        }
    }
}

#[derive(Clone, Debug)]
pub struct Iter<'a> {
    numbers: Numbers<'a>,
    us: u64,
    end: u64,
    discards: Numbers<'a>,
    /// Of the last list: its file, and what is still to be discarded.
    file: FileNo,
    runs: vec::IntoIter<Range<u64>>,
}

impl Iter<'_> {
    fn range(&mut self, kind: u8) -> Option<(FileNo, u64, u64)> {
        let unit = if kind & PAGES > 0 { PAGE } else { 1 };
        let (file, from, length) = (self.small()?, self.numbers.next()?, self.numbers.next()?);
        let distance = (from >> 1) * unit;
        let offset = match from & 1 {
            0 => self.end + distance,
            _ => self.end - distance,
        };
        let length = length * unit;
        self.end = offset + length;
        Some((file, offset, length))
    }

    fn small(&mut self) -> Option<u32> {
        Some(self.numbers.next()? as u32)
    }
}

impl Iterator for Iter<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        if let Some(Range { start, end }) = self.runs.next() {
            let (file, offset, length) = (self.file, start, end - start);
            let what = What::Discard { file, offset, length };
            return Some(Event { us: self.us, what });
        }
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
                file: self.small()?,
                name: self.small()?,
            },
            LIST => {
                self.file = self.small()?;
                self.runs = next_list(&mut self.discards).extents.into_iter();
                What::List {
                    file: self.file,
                    list: self.small()?,
                }
            }
            DELETE => What::Delete { file: self.small()? },
            STREAM => What::Stream {
                stream: self.small()? as u8,
            },
            mark => MARKS[usize::from(mark - MARK)],
        };
        Some(Event { us: self.us, what })
    }
}

/// An empty one at the end.
fn next_list(numbers: &mut Numbers) -> FreeList {
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
        next_list(&mut Numbers::of(&self.bytes[self.starts[number as usize]..]))
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
            prop_assert!(kept.with_discards(&Lists::default()).eq(events));
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
        let mut discards = Lists::default();
        for pages in [&[][..], &[3..5, 5..6, 1000..1001], std::slice::from_ref(&(0..1))] {
            discards.push(&FreeList {
                extents: pages
                    .iter()
                    .map(|r: &Range<u64>| r.start * PAGE..r.end * PAGE)
                    .collect(),
                ..FreeList::default()
            });
        }
        let all: Vec<Event> = events.with_discards(&discards).collect();
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

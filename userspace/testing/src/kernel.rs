// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernels in memory, for tests: one that writes down what it is sent, and one
//! that keeps a table as the module does and checks every upload.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use dm::class::Class;
use dm::device::{MessageError, Target};
use dm::mode::Mode;
use dm::reply::{Discard, Status, StreamCount};
use dm::table::{Extent, StreamStamp};
use policies::granule::Granule;

/// A status line with all that it must have.  What a test is about follows: of two values the
/// last counts.
pub const STATUS: &str = "version 1 policy dsm layout dsm groups 3 device_streams 8 source queue \
    streams_used 8 files 2 regions 3 extents 4 generation 1 windows 2 window_ms 41250 \
    unmapped_writes 2 unmapped_sectors 2048 split 0 foreign 0";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    pub class: Class,
    pub boundary: Option<u64>,
    pub stamp: StreamStamp,
    pub extents: Vec<Extent>,
}

type Files = BTreeMap<u64, ModelFile>;

/// An upload in progress.
#[derive(Default)]
struct Staged {
    number: u64,
    files: Files,
    /// The file that extents belong to.
    last: Option<u64>,
    named: BTreeSet<u64>,
}

/// Sectors in what has a bit.
const PAGE: u64 = 8;

/// Windows of which the writes are known.
const WINDOWS: usize = 4;

/// Which pages were written in the newest windows, and what is to be discarded.
#[derive(Default)]
struct Writes {
    on: bool,
    /// It is on, and discards nothing.
    watch: bool,
    /// What is below has refused a discard.
    unsupported: bool,
    window: u64,
    /// The oldest window since which every write is known, 0: none.
    valid: u64,
    /// The newest last.
    written: VecDeque<BTreeSet<u64>>,
    /// Pages whose writes nobody follows.
    missing: BTreeSet<u64>,
    /// The window that a page goes by, and the page.
    queue: VecDeque<(u64, u64)>,
    discarded: u64,
    refused: u64,
    short: u64,
}

/// `<since> <start>:<length>...`, again and again, in sectors, as whole pages.
fn ranges(words: &[&str]) -> Result<Vec<(u64, Range<u64>)>, String> {
    let (mut all, mut since) = (Vec::<(u64, Range<u64>)>::new(), None);
    for word in words {
        let Some((start, length)) = word.split_once(':') else {
            since = Some(word.parse().map_err(|_| "bad window")?);
            continue;
        };
        let since = since.ok_or("a range without a window")?;
        let start: u64 = start.parse().map_err(|_| "bad start")?;
        let length: u64 = length.parse().map_err(|_| "bad length")?;
        all.push((since, start.div_ceil(PAGE)..(start + length) / PAGE));
    }
    all.sort_unstable_by_key(|(_, pages)| pages.start);
    match all.windows(2).find(|w| w[0].1.end > w[1].1.start) {
        Some(w) => Err(format!("ranges overlap at sector {}", w[1].1.start * PAGE)),
        None => Ok(all),
    }
}

/// Of a drive that takes so many pages at a time.
fn granule(pages: u64) -> Granule {
    let bytes = u32::try_from(pages * PAGE * 512).expect("no drive takes so much");
    Granule::new(512, bytes, bytes)
}

impl Writes {
    fn begin_window(&mut self) -> String {
        self.window += 1;
        self.written.push_back(BTreeSet::new());
        if self.written.len() > WINDOWS {
            self.written.pop_front();
        }
        self.valid = match self.valid {
            0 => self.window,
            valid => valid.max(self.window.saturating_sub(WINDOWS as u64 - 1)),
        };
        format!("window {}", self.window)
    }

    /// What a message is about, if its windows are known.
    fn known(&self, words: &[&str]) -> Result<Vec<(u64, Range<u64>)>, MessageError> {
        let all = ranges(&words[1..]).or_else(refuse)?;
        let is_known = |since: u64| self.valid > 0 && since >= self.valid && since <= self.window;
        match all.iter().find(|(since, _)| !is_known(*since)) {
            Some((since, _)) => Err(MessageError::Stale(format!(
                "{}: Window {since} is not valid",
                words[0]
            ))),
            None => Ok(all),
        }
    }

    fn is_written(&self, since: u64, page: u64) -> bool {
        let windows = (self.window + 1 - since) as usize;
        self.written.iter().rev().take(windows).any(|w| w.contains(&page))
    }

    fn discard(&mut self, words: &[&str]) -> Result<String, MessageError> {
        let ranges = self.known(words)?;
        for (since, pages) in ranges.iter().cloned() {
            self.queue.extend(pages.map(|page| (since, page)));
        }
        Ok(format!("queued {}", ranges.len()))
    }

    /// A reply has room for so many ranges.
    fn answer(&self, words: &[&str], room: usize) -> Result<String, MessageError> {
        let (mut count, mut listed) = (0, Vec::<(char, Range<u64>)>::new());
        let pages = self.known(words)?.into_iter();
        for (since, page) in pages.flat_map(|(since, pages)| pages.map(move |p| (since, p))) {
            let sign = match (self.is_written(since, page), self.missing.contains(&page)) {
                (true, _) => {
                    count += 1;
                    continue;
                }
                (false, true) => '?',
                (false, false) => '-',
            };
            match listed.last_mut() {
                Some((s, last)) if *s == sign && last.end == page => last.end += 1,
                _ => listed.push((sign, page..page + 1)),
            }
        }
        if listed.len() > room {
            return Ok("written".to_owned());
        }
        let word = |(sign, r): &(char, Range<u64>)| {
            format!(" {sign}{}:{}", r.start * PAGE, (r.end - r.start) * PAGE)
        };
        let words: String = listed.iter().map(word).collect();
        Ok(format!("written{words} {count}"))
    }

    fn switch(&mut self, to: &str) {
        let to = Mode::from(to);
        let on = to != Mode::Off;
        self.refuse_queued();
        if !(self.on && on) || (to == Mode::On && self.unsupported) {
            *self = Self {
                on,
                window: self.window,
                discarded: self.discarded,
                missing: std::mem::take(&mut self.missing),
                ..Self::default()
            };
        }
        self.watch = to == Mode::Watch;
        if self.watch {
            self.unsupported = false;
        }
    }

    fn refuse_queued(&mut self) {
        self.refused += self.queue.len() as u64;
        self.queue.clear();
    }

    /// Writes may be missed from here on.
    fn lose(&mut self) {
        self.valid = 0;
        self.refuse_queued();
    }

    /// Looks at so many pages that wait, and discards the whole granules of those that were not
    /// written.
    fn run(&mut self, pages: usize, granule: Granule) -> Vec<u64> {
        let mut runs = Vec::<Range<u64>>::new();
        for (since, page) in self
            .queue
            .drain(..pages.min(self.queue.len()))
            .collect::<Vec<_>>()
        {
            let goes = self.valid > 0 && since >= self.valid && !self.is_written(since, page);
            match runs.last_mut() {
                _ if !goes || self.missing.contains(&page) => self.refused += 1,
                Some(last) if last.end == page => last.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        let mut gone = Vec::new();
        for run in runs {
            let cut = granule.cut(run.start * PAGE..run.end * PAGE);
            let cut = cut.start / PAGE..cut.end / PAGE;
            self.discarded += cut.end - cut.start;
            self.short += (run.end - run.start) - (cut.end - cut.start);
            gone.extend(cut);
        }
        gone
    }
}

#[derive(Default)]
struct State {
    files: Files,
    writes: Writes,
    upload: Option<Staged>,
    uploads: u64,
    generation: u64,
    windows: u64,
    /// Commits to refuse although nothing is wrong with them.
    spurious: u32,
    gone: bool,
    /// Somebody else begins an upload before the next record comes.
    intrude: bool,
    /// Ranges in a reply, where that is not enough for all.
    room: Option<usize>,
    streams: u8,
    /// What is below takes no discards.
    no_discards: bool,
    /// Pages that it takes at a time.
    granule: u64,
    /// Sectors written, to stream 1.
    written: u64,
    /// Pages written, by file.
    totals: BTreeMap<u64, u64>,
    log: Vec<String>,
}

/// A kernel that keeps a table.
pub struct ModelKernel {
    sectors: u64,
    state: RefCell<State>,
}

impl ModelKernel {
    pub fn new(sectors: u64) -> Self {
        Self {
            sectors,
            state: RefCell::new(State {
                streams: 8,
                granule: 1,
                ..State::default()
            }),
        }
    }

    pub fn set_streams(&self, streams: u8) {
        self.state.borrow_mut().streams = streams;
    }

    pub fn files(&self) -> Files {
        self.state.borrow().files.clone()
    }

    pub fn windows(&self) -> u64 {
        self.state.borrow().windows
    }

    pub fn refuse_commits(&self, count: u32) {
        self.state.borrow_mut().spurious = count;
    }

    /// The table is lost, as by a reload of the table line.
    pub fn reload(&self) {
        let mut s = self.state.borrow_mut();
        s.files.clear();
        s.generation = 0;
        s.windows = 0;
        s.writes.lose();
    }

    pub fn write(&self, bytes: u64) {
        self.state.borrow_mut().written += bytes / 512;
    }

    /// A file is written.
    pub fn write_file(&self, id: u64, pages: u64) {
        *self.state.borrow_mut().totals.entry(id).or_default() += pages;
    }

    /// Somebody else begins an upload, as at the next message that is a record.
    pub fn replace_upload(&self) {
        self.state.borrow_mut().intrude = true;
    }

    /// A page is written, by its number.
    pub fn write_page(&self, page: u64) {
        if let Some(current) = self.state.borrow_mut().writes.written.back_mut() {
            current.insert(page);
        }
    }

    /// The worker takes so many pages that wait; those that it discards.
    pub fn run_discards(&self, pages: usize) -> Vec<u64> {
        let s = &mut *self.state.borrow_mut();
        let writes = &mut s.writes;
        if s.no_discards && !writes.watch && !writes.queue.is_empty() {
            writes.unsupported = true;
            writes.refuse_queued();
        }
        writes.run(pages, granule(s.granule))
    }

    /// The table does not have these pages.
    pub fn miss(&self, pages: Range<u64>) {
        self.state.borrow_mut().writes.missing.extend(pages);
    }

    /// Whether what is below takes discards.
    pub fn take_discards(&self, does: bool) {
        self.state.borrow_mut().no_discards = !does;
    }

    /// What is known of writes is not complete any longer.
    pub fn lose_writes(&self) {
        self.state.borrow_mut().writes.lose();
    }

    /// What is below takes so many pages at a time.
    pub fn set_granule(&self, pages: u64) {
        self.state.borrow_mut().granule = pages;
    }

    /// A reply lists so many ranges.
    pub fn set_room(&self, ranges: usize) {
        self.state.borrow_mut().room = Some(ranges);
    }

    pub fn remove(&self) {
        self.state.borrow_mut().gone = true;
    }

    /// First words of the messages since the last call.
    pub fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.borrow_mut().log)
    }
}

fn refuse<T>(reason: String) -> Result<T, MessageError> {
    Err(MessageError::Refused(reason))
}

impl State {
    fn records(&mut self, words: &[&str]) -> Result<(), String> {
        let streams = self.streams;
        let Staged {
            files, last, named, ..
        } = self.upload.as_mut().ok_or("no upload is in progress")?;
        let mut n = 0;
        while n < words.len() {
            let arg = |k: usize| words.get(n + k).copied().ok_or("too few words");
            match words[n] {
                "file" => {
                    let id: u64 = arg(1)?.parse().map_err(|_| "bad id")?;
                    let class = arg(2)?.parse().map_err(|_| "bad class")?;
                    let boundary = match arg(3)? {
                        "-" => None,
                        b => Some(b.parse().map_err(|_| "bad boundary")?),
                    };
                    let file = ModelFile {
                        class,
                        boundary,
                        stamp: StreamStamp::default(),
                        extents: Vec::new(),
                    };
                    if !named.insert(id) {
                        return Err(format!("Duplicate file {id} in upload"));
                    }
                    files.insert(id, file);
                    *last = Some(id);
                    n += 4;
                }
                "extents" => n += 1,
                "stamp" => {
                    let stream: u8 = arg(1)?.parse().map_err(|_| "bad stream")?;
                    let hint = arg(2)?.parse().map_err(|_| "bad hint")?;
                    if stream > streams {
                        return Err(format!("Invalid stream '{stream}', must be 0 to {streams}"));
                    }
                    let id = last.ok_or("a stamp without a file")?;
                    files.get_mut(&id).ok_or("a stamp without a file")?.stamp = StreamStamp { stream, hint };
                    n += 3;
                }
                "drop" => {
                    let id: u64 = arg(1)?.parse().map_err(|_| "bad id")?;
                    if !named.insert(id) {
                        return Err(format!("Duplicate file {id} in upload"));
                    }
                    files.remove(&id).ok_or("no such file")?;
                    *last = None;
                    n += 2;
                }
                word => {
                    let numbers: Result<Vec<u64>, _> = word.split(':').map(str::parse).collect();
                    let numbers = numbers.map_err(|_| format!("strange word {word}"))?;
                    let [offset, start, length] = numbers[..] else {
                        return Err(format!("strange extent {word}"));
                    };
                    let id = last.ok_or("an extent without a file")?;
                    let file = files.get_mut(&id).ok_or("an extent without a file")?;
                    file.extents.push(Extent::new(offset, start, length));
                    n += 1;
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self, sectors: u64) -> Result<String, String> {
        let Staged { files, .. } = self.upload.take().ok_or("no upload is in progress")?;
        if self.spurious > 0 {
            self.spurious -= 1;
            return Err("out of luck".into());
        }
        let mut all: Vec<(Extent, u64)> = Vec::new();
        for (id, f) in &files {
            for w in f.extents.windows(2) {
                if w[0].offset + w[0].length > w[1].offset {
                    return Err(format!("file {id}: extents out of order"));
                }
            }
            for e in &f.extents {
                if e.length == 0 || e.start + e.length > sectors {
                    return Err(format!("file {id}: an extent beyond the end"));
                }
                all.push((*e, *id));
            }
        }
        all.sort_by_key(|(e, _)| e.start);
        for w in all.windows(2) {
            if w[0].0.start + w[0].0.length > w[1].0.start {
                return Err(format!("the files {} and {} overlap", w[0].1, w[1].1));
            }
        }
        let reply = format!(
            "generation {} files {} extents {}",
            self.generation + 1,
            files.len(),
            all.len()
        );
        self.files = files;
        self.generation += 1;
        Ok(reply)
    }

    fn regions(&self, words: &[&str]) -> String {
        use std::fmt::Write as _;
        let after = words.get(1).map(|w| w.parse::<u64>().unwrap());
        let count = words.get(2).map_or(100, |w| w.parse::<usize>().unwrap());
        let mut text = String::new();
        let files = self.files.iter().filter(|(id, _)| after.is_none_or(|a| **id > a));
        for (id, f) in files.take(count) {
            let boundary = f.boundary.map_or("-".into(), |b| b.to_string());
            let bytes: u64 = f.extents.iter().map(|e| e.length * 512).sum();
            let sides: &[&str] = if f.boundary.is_some() {
                &["bottom", "top"]
            } else {
                &["bottom"]
            };
            let total = self.totals.get(id).copied().unwrap_or(0);
            for (n, side) in sides.iter().enumerate() {
                // All of it is in the first region.
                let total = if n == 0 { total } else { 0 };
                writeln!(
                    text,
                    "{id} {} {boundary} {side} {bytes} 0 0 - 1 1 3 5 {total}",
                    f.class
                )
                .unwrap();
            }
        }
        text
    }

    fn begin(&mut self, files: Files) -> String {
        self.uploads += 1;
        self.upload = Some(Staged {
            number: self.uploads,
            files,
            ..Staged::default()
        });
        format!("upload {}", self.uploads)
    }

    /// Whether a message is of the upload in progress.
    fn own(&self, words: &[&str]) -> Result<(), MessageError> {
        let number = words.get(1).and_then(|w| w.parse().ok());
        if self.upload.as_ref().map(|u| u.number) == number {
            return Ok(());
        }
        Err(MessageError::Stale(format!("upload {number:?} is over")))
    }

    fn answer(&mut self, text: &str, sectors: u64) -> Result<String, MessageError> {
        let words: Vec<&str> = text.split(' ').collect();
        let verb = match words[0] {
            "upload" => words.get(2).copied().unwrap_or_default(),
            verb => verb,
        };
        self.log.push(verb.to_owned());
        match words[0] {
            "begin" => {
                if words[2].parse() != Ok(sectors) {
                    return refuse(format!("begin: the target has {sectors} sectors"));
                }
                let files = match words[1] {
                    "full" if words.len() == 3 => Files::new(),
                    "update" if words.len() == 4 => self.files.clone(),
                    kind => return refuse(format!("begin {kind}: full or update")),
                };
                if words[1] == "update" && words[3].parse() != Ok(self.generation) {
                    return Err(MessageError::Stale(format!("generation {}", self.generation)));
                }
                Ok(self.begin(files))
            }
            "upload" => {
                if std::mem::take(&mut self.intrude) {
                    self.begin(Files::new());
                }
                self.own(&words)?;
                let done = self.records(&words[2..]);
                if done.is_err() {
                    self.upload = None;
                }
                done.map_or_else(refuse, |()| Ok(String::new()))
            }
            "commit" => {
                self.own(&words)?;
                self.commit(sectors).or_else(refuse)
            }
            "abort" => {
                self.own(&words)?;
                self.upload = None;
                Ok(String::new())
            }
            "checkpoint" => {
                self.windows += 1;
                Ok(format!("window {} ms 1000 written 1 moved 0", self.windows))
            }
            "regions" => Ok(self.regions(&words)),
            "set" if words[1] == "discard" => {
                self.writes.switch(words[2]);
                Ok(String::new())
            }
            "window" | "discard" | "forget" | "written" if !self.writes.on => {
                refuse(format!("{}: discard is off", words[0]))
            }
            "window" | "discard" | "forget" | "written" if self.writes.unsupported => refuse(format!(
                "{}: underlying device does not support discard",
                words[0]
            )),
            "discard" if self.writes.watch => refuse("discard: discard is only watched".into()),
            "window" => Ok(self.writes.begin_window()),
            "forget" => {
                self.writes.refuse_queued();
                Ok(String::new())
            }
            "written" => {
                let room = self.room.unwrap_or(usize::MAX);
                self.writes.answer(&words, room)
            }
            "discard" => self.writes.discard(&words),
            "set" => Ok(String::new()),
            other => refuse(format!("Unknown message '{other}'")),
        }
    }
}

impl Target for ModelKernel {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn message(&self, text: &str) -> Result<String, MessageError> {
        let mut s = self.state.borrow_mut();
        if s.gone {
            return Err(MessageError::Gone);
        }
        s.answer(text, self.sectors)
    }

    fn status(&self) -> Result<Status, MessageError> {
        let s = self.state.borrow();
        if s.gone {
            return Err(MessageError::Gone);
        }
        Ok(Status {
            device_streams: s.streams.into(),
            files: s.files.len() as u64,
            generation: s.generation,
            windows: s.windows,
            discard: Discard {
                state: match (s.writes.on, s.writes.unsupported) {
                    (false, _) => Mode::Off,
                    (true, true) => Mode::Unsupported,
                    (true, false) if s.writes.watch => Mode::Watch,
                    (true, false) => Mode::On,
                },
                window: s.writes.window,
                valid: s.writes.valid,
                queued: s.writes.queue.len() as u64,
                discarded: s.writes.discarded,
                discarded_sectors: s.writes.discarded * PAGE,
                refused_sectors: s.writes.refused * PAGE,
                short_sectors: s.writes.short * PAGE,
                granularity: s.granule * PAGE * 512,
                alignment: s.granule * PAGE * 512,
                ..Discard::default()
            },
            streams: vec![StreamCount {
                stream: 1,
                writes: s.written / 8,
                sectors: s.written,
            }],
            ..Status::default()
        })
    }
}

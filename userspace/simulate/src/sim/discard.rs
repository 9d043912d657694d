// SPDX-License-Identifier: GPL-2.0-or-later
//! What dsmd would have discarded in a recording, and whether that was right.
//!
//! dsmd ends a window before it reads the turtle, and discards when it has read the
//! lists: of a file whose checkpoint K it has seen and whose newest is K' now, what K
//! used and K' lists as free, below K's size, as far as nothing was written to it since
//! the window began at whose beginning K was still the newest.  The target remembers
//! two windows.  What is less than the drive wants is owed, until it is written or what
//! is around it may be discarded as well.
//!
//! The check needs no trust in the rule: whatever a file's later lists do not name is
//! in use, and must have been written since it was discarded.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::flash::PAGE;
use crate::sim::pieces::{Owed, Pieces};
use crate::trace::events::{Events, Lists};
use crate::trace::{events, Event, FileNo, Trace, What};
use wiredtiger::avail::{difference, FreeList};

/// What is discarded, of what a list names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What the list before did not name, if it was not written since that was read.
    Difference,
    /// All that was not written since the last window began.  It loses data, as
    /// checkpoints may begin before it is seen that the last one has ended.
    SinceWindow,
    /// All of it.
    Listed,
}

#[derive(Default)]
struct PageFile {
    /// The list that was read last.
    known: Option<u32>,
    /// By page: the last window in which it was written, from 1 on.
    written: Vec<u32>,
    /// By page: it may be discarded.
    owed: Vec<bool>,
}

struct Discards<'a> {
    lists: &'a Lists,
    rule: Rule,
    pieces: Pieces,
    files: Vec<PageFile>,
    window: u32,
    /// The window that began before the last look.
    looked: Option<u32>,
}

/// The trace with what the rule discards.
pub fn discarded(trace: &Trace, rule: Rule, pieces: Pieces) -> Trace {
    let mut d = Discards {
        lists: &trace.lists,
        rule,
        pieces,
        files: Vec::new(),
        window: 1,
        looked: None,
    };
    d.files.resize_with(trace.files as usize, PageFile::default);
    let mut discards = events::Discards::default();
    for e in trace.events() {
        if let Some(runs) = d.event(&e) {
            discards.push(&runs);
        }
    }
    trace.with_discards(discards)
}

impl Discards<'_> {
    /// After a list, the runs of pages that are discarded then.
    fn event(&mut self, e: &Event) -> Option<Vec<Range<u64>>> {
        match e.what {
            What::Write { file, offset, length } => self.write(file, offset, length),
            What::Window => self.window += 1,
            What::List { file, list } => return Some(self.list(file, list)),
            What::Looked => self.looked = Some(self.window),
            What::Delete { file } => self.files[file as usize] = PageFile::default(),
            What::Lost => {
                self.looked = None;
                for f in &mut self.files {
                    f.known = None;
                    f.owed.clear();
                }
            }
            What::Name { .. }
            | What::Discard { .. }
            | What::Stream { .. }
            | What::LoadEnd
            | What::Begins
            | What::Checkpoint => {}
        }
        None
    }

    fn write(&mut self, file: FileNo, offset: u64, length: u64) {
        let (first, end) = (offset / PAGE, (offset + length).div_ceil(PAGE));
        let (first, end) = (first as usize, end as usize);
        let file = &mut self.files[file as usize];
        if file.written.len() < end {
            file.written.resize(end, 0);
        }
        file.written[first..end].fill(self.window);
        if self.pieces.owed != Owed::ForEver {
            let end = end.min(file.owed.len());
            file.owed[first.min(end)..end].fill(false);
        }
    }

    fn list(&mut self, file: FileNo, list: u32) -> Vec<Range<u64>> {
        let mut runs = Vec::new();
        let old = self.files[file as usize].known.replace(list);
        let (Some(old), Some(looked)) = (old, self.looked) else {
            return runs;
        };
        if self.rule == Rule::Difference && self.window - looked > 1 {
            return runs;
        }
        let new = self.lists.get(list);
        // What was written in or after this window is in use, perhaps.
        let (ranges, since) = match self.rule {
            Rule::Difference => (difference(&new, &self.lists.get(old)), looked),
            Rule::SinceWindow => (new.extents, self.window - 1),
            Rule::Listed => (new.extents, u32::MAX),
        };
        let file = &mut self.files[file as usize];
        for range in ranges {
            let (mut at, end) = (range.start.div_ceil(PAGE), range.end / PAGE);
            while at < end {
                let free = |page: &u64| file.written.get(*page as usize).is_none_or(|w| *w < since);
                let run = at..at + (at..end).take_while(free).count() as u64;
                at = run.end.max(at + 1);
                let found = match self.pieces.owed {
                    _ if run.is_empty() => None,
                    Owed::Never => self.pieces.cut(&run),
                    _ => {
                        let from = runs.last().map_or(0, |r: &Range<u64>| r.end);
                        let around = file.owe(&run, from, self.pieces.reach());
                        self.pieces.cover(&run, &around)
                    }
                };
                runs.extend(found);
            }
        }
        runs
    }
}

impl PageFile {
    /// Adds a run to what is owed, and gives what is owed around it: from a page on, and
    /// no more than so many further.
    fn owe(&mut self, run: &Range<u64>, from: u64, reach: u64) -> Range<u64> {
        let end = run.end as usize;
        if self.owed.len() < end {
            self.owed.resize(end, false);
        }
        self.owed[run.start as usize..end].fill(true);
        let owed = |page: &u64| self.owed.get(*page as usize) == Some(&true);
        let low = from.max(run.start.saturating_sub(reach));
        let before = (low..run.start).rev().take_while(owed).count() as u64;
        let after = (run.end..run.end + reach).take_while(owed).count() as u64;
        run.start - before..run.end + after
    }
}

/// The share of the files that their lists name, on average over the times at which all
/// were read.
pub fn listed(trace: &Trace) -> Option<f64> {
    let mut files: Vec<(u64, u64)> = vec![(0, 0); trace.files as usize];
    let (mut sum, mut count) = (0.0, 0);
    for e in trace.events() {
        match e.what {
            What::List { file, list } => {
                let list = trace.lists.get(list);
                files[file as usize] = (list.bytes(), list.file_size);
            }
            What::Delete { file } => files[file as usize] = (0, 0),
            What::Looked => {
                let (free, all) = files.iter().fold((0, 0), |s, f| (s.0 + f.0, s.1 + f.1));
                if all > 0 {
                    sum += free as f64 / all as f64;
                    count += 1;
                }
            }
            _ => {}
        }
    }
    (count > 0).then(|| sum / f64::from(count))
}

/// The same as an agent sees it that wakes up so much later than the one that
/// recorded: it finds the newest lists, and may miss some in between.
pub fn late(trace: &Trace, us: u64) -> Trace {
    let mut looks: VecDeque<(u64, Vec<What>)> = VecDeque::new();
    let mut rest = Events::default();
    for e in trace.events() {
        match e.what {
            What::Window => looks.push_back((e.us, Vec::new())),
            What::List { .. } => {
                if let Some((_, lists)) = looks.back_mut() {
                    lists.push(e.what);
                }
            }
            What::Looked => {}
            _ => rest.push(&e),
        }
    }
    let mut events = Events::default();
    let mut rest = rest.iter().peekable();
    while let Some((begin, mut lists)) = looks.pop_front() {
        let at = begin + us;
        // A checkpoint that has completed by then is the one that it sees.
        while let Some((_, newer)) = looks.front().filter(|l| l.0 <= at) {
            for what in newer {
                if let What::List { file, .. } = *what {
                    lists.retain(|w| !matches!(w, What::List { file: f, .. } if *f == file));
                }
                lists.push(*what);
            }
            looks.pop_front();
        }
        while let Some(e) = rest.next_if(|e| e.us <= at) {
            events.push(&e);
        }
        let all = [What::Window].into_iter().chain(lists).chain([What::Looked]);
        all.for_each(|what| events.push(&Event { us: at, what }));
    }
    rest.for_each(|e| events.push(&e));
    trace.with_events(events)
}

/// What came of discards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Pages that were discarded, and of those the ones that were in use.
    pub discarded: u64,
    pub lost: u64,
}

/// Whether every page that was discarded in `seen`, and not written again, is on each
/// later list of its file in `trace`, which it was made from.
pub fn verdict(trace: &Trace, seen: &Trace) -> Judged {
    let mut v = Judged::default();
    let mut gone: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); trace.files as usize];
    let is_discard = |e: &Event| matches!(e.what, What::Discard { .. });
    let mut discards = seen.events().filter(is_discard).peekable();
    for e in trace.events().filter(|e| !is_discard(e)) {
        while let Some(d) = discards.next_if(|d| d.us < e.us) {
            v.discard(&mut gone, &d.what);
        }
        v.event(trace, &mut gone, &e.what);
    }
    discards.for_each(|d| v.discard(&mut gone, &d.what));
    v
}

impl Judged {
    fn discard(&mut self, gone: &mut [BTreeSet<u64>], what: &What) {
        if let What::Discard { file, offset, length } = *what {
            let pages = offset.div_ceil(PAGE)..(offset + length) / PAGE;
            self.discarded += pages.end.saturating_sub(pages.start);
            gone[file as usize].extend(pages);
        }
    }

    fn event(&mut self, trace: &Trace, gone: &mut [BTreeSet<u64>], what: &What) {
        match *what {
            What::Write { file, offset, length } => {
                for page in offset / PAGE..(offset + length).div_ceil(PAGE) {
                    gone[file as usize].remove(&page);
                }
            }
            What::List { file, list } => {
                let gone = &mut gone[file as usize];
                let list = trace.lists.get(list);
                let before = gone.len();
                // Each is counted once.
                gone.retain(|page| !is_used(&list, *page));
                self.lost += (before - gone.len()) as u64;
            }
            What::Delete { file } => gone[file as usize].clear(),
            _ => {}
        }
    }
}

/// Whether any of a page is in the file and not on its list.
fn is_used(list: &FreeList, page: u64) -> bool {
    let (start, end) = (page * PAGE, ((page + 1) * PAGE).min(list.file_size));
    let at = list.extents.partition_point(|e| e.end <= start);
    start < end
        && list
            .extents
            .get(at)
            .is_none_or(|e| start < e.start || e.end < end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::text;

    fn trace(text: &str) -> Trace {
        text::read(format!("dsm-trace,1\n{text}").as_bytes()).unwrap()
    }

    /// Offsets and lengths in pages, of what is discarded.
    fn discards(text: &str, rule: Rule) -> Vec<(u64, u64)> {
        let found = discarded(&trace(text), rule, Pieces::of(PAGE, PAGE));
        let each = found.events().filter_map(|e| match e.what {
            What::Discard { offset, length, .. } => Some((offset / PAGE, length / PAGE)),
            _ => None,
        });
        each.collect()
    }

    const LOAD: &str = "0,W,a,0,65536\n0,L\n1,M\n1,A,a,65536,4096,4096\n1,S\n";

    #[test]
    fn what_a_checkpoint_has_freed_is_discarded() {
        // Pages 2 to 7 are freed, of which 4 was written since; page 1 was free before.
        let text = format!("{LOAD}2,W,a,16384,4096\n3,M\n4,A,a,65536,4096,28672\n4,S\n");
        assert_eq!(discards(&text, Rule::Difference), [(2, 2), (5, 3)]);
        assert_eq!(discards(&text, Rule::Listed), [(1, 7)]);
        assert_eq!(discards(&text, Rule::SinceWindow), [(1, 3), (5, 3)]);
        // A write after the window's end counts, too; one before its beginning does not.
        let text = format!("0,W,a,8192,4096\n{LOAD}2,M\n3,W,a,20480,4096\n4,A,a,65536,4096,28672\n4,S\n");
        assert_eq!(discards(&text, Rule::Difference), [(2, 3), (6, 2)]);
    }

    #[test]
    fn the_listed_share() {
        assert_eq!(listed(&trace("0,W,a,0,65536\n1,C\n")), None);
        let text = format!("{LOAD}2,W,b,0,8192\n3,A,b,65536,0,65536\n3,S\n4,X,b\n5,A,a,65536,0,32768\n5,S\n");
        // 1 of 16 pages, 17 of 32, 8 of 16.
        let mean = (1.0 / 16.0 + 17.0 / 32.0 + 0.5) / 3.0;
        assert!((listed(&trace(&text)).unwrap() - mean).abs() < 1e-12);
        // A list that could not be read is none, and not an empty one.
        assert_eq!(listed(&trace(&format!("{LOAD}2,A,a,0\n2,S\n"))), Some(1.0 / 16.0));
    }

    #[test]
    fn parts_of_pages_are_kept() {
        let text = format!("{LOAD}3,M\n4,A,a,65536,8704,11776\n4,S\n");
        assert_eq!(discards(&text, Rule::Difference), [(3, 2)]);
    }

    #[test]
    fn runs_are_multiples_of_the_granularity() {
        let text = format!("{LOAD}3,M\n4,A,a,65536,12288,53248\n4,S\n");
        let with = |granularity| {
            let pieces = Pieces::new(granularity, granularity, Owed::Never);
            let found = discarded(&trace(&text), Rule::Difference, pieces);
            let each = found.events().filter_map(|e| match e.what {
                What::Discard { offset, length, .. } => Some((offset / PAGE, length / PAGE)),
                _ => None,
            });
            each.collect::<Vec<_>>()
        };
        assert_eq!(with(PAGE), [(3, 13)]);
        assert_eq!(with(1), [(3, 13)]);
        assert_eq!(with(4 * PAGE), [(4, 12)]);
        assert_eq!(with(8 * PAGE), [(8, 8)]);
        assert_eq!(with(32 * PAGE), []);
    }

    /// Granules of 8 pages come together by the lists of several checkpoints.
    #[test]
    fn what_is_less_than_a_piece_is_owed() {
        let lists = |write: &str| {
            format!(
                "{LOAD}3,M\n4,A,a,65536,4096,16384\n4,S\n{write}6,M\n6,A,a,65536,4096,24576\n6,S\n\
                 7,M\n7,A,a,65536,4096,28672,49152,4096\n7,S\n9,M\n9,A,a,65536,0,36864,49152,4096\n9,S\n"
            )
        };
        let with = |text: &str, owed| {
            let found = discarded(
                &trace(text),
                Rule::Difference,
                Pieces::new(8 * PAGE, 8 * PAGE, owed),
            );
            let each = found.events().filter_map(|e| match e.what {
                What::Discard { offset, length, .. } => Some((e.us, offset / PAGE, length / PAGE)),
                _ => None,
            });
            each.collect::<Vec<_>>()
        };
        // Page 1 was free before the first list that is known, so that it is never named.
        let first = lists("").replace("1,A,a,65536,4096,4096", "1,A,a,65536,61440,4096");
        assert_eq!(with(&first, Owed::UntilWritten), [(9, 0, 8)]);
        assert_eq!(with(&first, Owed::Never), []);
        let written = lists("5,W,a,8192,4096\n").replace("1,A,a,65536,4096,4096", "1,A,a,65536,61440,4096");
        assert_eq!(with(&written, Owed::UntilWritten), [], "page 2 was written");
        assert_eq!(with(&written, Owed::ForEver), [(9, 0, 8)], "and this is wrong");
        assert_eq!(with(&lists(""), Owed::UntilWritten), []);
        let lost = first.replace("6,M", "5,N\n5,M\n5,A,a,65536,4096,16384\n5,S\n6,M");
        assert_eq!(with(&lost, Owed::UntilWritten), [], "all is forgotten");
    }

    #[test]
    fn nothing_is_discarded_in_doubt() {
        let list = "4,A,a,65536,4096,28672\n4,S\n";
        for (text, why) in [
            (format!("0,W,a,0,65536\n3,M\n{list}"), "the first list"),
            (
                format!("{LOAD}2,M\n3,M\n{list}"),
                "a window in between whose lists were not read",
            ),
            (format!("{LOAD}2,N\n3,M\n{list}"), "lost events"),
            (format!("{LOAD}2,X,a\n2,W,a,0,65536\n3,M\n{list}"), "another file"),
            (
                format!("{LOAD}2,M\n2,A,a,0\n2,S\n3,M\n{list}"),
                "a list that could not be read",
            ),
        ] {
            assert_eq!(discards(&text, Rule::Difference), [], "{why}");
        }
        // A file that is not checkpointed for a while is not lost from sight.
        let text = format!("{LOAD}2,M\n2,S\n3,M\n{list}");
        assert_eq!(discards(&text, Rule::Difference), [(2, 6)]);
        // Nor is what it has been written meanwhile.
        let text = format!("{LOAD}2,M\n2,S\n2,W,a,8192,20480\n3,M\n{list}");
        assert_eq!(discards(&text, Rule::Difference), [(7, 1)]);
    }

    #[test]
    fn lost_pages_are_found() {
        let after = "5,W,a,8192,4096\n6,M\n6,A,a,65536,4096,4096,12288,12288\n6,S\n";
        let text = format!("{LOAD}3,M\n4,A,a,65536,4096,28672\n4,S\n{after}");
        let checked = |text: &str| {
            let trace = trace(text);
            verdict(
                &trace,
                &discarded(&trace, Rule::Difference, Pieces::of(PAGE, PAGE)),
            )
        };
        let all = checked(&text);
        // Pages 6 and 7 are in use without having been written.
        assert_eq!(
            all,
            Judged {
                discarded: 6,
                lost: 2
            }
        );
        let good = text.replace("5,W,a,8192,4096", "5,W,a,8192,24576");
        let all = checked(&good);
        assert_eq!((all.discarded, all.lost), (6, 0));
    }

    #[test]
    fn a_late_agent_sees_the_newest() {
        let text = "0,W,a,0,65536\n0,W,b,0,4096\n10,M\n10,A,a,65536\n10,S\n20,W,a,0,4096\n20,M\n\
                    20,A,a,65536,8192,8192\n20,A,b,4096\n20,S\n40,M\n40,A,a,65536,4096,4096\n40,S\n50,C\n";
        let mut out = Vec::new();
        text::write(&late(&trace(text), 15), text::Names::Exact, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "dsm-trace,1\n0,W,a,0,65536\n0,W,b,0,4096\n20,W,a,0,4096\n25,M\n25,A,a,65536,8192,8192\n25,A,b,4096\n\
             25,S\n50,C\n55,M\n55,A,a,65536,4096,4096\n55,S\n"
        );
    }
}

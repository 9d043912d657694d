// SPDX-License-Identifier: GPL-2.0-or-later
//! What dsmd would have discarded in a recording.
//!
//! dsmd begins a window before it reads the turtle, and discards when it has read the
//! lists.  Of a file with a new checkpoint it sends what the list names and was not written:
//!
//! - pages that the file used at the last look, since the window of that look;
//! - all others, since the window of the look before it, if the file had a new checkpoint at
//!   the last look, too.
//!
//! Whole pieces of what passes are sent, once for as long as the lists name all of them.

use std::ops::Range;

use crate::flash::PAGE;
use crate::sim::pieces::Pieces;
use crate::trace::events::Lists;
use crate::trace::{Event, FileNo, Trace, What};
use database::wiredtiger::avail::{difference, FreeList};

/// The windows since which what a list names must not have been written: what was listed
/// before, and what was not.
type Since = [Option<u32>; 2];

/// What is taken for these that dsmd takes, by them and the window that has begun.
type Rule = fn(u32, Since) -> Since;

/// The target has the bits of so many windows before the one that has begun.
const REMEMBERED: u32 = 3;

#[derive(Default)]
struct PageFile {
    /// The list that was read last.
    known: Option<u32>,
    /// The window of the look that found it in the place of another one.
    renewed: Option<u32>,
    /// By page: the last window in which it was written, from 1 on.
    written: Vec<u32>,
    /// By page: it was discarded, and each list since has named it.
    sent: Vec<bool>,
}

struct Discards<'a> {
    lists: &'a Lists,
    rule: Rule,
    pieces: Pieces,
    files: Vec<PageFile>,
    window: u32,
    /// The windows of the last look, and of the one before it.
    looked: [Option<u32>; 2],
}

/// The trace with what dsmd discards.
pub fn discarded(trace: &Trace, pieces: Pieces) -> Trace {
    discarded_by(|_, since| since, trace, pieces)
}

fn discarded_by(rule: Rule, trace: &Trace, pieces: Pieces) -> Trace {
    let mut d = Discards {
        lists: &trace.lists,
        rule,
        pieces,
        files: Vec::new(),
        window: 1,
        looked: [None; 2],
    };
    d.files.resize_with(trace.files as usize, PageFile::default);
    let mut discards = Lists::default();
    for e in trace.events() {
        if let Some(runs) = d.event(&e) {
            discards.push(&FreeList {
                extents: runs.iter().map(|r| r.start * PAGE..r.end * PAGE).collect(),
                ..FreeList::default()
            });
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
            What::Looked => self.looked = [Some(self.window), self.looked[0]],
            What::Delete { file } => self.files[file as usize] = PageFile::default(),
            What::Lost => {
                self.looked = [None; 2];
                self.files.iter_mut().for_each(PageFile::forget);
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
        let written = &mut self.files[file as usize].written;
        if written.len() < end {
            written.resize(end, 0);
        }
        written[first..end].fill(self.window);
    }

    fn list(&mut self, file: FileNo, list: u32) -> Vec<Range<u64>> {
        let file = &mut self.files[file as usize];
        let new = self.lists.get(list);
        if new.file_size == 0 {
            // It could not be read.
            file.forget();
            return Vec::new();
        }
        let listed = whole_pages(&new.extents);
        file.keep_sent(&listed);
        let Some(old) = file.known.replace(list) else {
            return Vec::new();
        };
        let renewed = file.renewed.replace(self.window);
        let is_known = |window: &u32| self.window - window <= REMEMBERED;
        let [last, before] = self.looked.map(|window| window.filter(is_known));
        // What was written in or after these windows is in use, perhaps.
        let before = before.filter(|_| renewed == self.looked[0]);
        let [since, fresh_since] = (self.rule)(self.window, [before, last]);
        let mut fresh = whole_pages(&difference(&new, &self.lists.get(old)))
            .into_iter()
            .peekable();
        let mut passed = Vec::new();
        for page in listed.into_iter().flatten() {
            while fresh.next_if(|f| f.end <= page).is_some() {}
            let is_fresh = fresh.peek().is_some_and(|f| f.contains(&page));
            let since = if is_fresh { fresh_since } else { since };
            let written = file.written.get(page as usize).copied().unwrap_or(0);
            if since.is_some_and(|since| written < since) {
                join(&mut passed, page..page + 1);
            }
        }
        let mut runs = Vec::new();
        for piece in passed.iter().flat_map(|run| self.pieces.of(run)) {
            let sent = &mut file.sent[piece.start as usize..piece.end as usize];
            if sent.contains(&false) {
                sent.fill(true);
                join(&mut runs, piece);
            }
        }
        runs
    }
}

impl PageFile {
    fn forget(&mut self) {
        (self.known, self.renewed) = (None, None);
        self.sent.clear();
    }

    /// Takes out what a list does not name.
    fn keep_sent(&mut self, listed: &[Range<u64>]) {
        let end = listed.last().map_or(0, |r| r.end as usize);
        self.sent.resize(end, false);
        let mut at = 0;
        for run in listed {
            self.sent[at..run.start as usize].fill(false);
            at = run.end as usize;
        }
    }
}

/// Of bytes.
fn whole_pages(bytes: &[Range<u64>]) -> Vec<Range<u64>> {
    let pages = bytes.iter().map(|r| r.start.div_ceil(PAGE)..r.end / PAGE);
    pages.filter(|r| !r.is_empty()).collect()
}

/// Adds a run that does not begin before the end of the last one.
fn join(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut().filter(|r| r.end == run.start) {
        Some(last) => last.end = run.end,
        None => runs.push(run),
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

#[cfg(test)]
#[path = "../../tests/judge/mod.rs"]
mod judge;
#[cfg(test)]
mod recordings;

#[cfg(test)]
// A list of one range is meant.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::judge::{late, verdict, Judged};
    use super::*;
    use crate::trace::Builder;

    pub(super) const DSMD: Rule = |_, since| since;
    /// All that was not written since the last window began.  It loses data, as
    /// checkpoints may begin before it is seen that the last one has ended.
    pub(super) const SINCE_WINDOW: Rule = |window, _| [Some(window - 1); 2];
    /// All of it.
    pub(super) const LISTED: Rule = |_, _| [Some(u32::MAX); 2];

    /// A line is an event: its time, and the letter of a recording's; of W offset and length
    /// follow, of A the size of the file, and offset and length of each range.
    fn trace(text: &str) -> Trace {
        let mut b = Builder::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(',').collect();
            let (us, file) = (words[0].parse().unwrap(), words.get(2).unwrap_or(&""));
            let n: Vec<u64> = words.iter().skip(3).map(|n| n.parse().unwrap()).collect();
            let done = match words[1] {
                "W" => b.write(us, file, n[0], n[1]),
                "X" => b.delete(us, file),
                "A" => {
                    let list = FreeList {
                        file_size: n[0],
                        extents: n[1..].chunks(2).map(|r| r[0]..r[0] + r[1]).collect(),
                        ..FreeList::default()
                    };
                    b.list(us, file, list)
                }
                "L" => b.mark(us, What::LoadEnd),
                "C" => b.mark(us, What::Checkpoint),
                "M" => b.mark(us, What::Window),
                "S" => b.mark(us, What::Looked),
                "N" => b.mark(us, What::Lost),
                other => panic!("{other}"),
            };
            done.unwrap();
        }
        b.finish()
    }

    /// Offsets and lengths in pages, of what is discarded in pieces of `piece` bytes.
    fn in_pieces(text: &str, rule: Rule, piece: u64) -> Vec<(u64, u64)> {
        let found = discarded_by(rule, &trace(text), Pieces::new(piece, piece));
        let each = found.events().filter_map(|e| match e.what {
            What::Discard { offset, length, .. } => Some((offset / PAGE, length / PAGE)),
            _ => None,
        });
        each.collect()
    }

    fn discards(text: &str, rule: Rule) -> Vec<(u64, u64)> {
        in_pieces(text, rule, PAGE)
    }

    const LOAD: &str = "0,W,a,0,65536\n0,L\n1,M\n1,A,a,65536,4096,4096\n1,S\n";

    #[test]
    fn what_a_checkpoint_has_freed_is_discarded() {
        // Pages 2 to 7 are freed, of which 4 was written since; page 1 was free before.
        let text = format!("{LOAD}2,W,a,16384,4096\n3,M\n4,A,a,65536,4096,28672\n4,S\n");
        assert_eq!(discards(&text, DSMD), [(2, 2), (5, 3)]);
        assert_eq!(discards(&text, LISTED), [(1, 7)]);
        assert_eq!(discards(&text, SINCE_WINDOW), [(1, 3), (5, 3)]);
        // A write after the window's end counts, too; one before its beginning does not.
        let text = format!("0,W,a,8192,4096\n{LOAD}2,M\n3,W,a,20480,4096\n4,A,a,65536,4096,28672\n4,S\n");
        assert_eq!(discards(&text, DSMD), [(2, 3), (6, 2)]);
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
        assert_eq!(discards(&text, DSMD), [(3, 2)]);
    }

    #[test]
    fn runs_are_multiples_of_the_granularity() {
        let text = format!("{LOAD}3,M\n4,A,a,65536,12288,53248\n4,S\n");
        let with = |granularity| in_pieces(&text, DSMD, granularity);
        assert_eq!(with(PAGE), [(3, 13)]);
        assert_eq!(with(1), [(3, 13)]);
        assert_eq!(with(4 * PAGE), [(4, 12)]);
        assert_eq!(with(8 * PAGE), [(8, 8)]);
        assert_eq!(with(32 * PAGE), []);
    }

    /// Looks with lists of pages in the file of 16, each with what was written before it.
    fn looks(each: &[(&str, &[Range<u64>])]) -> String {
        let mut s = "0,W,a,0,65536\n0,L\n".to_owned();
        for (n, (before, listed)) in each.iter().enumerate() {
            let words: Vec<String> = listed
                .iter()
                .map(|r| format!(",{},{}", r.start * PAGE, (r.end - r.start) * PAGE))
                .collect();
            let list = words.concat();
            s += &format!("{before}{n},M\n{n},A,a,65536{list}\n{n},S\n");
        }
        s
    }

    #[test]
    fn what_was_free_before_is_discarded_once() {
        let list: &[Range<u64>] = &[1..4];
        let each = |n| discards(&looks(&vec![("", list); n]), DSMD);
        assert_eq!(
            each(2),
            [],
            "it is not known that the second list was made after a window"
        );
        assert_eq!(each(3), [(1, 3)]);
        assert_eq!(each(5), [(1, 3)], "once");
        // A page that was written comes when two windows have passed.
        let write = "0,W,a,8192,4096\n";
        let wrote = [("", list), (write, list), ("", list), ("", list)];
        assert_eq!(discards(&looks(&wrote[..3]), DSMD), [(1, 1), (3, 1)]);
        assert_eq!(discards(&looks(&wrote), DSMD), [(1, 1), (3, 1), (2, 1)]);
        // And so does one that was used and not written: of the list before the last it may be.
        let used: &[(&str, &[Range<u64>])] = &[("", list), ("", list), ("", list), ("", &[3..4]), ("", list)];
        assert_eq!(discards(&looks(used), DSMD), [(1, 3), (1, 2)]);
        // What the file has grown by.
        let grown = looks(&[("", &[]), ("", &[]), ("", &[2..16])]).replacen("65536\n1", "16384\n1", 1);
        assert_eq!(
            discards(&grown.replacen("1,A,a,65536", "1,A,a,32768", 1), DSMD),
            [(2, 14)]
        );
    }

    /// That the list is newer than the window of the look before the last is known by the
    /// checkpoint that the last look has found.
    #[test]
    fn of_a_file_that_was_idle_only_what_was_used_is_discarded() {
        let text = looks(&[("", &[1..4]), ("", &[1..4]), ("", &[1..6])]);
        let idle = text.replacen("1,A,a,65536,4096,12288\n", "", 1);
        assert_eq!(discards(&text, DSMD), [(1, 5)]);
        assert_eq!(discards(&idle, DSMD), [(4, 2)]);
    }

    /// Of the windows that began after the last look the lists were not read.
    #[test]
    fn windows_are_forgotten() {
        let text = |late: usize| {
            let first = looks(&[("", &[1..4]), ("", &[1..4])]);
            format!(
                "{first}{}1,M\n1,A,a,65536,4096,20480\n1,S\n",
                "1,M\n".repeat(late)
            )
        };
        assert_eq!(discards(&text(0), DSMD), [(1, 5)]);
        assert_eq!(discards(&text(1), DSMD), [(1, 5)]);
        assert_eq!(discards(&text(2), DSMD), [(4, 2)]);
        assert_eq!(discards(&text(3), DSMD), []);
    }

    /// Pieces of 8 pages come together by the lists of several checkpoints.
    #[test]
    fn a_piece_is_discarded_when_a_list_names_all_of_it() {
        let parts: &[(&str, &[Range<u64>])] = &[
            ("", &[]),
            ("", &[0..3]),
            ("", &[0..6]),
            ("", &[0..9]),
            ("", &[0..9]),
        ];
        let with = |text: &str| in_pieces(text, DSMD, 8 * PAGE);
        assert_eq!(with(&looks(&parts[..3])), []);
        assert_eq!(with(&looks(parts)), [(0, 8)]);
        let mut written = parts.to_vec();
        written[3].0 = "2,W,a,4096,4096\n";
        assert_eq!(with(&looks(&written)), [], "page 1 was written");
        // It is discarded again when a page of it was used.
        let mut again = parts.to_vec();
        again.extend([("4,W,a,4096,4096\n", [0..1, 2..9].as_slice()), ("", &[0..9])]);
        assert_eq!(with(&looks(&again)), [(0, 8), (0, 8)]);
    }

    #[test]
    fn nothing_is_discarded_in_doubt() {
        let list = "4,A,a,65536,4096,28672\n4,S\n";
        for (text, why) in [
            (format!("0,W,a,0,65536\n3,M\n{list}"), "the first list"),
            (format!("{LOAD}2,N\n3,M\n{list}"), "lost events"),
            (format!("{LOAD}2,X,a\n2,W,a,0,65536\n3,M\n{list}"), "another file"),
            (
                format!("{LOAD}2,M\n2,A,a,0\n2,S\n3,M\n{list}"),
                "a list that could not be read",
            ),
        ] {
            assert_eq!(discards(&text, DSMD), [], "{why}");
        }
        // A file that is not checkpointed for a while is not lost from sight.
        let text = format!("{LOAD}2,M\n2,S\n3,M\n{list}");
        assert_eq!(discards(&text, DSMD), [(2, 6)]);
        // Nor is what it has been written meanwhile.
        let text = format!("{LOAD}2,M\n2,S\n2,W,a,8192,20480\n3,M\n{list}");
        assert_eq!(discards(&text, DSMD), [(7, 1)]);
    }

    #[test]
    fn lost_pages_are_found() {
        let after = "5,W,a,8192,4096\n6,M\n6,A,a,65536,4096,4096,12288,12288\n6,S\n";
        let text = format!("{LOAD}3,M\n4,A,a,65536,4096,28672\n4,S\n{after}");
        let checked = |text: &str| {
            let trace = trace(text);
            verdict(&trace, &discarded(&trace, Pieces::new(PAGE, PAGE)))
        };
        let all = checked(&text);
        // Page 1 comes later; 6 and 7 are in use without having been written.
        assert_eq!(
            all,
            Judged {
                discarded: 7,
                lost: 2
            }
        );
        let good = text.replace("5,W,a,8192,4096", "5,W,a,8192,24576");
        let all = checked(&good);
        assert_eq!((all.discarded, all.lost), (7, 0));
    }

    #[test]
    fn a_late_agent_sees_the_newest() {
        let text = "0,W,a,0,65536\n0,W,b,0,4096\n10,M\n10,A,a,65536\n10,S\n20,W,a,0,4096\n20,M\n\
                    20,A,a,65536,8192,8192\n20,A,b,4096\n20,S\n40,M\n40,A,a,65536,4096,4096\n40,S\n50,C\n";
        let seen =
            "0,W,a,0,65536\n0,W,b,0,4096\n20,W,a,0,4096\n25,M\n25,A,a,65536,8192,8192\n25,A,b,4096\n25,S\n\
                    50,C\n55,M\n55,A,a,65536,4096,4096\n55,S\n";
        let shown = |trace: &Trace| -> Vec<String> {
            let event = |e: Event| match e.what {
                What::List { file, list } => format!("{} {file} {:?}", e.us, trace.lists.get(list)),
                _ => format!("{e:?}"),
            };
            trace.events().map(event).collect()
        };
        assert_eq!(shown(&late(&trace(text), 15)), shown(&trace(seen)));
    }
}

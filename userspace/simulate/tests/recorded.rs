// SPDX-License-Identifier: GPL-2.0-or-later
//! dsmd's own rule beside recordings of WiredTiger 11: it discards what `dsmctl simulate`
//! says that it does, page for page, and nothing that a later list shows to be in use.

mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};

use judge::{late, verdict};

use database::wiredtiger::avail::{FileEntry, FreeList, Refusal, Run, Standing, TurtleId};
use dm::device::Target;
use dm::table::Extent;
use dsmd::agent::discard::{Database, Halt, Look, Owner, Rule, Seen};
use proto::reason::Reason;
use simulate::flash::PAGE;
use simulate::sim::discard::discarded;
use simulate::sim::pieces::Pieces;
use simulate::trace::events::{self, Events};
use simulate::trace::{self, Event, FileNo, Trace, What};
use testing::cookie::cookie;
use testing::kernel::ModelKernel;

/// Bytes of the device that each file has for itself.
const ROOM: u64 = 1 << 32;
/// Looks of which dsmd compares nothing: two changes of the turtle are waited for.
const WAITS: u64 = 3;

/// A page that was discarded, by the look that it was discarded after.
type Gone = BTreeSet<(u64, FileNo, u64)>;

/// A recording that goes on while dsmd looks.
struct Recorded<'a> {
    trace: &'a Trace,
    events: events::Iter<'a>,
    kernel: &'a ModelKernel,
    /// Whether the target sees writes.
    reports: bool,
    us: u64,
    looks: u64,
    lost: bool,
    /// Times that the audit reported it.
    violations: u32,
    /// The order and the number of each file's newest list.
    files: BTreeMap<FileNo, (u64, u32)>,
}

impl Recorded<'_> {
    fn happens(&mut self, e: &Event) {
        self.us = e.us;
        match e.what {
            What::Write { file, offset, length } if self.reports => {
                let first = u64::from(file) * ROOM / PAGE;
                for page in offset / PAGE..(offset + length).div_ceil(PAGE) {
                    self.kernel.write_page(first + page);
                }
            }
            What::List { file, list } => {
                let known = self.files.entry(file).or_default();
                *known = (known.0 + 1, list);
            }
            What::Delete { file } => {
                self.files.remove(&file);
            }
            What::Lost => {
                self.kernel.lose_writes();
                self.lost = true;
            }
            _ => {}
        }
    }
}

impl Database for Recorded<'_> {
    fn preconditions(&mut self) -> Result<String, String> {
        Ok("recorded".to_owned())
    }

    fn stands(&mut self) -> Result<(), Reason> {
        Ok(())
    }

    fn turtle(&mut self) -> Result<Option<TurtleId>, String> {
        Ok(Some(TurtleId(self.looks.to_string())))
    }

    fn owner(&mut self) -> Result<Option<Owner>, String> {
        Ok(Some(Owner {
            pid: 1,
            start: 1,
            uid: 0,
        }))
    }

    fn read(&mut self, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Result<Seen, Refusal> {
        while let Some(e) = self.events.next() {
            self.happens(&e);
            if e.what == What::Looked {
                break;
            }
        }
        let mut files = Vec::new();
        for (&file, &(order, number)) in &self.files {
            let list = self.trace.lists.get(number);
            let pages = list.file_size.div_ceil(PAGE);
            let entry = FileEntry {
                path: PathBuf::from(file.to_string()),
                order,
                // Of size 0: it could not be read.
                cookie: (pages > 0).then(|| cookie((9, 1 + u64::from(number)), pages, PAGE)),
                leaf_page: None,
            };
            let list = wanted(&entry).then(|| {
                Ok(FreeList {
                    file: (u64::from(file), 1),
                    ..list
                })
            });
            files.push((entry, list));
        }
        Ok(Seen {
            turtle: TurtleId(self.looks.to_string()),
            run: Run::default(),
            version: "11.3.1".into(),
            standing: Standing::Discard,
            files,
        })
    }

    fn sync_dbpath(&mut self) -> Result<(), Reason> {
        Ok(())
    }

    fn places(
        &mut self,
        path: &Path,
        file: (u64, i128),
        ranges: &[Range<u64>],
        emit: &mut dyn FnMut(Extent),
    ) -> Result<(), String> {
        let number: u64 = path.to_str().unwrap().parse().unwrap();
        assert_eq!(file.0, number);
        for r in ranges {
            let start = (number * ROOM + r.start) / 512;
            emit(Extent::new(r.start / 512, start, (r.end - r.start) / 512));
        }
        Ok(())
    }
}

/// What dsmd discards beside a recording, in pieces of so many pages.
fn play(trace: &Trace, granule: u64, reports: bool) -> (Trace, Gone, u32) {
    let kernel = ModelKernel::new(u64::from(trace.files) * ROOM / 512);
    kernel.set_granule(granule);
    kernel.message("set discard on").unwrap();
    let mut r = Recorded {
        trace,
        events: trace.events(),
        kernel: &kernel,
        reports,
        us: 0,
        looks: 0,
        lost: false,
        violations: 0,
        files: BTreeMap::new(),
    };
    let (mut rule, mut events, mut all) = (Rule::default(), Events::default(), Gone::new());
    while let Some(e) = r.events.next() {
        if e.what != What::Window {
            r.happens(&e);
        } else {
            r.looks += 1;
            for (file, page) in look(&mut rule, &mut r) {
                all.insert((r.looks, file, page));
                let what = What::Discard {
                    file,
                    offset: page * PAGE,
                    length: PAGE,
                };
                events.push(&Event { us: r.us, what });
            }
        }
        if std::mem::take(&mut r.lost) {
            rule.forget();
        }
    }
    (trace.with_events(events), all, r.violations)
}

/// The pages that are discarded after a look.
fn look(rule: &mut Rule, r: &mut Recorded) -> BTreeSet<(FileNo, u64)> {
    let kernel = r.kernel;
    let found = match rule.look(r, kernel) {
        Ok(Look::Found(found)) if !found.granules.is_empty() && !r.lost => found,
        Ok(_) => return BTreeSet::new(),
        Err(Halt::Violation(_)) if !r.reports => {
            r.violations += 1;
            return BTreeSet::new();
        }
        Err(e) => panic!("{e}"),
    };
    let all = found.granules.clone();
    rule.sent(&found, &all);
    let named = found.named().into_iter();
    let words: Vec<String> = named
        .map(|(since, s)| format!(" {since} {}:{}", s.start, s.length))
        .collect();
    let text = format!("discard{}", words.concat());
    kernel.message(&text).unwrap();
    let pages = kernel.run_discards(usize::MAX >> 1);
    let of_file = |page| ((page / (ROOM / PAGE)) as FileNo, page % (ROOM / PAGE));
    pages.into_iter().map(of_file).collect()
}

/// What is simulated of one that begins with the look of which dsmd compares the lists.
fn simulated(trace: &Trace, granule: u64) -> Gone {
    let (mut events, mut looks) = (Events::default(), 0);
    let mut known = BTreeMap::new();
    for e in trace.events() {
        looks += u64::from(e.what == What::Window);
        match e.what {
            What::List { file, list } if looks < WAITS => {
                known.insert(file, list);
            }
            What::Window | What::Looked if looks < WAITS => {}
            What::Looked if looks == WAITS => {
                for (&file, &list) in &known {
                    let what = What::List { file, list };
                    events.push(&Event { us: e.us, what });
                }
                known.clear();
                events.push(&e);
            }
            What::List { file, .. } if looks == WAITS => {
                known.remove(&file);
                events.push(&e);
            }
            _ => events.push(&e),
        }
    }
    let pieces = Pieces::new(granule * PAGE, granule * PAGE);
    let (mut all, mut looks) = (Gone::new(), WAITS - 1);
    for e in discarded(&trace.with_events(events), pieces).events() {
        match e.what {
            What::Window => looks += 1,
            What::Discard { file, offset, length } => {
                all.extend((offset / PAGE..(offset + length) / PAGE).map(|page| (looks, file, page)));
            }
            _ => {}
        }
    }
    all
}

fn recording() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/recordings/linkbench.rec");
    trace::read(BufReader::new(File::open(path).unwrap())).unwrap()
}

#[test]
fn dsmd_discards_what_is_simulated_and_nothing_that_is_in_use() {
    let trace = recording();
    for ms in [0, 50, 400, 2000] {
        let seen = late(&trace, 1000 * ms);
        for granule in [1, 8, 32] {
            let (discards, all, _) = play(&seen, granule, true);
            let v = verdict(&trace, &discards);
            eprintln!("late by {ms} ms, pieces of {granule} pages: {v:?}");
            assert_eq!(v.lost, 0);
            assert_eq!(v.discarded, all.len() as u64);
            let simulated = simulated(&seen, granule);
            assert!(all == simulated, "{} pages, and {}", all.len(), simulated.len());
            assert!(granule > 8 || ms > 400 || all.len() > 100, "{} pages", all.len());
        }
    }
}

/// The check sees what is wrong.
#[test]
fn a_target_that_does_not_see_writes_is_caught() {
    let trace = recording();
    let (discards, _, violations) = play(&trace, 1, false);
    let v = verdict(&trace, &discards);
    assert!(v.lost > 0 && violations > 0, "{v:?}, {violations}");
}

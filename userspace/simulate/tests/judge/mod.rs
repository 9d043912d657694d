// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether discards were right.  That needs no trust in the rule: whatever a file's later lists
//! do not name is in use, and must have been written since it was discarded.

use std::collections::{BTreeSet, VecDeque};

use database::wiredtiger::avail::FreeList;
use simulate::flash::PAGE;
use simulate::trace::events::Events;
use simulate::trace::{Event, Trace, What};

/// The same as an agent sees it that wakes up so much later than the one that
/// recorded: it finds the newest lists, and may miss some in between.
pub(crate) fn late(trace: &Trace, us: u64) -> Trace {
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
pub(crate) struct Judged {
    /// Pages that were discarded, and of those the ones that were in use.
    pub(crate) discarded: u64,
    pub(crate) lost: u64,
}

/// Whether every page that was discarded in `seen`, and not written again, is on each
/// later list of its file in `trace`, which it was made from.
pub(crate) fn verdict(trace: &Trace, seen: &Trace) -> Judged {
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

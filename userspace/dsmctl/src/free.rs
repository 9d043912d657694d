// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl free`.

mod advice;
mod forecast;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::cli::{self as args, Free, Output};
use advice::{advice, Advice, Here};
use database::ident::classify;
use database::walk::Root;
use database::wiredtiger::avail::{self, Documents, FileEntry, FreeList, Kind, Lists, Snapshot, Standing};
use dm::class::Class;
use forecast::Outlook;
use proto::device::DeviceView;
use proto::snapshot::Snapshot as Published;
use runtime::grid::{mib, Grid};
use runtime::sizes;
use runtime::text::printable;

/// mongod's indexes have 16 KiB, its collections 32; of 8 KiB nothing is to be gained.
const SMALL_LEAF: u32 = 8 << 10;
/// Of smaller files nothing is to be gained.
const SMALL_FILE: u64 = 1 << 20;
/// Of which hardly anything is listed is not rewritten.
const LITTLE: f64 = 0.01;

/// Whether smaller leaf pages may be better for a collection or an index of mongod's: it has large
/// ones, it is rewritten, and its documents are small, as far as that is known.  No other
/// file's pages can be set.
pub(crate) fn large_leaves(file: &FileEntry, list: &FreeList, documents: &Documents) -> Option<Class> {
    let is_rewritten = list.file_size >= SMALL_FILE && share(list.bytes(), list.file_size) >= LITTLE;
    let class = classify(&file.path);
    let small = match class {
        Class::Collection => avail::are_small(documents.get(&file.path).copied()),
        Class::Index => true,
        _ => false,
    };
    (small && is_rewritten && may_be_large(file)).then_some(class)
}

pub(crate) fn may_be_large(file: &FileEntry) -> bool {
    file.leaf_page > Some(SMALL_LEAF)
}

/// What is said of so many collections for which smaller leaf pages may be better.
pub(crate) fn in_large_leaves(files: usize) -> String {
    let (noun, are, have) = match files {
        1 => ("collection", "is", "has"),
        _ => ("collections", "are", "have"),
    };
    format!(
        "{files} {noun} {are} rewritten in leaf pages of more than {}, and {have} small documents, as far as is known",
        sizes::shown(SMALL_LEAF.into())
    )
}

/// Rows of the table, unless all are asked for.
const ROWS: usize = 20;

#[derive(Serialize)]
struct FreeReport<'a> {
    dbpath: String,
    wiredtiger: String,
    /// Whether blocks of it can be discarded, and why not.
    discard: bool,
    discard_refused: Option<String>,
    /// An audit must, or may, show that they can.
    audit: bool,
    /// Why it must.
    discard_note: Option<String>,
    files: Vec<ListedFile<'a>>,
    total: Sum,
    /// Share of the file system that is in use.
    full: Option<f64>,
    outlook: Outlook,
    summary: String,
    /// Seconds between the last two checkpoints, as dsmd has seen.
    interval: Option<f64>,
    advice: Vec<Advice>,
}

#[derive(Default, Serialize)]
struct ListedFile<'a> {
    path: String,
    /// Bytes at the checkpoint; null: it has none, or its list was refused.
    size: Option<u64>,
    free: Option<u64>,
    share: Option<f64>,
    extents: Option<usize>,
    /// `leaf_page_max`, in bytes.
    leaf_page: Option<u32>,
    /// The mean size of a document, in bytes, if mongod has stored it.
    document: Option<u64>,
    /// Smaller leaf pages may be better: of a collection, or of an index.
    smaller_leaves: Option<Class>,
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranges: Option<Vec<&'a std::ops::Range<u64>>>,
}

#[derive(Default, Serialize)]
struct Sum {
    files: usize,
    size: u64,
    free: u64,
    share: f64,
    extents: usize,
}

pub(crate) fn free(a: &Free, out: Output) -> Result<()> {
    let named = || a.dbpath.display().to_string();
    let root = Root::open(&a.dbpath).with_context(named)?;
    let (snapshot, lists) = avail::read(&root, &mut |_| true).with_context(named)?;
    // They are only shown.
    let documents = avail::documents(&root, &snapshot).unwrap_or_default();
    let served = served(&a.dbpath);
    let report = report(a, &snapshot, &lists, &documents, full(&root), served.as_ref());
    crate::print(out, &report, || text(a, &report))
}

/// What dsmd says of it, if it serves it.
fn served(dbpath: &Path) -> Option<DeviceView> {
    let published = Published::current(&args::run_dir()).ok()?;
    let dbpath = dbpath.canonicalize().ok()?;
    let its = |d: &DeviceView| d.agent.as_ref().is_some_and(|a| Path::new(&a.dbpath) == dbpath);
    published.devices.into_iter().find(its)
}

/// How much of the file system is in use, as `df` has it.
fn full(root: &Root) -> Option<f64> {
    let s = rustix::fs::fstatvfs(root.handle().ok()??).ok()?;
    let used = s.f_blocks.checked_sub(s.f_bfree)?;
    let all = used + s.f_bavail;
    (all > 0).then(|| used as f64 / all as f64)
}

fn share(free: u64, size: u64) -> f64 {
    free as f64 / size.max(1) as f64
}

fn report<'a>(
    a: &Free,
    snapshot: &Snapshot,
    lists: &'a Lists,
    documents: &Documents,
    full: Option<f64>,
    served: Option<&DeviceView>,
) -> FreeReport<'a> {
    let mut total = Sum::default();
    // By class: all of it, and what is in large leaves.
    let mut sizes: HashMap<Class, (u64, u64)> = HashMap::new();
    let mut files = Vec::new();
    for (entry, list) in snapshot.files.iter().zip(lists) {
        let mut file = ListedFile {
            path: entry.path.display().to_string(),
            leaf_page: entry.leaf_page,
            document: documents.get(&entry.path).copied(),
            ..ListedFile::default()
        };
        match list {
            Some(Ok(list)) => {
                let (size, free) = (list.file_size, list.bytes());
                (file.size, file.free) = (Some(size), Some(free));
                (file.share, file.extents) = (Some(share(free, size)), Some(list.extents.len()));
                file.ranges = a.ranges.then(|| list.extents.iter().collect());
                total.add(&file);
                file.smaller_leaves = large_leaves(entry, list, documents);
                let (all, large) = sizes.entry(classify(&entry.path)).or_default();
                *all += size;
                *large += u64::from(file.smaller_leaves.is_some()) * size;
            }
            // What was dropped since the checkpoint is nothing to report.
            Some(Err(e)) if e.kind == Kind::Gone => continue,
            Some(Err(e)) => file.refused = Some(e.message.clone()),
            None => {}
        }
        files.push(file);
    }
    total.share = share(total.free, total.size);
    let may = snapshot.may_discard();
    let (audit, note) = match snapshot.standing() {
        Standing::Prove(why) => (true, Some(why)),
        standing => (matches!(standing, Standing::Audit(_)), None),
    };
    let large = |class| sizes.get(&class).map_or(0.0, |(all, large)| share(*large, *all));
    let outlook = Outlook::of(total.share);
    let agent = served.and_then(|d| d.agent.as_ref());
    let interval = agent.and_then(|i| i.last_window_ms).map(|ms| ms as f64 / 1000.0);
    let advice = advice(&Here {
        large_leaves: large(Class::Collection),
        large_index_leaves: large(Class::Index),
        interval,
        full,
        listed: total.share,
        outlook,
        may_discard: may.is_ok(),
        // In audit they begin by themselves.
        discards: agent.is_some_and(|i| i.discard.is_some()),
        streams: served
            .and_then(DeviceView::status)
            .is_some_and(|s| s.streams_used > 1),
    });
    FreeReport {
        dbpath: a.dbpath.display().to_string(),
        wiredtiger: snapshot.version.to_string(),
        discard: may.is_ok(),
        discard_refused: may.err().map(|e| e.message),
        audit,
        discard_note: note,
        summary: match total.files {
            0 => "No file has a list of free blocks that was read: nothing can be said of discards.".into(),
            _ => outlook.summary(total.share, full),
        },
        files,
        total,
        full,
        outlook,
        interval,
        advice,
    }
}

impl Sum {
    fn add(&mut self, file: &ListedFile) {
        self.files += 1;
        self.size += file.size.unwrap_or(0);
        self.free += file.free.unwrap_or(0);
        self.extents += file.extents.unwrap_or(0);
    }
}

fn text(a: &Free, r: &FreeReport<'_>) -> String {
    let mut files: Vec<&ListedFile> = r.files.iter().filter(|f| f.size.is_some()).collect();
    files.sort_by_key(|f| std::cmp::Reverse(f.free));
    let shown = if a.all { files.len() } else { ROWS.min(files.len()) };
    let mut grid = Grid::new(
        &["FILE", "LEAF KiB", "DOC B", "MiB", "FREE MiB", "SHARE", "EXTENTS"],
        &[false, true, true, true, true, true, true],
    );
    let mut row = |name: String, pages: [Option<u64>; 2], files: &Sum| {
        let [leaf, document] = pages.map(|n| n.map_or(String::new(), |n| n.to_string()));
        let share = format!("{:.1} %", 100.0 * share(files.free, files.size));
        let [size, free] = [files.size, files.free].map(mib);
        grid.row(&[&name, &leaf, &document, &size, &free, &share, &files.extents]);
    };
    let sum = |files: &[&ListedFile]| {
        let mut sum = Sum::default();
        files.iter().for_each(|f| sum.add(f));
        sum
    };
    for f in &files[..shown] {
        let leaf = f.leaf_page.map(|bytes| u64::from(bytes >> 10));
        row(printable(&f.path), [leaf, f.document], &sum(&[*f]));
    }
    if shown < files.len() {
        let rest = &files[shown..];
        row(format!("{} more (--all)", rest.len()), [None; 2], &sum(rest));
    }
    row(format!("{} files", r.total.files), [None; 2], &r.total);
    let mut s = grid.text();
    for refused in r.files.iter().filter_map(|f| f.refused.as_ref()) {
        let _ = writeln!(s, "skipped: {}", printable(refused));
    }
    let _ = writeln!(s, "\n{}", r.summary);
    if let Some(why) = &r.discard_refused {
        let had = if r.audit {
            "dsmd only audits this database"
        } else {
            "It cannot be had here"
        };
        let _ = writeln!(s, "{had}: {why}.");
    } else if let Some(why) = &r.discard_note {
        let _ = writeln!(
            s,
            "dsmd discards here when an audit has passed, whatever audit-pages says: {why}."
        );
    } else if r.total.share >= 0.005 {
        s += "Space that was free before dsmd came counts here, too: it is discarded once, in files that get new\n\
              checkpoints. dsmctl record and dsmctl simulate tell what all this is worth for this database.\n";
    }
    let large = |f: &&ListedFile<'_>| f.smaller_leaves == Some(Class::Collection);
    match r.files.iter().filter(large).count() {
        0 => {}
        n => {
            let _ = writeln!(s, "{}.", in_large_leaves(n));
        }
    }
    s + "\n" + &advice::text(&r.advice, &printable(&r.dbpath))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_leaf_pages_could_be_smaller() {
        let of = |path: &str, leaf_page: u32, percent: u64, mean: Option<u64>| {
            let file = FileEntry {
                path: path.into(),
                order: 1,
                cookie: None,
                leaf_page: Some(leaf_page << 10),
            };
            let list = FreeList {
                file: (1, 1),
                file_size: 100 << 20,
                extents: std::iter::once(0..percent << 20).collect(),
            };
            let documents = mean.map(|mean| (file.path.clone(), mean)).into_iter().collect();
            large_leaves(&file, &list, &documents)
        };
        let collection = "collection-0-1.wt";
        assert_eq!(
            of(collection, 32, 14, Some(500)),
            Some(Class::Collection),
            "little is rewritten"
        );
        assert_eq!(
            of(collection, 32, 1, None),
            Some(Class::Collection),
            "nobody knows"
        );
        assert_eq!(of(collection, 32, 14, Some(3000)), None);
        assert_eq!(of(collection, 32, 0, Some(500)), None);
        assert_eq!(of(collection, 8, 40, Some(500)), None);
        assert_eq!(of("db/index/3--1.wt", 16, 40, None), Some(Class::Index));
        for own in ["WiredTigerHS.wt", "sizeStorer.wt", "_mdb_catalog.wt"] {
            assert_eq!(of(own, 32, 40, None), None, "{own}");
        }
    }
}

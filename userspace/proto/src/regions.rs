// SPDX-License-Identifier: GPL-2.0-or-later
//! What people are shown of a checkpoint and of regions.

use std::collections::HashMap;

use dm::reply::{Checkpoint, Region};
use runtime::grid::{mib, or_dash, Grid};
use runtime::text::printable;

/// Names of files by id.
pub type Names = HashMap<u64, String>;

/// Gives regions the names of their files.
pub fn name(regions: &mut [Region], names: &Names) {
    for r in regions {
        r.file = names.get(&r.id).cloned();
    }
}

/// The line above the regions after a checkpoint.
pub fn checkpoint_text(c: &Checkpoint) -> String {
    format!(
        "checkpoint {}  window {:.1} s  written regions {}, moved {}\n",
        c.window,
        c.ms as f64 / 1000.0,
        c.written,
        c.moved
    )
}

/// A row for each region, files in the order of their names.
pub fn regions_text(regions: &[Region]) -> String {
    rows_text(regions.iter())
}

fn rows_text<'a>(regions: impl Iterator<Item = &'a Region>) -> String {
    let mut grid = Grid::new(
        &[
            "FILE", "CLASS", "SIDE", "MiB", "PAGES", "HOTNESS", "GROUP", "NEXT", "STREAM",
        ],
        &[false, false, false, true, true, true, true, true, true],
    );
    let named = |r: &Region| r.file.as_deref().map_or_else(|| r.id.to_string(), printable);
    let mut rows: Vec<(String, &Region)> = regions.map(|r| (named(r), r)).collect();
    // Stable: bottom stays before top.
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, r) in rows {
        grid.cells(row(r, name, vec![mib(r.bytes), r.pages.to_string()]));
    }
    grid.text()
}

/// With what was written between its side and its hotness.
pub fn row(r: &Region, name: String, written: Vec<String>) -> Vec<String> {
    let mut row = vec![name, r.class.to_string(), r.side.to_string()];
    row.extend(written);
    row.push(or_dash(r.hotness.map(|h| format!("{h:.3}"))));
    row.extend([r.group.to_string(), r.next.to_string(), r.stream.to_string()]);
    row
}

/// A row for each region that was written in its last window, and how many were
/// not.
pub fn written_text(regions: &[Region]) -> String {
    let (written, idle): (Vec<&Region>, Vec<&Region>) = regions.iter().partition(|r| r.pages > 0);
    let rest = match idle.len() {
        0 => String::new(),
        1 => "1 region more was not written\n".to_owned(),
        n => format!("{n} regions more were not written\n"),
    };
    rows_text(written.into_iter()) + &rest
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables of text, and figures in them.

use std::fmt::{Display, Write as _};

/// Bytes in a MiB, as f64.
const MIB: f64 = 1_048_576.0;

/// A table of text: columns are as wide as they need be.
pub struct Grid {
    rows: Vec<Vec<String>>,
    right: &'static [bool],
}

impl Grid {
    /// Columns that are `right` are aligned at their end.
    pub fn new(heading: &[&str], right: &'static [bool]) -> Self {
        Self {
            rows: vec![heading.iter().map(|&s| s.to_owned()).collect()],
            right,
        }
    }

    pub fn row(&mut self, cells: &[&dyn Display]) {
        self.cells(cells.iter().map(ToString::to_string).collect());
    }

    pub fn cells(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn text(&self) -> String {
        let columns = self.right.len();
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &w), &right) in row.iter().zip(&widths).zip(self.right) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                if right {
                    write!(line, "{cell:>w$}").expect("strings grow");
                } else {
                    write!(line, "{cell:<w$}").expect("strings grow");
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

pub fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB)
}

pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "-".to_owned()
    } else {
        format!("{:.1} %", 100.0 * part as f64 / whole as f64)
    }
}

pub fn or_dash(v: Option<impl Display>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

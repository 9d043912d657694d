// SPDX-License-Identifier: GPL-2.0-or-later
//! What the documentation says of metrics is what the code has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dsm_exporter::metrics::families::{DEVICES, PUBLISHED, USED};

fn documentation() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Documentation")
}

/// What the list of changes says is gone.
const GONE: &[&str] = &["dsm_window_seconds", "dsm_snapshot_age_seconds"];
/// Of the kernel's trace, and no metric.
const EVENT: &str = "dsm_place";

#[test]
fn no_page_names_a_metric_that_is_not_there() {
    let others = [&PUBLISHED, &USED].into_iter().flat_map(|s| s.families);
    let devices = DEVICES.iter().flat_map(|s| s.families).map(|f| f.name);
    let exported: BTreeSet<&str> = devices.chain(others.map(|f| f.name)).collect();
    let mut seen = 0;
    for entry in fs::read_dir(documentation()).unwrap() {
        let path = entry.unwrap().path();
        let page = path.file_name().unwrap().to_string_lossy().into_owned();
        if !page.ends_with(".md") && !["dsmd.rst", "papers.rst"].contains(&page.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        // What begins with the same ends with an underscore.
        for name in words.filter(|w| w.starts_with("dsm_") && !w.ends_with('_')) {
            let gone = page == "CHANGELOG.md" && GONE.contains(&name);
            assert!(exported.contains(name) || gone || name == EVENT, "{page}: {name}");
            seen += 1;
        }
    }
    assert!(seen > exported.len(), "{seen}");
}

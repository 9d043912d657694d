// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of devices, as arguments and as files, and those of pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn names_that_no_device_can_have_are_refused() {
    let long = format!("a{}", "-".repeat(80));
    for name in ["-x", "--check", &long, "a/b", "../d", r"vg\x2ddb", "db.service"] {
        for words in [
            &["create", "--", name, "/dev/null"][..],
            &["attach", "--", name],
            &["check", "--", name],
            &["trial", "step", "--", name],
        ] {
            let o = Command::new(env!("CARGO_BIN_EXE_dsmctl"))
                .args(words)
                .output()
                .unwrap();
            let said = String::from_utf8(o.stderr).unwrap();
            assert_eq!(o.status.code(), Some(2), "{words:?}: {said}");
            assert!(said.contains("it must be 1 to 80 letters"), "{words:?}: {said}");
        }
    }
}

/// What programs print of a page is where it is installed, and every page that is named exists.
#[test]
fn pages_are_named_as_they_are_installed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for name in ["dsmctl", "dsmd", "dsm-exporter", "drive", "database", "proto"] {
        sources_in(&crates.join(name).join("src"), &mut sources);
    }
    let mut named = 0;
    for path in &sources {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|l| !l.trim_start().starts_with("//"));
        for line in lines.filter(|l| !l.contains("include_str!") && !l.contains("metrics.md")) {
            for (at, _) in line.match_indices(".md").chain(line.match_indices(".rst")) {
                let letter = |c: char| c.is_alphanumeric() || c == '-';
                let start = line[..at].rfind(|c| !letter(c)).map_or(0, |n| n + 1);
                let end = line[at + 1..]
                    .find(|c| !letter(c))
                    .map_or(line.len(), |n| at + 1 + n);
                let page = &line[start..end];
                // A table of what is passed to it
                let given = path.ends_with("advice.rs");
                assert!(given || line[..start].ends_with("page(\""), "{path:?}: {line}");
                assert!(
                    crates.join("../Documentation").join(page).exists(),
                    "{path:?}: {page}"
                );
                named += 1;
            }
        }
    }
    assert!(named > 14, "{named}");
}

fn sources_in(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources_in(&path, all),
            false => all.push(path),
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Databases that would take a reader's time or memory, before the program itself, which has
//! little of either: an error message is the answer.

use std::path::Path;
use std::process::Command;

use testing::hostile;

/// Bytes, nearly as many as a block may have.
const LIST: usize = 60 << 20;

/// Whether `dsmctl free` ends well, and all that it says, with 2 GB of memory and 60 seconds
/// of processor time.
fn free(make: fn(&Path)) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let limits = "ulimit -v 2000000 -t 60 && exec \"$@\"";
    let done = Command::new("bash")
        .args(["-c", limits, "bash", env!("CARGO_BIN_EXE_dsmctl"), "free"])
        .arg(dir.path())
        .output()
        .unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_tree_that_leads_to_the_same_page_again_is_refused() {
    for make in [hostile::visits, hostile::names] {
        let (done, said) = free(make);
        assert!(!done, "{said}");
        assert!(
            said.contains("WiredTiger.wt: its tree has the block at "),
            "{said}"
        );
        assert!(said.contains(" twice, or a part of it"), "{said}");
    }
}

#[test]
fn more_files_than_there_is_memory_for_are_refused() {
    let (done, said) = free(|dir| hostile::files(dir, 100, 20_000));
    assert!(!done, "{said}");
    assert!(
        said.contains("WiredTiger.wt: it has more files than 128 MiB hold"),
        "{said}"
    );
}

#[test]
fn a_list_is_read_once() {
    let (done, said) = free(|dir| hostile::twins(dir, LIST));
    assert!(!done, "{said}");
    assert!(
        said.contains("l.wt: it is there twice, or not in order"),
        "{said}"
    );
    // Its other names cost nothing more.
    let (done, said) = free(|dir| hostile::links(dir, LIST));
    assert!(done, "{said}");
    let skipped = said.matches(".wt: the metadata has this file twice\n").count();
    assert_eq!(skipped, 299, "{said}");
}

#[test]
fn a_list_with_a_hole_is_not_read() {
    let (done, said) = free(|dir| hostile::hole(dir, LIST));
    assert!(done, "{said}");
    assert!(
        said.contains("skipped: l.wt: the block at 4096 has a hole\n"),
        "{said}"
    );
}

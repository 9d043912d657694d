// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of devices, as arguments and as files.

use std::fs;
use std::process::Command;

use agent::papers::state::{Directory, Keeper, State};
use trial::state::Store;

#[test]
fn names_that_no_device_can_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tab = dir.path().join("dsmtab");
    fs::write(&tab, "").unwrap();
    let tab = tab.to_str().unwrap();
    let long = format!("a{}", "-".repeat(80));
    for name in ["-x", "--check", &long, "a/b", "../d", r"vg\x2ddb", "db.service"] {
        for words in [
            &["create", "--", name, "/dev/null"][..],
            &["attach", "--tab", tab, "--", name],
            &["trial", "resume", "--", name],
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

/// dsmd moves away what it does not understand.
#[test]
fn boundaries_and_trials_are_in_no_ones_way() {
    let dir = tempfile::tempdir().unwrap();
    let state = |name: &str| State::new(name, Directory::default(), true, Vec::new());
    for name in ["trial-x", "trial", "x.old", "x"] {
        assert!(Keeper::new(dir.path(), name).save(&state(name)));
    }
    for name in ["x", "x.old", "trial-x"] {
        assert!(!Store::of(dir.path(), name).exists(), "{name}");
    }
    for name in ["trial-x", "trial", "x.old", "x"] {
        assert_eq!(Keeper::new(dir.path(), name).load(), Some(state(name)));
    }
}

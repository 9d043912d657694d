// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of devices, as arguments and as files.

use std::fs;
use std::process::Command;

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

// SPDX-License-Identifier: GPL-2.0-or-later
//! The units that are made from a table, and from one with a line that is wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn said(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

const TAB: &str =
    "a\\x /dev/x\nmy-db /dev/disk/by-id/nvme-X groups=4\nodd /dev/y groups=99\nlater PARTUUID=1-2 noauto\n";

#[test]
fn the_generator_makes_units_of_the_good_lines() {
    let dir = tempfile::tempdir().unwrap();
    let units = dir.path().join("units");
    let tab = dir.path().join("dsmtab");
    std::fs::write(&tab, TAB).unwrap();
    let generate = |args: &[&Path]| {
        Command::new(env!("CARGO_BIN_EXE_dsm-generator"))
            .args(args)
            .env("DSMTAB", &tab)
            .output()
            .unwrap()
    };
    let o = generate(&[&units, &units, &units]);
    assert_eq!(o.status.code(), Some(1));
    assert_eq!(said(&o).lines().count(), 1, "{}", said(&o));
    assert!(said(&o).contains("line 1: the name"));

    let mut made: Vec<String> = walk(&units)
        .into_iter()
        .map(|p| p.strip_prefix(&units).unwrap().display().to_string())
        .collect();
    made.sort();
    assert_eq!(
        made,
        [
            r"dev-mapper-later.device.requires/dsm@later.service",
            r"dev-mapper-my\x2ddb.device.requires/dsm@my\x2ddb.service",
            r"dev-mapper-odd.device.requires/dsm@odd.service",
            r"dsm@later.service.d/50-dsmtab.conf",
            r"dsm@my\x2ddb.service.d/50-dsmtab.conf",
            r"dsm@odd.service.d/50-dsmtab.conf",
            r"multi-user.target.wants/dsm@my\x2ddb.service",
            r"multi-user.target.wants/dsm@odd.service",
        ]
    );
    let text = std::fs::read_to_string(units.join(r"dsm@my\x2ddb.service.d/50-dsmtab.conf")).unwrap();
    let below = r"dev-disk-by\x2did-nvme\x2dX.device";
    assert_eq!(text, format!("[Unit]\nBindsTo={below}\nAfter={below}\n"));

    assert_eq!(generate(&[&units]).status.code(), Some(1));
    std::fs::remove_file(&tab).unwrap();
    assert_eq!(generate(&[&units, &units, &units]).status.code(), Some(0));
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    entries
        .flat_map(|p| if p.is_dir() { walk(&p) } else { vec![p] })
        .collect()
}

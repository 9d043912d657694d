// SPDX-License-Identifier: GPL-2.0-or-later
//! The units that are made from a table, and from one with a line that is wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn said(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

const TAB: &str =
    "a\\x /dev/x\nstuck /dev/x\nmy-db /dev/disk/by-id/nvme-X groups=4\n-x /dev/x\n--check /dev/x\n\
    odd /dev/y groups=many\nlater PARTUUID=1-2 noauto\n";

#[test]
fn the_generator_makes_units_of_the_good_lines() {
    let dir = tempfile::tempdir().unwrap();
    let units = dir.path().join("units");
    let tab = dir.path().join("dsmtab");
    let long = format!("a{}", "-".repeat(80));
    std::fs::write(&tab, format!("{long} /dev/x\n{TAB}")).unwrap();
    // Where one line's drop-in should be.
    std::fs::create_dir(&units).unwrap();
    std::fs::write(units.join("dsm@stuck.service.d"), "").unwrap();
    let generate = |args: &[&Path]| {
        Command::new(env!("CARGO_BIN_EXE_dsm-generator"))
            .args(args)
            .env("DSMTAB", &tab)
            .output()
            .unwrap()
    };
    let o = generate(&[&units, &units, &units]);
    assert_eq!(o.status.code(), Some(1));
    let said: Vec<String> = said(&o).lines().map(str::to_owned).collect();
    let about = [
        "line 1: the name",
        "line 2: the name",
        "line 5: the name \"-x\"",
        "line 6: the name \"--check\"",
        "stuck: ",
    ];
    assert_eq!(said.len(), about.len(), "{said:?}");
    for (line, about) in said.iter().zip(about) {
        assert!(line.contains(&format!("/dsmtab: {about}")), "{line}");
    }

    let mut made: Vec<String> = walk(&units)
        .into_iter()
        .map(|p| p.strip_prefix(&units).unwrap().display().to_string())
        .collect();
    made.sort();
    assert_eq!(
        made,
        [
            "dev-mapper-later.device.requires/dsm@later.service",
            r"dev-mapper-my\x2ddb.device.requires/dsm@my-db.service",
            "dev-mapper-odd.device.requires/dsm@odd.service",
            "dsm@later.service.d/50-dsmtab.conf",
            "dsm@my-db.service.d/50-dsmtab.conf",
            "dsm@odd.service.d/50-dsmtab.conf",
            "dsm@stuck.service.d",
            "multi-user.target.wants/dsm@my-db.service",
            "multi-user.target.wants/dsm@odd.service",
        ]
    );
    let text = std::fs::read_to_string(units.join("dsm@my-db.service.d/50-dsmtab.conf")).unwrap();
    let below = r"dev-disk-by\x2did-nvme\x2dX.device";
    let target = r"blockdev@dev-mapper-my\x2ddb.target";
    assert_eq!(
        text,
        format!("[Unit]\nBindsTo={below}\nAfter={below}\nWants={target}\nBefore={target}\n")
    );

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

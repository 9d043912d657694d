// SPDX-License-Identifier: GPL-2.0-or-later
//! The units that are made of files, and of some that are wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn said(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

const FILES: [(&str, &str); 9] = [
    ("a\\x", "drive = '/dev/x'"),
    ("stuck", "drive = '/dev/x'"),
    (
        "my-db",
        "drive = '/dev/disk/by-id/nvme-X'\ngroups = 4\ndbpath = '/db'",
    ),
    ("-x", "drive = '/dev/x'"),
    ("--check", "drive = '/dev/x'"),
    ("odd", "drive = '/dev/y'\ngroups = 'many'"),
    (
        "later",
        "drive = '/dev/disk/by-partuuid/1-2'\ndbpath = '/later'\nboot = false",
    ),
    ("vg-lv", "dbpath = '/lv'"),
    ("worse", "device = '/dev/x'"),
];

#[test]
fn the_generator_makes_units_of_the_good_files() {
    let dir = tempfile::tempdir().unwrap();
    let (units, files) = (dir.path().join("units"), dir.path().join("dsm"));
    std::fs::create_dir(&files).unwrap();
    for (name, text) in FILES {
        std::fs::write(files.join(format!("{name}.toml")), text).unwrap();
    }
    // Where one device's drop-in should be.
    std::fs::create_dir(&units).unwrap();
    std::fs::write(units.join("dsm@stuck.service.d"), "").unwrap();
    let generate = |args: &[&Path]| {
        Command::new(env!("CARGO_BIN_EXE_dsm-generator"))
            .args(args)
            .env("DSM_CONFIG_DIR", &files)
            .output()
            .unwrap()
    };
    let o = generate(&[&units, &units, &units]);
    assert_eq!(o.status.code(), Some(1));
    let said: Vec<String> = said(&o).lines().map(str::to_owned).collect();
    let about = [
        "--check.toml: the name",
        "-x.toml: the name",
        "a\\x.toml: the name",
        "stuck: ",
        "worse.toml: line 1: unknown field `device`",
    ];
    assert_eq!(said.len(), about.len(), "{said:?}");
    for (line, about) in said.iter().zip(about) {
        assert!(line.contains(about), "{line}");
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
            "dsm@later.service.d/50-device.conf",
            "dsm@my-db.service.d/50-device.conf",
            "dsm@odd.service.d/50-device.conf",
            "dsm@stuck.service.d",
            "multi-user.target.wants/dsm@my-db.service",
            "multi-user.target.wants/dsm@odd.service",
            "multi-user.target.wants/dsmd@my-db.service",
            "multi-user.target.wants/dsmd@vg-lv.service",
        ]
    );
    let text = std::fs::read_to_string(units.join("dsm@my-db.service.d/50-device.conf")).unwrap();
    let below = r"dev-disk-by\x2did-nvme\x2dX.device";
    let target = r"blockdev@dev-mapper-my\x2ddb.target";
    assert_eq!(
        text,
        format!("[Unit]\nBindsTo={below}\nAfter={below}\nWants={target}\nBefore={target}\n")
    );

    assert_eq!(generate(&[&units]).status.code(), Some(1));
    std::fs::remove_dir_all(&files).unwrap();
    assert_eq!(generate(&[&units, &units, &units]).status.code(), Some(0));
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    entries
        .flat_map(|p| if p.is_dir() { walk(&p) } else { vec![p] })
        .collect()
}

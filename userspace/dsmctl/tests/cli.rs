// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of dsmctl, as far as it needs no device.

use std::io;
use std::path::Path;
use std::process::{Command, Output};

use database::wiredtiger::avail::FreeList;
use dm::table::Extent;
use simulate::trace::recording::Writer;

fn dsmctl(words: &str) -> Output {
    dsmctl_with(Path::new("/nonexistent"), words)
}

/// With files of devices in a directory.
fn dsmctl_with(dir: &Path, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dsmctl"))
        .args(words.split_whitespace())
        .env("DSMD_RUN_DIR", "/nonexistent")
        .env("DSM_CONFIG_DIR", dir)
        .output()
        .unwrap()
}

fn said(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

#[test]
fn wrong_usage_ends_with_2() {
    for words in [
        "",
        "boil",
        "simulate",
        "simulate r s",
        "record d",
        "record d r --seconds 0",
        "doctor --checkpoint-seconds 0",
        "doctor --report=yes",
        "simulate r --policy best",
        "simulate r --policy dsm:groups=1",
        "simulate r --op 0",
        "simulate r --fill 1.1",
        "simulate r --unit 4K",
        "simulate r --warmup 1",
        "simulate r --size 1G --fill 0.5",
        "simulate r --load-stream 0",
        "simulate r --jobs 0",
        "simulate r --keep-free 1",
        "simulate r --keep-free -0.1",
        "simulate r --gc-destination apart",
        "simulate r --deleted-files gone",
        "create",
        "free",
        "free a b",
        "simulate r --rules ../x=f",
        "create n",
        "attach",
        "create n /dev/null --dbpath /db",
        "create n /dev/null --save --dry-run",
        "create n d --groups many",
        "create n d -f alpha",
        "create n d -f alpha=",
        "create n d -f policy=dsm",
        "create n d --policy best",
        "create n d --streams few",
        "create n d --size 0",
        "create n d --size 1000B",
        "insert",
        "insert n d",
        "insert n --groups many",
        "withdraw",
        "grow",
        "grow n --size 0",
        "simulate r --policy none,best",
        "debug restore",
        "status --watch",
        "status n --count 1",
        "boundary",
        "boundary mark",
        "verify",
        "probe-discard",
        "probe-discard n --wait 601",
        "probe-discard n --filler much",
        "status -o xml",
    ] {
        let o = dsmctl(words);
        assert_eq!(o.status.code(), Some(2), "{words}: {}", said(&o));
        assert!(o.stdout.is_empty(), "{words}");
    }
}

#[test]
fn errors_are_one_line() {
    for words in [
        "create n /dev/null",
        "create n /nonexistent",
        "status no-such-device",
        "set no-such-device groups 3",
        "set no-such-device threshold1 x",
        "remove no-such-device",
        "insert no-such-device",
        "insert /nonexistent",
        "withdraw no-such-device",
        "grow no-such-device",
        "boundary show no-such-device",
        "verify no-such-device",
        "debug restore no-such-device",
        "probe-discard no-such-device",
    ] {
        let o = dsmctl(words);
        let text = said(&o);
        assert_eq!(o.status.code(), Some(1), "{words}: {text}");
        assert!(text.starts_with("dsmctl: "), "{words}: {text}");
        assert_eq!(text.lines().count(), 1, "{words}: {text}");
        assert!(o.stdout.is_empty(), "{words}");
    }
    assert_eq!(
        said(&dsmctl("create n /dev/null")),
        "dsmctl: /dev/null: it is not a block device; nothing was changed\n"
    );
    // A script that asks for JSON is not given a sentence.
    for words in [
        "create n /dev/null",
        "trial stop n",
        "boundary mark n",
        "debug reset n",
    ] {
        assert_eq!(
            said(&dsmctl(&format!("-o json {words}"))),
            "dsmctl: -o json: this command has no data to print; nothing was done\n"
        );
    }
}

#[test]
fn a_recording_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("week.rec");
    std::fs::write(&file, "a week").unwrap();
    let o = dsmctl(&format!("record /nonexistent {} --seconds 1", file.display()));
    assert_eq!(o.status.code(), Some(1));
    let text = said(&o);
    assert!(
        text.contains("week.rec: it is there already, and is not overwritten"),
        "{text}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"a week");
}

#[test]
fn a_recording_beside_the_database_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let text = said(&dsmctl(&format!(
        "record {0} {0}/own.rec --seconds 1",
        dir.path().display()
    )));
    assert!(
        text.contains("own.rec: it is on the database's file system, and its own writes"),
        "{text}"
    );
}

#[test]
fn every_alert_is_on_the_page() {
    let page = include_str!("../../../Documentation/dashboard.md");
    let rules = include_str!("../../prometheus/dm-dsm.rules.yml");
    let names: Vec<&str> = rules
        .lines()
        .filter_map(|l| l.trim().strip_prefix("- alert: "))
        .collect();
    assert!(names.len() > 12, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("\n| {name} |")), "{name}");
    }
}

#[test]
fn help_explains_units() {
    let help = |words| String::from_utf8(dsmctl(words).stdout).unwrap();
    assert!(help("--help").contains("A sector is 512 bytes"));
    assert!(help("create --help").contains("--feature <NAME=VALUE>"));
    assert!(help("status --help").contains("MiB are 1048576 bytes"));
}

const SIMULATE: &str = "simulate --unit 256K --op 0.5 --policy none --policy dsm --streams 4 ";

/// Files of a recording have so many bytes of the device for themselves.
const ROOM: u64 = 1 << 30;

/// A recording of files that are there at the beginning, with their sizes.
fn recording(
    dir: &Path,
    files: &[(&str, u64)],
    events: impl FnOnce(&mut Writer<Vec<u8>>) -> io::Result<()>,
) -> String {
    let mut w = Writer::new(Vec::new(), 0).unwrap();
    for (id, (name, size)) in (0..).zip(files) {
        let extents = [Extent::new(0, id * ROOM / 512, size / 512)];
        w.file(id, name, *size, &extents).unwrap();
    }
    w.table(0).unwrap();
    events(&mut w).unwrap();
    let path = dir.join("r.rec");
    std::fs::write(&path, w.finish().unwrap()).unwrap();
    path.into_os_string().into_string().unwrap()
}

/// A collection of 8 MiB that is written over twice.
fn rewritten(dir: &Path) -> String {
    recording(dir, &[("collection-0-1.wt", 8 << 20)], |w| {
        for round in 1..3 {
            for n in 0..32 {
                w.write(round * 100 + n, (n * 7 % 32) << 9, 512, 0, 0)?;
            }
            w.checkpoint(round * 100 + 50)?;
        }
        Ok(())
    })
}

#[test]
fn simulate_dumps_what_a_drive_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let path = rewritten(dir.path());
    let file = dir.path().join("pages").display().to_string();
    let played = |words: &str| {
        let o = dsmctl(&format!(
            "simulate --unit 256K --op 0.5 {path} --dump {file} {words}"
        ));
        (o.status.success(), said(&o))
    };
    for words in [
        "",
        "--policy none",
        "--discard off",
        "--policy none,dsm --discard off",
    ] {
        let (good, text) = played(words);
        assert!(
            !good && text.contains("--dump: it takes one --policy"),
            "{words}: {text}"
        );
        assert!(!std::path::Path::new(&file).exists(), "{words}");
    }
    let (good, text) = played("--policy none --discard off --warmup 0.5");
    assert!(good, "{text}");
    let pages = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = pages.lines().collect();
    assert_eq!(lines[0], "dsm-pages,1,4096,2048");
    assert_eq!(lines.iter().filter(|l| **l == "B").count(), 1);
    let written: u64 = lines
        .iter()
        .filter_map(|l| l.strip_prefix("W,")?.split(',').nth(1)?.parse::<u64>().ok())
        .sum();
    assert_eq!(written, 3 * 2048);
    let (good, text) = played("--policy recorded --discard off");
    assert!(
        !good && text.contains("no write of the trace carries a stream"),
        "{text}"
    );
}

#[test]
fn simulate_prints_rows_and_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = rewritten(dir.path());
    let o = dsmctl(&format!("{SIMULATE}{path} -o json"));
    assert!(o.status.success(), "{}", said(&o));
    let rows: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, policy) in rows.iter().zip(["none", "dsm"]) {
        let fields: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            fields,
            [
                "discard",
                "erases",
                "gc_pages",
                "host_pages",
                "open_units",
                "policy",
                "reason",
                "spare_units",
                "streams_used",
                "unmapped_share",
                "waf"
            ]
        );
        // The load's stream, too.
        let open = if policy == "dsm" { 5 } else { 3 };
        assert_eq!(
            (&row["open_units"], &row["spare_units"]),
            (&open.into(), &16.into())
        );
        assert!(row["reason"].is_null());
        assert_eq!((&row["policy"], &row["discard"]), (&policy.into(), &false.into()));
        assert_eq!(row["host_pages"], 2 * 2048);
        assert_eq!(row["waf"], 1.0, "whole units are overwritten");
        assert_eq!(row["streams_used"], 1);
    }
    let o = dsmctl(&format!("{SIMULATE}{path}"));
    let text = String::from_utf8(o.stdout).unwrap();
    assert!(
        text.starts_with("What the flash of this drive would write, compared"),
        "{text}"
    );
    assert!(text.contains("\n  with streams   as much           WAF 1.000 in place of 1.000  dsm\n"));
    assert!(
        text.contains("\nStreams do not save 2 % here; discards were not played.\n"),
        "{text}"
    );
    // A tenth of a millisecond from checkpoint to checkpoint, and all is written.
    assert!(
        text.contains("\nFrom checkpoint to checkpoint, 0.0 s, 100 % of the database's size is written;"),
        "{text}"
    );
    assert!(
        text.contains("is not known: the recording has no lists"),
        "{text}"
    );
    assert!(
        text.contains("\n1 files, 8 MiB; 8 MiB written in the load phase, 16 MiB after it\n"),
        "{text}"
    );
    let o = dsmctl(&format!("{SIMULATE}{path} --policy dsm").replace("--policy none ", ""));
    let text = String::from_utf8(o.stdout).unwrap();
    assert!(
        text.starts_with("To see what is saved, play policy none as well"),
        "{text}"
    );
}

/// Half of a file is rewritten elsewhere in it from checkpoint to checkpoint: what is
/// left is free until then.
#[test]
fn simulate_says_what_discards_are_worth() {
    let dir = tempfile::tempdir().unwrap();
    let half = 8 << 20;
    let rounds = |w: &mut Writer<Vec<u8>>, has_lists: bool| {
        let list = |w: &mut Writer<Vec<u8>>, us, free: u64| -> io::Result<()> {
            let list = FreeList {
                file_size: 2 * half,
                extents: std::iter::once(free..free + half).collect(),
                ..FreeList::default()
            };
            w.window(us)?;
            if has_lists {
                w.list(0, Some(&list))?;
            }
            w.looked(us)
        };
        list(w, 1, half)?;
        for round in 0..40 {
            let us = 1000 * (round + 1);
            let at = (round + 1) % 2 * half;
            // In no order, so that units hold pages of different age.
            for n in 0..512 {
                w.write(us + n, (at >> 9) + ((n * 199 % 512) << 5), 32, 0, 0)?;
            }
            list(w, us + 512, half - at)?;
            w.checkpoint(us + 512)?;
        }
        Ok(())
    };
    let files = [("collection-0-1.wt", 2 * half)];
    let path = recording(dir.path(), &files, |w| rounds(w, true));
    let options = "--op 0.15 --unit 256K --policy none --policy dsm --streams 2";
    let rows = |more: &str| -> Vec<(String, bool, f64)> {
        let o = dsmctl(&format!("simulate {path} {options} {more} -o json"));
        assert!(o.status.success(), "{}", said(&o));
        let rows: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        let row = |r: &serde_json::Value| {
            (
                r["policy"].as_str().unwrap().to_owned(),
                r["discard"].as_bool().unwrap(),
                r["waf"].as_f64().unwrap(),
            )
        };
        rows.as_array().unwrap().iter().map(row).collect()
    };
    let both = rows("");
    let names: Vec<(&str, bool)> = both.iter().map(|r| (r.0.as_str(), r.1)).collect();
    assert_eq!(
        names,
        [("none", false), ("dsm", false), ("none", true), ("dsm", true)]
    );
    assert!(both[2].2 <= both[0].2 && both[2].2 < 1.05, "{both:?}");
    assert_eq!(rows("--discard off"), both[..2]);
    assert_eq!(rows("--discard on"), both[2..]);
    let o = dsmctl(&format!("simulate {path} {options}"));
    let said_text = String::from_utf8(o.stdout).unwrap();
    assert!(said_text.contains("none + discard"), "{said_text}");
    let with = |what: &str| {
        let line = said_text
            .lines()
            .find(|l| l.starts_with(&format!("  with {what} ")));
        line.unwrap_or_else(|| panic!("{what}: {said_text}")).to_owned()
    };
    assert!(with("discards").contains(" % less "), "{said_text}");
    assert!(
        with("both").contains(&format!(" WAF {:.3} ", both[3].2)),
        "{said_text}"
    );
    // Half of the file is written in each interval, and half of it is free then.
    assert!(
        said_text.replace('\n', " ").contains(
            ", 50 % of the database's size is written, and 50 % of its files is listed as free; the drive is 100 % full."
        ),
        "{said_text}"
    );
    let details = dir.path().join("d.json");
    let o = dsmctl(&format!(
        "simulate {path} {options} --details {}",
        details.display()
    ));
    assert!(o.status.success());
    let details: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(details).unwrap()).unwrap();
    assert_eq!(
        (&details["interval_share"], &details["listed_share"]),
        (&0.5.into(), &0.5.into())
    );
    // Without lists there is nothing to discard.
    let path = recording(dir.path(), &files, |w| rounds(w, false));
    let o = dsmctl(&format!("simulate {path} {options} --discard on"));
    assert_eq!(o.status.code(), Some(1));
    assert!(
        said(&o).contains("r.rec: it has no lists of free blocks"),
        "{}",
        said(&o)
    );
}

#[test]
fn simulate_says_what_it_cannot_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = rewritten(dir.path());
    for (words, reason) in [
        (
            " --size 4M",
            "r.rec: the trace uses 2048 pages at a time, and the drive has 1024",
        ),
        (
            " --unit 64M",
            "r.rec: policy none: 1 streams need 3 spare erase units, and 0 is what over-prov",
        ),
        (
            " --load-stream 5",
            "dsmctl: --load-stream 5: the drive has 4 streams",
        ),
    ] {
        let o = dsmctl(&format!(
            "simulate --op 0.5 --policy none --streams 4 {path}{words}"
        ));
        assert_eq!(o.status.code(), Some(1), "{words}");
        assert!(said(&o).contains(reason), "{words}: {}", said(&o));
    }
    let o = dsmctl("simulate /nonexistent");
    assert!(
        said(&o).starts_with("dsmctl: /nonexistent: No such file"),
        "{}",
        said(&o)
    );
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let o = dsmctl(&format!("simulate {path}"));
    assert!(
        said(&o).contains("r.rec: after 64 events: it is cut off"),
        "{}",
        said(&o)
    );
}

/// 8 MiB in units of 256 KiB: 3 or 16 of them are spare units.
#[test]
fn simulate_leaves_out_what_does_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("collection-0-1.wt", 4 << 20), ("index-1-1.wt", 4 << 20)];
    let path = recording(dir.path(), &files, |w| {
        for n in 0..2048 {
            w.write(2 + n, n % 2 * (ROOM >> 9) + ((n * 397 % 1024) << 3), 8, 0, 0)?;
            if n % 500 == 0 {
                w.checkpoint(2 + n)?;
            }
        }
        Ok(())
    });
    let run = |words: &str| dsmctl(&format!("simulate --unit 256K {path} {words}"));
    let rows = |words: &str| -> Vec<serde_json::Value> {
        let o = run(&format!("{words} -o json"));
        assert!(o.status.success(), "{}", said(&o));
        serde_json::from_slice(&o.stdout).unwrap()
    };

    // file takes streams 1, 3 and 4: 7 units.
    let small = rows("--op 0.1 --policy none,file");
    assert_eq!(small.len(), 2);
    assert!(small[0]["waf"].as_f64().is_some_and(|waf| waf > 1.0), "{small:?}");
    assert_eq!(
        (&small[0]["open_units"], &small[0]["spare_units"]),
        (&3.into(), &3.into())
    );
    for figure in ["waf", "streams_used", "host_pages", "gc_pages", "open_units"] {
        assert!(small[1][figure].is_null(), "{figure}: {small:?}");
    }
    let reason = small[1]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("policy file: 3 streams need 7 spare erase units, and 3 is what"),
        "{reason}"
    );
    let details = dir.path().join("d.json");
    let o = run(&format!(
        "--op 0.1 --policy none,file,auto --details {}",
        details.display()
    ));
    let said_text = String::from_utf8(o.stdout).unwrap();
    let line = |text: &str, name: &str| -> Vec<String> {
        let found = text.lines().find(|l| l.split(' ').next() == Some(name));
        let found = found.unwrap_or_else(|| panic!("{name}: {text}"));
        found.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(line(&said_text, "file"), ["file", "-", "-", "-", "-"]);
    assert!(line(&said_text, "none")[2].parse::<f64>().is_ok());
    assert!(
        said_text.contains("Skipped, too few spare units: file. 3 streams need 7 spare"),
        "{said_text}"
    );
    assert!(
        !said_text.contains("Warning"),
        "nothing that could be less: {said_text}"
    );
    let why = "no streams on a drive of 32 erase units: streams need 300 of them";
    let one_line = |text: &str| text.replace('\n', " ");
    assert!(
        one_line(&said_text).contains(&format!("auto is {why}.")),
        "{said_text}"
    );
    let details: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(details).unwrap()).unwrap();
    let policies = details["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 3);
    assert_eq!(policies[1]["reason"], reason);

    // 7 of 16 spare ones fit, and are too many.
    let o = run("--op 0.5 --policy none,file");
    let said_text = String::from_utf8(o.stdout).unwrap();
    assert!(
        one_line(&said_text).contains(
            "a tenth or more of the drive's 16 spare erase units is held by the streams of file (7);"
        ),
        "{said_text}"
    );
    // 9 of 96 are not, and so auto takes them.
    let wide = rows("--size 80M --op 0.3 --policy none,life:groups=2,auto,life:groups=2,streams=4");
    let o = run("--size 80M --op 0.3 --policy none,file,auto");
    assert!(!String::from_utf8(o.stdout).unwrap().contains("Warning"));
    assert_eq!(wide[2]["policy"], "auto");
    assert_eq!(wide[2]["streams_used"], 2, "the load is not counted");
    for figure in ["waf", "gc_pages", "open_units"] {
        assert_eq!(wide[2][figure], wide[1][figure]);
        assert_eq!(wide[2][figure], wide[3][figure]);
    }
    let why =
        "life with K = 2, whose 4 streams hold 9 of the 96 spare ones of a drive of 320 erase units, less than a \
               tenth: life with K = 3 would hold 11 of its 96 spare units, a tenth or more";
    assert_eq!(wide[2]["reason"], why);
    assert_eq!(rows("--op 0.1 --policy none,auto")[1]["streams_used"], 1);
    // Two streams: the journal, which is not written here, and the rest.
    let two = &rows("--size 80M --op 0.2 --policy auto")[0];
    assert_eq!((&two["streams_used"], &two["open_units"]), (&1.into(), &5.into()));
    assert_eq!(rows("--op 2 --policy file:streams=1")[0]["streams_used"], 1);

    // If nothing fits it is the drive that is wrong.
    let o = run("--op 0.05 --policy file,none");
    assert_eq!(o.status.code(), Some(1));
    assert!(o.stdout.is_empty());
    assert!(
        said(&o).contains("r.rec: policy file: 3 streams need 7 spare"),
        "{}",
        said(&o)
    );
}

#[test]
fn record_says_what_it_cannot_record() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().display().to_string();
    let o = dsmctl(&format!("record {db} {db}/r"));
    assert!(
        said(&o).contains("there is no WiredTiger.turtle in it: this is not the dbpath"),
        "{}",
        said(&o)
    );
    let o = dsmctl(&format!("record {db}/none {db}/r"));
    assert!(said(&o).contains("/none: No such file"), "{}", said(&o));
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "nothing is left"
    );
    std::fs::write(dir.path().join("x"), "\x7fELF...").unwrap();
    let o = dsmctl(&format!("simulate {db}/x"));
    assert!(
        said(&o).contains("x: this is no recording, no fio iolog"),
        "{}",
        said(&o)
    );
}

#[test]
fn files_of_devices_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let shown = dir.path().display();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("my-db.toml", "dbpath = '/db'\ngroup = 4\n");
    write("odd.toml", "drive = '/dev/null'\ngroups = 'many'\n");
    let o = dsmctl_with(dir.path(), "check");
    assert_eq!(o.status.code(), Some(1));
    let lines = said(&o);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with(&format!(
        "dsmctl: {shown}/my-db.toml: line 2: unknown field `group`"
    )));
    assert_eq!(
        lines[1..],
        [format!(
            "dsmctl: {shown}/odd.toml: groups=many: it must be auto or a number"
        )]
    );
    let o = dsmctl_with(dir.path(), "attach odd");
    assert_eq!(o.status.code(), Some(1));
    assert_eq!(
        said(&o),
        format!("dsmctl: nothing was changed: {shown}/odd.toml: groups=many: it must be auto or a number\n")
    );
    write("my-db.toml", "dbpath = '/db'\n");
    let o = dsmctl_with(dir.path(), "check my-db");
    assert_eq!((o.status.code(), said(&o)), (Some(0), String::new()));
    let o = dsmctl_with(dir.path(), "attach my-db");
    assert!(said(&o).contains("my-db: its file has no drive"), "{}", said(&o));
}

/// What `dsmctl free` reports of a database, which is what another reader found of it.
fn free_of(dbpath: &str, expected: &str) -> serde_json::Value {
    let o = dsmctl(&format!("free {dbpath} -o json --ranges"));
    assert!(o.status.success(), "{}", said(&o));
    let r: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let mut free = 0;
    for line in std::fs::read_to_string(expected).unwrap().lines() {
        let mut words = line.split(' ');
        let f = file_of(&r, words.next().unwrap());
        assert_eq!(f["size"].to_string(), words.next().unwrap());
        let ranges: Vec<String> = words.map(str::to_owned).collect();
        let seen = f["ranges"].as_array().unwrap().iter();
        let seen: Vec<String> = seen.map(|r| format!("{}-{}", r["start"], r["end"])).collect();
        assert_eq!(ranges, seen, "{line}");
        free += f["free"].as_u64().unwrap();
    }
    assert!(free > 0);
    assert_eq!(r["total"]["free"], free);
    r
}

fn file_of<'a>(report: &'a serde_json::Value, path: &str) -> &'a serde_json::Value {
    let mut files = report["files"].as_array().unwrap().iter();
    files.find(|f| f["path"] == path).unwrap()
}

#[test]
fn free_says_what_is_listed() {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/avail");
    let o = dsmctl(&format!("free {made}/11.3.1"));
    let text = String::from_utf8(o.stdout.clone()).unwrap();
    assert!(o.status.success(), "{}", said(&o));
    // As "wt verify" has it.
    let r = free_of(&format!("{made}/11.3.1"), &format!("{made}/11.3.1.expected"));
    assert_eq!(r["wiredtiger"], "11.3.1");
    assert_eq!(
        (&r["discard"], &r["discard_refused"], &r["audit"]),
        (&true.into(), &serde_json::Value::Null, &false.into())
    );
    assert_eq!(r["total"]["files"], 6);
    let of = |path: &str| file_of(&r, path);
    assert_eq!(of("never.wt")["leaf_page"], 32 << 10);
    assert!(!text.contains("leaf pages of 8 KiB"), "files of 0.2 MiB: {text}");
    assert!(of("never.wt")["size"].is_null() && of("never.wt")["refused"].is_null());
    let reason = r["summary"].as_str().unwrap();
    assert!(
        reason.contains("of a full drive") && text.contains(reason),
        "{text}"
    );
    assert!(text.starts_with("FILE "), "{text}");

    let o = dsmctl(&format!("free {made}/3.2.1"));
    let text = String::from_utf8(o.stdout.clone()).unwrap();
    assert!(
        o.status.success() && text.contains("It cannot be had here: "),
        "{text}"
    );
    let o = dsmctl(&format!("free {made}"));
    assert_eq!(o.status.code(), Some(1));
    assert!(
        said(&o).ends_with("this is not the directory of a WiredTiger database\n"),
        "{}",
        said(&o)
    );
}

/// Of MongoDB 8.1 and later, as of 8.0; of a version that nobody has seen, the lists alone.
#[test]
fn free_of_wiredtiger_12() {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/avail");
    for (release, version) in [
        ("8.0.10", "11.3.0"),
        ("8.1.1", "12.0.0"),
        ("master-2026-04", "12.0.0"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().display().to_string();
        let tar = Command::new("tar")
            .args(["-xzf", &format!("{made}/mongodb-{release}.tar.gz"), "-C", &db])
            .status();
        assert!(tar.unwrap().success());
        let expected = format!("{made}/mongodb-{release}.expected");
        let r = free_of(&db, &expected);
        assert_eq!(r["wiredtiger"], version);
        assert_eq!(
            (&r["discard"], &r["discard_refused"], &r["audit"]),
            (&true.into(), &serde_json::Value::Null, &false.into())
        );
        assert_eq!(r["total"]["files"], 11);

        let turtle = dir.path().join("WiredTiger.turtle");
        let text = std::fs::read_to_string(&turtle).unwrap();
        std::fs::write(&turtle, text.replace(",minor=", ",minor=9")).unwrap();
        let r = free_of(&db, &expected);
        assert_eq!((&r["discard"], &r["audit"]), (&false.into(), &true.into()));
        let o = dsmctl(&format!("free {db}"));
        let text = String::from_utf8(o.stdout).unwrap();
        let why = r["discard_refused"].as_str().unwrap();
        assert!(
            text.contains(&format!("dsmd only audits this database: {why}.\n"))
                && why.contains("nobody has tried"),
            "{text}"
        );
    }
    // Another program's, which no version lets checkpoint single files any more
    let dir = tempfile::tempdir().unwrap();
    testing::hostile::files(dir.path(), 1, 1);
    let turtle = dir.path().join("WiredTiger.turtle");
    let text = std::fs::read_to_string(&turtle).unwrap();
    std::fs::write(&turtle, text.replace("11,minor=3,patch=1", "12,minor=0,patch=0")).unwrap();
    let free = |json: &str| dsmctl(&format!("{json} free {}", dir.path().display())).stdout;
    let r: serde_json::Value = serde_json::from_slice(&free("-o json")).unwrap();
    assert_eq!((&r["discard"], &r["audit"]), (&true.into(), &true.into()));
    let text = String::from_utf8(free("")).unwrap();
    let why = "the database has no _mdb_catalog.wt: it is not mongod's, and nobody has tried discards with its program";
    assert!(
        text.contains(&format!(
            "\ndsmd discards here when an audit has passed, whatever audit-pages says: {why}.\n"
        )),
        "{text}"
    );
}

/// There is no module here, and no device: that is wrong, and can be said all the same.
#[test]
fn the_doctor_says_what_is_not_there() {
    let o = dsmctl("doctor no-such-device");
    assert_eq!(o.status.code(), Some(1), "{}", said(&o));
    let text = String::from_utf8(o.stdout.clone()).unwrap();
    assert!(text.starts_with("this machine\n"), "{text}");
    assert!(text.contains("\nno-such-device\n"), "{text}");
    assert!(text.contains("fix: "), "{text}");
    assert_eq!(said(&o), "");

    let o = dsmctl("doctor no-such-device -o json");
    assert_eq!(o.status.code(), Some(1));
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(
        (&v["status"], &v["findings"][0]["check"]),
        (&"wrong".into(), &"kernel".into())
    );

    let o = dsmctl("doctor no-such-device --report");
    let text = String::from_utf8(o.stdout.clone()).unwrap();
    assert!(
        text.contains("a report from the field") && text.contains("\nDEVICE1\n"),
        "{text}"
    );
    assert!(
        !text.contains("no-such-device") && !text.contains("/nonexistent"),
        "{text}"
    );
}

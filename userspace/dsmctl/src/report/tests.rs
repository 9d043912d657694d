// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use proto::left_out::{LeftOut, Omission};
use proto::regions::{checkpoint_text, written_text};
use testing::kernel::STATUS;

fn report() -> StatusReport {
    StatusReport {
        name: "dsm".into(),
        device: "253:0".into(),
        sectors: 2_097_152,
        table: "259:0 0 6 policy dsm alpha 3 stream_base 1".parse().unwrap(),
        below: "nvme0n1".into(),
        agent: None,
        silent: None,
        service: None,
        nameless: None,
        status: format!(
            "{STATUS} groups 2 device_streams 6 streams_used 6 stream 0 1 0 stream 3 10 6144 stream 9 1 0"
        )
        .parse()
        .unwrap(),
        regions: Some(vec![
            "7 collection 4096 bottom 4096 1 4096 -1.5 2 1 3 5 1"
                .parse()
                .unwrap(),
            "7 collection 4096 top 0 0 0 - 1 1 3 5 0".parse().unwrap(),
            "3 journal - bottom 1048576 0 0 - - - 2 2 0".parse().unwrap(),
        ]),
        names: [(7, "collection-0-1.wt".to_owned())].into(),
        affords: None,
        barred: None,
    }
}

#[test]
fn a_drive_that_is_marked() {
    let mut r = report();
    assert!(!r.text(usize::MAX).contains("NONE"));
    r.barred = Some("nvme0n1 is marked".into());
    assert!(
        r.text(usize::MAX).contains("NONE: nvme0n1 is marked\n"),
        "{}",
        r.text(usize::MAX)
    );
    assert_eq!(r.json()["barred"]["text"], "nvme0n1 is marked");
}

#[test]
fn why_nobody_serves_it() {
    let mut r = report();
    r.silent = Some("dsm: dsmd does not answer".into());
    r.nameless = Some("so".into());
    let said =
        |r: &StatusReport, line: &str| assert!(r.text(usize::MAX).contains(line), "{}", r.text(usize::MAX));
    said(&r, "agent        dsm: dsmd does not answer\n");
    said(&r, "files have no names: so\n");
    let mut service = Service::default();
    service.set(State::Stuck, Some("its agent waits in the kernel".into()));
    service.since -= 7.5;
    r.service = Some(service);
    said(&r, "agent        stuck for 7 s: its agent waits in the kernel\n");
    assert_eq!(r.json()["service"]["state"], "stuck");
}

fn agent() -> Info {
    serde_json::from_value(serde_json::json!({
        "device": "d", "dbpath": "/db", "pid": 1, "version": "x", "boundary": "auto", "marked": true,
        "files": 1, "boundaries": 1, "checkpoints": 6, "uploads": 1, "refusals": 0,
        "last_refresh_ms": 1, "delalloc": 0, "shared": 0, "discard": {"listless": 7},
    }))
    .unwrap()
}

#[test]
fn what_is_left_out() {
    let mut r = report();
    assert!(!r.text(usize::MAX).contains("left out"));
    let mut agent = agent();
    let one = LeftOut::some(Omission::Symlink, 2, Some("journal".into()));
    agent.left_out = one.into_iter().collect();
    r.agent = Some(agent);
    let wanted = "left out     2 symbolic links, which are not followed (journal); \
        7 files of whose free blocks there is no list: nothing of them is discarded\n";
    assert!(r.text(usize::MAX).contains(wanted), "{}", r.text(usize::MAX));
}

#[test]
fn the_peoples_form() {
    assert_eq!(
        report().text(usize::MAX),
        "\
dsm: NOT SERVED (no dsmd serves this device), 6 streams in use
  device       253:0, 1024.0 MiB at sector 0 of nvme0n1
  policy       dsm
  groups       K 2, alpha 3, prediction ?, range ?, primary filter ?
  streams      6 used of 6 (from the device's queue)
  table        2 files, 3 regions, 4 extents, generation 1
  checkpoints  2
  window       41.2 s old
  unmapped     2 writes, 1.0 MiB, 33.3 % of all written bytes
  split bios   0
  agent        no dsmd serves this device

STREAM  USED FOR                 WRITES  MiB    SHARE
     0  not stamped                   1  0.0    0.0 %
     1  other, unmapped               0  0.0    0.0 %
     2  journal, primary, oplog       0  0.0    0.0 %
     3  collection group 1           10  3.0  100.0 %
     4  collection group 2            0  0.0    0.0 %
     5  index group 1                 0  0.0    0.0 %
     6  index group 2                 0  0.0    0.0 %
     9  an earlier layout             1  0.0    0.0 %

FILE               CLASS       SIDE    MiB  PAGES  HOTNESS  GROUP  NEXT  STREAM
3                  journal     bottom  1.0      0        -      -     -       2
collection-0-1.wt  collection  bottom  0.0      1   -1.500      2     1       3
collection-0-1.wt  collection  top     0.0      0        -      1     1       3
"
    );
}

#[test]
fn what_a_window_wrote() {
    let r = report();
    assert_eq!(
        written_text(r.regions.as_ref().unwrap(), &r.names),
        "\
FILE               CLASS       SIDE    MiB  PAGES  HOTNESS  GROUP  NEXT  STREAM
collection-0-1.wt  collection  bottom  0.0      1   -1.500      2     1       3
2 regions more were not written
"
    );
}

#[test]
fn the_programs_form() {
    let v = report().json();
    assert_eq!(v["policy"], "dsm");
    assert_eq!(v["streams_used"], 6);
    assert_eq!(v["features"]["alpha"], 3);
    assert_eq!(v["streams"][1]["stream"], 3);
    assert_eq!(v["streams"][1]["sectors"], 6144);
    assert_eq!(v["streams"][1]["used_for"][0], "collection group 1");
    assert_eq!(v["region_list"][0]["file"], "collection-0-1.wt");
    assert_eq!(v["region_list"][0]["hotness"], -1.5);
    assert_eq!(v["region_list"][2]["file"], Value::Null);
    assert_eq!(v["region_list"][2]["group"], Value::Null);
}

#[test]
fn names_do_not_command_the_terminal() {
    let mut r = report();
    r.names.insert(3, "a\u{1b}[2J".into());
    assert!(r.text(usize::MAX).contains("a\\u{1b}[2J"));
}

#[test]
fn the_heading_of_a_checkpoint() {
    let c = "window 3 ms 12345 written 9 moved 2".parse().unwrap();
    assert_eq!(
        checkpoint_text(&c),
        "checkpoint 3  window 12.3 s  written regions 9, moved 2\n"
    );
}

#[test]
fn a_screen_has_a_width() {
    let mut r = report();
    r.silent = Some("dsmd is at something that takes long, ".repeat(5));
    r.regions = None;
    let text = r.text(80);
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(text.contains("\n  agent        dsmd is at something"), "{text}");
    assert!(text.contains("\n               takes long, "), "{text}");
}

/// What has stopped working is not said to work.
#[test]
fn a_server_that_no_longer_tells() {
    let mut agent = agent();
    agent.server = serde_json::from_value(serde_json::json!({
        "address": "localhost:27017", "connected": true, "version": "8.0.4", "catalog": true,
        "failure": {"kind": "no-catalog", "why": "too slow"},
    }))
    .unwrap();
    let mut r = report();
    r.agent = Some(agent);
    let said = r.text(usize::MAX);
    let line = "localhost:27017 8.0.4 has reported which file is whose, and no longer does: too slow\n";
    assert!(said.contains(line), "{said}");
}

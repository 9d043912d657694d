// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use dm::reply::{Checkpoint, Region};
use policies::layout::{self, Layout};
use proto::device::Service;
use proto::drive::{Counters, Media, Source};
use proto::left_out::{LeftOut, Omission};
use proto::rates::Rates;
use proto::regions::{checkpoint_text, written_text};
use std::time::Duration;
use testing::kernel::STATUS;

fn report() -> DeviceView {
    let status = format!(
        "{STATUS} groups 2 device_streams 6 streams_used 6 stream 0 1 0 stream 3 10 6144 stream 9 1 0"
    );
    let kernel = Kernel::new(
        "259:0 0 6 alpha 3 policy dsm stream_base 1".parse().unwrap(),
        status.parse().unwrap(),
    );
    let mut regions: Vec<Region> = [
        "7 collection 4096 bottom 4096 1 4096 -1.5 2 1 3 5 1",
        "7 collection 4096 top 0 0 0 - 1 1 3 5 0",
        "3 journal - bottom 1048576 0 0 - - - 2 2 0",
    ]
    .map(|line| line.parse().unwrap())
    .into();
    regions::name(&mut regions, &[(7, "collection-0-1.wt".to_owned())].into());
    DeviceView {
        name: "dsm".into(),
        kernel: Some(Kernel {
            devno: "253:0".parse().unwrap(),
            sectors: 2_097_152,
            below: "nvme0n1".into(),
            uses: layout::uses(&Layout::of(&kernel.table, &kernel.status)),
            ..kernel
        }),
        regions: Some(regions),
        ..DeviceView::default()
    }
}

#[test]
fn a_drive_that_is_marked() {
    let mut r = report();
    assert!(!text(&r, usize::MAX).contains("NONE"));
    r.barred = Some("nvme0n1 is marked".into());
    assert!(
        text(&r, usize::MAX).contains("NONE: nvme0n1 is marked\n"),
        "{}",
        text(&r, usize::MAX)
    );
}

#[test]
fn why_nobody_serves_it() {
    let mut r = report();
    r.silent = Some("dsm: dsmd does not answer".into());
    r.nameless = Some("so".into());
    let said =
        |r: &DeviceView, line: &str| assert!(text(r, usize::MAX).contains(line), "{}", text(r, usize::MAX));
    said(&r, "agent        dsm: dsmd does not answer\n");
    said(&r, "files have no names: so\n");
    let mut service = Service::default();
    service.set(State::Stuck, Some("its agent waits in the kernel".into()));
    service.since -= 7.5;
    r.service = Some(service);
    said(&r, "agent        stuck for 7 s: its agent waits in the kernel\n");
}

fn agent() -> Info {
    serde_json::from_value(serde_json::json!({
        "dbpath": "/db", "pid": 1, "version": "x", "boundary": "auto", "marked": true,
        "files": 1, "boundaries": 1, "checkpoints": 6, "uploads": 1, "refusals": 0,
        "last_refresh_ms": 1, "delalloc": 0, "shared": 0, "discard": {"listless": 7},
    }))
    .unwrap()
}

#[test]
fn what_is_left_out() {
    let mut r = report();
    assert!(!text(&r, usize::MAX).contains("left out"));
    let mut agent = agent();
    let one = LeftOut::some(Omission::Symlink, 2, Some("journal".into()));
    agent.left_out = one.into_iter().collect();
    r.agent = Some(agent);
    let wanted = "left out     2 symbolic links, which are not followed (journal); \
        7 files of whose free blocks there is no list: nothing of them is discarded\n";
    assert!(text(&r, usize::MAX).contains(wanted), "{}", text(&r, usize::MAX));
}

#[test]
fn the_peoples_form() {
    assert_eq!(
        text(&report(), usize::MAX),
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
        written_text(r.regions.as_ref().unwrap()),
        "\
FILE               CLASS       SIDE    MiB  PAGES  HOTNESS  GROUP  NEXT  STREAM
collection-0-1.wt  collection  bottom  0.0      1   -1.500      2     1       3
2 regions more were not written
"
    );
}

/// What is published and what `-o json` prints is this.
#[test]
fn the_programs_form() {
    let v = serde_json::to_value(report()).unwrap();
    let k = &v["kernel"];
    assert_eq!(
        (&k["devno"], &k["status"]["policy"]),
        (&"253:0".into(), &"dsm".into())
    );
    assert_eq!(k["table"]["features"]["alpha"], "3");
    assert_eq!(k["status"]["streams"][1]["sectors"], 6144);
    assert_eq!(k["uses"]["3"][0], "collection group 1");
    assert_eq!(v["regions"][0]["file"], "collection-0-1.wt");
    assert_eq!(v["regions"][0]["hotness"], -1.5);
    assert_eq!(v["regions"][2]["group"], serde_json::Value::Null);
    let read: DeviceView = serde_json::from_value(v).unwrap();
    let published = DeviceView {
        regions: None,
        ..report()
    };
    assert_eq!(read, published);
}

#[test]
fn names_do_not_command_the_terminal() {
    let mut r = report();
    r.regions.as_mut().unwrap()[2].file = Some("a\u{1b}[2J".into());
    assert!(text(&r, usize::MAX).contains("a\\u{1b}[2J"));
}

#[test]
fn the_heading_of_a_checkpoint() {
    let c = Checkpoint {
        window: 3,
        ms: 12345,
        written: 9,
        moved: 2,
    };
    assert_eq!(
        checkpoint_text(&c),
        "checkpoint 3  window 12.3 s  written regions 9, moved 2\n"
    );
}

#[test]
fn a_screen_has_a_width() {
    let mut r = report();
    r.silent = Some("dsmd is at something that takes long, ".repeat(5).into());
    r.regions = None;
    let text = text(&r, 80);
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
    let said = text(&r, usize::MAX);
    let line = "localhost:27017 8.0.4 reported which file is whose, and no longer does: too slow\n";
    assert!(said.contains(line), "{said}");
}

fn look(second: u64, stream3: u64, unmapped: u64, total: u64, media: u64) -> DeviceView {
    let status = format!(
        "policy dsm layout dsm groups 3 device_streams 8 source queue streams_used 8 files 1 \
         regions 2 extents 1 generation 1 windows 4 window_ms 12300 unmapped_writes 1 \
         unmapped_sectors {unmapped} split 0 foreign 0 stream 1 7 {unmapped} stream 3 {stream3} {}",
        stream3 * 8
    );
    let mut regions: Vec<Region> = [("bottom", 10), ("top", total)]
        .map(|(side, total)| {
            let line = format!("7 index 8192 {side} 0 5 0 1.5 3 2 3 2 {total}");
            line.parse().unwrap()
        })
        .into();
    regions::name(&mut regions, &[(7, "index-1-2.wt".to_owned())].into());
    let kernel = Kernel {
        uses: [(3, vec!["index group 2".to_owned()])].into(),
        media: Ok(Media {
            drive: "sda".to_owned(),
            counters: Counters {
                source: Source::SataAttributes,
                host: u128::from(media) << 20,
                media: u128::from(media) << 21,
                erased: None,
                unit: 1 << 20,
            },
        }),
        ..Kernel::new("259:0 0 0".parse().unwrap(), status.parse().unwrap())
    };
    DeviceView {
        name: "d".into(),
        at: Moment {
            monotonic: Duration::from_secs(second),
            ..Moment::default()
        },
        kernel: Some(kernel),
        regions: Some(regions),
        ..DeviceView::default()
    }
}

fn frame(old: &DeviceView, mut new: DeviceView) -> DeviceView {
    new.rates = Rates::between(old, &new);
    new
}

#[test]
fn what_was_written_in_between() {
    let old = look(5, 100, 512, 60, 7);
    let f = frame(&old, look(7, 612, 512, 572, 57));
    let r = f.rates.as_ref().unwrap();
    assert_eq!((r.writes, r.bytes, r.unmapped_bytes), (512, 2 << 20, 0));
    let said = |f: &DeviceView| rates_text(f, 40, usize::MAX);
    assert_eq!(
        said(&f),
        "\
d  policy dsm  checkpoints 4, the last 12 s ago
1.0 MiB/s in 256 writes/s, 0.0 % of it unmapped
write amplification 2.00 in 2 s (sda, SATA attributes)

STREAM  USED FOR       WRITES/s  MiB/s    SHARE
     3  index group 2       256    1.0  100.0 %

FILE          CLASS  SIDE  MiB/s  HOTNESS  GROUP  NEXT  STREAM
index-1-2.wt  index  top     1.0    1.500      3     2       3
"
    );
    assert_eq!(rates_text(&f, 8, usize::MAX).lines().count(), 8);
    let little = frame(&old, look(7, 612, 512, 572, 56));
    assert!(said(&little).contains("\nwrite amplification - in 2 s ("));
    let exchanged = frame(&old, look(7, 612, 512, 572, 6));
    assert!(said(&exchanged).contains("\nwrite amplification unknown: "));
    let idle = frame(&old, look(7, 100, 512, 60, 7));
    let r = idle.rates.as_ref().unwrap();
    assert!(r.streams.is_empty() && r.regions.is_empty());
    assert!(said(&idle).contains("0.0 MiB/s in 0 writes/s, - of it unmapped"));
}

#[test]
fn counters_that_were_reset() {
    let full = look(5, 612, 512, 572, 7);
    let r = Rates::between(&full, &look(7, 0, 0, 0, 7)).unwrap();
    assert_eq!((r.writes, r.bytes, r.unmapped_bytes), (0, 0, 0));
    // They started over, and have counted since.
    let r = Rates::between(&full, &look(7, 100, 50, 60, 7)).unwrap();
    assert_eq!((r.writes, r.bytes), (100, (8 * 100 + 50) * 512));
}

#[test]
fn rates_fit_a_screen() {
    let mut new = look(7, 612, 512, 572, 57);
    new.regions.as_mut().unwrap()[1].file = Some(format!("shop/collection/{}.wt", "7".repeat(40)));
    let f = frame(&look(5, 100, 512, 60, 7), new);
    let text = rates_text(&f, 40, 80);
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(text.contains("\nshop/collec…77777777.wt "), "{text}");
    assert!(rates_text(&f, 40, usize::MAX).contains(&"7".repeat(40)));
}

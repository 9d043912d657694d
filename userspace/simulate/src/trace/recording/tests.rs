// SPDX-License-Identifier: GPL-2.0-or-later
use std::os::unix::ffi::OsStrExt;

use super::*;
use crate::trace::What;

fn writer() -> Writer<Vec<u8>> {
    Writer::new(Vec::new(), 1000).unwrap()
}

fn parse(bytes: &[u8]) -> Result<Trace> {
    read(u64::MAX, &bytes[FIRST.len()..])
}

/// A file that grows in the window, and one that is replaced.
fn sample() -> Vec<u8> {
    let mut w = writer();
    w.file(7, "collection-0-1.wt", 8192, &[Extent::new(0, 800, 16)])
        .unwrap();
    w.file(8, "WiredTiger.turtle", 4096, &[Extent::new(0, 80, 8)])
        .unwrap();
    w.table(1000).unwrap();
    w.write(1010, 808, 8, 3, 2).unwrap();
    w.write(1005, 1600, 16, 0, 0).unwrap();
    w.write(1020, 80, 8, 0, 0).unwrap();
    w.write(1030, 8, 8, 0, 0).unwrap();
    w.discard(1040, 800, 8).unwrap();
    w.lost(3).unwrap();
    w.file(
        7,
        "collection-0-1.wt",
        16384,
        &[Extent::new(0, 800, 16), Extent::new(16, 1600, 16)],
    )
    .unwrap();
    w.gone(8).unwrap();
    w.file(9, "WiredTiger.turtle", 4096, &[Extent::new(0, 88, 8)])
        .unwrap();
    w.table(1050).unwrap();
    w.checkpoint(1050).unwrap();
    w.finish().unwrap()
}

/// Two names that are no UTF-8 are two files.
#[test]
fn names_are_bytes() {
    let names: [&[u8]; 3] = [b"\xff\xfe.wt", b"\xff\xfd.wt", b"a,\n\x1b\".wt"];
    let mut w = writer();
    for (n, name) in (0..).zip(names) {
        let at = 800 + 100 * n;
        w.file(n, OsStr::from_bytes(name), 4096, &[Extent::new(0, at, 8)])
            .unwrap();
    }
    w.table(1000).unwrap();
    let trace = parse(&w.finish().unwrap()).unwrap();
    assert_eq!(trace.files, 3);
    assert!(trace.names.iter().map(|n| n.as_bytes()).eq(names));
}

#[test]
fn writes_are_explained_by_the_table_after_them() {
    let trace = parse(&sample()).unwrap();
    let whats: Vec<What> = trace.events().map(|e| e.what).collect();
    use What::{Checkpoint, Delete, Discard, LoadEnd, Lost, Name, Stream, Write};
    assert_eq!(
        whats,
        [
            Name { file: 0, name: 0 },
            Write {
                file: 0,
                offset: 0,
                length: 8192
            },
            Name { file: 1, name: 1 },
            Write {
                file: 1,
                offset: 0,
                length: 4096
            },
            LoadEnd,
            Delete { file: 1 },
            Stream { stream: 3 },
            Write {
                file: 0,
                offset: 4096,
                length: 4096
            },
            Stream { stream: 0 },
            Write {
                file: 0,
                offset: 8192,
                length: 8192
            },
            // The old turtle's place, which only the table before knows.
            Name { file: 2, name: 2 },
            Write {
                file: 2,
                offset: 0,
                length: 4096
            },
            Name { file: 3, name: 3 },
            Write {
                file: 3,
                offset: 4096,
                length: 4096
            },
            Discard {
                file: 0,
                offset: 0,
                length: 4096
            },
            Lost,
            Checkpoint,
        ]
    );
    assert_eq!(
        trace.names,
        [
            "collection-0-1.wt",
            "WiredTiger.turtle",
            "WiredTiger.turtle",
            UNMAPPED
        ]
    );
    let times: Vec<u64> = trace.events().map(|e| e.us).collect();
    assert!(times.windows(2).all(|t| t[0] <= t[1]), "{times:?}");
    assert_eq!(times.last(), Some(&50));
}

#[test]
fn a_file_is_written_until_the_window_ends_in_which_it_goes() {
    let mut w = writer();
    w.file(7, "1.log", 4096, &[Extent::new(0, 800, 16)]).unwrap();
    w.table(1000).unwrap();
    w.write(1010, 808, 8, 0, 0).unwrap();
    w.gone(7).unwrap();
    w.table(1050).unwrap();
    let trace = parse(&w.finish().unwrap()).unwrap();
    let last: Vec<What> = trace.events().map(|e| e.what).skip(3).collect();
    let write = What::Write {
        file: 0,
        offset: 4096,
        length: 4096,
    };
    assert_eq!(last, [write, What::Delete { file: 0 }]);
}

#[test]
fn a_cut_or_damaged_recording_is_refused() {
    let whole = sample();
    assert!(parse(&whole).is_ok());
    for cut in FIRST.len()..whole.len() {
        let e = parse(&whole[..cut]).unwrap_err();
        assert_eq!(e.root_cause().to_string(), "it is cut off", "{cut}");
    }
    for foreign in ["dsm-recording,1\n", ""] {
        let e = crate::trace::read(foreign.as_bytes()).unwrap_err();
        assert!(
            e.to_string().starts_with("this is no recording"),
            "{foreign}: {e}"
        );
    }
    // No flipped byte makes it panic, or run for ever.
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        let at = random.usize(FIRST.len()..bytes.len());
        bytes[at] = random.u8(..);
        let _ = parse(&bytes);
    }
    let mut bytes = whole.clone();
    bytes[FIRST.len()] = b'?';
    assert_eq!(
        format!("{:#}", parse(&bytes).unwrap_err()),
        "after 0 events: there is no such record"
    );
    let end = whole.len() - 1;
    bytes = whole.clone();
    bytes[end] = 99;
    assert!(parse(&bytes)
        .unwrap_err()
        .root_cause()
        .to_string()
        .ends_with("the number of events at its end is another"));
}

#[test]
fn lists_are_kept() {
    let list = |ranges: &[(u64, u64)]| FreeList {
        file_size: 16384,
        extents: ranges.iter().map(|(a, b)| *a..*b).collect(),
        ..FreeList::default()
    };
    let mut w = writer();
    w.file(7, "a.wt", 16384, &[Extent::new(0, 800, 32)]).unwrap();
    w.table(1000).unwrap();
    w.write(1010, 808, 8, 0, 0).unwrap();
    w.begins(1015).unwrap();
    w.window(1020).unwrap();
    w.write(1030, 816, 8, 0, 0).unwrap();
    w.table(1040).unwrap();
    w.list(7, Some(&list(&[(0, 4096), (8192, 16384)]))).unwrap();
    w.list(99, Some(&list(&[]))).unwrap();
    w.list(7, None).unwrap();
    w.looked(1050).unwrap();
    w.lost(2).unwrap();
    w.checkpoint(1060).unwrap();
    let bytes = w.finish().unwrap();
    let trace = parse(&bytes).unwrap();
    let events: Vec<(u64, What)> = trace.events().skip(3).map(|e| (e.us, e.what)).collect();
    let written = |offset| What::Write {
        file: 0,
        offset,
        length: 4096,
    };
    assert_eq!(
        events,
        [
            (10, written(4096)),
            (15, What::Begins),
            (20, What::Window),
            (30, written(8192)),
            (40, What::List { file: 0, list: 0 }),
            (40, What::List { file: 0, list: 1 }),
            (50, What::Looked),
            (50, What::Lost),
            (60, What::Checkpoint),
        ]
    );
    assert_eq!(trace.lists.get(0), list(&[(0, 4096), (8192, 16384)]));
    assert_eq!(trace.lists.get(1), FreeList::default());
    // A range beyond the end of its file.
    let mut w = writer();
    let bad = FreeList {
        file_size: 4096,
        ..list(&[(0, 8192)])
    };
    w.list(7, Some(&bad)).unwrap();
    let bytes = w.finish().unwrap();
    assert!(parse(&bytes)
        .unwrap_err()
        .root_cause()
        .to_string()
        .ends_with("invalid free extent"));
}

#[test]
fn a_write_takes_few_bytes() {
    let mut w = writer();
    for n in 0..1000 {
        w.write(1000 + n * 50, n * 64, 64, 0, 0).unwrap();
    }
    assert!(w.finish().unwrap().len() < 7 * 1000);
}

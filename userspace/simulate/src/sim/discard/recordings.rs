// SPDX-License-Identifier: GPL-2.0-or-later
//! What dsmd would have discarded in recordings of WiredTiger 11, against the lists of
//! all later checkpoints: whatever these do not name is in use.
//!
//! `recordings/*.rec` were made with `dsmctl record` on a loop device; DSM_RECORDINGS
//! names a directory with more of them. The rules that lose data are caught.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::judge::{late, verdict, Judged};
use super::tests::{DSMD, LISTED, SINCE_WINDOW};
use super::*;
use crate::trace;

fn recordings() -> Vec<(String, Trace)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/recordings");
    let more = std::env::var_os("DSM_RECORDINGS").map(PathBuf::from);
    let mut found = Vec::new();
    for dir in [Some(own), more].into_iter().flatten() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "rec") {
                let input = BufReader::new(File::open(&path).unwrap());
                found.push((path.display().to_string(), trace::read(input).unwrap()));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

const LAGS: [u64; 7] = [0, 50, 100, 200, 400, 1000, 2000];

/// Of an agent that is late by so many milliseconds.
fn play(trace: &Trace, ms: u64, rule: Rule, pieces: Pieces) -> Judged {
    let seen = late(trace, 1000 * ms);
    verdict(trace, &discarded_by(rule, &seen, pieces))
}

fn pages() -> Pieces {
    Pieces::new(PAGE, PAGE)
}

#[test]
fn nothing_that_is_in_use_is_discarded() {
    let recordings = recordings();
    assert!(!recordings.is_empty());
    for (name, trace) in &recordings {
        assert!(trace.lists.len() > 50, "{name}: {} lists", trace.lists.len());
        let recorded = verdict(trace, &discarded(trace, pages()));
        println!("{name}: as recorded {recorded:?}");
        assert_eq!(recorded.lost, 0, "{name}");
        assert!(recorded.discarded > 100, "{name}: {recorded:?}");
        for ms in LAGS {
            let v = play(trace, ms, DSMD, pages());
            println!("{name}: late by {ms} ms: {v:?}");
            assert_eq!(v.lost, 0, "{name}: late by {ms} ms");
        }
    }
}

/// The check sees what is wrong.
#[test]
fn rules_that_lose_data_are_caught() {
    let mut caught = 0;
    for (name, trace) in recordings() {
        let lost = |rule| LAGS.map(|ms| play(&trace, ms, rule, pages()).lost);
        let (all, since) = (lost(LISTED), lost(SINCE_WINDOW));
        println!("{name}: all that is listed {all:?}, not written since the last window {since:?}");
        assert!(all.iter().any(|n| *n > 0), "{name}");
        caught += since.iter().sum::<u64>();
    }
    assert!(caught > 0, "the rule of the last window was never caught");
}

/// Pages that were free for long complete a piece.
#[test]
fn no_piece_is_in_use() {
    let (mut pieces, mut caught) = (0, 0);
    for (name, trace) in &recordings() {
        for (granularity, alignment) in [(128, 128), (128, 4), (64, 64), (32, 32), (16, 4), (8, 8)] {
            let of = Pieces::new(granularity << 10, alignment << 10);
            for ms in LAGS {
                let v = play(trace, ms, DSMD, of);
                println!("{name}: {granularity} KiB at {alignment}, late by {ms} ms: {v:?}");
                assert_eq!(v.lost, 0, "{name}: {granularity} KiB, late by {ms} ms");
                pieces += v.discarded;
                caught += u64::from(play(trace, ms, SINCE_WINDOW, of).lost > 0);
            }
        }
    }
    println!("{pieces} pages, and {caught} times too much");
    assert!(
        pieces > 0 && caught > 0,
        "{pieces} pages, {caught} times too much"
    );
}

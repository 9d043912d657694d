// SPDX-License-Identifier: GPL-2.0-or-later
//! The rule, beside a database that goes on at every step, with an agent that is as
//! late as it likes, and dies.  Rules that seem right beside it, which are not.

use std::cell::RefCell;
use std::rc::Rc;

use super::model::{Counts, Side, World};
use super::*;

/// What an agent takes for free.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    /// What the rule says.
    Difference,
    /// What the list says.
    Listed,
    /// What the list says and was not written since the window before.
    Window,
}

/// What the lists of a turtle have, by the obvious rules.
fn listed(side: &mut Side, since: u64) -> Result<Found, Halt> {
    let seen = side.read(&mut |f| f.cookie.is_some())?;
    side.settle()?;
    let mut found = Found {
        since,
        ..Found::default()
    };
    for (entry, list) in seen.files {
        let Some(list) = list.transpose()? else { continue };
        side.clone()
            .places(&entry.path, list.file, &list.extents, &mut |s| {
                found.stretches.push(s)
            })?;
    }
    Ok(found)
}

/// One run of an agent beside a database.
fn run(seed: u64, which: Which) -> (Option<String>, Counts, String) {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let world = Rc::new(RefCell::new(World::new(seed)));
    let mut side = Side {
        world: world.clone(),
        dies: Rc::default(),
        lag: [0, 2, 20][rng.usize(..3)],
    };
    let late = [5, 30, 300][rng.usize(..3)];
    let mut rule = Rule::default();
    let mut window = None;
    for _ in 0..150 {
        world.borrow_mut().advance(late);
        *side.dies.borrow_mut() = (rng.u8(..12) == 0).then(|| rng.u32(..25));
        let target = side.clone();
        let found = match which {
            Which::Difference => match rule.look(&mut side, &target) {
                Ok(Look::Found(found)) => Ok(found),
                Ok(Look::Waiting(_)) => continue,
                Err(halt) => Err(halt),
            },
            _ => target.window().map_err(Halt::from).and_then(|now| {
                let before = window.replace(now);
                let since = if which == Which::Window {
                    before.unwrap_or(now)
                } else {
                    now
                };
                listed(&mut side, since)
            }),
        };
        if let Ok(found) = found {
            send(&mut rng, &mut side, &mut rule, which, &found);
        }
        // It was killed, and another one takes its place.
        if side.dies.borrow().is_some_and(|left| left == 0) {
            rule = Rule::default();
            window = None;
        }
        if world.borrow().lost.is_some() {
            break;
        }
    }
    let mut w = world.borrow_mut();
    let (lost, counts) = (w.lost.take(), std::mem::take(&mut w.counts));
    (lost, counts, w.transcript())
}

/// Sends what was found in batches, and sometimes not all of it.
fn send(rng: &mut fastrand::Rng, side: &mut Side, rule: &mut Rule, which: Which, found: &Found) {
    let batch = rng.usize(1..40);
    for some in found.stretches.chunks(batch) {
        if rng.u8(..20) == 0 || (which == Which::Difference && rule.is_owner(side).is_err()) {
            return;
        }
        let words: Vec<String> = some.iter().map(|s| format!("{}:{}", s.start, s.length)).collect();
        if side
            .message(&format!("discard {} {}", found.since, words.join(" ")))
            .is_err()
        {
            rule.forget();
            return;
        }
        let mut w = side.world.borrow_mut();
        w.advance(10);
    }
}

fn cases(fewer: u64) -> u64 {
    let more = std::env::var("DISCARD_CASES").ok();
    more.map_or(fewer, |n| n.parse().expect("DISCARD_CASES is a number"))
}

#[test]
fn nothing_that_is_needed_is_ever_discarded() {
    let mut all = Counts::default();
    for seed in 0..cases(60) {
        let (lost, c, transcript) = run(seed, Which::Difference);
        if let Some(lost) = lost {
            panic!("seed {seed}: {lost}\n{transcript}");
        }
        all.add(&c);
    }
    eprintln!("{all:?}");
    // It was about something.
    for n in [
        all.discarded / 100,
        all.checkpoints / 100,
        all.kills,
        all.cuts,
        all.ahead,
        all.old,
        all.torn,
        all.backups,
        all.drops,
    ] {
        assert!(n > 10, "{all:?}");
    }
}

#[test]
fn one_seed() {
    if let Ok(seed) = std::env::var("DISCARD_SEED") {
        let (lost, c, transcript) = run(seed.parse().unwrap(), Which::Difference);
        eprintln!("{transcript}\n{c:?}");
        assert_eq!(lost, None);
    }
}

#[test]
fn the_obvious_rules_are_caught() {
    for which in [Which::Listed, Which::Window] {
        let caught = (0..40).filter(|&seed| run(seed, which).0.is_some()).count();
        eprintln!("{which:?}: caught in {caught} of 40");
        assert!(caught > 4, "{which:?}: caught in {caught} of 40");
    }
}

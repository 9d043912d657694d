// SPDX-License-Identifier: GPL-2.0-or-later
//! The rule, beside a database that goes on at every step, with an agent that is as
//! late as it likes, and dies.  Rules that seem right beside it, which are not.

use std::cell::RefCell;
use std::rc::Rc;

use super::world::{Counts, Side, World};
use super::*;
use testing::cookie::{cookie, empty_cookie};
use testing::kernel::ModelKernel;

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
    side.sync_dbpath()?;
    let mut found = Found {
        since,
        ..Found::default()
    };
    for (entry, list) in seen.files {
        let Some(list) = list.transpose()? else { continue };
        side.clone()
            .places(&entry.path, list.file, &list.extents, &mut |_, s| {
                found.sector_ranges.push(s)
            })?;
    }
    Ok(found)
}

/// One run of an agent beside a database.
fn run(seed: u64, which: Which) -> (Option<String>, Counts, String) {
    run_beside(World::new(seed), seed, which)
}

fn run_beside(world: World, seed: u64, which: Which) -> (Option<String>, Counts, String) {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let world = Rc::new(RefCell::new(world));
    let mut side = Side {
        world: world.clone(),
        dies: Rc::default(),
        lag: [0, 2, 20][rng.usize(..3)],
    };
    let late = [5, 30, 300][rng.usize(..3)];
    // A drive that takes discards in larger pieces.
    if which == Which::Difference {
        world.borrow().kernel.set_granule([1, 1, 2, 4][rng.usize(..4)]);
    }
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
            world.borrow_mut().sending = false;
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
    if which == Which::Difference && rule.forget_in(side).is_err() {
        return;
    }
    let batch = rng.usize(1..40);
    for some in found.sector_ranges.chunks(batch) {
        if rng.u8(..20) == 0 || (which == Which::Difference && rule.is_owner(side).is_err()) {
            return;
        }
        side.world.borrow_mut().sending = true;
        let some = match which {
            Which::Difference => {
                let target = side.clone();
                rule.again(found, side, &target, some)
            }
            _ => Ok(some.to_vec()),
        };
        let Ok(some) = some else {
            rule.forget();
            return;
        };
        let words: Vec<String> = some.iter().map(|s| format!("{}:{}", s.start, s.length)).collect();
        if side
            .message(&format!("discard {} {}", found.since, words.join(" ")))
            .is_err()
        {
            rule.forget();
            return;
        }
        let mut w = side.world.borrow_mut();
        if w.sharing {
            w.discard(usize::MAX >> 1);
        }
        w.sending = false;
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
        all.reopened,
        all.cuts,
        all.ahead,
        all.old,
        all.torn,
        all.backups,
        all.drops,
        all.snapshots,
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

#[test]
fn what_two_lists_have_in_common() {
    let list = |pairs: &[(u64, u64)]| -> Vec<SectorRange> {
        pairs
            .iter()
            .map(|&(start, length)| SectorRange { start, length })
            .collect()
    };
    let a = list(&[(0, 16), (32, 16), (64, 64)]);
    assert_eq!(common(&a, &a), a);
    assert_eq!(common(&a, &[]), []);
    assert_eq!(
        common(&a, &list(&[(8, 32), (72, 8), (88, 8), (120, 100)])),
        list(&[(8, 8), (32, 8), (72, 8), (88, 8), (120, 8)])
    );
}

/// MongoDB 5.0 makes them, and its databases are refused.
#[test]
fn checkpoints_of_single_files_are_not_covered() {
    let mut alone = 0;
    let caught = (0..cases(60)).filter(|&seed| {
        let mut world = World::new(seed);
        world.alone = true;
        let (lost, counts, _) = run_beside(world, seed, Which::Difference);
        alone += counts.alone;
        lost.is_some()
    });
    let caught = caught.count();
    eprintln!("caught in {caught}, {alone} checkpoints of single files");
    assert!(caught > 0, "of {alone} none was ever caught");
}

/// Also what the target owes of it: a tool may find a page to be as one of another file at
/// any time, but between the look at a batch and its discard.
#[test]
fn what_another_file_shares_is_never_discarded() {
    let mut all = Counts::default();
    for seed in 0..cases(60) {
        let mut world = World::new(seed);
        world.sharing = true;
        let (lost, c, transcript) = run_beside(world, seed, Which::Difference);
        if let Some(lost) = lost {
            panic!("seed {seed}: {lost}\n{transcript}");
        }
        all.add(&c);
    }
    eprintln!("{all:?}");
    assert!(all.shares > 1000 && all.discarded > 1000, "{all:?}");
}

/// A database that does what a test says.
struct Still {
    preconditions: &'static str,
    owner: Owner,
    turtle: u32,
    run: u64,
    refuses: bool,
    /// What it lies on when it has been read.
    moves: Option<&'static str>,
    /// Who has opened it then.
    opens: Option<Owner>,
    files: Vec<(FileEntry, FreeList)>,
    /// Sectors by which the file system has moved what they have.
    moved: u64,
    /// Pages that somebody shares.
    shared: Range<u64>,
    /// Pages of a file.
    pages: u64,
}

impl Still {
    fn new() -> Self {
        Self {
            preconditions: "xfs",
            owner: Owner {
                pid: 7,
                start: 1,
                uid: 0,
            },
            turtle: 1,
            run: 1,
            refuses: false,
            moves: None,
            opens: None,
            files: Vec::new(),
            moved: 0,
            shared: 0..0,
            pages: 100,
        }
    }
}

impl Database for Still {
    fn preconditions(&mut self) -> Result<String, String> {
        Ok(self.preconditions.to_owned())
    }

    fn turtle(&mut self) -> Result<Option<TurtleId>, String> {
        Ok(Some(TurtleId(self.turtle.to_string())))
    }

    fn owner(&mut self) -> Result<Option<Owner>, String> {
        Ok(Some(self.owner))
    }

    fn read(&mut self, wanted: &mut dyn FnMut(&FileEntry) -> bool) -> Result<Seen, Refusal> {
        if let Some(preconditions) = self.moves.take() {
            self.preconditions = preconditions;
        }
        self.owner = self.opens.take().unwrap_or(self.owner);
        Ok(Seen {
            turtle: TurtleId(self.turtle.to_string()),
            run: Run {
                metadata: (1, 1),
                generation: Some(self.run),
            },
            files: self
                .files
                .iter()
                .map(|(entry, list)| (entry.clone(), wanted(entry).then(|| Ok(list.clone()))))
                .collect(),
        })
    }

    fn sync_dbpath(&mut self) -> Result<(), String> {
        match self.refuses {
            true => Err("it cannot be made durable".to_owned()),
            false => Ok(()),
        }
    }

    fn places(
        &mut self,
        _: &Path,
        _: (u64, i128),
        ranges: &[Range<u64>],
        emit: &mut dyn FnMut(u64, SectorRange),
    ) -> Result<(), String> {
        let [from, to, end] = [self.shared.start, self.shared.end, self.pages].map(|n| n * PAGE);
        for r in ranges {
            for part in [r.start..r.end.min(from.min(end)), r.start.max(to)..r.end.min(end)] {
                if part.start < part.end {
                    let at = SectorRange {
                        start: part.start / 512 + self.moved,
                        length: (part.end - part.start) / 512,
                    };
                    emit(part.start, at);
                }
            }
        }
        Ok(())
    }
}

/// Looks until something is found; the turtles that were waited for.
fn waits(rule: &mut Rule, database: &mut Still, target: &ModelKernel) -> Vec<u32> {
    let mut waits = Vec::new();
    for _ in 0..5 {
        match rule.look(database, target).unwrap() {
            Look::Found(_) => return waits,
            Look::Waiting(n) => waits.push(n),
        }
        // The same turtle again changes nothing.
        assert_eq!(
            rule.look(database, target),
            Ok(Look::Waiting(waits[waits.len() - 1]))
        );
        database.turtle += 1;
    }
    panic!("nothing was ever found, after {waits:?}");
}

#[test]
fn two_changes_of_the_turtle_by_one_process_are_waited_for() {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard on").unwrap();
    let mut rule = Rule::default();
    let mut database = Still::new();
    let resets = |rule: &mut Rule, database: &mut Still| {
        assert_eq!(waits(rule, database, &target), [2, 1]);
        database.turtle += 1;
        assert!(matches!(rule.look(database, &target), Ok(Look::Found(_))));
    };
    resets(&mut rule, &mut database);

    // Another process, also one with the same number
    database.owner.start += 1;
    resets(&mut rule, &mut database);
    database.owner.pid += 1;
    resets(&mut rule, &mut database);

    // The same process has reopened it
    database.run += 1;
    resets(&mut rule, &mut database);

    // Another mount or drive
    database.preconditions = "ext4";
    resets(&mut rule, &mut database);

    // A snapshot that is made before the turtle is read
    database.moves = Some("ext4 and a snapshot");
    database.turtle += 1;
    let halt = rule.look(&mut database, &target).unwrap_err();
    assert_eq!(
        halt.to_string(),
        "what the database lies on has changed meanwhile"
    );
    resets(&mut rule, &mut database);

    // Another process that opens it before the turtle is read
    database.opens = Some(Owner {
        pid: 9,
        ..database.owner
    });
    database.turtle += 1;
    let halt = rule.look(&mut database, &target).unwrap_err();
    assert_eq!(halt.to_string(), "another process has opened the database");
    resets(&mut rule, &mut database);

    // A look that was refused
    database.refuses = true;
    assert!(matches!(rule.look(&mut database, &target), Err(Halt::Reset(_))));
    database.refuses = false;
    resets(&mut rule, &mut database);

    // Another agent
    resets(&mut Rule::default(), &mut database);
}

/// A checkpoint of a file: its order, its inode number and birth time, whether its list has
/// a block, and the pages that are free, of 100.
fn checkpoint(order: u64, file: (u64, i128), block: bool, free: Range<u64>) -> (FileEntry, FreeList) {
    let entry = FileEntry {
        path: "a.wt".into(),
        order,
        cookie: Some(match block {
            true => cookie((9, order), 100, PAGE),
            false => empty_cookie(100),
        }),
        leaf_page: None,
    };
    let extents = std::iter::once(free.start * PAGE..free.end * PAGE);
    let list = FreeList {
        file,
        file_size: 100 * PAGE,
        extents: extents.filter(|e| !e.is_empty()).collect(),
    };
    (entry, list)
}

/// What is found when the second has taken the place of the first.
fn found(before: (FileEntry, FreeList), after: (FileEntry, FreeList)) -> Result<(Found, Still), Halt> {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard on").unwrap();
    let (mut rule, mut database) = (Rule::default(), Still::new());
    database.files = vec![before];
    waits(&mut rule, &mut database, &target);
    database.turtle += 1;
    database.files = vec![after];
    let Look::Found(found) = rule.look(&mut database, &target)? else {
        panic!("nothing is waited for");
    };
    Ok((found, database))
}

/// The same as first pages and their numbers.
fn freed(before: (FileEntry, FreeList), after: (FileEntry, FreeList)) -> Result<Vec<(u64, u64)>, Halt> {
    let (found, _) = found(before, after)?;
    Ok(found
        .sector_ranges
        .iter()
        .map(|s| (s.start / 8, s.length / 8))
        .collect())
}

#[test]
fn lists_are_compared_of_one_file_and_in_their_order() {
    let of = |order, file, block, free| checkpoint(order, file, block, free);
    let before = || of(5, (7, 70), true, 10..20);
    assert_eq!(freed(before(), of(6, (7, 70), true, 10..30)), Ok(vec![(20, 10)]));
    // Another file of the name, also with the inode number of the one before
    assert_eq!(freed(before(), of(6, (8, 70), true, 10..30)), Ok(vec![]));
    assert_eq!(freed(before(), of(6, (7, 71), true, 10..30)), Ok(vec![]));
    // Files of a file system that keeps no birth times
    let timeless = of(5, (7, 0), true, 10..20);
    assert_eq!(freed(timeless, of(6, (7, 0), true, 10..30)), Ok(vec![]));
    // Without a block nothing shows that it is the file that the metadata means.
    let empty = of(5, (7, 70), false, 0..0);
    assert_eq!(freed(empty, of(6, (7, 70), true, 10..30)), Ok(vec![]));
    for order in [4, 5] {
        let mut back = of(order, (7, 70), true, 10..30);
        back.0.cookie = Some(cookie((9, 77), 100, PAGE));
        let halt = freed(before(), back).unwrap_err();
        assert_eq!(halt.to_string(), "a.wt: its checkpoints have gone back");
    }
}

/// As by a defragmentation: what is there now was not looked at.
#[test]
fn what_has_another_place_by_now_is_left_out() {
    let before = checkpoint(5, (7, 70), true, 10..20);
    let (found, mut database) = found(before, checkpoint(6, (7, 70), true, 10..30)).unwrap();
    let all = [SectorRange {
        start: 160,
        length: 80,
    }];
    assert_eq!(found.sector_ranges, all);
    let mut again = |batch: &[SectorRange], moved| {
        database.moved = moved;
        found.again(&mut database, batch).unwrap().0
    };
    assert_eq!(again(&all, 0), all);
    let part = [SectorRange {
        start: 176,
        length: 8,
    }];
    assert_eq!(again(&part, 0), part);
    let rest = SectorRange {
        start: 176,
        length: 64,
    };
    assert_eq!(again(&all, 16), [rest]);
    assert_eq!(again(&all, 800), []);
}

type Change = fn(&mut Still);

/// What happens to a file of which the target owes pages 20 to 29, in granules of 8 pages,
/// before pages 30 and 31 are free, too: at the next look, or before the batch.  Returns the
/// messages and what is discarded then.
fn after_pages_were_owed(
    at_look: impl FnOnce(&mut Still),
    before_batch: impl FnOnce(&mut Still),
) -> (Vec<String>, Vec<u64>) {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard on").unwrap();
    target.set_granule(8);
    let (mut rule, mut database) = (Rule::default(), Still::new());
    let file = |order, free| checkpoint(order, (7, 70), true, free);
    database.files = vec![file(5, 10..20)];
    waits(&mut rule, &mut database, &target);
    let mut gone = Vec::new();
    let mut turn = |database: &mut Still, between: &mut dyn FnMut(&mut Still)| {
        database.turtle += 1;
        let Ok(Look::Found(found)) = rule.look(database, &target) else {
            panic!("nothing is waited for");
        };
        rule.forget_in(&target).unwrap();
        between(database);
        let batch = rule
            .again(&found, database, &target, &found.sector_ranges)
            .unwrap();
        let words: Vec<String> = batch
            .iter()
            .map(|s| format!(" {}:{}", s.start, s.length))
            .collect();
        if !words.is_empty() {
            let text = format!("discard {}{}", found.since, words.concat());
            target.message(&text).unwrap();
        }
        gone = target.run_discards(100);
    };
    database.files = vec![file(6, 10..30)];
    turn(&mut database, &mut |_| {});
    assert_eq!(target.owed(), 10);
    target.log();
    database.files = vec![file(7, 10..32)];
    at_look(&mut database);
    let mut before_batch = Some(before_batch);
    turn(&mut database, &mut |d| {
        before_batch.take().into_iter().for_each(|f| f(d))
    });
    (target.log(), gone)
}

#[test]
fn what_the_target_owes_is_the_files_alone() {
    let nothing = |_: &mut Still| {};
    let discarded: Vec<u64> = (24..32).collect();
    let sent = ["window", "discard"].map(str::to_owned).to_vec();
    assert_eq!(
        after_pages_were_owed(nothing, nothing),
        (sent.clone(), discarded.clone())
    );
    // Shares that have nothing to do with it, if they are seen before
    let late: Change = |d| d.shared = 50..60;
    assert_eq!(after_pages_were_owed(nothing, late), (sent, discarded));

    let forgets = ["window", "forget", "discard"].map(str::to_owned).to_vec();
    let changes: [(&str, Change); 6] = [
        ("a page of the piece is shared", |d| d.shared = 26..27),
        ("a page of another piece is shared", |d| d.shared = 21..22),
        ("the file is written elsewhere", |d| d.moved = 8 * 200),
        ("it was cut off", |d| d.pages = 29),
        ("it was dropped", |d| d.files.clear()),
        ("another file has its name", |d| {
            d.files = vec![checkpoint(7, (8, 80), true, 10..32)]
        }),
    ];
    for (what, change) in changes {
        let (log, gone) = after_pages_were_owed(change, nothing);
        assert!(log.starts_with(&forgets[..2]), "{what}: {log:?}");
        assert!(gone.is_empty(), "{what}: {gone:?}");
    }
    for (what, change) in &changes[..4] {
        if *what == "a page of another piece is shared" {
            continue;
        }
        let (log, gone) = after_pages_were_owed(nothing, change);
        assert!(log.starts_with(&forgets[..2]), "before a batch, {what}: {log:?}");
        assert!(gone.is_empty(), "before a batch, {what}: {gone:?}");
    }
}

/// Pages that were named before are owed from then on.
#[test]
fn another_granularity_begins_with_nothing_owed() {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard on").unwrap();
    let (mut rule, mut database) = (Rule::default(), Still::new());
    database.files = vec![checkpoint(5, (7, 70), true, 10..20)];
    waits(&mut rule, &mut database, &target);
    rule.forget_in(&target).unwrap();
    target.log();
    let mut turn = |granule| {
        target.set_granule(granule);
        database.turtle += 1;
        rule.look(&mut database, &target).unwrap();
        rule.forget_in(&target).unwrap();
        target.log()
    };
    assert_eq!(turn(1), ["window"]);
    assert_eq!(turn(8), ["window", "forget"]);
    assert_eq!(turn(8), ["window"]);
}

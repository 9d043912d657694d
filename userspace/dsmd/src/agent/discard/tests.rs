// SPDX-License-Identifier: GPL-2.0-or-later
//! The rule, beside a database that goes on at every step, with an agent that is as
//! late as it likes, and dies.  Rules that seem right beside it, which are not.

// A list of one range is meant.
#![allow(clippy::single_range_in_vec_init)]

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
    /// What the rule says, whatever was written before this look.
    Bitless,
}

/// What the lists of a turtle have, by the obvious rules.
pub(super) fn listed(side: &mut Side, since: u64) -> Result<Found, Halt> {
    let seen = side.read(&mut |f| f.cookie.is_some())?;
    side.sync_dbpath()?;
    let mut found = Found {
        since,
        ..Found::default()
    };
    for (entry, list) in seen.files {
        let Some(list) = list.transpose()? else { continue };
        side.clone()
            .places(&entry.path, list.file, &list.extents, &mut |e| {
                found.sector_ranges.push(e.at())
            })?;
    }
    Ok(found)
}

/// One run of an agent beside a database.
fn run(seed: u64, which: Which) -> (Option<String>, Counts, String) {
    run_beside(World::new(seed), seed, which)
}

fn run_beside(world: World, seed: u64, which: Which) -> (Option<String>, Counts, String) {
    let end = run_until(world, seed, which);
    assert_eq!(end.alarm, None, "seed {seed}: {which:?}\n{}", end.transcript);
    (end.lost, end.counts, end.transcript)
}

/// How a run has ended.
struct End {
    lost: Option<String>,
    alarm: Option<String>,
    counts: Counts,
    audit: audit::Seen,
    transcript: String,
}

fn run_until(world: World, seed: u64, which: Which) -> End {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let world = Rc::new(RefCell::new(world));
    let mut side = Side::of(&world);
    side.lag = [0, 2, 20][rng.usize(..3)];
    let late = [5, 30, 300][rng.usize(..3)];
    // A drive that takes discards in larger pieces.
    if which == Which::Difference {
        world.borrow().kernel.set_granule([1, 1, 2, 4][rng.usize(..4)]);
    }
    let mut rule = Rule::default();
    let mut window = None;
    let (mut alarm, mut seen) = (None, audit::Seen::default());
    for _ in 0..150 {
        world.borrow_mut().advance(late);
        *side.dies.borrow_mut() = (rng.u8(..12) == 0).then(|| rng.u32(..25));
        let target = side.clone();
        let looked = rule.look(&mut side, &target);
        if let Err(Halt::Violation(v)) = &looked {
            alarm = Some(v.to_string());
            break;
        }
        let found = match looked {
            Ok(Look::Found(found)) => {
                seen.taken += found.audit.taken;
                seen.written += found.audit.written;
                wrong(which, *found, &mut window, &mut side)
            }
            Ok(Look::Waiting(_)) => continue,
            Err(halt) => Err(halt),
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
    End {
        lost: w.lost.take(),
        alarm,
        counts: std::mem::take(&mut w.counts),
        audit: seen,
        transcript: w.transcript(),
    }
}

/// What another rule finds at this look.
fn wrong(which: Which, right: Found, window: &mut Option<u64>, side: &mut Side) -> Result<Found, Halt> {
    // The newest window there is: what was written before it does not count.
    let newest = side.world.borrow().kernel.status()?.discard.window;
    let before = window.replace(newest);
    match which {
        Which::Difference => Ok(right),
        Which::Bitless => Ok(Found {
            since: newest,
            ..right
        }),
        Which::Listed => listed(side, newest),
        Which::Window => listed(side, before.unwrap_or(newest)),
    }
}

/// Sends what was found in batches, and sometimes not all of it.
fn send(rng: &mut fastrand::Rng, side: &mut Side, rule: &mut Rule, which: Which, found: &Found) {
    if rule.forget_in(side).is_err() {
        return;
    }
    let batch = rng.usize(1..40);
    // What there is no time for.
    let slow = side.world.borrow().is_slow;
    let mut rest = Vec::new();
    let look = found.sector_ranges.chunks(batch).map(|some| (false, some));
    let mut batches: Vec<_> = look
        .chain(found.owed.chunks(batch).map(|some| (true, some)))
        .collect();
    if slow {
        rng.shuffle(&mut batches);
    }
    for (owed, some) in batches {
        if rng.u8(..20) == 0 || rule.is_owner(side).is_err() {
            return;
        }
        if slow && rng.bool() {
            rest.push((owed, some));
            continue;
        }
        side.world.borrow_mut().sending = true;
        let some = match which {
            Which::Difference => {
                let target = side.clone();
                rule.again(found, side, &target, some, owed)
            }
            _ => Ok(some.to_vec()),
        };
        let Ok(some) = some else {
            rule.forget();
            return;
        };
        let head = match owed {
            true => "discard dead".to_owned(),
            false => format!("discard {}", found.since),
        };
        if side.message(&audit::message(&head, &some)).is_err() {
            rule.forget();
            return;
        }
        let mut w = side.world.borrow_mut();
        if w.sharing {
            w.discard(usize::MAX >> 1);
        }
        w.sending = false;
        w.advance(10);
        drop(w);
        let names = side.world.borrow().calm || rng.u8(..4) == 0;
        if !some.is_empty() && names && !owed && rule.named(found, side, &some).is_err() {
            rule.forget();
            return;
        }
    }
    if slow && found.reach == 0 && owe(side, rule, found, &rest).is_err() {
        rule.forget();
    }
}

/// What was not sent, and whether it was owed before.
fn owe(side: &mut Side, rule: &mut Rule, found: &Found, rest: &[(bool, &[SectorRange])]) -> Result<(), Halt> {
    for (_, fresh) in rest.iter().filter(|(owed, _)| !owed) {
        side.message(&audit::message(&format!("defer {}", found.since), fresh))?;
        side.world.borrow_mut().discard(100);
        rule.named(found, side, fresh)?;
    }
    let all: Vec<SectorRange> = rest.iter().flat_map(|(_, some)| some.iter().copied()).collect();
    rule.owe(found, side, &all)?;
    Ok(())
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
    for which in [Which::Listed, Which::Window, Which::Bitless] {
        let lost = |seed: &u64| run_until(World::new(*seed), *seed, which).lost.is_some();
        let caught = (0..40).filter(lost).count();
        eprintln!("{which:?}: caught in {caught} of 40");
        assert!(caught > 4, "{which:?}: caught in {caught} of 40");
    }
}

/// One run in audit, which never discards anything.
fn audited(seed: u64, which: Which, of: impl FnOnce(&mut World)) -> End {
    let mut world = World::new(seed);
    world.kernel.message("set discard audit").unwrap();
    world.calm = true;
    of(&mut world);
    let end = run_until(world, seed, which);
    assert_eq!((end.counts.discarded, &end.lost), (0, &None), "seed {seed}");
    end
}

/// Also databases of MongoDB 5.0, which are refused.
#[test]
fn the_audit_reports_what_would_lose_pages() {
    for (which, alone) in [
        (Which::Listed, false),
        (Which::Window, false),
        (Which::Bitless, false),
        (Which::Difference, true),
    ] {
        let reported =
            (0..cases(40)).filter(|&seed| audited(seed, which, |w| w.alone = alone).alarm.is_some());
        let reported = reported.count();
        eprintln!("{which:?}, single files: {alone}: reported in {reported}");
        // With single files it takes more: the_history_of_mongodb_5_0_is_reported.
        let least = if alone { 0 } else { 4 };
        assert!(reported > least, "{which:?}, single files: {alone}: {reported}");
    }
}

/// It would switch a server off.
#[test]
fn the_audit_reports_nothing_that_is_right() {
    let (mut all, mut seen) = (Counts::default(), audit::Seen::default());
    for seed in 0..cases(60) {
        let end = audited(seed, Which::Difference, |w| w.sharing = seed % 3 == 0);
        assert_eq!(end.alarm, None, "seed {seed}\n{}", end.transcript);
        all.add(&end.counts);
        seen.taken += end.audit.taken;
        seen.written += end.audit.written;
    }
    eprintln!("{seen:?} {all:?}");
    assert!(seen.written > 1000 && seen.taken >= seen.written, "{seen:?}");
    for n in [
        all.drops,
        all.kills,
        all.cuts,
        all.backups,
        all.kept / 10,
        all.shares,
    ] {
        assert!(n > 10, "{all:?}");
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
        (world.alone, world.calm) = (true, true);
        let end = run_until(world, seed, Which::Difference);
        alone += end.counts.alone;
        end.lost.is_some()
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

/// A drive that is too slow for all: the rest is sent after any number of checkpoints.
#[test]
fn what_is_owed_is_never_needed() {
    for (calm, sharing) in [(false, false), (true, false), (true, true)] {
        let mut all = Counts::default();
        for seed in 0..cases(20) {
            let mut world = World::new(seed);
            (world.is_slow, world.calm, world.sharing) = (true, calm, sharing);
            let (lost, c, transcript) = run_beside(world, seed, Which::Difference);
            if let Some(lost) = lost {
                panic!("seed {seed}, {calm}, {sharing}: {lost}\n{transcript}");
            }
            all.add(&c);
        }
        eprintln!("{all:?}");
        // With a crash at every second checkpoint little is owed for long.
        let least = if calm { 500 } else { 0 };
        assert!(all.owed >= least && all.discarded > 10 * least, "{all:?}");
        assert!(!sharing || all.shares > 1000, "{all:?}");
    }
}

/// The page at which `b.wt` begins.
const ELSEWHERE: u64 = 1000;

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
            version: "11.3.1".into(),
            standing: Standing::Discard,
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
        path: &Path,
        _: (u64, i128),
        ranges: &[Range<u64>],
        emit: &mut dyn FnMut(Extent),
    ) -> Result<(), String> {
        let base = if path == Path::new("b.wt") {
            ELSEWHERE * 8
        } else {
            0
        };
        let [from, to, end] = [self.shared.start, self.shared.end, self.pages].map(|n| n * PAGE);
        for r in ranges {
            for part in [r.start..r.end.min(from.min(end)), r.start.max(to)..r.end.min(end)] {
                if part.start < part.end {
                    let (offset, end) = (part.start / 512, part.end / 512);
                    emit(Extent::new(offset, base + offset + self.moved, end - offset));
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
    Ok((*found, database))
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
    let after = || of(6, (7, 0), true, 10..30);
    assert_eq!(found(timeless.clone(), after()).unwrap().0.listless, 1);
    assert_eq!(freed(timeless, after()), Ok(vec![]));
    assert_eq!(
        found(before(), of(6, (7, 70), true, 10..30)).unwrap().0.listless,
        0
    );
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

type OfPages = &'static [Range<u64>];
/// What becomes of a second discard: messages, what is discarded, and what is dead then.
type After = (Vec<String>, Vec<u64>, Vec<u64>);

/// What happens to a file of which pages 20 to 29 are dead, in granules of 8 pages, before
/// pages 30 and 31 are free, too: at the next look, or before the batch.
fn after_pages_were_dead(at_look: impl FnOnce(&mut Still), before_batch: impl FnOnce(&mut Still)) -> After {
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
            .again(&found, database, &target, &found.sector_ranges, false)
            .unwrap();
        if !batch.is_empty() {
            let head = format!("discard {}", found.since);
            target.message(&audit::message(&head, &batch)).unwrap();
        }
        gone = target.run_discards(100);
    };
    database.files = vec![file(6, 10..30)];
    turn(&mut database, &mut |_| {});
    assert_eq!(target.dead(), pages_of(&[20..30]));
    target.log();
    database.files = vec![file(7, 10..32)];
    at_look(&mut database);
    let mut before_batch = Some(before_batch);
    turn(&mut database, &mut |d| {
        before_batch.take().into_iter().for_each(|f| f(d))
    });
    (target.log(), gone, target.dead())
}

fn pages_of(ranges: &[Range<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}

#[test]
fn what_is_discarded_later_is_the_files_alone() {
    let nothing = |_: &mut Still| {};
    let discarded = pages_of(&[24..32]);
    let sent = ["window", "discard"].map(str::to_owned).to_vec();
    let all = pages_of(&[20..32]);
    assert_eq!(
        after_pages_were_dead(nothing, nothing),
        (sent.clone(), discarded.clone(), all.clone())
    );
    // Shares that have nothing to do with it, if they are seen before; or are not seen
    let late: Change = |d| d.shared = 50..60;
    let far: Change = |d| d.shared = 21..22;
    for before_batch in [late, far] {
        assert_eq!(
            after_pages_were_dead(nothing, before_batch),
            (sent.clone(), discarded.clone(), all.clone())
        );
    }

    let forgets = ["window", "forget", "discard"].map(str::to_owned).to_vec();
    let changes: [(&str, Change, OfPages, OfPages); 6] = [
        (
            "a page of the piece is shared",
            |d| d.shared = 26..27,
            &[],
            &[20..26, 27..32],
        ),
        (
            "a page of another piece is shared",
            far,
            &[24..32],
            &[20..21, 22..32],
        ),
        (
            "the file is written elsewhere",
            |d| d.moved = 8 * 200,
            &[],
            &[230..232],
        ),
        ("it was cut off", |d| d.pages = 29, &[], &[20..29]),
        ("it was dropped", |d| d.files.clear(), &[], &[]),
        (
            "another file has its name",
            |d| d.files = vec![checkpoint(7, (8, 80), true, 10..32)],
            &[],
            &[],
        ),
    ];
    for (what, change, gone, dead) in changes {
        let after = after_pages_were_dead(change, nothing);
        assert!(after.0.starts_with(&forgets[..2]), "{what}: {:?}", after.0);
        assert_eq!((after.1, after.2), (pages_of(gone), pages_of(dead)), "{what}");
    }
    let changes: [(&str, Change, OfPages); 3] = [
        (
            "a page of the piece is shared",
            |d| d.shared = 26..27,
            &[20..26, 27..32],
        ),
        ("the file is written elsewhere", |d| d.moved = 8 * 200, &[20..22]),
        ("it was cut off", |d| d.pages = 29, &[20..29]),
    ];
    for (what, change, dead) in changes {
        let after = after_pages_were_dead(nothing, change);
        assert!(
            after.0.starts_with(&forgets[..2]),
            "before a batch, {what}: {:?}",
            after.0
        );
        assert_eq!(
            (after.1, after.2),
            (vec![], pages_of(dead)),
            "before a batch, {what}"
        );
    }
}

/// The same where pages 20 to 29 are owed, and are sent after a later look; which has the list of a new
/// checkpoint, or the same one.
fn after_pages_were_owed(
    free: Option<Range<u64>>,
    at_look: impl FnOnce(&mut Still),
    before_batch: impl FnOnce(&mut Still),
) -> After {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard on").unwrap();
    let (mut rule, mut database) = (Rule::default(), Still::new());
    let file = |order, free| checkpoint(order, (7, 70), true, free);
    database.files = vec![file(5, 10..20)];
    waits(&mut rule, &mut database, &target);
    let look = |rule: &mut Rule, database: &mut Still| {
        database.turtle += 1;
        let Ok(Look::Found(found)) = rule.look(database, &target) else {
            panic!("nothing is waited for");
        };
        rule.forget_in(&target).unwrap();
        found
    };
    database.files = vec![file(6, 10..30)];
    let found = look(&mut rule, &mut database);
    let head = format!("defer {}", found.since);
    target
        .message(&audit::message(&head, &found.sector_ranges))
        .unwrap();
    assert!(target.run_discards(100).is_empty());
    let owed = rule.owe(&found, &target, &found.sector_ranges);
    assert_eq!(owed, Ok(10 * PAGE));
    target.log();
    if let Some(free) = free {
        database.files = vec![file(7, free)];
    }
    at_look(&mut database);
    let found = look(&mut rule, &mut database);
    assert_eq!(found.sector_ranges, []);
    before_batch(&mut database);
    let batch = rule
        .again(&found, &mut database, &target, &found.owed, true)
        .unwrap();
    if !batch.is_empty() {
        target.message(&audit::message("discard dead", &batch)).unwrap();
    }
    let gone = target.run_discards(100);
    (target.log(), gone, target.dead())
}

#[test]
fn what_is_owed_is_the_files_alone() {
    let nothing = |_: &mut Still| {};
    let words = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let sent = words(&["window", "discard"]);
    let all = pages_of(&[20..30]);
    for free in [None, Some(10..30)] {
        let after = after_pages_were_owed(free, nothing, nothing);
        assert_eq!(after, (sent.clone(), all.clone(), all.clone()));
    }
    // What is used again is not asked for.
    let asked = words(&["window", "dead", "discard"]);
    let after = after_pages_were_owed(Some(10..25), nothing, nothing);
    assert_eq!(after, (asked.clone(), pages_of(&[20..25]), all.clone()));
    let after = after_pages_were_owed(Some(10..20), nothing, nothing);
    assert_eq!(after, (asked[..2].to_vec(), vec![], all.clone()));
    let changes: [(&str, Change, OfPages); 5] = [
        ("a page is shared", |d| d.shared = 26..27, &[20..26, 27..30]),
        ("the file is written elsewhere", |d| d.moved = 8 * 200, &[]),
        ("it was cut off", |d| d.pages = 29, &[20..29]),
        ("it was dropped", |d| d.files.clear(), &[]),
        (
            "another file has its name",
            |d| d.files = vec![checkpoint(8, (8, 80), true, 10..30)],
            &[],
        ),
    ];
    for (what, change, stays) in changes {
        let after = after_pages_were_owed(None, change, nothing);
        let stays = pages_of(stays);
        // What has strayed is not asked for again.
        let said = ["window", "forget", "discard"];
        let said = words(if stays.is_empty() { &said[..2] } else { &said });
        assert_eq!(after.0, said, "{what}");
        assert_eq!((after.1, after.2), (stays.clone(), stays), "{what}");
    }
    for (what, change, stays) in &changes[..3] {
        let after = after_pages_were_owed(None, nothing, change);
        assert_eq!(
            after.0[..2],
            words(&["window", "forget"]),
            "before a batch, {what}"
        );
        let stays = pages_of(stays);
        assert_eq!(
            (after.1, after.2),
            (stays.clone(), stays),
            "before a batch, {what}"
        );
    }
}

/// A file is dropped at each checkpoint, and what is dead of another one stays so.
#[test]
fn a_file_that_was_dropped_takes_nothing_of_others_with_it() {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard on").unwrap();
    target.set_granule(8);
    let (mut rule, mut database) = (Rule::default(), Still::new());
    let file = |path: &str, order, free| {
        let (mut entry, list) = checkpoint(order, (7, 70), true, free);
        entry.path = path.into();
        (entry, list)
    };
    database.files = vec![file("a.wt", 5, 10..20), file("b.wt", 5, 40..44)];
    waits(&mut rule, &mut database, &target);
    let mut turn = |database: &mut Still, files| {
        database.turtle += 1;
        database.files = files;
        let Ok(Look::Found(found)) = rule.look(database, &target) else {
            panic!("nothing is waited for");
        };
        rule.forget_in(&target).unwrap();
        let head = format!("discard {}", found.since);
        if !found.sector_ranges.is_empty() {
            target
                .message(&audit::message(&head, &found.sector_ranges))
                .unwrap();
        }
        target.run_discards(100)
    };
    let both = vec![file("a.wt", 6, 10..22), file("b.wt", 6, 40..48)];
    assert!(turn(&mut database, both).is_empty());
    assert_eq!(target.dead(), pages_of(&[20..22, ELSEWHERE + 44..ELSEWHERE + 48]));
    assert!(turn(&mut database, vec![file("a.wt", 6, 10..22)]).is_empty());
    assert_eq!(target.dead(), [20, 21]);
    let done = turn(&mut database, vec![file("a.wt", 7, 10..32)]);
    assert_eq!((done, target.dead()), (pages_of(&[24..32]), pages_of(&[20..32])));
}

/// Pages that were named before have no places here.
#[test]
fn another_granularity_begins_with_nothing_dead() {
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

/// A database of one file in audit, of which pages 20 to 29 were free at the last look, are
/// named and dead.
struct Audited {
    target: ModelKernel,
    rule: Rule,
    database: Still,
    order: u64,
}

impl Audited {
    fn new() -> Self {
        let target = ModelKernel::new(1 << 20);
        target.message("set discard audit").unwrap();
        let mut a = Self {
            target,
            rule: Rule::default(),
            database: Still::new(),
            order: 5,
        };
        a.database.files = vec![checkpoint(5, (7, 70), true, 10..20)];
        waits(&mut a.rule, &mut a.database, &a.target);
        assert_eq!(a.free(10..30), Ok((0, 0)));
        assert_eq!(a.target.dead(), pages_of(&[20..30]));
        a
    }

    /// The next checkpoint has these pages free: what is taken, and was written.
    fn free(&mut self, pages: Range<u64>) -> Result<(u64, u64), Halt> {
        self.order += 1;
        self.database.files = vec![checkpoint(self.order, (7, 70), true, pages)];
        self.look()
    }

    fn look(&mut self) -> Result<(u64, u64), Halt> {
        self.database.turtle += 1;
        let Look::Found(found) = self.rule.look(&mut self.database, &self.target)? else {
            panic!("nothing is waited for");
        };
        self.rule.forget_in(&self.target)?;
        if !found.sector_ranges.is_empty() {
            let head = format!("discard {}", found.since);
            self.target
                .message(&audit::message(&head, &found.sector_ranges))?;
            assert!(self.target.run_discards(usize::MAX >> 1).is_empty());
            self.rule.named(&found, &self.target, &found.sector_ranges)?;
        }
        Ok((found.audit.taken, found.audit.written))
    }

    fn write(&self, pages: Range<u64>) {
        pages.for_each(|p| self.target.write_page(p));
    }
}

#[test]
fn what_is_written_before_it_is_used_counts() {
    let mut a = Audited::new();
    a.write(25..30);
    assert_eq!(a.free(10..25), Ok((5, 5)));
    assert_eq!(a.rule.suspects(), 0);
    // What was free before anything was named says nothing.
    a.write(10..12);
    assert_eq!(a.free(12..25), Ok((0, 0)));
    // What was free again meanwhile was named again.
    assert_eq!(a.free(12..30), Ok((0, 0)));
    a.write(24..30);
    assert_eq!(a.free(12..24), Ok((6, 6)));
}

#[test]
fn what_is_used_and_was_never_written_is_reported() {
    let mut a = Audited::new();
    a.write(28..30);
    assert_eq!(a.free(10..26), Ok((4, 2)));
    assert_eq!(a.rule.suspects(), 2);
    // No checkpoint of this file: its write may be on the way still.
    assert_eq!(a.look(), Ok((0, 0)));
    assert_eq!(a.rule.suspects(), 2);
    let Err(Halt::Violation(v)) = a.free(10..26) else {
        panic!("it is not reported");
    };
    assert_eq!(
        v.to_string(),
        "a.wt: checkpoints 7 and 8 use 2 pages that were free and that nobody has written since, the first at byte 106496 (WiredTiger 11.3.1)"
    );
    assert_eq!(a.rule.suspects(), 0);

    // Also if this rule has not named it: the module has, for whom ever.
    let mut a = Audited::new();
    let window = a.target.status().unwrap().discard.window;
    a.target.message(&format!("discard {window} 88:8")).unwrap();
    a.target.run_discards(1);
    assert_eq!(a.free(12..30), Ok((0, 0)));
    assert_eq!(a.rule.suspects(), 1);
    assert!(matches!(a.free(12..30), Err(Halt::Violation(v)) if v.offset == 11 * PAGE && v.pages == 1));
}

/// MongoDB 5.0 checkpoints a file when its handle is closed, and no turtle shows: page 35 is
/// free at once, used and freed once more, so that the next list names it, and used by then.
#[test]
fn the_history_of_mongodb_5_0_is_reported() {
    let mut a = Audited::new();
    a.write(35..36);
    // dsmd has been late, and looks while the turtle is the older one still.
    assert_eq!(a.look(), Ok((0, 0)));
    a.database.files = vec![checkpoint(7, (7, 70), true, 10..30)];
    a.database.files[0].1.extents.push(35 * PAGE..36 * PAGE);
    a.look().unwrap();
    a.order = 7;
    assert!(a.target.dead().contains(&35));
    assert_eq!(a.free(10..30), Ok((1, 0)));
    assert!(matches!(a.free(10..30), Err(Halt::Violation(v)) if v.offset == 35 * PAGE && v.pages == 1));
    assert_eq!(a.target.status().unwrap().discard.discarded, 0);
}

#[test]
fn a_suspect_may_turn_out_to_be_right() {
    type Change = fn(&mut Audited);
    let changes: [(&str, Change); 9] = [
        ("it is written", |a| a.write(29..30)),
        ("it is shared", |a| a.database.shared = 29..30),
        ("it is elsewhere", |a| a.database.moved = 8 * 200),
        ("it is cut off", |a| a.database.pages = 29),
        ("the file is dropped", |a| {
            a.database.files.clear();
            a.look().unwrap();
        }),
        ("it is renamed", |a| {
            a.database.files[0].0.path = "renamed.wt".into();
            a.look().unwrap();
        }),
        ("its end is cut off, as by a compaction", |a| {
            let mut shorter = checkpoint(8, (7, 70), true, 10..29);
            shorter.1.file_size = 29 * PAGE;
            a.database.files = vec![shorter];
            a.look().unwrap();
        }),
        ("another file has its name", |a| {
            a.database.files = vec![checkpoint(8, (8, 80), true, 10..29)];
            a.look().unwrap();
        }),
        ("the target loses track of writes", |a| a.target.lose_writes()),
    ];
    for (what, change) in changes {
        let mut a = Audited::new();
        assert_eq!(a.free(10..29), Ok((1, 0)));
        assert_eq!(a.rule.suspects(), 1);
        change(&mut a);
        a.order += 2;
        assert_eq!(
            a.free(10..29),
            Ok((0, u64::from(what == "it is written"))),
            "{what}"
        );
        assert_eq!(a.rule.suspects(), 0, "{what}");
        assert_eq!(a.free(10..29), Ok((0, 0)), "{what}");
    }
    // It is free again: and what is named again is no suspect.
    let mut a = Audited::new();
    a.free(10..29).unwrap();
    assert_eq!(a.free(10..30), Ok((0, 0)));
    a.write(29..30);
    assert_eq!(a.free(10..29), Ok((1, 1)));
}

/// Bits that are gone look like pages that were written.
#[test]
fn what_the_target_cannot_have_followed_does_not_count() {
    let mut a = Audited::new();
    a.target.lose_writes();
    assert_eq!(a.free(10..25), Ok((0, 0)));
    let mut a = Audited::new();
    a.target.message("forget").unwrap();
    a.rule.forget();
    a.target.set_granule(4);
    waits(&mut a.rule, &mut a.database, &a.target);
    assert_eq!(a.free(10..25), Ok((0, 0)));
    // On a drive that wants large pieces, files that move are seen to.
    let mut a = Audited::new();
    a.target.message("forget").unwrap();
    a.rule.forget();
    a.target.set_granule(4);
    waits(&mut a.rule, &mut a.database, &a.target);
    a.free(10..30).unwrap();
    assert_eq!(a.free(10..40), Ok((0, 0)));
    a.database.moved = 8 * 200;
    assert_eq!(a.free(10..35), Ok((0, 0)));
    // What was taken does not count again, if it was not named again.
    let mut a = Audited::new();
    a.write(25..30);
    assert_eq!(a.free(10..25), Ok((5, 5)));
    a.write(25..30);
    assert_eq!(a.free(10..30), Ok((0, 0)));
    assert_eq!(a.free(10..25), Ok((0, 0)));
    // What is refused, as it was written since the window, is none that was named.
    let mut a = Audited::new();
    a.write(30..35);
    assert_eq!(a.free(10..40), Ok((0, 0)));
    a.write(35..40);
    assert_eq!(a.free(10..30), Ok((5, 5)));
}

/// As after a collection was dropped that had most of the database, and another one filled.
#[test]
fn a_million_pages_are_taken_at_once() {
    const MANY: u64 = 1_000_000;
    let mut a = Audited::new();
    a.database.pages = 2 * MANY + 200;
    a.target = ModelKernel::new(a.database.pages * 8);
    a.target.message("set discard audit").unwrap();
    a.rule.forget();
    // Every second page: ranges do not join.
    let free = |from: u64| {
        (from..MANY)
            .map(|n| n * 2 * PAGE..(n * 2 + 1) * PAGE)
            .collect::<Vec<_>>()
    };
    let mut look = |order: u64, extents: Vec<Range<u64>>, written: Range<u64>| {
        let mut file = checkpoint(order, (7, 70), true, 0..0);
        file.0.cookie = Some(cookie((9, order), a.database.pages, PAGE));
        (file.1.file_size, file.1.extents) = (a.database.pages * PAGE, extents);
        a.database.files = vec![file];
        a.order = order;
        a.write(written);
        if order == 5 {
            waits(&mut a.rule, &mut a.database, &a.target);
        }
        let seen = a.look();
        (seen, a.rule.suspects())
    };
    assert_eq!(look(5, free(MANY), 0..0).0, Ok((0, 0)));
    assert_eq!(look(6, free(0), 0..0).0, Ok((0, 0)));
    // All but some are written.
    let most = look(7, free(MANY), 10..2 * MANY);
    assert_eq!(most, (Ok((MANY, MANY - 5)), 5));
    assert_eq!(look(8, free(0), 0..0), (Ok((0, 0)), 0));
    // None is.
    assert_eq!(look(9, free(MANY), 0..0), (Ok((MANY, 0)), MANY));
    let Err(Halt::Violation(v)) = look(10, free(MANY), 10..12).0 else {
        panic!("it is not reported");
    };
    assert_eq!((v.offset, v.pages), (0, MANY - 1));
}

#[test]
fn a_reply_without_room_is_asked_for_in_parts() {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard audit").unwrap();
    let window = target.window().unwrap();
    let odd: Vec<String> = (0..100).map(|n| format!(" {}:8", n * 16)).collect();
    let odd = odd.concat();
    target.message(&format!("discard {window}{odd}")).unwrap();
    target.run_discards(1000);
    let range = |start, length| SectorRange { start, length };
    let all = [range(0, 800), range(804, 8), range(816, 784)];
    let mut expected: Vec<SectorRange> = (0..50).map(|n| range(n * 16, 8)).collect();
    expected.extend((51..100).map(|n| range(n * 16, 8)));
    for room in [1, 3, 1000] {
        target.set_room(room);
        assert_eq!(audit::dead(&target, &all), Ok(expected.clone()), "{room}");
    }
    target.set_room(0);
    let halt = audit::dead(&target, &all).unwrap_err().to_string();
    assert_eq!(halt, "the kernel module's reply to `dead` cannot be read: 1");
    assert_eq!(target.message("dead 0:8").unwrap(), "1");
    target.audits(false);
    let halt = audit::dead(&target, &all).unwrap_err().to_string();
    assert_eq!(
        halt,
        "the kernel module is older than the audit, without which nothing is discarded: Unknown message 'dead'"
    );
}

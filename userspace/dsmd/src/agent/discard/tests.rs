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
    Right,
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
    let mut found = Found::default();
    for (entry, list) in seen.files {
        let Some(list) = list.transpose()? else { continue };
        let at = pieces_of(side, &entry.path, list.file, &list.extents)?;
        let claim = Claim {
            since,
            is_fresh: false,
        };
        found.add(&entry, &list, (&list.extents, false), &at, claim);
    }
    found.pieces.sort_unstable_by_key(|p| p.extent.start);
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
    if which == Which::Right {
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
                wrong(which, *found, &mut window, &mut side, &mut rule)
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
fn wrong(
    which: Which,
    right: Found,
    window: &mut Option<u64>,
    side: &mut Side,
    rule: &mut Rule,
) -> Result<Found, Halt> {
    // The newest window there is: what was written before it does not count.
    let newest = side.world.borrow().kernel.status()?.discard.window;
    let before = window.replace(newest);
    match which {
        Which::Right => Ok(right),
        Which::Bitless => {
            rule.name_by(newest, true);
            let mut found = right;
            found.pieces = std::mem::take(&mut found.unasked);
            found.pieces.iter_mut().for_each(|p| p.since = newest);
            Ok(found)
        }
        Which::Listed => {
            rule.name_by(newest, false);
            listed(side, newest)
        }
        Which::Window => {
            let since = before.unwrap_or(newest);
            rule.name_by(since, false);
            listed(side, since)
        }
    }
}

/// Sends what was found in batches, and sometimes not all of it.
fn send(rng: &mut fastrand::Rng, side: &mut Side, rule: &mut Rule, which: Which, found: &Found) {
    let at = match which {
        Which::Right => found.granules.clone(),
        _ => found.pieces.iter().map(|p| p.extent.at()).collect::<Vec<_>>(),
    };
    let right = which == Which::Right;
    if side.world.borrow().watched {
        if right {
            rule.sent(found, &at);
        }
        return;
    }
    let batch = rng.usize(1..40);
    // What there is no time for.
    let slow = side.world.borrow().is_slow;
    let mut batches: Vec<_> = at.chunks(batch).collect();
    if slow {
        rng.shuffle(&mut batches);
    }
    for some in batches {
        if rng.u8(..20) == 0 || rule.is_owner(side).is_err() {
            return;
        }
        if slow && rng.bool() {
            continue;
        }
        side.world.borrow_mut().sending = true;
        let pieces = match which {
            Which::Right => found.again(side, some),
            _ => Ok(found.pieces_in(some).collect()),
        };
        let Ok(pieces) = pieces else {
            rule.forget();
            return;
        };
        if pieces.is_empty() {
            continue;
        }
        let text: Vec<(u64, SectorRange)> = pieces.iter().map(|p| (p.since, p.extent.at())).collect();
        if side.message(&permit::message("discard", &text)).is_err() {
            rule.forget();
            return;
        }
        let mut w = side.world.borrow_mut();
        if w.sharing {
            w.discard(usize::MAX >> 1);
        }
        w.sending = false;
        let rest = pieces.iter().filter(|p| !p.is_fresh);
        w.counts.rest += rest.map(|p| p.extent.length * 512 / PAGE).sum::<u64>();
        w.advance(10);
        drop(w);
        if right {
            rule.sent(found, some);
        }
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
        let (lost, c, transcript) = run(seed, Which::Right);
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
        let (lost, c, transcript) = run(seed.parse().unwrap(), Which::Right);
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
    world.kernel.message("set discard watch").unwrap();
    (world.calm, world.watched) = (true, true);
    of(&mut world);
    let end = run_until(world, seed, which);
    assert_eq!((end.counts.discarded, &end.lost), (0, &None), "seed {seed}");
    end
}

#[test]
fn the_audit_reports_what_would_lose_pages() {
    for which in [Which::Listed, Which::Window, Which::Bitless] {
        let reported = (0..cases(40)).filter(|&seed| audited(seed, which, |_| ()).alarm.is_some());
        let reported = reported.count();
        eprintln!("{which:?}: reported in {reported}");
        assert!(reported > 4, "{which:?}: {reported}");
    }
}

/// It would switch a server off.
#[test]
fn the_audit_reports_nothing_that_is_right() {
    let (mut all, mut seen) = (Counts::default(), audit::Seen::default());
    for seed in 0..cases(60) {
        let end = audited(seed, Which::Right, |w| w.sharing = seed % 3 == 0);
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
fn units_are_cut_inwards() {
    let at = |start, length| SectorRange { start, length };
    let cut = |unit: u64, align: u64, offset: u64, start, length| {
        let status = Discard {
            granularity: unit * 512,
            alignment: align * 512,
            offset: offset * 512,
            ..Discard::default()
        };
        Unit::of(&status).cut(at(start, length))
    };
    assert_eq!(cut(8, 8, 0, 8, 24), Some(at(8, 24)));
    assert_eq!(cut(32, 32, 0, 8, 24), None);
    assert_eq!(cut(32, 32, 0, 8, 56), Some(at(32, 32)));
    assert_eq!(cut(32, 32, 0, 8, 55), None);
    assert_eq!(cut(32, 8, 0, 8, 56), Some(at(8, 32)));
    assert_eq!(cut(32, 32, 24, 8, 56), Some(at(24, 32)));
    assert_eq!(cut(32, 32, 24, 56, 70), Some(at(56, 64)));
    assert_eq!(cut(32, 32, 24, 24, 31), None);
    assert_eq!(
        cut(0, 0, 0, 24, 31),
        Some(at(24, 31)),
        "a target that says nothing"
    );
}

/// MongoDB 5.0 makes them, and its databases are refused.
#[test]
fn checkpoints_of_single_files_are_not_covered() {
    let mut alone = 0;
    let caught = (0..cases(60)).filter(|&seed| {
        let mut world = World::new(seed);
        (world.alone, world.calm) = (true, true);
        let end = run_until(world, seed, Which::Right);
        alone += end.counts.alone;
        end.lost.is_some()
    });
    let caught = caught.count();
    eprintln!("caught in {caught}, {alone} checkpoints of single files");
    assert!(caught > 0, "of {alone} none was ever caught");
}

/// A tool may find a page to be as one of another file at any time, but between the look at a
/// batch and its discard.
#[test]
fn what_another_file_shares_is_never_discarded() {
    let mut all = Counts::default();
    for seed in 0..cases(60) {
        let mut world = World::new(seed);
        world.sharing = true;
        let (lost, c, transcript) = run_beside(world, seed, Which::Right);
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
fn what_had_no_time_is_never_needed_later() {
    for (calm, sharing) in [(false, false), (true, false), (true, true)] {
        let mut all = Counts::default();
        for seed in 0..cases(20) {
            let mut world = World::new(seed);
            (world.is_slow, world.calm, world.sharing) = (true, calm, sharing);
            let (lost, c, transcript) = run_beside(world, seed, Which::Right);
            if let Some(lost) = lost {
                panic!("seed {seed}, {calm}, {sharing}: {lost}\n{transcript}");
            }
            all.add(&c);
        }
        eprintln!("{all:?}");
        let least = if calm { 500 } else { 10 };
        assert!(all.rest >= least && all.discarded > 2 * least, "{all:?}");
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
    /// What forbids discards until somebody changes it.
    standing: Option<Reason>,
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
            standing: None,
            files: Vec::new(),
            moved: 0,
            shared: 0..0,
            pages: 100,
        }
    }
}

impl Database for Still {
    fn stands(&mut self) -> Result<(), Reason> {
        self.standing.clone().map_or(Ok(()), Err)
    }

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

    fn sync_dbpath(&mut self) -> Result<(), Reason> {
        match self.refuses {
            true => Err("it cannot be made durable".into()),
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

#[test]
fn a_reason_that_stands_is_looked_for_each_time() {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard on").unwrap();
    let mut rule = Rule::default();
    let mut database = Still::new();
    database.standing = Some("checkpoints are not synced".into());
    let halt = Err(Halt::Reset("checkpoints are not synced".into()));
    for _ in 0..4 {
        database.turtle += 1;
        // Also while more checkpoints would be waited for
        assert_eq!(rule.look(&mut database, &target).map(drop), halt);
        assert_eq!(rule.look_around(&mut database), halt);
    }
    database.standing = None;
    assert_eq!(waits(&mut rule, &mut database, &target), [2, 1]);
    database.standing = Some("checkpoints are not synced".into());
    assert_eq!(rule.look_around(&mut database), halt);
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
        .granules
        .iter()
        .map(|g| (g.start / 8, g.length / 8))
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
    assert_eq!(found.granules, all);
    let mut again = |batch: &[SectorRange], moved| -> Vec<SectorRange> {
        database.moved = moved;
        let pieces = found.again(&mut database, batch).unwrap();
        pieces.iter().map(|p| p.extent.at()).collect()
    };
    assert_eq!(again(&all, 0), all);
    let part = [SectorRange {
        start: 176,
        length: 8,
    }];
    assert_eq!(again(&part, 0), part);
    // Another page of the file may lie there now: it is not the one that was looked at.
    assert_eq!(again(&all, 16), []);
    assert_eq!(again(&all, 800), []);
}

fn pages_of(ranges: &[Range<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}

/// A database of one file whose pages are sent as the rule finds them.
struct Sending {
    target: ModelKernel,
    rule: Rule,
    database: Still,
    order: u64,
}

impl Sending {
    /// Pages 10 to 19 were free before anybody looked.
    fn new(granule: u64) -> Self {
        let target = ModelKernel::new(1 << 20);
        target.message("set discard on").unwrap();
        target.set_granule(granule);
        let (mut rule, mut database) = (Rule::default(), Still::new());
        database.files = vec![checkpoint(5, (7, 70), true, 10..20)];
        waits(&mut rule, &mut database, &target);
        Self {
            target,
            rule,
            database,
            order: 5,
        }
    }

    /// A look at a turtle; what is discarded then, if there is time.
    fn turn(&mut self, has_time: bool) -> Vec<u64> {
        self.database.turtle += 1;
        let Ok(Look::Found(found)) = self.rule.look(&mut self.database, &self.target) else {
            panic!("nothing is waited for");
        };
        if !has_time {
            return Vec::new();
        }
        let at = found.granules.clone();
        let pieces = found.again(&mut self.database, &at).unwrap();
        let text: Vec<(u64, SectorRange)> = pieces.iter().map(|p| (p.since, p.extent.at())).collect();
        self.target.message(&permit::message("discard", &text)).unwrap();
        self.rule.sent(&found, &at);
        self.target.run_discards(1000)
    }

    /// With a checkpoint that lists these.
    fn free(&mut self, pages: Range<u64>) -> Vec<u64> {
        self.list(pages);
        self.turn(true)
    }

    fn list(&mut self, pages: Range<u64>) {
        self.order += 1;
        self.database.files = vec![checkpoint(self.order, (7, 70), true, pages)];
    }
}

/// What is fresh at once; what was free before, after two checkpoints of the file.
#[test]
fn all_that_is_listed_is_discarded_once() {
    let mut s = Sending::new(1);
    assert_eq!(s.free(10..30), pages_of(&[20..30]));
    assert_eq!(s.free(10..35), pages_of(&[10..20, 30..35]));
    assert_eq!(s.free(10..36), [35]);
    // What was used meanwhile is fresh when it is free again.
    assert!(s.free(10..30).is_empty());
    (30..36).for_each(|p| s.target.write_page(p));
    assert!(s.free(10..30).is_empty());
    assert_eq!(s.free(10..36), pages_of(&[30..36]));
    // After a start of dsmd all of it is sent again.
    s.rule = Rule::default();
    waits(&mut s.rule, &mut s.database, &s.target);
    assert_eq!(s.free(10..37), [36]);
    assert_eq!(s.free(10..38), pages_of(&[10..36, 37..38]));
    // And when the database was opened again, of which nothing that was known counts.
    s.database.run += 1;
    waits(&mut s.rule, &mut s.database, &s.target);
    assert_eq!(s.free(10..39), [38]);
    assert_eq!(s.free(10..40), pages_of(&[10..38, 39..40]));
}

/// A checkpoint of a file shows that the list of the one before was made after a window began.
#[test]
fn what_was_free_before_waits_for_two_checkpoints_of_the_file() {
    let mut s = Sending::new(1);
    // Turtles without a checkpoint of this file, as after a change of the schema.
    assert!(s.turn(true).is_empty());
    assert!(s.turn(true).is_empty());
    assert_eq!(s.free(10..21), [20]);
    assert!(s.turn(true).is_empty());
    assert_eq!(s.free(10..22), [21], "the window is not one of the last two");
    assert_eq!(s.free(10..23), pages_of(&[10..20, 22..23]));
    // Nor is a window of which writes were lost.
    let mut s = Sending::new(1);
    assert_eq!(s.free(10..21), [20]);
    s.target.lose_writes();
    assert!(s.free(10..22).is_empty());
    assert_eq!(s.free(10..23), [22]);
    assert_eq!(s.free(10..24), pages_of(&[10..20, 21..22, 23..24]));
}

/// A page that the newest window alone does not show: it was written before that began.
#[test]
fn what_was_written_since_the_older_window_is_not_discarded() {
    let mut s = Sending::new(1);
    assert_eq!(s.free(10..21), [20]);
    // Handed out when the list of the last checkpoint had been made, and free again.
    s.target.write_page(15);
    assert_eq!(s.free(10..22), pages_of(&[10..15, 16..20, 21..22]));
    // It was not sent, and is as soon as nobody has written it for so long.
    assert_eq!(s.free(10..23), [22]);
    assert_eq!(s.free(10..24), [15, 23]);
}

#[test]
fn what_there_was_no_time_for_is_in_the_next_list_again() {
    let mut s = Sending::new(1);
    s.list(10..30);
    assert!(s.turn(false).is_empty());
    s.list(10..31);
    assert!(s.turn(false).is_empty());
    assert_eq!(s.free(10..28), pages_of(&[10..28]));
}

/// A piece that a later checkpoint completes is in its list as a whole.
#[test]
fn large_pieces_are_cut_inwards() {
    let mut s = Sending::new(8);
    assert!(s.free(10..30).is_empty());
    assert_eq!(s.free(10..31), pages_of(&[16..24]));
    assert_eq!(s.free(10..33), pages_of(&[24..32]));
    assert_eq!(s.free(8..34), pages_of(&[8..16]));
    assert!(s.free(8..35).is_empty());
    // A granule of which a page was used meanwhile goes again as a whole.
    (8..18).for_each(|p| s.target.write_page(p));
    assert!(s.free(18..35).is_empty());
    assert!(s.free(18..36).is_empty());
    assert_eq!(s.free(16..36), pages_of(&[16..24]));
    // A page that another file shares by now is not discarded, nor what is around it.
    let mut s = Sending::new(8);
    s.free(10..30);
    s.database.shared = 20..21;
    assert_eq!(s.free(10..33), pages_of(&[24..32]));
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
        target.message("set discard watch").unwrap();
        let mut a = Self {
            target,
            rule: Rule::default(),
            database: Still::new(),
            order: 5,
        };
        a.database.files = vec![checkpoint(5, (7, 70), true, 10..20)];
        waits(&mut a.rule, &mut a.database, &a.target);
        assert_eq!(a.free(10..30), Ok((0, 0)));
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
        let at = found.granules.clone();
        self.rule.sent(&found, &at);
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
    // By now what was free before anybody looked was named, too.
    a.write(10..12);
    assert_eq!(a.free(12..25), Ok((2, 2)));
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

    // Also what was free before anybody looked, by the window of its own claim.
    let mut a = Audited::new();
    assert_eq!(a.free(10..31), Ok((0, 0)));
    a.write(10..11);
    assert_eq!(a.free(12..31), Ok((2, 1)));
    assert_eq!(a.rule.suspects(), 1);
    assert!(matches!(a.free(12..31), Err(Halt::Violation(v)) if v.offset == 11 * PAGE && v.pages == 1));
    // Handed out when the list had been made, and written before the next look.
    let mut a = Audited::new();
    a.write(10..12);
    assert_eq!(a.free(10..31), Ok((0, 0)));
    assert_eq!(a.free(12..31), Ok((0, 0)));
    assert_eq!(a.rule.suspects(), 0);
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
        assert_eq!(a.free(10..29), Ok((0, 0)), "{what}");
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
    a.target.message("set discard watch").unwrap();
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

/// A page of which the target has no bits is neither evidence nor a suspect.
#[test]
fn what_the_table_does_not_have_is_not_known() {
    let mut a = Audited::new();
    a.target.miss(25..27);
    a.write(26..28);
    assert_eq!(a.free(10..25), Ok((4, 2)));
    assert_eq!(a.rule.suspects(), 2);
    let untouched = [28..30];
    let Err(Halt::Violation(v)) = a.free(10..25) else {
        panic!("it is not reported");
    };
    assert_eq!((v.offset, v.pages), (untouched[0].start * PAGE, 2));
}

#[test]
fn what_the_target_says_of_writes() {
    let target = ModelKernel::new(1 << 20);
    target.message("set discard watch").unwrap();
    let first = target.window().unwrap();
    target.write_page(3);
    let second = target.window().unwrap();
    target.miss(5..6);
    let at = |start: u64, length: u64| SectorRange {
        start: start * 8,
        length: length * 8,
    };
    let all = [(second, at(0, 4)), (first, at(4, 2)), (second, at(6, 2))];
    let answer = audit::written(&target, &all).unwrap();
    assert_eq!(answer.untouched, [at(0, 5), at(6, 2)]);
    assert_eq!(answer.unknown, [at(5, 1)]);
    let answer = audit::written(&target, &[(first, at(0, 4))]).unwrap();
    assert_eq!(answer.untouched, [at(0, 3)]);
    assert_eq!(audit::written(&target, &[]), Ok(audit::Answer::default()));
    target.set_room(0);
    let halt = audit::written(&target, &all).unwrap_err().to_string();
    assert_eq!(
        halt,
        "the kernel module's reply to `written` cannot be read: written"
    );
}

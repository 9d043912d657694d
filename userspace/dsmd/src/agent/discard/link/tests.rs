// SPDX-License-Identifier: GPL-2.0-or-later
use super::super::permit::{CHECKPOINTS, ONLY_ASKED};
use super::super::world::{Side, World};
use super::*;
use database::wiredtiger::avail::{self, Refusal, Standing};
use proto::reason::AUDIT_FAILED;
use std::cell::RefCell;
use std::rc::Rc;

type TestWorker = Worker<Side, Side>;

const AT_ONCE: Plan = Plan {
    send: true,
    audit_pages: 0,
};

/// A worker beside a database, and the way to tell it of turtles.
fn worker(seed: u64) -> (TestWorker, Rc<RefCell<World>>, Notifier, Notices) {
    worker_that(AT_ONCE, seed)
}

fn worker_that(plan: Plan, seed: u64) -> (TestWorker, Rc<RefCell<World>>, Notifier, Notices) {
    let world = Rc::new(RefCell::new(World::new(seed)));
    let side = Side::of(&world);
    side.message("set discard off").unwrap();
    let (sender, receiver) = notices().unwrap();
    (
        Worker::new(plan, side.clone(), side, Shared::default(), Pulse::default()),
        world,
        sender,
        receiver,
    )
}

fn turns(w: &mut TestWorker, world: &RefCell<World>, notices: &Notices, turns: u32) {
    for _ in 0..turns {
        world.borrow_mut().advance(200);
        let result = w.turn(notices);
        w.took(result.map(|_| ()));
    }
}

#[test]
fn what_is_found_is_sent_and_logged() {
    let (mut w, world, _sender, notices) = worker(7);
    w.is_on().unwrap();
    assert!(w.switched_on);
    turns(&mut w, &world, &notices, 150);
    let i = w.shared.info().clone();
    let target = w.target.status().unwrap().discard;
    assert!(i.sent_bytes > 0 && i.sent_ranges > 0, "{i:?}");
    assert_eq!(
        i.sent_bytes,
        (target.discarded_sectors + target.refused_sectors) * 512
    );
    assert!(i.looks > 10 && i.resets > 0, "{i:?}");
    assert_eq!(world.borrow().lost, None);
    w.end();
    assert_eq!(w.target.status().unwrap().discard.state, Mode::Off);
}

/// What was sent for another process, or before a start, and waits there.
#[test]
fn the_target_forgets_what_was_sent_before_all_was_forgotten() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().calm = true;
    for round in 0..6 {
        until(&mut w, &world, &notices, |w| info(w).mode == Mode::On);
        world.borrow().kernel.log();
        // Also where the rule notices by itself, between checkpoints or at one.
        match round % 3 {
            0 => world.borrow_mut().off = Some("off".into()),
            _ => world.borrow_mut().has_owner(true),
        }
        match round % 3 {
            1 => drop(w.look_around()),
            _ => turns(&mut w, &world, &notices, 1),
        }
        world.borrow_mut().off = None;
        let log = world.borrow().kernel.log();
        assert!(log.contains(&"forget".to_owned()), "{round}: {log:?}");
        assert!(!log.contains(&"discard".to_owned()), "{round}: {log:?}");
    }
    assert_eq!(world.borrow().lost, None);
}

/// dsmd gives notice when a person has switched: the next checkpoint may be far away.
#[test]
fn a_notice_without_a_new_turtle_looks_at_the_switch() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().calm = true;
    until(&mut w, &world, &notices, |w| info(w).mode == Mode::On);
    while !w.is_same_turtle().unwrap() {
        let _ = w.turn(&notices);
    }
    world.borrow_mut().off = Some("off".into());
    assert_eq!(w.turn(&notices), Err(Halt::Reset("off".into())));
    assert_eq!(state(&w), Mode::Off);
}

#[test]
fn the_same_turtle_ends_no_window() {
    let (mut w, _world, _sender, notices) = worker(8);
    w.is_on().unwrap();
    w.machine.lag = 0;
    w.target.lag = 0;
    while w.machine.turtle().unwrap().is_none_or(|t| t.0 == "0") || w.rule.turtle().is_none() {
        w.machine.world.borrow_mut().advance(100);
        let _ = w.turn(&notices);
    }
    let _ = w.turn(&notices);
    let window = w.target.status().unwrap().discard.window;
    assert_eq!(w.turn(&notices), Ok(Sent::All));
    assert_eq!(w.target.status().unwrap().discard.window, window);
}

/// A database that was just made is no database of somebody else's.
#[test]
fn a_first_start_is_not_yet() {
    let (mut w, ..) = worker(9);
    w.is_on().unwrap();
    let early = Refusal {
        kind: avail::Kind::Early,
        message: "not yet".into(),
    };
    w.took(Err(early.into()));
    let i = w.shared.info().clone();
    assert_eq!(
        (i.off, i.resets),
        (Some(Reason::new(ReasonKind::Early, "not yet")), 0)
    );
    w.took(Err("dax".to_owned().into()));
    assert_eq!(w.shared.info().resets, 1);
}

#[test]
fn whoever_switches_it_off_means_it() {
    let (mut w, world, _sender, notices) = worker(9);
    w.is_on().unwrap();
    turns(&mut w, &world, &notices, 20);
    w.target.message("set discard off").unwrap();
    let sent = w.shared.info().sent_bytes;
    turns(&mut w, &world, &notices, 50);
    let i = w.shared.info().clone();
    assert_eq!(i.off, Some(Reason::new(ReasonKind::SwitchedOff, SWITCHED_OFF)));
    assert_eq!((i.sent_bytes, i.files), (sent, 0));
    // Nor does the end of this one switch off what another switched on.
    let (w, ..) = worker(10);
    w.target.message("set discard on").unwrap();
    let mut w = w;
    w.is_on().unwrap();
    assert!(!w.switched_on);
    w.end();
    assert_eq!(w.target.status().unwrap().discard.state, Mode::Watch);
}

/// Neither by the start of an agent, nor by a try after a while, nor by somebody who
/// switches it on.
#[test]
fn a_drive_that_is_marked_gets_no_discards() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().broken = true;
    assert_eq!(w.is_on(), Err(Halt::Reset("it is marked".into())));
    assert_eq!(state(&w), Mode::Off);
    w.target.message("set discard on").unwrap();
    turns(&mut w, &world, &notices, 50);
    let i = w.shared.info().clone();
    assert_eq!((i.off, i.sent_bytes), (Some("it is marked".into()), 0));
    assert_eq!(state(&w), Mode::Off);
    w.target.message("set discard on").unwrap();
    world.borrow_mut().kernel.take_discards(false);
    w.again = Duration::ZERO;
    turns(&mut w, &world, &notices, 3);
    assert_ne!(state(&w), Mode::On);
    // Found while discards are sent
    let (mut w, world, _sender, notices) = worker(7);
    w.is_on().unwrap();
    turns(&mut w, &world, &notices, 150);
    let sent = w.shared.info().sent_bytes;
    assert!(sent > 0);
    world.borrow_mut().broken = true;
    assert_eq!(w.look_around(), Err(Halt::Reset("it is marked".into())));
    turns(&mut w, &world, &notices, 50);
    assert_eq!(w.shared.info().sent_bytes, sent);
    assert_eq!(state(&w), Mode::Off);
}

/// Until when somebody has discards withheld.
fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(3600))
}

/// As of a trial whose timer is gone, or a probe that was killed.
#[test]
fn a_hold_that_is_not_renewed_ends_by_itself() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().calm = true;
    for probe in [false, true] {
        let hold = |w: &TestWorker, until| match probe {
            true => w.shared.holds().probe = until,
            false => w.shared.holds().trial = until,
        };
        hold(&w, soon());
        turns(&mut w, &world, &notices, 20);
        world.borrow_mut().discard(usize::MAX >> 1);
        let before = discarded(&w);
        turns(&mut w, &world, &notices, 20);
        assert_eq!((discarded(&w), info(&w).mode == Mode::On), (before, false));
        hold(&w, Some(Instant::now()));
        until(&mut w, &world, &notices, |w| discarded(w) > before);
    }
    assert_eq!(world.borrow().lost, None);
}

/// It is a matter of that person, and a probe has the switch itself.
#[test]
fn off_by_a_person_ends_what_a_trial_and_a_probe_want() {
    for probe in [false, true] {
        let (mut w, world, _sender, notices) = worker(7);
        w.is_on().unwrap();
        w.shared.holds().trial = soon();
        w.shared.holds().probe = soon().filter(|_| probe);
        world.borrow_mut().off = Some("off".into());
        turns(&mut w, &world, &notices, 20);
        assert_eq!((info(&w).off, info(&w).sent_bytes), (Some("off".into()), 0));
        assert_eq!(state(&w), if probe { Mode::Watch } else { Mode::Off });
    }
}

/// A batch that comes just after the switch is refused, and not for itself.
#[test]
fn what_a_switch_refuses_is_because_of_the_switch() {
    let (mut w, ..) = worker(7);
    w.is_on().unwrap();
    let late = |w: &TestWorker| w.target.message("nonsense").map(drop).map_err(Halt::from);
    let refused = late(&w);
    let why = refused.clone().unwrap_err().to_string();
    w.took(refused);
    assert_eq!(info(&w).off, Some(why.into()));
    w.target.message("set discard off").unwrap();
    let refused = late(&w);
    w.took(refused);
    assert_eq!(
        info(&w).off,
        Some(Reason::new(ReasonKind::SwitchedOff, SWITCHED_OFF))
    );
}

/// What a window misses between two messages is no fault, and not the operator's business.
#[test]
fn a_window_that_is_lost_begins_the_audit_anew() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().calm = true;
    until(&mut w, &world, &notices, |w| info(w).mode == Mode::On);
    let resets = info(&w).resets;
    let lost = w.target.message("discard 1 8:8").map(drop).map_err(Halt::from);
    assert!(matches!(lost, Err(Halt::Lost(_))), "{lost:?}");
    w.took(lost);
    let i = info(&w);
    assert_eq!((i.off, i.mode, i.resets), (None, Mode::Audit, resets + 1));
    assert_eq!((i.audit.passed, w.rule.files()), (false, 0));
}

/// As a hand does, or a trial has it done, when a batch may be on its way.
#[test]
fn a_switch_to_watch_takes_nothing_back_that_was_seen() {
    for by_trial in [false, true] {
        let (mut w, world, _sender, notices) = worker(7);
        world.borrow_mut().calm = true;
        let found = loop {
            until(&mut w, &world, &notices, |w| {
                w.sends && w.rule.evidence().pages > 0
            });
            world.borrow_mut().advance(200);
            match w.rule.look(&mut w.machine, &w.target) {
                Ok(Look::Found(found)) if !found.granules.is_empty() => break found,
                _ => {}
            }
        };
        let (files, pages) = (w.rule.files(), w.rule.evidence().pages);
        assert!(files > 0 && pages > 0);
        match by_trial {
            true => w.shared.holds().trial = soon(),
            false => drop(w.target.message("set discard watch").unwrap()),
        }
        let (before, sent) = (discarded(&w), info(&w).sent_bytes);
        let result = w.send(*found, Duration::from_secs(1), &notices);
        assert_eq!(result, Ok(Sent::Interrupted));
        w.took(result.map(drop));
        assert_eq!((w.rule.files(), w.rule.evidence().pages), (files, pages));
        assert_eq!((discarded(&w), info(&w).sent_bytes), (before, sent));
        assert_eq!(info(&w).off, None);
    }
}

fn state(w: &TestWorker) -> Mode {
    w.target.status().unwrap().discard.state
}

fn discarded(w: &TestWorker) -> u64 {
    w.target.status().unwrap().discard.discarded_sectors
}

fn info(w: &TestWorker) -> DiscardInfo {
    w.shared.info().clone()
}

/// Until it is so.
fn until(w: &mut TestWorker, world: &RefCell<World>, notices: &Notices, so: impl Fn(&TestWorker) -> bool) {
    for _ in 0..2000 {
        if so(w) {
            return;
        }
        turns(w, world, notices, 1);
    }
    panic!("it never is so: {:?}", info(w));
}

#[test]
fn it_sends_when_enough_was_seen_to_be_written() {
    let plan = Plan {
        send: true,
        audit_pages: 400,
    };
    let (mut w, world, _sender, notices) = worker_that(plan, 7);
    world.borrow_mut().calm = true;
    w.is_on().unwrap();
    let mut passed = 0;
    for round in 0..3 {
        let (before, had) = (discarded(&w), info(&w).audit.taken_pages);
        until(&mut w, &world, &notices, |w| info(w).mode == Mode::On);
        let i = info(&w);
        assert!(
            i.audit.seen_pages >= 400 && i.audit.seen_checkpoints >= CHECKPOINTS,
            "{i:?}"
        );
        assert!(
            i.audit.passed && i.audit.taken_pages >= had + 400,
            "{round}: {i:?}"
        );
        assert_eq!(state(&w), Mode::On);
        passed += 1;
        until(&mut w, &world, &notices, |w| discarded(w) > before);
        // Another process begins again.
        world.borrow_mut().has_owner(true);
        until(&mut w, &world, &notices, |w| info(w).mode == Mode::Audit);
        let i = info(&w);
        assert!(i.audit.seen_pages < 400 && !i.audit.passed, "{i:?}");
        world.borrow_mut().discard(usize::MAX >> 1);
    }
    assert_eq!((passed, &world.borrow().lost), (3, &None));
    // Nothing was sent in between.
    let before = discarded(&w);
    until(&mut w, &world, &notices, |w| {
        assert!(info(w).mode == Mode::On || discarded(w) == before);
        info(w).mode == Mode::On
    });
}

/// For a trial it is at watch, and back: the evidence stays, and a period that is on begins at once.
#[test]
fn a_trials_periods_need_no_audit_each() {
    let plan = Plan {
        send: true,
        audit_pages: 200,
    };
    let (mut w, world, _sender, notices) = worker_that(plan, 7);
    world.borrow_mut().calm = true;
    until(&mut w, &world, &notices, |w| {
        info(w).mode == Mode::On && discarded(w) > 0
    });
    let mut passed = 0;
    for _ in 0..10 {
        until(&mut w, &world, &notices, |w| info(w).audit.passed);
        w.shared.holds().trial = soon();
        world.borrow_mut().discard(usize::MAX >> 1);
        let before = discarded(&w);
        assert_eq!(w.is_on(), Ok(()));
        // Unless a page is suspected just now
        let held = info(&w)
            .audit
            .only
            .is_some_and(|why| why.kind == ReasonKind::Trial);
        assert_eq!(held, info(&w).audit.passed);
        turns(&mut w, &world, &notices, 1);
        assert_eq!((state(&w), discarded(&w)), (Mode::Watch, before));
        w.shared.holds().trial = None;
        let _ = w.is_on();
        assert_eq!(info(&w).mode == Mode::On, info(&w).audit.passed);
        passed += u32::from(info(&w).audit.passed);
    }
    assert!(passed > 5, "{passed}");
    until(&mut w, &world, &notices, |w| info(w).mode == Mode::On);
    assert_eq!(world.borrow().lost, None);
}

/// One checkpoint may be one at which nothing happens.
#[test]
fn three_checkpoints_are_the_least() {
    let plan = Plan {
        send: true,
        audit_pages: 1,
    };
    let (mut w, world, _sender, notices) = worker_that(plan, 8);
    world.borrow_mut().calm = true;
    w.is_on().unwrap();
    until(&mut w, &world, &notices, |w| info(w).mode == Mode::On);
    assert!(info(&w).audit.seen_checkpoints >= CHECKPOINTS);
    assert!(info(&w).audit.seen_pages > 3);
}

/// Else it may be a violation.
#[test]
fn nothing_is_sent_while_a_page_is_suspected() {
    let plan = Plan {
        send: true,
        audit_pages: 1000,
    };
    let (mut w, world, _sender, notices) = worker_that(plan, 7);
    world.borrow_mut().calm = true;
    w.is_on().unwrap();
    until(&mut w, &world, &notices, |w| w.rule.suspects() > 0);
    w.rule.see(1 << 20, 7);
    assert_eq!(w.is_on(), Ok(()));
    assert_eq!((state(&w), info(&w).audit.passed), (Mode::Watch, false));
    until(&mut w, &world, &notices, |w| {
        w.rule.suspects() == 0 && w.rule.files() > 0
    });
    w.rule.see(1 << 20, 7);
    assert_eq!(w.is_on(), Ok(()));
    assert_eq!((state(&w), info(&w).audit.passed), (Mode::On, true));
}

/// By the configuration, or by the version; also if somebody switches it on.
#[test]
fn what_may_only_be_audited_is_never_sent() {
    let only = Plan {
        send: false,
        audit_pages: 0,
    };
    let unseen = "nobody has tried discards with this version";
    for (plan, standing, why) in [
        (only, Standing::Discard, ONLY_ASKED),
        (AT_ONCE, Standing::Audit(unseen.into()), unseen),
    ] {
        let (mut w, world, _sender, notices) = worker_that(plan, 7);
        world.borrow_mut().standing = standing;
        world.borrow_mut().calm = true;
        // Nor does it need a drive that takes any.
        world.borrow().kernel.take_discards(false);
        w.is_on().unwrap();
        until(&mut w, &world, &notices, |w| info(w).audit.written_pages > 50);
        let i = info(&w);
        assert_eq!((i.mode, state(&w)), (Mode::Audit, Mode::Watch));
        assert_eq!(i.audit.only, Some(why.into()));
        assert!(
            !i.audit.passed && i.audit.named_pages > i.audit.taken_pages,
            "{i:?}"
        );
        w.target.message("set discard on").unwrap();
        until(&mut w, &world, &notices, |w| state(w) == Mode::Watch);
        turns(&mut w, &world, &notices, 50);
        assert_eq!(discarded(&w), 0);
        // That stays the reason in a trial.
        w.shared.holds().trial = soon();
        turns(&mut w, &world, &notices, 10);
        assert_eq!(info(&w).audit.only, Some(why.into()));
    }
}

/// Whatever the configuration asks for, each process must have been audited.
#[test]
fn a_program_that_nobody_has_tried_must_pass() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().standing = Standing::Prove("it is not mongod's".into());
    world.borrow_mut().calm = true;
    w.is_on().unwrap();
    for round in 0..2 {
        let before = discarded(&w);
        until(&mut w, &world, &notices, |w| {
            assert!(discarded(w) == before || info(w).audit.passed);
            discarded(w) > before
        });
        let i = info(&w);
        let a = &i.audit;
        assert_eq!((&a.only, a.wanted_pages), (&None, 1000), "{round}");
        assert!(
            a.seen_pages >= 1000 && a.seen_checkpoints >= CHECKPOINTS,
            "{round}: {i:?}"
        );
        world.borrow_mut().has_owner(true);
        until(&mut w, &world, &notices, |w| info(w).mode == Mode::Audit);
        world.borrow_mut().discard(usize::MAX >> 1);
    }
    // The end of a trial's period, in which it was opened, is no permission either.
    let before = discarded(&w);
    w.shared.holds().trial = soon();
    world.borrow_mut().has_owner(true);
    world.borrow_mut().discard(usize::MAX >> 1);
    turns(&mut w, &world, &notices, 3);
    w.shared.holds().trial = None;
    w.target.message("set discard on").unwrap();
    until(&mut w, &world, &notices, |w| {
        assert!(discarded(w) == before || info(w).audit.passed);
        info(w).audit.passed
    });
    until(&mut w, &world, &notices, |w| state(w) == Mode::On);
    assert_eq!(world.borrow().lost, None);
}

#[test]
fn whoever_switches_to_audit_means_it() {
    let (mut w, world, _sender, notices) = worker(7);
    w.is_on().unwrap();
    until(&mut w, &world, &notices, |w| discarded(w) > 0);
    w.target.message("set discard watch").unwrap();
    let sent = discarded(&w);
    turns(&mut w, &world, &notices, 100);
    // A snapshot may lie below the file system just now.
    until(&mut w, &world, &notices, |w| info(w).mode == Mode::Audit);
    assert_eq!(info(&w).off, None);
    assert_eq!((state(&w), discarded(&w)), (Mode::Watch, sent));
    // And has it on again.
    w.target.message("set discard on").unwrap();
    until(&mut w, &world, &notices, |w| discarded(w) > sent);
    assert_eq!(world.borrow().lost, None);
}

/// Where there is one, it is reported before anything is sent; and no restart sends again.
#[test]
fn a_violation_is_for_good() {
    let plan = Plan {
        send: true,
        audit_pages: u64::MAX,
    };
    let mut reported = 0;
    for seed in 0..12 {
        let (mut w, world, _sender, notices) = worker_that(plan, seed);
        world.borrow_mut().calm = true;
        w.is_on().unwrap();
        for _ in 0..200 {
            turns(&mut w, &world, &notices, 1);
            if info(&w).audit.violations > 0 {
                break;
            }
            // A wrong rule: what is free may be in use by now.
            let newest = w.target.status().unwrap().discard.window;
            w.rule.name_by(newest, false);
        }
        assert_eq!((discarded(&w), &world.borrow().lost), (0, &None));
        let marks = world.borrow().marks.clone();
        let [why] = &marks[..] else { continue };
        reported += 1;
        assert!(
            why.contains("pages that were free and that nobody has written"),
            "{why}"
        );
        assert!(why.ends_with("; nothing had been discarded by then"), "{why}");
        assert!(why.starts_with(&info(&w).off.unwrap().text));
        assert_eq!((state(&w), info(&w).audit.violations), (Mode::Off, 1));
        for mut w in [
            w,
            Worker::new(
                plan,
                Side::of(&world),
                Side::of(&world),
                Shared::default(),
                Pulse::default(),
            ),
        ] {
            let why = Halt::Reset(failed(why));
            assert_eq!(w.is_on(), Err(why.clone()));
            w.target.message("set discard on").unwrap();
            assert_eq!(w.look_around(), Err(why));
            assert_eq!(state(&w), Mode::Off);
            assert!(info(&w).audit.failed);
        }
    }
    assert!(reported > 2, "{reported}");
}

fn failed(why: &str) -> Reason {
    Reason::new(ReasonKind::AuditFailed, format!("{AUDIT_FAILED}: {why}"))
}

/// The mark comes first, and one that cannot be made holds as long as this process.
#[test]
fn a_violation_is_kept_when_it_cannot_be_marked_or_is_killed() {
    let violation = Violation {
        path: "a.wt".into(),
        offset: 4096,
        pages: 1,
        orders: (7, 8),
        version: "11.3.1".into(),
    };
    for (calls, marked) in [(0, false), (1, true)] {
        let (mut w, world, ..) = worker(7);
        w.is_on().unwrap();
        *w.machine.dies.borrow_mut() = Some(calls);
        w.violated(&violation);
        *w.machine.dies.borrow_mut() = None;
        // That was not reached either.
        assert_eq!(state(&w), Mode::Watch);
        assert_eq!(world.borrow().marks.len(), usize::from(marked));
        let why = format!("{violation}; nothing had been discarded by then");
        if !marked {
            // It cannot be written still.
            *w.machine.dies.borrow_mut() = Some(0);
            assert_eq!(w.refused(), Some(Reason::new(ReasonKind::AuditFailed, &why)));
            *w.machine.dies.borrow_mut() = None;
        }
        assert_eq!(w.look_around(), Err(Halt::Reset(failed(&why))));
        assert_eq!(state(&w), Mode::Off);
        assert_eq!(world.borrow().marks.len(), 1, "it is tried again");
    }
}

/// Whoever has switched discards off, or needs the device: it is his word until he takes it back.
#[test]
fn what_is_off_or_held_gets_no_discards() {
    for why in ["off since yesterday, by uid 0", PROBED] {
        let (mut w, world, _sender, notices) = worker(7);
        let held = why == PROBED;
        let wanted = match held {
            true => Reason::new(ReasonKind::Probe, why),
            false => why.into(),
        };
        let set = |w: &TestWorker, so: bool| match held {
            true => w.shared.holds().probe = soon().filter(|_| so),
            false => world.borrow_mut().off = so.then(|| why.to_owned()),
        };
        w.is_on().unwrap();
        until(&mut w, &world, &notices, |w| discarded(w) > 0);
        world.borrow_mut().discard(usize::MAX >> 1);
        let sent = info(&w).sent_bytes;
        set(&w, true);
        // A probe has the switch on, and that is no permission.
        let _ = w.target.message("set discard on");
        turns(&mut w, &world, &notices, 50);
        let i = info(&w);
        assert_eq!(
            (i.off, i.sent_bytes, i.audit.passed),
            (Some(wanted.clone()), sent, false)
        );
        assert_eq!(state(&w), if held { Mode::On } else { Mode::Off });
        // Nor does another dsmd, as after a restart.
        let mut w = Worker::new(
            AT_ONCE,
            Side::of(&world),
            Side::of(&world),
            Shared::default(),
            Pulse::default(),
        );
        // Which a probe asks again.
        set(&w, true);
        turns(&mut w, &world, &notices, 50);
        assert_eq!((info(&w).off, info(&w).sent_bytes), (Some(wanted), 0));
        set(&w, false);
        until(&mut w, &world, &notices, |w| info(w).sent_bytes > 0);
        assert_eq!(world.borrow().lost, None);
    }
}

/// A reason that stays is found at each look, and said once.
#[test]
fn one_reason_stays_until_there_is_a_permit() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().off = Some("off".into());
    for _ in 0..20 {
        turns(&mut w, &world, &notices, 1);
        assert_eq!(info(&w).off, Some("off".into()));
        let around = w.look_around();
        w.took(around);
        assert_eq!(info(&w).off, Some("off".into()));
    }
    assert_eq!(info(&w).resets, 1);
}

#[test]
fn reasons_that_change_all_the_time_are_not_all_in_the_log() {
    let (mut w, ..) = worker(7);
    let because = |w: &mut TestWorker, why: &str| w.took(Err(why.to_owned().into()));
    because(&mut w, "a");
    assert!(!w.is_unsaid);
    for n in 0..100 {
        because(&mut w, &n.to_string());
    }
    assert!(w.is_unsaid);
    assert_eq!(info(&w).resets, 101);
    // The last one comes into it all the same.
    w.said = Some(Instant::now().checked_sub(SAY_INTERVAL).unwrap());
    because(&mut w, "99");
    assert!(!w.is_unsaid);
}

/// Whatever was seen before counts no longer.
#[test]
fn whatever_forgets_begins_with_an_audit() {
    let plan = Plan {
        send: true,
        audit_pages: 100,
    };
    type Change = fn(&mut TestWorker);
    let changes: [Change; 2] = [
        |w| w.took(Err("a reason".to_owned().into())),
        |w| w.machine.world.borrow_mut().has_owner(true),
    ];
    for change in changes {
        let (mut w, world, _sender, notices) = worker_that(plan, 7);
        world.borrow_mut().calm = true;
        until(&mut w, &world, &notices, |w| info(w).mode == Mode::On);
        let had = info(&w).audit.taken_pages;
        world.borrow_mut().discard(usize::MAX >> 1);
        let before = discarded(&w);
        change(&mut w);
        until(&mut w, &world, &notices, |w| {
            let i = info(w);
            assert!(
                discarded(w) == before || i.audit.taken_pages >= had + 100,
                "{i:?}"
            );
            discarded(w) > before
        });
        assert_eq!(world.borrow().lost, None);
    }
}

/// Looks until something may be discarded; from here on nothing happens by itself.
fn found(w: &mut TestWorker, world: &RefCell<World>) -> Found {
    w.is_on().unwrap();
    w.machine.lag = 0;
    w.target.lag = 0;
    loop {
        world.borrow_mut().advance(200);
        match w.rule.look(&mut w.machine, &w.target) {
            Ok(Look::Found(f)) if !f.granules.is_empty() && w.is_on().is_ok() && w.sends => return *f,
            _ => {}
        }
    }
}

fn all_of(found: &Found) -> u64 {
    bytes(&found.granules)
}

/// By a tool that deduplicates, between the look and the batch.
#[test]
fn what_somebody_shares_by_now_is_not_sent() {
    let (mut w, world, _sender, notices) = worker(7);
    let found = found(&mut w, &world);
    world.borrow_mut().shared = true;
    assert_eq!(w.send(found, budget(None), &notices), Ok(Sent::All));
    assert_eq!(info(&w).sent_bytes, 0);
    assert_eq!(w.target.status().unwrap().discard.queued, 0);
}

#[test]
fn what_cannot_be_sent_is_counted() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().calm = true;
    world.borrow().kernel.set_granule(64);
    until(&mut w, &world, &notices, |w| info(w).short_bytes > 0);
    world.borrow_mut().shared = true;
    until(&mut w, &world, &notices, |w| {
        let i = info(w);
        i.unplaced_bytes > 0 && i.short_bytes == 0
    });
}

fn next_turtle(w: &mut TestWorker, world: &RefCell<World>) {
    while w.is_same_turtle().unwrap() {
        world.borrow_mut().advance(200);
    }
}

/// It is in the next list again.
#[test]
fn what_waits_in_the_target_goes_with_its_look() {
    let (mut w, world, sender, notices) = worker(7);
    let found = found(&mut w, &world);
    next_turtle(&mut w, &world);
    sender.turtle();
    world.borrow_mut().at_once = 0;
    world.borrow().kernel.log();
    assert_eq!(w.send(found, budget(None), &notices), Ok(Sent::Interrupted));
    assert_eq!(world.borrow().kernel.log(), ["discard", "forget"]);
}

/// It takes ten seconds to be taken for stuck.
#[test]
fn a_drive_that_is_stuck_is_sent_no_more() {
    let (mut w, world, _sender, notices) = worker(7);
    let found = found(&mut w, &world);
    world.borrow_mut().at_once = 0;
    let halt = w.send(found, budget(None), &notices).unwrap_err();
    assert_eq!(halt.to_string(), "discards timed out on the device");
}

/// A poll gives notice, too.
#[test]
fn a_notice_of_the_same_turtle_interrupts_nothing() {
    let (mut w, world, sender, notices) = worker(7);
    found(&mut w, &world);
    sender.turtle();
    assert_eq!(w.wait(&notices, Duration::from_millis(20)), Ok(Sent::All));
    assert_eq!(notices.take(), None, "it was taken");
    next_turtle(&mut w, &world);
    sender.turtle();
    assert_eq!(w.wait(&notices, Duration::from_secs(60)), Ok(Sent::Interrupted));
}

/// Whether it has no time, or the next checkpoint comes first.
#[test]
fn what_was_not_sent_is_sent_after_a_later_checkpoint() {
    for interrupted in [false, true] {
        let (mut w, world, sender, notices) = worker(7);
        world.borrow_mut().calm = true;
        let found = found(&mut w, &world);
        let all = all_of(&found);
        let mut budget = Duration::ZERO;
        world.borrow().kernel.log();
        if interrupted {
            next_turtle(&mut w, &world);
            sender.turtle();
            budget = Duration::from_secs(60);
        }
        let done = w.send(found, budget, &notices).unwrap();
        let i = info(&w);
        assert_eq!(i.sent_bytes + i.waiting_bytes, all, "{i:?}");
        assert!(
            interrupted || (done == Sent::All && i.waiting_bytes == all),
            "{i:?}"
        );
        world.borrow_mut().kernel.log();
        until(&mut w, &world, &notices, |w| {
            let i = info(w);
            i.waiting_bytes == 0 && i.sent_bytes > 0 && discarded(w) > 0
        });
        assert_eq!(world.borrow().lost, None);
    }
}

/// It may be one that salvages.
#[test]
fn what_was_found_beside_another_process_is_not_sent() {
    for (has_owner, expected) in [(true, ReasonKind::Restarted), (false, ReasonKind::Closed)] {
        let (mut w, world, _sender, notices) = worker(7);
        let found = found(&mut w, &world);
        world.borrow_mut().has_owner(has_owner);
        world.borrow().kernel.log();
        let halt = w.send(found, budget(None), &notices).unwrap_err();
        assert!(
            matches!(&halt, Halt::Reset(why) if why.kind == expected),
            "{halt:?}"
        );
        let sent = world.borrow().kernel.log();
        assert!(!sent.contains(&"discard".to_owned()), "{sent:?}");
        assert_eq!(w.shared.info().sent_bytes, 0);
    }
}

#[test]
fn what_was_found_before_discards_were_forbidden_is_not_sent() {
    let forbids: [fn(&TestWorker, &mut World); 3] = [
        |_, world| world.broken = true,
        |_, world| world.off = Some("off".into()),
        |w, _| w.shared.holds().probe = soon(),
    ];
    for forbid in forbids {
        let (mut w, world, _sender, notices) = worker(7);
        let found = found(&mut w, &world);
        forbid(&w, &mut world.borrow_mut());
        world.borrow().kernel.log();
        let result = w.send(found, budget(None), &notices);
        assert!(matches!(result, Err(Halt::Reset(_))), "{result:?}");
        let sent = world.borrow().kernel.log();
        assert!(!sent.contains(&"discard".to_owned()), "{sent:?}");
    }
}

/// What the target owes from before must not be discarded.
#[test]
fn a_forget_that_was_lost_is_sent_again() {
    let (mut w, world, ..) = worker(7);
    w.is_on().unwrap();
    let dies = w.machine.dies.clone();
    *dies.borrow_mut() = Some(0);
    assert!(w.rule.forget_in(&w.target).is_err());
    *dies.borrow_mut() = None;
    world.borrow().kernel.log();
    assert_eq!(w.rule.forget_in(&w.target), Ok(()));
    assert_eq!(world.borrow().kernel.log(), ["forget"]);
    assert_eq!(w.rule.forget_in(&w.target), Ok(()));
    assert!(world.borrow().kernel.log().is_empty(), "once");
}

/// Whatever cannot be read or asked.
#[test]
fn every_way_out_forgets() {
    let (mut w, world, _sender, notices) = worker(7);
    w.is_on().unwrap();
    let knows = |w: &mut TestWorker| {
        for _ in 0..200 {
            turns(w, &world, &notices, 1);
            if w.rule.files() > 0 {
                return;
            }
        }
        panic!("nothing is ever known");
    };
    // The agent's first call, its second and so on fails.
    for call in 0..30 {
        knows(&mut w);
        *w.machine.dies.borrow_mut() = Some(call);
        let result = w.turn(&notices).map(|_| ());
        let failed = matches!(result, Err(Halt::Reset(_)));
        w.took(result);
        *w.machine.dies.borrow_mut() = None;
        assert!(!failed || w.rule.files() == 0, "call {call}");
        assert!(failed || call > 0);
    }
    knows(&mut w);
    w.target.message("set discard off").unwrap();
    let around = w.look_around();
    w.took(around);
    assert_eq!(w.rule.files(), 0);
}

/// As by a snapshot of what lies below the device, which takes none while it exists.
#[test]
fn a_device_that_took_no_discards_is_tried_again() {
    let (mut w, world, _sender, notices) = worker(7);
    w.is_on().unwrap();
    world.borrow_mut().kernel.take_discards(false);
    let is_off = |w: &TestWorker| info(w).off.is_some_and(|why| why.kind == ReasonKind::Unsupported);
    until(&mut w, &world, &notices, is_off);
    world.borrow_mut().kernel.take_discards(true);
    let sent = w.shared.info().sent_bytes;
    turns(&mut w, &world, &notices, 50);
    assert_eq!(w.shared.info().sent_bytes, sent, "not yet");
    assert_eq!(w.rule.files(), 0);
    w.again = Duration::ZERO;
    turns(&mut w, &world, &notices, 1);
    w.again = AGAIN;
    turns(&mut w, &world, &notices, 150);
    assert!(w.shared.info().sent_bytes > sent);
    assert_eq!(world.borrow().lost, None);
}

#[test]
fn without_an_owner_there_is_nothing() {
    let (mut w, world, _sender, notices) = worker(11);
    w.is_on().unwrap();
    w.machine.lag = 0;
    w.target.lag = 0;
    world.borrow_mut().has_owner(false);
    world.borrow_mut().advance(1);
    let result = w.look_around();
    w.took(result);
    let off = || w.shared.info().off.clone();
    assert_eq!(off().map(|why| why.kind), Some(ReasonKind::Closed));
    world.borrow_mut().has_owner(true);
    let result = w.look_around();
    w.took(result);
    assert_eq!(w.shared.info().off, None);
    let _ = w.turn(&notices);
}

/// The watchdog is about what never returns: a pause between batches does.
#[test]
fn a_wait_is_no_work() {
    let (mut w, _world, sender, notices) = worker(13);
    let pulse = w.pulse.clone();
    let ended = std::thread::scope(|scope| {
        scope.spawn(move || {
            while pulse.busy() > Duration::ZERO {
                std::thread::yield_now();
            }
            sender.turtle();
        });
        w.pulse.beat();
        w.wait(&notices, Duration::from_secs(600))
    });
    assert_eq!(ended, Ok(Sent::Interrupted));
    assert!(w.pulse.busy() > Duration::ZERO, "then it goes on");
}

#[test]
fn the_next_checkpoint_interrupts() {
    let (mut w, _world, sender, notices) = worker(12);
    sender.turtle();
    assert_eq!(w.wait(&notices, Duration::from_secs(60)), Ok(Sent::Interrupted));
    drop(sender);
    assert_eq!(
        w.wait(&notices, Duration::from_secs(60)),
        Ok(Sent::Interrupted),
        "the end"
    );
}

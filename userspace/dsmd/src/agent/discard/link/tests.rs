// SPDX-License-Identifier: GPL-2.0-or-later
use super::super::world::{Side, World};
use super::*;
use std::cell::RefCell;
use std::rc::Rc;
use wiredtiger::avail::{Kind, Refusal};

type TestWorker = Worker<Side, Side>;

/// A worker beside a database, and the way to tell it of turtles.
fn worker(seed: u64) -> (TestWorker, Rc<RefCell<World>>, Sender<()>, Receiver<()>) {
    let world = Rc::new(RefCell::new(World::new(seed)));
    let side = Side {
        world: world.clone(),
        dies: Rc::default(),
        lag: 3,
    };
    side.message("set discard off").unwrap();
    let (sender, receiver) = mpsc::channel();
    (
        Worker::new(side.clone(), side, Shared::default(), Pulse::default()),
        world,
        sender,
        receiver,
    )
}

fn turns(w: &mut TestWorker, world: &RefCell<World>, notices: &Receiver<()>, turns: u32) {
    for _ in 0..turns {
        world.borrow_mut().advance(200);
        let result = w.turn(notices);
        w.took(result.map(|_| ()));
    }
}

#[test]
fn what_is_found_is_sent_and_logged() {
    let (mut w, world, _sender, notices) = worker(7);
    w.switch_on().unwrap();
    assert!(w.switched_on);
    turns(&mut w, &world, &notices, 150);
    let i = w.info.lock().unwrap().clone();
    let target = w.target.status().unwrap().discard;
    assert!(i.sent_bytes > 0 && i.sent_ranges > 0, "{i:?}");
    assert_eq!(
        i.sent_bytes,
        (target.discarded_sectors + target.refused_sectors) * 512
    );
    assert_eq!(
        i.freed_bytes,
        i.sent_bytes + i.short_bytes + i.unplaced_bytes + i.dropped_bytes
    );
    assert!(i.looks > 10 && i.resets > 0, "{i:?}");
    assert_eq!(world.borrow().lost, None);
    w.end();
    assert_eq!(w.target.status().unwrap().discard.state, "off");
}

/// What is too short is sent all the same, and owed; what was before is forgotten first.
#[test]
fn the_target_forgets_before_the_next_discard() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow().kernel.set_granule(8);
    w.switch_on().unwrap();
    // A word of each message, from the last change of the owner on.
    let mut log = Vec::new();
    for round in 0..4 {
        let more = |log: &Vec<String>| log.iter().filter(|w| *w == "discard").count() < 3;
        for _ in 0..400 {
            turns(&mut w, &world, &notices, 1);
            log.extend(world.borrow().kernel.log());
            if !more(&log) {
                break;
            }
        }
        let at = |verb: &str| log.iter().position(|w| w == verb);
        assert!(
            at("forget").is_some() && at("forget") < at("discard"),
            "{round}: {log:?}"
        );
        let i = w.info.lock().unwrap().clone();
        assert_eq!(i.short_bytes, 0, "{i:?}");
        world.borrow_mut().has_owner(true);
        log.clear();
    }
    assert!(w.target.status().unwrap().discard.granularity > SHORTEST);
    assert_eq!(world.borrow().lost, None);
    // A module that knows nothing of it has nothing to forget.
    let (mut w, world, ..) = worker(7);
    world.borrow().kernel.refuse_hints();
    w.switch_on().unwrap();
    assert_eq!(w.rule.forget_in(&w.target), Ok(()));
}

#[test]
fn the_same_turtle_ends_no_window() {
    let (mut w, _world, _sender, notices) = worker(8);
    w.switch_on().unwrap();
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
    w.switch_on().unwrap();
    let early = Refusal {
        kind: Kind::Early,
        message: "not yet".into(),
    };
    w.took(Err(early.into()));
    let i = w.info.lock().unwrap().clone();
    assert_eq!((i.off.as_deref(), i.resets), (Some("not yet"), 0));
    w.took(Err("dax".to_owned().into()));
    assert_eq!(w.info.lock().unwrap().resets, 1);
}

#[test]
fn whoever_switches_it_off_means_it() {
    let (mut w, world, _sender, notices) = worker(9);
    w.switch_on().unwrap();
    turns(&mut w, &world, &notices, 20);
    w.target.message("set discard off").unwrap();
    let sent = w.info.lock().unwrap().sent_bytes;
    turns(&mut w, &world, &notices, 50);
    let i = w.info.lock().unwrap().clone();
    assert_eq!(i.off.as_deref(), Some("discards were switched off on the device"));
    assert_eq!((i.sent_bytes, i.files), (sent, 0));
    // Nor does the end of this one switch off what another switched on.
    let (w, ..) = worker(10);
    w.target.message("set discard on").unwrap();
    let mut w = w;
    w.switch_on().unwrap();
    assert!(!w.switched_on);
    w.end();
    assert_eq!(w.target.status().unwrap().discard.state, "on");
}

/// Neither by the start of an agent, nor by a try after a while, nor by somebody who
/// switches it on.
#[test]
fn a_drive_that_is_marked_gets_no_discards() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().broken = true;
    assert_eq!(w.switch_on(), Err(Halt::Reset("it is marked".into())));
    let state = |w: &TestWorker| w.target.status().unwrap().discard.state;
    assert_eq!(state(&w), "off");
    w.target.message("set discard on").unwrap();
    turns(&mut w, &world, &notices, 50);
    let i = w.info.lock().unwrap().clone();
    assert_eq!((i.off.as_deref(), i.sent_bytes), (Some("it is marked"), 0));
    assert_eq!(state(&w), "off");
    w.target.message("set discard on").unwrap();
    world.borrow_mut().kernel.take_discards(false);
    w.again = Duration::ZERO;
    turns(&mut w, &world, &notices, 3);
    assert_ne!(state(&w), "on");
    // Found while discards are sent
    let (mut w, world, _sender, notices) = worker(7);
    w.switch_on().unwrap();
    turns(&mut w, &world, &notices, 150);
    let sent = w.info.lock().unwrap().sent_bytes;
    assert!(sent > 0);
    world.borrow_mut().broken = true;
    assert_eq!(w.look_around(), Err(Halt::Reset("it is marked".into())));
    turns(&mut w, &world, &notices, 50);
    assert_eq!(w.info.lock().unwrap().sent_bytes, sent);
    assert_eq!(state(&w), "off");
}

/// An agent that starts or ends meanwhile would spoil the period.
#[test]
fn the_switch_is_the_trials_while_there_is_one() {
    let (mut w, world, _sender, notices) = worker(7);
    world.borrow_mut().trial = true;
    assert!(w.switch_on().is_err());
    let state = |w: &TestWorker| w.target.status().unwrap().discard.state;
    assert_eq!(state(&w), "off");
    turns(&mut w, &world, &notices, 3);
    let i = w.info.lock().unwrap().clone();
    assert_eq!(i.off.as_deref(), Some(OFF_FOR_A_TRIAL));
    world.borrow_mut().trial = false;
    turns(&mut w, &world, &notices, 3);
    let i = w.info.lock().unwrap().clone();
    assert_eq!(i.off.as_deref(), Some(SWITCHED_OFF));
    let (mut w, world, ..) = worker(7);
    w.switch_on().unwrap();
    world.borrow_mut().trial = true;
    w.end();
    assert_eq!(state(&w), "on");
}

/// Looks until something may be discarded; from here on nothing happens by itself.
fn found(w: &mut TestWorker, world: &RefCell<World>) -> Found {
    w.switch_on().unwrap();
    w.machine.lag = 0;
    w.target.lag = 0;
    loop {
        world.borrow_mut().advance(200);
        match w.rule.look(&mut w.machine, &w.target) {
            Ok(Look::Found(f)) if !f.sector_ranges.is_empty() => return f,
            _ => {}
        }
    }
}

/// By a tool that deduplicates, between the look and the batch.
#[test]
fn what_somebody_shares_by_now_is_not_sent() {
    let (mut w, world, _sender, notices) = worker(7);
    let found = found(&mut w, &world);
    let all = bytes(&found.sector_ranges);
    world.borrow_mut().shared = true;
    assert_eq!(w.send(found, Duration::ZERO, &notices), Ok(Sent::All));
    let i = w.info.lock().unwrap().clone();
    assert_eq!((i.sent_bytes, i.unplaced_bytes + i.short_bytes), (0, all));
    assert_eq!(w.target.status().unwrap().discard.queued, 0);
}

/// It may be one that salvages.
#[test]
fn what_was_found_beside_another_process_is_not_sent() {
    let (mut w, world, _sender, notices) = worker(7);
    let found = found(&mut w, &world);
    world.borrow_mut().has_owner(true);
    world.borrow().kernel.log();
    let halt = w.send(found, Duration::ZERO, &notices).unwrap_err();
    assert_eq!(halt.to_string(), "another process has the database open, or none");
    let sent = world.borrow().kernel.log();
    assert!(!sent.contains(&"discard".to_owned()), "{sent:?}");
    assert_eq!(w.info.lock().unwrap().sent_bytes, 0);
}

/// What the target owes from before must not be discarded.
#[test]
fn a_forget_that_was_lost_is_sent_again() {
    let (mut w, world, ..) = worker(7);
    w.switch_on().unwrap();
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
    w.switch_on().unwrap();
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
    w.switch_on().unwrap();
    world.borrow_mut().kernel.take_discards(false);
    let off = "the underlying device does not support discards, for example because of a snapshot; tried again every 10 minutes";
    while w.info.lock().unwrap().off.as_deref() != Some(off) {
        turns(&mut w, &world, &notices, 1);
    }
    world.borrow_mut().kernel.take_discards(true);
    let sent = w.info.lock().unwrap().sent_bytes;
    turns(&mut w, &world, &notices, 50);
    assert_eq!(w.info.lock().unwrap().sent_bytes, sent, "not yet");
    assert_eq!(w.rule.files(), 0);
    w.again = Duration::ZERO;
    turns(&mut w, &world, &notices, 1);
    w.again = AGAIN;
    turns(&mut w, &world, &notices, 150);
    assert!(w.info.lock().unwrap().sent_bytes > sent);
    assert_eq!(world.borrow().lost, None);
}

#[test]
fn without_an_owner_there_is_nothing() {
    let (mut w, world, _sender, notices) = worker(11);
    w.switch_on().unwrap();
    w.machine.lag = 0;
    w.target.lag = 0;
    world.borrow_mut().has_owner(false);
    world.borrow_mut().advance(1);
    let result = w.look_around();
    w.took(result);
    let off = || w.info.lock().unwrap().off.clone();
    assert_eq!(off().as_deref(), Some("no process has the database open"));
    world.borrow_mut().has_owner(true);
    let result = w.look_around();
    w.took(result);
    assert_eq!(w.info.lock().unwrap().off, None);
    let _ = w.turn(&notices);
}

/// The watchdog is about what never returns: a pause between batches does.
#[test]
fn a_wait_is_no_work() {
    let (w, _world, sender, notices) = worker(13);
    let pulse = w.pulse.clone();
    let ended = std::thread::scope(|scope| {
        scope.spawn(move || {
            while pulse.busy() > Duration::ZERO {
                std::thread::yield_now();
            }
            sender.send(()).unwrap();
        });
        w.pulse.beat();
        w.wait(&notices, Duration::from_secs(600))
    });
    assert_eq!(ended, Ok(Sent::Interrupted));
    assert!(w.pulse.busy() > Duration::ZERO, "then it goes on");
}

#[test]
fn the_next_checkpoint_interrupts() {
    let (w, _world, sender, notices) = worker(12);
    sender.send(()).unwrap();
    assert_eq!(w.wait(&notices, Duration::from_secs(60)), Ok(Sent::Interrupted));
    drop(sender);
    assert_eq!(
        w.wait(&notices, Duration::from_secs(60)),
        Ok(Sent::Interrupted),
        "the end"
    );
}

// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
struct Fake {
    uuid: String,
    minor: u32,
    active: Vec<Line>,
    inactive: Option<Vec<Line>>,
    suspended: bool,
    deferred: bool,
    /// How often others have it open.
    opened: i32,
}

/// The devices of a machine, in memory.
#[derive(Default)]
struct World {
    devices: RefCell<BTreeMap<String, Fake>>,
    calls: RefCell<Vec<String>>,
    /// This call fails.
    fail: Cell<Option<usize>>,
    /// No call is made from this one on: the program was killed.
    kill: Cell<Option<usize>>,
    /// What becomes of this device when a table is loaded for the volume.
    meanwhile: Option<(&'static str, Vec<Line>)>,
}

fn line(start: u64, length: u64, target: &str, params: &str) -> Line {
    Line {
        start,
        length,
        target: target.into(),
        params: params.into(),
    }
}

fn lines() -> Vec<Line> {
    vec![
        line(0, 200, "linear", "259:0 2048"),
        line(200, 100, "linear", "259:0 90000"),
        line(300, 50, "linear", "259:1 2048"),
    ]
}

fn shown(lines: &[Line]) -> Vec<String> {
    let words = |l: &Line| format!("{} {} {} {}", l.start, l.length, l.target, l.params);
    lines.iter().map(words).collect()
}

impl World {
    /// One volume.
    fn new() -> Self {
        let world = Self::default();
        world.add("vg-db", "LVM-abc", &lines());
        world
    }

    fn add(&self, name: &str, uuid: &str, active: &[Line]) {
        let fake = Fake {
            uuid: uuid.into(),
            minor: self.devices.borrow().len() as u32,
            active: active.to_vec(),
            ..Fake::default()
        };
        self.devices.borrow_mut().insert(name.into(), fake);
    }

    fn with<R>(&self, name: &str, change: impl FnOnce(&mut Fake) -> R) -> R {
        let done = change(self.devices.borrow_mut().get_mut(name).unwrap());
        self.reap();
        done
    }

    fn open_count(&self, name: &str) -> i32 {
        let devices = self.devices.borrow();
        let of = &devices[name];
        let held = |line: &&Line| {
            let dev = leads_to(line).ok().flatten().map(|(dev, _)| dev);
            dev == Some(DevNo::new(253, of.minor))
        };
        let lines = devices
            .values()
            .flat_map(|d| d.active.iter().chain(d.inactive.iter().flatten()));
        of.opened + lines.filter(held).count() as i32
    }

    /// What the kernel does when a device is closed.
    fn reap(&self) {
        loop {
            let names = self.names();
            let idle = |name: &&String| self.devices.borrow()[*name].deferred && self.open_count(name) == 0;
            let Some(name) = names.iter().find(idle) else {
                return;
            };
            self.devices.borrow_mut().remove(name);
        }
    }

    fn names(&self) -> Vec<String> {
        self.devices.borrow().keys().cloned().collect()
    }

    fn info(&self, name: &str) -> Result<Info, DmError> {
        let open_count = match self.devices.borrow().contains_key(name) {
            true => self.open_count(name),
            false => return Err(Errno::NXIO.into()),
        };
        let of = self.devices.borrow()[name].clone();
        Ok(Info {
            name: name.into(),
            uuid: of.uuid,
            dev: DevNo::new(253, of.minor),
            open_count,
            active: !of.active.is_empty(),
            inactive: of.inactive.is_some(),
            suspended: of.suspended,
            read_only: false,
        })
    }

    fn volume(&self) -> Info {
        self.info("vg-db").unwrap()
    }

    fn active(&self, name: &str) -> Vec<Line> {
        self.devices.borrow()[name].active.clone()
    }

    /// A call that changes something.
    fn called(&self, what: &str, name: &str) -> Result<(), DmError> {
        let n = self.calls.borrow().len();
        self.calls.borrow_mut().push(format!("{what} {name}"));
        if self.fail.get() == Some(n) {
            return Err(Errno::NOMEM.into());
        }
        self.alive()
    }

    fn alive(&self) -> Result<(), DmError> {
        match self.kill.get() {
            Some(n) if self.calls.borrow().len() > n => Err(Errno::INTR.into()),
            _ => Ok(()),
        }
    }

    fn insert(&self) -> Result<Lower> {
        insert(self, &self.volume(), &self.active("vg-db"), " 2 policy dsm")
    }

    fn undo(&self) -> bool {
        undo(self, &self.volume(), &self.active("vg-db")).unwrap()
    }

    fn withdraw(&self) -> Result<bool> {
        let old = self.active("vg-db");
        let lower = below(self, &self.volume(), &old)?.context("none")?;
        withdraw(self, "vg-db", &old, &lower)
    }

    /// The lines of dm-linear that a write goes through in the end.
    fn bottom(&self) -> Vec<Line> {
        let old = self.active("vg-db");
        match below(self, &self.volume(), &old).unwrap() {
            Some(lower) => lower.lines,
            None => old,
        }
    }
}

impl Tables for World {
    fn table(&self, name: &str) -> Result<(Info, Vec<Line>), DmError> {
        self.alive()?;
        Ok((self.info(name)?, self.active(name)))
    }

    fn loaded(&self, name: &str) -> Result<Vec<Line>, DmError> {
        self.alive()?;
        Ok(self.devices.borrow()[name].inactive.clone().unwrap_or_default())
    }

    fn load(&self, name: &str, lines: &[Line]) -> Result<(), DmError> {
        self.called("load", name)?;
        self.with(name, |d| d.inactive = Some(lines.to_vec()));
        if let (Some((which, other)), "vg-db") = (&self.meanwhile, name) {
            self.with(which, |d| d.active.clone_from(other));
        }
        Ok(())
    }

    fn clear(&self, name: &str) -> Result<(), DmError> {
        self.called("clear", name)?;
        self.with(name, |d| d.inactive = None);
        Ok(())
    }

    fn resume(&self, name: &str) -> Result<(), DmError> {
        if let Err(e) = self.called("resume", name) {
            // As dm_swap_table() leaves it, though not where nothing was called.
            self.with(name, |d| d.suspended = self.kill.get().is_none());
            return Err(e);
        }
        self.with(name, |d| {
            d.suspended = false;
            if let Some(lines) = d.inactive.take() {
                d.active = lines;
            }
        });
        Ok(())
    }
}

impl Devices for World {
    fn at(&self, dev: DevNo) -> Result<(Info, Vec<Line>), DmError> {
        let name = {
            let devices = self.devices.borrow();
            let found = devices.iter().find(|(_, d)| DevNo::new(253, d.minor) == dev);
            found.ok_or(Errno::NXIO)?.0.clone()
        };
        self.table(&name)
    }

    fn create(&self, name: &str, uuid: &str) -> Result<(), DmError> {
        self.called("create", name)?;
        let taken = self
            .devices
            .borrow()
            .iter()
            .any(|(n, d)| n == name || d.uuid == uuid);
        if taken {
            return Err(Errno::BUSY.into());
        }
        self.add(name, uuid, &[]);
        Ok(())
    }

    fn start(&self, name: &str) -> Result<Info, DmError> {
        self.called("start", name)?;
        self.with(name, |d| d.active = d.inactive.take().unwrap());
        self.info(name)
    }

    fn remove_deferred(&self, name: &str) -> Result<(), DmError> {
        self.called("remove", name)?;
        self.info(name)?;
        self.with(name, |d| d.deferred = true);
        Ok(())
    }
}

#[test]
fn the_lines_go_below_and_come_back() {
    let w = World::new();
    let lower = w.insert().unwrap();
    assert_eq!((lower.name.as_str(), &lower.lines), ("vg-db-dsm", &lines()));
    assert_eq!(shown(&w.active("vg-db")), ["0 350 dsm 253:1 0 2 policy dsm"]);
    assert_eq!(w.active("vg-db-dsm"), lines());
    assert_eq!(w.info("vg-db-dsm").unwrap().uuid, "DSMSEG-LVM-abc");
    assert_eq!(
        *w.calls.borrow(),
        [
            "create vg-db-dsm",
            "load vg-db-dsm",
            "start vg-db-dsm",
            "load vg-db",
            "remove vg-db-dsm",
            "resume vg-db"
        ]
    );
    assert!(w.withdraw().unwrap());
    assert_eq!(
        (w.active("vg-db"), w.names()),
        (lines(), vec!["vg-db".to_owned()])
    );
}

#[test]
fn linear_on_the_device_below_comes_back_too() {
    let w = World::new();
    w.insert().unwrap();
    w.with("vg-db", |d| d.active = vec![line(0, 350, "linear", "253:1 0")]);
    assert_eq!(w.bottom(), lines());
    assert!(w.withdraw().unwrap());
    assert_eq!((w.active("vg-db"), w.names().len()), (lines(), 1));
}

#[test]
fn the_device_below_goes_with_the_volumes_table() {
    let w = World::new();
    w.insert().unwrap();
    let longer = [lines(), vec![line(350, 10, "linear", "259:1 8000")]].concat();
    w.with("vg-db", |d| d.active.clone_from(&longer));
    assert_eq!(w.names(), ["vg-db"], "LVM has extended it");
    w.insert().unwrap();
    assert_eq!(w.active("vg-db-dsm"), longer);
    w.devices.borrow_mut().remove("vg-db");
    w.reap();
    assert!(w.names().is_empty(), "LVM has removed it");
}

#[test]
fn what_fails_is_undone() {
    for n in 0..6 {
        let w = World::new();
        w.fail.set(Some(n));
        let said = w.insert().unwrap_err().to_string();
        assert_eq!(w.active("vg-db"), lines(), "{n}: {said}");
        assert_eq!(w.names(), ["vg-db"], "{n}: {said}");
        let volume = w.volume();
        assert!(!volume.inactive && !volume.suspended, "{n}: {said}");
        w.fail.set(None);
        w.insert().unwrap();
        let calls = w.calls.borrow().len();
        for n in 0..2 {
            w.fail.set(Some(w.calls.borrow().len() + n));
            w.withdraw().unwrap_err();
            assert_eq!(
                (w.bottom(), w.volume().suspended),
                (lines(), false),
                "withdraw {n}"
            );
        }
        assert!(w.calls.borrow().len() > calls);
        w.fail.set(None);
        assert!(w.withdraw().unwrap());
        assert_eq!((w.active("vg-db"), w.names().len()), (lines(), 1));
    }
}

#[test]
fn killed_at_each_step_it_can_be_done_again() {
    for n in 0..6 {
        let w = World::new();
        w.kill.set(Some(n));
        w.insert().unwrap_err();
        w.kill.set(None);
        assert_eq!(w.active("vg-db"), lines(), "{n}");
        assert!(!w.volume().suspended);
        let loaded = n >= 4;
        assert_eq!((w.volume().inactive, w.undo()), (loaded, loaded), "{n}");
        assert!(!w.volume().inactive);
        sweep(&w, &w.volume()).unwrap();
        assert_eq!(w.names(), ["vg-db"], "{n}");
        w.insert().unwrap();
        sweep(&w, &w.volume()).unwrap();
        assert_eq!((w.bottom(), w.names().len()), (lines(), 2), "{n}");
        let calls = w.calls.borrow().len();
        for n in 0..3 {
            w.kill.set(Some(calls + n));
            let _ = w.withdraw();
            w.kill.set(None);
            let loaded = n == 1;
            assert_eq!((w.volume().inactive, w.undo()), (loaded, loaded), "withdraw {n}");
            assert_eq!(w.bottom(), lines());
            // After the exchange nobody has to take the underlying device away.
            assert_eq!(w.names().len(), if n < 2 { 2 } else { 1 });
            w.calls.borrow_mut().truncate(calls);
        }
    }
}

/// Only dsm and dm-linear on the same sectors, the one active and the other not.
#[test]
fn what_somebody_else_has_loaded_stays() {
    let linear = || vec![line(0, 350, "linear", "259:0 2048")];
    let dsm = |params: &str| vec![line(0, 350, "dsm", params)];
    let undone = |active: Vec<Line>, loaded: Vec<Line>| {
        let w = World::default();
        w.add("vg-db", "LVM-abc", &active);
        w.with("vg-db", |d| d.inactive = Some(loaded));
        let undone = w.undo();
        assert_eq!(w.volume().inactive, !undone);
        undone
    };
    assert!(undone(linear(), dsm("259:0 2048 2 policy dsm")));
    assert!(undone(dsm("259:0 2048 2 policy dsm"), linear()));
    let w = World::default();
    w.add("vg-db", "LVM-abc", &linear());
    w.with("vg-db", |d| {
        (d.inactive, d.suspended) = (Some(dsm("259:0 2048 0")), true)
    });
    assert!(!w.undo(), "somebody is at work");
    for (active, loaded) in [
        (linear(), linear()),
        (linear(), dsm("259:0 2056 0")),
        (linear(), dsm("259:1 2048 0")),
        (linear(), vec![line(0, 342, "dsm", "259:0 2048 0")]),
        (linear(), vec![line(0, 350, "striped", "1 8 259:0 2048")]),
        (linear(), vec![]),
        (lines(), dsm("259:0 2048 0")),
        (dsm("259:0 2048 0"), dsm("259:0 2048 2 policy dsm")),
        (dsm("259:0 2048 0"), lines()),
        (
            vec![line(0, 350, "striped", "1 8 259:0 2048")],
            dsm("259:0 2048 0"),
        ),
    ] {
        assert!(!undone(active, loaded));
    }
    // `dsmctl grow`
    let of = |length| vec![line(0, length, "dsm", "259:0 2048 0")];
    assert!(undone(of(350), of(358)));
    for (active, loaded) in [(358, 350), (350, 350)] {
        assert!(!undone(of(active), of(loaded)));
    }
    // On a device with segments that are not the volume's
    let w = World::new();
    w.add("vg-db-dsm", "DSMSEG-LVM-abc", &lines()[..2]);
    w.with("vg-db", |d| {
        d.inactive = Some(vec![line(0, 350, "dsm", "253:1 0 0")])
    });
    assert!(!w.undo());
    w.with("vg-db-dsm", |d| d.active = lines());
    assert!(w.undo());
}

#[test]
fn another_table_meanwhile_stays() {
    let other = vec![line(0, 350, "snapshot-origin", "253:7")];
    let w = World {
        meanwhile: Some(("vg-db", other.clone())),
        ..World::new()
    };
    assert_eq!(
        w.insert().unwrap_err().to_string(),
        "vg-db: somebody else changed the device's table at the same moment; nothing was changed by this"
    );
    assert_eq!((w.active("vg-db"), w.names().len()), (other, 1));

    let mut w = World::new();
    w.insert().unwrap();
    let dsm = w.active("vg-db");
    w.meanwhile = Some(("vg-db-dsm", vec![line(0, 350, "linear", "259:7 0")]));
    assert_eq!(
        w.withdraw().unwrap_err().to_string(),
        "vg-db-dsm: somebody else changed the device's table at the same moment; nothing was changed by this"
    );
    assert_eq!((w.active("vg-db"), w.volume().inactive), (dsm, false));
}

#[test]
fn what_is_in_the_way() {
    let refused = |w: &World| {
        let before = format!("{:?}", w.devices.borrow());
        let said = w.insert().unwrap_err().to_string();
        assert_eq!(format!("{:?}", w.devices.borrow()), before);
        said
    };
    let w = World::new();
    w.add("vg-db-dsm", "DSM-vg-db-dsm", &[line(0, 8, "linear", "259:0 0")]);
    assert_eq!(
        refused(&w),
        "vg-db: its segments need a device vg-db-dsm, and there is another one of this name; nothing was changed"
    );
    let w = World::new();
    w.add("vg-db-dsm", "DSMSEG-LVM-abc", &lines()[..1]);
    w.with("vg-db-dsm", |d| d.opened = 1);
    assert_eq!(
        refused(&w),
        "vg-db: its segments need a device vg-db-dsm, and the one that is there is in use; nothing was changed"
    );
    w.with("vg-db-dsm", |d| d.opened = 0);
    w.insert().unwrap();
    assert_eq!(w.active("vg-db-dsm"), lines(), "what was left is recreated");
    let w = World::new();
    w.add("renamed-dsm", "DSMSEG-LVM-abc", &lines());
    assert_eq!(
        refused(&w),
        "vg-db: there is a device vg-db-dsm, or one of the UUID DSMSEG-LVM-abc, already; nothing was changed"
    );
    let mut long = World::new().volume();
    long.name = "x".repeat(124);
    let said = insert(&World::new(), &long, &lines(), "")
        .unwrap_err()
        .to_string();
    assert!(said.contains("its name or UUID is too long"), "{said}");
}

#[test]
fn only_its_own_lines_come_back() {
    let w = World::new();
    w.insert().unwrap();
    let inserted = w.devices.borrow().clone();
    let refused = |change: &dyn Fn(&mut Fake)| {
        w.devices.borrow_mut().clone_from(&inserted);
        w.with("vg-db-dsm", |d| change(d));
        let said = w.withdraw().unwrap_err().to_string();
        assert_eq!(shown(&w.active("vg-db")), ["0 350 dsm 253:1 0 2 policy dsm"]);
        said
    };
    assert!(refused(&|d| d.active[1].target = "striped".into())
        .starts_with("vg-db-dsm: the device's table is striped, not linear: "));
    assert_eq!(
        refused(&|d| d.active[2].length = 58),
        "vg-db: it is not on all of vg-db-dsm, which has its segments; nothing was changed"
    );
    assert_eq!(
        refused(&|d| d.suspended = true),
        "vg-db-dsm: the device is suspended; nothing was changed"
    );
    assert_eq!(refused(&|d| d.uuid = "DSM-other".into()), "none");
    w.devices.borrow_mut().clone_from(&inserted);
    w.with("vg-db", |d| d.active[0].params = "253:1 8 2 policy dsm".into());
    let said = w.withdraw().unwrap_err().to_string();
    assert!(said.starts_with("vg-db: it is not on all of vg-db-dsm"), "{said}");
    w.devices.borrow_mut().clone_from(&inserted);
    w.with("vg-db-dsm", |d| d.opened = 1);
    assert!(!w.withdraw().unwrap(), "somebody looks at it");
    assert_eq!((w.active("vg-db"), w.names().len()), (lines(), 2));
    w.with("vg-db-dsm", |d| d.opened = 0);
    assert_eq!(w.names(), ["vg-db"]);
}

#[test]
fn a_volume_of_one_line_has_none_below() {
    let w = World::new();
    let below = |lines: &[Line]| below(&w, &w.volume(), lines).unwrap();
    assert_eq!(below(&lines()), None);
    for (target, params) in [
        ("linear", "259:0 0"),
        ("dsm", "259:0 0 0"),
        ("dsm", "253:0 0 0"),
        ("striped", "2 8 253:0 0"),
    ] {
        assert_eq!(below(&[line(0, 350, target, params)]), None);
    }
}

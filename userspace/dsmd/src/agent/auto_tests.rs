// SPDX-License-Identifier: GPL-2.0-or-later
//! Automatic mode on a real directory, with a kernel and extents in memory, and with
//! a clock set by hand.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

use super::tests::{Setup, TestAgent, SECTORS};
use super::{Options, RefreshOutcome};
use database::rules::Rules;
use database::watch::Watch;
use testing::kernel::ModelKernel;

const PERIOD: Duration = Duration::from_secs(60);

/// An agent that follows a directory, and the time.
struct Auto {
    setup: Setup,
    agent: TestAgent,
    watch: Watch,
    now: Instant,
    /// Where the next file lies.
    next: u64,
}

impl Auto {
    fn new(rules: &str) -> Self {
        Self::on(Setup::new(), rules)
    }

    fn on(setup: Setup, rules: &str) -> Self {
        let rules = match rules {
            "" => Rules::default(),
            text => Rules::parse_objects(text).unwrap(),
        };
        let options = Options {
            rules,
            auto: Some(PERIOD),
            ..Options::default()
        };
        let mut agent = setup.agent_with(ModelKernel::new(SECTORS), options);
        let mut watch = Watch::following().unwrap();
        agent
            .attach(&mut |path, dir: &OwnedFd| watch.add(path, dir))
            .unwrap();
        Self {
            setup,
            agent,
            watch,
            now: Instant::now(),
            next: 1000,
        }
    }

    /// Makes a file, or makes one larger; it is closed then.
    fn write(&mut self, path: &str, pages: u64) -> u64 {
        self.next += 100_000;
        self.setup.file(path, pages, self.next)
    }

    fn after(&mut self, seconds: u64) -> RefreshOutcome {
        self.now += Duration::from_secs(seconds);
        self.watch.take().unwrap();
        let changes = self.watch.take_changes();
        let watch = &mut self.watch;
        self.agent
            .follow(&changes, self.now, &mut |path, dir| watch.add(path, dir))
            .unwrap()
    }

    fn stream(&self, id: u64) -> Option<u8> {
        Some(self.agent.target.files().get(&id)?.stamp.stream)
    }

    fn open(&self) -> u64 {
        self.agent.info().auto.unwrap().open
    }
}

#[test]
fn files_come_are_closed_and_go() {
    let mut a = Auto::new("");
    let log = a.write("1.log", 1);
    assert_eq!(a.after(0).changed, 1);
    assert_eq!(a.stream(log), Some(1));
    assert_eq!(a.open(), 0);
    // One that stays open
    let held = fs::File::create(a.setup.at("held.sst")).unwrap();
    let sst = a.write("2.sst", 1);
    a.after(1);
    assert_eq!((a.stream(sst), a.open()), (Some(1), 1));
    drop(held);
    a.after(1);
    assert_eq!(a.open(), 0);

    fs::remove_file(a.setup.at("1.log")).unwrap();
    assert_eq!(a.after(1).dropped, 1);
    assert_eq!(a.stream(log), None);
    // Nothing happens: nothing is uploaded.
    assert!(a.after(1).commit.is_none());
    // Written again: it is open until it is closed.
    fs::write(a.setup.at("2.sst"), [1; 8192]).unwrap();
    a.after(1);
    assert_eq!(a.open(), 0);
}

/// The mapper keeps files apart that are written together, the remapper groups them
/// by what the target counts.
#[test]
fn files_that_stay_open_are_grouped() {
    let mut a = Auto::new("");
    let mut held = Vec::new();
    let mut ids = Vec::new();
    for n in 0..6 {
        let name = format!("{n}.ibd");
        let id = a.write(&name, 100);
        ids.push(id);
        let path = a.setup.at(&name);
        held.push(fs::File::options().append(true).open(path).unwrap());
    }
    a.after(0);
    // They were closed by their maker, and are opened again.
    for f in &mut held {
        f.set_len(101 * 4096).unwrap();
    }
    // The events of it do not tell; a look at all files does.
    a.after(31);
    assert_eq!(a.open(), 6);
    let before = a.agent.info().auto.unwrap();
    assert_eq!((before.streams.len(), before.mapper_streams), (8, 4));
    for round in 0..3 {
        for (n, id) in ids.iter().enumerate() {
            a.agent
                .target
                .write_file(*id, if n < 3 { 1000 } else { 10 + round });
        }
        a.after(61);
    }
    let of: Vec<u8> = ids.iter().map(|id| a.stream(*id).unwrap()).collect();
    assert!(
        of[..3].iter().all(|s| *s == of[0]) && of[3..].iter().all(|s| *s < of[0]),
        "{of:?}"
    );
    assert!(of.iter().all(|s| *s > 1), "{of:?}");
    assert_eq!(a.agent.info().auto.unwrap().mapper_streams, 1);

    // They are not written any more, and nobody says that they were closed.
    for _ in 0..11 {
        a.after(61);
    }
    assert_eq!(a.open(), 0);
    assert_eq!(a.agent.info().files, 6);
    let with_stream = ids.iter().filter(|id| a.stream(**id).unwrap() > 0);
    assert_eq!(with_stream.count(), 6, "what they have stays");
}

#[test]
fn what_is_there_already_is_not_open() {
    let setup = Setup::new();
    let id = setup.file("table", 10, 1000);
    let mut a = Auto::on(setup, "");
    a.after(1);
    assert_eq!((a.open(), a.stream(id)), (0, Some(0)));
    std::thread::sleep(Duration::from_millis(20));
    let f = fs::File::options().write(true).open(a.setup.at("table")).unwrap();
    std::os::unix::fs::FileExt::write_at(&f, b"x", 0).unwrap();
    // Its change is found by looking.
    a.after(31);
    assert_eq!((a.open(), a.stream(id)), (1, Some(1)));
}

/// The target counts writes to a file that was there: it is looked at before all are.
#[test]
fn what_is_written_is_looked_at() {
    let setup = Setup::new();
    let id = setup.file("table", 10, 1000);
    let mut a = Auto::on(setup, "");
    a.agent.target.write_file(id, 7);
    a.after(10);
    assert_eq!(a.open(), 0, "that may have been before us");
    std::thread::sleep(Duration::from_millis(20));
    let f = fs::File::options().write(true).open(a.setup.at("table")).unwrap();
    std::os::unix::fs::FileExt::write_at(&f, b"x", 0).unwrap();
    a.after(5);
    assert_eq!(a.open(), 0);
    a.agent.target.write_file(id, 1);
    a.after(6);
    assert_eq!((a.open(), a.stream(id)), (1, Some(1)));
}

#[test]
fn rules_go_before() {
    let mut a =
        Auto::new("[[object]]\nname='wal'\nstream=8\nfiles=['wal/*']\n[[object]]\nname='x'\nfiles=['x']");
    fs::create_dir(a.setup.at("wal")).unwrap();
    a.after(1);
    let wal = a.write("wal/1", 1);
    let x = a.write("x", 1);
    a.after(1);
    assert_eq!([a.stream(wal), a.stream(x)], [Some(8), Some(1)]);
    assert_eq!(a.agent.info().auto.unwrap().streams, [1, 2, 3, 4, 5, 6, 7]);
    // A device with fewer streams: none is left for this one.
    a.agent.target.set_streams(1);
    a.agent.set_device_streams(1);
    a.after(1);
    assert_eq!([a.stream(wal), a.stream(x)], [Some(0), Some(0)]);
}

#[test]
fn directories_are_renamed() {
    let mut a = Auto::new("");
    fs::create_dir_all(a.setup.at("a/b")).unwrap();
    a.after(0);
    let id = a.write("a/b/1.log", 1);
    a.after(1);
    assert_eq!(a.stream(id), Some(1));
    fs::rename(a.setup.at("a"), a.setup.at("c")).unwrap();
    let new = a.write("c/b/2.log", 1);
    a.after(1);
    assert_eq!([a.stream(id), a.stream(new)].map(|s| s.is_some()), [true, true]);
    // The watch of the directory has its new name.
    let third = a.write("c/b/3.log", 1);
    fs::remove_file(a.setup.at("c/b/1.log")).unwrap();
    a.after(1);
    assert_eq!((a.stream(id), a.stream(third).is_some()), (None, true));
    fs::remove_dir_all(a.setup.at("c")).unwrap();
    a.after(1);
    assert!(a.agent.info().files == 0);
}

#[test]
fn a_name_goes_to_another_file() {
    let mut a = Auto::new("");
    let old = a.write("current", 1);
    a.after(1);
    let new = a.write("current.tmp", 2);
    fs::rename(a.setup.at("current.tmp"), a.setup.at("current")).unwrap();
    a.after(1);
    assert_eq!((a.stream(old), a.stream(new).is_some()), (None, true));
    assert_eq!(a.open(), 0);
    assert_eq!(a.agent.info().files, 1);
    let path = |a: &Auto| a.agent.file_infos()[0].path.clone();
    assert_eq!(path(&a), "current");
    fs::rename(a.setup.at("current"), a.setup.at("other")).unwrap();
    a.after(1);
    assert_eq!(path(&a), "other");
}

#[test]
fn events_are_lost() {
    let mut a = Auto::new("");
    let kept = a.write("kept", 1);
    let gone = a.write("gone", 1);
    a.after(1);
    let new = a.write("new", 1);
    fs::remove_file(a.setup.at("gone")).unwrap();
    a.watch.take().unwrap();
    drop(a.watch.take_changes());
    // Nothing is reported, until it is said that something was not.
    a.after(1);
    assert_eq!((a.stream(gone), a.stream(new)), (Some(1), None));
    let changes = database::watch::Changes {
        lost: true,
        ..Default::default()
    };
    a.agent
        .follow(&changes, a.now, &mut |_: &Path, _: &OwnedFd| {})
        .unwrap();
    assert_eq!(
        (a.stream(gone), a.stream(new), a.stream(kept)),
        (None, Some(1), Some(2))
    );
    assert_eq!(a.agent.info().auto.unwrap().lost, 1);
    assert!(a.agent.info().refusals == 0);
}

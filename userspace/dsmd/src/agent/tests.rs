// SPDX-License-Identifier: GPL-2.0-or-later
//! The agent on a real directory, with a kernel and extents in memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;

use super::hint;
use super::papers::state::{Directory, Kept};
use super::*;
use database::fiemap::ExtentCounts;
use database::wiredtiger::turtle::NAME as TURTLE;
use dm::class::Class;
use dm::table::{self, Extent};
use testing::kernel::{ModelFile, ModelKernel};

pub(crate) const SECTORS: u64 = 1 << 24;
const COLL: &str = "collection-0-1.wt";
const INDEX: &str = "index-1-1.wt";

type PlacesByIno = BTreeMap<u64, (Vec<Extent>, ExtentCounts)>;

/// Places of files by inode number, and whether the file system is where it was.
#[derive(Clone, Default)]
pub(crate) struct Places(Rc<RefCell<PlacesByIno>>, Rc<Cell<bool>>);

impl Mapper for Places {
    fn map(&mut self, file: &dyn AsFd, out: &mut Vec<Extent>) -> io::Result<ExtentCounts> {
        let ino = rustix::fs::fstat(file.as_fd())?.st_ino;
        out.clear();
        let all = self.0.borrow();
        let Some((extents, seen)) = all.get(&ino) else {
            return Ok(ExtentCounts::default());
        };
        out.extend_from_slice(extents);
        Ok(*seen)
    }

    fn moved(&self) -> bool {
        self.1.get()
    }
}

/// A dbpath, its places, and what the kernel had when an agent ended.
pub(crate) struct Setup {
    dir: tempfile::TempDir,
    places: Places,
}

pub(crate) type TestAgent = Agent<ModelKernel, Places>;

impl Setup {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            places: Places::default(),
        }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn ino(&self, path: &str) -> u64 {
        fs::metadata(self.at(path)).unwrap().ino()
    }

    /// Makes or grows a file to `pages` pages that lie at sector `start`.
    pub(crate) fn file(&self, path: &str, pages: u64, start: u64) -> u64 {
        let f = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.at(path))
            .unwrap();
        f.set_len(pages * 4096).unwrap();
        let ino = self.ino(path);
        self.place(ino, &[Extent::new(0, start, pages * 8)], ExtentCounts::default());
        ino
    }

    fn place(&self, ino: u64, extents: &[Extent], seen: ExtentCounts) {
        self.places.0.borrow_mut().insert(ino, (extents.to_vec(), seen));
    }

    fn agent(&self, kernel: ModelKernel, mode: BoundaryMode) -> TestAgent {
        self.agent_with(
            kernel,
            Options {
                mode,
                ..Options::default()
            },
        )
    }

    pub(crate) fn agent_with(&self, kernel: ModelKernel, options: Options) -> TestAgent {
        let root = Root::open(self.dir.path()).unwrap();
        Agent::new(kernel, self.places.clone(), root, options)
    }

    fn attached(&self, mode: BoundaryMode) -> TestAgent {
        let mut a = self.agent(ModelKernel::new(SECTORS), mode);
        a.attach(&mut none).unwrap();
        if mode == BoundaryMode::Attach {
            // A database of a few pages is one that has not been loaded.
            a.mark(&mut none).unwrap();
        }
        a
    }

    /// Renames a turtle into place whose checkpoint is number `n`.
    fn turtle(&self, n: u32) {
        let text = format!(
            "WiredTiger version\nmajor=11\nfile:WiredTiger.wt\na=1,checkpoint=(WiredTigerCheckpoint.{n}=(addr=\"{n}\")),b=2\n"
        );
        fs::write(self.at("WiredTiger.turtle.set"), text).unwrap();
        fs::rename(self.at("WiredTiger.turtle.set"), self.at(TURTLE)).unwrap();
    }
}

fn none(_: &Path, _: &OwnedFd) {}

fn checkpoint(a: &mut TestAgent) -> Option<Checkpoint> {
    let done = a.turtle_renamed().unwrap();
    if done.is_some() {
        a.after_checkpoint(&mut none).unwrap();
    }
    done
}

fn boundary(a: &TestAgent, id: u64) -> Option<u64> {
    a.target.files()[&id].boundary
}

#[test]
fn attach_uploads_everything_at_once() {
    let setup = Setup::new();
    fs::create_dir(setup.at("journal")).unwrap();
    let c = setup.file(COLL, 4, 800);
    let j = setup.file("journal/WiredTigerLog.0000000001", 2, 1600);
    let a = setup.attached(BoundaryMode::Manual);
    assert_eq!(
        a.target.files(),
        [
            (
                c,
                ModelFile {
                    class: Class::Collection,
                    boundary: None,
                    stamp: table::StreamStamp::default(),
                    extents: vec![Extent::new(0, 800, 32)]
                }
            ),
            (
                j,
                ModelFile {
                    class: Class::Journal,
                    boundary: None,
                    stamp: table::StreamStamp::default(),
                    extents: vec![Extent::new(0, 1600, 16)]
                }
            ),
        ]
        .into()
    );
    assert_eq!(a.uploads.generation, 1);
}

#[test]
fn an_update_has_only_what_differs() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let i = setup.file(INDEX, 4, 1600);
    let mut a = setup.attached(BoundaryMode::Manual);
    a.target.log();
    assert!(a.refresh(Scope::Grown, &mut none).unwrap().commit.is_none());
    assert!(a.target.log().is_empty());

    setup.file(COLL, 8, 800);
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!((o.read, o.changed, o.dropped), (1, 1, 0));
    assert_eq!(a.target.log(), ["begin", "file", "commit"]);
    assert_eq!(a.target.files()[&c].extents, [Extent::new(0, 800, 64)]);

    fs::remove_file(setup.at(INDEX)).unwrap();
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!((o.changed, o.dropped), (0, 1));
    assert_eq!(a.target.log(), ["begin", "drop", "commit"]);
    assert!(!a.target.files().contains_key(&i));
    assert!(a.refresh(Scope::All, &mut none).unwrap().commit.is_none());
}

#[test]
fn extents_without_a_place_are_looked_for_again() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let pending = ExtentCounts {
        delalloc: 1,
        ..ExtentCounts::default()
    };
    setup.place(c, &[], pending);
    let mut a = setup.attached(BoundaryMode::Manual);
    assert!(a.target.files()[&c].extents.is_empty());
    // The size and the blocks stay as they were when they are allocated.
    setup.place(c, &[Extent::new(0, 800, 32)], ExtentCounts::default());
    assert!(a.refresh(Scope::Grown, &mut none).unwrap().commit.is_some());
    assert_eq!(a.target.files()[&c].extents.len(), 1);
    assert_eq!(a.refresh(Scope::Grown, &mut none).unwrap().read, 0);
}

#[test]
fn renamed_files_keep_their_identity() {
    let setup = Setup::new();
    fs::create_dir(setup.at("journal")).unwrap();
    let (log, pre) = (
        "journal/WiredTigerLog.0000000001",
        "journal/WiredTigerPreplog.0000000002",
    );
    setup.file(log, 4, 800);
    let mut a = setup.attached(BoundaryMode::Manual);
    a.target.log();
    fs::rename(setup.at(log), setup.at(pre)).unwrap();
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!((o.read, o.changed, o.dropped), (0, 0, 0));
    assert_eq!(a.file_infos()[0].path, pre);
    // Another class is uploaded.
    fs::rename(setup.at(pre), setup.at("journal/junk")).unwrap();
    assert_eq!(a.refresh(Scope::Grown, &mut none).unwrap().changed, 1);
    assert_eq!(a.target.files().values().next().unwrap().class, Class::Other);
}

#[test]
fn a_checkpoint_is_a_turtle_with_a_new_entry() {
    let setup = Setup::new();
    setup.turtle(1);
    let mut a = setup.attached(BoundaryMode::Manual);
    // Rewritten at open, as it was.
    setup.turtle(1);
    assert_eq!(checkpoint(&mut a), None);
    assert_eq!(a.target.windows(), 0);
    setup.turtle(2);
    assert_eq!(checkpoint(&mut a).unwrap().window, 1);
    assert_eq!(checkpoint(&mut a), None);
    fs::write(setup.at(TURTLE), "torn").unwrap();
    assert_eq!(checkpoint(&mut a), None);
    setup.turtle(3);
    assert_eq!(checkpoint(&mut a).unwrap().window, 2);
    assert_eq!(a.info().checkpoints, 2);
}

#[test]
fn a_schema_change_is_no_checkpoint() {
    let setup = Setup::new();
    setup.turtle(1);
    let mut a = setup.attached(BoundaryMode::Manual);
    // A table is made without a log: its turtle ends no window.
    a.checkpoints.files_came_or_went();
    a.target.write(64 * 1024);
    setup.turtle(2);
    assert_eq!(checkpoint(&mut a), None);
    assert_eq!(checkpoint(&mut a), None);
    a.target.write(checkpoints::LITTLE);
    setup.turtle(3);
    assert_eq!(checkpoint(&mut a).unwrap().window, 1);
    // Without a table that came or went, any turtle counts.
    setup.turtle(4);
    assert_eq!(checkpoint(&mut a).unwrap().window, 2);
}

#[test]
fn boundaries_at_attach() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let j = setup.file("WiredTigerLog.0000000001", 4, 1600);
    // Nothing but WiredTiger's first block.
    let empty = setup.file("collection-2-1.wt", 1, 2400);
    setup.file("index-9-1.wt", 252, 40_000);
    let mut a = setup.agent(ModelKernel::new(SECTORS), BoundaryMode::Attach);
    a.attach(&mut none).unwrap();
    assert_eq!(boundary(&a, c), Some(16384));
    assert_eq!(boundary(&a, j), None);
    assert_eq!(boundary(&a, empty), None);

    // A later file gets its boundary at its own first checkpoint.
    let i = setup.file(INDEX, 2, 3200);
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!(boundary(&a, i), None);
    setup.file(INDEX, 3, 3200);
    setup.turtle(1);
    checkpoint(&mut a).unwrap();
    assert_eq!(boundary(&a, i), Some(12288));

    // One that was not known when the checkpoint came waits for the next.
    let late = setup.file("index-5-1.wt", 2, 4000);
    setup.turtle(2);
    checkpoint(&mut a).unwrap();
    assert_eq!(boundary(&a, late), None);

    // A boundary stays.
    setup.file(COLL, 9, 800);
    setup.file("collection-2-1.wt", 2, 2400);
    setup.turtle(3);
    checkpoint(&mut a).unwrap();
    assert_eq!(boundary(&a, late), Some(8192));
    assert_eq!(boundary(&a, c), Some(16384));
    assert_eq!(boundary(&a, empty), Some(8192));
}

#[test]
fn boundaries_by_hand() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    fs::File::options()
        .write(true)
        .open(setup.at(COLL))
        .unwrap()
        .set_len(4 * 4096 - 100)
        .unwrap();
    let mut a = setup.attached(BoundaryMode::Manual);
    setup.turtle(1);
    checkpoint(&mut a).unwrap();
    assert_eq!(boundary(&a, c), None);
    let marked = a.mark(&mut none).unwrap();
    assert_eq!((marked.marked, marked.boundaries), (1, 1));
    // Rounded up to the page's end.
    assert_eq!(boundary(&a, c), Some(16384));
    assert_eq!(a.mark(&mut none).unwrap().marked, 0);

    let i = setup.file(INDEX, 2, 1600);
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!(boundary(&a, i), None);
    setup.turtle(2);
    checkpoint(&mut a).unwrap();
    assert_eq!(boundary(&a, i), Some(8192));
}

#[test]
fn boundaries_survive_the_agent() {
    for mode in [BoundaryMode::Manual, BoundaryMode::Attach] {
        let setup = Setup::new();
        let c = setup.file(COLL, 4, 800);
        let mut a = setup.attached(mode);
        a.mark(&mut none).unwrap();
        let kernel = a.target;

        setup.file(COLL, 6, 800);
        let i = setup.file(INDEX, 2, 1600);
        let mut a = setup.agent(kernel, mode);
        a.attach(&mut none).unwrap();
        assert_eq!(boundary(&a, c), Some(16384), "{mode:?}");
        assert_eq!(boundary(&a, i), None, "{mode:?}");
        setup.turtle(1);
        checkpoint(&mut a).unwrap();
        assert_eq!(boundary(&a, i), Some(8192), "{mode:?}");
    }
}

#[test]
fn boundaries_survive_the_device() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let i = setup.file(INDEX, 4, 1600);
    let mut a = setup.attached(BoundaryMode::Manual);
    assert_eq!(a.unsaved_state("d"), None);
    a.mark(&mut none).unwrap();
    let mut state = a.unsaved_state("d").unwrap();
    assert!(state.marked);
    assert_eq!(state.files.len(), 2);
    assert_eq!(a.unsaved_state("d"), None);
    // The index's number is given to another file.
    let n = state.files.iter().position(|f| f.ino == i).unwrap();
    state.files[n].born -= 1;

    setup.file(COLL, 6, 800);
    let late = setup.file("index-5-1.wt", 2, 2400);
    let options = || Options {
        mode: BoundaryMode::Attach,
        state: Some(state.clone()),
        ..Options::default()
    };
    let mut a = setup.agent_with(ModelKernel::new(SECTORS), options());
    a.attach(&mut none).unwrap();
    assert_eq!(boundary(&a, c), Some(16384));
    assert_eq!((boundary(&a, i), boundary(&a, late)), (None, None));
    setup.turtle(1);
    checkpoint(&mut a).unwrap();
    assert_eq!((boundary(&a, i), boundary(&a, late)), (Some(16384), Some(8192)));
    assert_eq!(a.unsaved_state("d").unwrap().files.len(), 3);

    // Another data directory on the device starts over.
    let mut elsewhere = options();
    elsewhere.state.as_mut().unwrap().root.born += 1;
    let mut elsewhere = setup.agent_with(ModelKernel::new(SECTORS), elsewhere);
    assert!(!elsewhere.boundaries.inherit(&[]));
    let manual = Options {
        mode: BoundaryMode::Manual,
        ..options()
    };
    assert!(setup.agent_with(ModelKernel::new(SECTORS), manual).info().marked);

    // What the kernel has is newer than the state, unless it is of another file.
    a.move_boundaries(&[COLL.into()], &mut none).unwrap().unwrap();
    let mut a = setup.agent_with(a.target, options());
    a.attach(&mut none).unwrap();
    assert_eq!(boundary(&a, c), Some(24576));
    assert_eq!(boundary(&a, i), None);

    fs::remove_file(setup.at(COLL)).unwrap();
    a.unsaved_state("d");
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert!(a.unsaved_state("d").unwrap().files.iter().all(|f| f.ino != c));
}

/// Also of a database that is empty when dsmd begins, where no load was to be waited for.
#[test]
fn boundaries_by_themselves() {
    for (mode, first) in [(BoundaryMode::Auto, 1000), (BoundaryMode::Attach, 100)] {
        let setup = Setup::new();
        let c = setup.file(COLL, first, 800);
        let mut a = setup.agent(ModelKernel::new(SECTORS), mode);
        a.attach(&mut none).unwrap();
        assert!(!a.info().marked);
        let (mut turtle, mut pages) = (0, first);
        let mut window = |a: &mut TestAgent, grown, written: u64| {
            pages += grown;
            turtle += 1;
            setup.file(COLL, pages, 800);
            a.target.write(written * 4096);
            setup.turtle(turtle);
            checkpoint(a).unwrap();
            boundary(a, c)
        };
        for (grown, written) in [(0, 0), (1000, 2200), (1000, 2200), (10, 1000), (0, 0)] {
            assert_eq!(window(&mut a, grown, written), None);
        }
        let wanted = Some((first + 2020) * 4096);
        assert_eq!(window(&mut a, 10, 1000), wanted);
        assert!(a.info().marked);
        assert_eq!(window(&mut a, 1000, 1000), wanted);
    }
}

#[test]
fn outgrown_boundaries() {
    let setup = Setup::new();
    let c = setup.file(COLL, 300, 800);
    let mut a = setup.attached(BoundaryMode::Attach);
    setup.file(COLL, 600, 800);
    setup.turtle(1);
    checkpoint(&mut a).unwrap();
    assert_eq!(a.info().outgrown, 0);
    setup.file(COLL, 601, 800);
    setup.turtle(2);
    checkpoint(&mut a).unwrap();
    assert_eq!((a.info().outgrown, boundary(&a, c)), (1, Some(300 * 4096)));
    assert!(a.file_infos().iter().any(|f| f.path == COLL && f.outgrown));

    let unknown = a.move_boundaries(&[COLL.into(), "x".into()], &mut none).unwrap();
    assert_eq!(
        unknown.unwrap_err(),
        "x: there is no such file; nothing was changed"
    );
    assert_eq!(boundary(&a, c), Some(300 * 4096));
    let moved = a.move_boundaries(&[], &mut none).unwrap().unwrap();
    assert_eq!((moved.marked, boundary(&a, c)), (1, Some(601 * 4096)));
    assert_eq!(a.move_boundaries(&[], &mut none).unwrap().unwrap().marked, 0);

    let options = Options {
        outgrown: Outgrown::Move,
        ..Options::default()
    };
    let mut a = setup.agent_with(a.target, options);
    a.attach(&mut none).unwrap();
    setup.file(COLL, 1300, 800);
    setup.turtle(3);
    checkpoint(&mut a).unwrap();
    assert_eq!(boundary(&a, c), Some(1300 * 4096));
}

#[test]
fn rules_say_what_a_file_is() {
    let setup = Setup::new();
    let c = setup.file("documents.wt", 256, 800);
    let options = Options {
        mode: BoundaryMode::Attach,
        rules: Rules::parse("documents.wt collection").unwrap(),
        ..Options::default()
    };
    let mut a = setup.agent_with(ModelKernel::new(SECTORS), options);
    a.attach(&mut none).unwrap();
    assert_eq!(a.target.files()[&c].class, Class::Collection);
    assert_eq!(boundary(&a, c), Some(1 << 20));
    a.set_rules(Rules::parse("documents.wt oplog").unwrap()).unwrap();
    assert_eq!(a.refresh(Scope::Grown, &mut none).unwrap().changed, 1);
    assert_eq!(a.target.files()[&c].class, Class::Oplog);
    assert_eq!(boundary(&a, c), None);
}

const OBJECTS: &str = "\
    [[object]]\nname = 'doublewrite'\nlifetime = 'short'\nfiles = ['ibdata1']\nbytes = '1M-2M'\n\
    [[object]]\nname = 'redo'\nstream = 2\nfiles = ['ib_logfile0']\n\
    [[object]]\nname = 'system'\nlifetime = 'long'\nfiles = ['ibdata*']\n";

/// What the kernel has of a file: its stream, hint and extents.
fn stated(a: &TestAgent, id: u64) -> Option<(u8, u8, Vec<Extent>)> {
    let files = a.target.files();
    let f = files.get(&id)?;
    Some((f.stamp.stream, f.stamp.hint, f.extents.clone()))
}

#[test]
fn objects_have_their_streams() {
    let setup = Setup::new();
    let data = setup.file("ibdata1", 1024, 8000);
    let redo = setup.file("ib_logfile0", 256, 100_000);
    let other = setup.file("t.frm", 1, 200_000);
    let part = data | (1 << 56);
    let options = Options {
        rules: Rules::parse_objects(OBJECTS).unwrap(),
        ..Options::default()
    };
    let mut a = setup.agent_with(ModelKernel::new(SECTORS), options);
    a.attach(&mut none).unwrap();
    let rest = vec![Extent::new(0, 8000, 2048), Extent::new(4096, 12096, 4096)];
    let whole = vec![Extent::new(0, 8000, 8192)];
    assert_eq!(stated(&a, data), Some((7, 4, rest.clone())));
    assert_eq!(
        stated(&a, part),
        Some((8, 2, vec![Extent::new(2048, 10048, 2048)]))
    );
    assert_eq!(
        stated(&a, redo),
        Some((2, 0, vec![Extent::new(0, 100_000, 2048)]))
    );
    assert_eq!(stated(&a, other).unwrap().0, 0);
    let named = |a: &TestAgent| -> Vec<(String, Option<String>)> {
        a.file_infos().into_iter().map(|f| (f.path, f.object)).collect()
    };
    let some = |s: &str| Some(s.to_owned());
    assert_eq!(
        named(&a),
        [
            ("ib_logfile0".into(), some("redo")),
            ("ibdata1".into(), some("system")),
            ("ibdata1[doublewrite]".into(), some("doublewrite")),
            ("t.frm".into(), None),
        ]
    );

    // Rules with a stream that is not there change nothing.
    let more = OBJECTS.replace("stream = 2", "stream = 9");
    let said = a.set_rules(Rules::parse_objects(&more).unwrap()).unwrap_err();
    assert_eq!(
        said,
        "line 7: the object 'redo' has stream 9: the device has streams 1 to 8"
    );
    assert!(a.refresh(Scope::Grown, &mut none).unwrap().commit.is_none());
    let other_stream = OBJECTS.replace("stream = 2", "stream = 3");
    a.set_rules(Rules::parse_objects(&other_stream).unwrap()).unwrap();
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!(stated(&a, redo).unwrap().0, 3);

    // A device with fewer streams, as after a refusal
    a.target.set_streams(2);
    a.set_device_streams(2);
    assert!(a.refresh(Scope::Grown, &mut none).unwrap().commit.is_some());
    assert_eq!([stated(&a, redo).unwrap().0, stated(&a, part).unwrap().0], [0, 0]);
    a.target.set_streams(8);
    a.set_device_streams(8);
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!([stated(&a, redo).unwrap().0, stated(&a, part).unwrap().0], [3, 8]);

    // Another name has no parts, and gets them back with the old one.
    fs::rename(setup.at("ibdata1"), setup.at("old")).unwrap();
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!((stated(&a, data), stated(&a, part)), (Some((0, 0, whole)), None));
    fs::rename(setup.at("old"), setup.at("ibdata1")).unwrap();
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!(stated(&a, data), Some((7, 4, rest)));
    fs::remove_file(setup.at("ibdata1")).unwrap();
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!((stated(&a, data), stated(&a, part)), (None, None));
    assert_eq!(a.info().refusals, 0);
}

#[test]
fn an_inode_number_that_is_used_again_is_another_file() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let mut a = setup.attached(BoundaryMode::Attach);
    assert!(boundary(&a, c).is_some());
    // Whether the file system knows birth times, and gives the number again,
    // is its own business; the agent sees a file with another birth time.
    a.files.get_mut(c).unwrap().stamp.btime += 1;
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!(boundary(&a, c), None);
    assert_eq!(a.target.files().len(), 1);
}

/// The number alone may be another file's by the next time.
#[test]
fn boundaries_without_birth_times_do_not_outlive_dsmd() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let mut a = setup.attached(BoundaryMode::Attach);
    let left = |a: &Agent<_, _>| {
        a.info()
            .left_out
            .into_iter()
            .map(|l| (l.reason, l.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(left(&a), []);
    a.files.get_mut(c).unwrap().stamp.btime = 0;
    assert_eq!(left(&a), [(Omission::NoBirthTime, 1)]);
    let known = |born: i64| {
        let kept = Kept {
            ino: c,
            born,
            boundary: 4096,
        };
        let state = State::new("d", Directory::default(), true, vec![kept]);
        let boundaries = Boundaries::new(BoundaryMode::Attach, Outgrown::Report, Some(state));
        boundaries.known(c, Class::Collection, born.into())
    };
    assert_eq!((known(7), known(0)), (Some(4096), None));
}

#[test]
fn contradicting_extents_are_read_again() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let i = setup.file(INDEX, 4, 1600);
    let mut a = setup.attached(BoundaryMode::Manual);
    // The index moved away and the collection got its place; only the
    // collection's stamp shows it.
    setup.file(COLL, 8, 1600);
    setup.place(i, &[Extent::new(0, 4000, 32)], ExtentCounts::default());
    runtime::log::of_device("contradicting");
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert!(!o.failed);
    assert_eq!((a.info().refusals, a.info().refused), (2, None));
    let error = runtime::log::last_error("contradicting");
    assert_eq!(error, None, "what was mended is no error");
    let files = a.target.files();
    assert_eq!(files[&c].extents, [Extent::new(0, 1600, 64)]);
    assert_eq!(files[&i].extents, [Extent::new(0, 4000, 32)]);
}

#[test]
fn files_that_share_sectors_are_uploaded_without_the_overlap() {
    let setup = Setup::new();
    setup.file(COLL, 4, 800);
    setup.file(INDEX, 4, 816);
    let mut a = setup.attached(BoundaryMode::Manual);
    let sectors: u64 = a
        .target
        .files()
        .values()
        .flat_map(|f| &f.extents)
        .map(|e| e.length)
        .sum();
    assert_eq!(sectors, 48);
    // Later changes are not refused over and over.
    let refusals = a.info().refusals;
    setup.file(INDEX, 5, 816);
    assert!(a.refresh(Scope::Grown, &mut none).unwrap().commit.is_some());
    assert_eq!(a.info().refusals, refusals);
}

#[test]
fn a_kernel_that_keeps_refusing_keeps_its_table() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let mut a = setup.attached(BoundaryMode::Manual);
    setup.file(COLL, 8, 800);
    a.target.refuse_commits(100);
    runtime::log::of_device("refusing");
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert!(o.failed && o.commit.is_none());
    let error = runtime::log::last_error("refusing").unwrap();
    assert_eq!(error.message, "the table stays as it was");
    assert_eq!(a.target.files()[&c].extents, [Extent::new(0, 800, 32)]);
    // Nothing is forgotten.
    a.target.refuse_commits(0);
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert!(!o.failed);
    assert_eq!(a.target.files()[&c].extents, [Extent::new(0, 800, 64)]);
}

#[test]
fn a_table_that_was_lost_is_uploaded_again() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let mut a = setup.attached(BoundaryMode::Attach);
    a.target.reload();
    assert_ne!(a.target.status().unwrap().generation, a.uploads.generation);
    a.files.distrust_table();
    a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!(boundary(&a, c), Some(16384));
    assert_eq!(a.target.status().unwrap().generation, a.uploads.generation);
}

/// The kernel refuses an update of a table that is not the agent's.
#[test]
fn a_table_that_somebody_else_changed_is_uploaded_whole() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let mut a = setup.attached(BoundaryMode::Manual);
    let files = a.target.files();
    a.target.message(&format!("begin full {SECTORS}")).unwrap();
    a.target.message("commit 2").unwrap();
    setup.file(COLL, 8, 800);
    a.target.log();
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert!(!o.failed);
    assert_eq!(a.target.log(), ["begin", "begin", "file", "commit"]);
    assert_eq!(a.target.files().len(), files.len());
    assert_eq!(a.target.files()[&c].extents, [Extent::new(0, 800, 64)]);
    assert_eq!(a.target.status().unwrap().generation, a.uploads.generation);
}

/// Neither has the records of the other, and the one that comes later is complete.
#[test]
fn an_upload_that_somebody_else_replaced_is_sent_again() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let mut a = setup.attached(BoundaryMode::Manual);
    setup.file(COLL, 8, 800);
    a.target.log();
    a.target.replace_upload();
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert!(!o.failed);
    assert_eq!(a.target.log(), ["begin", "file", "begin", "file", "commit"]);
    assert_eq!(a.target.files()[&c].extents, [Extent::new(0, 800, 64)]);
}

#[test]
fn what_ends_the_agent() {
    let setup = Setup::new();
    setup.file(COLL, 4, 800);
    let mut a = setup.attached(BoundaryMode::Manual);
    a.target.remove();
    setup.file(COLL, 5, 800);
    assert!(matches!(
        a.refresh(Scope::Grown, &mut none),
        Err(Fatal::DeviceGone)
    ));

    let mut a = setup.attached(BoundaryMode::Manual);
    let moved = setup.dir.path().with_extension("moved");
    fs::rename(setup.dir.path(), &moved).unwrap();
    assert!(matches!(
        a.refresh(Scope::Grown, &mut none),
        Err(Fatal::DbpathGone)
    ));
    fs::rename(&moved, setup.dir.path()).unwrap();
}

#[test]
fn a_hostile_dbpath_harms_nobody() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let hostile = "collection-9-9.wt";
    std::os::unix::fs::symlink(setup.at(COLL), setup.at(INDEX)).unwrap();
    fs::hard_link(setup.at(COLL), setup.at("index-8-8.wt")).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, setup.at(hostile), mode).unwrap();
    fs::create_dir_all(setup.at("d/d/d/d/d/d/d")).unwrap();
    let a = setup.attached(BoundaryMode::Attach);
    // One file, by its first name.
    assert_eq!(a.target.files().keys().copied().collect::<Vec<_>>(), [c]);
    assert_eq!(a.file_infos()[0].path, COLL);
}

const OURS: [(&str, Class); 2] = [
    ("collection-0-1.wt", Class::Collection),
    ("index-1-1.wt", Class::Primary),
];

/// What a server's catalog says.
fn catalog(files: &[(&str, Class)]) -> Catalog {
    let mut catalog = Catalog::default();
    for (path, class) in files {
        catalog.insert(path.into(), *class);
    }
    catalog
}

#[test]
fn the_servers_catalog_says_which_index_is_primary() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let i = setup.file(INDEX, 4, 1600);
    let mut a = setup.attached(BoundaryMode::Attach);
    let class = |a: &TestAgent, id: u64| a.target.files()[&id].class;
    assert_eq!(class(&a, i), Class::Index);
    let another = catalog(&[("collection-0-2.wt", Class::Collection)]);
    assert!(!a.set_catalog(another), "none of its files is here");
    let ours = catalog(&OURS);
    assert!(a.set_catalog(ours.clone()));
    let o = a.refresh(Scope::Grown, &mut none).unwrap();
    assert_eq!(o.changed, 1);
    assert_eq!((class(&a, c), class(&a, i)), (Class::Collection, Class::Primary));
    assert_eq!(boundary(&a, i), Some(4 * 4096), "it stays");
    assert!(a.set_catalog(ours));
    assert_eq!(a.refresh(Scope::Grown, &mut none).unwrap().changed, 0);

    // The user's rules come first, and a file of rules that changed leaves the
    // catalog as it is.
    a.set_rules(Rules::parse("collection-* other").unwrap()).unwrap();
    assert_eq!(a.refresh(Scope::Grown, &mut none).unwrap().changed, 1);
    assert_eq!((class(&a, c), class(&a, i)), (Class::Other, Class::Primary));
}

#[test]
fn a_boundary_outlives_what_the_server_says() {
    let setup = Setup::new();
    setup.file(COLL, 4, 800);
    let i = setup.file(INDEX, 4, 1600);
    let mut a = setup.attached(BoundaryMode::Attach);
    a.set_catalog(catalog(&OURS));
    a.refresh(Scope::Grown, &mut none).unwrap();
    setup.file(INDEX, 6, 1600);
    // The server is not asked again before the agent after it attaches.
    let mut b = setup.agent(a.target, BoundaryMode::Attach);
    b.attach(&mut none).unwrap();
    assert_eq!(b.target.files()[&i].class, Class::Index);
    assert_eq!(boundary(&b, i), Some(4 * 4096));
}

#[test]
fn an_inode_has_the_hint_of_its_object_or_class() {
    let setup = Setup::new();
    setup.file("ibdata1", 1024, 8000);
    setup.file("ib_logfile0", 256, 100_000);
    setup.file(COLL, 4, 200_000);
    let options = |write_hints| Options {
        rules: Rules::parse_objects(OBJECTS).unwrap(),
        write_hints,
        ..Options::default()
    };
    let hints = || ["ibdata1", "ib_logfile0", COLL].map(|name| hint::get(&setup.at(name)));
    let attach = |write_hints| {
        let mut a = setup.agent_with(ModelKernel::new(SECTORS), options(write_hints));
        a.attach(&mut none).unwrap();
    };
    attach(false);
    assert_eq!(hints(), [0, 0, 0]);
    attach(true);
    assert_eq!(hints(), [4, 0, 4]);
}

#[test]
fn hints_are_names_of_classes() {
    let setup = Setup::new();
    let c = setup.file(COLL, 4, 800);
    let with_hints = || Options {
        write_hints: true,
        ..Options::default()
    };
    let mut a = setup.agent_with(ModelKernel::new(SECTORS), with_hints());
    a.attach(&mut none).unwrap();
    assert_eq!(a.target.log()[..2], ["regions", "set"]);
    assert_eq!(a.target.files()[&c].class, Class::Collection);
}

/// As of a volume on the device that was made longer.
#[test]
fn a_file_system_that_has_moved_is_looked_for_again() {
    let setup = Setup::new();
    let ino = setup.file(COLL, 4, 800);
    let mut a = setup.attached(BoundaryMode::Auto);
    let beyond = ExtentCounts {
        elsewhere: 1,
        ..ExtentCounts::default()
    };
    setup.file(COLL, 8, 800);
    setup.place(ino, &[Extent::new(0, 800, 32)], beyond);
    a.refresh(Scope::All, &mut none).unwrap();
    setup.places.1.set(true);
    assert!(matches!(a.refresh(Scope::All, &mut none), Err(Fatal::Moved)));
}

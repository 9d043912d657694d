// SPDX-License-Identifier: GPL-2.0-or-later
//! The reader of WiredTiger's lists on databases that WiredTiger has made, of which
//! `wt verify` says what is free: see avail/make.

use std::fs;
use std::os::unix::fs::{symlink, FileExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::walk::Root;
use crate::wiredtiger::avail::files::{Budget, Dbpath};
use crate::wiredtiger::avail::list::MAX_EXTENTS;
use crate::wiredtiger::avail::{self, FreeList, Kind, Lists, Refusal, Snapshot, Standing, Version};
use runtime::pulse::Pulse;
use testing::hostile;

const VERSIONS: [&str; 2] = ["3.2.1", "11.3.1"];

fn made() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/avail")
}

/// A copy of a database, to be damaged.
fn copy(version: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = made().join(version);
    fs::create_dir(dir.path().join("db")).unwrap();
    for below in ["", "db"] {
        for entry in fs::read_dir(from.join(below)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), dir.path().join(below).join(entry.file_name())).unwrap();
            }
        }
    }
    dir
}

/// A database that is packed.
fn unpacked(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let archive = made().join(format!("{name}.tar.gz"));
    let tar = Command::new("tar")
        .arg("-C")
        .arg(dir.path())
        .arg("-xzf")
        .arg(archive)
        .status();
    assert!(tar.unwrap().success(), "{name}");
    dir
}

fn read(dbpath: &Path) -> Result<(Snapshot, Lists), Refusal> {
    avail::read(&Root::open(dbpath).unwrap(), &mut |_| true)
}

/// What is known of a file.
fn of<'a>(read: &'a (Snapshot, Lists), path: &str) -> Option<&'a Result<FreeList, Refusal>> {
    let at = read.0.files.iter().position(|f| f.path == Path::new(path));
    read.1[at.unwrap_or_else(|| panic!("{path} is not in the metadata"))].as_ref()
}

/// What identifies a result, but for the copy's inode numbers.
fn plain(read: &(Snapshot, Lists)) -> Vec<String> {
    let list = |l: &Option<Result<FreeList, Refusal>>| match l {
        Some(Ok(l)) => format!("{} {:?}", l.file_size, l.extents),
        Some(Err(e)) => format!("{:?}", e.kind),
        None => "none".into(),
    };
    let files = read.0.files.iter().zip(&read.1);
    files
        .map(|(f, l)| format!("{} {} {}", f.path.display(), f.order, list(l)))
        .collect()
}

/// Holds what was read against a line for each file, and returns how many there are.
fn compare(name: &str, read: &(Snapshot, Lists)) -> usize {
    let expected = fs::read_to_string(made().join(format!("{name}.expected"))).unwrap();
    for line in expected.lines() {
        let mut words = line.split(' ');
        let path = words.next().unwrap();
        let list = of(read, path).unwrap().as_ref().unwrap();
        let ranges: Vec<String> = list
            .extents
            .iter()
            .map(|e| format!("{}-{}", e.start, e.end))
            .collect();
        let said: Vec<&str> = words.collect();
        assert_eq!(said[0], list.file_size.to_string(), "{name} {path}");
        assert_eq!(said[1..], ranges, "{name} {path}");
    }
    expected.lines().count()
}

#[test]
fn wt_verify_says_the_same() {
    for version in VERSIONS {
        let read = read(&made().join(version)).unwrap();
        assert_eq!(compare(version, &read), 6, "{version}");
        assert_eq!(read.0.files.len(), 49, "{version}");
        assert_eq!(read.0.version.to_string(), version);
        // One was never written, and the bulk load of the other is running.
        assert!(of(&read, "never.wt").is_none() && of(&read, "loading.wt").is_none());
        let order = |path: &str| {
            read.0
                .files
                .iter()
                .find(|f| f.path == Path::new(path))
                .unwrap()
                .order
        };
        assert_eq!(order("collection-0-1.wt"), 13, "{version}");
    }
}

#[test]
fn another_reader_finds_the_same_in_what_mongodbs_releases_write() {
    for (release, version, may) in [
        ("6.0.24", "10.0.2", false),
        ("7.0.21", "11.2.0", true),
        ("8.0.10", "11.3.0", true),
        ("8.1.1", "12.0.0", true),
        ("master-2026-04", "12.0.0", true),
    ] {
        let dir = unpacked(&format!("mongodb-{release}"));
        // What mongod 8.2 spills goes into a second database, which is in no metadata.
        let spilled = dir.path().join("_tmp/spilldb");
        fs::create_dir_all(&spilled).unwrap();
        for name in ["WiredTiger.turtle", "WiredTiger.wt", "collection-10-9.wt"] {
            fs::copy(dir.path().join(name), spilled.join(name)).unwrap();
        }
        let read = read(dir.path()).unwrap();
        assert_eq!(compare(&format!("mongodb-{release}"), &read), 11);
        // _mdb_catalog.wt has not been written.
        assert_eq!(read.0.files.len(), 12, "{release}");
        assert_eq!(read.1.iter().flatten().count(), 11, "{release}");
        assert_eq!(read.0.version.to_string(), version);
        assert_eq!(read.0.standing() == Standing::Discard, may, "{release}");
    }
}

/// WiredTiger had buffer_alignment=8KB when it wrote all of it; the metadata says 512 bytes
/// and 4 KiB.
#[test]
fn direct_io_has_larger_units_than_the_metadata_says() {
    let dir = unpacked("direct");
    let good = read(dir.path()).unwrap();
    assert_eq!(compare("direct", &good), 6);
    assert_eq!(good.0.files.len(), 49);
    assert_eq!(good.0.standing(), Standing::Discard);
    let index = good
        .0
        .files
        .iter()
        .find(|f| f.path == Path::new("index-1-1.wt"))
        .unwrap();
    let cookie = index.cookie.as_ref().unwrap();
    assert_eq!(cookie.alloc, 512);
    // Damage of a list is that in any unit.
    let at = cookie
        .wider()
        .find(|c| c.alloc == 8192)
        .unwrap()
        .avail
        .unwrap()
        .offset;
    let file = fs::File::options()
        .write(true)
        .open(dir.path().join("index-1-1.wt"))
        .unwrap();
    file.write_all_at(&[0xff], at + 41).unwrap();
    let now = read(dir.path()).unwrap();
    let e = of(&now, "index-1-1.wt").unwrap().as_ref().unwrap_err();
    assert_eq!(e.kind, Kind::Damaged);
    assert!(e.message.ends_with(" is another one"), "{e}");
    let same = plain(&now)
        .iter()
        .zip(plain(&good))
        .filter(|(a, b)| **a == *b)
        .count();
    assert_eq!(same, 48);
}

#[test]
fn what_is_not_mongods_must_pass_an_audit() {
    let mut snapshot = read(&made().join("11.3.1")).unwrap().0;
    snapshot.files.retain(|f| f.path != Path::new("_mdb_catalog.wt"));
    let e = snapshot.may_discard().unwrap_err();
    assert_eq!(e.kind, Kind::Unsupported);
    let mut of = |major, minor| {
        snapshot.version = Version {
            major,
            minor,
            patch: 0,
        };
        let may = snapshot.may_discard().is_ok();
        (snapshot.standing(), may)
    };
    let others = "the database has no _mdb_catalog.wt: it is not mongod's, and ";
    for minor in [3, 4] {
        let alone = format!("{others}others may make checkpoints of some files alone");
        assert_eq!(of(11, minor), (Standing::Refused(alone), false));
    }
    // With these no program makes checkpoints of some files alone.
    let untried = format!("{others}nobody has tried discards with its program");
    assert_eq!(of(12, 0), (Standing::Prove(untried), true));
    assert!(matches!(of(13, 0), (Standing::Audit(_), false)));
}

/// mongod's first minute: there are files, and none has a checkpoint.
#[test]
fn a_database_that_was_just_made_is_not_yet_refused() {
    let mut snapshot = read(&made().join("11.3.1")).unwrap().0;
    assert_eq!(snapshot.has_begun(), Ok(()));
    for f in &mut snapshot.files {
        if !f.path.to_string_lossy().starts_with("WiredTiger") {
            f.order = 0;
        }
    }
    assert_eq!(snapshot.has_begun().unwrap_err().kind, avail::Kind::Early);
    snapshot.files.clear();
    assert_eq!(snapshot.has_begun().unwrap_err().kind, avail::Kind::Early);
}

#[test]
fn who_wrote_a_checkpoint() {
    let run = |version: &str| read(&made().join(version)).unwrap().0.run;
    assert_eq!(run("11.3.1").generation, Some(1));
    assert_eq!(run("3.2.1").generation, None);
    let copied = copy("11.3.1");
    let other = read(copied.path()).unwrap().0.run;
    assert_ne!(other, run("11.3.1"), "another file of metadata");
    assert_eq!(other.generation, Some(1));
}

#[test]
fn versions_that_are_not_proved_are_for_looking_only() {
    let may = |version: &str| read(&made().join(version)).unwrap().0.may_discard();
    assert_eq!(may("11.3.1"), Ok(()));
    let e = may("3.2.1").unwrap_err();
    assert_eq!(e.kind, Kind::Unsupported);
    assert_eq!(
        e.message,
        "the database is of WiredTiger 3.2.1, and blocks are discarded from 11.0 on (MongoDB 6.1)"
    );
    let dir = copy("11.3.1");
    let turtle = fs::read_to_string(dir.path().join("WiredTiger.turtle")).unwrap();
    let standing = |version: &str| {
        let text = turtle.replace("11,minor=3,patch=1", version);
        fs::write(dir.path().join("WiredTiger.turtle"), text).unwrap();
        read(dir.path()).unwrap().0.standing()
    };
    for version in [
        "11,minor=0,patch=0",
        "11,minor=2,patch=0",
        "11,minor=3,patch=9",
        "12,minor=0,patch=0",
        "12,minor=0,patch=1",
    ] {
        assert_eq!(standing(version), Standing::Discard, "{version}");
    }
    // Nobody has seen these.
    for version in [
        "11,minor=1,patch=0",
        "11,minor=4,patch=0",
        "12,minor=1,patch=0",
        "13,minor=0,patch=0",
    ] {
        let Standing::Audit(why) = standing(version) else {
            panic!("{version}")
        };
        assert!(why.ends_with("with which nobody has tried discards"), "{why}");
        assert_eq!(
            read(dir.path()).unwrap().0.may_discard().unwrap_err().message,
            why
        );
    }
    let refused = |version: &str| match standing(version) {
        Standing::Refused(why) => why,
        other => panic!("{version}: {other:?}"),
    };
    assert!(refused("10,minor=0,patch=1").starts_with("the database is of WiredTiger 10.0.1, and"));
    // MongoDB 5.0.6's to 5.3's and 6.0's: the first checkpoint single files.
    assert_eq!(
        refused("10,minor=0,patch=2"),
        "the database is of WiredTiger 10.0.2 (MongoDB 5.0 and 6.0, which nothing in the files separates, and whose support has ended), and blocks are discarded from 11.0 on (MongoDB 6.1)"
    );
    fs::write(
        dir.path().join("WiredTiger.basecfg"),
        "create,\ncheckpoint_sync = false,",
    )
    .unwrap();
    for version in ["11,minor=3,patch=1", "12,minor=0,patch=0", "13,minor=0,patch=0"] {
        assert_eq!(
            refused(version),
            "the database has checkpoint_sync=false: its checkpoints are not durable"
        );
    }
}

/// A flipped byte changes nothing, because nobody reads it, or is noticed.
#[test]
fn damage_is_never_taken_for_a_list() {
    let dir = copy("11.3.1");
    let good = plain(&read(dir.path()).unwrap());
    let mut random = fastrand::Rng::with_seed(7);
    let (mut same, mut whole, mut part) = (0, 0, 0);
    for n in 0..3000 {
        let name = ["WiredTiger.wt", "collection-0-1.wt", "index-1-1.wt"][n % 3];
        let file = fs::File::options()
            .read(true)
            .write(true)
            .open(dir.path().join(name))
            .unwrap();
        let at = random.u64(..file.metadata().unwrap().len());
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << random.u8(..8))], at).unwrap();
        match read(dir.path()) {
            Err(e) => {
                assert_eq!(e.kind, Kind::Damaged, "{name} at {at}: {e}");
                whole += 1;
            }
            Ok(read) => {
                for (seen, good) in plain(&read).iter().zip(&good) {
                    let refused = seen.ends_with(" Damaged");
                    assert!(
                        seen == good || refused,
                        "{name} at {at}: {seen}, and it was {good}"
                    );
                    part += u32::from(refused);
                    same += u32::from(seen == good);
                }
            }
        }
        file.write_all_at(&byte, at).unwrap();
    }
    assert!(same > 0 && whole > 100 && part > 10, "{same} {whole} {part}");
    assert_eq!(plain(&read(dir.path()).unwrap()), good);
}

#[test]
fn files_that_are_not_there_are_refused_by_themselves() {
    let dir = copy("11.3.1");
    let at = |p: &str| dir.path().join(p);
    let good = plain(&read(dir.path()).unwrap());
    fs::remove_file(at("kept.wt")).unwrap();
    // A link to the right file, and a FIFO, which would wait for a writer.
    fs::rename(at("index-1-1.wt"), at("x")).unwrap();
    symlink("x", at("index-1-1.wt")).unwrap();
    fs::rename(at("db"), at("y")).unwrap();
    symlink("y", at("db")).unwrap();
    fs::remove_file(at("many-07.wt")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("many-07.wt"), rustix::fs::Mode::RUSR).unwrap();
    let cut = fs::File::options().write(true).open(at("overflow.wt")).unwrap();
    cut.set_len(600).unwrap();
    let now = read(dir.path()).unwrap();
    for path in ["kept.wt", "index-1-1.wt", "db/collection-2-1.wt", "many-07.wt"] {
        let e = of(&now, path).unwrap().as_ref().unwrap_err();
        assert_eq!(e.kind, Kind::Gone, "{path}");
        assert_eq!(e.message, format!("{path}: there is no such regular file"));
    }
    let e = of(&now, "overflow.wt").unwrap().as_ref().unwrap_err();
    assert_eq!(e.kind, Kind::Damaged);
    let same = plain(&now).iter().zip(&good).filter(|(a, b)| a == b).count();
    assert_eq!(same, good.len() - 5);
}

#[test]
fn what_is_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let why = || {
        let e = read(dir.path()).map(|_| ()).unwrap_err();
        (e.kind, e.message)
    };
    let nothing = "there is no WiredTiger.turtle in it: this is not the directory of a WiredTiger database";
    assert_eq!(why(), (Kind::Unsupported, nothing.into()));
    for (name, what) in [
        (
            "WiredTiger.turtle.set",
            "there is a WiredTiger.turtle.set, from which",
        ),
        ("WiredTiger.backup", "it is a copy that a backup cursor made"),
    ] {
        fs::write(dir.path().join(name), "x").unwrap();
        let said = why();
        assert!(said.1.contains(what), "{}", said.1);
        assert_eq!(said.0, Kind::Unsupported);
    }
    fs::remove_file(dir.path().join("WiredTiger.turtle.set")).unwrap();
    fs::remove_file(dir.path().join("WiredTiger.backup")).unwrap();
    // A turtle by a link is none.
    symlink(
        made().join("11.3.1/WiredTiger.turtle"),
        dir.path().join("WiredTiger.turtle"),
    )
    .unwrap();
    assert_eq!(why(), (Kind::Unsupported, nothing.into()));
    fs::remove_file(dir.path().join("WiredTiger.turtle")).unwrap();
    fs::copy(
        made().join("11.3.1/WiredTiger.turtle"),
        dir.path().join("WiredTiger.turtle"),
    )
    .unwrap();
    assert_eq!(why(), (Kind::Damaged, "there is no WiredTiger.wt".into()));
    fs::write(dir.path().join("WiredTiger.turtle"), vec![b'\n'; 2 << 20]).unwrap();
    assert_eq!(
        why(),
        (Kind::Damaged, "WiredTiger.turtle: it is longer than 1 MiB".into())
    );
}

#[test]
fn a_checkpoint_meanwhile_is_noticed() {
    let dir = copy("11.3.1");
    let root = Root::open(dir.path()).unwrap();
    let turtle = dir.path().join("WiredTiger.turtle");
    let text = fs::read_to_string(&turtle).unwrap();
    let next = |n: u32| {
        fs::write(
            dir.path().join("set"),
            text.replace("time=", &format!("time={n}")),
        )
        .unwrap();
        fs::rename(dir.path().join("set"), &turtle).unwrap();
    };
    // Once: everything is read again, and of the later turtle.
    let mut looks = 0;
    let (snapshot, _) = avail::read(&root, &mut |_| {
        looks += 1;
        if looks == 1 {
            next(1);
        }
        true
    })
    .unwrap();
    assert!(snapshot.turtle.0.contains("time=1"), "{}", snapshot.turtle.0);
    assert_eq!(looks, 2 * 6);
    // Without end.
    let mut n = 1;
    let e = avail::read(&root, &mut |_| {
        n += 1;
        next(n);
        true
    });
    assert_eq!(e.map(|_| ()).unwrap_err().kind, Kind::Torn);
}

/// Leaves of the metadata that the checkpoint before had are not read again.
#[test]
fn what_is_known_of_the_metadata_is_not_read_again() {
    let dir = copy("11.3.1");
    let root = Root::open(dir.path()).unwrap();
    let at = |name: &str| dir.path().join(name);
    let text = fs::read_to_string(at("WiredTiger.turtle")).unwrap();
    let begin = text.rfind("order=").unwrap() + 6;
    let end = begin + text[begin..].find(',').unwrap();
    let order: u64 = text[begin..end].parse().unwrap();
    let turtle = |order: u64| {
        let text = format!("{}{order}{}", &text[..begin], &text[end..]);
        fs::write(at("WiredTiger.turtle"), text).unwrap();
    };
    let whole = fs::read(at("WiredTiger.wt")).unwrap();
    // All leaves are damaged, and all lists are where they were.
    let damage = || {
        let mut bytes = whole.clone();
        for page in bytes.chunks_mut(4096).filter(|p| p[24] == 7) {
            page[100] ^= 1;
        }
        let file = fs::File::options().write(true).open(at("WiredTiger.wt")).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
    };
    let repair = || {
        let file = fs::File::options().write(true).open(at("WiredTiger.wt")).unwrap();
        file.write_all_at(&whole, 0).unwrap();
    };
    let mut reader = avail::Reader::default();
    let mut look = || {
        reader
            .read(&root, &mut |_| true)
            .map(|r| plain(&r))
            .map_err(|e| e.kind)
    };
    let first = look().unwrap();
    assert_eq!(first.len(), 49);
    damage();
    assert_eq!(read(dir.path()).map(|_| ()).unwrap_err().kind, Kind::Damaged);
    assert_eq!(look().unwrap(), first, "the same turtle");
    turtle(order + 1);
    assert_eq!(look().unwrap(), first, "the next one");
    turtle(order + 2);
    assert_eq!(look().unwrap(), first, "and the next");
    // A checkpoint was missed: what was freed then may have been used since.
    turtle(order + 4);
    assert_eq!(look(), Err(Kind::Damaged));
    // Nothing is known of one that failed.
    assert_eq!(look(), Err(Kind::Damaged));
    repair();
    assert_eq!(look().unwrap(), first);
    // Orders that go back, or stay as they are with another checkpoint
    damage();
    turtle(order + 3);
    assert_eq!(look(), Err(Kind::Damaged));
    repair();
    assert_eq!(look().unwrap(), first);
    damage();
    let other =
        text.replace("time=", "time=1")
            .replacen(&text[begin - 6..end], &format!("order={}", order + 3), 9);
    fs::write(at("WiredTiger.turtle"), other).unwrap();
    assert_eq!(look(), Err(Kind::Damaged));
    // Another file has the name.
    repair();
    turtle(order + 4);
    assert_eq!(look().unwrap(), first);
    fs::write(at("new"), &whole).unwrap();
    fs::rename(at("new"), at("WiredTiger.wt")).unwrap();
    damage();
    turtle(order + 5);
    assert_eq!(look(), Err(Kind::Damaged));
    // What the agent does when another process has the database
    repair();
    assert_eq!(look().unwrap(), first);
    damage();
    reader.forget();
    let again = reader.read(&root, &mut |_| true);
    assert_eq!(again.map(|_| ()).unwrap_err().kind, Kind::Damaged);
}

#[test]
fn a_list_of_another_checkpoint_is_refused() {
    let dir = copy("11.3.1");
    let root = Root::open(dir.path()).unwrap();
    let (now, _) = avail::read(&root, &mut |_| false).unwrap();
    let dbpath = Dbpath::open(&root, &Pulse::default()).unwrap();
    let list = |file| dbpath.list(file, &mut Budget::of(MAX_EXTENTS));
    let file = now.files.iter().find(|f| f.path == Path::new("kept.wt")).unwrap();
    let good = list(file).unwrap();
    assert!(good.bytes() > 0 && good.extents.len() == 2);
    // Its block has been written since.
    let mut old = file.clone();
    let addr = old.cookie.as_mut().unwrap().avail.as_mut().unwrap();
    addr.checksum ^= 1;
    assert_eq!(list(&old).unwrap_err().kind, Kind::Damaged);
    // It is itself damaged.
    let at = file.cookie.as_ref().unwrap().avail.unwrap().offset;
    let opened = fs::File::options()
        .write(true)
        .open(dir.path().join("kept.wt"))
        .unwrap();
    opened.write_all_at(&[0xff], at + 41).unwrap();
    assert_eq!(list(file).unwrap_err().kind, Kind::Damaged);
}

/// What is read of a database that this makes.
fn of_made(make: impl FnOnce(&Path)) -> Result<(Snapshot, Lists), Refusal> {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    read(dir.path())
}

#[test]
fn databases_that_an_attacker_makes_are_read_within_bounds() {
    let why = |make: fn(&Path)| {
        let e = of_made(make).map(|_| ()).unwrap_err();
        (e.kind, e.message)
    };
    let twice = |at: u64| {
        let text = format!("WiredTiger.wt: its tree has the block at {at} twice, or a part of it");
        (Kind::Damaged, text)
    };
    assert_eq!(why(hostile::visits), twice(4096));
    assert_eq!(why(hostile::names).0, Kind::Damaged);
    let list = 1 << 20;
    assert_eq!(
        of_made(|dir| hostile::twins(dir, list))
            .map(|_| ())
            .unwrap_err()
            .message,
        "WiredTiger.wt: l.wt: it is there twice, or not in order"
    );
    assert_eq!(
        why(|dir| hostile::files(dir, 100, 20_000)),
        (
            Kind::Unsupported,
            "WiredTiger.wt: it has more files than 128 MiB hold".to_owned()
        )
    );

    let links = of_made(|dir| hostile::links(dir, list)).unwrap();
    let list_of = |n: usize| of(&links, &format!("l{n:03}.wt")).unwrap().as_ref();
    assert!(list_of(0).unwrap().extents.len() > 100_000);
    for n in [1, 299] {
        let e = list_of(n).unwrap_err();
        assert_eq!(e.message, format!("l{n:03}.wt: the metadata has this file twice"));
    }
    let hole = of_made(|dir| hostile::hole(dir, list)).unwrap();
    let e = of(&hole, "l.wt").unwrap().as_ref().unwrap_err();
    assert_eq!(
        (e.kind, e.message.as_str()),
        (Kind::Damaged, "l.wt: the block at 4096 has a hole")
    );
}

/// All lists of a look have room for so many extents together.
#[test]
fn lists_share_their_room() {
    let root = Root::open(&made().join("11.3.1")).unwrap();
    let dbpath = Dbpath::open(&root, &Pulse::default()).unwrap();
    let (snapshot, _) = avail::read(&root, &mut |_| false).unwrap();
    let file = |path: &str| snapshot.files.iter().find(|f| f.path == Path::new(path)).unwrap();
    let (kept, other) = (file("kept.wt"), file("collection-0-1.wt"));
    // Before they are merged there are more.
    let needs = |file| {
        (0..)
            .find(|n| dbpath.list(file, &mut Budget::of(*n)).is_ok())
            .unwrap()
    };
    let (least, length) = (needs(other), dbpath.list(kept, &mut Budget::of(MAX_EXTENTS)));
    let length = length.unwrap().extents.len();
    assert!(length > 1 && needs(kept) <= least + length);
    let both = |room| {
        let mut budget = Budget::of(room);
        dbpath.list(kept, &mut budget).unwrap();
        dbpath.list(other, &mut budget)
    };
    both(least + length).unwrap();
    let e = both(least + length - 1).unwrap_err();
    assert_eq!(e.kind, Kind::Unsupported);
    assert_eq!(
        e.message,
        "collection-0-1.wt: with it the lists of free blocks have more than 33554432 extents"
    );
    // And for so many bytes, which a file's owner may have for nothing.
    let bytes = |file: &super::FileEntry| u64::from(file.cookie.as_ref().unwrap().avail.unwrap().size);
    let both = |room| {
        let mut budget = Budget::of(MAX_EXTENTS);
        budget.bytes = room;
        dbpath.list(kept, &mut budget).unwrap();
        dbpath.list(other, &mut budget).map(|_| budget.bytes)
    };
    let all = bytes(kept) + bytes(other);
    assert_eq!(both(all), Ok(0));
    let e = both(all - 1).unwrap_err();
    assert_eq!(
        (e.kind, e.message.as_str()),
        (
            Kind::Unsupported,
            "collection-0-1.wt: with it a look takes more than can be read each time"
        )
    );
}

#[test]
fn each_block_is_a_sign_of_life() {
    let pulse = Pulse::default();
    let root = Root::open(&made().join("11.3.1")).unwrap();
    assert_eq!(pulse.busy(), std::time::Duration::ZERO);
    avail::Reader::new(pulse.clone())
        .read(&root, &mut |_| false)
        .unwrap();
    assert!(pulse.busy() > std::time::Duration::ZERO);
}

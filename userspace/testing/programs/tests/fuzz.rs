// SPDX-License-Identifier: GPL-2.0-or-later
//! Names and texts that others write, by chance: nothing panics, and what is
//! taken is sound.  `tests/check fuzz-agent` makes a million of each.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;

use database::config::Config;
use database::ident::classify;
use database::rules::Rules;
use database::wiredtiger::avail::page::Block;
use database::wiredtiger::avail::tree::{Blocks, Tree};
use database::wiredtiger::avail::{config, list, Addr, Cookie, Kind, Refusal};
use database::wiredtiger::turtle;
use dm::class::Class;
use dm::table::Extent;
use dsmd::agent::papers::state::{Directory, Kept, State};
use proptest::prelude::*;
use proto::feed::{self, MAX_TEXT};
use simulate::trace::recording::Writer;
use simulate::trace::{self, Trace, What, MAX_OFFSET};

/// Changes to a text: where, what, and how (replace, insert, remove, cut).
type Changes = Vec<(u16, u8, u8)>;

fn changes() -> impl Strategy<Value = Changes> {
    prop::collection::vec((any::<u16>(), any::<u8>(), 0..16u8), 0..6)
}

fn changed(text: &str, changes: &Changes) -> Vec<u8> {
    changed_bytes(text.as_bytes(), changes)
}

fn changed_bytes(bytes: &[u8], changes: &Changes) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for &(at, byte, how) in changes {
        let at = usize::from(at) % (bytes.len() + 1);
        match how {
            0..=6 if at < bytes.len() => bytes[at] = byte,
            7..=10 => bytes.insert(at, byte),
            11..=14 if at < bytes.len() => {
                bytes.remove(at);
            }
            15 => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}

fn changed_text(text: &str, changes: &Changes) -> String {
    String::from_utf8_lossy(&changed(text, changes)).into_owned()
}

fn unique() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..100_000u64, any::<i64>()).prop_map(|(n, random)| format!("{n}-{random}")),
        any::<[u16; 8]>().prop_map(|u| {
            let [a, b, c, d, e, f, g, h] = u;
            format!("{a:04x}{b:04x}-{c:04x}-{d:04x}-{e:04x}-{f:04x}{g:04x}{h:04x}")
        }),
    ]
}

fn database() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("index".to_owned()),
        Just("collection".to_owned()),
        Just("journal".to_owned()),
        "[^/\\x00]{1,20}",
    ]
    .prop_filter("a directory", |d| d != "." && d != "..")
}

/// Paths of tables, in every layout, with their class.
fn table() -> impl Strategy<Value = (String, Class)> {
    (unique(), database(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(unique, db, per_db, for_indexes, is_index)| {
            let (kind, class) = match is_index {
                true => ("index", Class::Index),
                false => ("collection", Class::Collection),
            };
            let between = if for_indexes { '/' } else { '-' };
            let above = if per_db { format!("{db}/") } else { String::new() };
            (format!("{above}{kind}{between}{unique}.wt"), class)
        },
    )
}

const STATE: &str = r#"{"version":1,"device":"d","root":{"ino":128,"born":1},"marked":true,"files":[{"ino":131,"born":1700000000123456789,"boundary":8192},{"ino":132,"born":-1,"boundary":4096}]}"#;
const RULES: &str =
    "# x\nsecantus_oplog.wt oplog\n\n**/documents_?[0-9]*.wt\tcollection\n[!a-c]*/x.wt primary\n";
const OBJECTS: &str =
    "engine = 'e'\n[[object]]\nname = 'a'\nstream = 3\nfiles = ['x*', 'a/**/b']\nbytes = '4K-1M'\n\
    [[object]]\nname = 'b'\nclass = 'index'\nlifetime = 'long'\nfiles = ['**']\n";
const CONFIG: &str = "log-format = \"json\"\ndrive = \"/dev/a\"\ngroups = 3\ndbpath = \"/a\"\n\
    refresh-seconds = 0.5\nwait = false\nboundary = \"manual\"\nfeatures = { prediction = \"off\" }\n";
const FEED: &str = r#"{"protocol":1,"address":"db1:27017","version":"7.0.14",
    "failure":{"kind":"partial","why":"not all"},
    "files":{"shop/index-8-7.wt":"primary","collection-7-7.wt":"collection"}}"#;
const TURTLE: &str = "WiredTiger version string\nWiredTiger 11.3.1\nfile:WiredTiger.wt\n\
    a=\"x(\",checkpoint=(WiredTigerCheckpoint.7=(addr=\"018e\",order=7)),b=[1,2]\n";

const IOLOGS: [&str; 2] = [
    "fio version 2 iolog\n/d/a add\n/d/a open\n/d/a write 0 4096\n/d/a wait 50\n/d/a read 0 4096\n\
     /d/a trim 0 4096\n/d/a sync\n/d/a close\n",
    "fio version 3 iolog\n1 /d/a add\n1 /d/a open\n12 /d/a write 8192 512\n13 /d/b write 0 4096\n",
];
const BLKPARSE: &str = "  8,0    1        2     0.000002500   697  Q  WS 64 + 8 [kjournald]\n\
    \x20 8,0    0        1     0.000001000   697  Q   W 128 + 16 [x]\n\
    \x20 8,0    1        5     0.000004000   697  Q   D 64 + 8 [x]\n\nCPU0 (8,0):\n Reads Queued:  1\n";

/// A recording in which a file grows, another one is replaced, and a checkpoint completes.
static RECORDING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut w = Writer::new(Vec::new(), 1000).unwrap();
    let one = [Extent::new(0, 800, 16)];
    let two = [Extent::new(0, 800, 16), Extent::new(16, 1600, 16)];
    w.file(7, "collection-0-1.wt", 8192, &one).unwrap();
    w.file(8, "WiredTiger.turtle", 4096, &[Extent::new(0, 80, 8)])
        .unwrap();
    w.table(1000).unwrap();
    w.write(1010, 808, 8, 3, 2).unwrap();
    w.write(1005, 1600, 16, 0, 0).unwrap();
    w.discard(1040, 800, 8).unwrap();
    w.lost(3).unwrap();
    w.file(7, "collection-0-1.wt", 16384, &two).unwrap();
    w.gone(8).unwrap();
    w.file(9, "WiredTiger.turtle", 4096, &[Extent::new(0, 88, 8)])
        .unwrap();
    w.table(1050).unwrap();
    w.checkpoint(1050).unwrap();
    w.window(1051).unwrap();
    w.list(7, None).unwrap();
    w.looked(1052).unwrap();
    w.finish().unwrap()
});

/// What every reader of traces promises.
fn is_sound(trace: &Trace) -> bool {
    let known = |file: u32| file < trace.files;
    let within = |offset: u64, length: u64| length > 0 && offset + length <= MAX_OFFSET;
    let mut last = 0;
    trace.events().all(|e| {
        let in_order = e.us >= std::mem::replace(&mut last, e.us);
        in_order
            && match e.what {
                What::Name { file, name } => known(file) && (name as usize) < trace.names.len(),
                What::Write { file, offset, length } | What::Discard { file, offset, length } => {
                    known(file) && within(offset, length)
                }
                What::Delete { file } => known(file),
                What::List { file, list } => known(file) && (list as usize) < trace.lists.len(),
                What::Stream { .. } | What::LoadEnd | What::Begins | What::Checkpoint => true,
                What::Window | What::Looked | What::Lost => true,
            }
    })
}

/// A database that WiredTiger has made, in memory.
struct Database {
    turtle: String,
    metadata: Vec<u8>,
    /// Of a file whose list has many extents.
    entry: String,
    list: Vec<u8>,
}

static DATABASE: LazyLock<Database> = LazyLock::new(|| {
    let at = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/avail/11.3.1")
            .join(name)
    };
    let turtle = std::fs::read_to_string(at("WiredTiger.turtle")).unwrap();
    let metadata = std::fs::read(at("WiredTiger.wt")).unwrap();
    let mut entry = String::new();
    let mut found = |key: &[u8], value: &[u8]| {
        if key.starts_with(b"file:index-1-1.wt") {
            entry = std::str::from_utf8(value)
                .unwrap()
                .trim_end_matches('\0')
                .to_owned();
        }
        Ok(())
    };
    let cookie = config::turtle(&turtle).unwrap().cookie.unwrap();
    walk(&metadata, &cookie.root.unwrap(), &[], &mut found).unwrap();
    let cookie = config::newest(&entry).unwrap().cookie.unwrap();
    let addr = cookie.avail.unwrap();
    let file = std::fs::read(at("index-1-1.wt")).unwrap();
    let list = file[addr.offset as usize..addr.end() as usize].to_vec();
    Database {
        turtle,
        metadata,
        entry,
        list,
    }
});

/// Blocks of a file of which some are damaged, with checksums that fit nevertheless:
/// what is looked at is what comes after these.
struct Damaged<'a> {
    file: &'a [u8],
    changes: &'a [(u16, u16, u8)],
    blocks: u32,
}

impl Blocks for Damaged<'_> {
    fn block(&mut self, addr: &Addr) -> Result<Block, Refusal> {
        self.blocks += 1;
        let range = addr.offset as usize..addr.end() as usize;
        let bytes = self.file.get(range).ok_or(Refusal {
            kind: Kind::Damaged,
            message: "it is beyond the end".into(),
        })?;
        let mut bytes = bytes.to_vec();
        for (block, at, byte) in self.changes {
            if u32::from(*block) % 8 == self.blocks % 8 {
                spoil(&mut bytes, *at, *byte);
            }
        }
        resealed(bytes, addr)
    }
}

/// Changes a byte, most often one of the header or of those soon after it.
fn spoil(bytes: &mut [u8], at: u16, byte: u8) {
    let at = if at & 1 == 0 { at % 256 } else { at };
    let at = usize::from(at) % bytes.len();
    bytes[at] = byte;
}

fn resealed(mut bytes: Vec<u8>, addr: &Addr) -> Result<Block, Refusal> {
    bytes[28..32].copy_from_slice(&addr.size.to_le_bytes());
    bytes[32..36].fill(0);
    let covered = if bytes[36] & 1 != 0 { bytes.len() } else { 64 };
    let checksum = crc32c::crc32c(&bytes[..covered]);
    bytes[32..36].copy_from_slice(&checksum.to_le_bytes());
    Block::check(bytes, &Addr { checksum, ..*addr })
}

fn walk(
    file: &[u8],
    root: &Addr,
    changes: &[(u16, u16, u8)],
    each: &mut database::wiredtiger::avail::tree::Each<'_>,
) -> Result<u32, Refusal> {
    let mut blocks = Damaged {
        file,
        changes,
        blocks: 0,
    };
    Tree::new(&mut blocks, 4096, false).walk(root, each)?;
    Ok(blocks.blocks)
}

fn block_changes() -> impl Strategy<Value = Vec<(u16, u16, u8)>> {
    prop::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("FUZZ_CASES").map_or(5000, |n| n.parse().expect("a number")),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn tables_have_their_class((path, class) in table()) {
        prop_assert_eq!(classify(Path::new(&path)), class);
    }

    #[test]
    fn other_names_have_none(path in prop::collection::vec(any::<u8>(), 0..60)) {
        let path = Path::new(OsStr::from_bytes(&path));
        let class = classify(path);
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        match class {
            Class::Collection | Class::Index => prop_assert!(name.ends_with(".wt")),
            Class::Journal => prop_assert!(name.starts_with("WiredTiger")),
            other => prop_assert_eq!(other, Class::Other),
        }
    }

    #[test]
    fn names_that_are_almost_right((path, _) in table(), changes in changes()) {
        let path = changed(&path, &changes);
        let path = Path::new(OsStr::from_bytes(&path));
        let class = classify(path);
        prop_assert!([Class::Collection, Class::Index, Class::Other].contains(&class), "{class}");
        prop_assert!(class == Class::Other || path.extension() == Some(OsStr::new("wt")));
    }

    #[test]
    fn state_files(changes in changes()) {
        if let Ok(state) = State::parse(&changed(STATE, &changes), "d") {
            prop_assert!(state.files.iter().all(|f| f.boundary > 0 && f.boundary % 4096 == 0));
            prop_assert_eq!(State::parse(state.text().as_bytes(), "d"), Ok(state));
        }
    }

    #[test]
    fn states_come_back(files in prop::collection::btree_map(any::<u64>(), (any::<i64>(), 1..1u64 << 40), 0..50)) {
        let kept = |(&ino, &(born, pages)): (&u64, &(i64, u64))| Kept { ino, born, boundary: pages * 4096 };
        let state = State::new("d\"\n", Directory::default(), true, files.iter().map(kept).collect());
        prop_assert_eq!(State::parse(state.text().as_bytes(), "d\"\n"), Ok(state));
    }

    #[test]
    fn rules_files(changes in changes(), (path, _) in table()) {
        match Rules::parse(&changed_text(RULES, &changes)) {
            Ok(rules) => {
                rules.classify(Path::new(&path));
                rules.classify(Path::new("a/documents_x7.wt"));
            }
            Err(said) => {
                prop_assert!(said.starts_with("line "), "{said}");
                prop_assert_eq!(said.lines().count(), 1);
            }
        }
    }

    #[test]
    fn rules_with_objects(changes in changes(), (path, _) in table()) {
        match Rules::parse_objects(&changed_text(OBJECTS, &changes)) {
            Ok(rules) => {
                let parts = rules.parts(Path::new(&path));
                prop_assert!(parts.ranges.iter().all(|(r, _)| r.start < r.end));
                for n in 0..=255 {
                    if let Ok(stamps) = rules.stamps(n) {
                        prop_assert!(stamps.iter().flatten().all(|s| u32::from(s.stream) <= n));
                    }
                }
            }
            Err(said) => {
                prop_assert!(said.starts_with("line "), "{said}");
                prop_assert_eq!(said.lines().count(), 1);
            }
        }
    }

    #[test]
    fn any_rules(text in "(\\PC{0,12}[ \t](index|oplog|x)\n){0,4}", path in "\\PC{0,30}") {
        if let Ok(rules) = Rules::parse(&text) {
            rules.classify(Path::new(&path));
        }
    }

    #[test]
    fn configurations(changes in changes()) {
        match Config::parse("d", &changed_text(CONFIG, &changes)) {
            Ok(c) => {
                prop_assert!(c.drive.is_some() || c.dbpath.is_some());
                prop_assert!(c.dbpath.is_none_or(|p| p.is_absolute()));
            }
            Err(said) => prop_assert_eq!(said.lines().count(), 1, "{}", said),
        }
    }

    #[test]
    fn what_dsm_mongo_writes(changes in changes()) {
        match feed::read(changed(FEED, &changes).as_slice()) {
            Ok(report) => {
                for text in [Some(report.address), report.version, report.failure.map(|f| f.why)].into_iter().flatten() {
                    prop_assert!(text.len() <= MAX_TEXT && !text.contains(char::is_control));
                }
                for (path, _) in report.catalog.iter().flat_map(|c| c.iter()) {
                    prop_assert!(path.is_relative() && !path.starts_with(".."), "{path:?}");
                }
            }
            Err(e) => {
                let reason = e.to_string();
                prop_assert!(reason.lines().count() == 1 && reason.len() < 2 * MAX_TEXT, "{reason}");
            }
        }
    }

    #[test]
    fn turtles(changes in changes()) {
        let text = changed_text(TURTLE, &changes);
        if let Some(entry) = turtle::checkpoint_entry(&text) {
            prop_assert!(text.contains(entry));
        }
    }

    #[test]
    fn turtles_with_checkpoints(changes in changes()) {
        let text = changed_text(&DATABASE.turtle, &changes);
        if let Ok(turtle) = config::turtle(&text) {
            // Versions that nobody has seen are read, to be audited.
            prop_assert!(matches!(turtle.version.major, 3 | 10..));
        }
    }

    #[test]
    fn entries_of_the_metadata(changes in changes()) {
        let text = changed_text(&DATABASE.entry, &changes);
        if let Ok(config::Newest { cookie: Some(cookie), .. }) = config::newest(&text) {
            prop_assert!(cookie.alloc.is_power_of_two());
            prop_assert!(cookie.avail.is_none_or(|a| a.size > 0 && a.offset > 0));
        }
    }

    #[test]
    fn cookies(bytes in prop::collection::vec(any::<u8>(), 0..48), version in any::<bool>()) {
        let mut bytes = bytes;
        if let (Some(first), true) = (bytes.first_mut(), version) {
            *first = 1;
        }
        let hex = bytes.iter().fold(String::new(), |hex, b| hex + &format!("{b:02x}"));
        if let Ok(cookie) = Cookie::parse(&hex, 4096) {
            prop_assert!(cookie.file_size < 1 << 63);
        }
    }

    #[test]
    fn pages_of_the_metadata(changes in block_changes()) {
        let cookie = config::turtle(&DATABASE.turtle).unwrap().cookie.unwrap();
        let mut entries = 0;
        let done = walk(&DATABASE.metadata, &cookie.root.unwrap(), &changes, &mut |_, value| {
            entries += 1;
            if let Ok(text) = std::str::from_utf8(value) {
                let _ = config::newest(text);
            }
            Ok(())
        });
        // Blocks are disjoint: there are no more of them than fit the file.
        let most = DATABASE.metadata.len() / 4096;
        prop_assert!(done.is_err() || done.is_ok_and(|blocks| blocks as usize <= most));
        prop_assert!(entries < DATABASE.metadata.len());
    }

    #[test]
    fn blocks_of_lists(changes in block_changes()) {
        let cookie = config::newest(&DATABASE.entry).unwrap().cookie.unwrap();
        let addr = cookie.avail.unwrap();
        let mut bytes = DATABASE.list.clone();
        for (_, at, byte) in changes {
            spoil(&mut bytes, at, byte);
        }
        let read = resealed(bytes, &addr).and_then(|block| {
            list::parse(block.data()?, &cookie, usize::MAX)
        });
        if let Ok(list) = read {
            prop_assert!(list.iter().all(|e| e.start < e.end && e.end <= cookie.file_size));
            prop_assert!(list.windows(2).all(|w| w[0].end <= w[1].start));
            prop_assert!(list.iter().all(|e| e.end <= addr.offset || addr.end() <= e.start));
        }
    }

    #[test]
    fn recordings(
        changes in changes(),
        run in prop::option::of((any::<u16>(), 1..40usize, any::<u8>())),
    ) {
        let mut bytes = changed_bytes(&RECORDING, &changes);
        // A number goes on while its bytes say so.
        if let Some((at, length, byte)) = run {
            let at = usize::from(at) % (bytes.len() + 1);
            let end = bytes.len().min(at + length);
            bytes[at..end].fill(byte);
        }
        if let Ok(trace) = trace::read(&bytes[..]) {
            prop_assert!(is_sound(&trace));
        }
        // With little memory it ends sooner, and in no other way.
        if let Ok(trace) = trace::read_within(4096, &bytes[..]) {
            prop_assert!(is_sound(&trace));
        }
    }

    #[test]
    fn what_fio_and_blkparse_print(which in 0..3usize, changes in changes()) {
        let base = [IOLOGS[0], IOLOGS[1], BLKPARSE][which];
        if let Ok(trace) = trace::read(&changed(base, &changes)[..]) {
            prop_assert!(is_sound(&trace));
        }
    }
}

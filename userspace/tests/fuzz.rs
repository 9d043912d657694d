// SPDX-License-Identifier: GPL-2.0-only
//! Names and texts that others write, by chance: nothing panics, and what is
//! taken is sound.  `make fuzz-agent` makes a million of each.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dsm::agent::state::{Directory, Kept, State};
use dsm::class::Class;
use dsm::config::Config;
use dsm::ident::classify;
use dsm::rules::Rules;
use dsm::turtle;
use proptest::prelude::*;

/// Changes to a text: where, what, and how (replace, insert, remove, cut).
type Changes = Vec<(u16, u8, u8)>;

fn changes() -> impl Strategy<Value = Changes> {
    prop::collection::vec((any::<u16>(), any::<u8>(), 0..16u8), 0..6)
}

fn changed(text: &str, changes: &Changes) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
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
const CONFIG: &str = "metrics = 9187\nlog-format = \"json\"\n[[database]]\ndevice = \"a\"\ndbpath = \"/a\"\n\
    refresh-seconds = 0.5\nwait = false\n[[database]]\ndevice = \"b\"\ndbpath = \"/b\"\nboundary = \"manual\"\n";
const TURTLE: &str = "WiredTiger version string\nWiredTiger 11.3.1\nfile:WiredTiger.wt\n\
    a=\"x(\",checkpoint=(WiredTigerCheckpoint.7=(addr=\"018e\",order=7)),b=[1,2]\n";

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
        match Config::parse(&changed_text(CONFIG, &changes)) {
            Ok(c) => {
                prop_assert!(!c.databases.is_empty());
                prop_assert!(c.databases.iter().all(|d| d.dbpath.is_absolute() && !d.device.contains('/')));
            }
            Err(said) => prop_assert_eq!(said.lines().count(), 1, "{}", said),
        }
    }

    #[test]
    fn turtles(changes in changes()) {
        let text = changed_text(TURTLE, &changes);
        if let Some(entry) = turtle::checkpoint_entry(&text) {
            prop_assert!(text.contains(entry));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use dm::table::StreamStamp;

const SECANTUS: &str = "\
    # SecantusDB\n\
    secantus_oplog.wt oplog\n\
    \n\
    secantus_documents_*.wt\tcollection\r\n\
    \u{20} secantus_index_*.wt   index\n\
    **/a b.wt primary\n\
    secantus_*.wt other\n";

const INNODB: &str = r##"
engine = "innodb"

[[object]]
name = "doublewrite"
lifetime = "short"
files = ["ibdata1"]
bytes = "1M-3M"

[[object]]
name = "doublewrite"
lifetime = "short"
files = ["#ib_*.dblwr"]

[[object]]
name = "redo"
stream = 2
lifetime = "medium"
files = ["ib_logfile*", "[#]innodb_redo/*"]

[[object]]
name = "system"
lifetime = "long"
files = ["ibdata*"]

[[object]]
name = "table"
class = "collection"
files = ["**/*.ibd"]
"##;

fn path(s: &str) -> &Path {
    Path::new(s)
}

#[test]
fn the_first_rule_counts() {
    let rules = Rules::parse(SECANTUS).unwrap();
    for (name, class) in [
        ("secantus_oplog.wt", Class::Oplog),
        ("secantus_documents_sh14.wt", Class::Collection),
        ("secantus_index_entries.wt", Class::Index),
        ("secantus_users.wt", Class::Other),
        ("secantus_documents_a/b.wt", Class::Other),
        ("x/secantus_oplog.wt", Class::Other),
        ("a b.wt", Class::Primary),
        ("x/y/a b.wt", Class::Primary),
        // MongoDB's own names are known without a rule.
        ("collection-7-42.wt", Class::Collection),
        ("WiredTigerLog.0000000001", Class::Journal),
    ] {
        assert_eq!(rules.classify(path(name)), class, "{name}");
    }
    let first = Rules::parse("* other\nindex-* index").unwrap();
    assert_eq!(first.classify(path("index-7-42.wt")), Class::Other);
}

#[test]
fn objects_are_files_and_parts_of_files() {
    let rules = Rules::parse_objects(INNODB).unwrap();
    let names: Vec<&str> = rules.objects().iter().map(|o| o.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "innodb.doublewrite",
            "innodb.redo",
            "innodb.system",
            "innodb.table"
        ]
    );
    let object = |class, n| Role {
        class,
        object: Some(n),
    };
    let whole = |name: &str| {
        let parts = rules.parts(path(name));
        assert!(parts.ranges.is_empty(), "{name}: {parts:?}");
        parts.rest
    };
    assert_eq!(whole("#ib_16384_0.dblwr"), object(Class::Other, 0));
    assert_eq!(whole("#innodb_redo/#ib_redo7"), object(Class::Other, 1));
    assert_eq!(whole("ibdata2"), object(Class::Other, 2));
    assert_eq!(whole("test/t#P#p0.ibd"), object(Class::Collection, 3));
    assert_eq!(whole("my.cnf").object, None);
    assert_eq!(
        rules.parts(path("ibdata1")),
        Parts {
            ranges: vec![(1 << 20..3 << 20, object(Class::Other, 0))],
            rest: object(Class::Other, 2),
        }
    );
}

/// Patterns that differ may match the same file; then the first has the bytes.
#[test]
fn ranges_of_several_rules_do_not_overlap() {
    let rules = Rules::parse_objects(
        r#"
        object = [
            { name = "a", files = ["f*"], bytes = "8K-16K" },
            { name = "b", files = ["*f"], bytes = "4K-64K" },
            { name = "c", files = ["?"], bytes = "60K-" },
        ]"#,
    )
    .unwrap();
    let parts = rules.parts(path("f"));
    let ranges: Vec<_> = parts
        .ranges
        .iter()
        .map(|(r, k)| (r.start >> 10, r.end >> 10, k.object.unwrap()))
        .collect();
    assert_eq!(
        ranges,
        [(8, 16, 0), (4, 8, 1), (16, 64, 1), (64, u64::MAX >> 10, 2)]
    );
    assert_eq!(parts.rest.object, None);
}

#[test]
fn lifetimes_have_the_last_streams() {
    let rules = Rules::parse_objects(INNODB).unwrap();
    let stamp = |stream, hint| Some(StreamStamp { stream, hint });
    // 2 is stated; long and short share 1, 3, 4, ...
    for (n, long, short) in [(8, 7, 8), (4, 3, 4), (3, 1, 3), (2, 1, 1)] {
        assert_eq!(
            rules.stamps(n).unwrap(),
            [stamp(short, 2), stamp(2, 3), stamp(long, 4), None],
            "{n} streams"
        );
    }
    assert_eq!(rules.free_streams(4), [1, 3, 4]);
    assert_eq!(
        rules.stamps(1).unwrap_err(),
        "line 16: the object 'innodb.redo' has stream 2: the device has streams 1 to 1"
    );
    assert_eq!(
        rules.stamps(0).unwrap_err(),
        "line 16: the object 'innodb.redo' has stream 2: the device has no streams; state a lifetime"
    );
    let hints = Rules::parse_objects("[[object]]\nname='a'\nlifetime='short'\nfiles=['x']").unwrap();
    assert_eq!(hints.stamps(0).unwrap(), [stamp(0, 2)]);
    assert_eq!(hints.stamps(1).unwrap(), [stamp(1, 2)]);
}

#[test]
fn several_engines_below_several_directories() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("innodb.toml");
    std::fs::write(&file, INNODB).unwrap();
    let lines = dir.path().join("secantus.rules");
    std::fs::write(&lines, SECANTUS).unwrap();
    let source = |below: &str, file: &Path| format!("{below}={}", file.display()).parse().unwrap();
    let sources: Vec<Source> = vec![source("my[1]", &file), source("db/2", &file), source("m", &lines)];
    let rules = Rules::read(&sources).unwrap();
    assert_eq!(rules.objects().len(), 4, "two servers share the objects");
    let object = |p: &str| rules.parts(path(p)).rest.object;
    assert_eq!(object("my[1]/ib_logfile0"), Some(1));
    assert_eq!(object("db/2/ib_logfile0"), Some(1));
    assert_eq!(object("ib_logfile0"), None);
    assert_eq!(rules.classify(path("m/secantus_oplog.wt")), Class::Oplog);
    let said = Rules::read(&[source("", &file), source("", &file)])
        .unwrap_err()
        .to_string();
    let shown = file.display();
    assert_eq!(
        said,
        format!("{shown}: line 7: 'ibdata1' overlaps with 'ibdata1' on {shown}: line 7, which comes first")
    );
    for bad in ["../x=f", "x/../y=f", "x=", "", "./=f"] {
        assert!(bad.parse::<Source>().is_err(), "{bad}");
    }
    assert_eq!("/a=b".parse::<Source>().unwrap().file, path("/a=b"));
}

#[test]
fn a_file_is_read_again_when_it_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules");
    std::fs::write(&file, "a.wt index\n").unwrap();
    let source = file.to_str().unwrap().parse().unwrap();
    let (mut files, rules) = RulesFiles::open(&[source]).unwrap();
    assert_eq!(rules.classify(path("a.wt")), Class::Index);
    assert!(files.changed().is_none());
    std::fs::write(&file, "a.wt primary\n").unwrap();
    let rules = files.changed().unwrap().unwrap();
    assert_eq!(rules.classify(path("a.wt")), Class::Primary);
    std::fs::write(&file, "a.wt x\n").unwrap();
    let said = files.changed().unwrap().unwrap_err().to_string();
    assert!(said.contains("line 1: class 'x'"), "{said}");
    assert!(files.changed().is_none(), "it is reported once");
    assert!(files.again().is_err());
    std::fs::remove_file(&file).unwrap();
    assert!(files.changed().unwrap().is_err());
    assert!(files.changed().is_none());
}

#[test]
fn errors_in_lines_name_the_line() {
    for (text, reason) in [
        ("a.wt", "line 1: 'a.wt': a pattern and a class are needed"),
        (
            "# x\n\na.wt indexes",
            "line 3: class 'indexes': must be collection, index, primary, journal, oplog or other",
        ),
        (
            "ok index\na[.wt index",
            "line 2: 'a[.wt': it is not a pattern: invalid range pattern at character 2",
        ),
        (
            "/var/x index",
            "line 1: '/var/x': patterns are for paths below the dbpath, without '/' before them and without '..'",
        ),
        (
            "a.wt index\n**/*.wt other\nb/a.wt index",
            "line 3: 'b/a.wt' overlaps with '**/*.wt' on line 2, which comes first",
        ),
    ] {
        assert_eq!(Rules::parse(text).unwrap_err(), reason);
    }
}

#[test]
fn errors_in_objects_name_the_line() {
    for (from, to, reason) in [
        ("[[object]]", "[[objects]]", "line 4: unknown field `objects`"),
        ("lifetime", "life", "line 6: unknown field `life`"),
        (
            "\"short\"",
            "\"brief\"",
            "line 6: unknown variant `brief`, expected one of `extreme`, `long`, `medium`, `short`",
        ),
        (
            "\"collection\"",
            "\"collections\"",
            "line 28: unknown variant `collections`, expected one of `collection`",
        ),
        (
            "stream = 2",
            "stream = 0",
            "line 17: stream 0: it must be a number from 1 to 255",
        ),
        ("stream = 2", "stream = 256", "line 17: stream 256: it must be"),
        (
            "stream = 2",
            "stream = \"2\"",
            "line 17: invalid type: string \"2\", expected i64",
        ),
        (
            "1M-3M",
            "3M-1M",
            "line 8: bytes '3M-1M': it must be a range of whole 4 KiB pages, such as 1M-3M or 64M-",
        ),
        ("1M-3M", "1M", "line 8: bytes '1M': "),
        ("1M-3M", "0-", "line 8: bytes '0-': "),
        ("1M-3M", "1M-3000000", "line 8: bytes '1M-3000000': "),
        (
            "[\"ibdata1\"]",
            "[]",
            "line 5: the object 'innodb.doublewrite' has no files",
        ),
        (
            "\"doublewrite\"",
            "\"double write\"",
            "line 5: the object 'double write' must have a name of",
        ),
        ("\"innodb\"", "\"\"", "line 2: the engine '' must have a name of"),
        (
            "\"ib_logfile*\"",
            "\"ib_logfile[\"",
            "line 19: 'ib_logfile[': it is not a pattern: invalid range pattern at character 11",
        ),
        (
            "\"ib_logfile*\"",
            "\"../x\"",
            "line 19: '../x': patterns are for paths below",
        ),
        (
            "\"ib_logfile*\"",
            "\"#ib_*.dblwr\"",
            "line 19: '#ib_*.dblwr' overlaps with '#ib_*.dblwr' on line 13, which comes first",
        ),
        (
            "stream = 2\nlifetime = \"medium\"\nfiles = [\"ib_logfile*\"",
            "files = [\"ibdata1\"]\nbytes = \"2M-4M\" #",
            "line 17: 'ibdata1' overlaps with 'ibdata1' on line 7, which comes first",
        ),
        (
            "\"system\"\nlifetime = \"long\"",
            "\"redo\"\nlifetime = \"long\"",
            "line 22: the object 'innodb.redo' has another class, stream or lifetime on line 16",
        ),
        ("name = \"redo\"", "", "line 15: missing field `name`"),
        ("files = [\"**/*.ibd\"]", "files = ", "line 29: "),
    ] {
        let text = INNODB.replacen(from, to, 1);
        let said = match Rules::parse_objects(&text) {
            Ok(rules) => panic!("{to}: {rules:?}"),
            Err(said) => said,
        };
        assert!(said.starts_with(reason), "{to}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(
        Rules::parse_objects("").unwrap_err(),
        "line 1: it has no [[object]]"
    );
    let many: Vec<String> = (0..=MAX_RANGES)
        .map(|n| format!("{{ name = 'a', files = ['{n}'], bytes = '4K-8K' }}"))
        .collect();
    assert_eq!(
        Rules::parse_objects(&format!("object = [{}]", many.join(","))).unwrap_err(),
        "line 1: there are more than 255 rules with bytes"
    );
}

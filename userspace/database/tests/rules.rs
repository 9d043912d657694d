// SPDX-License-Identifier: GPL-2.0-or-later
//! The rules files that are shipped, on the names that engines give their files.

use std::path::Path;

use database::rules::{Role, Rules};

fn rules(file: &str) -> Rules {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules");
    let text = std::fs::read_to_string(dir.join(file)).unwrap();
    Rules::parse_objects(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
}

fn name(rules: &Rules, kind: Role) -> &str {
    kind.object.map_or("-", |n| &rules.objects()[usize::from(n)].name)
}

/// Each path and its object; `-` is none.
fn check(file: &str, paths: &[(&str, &str)]) {
    let rules = rules(file);
    assert!(
        rules.stamps(8).unwrap().iter().all(Option::is_some),
        "{file}: every object says where it goes"
    );
    for (path, object) in paths {
        let rest = rules.parts(Path::new(path)).rest;
        assert_eq!(name(&rules, rest), *object, "{file}: {path}");
    }
    for object in rules.objects() {
        assert!(
            paths.iter().any(|(_, o)| *o == object.name),
            "{file}: no path is of {}",
            object.name
        );
    }
}

#[test]
fn innodb() {
    check(
        "innodb.toml",
        &[
            ("#ib_16384_0.dblwr", "innodb.doublewrite"),
            ("#ib_16384_1.bdblwr", "innodb.doublewrite"),
            ("ib_logfile0", "innodb.redo"),
            ("#innodb_redo/#ib_redo12", "innodb.redo"),
            ("undo001", "innodb.undo"),
            ("undo_002", "innodb.undo"),
            ("ibtmp1", "innodb.temporary"),
            ("#innodb_temp/temp_7.ibt", "innodb.temporary"),
            ("ibdata1", "innodb.system"),
            ("mysql.ibd", "innodb.system"),
            ("mysql/innodb_index_stats.ibd", "innodb.system"),
            ("aria_log.00000001", "innodb.system"),
            ("tpcc/new_orders.ibd", "innodb.tables"),
            ("tpcc/t#P#p0.ibd", "innodb.tables"),
            ("binlog.000042", "innodb.binlog"),
            ("host-bin.000042", "innodb.binlog"),
            ("ib_buffer_pool", "-"),
        ],
    );
}

#[test]
fn the_doublewrite_area_is_a_part_of_the_system_tablespace() {
    let rules = rules("innodb.toml");
    let parts = rules.parts(Path::new("ibdata1"));
    let ranges: Vec<_> = parts
        .ranges
        .iter()
        .map(|(r, k)| (r.clone(), name(&rules, *k)))
        .collect();
    // Two areas of 64 pages from page 64 on, each of 16 KiB
    assert_eq!(ranges, [(64 * 16384..192 * 16384, "innodb.doublewrite")]);
    assert!(rules.parts(Path::new("ibdata2")).ranges.is_empty());
}

#[test]
fn postgresql() {
    check(
        "postgresql.toml",
        &[
            ("pg_wal/000000010000000000000007", "postgresql.wal"),
            ("base/pgsql_tmp/pgsql_tmp123.0", "postgresql.temporary"),
            (
                "base/pgsql_tmp/pgsql_tmp123.0.fileset/0.0",
                "postgresql.temporary",
            ),
            ("base/5/t3_16400", "postgresql.temporary"),
            ("global/1262", "postgresql.catalogs"),
            ("global/pg_control", "postgresql.catalogs"),
            ("base/5/112", "postgresql.catalogs"),
            ("base/5/1259_fsm", "postgresql.catalogs"),
            ("base/5/2619.1", "postgresql.catalogs"),
            ("base/5/13456", "postgresql.catalogs"),
            ("base/5/16383_vm", "postgresql.catalogs"),
            ("base/5/16384", "postgresql.relations"),
            ("base/5/16384.1", "postgresql.relations"),
            ("base/5/20000_vm", "postgresql.relations"),
            ("base/5/163840", "postgresql.relations"),
            ("base/5/112000", "postgresql.relations"),
            ("pg_xact/0000", "postgresql.state"),
            ("pg_multixact/offsets/0000", "postgresql.state"),
            ("postgresql.conf", "-"),
        ],
    );
}

#[test]
fn rocksdb() {
    check(
        "rocksdb.toml",
        &[
            ("000123.log", "rocksdb.wal"),
            ("wal/000123.log", "rocksdb.wal"),
            ("000124.sst", "rocksdb.tables"),
            ("slow/000125.sst", "rocksdb.tables"),
            ("000126.blob", "rocksdb.tables"),
            ("MANIFEST-000004", "rocksdb.metadata"),
            ("LOG", "rocksdb.metadata"),
            ("LOG.old.1700000000000000", "rocksdb.metadata"),
            ("LOCK", "-"),
        ],
    );
}

#[test]
fn mongodb() {
    check(
        "mongodb.toml",
        &[
            ("journal/WiredTigerLog.0000000001", "mongodb.journal"),
            ("WiredTigerPreplog.0000000001", "mongodb.journal"),
            ("WiredTigerHS.wt", "mongodb.history"),
            ("WiredTiger.wt", "mongodb.metadata"),
            ("sizeStorer.wt", "mongodb.metadata"),
            ("diagnostic.data/metrics.interim", "mongodb.diagnostics"),
            // These have the streams of their class.
            ("collection-7-42.wt", "-"),
            ("db/index/8-42.wt", "-"),
        ],
    );
}

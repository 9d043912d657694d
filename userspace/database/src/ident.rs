// SPDX-License-Identifier: GPL-2.0-or-later
//! What a file in a dbpath is, by the grammar of MongoDB's file names.
//!
//! ```text
//! path    = [db "/"] kind "-" unique ".wt"        the usual layout, directoryPerDB
//!         | [db "/"] kind "/" unique ".wt"        directoryForIndexes, and both
//!         | ["journal/"] log "." digits
//! kind    = "collection" | "index"
//! unique  = digits "-" ["-"] digits               counter and random number
//!         | uuid                                  8.2 and later
//! log     = "WiredTigerLog" | "WiredTigerPreplog" | "WiredTigerTmplog"
//! ```
//!
//! A database may be named `index`, `collection` or `journal`, so that the
//! directory alone says nothing.  Everything else (`_mdb_catalog.wt`,
//! `sizeStorer.wt`, `WiredTiger*`, `internal-...`, `diagnostic.data/...`) is of
//! class `other`.

use std::path::{Component, Path};

use dm::class::Class;

/// The class of the file at `path`, relative to the dbpath.
pub fn classify(path: &Path) -> Class {
    let mut parts: Vec<&str> = Vec::with_capacity(3);
    for c in path.components() {
        match c {
            Component::Normal(name) => match name.to_str() {
                Some(s) => parts.push(s),
                None => return Class::Other,
            },
            Component::CurDir => {}
            _ => return Class::Other,
        }
    }
    match parts.as_slice() {
        [name] => prefixed(name).or_else(|| log(name)),
        [dir, name] => prefixed(name)
            .or_else(|| bare(dir, name))
            .or_else(|| log(name).filter(|_| *dir == "journal")),
        [_db, kind, name] => bare(kind, name),
        _ => None,
    }
    .unwrap_or(Class::Other)
}

fn kind(word: &str) -> Option<Class> {
    match word {
        "collection" => Some(Class::Collection),
        "index" => Some(Class::Index),
        _ => None,
    }
}

/// `kind-unique.wt`
fn prefixed(name: &str) -> Option<Class> {
    let (word, rest) = name.strip_suffix(".wt")?.split_once('-')?;
    kind(word).filter(|_| is_unique(rest))
}

/// `kind/unique.wt`
fn bare(dir: &str, name: &str) -> Option<Class> {
    kind(dir).filter(|_| name.strip_suffix(".wt").is_some_and(is_unique))
}

fn log(name: &str) -> Option<Class> {
    let (word, number) = name.split_once('.')?;
    let known = ["WiredTigerLog", "WiredTigerPreplog", "WiredTigerTmplog"].contains(&word);
    (known && is_digits(number)).then_some(Class::Journal)
}

fn is_digits(s: &str) -> bool {
    !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit())
}

fn is_unique(s: &str) -> bool {
    is_counter(s) || is_uuid(s)
}

/// The random number is printed as a signed one by some versions.
fn is_counter(s: &str) -> bool {
    s.split_once('-').is_some_and(|(counter, random)| {
        is_digits(counter) && is_digits(random.strip_prefix('-').unwrap_or(random))
    })
}

fn is_uuid(s: &str) -> bool {
    s.len() == 36
        && s.bytes().enumerate().all(|(n, b)| match n {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    const UUID: &str = "0f0f1e2d-3c4b-5a69-7887-96a5b4c3d2e1";

    #[test]
    fn the_grammar_by_a_table_of_cases() {
        use Class::{Collection, Index, Journal, Other};
        let cases = [
            // The usual layout.
            ("collection-0-1234567890123456789.wt", Collection),
            ("collection-0--6244838374839202339.wt", Collection),
            ("index-12-8123456789.wt", Index),
            ("collection-{u}.wt", Collection),
            ("index-{u}.wt", Index),
            ("./index-{u}.wt", Index),
            // directoryPerDB.
            ("shop/collection-7-42.wt", Collection),
            ("shop/index-8-42.wt", Index),
            ("shop/index-{u}.wt", Index),
            // directoryForIndexes.
            ("collection/7-42.wt", Collection),
            ("index/8-42.wt", Index),
            ("index/{u}.wt", Index),
            // Both.
            ("shop/collection/7-42.wt", Collection),
            ("shop/index/{u}.wt", Index),
            // Databases with the names of kinds.
            ("index/collection-7-42.wt", Collection),
            ("collection/index-8-42.wt", Index),
            ("index/collection/7-42.wt", Collection),
            ("collection/index/8-42.wt", Index),
            ("index/index/8-42.wt", Index),
            ("journal/collection-7-42.wt", Collection),
            // The journal.
            ("journal/WiredTigerLog.0000000001", Journal),
            ("journal/WiredTigerPreplog.0000000002", Journal),
            ("journal/WiredTigerTmplog.0000000003", Journal),
            ("WiredTigerLog.0000000001", Journal),
            ("shop/WiredTigerLog.0000000001", Other),
            ("journal/WiredTigerLog.", Other),
            ("journal/WiredTigerLog.1.wt", Other),
            // WiredTiger's and MongoDB's own.
            ("WiredTiger", Other),
            ("WiredTiger.wt", Other),
            ("WiredTiger.turtle", Other),
            ("WiredTiger.turtle.set", Other),
            ("WiredTigerHS.wt", Other),
            ("WiredTiger.lock", Other),
            ("_mdb_catalog.wt", Other),
            ("sizeStorer.wt", Other),
            // The database of what 8.2 spills
            ("_tmp/spilldb/internal-7-42.wt", Other),
            ("_tmp/spilldb/WiredTigerLog.0000000001", Other),
            ("mongod.lock", Other),
            ("storage.bson", Other),
            ("diagnostic.data/metrics.interim", Other),
            ("internal-7-42.wt", Other),
            ("internal-{u}.wt", Other),
            ("internal-collection-7-42.wt", Other),
            // What only looks like it.
            ("my-collection-7-42.wt", Other),
            ("collection-7-42.wt.bak", Other),
            ("collection-7-42", Other),
            ("collection-7.wt", Other),
            ("collection-7-x.wt", Other),
            ("collection--42.wt", Other),
            ("collection-7-.wt", Other),
            ("collection-7---42.wt", Other),
            ("collections-7-42.wt", Other),
            ("Collection-7-42.wt", Other),
            ("7-42.wt", Other),
            ("shop/7-42.wt", Other),
            ("index/shop/7-42.wt", Other),
            ("a/b/collection-7-42.wt", Other),
            ("a/b/index/7-42.wt", Other),
            ("../collection-7-42.wt", Other),
            ("collection-{u}0.wt", Other),
            ("index-0f0f1e2d-3c4b-5a69-7887-96a5b4c3d2eg.wt", Other),
            ("", Other),
        ];
        for (path, class) in cases {
            let path = path.replace("{u}", UUID);
            assert_eq!(classify(Path::new(&path)), class, "{path}");
        }
        let strange = Path::new(OsStr::from_bytes(b"index-7-42\xff.wt"));
        assert_eq!(classify(strange), Other);
    }

    /// What the data directories of servers have, from the first to the last
    /// version with a kind of name.
    #[test]
    fn the_names_of_each_server_version() {
        use Class::{Collection, Index, Journal, Other};
        type Names = &'static [(&'static str, Class)];
        const ALL: Names = &[
            ("WiredTiger", Other),
            ("WiredTiger.lock", Other),
            ("WiredTiger.turtle", Other),
            ("WiredTiger.wt", Other),
            ("_mdb_catalog.wt", Other),
            ("sizeStorer.wt", Other),
            ("mongod.lock", Other),
            ("storage.bson", Other),
            ("journal/WiredTigerLog.0000000012", Journal),
            ("journal/WiredTigerPreplog.0000000002", Journal),
            ("diagnostic.data/metrics.2026-01-02T03-04-05Z-00000", Other),
            ("diagnostic.data/metrics.interim", Other),
        ];
        /// Counter and signed random number.
        const SIGNED: Names = &[
            ("collection-0--6244838374839202339.wt", Collection),
            ("index-1--6244838374839202339.wt", Index),
            ("shop/collection-2-7316578932109876543.wt", Collection),
            ("shop/index-3-7316578932109876543.wt", Index),
            ("shop/collection/2--7316578932109876543.wt", Collection),
            ("shop/index/3--7316578932109876543.wt", Index),
            ("collection/0-12345.wt", Collection),
            ("index/1-12345.wt", Index),
        ];
        /// Counter and unsigned random number.
        const UNSIGNED: Names = &[
            ("collection-0-18446744073709551615.wt", Collection),
            ("index-1-18446744073709551615.wt", Index),
            ("shop/collection/2-18446744073709551615.wt", Collection),
        ];
        const LOOKASIDE: Names = &[("WiredTigerLAS.wt", Other)];
        const HISTORY: Names = &[("WiredTigerHS.wt", Other)];
        /// Index builds that can go on after a restart.
        const INTERNAL: Names = &[
            ("internal-5-4834923874923874.wt", Other),
            ("internal-resumable-index-build-6-4834923874923874.wt", Other),
            ("_tmp/extsort-index.12-345", Other),
        ];
        const UUID: Names = &[
            ("collection-0f0f1e2d-3c4b-5a69-7887-96a5b4c3d2e1.wt", Collection),
            ("index-0f0f1e2d-3c4b-5a69-7887-96a5b4c3d2e2.wt", Index),
            (
                "shop/collection-0f0f1e2d-3c4b-5a69-7887-96a5b4c3d2e1.wt",
                Collection,
            ),
            ("shop/index/0f0f1e2d-3c4b-5a69-7887-96a5b4c3d2e2.wt", Index),
            ("internal-0f0f1e2d-3c4b-5a69-7887-96a5b4c3d2e3.wt", Other),
            (
                "internal-resumable-index-build-0f0f1e2d-3c4b-5a69-7887-96a5b4c3d2e4.wt",
                Other,
            ),
        ];
        let versions: [(&str, &[Names]); 7] = [
            ("3.2", &[ALL, SIGNED, LOOKASIDE]),
            ("3.6 to 4.2", &[ALL, SIGNED, LOOKASIDE]),
            ("4.4", &[ALL, SIGNED, HISTORY, INTERNAL]),
            ("5.0 and 6.0", &[ALL, SIGNED, HISTORY, INTERNAL]),
            ("7.0", &[ALL, SIGNED, UNSIGNED, HISTORY, INTERNAL]),
            ("8.0", &[ALL, SIGNED, UNSIGNED, HISTORY, INTERNAL]),
            // Tables that were made before stay as they are.
            ("8.2", &[ALL, SIGNED, UNSIGNED, UUID, HISTORY, INTERNAL]),
        ];
        for (version, kinds) in versions {
            for (path, class) in kinds.iter().copied().flatten() {
                assert_eq!(classify(Path::new(path)), *class, "MongoDB {version}: {path}");
            }
        }
    }
}

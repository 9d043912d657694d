// SPDX-License-Identifier: GPL-2.0-or-later
//! How large documents are, and in which collections smaller leaf pages may be better.
//!
//! mongod stores the number of records and of bytes of each collection in `sizeStorer.wt`, a
//! table like others: by the collection's address in WiredTiger, as BSON.  It is up to a
//! minute old, and nothing that a discard may depend on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::files::Dbpath;
use super::{FileEntry, FreeList, Refusal, Snapshot};
use files::walk::Root;
use runtime::pulse::Pulse;
use runtime::sizes;

const NAME: &str = "sizeStorer.wt";
/// From these on smaller leaf pages may be better, by the tables of Documentation/results.md:
/// the page, in bytes, and the listed share, which says how much is rewritten.
pub const LARGE_LEAF: u32 = 16 << 10;
const REWRITTEN: f64 = 0.15;
/// Up to this size: of larger documents a page of 4 or 8 KiB has one or two.
const SMALL_DOCUMENT: u64 = 2 << 10;

/// The mean size of a document in bytes, by the collection's file.
pub type Documents = HashMap<PathBuf, u64>;

/// What `sizeStorer.wt` of this checkpoint says: nothing, if the database has none.
///
/// # Errors
///
/// It is damaged, or a newer checkpoint has taken its place.
pub fn documents(root: &Root, snapshot: &Snapshot) -> Result<Documents, Refusal> {
    let dbpath = Dbpath::open(root, &Pulse::default())?;
    let mut found = Documents::new();
    let Some(file) = snapshot.files.iter().find(|f| f.path == Path::new(NAME)) else {
        return Ok(found);
    };
    let mut each = |key: &[u8], value: &[u8]| {
        let ident = std::str::from_utf8(key)
            .ok()
            .and_then(|k| k.strip_prefix("table:"));
        if let (Some(ident), Some(mean)) = (ident, mean(value)) {
            let name = format!("{ident}.wt");
            // They are sorted; no memory for others.
            let known = snapshot.files.binary_search_by(|f| f.name().cmp(name.as_bytes()));
            if known.is_ok() {
                found.insert(PathBuf::from(name), mean);
            }
        }
        Ok(())
    };
    dbpath.walk(file, snapshot.version, &mut each)?;
    Ok(found)
}

/// Of a record of `sizeStorer.wt`; `None`: the collection is empty.
fn mean(record: &[u8]) -> Option<u64> {
    let [count, bytes] = ["numRecords", "dataSize"].map(|name| number(record, name));
    bytes?.checked_div(count?)
}

/// A number in a BSON document that has nothing but numbers.
fn number(document: &[u8], name: &str) -> Option<u64> {
    let mut rest = document.get(4..)?;
    loop {
        let (kind, after) = rest.split_first()?;
        let end = after.iter().position(|b| *b == 0)?;
        let (key, value) = (&after[..end], &after[end + 1..]);
        let width = if *kind == 0x10 { 4 } else { 8 };
        let bytes = value.get(..width)?;
        if key == name.as_bytes() {
            return match kind {
                0x01 => Some(f64::from_le_bytes(bytes.try_into().ok()?) as u64),
                0x10 => i32::from_le_bytes(bytes.try_into().ok()?).try_into().ok(),
                0x12 => i64::from_le_bytes(bytes.try_into().ok()?).try_into().ok(),
                _ => None,
            };
        }
        if !matches!(kind, 0x01 | 0x10 | 0x12) {
            return None;
        }
        rest = &value[width..];
    }
}

/// Whether smaller leaf pages may be better for a file: it has large ones, is rewritten much,
/// and its documents are small, as far as that is known.
pub fn wants_smaller_leaves(file: &FileEntry, list: &FreeList, documents: &Documents) -> bool {
    let share = list.bytes() as f64 / list.file_size.max(1) as f64;
    let small = documents
        .get(&file.path)
        .is_none_or(|mean| *mean <= SMALL_DOCUMENT);
    file.leaf_page >= Some(LARGE_LEAF) && share >= REWRITTEN && small
}

/// What is said of so many files for which smaller leaf pages may be better.
pub fn large_leaves(files: usize) -> String {
    let (noun, are, have) = match files {
        1 => ("file", "is", "has"),
        _ => ("files", "are", "have"),
    };
    format!(
        "{files} {noun} {are} written in leaf pages of {} and more, {are} rewritten much, and {have} small \
         documents, as far as is known",
        sizes::shown(LARGE_LEAF.into())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(fields: &[(u8, &str, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        for (kind, name, value) in fields {
            bytes.push(*kind);
            bytes.extend(name.as_bytes());
            bytes.push(0);
            bytes.extend(*value);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn numbers_of_any_type() {
        let count = (0x12, "numRecords", &4_i64.to_le_bytes()[..]);
        let long = (0x12, "dataSize", &1000_i64.to_le_bytes()[..]);
        let int = (0x10, "dataSize", &1000_i32.to_le_bytes()[..]);
        let double = (0x01, "dataSize", &1000_f64.to_le_bytes()[..]);
        for size in [long, int, double] {
            assert_eq!(mean(&document(&[count, size])), Some(250));
            assert_eq!(mean(&document(&[size, count])), Some(250));
        }
    }

    #[test]
    fn what_is_not_known() {
        let size = (0x12, "dataSize", &1000_i64.to_le_bytes()[..]);
        let negative = (0x12, "numRecords", &(-1_i64).to_le_bytes()[..]);
        let none = (0x12, "numRecords", &0_i64.to_le_bytes()[..]);
        let text = (0x02, "numRecords", &b"\x02\0\0\0x\0"[..]);
        for count in [negative, none, text] {
            assert_eq!(mean(&document(&[size, count])), None);
        }
        let whole = document(&[size, (0x12, "numRecords", &4_i64.to_le_bytes()[..])]);
        for end in 0..whole.len() - 1 {
            assert_eq!(mean(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn small_documents_in_large_pages_that_are_rewritten() {
        let file = |leaf_page| FileEntry {
            path: "collection-0-1.wt".into(),
            order: 1,
            cookie: None,
            leaf_page,
        };
        let list = |free: u64| FreeList {
            file: (1, 1),
            file_size: 100,
            extents: std::iter::once(0..free).collect(),
        };
        let documents = |mean: u64| Documents::from([("collection-0-1.wt".into(), mean)]);
        let wants = |leaf, free, documents| wants_smaller_leaves(&file(leaf), &list(free), &documents);
        assert!(wants(Some(32 << 10), 15, documents(500)));
        assert!(wants(Some(32 << 10), 15, Documents::new()), "nobody knows");
        assert!(!wants(Some(32 << 10), 15, documents(3000)));
        assert!(!wants(Some(32 << 10), 14, documents(500)));
        assert!(!wants(Some(8 << 10), 15, documents(500)));
        assert!(!wants(None, 15, documents(500)));
    }

    #[test]
    fn one_file_and_more() {
        assert!(large_leaves(1)
            .starts_with("1 file is written in leaf pages of 16 KiB and more, is rewritten much, and has"));
        assert!(large_leaves(2).starts_with(
            "2 files are written in leaf pages of 16 KiB and more, are rewritten much, and have"
        ));
    }
}

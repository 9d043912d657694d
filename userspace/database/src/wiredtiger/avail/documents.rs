// SPDX-License-Identifier: GPL-2.0-or-later
//! How large documents are, and in which collections smaller leaf pages may be better.
//!
//! mongod stores the number of records and of bytes of each collection in `sizeStorer.wt`, a
//! table like others: by the collection's address in WiredTiger, as BSON.  It is up to a
//! minute old, and nothing that a discard may depend on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::files::Dbpath;
use super::{Refusal, Snapshot};
use crate::walk::Root;
use runtime::pulse::Pulse;

const NAME: &str = "sizeStorer.wt";
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

/// Whether documents are so small that a page of 8 KiB has several; so many do not matter that
/// nothing is known of.
pub fn are_small(mean: Option<u64>) -> bool {
    mean.is_none_or(|mean| mean <= SMALL_DOCUMENT)
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
}

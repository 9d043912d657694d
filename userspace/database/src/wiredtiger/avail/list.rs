// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists of free blocks as they are in a file.
//!
//! Pairs of packed numbers, bytes: (71002, 0), an offset and a size for each
//! extent, (0, version).  The newer versions go on with what salvage needs.  It is
//! two lists, one after the other: what was free already, and what the checkpoint
//! has freed.  And it is written before its own block is taken from it, so that
//! it may name that block.

use std::ops::Range;

use super::bytes::Bytes;
use super::cookie::Cookie;
use super::{damaged, unsupported, Refusal};

const MAGIC: u64 = 71002;
/// Extents of all lists that are read at one look, of 16 bytes each.
pub(super) const MAX_EXTENTS: usize = 1 << 25;
const VERSIONS: std::ops::RangeInclusive<u64> = 0..=1;

/// The extents of `data`, at most as many as this: sorted, disjoint, merged, without the
/// list's own block.
pub fn parse(data: &[u8], cookie: &Cookie, most: usize) -> Result<Vec<Range<u64>>, Refusal> {
    let mut b = Bytes(data);
    let mut pair = || {
        let mut both = || Some((b.uint()?, b.uint()?));
        both().ok_or_else(|| damaged("a list of free blocks is cut off"))
    };
    if pair()? != (MAGIC, 0) {
        return Err(damaged("invalid header of a list of free blocks"));
    }
    let alloc = u64::from(cookie.alloc);
    let mut extents: Vec<Range<u64>> = Vec::new();
    loop {
        let (offset, size) = pair()?;
        if offset == 0 {
            if !VERSIONS.contains(&size) {
                return Err(unsupported(format!(
                    "its lists of free blocks are of version {size}, and 0 and 1 are supported"
                )));
            }
            break;
        }
        let end = offset.checked_add(size).filter(|end| *end <= cookie.file_size);
        let end = end.filter(|_| size > 0 && offset % alloc == 0 && size % alloc == 0);
        let end = end.ok_or_else(|| {
            damaged(format!(
                "a list of free blocks has one at {offset} of {size} bytes, in a file of {} bytes in units of {alloc}",
                cookie.file_size
            ))
        })?;
        if extents.len() >= most {
            return Err(unsupported(format!(
                "with it the lists of free blocks have more than {MAX_EXTENTS} extents"
            )));
        }
        extents.push(offset..end);
    }
    extents.sort_unstable_by_key(|e| e.start);
    if let Some(pair) = extents.windows(2).find(|p| p[0].end > p[1].start) {
        return Err(damaged(format!(
            "a list of free blocks has the one at {} twice",
            pair[1].start
        )));
    }
    let own = cookie.avail.map_or(0..0, |a| a.offset..a.end());
    merge(&mut extents);
    cut(&mut extents, &own);
    extents.shrink_to_fit();
    Ok(extents)
}

fn merge(extents: &mut Vec<Range<u64>>) {
    extents.dedup_by(|next, last| {
        let joins = last.end == next.start;
        if joins {
            last.end = next.end;
        }
        joins
    });
}

/// Takes `own` out of extents that are sorted and disjoint.
fn cut(extents: &mut Vec<Range<u64>>, own: &Range<u64>) {
    let from = extents.partition_point(|e| e.end <= own.start);
    let to = extents.partition_point(|e| e.start < own.end);
    if let [first, ..] = &extents[from..to] {
        let (left, right) = (first.start..own.start, own.end..extents[to - 1].end);
        let rest = [left, right].into_iter().filter(|e| !e.is_empty());
        extents.splice(from..to, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn pack(n: u64) -> Vec<u8> {
        match n {
            0..=63 => vec![0x80 | n as u8],
            64..=8255 => vec![0xc0 | ((n - 64) >> 8) as u8, (n - 64) as u8],
            _ => {
                let n = n - 8256;
                let length = 8 - n.leading_zeros() as usize / 8;
                let mut bytes = vec![0xe0 | length as u8];
                bytes.extend(&n.to_be_bytes()[8 - length..]);
                bytes
            }
        }
    }

    fn packed(pairs: &[(u64, u64)]) -> Vec<u8> {
        pairs
            .iter()
            .flat_map(|(a, b)| [pack(*a), pack(*b)].concat())
            .collect()
    }

    /// Of a file of 16 units of 4 KiB, whose list is in unit 3.
    fn cookie() -> Cookie {
        let hex = |bytes: Vec<u8>| {
            bytes
                .iter()
                .fold(String::new(), |hex, b| hex + &format!("{b:02x}"))
        };
        let numbers = [0, 0, 0, 0, 0, 0, 2, 1, 99, 0, 0, 0, 16 * 4096, 0];
        let bytes = numbers.iter().flat_map(|n| pack(*n)).collect();
        Cookie::parse(&(String::from("01") + &hex(bytes)), 4096).unwrap()
    }

    fn units(pairs: &[(u64, u64)], version: u64) -> Result<Vec<(u64, u64)>, Refusal> {
        let mut all = vec![(MAGIC, 0)];
        all.extend(pairs.iter().map(|(at, n)| (at * 4096, n * 4096)));
        all.push((0, version));
        let list = parse(&packed(&all), &cookie(), 9)?;
        Ok(list.iter().map(|e| (e.start / 4096, e.end / 4096)).collect())
    }

    #[test]
    fn two_lists_one_after_the_other() {
        let list = units(&[(5, 1), (10, 2), (1, 1), (6, 2), (13, 1)], 1).unwrap();
        assert_eq!(list, [(1, 2), (5, 8), (10, 12), (13, 14)]);
        assert_eq!(units(&[], 0).unwrap(), []);
    }

    #[test]
    fn a_list_names_its_own_block() {
        assert_eq!(units(&[(2, 4)], 1).unwrap(), [(2, 3), (4, 6)]);
        assert_eq!(units(&[(3, 1)], 1).unwrap(), []);
        assert_eq!(units(&[(3, 2)], 1).unwrap(), [(4, 5)]);
        assert_eq!(units(&[(1, 3)], 1).unwrap(), [(1, 3)]);
        assert_eq!(units(&[(1, 2), (4, 1)], 1).unwrap(), [(1, 3), (4, 5)]);
    }

    #[test]
    fn a_list_has_no_more_extents_than_there_is_room_for() {
        let pairs: Vec<(u64, u64)> = (0..8).map(|n| (4096 * n + 4096, 4096)).collect();
        let of = |most| {
            let all = [&[(MAGIC, 0)][..], &pairs, &[(0, 1)]].concat();
            parse(&packed(&all), &cookie(), most)
        };
        // Two are its own and the one that it is cut from.
        assert_eq!(of(8).unwrap().len(), 2);
        assert_eq!(of(7).unwrap_err().kind, Kind::Unsupported);
    }

    #[test]
    fn lists_that_are_refused() {
        let why = |pairs: &[(u64, u64)]| {
            let e = parse(&packed(pairs), &cookie(), 9).unwrap_err();
            (e.kind, e.message)
        };
        let damaged = |s: &str| (Kind::Damaged, s.to_owned());
        assert_eq!(why(&[(MAGIC, 0)]), damaged("a list of free blocks is cut off"));
        assert_eq!(why(&[]), damaged("a list of free blocks is cut off"));
        assert_eq!(
            why(&[(4096, 4096), (0, 1)]),
            damaged("invalid header of a list of free blocks")
        );
        assert_eq!(
            why(&[(MAGIC, 0), (0, 2)]),
            (
                Kind::Unsupported,
                "its lists of free blocks are of version 2, and 0 and 1 are supported".into()
            )
        );
        for bad in [
            (4095, 4096),
            (4096, 100),
            (4096, 0),
            (16 * 4096, 4096),
            (4096, u64::MAX - 4095),
            (15 * 4096, 8192),
        ] {
            assert_eq!(
                why(&[(MAGIC, 0), bad, (0, 1)]),
                damaged(&format!(
                    "a list of free blocks has one at {} of {} bytes, in a file of 65536 bytes in units of 4096",
                    bad.0, bad.1
                ))
            );
        }
        assert_eq!(
            units(&[(1, 2), (2, 1)], 1).unwrap_err().message,
            "a list of free blocks has the one at 8192 twice"
        );
    }
}

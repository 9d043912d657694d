// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks, and the cells of a page of the metadata.
//!
//! A block begins with the page's header (28 bytes) and the block's own (12):
//! bytes in memory at 16, cells or bytes of data at 20, the type at 24, flags at
//! 25; bytes on disk at 28, the checksum at 32, the block's flags at 36.

use super::bytes::{u32_at, Bytes};
use super::cookie::Addr;
use super::{damaged, unsupported, Refusal};

pub const HEADER: usize = 40;
/// Without this flag the checksum is that of so many bytes.
const COVERED: usize = 64;
const ALL_COVERED: u8 = 1;

pub const LIST: u8 = 1;
pub(crate) const OVERFLOW: u8 = 5;
pub(crate) const INTERNAL: u8 = 6;
pub const LEAF: u8 = 7;

const COMPRESSED: u8 = 0x01;
const ENCRYPTED: u8 = 0x08;
const FAST_TRUNCATE: u8 = 0x20;

/// A block that is what its address says.
#[derive(Debug)]
pub struct Block(Vec<u8>);

impl Block {
    /// Checks what was read.
    pub fn check(mut bytes: Vec<u8>, addr: &Addr) -> Result<Self, Refusal> {
        let bad = |why: &str| damaged(format!("the block at {} {why}", addr.offset));
        if bytes.len() != addr.size as usize || bytes.len() < COVERED {
            return Err(bad("is cut off"));
        }
        let (size, checksum) = (u32_at(&bytes, 28), u32_at(&bytes, 32));
        if size != Some(addr.size) || checksum != Some(addr.checksum) {
            return Err(bad("is another one"));
        }
        bytes[32..36].fill(0);
        let covered = if bytes[36] & ALL_COVERED != 0 {
            &bytes[..]
        } else {
            &bytes[..COVERED]
        };
        if crc32c::crc32c(covered) != addr.checksum {
            return Err(bad("does not fit its checksum"));
        }
        let block = Self(bytes);
        if block.flags() & ENCRYPTED != 0 {
            return Err(unsupported("the database is encrypted"));
        }
        if block.flags() & COMPRESSED != 0 {
            return Err(unsupported("the database's metadata is compressed"));
        }
        Ok(block)
    }

    pub fn kind(&self) -> u8 {
        self.0[24]
    }

    fn flags(&self) -> u8 {
        self.0[25]
    }

    /// What an overflow block and a list have behind the header.
    pub fn data(&self) -> Result<&[u8], Refusal> {
        let length = u32_at(&self.0, 20).unwrap_or_default() as usize;
        self.0[HEADER..]
            .get(..length)
            .ok_or_else(|| damaged("a block has more data than bytes"))
    }

    /// The cells of a page.  `old`: written by WiredTiger 3.
    pub fn cells(&self, old: bool) -> Result<Cells<'_>, Refusal> {
        let end = u32_at(&self.0, 16).unwrap_or_default() as usize;
        let body = self
            .0
            .get(HEADER..end)
            .ok_or_else(|| damaged("a page has more data than bytes"))?;
        Ok(Cells {
            body: Bytes(body),
            left: u32_at(&self.0, 20).unwrap_or_default(),
            fast_truncate: self.flags() & FAST_TRUNCATE != 0,
            old,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// A key: as many bytes of the one before, and these.
    Key(u8, &'a [u8]),
    /// A key that is in a block of its own, which has this address.
    KeyAt(&'a [u8]),
    Value(&'a [u8]),
    ValueAt(&'a [u8]),
    /// The address of a page below.
    Child(&'a [u8]),
    /// Nothing that matters.
    Deleted,
}

pub struct Cells<'a> {
    body: Bytes<'a>,
    left: u32,
    fast_truncate: bool,
    old: bool,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Result<Cell<'a>, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let cell = self.cell();
        if cell.is_err() {
            self.left = 0;
        }
        Some(cell)
    }
}

// Lengths from here on are those of keys and values too long for a short cell.
const ADJUST: u64 = 64;
const SECOND_DESCRIPTOR: u8 = 8;
const RUN_LENGTH: u8 = 4;

impl<'a> Cells<'a> {
    fn cell(&mut self) -> Result<Cell<'a>, Refusal> {
        let cut = || damaged("a cell reaches beyond its page");
        let b = &mut self.body;
        let first = b.byte().ok_or_else(cut)?;
        let short = u64::from(first >> 2);
        match first & 3 {
            1 => return Ok(Cell::Key(0, b.take(short).ok_or_else(cut)?)),
            2 => {
                let prefix = b.byte().ok_or_else(cut)?;
                return Ok(Cell::Key(prefix, b.take(short).ok_or_else(cut)?));
            }
            3 => return Ok(Cell::Value(b.take(short).ok_or_else(cut)?)),
            _ => {}
        }
        let kind = first >> 4;
        let prefix = if kind == 7 { b.byte().ok_or_else(cut)? } else { 0 };
        let windowed = matches!(kind, 0..=4 | 8..=11) && first & SECOND_DESCRIPTOR != 0;
        if windowed {
            // A number for each of the flags that stand for one.
            let flags = b.byte().ok_or_else(cut)?;
            let (numbers, known) = if self.old { (0x1f, 0x1f) } else { (0x7e, 0x7f) };
            if flags & !known != 0 {
                return Err(unsupported(format!(
                    "a cell of the metadata has flags {flags:#04x}"
                )));
            }
            for _ in 0..(flags & numbers).count_ones() {
                b.uint().ok_or_else(cut)?;
            }
        }
        if kind == 0 && self.fast_truncate {
            for _ in 0..3 {
                b.uint().ok_or_else(cut)?;
            }
        }
        let run = if first & RUN_LENGTH != 0 {
            b.uint().ok_or_else(cut)?
        } else {
            0
        };
        if kind == 4 {
            return Ok(Cell::Deleted);
        }
        let adjusted = matches!(kind, 5 | 7) || (kind == 8 && run == 0 && !windowed);
        let length = b.uint().ok_or_else(cut)?;
        let length = length.checked_add(if adjusted { ADJUST } else { 0 });
        // 9 has the distance to another value in place of a length.
        if kind == 9 {
            return Err(unsupported("the database's metadata has a dictionary"));
        }
        let data = length.and_then(|n| b.take(n)).ok_or_else(cut)?;
        match kind {
            5 | 7 => Ok(Cell::Key(prefix, data)),
            6 | 12 => Ok(Cell::KeyAt(data)),
            8 => Ok(Cell::Value(data)),
            10 | 11 => Ok(Cell::ValueAt(data)),
            1..=3 => Ok(Cell::Child(data)),
            0 => Ok(Cell::Deleted),
            _ => Err(damaged(format!("a cell of type {kind}"))),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::Kind;
    use super::*;

    /// A page with these cells, and its address.
    pub fn page(kind: u8, flags: u8, entries: u32, body: &[u8]) -> (Vec<u8>, Addr) {
        let mut bytes = vec![0; (HEADER + body.len()).next_multiple_of(512)];
        let size = bytes.len() as u32;
        bytes[16..20].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&entries.to_le_bytes());
        bytes[24] = kind;
        bytes[25] = flags;
        bytes[28..32].copy_from_slice(&size.to_le_bytes());
        bytes[36] = ALL_COVERED;
        bytes[HEADER..HEADER + body.len()].copy_from_slice(body);
        let checksum = crc32c::crc32c(&bytes);
        bytes[32..36].copy_from_slice(&checksum.to_le_bytes());
        let addr = Addr {
            offset: 4096,
            size,
            checksum,
        };
        (bytes, addr)
    }

    fn cells(body: &[u8], entries: u32, old: bool) -> Result<Vec<String>, Refusal> {
        let (bytes, addr) = page(LEAF, 0, entries, body);
        let block = Block::check(bytes, &addr)?;
        let cells: Result<Vec<String>, Refusal> =
            block.cells(old)?.map(|c| Ok(format!("{:?}", c?))).collect();
        cells
    }

    #[test]
    fn a_block_is_what_its_address_says() {
        let (good, addr) = page(LEAF, 0, 0, b"abc");
        assert_eq!(Block::check(good.clone(), &addr).unwrap().kind(), LEAF);
        let why = |bytes: Vec<u8>, addr: Addr| Block::check(bytes, &addr).unwrap_err();
        assert_eq!(
            why(good[..256].to_vec(), addr).message,
            "the block at 4096 is cut off"
        );
        let other = Addr { checksum: 1, ..addr };
        assert_eq!(
            why(good.clone(), other).message,
            "the block at 4096 is another one"
        );
        let mut longer = good.clone();
        longer[28..32].copy_from_slice(&1024u32.to_le_bytes());
        longer[32..36].fill(0);
        let checksum = crc32c::crc32c(&longer);
        longer[32..36].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(
            why(longer, Addr { checksum, ..addr }).message,
            "the block at 4096 is another one"
        );
        for at in [0, 24, 27, 36, HEADER + 1, 511] {
            let mut bad = good.clone();
            bad[at] ^= 2;
            let e = why(bad, addr);
            assert_eq!(e.kind, Kind::Damaged);
            assert_eq!(e.message, "the block at 4096 does not fit its checksum", "{at}");
        }
        for (flags, reason) in [
            (ENCRYPTED, "the database is encrypted"),
            (COMPRESSED, "the database's metadata is compressed"),
        ] {
            let (bytes, addr) = page(LEAF, flags, 0, b"");
            let e = why(bytes, addr);
            assert_eq!((e.kind, e.message.as_str()), (Kind::Unsupported, reason));
        }
    }

    #[test]
    fn only_the_head_is_covered_without_the_flag() {
        let (mut bytes, mut addr) = page(LEAF, 0, 0, b"");
        bytes[36] = 0;
        bytes[32..36].fill(0);
        addr.checksum = crc32c::crc32c(&bytes[..COVERED]);
        bytes[32..36].copy_from_slice(&addr.checksum.to_le_bytes());
        bytes[COVERED] ^= 1;
        Block::check(bytes.clone(), &addr).unwrap();
        bytes[COVERED - 1] ^= 1;
        Block::check(bytes, &addr).unwrap_err();
    }

    #[test]
    fn cells_of_each_kind() {
        let mut long = vec![0x50, 0x81];
        long.extend([b'x'; 65]);
        let mut value = vec![0x80, 0x80];
        value.extend([b'y'; 64]);
        for (body, old, seen) in [
            (&[0x09, b'a', b'b'][..], false, "Key(0, [97, 98])"),
            (&[0x06, 3, b'a'], false, "Key(3, [97])"),
            (&[0x0b, b'a', b'b'], false, "Value([97, 98])"),
            (&[0x10, 0x82, 1, 2], false, "Child([1, 2])"),
            (&[0x60, 0x81, 9], false, "KeyAt([9])"),
            (&[0xa0, 0x81, 9], false, "ValueAt([9])"),
            // A validity window of two numbers, then a length as it is.
            (&[0x88, 0x22, 0x81, 0x82, 0x81, 7], false, "Value([7])"),
            (&[0x88, 0x03, 0x81, 0x82, 0x81, 7], true, "Value([7])"),
            (&[0x38, 0x02, 0x85, 0x81, 7], false, "Child([7])"),
            (&[0x40], false, "Deleted"),
        ] {
            assert_eq!(cells(body, 1, old).unwrap(), [seen], "{body:x?}");
        }
        assert!(cells(&long, 1, false).unwrap()[0].starts_with("Key(0, [120, "));
        let mut prefixed = vec![0x70, 4, 0x81];
        prefixed.extend([b'x'; 65]);
        assert!(cells(&prefixed, 1, false).unwrap()[0].starts_with("Key(4, [120, "));
        assert!(cells(&value, 1, false).unwrap()[0].starts_with("Value([121, "));
        assert_eq!(cells(&[0x05, b'a', 0x03], 2, false).unwrap().len(), 2);
    }

    #[test]
    fn cells_that_are_refused() {
        for (body, why) in [
            (&[0x09, b'a'][..], "a cell reaches beyond its page"),
            (&[0x06], "a cell reaches beyond its page"),
            (&[0x50, 0x80, 1], "a cell reaches beyond its page"),
            (
                &[0x50, 0xe8, 255, 255, 255, 255, 255, 255, 255, 255],
                "a cell reaches beyond its page",
            ),
            (&[0xd0, 0x80], "a cell of type 13"),
            (&[0x90, 0x80], "the database's metadata has a dictionary"),
            (&[0x88, 0x80, 0x80], "a cell of the metadata has flags 0x80"),
        ] {
            assert_eq!(cells(body, 1, false).unwrap_err().message, why, "{body:x?}");
        }
        // Fewer cells than the header says.
        assert!(cells(&[0x05, b'a'], 2, false).is_err());
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses of blocks and of checkpoints, which WiredTiger calls cookies.

use super::bytes::Bytes;
use super::{damaged, unsupported, Refusal};

/// Longer blocks are not believed: WiredTiger's largest page has 512 MiB, but
/// neither a page of its metadata nor a list needs that.
pub(crate) const MAX_BLOCK: u32 = 64 << 20;
/// Longer blocks have no holes.
pub(crate) const DENSE: u32 = 64 << 10;
/// WiredTiger's own limits of a unit of allocation.
const ALLOC: std::ops::RangeInclusive<u32> = 512..=128 << 20;

/// WiredTiger's own limit of `buffer_alignment`.
const WIDEST: u32 = 1 << 20;

/// A block: bytes, and the checksum of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addr {
    pub offset: u64,
    pub size: u32,
    pub checksum: u32,
}

impl Addr {
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.size)
    }

    /// `None`: the address of nothing.
    fn read(b: &mut Bytes, alloc: u32) -> Result<Option<Self>, Refusal> {
        let mut numbers = || Some([b.uint()?, b.uint()?, b.uint()?]);
        let [offset, size, checksum] = numbers().ok_or_else(|| damaged("an address is cut off"))?;
        if size == 0 {
            return Ok(None);
        }
        // Units are counted from behind the file's description.
        let alloc = u64::from(alloc);
        let place = offset.checked_add(1).and_then(|n| n.checked_mul(alloc));
        let size = size
            .checked_mul(alloc)
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n <= MAX_BLOCK)
            .ok_or_else(|| damaged("the address of a block that is larger than 64 MiB"))?;
        let offset = place
            .filter(|p| p.checked_add(u64::from(size)).is_some_and(|end| end < 1 << 63))
            .ok_or_else(|| damaged("invalid block address"))?;
        let checksum = u32::try_from(checksum).map_err(|_| damaged("a checksum of more than 32 bits"))?;
        Ok(Some(Self {
            offset,
            size,
            checksum,
        }))
    }

    /// What a page of the metadata has: one address.
    pub fn parse(bytes: &[u8], alloc: u32) -> Result<Option<Self>, Refusal> {
        let mut b = Bytes(bytes);
        let addr = Self::read(&mut b, alloc)?;
        if !b.is_empty() {
            return Err(objects());
        }
        Ok(addr)
    }
}

fn objects() -> Refusal {
    unsupported("its blocks have object ids: tiered storage is not supported")
}

/// Where a checkpoint of a file is.  One that differs is another checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cookie {
    /// Bytes in a unit of allocation.
    pub alloc: u32,
    /// Where the list of free blocks is; `None`: it is empty.
    pub avail: Option<Addr>,
    /// Bytes in the file at the checkpoint.
    pub file_size: u64,
    /// Where the tree begins; `None`: it is empty.
    pub root: Option<Addr>,
    /// All that identifies it.
    bytes: Box<[u8]>,
}

impl Cookie {
    /// From the text of a checkpoint's `addr`.
    pub fn parse(hex: &str, alloc: u32) -> Result<Self, Refusal> {
        if !alloc.is_power_of_two() || !ALLOC.contains(&alloc) {
            return Err(damaged(format!("a unit of allocation of {alloc} bytes")));
        }
        let bytes = unhex(hex).ok_or_else(|| damaged("the address of a checkpoint is not hexadecimal"))?;
        Self::of(bytes.into(), alloc)
    }

    /// The same in larger units of allocation.  Up to 11.3 WiredTiger takes its
    /// `buffer_alignment` (at most 1 MiB) in place of a smaller `allocation_size` when it
    /// writes by direct I/O, and the metadata does not show that.
    pub(super) fn wider(&self) -> impl Iterator<Item = Self> + '_ {
        let units = std::iter::successors(self.alloc.checked_mul(2), |n| n.checked_mul(2));
        let units = units.take_while(|n| *n <= WIDEST);
        units.filter_map(|alloc| Self::of(self.bytes.clone(), alloc).ok())
    }

    fn of(bytes: Box<[u8]>, alloc: u32) -> Result<Self, Refusal> {
        let mut b = Bytes(&bytes);
        match b.byte() {
            Some(1) => {}
            Some(n) => {
                return Err(unsupported(format!(
                    "its checkpoints have addresses of version {n}, and 1 is supported"
                )))
            }
            None => return Err(damaged("the address of a checkpoint is empty")),
        }
        let root = Addr::read(&mut b, alloc)?;
        let _alloc_list = Addr::read(&mut b, alloc)?;
        let avail = Addr::read(&mut b, alloc)?;
        let _discard_list = Addr::read(&mut b, alloc)?;
        let mut sizes = || Some((b.uint()?, b.uint()?));
        let (file_size, _) = sizes().ok_or_else(|| damaged("the address of a checkpoint is cut off"))?;
        if !b.is_empty() {
            return Err(objects());
        }
        if file_size >= 1 << 63 {
            return Err(damaged(format!("a file of {file_size} bytes")));
        }
        Ok(Self {
            alloc,
            avail,
            file_size,
            root,
            bytes,
        })
    }
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    if hex.len() & 1 == 1 {
        return None;
    }
    hex.as_bytes()
        .chunks_exact(2)
        .map(|pair| Some(((digit(pair[0])? << 4) | digit(pair[1])?) as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    /// Of a collection of MongoDB 6.0.
    const COOKIE: &str = "018d81e45e953f458e81e4615ccec2c0ae81e4905c78bc808080e401296fc0e4010c8fc0";

    #[test]
    fn a_cookie() {
        let c = Cookie::parse(COOKIE, 4096).unwrap();
        let root = c.root.unwrap();
        assert_eq!((root.offset, root.size), (14 * 4096, 4096));
        assert_eq!(root.checksum, 0x5e95_3f45 + 8256);
        let avail = c.avail.unwrap();
        assert_eq!((avail.offset, avail.size), ((0xae + 64 + 1) * 4096, 4096));
        assert_eq!(avail.checksum, 0x905c_78bc + 8256);
        assert_eq!(c.file_size, 0x0129_6fc0 + 8256);
        assert_ne!(c, Cookie::parse(&COOKIE.replace("3f45", "3f46"), 4096).unwrap());
        // Nothing but the size of what the tree has.
        assert_ne!(c, Cookie::parse(&COOKIE.replace("8fc0", "8fc1"), 4096).unwrap());
    }

    #[test]
    fn a_cookie_in_larger_units() {
        let narrow = Cookie::parse(COOKIE, 512).unwrap();
        let wide: Vec<Cookie> = narrow.wider().collect();
        assert_eq!(wide.len(), 11);
        assert_eq!(wide[2], Cookie::parse(COOKIE, 4096).unwrap());
        assert_eq!(wide[10].alloc, 1 << 20);
        assert_eq!(wide[10].wider().count(), 0);
        // Its root has 4,096 units: with 16 KiB that is the largest block, and with 32 more.
        let large = COOKIE.replacen("8d81", "8dcfc0", 1);
        let large = Cookie::parse(&large, 4096).unwrap();
        assert_eq!(large.wider().map(|c| c.alloc).collect::<Vec<_>>(), [8192, 16384]);
    }

    #[test]
    fn an_empty_file() {
        let c = Cookie::parse("01808080808080808080808080d2c080", 512).unwrap();
        assert_eq!((c.root, c.avail, c.file_size), (None, None, 0x12c0 + 64));
    }

    #[test]
    fn cookies_that_are_refused() {
        let refused = |hex: &str, alloc| Cookie::parse(hex, alloc).unwrap_err();
        for (hex, kind, why) in [
            (
                COOKIE.replacen("01", "02", 1),
                Kind::Unsupported,
                "its checkpoints have addresses of version 2, and 1 is supported",
            ),
            (
                COOKIE.to_owned() + "0181",
                Kind::Unsupported,
                "its blocks have object ids: tiered storage is not supported",
            ),
            (
                COOKIE[..COOKIE.len() - 2].to_owned(),
                Kind::Damaged,
                "the address of a checkpoint is cut off",
            ),
            (COOKIE[..8].to_owned(), Kind::Damaged, "an address is cut off"),
            (
                COOKIE[..7].to_owned(),
                Kind::Damaged,
                "the address of a checkpoint is not hexadecimal",
            ),
            (
                String::new(),
                Kind::Damaged,
                "the address of a checkpoint is empty",
            ),
            (
                // The root has 2^32 units.
                COOKIE.replacen("8d81", "8de50100000000", 1),
                Kind::Damaged,
                "the address of a block that is larger than 64 MiB",
            ),
            (
                COOKIE.replacen("8d81", "e8ffffffffffffdf0081", 1),
                Kind::Damaged,
                "invalid block address",
            ),
        ] {
            let e = refused(&hex, 4096);
            assert_eq!((e.kind, e.message.as_str()), (kind, why), "{hex}");
        }
        for alloc in [0, 256, 4097, 1 << 28] {
            assert_eq!(
                refused(COOKIE, alloc).message,
                format!("a unit of allocation of {alloc} bytes")
            );
        }
    }
}

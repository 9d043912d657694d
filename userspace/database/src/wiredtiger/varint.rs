// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers in few bytes: 7 bits a byte, least first, the high bit set in all but the last.

use std::io::{self, Write};

/// The number that the next bytes have; `None` if it has more than 64 bits.
#[inline]
pub fn decode<E>(mut byte: impl FnMut() -> Result<u8, E>) -> Result<Option<u64>, E> {
    let (mut n, mut shift) = (0, 0);
    loop {
        let byte = byte()?;
        let part = u64::from(byte & 0x7f);
        if shift >= 63 && (shift > 63 || part > 1) {
            return Ok(None);
        }
        n |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(Some(n));
        }
        shift += 7;
    }
}

#[inline]
pub fn put(to: &mut Vec<u8>, n: u64) {
    write(to, n).expect("vectors grow");
}

#[inline]
pub fn write(to: &mut impl Write, mut n: u64) -> io::Result<()> {
    while n >= 0x80 {
        to.write_all(&[n as u8 | 0x80])?;
        n >>= 7;
    }
    to.write_all(&[n as u8])
}

/// What lies between numbers that [`put`] has written, and they.
#[derive(Clone, Debug)]
pub struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

impl Iterator for Numbers<'_> {
    type Item = u64;

    /// `None` at the end, and within a number that is cut off or too great.
    #[inline]
    fn next(&mut self) -> Option<u64> {
        decode(|| self.byte().ok_or(())).ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn least_first() {
        for (n, bytes) in [
            (0, &[0][..]),
            (0x7f, &[0x7f]),
            (0x80, &[0x80, 1]),
            (0x3fff, &[0xff, 0x7f]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut kept = Vec::new();
            put(&mut kept, n);
            let mut written = Vec::new();
            write(&mut written, n).unwrap();
            assert_eq!((&kept[..], &written[..]), (bytes, bytes), "{n}");
        }
    }

    #[test]
    fn what_is_no_number() {
        let read = |bytes: &[u8]| {
            let mut bytes = bytes.iter();
            decode(|| bytes.next().copied().ok_or("the end"))
        };
        assert_eq!(read(&[]), Err("the end"));
        assert_eq!(read(&[0x80]), Err("the end"));
        assert_eq!(read(&[0x80, 0, 1]), Ok(Some(0)));
        let bits = |last: &[u8]| read(&[&[0x80; 9], last].concat());
        assert_eq!(bits(&[1]), Ok(Some(1 << 63)));
        assert_eq!(bits(&[2]), Ok(None));
        assert_eq!(bits(&[0x81, 0]), Ok(None));
        assert_eq!(Numbers::of(&[5, 0x80]).collect::<Vec<_>>(), [5]);
    }

    proptest! {
        #[test]
        fn numbers_are_what_they_were(numbers: Vec<u64>) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|n| put(&mut bytes, *n));
            prop_assert!(Numbers::of(&bytes).eq(numbers));
        }
    }
}

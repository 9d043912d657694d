// SPDX-License-Identifier: GPL-2.0-or-later
//! WiredTiger's packed numbers.

/// What is left of a piece of a block.  `None` of its functions: it ends too
/// early, or this is no number.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number that is not negative: of one byte up to 63, of two up to 8255, of a
    /// length and that many bytes above.
    pub(crate) fn uint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        match first >> 4 {
            0x8..=0xb => Some(u64::from(first & 0x3f)),
            0xc..=0xd => Some(((u64::from(first & 0x1f) << 8) | u64::from(self.byte()?)) + 64),
            0xe => {
                let length = u64::from(first & 0xf);
                if length > 8 {
                    return None;
                }
                let bytes = self.take(length)?;
                let n = bytes.iter().fold(0, |n, b| (n << 8) | u64::from(*b));
                n.checked_add(8256)
            }
            _ => None,
        }
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (bytes, n) in [
            (&[0x80][..], 0),
            (&[0xbf], 63),
            (&[0xc0, 0], 64),
            (&[0xc0, 0xc0], 256),
            (&[0xdf, 0xff], 8255),
            (&[0xe0], 8256),
            (&[0xe1, 1], 8257),
            (&[0xe2, 0x1f, 0xc0], 8256 + 0x1fc0),
            (&[0xe8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xdf, 0xbf], u64::MAX),
        ] {
            let mut b = Bytes(bytes);
            assert_eq!((b.uint(), b.is_empty()), (Some(n), true), "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_no_number() {
        for bytes in [
            &[][..],
            &[0xc0],
            &[0xe2, 1],
            // Negative, or of types that pack nothing here.
            &[0x10, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x7f],
            &[0xf0],
            &[0xe9, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0xe8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xdf, 0xc0],
        ] {
            assert_eq!(Bytes(bytes).uint(), None, "{bytes:x?}");
        }
    }

    #[test]
    fn nothing_is_taken_past_the_end() {
        let mut b = Bytes(b"abc");
        assert_eq!(b.take(u64::MAX), None);
        assert_eq!(b.take(4), None);
        assert_eq!(b.take(2), Some(&b"ab"[..]));
        assert_eq!((b.byte(), b.byte()), (Some(b'c'), None));
        assert_eq!(u32_at(&[1, 2, 3, 4, 5], 1), Some(0x0504_0302));
        assert_eq!(u32_at(&[1, 2, 3, 4], 1), None);
    }
}

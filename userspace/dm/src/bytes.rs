// SPDX-License-Identifier: GPL-2.0-or-later
//! Fields of the kernel's and the drive's structures, at their offsets in bytes.

/// The bytes of a field, for `u32::from_ne_bytes` and its like; `None` beyond the end.
pub fn at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Sets a field, which must be within `bytes`.
pub fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_with_the_bytes() {
        let mut b = [0; 6];
        put(&mut b, 1, &[1, 2, 3, 4]);
        assert_eq!(at(&b, 1).map(u32::from_le_bytes), Some(0x0403_0201));
        assert_eq!(at(&b, 4).map(u16::from_be_bytes), Some(0x0400));
        assert_eq!(at::<4>(&b, 3), None);
        assert_eq!(at::<4>(&b, usize::MAX), None);
    }
}

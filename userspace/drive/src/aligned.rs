// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory as direct I/O wants it.

use std::ops::{Deref, DerefMut};

/// What every drive takes.
pub(crate) const ALIGN: usize = 4096;

/// Bytes whose address is a multiple of [`ALIGN`].
pub struct Aligned {
    room: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub fn zeroed(length: usize) -> Self {
        let room = vec![0; length + ALIGN];
        let start = room.as_ptr().align_offset(ALIGN);
        Self { room, start, length }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[self.start..self.start + self.length]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_aligned() {
        for length in [0, 1, 4096, 12345] {
            let mut data = Aligned::zeroed(length);
            assert_eq!(data.as_ptr() as usize % ALIGN, 0);
            data.fill(7);
            assert_eq!(data.len(), length);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What is written, and what is read back of it.

use super::PAGE;

/// What a page reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    AsBefore,
    Zeroes,
    Ones,
    /// An error.
    Failed,
    /// None of these.
    Odd,
}

impl Page {
    /// What a deallocated page may read as.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Zeroes | Self::Ones | Self::Failed)
    }
}

/// No two words of eight bytes are the same, nor are those of two seeds.
#[derive(Clone, Copy)]
pub(super) struct Pattern(pub u64);

impl Pattern {
    /// The finaliser of splitmix64, which maps numbers one to one.
    fn word(self, n: u64) -> [u8; 8] {
        let mut z = self.0.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_ne_bytes()
    }

    pub(super) fn fill(self, at: u64, data: &mut [u8]) {
        for (n, word) in (at / 8..).zip(data.chunks_exact_mut(8)) {
            word.copy_from_slice(&self.word(n));
        }
    }

    pub(super) fn page(self, at: u64, data: &[u8]) -> Page {
        let mut wanted = [0; PAGE as usize];
        self.fill(at, &mut wanted);
        let all = |byte: u8| data.iter().all(|b| *b == byte);
        match () {
            () if data == wanted => Page::AsBefore,
            () if all(0) => Page::Zeroes,
            () if all(0xff) => Page::Ones,
            () => Page::Odd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_is() {
        let size = PAGE as usize;
        let mut data = vec![0; 2 * size];
        Pattern(5).fill(PAGE, &mut data);
        let (first, second) = data.split_at(size);
        assert_eq!(Pattern(5).page(PAGE, first), Page::AsBefore);
        assert_eq!(Pattern(5).page(2 * PAGE, second), Page::AsBefore);
        assert_eq!(Pattern(5).page(PAGE, second), Page::Odd, "another place");
        assert_eq!(Pattern(6).page(PAGE, first), Page::Odd, "another round");
        assert_eq!(Pattern(5).page(0, &vec![0; size]), Page::Zeroes);
        assert_eq!(Pattern(5).page(0, &vec![0xff; size]), Page::Ones);
        let mut half = first.to_vec();
        half[size / 2..].fill(0);
        assert_eq!(Pattern(5).page(PAGE, &half), Page::Odd);
        let mut words: Vec<&[u8]> = data.chunks_exact(8).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), data.len() / 8);
    }
}

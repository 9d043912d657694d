// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers of bytes as people write them.
//!
//! By hand: crates for it take other suffixes and fractions, too.

/// Bytes, with K, M, G or T for powers of 1024.
pub fn bytes(s: &str) -> Option<u64> {
    let s = s.trim();
    let (digits, shift) = match s.char_indices().last() {
        Some((at, 'K' | 'k')) => (&s[..at], 10),
        Some((at, 'M' | 'm')) => (&s[..at], 20),
        Some((at, 'G' | 'g')) => (&s[..at], 30),
        Some((at, 'T' | 't')) => (&s[..at], 40),
        _ => (s, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

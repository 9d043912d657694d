// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers of bytes as people write them.
//!
//! By hand: crates for it take other suffixes and fractions, too.

/// Bytes, with K, M, G or T, or KiB, MiB, GiB or TiB, for powers of 1024.
pub fn bytes(s: &str) -> Option<u64> {
    let s = s.trim();
    let unit = s.strip_suffix("iB").or_else(|| s.strip_suffix("ib"));
    let (digits, shift) = match unit.unwrap_or(s).char_indices().last() {
        Some((at, 'K' | 'k')) => (&s[..at], 10),
        Some((at, 'M' | 'm')) => (&s[..at], 20),
        Some((at, 'G' | 'g')) => (&s[..at], 30),
        Some((at, 'T' | 't')) => (&s[..at], 40),
        _ => (s, 0),
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Sectors: a plain number is of these, one with a suffix of bytes.
pub fn sectors(s: &str) -> Option<u64> {
    const SECTOR: u64 = 512;

    match s.trim().parse() {
        Ok(sectors) => Some(sectors),
        Err(_) => bytes(s).filter(|n| n % SECTOR == 0).map(|n| n / SECTOR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        for (s, n) in [
            ("0", 0),
            ("4096", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4 kib", 4096),
            ("2MiB", 2 << 20),
            ("3G", 3 << 30),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(bytes(s), Some(n), "{s}");
        }
        for s in [
            "",
            "K",
            "iB",
            "4iB",
            "4B",
            "4KB",
            "4KiBiB",
            "-1K",
            "1.5G",
            "99999999TiB",
        ] {
            assert_eq!(bytes(s), None, "{s}");
        }
        assert_eq!(sectors("2048"), Some(2048));
        assert_eq!(sectors("1MiB"), Some(2048));
        assert_eq!(sectors("x"), None);
    }
}

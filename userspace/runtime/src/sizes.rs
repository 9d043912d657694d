// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers of bytes as people write them.
//!
//! By hand: crates for it take other suffixes and fractions, too.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

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

/// Bytes as people read them.
pub fn shown(bytes: u64) -> String {
    let units = [
        (1u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    for (unit, name) in units {
        if bytes >= unit && bytes % unit == 0 {
            return format!("{} {name}", bytes / unit);
        }
        if bytes >= unit {
            return format!("{:.1} {name}", bytes as f64 / unit as f64);
        }
    }
    format!("{bytes} bytes")
}

/// An interval between 0.1 s and an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl Default for Seconds {
    fn default() -> Self {
        Self(Duration::from_secs(1))
    }
}

impl Seconds {
    fn of(n: f64) -> Result<Self, &'static str> {
        if (0.1..=3600.0).contains(&n) {
            Ok(Self(Duration::from_secs_f64(n)))
        } else {
            Err("it must be a number of seconds from 0.1 to 3600")
        }
    }
}

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::of(s.parse().unwrap_or(f64::NAN))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::of(f64::deserialize(d)?).map_err(serde::de::Error::custom)
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

    #[test]
    fn for_people() {
        let of = [512, 4096, 5000, 16 << 30, 13_079_937_024, 3 << 40];
        let text = ["512 bytes", "4 KiB", "4.9 KiB", "16 GiB", "12.2 GiB", "3 TiB"];
        assert_eq!(of.map(shown), text);
    }
}

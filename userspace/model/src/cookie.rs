// SPDX-License-Identifier: GPL-2.0-or-later
//! The names of checkpoints, as WiredTiger writes them.

use dbpath::avail::Cookie;

/// As WiredTiger packs an unsigned integer.
fn pack(n: u64) -> String {
    match n {
        0..64 => format!("{:02x}", 0x80 | n),
        64..8256 => format!("{:04x}", 0xc000 | (n - 64)),
        _ => format!("e8{:016x}", n - 8256),
    }
}

const PAGE: u64 = 4096;

const NOTHING: &str = "808080";

/// A checkpoint with nothing but a list, in its own block.
pub fn cookie((page, tag): (u64, u64), size: u64, unit: u64) -> Cookie {
    cookie_of(&format!("{}{}{}", pack(page - 1), pack(1), pack(tag)), size, unit)
}

/// One whose list is empty, and has no block.
pub fn empty_cookie(size: u64) -> Cookie {
    cookie_of(NOTHING, size, PAGE)
}

fn cookie_of(own: &str, size: u64, unit: u64) -> Cookie {
    let hex = format!(
        "01{NOTHING}{NOTHING}{own}{NOTHING}{}{}",
        pack(size * unit),
        pack(0)
    );
    Cookie::parse(&hex, unit as u32).unwrap()
}

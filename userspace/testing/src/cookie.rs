// SPDX-License-Identifier: GPL-2.0-or-later
//! The names of checkpoints, as WiredTiger writes them.

use database::wiredtiger::avail::Cookie;

/// As WiredTiger packs an unsigned integer.
fn pack(n: u64) -> String {
    hex(&packed(n))
}

pub(crate) fn packed(n: u64) -> Vec<u8> {
    match n {
        0..64 => vec![0x80 | n as u8],
        64..8256 => (0xc000 | (n - 64) as u16).to_be_bytes().to_vec(),
        _ => {
            let bytes = (n - 8256).to_be_bytes();
            let zeros = (n - 8256).leading_zeros() as usize / 8;
            [&[0xe8 - zeros as u8], &bytes[zeros..]].concat()
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |hex, b| hex + &format!("{b:02x}"))
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

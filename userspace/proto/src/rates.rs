// SPDX-License-Identifier: GPL-2.0-or-later
//! What was counted between two looks at a device.

use std::collections::HashMap;

use dm::reply::Status;

/// What was counted since.  A counter that is smaller was reset, or its table was loaded
/// over: it began at 0, so that it counts at least what it shows.
pub fn since(new: u64, old: u64) -> u64 {
    new.checked_sub(old).unwrap_or(new)
}

/// What was written in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub stream: u32,
    pub writes: u64,
    pub bytes: u64,
}

/// What was written in each stream, of those with writes.
pub fn streams(new: &Status, old: &Status) -> Vec<Written> {
    let before: HashMap<u32, _> = old.streams.iter().map(|c| (c.stream, c)).collect();
    let written = |c: &dm::reply::StreamCount| {
        let (writes, sectors) = before.get(&c.stream).map_or((0, 0), |b| (b.writes, b.sectors));
        Written {
            stream: c.stream,
            writes: since(c.writes, writes),
            bytes: since(c.sectors, sectors) * 512,
        }
    };
    let all = new.streams.iter().map(written);
    all.filter(|w| w.writes > 0 || w.bytes > 0).collect()
}

/// Bytes that no extent covered.
pub fn unmapped(new: &Status, old: &Status) -> u64 {
    since(new.unmapped_sectors, old.unmapped_sectors) * 512
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What happened between two looks at a device.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::device::{DeviceView, Kernel};
use crate::drive::Source;
use dm::reply::{Region, Side, Status};

/// What was counted since.  A counter that is smaller was reset, or its table was loaded
/// over: it began at 0, so that it counts at least what it shows.
fn since(new: u64, old: u64) -> u64 {
    new.checked_sub(old).unwrap_or(new)
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    pub seconds: f64,
    pub writes: u64,
    pub bytes: u64,
    /// Bytes that no extent covered.
    pub unmapped_bytes: u64,
    pub checkpoints: u64,
    /// Those with writes.
    pub streams: BTreeMap<u32, StreamRate>,
    /// Where both looks have regions: those with writes, most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionRate>,
    pub drive: Option<DriveRate>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamRate {
    pub writes: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionRate {
    #[serde(flatten)]
    pub region: Region,
    pub written_bytes: u64,
}

/// By all hosts to the drive, and by the drive to its media.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveRate {
    pub name: String,
    pub source: Source,
    pub seconds: f64,
    pub host_bytes: u64,
    pub media_bytes: u64,
    /// Nothing: the counters have moved too little.
    pub write_amplification: Option<f64>,
}

impl Rates {
    /// Nothing, if one of them has not seen the kernel.
    pub fn between(old: &DeviceView, new: &DeviceView) -> Option<Self> {
        let (a, b) = (old.kernel.as_ref()?, new.kernel.as_ref()?);
        let elapsed = new.at.monotonic.saturating_sub(old.at.monotonic);
        let seconds = elapsed.as_secs_f64().max(0.001);
        let streams = streams(&b.status, &a.status);
        Some(Self {
            seconds,
            writes: streams.values().map(|s| s.writes).sum(),
            bytes: streams.values().map(|s| s.bytes).sum(),
            unmapped_bytes: since(b.status.unmapped_sectors, a.status.unmapped_sectors) * 512,
            checkpoints: since(b.status.windows, a.status.windows),
            streams,
            regions: regions(new.regions.as_deref(), old.regions.as_deref()),
            drive: DriveRate::between(a, b, seconds),
        })
    }
}

impl DriveRate {
    /// Nothing: the drive does not count, or was exchanged.
    fn between(old: &Kernel, new: &Kernel, seconds: f64) -> Option<Self> {
        let (old, new) = (old.media.as_ref().ok()?, new.media.as_ref().ok()?);
        let written = new.counters.since(&old.counters)?;
        let bytes = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        (old.drive == new.drive).then(|| Self {
            name: new.drive.clone(),
            source: written.source,
            seconds,
            host_bytes: bytes(written.host),
            media_bytes: bytes(written.media),
            write_amplification: written.amplification(),
        })
    }
}

fn streams(new: &Status, old: &Status) -> BTreeMap<u32, StreamRate> {
    let before: HashMap<u32, _> = old.streams.iter().map(|c| (c.stream, c)).collect();
    let all = new.streams.iter().map(|c| {
        let (writes, sectors) = before.get(&c.stream).map_or((0, 0), |b| (b.writes, b.sectors));
        let rate = StreamRate {
            writes: since(c.writes, writes),
            bytes: since(c.sectors, sectors) * 512,
        };
        (c.stream, rate)
    });
    all.filter(|(_, r)| *r != StreamRate::default()).collect()
}

fn regions(new: Option<&[Region]>, old: Option<&[Region]>) -> Vec<RegionRate> {
    let (Some(new), Some(old)) = (new, old) else {
        return Vec::new();
    };
    let before: HashMap<(u64, Side), u64> = old.iter().map(|r| ((r.id, r.side), r.total)).collect();
    let all = new.iter().map(|r| RegionRate {
        written_bytes: since(r.total, before.get(&(r.id, r.side)).copied().unwrap_or(0)) * 4096,
        region: r.clone(),
    });
    let mut written: Vec<RegionRate> = all.filter(|r| r.written_bytes > 0).collect();
    written.sort_by_key(|r| (std::cmp::Reverse(r.written_bytes), r.region.id));
    written
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The streams of objects, on a device with a number of streams.

use std::collections::BTreeSet;

use super::{Lifetime, Rules};
use dm::table::StreamStamp;

impl Rules {
    /// The stamp of each object; `None` for one that goes by its class.
    ///
    /// Lifetimes have the greatest of the streams that no object states, the
    /// shortest the greatest; where streams are too few, neighbours share one.
    pub fn stamps(&self, device_streams: u32) -> Result<Vec<Option<StreamStamp>>, String> {
        for o in &self.objects {
            if let Some(n) = o.stream.filter(|n| u32::from(*n) > device_streams) {
                let has = match device_streams {
                    0 => "the device has no streams; state a lifetime".to_owned(),
                    n => format!("the device has streams 1 to {n}"),
                };
                return Err(format!(
                    "{}: the object '{}' has stream {n}: {has}",
                    o.place, o.name
                ));
            }
        }
        let free = self.free_streams(device_streams);
        let lifetimes: BTreeSet<Lifetime> = self
            .objects
            .iter()
            .filter(|o| o.stream.is_none())
            .filter_map(|o| o.lifetime)
            .collect();
        let last = free.len().saturating_sub(lifetimes.len());
        let stream_of = |l: Lifetime| {
            let n = lifetimes.range(..l).count();
            let shared = n * free.len() / lifetimes.len().max(1);
            free.get(if last > 0 { last + n } else { shared }).copied()
        };
        let stamp = |stream: Option<u8>, lifetime: Option<Lifetime>| StreamStamp {
            stream: stream.unwrap_or(0),
            hint: lifetime.map_or(0, Lifetime::hint),
        };
        Ok(self
            .objects
            .iter()
            .map(|o| match (o.stream, o.lifetime) {
                (None, None) => None,
                (None, Some(l)) => Some(stamp(stream_of(l), Some(l))),
                (stated, l) => Some(stamp(stated, l)),
            })
            .collect())
    }

    /// The streams that no object states.
    pub fn free_streams(&self, device_streams: u32) -> Vec<u8> {
        (1..=device_streams.min(255) as u8)
            .filter(|n| self.objects.iter().all(|o| o.stream != Some(*n)))
            .collect()
    }
}

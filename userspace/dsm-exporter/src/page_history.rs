// SPDX-License-Identifier: GPL-2.0-or-later
//! The last hour of every device, for the page, from what `dsmd` publishes.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::json;

use proto::device::DeviceView;
use proto::rates::Rates;
use proto::snapshot::{Moment, Snapshot, Unavailable, Used, INTERVAL};

/// How many points are kept; there is one for each interval of `dsmd`.
pub const KEPT: usize = 720;

/// Bytes of points that are kept, of all devices: beside as many in answers under way, what the
/// unit's MemoryMax= has room for.  An hour of 70 devices.
pub const ROOM: usize = 64 << 20;

/// What happened in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Point {
    /// Counts up, so that a page can ask for what it does not have.
    number: u64,
    /// Its end, in seconds since 1970.
    at: f64,
    /// When the last checkpoint was, in seconds since 1970; nothing before the first.
    last_checkpoint: Option<f64>,
    /// Processors that dsmd used.
    own_cpu: f64,
    #[serde(flatten)]
    rates: Rates,
}

/// What a point is made of, together with the one before.
struct HistoryReading {
    /// When the snapshot was published that it came in.
    published: Moment,
    used: Used,
    view: DeviceView,
}

/// A point as it is answered with, which takes a tenth of what it was read from.
struct StoredPoint {
    number: u64,
    json: Box<str>,
}

#[derive(Default)]
struct Series {
    points: VecDeque<StoredPoint>,
    last: Option<HistoryReading>,
    /// What holds now.
    view: DeviceView,
}

/// Every device's points, oldest first.
#[derive(Default)]
pub struct History {
    devices: BTreeMap<String, Series>,
    taken: u64,
    /// The number of the last snapshot.
    seen: Option<u64>,
    /// When it began: numbers of another history mean nothing here.
    began: f64,
}

impl History {
    /// Adds what was published; a point only once for each interval.
    pub fn add(&mut self, s: &Snapshot) {
        let seen = Some(s.number);
        let is_new = std::mem::replace(&mut self.seen, seen) != seen;
        if self.taken == 0 {
            self.began = s.at.wall;
        }
        self.taken += u64::from(is_new);
        self.devices
            .retain(|name, _| s.devices.iter().any(|d| d.name == *name));
        for d in &s.devices {
            let line = self.devices.entry(d.name.clone()).or_default();
            line.view = d.clone();
            let is_late = |last: &HistoryReading| d.kernel.is_some() && last.view.at == d.at;
            // One that is late is in the next point.
            if !is_new || line.last.as_ref().is_some_and(is_late) {
                continue;
            }
            let look = d.kernel.is_some().then(|| HistoryReading {
                published: s.at,
                used: s.used,
                view: d.clone(),
            });
            let point = || Point::between(self.taken, line.last.as_ref()?, look.as_ref()?);
            if let Some(point) = point() {
                let json = serde_json::to_string(&point).expect("keys are strings");
                line.points.push_back(StoredPoint {
                    number: self.taken,
                    json: json.into(),
                });
                if line.points.len() > KEPT {
                    line.points.pop_front();
                }
            }
            line.last = look;
        }
        self.keep_to(ROOM);
    }

    /// The oldest go first.
    fn keep_to(&mut self, room: usize) {
        let mut bytes = self.bytes(0);
        while bytes > room {
            let oldest = self
                .devices
                .values_mut()
                .min_by_key(|line| line.points.front().map_or(u64::MAX, |p| p.number));
            let Some(point) = oldest.and_then(|line| line.points.pop_front()) else {
                return;
            };
            bytes -= point.json.len();
        }
    }

    /// Of the points after the one with this number.
    pub fn bytes(&self, after: u64) -> usize {
        let points = self.devices.values().flat_map(|line| line.after(after));
        points.map(|p| p.json.len()).sum()
    }

    /// The points after the one with this number, and why there are no new ones.
    pub fn json(&self, after: u64, unavailable: Option<&Unavailable>) -> String {
        let about = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "interval": INTERVAL.as_secs(),
            "kept": KEPT,
            "began": self.began,
            "last": self.taken,
            "last_error": unavailable.map(ToString::to_string),
        })
        .to_string();
        let heads: Vec<String> = self
            .devices
            .iter()
            .map(|(name, line)| json!({"name": name, "view": line.view}).to_string())
            .collect();
        // Made once: it may have a hundred devices.
        let others = about.len() + heads.iter().map(|h| h.len() + 16).sum::<usize>() + 32;
        let points = self.devices.values().map(|line| line.after(after).count());
        let mut text = String::with_capacity(others + self.bytes(after) + points.sum::<usize>());
        text.push_str(about.trim_end_matches('}'));
        text.push_str(",\"devices\":[");
        for (n, (head, line)) in heads.iter().zip(self.devices.values()).enumerate() {
            text.push_str(if n > 0 { "," } else { "" });
            text.push_str(&head[..head.len() - 1]);
            text.push_str(",\"points\":[");
            for (n, point) in line.after(after).enumerate() {
                text.push_str(if n > 0 { "," } else { "" });
                text.push_str(&point.json);
            }
            text.push_str("]}");
        }
        text.push_str("]}");
        text
    }
}

impl Series {
    fn after(&self, number: u64) -> impl Iterator<Item = &StoredPoint> {
        self.points.iter().filter(move |p| p.number > number)
    }
}

impl Point {
    fn between(number: u64, old: &HistoryReading, new: &HistoryReading) -> Option<Self> {
        let published = new.published.monotonic.saturating_sub(old.published.monotonic);
        Some(Self {
            number,
            at: new.view.at.wall,
            last_checkpoint: new.view.kernel.as_ref()?.last_checkpoint,
            own_cpu: (new.used.cpu - old.used.cpu).max(0.0) / published.as_secs_f64().max(0.001),
            rates: Rates::between(&old.view, &new.view)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policies::layout::{self, Layout};
    use serde_json::Value;
    use std::time::Duration;

    use proto::device::Kernel;
    use proto::drive::{Counters, Media, Source};
    use testing::kernel::STATUS;

    /// `n` is what everything was counted up to.
    fn kernel(n: u64) -> Kernel {
        let status = format!(
            "{STATUS} windows {n} window_ms 700 unmapped_writes {n} unmapped_sectors {n} \
             discard on discard_refused_sectors 16 stream 1 7 70 stream 3 {n} {}",
            8 * n
        );
        Kernel {
            uses: uses("259:0 0 0", &status),
            media: Ok(Media {
                drive: "nvme0n1".into(),
                counters: Counters {
                    source: Source::Fdp,
                    host: u128::from(4096 * n),
                    media: u128::from(6144 * n),
                    erased: Some(0),
                    unit: 1,
                },
            }),
            last_checkpoint: Some(1e9 + n as f64),
            ..Kernel::new("259:0 0 0".parse().unwrap(), status.parse().unwrap())
        }
    }

    fn add(h: &mut History, second: u64, kernel: Option<Kernel>) {
        let at = Moment {
            wall: 1e9 + second as f64,
            monotonic: Duration::from_secs(second),
        };
        let used = Used {
            cpu: second as f64 / 100.0,
            memory: 0,
        };
        let view = DeviceView {
            name: "d".into(),
            at,
            kernel,
            ..DeviceView::default()
        };
        h.add(&Snapshot {
            at,
            number: second,
            used,
            devices: vec![view],
        });
    }

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn points(h: &History, after: u64) -> Vec<Value> {
        read(&h.json(after, None))["devices"][0]["points"]
            .as_array()
            .unwrap()
            .clone()
    }

    fn uses(table: &str, status: &str) -> BTreeMap<u32, Vec<String>> {
        layout::uses(&Layout::of(&table.parse().unwrap(), &status.parse().unwrap()))
    }

    #[test]
    fn what_happened_in_between() {
        let mut h = History::default();
        add(&mut h, 10, Some(kernel(100)));
        assert!(points(&h, 0).is_empty(), "one look is no interval");
        add(&mut h, 15, Some(kernel(110)));
        let [p] = points(&h, 0).try_into().unwrap();
        let wanted = json!({
            "number": 2, "at": 1e9 + 15.0, "seconds": 5.0,
            "writes": 10, "bytes": 10 * 4096,
            // Stream 1 was not written.
            "streams": {"3": {"writes": 10, "bytes": 10 * 4096}}, "unmapped_bytes": 5120,
            "checkpoints": 10, "last_checkpoint": 1e9 + 110.0,
            "own_cpu": p["own_cpu"],
            "drive": {
                "name": "nvme0n1", "source": "fdp", "seconds": 5.0,
                "host_bytes": 40960, "media_bytes": 61440, "write_amplification": null,
            },
        });
        assert_eq!(p, wanted);
        assert!((p["own_cpu"].as_f64().unwrap() - 0.01).abs() < 1e-9);
        let kernel = &read(&h.json(0, None))["devices"][0]["view"]["kernel"];
        assert_eq!(kernel["uses"]["3"], json!(["collection group 1"]));
        assert_eq!(kernel["status"]["discard"]["refused_sectors"], 16);
        assert_eq!(kernel["media"]["Ok"]["drive"], "nvme0n1");
        assert_eq!(kernel["media"]["Ok"]["counters"]["unit"], 1);
    }

    #[test]
    fn counters_that_started_over() {
        let mut h = History::default();
        add(&mut h, 10, Some(kernel(100)));
        add(&mut h, 15, Some(kernel(4)));
        assert_eq!(points(&h, 0)[0]["writes"], 4);
        assert_eq!(points(&h, 0)[0]["streams"]["3"]["bytes"], 4 * 4096);
    }

    #[test]
    fn a_device_that_was_away() {
        let mut h = History::default();
        add(&mut h, 10, Some(kernel(100)));
        add(&mut h, 15, None);
        assert_eq!(
            read(&h.json(0, None))["devices"][0]["view"]["kernel"],
            Value::Null
        );
        add(&mut h, 20, Some(kernel(1)));
        add(&mut h, 25, Some(kernel(2)));
        let [p] = points(&h, 0).try_into().unwrap();
        assert_eq!((&p["number"], &p["writes"]), (&json!(4), &json!(1)));
    }

    #[test]
    fn a_drive_that_does_not_tell() {
        let mut h = History::default();
        let silent = |n| Kernel {
            media: Err("sda is no NVMe drive".into()),
            ..kernel(n)
        };
        add(&mut h, 10, Some(kernel(1)));
        add(&mut h, 15, Some(silent(2)));
        add(&mut h, 20, Some(silent(3)));
        assert!(points(&h, 0).iter().all(|p| p["drive"].is_null()));
        assert_eq!(
            read(&h.json(0, None))["devices"][0]["view"]["kernel"]["media"]["Err"],
            "sda is no NVMe drive"
        );
    }

    #[test]
    fn what_is_published_in_between_makes_no_point() {
        let mut h = History::default();
        add(&mut h, 10, Some(kernel(100)));
        add(&mut h, 15, Some(kernel(110)));
        add(&mut h, 15, Some(kernel(115)));
        add(&mut h, 15, None);
        assert_eq!(
            read(&h.json(0, None))["devices"][0]["view"]["kernel"],
            Value::Null,
            "it is shown"
        );
        add(&mut h, 20, Some(kernel(120)));
        let points = points(&h, 0);
        assert_eq!(points.len(), 2);
        assert_eq!(
            (&points[0]["writes"], &points[1]["writes"]),
            (&json!(10), &json!(10))
        );
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(read(&h.json(0, None))["host"], host.trim());
        let unavailable = Unavailable("/run/x".into());
        assert_eq!(
            read(&h.json(0, Some(&unavailable)))["last_error"],
            unavailable.to_string()
        );
    }

    #[test]
    fn an_hour_is_kept() {
        let mut h = History::default();
        for n in 0..1000 {
            add(&mut h, 5 * n, Some(kernel(n)));
        }
        assert_eq!(INTERVAL * KEPT as u32, Duration::from_secs(3600));
        let kept = points(&h, 0);
        assert_eq!(
            (kept.len(), kept[KEPT - 1]["number"].as_u64()),
            (KEPT, Some(1000))
        );
        assert_eq!(points(&h, 998).len(), 2);
        assert_eq!(points(&h, 1000).len(), 0);
        assert_eq!(read(&h.json(0, None))["began"], 1e9);
    }

    #[test]
    fn the_oldest_give_way_to_bytes() {
        let mut h = History::default();
        for n in 0..20 {
            add(&mut h, 5 * n, Some(kernel(n)));
        }
        let (all, bytes) = (points(&h, 0), h.bytes(0));
        let text = h.json(0, None);
        assert_eq!(all.len(), 19);
        assert!(bytes > 19 * 200 && text.len() > bytes);
        assert_eq!(text.capacity(), h.json(0, None).capacity());
        assert!(text.capacity() - text.len() < 100, "it was made at once");
        h.keep_to(bytes);
        assert_eq!(points(&h, 0).len(), 19);
        h.keep_to(bytes / 2);
        let kept = points(&h, 0);
        assert!(kept.len() <= 10 && h.bytes(0) <= bytes / 2, "{}", kept.len());
        assert_eq!(kept[..], all[19 - kept.len()..]);
        h.keep_to(0);
        assert_eq!((points(&h, 0).len(), h.bytes(0)), (0, 0));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What was written between two looks at a device.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::Serialize;

use dm::class::Class;
use dm::reply::{Group, Region, Side, Status};
use proto::drive::{Media, Source};
use proto::rates::{self, since};
use proto::regions::Names;
use runtime::grid::{mib, or_dash, percent, Grid};
use runtime::text::printable;

/// A look.
pub(crate) struct Counted {
    pub status: Status,
    pub regions: Vec<Region>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StreamRate {
    pub stream: u32,
    pub used_for: Vec<String>,
    pub writes: u64,
    pub bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct RegionRate {
    pub id: u64,
    pub file: Option<String>,
    pub class: Class,
    pub side: Side,
    pub bytes: u64,
    /// Of the last window.
    pub hotness: Option<f64>,
    pub group: Group,
    pub next: Group,
    pub stream: u32,
}

/// What the drive has counted.
#[derive(Debug, Serialize)]
pub(crate) struct DriveWrites {
    pub name: String,
    pub source: Source,
    pub seconds: f64,
    pub host_bytes: u128,
    pub media_bytes: u128,
    /// Nothing: the counters have moved too little.
    pub write_amplification: Option<f64>,
}

impl DriveWrites {
    /// Nothing: the drive was exchanged.
    pub(crate) fn between(old: &Media, new: &Media, elapsed: Duration) -> Option<Self> {
        let written = new
            .counters
            .since(&old.counters)
            .filter(|_| old.drive == new.drive)?;
        Some(Self {
            name: new.drive.clone(),
            source: written.source,
            seconds: elapsed.as_secs_f64(),
            host_bytes: written.host,
            media_bytes: written.media,
            write_amplification: written.amplification(),
        })
    }
}

/// The writes between two looks.
#[derive(Debug, Serialize)]
pub(crate) struct Frame {
    pub name: String,
    pub seconds: f64,
    pub policy: String,
    pub windows: u64,
    pub window_ms: u64,
    pub writes: u64,
    pub bytes: u64,
    pub unmapped_bytes: u64,
    /// Since the first look.
    pub drive: Option<DriveWrites>,
    /// Why files have no names.
    pub nameless: Option<String>,
    /// Those with writes.
    pub streams: Vec<StreamRate>,
    /// Those with writes, most first.
    pub regions: Vec<RegionRate>,
}

impl Frame {
    pub(crate) fn new(
        name: &str,
        elapsed: Duration,
        old: &Counted,
        new: &Counted,
        uses: &BTreeMap<u32, Vec<String>>,
        names: &Names,
    ) -> Self {
        let written = rates::streams(&new.status, &old.status).into_iter();
        let mut streams: Vec<StreamRate> = written
            .map(|w| StreamRate {
                stream: w.stream,
                used_for: uses.get(&w.stream).cloned().unwrap_or_default(),
                writes: w.writes,
                bytes: w.bytes,
            })
            .collect();
        streams.sort_by_key(|s| s.stream);
        let before: HashMap<(u64, Side), u64> =
            old.regions.iter().map(|r| ((r.id, r.side), r.total)).collect();
        let mut regions: Vec<RegionRate> = new
            .regions
            .iter()
            .map(|r| RegionRate {
                id: r.id,
                file: names.get(&r.id).cloned(),
                class: r.class,
                side: r.side,
                bytes: since(r.total, before.get(&(r.id, r.side)).copied().unwrap_or(0)) * 4096,
                hotness: r.hotness,
                group: r.group,
                next: r.next,
                stream: r.stream,
            })
            .filter(|r| r.bytes > 0)
            .collect();
        regions.sort_by_key(|r| (std::cmp::Reverse(r.bytes), r.id));
        Self {
            name: name.to_owned(),
            seconds: elapsed.as_secs_f64(),
            policy: new.status.policy.clone(),
            windows: new.status.windows,
            window_ms: new.status.window_ms,
            writes: streams.iter().map(|s| s.writes).sum(),
            bytes: streams.iter().map(|s| s.bytes).sum(),
            unmapped_bytes: rates::unmapped(&new.status, &old.status),
            drive: None,
            nameless: None,
            streams,
            regions,
        }
    }

    fn amplification(&self) -> String {
        let Some(d) = &self.drive else {
            return "write amplification unknown: dsmctl doctor says why".to_owned();
        };
        let waf = or_dash(d.write_amplification.map(|waf| format!("{waf:.2}")));
        format!(
            "write amplification {waf} in {:.0} s ({}, {})",
            d.seconds, d.name, d.source
        )
    }

    /// The people's form, of at most `rows` lines; names are shortened so that these fit in `columns`.
    pub(crate) fn text(&self, rows: usize, columns: usize) -> String {
        let rate = |bytes: u64| mib((bytes as f64 / self.seconds) as u64);
        let mut text = format!(
            "{}  policy {}  checkpoints {}, the last {:.0} s ago\n\
             {} MiB/s in {:.0} writes/s, {} of it unmapped\n\
             {}\n{}\n",
            self.name,
            self.policy,
            self.windows,
            self.window_ms as f64 / 1000.0,
            rate(self.bytes),
            self.writes as f64 / self.seconds,
            percent(self.unmapped_bytes, self.bytes),
            self.amplification(),
            self.nameless.as_ref().map_or_else(String::new, |why| {
                format!("files have no names: {}\n", printable(why))
            }),
        );
        let mut grid = Grid::new(
            &["STREAM", "USED FOR", "WRITES/s", "MiB/s", "SHARE"],
            &[true, false, true, true, true],
        );
        for s in &self.streams {
            let used_for = match s.used_for.as_slice() {
                [] if s.stream == 0 => "not stamped".to_owned(),
                uses => uses.join(", "),
            };
            grid.row(vec![
                s.stream.to_string(),
                used_for,
                format!("{:.0}", s.writes as f64 / self.seconds),
                rate(s.bytes),
                percent(s.bytes, self.bytes),
            ]);
        }
        text.push_str(&grid.text());
        text.push('\n');
        let mut grid = Grid::new(
            &[
                "FILE", "CLASS", "SIDE", "MiB/s", "HOTNESS", "GROUP", "NEXT", "STREAM",
            ],
            &[false, false, false, true, true, true, true, true],
        );
        let room = rows.saturating_sub(text.lines().count() + 1);
        for r in self.regions.iter().take(room) {
            grid.row(vec![
                shortened(
                    &r.file.as_ref().map_or_else(|| r.id.to_string(), |n| printable(n)),
                    columns.saturating_sub(BESIDE),
                ),
                r.class.to_string(),
                r.side.to_string(),
                rate(r.bytes),
                or_dash(r.hotness.map(|h| format!("{h:.3}"))),
                r.group.to_string(),
                r.next.to_string(),
                r.stream.to_string(),
            ]);
        }
        text + &grid.text()
    }
}

/// What stands beside the name of a file.
const BESIDE: usize = 57;

/// Without its middle: names are told apart by their ends.
fn shortened(name: &str, width: usize) -> String {
    let (length, width) = (name.chars().count(), width.max(12));
    if length <= width {
        return name.to_owned();
    }
    let begin = name.chars().take(width / 2);
    let end = name.chars().skip(length - (width - 1 - width / 2));
    begin.chain(['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::drive::Counters;

    fn look(stream3: u64, unmapped: u64, total: u64) -> Counted {
        let status = format!(
            "policy dsm layout dsm groups 3 device_streams 8 source queue streams_used 8 files 1 \
             regions 2 extents 1 generation 1 windows 4 window_ms 12300 unmapped_writes 1 \
             unmapped_sectors {unmapped} split 0 foreign 0 stream 1 7 {unmapped} stream 3 {stream3} {}",
            stream3 * 8
        );
        let region = |side, total| format!("7 index 8192 {side} 0 5 0 1.5 3 2 3 2 {total}");
        Counted {
            status: status.parse().unwrap(),
            regions: vec![
                region("bottom", 10).parse().unwrap(),
                region("top", total).parse().unwrap(),
            ],
        }
    }

    fn frame(old: &Counted, new: &Counted) -> Frame {
        let uses = [(3, vec!["index group 2".to_owned()])].into();
        let names = [(7, "index-1-2.wt".to_owned())].into();
        Frame::new("d", Duration::from_secs(2), old, new, &uses, &names)
    }

    #[test]
    fn what_was_written_in_between() {
        let media = |mib: u128| Media {
            drive: "sda".to_owned(),
            counters: Counters {
                source: Source::SataAttributes,
                host: mib << 20,
                media: mib << 21,
                erased: None,
                unit: 1 << 20,
            },
        };
        let mut f = frame(&look(100, 512, 60), &look(612, 512, 572));
        f.drive = DriveWrites::between(&media(7), &media(57), Duration::from_secs(60));
        assert_eq!((f.writes, f.bytes, f.unmapped_bytes), (512, 2 << 20, 0));
        assert_eq!(
            f.text(40, usize::MAX),
            "\
d  policy dsm  checkpoints 4, the last 12 s ago
1.0 MiB/s in 256 writes/s, 0.0 % of it unmapped
write amplification 2.00 in 60 s (sda, SATA attributes)

STREAM  USED FOR       WRITES/s  MiB/s    SHARE
     3  index group 2       256    1.0  100.0 %

FILE          CLASS  SIDE  MiB/s  HOTNESS  GROUP  NEXT  STREAM
index-1-2.wt  index  top     1.0    1.500      3     2       3
"
        );
        assert_eq!(f.text(8, usize::MAX).lines().count(), 8);
        f.drive = DriveWrites::between(&media(7), &media(56), Duration::from_secs(60));
        assert!(f
            .text(40, usize::MAX)
            .contains("\nwrite amplification - in 60 s ("));
        f.drive = DriveWrites::between(&media(7), &media(6), Duration::from_secs(60));
        assert!(f.text(40, usize::MAX).contains("\nwrite amplification unknown: "));
        let idle = frame(&look(100, 512, 60), &look(100, 512, 60));
        assert!(idle.streams.is_empty() && idle.regions.is_empty());
        assert!(idle
            .text(40, usize::MAX)
            .contains("0.0 MiB/s in 0 writes/s, - of it unmapped"));
    }

    #[test]
    fn counters_that_were_reset() {
        let f = frame(&look(612, 512, 572), &look(0, 0, 0));
        assert_eq!((f.writes, f.bytes, f.unmapped_bytes), (0, 0, 0));
        // They started over, and have counted since.
        let f = frame(&look(612, 512, 572), &look(100, 50, 60));
        assert_eq!((f.writes, f.bytes), (100, (8 * 100 + 50) * 512));
    }

    #[test]
    fn a_screen_has_a_width() {
        let mut f = frame(&look(100, 512, 60), &look(612, 512, 572));
        f.regions[0].file = Some(format!("shop/collection/{}.wt", "7".repeat(40)));
        let text = f.text(40, 80);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("\nshop/collec…77777777.wt "), "{text}");
        assert!(f.text(40, usize::MAX).contains(&"7".repeat(40)));
    }
}

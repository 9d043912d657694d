// SPDX-License-Identifier: GPL-2.0-only
//! Metrics in the text form of Prometheus.

use std::fmt::Write as _;

use crate::control::Info;
use crate::layout::{self, Layout};
use crate::status::{Status, TableLine};

/// What is known of a device at an instant.
pub struct Sample {
    pub device: String,
    /// Nothing: there is no such device.
    pub kernel: Option<(TableLine, Status)>,
    /// Nothing: its database is waited for.
    pub agent: Option<Info>,
}

/// A value, with further labels.
type Value = (String, f64);

/// A family of metrics: name, type, help, and how values are found.
type Family = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Sample) -> Vec<Value>,
);

fn kernel(s: &Sample, value: impl Fn(&Status) -> u64) -> Vec<Value> {
    let one = |(_, status): &(TableLine, Status)| (String::new(), value(status) as f64);
    s.kernel.iter().map(one).collect()
}

fn agent(s: &Sample, value: impl Fn(&Info) -> f64) -> Vec<Value> {
    s.agent.iter().map(|i| (String::new(), value(i))).collect()
}

fn streams(s: &Sample, value: impl Fn(u64, u64) -> u64) -> Vec<Value> {
    let Some((table, status)) = &s.kernel else {
        return Vec::new();
    };
    let uses = layout::uses(&Layout::of(table, status));
    let label = |stream| {
        let used_for = uses.get(&stream).map(|u| u.join(", ")).unwrap_or_default();
        format!(",stream=\"{stream}\",used_for=\"{}\"", escaped(&used_for))
    };
    let one = |c: &crate::status::StreamCount| (label(c.stream), value(c.writes, c.sectors) as f64);
    status.per_stream.iter().map(one).collect()
}

const FAMILIES: &[Family] = &[
    ("dsm_up", "gauge", "Whether the device is there.", |s| {
        vec![(String::new(), f64::from(u8::from(s.kernel.is_some())))]
    }),
    (
        "dsm_agent_up",
        "gauge",
        "Whether dsmd serves the device's database.",
        |s| vec![(String::new(), f64::from(u8::from(s.agent.is_some())))],
    ),
    (
        "dsm_stream_writes_total",
        "counter",
        "Writes stamped with a stream (0: not stamped).",
        |s| streams(s, |writes, _| writes),
    ),
    (
        "dsm_stream_written_bytes_total",
        "counter",
        "Bytes stamped with a stream (0: not stamped).",
        |s| streams(s, |_, sectors| sectors * 512),
    ),
    (
        "dsm_unmapped_writes_total",
        "counter",
        "Writes that no extent covers.",
        |s| kernel(s, |k| k.unmapped_writes),
    ),
    (
        "dsm_unmapped_written_bytes_total",
        "counter",
        "Bytes of writes that no extent covers.",
        |s| kernel(s, |k| k.unmapped_sectors * 512),
    ),
    (
        "dsm_split_bios_total",
        "counter",
        "Bios that were divided at the edge of two streams.",
        |s| kernel(s, |k| k.split),
    ),
    (
        "dsm_foreign_writes_total",
        "counter",
        "Writes that kept a stream or hint of their own.",
        |s| kernel(s, |k| k.foreign),
    ),
    (
        "dsm_windows_total",
        "counter",
        "Checkpoints since the device was made.",
        |s| kernel(s, |k| k.windows),
    ),
    (
        "dsm_generation",
        "counter",
        "Uploads of the table that took effect.",
        |s| kernel(s, |k| k.generation),
    ),
    ("dsm_files", "gauge", "Files in the table.", |s| {
        kernel(s, |k| k.files)
    }),
    ("dsm_regions", "gauge", "Regions in the table.", |s| {
        kernel(s, |k| k.regions)
    }),
    ("dsm_extents", "gauge", "Extents in the table.", |s| {
        kernel(s, |k| k.extents)
    }),
    (
        "dsm_streams_used",
        "gauge",
        "Streams that the layout uses.",
        |s| kernel(s, |k| k.streams.into()),
    ),
    (
        "dsm_device_streams",
        "gauge",
        "Streams that the device takes.",
        |s| kernel(s, |k| k.device_streams.into()),
    ),
    ("dsm_groups", "gauge", "K in use.", |s| {
        kernel(s, |k| k.groups.into())
    }),
    (
        "dsm_agent_boundaries",
        "gauge",
        "Files that have a boundary.",
        |s| agent(s, |i| i.boundaries as f64),
    ),
    (
        "dsm_agent_outgrown",
        "gauge",
        "Files that have outgrown their boundary.",
        |s| agent(s, |i| i.outgrown as f64),
    ),
    (
        "dsm_agent_checkpoints_total",
        "counter",
        "Checkpoints that dsmd has seen.",
        |s| agent(s, |i| i.checkpoints as f64),
    ),
    ("dsm_agent_uploads_total", "counter", "Uploads by dsmd.", |s| {
        agent(s, |i| i.uploads as f64)
    }),
    (
        "dsm_agent_refusals_total",
        "counter",
        "Uploads that the kernel refused.",
        |s| agent(s, |i| i.refusals as f64),
    ),
    (
        "dsm_agent_refresh_seconds",
        "gauge",
        "How long the last refresh took.",
        |s| agent(s, |i| i.last_refresh_ms as f64 / 1000.0),
    ),
    (
        "dsm_agent_unplaced_extents",
        "gauge",
        "Extents without a place at the last look.",
        |s| agent(s, |i| i.delalloc as f64),
    ),
];

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

pub fn text(samples: &[Sample]) -> String {
    let mut text = String::new();
    for (name, kind, help, values) in FAMILIES {
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("strings grow");
        for s in samples {
            let device = escaped(&s.device);
            for (labels, value) in values(s) {
                writeln!(text, "{name}{{device=\"{device}\"{labels}}} {value}").expect("strings grow");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form() {
        let status = "version 1 policy dsm layout dsm groups 3 device_streams 8 source queue \
            streams 8 files 2 regions 3 extents 4 generation 1 windows 2 window_ms 41250 \
            unmapped_writes 2 unmapped_sectors 2048 split 0 foreign 0 \
            stream 0 1 0 stream 3 10 6144";
        let sample = |kernel| Sample {
            device: "a\"b".into(),
            kernel,
            agent: None,
        };
        let table = "259:0 0 2 stream_base 1".parse().unwrap();
        let said = text(&[sample(Some((table, status.parse().unwrap())))]);
        for line in [
            "# TYPE dsm_stream_written_bytes_total counter",
            "dsm_stream_written_bytes_total{device=\"a\\\"b\",stream=\"3\",used_for=\"collection group 1\"} 3145728",
            "dsm_stream_writes_total{device=\"a\\\"b\",stream=\"0\",used_for=\"\"} 1",
            "dsm_unmapped_written_bytes_total{device=\"a\\\"b\"} 1048576",
            "dsm_up{device=\"a\\\"b\"} 1",
            "dsm_agent_up{device=\"a\\\"b\"} 0",
        ] {
            assert!(said.lines().any(|l| l == line), "{line}\n{said}");
        }
        assert!(!said.contains("dsm_agent_uploads_total{"));
        let gone = text(&[sample(None)]);
        assert!(gone.contains("dsm_up{device=\"a\\\"b\"} 0\n"));
        assert!(!gone.contains("dsm_files{"));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Metrics in the text form of Prometheus.
//!
//! By hand: `prometheus-client` counts in its own registry, and these are read elsewhere.

use std::fmt::Write as _;

use crate::agent::control::{DiscardInfo, Info};
use crate::dbpath::mongo::ServerInfo;
use crate::drive::diskstat::DiskStat;
use crate::drive::media::Media;
use crate::kernel::layout::{self, Layout};
use crate::kernel::reply::{Discard, Status, StreamCount};
use crate::show::host::Host;
use crate::show::sample::{Kernel, Sample};
use crate::show::snapshot::{Moment, Snapshot, Trouble};

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
    let one = |k: &Kernel| (String::new(), value(&k.status) as f64);
    s.kernel.iter().map(one).collect()
}

fn disk(s: &Sample, value: impl Fn(&DiskStat) -> f64) -> Vec<Value> {
    s.kernel.iter().map(|k| (String::new(), value(&k.disk))).collect()
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

fn micros(values: Vec<Value>) -> Vec<Value> {
    values
        .into_iter()
        .map(|(labels, us)| (labels, us / 1e6))
        .collect()
}

fn media(s: &Sample, value: impl Fn(&Media) -> u128) -> Vec<Value> {
    let told = s.kernel.iter().filter_map(|k| k.media.as_ref().ok());
    told.map(|m| (format!(",drive=\"{}\"", escaped(&m.drive)), value(m) as f64))
        .collect()
}

fn agent(s: &Sample, value: impl Fn(&Info) -> f64) -> Vec<Value> {
    s.agent.iter().map(|i| (String::new(), value(i))).collect()
}

fn discard(s: &Sample, value: impl Fn(&Discard) -> u64) -> Vec<Value> {
    let on = s.kernel.iter().filter(|k| k.status.discard.state == "on");
    on.map(|k| (String::new(), value(&k.status.discard) as f64))
        .collect()
}

fn discarder(s: &Sample, value: impl Fn(&DiscardInfo) -> u64) -> Vec<Value> {
    let info = s.agent.as_ref().and_then(|a| a.discard.as_ref());
    info.map(|i| (String::new(), value(i) as f64))
        .into_iter()
        .collect()
}

fn server(s: &Sample, values: impl Fn(&ServerInfo) -> Vec<Value>) -> Vec<Value> {
    let info = s.agent.as_ref().and_then(|a| a.server.as_ref());
    info.map(values).unwrap_or_default()
}

fn streams(s: &Sample, value: impl Fn(u64, u64) -> u64) -> Vec<Value> {
    let Some(k) = &s.kernel else {
        return Vec::new();
    };
    let uses = layout::uses(&Layout::of(&k.table, &k.status));
    let label = |stream| {
        let used_for = uses.get(&stream).map(|u| u.join(", ")).unwrap_or_default();
        format!(",stream=\"{stream}\",used_for=\"{}\"", escaped(&used_for))
    };
    let one = |c: &StreamCount| (label(c.stream), value(c.writes, c.sectors) as f64);
    k.status.per_stream.iter().map(one).collect()
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
        "dsm_window_seconds",
        "gauge",
        "How long ago the last checkpoint was.",
        |s| {
            let one = |k: &Kernel| (String::new(), seconds(k.status.window_ms));
            s.kernel.iter().map(one).collect()
        },
    ),
    ("dsm_reads_total", "counter", "Reads of the device.", |s| {
        disk(s, |d| d.reads as f64)
    }),
    (
        "dsm_read_bytes_total",
        "counter",
        "Bytes read from the device.",
        |s| disk(s, |d| d.read_bytes as f64),
    ),
    (
        "dsm_read_seconds_total",
        "counter",
        "What all reads of the device took.",
        |s| disk(s, |d| seconds(d.read_ms)),
    ),
    ("dsm_writes_total", "counter", "Writes to the device.", |s| {
        disk(s, |d| d.writes as f64)
    }),
    (
        "dsm_written_bytes_total",
        "counter",
        "Bytes written to the device.",
        |s| disk(s, |d| d.written_bytes as f64),
    ),
    (
        "dsm_write_seconds_total",
        "counter",
        "What all writes to the device took.",
        |s| disk(s, |d| seconds(d.write_ms)),
    ),
    (
        "dsm_busy_seconds_total",
        "counter",
        "Time in which the device had requests.",
        |s| disk(s, |d| seconds(d.busy_ms)),
    ),
    (
        "dsm_drive_host_written_bytes_total",
        "counter",
        "Bytes that hosts wrote to the drive's endurance group (HBMW).",
        |s| media(s, |m| m.statistics.host),
    ),
    (
        "dsm_drive_media_written_bytes_total",
        "counter",
        "Bytes that the drive wrote to its media (MBMW).",
        |s| media(s, |m| m.statistics.media),
    ),
    (
        "dsm_drive_media_erased_bytes_total",
        "counter",
        "Bytes that the drive erased on its media (MBE).",
        |s| media(s, |m| m.statistics.erased),
    ),
    (
        "dsm_generation",
        "gauge",
        "Generation of the table: uploads that took effect since the device was made.",
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
        |s| agent(s, |i| seconds(i.last_refresh_ms)),
    ),
    (
        "dsm_agent_unplaced_extents",
        "gauge",
        "Extents without a place at the last look.",
        |s| agent(s, |i| i.delalloc as f64),
    ),
    (
        "dsm_discarded_bytes_total",
        "counter",
        "Bytes of freed blocks that were discarded.",
        |s| discard(s, |d| d.discarded_sectors * 512),
    ),
    (
        "dsm_discards_total",
        "counter",
        "Discards of freed blocks.",
        |s| discard(s, |d| d.discarded),
    ),
    (
        "dsm_discard_refused_bytes_total",
        "counter",
        "Bytes that the target did not discard, because they were written, or may have been.",
        |s| discard(s, |d| d.refused_sectors * 512),
    ),
    (
        "dsm_discard_failed_total",
        "counter",
        "Discards that the device failed.",
        |s| discard(s, |d| d.failed),
    ),
    (
        "dsm_discard_queued_ranges",
        "gauge",
        "Ranges that wait to be discarded.",
        |s| discard(s, |d| d.queued),
    ),
    (
        "dsm_discard_held_writes_total",
        "counter",
        "Writes that waited for a discard.",
        |s| discard(s, |d| d.held),
    ),
    (
        "dsm_discard_held_seconds_max",
        "gauge",
        "The longest that a write waited for a discard.",
        |s| micros(discard(s, |d| d.held_us)),
    ),
    (
        "dsm_discard_seconds_max",
        "gauge",
        "The longest that 256 discards took.",
        |s| micros(discard(s, |d| d.longest_us)),
    ),
    (
        "dsm_agent_discard_on",
        "gauge",
        "Whether dsmd discards what checkpoints free.",
        |s| discarder(s, |i| u64::from(i.off.is_none())),
    ),
    (
        "dsm_agent_discard_files",
        "gauge",
        "Files whose list of free blocks dsmd knows.",
        |s| discarder(s, |i| i.files),
    ),
    (
        "dsm_agent_discard_freed_bytes_total",
        "counter",
        "Bytes that checkpoints have freed.",
        |s| discarder(s, |i| i.freed_bytes),
    ),
    (
        "dsm_agent_discard_sent_bytes_total",
        "counter",
        "Bytes of these that dsmd has sent to the target.",
        |s| discarder(s, |i| i.sent_bytes),
    ),
    (
        "dsm_agent_discard_short_bytes_total",
        "counter",
        "Bytes of these in pieces too short to discard.",
        |s| discarder(s, |i| i.short_bytes),
    ),
    (
        "dsm_agent_discard_late_bytes_total",
        "counter",
        "Bytes of these that the next checkpoint came before.",
        |s| discarder(s, |i| i.dropped_bytes),
    ),
    (
        "dsm_agent_discard_queued_bytes",
        "gauge",
        "Bytes that dsmd has still to send.",
        |s| discarder(s, |i| i.queued_bytes),
    ),
    (
        "dsm_agent_discard_resets_total",
        "counter",
        "How often dsmd forgot all that it knew of freed blocks.",
        |s| discarder(s, |i| i.resets),
    ),
    (
        "dsm_server_up",
        "gauge",
        "Whether the database's server answers, where dsmd asks it.",
        |s| server(s, |i| vec![(String::new(), f64::from(u8::from(i.connected)))]),
    ),
    (
        "dsm_server_catalog",
        "gauge",
        "Whether the server tells which file is whose.",
        |s| server(s, |i| vec![(String::new(), f64::from(u8::from(i.catalog)))]),
    ),
    (
        "dsm_server_checkpoints_total",
        "counter",
        "Checkpoints that the server has made.",
        |s| {
            server(s, |i| {
                i.checkpoints.iter().map(|n| (String::new(), *n as f64)).collect()
            })
        },
    ),
    (
        "dsm_server_operations_total",
        "counter",
        "Operations that the server was asked for, by type.",
        |s| {
            let label = |kind: &str| format!(",type=\"{}\"", escaped(kind));
            server(s, |i| {
                i.operations
                    .iter()
                    .map(|(kind, n)| (label(kind), *n as f64))
                    .collect()
            })
        },
    ),
];

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

type HostFamily = (&'static str, &'static str, &'static str, fn(&Host) -> Vec<Value>);

/// Of the machine and of dsmd itself, under the names that Prometheus's own
/// programs use.
const HOST_FAMILIES: &[HostFamily] = &[
    (
        "dsm_host_cpu_seconds_total",
        "counter",
        "Seconds of the machine's processors, by what they did.",
        |h| {
            let modes = [
                ("user", h.cpu.user),
                ("system", h.cpu.system),
                ("iowait", h.cpu.iowait),
                ("idle", h.cpu.idle),
            ];
            let one = |(mode, n)| (format!("mode=\"{mode}\""), n);
            modes.into_iter().map(one).collect()
        },
    ),
    (
        "process_cpu_seconds_total",
        "counter",
        "Seconds of processors that dsmd has used.",
        |h| vec![(String::new(), h.own_cpu)],
    ),
    (
        "process_resident_memory_bytes",
        "gauge",
        "Memory that dsmd has.",
        |h| vec![(String::new(), h.own_memory as f64)],
    ),
];

/// The names of all metrics.
pub fn names() -> impl Iterator<Item = &'static str> {
    let host = HOST_FAMILIES.iter().map(|f| f.0);
    FAMILIES.iter().map(|f| f.0).chain([AGE.0]).chain(host)
}

/// Of what is shown itself.
const AGE: (&str, &str, &str) = (
    "dsm_snapshot_age_seconds",
    "gauge",
    "How long ago dsmd published what is shown here.",
);
/// The one family that says something when nothing is known.
const AGENT_UP: &str = "dsm_agent_up";

/// What was published last; or, where there is trouble, that nothing is known now.
pub fn text(last: Option<&Snapshot>, trouble: Option<&Trouble>, now: Moment) -> String {
    let mut text = String::new();
    let mut line = |s: String| writeln!(text, "{s}").expect("strings grow");
    let devices = last.map_or(&[][..], |s| &s.devices);
    if let Some(trouble) = trouble {
        line(format!("# {}", trouble.to_string().replace('\n', " ")));
    }
    for (name, kind, help, values) in FAMILIES {
        line(format!("# HELP {name} {help}\n# TYPE {name} {kind}"));
        match trouble {
            None => {
                for s in devices {
                    let device = escaped(&s.device);
                    for (labels, value) in values(s) {
                        line(format!("{name}{{device=\"{device}\"{labels}}} {value}"));
                    }
                }
            }
            Some(_) if *name != AGENT_UP => {}
            Some(_) if devices.is_empty() => line(format!("{name} 0")),
            Some(_) => {
                for s in devices {
                    line(format!("{name}{{device=\"{}\"}} 0", escaped(&s.device)));
                }
            }
        }
    }
    let (name, kind, help) = AGE;
    line(format!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    if let Some(s) = last {
        line(format!("{name} {}", s.age(now).as_secs_f64()));
    }
    for (name, kind, help, values) in HOST_FAMILIES {
        line(format!("# HELP {name} {help}\n# TYPE {name} {kind}"));
        let host = last.filter(|_| trouble.is_none()).map(|s| &s.host);
        for (labels, value) in host.map(values).unwrap_or_default() {
            match labels.as_str() {
                "" => line(format!("{name} {value}")),
                labels => line(format!("{name}{{{labels}}} {value}")),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::nvme::Statistics;
    use std::time::Duration;

    /// What is shown of these.
    fn shown(devices: Vec<Sample>, host: Host) -> String {
        text(Some(&snapshot(devices, host)), None, Moment::default())
    }

    fn snapshot(devices: Vec<Sample>, host: Host) -> Snapshot {
        Snapshot {
            protocol: 1,
            version: "x".into(),
            pid: 7,
            at: Moment::default(),
            number: 1,
            host,
            devices,
        }
    }

    #[test]
    fn nothing_is_known() {
        let sample = Sample {
            device: "d".into(),
            kernel: None,
            agent: None,
            trouble: None,
        };
        let last = snapshot(vec![sample], Host::default());
        let now = Moment {
            wall: 0.0,
            monotonic: Duration::from_millis(31_500),
        };
        let trouble = Trouble::Absent("/run/x".into());
        let values = |last, trouble| -> Vec<String> {
            let text = text(last, trouble, now);
            let lines = text
                .lines()
                .filter(|l| !l.starts_with("# HELP") && !l.starts_with("# TYPE"));
            lines.map(str::to_owned).collect()
        };
        let sentence = "# dsmd does not run: there is no /run/x";
        assert_eq!(values(None, Some(&trouble)), [sentence, "dsm_agent_up 0"]);
        assert_eq!(
            values(Some(&last), Some(&trouble)),
            [
                sentence,
                "dsm_agent_up{device=\"d\"} 0",
                "dsm_snapshot_age_seconds 31.5"
            ]
        );
        let good = values(Some(&last), None);
        assert!(good.contains(&"dsm_up{device=\"d\"} 0".to_owned()), "{good:?}");
    }

    #[test]
    fn the_text_form() {
        let status = "version 1 policy dsm layout dsm groups 3 device_streams 8 source queue \
            streams 8 files 2 regions 3 extents 4 generation 1 windows 2 window_ms 41250 \
            unmapped_writes 2 unmapped_sectors 2048 split 0 foreign 0 \
            stream 0 1 0 stream 3 10 6144";
        let kernel = Kernel {
            table: "259:0 0 2 stream_base 1".parse().unwrap(),
            status: status.parse().unwrap(),
            disk: DiskStat {
                writes: 12,
                write_ms: 1500,
                ..DiskStat::default()
            },
            media: Ok(Media {
                drive: "nvme0n1".into(),
                statistics: Statistics {
                    host: 1000,
                    media: 2000,
                    erased: 0,
                },
            }),
        };
        let sample = |kernel| Sample {
            device: "a\"b".into(),
            kernel,
            agent: None,
            trouble: None,
        };
        let host = Host {
            own_cpu: 0.25,
            ..Host::default()
        };
        let said = shown(vec![sample(Some(kernel))], host);
        for line in [
            "# TYPE dsm_stream_written_bytes_total counter",
            "dsm_stream_written_bytes_total{device=\"a\\\"b\",stream=\"3\",used_for=\"collection group 1\"} 3145728",
            "dsm_stream_writes_total{device=\"a\\\"b\",stream=\"0\",used_for=\"\"} 1",
            "dsm_unmapped_written_bytes_total{device=\"a\\\"b\"} 1048576",
            "dsm_window_seconds{device=\"a\\\"b\"} 41.25",
            "dsm_writes_total{device=\"a\\\"b\"} 12",
            "dsm_write_seconds_total{device=\"a\\\"b\"} 1.5",
            "dsm_drive_media_written_bytes_total{device=\"a\\\"b\",drive=\"nvme0n1\"} 2000",
            "dsm_up{device=\"a\\\"b\"} 1",
            "dsm_agent_up{device=\"a\\\"b\"} 0",
            "dsm_host_cpu_seconds_total{mode=\"idle\"} 0",
            "process_cpu_seconds_total 0.25",
        ] {
            assert!(said.lines().any(|l| l == line), "{line}\n{said}");
        }
        assert!(!said.contains("dsm_agent_uploads_total{"));
        assert!(!said.contains("dsm_server_up{"), "nobody is asked");
        let gone = shown(vec![sample(None)], host);
        assert!(gone.contains("dsm_up{device=\"a\\\"b\"} 0\n"));
        assert!(!gone.contains("dsm_files{"));
    }

    #[test]
    fn what_is_discarded() {
        let status = "version 1 policy dsm layout dsm groups 3 device_streams 8 source queue \
            streams 8 files 2 regions 3 extents 4 generation 1 windows 2 window_ms 41250 \
            unmapped_writes 2 unmapped_sectors 2048 split 0 foreign 0";
        let on = "discard on discard_window 7 discard_valid 6 discard_queued 5 discarded 40 \
            discarded_sectors 320 discard_refused_sectors 16 discard_failed 1 discard_held 2 \
            discard_held_us 350 discard_us 900";
        let agent = |off: Option<&str>| {
            serde_json::json!({
                "device": "d", "dbpath": "/db", "pid": 1, "version": "x", "boundary": "auto", "marked": true,
                "files": 1, "boundaries": 1, "checkpoints": 6, "uploads": 1, "refusals": 0,
                "last_refresh_ms": 1, "delalloc": 0, "shared": 0,
                "discard": {"off": off, "freed_bytes": 9, "sent_bytes": 7, "files": 3},
            })
        };
        let said = |status: String, off| {
            let kernel = Kernel {
                table: "259:0 0 0".parse().unwrap(),
                status: status.parse().unwrap(),
                disk: DiskStat::default(),
                media: Err("no".into()),
            };
            let sample = Sample {
                device: "d".into(),
                kernel: Some(kernel),
                agent: serde_json::from_value(agent(off)).unwrap(),
                trouble: None,
            };
            shown(vec![sample], Host::default())
        };
        let text = said(format!("{status} {on}"), None);
        for line in [
            "dsm_discarded_bytes_total{device=\"d\"} 163840",
            "dsm_discards_total{device=\"d\"} 40",
            "dsm_discard_refused_bytes_total{device=\"d\"} 8192",
            "dsm_discard_queued_ranges{device=\"d\"} 5",
            "dsm_discard_held_seconds_max{device=\"d\"} 0.00035",
            "dsm_discard_seconds_max{device=\"d\"} 0.0009",
            "dsm_agent_discard_on{device=\"d\"} 1",
            "dsm_agent_discard_freed_bytes_total{device=\"d\"} 9",
            "dsm_agent_discard_sent_bytes_total{device=\"d\"} 7",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        let text = said(format!("{status} discard off"), Some("because"));
        assert!(text.contains("dsm_agent_discard_on{device=\"d\"} 0"));
        assert!(!text.contains("dsm_discards_total{"), "it is off");
    }

    #[test]
    fn what_the_server_said() {
        let info = ServerInfo {
            address: "localhost:27017".into(),
            connected: true,
            version: "8.0.4".into(),
            checkpoints: Some(7),
            operations: [("insert".into(), 3), ("query".into(), 5)].into(),
            catalog: false,
        };
        let agent = serde_json::json!({
            "device": "d", "dbpath": "/db", "pid": 1, "version": "x", "boundary": "auto", "marked": true,
            "files": 1, "boundaries": 1, "checkpoints": 6, "uploads": 1, "refusals": 0,
            "last_refresh_ms": 1, "delalloc": 0, "shared": 0, "server": info,
        });
        let said = shown(
            vec![Sample {
                device: "d".into(),
                kernel: None,
                agent: serde_json::from_value(agent).unwrap(),
                trouble: None,
            }],
            Host::default(),
        );
        for line in [
            "dsm_server_up{device=\"d\"} 1",
            "dsm_server_catalog{device=\"d\"} 0",
            "dsm_server_checkpoints_total{device=\"d\"} 7",
            "dsm_server_operations_total{device=\"d\",type=\"insert\"} 3",
            "dsm_server_operations_total{device=\"d\",type=\"query\"} 5",
            "dsm_agent_checkpoints_total{device=\"d\"} 6",
        ] {
            assert!(said.lines().any(|l| l == line), "{line}\n{said}");
        }
    }
}

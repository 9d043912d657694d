// SPDX-License-Identifier: GPL-2.0-or-later
//! Metrics in the text form of Prometheus.
//!
//! By hand: `prometheus-client` counts in its own registry, and these are read elsewhere.

pub mod families;

use std::fmt::Write as _;

use families::{Family, AGENT_UP, DEVICES, OF_SERVICE, PUBLISHED, USED};
use proto::snapshot::{Snapshot, Unavailable};

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: std::fmt::Arguments) {
        writeln!(self.0, "{line}").expect("strings grow");
    }

    fn head<T>(&mut self, f: &Family<T>) {
        let Family { name, kind, help, .. } = f;
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, of)| format!("{label}=\"{}\"", escaped(of)))
            .collect();
        match labels.join(",").as_str() {
            "" => self.line(format_args!("{name} {value}")),
            labels => self.line(format_args!("{name}{{{labels}}} {value}")),
        }
    }

    /// The values of a thing that itself has a label, or none.
    fn values<T>(&mut self, f: &Family<T>, label: Option<(&str, &str)>, thing: &T) {
        for (own, value) in (f.values)(thing) {
            let own = f.labels.iter().copied().zip(own.iter().map(String::as_str));
            let labels: Vec<_> = label.into_iter().chain(own).collect();
            self.value(f.name, &labels, value);
        }
    }
}

/// What was published last; or, where that is unavailable, that nothing is known now.
pub fn text(last: Option<&Snapshot>, unavailable: Option<&Unavailable>) -> String {
    let mut text = Text::default();
    let devices = last.map_or(&[][..], |s| &s.devices);
    if let Some(unavailable) = unavailable {
        text.line(format_args!("# {}", unavailable.to_string().replace('\n', " ")));
    }
    for f in DEVICES.iter().flat_map(|s| s.families) {
        text.head(f);
        if unavailable.is_some() && f.name == AGENT_UP && devices.is_empty() {
            text.value(f.name, &[], 0.0);
        }
        for s in devices {
            let device = ("device", s.name.as_str());
            match unavailable {
                None if !s.over || OF_SERVICE.contains(&f.name) => text.values(f, Some(device), s),
                Some(_) if f.name == AGENT_UP => text.value(f.name, &[device], 0.0),
                _ => {}
            }
        }
    }
    let now = last.filter(|_| unavailable.is_none());
    for (section, s) in [(&PUBLISHED, last), (&USED, now)] {
        for f in section.families {
            text.head(f);
            if let Some(s) = s {
                text.values(f, None, s);
            }
        }
    }
    text.0
}

#[cfg(test)]
mod tests {
    use dm::reply::Status;
    use serde_json::Value;

    use super::*;
    use drive::counters::{of_nvme, of_sata};
    use policies::layout::{self, Layout};
    use proto::device::{DeviceView, Kernel, Service};
    use proto::drive::{Counters, Media, Source};
    use proto::feed::ServerInfo;
    use proto::reason::{Reason, ReasonKind, OFF_FOR_A_TRIAL};
    use proto::snapshot::{Moment, Used};
    use testing::kernel::STATUS;

    fn names() -> impl Iterator<Item = &'static str> {
        let others = [&PUBLISHED, &USED].into_iter().flat_map(|s| s.families);
        let devices = DEVICES.iter().flat_map(|s| s.families).map(|f| f.name);
        devices.chain(others.map(|f| f.name))
    }

    /// What is shown of these.
    fn shown(devices: Vec<DeviceView>, used: Used) -> String {
        text(Some(&snapshot(devices, used)), None)
    }

    fn snapshot(devices: Vec<DeviceView>, used: Used) -> Snapshot {
        Snapshot {
            at: Moment {
                wall: 1.75e9,
                ..Moment::default()
            },
            number: 1,
            used,
            devices,
        }
    }

    /// Of a device of which all is known.
    fn all() -> DeviceView {
        let status = &format!("{STATUS} stream 3 10 6144 discard on discard_window 7 discard_valid 6");
        let agent = serde_json::json!({
            "dbpath": "/db", "pid": 1, "version": "x", "boundary": "auto", "marked": true,
            "files": 1, "boundaries": 1, "checkpoints": 6, "uploads": 1, "refusals": 0,
            "last_refresh_ms": 1, "delalloc": 0, "shared": 0,
            "discard": {"last_sent": 7, "mode": "on"},
            "left_out": [{"reason": "symlink", "count": 1}],
            "server": {"address": "a", "connected": true, "version": "8", "catalog": true},
        });
        DeviceView {
            name: "d".into(),
            kernel: Some(Kernel {
                media: Ok(Media {
                    drive: "nvme0n1".into(),
                    counters: Counters {
                        source: Source::Fdp,
                        host: 1,
                        media: 1,
                        erased: Some(0),
                        unit: 1,
                    },
                }),
                last_checkpoint: Some(1.75e9),
                ..kernel("259:0 0 2 stream_base 1", status)
            }),
            agent: serde_json::from_value(agent).unwrap(),
            service: Some(Service {
                pid: Some(7),
                ..Service::default()
            }),
            ..DeviceView::default()
        }
    }

    /// What Documentation/metrics.md says of labels, and of names by Prometheus' practice.
    fn kernel(table: &str, status: &str) -> Kernel {
        let kernel = Kernel::new(table.parse().unwrap(), status.parse().unwrap());
        Kernel {
            uses: layout::uses(&Layout::of(&kernel.table, &kernel.status)),
            ..kernel
        }
    }

    #[test]
    fn families_are_as_they_say() {
        fn check<T>(f: &Family<T>, thing: &T) {
            let values = (f.values)(thing);
            assert!(!values.is_empty(), "{} has no value", f.name);
            for (labels, _) in values {
                assert_eq!(labels.len(), f.labels.len(), "{}", f.name);
            }
            let total = f.name.ends_with("_total");
            assert_eq!(f.kind, if total { "counter" } else { "gauge" }, "{}", f.name);
            let moment = f.help.contains("since 1970");
            assert_eq!(f.name.ends_with("_timestamp_seconds"), moment, "{}", f.name);
            assert!(!f.help.contains("ago") && f.help.ends_with('.'), "{}", f.name);
        }
        let s = snapshot(vec![all()], Used::default());
        for f in DEVICES.iter().flat_map(|s| s.families) {
            check(f, &s.devices[0]);
        }
        for f in [&PUBLISHED, &USED].into_iter().flat_map(|s| s.families) {
            check(f, &s);
        }
        let all: Vec<_> = names().collect();
        let once: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), once.len(), "each name is there once");
    }

    #[test]
    fn of_one_that_has_ended_its_state_is_shown() {
        let mut sample = all();
        sample.end(proto::device::State::Stuck, Some("it is silent".into()));
        let text = shown(vec![sample], Used::default());
        assert!(text.contains("\ndsm_agent_up{device=\"d\"} 0\n"), "{text}");
        assert!(
            text.contains("\ndsm_agent_state{device=\"d\",state=\"stuck\"} 1\n"),
            "{text}"
        );
        assert!(
            !text.contains("\ndsm_up{") && !text.contains("\ndsm_stream"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_known() {
        let sample = DeviceView {
            name: "d".into(),
            ..DeviceView::default()
        };
        let last = snapshot(vec![sample], Used::default());
        let unavailable = Unavailable("/run/x".into());
        let values = |last, unavailable| -> Vec<String> {
            let text = text(last, unavailable);
            let lines = text
                .lines()
                .filter(|l| !l.starts_with("# HELP") && !l.starts_with("# TYPE"));
            lines.map(str::to_owned).collect()
        };
        let reason = "# no dsmd runs: there is no file of one in /run/x";
        assert_eq!(values(None, Some(&unavailable)), [reason, "dsm_agent_up 0"]);
        assert_eq!(
            values(Some(&last), Some(&unavailable)),
            [
                reason,
                "dsm_agent_up{device=\"d\"} 0",
                "dsm_snapshot_timestamp_seconds 1750000000"
            ]
        );
        let good = values(Some(&last), None);
        assert!(good.contains(&"dsm_up{device=\"d\"} 0".to_owned()), "{good:?}");
    }

    /// The metrics of a drive, of what it answers.
    fn drive_metrics(counters: Counters) -> Vec<String> {
        let mut device = all();
        device.kernel.as_mut().unwrap().media = Ok(Media {
            drive: "x".into(),
            counters,
        });
        let text = shown(vec![device], Used::default());
        let lines = text.lines().filter_map(|l| l.strip_prefix("dsm_drive_"));
        lines
            .map(|l| l.replace("{device=\"d\",drive=\"x\"}", ""))
            .collect()
    }

    /// From what each kind of drive answers to what Prometheus gets.
    #[test]
    fn every_kind_of_drive_counts() {
        let nvme = |pages: &[(u32, Vec<(usize, u128)>)]| {
            let read = |number, data: &mut [u8]| {
                let Some((_, fields)) = pages.iter().find(|p| p.0 == number) else {
                    return Ok(false);
                };
                for (at, value) in fields {
                    // Items of the additional log lie closer than 16 bytes.
                    let bytes = value.to_le_bytes();
                    let used = 16 - value.leading_zeros() as usize / 8;
                    data[*at..*at + used].copy_from_slice(&bytes[..used]);
                }
                Ok(true)
            };
            drive_metrics(of_nvme(&read).unwrap())
        };
        assert_eq!(
            nvme(&[(0x22, vec![(0, 1000), (16, 1500), (32, 4096)])]),
            [
                "host_written_bytes_total 1000",
                "media_written_bytes_total 1500",
                "media_erased_bytes_total 4096",
                "counter_unit_bytes 1"
            ]
        );
        let guid = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5;
        assert_eq!(
            nvme(&[(0x02, vec![(48, 7)]), (0xc0, vec![(0, 4_000_000), (496, guid)])]),
            [
                "host_written_bytes_total 3584000",
                "media_written_bytes_total 4000000",
                "counter_unit_bytes 512000"
            ]
        );
        assert_eq!(
            nvme(&[(0xca, vec![(0, 0xf4), (5, 3), (12, 0xf5), (17, 2)])]),
            [
                "host_written_bytes_total 67108864",
                "media_written_bytes_total 100663296",
                "counter_unit_bytes 33554432"
            ]
        );
        let smartctl = serde_json::json!({"ata_smart_attributes": {"table": [
            {"name": "Total_LBAs_Written", "raw": {"value": 4096}},
            {"name": "NAND_Writes_1GiB", "raw": {"value": 3}},
        ]}});
        assert_eq!(
            drive_metrics(of_sata(&smartctl).unwrap()),
            [
                "host_written_bytes_total 2097152",
                "media_written_bytes_total 3221225472",
                "counter_unit_bytes 1073741824"
            ]
        );
    }

    #[test]
    fn the_text_form() {
        let status = &format!("{STATUS} stream 0 1 0 stream 3 10 6144");
        let kernel = Kernel {
            media: Ok(Media {
                drive: "nvme0n1".into(),
                counters: Counters {
                    source: Source::Fdp,
                    host: 1000,
                    media: 2000,
                    erased: Some(0),
                    unit: 1,
                },
            }),
            last_checkpoint: Some(1_749_999_958.75),
            ..kernel("259:0 0 2 stream_base 1", status)
        };
        let sample = |kernel| DeviceView {
            name: "a\"b".into(),
            kernel,
            ..DeviceView::default()
        };
        let used = Used {
            cpu: 0.25,
            ..Used::default()
        };
        let said = shown(vec![sample(Some(kernel))], used);
        for line in [
            "# TYPE dsm_stream_bytes_total counter",
            "dsm_stream_bytes_total{device=\"a\\\"b\",stream=\"3\",used_for=\"collection group 1\"} 3145728",
            "dsm_stream_writes_total{device=\"a\\\"b\",stream=\"0\",used_for=\"\"} 1",
            "dsm_unmapped_bytes_total{device=\"a\\\"b\"} 1048576",
            "dsm_last_checkpoint_timestamp_seconds{device=\"a\\\"b\"} 1749999958.75",
            "dsm_drive_media_written_bytes_total{device=\"a\\\"b\",drive=\"nvme0n1\"} 2000",
            "dsm_up{device=\"a\\\"b\"} 1",
            "dsm_agent_up{device=\"a\\\"b\"} 0",
            "process_cpu_seconds_total 0.25",
        ] {
            assert!(said.lines().any(|l| l == line), "{line}\n{said}");
        }
        assert!(!said.contains("dsm_agent_uploads_total{"));
        assert!(!said.contains("dsm_server_up{"), "nobody is asked");
        let gone = shown(vec![sample(None)], used);
        assert!(gone.contains("dsm_up{device=\"a\\\"b\"} 0\n"));
        assert!(!gone.contains("dsm_files{"));
    }

    /// dsmd sets boundaries under every policy, and with life nobody asks for them.
    #[test]
    fn boundaries_that_matter_are_outgrown() {
        for (policy, outgrown) in [("dsm", 3), ("boundary", 3), ("life", 0), ("file", 0)] {
            let mut sample = all();
            sample.kernel.as_mut().unwrap().status.policy = policy.into();
            sample.agent.as_mut().unwrap().outgrown = 3;
            let text = shown(vec![sample], Used::default());
            let line = format!("dsm_agent_outgrown{{device=\"d\"}} {outgrown}\n");
            assert!(text.contains(&line), "{policy}: {text}");
        }
    }

    #[test]
    fn what_is_discarded() {
        let status = STATUS;
        let on = "discard on discard_window 7 discard_valid 6 discard_queued 5 discarded 40 \
            discarded_sectors 320 discard_refused_sectors 16 discard_failed 1 discard_held 2 \
            discard_held_max_us 350 discard_plug_max_us 900 discard_short_sectors 24 \
            discard_granularity 131072 discard_alignment 4096";
        let agent = |off: Option<&str>| {
            let mode = if off == Some("nothing") { "on" } else { "audit" };
            let only = off.filter(|why| *why == OFF_FOR_A_TRIAL);
            let only = only.map(|why| Reason::new(ReasonKind::Trial, why));
            let off = off.filter(|why| *why != "nothing" && only.is_none());
            let off = off.map(Reason::from);
            serde_json::json!({
                "dbpath": "/db", "pid": 1, "version": "x", "boundary": "auto", "marked": true,
                "files": 1, "boundaries": 1, "checkpoints": 6, "uploads": 1, "refusals": 0,
                "last_refresh_ms": 1, "delalloc": 0, "shared": 0,
                "discard": {
                    "off": off, "freed_bytes": 9, "sent_bytes": 7, "files": 3, "mode": mode,
                    "audit": {
                        "only": only, "named_pages": 8, "taken_pages": 7, "written_pages": 6, "suspect_pages": 1,
                        "violations": 2, "failed": true,
                    },
                },
            })
        };
        let said = |status: String, off| {
            let sample = DeviceView {
                name: "d".into(),
                kernel: Some(kernel("259:0 0 0", &status)),
                agent: serde_json::from_value(agent(off)).unwrap(),
                ..DeviceView::default()
            };
            shown(vec![sample], Used::default())
        };
        let text = said(format!("{status} {on}"), None);
        for line in [
            "dsm_discarded_bytes_total{device=\"d\"} 163840",
            "dsm_discarded_total{device=\"d\"} 40",
            "dsm_discard_refused_bytes_total{device=\"d\"} 8192",
            "dsm_discard_short_bytes_total{device=\"d\"} 12288",
            "dsm_discard_granularity_bytes{device=\"d\"} 131072",
            "dsm_discard_queued{device=\"d\"} 5",
            "dsm_discard_held_max_seconds{device=\"d\"} 0.00035",
            "dsm_discard_plug_max_seconds{device=\"d\"} 0.0009",
            "dsm_agent_discard_on{device=\"d\"} 0",
            "dsm_agent_discard_freed_bytes_total{device=\"d\"} 9",
            "dsm_agent_discard_sent_bytes_total{device=\"d\"} 7",
            "dsm_agent_audit_only{device=\"d\"} 1",
            "dsm_agent_audit_named_pages_total{device=\"d\"} 8",
            "dsm_agent_audit_taken_pages_total{device=\"d\"} 7",
            "dsm_agent_audit_written_pages_total{device=\"d\"} 6",
            "dsm_agent_audit_suspect_pages{device=\"d\"} 1",
            "dsm_agent_audit_violations_total{device=\"d\"} 2",
            "dsm_agent_audit_failed{device=\"d\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        let text = said(format!("{status} {on}"), Some("nothing"));
        assert!(text.contains("dsm_agent_discard_on{device=\"d\"} 1"));
        let text = said(format!("{status} discard off"), Some("because"));
        assert!(text.contains("dsm_agent_discard_on{device=\"d\"} 0"));
        let text = said(format!("{status} discard off"), Some(OFF_FOR_A_TRIAL));
        assert!(!text.contains("dsm_agent_discard_on{"), "no alert");
        assert!(!text.contains("dsm_discarded_total{"), "it is off");
    }

    #[test]
    fn what_the_server_said() {
        let info = ServerInfo {
            address: "localhost:27017".into(),
            connected: true,
            version: "8.0.4".into(),
            catalog: false,
            failure: None,
        };
        let agent = serde_json::json!({
            "dbpath": "/db", "pid": 1, "version": "x", "boundary": "auto", "marked": true,
            "files": 1, "boundaries": 1, "checkpoints": 6, "uploads": 1, "refusals": 0,
            "last_refresh_ms": 1, "delalloc": 0, "shared": 0, "server": info,
        });
        let said = shown(
            vec![DeviceView {
                name: "d".into(),
                agent: serde_json::from_value(agent).unwrap(),
                ..DeviceView::default()
            }],
            Used::default(),
        );
        for line in [
            "dsm_server_up{device=\"d\"} 1",
            "dsm_server_catalog{device=\"d\"} 0",
            "dsm_agent_checkpoints_total{device=\"d\"} 6",
        ] {
            assert!(said.lines().any(|l| l == line), "{line}\n{said}");
        }
    }

    /// A counter has one name: dm-dsm/status.c's, and Prometheus' units.
    #[test]
    fn names_are_the_kernels() {
        let status: Status = format!("{STATUS} discard on").parse().unwrap();
        let Value::Object(status) = serde_json::to_value(&status).unwrap() else {
            unreachable!()
        };
        let discard = status["discard"].as_object().unwrap();
        let discard = discard
            .iter()
            .map(|(name, value)| match name.starts_with("discarded") {
                true => (name.clone(), value),
                false => (format!("discard_{name}"), value),
            });
        let words = status
            .iter()
            .map(|(name, value)| (name.clone(), value))
            .chain(discard);
        // They are no counters.
        let left = [
            "window_ms",
            "discard_window",
            "discard_valid",
            "discard_alignment",
            "discard_offset",
        ];
        let known: Vec<&str> = names().collect();
        let mut seen = 0;
        for (word, _) in words.filter(|(word, value)| value.is_number() && !left.contains(&word.as_str())) {
            let name = word.strip_suffix("_sectors").map(|w| format!("{w}_bytes"));
            let name = name.or(word.strip_suffix("_us").map(|w| format!("{w}_seconds")));
            let name = format!("dsm_{}", name.unwrap_or(word));
            let forms = ["", "_total", "_bytes"].map(|suffix| format!("{name}{suffix}"));
            assert!(forms.iter().any(|f| known.contains(&f.as_str())), "{name}");
            seen += 1;
        }
        assert_eq!(seen, 22);
    }
}

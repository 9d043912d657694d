// SPDX-License-Identifier: GPL-2.0-or-later
//! Every metric: its name, type, labels, what it means, and where its values are found.
//! Documentation/metrics.md is made of this.

use dm::mode::Mode;
use dm::reply::{Discard, Status};
use proto::control::{DiscardInfo, Info};
use proto::device::{DeviceView, Service, State};
use proto::drive::Counters;
use proto::feed::ServerInfo;
use proto::left_out;
use proto::reason::ReasonKind;
use proto::snapshot::{Snapshot, Used};

/// The values of a family's own labels, and the metric's.
pub(super) type Value = (Vec<String>, f64);

/// Metrics of one name, which are read from a `T`.
pub(super) struct Family<T: 'static> {
    pub name: &'static str,
    pub kind: &'static str,
    pub help: &'static str,
    /// Beside `device`, which all have that are of a device.
    pub labels: &'static [&'static str],
    /// Whether the dashboard for Grafana shows it.
    pub panel: bool,
    pub values: fn(&T) -> Vec<Value>,
}

/// Families that are there at the same times.
pub(super) struct Section<T: 'static> {
    pub title: &'static str,
    /// When they are there.
    pub about: &'static str,
    pub families: &'static [Family<T>],
}

type Values<T> = fn(&T) -> Vec<Value>;

const fn gauge<T>(name: &'static str, help: &'static str, values: Values<T>) -> Family<T> {
    Family {
        name,
        kind: "gauge",
        help,
        labels: &[],
        panel: true,
        values,
    }
}

const fn counter<T>(name: &'static str, help: &'static str, values: Values<T>) -> Family<T> {
    Family {
        kind: "counter",
        ..gauge(name, help, values)
    }
}

impl<T> Family<T> {
    const fn by(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }

    /// It says how something is set up, or repeats another.
    const fn without_panel(self) -> Self {
        Self { panel: false, ..self }
    }
}

fn one(value: impl Into<f64>) -> Vec<Value> {
    vec![(Vec::new(), value.into())]
}

fn is(what: bool) -> Vec<Value> {
    one(u8::from(what))
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

fn kernel(s: &DeviceView, value: impl Fn(&Status) -> u64) -> Vec<Value> {
    s.status().map(|k| one(value(k) as f64)).unwrap_or_default()
}

fn media(s: &DeviceView, value: impl Fn(&Counters) -> Option<u128>) -> Vec<Value> {
    let reported = s.kernel.iter().filter_map(|k| k.media.as_ref().ok());
    reported
        .filter_map(|m| Some((vec![m.drive.clone()], value(&m.counters)? as f64)))
        .collect()
}

fn agent(s: &DeviceView, value: impl Fn(&Info) -> f64) -> Vec<Value> {
    s.agent.as_ref().map(|i| one(value(i))).unwrap_or_default()
}

/// Of the database's process.
fn process(s: &DeviceView, value: impl Fn(&Service) -> Option<f64>) -> Vec<Value> {
    let found = s.service.as_ref().and_then(value);
    found.map(one).unwrap_or_default()
}

fn discard(s: &DeviceView, value: impl Fn(&Discard) -> f64) -> Vec<Value> {
    let on = s.status().map(|k| &k.discard).filter(|d| d.state == Mode::On);
    on.map(|d| one(value(d))).unwrap_or_default()
}

fn discarder(s: &DeviceView, value: impl Fn(&DiscardInfo) -> Option<f64>) -> Vec<Value> {
    let info = s.agent.as_ref().and_then(|a| a.discard.as_ref());
    info.and_then(value).map(one).unwrap_or_default()
}

fn server(s: &DeviceView, values: impl Fn(&ServerInfo) -> Vec<Value>) -> Vec<Value> {
    let info = s.agent.as_ref().and_then(|a| a.server.as_ref());
    info.map(values).unwrap_or_default()
}

fn streams(s: &DeviceView, value: impl Fn(u64, u64) -> u64) -> Vec<Value> {
    let Some(k) = &s.kernel else {
        return Vec::new();
    };
    let used_for = |stream| k.uses.get(stream).map(|u| u.join(", ")).unwrap_or_default();
    let counts = k.status.streams.iter();
    counts
        .map(|c| {
            let labels = vec![c.stream.to_string(), used_for(&c.stream)];
            (labels, value(c.writes, c.sectors) as f64)
        })
        .collect()
}

/// The one family that says something when nothing is known.
pub(super) const AGENT_UP: &str = "dsm_agent_up";

/// What is known of a dsmd that has ended, or is silent.
pub(super) const OF_SERVICE: [&str; 4] = [
    AGENT_UP,
    "dsm_agent_state",
    "dsm_agent_state_timestamp_seconds",
    "dsm_agent_restarts_total",
];

pub(super) const DEVICES: &[Section<DeviceView>] = &[
    Section {
        title: "The device",
        about: "`dsm_up`, the state of the database's process and `dsm_left_out` are always there while dsmd \
                runs, `dsm_agent_up` even when it does not; the others while the device is there. Each database \
                has a process of its own.",
        families: &[
            gauge("dsm_up", "Whether the device is there.", |s| {
                is(s.kernel.is_some())
            }),
            gauge(AGENT_UP, "Whether dsmd serves the device's database.", |s| {
                is(s.state() == Some(State::Served))
            }),
            gauge(
                "dsm_agent_state",
                "1 for the state of the database's process: starting, waiting for the device or the database, \
                 served, stuck (it does not answer), or ended.",
                |s: &DeviceView| {
                    let is = |state| f64::from(u8::from(s.state() == Some(state)));
                    let of = |state: State| (vec![state.name().to_owned()], is(state));
                    State::ALL.into_iter().map(of).collect()
                },
            )
            .by(&["state"])
            .without_panel(),
            gauge(
                "dsm_agent_state_timestamp_seconds",
                "Since when the database's process is in its state, in seconds since 1970.",
                |s| process(s, |p| Some(p.since)),
            )
            .without_panel(),
            counter(
                "dsm_agent_restarts_total",
                "How often the database's process ended, and another took its place.",
                |s| process(s, |p| Some(p.restarts as f64)),
            )
            .without_panel(),
            counter(
                "dsm_agent_cpu_seconds_total",
                "Seconds of processors that the database's process has used.",
                |s| process(s, |p| p.pid.map(|_| p.cpu)),
            )
            .without_panel(),
            gauge(
                "dsm_agent_memory_bytes",
                "Memory that the database's process has.",
                |s| process(s, |p| p.pid.map(|_| p.memory as f64)),
            )
            .without_panel(),
            gauge(
                "dsm_left_out",
                "What is left out of what is placed, counted or discarded, by reason: see below.",
                |s: &DeviceView| {
                    let all = left_out::of(s).into_iter();
                    all.map(|l| (vec![l.reason.name().to_owned()], l.count as f64)).collect()
                },
            )
            .by(&["reason"])
            .without_panel(),
            counter(
                "dsm_stream_writes_total",
                "Writes stamped with a stream (0: not stamped).",
                |s| streams(s, |writes, _| writes),
            )
            .by(&["stream", "used_for"])
            .without_panel(),
            counter(
                "dsm_stream_bytes_total",
                "Bytes stamped with a stream (0: not stamped).",
                |s| streams(s, |_, sectors| sectors * 512),
            )
            .by(&["stream", "used_for"]),
            counter(
                "dsm_unmapped_writes_total",
                "Writes that no extent of the table covers.",
                |s| kernel(s, |k| k.unmapped_writes),
            )
            .without_panel(),
            counter(
                "dsm_unmapped_bytes_total",
                "Bytes of writes that no extent of the table covers.",
                |s| kernel(s, |k| k.unmapped_sectors * 512),
            ),
            counter(
                "dsm_split_total",
                "Bios that were divided at the edge of two streams.",
                |s| kernel(s, |k| k.split),
            ),
            counter(
                "dsm_foreign_total",
                "Writes that kept a stream or hint of their own.",
                |s| kernel(s, |k| k.foreign),
            ),
            counter(
                "dsm_windows_total",
                "Windows of the target since the device was made; a checkpoint ends one.",
                |s| kernel(s, |k| k.windows),
            ),
            gauge(
                "dsm_last_checkpoint_timestamp_seconds",
                "When the last checkpoint was, in seconds since 1970; absent before the first.",
                |s| {
                    let at = s.kernel.as_ref().and_then(|k| k.last_checkpoint);
                    at.map(one).unwrap_or_default()
                },
            ),
            gauge(
                "dsm_generation",
                "Generation of the table: uploads that took effect since the device was made.",
                |s| kernel(s, |k| k.generation),
            )
            .without_panel(),
            gauge("dsm_files", "Files in the table.", |s| kernel(s, |k| k.files)),
            gauge(
                "dsm_regions",
                "Regions in the table: what lies below the boundary of a file, and what above.",
                |s| kernel(s, |k| k.regions),
            ),
            gauge("dsm_extents", "Extents in the table.", |s| {
                kernel(s, |k| k.extents)
            }),
            gauge("dsm_streams_used", "Streams that the layout uses.", |s| {
                kernel(s, |k| k.streams_used.into())
            })
            .without_panel(),
            gauge("dsm_device_streams", "Streams that the device takes.", |s| {
                kernel(s, |k| k.device_streams.into())
            })
            .without_panel(),
            gauge(
                "dsm_groups",
                "Groups of regions of a class (K of the policy).",
                |s| kernel(s, |k| k.groups.into()),
            )
            .without_panel(),
        ],
    },
    Section {
        title: "The drive",
        about: "Where the drive counts what it writes: FDP statistics, OCP's SMART log, the additional \
                SMART log of Intel and Solidigm, or SATA attributes. They are of the whole drive (with FDP, of \
                the endurance group), also of namespaces and partitions without dsm. NVMe drives are asked every \
                15 seconds, others every minute.",
        families: &[
            counter(
                "dsm_drive_host_written_bytes_total",
                "Bytes that hosts wrote to the drive.",
                |s| media(s, |c| Some(c.host)),
            )
            .by(&["drive"]),
            counter(
                "dsm_drive_media_written_bytes_total",
                "Bytes that the drive wrote to its media.",
                |s| media(s, |c| Some(c.media)),
            )
            .by(&["drive"]),
            counter(
                "dsm_drive_media_erased_bytes_total",
                "Bytes that the drive erased on its media; only FDP statistics have it.",
                |s| media(s, |c| c.erased),
            )
            .by(&["drive"]),
            gauge(
                "dsm_drive_counter_unit_bytes",
                "Bytes by which the coarser of the drive's counters moves at a time.",
                |s| media(s, |c| Some(c.unit.into())),
            )
            .by(&["drive"])
            .without_panel(),
        ],
    },
    Section {
        title: "What dsmd does",
        about: "While dsmd serves the device's database.",
        families: &[
            gauge("dsm_agent_boundaries", "Files that have a boundary.", |s| {
                agent(s, |i| i.boundaries as f64)
            }),
            gauge(
                "dsm_agent_outgrown",
                "Files that have outgrown their boundary; 0 where the policy has none.",
                |s| {
                    let asked = s.status().is_none_or(Status::has_boundaries);
                    agent(s, |i| if asked { i.outgrown as f64 } else { 0.0 })
                },
            ),
            counter(
                "dsm_agent_checkpoints_total",
                "Checkpoints that dsmd has seen.",
                |s| agent(s, |i| i.checkpoints as f64),
            ),
            counter("dsm_agent_uploads_total", "Uploads by dsmd.", |s| {
                agent(s, |i| i.uploads as f64)
            })
            .without_panel(),
            counter(
                "dsm_agent_refusals_total",
                "Uploads that the kernel refused.",
                |s| agent(s, |i| i.refusals as f64),
            ),
            gauge(
                "dsm_agent_refresh_seconds",
                "How long the last look at the files took.",
                |s| agent(s, |i| seconds(i.last_refresh_ms)),
            ),
            gauge(
                "dsm_agent_delalloc_extents",
                "Extents of the last look that have no place yet.",
                |s| agent(s, |i| i.delalloc as f64),
            ),
        ],
    },
    Section {
        title: "Discards: the target",
        about: "While the feature `discard` of the target is on, or watched.",
        families: &[
            counter(
                "dsm_discarded_bytes_total",
                "Bytes of freed blocks that were discarded.",
                |s| discard(s, |d| d.discarded_sectors as f64 * 512.0),
            ),
            counter("dsm_discarded_total", "Discards of freed blocks.", |s| {
                discard(s, |d| d.discarded as f64)
            }),
            counter(
                "dsm_discard_refused_bytes_total",
                "Bytes that the target did not discard, because they were written, or may have been.",
                |s| discard(s, |d| d.refused_sectors as f64 * 512.0),
            ),
            counter(
                "dsm_discard_short_bytes_total",
                "Bytes that the target did not discard, because too few lie side by side.",
                |s| discard(s, |d| d.short_sectors as f64 * 512.0),
            ),
            gauge(
                "dsm_discard_granularity_bytes",
                "What the length of a discard is a multiple of.",
                |s| discard(s, |d| d.granularity as f64),
            )
            .without_panel(),
            counter(
                "dsm_discard_failed_total",
                "Discards that the device failed.",
                |s| discard(s, |d| d.failed as f64),
            ),
            gauge(
                "dsm_discard_queued",
                "Ranges that wait to be discarded.",
                |s| discard(s, |d| d.queued as f64),
            ),
            counter(
                "dsm_discard_held_total",
                "Writes that waited for a discard.",
                |s| discard(s, |d| d.held as f64),
            ),
            gauge(
                "dsm_discard_held_max_seconds",
                "The longest that a write waited for a discard.",
                |s| discard(s, |d| d.held_max_us as f64 / 1e6),
            ),
            gauge(
                "dsm_discard_plug_max_seconds",
                "The longest that 256 discards took.",
                |s| discard(s, |d| d.plug_max_us as f64 / 1e6),
            ),
        ],
    },
    Section {
        title: "Discards: dsmd",
        about: "Where dsmd serves a database with `discard = true` or `\"audit\"`. Of what \
                checkpoints list as free, a part is short, unplaced or waiting. In audit the target only \
                watches writes, and nothing is sent.",
        families: &[
            gauge(
                "dsm_agent_discard_on",
                "Whether dsmd discards what checkpoints free, which in an audit it does not; absent while a trial has that off.",
                |s| {
                    discarder(s, |i| match &i.audit.only {
                        Some(why) if why.kind == ReasonKind::Trial => None,
                        _ => Some(f64::from(u8::from(i.off.is_none() && i.mode == Mode::On))),
                    })
                },
            ),
            gauge(
                "dsm_agent_discard_files",
                "Files whose list of free blocks dsmd knows.",
                |s| discarder(s, |i| Some(i.files as f64)),
            ),
            counter(
                "dsm_agent_discard_freed_bytes_total",
                "Bytes that checkpoints have freed.",
                |s| discarder(s, |i| Some(i.freed_bytes as f64)),
            ),
            counter(
                "dsm_agent_discard_sent_bytes_total",
                "Freed bytes that dsmd has sent to the target to discard.",
                |s| discarder(s, |i| Some(i.sent_bytes as f64)),
            ),
            gauge(
                "dsm_agent_discard_short_bytes",
                "Free bytes at the last checkpoint in pieces that are less than the drive discards at a time.",
                |s| discarder(s, |i| Some(i.short_bytes as f64)),
            ),
            gauge(
                "dsm_agent_discard_unplaced_bytes",
                "Free bytes at the last checkpoint without a place of their own, or written meanwhile.",
                |s| discarder(s, |i| Some(i.unplaced_bytes as f64)),
            ),
            gauge(
                "dsm_agent_discard_waiting_bytes",
                "Free bytes that dsmd has still to send, now or after a later checkpoint.",
                |s| discarder(s, |i| Some(i.waiting_bytes as f64)),
            ),
            gauge(
                "dsm_agent_discard_last_sent_timestamp_seconds",
                "When dsmd last sent something to discard, in seconds since 1970; absent before.",
                |s| discarder(s, |i| i.last_sent.map(|at| at as f64)),
            ),
            counter(
                "dsm_agent_discard_resets_total",
                "How often dsmd forgot all that it knew of freed blocks.",
                |s| discarder(s, |i| Some(i.resets as f64)),
            ),
            gauge(
                "dsm_agent_audit_only",
                "Whether nothing reaches the drive: by the configuration, by the database's version, or before enough was seen; absent while nothing is followed.",
                |s| {
                    discarder(s, |i| match i.mode {
                        Mode::Unknown => None,
                        mode => Some(f64::from(u8::from(mode == Mode::Audit))),
                    })
                },
            )
            .without_panel(),
            counter(
                "dsm_agent_audit_named_pages_total",
                "Pages that would have been sent in audit, and nobody had written by then.",
                |s| discarder(s, |i| Some(i.audit.named_pages as f64)),
            ),
            counter(
                "dsm_agent_audit_taken_pages_total",
                "Of these, pages that a later checkpoint uses again.",
                |s| discarder(s, |i| Some(i.audit.taken_pages as f64)),
            ),
            counter(
                "dsm_agent_audit_written_pages_total",
                "Pages that were seen to be written before they were used again.",
                |s| discarder(s, |i| Some(i.audit.written_pages as f64)),
            ),
            gauge(
                "dsm_agent_audit_suspect_pages",
                "Pages in use that nobody has written yet; they are looked at again at the next checkpoint.",
                |s| discarder(s, |i| Some(i.audit.suspect_pages as f64)),
            ),
            counter(
                "dsm_agent_audit_violations_total",
                "How often the database was seen to use pages that it had not written.",
                |s| discarder(s, |i| Some(i.audit.violations as f64)),
            ),
            gauge(
                "dsm_agent_audit_failed",
                "Whether discards are off for good, because the audit has seen such a page.",
                |s| discarder(s, |i| Some(f64::from(u8::from(i.audit.failed)))),
            ),
        ],
    },
    Section {
        title: "The database's server",
        about: "Where dsm-mongo asks it.",
        families: &[
            gauge("dsm_server_up", "Whether the database's server answers.", |s| {
                server(s, |i| is(i.connected))
            }),
            gauge(
                "dsm_server_catalog",
                "Whether the server reports which file is whose.",
                |s| server(s, |i| is(i.catalog)),
            )
            .without_panel(),
        ],
    },
];

/// What stays when dsmd has ended, so that it can be seen since when.
pub(super) const PUBLISHED: Section<Snapshot> = Section {
    title: "What is shown here",
    about: "Once dsmd has published something, also when it has ended since. There is no label `device`.",
    families: &[gauge(
        "dsm_snapshot_timestamp_seconds",
        "When dsmd published what is shown here, in seconds since 1970.",
        |s: &Snapshot| one(s.at.wall),
    )
    .without_panel()],
};

/// Under the names that Prometheus's own programs use.
pub(super) const USED: Section<Used> = Section {
    title: "dsmd itself",
    about: "While dsmd runs. There is no label `device`.",
    families: &[
        counter(
            "process_cpu_seconds_total",
            "Seconds of processors that all dsmd have used.",
            |u: &Used| one(u.cpu),
        ),
        gauge(
            "process_resident_memory_bytes",
            "Memory that all dsmd have.",
            |u: &Used| one(u.memory as f64),
        )
        .without_panel(),
    ],
};

// SPDX-License-Identifier: GPL-2.0-or-later
//! Every metric: its name, type, labels, what it means, and where its values are found.
//! Documentation/metrics.md is made of this.

use dm::mode::Mode;
use dm::reply::{Discard, Status, StreamCount};
use proto::control::{DiscardInfo, Info};
use proto::device::{DeviceView, Service, State};
use proto::drive::Counters;
use proto::feed::ServerInfo;
use proto::left_out::{self, LeftOut};
use proto::snapshot::Snapshot;

/// The values of a family's own labels, and the metric's.
pub type Value = (Vec<String>, f64);

/// Metrics of one name, which are read from a `T`.
pub struct Family<T: 'static> {
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
pub struct Section<T: 'static> {
    pub title: &'static str,
    /// When they are there.
    pub about: &'static str,
    pub families: &'static [Family<T>],
}

/// What becomes a metric's value, if it is known.
trait Figure {
    fn figure(self) -> Option<f64>;
}

macro_rules! figures {
    ($($kind:ty)*) => {
        $(impl Figure for $kind {
            fn figure(self) -> Option<f64> {
                Some(self as f64)
            }
        })*
    };
}

figures!(f64 u32 u64 u128 usize);

impl Figure for bool {
    fn figure(self) -> Option<f64> {
        u32::from(self).figure()
    }
}

impl<F: Figure> Figure for Option<F> {
    fn figure(self) -> Option<f64> {
        self?.figure()
    }
}

/// Families, one after the other: `+` or `-`, which says whether the dashboard shows it (what says
/// how something is set up, or repeats another, it does not), type, name, labels, values, and help.
macro_rules! families {
    ($($panel:tt $kind:ident $name:tt $([$($label:literal),*])? = $of:ident |$($x:pat_param),*| $value:expr,
       $help:literal;)*) => {
        &[$(Family {
            name: $name,
            kind: stringify!($kind),
            help: $help,
            labels: &[$($($label),*)?],
            panel: matches!(stringify!($panel).as_bytes(), b"+"),
            values: families!(@values $of |$($x),*| $value, $($($label)*)?),
        }),*]
    };
    (@values $of:ident |$x:pat_param| $value:expr,) => {
        |thing| one($of(thing).map(|$x| $value))
    };
    (@values $of:ident |$($x:pat_param),*| $value:expr, $($label:literal)+) => {
        |thing| $of(thing, |$($x),*| $value)
    };
}

fn one(value: impl Figure) -> Vec<Value> {
    value
        .figure()
        .map(|value| (Vec::new(), value))
        .into_iter()
        .collect()
}

fn it<T>(thing: &T) -> Option<&T> {
    Some(thing)
}

fn kernel(s: &DeviceView) -> Option<&Status> {
    s.status()
}

fn agent(s: &DeviceView) -> Option<&Info> {
    s.agent.as_ref()
}

/// Of the database's process.
fn process(s: &DeviceView) -> Option<&Service> {
    s.service.as_ref()
}

fn discard(s: &DeviceView) -> Option<&Discard> {
    s.status().map(|k| &k.discard).filter(|d| d.state == Mode::On)
}

fn discarder(s: &DeviceView) -> Option<&DiscardInfo> {
    agent(s)?.discard.as_ref()
}

fn server(s: &DeviceView) -> Option<&ServerInfo> {
    agent(s)?.server.as_ref()
}

fn media<F: Figure>(s: &DeviceView, value: impl Fn(&Counters) -> F) -> Vec<Value> {
    let reported = s.kernel.iter().filter_map(|k| k.media.as_ref().ok());
    reported
        .filter_map(|m| Some((vec![m.drive.clone()], value(&m.counters).figure()?)))
        .collect()
}

fn streams(s: &DeviceView, value: impl Fn(&StreamCount) -> u64) -> Vec<Value> {
    let Some(k) = &s.kernel else {
        return Vec::new();
    };
    let used_for = |stream: &u32| k.uses.get(stream).map(|u| u.join(", ")).unwrap_or_default();
    let labels = |c: &StreamCount| vec![c.stream.to_string(), used_for(&c.stream)];
    let counts = k.status.streams.iter();
    counts.map(|c| (labels(c), value(c) as f64)).collect()
}

fn states(s: &DeviceView, is: impl Fn(&DeviceView, State) -> bool) -> Vec<Value> {
    let of = |state: State| (vec![state.name().to_owned()], f64::from(u8::from(is(s, state))));
    State::ALL.iter().copied().map(of).collect()
}

fn left_out(s: &DeviceView, value: impl Fn(&LeftOut) -> u64) -> Vec<Value> {
    let all = left_out::of(s).into_iter();
    all.map(|l| (vec![l.reason.name().to_owned()], value(&l) as f64))
        .collect()
}

/// The one family that says something when nothing is known.
pub const AGENT_UP: &str = "dsm_agent_up";

/// What is known of a dsmd that has ended, or is silent.
pub const OF_SERVICE: [&str; 4] = [
    AGENT_UP,
    "dsm_agent_state",
    "dsm_agent_state_timestamp_seconds",
    "dsm_agent_restarts_total",
];

pub const DEVICES: &[Section<DeviceView>] = &[
    Section {
        title: "The device",
        about: "`dsm_up`, the state of the database's process and `dsm_left_out` are always there while dsmd \
                runs, `dsm_agent_up` even when it does not; the others while the device is there. Each database \
                has a process of its own.",
        families: families! {
            + gauge "dsm_up" = it |s| s.kernel.is_some(),
                "Whether the device is there.";
            + gauge AGENT_UP = it |s| s.state() == Some(State::Served),
                "Whether dsmd serves the device's database.";
            - gauge "dsm_agent_state" ["state"] = states |s, state| s.state() == Some(state),
                "1 for the state of the database's process: starting, waiting for the device or the \
                 database, served, stuck (it does not answer), or ended.";
            - gauge "dsm_agent_state_timestamp_seconds" = process |p| p.since,
                "Since when the database's process is in its state, in seconds since 1970.";
            - counter "dsm_agent_restarts_total" = process |p| p.restarts,
                "How often the database's process ended, and another took its place.";
            - counter "dsm_agent_cpu_seconds_total" = process |p| p.pid.map(|_| p.cpu),
                "Seconds of processors that the database's process has used.";
            - gauge "dsm_agent_memory_bytes" = process |p| p.pid.map(|_| p.memory),
                "Memory that the database's process has.";
            - gauge "dsm_left_out" ["reason"] = left_out |l| l.count,
                "What is left out of what is placed, counted or discarded, by reason: see below.";
            - counter "dsm_stream_writes_total" ["stream", "used_for"] = streams |c| c.writes,
                "Writes stamped with a stream (0: not stamped).";
            + counter "dsm_stream_bytes_total" ["stream", "used_for"] = streams |c| c.sectors * 512,
                "Bytes stamped with a stream (0: not stamped).";
            - counter "dsm_unmapped_writes_total" = kernel |k| k.unmapped_writes,
                "Writes that no extent of the table covers.";
            + counter "dsm_unmapped_bytes_total" = kernel |k| k.unmapped_sectors * 512,
                "Bytes of writes that no extent of the table covers.";
            + counter "dsm_split_total" = kernel |k| k.split,
                "Bios that were divided at the edge of two streams.";
            + counter "dsm_foreign_total" = kernel |k| k.foreign,
                "Writes that kept a stream or hint of their own.";
            + counter "dsm_windows_total" = kernel |k| k.windows,
                "Windows of the target since the device was made; a checkpoint ends one.";
            + gauge "dsm_last_checkpoint_timestamp_seconds" = it |s| s.kernel.as_ref()?.last_checkpoint,
                "When the last checkpoint was, in seconds since 1970; absent before the first.";
            - gauge "dsm_generation" = kernel |k| k.generation,
                "Generation of the table: uploads that took effect since the device was made.";
            + gauge "dsm_files" = kernel |k| k.files,
                "Files in the table.";
            + gauge "dsm_regions" = kernel |k| k.regions,
                "Regions in the table: what lies below the boundary of a file, and what above.";
            + gauge "dsm_extents" = kernel |k| k.extents,
                "Extents in the table.";
            - gauge "dsm_streams_used" = kernel |k| k.streams_used,
                "Streams that the layout uses.";
            - gauge "dsm_device_streams" = kernel |k| k.device_streams,
                "Streams that the device takes.";
            - gauge "dsm_groups" = kernel |k| k.groups,
                "Groups of regions of a class (K of the policy).";
        },
    },
    Section {
        title: "The drive",
        about: "Where the drive counts what it writes: FDP statistics, OCP's SMART log, the additional \
                SMART log of Intel and Solidigm, or SATA attributes. They are of the whole drive (with FDP, of \
                the endurance group), also of namespaces and partitions without dsm. NVMe drives are asked every \
                15 seconds, others every minute.",
        families: families! {
            + counter "dsm_drive_host_written_bytes_total" ["drive"] = media |c| c.host,
                "Bytes that hosts wrote to the drive.";
            + counter "dsm_drive_media_written_bytes_total" ["drive"] = media |c| c.media,
                "Bytes that the drive wrote to its media.";
            + counter "dsm_drive_media_erased_bytes_total" ["drive"] = media |c| c.erased,
                "Bytes that the drive erased on its media; only FDP statistics have it.";
            - gauge "dsm_drive_counter_unit_bytes" ["drive"] = media |c| c.unit,
                "Bytes by which the coarser of the drive's counters moves at a time.";
        },
    },
    Section {
        title: "What dsmd does",
        about: "While dsmd serves the device's database.",
        families: families! {
            + gauge "dsm_agent_boundaries" = agent |i| i.boundaries,
                "Files that have a boundary.";
            + gauge "dsm_agent_outgrown" = it |s| agent(s).map(|i| if s.status().is_none_or(Status::has_boundaries) { i.outgrown } else { 0 }),
                "Files that have outgrown their boundary; 0 where the policy has none.";
            + counter "dsm_agent_checkpoints_total" = agent |i| i.checkpoints,
                "Checkpoints that dsmd has seen.";
            - counter "dsm_agent_uploads_total" = agent |i| i.uploads,
                "Uploads by dsmd.";
            + counter "dsm_agent_refusals_total" = agent |i| i.refusals,
                "Uploads that the kernel refused.";
            + gauge "dsm_agent_refresh_seconds" = agent |i| i.last_refresh_ms as f64 / 1000.0,
                "How long the last look at the files took.";
            + gauge "dsm_agent_delalloc_extents" = agent |i| i.delalloc,
                "Extents of the last look that have no place yet.";
        },
    },
    Section {
        title: "Discards: the target",
        about: "While the feature `discard` of the target is on, or watched.",
        families: families! {
            + counter "dsm_discarded_bytes_total" = discard |d| d.discarded_sectors * 512,
                "Bytes of freed blocks that were discarded.";
            + counter "dsm_discarded_total" = discard |d| d.discarded,
                "Discards of freed blocks.";
            + counter "dsm_discard_refused_bytes_total" = discard |d| d.refused_sectors * 512,
                "Bytes that the target did not discard, because they were written, or may have been.";
            + counter "dsm_discard_short_bytes_total" = discard |d| d.short_sectors * 512,
                "Bytes that the target did not discard, because too few lie side by side.";
            - gauge "dsm_discard_granularity_bytes" = discard |d| d.granularity,
                "What the length of a discard is a multiple of.";
            + counter "dsm_discard_failed_total" = discard |d| d.failed,
                "Discards that the device failed.";
            + gauge "dsm_discard_queued" = discard |d| d.queued,
                "Ranges that wait to be discarded.";
            + counter "dsm_discard_held_total" = discard |d| d.held,
                "Writes that waited for a discard.";
            + gauge "dsm_discard_held_max_seconds" = discard |d| d.held_max_us as f64 / 1e6,
                "The longest that a write waited for a discard.";
            + gauge "dsm_discard_plug_max_seconds" = discard |d| d.plug_max_us as f64 / 1e6,
                "The longest that 256 discards took.";
        },
    },
    Section {
        title: "Discards: dsmd",
        about: "Where dsmd serves a database with `discard = true` or `\"audit\"`. Of what \
                checkpoints list as free, a part is short, unplaced or waiting. In audit the target only \
                watches writes, and nothing is sent.",
        families: families! {
            + gauge "dsm_agent_discard_on" = discarder |i| i.withheld().is_none().then_some(i.off.is_none() && i.mode == Mode::On),
                "Whether dsmd discards what checkpoints free, which in an audit it does not; absent while a \
                 trial has that off.";
            + gauge "dsm_agent_discard_files" = discarder |i| i.files,
                "Files whose list of free blocks dsmd knows.";
            + counter "dsm_agent_discard_freed_bytes_total" = discarder |i| i.freed_bytes,
                "Bytes that checkpoints have freed.";
            + counter "dsm_agent_discard_sent_bytes_total" = discarder |i| i.sent_bytes,
                "Freed bytes that dsmd has sent to the target to discard.";
            + gauge "dsm_agent_discard_short_bytes" = discarder |i| i.short_bytes,
                "Free bytes at the last checkpoint in pieces that are less than the drive discards at a \
                 time.";
            + gauge "dsm_agent_discard_unplaced_bytes" = discarder |i| i.unplaced_bytes,
                "Free bytes at the last checkpoint without a place of their own, or written meanwhile.";
            + gauge "dsm_agent_discard_waiting_bytes" = discarder |i| i.waiting_bytes,
                "Free bytes that dsmd has still to send, now or after a later checkpoint.";
            + gauge "dsm_agent_discard_last_sent_timestamp_seconds" = discarder |i| i.last_sent,
                "When dsmd last sent something to discard, in seconds since 1970; absent before.";
            + counter "dsm_agent_discard_resets_total" = discarder |i| i.resets,
                "How often dsmd forgot all that it knew of freed blocks.";
            - gauge "dsm_agent_audit_only" = discarder |i| (i.mode != Mode::Unknown).then_some(i.mode == Mode::Audit),
                "Whether nothing reaches the drive: by the configuration, by the database's version, or \
                 before enough was seen; absent while nothing is followed.";
            + counter "dsm_agent_audit_named_pages_total" = discarder |i| i.audit.named_pages,
                "Pages that would have been sent in audit, and nobody had written by then.";
            + counter "dsm_agent_audit_taken_pages_total" = discarder |i| i.audit.taken_pages,
                "Of these, pages that a later checkpoint uses again.";
            + counter "dsm_agent_audit_written_pages_total" = discarder |i| i.audit.written_pages,
                "Pages that were seen to be written before they were used again.";
            + gauge "dsm_agent_audit_suspect_pages" = discarder |i| i.audit.suspect_pages,
                "Pages in use that nobody has written yet; they are looked at again at the next checkpoint.";
            + counter "dsm_agent_audit_violations_total" = discarder |i| i.audit.violations,
                "How often the database was seen to use pages that it had not written.";
            + gauge "dsm_agent_audit_failed" = discarder |i| i.audit.failed,
                "Whether discards are off for good, because the audit has seen such a page.";
        },
    },
    Section {
        title: "The database's server",
        about: "Where dsm-mongo asks it.",
        families: families! {
            + gauge "dsm_server_up" = server |i| i.connected,
                "Whether the database's server answers.";
            - gauge "dsm_server_catalog" = server |i| i.catalog,
                "Whether the server reports which file is whose.";
        },
    },
];

/// What stays when dsmd has ended, so that it can be seen since when.
pub const PUBLISHED: Section<Snapshot> = Section {
    title: "What is shown here",
    about: "Once dsmd has published something, also when it has ended since. There is no label `device`.",
    families: families! {
        - gauge "dsm_snapshot_timestamp_seconds" = it |s| s.at.wall,
            "When dsmd published what is shown here, in seconds since 1970.";
    },
};

/// Under the names that Prometheus's own programs use.
pub const USED: Section<Snapshot> = Section {
    title: "dsmd itself",
    about: "While dsmd runs. There is no label `device`.",
    families: families! {
        + counter "process_cpu_seconds_total" = it |s| s.used.cpu,
            "Seconds of processors that all dsmd have used.";
        - gauge "process_resident_memory_bytes" = it |s| s.used.memory,
            "Memory that all dsmd have.";
    },
};

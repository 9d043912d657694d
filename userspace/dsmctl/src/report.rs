// SPDX-License-Identifier: GPL-2.0-or-later
//! What people and programs are shown of a device.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use dm::mode::Mode;
use dm::reply::{Region, Status, StreamCount, TableLine};
use drive::below::Affords;
use policies::layout::{self, Layout};
use proto::control::{FileInfo, Info};
use proto::feed::Kind;
use proto::left_out;
use proto::reason::Reason;
use proto::regions::{regions_text, Names};
use proto::sample::{Service, State};
use proto::snapshot::Moment;
use runtime::grid::{mib, or_dash, percent, Grid};
use runtime::sizes;
use runtime::text::{printable, wrap};

/// Of the values.
const INDENT: usize = 15;

/// All that `dsmctl status` knows of a device.
pub(crate) struct StatusReport {
    pub name: String,
    /// `major:minor`
    pub device: String,
    pub sectors: u64,
    pub table: TableLine,
    /// The kernel's name of the underlying device, when it is known.
    pub below: String,
    pub status: Status,
    /// The dsmd that serves the device.
    pub agent: Option<Info>,
    /// Why there is none.
    pub silent: Option<String>,
    /// What dsmd publishes of its process.
    pub service: Option<Service>,
    pub regions: Option<Vec<Region>>,
    pub names: Names,
    /// Why there are no names of files.
    pub nameless: Option<String>,
    /// The streams that the drive can afford, if it was seen.
    pub affords: Option<Affords>,
    /// Why nothing may be discarded on its drive.
    pub barred: Option<Reason>,
}

impl StatusReport {
    fn feature(&self, name: &str) -> &str {
        self.table.feature(name).unwrap_or("?")
    }

    fn uses(&self) -> std::collections::BTreeMap<u32, Vec<String>> {
        let mut uses = layout::uses(&Layout::of(&self.table, &self.status));
        let mut add = |stream: u8, what: String| uses.entry(stream.into()).or_default().push(what);
        let Some(agent) = &self.agent else { return uses };
        for o in agent.objects.iter().filter(|o| o.stream > 0) {
            add(o.stream, printable(&o.name));
        }
        if let Some(auto) = &agent.auto {
            for (n, stream) in auto.streams.iter().enumerate() {
                let comes = n < usize::from(auto.mapper_streams);
                let what = if comes {
                    "files that come"
                } else {
                    "files that stay open"
                };
                add(*stream, what.to_owned());
            }
        }
        uses
    }

    fn source(&self) -> &'static str {
        match self.status.source.as_str() {
            "queue" => "from the device's queue",
            "leaves" => "from the disks below",
            "machine" => "from the disks below, lowered to what every disk here takes",
            "stacked" => "the underlying device does not report",
            "kernel" if self.status.hints_unsupported => {
                "this kernel has neither write streams nor lifetime hints"
            }
            "kernel" => "this kernel has no write streams",
            "none" => "the device has none",
            _ => "",
        }
    }

    /// What there is to say first.
    fn verdict(&self) -> String {
        let streams = match self.status.streams_used {
            0 | 1 => "no streams in use".to_owned(),
            n => format!("{n} streams in use"),
        };
        match (&self.agent, self.discard_text().first()) {
            (None, _) => format!("NOT SERVED ({}), {streams}", self.without_agent()),
            (_, Some(discards)) => format!("served, {streams}; discards: {discards}"),
            (_, None) => format!("served, {streams}; discards are not configured"),
        }
    }

    /// The people's form, for a screen of that width.
    pub(crate) fn text(&self, width: usize) -> String {
        let s = &self.status;
        let mut lines: Vec<(&str, String)> = vec![
            (
                "device",
                format!(
                    "{}, {} MiB at sector {} of {}",
                    self.device,
                    mib(self.sectors * 512),
                    self.table.start,
                    self.below
                ),
            ),
            (
                "policy",
                if s.policy == s.layout {
                    s.policy.clone()
                } else {
                    format!("{}, with the streams of {}", s.policy, s.layout)
                },
            ),
            (
                "groups",
                format!(
                    "K {}, alpha {}, prediction {}, range {}, primary filter {}",
                    s.groups,
                    self.feature("alpha"),
                    self.feature("prediction"),
                    self.feature("range"),
                    self.feature("primary_filter")
                ),
            ),
            (
                "streams",
                format!(
                    "{} used of {} ({})",
                    s.streams_used,
                    s.device_streams,
                    self.source()
                ),
            ),
            (
                "table",
                format!(
                    "{} files, {} regions, {} extents, generation {}",
                    s.files, s.regions, s.extents, s.generation
                ),
            ),
            ("checkpoints", s.windows.to_string()),
            ("window", format!("{:.1} s old", s.window_ms as f64 / 1000.0)),
            (
                "unmapped",
                format!(
                    "{} writes, {} MiB, {} of all written bytes",
                    s.unmapped_writes,
                    mib(s.unmapped_sectors * 512),
                    percent(s.unmapped_sectors, s.sectors())
                ),
            ),
            ("split bios", s.split.to_string()),
            ("agent", self.agent_text()),
        ];
        lines.extend(self.left_out_text().map(|text| ("left out", text)));
        lines.extend(self.affords_text().map(|text| ("affords", text)));
        lines.extend(self.server_text().map(|text| ("server", text)));
        let mut name = "discards";
        for text in self.discard_text() {
            lines.push((std::mem::take(&mut name), text));
        }
        if s.foreign > 0 {
            lines.push((
                "foreign",
                format!("{} writes kept their own stream or hint", s.foreign),
            ));
        }
        if let Some(u) = s.upload {
            lines.push((
                "upload",
                format!(
                    "{} in progress, {} files, {} extents, idle for {:.1} s",
                    u.number,
                    u.files,
                    u.extents,
                    u.idle_ms as f64 / 1000.0
                ),
            ));
        }
        let mut text = String::new();
        for line in wrap(&format!("{}: {}", self.name, self.verdict()), width) {
            writeln!(text, "{line}").expect("strings grow");
        }
        for (mut name, value) in lines {
            for line in wrap(&value, width.saturating_sub(INDENT).max(INDENT)) {
                writeln!(text, "  {:<12} {line}", std::mem::take(&mut name)).expect("strings grow");
            }
        }
        text.push('\n');
        text.push_str(&self.streams_text());
        if let Some(regions) = &self.regions {
            text.push('\n');
            text.push_str(&regions_text(regions, &self.names));
            if let Some(why) = &self.nameless {
                writeln!(text, "files have no names: {}", printable(why)).expect("strings grow");
            }
        }
        text
    }

    fn left_out_text(&self) -> Option<String> {
        let all = left_out::of_agent(self.agent.as_ref()?);
        let texts = all.iter().map(|l| {
            let example = l.example.as_deref().map(|e| format!(" ({})", printable(e)));
            format!("{} {}{}", l.count, l.reason.text(), example.unwrap_or_default())
        });
        Some(texts.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
    }

    /// What the drive affords, and that it is not what is used.
    fn affords_text(&self) -> Option<String> {
        let a = self.affords.as_ref()?;
        let used = self.status.streams_used;
        let more = match a.too_many(used) {
            Some((open, _)) => format!("; the {used} in use hold {open}"),
            None => String::new(),
        };
        Some(format!("{}{more}", printable(&a.why)))
    }

    fn agent_text(&self) -> String {
        let Some(a) = &self.agent else {
            return self.without_agent();
        };
        let served = format!("dsmd {} serves {}: ", a.pid, printable(&a.dbpath));
        if self.status.has_boundaries() {
            format!(
                "{served}{} of {} files have a boundary, {} have outgrown it",
                a.boundaries, a.files, a.outgrown
            )
        } else {
            format!("{served}{} files", a.files)
        }
    }

    fn without_agent(&self) -> String {
        match &self.service {
            Some(s) if s.state != State::Served => {
                let since = Duration::from_secs_f64((Moment::now().wall - s.since).max(0.0)).as_secs();
                let why = s.reason.as_ref().map(|r| format!(": {}", printable(&r.text)));
                format!("{} for {since} s{}", s.state.name(), why.unwrap_or_default())
            }
            _ => {
                let why = self.silent.as_deref().unwrap_or("no dsmd serves this device");
                printable(why)
            }
        }
    }

    /// What is discarded, or why nothing is, and what it took.
    fn discard_text(&self) -> Vec<String> {
        let d = &self.status.discard;
        if let Some(why) = &self.barred {
            return vec![format!("NONE: {}", printable(&why.text))];
        }
        let Some(i) = self.agent.as_ref().and_then(|a| a.discard.as_ref()) else {
            return match d.state {
                state @ (Mode::On | Mode::Watch) => vec![format!("{state}, and no dsmd uses it")],
                _ => Vec::new(),
            };
        };
        let state = match (&i.off, i.waiting) {
            (Some(why), _) => format!("none: {}", printable(&why.text)),
            (None, 1..) => format!("none: {} more checkpoints are waited for", i.waiting),
            (None, 0) if i.mode == Mode::Audit => format!(
                "audit of the checkpoints of {} files, nothing is sent{}",
                i.files,
                i.audit
                    .only
                    .as_ref()
                    .map_or_else(String::new, |why| format!(": {}", printable(&why.text)))
            ),
            (None, 0) => format!("follow the checkpoints of {} files", i.files),
        };
        let mut lines = vec![state];
        if i.audit.named_pages > 0 {
            let a = &i.audit;
            lines.push(format!(
                "{} pages would have been sent, {} in use again, {} seen to be written first, {} not written yet, {} violations, {} resets",
                a.named_pages, a.taken_pages, a.written_pages, a.suspect_pages, a.violations, i.resets
            ));
        }
        if i.mode == Mode::Audit && i.audit.only.is_none() {
            lines.push(i.audit.progress());
        }
        lines.extend(i.warning.as_deref().map(printable));
        if i.freed_bytes > 0 {
            lines.push(format!(
                "{} MiB freed, {} MiB sent; of the last lists {} MiB short, {} MiB unplaced, {} MiB waiting",
                mib(i.freed_bytes),
                mib(i.sent_bytes),
                mib(i.short_bytes),
                mib(i.unplaced_bytes),
                mib(i.waiting_bytes)
            ));
        }
        if d.state == Mode::On {
            let pieces = match d.granularity {
                0..=4096 => String::new(),
                n => format!(
                    "; pieces of {} from {} on",
                    sizes::shown(n),
                    sizes::shown(d.alignment)
                ),
            };
            lines.push(format!(
                "{} MiB discarded, {} MiB refused as written, {} MiB short, {} failed{pieces}; {} writes waited, {} µs at most",
                mib(d.discarded_sectors * 512),
                mib(d.refused_sectors * 512),
                mib(d.short_sectors * 512),
                d.failed,
                d.held,
                d.held_max_us
            ));
            lines.push(format!(
                "a look takes {} ms, a checkpoint's discards {} ms, 256 of them {} µs at most, {} times a second at most",
                i.look_ms, i.send_ms, d.plug_max_us, i.commands_per_second
            ));
        }
        lines
    }

    /// The server that dsmd asks.
    fn server_text(&self) -> Option<String> {
        let s = self.agent.as_ref()?.server.as_ref()?;
        let failure = s.failure.as_ref();
        let state = match (s.connected, s.catalog) {
            (false, _) if failure.is_some_and(|t| t.kind == Kind::Refused) => "refuses dsm-mongo",
            (false, _) => "does not answer",
            (true, true) if failure.is_some_and(|t| t.kind == Kind::Partial) => {
                "reports which file is whose, not of all databases"
            }
            (true, true) if failure.is_some() => "has reported which file is whose, and no longer does",
            (true, true) => "reports which file is whose",
            (true, false) => "does not report which file is whose",
        };
        let mut words = vec![printable(&s.address), printable(&s.version), state.to_owned()];
        words.retain(|w| !w.is_empty());
        let why = failure.map_or(String::new(), |t| format!(": {}", printable(&t.why)));
        Some(words.join(" ") + &why)
    }

    fn streams_text(&self) -> String {
        let mut grid = Grid::new(
            &["STREAM", "USED FOR", "WRITES", "MiB", "SHARE"],
            &[true, false, true, true, true],
        );
        let all = self.status.sectors();
        let mut uses = self.uses();
        let mut row = |stream: u32, used_for: Vec<String>, writes: u64, sectors: u64| {
            let used_for = match used_for.as_slice() {
                [] if stream == 0 => "not stamped".to_owned(),
                [] => "an earlier layout".to_owned(),
                uses => uses.join(", "),
            };
            grid.row(vec![
                stream.to_string(),
                used_for,
                writes.to_string(),
                mib(sectors * 512),
                percent(sectors, all),
            ]);
        };
        let mut counts: Vec<&StreamCount> = self.status.streams.iter().collect();
        counts.sort_by_key(|c| c.stream);
        for c in counts {
            // Streams without a write that come before it.
            let after = uses.split_off(&c.stream);
            for (stream, used_for) in std::mem::replace(&mut uses, after) {
                row(stream, used_for, 0, 0);
            }
            let used_for = uses.remove(&c.stream).unwrap_or_default();
            row(c.stream, used_for, c.writes, c.sectors);
        }
        for (stream, used_for) in uses {
            row(stream, used_for, 0, 0);
        }
        grid.text()
    }

    /// The programs' form, see the help of `dsmctl status`.
    pub(crate) fn json(&self) -> Value {
        let mut v = to_map(&self.status);
        v.insert("name".into(), self.name.clone().into());
        v.insert("device".into(), self.device.clone().into());
        v.insert("sectors".into(), self.sectors.into());
        v.insert("below".into(), self.below.clone().into());
        v.insert("start".into(), self.table.start.into());
        let features: Map<String, Value> = self
            .table
            .features
            .iter()
            .map(|(n, value)| {
                let number = value.parse::<u64>();
                (
                    n.clone(),
                    number.map_or_else(|_| value.clone().into(), Value::from),
                )
            })
            .collect();
        v.insert("features".into(), features.into());
        let mut uses = self.uses();
        let streams: Vec<Value> = self
            .status
            .streams
            .iter()
            .map(|c| {
                let mut stream = to_map(c);
                stream.insert(
                    "used_for".into(),
                    uses.remove(&c.stream).unwrap_or_default().into(),
                );
                stream.into()
            })
            .collect();
        v.insert("streams".into(), streams.into());
        v.insert("agent".into(), serde_json::json!(self.agent));
        v.insert("service".into(), serde_json::json!(self.service));
        v.insert("silent".into(), serde_json::json!(self.silent));
        v.insert("nameless".into(), serde_json::json!(self.nameless));
        v.insert("affords".into(), serde_json::json!(self.affords));
        v.insert("barred".into(), serde_json::json!(self.barred));
        if let Some(regions) = &self.regions {
            let list: Vec<Value> = regions.iter().map(|r| region_json(r, &self.names)).collect();
            v.insert("region_list".into(), list.into());
        }
        v.into()
    }
}

fn to_map(v: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(v) {
        Ok(Value::Object(map)) => map,
        _ => unreachable!("the structs of status serialize to objects"),
    }
}

fn region_json(r: &Region, names: &Names) -> Value {
    let mut v = to_map(r);
    v.insert("file".into(), names.get(&r.id).cloned().into());
    v.into()
}

/// A row for each file that can have a boundary.
pub(crate) fn boundaries_text(files: &[FileInfo]) -> String {
    let mut grid = Grid::new(
        &["FILE", "CLASS", "BYTES", "BOUNDARY", ""],
        &[false, false, true, true, false],
    );
    for f in files.iter().filter(|f| f.class.has_boundary()) {
        grid.row(vec![
            printable(&f.path),
            f.class.to_string(),
            f.size.to_string(),
            or_dash(f.boundary),
            if f.outgrown { "outgrown" } else { "" }.to_owned(),
        ]);
    }
    grid.text()
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: GPL-2.0-or-later
//! What people and programs are shown of a device.

use std::fmt::Write as _;
use std::time::Duration;

use dm::mode::Mode;
use dm::reply::{Status, StreamCount};
use proto::control::{FileInfo, Info};
use proto::device::{DeviceView, Kernel, State};
use proto::left_out;
use proto::regions::{self, regions_text};
use proto::snapshot::Moment;
use runtime::grid::{mib, or_dash, percent, Grid};
use runtime::sizes;
use runtime::text::{printable, wrap};

/// Of the values.
const INDENT: usize = 15;

/// A view of a device that there is.
struct ShownDevice<'a> {
    view: &'a DeviceView,
    kernel: &'a Kernel,
    status: &'a Status,
    /// The dsmd that serves the device.
    agent: Option<&'a Info>,
}

/// The people's form, for a screen of that width.
pub(crate) fn text(view: &DeviceView, width: usize) -> String {
    let Some(kernel) = &view.kernel else {
        return String::new();
    };
    let answers = view.state() != Some(State::Stuck);
    let shown = ShownDevice {
        view,
        kernel,
        status: &kernel.status,
        agent: view.agent.as_ref().filter(|_| answers),
    };
    shown.text(width)
}

impl ShownDevice<'_> {
    fn feature(&self, name: &str) -> &str {
        self.kernel.table.feature(name).unwrap_or("?")
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
        match (self.agent, self.discard_text().first()) {
            (None, _) => format!("NOT SERVED ({}), {streams}", self.without_agent()),
            (_, Some(discards)) => format!("served, {streams}; discards: {discards}"),
            (_, None) => format!("served, {streams}; discards are not configured"),
        }
    }

    fn text(&self, width: usize) -> String {
        let (s, view) = (self.status, self.view);
        let mut lines: Vec<(&str, String)> = vec![
            (
                "device",
                format!(
                    "{}, {} MiB at sector {} of {}",
                    self.kernel.devno,
                    mib(self.kernel.sectors * 512),
                    self.kernel.table.start,
                    self.kernel.below
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
        for line in wrap(&format!("{}: {}", view.name, self.verdict()), width) {
            writeln!(text, "{line}").expect("strings grow");
        }
        for (mut name, value) in lines {
            for line in wrap(&value, width.saturating_sub(INDENT).max(INDENT)) {
                writeln!(text, "  {:<12} {line}", std::mem::take(&mut name)).expect("strings grow");
            }
        }
        text.push('\n');
        text.push_str(&self.streams_text());
        if let Some(regions) = &view.regions {
            text.push('\n');
            text.push_str(&regions_text(regions));
            text.push_str(&nameless(view));
        }
        text
    }

    fn left_out_text(&self) -> Option<String> {
        let all = left_out::of_agent(self.agent?);
        let texts = all.iter().map(|l| l.text(&|example| printable(example)));
        Some(texts.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
    }

    /// What the drive affords, and that it is not what is used.
    fn affords_text(&self) -> Option<String> {
        let a = self.view.affords.as_ref()?;
        let used = self.status.streams_used;
        let more = match a.too_many(used) {
            Some((open, _)) => format!("; the {used} in use hold {open}"),
            None => String::new(),
        };
        Some(format!("{}{more}", printable(&a.why)))
    }

    fn agent_text(&self) -> String {
        let Some(a) = self.agent else {
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
        match &self.view.service {
            Some(s) if s.state != State::Served => {
                let since = Duration::from_secs_f64((Moment::now().wall - s.since).max(0.0)).as_secs();
                let why = s.reason.as_ref().map(|r| format!(": {}", printable(&r.text)));
                format!("{} for {since} s{}", s.state.name(), why.unwrap_or_default())
            }
            _ => {
                let why = self.view.silent.as_ref().map(|r| r.text.as_str());
                printable(why.unwrap_or("no dsmd serves this device"))
            }
        }
    }

    /// What is discarded, or why nothing is, and what it took.
    fn discard_text(&self) -> Vec<String> {
        let d = &self.status.discard;
        if let Some(why) = &self.view.barred {
            return vec![format!("NONE: {}", printable(&why.text))];
        }
        let Some(i) = self.agent.and_then(|a| a.discard.as_ref()) else {
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
        let s = self.agent?.server.as_ref()?;
        let mut words = vec![printable(&s.address), printable(&s.version), s.text().to_owned()];
        words.retain(|w| !w.is_empty());
        let why = s.failure.as_ref();
        let why = why.map_or(String::new(), |f| format!(": {}", printable(&f.why)));
        Some(words.join(" ") + &why)
    }

    fn streams_text(&self) -> String {
        let mut grid = streams_grid("WRITES", "MiB");
        let all = self.status.sectors();
        // Also streams without a write.
        let unused = self
            .kernel
            .uses
            .keys()
            .filter(|n| self.status.streams.iter().all(|c| c.stream != **n));
        let none = |stream: &u32| StreamCount {
            stream: *stream,
            writes: 0,
            sectors: 0,
        };
        let mut counts: Vec<StreamCount> = self.status.streams.clone();
        counts.extend(unused.map(none));
        counts.sort_by_key(|c| c.stream);
        for c in counts {
            grid.row(vec![
                c.stream.to_string(),
                used_for(self.kernel, c.stream),
                c.writes.to_string(),
                mib(c.sectors * 512),
                percent(c.sectors, all),
            ]);
        }
        grid.text()
    }
}

fn streams_grid(writes: &str, bytes: &str) -> Grid {
    Grid::new(
        &["STREAM", "USED FOR", writes, bytes, "SHARE"],
        &[true, false, true, true, true],
    )
}

fn used_for(kernel: &Kernel, stream: u32) -> String {
    match kernel.uses.get(&stream) {
        Some(uses) => uses.join(", "),
        None if stream == 0 => "not stamped".to_owned(),
        None => "an earlier layout".to_owned(),
    }
}

fn nameless(view: &DeviceView) -> String {
    let why = view.nameless.as_ref();
    why.map_or_else(String::new, |why| {
        format!("files have no names: {}\n", printable(why))
    })
}

/// What was written since the last look, in at most `rows` lines; names are shortened so that these
/// fit in `columns`.
pub(crate) fn rates_text(view: &DeviceView, rows: usize, columns: usize) -> String {
    let (Some(kernel), Some(rates)) = (&view.kernel, &view.rates) else {
        return String::new();
    };
    let s = &kernel.status;
    let rate = |bytes: u64| mib((bytes as f64 / rates.seconds) as u64);
    let amplification = match &rates.drive {
        Some(d) => format!(
            "write amplification {} in {:.0} s ({}, {})",
            or_dash(d.write_amplification.map(|waf| format!("{waf:.2}"))),
            d.seconds,
            d.name,
            d.source
        ),
        None => "write amplification unknown: dsmctl doctor says why".to_owned(),
    };
    let mut text = format!(
        "{}  policy {}  checkpoints {}, the last {:.0} s ago\n\
         {} MiB/s in {:.0} writes/s, {} of it unmapped\n\
         {amplification}\n{}\n",
        view.name,
        s.policy,
        s.windows,
        s.window_ms as f64 / 1000.0,
        rate(rates.bytes),
        rates.writes as f64 / rates.seconds,
        percent(rates.unmapped_bytes, rates.bytes),
        nameless(view),
    );
    let mut grid = streams_grid("WRITES/s", "MiB/s");
    for (stream, r) in &rates.streams {
        grid.row(vec![
            stream.to_string(),
            used_for(kernel, *stream),
            format!("{:.0}", r.writes as f64 / rates.seconds),
            rate(r.bytes),
            percent(r.bytes, rates.bytes),
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
    for written in rates.regions.iter().take(room) {
        let r = &written.region;
        let name = r.file.as_deref().map_or_else(|| r.id.to_string(), printable);
        let name = shortened(&name, columns.saturating_sub(BESIDE));
        grid.row(regions::row(r, name, vec![rate(written.written_bytes)]));
    }
    text + &grid.text()
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

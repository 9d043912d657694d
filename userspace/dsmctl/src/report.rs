// SPDX-License-Identifier: GPL-2.0-or-later
//! What people and programs are shown of a device.

use std::collections::BTreeMap;
use std::time::Duration;

use dm::mode::Mode;
use dm::reply::Status;
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
        let (s, view, kernel) = (self.status, self.view, self.kernel);
        let policy = match s.policy == s.layout {
            true => s.policy.clone(),
            false => format!("{}, with the streams of {}", s.policy, s.layout),
        };
        let [alpha, prediction, range, filter] =
            ["alpha", "prediction", "range", "primary_filter"].map(|name| self.feature(name));
        let (size, unmapped) = (mib(kernel.sectors * 512), mib(s.unmapped_sectors * 512));
        let share = percent(s.unmapped_sectors, s.sectors());
        let (source, age, agent) = (self.source(), s.window_ms as f64 / 1000.0, self.agent_text());
        let first = format!(
            "device\t{}, {size} MiB at sector {} of {}\n\
             policy\t{policy}\n\
             groups\tK {}, alpha {alpha}, prediction {prediction}, range {range}, primary filter {filter}\n\
             streams\t{} used of {} ({source})\n\
             table\t{} files, {} regions, {} extents, generation {}\n\
             checkpoints\t{}\n\
             window\t{age:.1} s old\n\
             unmapped\t{} writes, {unmapped} MiB, {share} of all written bytes\n\
             split bios\t{}\n\
             agent\t{agent}",
            kernel.devno,
            kernel.table.start,
            kernel.below,
            s.groups,
            s.streams_used,
            s.device_streams,
            s.files,
            s.regions,
            s.extents,
            s.generation,
            s.windows,
            s.unmapped_writes,
            s.split
        );
        let first = first.lines().filter_map(|line| line.split_once('\t'));
        let mut lines: Vec<(&str, String)> = first.map(|(name, value)| (name, value.to_owned())).collect();
        let others = [
            ("left out", self.left_out_text()),
            ("affords", self.affords_text()),
            ("server", self.server_text()),
        ];
        lines.extend(others.into_iter().filter_map(|(name, text)| Some((name, text?))));
        let names = ["discards"].into_iter().chain(std::iter::repeat(""));
        lines.extend(names.zip(self.discard_text()));
        if s.foreign > 0 {
            let text = format!("{} writes kept their own stream or hint", s.foreign);
            lines.push(("foreign", text));
        }
        if let Some(u) = s.upload {
            let (of, idle) = (u.number, u.idle_ms as f64 / 1000.0);
            let has = format!("{} files, {} extents", u.files, u.extents);
            lines.push(("upload", format!("{of} in progress, {has}, idle for {idle:.1} s")));
        }
        let mut text = wrap(&format!("{}: {}", view.name, self.verdict()), width).join("\n") + "\n";
        for (mut name, value) in lines {
            for line in wrap(&value, width.saturating_sub(INDENT).max(INDENT)) {
                text += &format!("  {:<12} {line}\n", std::mem::take(&mut name));
            }
        }
        text = text + "\n" + &self.streams_text();
        if let Some(regions) = &view.regions {
            text = text + "\n" + &regions_text(regions) + &nameless(view);
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
        let (a, files, mib_of) = (&i.audit, i.files, |sectors: u64| mib(sectors * 512));
        let only = a.only.as_ref().map(|why| format!(": {}", printable(&why.text)));
        let mut lines = vec![match (&i.off, i.waiting) {
            (Some(why), _) => format!("none: {}", printable(&why.text)),
            (None, more @ 1..) => format!("none: {more} more checkpoints are waited for"),
            (None, 0) if i.mode == Mode::Audit => format!(
                "audit of the checkpoints of {files} files, nothing is sent{}",
                only.unwrap_or_default()
            ),
            (None, 0) => format!("follow the checkpoints of {files} files"),
        }];
        if a.named_pages > 0 {
            lines.push(format!(
                "{} pages would have been sent, {} in use again, {} seen to be written first, {} not written yet, {} violations, {} resets",
                a.named_pages, a.taken_pages, a.written_pages, a.suspect_pages, a.violations, i.resets
            ));
        }
        if i.mode == Mode::Audit && a.only.is_none() {
            lines.push(a.progress());
        }
        lines.extend(i.warning.as_deref().map(printable));
        if i.freed_bytes > 0 {
            let [freed, sent] = [i.freed_bytes, i.sent_bytes].map(mib);
            let [short, unplaced, waiting] = [i.short_bytes, i.unplaced_bytes, i.waiting_bytes].map(mib);
            lines.push(format!(
                "{freed} MiB freed, {sent} MiB sent; of the last lists {short} MiB short, {unplaced} MiB unplaced, {waiting} MiB waiting"
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
            let of = [d.discarded_sectors, d.refused_sectors, d.short_sectors];
            let [discarded, refused, short] = of.map(mib_of);
            lines.push(format!(
                "{discarded} MiB discarded, {refused} MiB refused as written, {short} MiB short, {} failed{pieces}; {} writes waited, {} µs at most",
                d.failed, d.held, d.held_max_us
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
        let mut counts: BTreeMap<u32, (u64, u64)> = self.kernel.uses.keys().map(|n| (*n, (0, 0))).collect();
        counts.extend(
            self.status
                .streams
                .iter()
                .map(|c| (c.stream, (c.writes, c.sectors))),
        );
        for (stream, (writes, sectors)) in counts {
            let (used_for, share) = (used_for(self.kernel, stream), percent(sectors, all));
            grid.row(&[&stream, &used_for, &writes, &mib(sectors * 512), &share]);
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
        Some(d) => {
            let waf = or_dash(d.write_amplification.map(|waf| format!("{waf:.2}")));
            format!(
                "write amplification {waf} in {:.0} s ({}, {})",
                d.seconds, d.name, d.source
            )
        }
        None => "write amplification unknown: dsmctl doctor says why".to_owned(),
    };
    let (name, age) = (&view.name, s.window_ms as f64 / 1000.0);
    let (written, writes) = (rate(rates.bytes), rates.writes as f64 / rates.seconds);
    let (unmapped, nameless) = (percent(rates.unmapped_bytes, rates.bytes), nameless(view));
    let mut text = format!(
        "{name}  policy {}  checkpoints {}, the last {age:.0} s ago\n\
         {written} MiB/s in {writes:.0} writes/s, {unmapped} of it unmapped\n\
         {amplification}\n{nameless}\n",
        s.policy, s.windows
    );
    let mut grid = streams_grid("WRITES/s", "MiB/s");
    for (stream, r) in &rates.streams {
        let writes = format!("{:.0}", r.writes as f64 / rates.seconds);
        let (used_for, share) = (used_for(kernel, *stream), percent(r.bytes, rates.bytes));
        grid.row(&[stream, &used_for, &writes, &rate(r.bytes), &share]);
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
        grid.cells(regions::row(r, name, vec![rate(written.written_bytes)]));
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
        let outgrown = if f.outgrown { "outgrown" } else { "" };
        let (path, boundary) = (printable(&f.path), or_dash(f.boundary));
        grid.row(&[&path, &f.class, &f.size, &boundary, &outgrown]);
    }
    grid.text()
}

#[cfg(test)]
mod tests;

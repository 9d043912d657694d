// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl probe-discard`: which discards the drive takes.

mod scratch;
mod signatures;

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::broken;
use crate::cli::{Output, ProbeDiscard};
use crate::progress::Progress;
use dm::device::Device;
use dm::devno::DevNo;
use dm::ioctl::Dm;
use dm::sysfs::Sysfs;
use drive::deallocate::{Deallocate, Promise};
use drive::probe::{self, Counts, Measured, Raw, Said, Verdict};
use runtime::grid::{or_dash, Grid};
use runtime::sizes::shown;
use runtime::wake::Signals;
use scratch::Scratch;

/// Of as many columns as there can be.
const RIGHT: &[bool] = &[true; 16];

#[derive(Debug, Serialize)]
struct Probed {
    device: String,
    form: &'static str,
    disks: Vec<String>,
    #[serde(flatten)]
    measured: Measured,
    queue_granularity: Option<u64>,
    says: Option<Deallocate>,
    /// That make it known.
    commands: Vec<String>,
    /// Options in /etc/dsmtab.
    tab: Option<String>,
}

/// Whether pieces of a length that is known now are taken.
pub(crate) fn probe(a: &ProbeDiscard, out: Output) -> Result<bool> {
    let signals = Signals::new()?;
    let mut probed = match (&a.destroy, &a.name) {
        (Some(path), _) => destroyed(path, a, &signals)?,
        (None, Some(name)) => in_a_file(name, a, &signals)?,
        (None, None) => unreachable!("clap wants one of them"),
    };
    probed.advise(a.name.as_deref());
    crate::print(out, &probed, || text(&probed))?;
    if probed.measured.verdict == Verdict::Broken {
        eprintln!("dsmctl: {}: {}", probed.device, probed.measured.reason);
    }
    Ok(probed.measured.granularity.is_some())
}

fn destroyed(path: &Path, a: &ProbeDiscard, signals: &Signals) -> Result<Probed> {
    let (wait, limit) = a.times();
    // Not every machine has device-mapper.
    let dm = Dm::open().ok();
    let tables: &dyn dm::streams::LiveTables = match &dm {
        Some(dm) => dm,
        None => &dm::streams::Unknown,
    };
    let mut raw = Raw::open(path, tables, a.filler, wait, limit, signals)?;
    if !a.force {
        signatures::check(path)?;
    }
    let _progress = Progress::of("probe-discard", None);
    let says = raw.counts.deallocate()?;
    let said = said(says.as_ref());
    let measured = probe::run(&mut raw, said, limit).with_context(|| path.display().to_string())?;
    if measured.verdict == Verdict::Broken {
        broken::bar(raw.dev, &measured.reason)?;
    }
    Ok(Probed {
        device: path.display().to_string(),
        form: "destroyed",
        disks: raw.counts.disks.clone(),
        measured,
        queue_granularity: queue_granularity(raw.dev),
        says,
        commands: Vec::new(),
        tab: None,
    })
}

fn in_a_file(name: &str, a: &ProbeDiscard, signals: &Signals) -> Result<Probed> {
    let device = Device::open(name)?;
    // dsmd sends nothing meanwhile.
    let _hold = broken::hold_for_probe(&device)?;
    let counts = Counts::of(Sysfs::default(), &Dm::open()?, device.devno)?;
    let says = counts.deallocate()?;
    let disks = counts.disks.clone();
    let _progress = Progress::of("probe-discard", None);
    let mut scratch = Scratch::make(&device, a, counts, signals)?;
    let (said, (_, limit)) = (said(says.as_ref()), a.times());
    let measured = probe::run(&mut scratch, said, limit).with_context(|| name.to_owned())?;
    // First: what is not as the probe had set it stays.
    if measured.verdict == Verdict::Broken {
        broken::bar(device.devno, &measured.reason)?;
    }
    drop(scratch);
    Ok(Probed {
        device: name.to_owned(),
        form: "file",
        disks,
        measured,
        queue_granularity: queue_granularity(device.devno),
        says,
        commands: Vec::new(),
        tab: None,
    })
}

fn said(says: Option<&Deallocate>) -> Said {
    Said {
        promise: says.map_or(Promise::Nothing, |s| s.promise),
        smallest: says.map_or(0, |s| s.block),
    }
}

fn queue_granularity(dev: DevNo) -> Option<u64> {
    let sysfs = Sysfs::default();
    let disk = sysfs.disk_of(dev).ok().flatten().unwrap_or(dev);
    sysfs.number(disk, "queue/discard_granularity")
}

impl Probed {
    fn advise(&mut self, name: Option<&str>) {
        let (Some(granularity), Some(alignment)) = (self.measured.granularity, self.measured.alignment)
        else {
            return;
        };
        match name {
            Some(name) => {
                let set = |feature, value| format!("dsmctl set {name} {feature} {value}");
                self.commands = vec![
                    set("discard_granularity", granularity),
                    set("discard_alignment", alignment),
                ];
            }
            None => self.commands.push(format!(
                "dsmctl create NAME {} --discard-granularity {granularity} --discard-alignment {alignment}",
                self.device
            )),
        }
        self.tab = Some(format!(
            "discard_granularity={granularity},discard_alignment={alignment}"
        ));
    }
}

fn text(p: &Probed) -> String {
    let m = &p.measured;
    let mut text = String::new();
    if !m.pieces.is_empty() {
        let mut offsets: Vec<u64> = m.pieces.iter().map(|p| p.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let heads: Vec<String> = offsets.iter().map(|o| format!("+{}K", o >> 10)).collect();
        let mut heading = vec!["LENGTH"];
        heading.extend(heads.iter().map(String::as_str));
        let mut grid = Grid::new(&heading, &RIGHT[..heading.len()]);
        let mut lengths: Vec<u64> = m.pieces.iter().map(|p| p.bytes).collect();
        lengths.dedup();
        for bytes in lengths {
            let mut cells = vec![format!("{}K", bytes >> 10)];
            cells.extend(offsets.iter().map(|offset| {
                let piece = m.pieces.iter().find(|p| (p.bytes, p.offset) == (bytes, *offset));
                match piece {
                    Some(p) if !p.sent => "refused".into(),
                    Some(p) => format!("{}K", p.gone() >> 10),
                    None => String::new(),
                }
            }));
            grid.row(cells);
        }
        text += &format!(
            "What is gone of pieces that begin so far behind an aligned place:\n{}\n",
            grid.text()
        );
    }
    let size = |bytes: Option<u64>| or_dash(bytes.map(shown));
    let says = p.says.as_ref();
    text += &format!("the kernel says      {}\n", size(p.queue_granularity));
    if let Some(s) = says {
        text += &format!(
            "the drive prefers    {} (NPDG), beginning at multiples of {} (NPDA)\n",
            size(s.granularity),
            size(s.alignment)
        );
        text += &format!(
            "deallocated blocks   {}\n",
            match s.promise {
                Promise::Nothing => "it does not promise what they read as (DLFEAT)",
                Promise::Zeroes => "read as zeroes, it promises (DLFEAT)",
                Promise::Ones => "read as ones, it promises (DLFEAT)",
            }
        );
        text += &format!(
            "allocated            {} of {} (NUSE)\n",
            shown(s.used),
            shown(s.capacity)
        );
    }
    text += &format!("slowest discard      {} ms\n", m.slowest_ms);
    for t in &m.trials {
        text += &format!(
            "{} in pieces of {}: {} gone; allocated fell by {}, the flash wrote {}\n",
            shown(t.discarded_bytes),
            shown(t.bytes),
            shown(t.gone_bytes),
            or_dash(t.nuse_fell_bytes.map(|n| format!("{} KiB", n / 1024))),
            or_dash(t.media_wrote_bytes.map(|n| format!("{} KiB", n / 1024))),
        );
    }
    let verdict = match m.verdict {
        Verdict::Taken => "taken",
        Verdict::NotTaken => "NOT TAKEN",
        Verdict::NotDecidable => "not decidable",
        Verdict::Broken => "BROKEN",
    };
    text += &format!(
        "\n{} on {}: {verdict}: {}\n",
        p.device,
        p.disks.join(", "),
        m.reason
    );
    if let Some(tab) = &p.tab {
        text += "\nTo have dsm keep to it:\n";
        for command in &p.commands {
            text += &format!("  {command}\n");
        }
        text += &format!("and in /etc/dsmtab: {tab}\n");
    }
    text
}

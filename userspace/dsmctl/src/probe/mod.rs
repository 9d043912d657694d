// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl probe-discard`: which discards the drive takes.

mod scratch;

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::cli::{Output, ProbeDiscard};
use crate::switch;
use dm::device::Device;
use dm::devno::DevNo;
use dm::ioctl::Dm;
use dm::sysfs::Sysfs;
use drive::deallocate::{Deallocate, Promise};
use drive::probe::{self, DriveCounts, Measured, Said, Verdict};
use runtime::grid::{or_dash, Grid};
use runtime::sizes::shown;
use runtime::wake::Signals;
use scratch::Scratch;

/// Of as many columns as there can be.
const RIGHT: &[bool] = &[true; 16];

#[derive(Debug, Serialize)]
struct Probed {
    device: String,
    disks: Vec<String>,
    #[serde(flatten)]
    measured: Measured,
    queue_granularity: Option<u64>,
    says: Option<Deallocate>,
    commands: Vec<String>,
    tab: Option<String>,
}

/// Whether pieces of a length that is known now are taken.
pub(crate) fn probe(a: &ProbeDiscard, out: Output) -> Result<bool> {
    let signals = Signals::new()?;
    let device = Device::open(&a.name)?;
    switch::check_for_probe(&device)?;
    let counts = DriveCounts::of(Sysfs::default(), &Dm::open()?, device.devno)?;
    let says = counts.deallocate()?;
    let disks = counts.disks.clone();
    let mut scratch = Scratch::make(&device, a, counts, &signals)?;
    let said = Said {
        promise: says.as_ref().map_or(Promise::Nothing, |s| s.promise),
        smallest: says.as_ref().map_or(0, |s| s.block),
    };
    let limit = Duration::from_secs(a.limit.into());
    let measured = probe::run(&mut scratch, said, limit).with_context(|| a.name.clone())?;
    // First: what is not as the probe had set it stays.
    if measured.verdict == Verdict::Broken {
        switch::bar(device.devno, &measured.reason)?;
    }
    drop(scratch);
    let (commands, tab) = advice(&a.name, &measured);
    let probed = Probed {
        device: a.name.clone(),
        disks,
        measured,
        queue_granularity: queue_granularity(device.devno),
        says,
        commands,
        tab,
    };
    crate::print(out, &probed, || text(&probed))?;
    if probed.measured.verdict == Verdict::Broken {
        eprintln!("dsmctl: {}: {}", probed.device, probed.measured.reason);
    }
    Ok(probed.measured.granularity.is_some())
}

fn queue_granularity(dev: DevNo) -> Option<u64> {
    let sysfs = Sysfs::default();
    let disk = sysfs.disk_of(dev).ok().flatten().unwrap_or(dev);
    sysfs.number(disk, "queue/discard_granularity")
}

/// The commands that make it known, and the keys in the device's file.
fn advice(name: &str, measured: &Measured) -> (Vec<String>, Option<String>) {
    let (Some(granularity), Some(alignment)) = (measured.granularity, measured.alignment) else {
        return (Vec::new(), None);
    };
    let set = |(feature, value)| format!("dsmctl set {name} {feature} {value}");
    let commands = [
        ("discard_granularity", granularity),
        ("discard_alignment", alignment),
    ]
    .map(set);
    let tab = format!("discard-granularity = {granularity}\ndiscard-alignment = {alignment}");
    (commands.into(), Some(tab))
}

/// What is gone of each length, by where its pieces begin.
fn pieces_text(m: &Measured) -> String {
    let mut offsets: Vec<u64> = m.pieces.iter().map(|p| p.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    let heads: Vec<String> = offsets.iter().map(|o| format!("+{}K", o >> 10)).collect();
    let heading: Vec<&str> = ["LENGTH"]
        .into_iter()
        .chain(heads.iter().map(String::as_str))
        .collect();
    let mut grid = Grid::new(&heading, &RIGHT[..heading.len()]);
    let mut lengths: Vec<u64> = m.pieces.iter().map(|p| p.bytes).collect();
    lengths.dedup();
    for bytes in lengths {
        let mut cells = vec![format!("{}K", bytes >> 10)];
        cells.extend(offsets.iter().map(|offset| {
            let piece = m.pieces.iter().find(|p| (p.bytes, p.offset) == (bytes, *offset));
            match piece {
                Some(p) if !p.sent => "refused".into(),
                Some(p) => format!("{}K", p.gone_bytes >> 10),
                None => String::new(),
            }
        }));
        grid.cells(cells);
    }
    grid.text()
}

fn text(p: &Probed) -> String {
    let m = &p.measured;
    let mut text = String::new();
    if !m.pieces.is_empty() {
        let pieces = pieces_text(m);
        text += &format!("What is gone of pieces that begin so far behind an aligned place:\n{pieces}\n");
    }
    let size = |bytes: Option<u64>| or_dash(bytes.map(shown));
    text += &format!("the kernel says      {}\n", size(p.queue_granularity));
    if let Some(s) = &p.says {
        let promise = match s.promise {
            Promise::Nothing => "it does not promise what they read as (DLFEAT)",
            Promise::Zeroes => "read as zeroes, it promises (DLFEAT)",
            Promise::Ones => "read as ones, it promises (DLFEAT)",
        };
        let (granularity, alignment) = (size(s.granularity), size(s.alignment));
        let (used, capacity) = (shown(s.used), shown(s.capacity));
        text += &format!(
            "the drive prefers    {granularity} (NPDG), beginning at multiples of {alignment} (NPDA)\n\
             deallocated blocks   {promise}\n\
             allocated            {used} of {capacity} (NUSE)\n"
        );
    }
    text += &format!("slowest discard      {} ms\n", m.slowest_ms);
    for t in &m.trials {
        let [discarded, bytes, gone] = [t.discarded_bytes, t.bytes, t.gone_bytes].map(shown);
        let fell = or_dash(t.nuse_fell_bytes.map(|n| format!("{} KiB", n / 1024)));
        let wrote = or_dash(t.media_wrote_bytes.map(|n| format!("{} KiB", n / 1024)));
        text += &format!(
            "{discarded} in pieces of {bytes}: {gone} gone; allocated fell by {fell}, the flash wrote {wrote}\n"
        );
    }
    let verdict = match m.verdict {
        Verdict::Taken => "taken",
        Verdict::NotTaken => "NOT TAKEN",
        Verdict::NotDecidable => "not decidable",
        Verdict::Broken => "BROKEN",
    };
    let (device, disks) = (&p.device, p.disks.join(", "));
    text += &format!("\n{device} on {disks}: {verdict}: {}\n", m.reason);
    if let Some(tab) = &p.tab {
        let commands = p.commands.join("\n  ");
        text += &format!("\nTo have dsm keep to it:\n  {commands}\nand in /etc/dsm/{device}.toml:\n{tab}\n");
    }
    text
}

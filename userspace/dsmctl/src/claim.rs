// SPDX-License-Identifier: GPL-2.0-or-later
//! A device for one command alone, without what one that was killed has left of its work.

use anyhow::{Context, Result};

use dm::device::Device;
use dm::exchange;
use dm::ioctl::{Dm, Id, Info, Line};
use dm::journal::{DeviceClaim, Journal};
use dm::segments;
use runtime::text::printable;

/// A dsm device, whose table keeps its place.
pub(crate) fn claim(device: &Device) -> Result<DeviceClaim> {
    let info = Dm::open()?.info(Id::Name(&device.name))?;
    let claim = Journal::default().claim(&info)?;
    restore(&claim, device)?;
    Ok(claim)
}

/// A device whose table is about to be exchanged; LVM does not touch it meanwhile.
pub(crate) fn take(dm: &Dm, name: &str) -> Result<(DeviceClaim, Info, Vec<Line>)> {
    let look = || {
        dm.table(Id::Name(name))
            .with_context(|| format!("{name}: cannot read its table"))
    };
    let (mut info, mut lines) = look()?;
    let claim = Journal::default().claim(&info)?;
    if segments::undo(dm, &info, &lines)? {
        eprintln!("dsmctl: note: {name}: a command that was killed had loaded a table, which is taken away");
        (info, lines) = look()?;
    }
    segments::sweep(dm, &info)?;
    exchange::free(name, &info, &lines)?;
    if matches!(lines.as_slice(), [line] if line.target == "dsm") && restore(&claim, &Device::open(name)?)? {
        (info, lines) = look()?;
    }
    Ok((claim, info, lines))
}

fn restore(claim: &DeviceClaim, device: &Device) -> Result<bool> {
    let done = claim.restore(device, &device.table_line()?)?;
    for what in &done {
        let name = &device.name;
        eprintln!(
            "dsmctl: note: {}",
            printable(&format!("{name}: a command was killed: {what}"))
        );
    }
    Ok(!done.is_empty())
}

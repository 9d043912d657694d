// SPDX-License-Identifier: GPL-2.0-or-later
//! A device for one command alone, without what one that was killed has left of its work, and
//! scratch files in its table for as long as they are needed.

use anyhow::{Context, Result};

use crate::cli as args;
use crate::refused;
use dm::device::{Device, Target};
use dm::exchange;
use dm::ioctl::{Dm, Id, Info, Line};
use dm::journal::{DeviceClaim, Journal, ScratchFile};
use dm::segments;
use dm::table::{FileRecord, Upload, UploadKind};
use proto::control::Holding;
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

/// With this the files leave the table, and features are what they were.
pub(crate) struct Guest<'a> {
    device: &'a Device,
    pub(crate) claim: DeviceClaim,
    _holding: Holding,
}

impl<'a> Guest<'a> {
    /// A dsmd would take the files for a stranger's and upload its own table.
    pub(crate) fn enter(
        device: &'a Device,
        claim: DeviceClaim,
        records: &[FileRecord<'_>],
        probe: bool,
    ) -> Result<Self> {
        let guest = Self {
            device,
            claim,
            _holding: Holding::begin(&args::run_dir(), &device.name, probe)?,
        };
        let files = records.iter().map(ScratchFile::from).collect();
        guest.claim.change(|r| r.files = files)?;
        let upload = || {
            let mut upload = Upload::begin(device, UploadKind::Update(device.generation()?))?;
            for record in records {
                upload.file(record)?;
            }
            upload.commit()
        };
        upload().map_err(|e| refused(&device.name, e))?;
        Ok(guest)
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        let table = self.device.table_line();
        if let Err(e) = table.and_then(|table| self.claim.restore(self.device, &table)) {
            eprintln!("dsmctl: {}", printable(&format!("{e:#}")));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Scratch files in the table of a device, for as long as they are needed.

use anyhow::Result;

use crate::cli as args;
use crate::refused;
use dm::device::{Device, Target};
use dm::journal::{DeviceClaim, ScratchFile};
use dm::table::{FileRecord, Upload, UploadKind};
use proto::control::Holding;
use runtime::text::printable;

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

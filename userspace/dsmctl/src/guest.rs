// SPDX-License-Identifier: GPL-2.0-or-later
//! Scratch files in the table of a device, for as long as they are needed.

use anyhow::Result;

use crate::refused;
use agent::control::{self, Holding};
use dsmctl::cli as args;
use kernel::device::{Device, MessageError, Target};
use kernel::table::{FileRecord, Upload, UploadKind};

/// The files leave the table with this.
pub(crate) struct Guest<'a> {
    device: &'a Device,
    ids: Vec<u64>,
    _holding: Holding,
}

impl<'a> Guest<'a> {
    /// A dsmd would take the files for a stranger's and upload its own table.
    pub(crate) fn enter(device: &'a Device, records: &[FileRecord<'_>]) -> Result<Self> {
        let run_dir = args::run_dir();
        let served = control::serves(&run_dir, &device.name).then(|| device.name.clone());
        let guest = Self {
            device,
            ids: records.iter().map(|r| r.id).collect(),
            _holding: Holding::begin(&run_dir, served.into_iter().collect())?,
        };
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

    fn leave(&self) -> Result<(), MessageError> {
        let mut upload = Upload::begin(self.device, UploadKind::Update(self.device.generation()?))?;
        for id in &self.ids {
            upload.drop_file(*id)?;
        }
        upload.commit()?;
        Ok(())
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        // The table that somebody else uploaded meanwhile does not have them.
        let _ = self.leave();
    }
}

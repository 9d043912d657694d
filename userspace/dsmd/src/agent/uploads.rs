// SPDX-License-Identifier: GPL-2.0-or-later
//! Sends the kernel what it does not have yet of the files.

use super::files::FileTable;
use super::{fatal, Fatal};
use dm::device::{MessageError, Target};
use dm::reply::Commit;
use dm::table::{self, Upload};
use runtime::log;

#[derive(Default)]
pub(crate) struct Uploads {
    /// The kernel's generation after the last one, unless somebody else uploads.
    pub generation: u64,
    /// Files share sectors, so that uploads must be freed of overlaps.
    overlapping: bool,
    pub count: u64,
    pub refusals: u64,
    /// Why the last one was refused; nothing: it was taken.
    pub refused: Option<String>,
}

impl Uploads {
    /// The next one sends each sector for one file only.
    pub(crate) fn resolve_overlaps(&mut self) {
        self.overlapping = true;
    }

    /// Uploads what differs; `None`: nothing does.  The outer error ends the agent.
    pub(crate) fn upload<M>(
        &mut self,
        target: &impl Target,
        files: &mut FileTable<M>,
    ) -> Result<Result<Option<Commit>, String>, Fatal> {
        if self.overlapping {
            self.overlapping = files.free_of_overlaps();
        }
        if files.is_uploaded() {
            return Ok(Ok(None));
        }
        let sent = match self.send(target, files) {
            Err(MessageError::Stale(reason)) => {
                log!(
                    Warn,
                    "somebody else uploads, too; uploading all of the table",
                    reason = reason
                );
                files.distrust_table();
                self.send(target, files)
            }
            sent => sent,
        };
        let commit = match sent {
            Ok(commit) => commit,
            Err(MessageError::Refused(reason) | MessageError::Stale(reason)) => {
                self.refusals += 1;
                self.refused = Some(reason.clone());
                return Ok(Err(reason));
            }
            Err(e) => return Err(fatal(e)),
        };
        files.uploaded();
        self.refused = None;
        self.generation = commit.generation;
        self.count += 1;
        Ok(Ok(Some(commit)))
    }

    fn send<M>(&self, target: &impl Target, files: &FileTable<M>) -> Result<Commit, MessageError> {
        let full = !files.trusts_table();
        let kind = if full {
            table::UploadKind::Full
        } else {
            table::UploadKind::Update(self.generation)
        };
        let mut upload = Upload::begin(target, kind)?;
        if !full {
            for id in files.drops() {
                upload.drop_file(id)?;
            }
        }
        files.records(full, |r| upload.file(r))?;
        upload.commit()
    }
}

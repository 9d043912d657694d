// SPDX-License-Identifier: GPL-2.0-or-later
//! Checkpoints as the turtle shows them, and the kernel's windows that begin with them.

use rustix::fd::OwnedFd;

use super::{fatal, Fatal};
use database::wiredtiger::turtle;
use dm::device::{MessageError, Target};
use dm::reply::Checkpoint;
use runtime::log;

/// A window in which less was written, in bytes, may be that of a schema change.
pub(crate) const LITTLE: u64 = 1 << 20;

#[derive(Default)]
pub(crate) struct Checkpoints {
    /// The checkpoint entry of the last turtle.
    entry: Option<String>,
    /// Tables came or went in this window.
    schema: bool,
    /// What had been written when this window began.
    written: u64,
    /// The same, of the window that was seen to begin; in bytes.
    pub window_from: u64,
    pub last_window_ms: Option<u64>,
    /// How many were reported to the kernel.
    pub count: u64,
}

impl Checkpoints {
    /// The checkpoint that is there now is none to report.
    pub(crate) fn begin(&mut self, root: &OwnedFd, target: &impl Target) -> Result<(), Fatal> {
        self.entry = turtle::read_entry(root)?;
        self.window_from = target.status().map_err(fatal)?.sectors() * 512;
        Ok(())
    }

    /// Tables were made, dropped or renamed.
    pub(crate) fn files_came_or_went(&mut self) {
        self.schema = true;
    }

    /// A turtle was renamed into place.  When it describes a new checkpoint, reports it
    /// to the kernel.
    pub(crate) fn turtle_renamed(
        &mut self,
        root: &OwnedFd,
        target: &impl Target,
    ) -> Result<Option<Checkpoint>, Fatal> {
        let entry = turtle::read_entry(root)?;
        if entry.is_none() || entry == self.entry {
            return Ok(None);
        }
        let empty = entry.as_deref() == Some("");
        self.entry = entry;
        if empty || self.is_schema_change(target)? {
            return Ok(None);
        }
        match target.checkpoint() {
            Ok(c) => {
                self.count += 1;
                self.last_window_ms = Some(c.ms);
                self.window_from = self.written;
                Ok(Some(c))
            }
            Err(MessageError::Refused(reason)) => {
                log!(Error, "the kernel refused the checkpoint", reason = reason);
                Ok(None)
            }
            Err(e) => Err(fatal(e)),
        }
    }

    /// Without its log, WiredTiger checkpoints its metadata, and renames the
    /// turtle, when a table is made or dropped.  It writes little, so that the
    /// window may go on, also when this was a checkpoint after all.
    fn is_schema_change(&mut self, target: &impl Target) -> Result<bool, Fatal> {
        let written = target.status().map_err(fatal)?.sectors() * 512;
        // `reset` makes the count smaller.
        let little = written.checked_sub(self.written).is_some_and(|n| n < LITTLE);
        if self.schema && little {
            return Ok(true);
        }
        self.schema = false;
        self.written = written;
        Ok(false)
    }
}

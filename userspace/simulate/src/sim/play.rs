// SPDX-License-Identifier: GPL-2.0-or-later
//! Plays a trace: keeps the files and divides writes into pages.

use super::files::Files;
use super::policies::{Policy, Stream};
use super::SimError;
use crate::flash::PAGE;
use crate::trace::{FileNo, Trace, What};

/// A write of a trace, before its pages.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest {
    pub us: u64,
    pub file: FileNo,
    /// Pages of the file.
    pub first: u32,
    pub count: u32,
}

/// What becomes of it.
pub trait Player {
    /// The policy that is played; it hears of everything but pages.
    fn policy(&mut self) -> Option<&mut dyn Policy> {
        None
    }

    fn request(&mut self, files: &Files, request: &WriteRequest) {
        if let Some(policy) = self.policy() {
            policy.request(files, request);
        }
    }

    /// A page of a file, and where the drive has it.
    fn write(&mut self, files: &Files, file: FileNo, page: u32, at: u32);

    /// The writes that follow carry this stream.
    fn placed(&mut self, _stream: Stream) {}

    /// What the drive had at a place is gone.
    fn discard(&mut self, _at: u32) {}

    fn named(&mut self, files: &Files, file: FileNo, us: u64) {
        if let Some(policy) = self.policy() {
            policy.named(files, file, us);
        }
    }

    /// Called before the file's pages are discarded.
    fn deleted(&mut self, files: &Files, file: FileNo, us: u64) {
        if let Some(policy) = self.policy() {
            policy.deleted(files, file, us);
        }
    }

    fn load_end(&mut self, files: &Files, us: u64) {
        if let Some(policy) = self.policy() {
            policy.load_end(files, us);
        }
    }

    fn begins(&mut self, files: &Files, us: u64) {
        if let Some(policy) = self.policy() {
            policy.begins(files, us);
        }
    }

    fn checkpoint(&mut self, files: &Files, us: u64) {
        if let Some(policy) = self.policy() {
            policy.checkpoint(files, us);
        }
    }
}

pub fn play(trace: &Trace, files: &mut Files, player: &mut impl Player) -> Result<(), SimError> {
    for event in trace.events() {
        let us = event.us;
        match event.what {
            What::Name { file, name } => {
                files.set_name(file, &trace.names[name as usize]);
                player.named(files, file, us);
            }
            What::Write { file, offset, length } => {
                let first = (offset / PAGE) as u32;
                let last = ((offset + length - 1) / PAGE) as u32;
                files.grow(file, offset + length);
                player.request(
                    files,
                    &WriteRequest {
                        us,
                        file,
                        first,
                        count: last - first + 1,
                    },
                );
                for page in first..=last {
                    let at = files.page(file, page).ok_or(SimError::TooManyPages)?;
                    player.write(files, file, page, at);
                }
            }
            What::Discard { file, offset, length } => {
                files.discard(file, offset, length, |at| player.discard(at));
            }
            What::Stream { stream } => player.placed(stream),
            What::LoadEnd => {
                files.load_end();
                player.load_end(files, us);
            }
            What::Begins => player.begins(files, us),
            What::Checkpoint => {
                files.checkpoint();
                player.checkpoint(files, us);
            }
            What::Delete { file } => {
                player.deleted(files, file, us);
                files.delete(file, |at| player.discard(at));
            }
            What::Window | What::List { .. } | What::Looked | What::Lost => {}
        }
    }
    Ok(())
}

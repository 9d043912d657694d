// SPDX-License-Identifier: GPL-2.0-or-later
//! Plays a trace: keeps the files and divides writes into pages.

use super::files::Files;
use super::policies::Policy;
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
    /// The policy that is played, which hears of everything but pages first.
    fn policy(&mut self) -> Option<&mut dyn Policy> {
        None
    }

    fn named(&mut self, _files: &Files, _file: FileNo) {}

    /// A page of a file, and where the drive has it.
    fn write(&mut self, files: &Files, file: FileNo, page: u32, at: u32);

    /// What the drive had at a place is gone.
    fn discard(&mut self, _at: u32) {}

    fn load_end(&mut self, _us: u64) {}

    fn checkpoint(&mut self, _files: &Files, _us: u64) {}
}

fn tell(player: &mut impl Player, what: impl FnOnce(&mut dyn Policy)) {
    if let Some(policy) = player.policy() {
        what(policy);
    }
}

pub fn play(trace: &Trace, files: &mut Files, player: &mut impl Player) -> Result<(), SimError> {
    for event in trace.events() {
        let us = event.us;
        match event.what {
            What::Name { file, name } => {
                files.set_name(file, &trace.names[name as usize]);
                tell(player, |p| p.named(files, file, us));
                player.named(files, file);
            }
            What::Write { file, offset, length } => {
                let first = (offset / PAGE) as u32;
                let last = ((offset + length - 1) / PAGE) as u32;
                files.grow(file, offset + length);
                let count = last - first + 1;
                let request = WriteRequest {
                    us,
                    file,
                    first,
                    count,
                };
                tell(player, |p| p.request(files, &request));
                for page in first..=last {
                    let at = files.page(file, page).ok_or(SimError::TooManyPages)?;
                    player.write(files, file, page, at);
                }
            }
            What::Discard { file, offset, length } => {
                files.discard(file, offset, length, |at| player.discard(at));
            }
            What::Stream { stream } => tell(player, |p| p.placed(stream)),
            What::LoadEnd => {
                files.load_end();
                player.load_end(us);
            }
            What::Begins => tell(player, |p| p.begins(files, us)),
            What::Checkpoint => {
                files.checkpoint();
                tell(player, |p| p.checkpoint(files, us));
                player.checkpoint(files, us);
            }
            What::Delete { file } => {
                tell(player, |p| p.deleted(files, file, us));
                files.delete(file, |at| player.discard(at));
            }
            What::Window | What::List { .. } | What::Looked | What::Lost => {}
        }
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The daemon's life: it waits for a database, serves it, loses it and finds it again.

pub mod agent;
pub mod cli;
pub mod mongo;
mod report;
mod serve;
#[cfg(test)]
mod tests;
mod used;

use std::sync::Arc;

use anyhow::{Context, Result};

use crate::agent::discard::{self, Plan};
use database::config::Config;
use database::fiemap::{Fiemap, Mapper};
use database::place;
use database::walk::Root;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::ioctl::Dm;
use dm::sysfs::Sysfs;
use drive::below::{self, Affords};
use drive::media;
use proto::device::{Kernel, State};
use proto::drive::Media;
use proto::reason::Reason;
use runtime::log;
use runtime::pulse::{Pulse, Pulses};
use runtime::wake::Signals;

use report::{Board, Listener, Publisher, Reporter};
use serve::{ServePace, Served};

pub use serve::Run;

/// The devices and file systems that there are; others in tests.
pub trait Machine: Send + Sync + 'static {
    type Target: Target;
    type Mapper: Mapper;

    fn open(&self, device: &str) -> Result<Self::Target>;
    /// Where the files of a directory lie on a device.
    fn mapper(&self, root: &Root, target: &Self::Target) -> Result<Self::Mapper>;
    /// Begins to discard what the checkpoints of a database free.
    fn discards(&self, root: &Root, device: &str, plan: Plan, pulse: Pulse) -> Result<discard::Link>;
    /// What the kernel says of a device.
    fn look(&self, device: &str) -> Result<Kernel>;
    /// The streams that the drive below a device affords.
    fn affords(&self, target: &Self::Target) -> Result<Affords>;
    /// What the drive below a device says, or why it does not.
    fn ask_drive(&self, device: DevNo) -> Result<Media, String>;
}

/// This machine.
pub struct Local;

impl Machine for Local {
    type Target = Device;
    type Mapper = Fiemap;

    fn open(&self, device: &str) -> Result<Device> {
        Device::open(device)
    }

    fn mapper(&self, root: &Root, target: &Device) -> Result<Fiemap> {
        let found = place::of_root(root, &target.name, target.devno, target.sectors)?;
        if let Some(warning) = &found.warning {
            log!(Warn, warning);
        }
        let (root, name) = (root.clone(), target.name.clone());
        let (devno, sectors) = (target.devno, target.sectors);
        let again = move || Some(place::of_root(&root, &name, devno, sectors).ok()?.place);
        Ok(Fiemap::new(found.place).following(again))
    }

    fn discards(&self, root: &Root, device: &str, plan: Plan, pulse: Pulse) -> Result<discard::Link> {
        let target = Device::open(device)?;
        let disk = discard::Disk::new(root.clone(), device, target.devno, target.sectors, pulse.clone());
        discard::Link::start(&target.name.clone(), plan, target, disk, pulse)
    }

    fn look(&self, device: &str) -> Result<Kernel> {
        Kernel::at(&Device::open(device)?)
    }

    fn affords(&self, target: &Device) -> Result<Affords> {
        below::of(&Sysfs::default(), &Dm::open()?, target.devno)
    }

    fn ask_drive(&self, device: DevNo) -> Result<Media, String> {
        media::of(&Sysfs::default(), device)
    }
}

/// Serves the database of a configuration until a signal comes, or it is given up.
pub fn serve<M: Machine>(machine: &Arc<M>, config: &Config, run: Run) -> Result<()> {
    // Nothing of a file system may stay in use because of us.
    std::env::set_current_dir("/").context("cannot go to /")?;
    let served = Served {
        config: config.clone(),
        run,
        board: Arc::default(),
        pulses: Pulses::default(),
        signals: Signals::new()?,
        pace: ServePace::default(),
    };
    let publisher = Publisher::new(&served.run.run_dir, &config.device);
    report(machine, &served, publisher)
}

/// Serves it, and reports that.
fn report<M: Machine>(machine: &Arc<M>, served: &Served, to: impl Listener) -> Result<()> {
    let (board, device): (&Arc<Board>, _) = (&served.board, &served.config.device);
    log::of_device(device);
    let _reporter = Reporter::start(machine, board, &served.pulses, device, to)?;
    let result = serve::serve(&**machine, served);
    board.without(State::Ended, result.as_ref().err().map(Reason::of));
    result
}

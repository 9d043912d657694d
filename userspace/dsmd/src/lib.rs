// SPDX-License-Identifier: GPL-2.0-or-later
//! The daemon's life: a process for each database, which waits for it, serves it, loses
//! it and finds it again, and a parent that reports to the service manager.

pub mod agent;
pub mod cli;
pub mod mongo;
mod parent;
mod report;
mod serve;
#[cfg(test)]
mod tests;
mod used;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;

use crate::agent::discard::{self, Plan};
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::ioctl::Dm;
use dm::sysfs::Sysfs;
use drive::below::{self, Affords};
use drive::media;
use files::config::Config;
use files::fiemap::{Fiemap, Mapper};
use files::place;
use files::walk::Root;
use proto::device::Kernel;
use proto::drive::Media;
use runtime::log;
use runtime::pulse::Pulse;

pub use worker::serve_here;

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

/// Serves the databases of a configuration, each in a process of its own, until all are given
/// up or a signal comes; whether none failed.  The program begins with [`is_worker`].
pub fn serve_all(config: &Config, show_regions: bool) -> Result<bool> {
    parent::run(config, show_regions)
}

/// Serves one database, if that is what this process was started for.
pub fn is_worker<M: Machine>(machine: &Arc<M>) -> Option<ExitCode> {
    let asked = std::env::args_os().nth(1).is_some_and(|a| a == worker::WORKER);
    asked.then(|| worker::main(machine))
}

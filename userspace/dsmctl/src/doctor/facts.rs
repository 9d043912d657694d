// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of a machine when it is judged.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::create::User;
use dm::journal::Feature;
use dm::module::KernelRelease;
use dm::mounts::Mount;
use dm::streams;
use drive::below::LowerDisk;
use proto::device::DeviceView;

/// What a configuration wants of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub dbpath: PathBuf,
    pub discard: bool,
}

/// What files say that there is to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    /// By device.
    pub databases: BTreeMap<String, Wanted>,
    /// Devices that are made when the system starts.
    pub tab: Vec<String>,
    /// Those that have a length of their own.
    pub sized: Vec<String>,
    /// The drives of those that are not there, and who uses them, by device.
    pub held: BTreeMap<String, (PathBuf, User)>,
    /// What is wrong with the files.
    pub bad_lines: Vec<String>,
}

/// What dsmd publishes.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub age: Duration,
    pub version: String,
}

#[derive(Debug)]
pub(crate) struct Facts {
    pub kernel: KernelRelease,
    /// The target's version, or why it could not be asked for.
    pub target: Result<Option<[u32; 3]>, String>,
    /// Nothing: not permitted to ask device-mapper.
    pub permitted: bool,
    pub configuration: Configuration,
    /// `Err`: nothing is published, or it is stale.
    pub published: Result<Published, String>,
    /// Without a dsm device: what the disks are.
    pub disks: Vec<LowerDisk>,
    pub devices: Vec<Examined>,
    /// Semaphores that killed commands of device-mapper's have left.
    pub semaphores: usize,
}

/// What a command that was killed has left of its work on a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    pub features: Vec<Feature>,
    /// Scratch files in its table.
    pub files: usize,
    /// Why it cannot be seen.
    pub hidden: Option<String>,
}

/// A dsm device, that there is or that there should be, and what is looked at for a diagnosis
/// alone.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    pub view: DeviceView,
    /// With which the last message was refused.
    pub error: Option<String>,
    /// What lies below.
    pub stack: streams::LowerStack,
    /// Why that could not be followed.
    pub lost: Option<String>,
    /// The tables between could be read.
    pub followed: bool,
    /// Its length, where it is to have all of what it lies on.
    pub length: Option<Length>,
    pub disks: Vec<LowerDisk>,
    /// File systems on it, also above volumes.
    pub mounts: Vec<Mount>,
    /// Why it is not known what is mounted.
    pub unmounted: Option<String>,
    pub wanted: Option<Wanted>,
    pub left: Left,
    /// Of the data directory that dsmd serves or is to serve: where it lies.
    pub dbpath: Option<Result<(), Misplaced>>,
    /// Its journal is a symbolic link, which dsmd does not follow.
    pub journal_linked: bool,
    /// How old the last turtle is: when the database made its last checkpoint.
    pub turtle_age: Option<Duration>,
    /// Its files for which smaller leaf pages may be better; `Err`: WiredTiger would not have
    /// written what is there.
    pub large_leaves: Option<Result<usize, String>>,
}

impl Examined {
    /// The data directory that dsmd serves, or is to serve.
    pub(super) fn served(&self) -> Option<PathBuf> {
        let served = self.view.agent.as_ref().map(|a| PathBuf::from(&a.dbpath));
        served.or_else(|| self.wanted.as_ref().map(|w| w.dbpath.clone()))
    }
}

/// In sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    pub has: u64,
    /// What the device below has for it.
    pub room: u64,
    pub below: String,
    /// Of the file system that is on the device itself.
    pub mount: Option<Mount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// As text.
    Wrong(String),
    /// It could not be looked at.
    Hidden(String),
    /// Who looks at it may never come back.
    Unasked,
}

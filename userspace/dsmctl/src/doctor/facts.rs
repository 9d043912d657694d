// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of a machine when it is judged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::create::User;
use crate::device_file::DeviceFile;
use crate::grow::Room;
use dm::module::KernelRelease;
use dm::mounts::Mount;
use dm::streams;
use drive::below::LowerDisk;
use proto::device::DeviceView;

/// What files say that there is to be.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// By device; those that are right.
    pub files: BTreeMap<String, DeviceFile>,
    /// What is wrong with them.
    pub bad_lines: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Facts {
    pub kernel: KernelRelease,
    /// The target's version, as far as it is known.
    pub target: Option<[u32; 3]>,
    /// Nothing: not permitted to ask device-mapper.
    pub permitted: bool,
    pub configuration: Configuration,
    /// Without a dsm device: what the disks are.
    pub disks: Vec<LowerDisk>,
    pub devices: Vec<Examined>,
    /// Semaphores that killed commands of device-mapper's have left.
    pub semaphores: usize,
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
    /// Where it is to have all of what it lies on.
    pub room: Option<Room>,
    pub disks: Vec<LowerDisk>,
    /// File systems on it, also above volumes.
    pub mounts: Vec<Mount>,
    /// Why it is not known what is mounted.
    pub unmounted: Option<String>,
    /// What is configured.
    pub file: Option<DeviceFile>,
    /// Of one that is not there: who uses the drive.
    pub held: Option<User>,
    /// What a command that was killed has left of its work, or why that cannot be seen.
    pub left: Option<Result<Vec<String>, String>>,
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
        served.or_else(|| self.configured().map(Path::to_owned))
    }

    /// The data directory that dsmd is to serve.
    pub(super) fn configured(&self) -> Option<&Path> {
        self.file.as_ref()?.config.dbpath.as_deref()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// As text.
    Wrong(String),
    /// It could not be looked at.
    Hidden,
    /// Who looks at it may never come back.
    Unasked,
}

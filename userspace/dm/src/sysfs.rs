// SPDX-License-Identifier: GPL-2.0-or-later
//! Block devices as /sys/dev/block describes them.
//!
//! By hand: a file is read and a link followed, which a library has other names for.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};

use crate::devno::DevNo;

/// The directory with an entry `major:minor` for each block device.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::at("/sys/dev/block")
    }
}

impl Sysfs {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn dir(&self, dev: DevNo) -> PathBuf {
        self.root.join(dev.to_string())
    }

    pub fn exists(&self, dev: DevNo) -> bool {
        self.dir(dev).exists()
    }

    /// Every block device.
    pub fn all(&self) -> Vec<DevNo> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut all: Vec<DevNo> = entries
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .collect();
        all.sort();
        all
    }

    pub fn has(&self, dev: DevNo, what: &str) -> bool {
        self.dir(dev).join(what).exists()
    }

    /// The text of an attribute, if there is one.
    pub fn text(&self, dev: DevNo, attribute: &str) -> Option<String> {
        let text = fs::read_to_string(self.dir(dev).join(attribute)).ok()?;
        Some(text.trim().to_owned())
    }

    pub fn number<T: FromStr>(&self, dev: DevNo, attribute: &str) -> Option<T> {
        self.text(dev, attribute)?.parse().ok()
    }

    /// The kernel's name: `nvme0n1`, `dm-0`.
    pub fn name(&self, dev: DevNo) -> String {
        fs::canonicalize(self.dir(dev))
            .ok()
            .and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()))
            .unwrap_or_else(|| dev.to_string())
    }

    /// The name that it was given: `vg-db`; a device that was given none has the kernel's.
    pub fn given_name(&self, dev: DevNo) -> String {
        self.text(dev, "dm/name").unwrap_or_else(|| self.name(dev))
    }

    /// The whole disk, when `dev` is a partition.
    pub fn disk_of(&self, dev: DevNo) -> Result<Option<DevNo>> {
        if !self.has(dev, "partition") {
            return Ok(None);
        }
        let dir = fs::canonicalize(self.dir(dev))
            .with_context(|| format!("cannot resolve the device {dev} in sysfs"))?;
        let disk = dir.parent().unwrap_or(Path::new("/"));
        Ok(Some(read_devno(disk)?))
    }

    /// The devices that `what` (`slaves` or `holders`) lists.
    pub fn links(&self, dev: DevNo, what: &str) -> Result<Vec<DevNo>> {
        let Ok(entries) = fs::read_dir(self.dir(dev).join(what)) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in entries {
            found.push(read_devno(&entry?.path())?);
        }
        found.sort();
        Ok(found)
    }

    pub fn is_dm(&self, dev: DevNo) -> bool {
        self.has(dev, "dm")
    }

    pub(crate) fn is_md(&self, dev: DevNo) -> bool {
        self.has(dev, "md")
    }
}

fn read_devno(dir: &Path) -> Result<DevNo> {
    let file = dir.join("dev");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    text.parse()
        .ok()
        .with_context(|| format!("{} is not a device number", file.display()))
}

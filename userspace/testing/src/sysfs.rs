// SPDX-License-Identifier: GPL-2.0-or-later
//! Block devices that exist only in a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use dm::sysfs::Sysfs;

pub struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    pub fn make() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("block")).unwrap();
        Self { dir }
    }

    /// Where the devices are.
    pub fn block(&self) -> PathBuf {
        self.dir.path().join("block")
    }

    pub fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.block())
    }

    /// Adds a device `path` below `devices` (`nvme0n1`, `nvme0n1/nvme0n1p1`).
    pub fn add(&self, dev: &str, path: &str) {
        let at = self.dir.path().join("devices").join(path);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("dev"), format!("{dev}\n")).unwrap();
        symlink(&at, self.dir.path().join("block").join(dev)).unwrap();
    }

    pub fn set(&self, dev: &str, attribute: &str, value: &str) {
        let at = self.dir.path().join("block").join(dev).join(attribute);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, format!("{value}\n")).unwrap();
    }

    pub fn slave(&self, dev: &str, below: &str) {
        self.link(dev, "slaves", below);
    }

    /// Links to another device in `folder` (`slaves`, `holders`).
    pub fn link(&self, dev: &str, folder: &str, to: &str) {
        let block = self.dir.path().join("block");
        let links = block.join(dev).join(folder);
        fs::create_dir_all(&links).unwrap();
        let target = fs::canonicalize(block.join(to)).unwrap();
        symlink(&target, links.join(target.file_name().unwrap())).unwrap();
    }
}

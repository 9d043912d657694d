// SPDX-License-Identifier: GPL-2.0-or-later
//! The node of a device in /dev/mapper, with and without udev.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::fs::{FileType, Mode};

use crate::devno::DevNo;
use crate::udev;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Of a dsm device.
pub fn path(name: &str) -> PathBuf {
    Path::new("/dev/mapper").join(name)
}

/// Whether the node leads to the device.
fn leads_to(path: &Path, dev: DevNo) -> bool {
    fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device() && m.rdev() == dev.to_stat())
}

/// Waits for udev to make the node, or makes it.
pub fn ensure(name: &str, dev: DevNo) -> Result<PathBuf> {
    let path = path(name);
    if udev::makes_nodes() {
        let end = Instant::now() + TIMEOUT;
        while !leads_to(&path, dev) && Instant::now() < end {
            sleep(Duration::from_millis(20));
        }
    }
    if !leads_to(&path, dev) {
        make(&path, dev).with_context(|| format!("cannot make the node {}", path.display()))?;
    }
    Ok(path)
}

fn make(path: &Path, dev: DevNo) -> Result<()> {
    match fs::symlink_metadata(path) {
        // A stale node, or a link that udev made for a device that is gone.
        Ok(m) if m.file_type().is_block_device() || m.file_type().is_symlink() => fs::remove_file(path)?,
        Ok(_) => bail!("there is something else of this name"),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e.into()),
    }
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        FileType::BlockDevice,
        Mode::RUSR | Mode::WUSR,
        dev.to_stat(),
    )?;
    // As udev makes them: root:disk 0660, where there is such a group.
    if let Some(disk) = group("disk") {
        std::os::unix::fs::lchown(path, None, Some(disk))?;
        rustix::fs::chmodat(rustix::fs::CWD, path, mode, rustix::fs::AtFlags::empty())?;
    }
    Ok(())
}

fn group(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Takes the node away, when udev did not.
pub fn remove(name: &str, dev: DevNo) {
    let path = path(name);
    if leads_to(&path, dev) {
        let _ = fs::remove_file(&path);
    }
}

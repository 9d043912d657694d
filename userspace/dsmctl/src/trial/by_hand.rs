// SPDX-License-Identifier: GPL-2.0-or-later
//! That somebody has switched discards off by hand.  In a period that has them off anyway
//! the device itself does not show it, and the next period would have them on again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

fn path(dir: &Path, device: &str) -> PathBuf {
    dir.join(format!("off-{device}"))
}

/// Behind the switch itself, so that a trial that sees this switches nothing on afterwards.
pub fn set_off(dir: &Path, device: &str) -> Result<()> {
    let path = path(dir, device);
    let make = || {
        fs::create_dir_all(dir)?;
        File::create(&path)?.sync_all()?;
        File::open(dir)?.sync_all()
    };
    make().with_context(|| format!("cannot write {}", path.display()))
}

pub fn set_on(dir: &Path, device: &str) -> Result<()> {
    let path = path(dir, device);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

pub fn is_off(dir: &Path, device: &str) -> Result<bool> {
    let path = path(dir, device);
    let found = path.try_exists();
    found.with_context(|| format!("cannot look for {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_until_on() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("new");
        assert!(!is_off(&at, "vg-db").unwrap());
        set_on(&at, "vg-db").unwrap();
        set_off(&at, "vg-db").unwrap();
        set_off(&at, "vg-db").unwrap();
        assert!(is_off(&at, "vg-db").unwrap() && !is_off(&at, "vg").unwrap());
        set_on(&at, "vg-db").unwrap();
        assert!(!is_off(&at, "vg-db").unwrap());
    }
}

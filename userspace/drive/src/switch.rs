// SPDX-License-Identifier: GPL-2.0-or-later
//! That a person has switched the discards of a device off, which holds until a person switches
//! them on again: it outlives dsmd, the device and the machine's boot.  The target itself does
//! not show who it was, and in a trial's period that has them off not even that.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use runtime::{time, whole};

/// Who it was, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// What was done, by whom; or empty.
    pub who: String,
    /// Seconds since 1970.
    pub when: u64,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by = if self.who.is_empty() {
            "somebody"
        } else {
            &self.who
        };
        let since = time::shown(self.when);
        write!(f, "by {by}, since {since}, until `dsmctl set` has them on again")
    }
}

fn path(dir: &Path, device: &str) -> PathBuf {
    dir.join(format!("off-{device}"))
}

/// To be asked for before the target is switched on.
pub fn off_by_person(dir: &Path, device: &str) -> Option<Why> {
    let path = path(dir, device);
    match fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        // Also if it cannot be read.
        text => Some(
            serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_else(|_| Why {
                who: String::new(),
                when: fs::metadata(&path).map_or(0, |m| m.mtime().try_into().unwrap_or(0)),
            }),
        ),
    }
}

/// Before the switch itself, so that nobody who finds it off thinks that it may be on.
pub fn set_off(dir: &Path, device: &str, who: &str) -> Result<()> {
    let path = path(dir, device);
    let why = Why {
        who: who.to_owned(),
        when: time::now().as_secs(),
    };
    let written = whole::write(&path, 0o644, &serde_json::to_vec(&why)?);
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Whether there was anything to take away.
pub fn clear(dir: &Path, device: &str) -> Result<bool> {
    let path = path(dir, device);
    match fs::remove_file(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        done => {
            done.with_context(|| format!("cannot remove {}", path.display()))?;
            // Who has switched on would find it off after a power cut.
            fs::File::open(dir).and_then(|d| d.sync_all())?;
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_until_on() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("new");
        assert_eq!(off_by_person(&at, "vg-db"), None);
        assert!(!clear(&at, "vg-db").unwrap());
        set_off(&at, "vg-db", "`dsmctl set`, user 1000").unwrap();
        let why = off_by_person(&at, "vg-db").unwrap();
        assert_eq!(why.who, "`dsmctl set`, user 1000");
        assert!(why.when.abs_diff(time::now().as_secs()) < 60);
        assert_eq!(off_by_person(&at, "vg"), None);
        set_off(&at, "vg-db", "x").unwrap();
        assert!(clear(&at, "vg-db").unwrap());
        assert_eq!(off_by_person(&at, "vg-db"), None);
    }

    /// When in doubt it is off.
    #[test]
    fn what_cannot_be_read_is_off() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("off-old"), "").unwrap();
        fs::create_dir(dir.path().join("off-folder")).unwrap();
        for device in ["old", "folder"] {
            let said = off_by_person(dir.path(), device).unwrap().to_string();
            assert!(said.starts_with("by somebody, since 20"), "{said}");
        }
        let file = dir.path().join("off-old");
        assert!(off_by_person(&file, "d").is_some(), "no directory");
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The file in which boundaries outlive the agent and the machine.
//!
//! One JSON object for each device; one that cannot be understood is put aside.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::agent::tracked::PAGE;
use runtime::{log, whole};

/// A birth time as it is kept: until the year 2262.
pub fn born(btime: i128) -> i64 {
    i64::try_from(btime).unwrap_or(0)
}

const VERSION: u32 = 1;
/// A longer file is not one of ours: 10^6 files take a tenth.
const MOST: u64 = 1 << 30;

/// A file's boundary.  An inode number alone may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub ino: u64,
    /// The birth time in nanoseconds; 0: the file system has none, and this is of no use.
    pub born: i64,
    /// Bytes.
    pub boundary: u64,
}

/// The data directory itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    pub ino: u64,
    pub born: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub version: u32,
    pub device: String,
    /// The data directory: another one on the device starts over.
    pub root: Directory,
    /// Whether the load phase is over.
    pub marked: bool,
    pub files: Vec<Kept>,
}

impl State {
    pub fn new(device: &str, root: Directory, marked: bool, mut files: Vec<Kept>) -> Self {
        files.sort_unstable_by_key(|f| f.ino);
        Self {
            version: VERSION,
            device: device.to_owned(),
            root,
            marked,
            files,
        }
    }

    /// Reads it, or returns what is wrong.
    pub fn parse(text: &[u8], device: &str) -> Result<Self, String> {
        let state: Self = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        if state.version != VERSION {
            return Err(format!("its version is {}, not {VERSION}", state.version));
        }
        if state.device != device {
            return Err(format!("it is about the device {:?}", state.device));
        }
        let mut seen = HashSet::with_capacity(state.files.len());
        for f in &state.files {
            if f.boundary == 0 || f.boundary % PAGE != 0 {
                return Err(format!("inode {} has the boundary {}", f.ino, f.boundary));
            }
            if !seen.insert(f.ino) {
                return Err(format!("duplicate inode {}", f.ino));
            }
        }
        Ok(state)
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("it has no keys but strings") + "\n"
    }

    pub(crate) fn by_ino(self) -> HashMap<u64, Kept> {
        self.files.into_iter().map(|f| (f.ino, f)).collect()
    }
}

/// Where a device's state is.
pub struct Keeper {
    device: String,
    dir: PathBuf,
    /// The last attempt to write did.
    pub failed: bool,
}

impl Keeper {
    pub fn new(dir: &Path, device: &str) -> Self {
        Self {
            device: device.to_owned(),
            dir: dir.to_owned(),
            failed: false,
        }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}.{suffix}", self.device))
    }

    /// What is kept.  Without it, or when it is damaged, the kernel may still
    /// know the boundaries.
    pub fn load(&self) -> Option<State> {
        let path = self.path("json");
        let read = || -> io::Result<Vec<u8>> {
            let mut text = Vec::new();
            File::open(&path)?.take(MOST).read_to_end(&mut text)?;
            Ok(text)
        };
        let result = match read() {
            Ok(text) => State::parse(&text, &self.device),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => Err(e.to_string()),
        };
        match result {
            Ok(state) => Some(state),
            Err(reason) => {
                let aside = self.path("bad");
                let moved = fs::rename(&path, &aside).is_ok();
                log!(
                    Error,
                    "the state file is not understood; boundaries are those that the kernel has",
                    file = path.display(),
                    reason = reason,
                    moved_to = if moved {
                        aside.display().to_string()
                    } else {
                        String::new()
                    },
                );
                None
            }
        }
    }

    /// Writes it; whether that worked.  A failure is logged once.
    pub fn save(&mut self, state: &State) -> bool {
        match whole::write(&self.path("json"), 0o600, state.text().as_bytes()) {
            Ok(()) => {
                if std::mem::take(&mut self.failed) {
                    log!(
                        Info,
                        "the state file is written again",
                        file = self.path("json").display()
                    );
                }
            }
            Err(e) => {
                if !std::mem::replace(&mut self.failed, true) {
                    log!(
                        Error,
                        "cannot write the state file; boundaries live as long as the device",
                        file = self.path("json").display(),
                        reason = e,
                    );
                }
            }
        }
        !self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let kept = |ino, boundary| Kept {
            ino,
            born: 1_700_000_000_123_456_789,
            boundary,
        };
        State::new(
            "d",
            Directory { ino: 128, born: 5 },
            true,
            vec![kept(9, 8192), kept(7, 4096)],
        )
    }

    #[test]
    fn it_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(&dir.path().join("a/b"), "d");
        assert_eq!(keeper.load(), None);
        assert!(keeper.save(&state()));
        assert_eq!(keeper.load(), Some(state()));
        assert_eq!(keeper.load().unwrap().by_ino()[&7].boundary, 4096);
        let names: Vec<_> = fs::read_dir(dir.path().join("a/b"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["d.json"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = state().text();
        for (from, to, reason) in [
            ("\"version\":1", "\"version\":2", "its version is 2, not 1"),
            (
                "\"device\":\"d\"",
                "\"device\":\"e\"",
                "it is about the device \"e\"",
            ),
            ("8192", "8191", "inode 9 has the boundary 8191"),
            ("8192", "0", "inode 9 has the boundary 0"),
            ("\"ino\":7", "\"ino\":9", "duplicate inode 9"),
            ("true", "1", "invalid type: integer `1`, expected a boolean"),
            ("marked", "marched", "unknown field `marched`"),
        ] {
            let bad = good.replacen(from, to, 1);
            let said = State::parse(bad.as_bytes(), "d").unwrap_err();
            assert!(said.starts_with(reason), "{said}");
        }
        for cut in 0..good.trim_end().len() {
            assert!(State::parse(&good.as_bytes()[..cut], "d").is_err(), "{cut}");
        }
    }

    #[test]
    fn a_damaged_file_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(dir.path(), "d");
        fs::write(dir.path().join("d.json"), "{").unwrap();
        assert_eq!(keeper.load(), None);
        assert_eq!(fs::read(dir.path().join("d.bad")).unwrap(), b"{");
        assert!(keeper.save(&state()));
        assert_eq!(keeper.load(), Some(state()));
    }

    #[test]
    fn an_old_state_outlives_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(dir.path(), "d");
        assert!(keeper.save(&state()));
        // No file can be made there.
        let aside = dir.path().with_extension("aside");
        fs::rename(dir.path(), &aside).unwrap();
        fs::write(dir.path(), "").unwrap();
        assert!(!keeper.save(&State::new("d", Directory::default(), false, Vec::new())));
        fs::remove_file(dir.path()).unwrap();
        fs::rename(&aside, dir.path()).unwrap();
        assert_eq!(keeper.load(), Some(state()));
    }
}

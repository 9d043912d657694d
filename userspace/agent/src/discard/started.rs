// SPDX-License-Identifier: GPL-2.0-or-later
//! How the process that has a database open was started.
//!
//! mongod passes WiredTiger what `--wiredTigerEngineConfigString` says, or `configString`
//! in its file of configuration, and keeps it in no file of the database.  What the file
//! takes from elsewhere (`__exec`, `__rest`), and one that cannot be read from here, as in
//! a container, is not seen.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use dbpath::avail::config::unsynced;

/// What lies beyond is no configuration.
const MOST: u64 = 1 << 20;

/// Why the checkpoints of a process may not be durable, if they are not.
pub(super) fn check(proc: &Path, pid: i32) -> Result<(), String> {
    // One that is over has no database open.
    let words = std::fs::read(proc.join(pid.to_string()).join("cmdline")).unwrap_or_default();
    let refused = |place: &str| {
        Err(format!(
            "the database has checkpoint_sync=false, by {place}: its checkpoints are not durable"
        ))
    };
    if unsynced(&String::from_utf8_lossy(&words)) {
        return refused(&format!("the command line of process {pid}"));
    }
    for file in configurations(&words) {
        let text = text(&file).unwrap_or_default();
        if unsynced(&String::from_utf8_lossy(&text)) {
            return refused(&file.display().to_string());
        }
    }
    Ok(())
}

/// What a file has, if it is one that can be waited for.
fn text(path: &Path) -> std::io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let mut text = Vec::new();
    if file.metadata()?.is_file() {
        file.take(MOST).read_to_end(&mut text)?;
    }
    Ok(text)
}

/// The files of configuration that a command line names, by their absolute paths.
fn configurations(words: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = false;
    for word in words.split(|b| *b == 0) {
        let path = match word {
            _ if next => Some(word),
            b"-f" | b"--config" => None,
            _ => word
                .strip_prefix(b"--config=")
                .or_else(|| word.strip_prefix(b"-f")),
        };
        next = path.is_none() && (word == b"-f" || word == b"--config");
        found.extend(path.map(|p| PathBuf::from(OsStr::from_bytes(p))));
    }
    found.retain(|p| p.is_absolute());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_configuration_on_a_command_line() {
        let of = |line: &str| {
            let found = configurations(line.replace(' ', "\0").as_bytes());
            found.iter().map(|p| p.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            of("mongod --config /etc/mongod.conf --fork"),
            ["/etc/mongod.conf"]
        );
        assert_eq!(of("mongod -f /a --config=/b -f/c"), ["/a", "/b", "/c"]);
        assert!(of("mongod --dbpath /d --fork -f relative --config").is_empty());
    }

    #[test]
    fn checkpoints_that_are_not_synced() {
        let dir = tempfile::tempdir().unwrap();
        let (at, file) = (dir.path().join("7"), dir.path().join("mongod.conf"));
        std::fs::create_dir(&at).unwrap();
        let said = |line: &str, text: &str| {
            std::fs::write(at.join("cmdline"), line.replace(' ', "\0")).unwrap();
            std::fs::write(&file, text).unwrap();
            check(dir.path(), 7)
        };
        let plain = format!("mongod --config {} --dbpath /d", file.display());
        assert_eq!(said(&plain, "storage:\n  dbPath: /d\n"), Ok(()));
        assert_eq!(
            said(
                "mongod --wiredTigerEngineConfigString checkpoint_sync=false,x=1",
                ""
            ),
            Err(
                "the database has checkpoint_sync=false, by the command line of process 7: \
                 its checkpoints are not durable"
                    .to_owned()
            )
        );
        let text = "storage:\n  wiredTiger:\n    engineConfig:\n      configString: \"cache_size=1G, checkpoint_sync = false\"\n";
        let by_file = said(&plain, text).unwrap_err();
        assert!(by_file.contains("by /"), "{by_file}");
        // Not there, or over
        std::fs::remove_file(&file).unwrap();
        assert_eq!(check(dir.path(), 7), Ok(()));
        assert_eq!(check(dir.path(), 8), Ok(()));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Begins the names of files that are being written.
const PART: &str = ".part-";

/// Puts a file in the place of one of this name, if there is one: whoever looks finds the one
/// or the other, also after a power cut, and also if two do this at the same moment.  Makes the
/// folder if it is missing.  Nothing is written through a link of this name.
pub fn write(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    make(dir)?;
    let (part, mut file) = part(dir)?;
    let mut written = || {
        // Whatever the umask is.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    written().inspect_err(|_| {
        // What there is of it takes room on a full disk.
        let _ = fs::remove_file(&part);
    })?;
    File::open(dir)?.sync_all()
}

/// A new file, of a name that nobody else has.
fn part(dir: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let part = dir.join(format!("{PART}{}-{n}", std::process::id()));
        let new = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part);
        match new {
            // Left by a process that was killed and had this number, or in another container.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            new => return Ok((part, new?)),
        }
    }
}

/// What is in a folder is not there after a power cut if the folder is not.
fn make(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    for above in dir.ancestors().skip(1).take_while(|d| d.as_os_str() != "") {
        File::open(above)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<String> = names.map(|n| n.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_new_one_has_the_place_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/file");
        for (mode, text) in [(0o644, "first"), (0o600, "second")] {
            write(&path, mode, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        }
        assert_eq!(names(&dir.path().join("a/b")), ["file"]);
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("other"), "kept").unwrap();
        symlink("other", at("file")).unwrap();
        // Whatever name would be the next.
        for n in 0..64 {
            let _ = symlink("other", at(&format!("{PART}{}-{n}", std::process::id())));
        }
        write(&at("file"), 0o600, b"new").unwrap();
        assert_eq!(fs::read(at("other")).unwrap(), b"kept");
        assert!(fs::symlink_metadata(at("file")).unwrap().is_file());
        assert_eq!(fs::read(at("file")).unwrap(), b"new");
    }

    #[test]
    fn what_fails_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::create_dir(&path).unwrap();
        assert!(write(&path, 0o600, b"new").is_err());
        assert_eq!(names(dir.path()), ["file"]);
        assert!(write(&dir.path().join("x").join("y\0"), 0o600, b"").is_err());
    }

    /// Each has its own contents afterwards, and those of one file are of one of them.
    #[test]
    fn many_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::thread::scope(|s| {
            for thread in 0..4u8 {
                s.spawn(move || {
                    for _ in 0..100 {
                        let text = [b'a' + thread; 5000];
                        write(&at(&thread.to_string()), 0o600, &text).unwrap();
                        write(&at("all"), 0o600, &text).unwrap();
                        let all = fs::read(at("all")).unwrap();
                        assert!(all.len() == 5000 && all.iter().all(|b| *b == all[0]));
                    }
                });
            }
        });
        for thread in 0..4u8 {
            assert_eq!(fs::read(at(&thread.to_string())).unwrap(), [b'a' + thread; 5000]);
        }
        assert_eq!(names(dir.path()), ["0", "1", "2", "3", "all"]);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Folders and locks that nobody else has a hand in: any lock, also one for reading, keeps
//! others waiting, and who may open a file may lock it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// This process's user, or root.
fn is_own(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Makes a folder, or takes the one that is there, if nobody else may change what is in it.
pub fn folder(dir: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(dir)?;
    let found = fs::metadata(dir)?;
    let refused = |why: String| Err(io::Error::other(format!("{}: {why}", dir.display())));
    if !is_own(found.uid()) {
        return refused(format!("it is user {}'s", found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        return refused(format!(
            "others may write to it (mode {:o})",
            found.mode() & 0o7777
        ));
    }
    if found.mode() & 0o777 & !mode != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Opens a file of this user's alone, or makes it.
pub fn file(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)?;
    if !is_alone(&file)? {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Whether nobody else may open it.
fn is_alone(file: &File) -> io::Result<bool> {
    let found = file.metadata()?;
    Ok(is_own(found.uid()) && found.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn folders_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("a/b");
        folder(&at, 0o700).unwrap();
        assert_eq!(mode(&at), 0o700);
        let set = |mode| fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
        set(0o755);
        folder(&at, 0o755).unwrap();
        assert_eq!(mode(&at), 0o755);
        folder(&at, 0o700).unwrap();
        assert_eq!(mode(&at), 0o700, "it is made so");
        for others in [0o1777, 0o770, 0o702] {
            set(others);
            let why = folder(&at, 0o755).unwrap_err().to_string();
            assert!(
                why.ends_with(&format!("others may write to it (mode {others:o})")),
                "{why}"
            );
        }
        set(0o700);
        if !geteuid().is_root() {
            eprintln!("skipped: only root can give a folder away");
            return;
        }
        chown(&at, Some(65534), None).unwrap();
        let why = folder(&at, 0o700).unwrap_err().to_string();
        assert!(why.ends_with("it is user 65534's"), "{why}");
    }

    #[test]
    fn a_file_is_made_its_users_alone_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("old"), "x").unwrap();
        fs::set_permissions(at("old"), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_alone(&File::open(at("old")).unwrap()).unwrap());
        for name in ["old", "new"] {
            assert!(is_alone(&file(&at(name)).unwrap()).unwrap());
            assert_eq!(mode(&at(name)), 0o600);
        }
        symlink("other", at("link")).unwrap();
        file(&at("link")).unwrap_err();
        assert!(!at("other").exists());
    }
}

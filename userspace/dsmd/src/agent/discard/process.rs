// SPDX-License-Identifier: GPL-2.0-or-later
//! What a process says of itself, which is what it likes: its command line may have GiBs, and
//! name any file.
//!
//! All of it is read with its user's rights, below its root, and no more than [`MOST`].

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Bytes; neither a command line nor a configuration has more.
const MOST: u64 = 1 << 20;

pub(super) struct Process {
    /// Of it in `/proc`.
    dir: PathBuf,
    uid: u32,
    gid: u32,
}

impl Process {
    /// A process of this user's.  One that has the rights of others as well, by a setuid program,
    /// has a lock of whoever started it, and would lend those rights to what he names.
    pub(super) fn of(proc: &Path, pid: i32, uid: u32) -> io::Result<Self> {
        let dir = proc.join(pid.to_string());
        let status = bounded(&File::open(dir.join("status"))?)?;
        let status = String::from_utf8_lossy(&status);
        // Of the real, the effective, the saved one and that for files
        let id = |name: &str| {
            let ids = status.lines().find_map(|l| l.strip_prefix(name))?;
            let mut ids = ids.split_whitespace().map(str::parse);
            let first: u32 = ids.next()?.ok()?;
            Some(ids.all(|id| id == Ok(first)).then_some(first))
        };
        let (Some(user), Some(group)) = (id("Uid:"), id("Gid:")) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match (user, group) {
            (Some(user), Some(gid)) if user == uid => Ok(Self { dir, uid, gid }),
            (Some(user), Some(_)) => Err(io::Error::other(format!(
                "it is {user}, and WiredTiger.lock is user {uid}'s"
            ))),
            _ => Err(io::Error::other("it has the rights of another one, too")),
        }
    }

    /// What `/proc` has under this name.
    pub(super) fn own(&self, name: &str) -> io::Result<Vec<u8>> {
        let _rights = Rights::of(self.uid, self.gid)?;
        bounded(&File::open(self.dir.join(name))?)
    }

    /// What a regular file has that the process knows by this path, without links.
    pub(super) fn file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let _rights = Rights::of(self.uid, self.gid)?;
        let at = OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::open(self.dir.join("root"), at | OFlags::DIRECTORY, Mode::empty())?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let found = rustix::fs::openat2(&root, path, at, Mode::empty(), resolve)?;
        // Nothing is opened yet: a device or a FIFO would do something.
        if !File::from(found.try_clone()?).metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::options()
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
        bounded(&file)
    }
}

fn bounded(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    Ok(bytes)
}

/// This thread has a user's rights to files, as long as this lives; they are also those by
/// which `/proc` shows a process.
struct Rights {
    uid: u32,
    gid: u32,
}

impl Rights {
    fn of(uid: u32, gid: u32) -> io::Result<Self> {
        let before = Self {
            gid: set_gid(gid),
            uid: set_uid(uid),
        };
        // No error is reported, but what there was.
        if (set_uid(uid), set_gid(gid)) != (uid, gid) {
            return Err(io::Error::other(format!(
                "dsmd cannot act as user {uid} without CAP_SETUID and CAP_SETGID"
            )));
        }
        Ok(before)
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        set_uid(self.uid);
        set_gid(self.gid);
    }
}

fn set_uid(uid: u32) -> u32 {
    // SAFETY: it takes a number, and changes nothing but this thread's rights.
    unsafe { libc::setfsuid(uid) as u32 }
}

fn set_gid(gid: u32) -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(gid) as u32 }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::fs;
    use std::io::Seek;
    use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};

    pub(in super::super) fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// A process in a `/proc` of its own, of this user.
    pub(in super::super) fn pretend(proc: &Path, pid: i32, cmdline: &[u8], environ: &[u8]) {
        let dir = proc.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let own = fs::metadata(&dir).unwrap();
        let ids = |id: u32| format!("{id}\t{id}\t{id}\t{id}");
        let status = format!("Name:\tx\nUid:\t{}\nGid:\t{}\n", ids(own.uid()), ids(own.gid()));
        fs::write(dir.join("status"), status).unwrap();
        fs::write(dir.join("cmdline"), cmdline).unwrap();
        fs::write(dir.join("environ"), environ).unwrap();
        let _ = symlink("/", dir.join("root"));
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let of = |length: u64| {
            pretend(dir.path(), 7, b"", b"");
            let file = File::create(dir.path().join("7/cmdline")).unwrap();
            file.set_len(length).unwrap();
            Process::of(dir.path(), 7, own_uid()).unwrap().own("cmdline")
        };
        assert_eq!(of(MOST).unwrap().len() as u64, MOST);
        assert_eq!(of(MOST + 1).unwrap_err().to_string(), "it is longer than 1 MiB");
        // Nor are the rest of its bytes.
        of(1 << 26).unwrap_err();
        let mut file = File::open(dir.path().join("7/cmdline")).unwrap();
        bounded(&file).unwrap_err();
        assert_eq!(file.stream_position().unwrap(), MOST + 1);
    }

    #[test]
    fn regular_files_only_without_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        pretend(dir.path(), 7, b"", b"");
        let of = |path: &Path| Process::of(dir.path(), 7, own_uid()).unwrap().file(path);
        fs::write(at("file"), "text").unwrap();
        assert_eq!(of(&at("file")).unwrap(), b"text");
        fs::create_dir(at("folder")).unwrap();
        // Each would wait, or be switched on, by being opened.
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR).unwrap();
        for other in [at("folder"), at("fifo"), "/dev/null".into()] {
            assert_eq!(
                of(&other).unwrap_err().to_string(),
                "it is no regular file",
                "{other:?}"
            );
        }
        symlink("file", at("link")).unwrap();
        symlink(dir.path(), at("folder/up")).unwrap();
        for link in [at("link"), at("folder/up/file"), "/proc/self/exe".into()] {
            assert_eq!(
                of(&link).unwrap_err().raw_os_error(),
                Some(libc::ELOOP),
                "{link:?}"
            );
        }
        // Below its root, which nothing leads out of
        let root = at("7/root");
        fs::remove_file(&root).unwrap();
        symlink(dir.path(), &root).unwrap();
        assert_eq!(of(Path::new("/../../file")).unwrap(), b"text");
        assert!(of(&at("file")).is_err());
    }

    #[test]
    fn with_the_rights_of_its_user() {
        let dir = tempfile::tempdir().unwrap();
        if fs::metadata(dir.path()).unwrap().uid() != 0 {
            eprintln!("skipped: only root can act as another user");
            return;
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        pretend(dir.path(), 7, b"x", b"");
        let ids = |ids: [u32; 4]| ids.map(|id| id.to_string()).join("\t");
        let of = |uids, gids| {
            let status = format!("Uid:\t{}\nGid:\t{}\n", ids(uids), ids(gids));
            fs::write(dir.path().join("7/status"), status).unwrap();
            Process::of(dir.path(), 7, 65534).map_err(|e| e.to_string())
        };
        // Setuid programs keep a lock of who has started them.
        let (own, group) = ([65534; 4], [65533; 4]);
        for (uids, gids) in [
            ([65534, 0, 0, 0], group),
            ([65534, 65534, 0, 65534], group),
            ([0, 65534, 0, 65534], group),
            (own, [65533, 42, 42, 42]),
        ] {
            let why = of(uids, gids).map(|_| ()).unwrap_err();
            assert_eq!(why, "it has the rights of another one, too");
        }
        let why = of([0; 4], group).map(|_| ()).unwrap_err();
        assert_eq!(why, "it is 0, and WiredTiger.lock is user 65534's");
        let process = of(own, group).unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "text").unwrap();
        let of = |mode, uid, gid| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(&path, Some(uid), Some(gid)).unwrap();
            process.file(&path).map_err(|e| e.kind())
        };
        let no = Err(io::ErrorKind::PermissionDenied);
        assert_eq!(of(0o600, 0, 0), no);
        assert_eq!(of(0o640, 0, 65533), Ok(b"text".to_vec()));
        assert_eq!(of(0o400, 65534, 0), Ok(b"text".to_vec()));
        assert_eq!(of(0o040, 65534, 65533), no);
        // Also when it fails this thread is what it was.
        fs::write(dir.path().join("own"), "").unwrap();
        let own = fs::metadata(dir.path().join("own")).unwrap();
        assert_eq!((own.uid(), own.gid()), (0, 0));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What `dsm-mongo` found out of the server: which file is whose.  The agent takes what was
//! said last and never waits for it; without it, it goes by names and by what is written.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FileType, Mode, OFlags, CWD};

use proto::feed::{self, Catalog, Failure, FailureKind, Report, ServerInfo};
use runtime::log;

/// Between two looks for another file.
pub(crate) const LOOK: Duration = Duration::from_secs(2);
/// A file that was not replaced in three turns of dsm-mongo's timer says nothing of now.
const STALE: Duration = Duration::from_secs(15 * 60);

/// What `dsm-mongo` reports of the server of a database.
pub struct Link {
    dir: PathBuf,
    looked: Option<Instant>,
    /// The file that was taken last.
    seen: Option<(u64, SystemTime)>,
    /// There was a file once.
    known: bool,
    info: ServerInfo,
    /// What was logged of the file itself.
    complaint: String,
}

impl Link {
    /// What is said of the server of `device`.
    pub fn new(run_dir: &Path, device: &str) -> Self {
        Self {
            dir: run_dir.join(device),
            looked: None,
            seen: None,
            known: false,
            info: ServerInfo::default(),
            complaint: String::new(),
        }
    }

    /// Looks for another file, every [`LOOK`]; its catalog.
    pub fn look(&mut self, now: Instant) -> Option<Catalog> {
        if self.looked.is_some_and(|at| now < at + LOOK) {
            return None;
        }
        self.looked = Some(now);
        self.read().unwrap_or_else(|e| {
            if e.kind() != io::ErrorKind::NotFound {
                self.complain(&e.to_string());
            }
            self.gone();
            None
        })
    }

    /// The catalog that was taken names no file that is here.
    pub fn is_another(&mut self) {
        if mem::replace(&mut self.info.catalog, false) {
            log!(
                Error,
                "the server's collections are not in this data directory; its catalog is not used",
                server = self.info.address
            );
        }
    }

    /// Nothing: nobody has asked a server yet.
    pub fn info(&self) -> Option<ServerInfo> {
        self.known.then(|| self.info.clone())
    }

    /// Takes the file, unless it is the one that was taken last.
    fn read(&mut self) -> io::Result<Option<Catalog>> {
        let file = open(&self.dir)?;
        let stat = file.metadata()?;
        let written = stat.modified()?;
        if written.elapsed().is_ok_and(|age| age > STALE) {
            self.gone();
        } else if self.seen.replace((stat.ino(), written)) != Some((stat.ino(), written)) {
            return Ok(self.take(feed::read(file)?));
        }
        Ok(None)
    }

    fn gone(&mut self) {
        self.info.failure = None;
        if mem::replace(&mut self.info.connected, false) {
            log!(
                Warn,
                "dsm-mongo has ended; going on by names and by what is written",
                server = self.info.address
            );
        }
    }

    /// Logs what is wrong with what was written once, until it is something else.
    fn complain(&mut self, reason: &str) {
        if self.complaint != reason {
            log!(
                Warn,
                "what dsm-mongo wrote is not used; going on by names and by what is written",
                reason = reason
            );
            reason.clone_into(&mut self.complaint);
        }
    }

    fn take(&mut self, report: Report) -> Option<Catalog> {
        self.known = true;
        self.complaint.clear();
        self.info.address = report.address;
        let connected = report.version.is_some();
        if let Some(version) = report.version {
            if !self.info.connected {
                log!(
                    Info,
                    "connected to the server",
                    server = self.info.address,
                    version = version
                );
            }
            self.info.version = version;
        }
        self.info.connected = connected;
        let before = self.info.failure.take().map(|f| f.kind);
        if let Some(failure) = report.failure.as_ref().filter(|f| Some(f.kind) != before) {
            log_failure(failure, &self.info.address);
        }
        self.info.failure = report.failure;
        self.info.catalog |= report.catalog.is_some();
        report.catalog
    }
}

fn log_failure(failure: &Failure, address: &str) {
    match failure.kind {
        FailureKind::NoCatalog => log!(
            Warn,
            "the server does not report which collections and indexes it has; going on by names",
            reason = failure.why
        ),
        FailureKind::Partial => log!(
            Warn,
            "the server does not report the collections of every database; going on by names there",
            reason = failure.why
        ),
        FailureKind::Recovering => log!(
            Info,
            "the server will report which collections and indexes it has when it has recovered",
            reason = failure.why
        ),
        FailureKind::Lost | FailureKind::Refused => log!(
            Warn,
            "no answer from the server; going on by names and by what is written",
            server = address,
            reason = failure.why
        ),
    }
}

/// Opens the file in `dir`, which systemd made for `dsm-mongo`'s user, and no other: no link
/// that it left there is followed, and what is in the file is the user's own.
fn open(dir: &Path) -> io::Result<File> {
    let open = |at, path: &Path, flags| {
        rustix::fs::openat(at, path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)
    };
    let at = File::from(open(CWD, dir, OFlags::PATH | OFlags::DIRECTORY)?);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(open(at.as_fd(), Path::new(feed::FILE), flags)?);
    let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_uid != at.metadata()?.uid() {
        return Err(io::Error::other(format!(
            "{} is not a file of the directory's owner",
            dir.join(feed::FILE).display()
        )));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A look after it was time for one.
    fn look(link: &mut Link) -> Option<Catalog> {
        link.looked = None;
        link.look(Instant::now())
    }

    /// As dsm-mongo does.
    fn write(dir: &Path, rest: &str) {
        let dir = dir.join("d");
        fs::create_dir_all(&dir).unwrap();
        let text = format!("{{\"protocol\":1,\"address\":\"db1:27017\"{rest}}}");
        fs::write(dir.join("new"), text).unwrap();
        fs::rename(dir.join("new"), dir.join(feed::FILE)).unwrap();
    }

    fn failure(link: &Link) -> Option<FailureKind> {
        link.info()?.failure.map(|f| f.kind)
    }

    #[test]
    fn what_dsm_mongo_writes() {
        let dir = tempfile::tempdir().unwrap();
        let mut link = Link::new(dir.path(), "d");
        assert!(look(&mut link).is_none());
        assert_eq!(link.info(), None);
        let all = ",\"version\":\"7.0.14\",\"files\":{\"index-8-7.wt\":\"primary\"}";
        write(dir.path(), all);
        // Not before it is time.
        assert!(link.look(Instant::now()).is_none());
        let catalog = look(&mut link).unwrap();
        assert_eq!(
            (catalog.len(), catalog.get(Path::new("index-8-7.wt")).copied()),
            (1, Some(dm::class::Class::Primary))
        );
        assert!(look(&mut link).is_none());
        let info = link.info().unwrap();
        assert_eq!(
            (info.address.as_str(), info.connected, info.catalog),
            ("db1:27017", true, true)
        );
        link.is_another();
        assert!(!link.info().unwrap().catalog);

        // What it said before stays in force.
        write(dir.path(), all);
        assert!(look(&mut link).is_some());
        write(
            dir.path(),
            ",\"version\":\"7.0.14\",\"failure\":{\"kind\":\"recovering\",\"why\":\"it is\"}",
        );
        assert!(look(&mut link).is_none());
        assert_eq!(failure(&link), Some(FailureKind::Recovering));
        let info = link.info().unwrap();
        assert!(info.connected && info.catalog);
        write(dir.path(), ",\"failure\":{\"kind\":\"lost\",\"why\":\"gone\"}");
        look(&mut link);
        assert_eq!(failure(&link), Some(FailureKind::Lost));
        let info = link.info().unwrap();
        assert!(!info.connected && info.catalog && info.version == "7.0.14");
        write(dir.path(), all);
        look(&mut link);
        assert!(link.info().unwrap().connected);
        assert_eq!(failure(&link), None);
        fs::remove_file(dir.path().join("d").join(feed::FILE)).unwrap();
        look(&mut link);
        assert!(!link.info().unwrap().connected);
    }

    #[test]
    fn what_is_old_says_nothing_of_now() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), ",\"version\":\"7.0.14\"");
        let mut link = Link::new(dir.path(), "d");
        look(&mut link);
        assert!(link.info().unwrap().connected);
        let file = File::options()
            .write(true)
            .open(dir.path().join("d").join(feed::FILE))
            .unwrap();
        file.set_modified(SystemTime::now() - STALE - LOOK).unwrap();
        look(&mut link);
        assert!(!link.info().unwrap().connected);
    }

    #[test]
    fn what_is_not_understood_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), ",\"version\":\"7.0.14\"");
        let mut link = Link::new(dir.path(), "d");
        look(&mut link);
        assert!(link.info().unwrap().connected);
        write(dir.path(), ",\"version\":\"8\",\"files\":{\"../a.wt\":\"index\"}");
        assert!(look(&mut link).is_none());
        assert!(!link.info().unwrap().connected);
        assert_eq!(link.info().unwrap().version, "7.0.14");
        write(dir.path(), ",\"version\":\"8\"");
        look(&mut link);
        assert!(link.info().unwrap().connected);
    }

    #[test]
    fn only_the_file_itself_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("d");
        let absent = || open(&at).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        assert!(absent());
        fs::create_dir(&at).unwrap();
        assert!(absent());
        fs::write(dir.path().join("secret"), "x").unwrap();
        symlink(dir.path().join("secret"), at.join(feed::FILE)).unwrap();
        assert!(open(&at).is_err(), "a link");
        fs::remove_file(at.join(feed::FILE)).unwrap();
        rustix::fs::mknodat(CWD, at.join(feed::FILE), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let said = open(&at).unwrap_err().to_string();
        assert!(said.ends_with("is not a file of the directory's owner"), "{said}");
        fs::remove_file(at.join(feed::FILE)).unwrap();
        fs::write(at.join(feed::FILE), "x").unwrap();
        assert!(open(&at).is_ok());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&at, Some(4242), None).unwrap();
            assert!(open(&at).is_err(), "another's file");
        }
        // As systemd has it for a user of its own.
        std::os::unix::fs::chown(&at, Some(rustix::process::geteuid().as_raw()), None).unwrap();
        symlink(&at, dir.path().join("linked")).unwrap();
        assert!(open(&dir.path().join("linked")).is_ok());
    }
}

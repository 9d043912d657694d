// SPDX-License-Identifier: GPL-2.0-or-later
//! What `dsm-mongo` found out of the server: which file is whose.  The agent takes what was
//! said last and never waits for it; without it, it goes by names and by what is written.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{FileType, Mode, OFlags, CWD};

use proto::catalog::Catalog;
use proto::feed::{self, Failure, FailureKind, FeedError, Report, ServerInfo};
use runtime::log;

/// Between two looks for another file.
const LOOK: Duration = Duration::from_secs(2);
/// A file that was not replaced in three turns of dsm-mongo's timer says nothing of now.
const STALE: Duration = Duration::from_secs(15 * 60);

#[derive(Default)]
struct ServerState {
    /// There was a file once.
    known: bool,
    info: ServerInfo,
    /// Not taken yet.
    catalog: Option<Catalog>,
    /// What was logged of the file itself.
    complaint: String,
}

struct Shared {
    state: Mutex<ServerState>,
    end: Mutex<bool>,
    /// The end has come.
    over: Condvar,
    /// Wakes the agent.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// What `dsm-mongo` reports of the server of a database.
pub struct Link(Arc<Shared>);

impl Link {
    /// Starts to look for what is said of the one of `device`.  `wake` is called when there is
    /// something to take.
    pub fn start(run_dir: &Path, device: &str, wake: impl Fn() + Send + Sync + 'static) -> Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            end: Mutex::default(),
            over: Condvar::new(),
            wake: Box::new(wake),
        });
        let (theirs, dir, device) = (Arc::clone(&shared), run_dir.join(device), log::device());
        thread::Builder::new()
            .name("server".into())
            .stack_size(256 * 1024)
            .spawn(move || {
                if let Some(device) = device {
                    log::of_device(&device);
                }
                theirs.follow(&dir);
            })
            .context("cannot start a thread")?;
        Ok(Self(shared))
    }

    /// A catalog that was not taken yet.
    pub fn take_catalog(&self) -> Option<Catalog> {
        self.0.state().catalog.take()
    }

    /// The catalog that was taken names no file that is here.
    pub fn is_another(&self) {
        let mut state = self.0.state();
        if std::mem::replace(&mut state.info.catalog, false) {
            log!(
                Error,
                "the server's collections are not in this data directory; its catalog is not used",
                server = state.info.address
            );
        }
    }

    /// Nothing: nobody has asked a server yet.
    pub fn info(&self) -> Option<ServerInfo> {
        let state = self.0.state();
        state.known.then(|| state.info.clone())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        *self.0.end() = true;
        self.0.over.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) -> MutexGuard<'_, bool> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(&self, dir: &Path) {
        let mut seen = None;
        loop {
            match self.look(dir, &mut seen) {
                Ok(()) => {}
                Err(FeedError::Io(e)) if e.kind() == io::ErrorKind::NotFound => self.gone(),
                Err(e) => {
                    self.complain(&e.to_string());
                    self.gone();
                }
            }
            let waited = self
                .over
                .wait_timeout_while(self.end(), LOOK, |end| !*end)
                .unwrap_or_else(PoisonError::into_inner);
            if *waited.0 {
                return;
            }
        }
    }

    /// Takes the file in `dir`, unless it is the one that was `seen`.
    fn look(&self, dir: &Path, seen: &mut Option<(u64, SystemTime)>) -> Result<(), FeedError> {
        let file = open(dir)?;
        let stat = file.metadata()?;
        let written = stat.modified()?;
        if written.elapsed().is_ok_and(|age| age > STALE) {
            self.gone();
        } else if seen.replace((stat.ino(), written)) != Some((stat.ino(), written)) {
            self.take(feed::read(file)?);
        }
        Ok(())
    }

    fn gone(&self) {
        let mut state = self.state();
        state.info.failure = None;
        if std::mem::replace(&mut state.info.connected, false) {
            log!(
                Warn,
                "dsm-mongo has ended; going on by names and by what is written",
                server = state.info.address
            );
        }
    }

    /// Logs what is wrong with what was written once, until it is something else.
    fn complain(&self, reason: &str) {
        let mut state = self.state();
        if state.complaint != reason {
            log!(
                Warn,
                "what dsm-mongo wrote is not used; going on by names and by what is written",
                reason = reason
            );
            reason.clone_into(&mut state.complaint);
        }
    }

    fn take(&self, report: Report) {
        let mut state = self.state();
        state.known = true;
        state.complaint.clear();
        state.info.address = report.address;
        let connected = report.version.is_some();
        if let Some(version) = report.version {
            if !state.info.connected {
                log!(
                    Info,
                    "connected to the server",
                    server = state.info.address,
                    version = version
                );
            }
            state.info.version = version;
        }
        state.info.connected = connected;
        let before = state.info.failure.take().map(|f| f.kind);
        if let Some(failure) = report.failure.as_ref().filter(|f| Some(f.kind) != before) {
            log_failure(failure, &state.info.address);
        }
        state.info.failure = report.failure;
        state.info.catalog |= report.catalog.is_some();
        let wake = report.catalog.is_some();
        if wake {
            state.catalog = report.catalog;
        }
        drop(state);
        if wake {
            (self.wake)();
        }
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
fn open(dir: &Path) -> Result<File, FeedError> {
    let open = |at, path: &Path, flags| {
        rustix::fs::openat(at, path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)
    };
    let at = File::from(open(CWD, dir, OFlags::PATH | OFlags::DIRECTORY)?);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(open(at.as_fd(), Path::new(feed::FILE), flags)?);
    let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_uid != at.metadata()?.uid() {
        return Err(FeedError::Wrong(format!(
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
    use std::sync::mpsc::{self, Receiver};
    use std::time::Instant;

    const HANG: Duration = Duration::from_secs(600);

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < HANG, "{what} never came");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn link(dir: &Path) -> (Link, Receiver<()>) {
        let (sender, woken) = mpsc::channel();
        let sender = Mutex::new(sender);
        let wake = move || {
            let _ = sender.lock().unwrap().send(());
        };
        (Link::start(dir, "d", wake).unwrap(), woken)
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
        let (link, woken) = link(dir.path());
        assert_eq!(link.info(), None);
        let all = ",\"version\":\"7.0.14\",\"files\":{\"index-8-7.wt\":\"primary\"}";
        write(dir.path(), all);
        woken.recv_timeout(HANG).unwrap();
        let catalog = link.take_catalog().unwrap();
        assert_eq!(
            (catalog.len(), catalog.class(Path::new("index-8-7.wt"))),
            (1, Some(dm::class::Class::Primary))
        );
        assert!(link.take_catalog().is_none());
        let info = link.info().unwrap();
        assert_eq!(
            (info.address.as_str(), info.connected, info.catalog),
            ("db1:27017", true, true)
        );
        link.is_another();
        assert!(!link.info().unwrap().catalog);

        // What it said before stays in force.
        write(dir.path(), all);
        woken.recv_timeout(HANG).unwrap();
        write(
            dir.path(),
            ",\"version\":\"7.0.14\",\"failure\":{\"kind\":\"recovering\",\"why\":\"it is\"}",
        );
        until("the recovery", || failure(&link) == Some(FailureKind::Recovering));
        let info = link.info().unwrap();
        assert!(info.connected && info.catalog);
        write(dir.path(), ",\"failure\":{\"kind\":\"lost\",\"why\":\"gone\"}");
        until("the loss", || failure(&link) == Some(FailureKind::Lost));
        let info = link.info().unwrap();
        assert!(!info.connected && info.catalog && info.version == "7.0.14");
        write(dir.path(), all);
        until("the return", || link.info().unwrap().connected);
        assert_eq!(failure(&link), None);
        fs::remove_file(dir.path().join("d").join(feed::FILE)).unwrap();
        until("the end of dsm-mongo", || !link.info().unwrap().connected);
        drop(link);
        // The thread ends.
        while woken.recv_timeout(HANG) != Err(mpsc::RecvTimeoutError::Disconnected) {}
    }

    #[test]
    fn what_is_old_says_nothing_of_now() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), ",\"version\":\"7.0.14\"");
        let (link, _woken) = link(dir.path());
        until("an answer", || link.info().is_some_and(|i| i.connected));
        let file = File::options()
            .write(true)
            .open(dir.path().join("d").join(feed::FILE))
            .unwrap();
        file.set_modified(SystemTime::now() - STALE - LOOK).unwrap();
        until("its end", || !link.info().unwrap().connected);
    }

    #[test]
    fn what_is_not_understood_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), ",\"version\":\"7.0.14\"");
        let (link, _woken) = link(dir.path());
        until("an answer", || link.info().is_some_and(|i| i.connected));
        write(dir.path(), ",\"version\":\"8\",\"files\":{\"../a.wt\":\"index\"}");
        until("the end", || !link.info().unwrap().connected);
        assert!(link.take_catalog().is_none());
        assert_eq!(link.info().unwrap().version, "7.0.14");
        write(dir.path(), ",\"version\":\"8\"");
        until("another", || link.info().unwrap().connected);
    }

    #[test]
    fn only_the_file_itself_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("d");
        let absent = || matches!(open(&at), Err(FeedError::Io(e)) if e.kind() == io::ErrorKind::NotFound);
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

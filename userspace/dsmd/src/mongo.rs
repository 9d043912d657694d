// SPDX-License-Identifier: GPL-2.0-or-later
//! The connection to `dsm-mongo`, which says which file is whose, how many checkpoints the
//! server made, and what it was asked to do.  The agent takes what was said last and never
//! waits for it; without it, it goes by names and by what is written.
//!
//! `dsm-mongo` listens, and `dsmd` connects: neither needs to know which user the other
//! is, and nobody else can reach the socket, whose directory belongs to `dsm-mongo` alone.

use std::collections::HashSet;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{FileType, Mode, OFlags, CWD};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use proto::catalog::Catalog;
use proto::envelope;
use proto::feed::ServerInfo;
use proto::feed::{self, Event, Failure, FeedError, Greeting, Kind, Listener, Request, ServerStatus};
use runtime::log;

/// Between two looks for a `dsm-mongo`.
const LOOK: Duration = Duration::from_secs(2);
/// After one that was not understood.
const PROTOCOL_ERROR_BACKOFF: Duration = Duration::from_secs(60);
/// Between two things that are heard: who sends without end is not read all the time.
const READ_INTERVAL: Duration = Duration::from_millis(50);
/// After a catalog, upon which all files are looked at.
const LONG_READ_INTERVAL: Duration = Duration::from_secs(1);
/// For what is sent, which is short.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Default)]
struct ServerState {
    /// There was a `dsm-mongo` once.
    known: bool,
    info: ServerInfo,
    /// Not taken yet.
    catalog: Option<Catalog>,
    checkpointed: bool,
    /// What was logged since the server answered last.
    failures: HashSet<Kind>,
    /// What was logged of `dsm-mongo` itself.
    complaint: String,
}

#[derive(Default)]
struct Connection {
    stream: Option<UnixStream>,
    end: bool,
}

struct Shared {
    state: Mutex<ServerState>,
    line: Mutex<Connection>,
    /// The end has come.
    over: Condvar,
    /// Wakes the agent.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// What a `dsm-mongo` reports of the server of a database.
pub struct Link(Arc<Shared>);

impl Link {
    /// Starts to listen to the one for `device`, whenever there is one.  `wake` is called
    /// when there is something to take.
    pub fn start(run_dir: &Path, device: &str, wake: impl Fn() + Send + Sync + 'static) -> Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            line: Mutex::default(),
            over: Condvar::new(),
            wake: Box::new(wake),
        });
        let (theirs, dir, device) = (Arc::clone(&shared), run_dir.join(device), log::device());
        thread::Builder::new()
            .name("server".into())
            .stack_size(256 * 1024)
            .spawn(move || {
                if let Some((device, several)) = device {
                    log::of_device(&device, several);
                }
                theirs.follow(&dir);
            })
            .context("cannot start a thread")?;
        Ok(Self(shared))
    }

    /// Tables came or went: the catalog is another one.
    pub fn files_changed(&self) {
        self.0.say(&Request::FilesChanged {});
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

    /// Whether the server has made checkpoints since the last call.
    pub fn take_checkpointed(&self) -> bool {
        std::mem::take(&mut self.0.state().checkpointed)
    }

    /// Nothing: nobody has asked a server yet.
    pub fn info(&self) -> Option<ServerInfo> {
        let state = self.0.state();
        state.known.then(|| state.info.clone())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut line = self.0.line();
        line.end = true;
        if let Some(stream) = line.stream.take() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        self.0.over.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self) -> MutexGuard<'_, Connection> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says it, or not: the agent does not wait for who does not listen.
    fn say(&self, what: &Request) {
        if let Some(stream) = &self.line().stream {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(stream, envelope::line(what).as_bytes(), flags);
        }
    }

    fn follow(&self, dir: &Path) {
        loop {
            let pause = match self.listen(dir) {
                Err(FeedError::Wrong(reason)) => {
                    self.complain(&reason);
                    PROTOCOL_ERROR_BACKOFF
                }
                Err(FeedError::Io(e)) if !is_absence(&e) => {
                    self.complain(&e.to_string());
                    LOOK
                }
                _ => LOOK,
            };
            self.line().stream = None;
            self.gone();
            let line = self.line();
            let waited = self
                .over
                .wait_timeout_while(line, pause, |line| !line.end)
                .unwrap_or_else(PoisonError::into_inner);
            if waited.0.end {
                return;
            }
        }
    }

    /// Listens until it ends.
    fn listen(&self, dir: &Path) -> Result<(), FeedError> {
        let mut stream = connect(dir)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        {
            let mut line = self.line();
            if line.end {
                return Ok(());
            }
            line.stream = Some(stream.try_clone()?);
        }
        stream.write_all(envelope::first_line(&Greeting {}).as_bytes())?;
        let (mut listener, address) = Listener::start(stream)?;
        self.begin(address);
        while let Some(event) = listener.hear()? {
            let interval = match event {
                Event::Catalog(_) => LONG_READ_INTERVAL,
                _ => READ_INTERVAL,
            };
            match event {
                Event::Status(status) => self.status(status),
                Event::Failure(failure) => self.failure(&failure),
                Event::Catalog(catalog) => self.catalog(catalog),
            }
            thread::sleep(interval);
        }
        Ok(())
    }

    fn begin(&self, address: String) {
        let mut state = self.state();
        if !state.known {
            log!(Info, "dsm-mongo asks the server", server = address);
        }
        state.known = true;
        state.info.address = address;
    }

    fn gone(&self) {
        let mut state = self.state();
        state.info.failure = None;
        if std::mem::replace(&mut state.info.connected, false) {
            state.failures.clear();
            log!(
                Warn,
                "dsm-mongo has ended; going on by names and by what is written",
                server = state.info.address
            );
        }
    }

    /// Logs what is wrong with `dsm-mongo` once, until it is something else.
    fn complain(&self, reason: &str) {
        let mut state = self.state();
        if state.complaint != reason {
            log!(
                Warn,
                "dropped the connection to dsm-mongo; going on by names and by what is written",
                reason = reason
            );
            reason.clone_into(&mut state.complaint);
        }
    }

    fn status(&self, status: ServerStatus) {
        let mut state = self.state();
        let before = state.info.checkpoints;
        if !state.info.connected {
            log!(
                Info,
                "connected to the server",
                server = state.info.address,
                version = status.version
            );
        }
        state.checkpointed |= state.info.connected && before.is_some() && before != status.checkpoints;
        state.info.connected = true;
        state.complaint.clear();
        // What is wrong with its catalog does not end with an answer.
        state.failures.retain(Kind::is_about_catalog);
        let failure = state.info.failure.take();
        state.info.failure = failure.filter(|t| t.kind.is_about_catalog());
        state.info.version = status.version;
        state.info.checkpoints = status.checkpoints;
        state.info.operations = status.operations;
        let wake = state.checkpointed;
        drop(state);
        if wake {
            (self.wake)();
        }
    }

    fn catalog(&self, catalog: Catalog) {
        let mut state = self.state();
        state.failures.retain(|kind| *kind == Kind::Partial);
        state.info.failure = None;
        state.info.catalog = true;
        state.catalog = Some(catalog);
        drop(state);
        (self.wake)();
    }

    /// Logs each kind of failure once, until there is an answer.
    fn failure(&self, t: &Failure) {
        let mut state = self.state();
        state.info.connected &= t.kind.is_about_catalog();
        state.info.failure = Some(t.clone());
        if !state.failures.insert(t.kind) {
            return;
        }
        match t.kind {
            Kind::NoCatalog => log!(
                Warn,
                "the server does not report which collections and indexes it has; going on by names",
                reason = t.why
            ),
            Kind::Partial => log!(
                Warn,
                "the server does not report the collections of every database; going on by names there",
                reason = t.why
            ),
            _ => log!(
                Warn,
                "no answer from the server; going on by names and by what is written",
                server = state.info.address,
                reason = t.why
            ),
        }
    }
}

/// There is no `dsm-mongo`, or it is about to end or to begin.
fn is_absence(e: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof, WouldBlock,
    };
    matches!(
        e.kind(),
        NotFound | ConnectionRefused | ConnectionReset | BrokenPipe | UnexpectedEof | WouldBlock
    )
}

/// Connects to the socket in `dir`, and to no other: no link is followed, and who listens
/// is who owns the directory.
fn connect(dir: &Path) -> Result<UnixStream, FeedError> {
    let path = |flags| OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC | flags;
    let at = rustix::fs::openat(CWD, dir, path(OFlags::DIRECTORY), Mode::empty()).map_err(io::Error::from)?;
    let owner = rustix::fs::fstat(&at).map_err(io::Error::from)?.st_uid;
    let node = rustix::fs::openat(&at, feed::SOCKET, path(OFlags::empty()), Mode::empty())
        .map_err(io::Error::from)?;
    let stat = rustix::fs::fstat(&node).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || stat.st_uid != owner {
        return Err(FeedError::Wrong(format!(
            "{} is not a socket of the directory's owner",
            dir.join(feed::SOCKET).display()
        )));
    }
    let stream = dial(&node)?;
    let peer = socket_peercred(&stream).map_err(io::Error::from)?;
    if peer.uid.as_raw() != owner {
        return Err(FeedError::Wrong(format!(
            "who listens at {} is the user {}, not {owner}",
            dir.join(feed::SOCKET).display(),
            peer.uid.as_raw()
        )));
    }
    Ok(stream)
}

/// Without waiting: who listens and does not accept keeps nobody.
fn dial(node: &OwnedFd) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(PathBuf::from(format!("/proc/self/fd/{}", node.as_raw_fd())))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(e) => return Err(e.into()),
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::{self, Receiver};
    use std::time::Instant;

    const HANG: Duration = Duration::from_secs(600);
    const HELLO: &str = "{\"protocol\":1,\"address\":\"db1:27017\"}\n";

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

    fn listener(dir: &Path) -> UnixListener {
        std::fs::create_dir_all(dir.join("d")).unwrap();
        UnixListener::bind(dir.join("d/socket")).unwrap()
    }

    fn status(checkpoints: u64) -> String {
        format!("{{\"status\":{{\"version\":\"7.0.14\",\"checkpoints\":{checkpoints},\"operations\":{{\"insert\":3}}}}}}\n")
    }

    #[test]
    fn what_dsm_mongo_says() {
        let dir = tempfile::tempdir().unwrap();
        let socket = listener(dir.path());
        let (link, woken) = link(dir.path());
        let (mut mongo, _) = socket.accept().unwrap();
        let mut heard = BufReader::new(mongo.try_clone().unwrap()).lines();
        assert_eq!(heard.next().unwrap().unwrap(), "{\"protocol\":1}");
        assert_eq!(link.info(), None);
        let file = "{\"file\":{\"path\":\"index-8-7.wt\",\"class\":\"primary\"}}\n";
        let all = format!(
            "{HELLO}{}{{\"catalog\":{{\"files\":1}}}}\n{file}{{\"end\":{{}}}}\n",
            status(1)
        );
        mongo.write_all(all.as_bytes()).unwrap();
        woken.recv_timeout(HANG).unwrap();
        let catalog = link.take_catalog().unwrap();
        assert_eq!(
            (catalog.len(), catalog.class(Path::new("index-8-7.wt"))),
            (1, Some(dm::class::Class::Primary))
        );
        assert!(link.take_catalog().is_none() && !link.take_checkpointed());
        let info = link.info().unwrap();
        assert_eq!(
            (info.address.as_str(), info.connected, info.catalog),
            ("db1:27017", true, true)
        );

        link.files_changed();
        assert_eq!(heard.next().unwrap().unwrap(), "{\"files-changed\":{}}");
        mongo.write_all(status(4).as_bytes()).unwrap();
        until("the checkpoints", || link.take_checkpointed());
        assert!(!link.take_checkpointed());
        link.is_another();
        assert!(!link.info().unwrap().catalog);

        mongo
            .write_all(b"{\"failure\":{\"kind\":\"lost\",\"why\":\"gone\"}}\n")
            .unwrap();
        until("the loss", || !link.info().unwrap().connected);
        let why = link.info().unwrap().failure.map(|t| (t.kind, t.why));
        assert_eq!(why, Some((Kind::Lost, "gone".into())));
        mongo.write_all(status(5).as_bytes()).unwrap();
        until("the return", || link.info().unwrap().connected);
        assert_eq!(link.info().unwrap().failure, None);
        drop((mongo, heard));
        until("the end of dsm-mongo", || !link.info().unwrap().connected);
        // It is looked for again.
        let (mut mongo, _) = socket.accept().unwrap();
        mongo
            .write_all((HELLO.to_owned() + &status(1)).as_bytes())
            .unwrap();
        until("another one", || link.info().unwrap().connected);
    }

    #[test]
    fn nobody_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        // It takes connections, and says nothing.
        let silent = listener(dir.path());
        let (link, woken) = link(dir.path());
        let (mongo, _) = silent.accept().unwrap();
        assert!(link.info().is_none() && link.take_catalog().is_none());
        link.files_changed();
        drop(link);
        // The thread ends, although nothing was said.
        assert_eq!(
            woken.recv_timeout(HANG),
            Err(mpsc::RecvTimeoutError::Disconnected)
        );
        drop(mongo);
    }

    #[test]
    fn a_queue_that_is_full_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let address = SocketAddrUnix::new(dir.path().join("d/socket")).unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let first = connect(&dir.path().join("d")).unwrap();
        let Err(FeedError::Io(e)) = connect(&dir.path().join("d")) else {
            panic!("there was room")
        };
        assert!(is_absence(&e), "{e}");
        drop(first);
    }

    #[test]
    fn only_the_socket_itself_is_connected_to() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let _other = listener(elsewhere.path());
        let at = dir.path().join("d");
        let absent = |r: Result<UnixStream, FeedError>| matches!(r, Err(FeedError::Io(e)) if is_absence(&e));
        assert!(absent(connect(&at)));
        std::fs::create_dir(&at).unwrap();
        assert!(absent(connect(&at)));
        let said = || connect(&at).unwrap_err().to_string();
        std::os::unix::fs::symlink(elsewhere.path().join("d/socket"), at.join("socket")).unwrap();
        assert!(
            said().ends_with("is not a socket of the directory's owner"),
            "{}",
            said()
        );
        std::fs::remove_file(at.join("socket")).unwrap();
        std::fs::write(at.join("socket"), "").unwrap();
        assert!(
            said().ends_with("is not a socket of the directory's owner"),
            "{}",
            said()
        );
        std::fs::remove_dir_all(&at).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("d"), &at).unwrap();
        assert!(connect(&at).is_err(), "a link in place of the directory");
    }

    #[test]
    fn who_is_not_understood_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let socket = listener(dir.path());
        let (link, _woken) = link(dir.path());
        let (mut mongo, _) = socket.accept().unwrap();
        let text = HELLO.to_owned() + &status(1) + "{\"catalog\":{\"files\":2}}\n{\"end\":{}}\n";
        mongo.write_all(text.as_bytes()).unwrap();
        let mut heard = String::new();
        // It hangs up.
        std::io::Read::read_to_string(&mut mongo, &mut heard).unwrap();
        until("the end", || !link.info().unwrap().connected);
        assert!(link.take_catalog().is_none());
        socket.set_nonblocking(true).unwrap();
        thread::sleep(2 * LOOK);
        assert!(socket.accept().is_err(), "not again at once");
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The socket for `dsmd`, and what is said to it while it listens.  Nobody asks the
//! server otherwise.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use rustix::fs::{flock, FlockOperation, Mode, OFlags, CWD};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, Notify};
use tokio::time::sleep;

use proto::envelope;
use proto::feed::{self, Greeting, Hello, Request};
use runtime::log;

use crate::client;
use crate::uri::Uri;

/// `dsmd` says nothing longer.
const LONGEST_LINE: u64 = 4096;
/// Lines that wait to be sent.
const QUEUE: usize = 256;

pub(crate) struct Door {
    listener: UnixListener,
    /// Held as long as it is open.
    _lock: OwnedFd,
}

impl Door {
    /// In a directory that is this user's alone: whoever gets as far as the socket may be
    /// informed, and that is `root` and nobody else.
    pub(crate) fn open(run_dir: &Path, device: &str) -> Result<Self> {
        let make = |dir: &Path, mode| match fs::DirBuilder::new().mode(mode).create(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                Err(e).with_context(|| format!("cannot make the directory {}", dir.display()))
            }
            _ => Ok(()),
        };
        let dir = run_dir.join(device);
        make(run_dir, 0o755)?;
        make(&dir, 0o700)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(CWD, &dir, flags, Mode::empty())
            .with_context(|| format!("cannot open {}", dir.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another dsm-mongo is there for the device {device}");
        }
        let path = dir.join(feed::SOCKET);
        // Left by one that was killed; the lock says that it is gone.
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot replace {}", path.display()))
            }
            _ => {}
        }
        let listener =
            UnixListener::bind(&path).with_context(|| format!("cannot listen at {}", path.display()))?;
        // dsmd is another user, with no right to write here but by this mode.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        Ok(Self {
            listener,
            _lock: lock,
        })
    }

    pub(crate) async fn serve(&self, uri: &Uri) -> Result<()> {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                // Out of descriptors, most likely: do not spin.
                Err(_) => {
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let user = stream.peer_cred().map(|c| c.uid());
            let own = rustix::process::geteuid().as_raw();
            if !user.is_ok_and(|uid| uid == 0 || uid == own) {
                log!(Warn, "rejected a peer that is not root");
                continue;
            }
            log!(Info, "dsmd listens");
            match session(stream, uri).await {
                Ok(()) => log!(Info, "dsmd has ended"),
                Err(e) => log!(Warn, "dropped the connection to dsmd", reason = format!("{e:#}")),
            }
        }
    }
}

/// Sends one `dsmd` what the server says, until it goes.
pub(crate) async fn session(stream: UnixStream, uri: &Uri) -> Result<()> {
    let (read, mut write) = stream.into_split();
    let (lines, mut queue) = mpsc::channel::<String>(QUEUE);
    let files_changed = Notify::new();
    let hello = Hello {
        address: feed::clipped(&uri.to_string()),
    };
    lines.send(envelope::first_line(&hello)).await?;
    let send = async {
        while let Some(line) = queue.recv().await {
            // It has gone: that is heard, too.
            if write.write_all(line.as_bytes()).await.is_err() {
                return std::future::pending().await;
            }
        }
    };
    let teller = client::Teller::new(lines);
    tokio::select! {
        heard = listen(read, &files_changed) => heard,
        () = send => Ok(()),
        () = client::ask_forever(uri, &teller, &files_changed) => Ok(()),
    }
}

async fn listen(read: OwnedReadHalf, files_changed: &Notify) -> Result<()> {
    let mut read = BufReader::new(read);
    let mut first = true;
    loop {
        let mut line = Vec::new();
        let longest = (&mut read).take(LONGEST_LINE);
        tokio::pin!(longest);
        match longest.read_until(b'\n', &mut line).await {
            Ok(0) => return Ok(()),
            // Closed with something unread.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(e) => return Err(e.into()),
            Ok(_) if line.last() != Some(&b'\n') => bail!("a line has no end"),
            Ok(_) => {}
        }
        if std::mem::replace(&mut first, false) {
            let Greeting {} = envelope::open(&String::from_utf8_lossy(&line))
                .map_err(|e| anyhow!("dsmd's first line {e}"))?;
            continue;
        }
        match serde_json::from_slice(&line).context("a line is not understood")? {
            Request::FilesChanged {} => files_changed.notify_one(),
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What a thread waits for: signals, another thread, descriptors, and time.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Lets other threads end a wait.
#[derive(Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub fn new() -> Result<Self> {
        let fd =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("cannot make an eventfd")?;
        Ok(Self(Arc::new(fd)))
    }

    pub fn wake(&self) {
        // It fails only when it is set already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Returns whether it was awake.
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// SIGTERM and SIGINT, and SIGHUP, as something to wait for.
pub struct Signals {
    end: UnixStream,
    reload: UnixStream,
}

fn signals(which: &[i32]) -> Result<UnixStream> {
    let (read, write) = UnixStream::pair().context("cannot make a socket pair")?;
    read.set_nonblocking(true)?;
    write.set_nonblocking(true)?;
    for &signal in which {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)
            .context("cannot install a signal handler")?;
    }
    Ok(read)
}

fn came(mut of: &UnixStream) -> bool {
    of.read(&mut [0u8; 16]).is_ok_and(|n| n > 0)
}

impl Signals {
    pub fn new() -> Result<Self> {
        Ok(Self {
            end: signals(&[libc::SIGTERM, libc::SIGINT])?,
            reload: signals(&[libc::SIGHUP])?,
        })
    }

    /// A byte in `end` or `reload` is as good as a signal.
    pub fn from_sockets(end: UnixStream, reload: UnixStream) -> Result<Self> {
        end.set_nonblocking(true)?;
        reload.set_nonblocking(true)?;
        Ok(Self { end, reload })
    }

    /// Whether one has come that ends dsmd.
    pub fn came(&self) -> bool {
        came(&self.end)
    }

    /// Whether SIGHUP has come.
    pub fn reload(&self) -> bool {
        came(&self.reload)
    }

    /// Readable when one has come that ends dsmd.
    pub fn end_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Readable when SIGHUP has come.
    pub fn reload_fd(&self) -> BorrowedFd<'_> {
        self.reload.as_fd()
    }

    /// Waits for one that ends dsmd.
    pub fn wait(&self, timeout: Duration) -> bool {
        let _ = wait(&[self.end.as_fd()], timeout);
        self.came()
    }
}

/// Waits until one of `fds` is readable, or a signal comes.
pub fn wait(fds: &[BorrowedFd<'_>], timeout: Duration) -> std::io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let timeout = Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

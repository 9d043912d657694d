// SPDX-License-Identifier: GPL-2.0-or-later
//! What wakes the thread of discards: a change of the turtle, the end, an event of the target.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use runtime::wake::{self, Waker};

/// Several that nobody has taken are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The turtle may have changed.
    Turtle,
    /// The other side is gone.
    End,
}

/// The side that gives notice; that it is dropped is the end.
pub(super) struct Notifier(Notices);

pub(super) struct Notices {
    waker: Waker,
    ended: Arc<AtomicBool>,
}

pub(super) fn notices() -> anyhow::Result<(Notifier, Notices)> {
    let (waker, ended) = (Waker::new()?, Arc::new(AtomicBool::new(false)));
    let side = || Notices {
        waker: waker.clone(),
        ended: ended.clone(),
    };
    Ok((Notifier(side()), side()))
}

impl Notifier {
    pub(super) fn turtle(&self) {
        self.0.waker.wake();
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.waker.wake();
    }
}

impl Notices {
    pub(super) fn take(&self) -> Option<Notice> {
        let came = self.waker.clear();
        if self.ended.load(Ordering::Acquire) {
            return Some(Notice::End);
        }
        came.then_some(Notice::Turtle)
    }

    /// Waits so long at most; `events` ends the wait as well when it is readable.
    pub(super) fn wait(&self, events: Option<BorrowedFd<'_>>, timeout: Duration) -> Option<Notice> {
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(self.waker.as_fd()).chain(events).collect();
        // It fails only without memory; then it has not waited.
        let _ = wake::wait(&fds, timeout);
        self.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_notice_ends_a_wait_and_is_taken_once() {
        let (notifier, notices) = notices().unwrap();
        assert_eq!(notices.wait(None, Duration::ZERO), None);
        notifier.turtle();
        notifier.turtle();
        assert_eq!(notices.wait(None, LONG), Some(Notice::Turtle));
        assert_eq!(notices.take(), None);
        notifier.turtle();
        drop(notifier);
        assert_eq!(notices.wait(None, LONG), Some(Notice::End));
        assert_eq!(notices.take(), Some(Notice::End), "the end is the end");
    }

    #[test]
    fn an_event_ends_a_wait() {
        let (_notifier, notices) = notices().unwrap();
        let event = Waker::new().unwrap();
        event.wake();
        assert_eq!(notices.wait(Some(event.as_fd()), LONG), None);
    }
}

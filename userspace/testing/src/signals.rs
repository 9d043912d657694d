// SPDX-License-Identifier: GPL-2.0-or-later
//! Signals without a process that sends them.

use std::io::Write;
use std::os::unix::net::UnixStream;

use runtime::wake::Signals;

/// Who holds it sends the signals.
pub struct ByHand {
    to_end: UnixStream,
    to_reload: UnixStream,
}

impl ByHand {
    pub fn end(&self) {
        (&self.to_end).write_all(&[0]).unwrap();
    }

    pub fn reload(&self) {
        (&self.to_reload).write_all(&[0]).unwrap();
    }
}

pub fn by_hand() -> (Signals, ByHand) {
    let (end, to_end) = UnixStream::pair().unwrap();
    let (reload, to_reload) = UnixStream::pair().unwrap();
    let signals = Signals::from_sockets(end, reload).unwrap();
    (signals, ByHand { to_end, to_reload })
}

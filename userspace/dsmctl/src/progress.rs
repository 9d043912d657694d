// SPDX-License-Identifier: GPL-2.0-or-later
//! A sign of life of a command that takes long.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(10);

/// Prints a line each ten seconds, with what there is to say beside the time, if somebody sits at a
/// terminal; until what it returns is dropped.
pub(crate) fn begin(more: impl Fn() -> String + Send + 'static) -> Option<Sender<()>> {
    let print = move |passed: Duration| {
        eprintln!("dsmctl: at work for {} seconds{}", passed.as_secs(), more());
    };
    io::stderr().is_terminal().then(|| every(EVERY, print))
}

/// Ends when what it returns is dropped.
fn every(pause: Duration, print: impl Fn(Duration) + Send + 'static) -> Sender<()> {
    let (end, ended) = channel();
    thread::spawn(move || {
        let begin = Instant::now();
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) {
            print(begin.elapsed());
        }
    });
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_until_the_end() {
        let (tell, told) = channel();
        let end = every(Duration::from_millis(5), move |passed| tell.send(passed).unwrap());
        let (first, second): (Duration, Duration) = (told.recv().unwrap(), told.recv().unwrap());
        assert!(Duration::from_millis(5) <= first && first < second);
        drop(end);
        // The thread has let go of its end.
        while told.recv().is_ok() {}
    }
}

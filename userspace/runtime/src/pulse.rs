// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether threads are at work, for the service manager's watchdog.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Since when a thread has been at work, for those who watch it.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Mutex<Option<Instant>>>);

impl Pulse {
    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// How long it has been at work; 0 while it waits.
    pub fn busy(&self) -> Duration {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |s| s.elapsed())
    }

    /// Marks the length of some work.
    pub fn work<R>(&self, f: impl FnOnce() -> R) -> R {
        self.beat();
        let done = f();
        self.set(None);
        done
    }

    /// The work goes on: what comes now starts over.
    pub fn beat(&self) {
        self.set(Some(Instant::now()));
    }

    /// Marks a wait within some work.
    pub fn rest<R>(&self, f: impl FnOnce() -> R) -> R {
        self.set(None);
        let done = f();
        self.beat();
        done
    }
}

/// Those of a database's threads.
#[derive(Clone, Debug, Default)]
pub struct Pulses {
    pub agent: Pulse,
    pub discard: Pulse,
}

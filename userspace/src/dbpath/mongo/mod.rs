// SPDX-License-Identifier: GPL-2.0-or-later
//! What a mongod says of itself, when the configuration has its address: which
//! file is whose, how many checkpoints it made, and what it was asked to do.
//!
//! A thread asks.  The agent takes what was said last and never waits for it;
//! without it, it goes by names and by what is written.

pub mod catalog;
#[cfg_attr(not(feature = "mongodb"), path = "without.rs")]
mod client;
mod status;
#[cfg(all(test, feature = "mongodb"))]
mod tests;
pub mod uri;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::base::log;
use catalog::Catalog;
use client::Bell;
use uri::Uri;

/// What is known of the server, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Without user and password.
    pub address: String,
    pub connected: bool,
    /// What follows is what it said last.
    pub version: String,
    /// Since it was started.
    pub checkpoints: Option<u64>,
    pub operations: BTreeMap<String, u64>,
    /// Its catalog names files of this data directory.
    pub catalog: bool,
}

#[derive(Default)]
struct Told {
    info: ServerInfo,
    /// Not taken yet.
    catalog: Option<Catalog>,
    checkpointed: bool,
    /// What was told of since the server answered last.
    troubles: HashSet<Kind>,
}

/// Why there is no answer.
struct Trouble {
    kind: Kind,
    why: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// It was not reached, or went away.
    Lost,
    Slow,
    /// The user, the password or the user's rights.
    Refused,
}

struct Shared {
    told: Mutex<Told>,
    /// Wakes the agent.
    wake: Box<dyn Fn() + Send + Sync>,
    files_changed: Bell,
    end: Bell,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self, status: status::ServerStatus) {
        let mut told = self.told();
        let before = told.info.checkpoints;
        if !told.info.connected {
            log!(
                Info,
                "connected to the server",
                server = told.info.address,
                version = status.version
            );
        }
        told.checkpointed |= told.info.connected && before.is_some() && before != status.checkpoints;
        told.info.connected = true;
        told.troubles.clear();
        told.info.version = status.version;
        told.info.checkpoints = status.checkpoints;
        told.info.operations = status.operations;
        let wake = told.checkpointed;
        drop(told);
        if wake {
            (self.wake)();
        }
    }

    fn catalog(&self, catalog: Catalog) {
        let mut told = self.told();
        told.info.catalog = true;
        told.catalog = Some(catalog);
        drop(told);
        (self.wake)();
    }

    /// Tells each kind of trouble once, until there is an answer.
    fn lost(&self, t: &Trouble) {
        let mut told = self.told();
        told.info.connected = false;
        if told.troubles.insert(t.kind) {
            log!(
                Warn,
                "no answer from the server; going on by names and by what is written",
                server = told.info.address,
                reason = t.why
            );
        }
    }
}

/// A connection to the server of a database.
pub struct Link(Arc<Shared>);

impl Link {
    /// Starts to ask.  `wake` is called when there is something to take.
    pub fn start(uri: &Uri, wake: impl Fn() + Send + Sync + 'static) -> Result<Self> {
        let info = ServerInfo {
            address: uri.to_string(),
            ..ServerInfo::default()
        };
        let shared = Arc::new(Shared {
            told: Mutex::new(Told {
                info,
                ..Told::default()
            }),
            wake: Box::new(wake),
            files_changed: Bell::default(),
            end: Bell::default(),
        });
        let (theirs, uri, device) = (Arc::clone(&shared), uri.clone(), log::device());
        thread::Builder::new()
            .name("mongodb".into())
            .spawn(move || {
                if let Some(device) = device {
                    log::of_device(&device);
                }
                client::follow(&uri, &theirs);
            })
            .context("cannot start a thread")?;
        Ok(Self(shared))
    }

    /// Tables came or went: the catalog is another one.
    pub fn files_changed(&self) {
        self.0.files_changed.notify_one();
    }

    /// A catalog that was not taken yet.
    pub fn take_catalog(&self) -> Option<Catalog> {
        self.0.told().catalog.take()
    }

    /// The catalog that was taken names no file that is here.
    pub fn is_another(&self) {
        let mut told = self.0.told();
        if std::mem::replace(&mut told.info.catalog, false) {
            log!(
                Error,
                "the server's collections are not in this data directory; its catalog is not used",
                server = told.info.address
            );
        }
    }

    /// Whether the server has made checkpoints since the last call.
    pub fn take_checkpointed(&self) -> bool {
        std::mem::take(&mut self.0.told().checkpointed)
    }

    pub fn info(&self) -> ServerInfo {
        self.0.told().info.clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.0.end.notify_one();
    }
}

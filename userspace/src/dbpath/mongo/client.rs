// SPDX-License-Identifier: GPL-2.0-or-later
//! Asks a mongod, with MongoDB's own driver.

use std::time::{Duration, Instant};

use mongodb::bson::{deserialize_from_document, doc, Document};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ClientOptions, ConnectionString, HostInfo};
use mongodb::results::CollectionType;
use mongodb::{Client, Database};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::catalog::{Catalog, Listed, Stats};
use super::status::Reply;
use super::uri::{Parsed, Uri};
use super::{Kind, Shared, Trouble};
use crate::base::log;

pub use tokio::sync::Notify as Bell;

/// Between two looks at the server's figures.
const POLL: Duration = Duration::from_secs(5);
/// Between two looks at the catalog when no file came or went.
const CATALOG: Duration = Duration::from_secs(300);
/// After a file came or went: more of them will.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// The catalog of a server with very many collections is asked for more rarely:
/// a pause is this many times as long as the answer took.
const DUTY: u32 = 10;
/// For an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// For the whole catalog.
const LONG_PATIENCE: Duration = Duration::from_secs(120);
/// Between two tries when there is none.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// What a server before 6.0 says to `$listCatalog`.
const UNKNOWN_STAGE: i32 = 40324;

pub(super) fn parse(text: &str) -> Result<Parsed, String> {
    let c = ConnectionString::parse(text).map_err(|e| sentence(&e))?;
    let hosts = match c.host_info {
        HostInfo::HostIdentifiers(hosts) => hosts.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    Ok(Parsed {
        hosts,
        has_password: c.credential.is_some_and(|c| c.password.is_some()),
    })
}

fn sentence(e: &Error) -> String {
    match e.kind.as_ref() {
        ErrorKind::Command(c) => format!("{} ({})", c.message, c.code_name),
        kind => kind.to_string(),
    }
}

impl Trouble {
    fn lost(why: impl ToString) -> Self {
        Self {
            kind: Kind::Lost,
            why: why.to_string(),
        }
    }
}

impl From<Error> for Trouble {
    fn from(e: Error) -> Self {
        let refused = matches!(
            e.kind.as_ref(),
            ErrorKind::Authentication { .. } | ErrorKind::Command(_)
        );
        Self {
            kind: if refused { Kind::Refused } else { Kind::Lost },
            why: sentence(&e),
        }
    }
}

/// Asks until the end is rung.
pub(super) fn follow(uri: &Uri, shared: &Shared) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return shared.lost(&Trouble::lost(e)),
    };
    runtime.block_on(async {
        tokio::select! {
            () = shared.end.notified() => {}
            () = ask_forever(uri, shared) => {}
        }
    });
    // The driver's own tasks end with it; a look-up of a name may take longer.
    runtime.shutdown_background();
}

async fn connect(uri: &Uri) -> Result<Client, Error> {
    let mut options = ClientOptions::parse(uri.secret()).await?;
    // This server and no other of its replica set: its files are what matters.
    options.direct_connection = Some(true);
    options.app_name.get_or_insert_with(|| "dsmd".into());
    options.server_selection_timeout.get_or_insert(PATIENCE / 2);
    options.connect_timeout.get_or_insert(PATIENCE / 2);
    options.max_pool_size = Some(1);
    Client::with_options(options)
}

async fn ask_forever(uri: &Uri, shared: &Shared) {
    let client = match connect(uri).await {
        Ok(client) => client,
        Err(e) => return shared.lost(&e.into()),
    };
    let mut catalogs = Catalogs::new(client.clone());
    let admin = client.database("admin");
    let mut pause = POLL;
    loop {
        match ask(&admin, &mut catalogs, shared).await {
            Ok(()) => {
                pause = POLL;
                if timeout(POLL, shared.files_changed.notified()).await.is_ok() {
                    sleep(DEBOUNCE).await;
                    catalogs.files_changed = true;
                }
            }
            Err(trouble) => {
                shared.lost(&trouble);
                // It may come back as another one.
                catalogs.files_changed = true;
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn ask(admin: &Database, catalogs: &mut Catalogs, shared: &Shared) -> Result<(), Trouble> {
    // Without sections that are long and not looked at.
    let status = doc! {"serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0, "tcmalloc": 0};
    let reply: Reply = run(admin, status).await?;
    shared.status(reply.into());
    if let Some(catalog) = catalogs.next().await {
        shared.catalog(catalog);
    }
    Ok(())
}

async fn run<R: DeserializeOwned>(db: &Database, command: Document) -> Result<R, Trouble> {
    match timeout(PATIENCE, db.run_command(command)).await {
        Ok(Ok(reply)) => {
            let not_understood = |e| Trouble::lost(format!("its reply is not understood: {e}"));
            deserialize_from_document(reply).map_err(not_understood)
        }
        Ok(Err(e)) => Err(e.into()),
        Err(_) => Err(Trouble {
            kind: Kind::Slow,
            why: format!("it took longer than {} s", PATIENCE.as_secs()),
        }),
    }
}

/// The server's catalog, when it may be another one.
struct Catalogs {
    client: Client,
    files_changed: bool,
    next: Instant,
    /// Not before this, whatever happens.
    earliest: Instant,
    refused: bool,
}

impl Catalogs {
    fn new(client: Client) -> Self {
        let now = Instant::now();
        Self {
            client,
            files_changed: true,
            next: now,
            earliest: now,
            refused: false,
        }
    }

    async fn next(&mut self) -> Option<Catalog> {
        let started = Instant::now();
        if started < self.earliest || !(self.files_changed || started >= self.next) {
            return None;
        }
        let answer = match timeout(LONG_PATIENCE, catalog(&self.client)).await {
            Ok(Ok(c)) if c.is_empty() => Err("it does not name their files".to_owned()),
            Ok(Ok(c)) => Ok(c),
            Ok(Err(e)) => Err(sentence(&e)),
            Err(_) => Err(format!("it took longer than {} s", LONG_PATIENCE.as_secs())),
        };
        let now = Instant::now();
        self.files_changed = false;
        self.next = now + CATALOG;
        self.earliest = now + (now - started) * DUTY;
        match answer {
            Ok(catalog) => {
                self.refused = false;
                Some(catalog)
            }
            Err(why) => {
                if !std::mem::replace(&mut self.refused, true) {
                    log!(
                        Warn,
                        "the server does not tell which collections and indexes it has; going on by names",
                        reason = why
                    );
                }
                None
            }
        }
    }
}

async fn catalog(client: &Client) -> Result<Catalog, Error> {
    match listed(client).await {
        Err(e) if matches!(e.kind.as_ref(), ErrorKind::Command(c) if c.code == UNKNOWN_STAGE) => {
            counted(client).await
        }
        answer => answer,
    }
}

/// By `$listCatalog`, which servers have from 6.0 on.
async fn listed(client: &Client) -> Result<Catalog, Error> {
    let mut catalog = Catalog::default();
    let stages = [doc! {"$listCatalog": {}}];
    let mut cursor = client
        .database("admin")
        .aggregate(stages)
        .with_type::<Listed>()
        .await?;
    while cursor.advance().await? {
        catalog.add_listed(&cursor.deserialize_current()?);
    }
    Ok(catalog)
}

/// By `collStats` of every collection.
async fn counted(client: &Client) -> Result<Catalog, Error> {
    let mut catalog = Catalog::default();
    for name in client.list_database_names().await? {
        let db = client.database(&name);
        let mut collections = db.list_collections().await?;
        while collections.advance().await? {
            let c = collections.deserialize_current()?;
            if c.collection_type != CollectionType::Collection {
                continue;
            }
            match db.run_command(doc! {"collStats": &c.name}).await {
                Ok(reply) => catalog.add_stats(&deserialize_from_document::<Stats>(reply)?),
                // Dropped in between.
                Err(e) if matches!(*e.kind, ErrorKind::Command(_)) => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(catalog)
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Asks a mongod, with MongoDB's own driver.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use mongodb::bson::{deserialize_from_document, doc, Document};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ClientOptions;
use mongodb::results::CollectionType;
use mongodb::{Client, Database};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, Notify};
use tokio::time::{sleep, timeout};

use proto::catalog::Catalog;
use proto::envelope;
use proto::feed::{self, clipped, Failure, Kind, Message, ServerStatus};
use runtime::log;

use crate::listed::{add_listed, add_stats, Listed, Stats};
use crate::status::Reply;
use crate::uri::Uri;

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
const TIMEOUT: Duration = Duration::from_secs(10);
/// For the whole catalog.
const LONG_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two tries when there is none.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// What a server before 6.0 says to `$listCatalog`.
const UNKNOWN_STAGE: i32 = 40324;

pub(crate) fn reason(e: &Error) -> String {
    match e.kind.as_ref() {
        ErrorKind::Command(c) => format!("{} ({})", c.message, c.code_name),
        kind => kind.to_string(),
    }
}

/// Says lines to `dsmd`.
pub(crate) struct Teller(mpsc::Sender<String>);

impl Teller {
    pub(crate) fn new(lines: mpsc::Sender<String>) -> Self {
        Self(lines)
    }

    /// Who listens no more ends the session.
    async fn tell(&self, message: &Message) {
        let _ = self.0.send(envelope::line(message)).await;
    }

    async fn failure(&self, t: &Failure) {
        self.tell(&Message::Failure(t.clone())).await;
    }

    async fn catalog(&self, catalog: &Catalog) {
        let paths = catalog.iter().filter_map(|(p, class)| Some((p.to_str()?, class)));
        let files: Vec<_> = paths.take(feed::MAX_FILES as usize).collect();
        let count = files.len() as u32;
        self.tell(&Message::Catalog { files: count }).await;
        for (path, class) in files {
            let path = path.to_owned();
            self.tell(&Message::File { path, class }).await;
        }
        self.tell(&Message::End {}).await;
    }
}

fn failure(kind: Kind, why: impl ToString) -> Failure {
    Failure {
        kind,
        why: clipped(&why.to_string()),
    }
}

/// A user who is refused may also appear as a server that cannot be selected, or as a
/// pool that was cleared, which have the reason in their text.
fn failure_of(e: &Error) -> Failure {
    let why = reason(e);
    let refused = matches!(
        e.kind.as_ref(),
        ErrorKind::Authentication { .. } | ErrorKind::Command(_)
    ) || why.to_lowercase().contains("authentication");
    failure(if refused { Kind::Refused } else { Kind::Lost }, why)
}

async fn connect(uri: &Uri) -> Result<Client, Error> {
    let mut options = ClientOptions::parse(uri.secret()).await?;
    // This server and no other of its replica set: its files are what matters.
    options.direct_connection = Some(true);
    options.app_name.get_or_insert_with(|| "dsmd".into());
    options.server_selection_timeout.get_or_insert(TIMEOUT / 2);
    options.connect_timeout.get_or_insert(TIMEOUT / 2);
    options.max_pool_size = Some(1);
    Client::with_options(options)
}

pub(crate) async fn ask_forever(uri: &Uri, teller: &Teller, files_changed: &Notify) {
    let mut log = Log::default();
    let mut pause = POLL;
    // A file that it names, such as tlsCAFile, may come later.
    let client = loop {
        match connect(uri).await {
            Ok(client) => break client,
            Err(e) => {
                let t = failure_of(&e);
                log.failure(uri, &t);
                teller.failure(&t).await;
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    let mut catalogs = Catalogs::new(client.clone());
    let admin = client.database("admin");
    pause = POLL;
    loop {
        match ask(&admin, &mut catalogs, teller, &mut log, uri).await {
            Ok(()) => {
                pause = POLL;
                if timeout(POLL, files_changed.notified()).await.is_ok() {
                    sleep(DEBOUNCE).await;
                    catalogs.files_changed = true;
                }
            }
            Err(t) => {
                log.failure(uri, &t);
                teller.failure(&t).await;
                // It may come back as another one.
                catalogs.files_changed = true;
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Logs each kind of failure once, until there is an answer.
#[derive(Default)]
struct Log {
    connected: bool,
    failures: HashSet<Kind>,
}

impl Log {
    fn answered(&mut self, uri: &Uri, version: &str) {
        if !std::mem::replace(&mut self.connected, true) {
            log!(Info, "connected to the server", server = uri, version = version);
        }
        self.failures.retain(|kind| *kind == Kind::NoCatalog);
    }

    fn failure(&mut self, uri: &Uri, t: &Failure) {
        self.connected &= t.kind == Kind::NoCatalog;
        if self.failures.insert(t.kind) {
            log!(Warn, "no answer from the server", server = uri, reason = t.why);
        }
    }
}

async fn ask(
    admin: &Database,
    catalogs: &mut Catalogs,
    teller: &Teller,
    log: &mut Log,
    uri: &Uri,
) -> Result<(), Failure> {
    // Without sections that are long and not looked at.
    let status = doc! {"serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0, "tcmalloc": 0};
    let reply: Reply = run(admin, status).await?;
    let status = ServerStatus::from(reply);
    log.answered(uri, &status.version);
    teller.tell(&Message::Status(status)).await;
    match catalogs.next().await {
        Some(Ok(catalog)) => {
            log.failures.remove(&Kind::NoCatalog);
            teller.catalog(&catalog).await;
        }
        Some(Err(why)) => {
            let t = failure(Kind::NoCatalog, why);
            log.failure(uri, &t);
            teller.failure(&t).await;
        }
        None => {}
    }
    Ok(())
}

async fn run<R: DeserializeOwned>(db: &Database, command: Document) -> Result<R, Failure> {
    match timeout(TIMEOUT, db.run_command(command)).await {
        Ok(Ok(reply)) => {
            let not_understood = |e| failure(Kind::Lost, format!("its reply is not understood: {e}"));
            deserialize_from_document(reply).map_err(not_understood)
        }
        Ok(Err(e)) => Err(failure_of(&e)),
        Err(_) => {
            let why = format!("it took longer than {} s", TIMEOUT.as_secs());
            Err(failure(Kind::Slow, why))
        }
    }
}

/// The server's catalog, when it may be another one.
struct Catalogs {
    client: Client,
    files_changed: bool,
    next: Instant,
    /// Not before this, whatever happens.
    earliest: Instant,
}

impl Catalogs {
    fn new(client: Client) -> Self {
        let now = Instant::now();
        Self {
            client,
            files_changed: true,
            next: now,
            earliest: now,
        }
    }

    /// Why there is none.
    async fn next(&mut self) -> Option<Result<Catalog, String>> {
        let started = Instant::now();
        if started < self.earliest || !(self.files_changed || started >= self.next) {
            return None;
        }
        let answer = match timeout(LONG_TIMEOUT, catalog(&self.client)).await {
            Ok(Ok(c)) if c.is_empty() => Err("it does not name their files".to_owned()),
            Ok(Ok(c)) => Ok(c),
            Ok(Err(e)) => Err(reason(&e)),
            Err(_) => Err(format!("it took longer than {} s", LONG_TIMEOUT.as_secs())),
        };
        let now = Instant::now();
        self.files_changed = false;
        self.next = now + CATALOG;
        self.earliest = now + (now - started) * DUTY;
        Some(answer)
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
        add_listed(&mut catalog, &cursor.deserialize_current()?);
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
                Ok(reply) => add_stats(&mut catalog, &deserialize_from_document::<Stats>(reply)?),
                // Dropped in between.
                Err(e) if matches!(*e.kind, ErrorKind::Command(_)) => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(catalog)
}

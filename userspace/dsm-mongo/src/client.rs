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
const UNAUTHORIZED: i32 = 13;

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
        self.failures.retain(Kind::is_about_catalog);
    }

    fn failure(&mut self, uri: &Uri, t: &Failure) {
        self.connected &= t.kind.is_about_catalog();
        if !self.failures.insert(t.kind) {
            return;
        }
        match t.kind {
            Kind::Partial => log!(
                Warn,
                "the server does not report the collections of every database",
                server = uri,
                reason = t.why
            ),
            _ => log!(Warn, "no answer from the server", server = uri, reason = t.why),
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
    let status = server_status(admin).await?;
    log.answered(uri, &status.version);
    teller.tell(&Message::Status(status)).await;
    match catalogs.next().await {
        Some(Ok(Told { catalog, left_out })) => {
            log.failures.remove(&Kind::NoCatalog);
            teller.catalog(&catalog).await;
            if left_out.is_empty() {
                log.failures.remove(&Kind::Partial);
            } else {
                let t = failure(Kind::Partial, left_out.join("; "));
                log.failure(uri, &t);
                teller.failure(&t).await;
            }
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

async fn server_status(admin: &Database) -> Result<ServerStatus, Failure> {
    // Without sections that are long and not looked at.
    let status = doc! {"serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0, "tcmalloc": 0};
    let reply: Reply = run(admin, status).await?;
    Ok(reply.into())
}

/// What a server says when it is asked once; `Err`: why it does not, or not all.
pub(crate) async fn check(uri: &Uri) -> Result<String, String> {
    let client = connect(uri).await.map_err(|e| reason(&e))?;
    let status = server_status(&client.database("admin")).await;
    let version = status.map_err(|t| t.why)?.version;
    let told = Catalogs::new(client)
        .next()
        .await
        .expect("nobody has asked before");
    match told.map_err(|why| format!("mongod {version} does not report which file is whose: {why}"))? {
        Told { catalog, left_out } if left_out.is_empty() => Ok(format!(
            "mongod {version} reports which of {} files is whose",
            catalog.len()
        )),
        Told { left_out, .. } => Err(format!(
            "mongod {version} does not report the collections of every database: {}",
            left_out.join("; ")
        )),
    }
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

/// What is known of a server's files.
#[derive(Default)]
struct Told {
    catalog: Catalog,
    /// Databases that refuse to tell, and why.
    left_out: Vec<String>,
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
    async fn next(&mut self) -> Option<Result<Told, String>> {
        let started = Instant::now();
        if started < self.earliest || !(self.files_changed || started >= self.next) {
            return None;
        }
        let answer = match timeout(LONG_TIMEOUT, catalog(&self.client)).await {
            Ok(Ok(t)) if t.catalog.is_empty() && t.left_out.is_empty() => {
                Err("it does not name their files".to_owned())
            }
            Ok(Ok(t)) if t.catalog.is_empty() => Err(t.left_out.join("; ")),
            Ok(Ok(t)) => Ok(t),
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

fn code(e: &Error) -> Option<i32> {
    match e.kind.as_ref() {
        ErrorKind::Command(c) => Some(c.code),
        _ => None,
    }
}

async fn catalog(client: &Client) -> Result<Told, Error> {
    match listed(client).await {
        Ok(catalog) => Ok(Told {
            catalog,
            left_out: Vec::new(),
        }),
        // One that is refused all at once may be told of some databases.
        Err(e) if matches!(code(&e), Some(UNKNOWN_STAGE | UNAUTHORIZED)) => counted(client).await,
        Err(e) => Err(e),
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
async fn counted(client: &Client) -> Result<Told, Error> {
    let mut told = Told::default();
    for name in client.list_database_names().await? {
        match counted_in(&client.database(&name), &mut told.catalog).await {
            Err(e) if code(&e) == Some(UNAUTHORIZED) => {
                told.left_out.push(format!("{name}: {}", reason(&e)));
            }
            done => done?,
        }
    }
    Ok(told)
}

async fn counted_in(db: &Database, catalog: &mut Catalog) -> Result<(), Error> {
    let mut collections = db.list_collections().await?;
    while collections.advance().await? {
        let c = collections.deserialize_current()?;
        if c.collection_type != CollectionType::Collection {
            continue;
        }
        match db.run_command(doc! {"collStats": &c.name}).await {
            Ok(reply) => add_stats(catalog, &deserialize_from_document::<Stats>(reply)?),
            // Dropped in between.
            Err(e) if code(&e).is_some_and(|code| code != UNAUTHORIZED) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

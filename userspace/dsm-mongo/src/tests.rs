// SPDX-License-Identifier: GPL-2.0-or-later
//! The link to a server that speaks the wire protocol and says what it is asked to
//! say.  tests/mongo has a real one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mongodb::bson::{doc, Document};

use dm::class::Class;
use proto::catalog::Catalog;
use proto::feed::{Event, Kind, Listener, ServerStatus};

use crate::client;
use crate::session;
use crate::uri::Uri;

const REPLY: i32 = 1;
const QUERY: i32 = 2004;
const MESSAGE: i32 = 2013;
const SOON: Duration = Duration::from_secs(600);

/// What a server says to a command, which gets how many other than the driver's own it
/// got before; nothing: it hangs up.
type Answer = fn(&Document, u32) -> Option<Document>;

/// A server.
struct Fake {
    uri: Uri,
}

impl Fake {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("mongodb://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let count = Arc::clone(&asked);
                thread::spawn(move || while serve(stream.as_ref().unwrap(), answer, &count).is_some() {});
            }
        });
        Self {
            uri: uri.parse().unwrap(),
        }
    }
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// Answers one message: OP_MSG, or OP_QUERY, with which a driver begins.
fn serve(mut stream: &TcpStream, answer: Answer, asked: &AtomicU32) -> Option<()> {
    let mut head = [0; 16];
    stream.read_exact(&mut head).ok()?;
    let (length, request, code) = (int(&head), int(&head[4..]), int(&head[12..]));
    let mut body = vec![0; length as usize - 16];
    stream.read_exact(&mut body).ok()?;
    let command = match code {
        MESSAGE => &body[5..],
        QUERY => {
            let name = body[4..].iter().position(|&b| b == 0).unwrap();
            &body[4 + name + 1 + 8..]
        }
        code => panic!("an operation {code}"),
    };
    let command: Document = mongodb::bson::deserialize_from_slice(command).unwrap();
    let hello = command
        .keys()
        .any(|k| k == "hello" || k == "isMaster" || k == "ismaster");
    let reply = if hello {
        doc! {"ok": 1, "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 21,
        "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000}
    } else if command.contains_key("endSessions") {
        doc! {"ok": 1}
    } else {
        answer(&command, asked.fetch_add(1, Ordering::Relaxed))?
    };
    let reply = reply.to_vec().unwrap();
    let (code, before): (i32, &[u8]) = match code {
        QUERY => (
            REPLY,
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
        ),
        _ => (MESSAGE, &[0; 5]),
    };
    let length = (16 + before.len() + reply.len()) as i32;
    let head = [length, 7, request, code].map(i32::to_le_bytes).concat();
    stream.write_all(&[&head, before, &reply].concat()).ok()
}

/// A dsmd.
struct Ear {
    stream: UnixStream,
    listener: Listener<UnixStream>,
}

impl Ear {
    fn to(uri: &Uri) -> Self {
        let (stream, theirs) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let uri = uri.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let stream = tokio::net::UnixStream::from_std(theirs).unwrap();
                let _ = session::session(stream, &uri).await;
            });
        });
        (&stream).write_all(b"{\"protocol\":1}\n").unwrap();
        let (listener, address) = Listener::start(stream.try_clone().unwrap()).unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        Self { stream, listener }
    }

    fn next(&mut self) -> Event {
        self.listener.hear().unwrap().unwrap()
    }

    fn status(&mut self) -> ServerStatus {
        match self.next() {
            Event::Status(s) => s,
            other => panic!("{other:?}"),
        }
    }

    fn catalog(&mut self) -> Catalog {
        match self.next() {
            Event::Catalog(c) => c,
            other => panic!("{other:?}"),
        }
    }

    fn failure(&mut self) -> (Kind, String) {
        match self.next() {
            Event::Failure(t) => (t.kind, t.why),
            other => panic!("{other:?}"),
        }
    }

    fn files_changed(&self) {
        (&self.stream).write_all(b"{\"files-changed\":{}}\n").unwrap();
    }
}

fn first_key(command: &Document) -> &str {
    command.keys().next().unwrap()
}

fn error(code: i32, message: &str) -> Document {
    doc! {"ok": 0, "code": code, "codeName": "Refused", "errmsg": message}
}

fn status(version: &str, checkpoints: i64) -> Document {
    doc! {"ok": 1, "version": version,
    "opcounters": {"insert": 3_i32, "query": 1_i64 << 40, "command": 2.0},
    "wiredTiger": {"transaction": {"transaction checkpoints": checkpoints}}}
}

#[test]
fn a_server_of_today() {
    let server = Fake::start(|command, asked| {
        Some(match first_key(command) {
            "serverStatus" => status("7.0.14", asked.into()),
            "aggregate" => {
                assert_eq!(
                    command.get_array("pipeline").unwrap()[0],
                    doc! {"$listCatalog": {}}.into()
                );
                doc! {"ok": 1, "cursor": {"id": 9_i64, "ns": "admin.$cmd.aggregate", "firstBatch": [
                {"ns": "shop.orders", "ident": "collection-7-7", "idxIdent": {"_id_": "index-8-7"}}]}}
            }
            "getMore" => doc! {"ok": 1, "cursor": {"id": 0_i64, "ns": "admin.$cmd.aggregate", "nextBatch": [
            {"ns": "local.oplog.rs", "ident": "collection-1-7", "idxIdent": {}}]}},
            other => panic!("{other}"),
        })
    });
    let mut ear = Ear::to(&server.uri);
    let said = ear.status();
    assert_eq!((said.version.as_str(), said.checkpoints), ("7.0.14", Some(0)));
    let operations = [("command", 2), ("insert", 3), ("query", 1 << 40)];
    assert_eq!(said.operations, operations.map(|(k, n)| (k.to_owned(), n)).into());
    let catalog = ear.catalog();
    let class = |path| catalog.class(Path::new(path));
    assert_eq!(class("index-8-7.wt"), Some(Class::Primary));
    assert_eq!(class("collection-1-7.wt"), Some(Class::Oplog));
    assert_eq!(catalog.len(), 3);

    // A file came: it asks again, and finds another count of checkpoints.
    ear.files_changed();
    assert_eq!(ear.status().checkpoints, Some(3));
    assert_eq!(ear.catalog(), catalog);
}

#[test]
fn a_server_before_list_catalog() {
    let server = Fake::start(|command, _| {
        let ns = |name: &str| format!("{}.{name}", command.get_str("$db").unwrap());
        Some(match first_key(command) {
            "serverStatus" => status("4.4.29", 1),
            "aggregate" => error(40324, "Unrecognized pipeline stage name: '$listCatalog'"),
            "listDatabases" => doc! {"ok": 1, "totalSize": 1, "databases": [
            {"name": "shop", "sizeOnDisk": 1, "empty": false}]},
            "listCollections" => {
                doc! {"ok": 1, "cursor": {"id": 0_i64, "ns": "shop.$cmd.listCollections", "firstBatch": [
                {"name": "orders", "type": "collection", "options": {}, "info": {"readOnly": false}},
                {"name": "gone", "type": "collection", "options": {}, "info": {"readOnly": false}},
                {"name": "recent", "type": "view", "options": {"viewOn": "orders", "pipeline": []}, "info": {"readOnly": true}}]}}
            }
            "collStats" => match command.get_str("collStats").unwrap() {
                "orders" => doc! {"ok": 1, "ns": ns("orders"),
                "wiredTiger": {"uri": "statistics:table:collection-7-7"},
                "indexDetails": {"_id_": {"uri": "statistics:table:index-8-7"}}},
                "gone" => error(26, "ns not found"),
                other => panic!("{other}"),
            },
            other => panic!("{other}"),
        })
    });
    let mut ear = Ear::to(&server.uri);
    ear.status();
    let catalog = ear.catalog();
    assert_eq!(catalog.class(Path::new("index-8-7.wt")), Some(Class::Primary));
    assert_eq!(catalog.len(), 2);
}

#[test]
fn a_server_that_may_not_tell() {
    let server = Fake::start(|command, _| {
        Some(match first_key(command) {
            "serverStatus" => status("8.0.4", 1),
            _ => error(13, "not authorized on admin to execute command"),
        })
    });
    let mut ear = Ear::to(&server.uri);
    assert_eq!(ear.status().version, "8.0.4");
    let (kind, why) = ear.failure();
    assert_eq!(kind, Kind::NoCatalog);
    assert!(why.contains("not authorized on admin"), "{why}");
}

/// 4.2, by a role without rights in config.
#[test]
fn a_database_that_refuses_takes_no_other_along() {
    let server = Fake::start(|command, _| {
        let db = command.get_str("$db").unwrap();
        Some(match (first_key(command), db) {
            ("serverStatus", _) => status("4.2.0", 1),
            ("aggregate", _) => error(40324, "Unrecognized pipeline stage name: '$listCatalog'"),
            ("listDatabases", _) => doc! {"ok": 1, "totalSize": 1, "databases": [
            {"name": "config", "sizeOnDisk": 1, "empty": false}, {"name": "local", "sizeOnDisk": 1, "empty": false},
            {"name": "shop", "sizeOnDisk": 1, "empty": false}]},
            ("listCollections", "config") => error(13, "not authorized on config"),
            ("listCollections", _) => {
                doc! {"ok": 1, "cursor": {"id": 0_i64, "ns": "shop.$cmd.listCollections", "firstBatch": [
                {"name": "orders", "type": "collection", "options": {}, "info": {"readOnly": false}}]}}
            }
            ("collStats", "local") => error(13, "not authorized on local"),
            ("collStats", _) => doc! {"ok": 1, "ns": "shop.orders",
            "wiredTiger": {"uri": "statistics:table:collection-7-7"}},
            other => panic!("{other:?}"),
        })
    });
    let mut ear = Ear::to(&server.uri);
    ear.status();
    assert_eq!(ear.catalog().len(), 1);
    let (kind, why) = ear.failure();
    assert_eq!(kind, Kind::Partial);
    assert_eq!(
        why,
        "config: not authorized on config (Refused); local: not authorized on local (Refused)"
    );
    let said = checked(&server).unwrap_err();
    assert!(said.starts_with("mongod 4.2.0 does not report the collections of every database: config: "));
}

fn checked(server: &Fake) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(client::check(&server.uri))
}

#[test]
fn a_check_says_what_it_found() {
    let answers = |answer: Answer| checked(&Fake::start(answer));
    let good = answers(|command, _| {
        Some(match first_key(command) {
            "serverStatus" => status("7.0.14", 1),
            _ => doc! {"ok": 1, "cursor": {"id": 0_i64, "ns": "admin.$cmd.aggregate", "firstBatch": [
            {"ns": "shop.orders", "ident": "collection-7-7", "idxIdent": {"_id_": "index-8-7"}}]}},
        })
    });
    assert_eq!(good.unwrap(), "mongod 7.0.14 reports which of 2 files is whose");
    let refused = answers(|_, _| Some(error(18, "Authentication failed.")));
    assert_eq!(refused.unwrap_err(), "Authentication failed. (Refused)");
    let none = answers(|command, _| {
        Some(match first_key(command) {
            "serverStatus" => status("8.0.4", 1),
            _ => error(13, "not authorized"),
        })
    });
    assert_eq!(
        none.unwrap_err(),
        "mongod 8.0.4 does not report which file is whose: not authorized (Refused)"
    );
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!(
        "mongodb://{}/?serverSelectionTimeoutMS=100",
        gone.local_addr().unwrap()
    );
    drop(gone);
    let gone = Fake {
        uri: uri.parse().unwrap(),
    };
    assert!(checked(&gone).unwrap_err().contains("Connection refused"));
}

#[test]
fn a_server_that_hangs_up_and_comes_back() {
    let server = Fake::start(|command, asked| {
        Some(match first_key(command) {
            // The driver tries a read twice.
            "serverStatus" if asked < 2 => return None,
            "serverStatus" => status("7.0.14", 1),
            _ => error(13, "no"),
        })
    });
    let mut ear = Ear::to(&server.uri);
    assert_eq!(ear.failure().0, Kind::Lost);
    loop {
        match ear.next() {
            Event::Failure(t) if t.kind == Kind::Lost => {}
            Event::Status(s) => return assert_eq!(s.version, "7.0.14"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_goes_is_let_go() {
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri: Uri = format!("mongodb://{}", silent.local_addr().unwrap())
        .parse()
        .unwrap();
    for text in [
        "",
        "{\"protocol\":2}\n",
        "GET / HTTP/1.1\r\n",
        "{\"protocol\":1}\nx\n",
    ] {
        let (stream, theirs) = UnixStream::pair().unwrap();
        (&stream).write_all(text.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let ended = runtime.block_on(async {
            let stream = tokio::net::UnixStream::from_std(theirs).unwrap();
            session::session(stream, &uri).await.map_err(|e| format!("{e:#}"))
        });
        let wanted = match text {
            "" => Ok(()),
            t if t.contains('2') => Err("dsmd's first line speaks protocol 2, and 1 is understood"),
            t if t.contains("GET") => Err("dsmd's first line is not understood"),
            _ => Err("a line is not understood"),
        };
        match (ended, wanted) {
            (Ok(()), Ok(())) => {}
            (Err(said), Err(wanted)) if said.starts_with(wanted) => {}
            (ended, wanted) => panic!("{ended:?}, not {wanted:?}"),
        }
    }
}

#[test]
fn the_door_is_for_one() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let open = || session::Door::open(dir.path(), "d");
    let door = open().unwrap();
    let mode = |path: &str| {
        std::fs::metadata(dir.path().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((mode("d"), mode("d/socket")), (0o700, 0o666));
    assert_eq!(
        open().err().unwrap().to_string(),
        "another dsm-mongo is there for the device d"
    );
    // One that was killed leaves its socket.
    drop(door);
    assert!(open().is_ok());
}

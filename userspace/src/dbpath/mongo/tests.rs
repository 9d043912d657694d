// SPDX-License-Identifier: GPL-2.0-or-later
//! The link to a server that speaks the wire protocol and says what it is told to
//! say.  tests/mongo has a real one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use mongodb::bson::{doc, Document};

use super::*;
use crate::kernel::class::Class;

const REPLY: i32 = 1;
const QUERY: i32 = 2004;
const MESSAGE: i32 = 2013;
const SOON: Duration = Duration::from_secs(600);

/// What a server says to a command; nothing: it hangs up.
type Answer = fn(&Document, u32) -> Option<Document>;

/// A server, and how many commands other than the driver's own it got.
struct Fake {
    uri: Uri,
    asked: Arc<AtomicU32>,
}

impl Fake {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("mongodb://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let count = Arc::clone(&count);
                thread::spawn(move || while serve(stream.as_ref().unwrap(), answer, &count).is_some() {});
            }
        });
        Self {
            uri: uri.parse().unwrap(),
            asked,
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

fn link(uri: &Uri) -> (Link, Receiver<()>) {
    let (sender, woken) = mpsc::channel();
    let sender = Mutex::new(sender);
    let wake = move || {
        let _ = sender.lock().unwrap().send(());
    };
    (Link::start(uri, wake).unwrap(), woken)
}

fn until(what: impl Fn() -> bool) -> bool {
    let end = Instant::now() + SOON;
    while !what() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
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
    let (link, woken) = link(&server.uri);
    woken.recv_timeout(SOON).unwrap();
    let catalog = link.take_catalog().unwrap();
    let class = |path| catalog.class(Path::new(path));
    assert_eq!(class("index-8-7.wt"), Some(Class::Primary));
    assert_eq!(class("collection-1-7.wt"), Some(Class::Oplog));
    assert_eq!(catalog.len(), 3);
    assert!(link.take_catalog().is_none());
    let info = link.info();
    assert_eq!(
        (info.connected, info.catalog, info.checkpoints),
        (true, true, Some(0))
    );
    assert_eq!(info.version, "7.0.14");
    let operations = [("command", 2), ("insert", 3), ("query", 1 << 40)];
    assert_eq!(info.operations, operations.map(|(k, n)| (k.to_owned(), n)).into());
    assert!(!link.take_checkpointed());

    // A file came: it asks again, and finds another count of checkpoints.
    link.files_changed();
    woken.recv_timeout(SOON).unwrap();
    assert!(until(|| link.info().checkpoints == Some(3)));
    assert!(link.take_checkpointed());
    assert!(!link.take_checkpointed());
    link.is_another();
    assert!(!link.info().catalog);
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
    let (link, woken) = link(&server.uri);
    woken.recv_timeout(SOON).unwrap();
    let catalog = link.take_catalog().unwrap();
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
    let (link, _woken) = link(&server.uri);
    assert!(until(
        || server.asked.load(Ordering::Relaxed) >= 2 && link.info().connected
    ));
    assert!(link.take_catalog().is_none() && !link.info().catalog);
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
    let (link, _woken) = link(&server.uri);
    assert!(until(|| server.asked.load(Ordering::Relaxed) > 0) && !link.info().connected);
    assert!(until(|| link.info().connected));
}

#[test]
fn nobody_is_waited_for() {
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("mongodb://{}", silent.local_addr().unwrap());
    let started = Instant::now();
    let (link, woken) = link(&uri.parse().unwrap());
    assert!(!link.info().connected && link.take_catalog().is_none());
    link.files_changed();
    drop(link);
    // Whoever waited would do so for as long as the client has patience: 5 s.
    assert!(started.elapsed() < Duration::from_secs(4));
    // The thread ends, although the server has not answered.
    assert_eq!(
        woken.recv_timeout(SOON),
        Err(mpsc::RecvTimeoutError::Disconnected)
    );
}

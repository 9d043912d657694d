// SPDX-License-Identifier: GPL-2.0-or-later
//! How `dsm-mongo` reports to `dsmd` what the server says: over a Unix socket, a JSON object a
//! line.  It is not trusted: lines, numbers and texts have bounds, a catalog counts only
//! when all of it came, and what is not understood ends the connection.
//!
//! ```text
//! dsm-mongo -> {"protocol":1,"address":"127.0.0.1:27017"}
//!     dsmd  -> {"protocol":1}
//! dsm-mongo -> {"status":{"version":"7.0.14","checkpoints":3,"operations":{"insert":9}}}
//!           -> {"failure":{"kind":"lost","why":"<reason>"}}
//!           -> {"catalog":{"files":1}}
//!           -> {"file":{"path":"index-8-7.wt","class":"primary"}}
//!           -> {"end":{}}
//!     dsmd  -> {"files-changed":{}}
//! ```

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::catalog::Catalog;
use crate::envelope;
use dm::class::Class;

/// Where `dsm-mongo` listens: in a directory for each device.
pub const RUN_DIR: &str = "/run/dsm-mongo";
pub const SOCKET: &str = "socket";

const LONGEST_LINE: usize = 16 * 1024;
/// A million files have about as many collections and indexes as a mongod can open.
pub const MAX_FILES: u32 = 1_000_000;
/// Of all paths of a catalog together.
const MAX_BYTES: usize = 64 << 20;
pub const MAX_PATH: usize = 1024;
pub const MAX_TEXT: usize = 512;
pub const MAX_OPERATIONS: usize = 64;

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
    /// Why it does not answer, or not with its catalog; until it does.
    #[serde(default)]
    pub failure: Option<Failure>,
}

/// Why there is no answer, or not the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It was not reached, or went away.
    Lost,
    Slow,
    /// The user, the password or the user's rights.
    Refused,
    /// It answers, but does not report which file is whose.
    NoCatalog,
    /// It does, but not of every database.
    Partial,
}

impl Kind {
    /// The server answers otherwise.
    pub fn is_about_catalog(&self) -> bool {
        matches!(self, Self::NoCatalog | Self::Partial)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerStatus {
    pub version: String,
    /// Since the server was started.
    pub checkpoints: Option<u64>,
    pub operations: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub kind: Kind,
    pub why: String,
}

/// A line of `dsm-mongo`, but for the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Message {
    Status(ServerStatus),
    Failure(Failure),
    /// So many files follow, and then the end.
    Catalog {
        files: u32,
    },
    File {
        path: String,
        class: Class,
    },
    End {},
}

/// A line of `dsmd`, but for the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Tables came or went: the catalog is another one.
    FilesChanged {},
}

/// The first line of `dsm-mongo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub address: String,
}

/// The first line of `dsmd`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {}

#[derive(Debug, Error)]
pub enum FeedError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// As text.
    #[error("{0}")]
    Wrong(String),
}

fn wrong<T>(reason: impl Into<String>) -> Result<T, FeedError> {
    Err(FeedError::Wrong(reason.into()))
}

/// What `dsmd` takes.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Status(ServerStatus),
    Failure(Failure),
    Catalog(Catalog),
}

/// As much of a text as the protocol takes, without what is not printable.
pub fn clipped(text: &str) -> String {
    let mut clipped = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if clipped.len() + c.len_utf8() > MAX_TEXT {
            break;
        }
        clipped.push(c);
    }
    clipped
}

/// Whether it can be the path of a file below the dbpath.
pub fn is_path(path: &str) -> bool {
    let below = |c| matches!(c, Component::Normal(_));
    !path.is_empty()
        && path.len() <= MAX_PATH
        && !path.contains(char::is_control)
        && Path::new(path).components().all(below)
}

fn check_text(what: &str, text: &str) -> Result<(), FeedError> {
    if text.len() > MAX_TEXT || text.contains(char::is_control) {
        return wrong(format!(
            "{what} must be at most {MAX_TEXT} printable bytes, and has {}",
            text.len()
        ));
    }
    Ok(())
}

fn check_status(status: &ServerStatus) -> Result<(), FeedError> {
    check_text("the server's version", &status.version)?;
    if status.operations.len() > MAX_OPERATIONS {
        return wrong(format!(
            "a server has at most {MAX_OPERATIONS} types of operations, not {}",
            status.operations.len()
        ));
    }
    status
        .operations
        .keys()
        .try_for_each(|name| check_text("a type of operations", name))
}

/// A catalog of which not all has come.
struct Coming {
    catalog: Catalog,
    files: u32,
    bytes: usize,
}

/// Takes what `dsm-mongo` says.
pub struct Listener<R> {
    from: BufReader<R>,
    coming: Option<Coming>,
}

impl<R: Read> Listener<R> {
    /// The address of the server comes first.
    pub fn start(from: R) -> Result<(Self, String), FeedError> {
        let mut listener = Self {
            from: BufReader::new(from),
            coming: None,
        };
        let Some(line) = listener.line()? else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        };
        match envelope::open(&line) {
            Ok(Hello { address }) => {
                check_text("the server's address", &address)?;
                Ok((listener, address))
            }
            Err(e) => wrong(format!("dsm-mongo's first line {}", clipped(&e.to_string()))),
        }
    }

    /// The next of them; nothing: it has ended.
    pub fn hear(&mut self) -> Result<Option<Event>, FeedError> {
        while let Some(line) = self.line()? {
            let message = match serde_json::from_str(&line) {
                Ok(message) => message,
                // What it quotes of the line may be long, and anything.
                Err(e) => return wrong(format!("a line is not understood: {}", clipped(&e.to_string()))),
            };
            if let Some(event) = self.take(message)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn line(&mut self) -> Result<Option<String>, FeedError> {
        let mut line = Vec::new();
        (&mut self.from)
            .take(LONGEST_LINE as u64)
            .read_until(b'\n', &mut line)?;
        match line.pop() {
            None => Ok(None),
            Some(b'\n') => match String::from_utf8(line) {
                Ok(text) => Ok(Some(text)),
                Err(_) => wrong("a line is not UTF-8"),
            },
            Some(_) if line.len() + 1 == LONGEST_LINE => {
                wrong(format!("a line is longer than {LONGEST_LINE} bytes"))
            }
            Some(_) => wrong("it ended in the middle of a line"),
        }
    }

    fn take(&mut self, message: Message) -> Result<Option<Event>, FeedError> {
        match (message, self.coming.as_mut()) {
            (Message::File { path, class }, Some(coming)) => {
                coming.add(&path, class)?;
                Ok(None)
            }
            (Message::End {}, Some(coming)) if coming.catalog.len() == coming.files as usize => {
                Ok(self.coming.take().map(|c| Event::Catalog(c.catalog)))
            }
            (Message::End {}, Some(coming)) => wrong(format!(
                "the catalog has ended after {} of {} files",
                coming.catalog.len(),
                coming.files
            )),
            (_, Some(_)) => wrong("something else came before the end of the catalog"),
            (Message::File { .. } | Message::End {}, None) => wrong("a file came without a catalog"),
            (Message::Catalog { files }, None) if files > MAX_FILES => {
                wrong(format!("a catalog has at most {MAX_FILES} files, not {files}"))
            }
            (Message::Catalog { files }, None) => {
                self.coming = Some(Coming {
                    catalog: Catalog::default(),
                    files,
                    bytes: 0,
                });
                Ok(None)
            }
            (Message::Status(status), None) => {
                check_status(&status)?;
                Ok(Some(Event::Status(status)))
            }
            (Message::Failure(failure), None) => {
                check_text("a reason", &failure.why)?;
                Ok(Some(Event::Failure(failure)))
            }
        }
    }
}

impl Coming {
    fn add(&mut self, path: &str, class: Class) -> Result<(), FeedError> {
        if !is_path(path) {
            return wrong(format!(
                "{:?} cannot be a file of the data directory",
                clipped(path)
            ));
        }
        self.bytes += path.len();
        if self.bytes > MAX_BYTES {
            return wrong(format!("the paths of a catalog have more than {MAX_BYTES} bytes"));
        }
        if self.catalog.len() >= self.files as usize || !self.catalog.insert(path.into(), class) {
            return wrong(format!(
                "the catalog has more than the {} files that it should have, or one twice",
                self.files
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::line;

    const HELLO: &str = "{\"protocol\":1,\"address\":\"db1:27017\"}\n";

    fn all(text: &str) -> Result<Vec<Event>, String> {
        let all = || {
            let (mut listener, address) = Listener::start(text.as_bytes())?;
            assert_eq!(address, "db1:27017");
            let mut events = Vec::new();
            while let Some(event) = listener.hear()? {
                events.push(event);
            }
            Ok(events)
        };
        all().map_err(|e: FeedError| e.to_string())
    }

    fn status() -> ServerStatus {
        ServerStatus {
            version: "7.0.14".into(),
            checkpoints: Some(3),
            operations: [("insert".to_owned(), 9)].into(),
        }
    }

    #[test]
    fn what_is_said_is_heard() {
        let failure = Failure {
            kind: Kind::NoCatalog,
            why: "it does not".into(),
        };
        let file = Message::File {
            path: "shop/index-8-7.wt".into(),
            class: Class::Primary,
        };
        let hello = Hello {
            address: "db1:27017".into(),
        };
        let text = [
            envelope::first_line(&hello),
            line(&Message::Status(status())),
            line(&Message::Failure(failure.clone())),
            line(&Message::Catalog { files: 1 }),
            line(&file),
            line(&Message::End {}),
            line(&Message::Catalog { files: 0 }),
            line(&Message::End {}),
        ]
        .concat();
        assert!(text.starts_with(HELLO), "{text}");
        let mut catalog = Catalog::default();
        catalog.insert("shop/index-8-7.wt".into(), Class::Primary);
        let wanted = vec![
            Event::Status(status()),
            Event::Failure(failure),
            Event::Catalog(catalog),
            Event::Catalog(Catalog::default()),
        ];
        assert_eq!(all(&text).unwrap(), wanted);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let file = |path: &str| format!("{{\"file\":{{\"path\":\"{path}\",\"class\":\"index\"}}}}\n");
        let catalog = "{\"catalog\":{\"files\":2}}\n";
        let long = "x".repeat(MAX_TEXT + 1);
        let many: Vec<String> = (0..=MAX_OPERATIONS).map(|n| format!("\"{n}\":1")).collect();
        for (text, reason) in [
            (
                format!("{}\n", "x".repeat(LONGEST_LINE)),
                "a line is longer than 16384 bytes",
            ),
            ("{\"status\"".into(), "it ended in the middle of a line"),
            ("\n".into(), "a line is not understood"),
            (
                "{\"boil\":{}}\n".into(),
                "a line is not understood: unknown variant `boil`",
            ),
            ("{\"end\":{}}\n".into(), "a file came without a catalog"),
            (file("a.wt"), "a file came without a catalog"),
            (
                "{\"catalog\":{\"files\":1000001}}\n".into(),
                "a catalog has at most 1000000 files, not 1000001",
            ),
            (
                "{\"catalog\":{\"files\":-1}}\n".into(),
                "a line is not understood",
            ),
            (
                format!("{catalog}{}{{\"end\":{{}}}}\n", file("a.wt")),
                "the catalog has ended after 1 of 2 files",
            ),
            (
                format!("{catalog}{catalog}"),
                "something else came before the end of the catalog",
            ),
            (
                format!("{catalog}{}", file("../../etc/passwd")),
                "\"../../etc/passwd\" cannot be a file",
            ),
            (
                format!("{catalog}{}", file("/etc/passwd")),
                "\"/etc/passwd\" cannot be a file",
            ),
            (format!("{catalog}{}", file("")), "\"\" cannot be a file"),
            (
                format!("{catalog}{}", file("a\\u001b[31m")),
                "\"a[31m\" cannot be a file",
            ),
            (
                format!("{catalog}{}{}", file("a.wt"), file("a.wt")),
                "the catalog has more than the 2 files",
            ),
            (
                format!("{catalog}{}{}{}", file("a.wt"), file("b.wt"), file("c.wt")),
                "the catalog has more than the 2 files",
            ),
            (
                format!("{{\"failure\":{{\"kind\":\"lost\",\"why\":\"{long}\"}}}}\n"),
                "a reason must be at most 512 printable bytes, and has 513",
            ),
            (
                "{\"failure\":{\"kind\":\"lost\",\"why\":\"a\\u001bb\"}}\n".into(),
                "a reason must be at most 512 printable bytes",
            ),
            (
                format!(
                    "{{\"status\":{{\"version\":\"7\",\"checkpoints\":null,\"operations\":{{{}}}}}}}\n",
                    many.join(",")
                ),
                "a server has at most 64 types of operations, not 65",
            ),
        ] {
            let said = all(&format!("{HELLO}{text}")).unwrap_err();
            assert!(said.starts_with(reason), "{said}, not {reason}");
            assert!(said.len() < 2 * MAX_TEXT, "{said}");
        }
        let bytes = [HELLO.as_bytes(), b"\xff\xfe\n"].concat();
        let (mut listener, _) = Listener::start(bytes.as_slice()).unwrap();
        assert_eq!(listener.hear().unwrap_err().to_string(), "a line is not UTF-8");
    }

    #[test]
    fn another_protocol_is_refused() {
        let hello = HELLO.replacen('1', "2", 1);
        assert_eq!(
            all(&hello.replacen("\"address\"", "\"more\":[],\"address\"", 1)).unwrap_err(),
            "dsm-mongo's first line speaks protocol 2, and 1 is understood: are all programs of dm-dsm of one version?"
        );
        for strange in ["\n", "SSH-2.0-OpenSSH\n", "{\"protocol\":1}\n"] {
            let said = all(strange).unwrap_err();
            assert!(
                said.starts_with("dsm-mongo's first line is not understood: "),
                "{said}"
            );
        }
    }

    #[test]
    fn texts_are_cut_to_what_may_be_said() {
        assert_eq!(clipped("a\u{1b}[31m\nb"), "a[31mb");
        let long = clipped(&"ä".repeat(MAX_TEXT));
        assert!(long.len() == MAX_TEXT && long.chars().all(|c| c == 'ä'));
    }
}

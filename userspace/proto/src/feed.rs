// SPDX-License-Identifier: GPL-2.0-or-later
//! What `dsm-mongo`, the script for mongosh, leaves for `dsmd`: a file, replaced whole, that
//! says which file is whose, or why the server does not tell.  It is not trusted: its size and
//! its texts have bounds, and what is not understood is not used.
//!
//! ```text
//! {"protocol":1,"address":"127.0.0.1:27017","version":"7.0.14",
//!  "failure":{"kind":"partial","why":"<reason>"},"files":{"index-8-7.wt":"primary"}}
//! ```

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::envelope;
use dm::class::Class;

/// Where the file is: in a directory for each device.
pub const RUN_DIR: &str = "/run/dsm-mongo";
pub const FILE: &str = "catalog.json";

/// A million files have about as many collections and indexes as a mongod can open.
const MAX_FILES: usize = 1_000_000;
/// Of the whole.
const MAX_BYTES: u64 = 64 << 20;
const MAX_PATH: usize = 1024;
pub const MAX_TEXT: usize = 512;

/// Which file, by its path relative to the dbpath, is whose.
pub type Catalog = HashMap<PathBuf, Class>;

/// What is known of the server, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Without user and password.
    pub address: String,
    pub connected: bool,
    /// The one it said last.
    pub version: String,
    /// Its catalog names files of this data directory.
    pub catalog: bool,
    /// Why it does not answer, or not with its catalog; until it does.
    #[serde(default)]
    pub failure: Option<Failure>,
}

impl ServerInfo {
    /// What it does, for a sentence about it.
    pub fn text(&self) -> &'static str {
        match (
            self.connected,
            self.catalog,
            self.failure.as_ref().map(|f| f.kind),
        ) {
            // It ends by itself.
            (_, _, Some(FailureKind::Recovering)) => "recovers, and reports which file is whose when it has",
            (false, _, Some(FailureKind::Refused)) => "refuses dsm-mongo",
            (false, ..) => "does not answer dsm-mongo",
            (true, true, None) => "reports which file is whose",
            (true, true, Some(FailureKind::Partial)) => "does not report the collections of every database",
            (true, true, Some(_)) => "reported which file is whose, and no longer does",
            (true, false, _) => "answers, and does not report which file is whose",
        }
    }
}

/// Why there is no answer, or not the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// It was not reached, or went away.
    Lost,
    /// The user, the password or the user's rights.
    Refused,
    /// It will answer by itself: it is starting, or recovers.
    Recovering,
    /// It answers, but does not report which file is whose.
    NoCatalog,
    /// It does, but not of every database.
    Partial,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub why: String,
}

/// What was said.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Report {
    pub address: String,
    /// Nothing: the server did not answer.
    pub version: Option<String>,
    pub failure: Option<Failure>,
    #[serde(rename = "files")]
    pub catalog: Option<Catalog>,
}

fn wrong<T>(reason: impl Into<String>) -> io::Result<T> {
    Err(io::Error::other(reason.into()))
}

/// As much of a text as is taken, without what is not printable.
fn clipped(text: &str) -> String {
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
fn is_path(path: &Path) -> bool {
    let below = |c| matches!(c, Component::Normal(_));
    let text = path.to_string_lossy();
    !text.is_empty()
        && text.len() <= MAX_PATH
        && !text.contains(char::is_control)
        && path.components().all(below)
}

fn check_text(what: &str, text: &str) -> io::Result<()> {
    if text.len() > MAX_TEXT || text.contains(char::is_control) {
        return wrong(format!(
            "{what} must be at most {MAX_TEXT} printable bytes, and has {}",
            text.len()
        ));
    }
    Ok(())
}

/// Takes what `dsm-mongo` wrote.
pub fn read(from: impl Read) -> io::Result<Report> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return wrong(format!("it is longer than {MAX_BYTES} bytes"));
    }
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return wrong("it is not UTF-8");
    };
    let report: Report = match envelope::open(text) {
        Ok(report) => report,
        // What it quotes may be long, and anything.
        Err(e) => return wrong(format!("it {}", clipped(&e.to_string()))),
    };
    check_text("the server's address", &report.address)?;
    if let Some(version) = &report.version {
        check_text("the server's version", version)?;
    }
    if let Some(failure) = &report.failure {
        check_text("a reason", &failure.why)?;
    }
    if let Some(catalog) = &report.catalog {
        check_catalog(catalog)?;
    }
    Ok(report)
}

fn check_catalog(files: &Catalog) -> io::Result<()> {
    if files.len() > MAX_FILES {
        return wrong(format!(
            "a catalog has at most {MAX_FILES} files, not {}",
            files.len()
        ));
    }
    if let Some(path) = files.keys().find(|path| !is_path(path)) {
        return wrong(format!(
            "{:?} cannot be a file of the data directory",
            clipped(&path.to_string_lossy())
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rest: &str) -> Result<Report, String> {
        let text = format!("{{\"protocol\":1,\"address\":\"db1:27017\"{rest}}}");
        read(text.as_bytes()).map_err(|e| e.to_string())
    }

    #[test]
    fn what_was_written_is_read() {
        let all = said(
            ",\"version\":\"7.0.14\",\"failure\":{\"kind\":\"no-catalog\",\"why\":\"it does not\"},\
             \"files\":{\"shop/index-8-7.wt\":\"primary\"}",
        );
        let mut catalog = Catalog::default();
        catalog.insert("shop/index-8-7.wt".into(), Class::Primary);
        let failure = Failure {
            kind: FailureKind::NoCatalog,
            why: "it does not".into(),
        };
        let wanted = Report {
            address: "db1:27017".into(),
            version: Some("7.0.14".into()),
            failure: Some(failure),
            catalog: Some(catalog),
        };
        assert_eq!(all.unwrap(), wanted);
        let none = said("").unwrap();
        assert_eq!((none.version, none.failure, none.catalog), (None, None, None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let file = |path: &str| format!(",\"files\":{{\"{path}\":\"index\"}}");
        let long = "x".repeat(MAX_TEXT + 1);
        for (text, reason) in [
            ("\"".to_owned(), "it is not understood"),
            (",\"files\":[]".into(), "it is not understood"),
            (
                ",\"files\":{\"a.wt\":\"boil\"}".into(),
                "it is not understood: unknown variant `boil`",
            ),
            (file("../../etc/passwd"), "\"../../etc/passwd\" cannot be a file"),
            (file("/etc/passwd"), "\"/etc/passwd\" cannot be a file"),
            (file(""), "\"\" cannot be a file"),
            (file("a\\u001b[31m"), "\"a[31m\" cannot be a file"),
            (file(&"x".repeat(MAX_PATH + 1)), "\"xxx"),
            (
                format!(",\"failure\":{{\"kind\":\"lost\",\"why\":\"{long}\"}}"),
                "a reason must be at most 512 printable bytes, and has 513",
            ),
            (
                ",\"failure\":{\"kind\":\"lost\",\"why\":\"a\\u001bb\"}".into(),
                "a reason must be at most 512 printable bytes",
            ),
            (
                format!(",\"version\":\"{long}\""),
                "the server's version must be at most 512 printable bytes, and has 513",
            ),
        ] {
            let said = said(&text).unwrap_err();
            assert!(said.starts_with(reason), "{said}, not {reason}");
            assert!(said.len() < 2 * MAX_TEXT, "{said}");
        }
        let said = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert_eq!(said(b"\xff\xfe"), "it is not UTF-8");
        assert!(said(b"").starts_with("it is not understood"));
        assert!(said(b"{\"protocol\":2}").starts_with("it speaks protocol 2, and 1 is understood"));
        let endless = read(io::repeat(b' ')).unwrap_err().to_string();
        assert_eq!(endless, "it is longer than 67108864 bytes");
    }

    #[test]
    fn texts_are_cut_to_what_is_taken() {
        assert_eq!(clipped("a\u{1b}[31m\nb"), "a[31mb");
        let long = clipped(&"ä".repeat(MAX_TEXT));
        assert!(long.len() == MAX_TEXT && long.chars().all(|c| c == 'ä'));
    }
}

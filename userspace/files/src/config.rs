// SPDX-License-Identifier: GPL-2.0-or-later
//! The configuration file of `dsmd`, in TOML.
//!
//! ```toml
//! [[database]]
//! device = "dsm"
//! dbpath = "/var/lib/mongodb"
//! ```

use std::collections::HashSet;
use std::fs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rules::Source;
use dm::mode::Mode;
use dm::name;
use proto::control::RUN_DIR;
use proto::feed;
use runtime::log::Format;
use runtime::sizes::Seconds;

pub const STATE_DIR: &str = "/var/lib/dsmd";
/// Pages that are to be seen to be written before they are used again, unless another number
/// is given.
pub const AUDIT_PAGES: u64 = 1000;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    #[serde(default = "text")]
    pub log_format: Format,
    #[serde(default)]
    pub verbose: bool,
    #[serde(default = "state_dir")]
    pub state_dir: PathBuf,
    #[serde(default = "run_dir")]
    pub run_dir: PathBuf,
    /// Where `dsm-mongo` writes.
    #[serde(default = "mongo_dir")]
    pub mongo_dir: PathBuf,
    #[serde(rename = "database", default)]
    pub databases: Vec<Database>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Database {
    pub device: String,
    pub dbpath: PathBuf,
    #[serde(default)]
    pub boundary: BoundaryMode,
    #[serde(default)]
    pub outgrown: Outgrown,
    /// One file or several.
    #[serde(default, deserialize_with = "one_or_more")]
    pub rules: Vec<Source>,
    #[serde(default)]
    pub refresh_seconds: Seconds,
    /// Lifetime hints on the inodes of files.
    #[serde(default)]
    pub write_hints: bool,
    /// What a checkpoint has freed is discarded.
    #[serde(
        default = "off",
        deserialize_with = "read_discard",
        serialize_with = "as_configured"
    )]
    pub discard: Mode,
    /// So many pages are to be seen to be written before they are used again, before anything
    /// is sent.
    #[serde(default = "audit_pages")]
    pub audit_pages: u64,
    /// Files get streams by themselves.
    #[serde(default)]
    pub auto: bool,
    /// T of automatic mode.
    #[serde(default = "period")]
    pub period_seconds: Seconds,
    /// Wait for the database to be made, and to come back.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// When files get their boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundaryMode {
    /// When the load phase is over.
    #[default]
    Auto,
    /// Not before `dsmctl boundary mark`.
    Manual,
    /// At once for the files that are there.
    Attach,
}

impl BoundaryMode {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
            Self::Attach => "attach",
        }
    }
}

fn off() -> Mode {
    Mode::Off
}

/// What is configured of discards.
pub fn discard(word: &str) -> Result<Mode, String> {
    match (word, Mode::from(word)) {
        ("true", _) => Ok(Mode::On),
        ("false", _) => Ok(Mode::Off),
        (_, Mode::Audit) => Ok(Mode::Audit),
        _ => Err("it must be true, false or \"audit\"".into()),
    }
}

fn as_configured<S: Serializer>(mode: &Mode, s: S) -> Result<S::Ok, S::Error> {
    match mode {
        Mode::Off => s.serialize_bool(false),
        Mode::On => s.serialize_bool(true),
        mode => mode.serialize(s),
    }
}

/// What becomes of a boundary that its file has outgrown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outgrown {
    /// It is reported.
    #[default]
    Report,
    /// It moves to the size that the file has at a checkpoint.
    Move,
}

fn read_discard<'de, D: Deserializer<'de>>(d: D) -> Result<Mode, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "it must be true, false or \"audit\"")]
    enum Given {
        Switch(bool),
        Word(String),
    }
    let word = match Given::deserialize(d)? {
        Given::Switch(on) => on.to_string(),
        Given::Word(word) if Mode::from(word.as_str()) == Mode::Audit => word,
        Given::Word(_) => String::new(),
    };
    discard(&word).map_err(serde::de::Error::custom)
}

fn audit_pages() -> u64 {
    AUDIT_PAGES
}

fn one_or_more<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Source>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a rules file, or a list of rules files")]
    enum Given {
        One(String),
        More(Vec<String>),
    }
    let given = match Given::deserialize(d)? {
        Given::One(s) => vec![s],
        Given::More(list) => list,
    };
    let parse = |s: String| s.parse().map_err(serde::de::Error::custom);
    given.into_iter().map(parse).collect()
}

fn text() -> Format {
    Format::Text
}

/// The paper's T.
pub fn period() -> Seconds {
    Seconds(Duration::from_secs(60))
}

fn yes() -> bool {
    true
}

fn state_dir() -> PathBuf {
    STATE_DIR.into()
}

fn run_dir() -> PathBuf {
    RUN_DIR.into()
}

fn mongo_dir() -> PathBuf {
    feed::RUN_DIR.into()
}

/// What serde says of `[database]`: nothing else here is a list of tables.
const ONE: &str = "invalid type: map, expected a sequence";

impl Config {
    /// One database, and defaults.
    pub fn of(database: Database) -> Self {
        Self {
            log_format: text(),
            verbose: false,
            state_dir: state_dir(),
            run_dir: run_dir(),
            mongo_dir: mongo_dir(),
            databases: vec![database],
        }
    }

    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("{shown}: cannot read it"))?;
        Self::parse(&text).map_err(|e| anyhow!("{shown}: {e}"))
    }

    /// Reads it, or returns what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let one =
            |said: String| said.replace(ONE, "write [[database]], with two brackets, before each of them");
        let config: Self = toml::from_str(text).map_err(|e| one(toml_error(text, &e)))?;
        config.check()?;
        Ok(config)
    }

    /// Returns what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.databases.is_empty() {
            return Err("it has no [[database]]".into());
        }
        let (mut devices, mut directories) = (HashSet::new(), HashSet::new());
        for d in &self.databases {
            name::check(&d.device)
                .map_err(|rule| format!("the name {:?} of a device cannot be one: {rule}", d.device))?;
            if !devices.insert(&d.device) {
                return Err(format!(
                    "the device {:?} has two databases; each needs its own",
                    d.device
                ));
            }
            if !directories.insert(&d.dbpath) {
                return Err(format!(
                    "the directory {:?} is the dbpath of two databases; each needs its own",
                    d.dbpath.display().to_string()
                ));
            }
            let rules = d.rules.iter().map(|r| &r.file);
            for p in rules.chain([&d.dbpath, &self.state_dir, &self.run_dir, &self.mongo_dir]) {
                // It is passed on, as text.
                if p.to_str().is_none() {
                    return Err(format!("the path {p:?} is not UTF-8"));
                }
                if !p.is_absolute() {
                    return Err(format!(
                        "the path {:?} does not begin with '/'",
                        p.display().to_string()
                    ));
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

/// What is wrong with a text that is not TOML, or not the TOML that it must be.
pub(crate) fn toml_error(text: &str, e: &toml::de::Error) -> String {
    let what = e.message().replace('\n', ", ");
    format!("line {}: {what}", e.span().map_or(1, |s| line_of(text, s.start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
log-format = "json"

[[database]]
device = "one"
dbpath = "/db/one"

[[database]]
device = "two"
dbpath = "/db/two"
boundary = "manual"
outgrown = "move"
rules = "/etc/two.rules"
refresh-seconds = 0.5
wait = false
discard = true
"#;

    #[test]
    fn two_databases() {
        let c = Config::parse(TWO).unwrap();
        assert_eq!(c.log_format, Format::Json);
        let [one, two] = c.databases.as_slice() else {
            panic!("{c:?}")
        };
        assert_eq!(
            (one.boundary, one.outgrown),
            (BoundaryMode::Auto, Outgrown::Report)
        );
        assert_eq!((one.wait, one.refresh_seconds), (true, Seconds::default()));
        assert_eq!((one.discard, two.discard), (Mode::Off, Mode::On));
        assert_eq!(two.audit_pages, 1000);
        for (word, discard) in [("false", Mode::Off), ("\"audit\"", Mode::Audit)] {
            let text = TWO.replace("discard = true", &format!("discard = {word}\naudit-pages = 7"));
            let c = Config::parse(&text).unwrap();
            assert_eq!((c.databases[1].discard, c.databases[1].audit_pages), (discard, 7));
        }
        assert_eq!(
            (two.boundary, two.outgrown),
            (BoundaryMode::Manual, Outgrown::Move)
        );
        assert!(one.rules.is_empty());
        assert_eq!(two.rules, ["/etc/two.rules".parse().unwrap()]);
        assert_eq!(
            (two.wait, two.refresh_seconds.0),
            (false, Duration::from_millis(500))
        );
    }

    #[test]
    fn the_example_is_right() {
        let c = Config::parse(include_str!("../../systemd/dsmd.toml")).unwrap();
        assert_eq!(c.databases.len(), 1);
    }

    #[test]
    fn errors_name_the_line() {
        for (from, to, reason) in [
            ("one\"\nd", "one\"\nx = 1\nd", "line 6: unknown field `x`"),
            (
                "\"one\"",
                "\"two\"",
                "the device \"two\" has two databases; each needs its own",
            ),
            (
                "\"one\"",
                "\"a/b\"",
                "the name \"a/b\" of a device cannot be one: it must be 1 to 80 ",
            ),
            (
                "\"/db/one\"",
                "\"db/one\"",
                "the path \"db/one\" does not begin with '/'",
            ),
            (
                "\"manual\"",
                "\"handy\"",
                "line 11: unknown variant `handy`, expected one of `auto`, `manual`, `attach`",
            ),
            (
                "0.5",
                "3601",
                "line 14: it must be a number of seconds from 0.1 to 3600",
            ),
            (
                "0.5",
                "0.0",
                "line 14: it must be a number of seconds from 0.1 to 3600",
            ),
            ("\"json\"", "\"yaml\"", "line 2: unknown variant `yaml`"),
            ("dbpath = \"/db/one\"", "", "line 4: missing field `dbpath`"),
            (
                "[[database]]",
                "[[databases]]",
                "line 4: unknown field `databases`",
            ),
            ("wait = false", "wait =", "line 15: "),
            (
                "discard = true",
                "discard = \"on\"",
                "line 16: it must be true, false or \"audit\"",
            ),
            (
                "discard = true",
                "discard = 1",
                "line 16: it must be true, false or \"audit\"",
            ),
            (
                "\"/etc/two.rules\"",
                "[\"/a.toml\", \"../x=/b.toml\"]",
                "line 13: '../x=/b.toml': it must be a file, or a directory below the dbpath, '=' and a file",
            ),
            (
                "\"/etc/two.rules\"",
                "7",
                "line 13: a rules file, or a list of rules files",
            ),
            (
                "\"/etc/two.rules\"",
                "\"pg=two.toml\"",
                "the path \"two.toml\" does not begin with '/'",
            ),
        ] {
            let said = match Config::parse(&TWO.replacen(from, to, 1)) {
                Ok(c) => panic!("{to}: {c:?}"),
                Err(said) => said,
            };
            assert!(said.starts_with(reason), "{to}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        assert_eq!(
            Config::parse("[database]\ndevice = \"a\"\ndbpath = \"/a\"\n").unwrap_err(),
            "line 1: write [[database]], with two brackets, before each of them"
        );
        assert_eq!(Config::parse("").unwrap_err(), "it has no [[database]]");
    }

    #[test]
    fn a_password_in_the_wrong_place_is_not_shown() {
        for uri in [
            "\"mongodb://dsmd:geheim@localhost/?authSource=admin\"",
            "\"geheim\"",
            "[\"geheim\"]",
            "{ geheim = 1 }",
        ] {
            let text = TWO.replacen("boundary", &format!("uri = {uri}\nboundary"), 1);
            let said = Config::parse(&text).unwrap_err();
            assert!(said.starts_with("line 11: unknown field `uri`"), "{said}");
            assert!(!said.contains("geheim"), "{said}");
        }
        // Also when it is no string of TOML.
        let said = Config::parse(&TWO.replacen("boundary", "uri = mongodb://u:geheim@x\nboundary", 1));
        assert!(!said.unwrap_err().contains("geheim"));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! `/etc/dsm/NAME.toml`: all of the device NAME.  `dsm@NAME` makes it of a drive, `dsmd@NAME`
//! serves a database on it; without one of the two keys somebody else does, or nobody.
//!
//! ```toml
//! drive = "/dev/disk/by-id/nvme-eui.0025388b71000001"
//! dbpath = "/var/lib/mongodb"
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use serde::{Deserialize, Deserializer, Serialize};
use strum::Display;
use toml::Table;

use crate::rules::Source;
use dm::mode::Mode;
use dm::{name, unit_name};
use runtime::log::Format;
use runtime::sizes::Seconds;

/// Where the files of all devices are.
pub const DIR: &str = "/etc/dsm";
const SUFFIX: &str = ".toml";
pub const STATE_DIR: &str = "/var/lib/dsmd";
/// Pages that are to be seen to be written before they are used again, unless another number
/// is given.
pub const AUDIT_PAGES: u64 = 1000;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The name of the file.
    #[serde(skip)]
    pub device: String,

    /// What it is made of: a path in /dev.
    pub drive: Option<PathBuf>,
    /// Which drive that must be.
    pub wwid: Option<String>,
    /// It is made, and served, when the system starts.
    #[serde(default = "yes")]
    pub boot: bool,
    pub start: Option<Word>,
    pub size: Option<Word>,
    pub policy: Option<Word>,
    pub groups: Option<Word>,
    pub streams: Option<Word>,
    pub discard_granularity: Option<Word>,
    pub discard_alignment: Option<Word>,
    /// Others of the target.
    #[serde(default)]
    pub features: BTreeMap<String, Word>,

    /// The data directory that is served.
    pub dbpath: Option<PathBuf>,
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
    #[serde(default = "off", deserialize_with = "read_discard")]
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
    #[serde(default)]
    pub log_format: Format,
    #[serde(default)]
    pub verbose: bool,
    #[serde(default = "state_dir")]
    pub state_dir: PathBuf,
}

/// A value as an option of the command line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "it must be a word or a number")]
        enum GivenWord {
            Word(String),
            Number(u64),
        }
        Ok(Self(match GivenWord::deserialize(d)? {
            GivenWord::Word(word) => word,
            GivenWord::Number(n) => n.to_string(),
        }))
    }
}

/// When files get their boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum BoundaryMode {
    /// When the load phase is over.
    #[default]
    Auto,
    /// Not before `dsmctl boundary mark`.
    Manual,
    /// At once for the files that are there.
    Attach,
}

fn off() -> Mode {
    Mode::Off
}

/// What becomes of a boundary that its file has outgrown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(rename_all = "lowercase")]
    enum Only {
        Audit,
    }
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "it must be true, false or \"audit\"")]
    enum GivenDiscard {
        Switch(bool),
        Word(Only),
    }
    Ok(match GivenDiscard::deserialize(d)? {
        GivenDiscard::Switch(true) => Mode::On,
        GivenDiscard::Switch(false) => Mode::Off,
        GivenDiscard::Word(Only::Audit) => Mode::Audit,
    })
}

fn audit_pages() -> u64 {
    AUDIT_PAGES
}

fn one_or_more<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Source>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a rules file, or a list of rules files")]
    enum GivenRules {
        One(String),
        More(Vec<String>),
    }
    let given = match GivenRules::deserialize(d)? {
        GivenRules::One(s) => vec![s],
        GivenRules::More(list) => list,
    };
    let parse = |s: String| s.parse().map_err(serde::de::Error::custom);
    given.into_iter().map(parse).collect()
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

/// The file of a device.
pub fn path_of(dir: &Path, device: &str) -> PathBuf {
    dir.join(format!("{device}{SUFFIX}"))
}

/// The devices that have a file, in order.
pub fn devices(dir: &Path) -> Result<Vec<String>> {
    let files = match fs::read_dir(dir) {
        Ok(files) => files,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).with_context(|| format!("{}: cannot read it", dir.display())),
    };
    let name = |file: fs::DirEntry| Some(file.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned());
    let mut names: Vec<String> = files.flatten().filter_map(name).collect();
    names.sort_unstable();
    Ok(names)
}

impl Config {
    /// The file, whose name is the device's.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_with(path, &[])
    }

    /// The same, with options `KEY=VALUE` in place of what it says; one with a dbpath needs no file.
    pub fn read_with(path: &Path, options: &[String]) -> Result<Self> {
        let shown = path.display();
        let text = match fs::read_to_string(path) {
            Err(e) if e.kind() == ErrorKind::NotFound && options.iter().any(|o| o.starts_with("dbpath=")) => {
                String::new()
            }
            text => text.with_context(|| format!("{shown}: cannot read it"))?,
        };
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let parsed = match name.strip_suffix(SUFFIX) {
            Some(name) => Self::parse_with(name, &text, options),
            None => Err(format!("its name must be that of the device, and {SUFFIX}")),
        };
        parsed.map_err(|e| anyhow!("{shown}: {e}"))
    }

    /// Reads it, or returns what is wrong.
    pub fn parse(device: &str, text: &str) -> Result<Self, String> {
        Self::parse_with(device, text, &[])
    }

    fn parse_with(device: &str, text: &str, options: &[String]) -> Result<Self, String> {
        let read = |text| toml::from_str::<Self>(text).map_err(|e| toml_error(text, &e));
        let mut all: Table = text.parse().map_err(|e| toml_error(text, &e))?;
        for option in options {
            let (key, value) = one_option(option);
            let given = Table::from_iter([(key.to_owned(), value)]);
            // Without the value, in which there may be a password.
            let wrong = |e: toml::de::Error| format!("{key}: {}", one_line(&e));
            Self::deserialize(given.clone()).map_err(wrong)?;
            all.extend(given);
        }
        // What is wrong is then the text's, which has lines.
        let wrong = |e| read(text).err().unwrap_or_else(|| one_line(&e));
        let mut config = Self::deserialize(all).map_err(wrong)?;
        config.device = device.to_owned();
        config.check()?;
        Ok(config)
    }

    /// Returns what is wrong.
    pub fn check(&self) -> Result<(), String> {
        name::check(&self.device)
            .map_err(|rule| format!("the name {:?} of a device cannot be one: {rule}", self.device))?;
        if let Some(drive) = &self.drive {
            check_drive(drive).map_err(|why| format!("drive: {:?} {why}", drive.display().to_string()))?;
        }
        let given = [
            ("wwid", self.wwid.is_some()),
            ("start", self.start.is_some()),
            ("size", self.size.is_some()),
            ("policy", self.policy.is_some()),
            ("groups", self.groups.is_some()),
            ("streams", self.streams.is_some()),
            ("discard-granularity", self.discard_granularity.is_some()),
            ("discard-alignment", self.discard_alignment.is_some()),
            ("features", !self.features.is_empty()),
        ];
        if let Some((key, _)) = given.iter().find(|(_, given)| *given && self.drive.is_none()) {
            return Err(format!(
                "{key}: this is for a device that is made here, and there is no drive"
            ));
        }
        if self.drive.is_none() && self.dbpath.is_none() {
            return Err("it has neither a drive nor a dbpath: there is nothing to do".into());
        }
        let rules = self.rules.iter().map(|r| ("rules", &r.file));
        let paths = rules.chain([("state-dir", &self.state_dir)]);
        for (key, path) in paths.chain(self.dbpath.iter().map(|p| ("dbpath", p))) {
            if !path.is_absolute() {
                let path = path.display().to_string();
                return Err(format!("{key}: the path {path:?} does not begin with '/'"));
            }
        }
        Ok(())
    }
}

/// The drive is a path that a unit can be named by.
fn check_drive(path: &Path) -> Result<(), String> {
    if !path.starts_with("/dev/") || path.components().any(|c| c == std::path::Component::ParentDir) {
        return Err("must be a path in /dev, such as /dev/disk/by-id/...".into());
    }
    if path.starts_with("/dev/disk/by-uuid") || path.starts_with("/dev/disk/by-label") {
        return Err("is a file system's, which the dsm device shows as well".into());
    }
    match unit_name::device(path).len() {
        n if n > unit_name::LONGEST => Err(format!(
            "is too long: the name of its unit has {n} characters, at most {} are allowed",
            unit_name::LONGEST
        )),
        _ => Ok(()),
    }
}

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

/// What is wrong with a text that is not TOML, or not the TOML that it must be.
pub(crate) fn toml_error(text: &str, e: &toml::de::Error) -> String {
    let line = e.span().map_or(1, |s| line_of(text, s.start));
    format!("line {line}: {}", one_line(e))
}

fn one_line(e: &toml::de::Error) -> String {
    e.message().replace('\n', ", ")
}

/// `KEY=VALUE`, where the quotes of a word may be left out; a key alone is true.
fn one_option(option: &str) -> (&str, toml::Value) {
    let (key, value) = option.split_once('=').unwrap_or((option, "true"));
    let mut read: Table = format!("value = {value}").parse().unwrap_or_default();
    let value = read.remove("value").unwrap_or_else(|| value.into());
    (key, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = r#"drive = "/dev/disk/by-id/nvme-x"
wwid = "eui.01"
groups = 3
start = "1MiB"
features = { prediction = "off", threshold2 = 5 }
dbpath = "/db/one"
boundary = "manual"
outgrown = "move"
rules = "/etc/one.rules"
refresh-seconds = 0.5
wait = false
discard = true
log-format = "json"
"#;

    fn word(text: &str) -> Option<Word> {
        Some(Word(text.to_owned()))
    }

    #[test]
    fn all_of_a_device() {
        let c = Config::parse("one", ALL).unwrap();
        assert_eq!((c.device.as_str(), c.log_format), ("one", Format::Json));
        assert_eq!((c.groups, c.start, c.size), (word("3"), word("1MiB"), None));
        assert_eq!(c.features["threshold2"], Word("5".into()));
        assert_eq!((c.boundary, c.outgrown), (BoundaryMode::Manual, Outgrown::Move));
        assert_eq!(c.rules, ["/etc/one.rules".parse().unwrap()]);
        assert_eq!((c.wait, c.refresh_seconds.0), (false, Duration::from_millis(500)));
        assert_eq!((c.discard, c.audit_pages, c.boot), (Mode::On, 1000, true));
        for (word, discard) in [("false", Mode::Off), ("\"audit\"", Mode::Audit)] {
            let text = ALL.replace("discard = true", &format!("discard = {word}\naudit-pages = 7"));
            let c = Config::parse("one", &text).unwrap();
            assert_eq!((c.discard, c.audit_pages), (discard, 7));
        }
        let c = Config::parse("two", "dbpath = '/db/two'").unwrap();
        assert_eq!((c.boundary, c.outgrown), (BoundaryMode::Auto, Outgrown::Report));
        assert_eq!((c.wait, c.discard), (true, Mode::Off));
        assert!(c.rules.is_empty() && c.drive.is_none());
    }

    #[test]
    fn the_example_is_right() {
        let text = include_str!("../../systemd/device.toml");
        let c = Config::parse("mongo", text).unwrap();
        assert!(c.drive.is_some() && c.dbpath.is_some());
        // Also what is not a remark.
        let all: Vec<String> = text
            .lines()
            .map(|l| {
                l.strip_prefix('#')
                    .filter(|l| !l.starts_with(' '))
                    .unwrap_or(l)
                    .to_owned()
            })
            .collect();
        Config::parse("mongo", &all.join("\n")).unwrap();
    }

    #[test]
    fn files_are_devices() {
        let dir = tempfile::tempdir().unwrap();
        assert!(devices(&dir.path().join("none")).unwrap().is_empty());
        for name in ["b.toml", "a-1.toml", "c.toml~", "d.rules"] {
            fs::write(dir.path().join(name), "dbpath = '/d'").unwrap();
        }
        assert_eq!(devices(dir.path()).unwrap(), ["a-1", "b"]);
        assert_eq!(Config::read(&path_of(dir.path(), "a-1")).unwrap().device, "a-1");
        let said = Config::read(&dir.path().join("d.rules")).unwrap_err().to_string();
        assert!(
            said.ends_with("d.rules: its name must be that of the device, and .toml"),
            "{said}"
        );
    }

    #[test]
    fn errors_name_the_key() {
        for (from, to, reason) in [
            ("wwid", "x = 1\nwwid", "line 2: unknown field `x`"),
            (
                "groups = 3",
                "groups = true",
                "line 3: it must be a word or a number",
            ),
            ("groups = 3", "[[database]]", "line 3: "),
            (
                "\"/db/one\"",
                "\"db/one\"",
                "dbpath: the path \"db/one\" does not begin with '/'",
            ),
            (
                "\"manual\"",
                "\"handy\"",
                "line 7: unknown variant `handy`, expected one of `auto`, `manual`, `attach`",
            ),
            (
                "0.5",
                "3601",
                "line 10: it must be a number of seconds from 0.1 to 3600",
            ),
            (
                "0.5",
                "0.0",
                "line 10: it must be a number of seconds from 0.1 to 3600",
            ),
            ("\"json\"", "\"yaml\"", "line 13: unknown variant `yaml`"),
            ("wait = false", "wait =", "line 11: "),
            (
                "discard = true",
                "discard = \"on\"",
                "line 12: it must be true, false or \"audit\"",
            ),
            (
                "discard = true",
                "discard = 1",
                "line 12: it must be true, false or \"audit\"",
            ),
            (
                "\"/etc/one.rules\"",
                "[\"/a.toml\", \"../x=/b.toml\"]",
                "line 9: '../x=/b.toml': it must be a file, or a directory below the dbpath, '=' and a file",
            ),
            (
                "\"/etc/one.rules\"",
                "7",
                "line 9: a rules file, or a list of rules files",
            ),
            (
                "\"/etc/one.rules\"",
                "\"pg=two.toml\"",
                "rules: the path \"two.toml\" does not begin with '/'",
            ),
            (
                "/dev/disk/by-id/",
                "/mnt/",
                "drive: \"/mnt/nvme-x\" must be a path in /dev",
            ),
            (
                "/by-id/",
                "/../",
                "drive: \"/dev/disk/../nvme-x\" must be a path in /dev",
            ),
            (
                "/by-id/",
                "/by-label/",
                "drive: \"/dev/disk/by-label/nvme-x\" is a file system's",
            ),
            ("nvme-x", &"x".repeat(240), "drive: \"/dev/disk/by-id/xxxx"),
            (
                "drive = \"/dev/disk/by-id/nvme-x\"",
                "",
                "wwid: this is for a device that is made here",
            ),
        ] {
            let text = ALL.replacen(from, to, 1);
            let said = match Config::parse("one", &text) {
                Ok(c) => panic!("{to}: {c:?}"),
                Err(said) => said,
            };
            assert!(said.starts_with(reason), "{to}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        let said = Config::parse("a/b", ALL).unwrap_err();
        assert!(said.starts_with("the name \"a/b\" of a device cannot be one: it must be 1 to 80 "));
        assert_eq!(
            Config::parse("one", "").unwrap_err(),
            "it has neither a drive nor a dbpath: there is nothing to do"
        );
    }

    #[test]
    fn a_password_in_the_wrong_place_is_not_shown() {
        for uri in [
            "\"mongodb://dsmd:geheim@localhost/?authSource=admin\"",
            "\"geheim\"",
            "[\"geheim\"]",
            "{ geheim = 1 }",
        ] {
            let text = ALL.replacen("boundary", &format!("uri = {uri}\nboundary"), 1);
            let said = Config::parse("one", &text).unwrap_err();
            assert!(said.starts_with("line 7: unknown field `uri`"), "{said}");
            assert!(!said.contains("geheim"), "{said}");
        }
        // Also when it is no string of TOML.
        let said = Config::parse(
            "one",
            &ALL.replacen("boundary", "uri = mongodb://u:geheim@x\nboundary", 1),
        );
        assert!(!said.unwrap_err().contains("geheim"));
    }
}

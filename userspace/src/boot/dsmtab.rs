// SPDX-License-Identifier: GPL-2.0-or-later
//! `/etc/dsmtab`: the dsm devices that are made when the system starts.
//!
//! A line is a name, the device below, and options of `dsmctl create` with commas
//! between them.  A line that is wrong takes no other one along.
//!
//! ```text
//! dsm  /dev/disk/by-id/nvme-Example_1TB_0001  policy=dsm,groups=4
//! ```

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use crate::cli::dsmctl::Create;
pub use crate::cli::dsmctl::TAB;

/// The one option that is not for `dsmctl create`: not when the system starts.
const NOAUTO: &str = "noauto";

/// A line as `dsmctl create` would be called: one truth about the options.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    create: Create,
}

#[derive(Debug)]
pub struct Entry {
    pub create: Create,
    pub noauto: bool,
}

/// A line that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Bad {
    pub line: usize,
    pub name: String,
    pub what: String,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

#[derive(Debug, Default)]
pub struct Tab {
    pub entries: Vec<Entry>,
    pub bad: Vec<Bad>,
}

impl Tab {
    /// The table at `path`.  One that is not there is empty.
    pub fn read(path: &Path) -> Result<Self> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Self::parse(&String::from_utf8_lossy(&bytes))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(e).with_context(|| format!("{}: cannot read it", path.display())),
        }
    }

    pub fn parse(text: &str) -> Self {
        let mut tab = Self::default();
        let mut names = HashSet::new();
        for (n, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let Some(name) = fields.first().filter(|f| !f.starts_with('#')) else {
                continue;
            };
            let parsed = if names.insert((*name).to_owned()) {
                entry(&fields)
            } else {
                Err(format!("there is a line for the device {name} above"))
            };
            match parsed {
                Ok(entry) => tab.entries.push(entry),
                Err(what) => tab.bad.push(Bad {
                    line: n + 1,
                    name: (*name).to_owned(),
                    what,
                }),
            }
        }
        tab
    }

    pub fn find(&self, name: &str) -> Option<Result<&Entry, &Bad>> {
        let good = self.entries.iter().find(|e| e.create.name == name).map(Ok);
        good.or_else(|| self.bad.iter().find(|b| b.name == name).map(Err))
    }
}

fn entry(fields: &[&str]) -> Result<Entry, String> {
    let (name, dev, options) = match *fields {
        [name, dev] => (name, dev, ""),
        [name, dev, options] => (name, dev, options),
        [name] => return Err(format!("the device below {name} is missing")),
        _ => {
            return Err(format!(
                "{} words, it must be a name, the device below, and options with commas between them",
                fields.len()
            ))
        }
    };
    check_name(name)?;
    let dev = device(dev)?;
    let mut words = vec![name.to_owned(), dev.display().to_string()];
    let mut seen = HashSet::new();
    let mut noauto = false;
    for option in options.split(',').filter(|o| !o.is_empty()) {
        let key = option.split_once('=').map_or(option, |(key, _)| key);
        if !seen.insert(key) {
            return Err(format!("the option {key} is given twice"));
        }
        if option == NOAUTO {
            noauto = true;
        } else {
            words.push(word(option, key)?);
        }
    }
    match Words::try_parse_from(words) {
        Ok(Words { create }) => Ok(Entry { create, noauto }),
        Err(e) => Err(sentence(&e)),
    }
}

/// As systemd and udev take names without escaping the file system's sense of them.
fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c);
    if name.len() > 127 || name == "control" || name.starts_with('.') || !name.chars().all(good) {
        return Err(format!(
            "the name {name:?} cannot be one: at most 127 letters, digits and #+-.:=@_, not . first"
        ));
    }
    Ok(())
}

/// The device below: a path, or what udev makes one for.
fn device(dev: &str) -> Result<PathBuf, String> {
    for (tag, dir) in [("PARTUUID=", "by-partuuid"), ("PARTLABEL=", "by-partlabel")] {
        if let Some(value) = dev
            .strip_prefix(tag)
            .filter(|v| !v.is_empty() && !v.contains('/'))
        {
            return Ok(Path::new("/dev/disk").join(dir).join(value));
        }
    }
    if dev.starts_with("UUID=") || dev.starts_with("LABEL=") {
        return Err(format!(
            "{dev} is a file system's, which the dsm device shows as well; \
             it must be a path such as /dev/disk/by-id/..., PARTUUID= or PARTLABEL="
        ));
    }
    if !dev.starts_with("/dev/") || dev.split('/').any(|part| part == "..") {
        return Err(format!(
            "the device below is {dev:?}, it must be a path in /dev, PARTUUID= or PARTLABEL="
        ));
    }
    Ok(dev.into())
}

/// An option as a word of the command line.
fn word(option: &str, key: &str) -> Result<String, String> {
    let long = key.replace('_', "-");
    let command = Words::command();
    let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    if !known.contains(&long.as_str()) {
        let known = known.join(", ");
        return Err(format!("the option {key:?} is none of {known}, {NOAUTO}"));
    }
    match option.split_once('=') {
        Some((_, value)) if !value.is_empty() => Ok(format!("--{long}={value}")),
        _ => Err(format!("the option {key} has no value, it must be {key}=VALUE")),
    }
}

/// What clap says, without the usage that goes with a command line.
fn sentence(e: &clap::Error) -> String {
    let text = |kind| match e.get(kind) {
        Some(ContextValue::String(s)) => Some(s.clone()),
        Some(ContextValue::Strings(s)) => Some(s.join(", ")),
        _ => None,
    };
    let (arg, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let reason = std::error::Error::source(e).map(|s| format!("{s}"));
    let allowed = text(ContextKind::ValidValue).map(|v| format!("it must be one of {v}"));
    match (arg, value, reason.or(allowed)) {
        (Some(arg), Some(value), Some(why)) => {
            let key = arg.trim_start_matches('-').split(' ').next().unwrap_or_default();
            format!("{key}={value}: {why}")
        }
        _ => e.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::dsmctl::Streams;

    fn refusal(line: &str) -> String {
        let mut tab = Tab::parse(line);
        assert!(tab.entries.is_empty(), "{line}: {tab:?}");
        tab.bad.remove(0).what
    }

    #[test]
    fn the_example_is_right() {
        let tab = Tab::parse(include_str!("../../systemd/dsmtab"));
        assert!(tab.entries.is_empty() && tab.bad.is_empty());
        let example = include_str!("../../systemd/dsmtab").lines().last().unwrap();
        assert_eq!(Tab::parse(example.trim_start_matches('#')).entries.len(), 1);
    }

    #[test]
    fn options_are_those_of_create() {
        let tab = Tab::parse(
            "# name device options\n\n \
             a /dev/x\n\
             b PARTUUID=d5a00001-01 policy=boundary,groups=4,primary_filter=off,threshold2=0.05,streams=7,noauto\n",
        );
        assert_eq!(tab.bad, []);
        let [a, b] = tab.entries.as_slice() else {
            panic!("{tab:?}")
        };
        assert_eq!((a.create.name.as_str(), a.noauto), ("a", false));
        assert_eq!(a.create.dev, Path::new("/dev/x"));
        assert_eq!(b.create.dev, Path::new("/dev/disk/by-partuuid/d5a00001-01"));
        let c = &b.create.features;
        assert!(b.noauto);
        assert_eq!((c.groups, c.threshold2), (Some(4), Some(5)));
        assert_eq!(
            (c.streams, c.primary_filter.as_deref()),
            (Streams::Number(7), Some("off"))
        );
    }

    #[test]
    fn a_bad_line_takes_no_other_along() {
        let tab = Tab::parse("a /dev/x\nb /dev/y groups=17\na /dev/z\nc /dev/z\n");
        let names: Vec<&str> = tab.entries.iter().map(|e| e.create.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(
            tab.bad.iter().map(Bad::to_string).collect::<Vec<_>>(),
            [
                "line 2: groups=17: 17 is not in 2..=16",
                "line 3: there is a line for the device a above"
            ]
        );
        assert!(tab.find("a").unwrap().is_ok());
        assert_eq!(tab.find("b").unwrap().unwrap_err().line, 2);
        assert!(tab.find("d").is_none());
    }

    #[test]
    fn refusals() {
        for (line, wanted) in [
            ("a", "the device below a is missing"),
            ("a b c d", "4 words, it must be a name, "),
            ("a/b /dev/x", "the name \"a/b\" cannot be one"),
            ("control /dev/x", "the name \"control\" cannot be one"),
            (".a /dev/x", "the name \".a\" cannot be one"),
            ("a nvme0n1", "the device below is \"nvme0n1\", it must be"),
            ("a /dev/../etc/passwd", "the device below is"),
            ("a UUID=1-2", "UUID=1-2 is a file system's"),
            ("a LABEL=db", "LABEL=db is a file system's"),
            ("a PARTUUID=", "the device below is"),
            ("a /dev/x colour=red", "the option \"colour\" is none of policy, "),
            ("a /dev/x help", "the option \"help\" is none of"),
            ("a /dev/x groups", "the option groups has no value"),
            ("a /dev/x groups=", "the option groups has no value"),
            ("a /dev/x noauto=1", "the option \"noauto\" is none of"),
            ("a /dev/x groups=3,groups=4", "the option groups is given twice"),
            ("a /dev/x noauto,noauto", "the option noauto is given twice"),
            (
                "a /dev/x policy=best",
                "policy=best: it must be one of none, file, boundary, dsm",
            ),
            ("a /dev/x alpha=x", "alpha=x: invalid digit found in string"),
            ("a /dev/x streams=256", "streams=256: it must be auto or a number"),
            (
                "a /dev/x threshold1=ten",
                "threshold1=ten: 'ten': it must be a percentage",
            ),
        ] {
            let said = refusal(line);
            assert!(said.starts_with(wanted), "{line}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    #[test]
    fn bytes_that_are_no_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tab");
        std::fs::write(&path, b"a /dev/x\n\xff\xfe /dev/y\n").unwrap();
        let tab = Tab::read(&path).unwrap();
        assert_eq!((tab.entries.len(), tab.bad.len()), (1, 1));
        assert!(Tab::read(&dir.path().join("none")).unwrap().entries.is_empty());
        assert!(Tab::read(dir.path()).is_err());
    }
}

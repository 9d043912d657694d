// SPDX-License-Identifier: GPL-2.0-or-later
//! `/etc/dsmtab`: the dsm devices that are made when the system starts.
//!
//! A line is a name, the underlying device, and options of `dsmctl create` with commas
//! between them.  A line that is wrong takes no other one along.
//!
//! ```text
//! dsm  /dev/disk/by-id/nvme-eui.0025388b71000001  policy=dsm,groups=4
//! ```

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::name;
use crate::unit_name;

/// See dsmtab(5).
pub const TAB: &str = "/etc/dsmtab";

/// The one option that is not for `dsmctl create`: not when the system starts.
pub const NOAUTO: &str = "noauto";

/// A line whose form is right.
#[derive(Debug)]
pub struct TabLine {
    pub name: String,
    /// A path in /dev.
    pub dev: PathBuf,
    /// No key is there twice; what they mean is not looked at.
    pub options: Vec<String>,
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

/// What became of the lines.
#[derive(Debug)]
pub struct Tab<T> {
    pub entries: Vec<T>,
    pub bad: Vec<Bad>,
}

impl<T> Tab<T> {
    /// The table at `path`, with what `make` makes of a line, or says is wrong with it.
    /// One that is not there is empty.
    pub fn read(path: &Path, make: impl Fn(TabLine) -> Result<T, String>) -> Result<Self> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Self::parse(&String::from_utf8_lossy(&bytes), make)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::parse("", make)),
            Err(e) => Err(e).with_context(|| format!("{}: cannot read it", path.display())),
        }
    }

    pub fn parse(text: &str, make: impl Fn(TabLine) -> Result<T, String>) -> Self {
        let (mut entries, mut bad) = (Vec::new(), Vec::new());
        let mut names = HashSet::new();
        for (n, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let Some(name) = fields.first().filter(|f| !f.starts_with('#')) else {
                continue;
            };
            let parsed = if names.insert((*name).to_owned()) {
                form(&fields).and_then(&make)
            } else {
                Err(format!("there is a line for the device {name} above"))
            };
            match parsed {
                Ok(entry) => entries.push(entry),
                Err(what) => bad.push(Bad {
                    line: n + 1,
                    name: (*name).to_owned(),
                    what,
                }),
            }
        }
        Self { entries, bad }
    }
}

fn form(fields: &[&str]) -> Result<TabLine, String> {
    let (name, dev, options) = match *fields {
        [name, dev] => (name, dev, ""),
        [name, dev, options] => (name, dev, options),
        [name] => return Err(format!("{name}: the underlying device is missing")),
        _ => {
            return Err(format!(
                "{} words, it must be a name, the underlying device, and options with commas between them",
                fields.len()
            ))
        }
    };
    name::check(name).map_err(|rule| format!("the name {name:?} cannot be one: {rule}"))?;
    let mut line = TabLine {
        name: name.to_owned(),
        dev: device(dev)?,
        options: Vec::new(),
        noauto: false,
    };
    let mut seen = HashSet::new();
    for option in options.split(',').filter(|o| !o.is_empty()) {
        // The key of feature=NAME=VALUE is feature=NAME.
        let key = option.rsplit_once('=').map_or(option, |(key, _)| key);
        if !seen.insert(key) {
            return Err(format!("the option {key} is given twice"));
        }
        if option == NOAUTO {
            line.noauto = true;
        } else {
            line.options.push(option.to_owned());
        }
    }
    Ok(line)
}

/// What stands before the `=` of an option.
pub fn key(option: &str) -> &str {
    option.split_once('=').map_or(option, |(key, _)| key)
}

/// The underlying device: a path, or what udev makes one for.
fn device(dev: &str) -> Result<PathBuf, String> {
    if dev.starts_with("UUID=") || dev.starts_with("LABEL=") {
        return Err(format!(
            "{dev} is a file system's, which the dsm device shows as well; \
             it must be a path such as /dev/disk/by-id/..., PARTUUID= or PARTLABEL="
        ));
    }
    let tagged = [("PARTUUID=", "by-partuuid"), ("PARTLABEL=", "by-partlabel")]
        .iter()
        .find_map(|(tag, dir)| Some((dir, dev.strip_prefix(tag)?)));
    let path = match tagged {
        Some((dir, value)) if !value.is_empty() && !value.contains('/') => format!("/dev/disk/{dir}/{value}"),
        _ => dev.to_owned(),
    };
    if !path.starts_with("/dev/") || path.split('/').any(|part| part == "..") {
        return Err(format!(
            "underlying device {dev:?}: it must be a path in /dev, PARTUUID= or PARTLABEL="
        ));
    }
    if let Some(escape) = foreign_escape(&path) {
        return Err(format!(
            "underlying device {dev:?}: {escape} is how fstab writes a character, and not how udev names it: \
             a space is \\x20 there"
        ));
    }
    let path = PathBuf::from(path);
    let unit = unit_name::device(&path).len();
    if unit > unit_name::LONGEST {
        return Err(format!(
            "underlying device {dev:?}: the name of its unit has {unit} characters, at most {} are allowed",
            unit_name::LONGEST
        ));
    }
    Ok(path)
}

/// A backslash that is not udev's `\x20`, with what follows: no device can have the name.
fn foreign_escape(path: &str) -> Option<&str> {
    let parts = path.match_indices('\\').map(|(at, _)| &path[at..]);
    let udev = |rest: &&str| {
        let hex = rest.strip_prefix("\\x").and_then(|r| r.get(..2));
        hex.is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let mut foreign = parts.filter(|rest| !udev(rest));
    foreign.next().map(|rest| rest.get(..4).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Tab<TabLine> {
        Tab::parse(text, Ok)
    }

    #[test]
    fn the_example_is_right() {
        let example = include_str!("../../systemd/dsmtab");
        let tab = parse(example);
        assert!(tab.entries.is_empty() && tab.bad.is_empty());
        let last = example.lines().last().unwrap();
        assert_eq!(parse(last.trim_start_matches('#')).entries.len(), 1);
    }

    #[test]
    fn lines() {
        let tab = parse(
            "# name device options\n\n \
             a /dev/x\n\
             b PARTUUID=d5a00001-01 groups=4,noauto,,policy=dsm\n",
        );
        assert_eq!(tab.bad, []);
        let [a, b] = tab.entries.as_slice() else {
            panic!("{tab:?}")
        };
        assert_eq!((a.name.as_str(), a.noauto), ("a", false));
        assert_eq!((a.dev.as_path(), a.options.len()), (Path::new("/dev/x"), 0));
        assert_eq!(b.dev, Path::new("/dev/disk/by-partuuid/d5a00001-01"));
        assert!(b.noauto);
        assert_eq!(b.options, ["groups=4", "policy=dsm"]);
    }

    #[test]
    fn escapes_of_fstab_are_refused() {
        let said = |dev: &str| parse(&format!("a {dev}\n")).bad.pop().map(|b| b.what);
        assert_eq!(
            said("PARTLABEL=my\\040data").unwrap(),
            "underlying device \"PARTLABEL=my\\\\040data\": \\040 is how fstab writes a character, and not how udev \
             names it: a space is \\x20 there"
        );
        assert!(said("/dev/disk/by-id/a\\").unwrap().contains(": \\ is how fstab"));
        assert_eq!(said("/dev/disk/by-partlabel/my\\x20data"), None);
    }

    #[test]
    fn a_bad_line_takes_no_other_along() {
        let text = "a /dev/x\nb /dev/y bad\na /dev/z\nc /dev/z\n";
        let tab = Tab::parse(text, |line| match line.options.first() {
            Some(option) => Err(format!("{option} is not wanted")),
            None => Ok(line.name),
        });
        assert_eq!(tab.entries, ["a", "c"]);
        assert_eq!(
            tab.bad.iter().map(Bad::to_string).collect::<Vec<_>>(),
            [
                "line 2: bad is not wanted",
                "line 3: there is a line for the device a above"
            ]
        );
        assert_eq!(tab.bad[1].name, "a");
    }

    #[test]
    fn refusals() {
        for (line, wanted) in [
            ("a", "a: the underlying device is missing"),
            ("a b c d", "4 words, it must be a name, "),
            ("a/b /dev/x", "the name \"a/b\" cannot be one"),
            ("control /dev/x", "the name \"control\" cannot be one"),
            (".a /dev/x", "the name \".a\" cannot be one"),
            ("a nvme0n1", "underlying device \"nvme0n1\": it must be"),
            ("a /dev/../etc/passwd", "underlying device"),
            ("a UUID=1-2", "UUID=1-2 is a file system's"),
            ("a LABEL=db", "LABEL=db is a file system's"),
            ("a PARTUUID=", "underlying device"),
            ("a PARTLABEL=..", "underlying device \"PARTLABEL=..\": it must be"),
            ("-x /dev/x", "the name \"-x\" cannot be one: it must be 1 to 80 "),
            ("--check /dev/x", "the name \"--check\" cannot be one"),
            (&format!("a{} /dev/x", "-".repeat(80)), "the name \"a---"),
            (
                &format!("a /dev/mapper/{}", "-".repeat(60)),
                &format!(
                    "underlying device \"/dev/mapper/{}\": the name of its unit has 258 characters, at most 255",
                    "-".repeat(60)
                ),
            ),
            ("a /dev/x groups=3,groups=4", "the option groups is given twice"),
            ("a /dev/x noauto,noauto", "the option noauto is given twice"),
        ] {
            let mut tab = parse(line);
            assert!(tab.entries.is_empty(), "{line}: {tab:?}");
            let said = tab.bad.remove(0).what;
            assert!(said.starts_with(wanted), "{line}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    #[test]
    fn bytes_that_are_no_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tab");
        std::fs::write(&path, b"a /dev/x\n\xff\xfe /dev/y\n").unwrap();
        let tab = Tab::read(&path, Ok).unwrap();
        assert_eq!((tab.entries.len(), tab.bad.len()), (1, 1));
        assert!(Tab::read(&dir.path().join("none"), Ok)
            .unwrap()
            .entries
            .is_empty());
        assert!(Tab::read(dir.path(), Ok).is_err());
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Where rules are read from: one file or several, and when they changed.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use anyhow::{anyhow, Context, Result};
use serde::{Deserialize, Deserializer};

use super::Rules;

/// A rules file, and the directory that its patterns are for: `[BELOW=]FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Empty, or relative to the dbpath.
    pub below: PathBuf,
    pub file: PathBuf,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (below, file) = match s.split_once('=') {
            Some((below, file)) if !below.starts_with('/') => (below, file),
            _ => ("", s),
        };
        let below = Path::new(below);
        if file.is_empty() || below.components().any(|c| !matches!(c, Component::Normal(_))) {
            return Err(format!(
                "'{s}': it must be a file, or a directory below the dbpath, '=' and a file"
            ));
        }
        Ok(Self {
            below: below.to_owned(),
            file: file.into(),
        })
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Rules {
    /// Reads all of the files, or returns what is wrong with one.
    pub fn read(sources: &[Source]) -> Result<Self> {
        let mut rules = Self::default();
        for s in sources {
            let shown = s.file.display();
            let text =
                std::fs::read_to_string(&s.file).with_context(|| format!("{shown}: cannot read it"))?;
            let below = s
                .below
                .to_str()
                .ok_or_else(|| anyhow!("{shown}: its directory's name is not UTF-8"))?;
            let below = match below.trim_end_matches('/') {
                "" => String::new(),
                b => format!("{b}/"),
            };
            let from = format!("{shown}: ");
            let added = if s.file.extension().is_some_and(|e| e == "toml") {
                rules.add_objects(&text, &from, &below)
            } else {
                rules.add_lines(&text, &from, &below)
            };
            added.map_err(|e| anyhow!(e))?;
        }
        Ok(rules)
    }
}

/// Inode number, size and change time of a file.
type Look = Option<(u64, u64, i64, i64)>;

/// Rules files, and what they were like when they were read.
pub struct RulesFiles {
    sources: Vec<Source>,
    read: Vec<Look>,
}

impl RulesFiles {
    pub fn open(sources: &[Source]) -> Result<(Self, Rules)> {
        let files = Self {
            sources: sources.to_vec(),
            read: Self::look(sources),
        };
        Ok((files, Rules::read(sources)?))
    }

    fn look(sources: &[Source]) -> Vec<Look> {
        let look = |s: &Source| {
            let m = std::fs::metadata(&s.file).ok()?;
            Some((m.ino(), m.size(), m.ctime(), m.ctime_nsec()))
        };
        sources.iter().map(look).collect()
    }

    /// The rules, if a file is another one than when it was read.
    pub fn changed(&mut self) -> Option<Result<Rules>> {
        let now = Self::look(&self.sources);
        (std::mem::replace(&mut self.read, now) != self.read).then(|| Rules::read(&self.sources))
    }

    /// The rules as they are now.
    pub fn again(&mut self) -> Result<Rules> {
        self.read = Self::look(&self.sources);
        Rules::read(&self.sources)
    }
}

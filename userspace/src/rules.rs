// SPDX-License-Identifier: GPL-2.0-only
//! Which class a file is of: by the user's rules, then by MongoDB's names.
//!
//! A rules file has a pattern and a class on each line; the first pattern that
//! matches counts.  Patterns are those of shells, for paths below the dbpath: `*`
//! and `?` do not match a `/`, `**` stands for any directories.  Empty lines,
//! and lines that begin with `#`, say nothing.
//!
//! ```text
//! # SecantusDB
//! secantus_oplog.wt        oplog
//! secantus_documents_*.wt  collection
//! secantus_index_*.wt      index
//! ```

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, Context, Result};
use glob::{MatchOptions, Pattern};

use crate::class::Class;
use crate::ident;

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

#[derive(Clone, Debug, Default)]
pub struct Rules {
    list: Vec<(Pattern, Class)>,
}

impl Rules {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut list = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let rule = rule(line).map_err(|e| format!("line {}: {e}", n + 1))?;
            list.push(rule);
        }
        Ok(Self { list })
    }

    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("{shown}: cannot read it"))?;
        Self::parse(&text).map_err(|e| anyhow!("{shown}: {e}"))
    }

    /// The class of the file at `path`, relative to the dbpath.
    pub fn classify(&self, path: &Path) -> Class {
        let by_rule = self.list.iter().find(|(p, _)| p.matches_path_with(path, OPTIONS));
        by_rule.map_or_else(|| ident::classify(path), |(_, class)| *class)
    }
}

/// A rules file, and what it was like when it was read.
pub struct RulesFile {
    path: PathBuf,
    /// Inode number, size and change time.
    read: Option<(u64, u64, i64, i64)>,
}

impl RulesFile {
    pub fn open(path: &Path) -> Result<(Self, Rules)> {
        let file = Self {
            path: path.to_owned(),
            read: Self::look(path),
        };
        Ok((file, Rules::read(path)?))
    }

    fn look(path: &Path) -> Option<(u64, u64, i64, i64)> {
        let m = std::fs::metadata(path).ok()?;
        Some((m.ino(), m.size(), m.ctime(), m.ctime_nsec()))
    }

    /// The rules, if the file is another one than when it was read.
    pub fn changed(&mut self) -> Option<Result<Rules>> {
        let now = Self::look(&self.path);
        (std::mem::replace(&mut self.read, now) != now).then(|| Rules::read(&self.path))
    }
}

fn rule(line: &str) -> Result<(Pattern, Class), String> {
    let (pattern, class) = line
        .rsplit_once(char::is_whitespace)
        .ok_or_else(|| format!("'{line}': a pattern and a class are needed"))?;
    let class = class.parse().map_err(|e| format!("{e}"))?;
    let pattern = pattern.trim_end();
    if pattern.starts_with('/') || Path::new(pattern).components().any(|c| c.as_os_str() == "..") {
        return Err(format!(
            "'{pattern}': patterns are for paths below the dbpath, without '/' before them and without '..'"
        ));
    }
    let pattern = Pattern::new(pattern).map_err(|e| {
        format!(
            "'{pattern}': it is not a pattern: {} at character {}",
            e.msg,
            e.pos + 1
        )
    })?;
    Ok((pattern, class))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECANTUS: &str = "\
        # SecantusDB\n\
        secantus_oplog.wt oplog\n\
        \n\
        secantus_documents_*.wt\tcollection\r\n\
        \u{20} secantus_index_*.wt   index\n\
        **/a b.wt primary\n\
        secantus_*.wt other\n";

    #[test]
    fn the_first_rule_counts() {
        let rules = Rules::parse(SECANTUS).unwrap();
        for (path, class) in [
            ("secantus_oplog.wt", Class::Oplog),
            ("secantus_documents_sh14.wt", Class::Collection),
            ("secantus_index_entries.wt", Class::Index),
            ("secantus_users.wt", Class::Other),
            ("secantus_documents_a/b.wt", Class::Other),
            ("x/secantus_oplog.wt", Class::Other),
            ("a b.wt", Class::Primary),
            ("x/y/a b.wt", Class::Primary),
            // MongoDB's own names are known without a rule.
            ("collection-7-42.wt", Class::Collection),
            ("WiredTigerLog.0000000001", Class::Journal),
        ] {
            assert_eq!(rules.classify(Path::new(path)), class, "{path}");
        }
        let first = Rules::parse("* other\nindex-* index").unwrap();
        assert_eq!(first.classify(Path::new("index-7-42.wt")), Class::Other);
    }

    #[test]
    fn a_file_is_read_again_when_it_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        std::fs::write(&path, "a.wt index\n").unwrap();
        let (mut file, rules) = RulesFile::open(&path).unwrap();
        assert_eq!(rules.classify(Path::new("a.wt")), Class::Index);
        assert!(file.changed().is_none());
        std::fs::write(&path, "a.wt primary\n").unwrap();
        let rules = file.changed().unwrap().unwrap();
        assert_eq!(rules.classify(Path::new("a.wt")), Class::Primary);
        std::fs::write(&path, "a.wt x\n").unwrap();
        let said = file.changed().unwrap().unwrap_err().to_string();
        assert!(said.contains("line 1: class 'x'"), "{said}");
        assert!(file.changed().is_none(), "it is told once");
        std::fs::remove_file(&path).unwrap();
        assert!(file.changed().unwrap().is_err());
        assert!(file.changed().is_none());
    }

    #[test]
    fn errors_name_the_line() {
        for (text, sentence) in [
            ("a.wt", "line 1: 'a.wt': a pattern and a class are needed"),
            (
                "# x\n\na.wt indexes",
                "line 3: class 'indexes': must be collection, index, primary, journal, oplog or other",
            ),
            (
                "ok index\na[.wt index",
                "line 2: 'a[.wt': it is not a pattern: invalid range pattern at character 2",
            ),
            (
                "/var/x index",
                "line 1: '/var/x': patterns are for paths below the dbpath, without '/' before them and without '..'",
            ),
        ] {
            assert_eq!(Rules::parse(text).unwrap_err(), sentence);
        }
    }
}

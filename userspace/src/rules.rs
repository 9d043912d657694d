// SPDX-License-Identifier: GPL-2.0-only
//! Which class a file is of: by the user's rules, then by the server's catalog,
//! then by MongoDB's names.
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

use std::collections::HashMap;
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
    /// Idents of the server's catalog.
    catalog: HashMap<PathBuf, Class>,
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
        Ok(Self {
            list,
            catalog: HashMap::new(),
        })
    }

    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("{shown}: cannot read it"))?;
        Self::parse(&text).map_err(|e| anyhow!("{shown}: {e}"))
    }

    /// Replaces what is known from the server; whether that is something new.
    pub fn set_catalog(&mut self, catalog: HashMap<PathBuf, Class>) -> bool {
        let new = self.catalog != catalog;
        self.catalog = catalog;
        new
    }

    /// The class of the file at `path`, relative to the dbpath.
    pub fn classify(&self, path: &Path) -> Class {
        let by_rule = self.list.iter().find(|(p, _)| p.matches_path_with(path, OPTIONS));
        if let Some((_, class)) = by_rule {
            return *class;
        }
        if !self.catalog.is_empty() && path.extension().is_some_and(|e| e == "wt") {
            if let Some(class) = self.catalog.get(&path.with_extension("")) {
                return *class;
            }
        }
        ident::classify(path)
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
    fn the_catalog_comes_after_the_rules() {
        let mut rules = Rules::parse("index-3-*.wt other").unwrap();
        let catalog: HashMap<PathBuf, Class> = [
            ("index-1-42", Class::Primary),
            ("db/index/2-42", Class::Primary),
            ("index-3-42", Class::Primary),
        ]
        .map(|(p, c)| (p.into(), c))
        .into();
        assert!(rules.set_catalog(catalog.clone()));
        assert!(!rules.set_catalog(catalog));
        for (path, class) in [
            ("index-1-42.wt", Class::Primary),
            ("db/index/2-42.wt", Class::Primary),
            ("index-3-42.wt", Class::Other),
            ("index-4-42.wt", Class::Index),
            ("index-1-42.bak", Class::Other),
        ] {
            assert_eq!(rules.classify(Path::new(path)), class, "{path}");
        }
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

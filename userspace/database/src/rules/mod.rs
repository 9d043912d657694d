// SPDX-License-Identifier: GPL-2.0-or-later
//! What a file is, or a part of it: by the user's rules, then by the server's
//! catalog, then by MongoDB's names.
//!
//! Documentation/rules.md describes the two forms: objects with streams, in TOML,
//! and a pattern and a class on each line.

mod lines;
mod objects;
mod sources;
mod stamps;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::{Component, Path};

use glob::{MatchOptions, Pattern};

use crate::ident;
use dm::class::Class;
use proto::feed::Catalog;

pub use objects::{Lifetime, Object};
pub use sources::{RulesFiles, Source};

/// One pattern after the other, and not one automaton of `globset` for all: in its patterns
/// `?` and `[...]` are bytes and not characters, `[...]` takes a `/`, and `{`, `\` and `^`
/// mean something; and a path is looked up once, when its file or the rules are new.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Parts of one file that have streams of their own; the agent makes an id for
/// each of them.
pub(crate) const MAX_RANGES: usize = 255;

const WHOLE: Range<u64> = 0..u64::MAX;

/// What a file is, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role {
    pub class: Class,
    /// Its number in [`Rules::objects`].
    pub object: Option<u16>,
}

/// What the parts of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// In the order of the rules; they do not overlap.
    pub ranges: Vec<(Range<u64>, Role)>,
    /// What is in none of them.
    pub rest: Role,
}

#[derive(Clone, Debug)]
struct PathRule {
    pattern: Pattern,
    bytes: Range<u64>,
    kind: Role,
    /// Where it is written, for error messages.
    place: String,
}

impl PathRule {
    fn is_whole(&self) -> bool {
        self.bytes == WHOLE
    }

    /// The only path that it matches, if there is but one.
    fn literal(&self) -> Option<&str> {
        let text = self.pattern.as_str();
        (!text.contains(['*', '?', '['])).then_some(text)
    }

    fn matches(&self, path: &Path) -> bool {
        self.pattern.matches_path_with(path, OPTIONS)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Rules {
    objects: Vec<Object>,
    list: Vec<PathRule>,
    /// What the server says of its files; nothing, when it is not asked.
    pub catalog: Catalog,
}

impl Rules {
    /// Rules in the form of lines, or what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        rules.add_lines(text, "", "")?;
        Ok(rules)
    }

    /// Rules in the form of objects, or what is wrong.
    pub fn parse_objects(text: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        rules.add_objects(text, "", "")?;
        Ok(rules)
    }

    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The class of the file at `path`, relative to the dbpath, apart from ranges.
    pub fn classify(&self, path: &Path) -> Class {
        self.parts(path).rest.class
    }

    /// What the file at `path` is, and its parts: of the rules that match, the
    /// first has the bytes.
    pub fn parts(&self, path: &Path) -> Parts {
        let mut ranges: Vec<(Range<u64>, Role)> = Vec::new();
        for rule in self.list.iter().filter(|r| r.matches(path)) {
            if rule.is_whole() {
                let rest = rule.kind;
                return Parts { ranges, rest };
            }
            let free = without(rule.bytes.clone(), &ranges);
            ranges.extend(free.into_iter().map(|r| (r, rule.kind)));
        }
        let reported = self.catalog.get(path).copied();
        let class = reported.unwrap_or_else(|| ident::classify(path));
        Parts {
            ranges,
            rest: Role { class, object: None },
        }
    }

    /// Adds a rule, unless no byte would ever be its own.
    fn add(&mut self, rule: PathRule) -> Result<(), String> {
        let hides = |before: &&PathRule| {
            let same = match rule.literal() {
                Some(path) => before.matches(Path::new(path)),
                None => before.pattern == rule.pattern,
            };
            let overlap = before.bytes.start < rule.bytes.end && rule.bytes.start < before.bytes.end;
            same && overlap && (before.is_whole() || !rule.is_whole())
        };
        if let Some(before) = self.list.iter().find(hides) {
            return Err(format!(
                "{}: '{}' overlaps with '{}' on {}, which comes first",
                rule.place, rule.pattern, before.pattern, before.place
            ));
        }
        if !rule.is_whole() && self.list.iter().filter(|r| !r.is_whole()).count() == MAX_RANGES {
            return Err(format!(
                "{}: there are more than {MAX_RANGES} rules with bytes",
                rule.place
            ));
        }
        self.list.push(rule);
        Ok(())
    }
}

/// What of `bytes` is in none of `taken`.
fn without(bytes: Range<u64>, taken: &[(Range<u64>, Role)]) -> Vec<Range<u64>> {
    taken.iter().fold(vec![bytes], |free, (t, _)| {
        free.into_iter()
            .flat_map(|f| [f.start..f.end.min(t.start), f.start.max(t.end)..f.end])
            .filter(|f| f.start < f.end)
            .collect()
    })
}

/// A pattern for paths below `below`, which is empty or ends in `/`.
fn pattern(text: &str, below: &str) -> Result<Pattern, String> {
    let outside = |c: Component<'_>| matches!(c, Component::RootDir | Component::ParentDir);
    if text.is_empty() || Path::new(text).components().any(outside) {
        return Err(format!(
            "'{text}': patterns are for paths below the dbpath, without '/' before them and without '..'"
        ));
    }
    Pattern::new(&format!("{}{text}", Pattern::escape(below))).map_err(|_| {
        let why = Pattern::new(text).err();
        let (what, at) = why.map_or(("it is too long", 0), |e| (e.msg, e.pos));
        format!("'{text}': it is not a pattern: {what} at character {}", at + 1)
    })
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What `WiredTiger.turtle` says of the last checkpoint.
//!
//! The turtle is a text file of alternating lines, a key and a value.  The
//! value of `file:WiredTiger.wt` describes the metadata file and has
//! `checkpoint=(WiredTigerCheckpoint.<n>=(addr="...",order=<n>,...))`.
//!
//! WiredTiger renames a new turtle into place at the end of each checkpoint,
//! and also when the database is opened or closed.  A turtle whose checkpoint
//! entry differs from the last one seen counts as a completed checkpoint; one
//! with the same entry does not.  With WiredTiger's log switched off, a schema
//! operation checkpoints the metadata, too: the agent distinguishes it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fd::OwnedFd;

use crate::walk;

pub use crate::watch::TURTLE as NAME;
/// Longer ones are not a turtle.
pub(crate) const MAX_SIZE: u64 = 1 << 20;

/// The checkpoint entry of the turtle in a directory that others write to.  `None`:
/// there is none, or what has its name is no turtle.
pub fn read_entry(directory: &OwnedFd) -> io::Result<Option<String>> {
    let Some((file, _)) = walk::open_beneath(directory, Path::new(NAME))? else {
        return Ok(None);
    };
    let mut text = String::new();
    if File::take(file, MAX_SIZE).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    Ok(checkpoint_entry(&text).map(str::to_owned))
}

/// The text of the checkpoint entry, empty when there is no checkpoint yet.
/// `None`: this is not a turtle.
pub fn checkpoint_entry(turtle: &str) -> Option<&str> {
    let mut lines = turtle.lines();
    while let Some(key) = lines.next() {
        let value = lines.next()?;
        if key == "file:WiredTiger.wt" {
            return value_of(value, "checkpoint");
        }
    }
    None
}

/// The value of a key at the top level of a WiredTiger configuration string.
pub(crate) fn value_of<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    items(config).find(|(k, _)| *k == key).map(|(_, value)| value)
}

/// The keys and values at the top level, without the parentheses or quotes around
/// a value; until something is no item.
pub(crate) fn items(config: &str) -> Items<'_> {
    Items {
        rest: Some(config),
        cut: false,
    }
}

pub(crate) struct Items<'a> {
    rest: Option<&'a str>,
    cut: bool,
}

impl Items<'_> {
    /// Whether something that was opened was not closed; known at the end.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let config = self.rest.filter(|r| !r.is_empty())?;
        let Some(end) = item_end(config) else {
            self.cut = true;
            self.rest = None;
            return None;
        };
        self.rest = config.get(end + 1..);
        let item = &config[..end];
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        Some((key, bare(value)))
    }
}

fn bare(value: &str) -> &str {
    let within = |open, close| value.strip_prefix(open)?.strip_suffix(close);
    within('(', ')').or_else(|| within('"', '"')).unwrap_or(value)
}

/// Bytes that mean something outside quotes.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let marks = b"\"()[],";
    let mut n = 0;
    while n < marks.len() {
        special[marks[n] as usize] = true;
        n += 1;
    }
    special
};

/// Where the first item ends: at a comma outside parentheses and quotes.
fn item_end(config: &str) -> Option<usize> {
    let bytes = config.as_bytes();
    let (mut depth, mut at) = (0i32, 0);
    // The metadata of many files is read at every checkpoint.
    while let Some(next) = bytes[at..].iter().position(|b| SPECIAL[usize::from(*b)]) {
        at += next;
        match bytes[at] {
            b'"' => at += quoted(&bytes[at + 1..])?,
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            _ if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then_some(config.len())
}

/// The length of what is quoted, with the quote at its end.
fn quoted(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let end = bytes.iter().position(|b| {
        let ends = *b == b'"' && !escaped;
        escaped = *b == b'\\' && !escaped;
        ends
    });
    end.map(|n| n + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const TURTLE: &str = "WiredTiger version string\n\
        WiredTiger 11.3.1: (June 11, 2024)\n\
        WiredTiger version\n\
        major=11,minor=3,patch=1\n\
        file:WiredTiger.wt\n\
        access_pattern_hint=none,app_metadata=\"checkpoint=(no)\",checkpoint=(WiredTigerCheckpoint.7=\
        (addr=\"018e81e4\",order=7,time=1700000000,size=8192,newest_durable_ts=0)),\
        checkpoint_backup_info=,checkpoint_lsn=(4,128)\n";

    #[test]
    fn the_checkpoint_entry_is_found() {
        assert_eq!(
            checkpoint_entry(TURTLE),
            Some(
                "WiredTigerCheckpoint.7=(addr=\"018e81e4\",order=7,time=1700000000,size=8192,newest_durable_ts=0)"
            )
        );
    }

    #[test]
    fn a_turtle_without_a_checkpoint() {
        let t = "a\nb\nfile:WiredTiger.wt\nx=1,checkpoint=,y=2\n";
        assert_eq!(checkpoint_entry(t), Some(""));
    }

    #[test]
    fn items_of_a_configuration() {
        let config = r#"a=1,b=(c=(d,"),"),e),f="x\",(=\\",g,h=[1,2]"#;
        let all: Vec<(&str, &str)> = items(config).collect();
        assert_eq!(
            all,
            [
                ("a", "1"),
                ("b", r#"c=(d,"),"),e"#),
                ("f", r#"x\",(=\\"#),
                ("g", ""),
                ("h", "[1,2]")
            ]
        );
        for cut in ["a=1,b=(c", "a=\"", "a=[", r#"a="\"#] {
            let mut all = items(cut);
            all.by_ref().for_each(drop);
            assert!(all.is_cut(), "{cut}");
        }
    }

    #[test]
    fn what_is_not_a_turtle() {
        for t in [
            "",
            "file:WiredTiger.wt",
            "file:WiredTiger.wt\nx=(1",
            "a\nb\n",
            "file:WiredTiger.wt\nx=1\n",
        ] {
            assert_eq!(checkpoint_entry(t), None, "{t:?}");
        }
    }
}

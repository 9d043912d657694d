// SPDX-License-Identifier: GPL-2.0-only
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
//! operation checkpoints the metadata, too: the agent tells it apart.

/// Longer ones are not a turtle.
pub const MAX_SIZE: u64 = 1 << 20;

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
fn value_of<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = config;
    loop {
        let end = item_end(rest)?;
        let item = &rest[..end];
        if let Some(value) = item.strip_prefix(key).and_then(|r| r.strip_prefix('=')) {
            return Some(match value.strip_prefix('(') {
                Some(inner) => inner.strip_suffix(')').unwrap_or(inner),
                None => value,
            });
        }
        rest = rest.get(end + 1..)?;
    }
}

/// Where the first item ends: at a comma outside parentheses and quotes.
fn item_end(config: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0i32, false, false);
    for (at, b) in config.bytes().enumerate() {
        if quoted {
            quoted = escaped || b != b'"';
            escaped = b == b'\\' && !escaped;
            continue;
        }
        match b {
            b'"' => quoted = true,
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b',' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0 && !quoted).then_some(config.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub const TURTLE: &str = "WiredTiger version string\n\
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

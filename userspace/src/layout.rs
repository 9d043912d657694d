// SPDX-License-Identifier: GPL-2.0-only
//! What each stream is used for, by the table in Documentation/dsm.rst
//! ("Streams and hints"), so that people need not look it up.

use std::collections::BTreeMap;

/// What the status line and the table line say of the layout.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// The policy whose streams are in use.
    pub policy: &'a str,
    /// K in use.
    pub groups: u32,
    /// The first stream to use, and the last that the device has.
    pub base: u32,
    pub last: u32,
}

/// Uses by stream.
pub fn uses(l: &Layout<'_>) -> BTreeMap<u32, Vec<String>> {
    let mut uses: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut add = |stream: u32, what: String| uses.entry(stream).or_default().push(what);
    let count = (l.last + 1).saturating_sub(l.base);
    if l.policy == "none" || count < 2 {
        add(0, "not stamped".into());
        return uses;
    }
    let groups = match l.policy {
        "dsm" => l.groups,
        "boundary" => 2,
        _ => 1,
    };
    let mut next = l.base;
    add(next, "other, unmapped".into());
    if count > 3 {
        next += 1;
    }
    let journal = next;
    add(journal, "journal".into());
    next += 1;
    let collection = next;
    if count > 2 {
        next += groups;
    }
    let index = next;
    next += groups;
    for (first, what) in [(collection, "collection"), (index, "index")] {
        for g in 0..groups {
            add(
                first + g,
                match l.policy {
                    "dsm" => format!("{what} group {}", g + 1),
                    "boundary" => format!("{what} {}", ["bottom", "top"][g as usize]),
                    _ => what.to_owned(),
                },
            );
        }
    }
    let mut own = |what: &str| {
        let stream = if next <= l.last { next } else { journal };
        next += u32::from(next <= l.last);
        add(stream, what.to_owned());
    };
    if l.policy == "dsm" {
        own("primary");
    }
    own("oplog");
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(policy: &str, groups: u32, base: u32, last: u32) -> Vec<String> {
        uses(&Layout {
            policy,
            groups,
            base,
            last,
        })
        .into_iter()
        .map(|(stream, what)| format!("{stream} {}", what.join(", ")))
        .collect()
    }

    #[test]
    fn the_table_of_the_documentation() {
        assert_eq!(text("none", 3, 1, 8), ["0 not stamped"]);
        assert_eq!(
            text("file", 1, 1, 4),
            ["1 other, unmapped", "2 journal, oplog", "3 collection", "4 index"]
        );
        assert_eq!(
            text("boundary", 2, 1, 7),
            [
                "1 other, unmapped",
                "2 journal",
                "3 collection bottom",
                "4 collection top",
                "5 index bottom",
                "6 index top",
                "7 oplog"
            ]
        );
        assert_eq!(
            text("dsm", 3, 1, 8),
            [
                "1 other, unmapped",
                "2 journal, primary, oplog",
                "3 collection group 1",
                "4 collection group 2",
                "5 collection group 3",
                "6 index group 1",
                "7 index group 2",
                "8 index group 3"
            ]
        );
        let ten = text("dsm", 3, 1, 10);
        assert_eq!(ten[1], "2 journal");
        assert_eq!(ten[8..], ["9 primary", "10 oplog"]);
        assert_eq!(text("dsm", 3, 4, 11)[0], "4 other, unmapped");
    }

    #[test]
    fn few_streams() {
        assert_eq!(
            text("file", 1, 1, 3),
            ["1 other, unmapped, journal, oplog", "2 collection", "3 index"]
        );
        assert_eq!(
            text("file", 1, 1, 2),
            ["1 other, unmapped, journal, oplog", "2 collection, index"]
        );
        assert_eq!(text("dsm", 3, 1, 1), ["0 not stamped"]);
        assert_eq!(text("dsm", 3, 1, 0), ["0 not stamped"]);
    }
}

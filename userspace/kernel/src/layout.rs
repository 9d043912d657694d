// SPDX-License-Identifier: GPL-2.0-or-later
//! What each stream is used for, by the table in Documentation/dsm.rst
//! ("Streams and hints"), so that people need not look it up.

use std::collections::BTreeMap;

use crate::class::Class;
use crate::reply::{Status, TableLine};

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

/// The stream of each class, as the kernel lays them out; of collections and
/// indexes, that of group 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub groups: u32,
    pub other: u32,
    pub journal: u32,
    pub oplog: u32,
    pub primary: u32,
    pub collection: u32,
    pub index: u32,
    /// The groups are of files of all types.
    pub by_life: bool,
}

impl Plan {
    /// Nothing is stamped.
    const NONE: Self = Self {
        groups: 1,
        other: 0,
        journal: 0,
        oplog: 0,
        primary: 0,
        collection: 0,
        index: 0,
        by_life: false,
    };

    /// `policy` with at most `groups` groups on the streams `base` to `last`.
    pub fn new(policy: &str, groups: u32, base: u32, last: u32) -> Self {
        let count = (last + 1).saturating_sub(base);
        if policy == "none" || count < 2 {
            return Self::NONE;
        }
        if policy == "life" {
            return Self::life(groups, base, count);
        }
        let asked = match policy {
            "dsm" => groups,
            "boundary" => 2,
            _ => 1,
        };
        let groups = if count >= 4 { asked.min((count - 2) / 2) } else { 1 };
        let mut next = base;
        let other = next;
        if count > 3 {
            next += 1;
        }
        let journal = next;
        next += 1;
        let collection = next;
        if count > 2 {
            next += groups;
        }
        let index = next;
        next += groups;
        let mut own = || {
            let stream = if next <= last { next } else { journal };
            next += u32::from(next <= last);
            stream
        };
        Self {
            groups,
            other,
            journal,
            collection,
            index,
            primary: if policy == "dsm" && groups > 1 {
                own()
            } else {
                journal
            },
            oplog: own(),
            by_life: false,
        }
    }

    fn life(groups: u32, base: u32, count: u32) -> Self {
        let journal = base + u32::from(count > 3);
        let first = journal + 1;
        Self {
            groups: groups.min(base + count - first),
            other: base,
            journal,
            oplog: first,
            primary: first,
            collection: first,
            index: first,
            by_life: true,
        }
    }

    /// The stream of a group, `None` for the group of primary indexes.
    pub fn stream(&self, class: Class, group: Option<u32>) -> u32 {
        let of = |first: u32| match group {
            Some(group) if first > 0 => first + group.saturating_sub(1),
            Some(_) => 0,
            None => self.primary,
        };
        match class {
            Class::Collection => of(self.collection),
            Class::Index | Class::Primary => of(self.index),
            Class::Journal => self.journal,
            Class::Oplog if self.by_life => of(self.oplog),
            Class::Oplog => self.oplog,
            Class::Other => self.other,
        }
    }
}

impl<'a> Layout<'a> {
    pub fn of(table: &TableLine, status: &'a Status) -> Self {
        let base = table.feature("stream_base").and_then(|b| b.parse().ok());
        Self {
            policy: &status.layout,
            groups: status.groups,
            base: base.unwrap_or(1),
            last: status.device_streams,
        }
    }
}

/// Uses by stream.
pub fn uses(l: &Layout<'_>) -> BTreeMap<u32, Vec<String>> {
    let mut uses: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut add = |stream: u32, what: String| uses.entry(stream).or_default().push(what);
    let plan = Plan::new(l.policy, l.groups, l.base, l.last);
    if plan == Plan::NONE {
        add(0, "not stamped".into());
        return uses;
    }
    add(plan.other, "other, unmapped".into());
    add(plan.journal, "journal".into());
    if plan.by_life {
        for g in 0..plan.groups {
            add(plan.collection + g, format!("group {}", g + 1));
        }
        return uses;
    }
    for (first, what) in [(plan.collection, "collection"), (plan.index, "index")] {
        for g in 0..plan.groups {
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
    if l.policy == "dsm" {
        add(plan.primary, "primary".into());
    }
    add(plan.oplog, "oplog".into());
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
        assert_eq!(
            text("life", 3, 1, 8),
            [
                "1 other, unmapped",
                "2 journal",
                "3 group 1",
                "4 group 2",
                "5 group 3"
            ]
        );
    }

    #[test]
    fn classes_and_groups() {
        let p = Plan::new("dsm", 3, 1, 8);
        assert_eq!(p.stream(Class::Collection, Some(1)), 3);
        assert_eq!(p.stream(Class::Index, Some(3)), 8);
        assert_eq!(p.stream(Class::Index, None), 2);
        assert_eq!(p.stream(Class::Journal, Some(0)), 2);
        assert_eq!(p.stream(Class::Other, Some(0)), 1);
        assert_eq!(Plan::new("dsm", 3, 1, 7).groups, 2, "K is lowered to what fits");
        assert_eq!(Plan::new("dsm", 3, 1, 5).groups, 1);
        let p = Plan::new("life", 3, 4, 11);
        for class in [Class::Collection, Class::Index, Class::Primary, Class::Oplog] {
            assert_eq!([1, 2, 3].map(|g| p.stream(class, Some(g))), [6, 7, 8]);
        }
        assert_eq!(p.stream(Class::Journal, Some(0)), 5);
        assert_eq!(Plan::new("life", 5, 1, 5).groups, 3);
        assert_eq!(Plan::new("none", 3, 1, 8).stream(Class::Index, Some(1)), 0);
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
        assert_eq!(
            text("life", 3, 1, 4),
            ["1 other, unmapped", "2 journal", "3 group 1", "4 group 2"]
        );
        assert_eq!(
            text("life", 3, 1, 3),
            ["1 other, unmapped, journal", "2 group 1", "3 group 2"]
        );
        assert_eq!(text("life", 3, 1, 2), ["1 other, unmapped, journal", "2 group 1"]);
        assert_eq!(text("life", 3, 1, 1), ["0 not stamped"]);
        assert_eq!(text("dsm", 3, 1, 1), ["0 not stamped"]);
        assert_eq!(text("dsm", 3, 1, 0), ["0 not stamped"]);
    }
}

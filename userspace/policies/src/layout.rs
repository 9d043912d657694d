// SPDX-License-Identifier: GPL-2.0-or-later
//! What each stream is used for, by the table in Documentation/dsm.rst
//! ("Streams and hints"), so that people need not look it up.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use dm::class::Class;
use dm::reply::{Status, TableLine};

use crate::number;

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

/// `struct dsm_layout`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RawLayout {
    policy: u32,
    groups: u32,
    used: u32,
    other: u8,
    journal: u8,
    oplog: u8,
    primary: u8,
    collection: u8,
    index: u8,
    greatest: u8,
    hints: bool,
    by_life: bool,
}

/// `union dsm_stamp`
#[repr(C)]
struct Stamp {
    hint: u8,
    stream: u8,
}

// As in shim/sizes.c.
const _: () = assert!(size_of::<RawLayout>() == 24 && size_of::<Stamp>() == 2);
const _: () = assert!(UNMAPPED == 6);

extern "C" {
    fn dsm_layout_init(layout: *mut RawLayout, policy: u32, groups: u32, base: u32, last: u32, hints: bool);
    fn dsm_layout_stamp(layout: *const RawLayout, class: u32, group: u8) -> Stamp;
}

/// `DSM_GROUP_PRIMARY`
const GROUP_PRIMARY: u8 = 255;
/// `DSM_UNMAPPED`
const UNMAPPED: u32 = Class::ALL.len() as u32;

/// Which class and group gets which stream: the module's own layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan(RawLayout);

impl Plan {
    /// `policy` with at most `groups` groups on the streams `base` to `last`; `None`: the
    /// module that is compiled in has no such policy.
    pub fn new(policy: &str, groups: u32, base: u32, last: u32) -> Option<Self> {
        let policy = number(policy)?;
        let mut raw = MaybeUninit::uninit();
        // SAFETY: the function writes the whole of the structure, and keeps no pointer.
        let raw = unsafe {
            dsm_layout_init(raw.as_mut_ptr(), policy, groups, base, last, false);
            raw.assume_init()
        };
        Some(Self(raw))
    }

    pub fn groups(&self) -> u32 {
        self.0.groups
    }

    /// The stream of writes to no file that is known.
    pub fn unmapped(&self) -> u32 {
        // SAFETY: as below.
        u32::from(unsafe { dsm_layout_stamp(&self.0, UNMAPPED, 1) }.stream)
    }

    /// The stream of a group, `None` for the group of primary indexes.
    pub fn stream(&self, class: Class, group: Option<u32>) -> u32 {
        let group = group.map_or(GROUP_PRIMARY, |g| g.max(1) as u8);
        // SAFETY: the function reads the structure, which outlives the call.
        u32::from(unsafe { dsm_layout_stamp(&self.0, class as u32, group) }.stream)
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
    let Some(Plan(plan)) = Plan::new(l.policy, l.groups, l.base, l.last) else {
        return uses;
    };
    if plan.used == 0 {
        add(0, "not stamped".into());
        return uses;
    }
    let mut add = |stream: u8, what: String| add(u32::from(stream), what);
    let groups = plan.groups as u8;
    let unmapped = if plan.by_life {
        "unmapped"
    } else {
        "other, unmapped"
    };
    add(plan.other, unmapped.into());
    add(plan.journal, "journal".into());
    if plan.by_life {
        for g in 0..groups {
            add(plan.collection + g, format!("group {}", g + 1));
        }
        return uses;
    }
    for (first, what) in [(plan.collection, "collection"), (plan.index, "index")] {
        for g in 0..groups {
            add(
                first + g,
                match l.policy {
                    "dsm" => format!("{what} group {}", g + 1),
                    "boundary" => format!("{what} {}", ["bottom", "top"][usize::from(g)]),
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

    fn plan(policy: &str, groups: u32, base: u32, last: u32) -> Plan {
        Plan::new(policy, groups, base, last).unwrap()
    }

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
            ["1 unmapped", "2 journal", "3 group 1", "4 group 2", "5 group 3"]
        );
    }

    #[test]
    fn classes_and_groups() {
        let p = plan("dsm", 3, 1, 8);
        assert_eq!(p.stream(Class::Collection, Some(1)), 3);
        assert_eq!(p.stream(Class::Index, Some(3)), 8);
        assert_eq!(p.stream(Class::Index, None), 2);
        assert_eq!(p.stream(Class::Journal, Some(0)), 2);
        assert_eq!((p.stream(Class::Other, None), p.unmapped()), (1, 1));
        assert_eq!(plan("dsm", 3, 1, 7).groups(), 2, "K is lowered to what fits");
        assert_eq!(plan("dsm", 3, 1, 5).groups(), 1);
        let p = plan("life", 3, 4, 11);
        for class in Class::ALL.iter().copied().filter(|&c| c != Class::Journal) {
            assert_eq!([1, 2, 3].map(|g| p.stream(class, Some(g))), [6, 7, 8]);
        }
        assert_eq!((p.unmapped(), p.stream(Class::Journal, None)), (4, 5));
        assert_eq!(plan("life", 5, 1, 5).groups(), 3);
        assert_eq!(plan("none", 3, 1, 8).stream(Class::Index, Some(1)), 0);
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
            ["1 unmapped", "2 journal", "3 group 1", "4 group 2"]
        );
        assert_eq!(
            text("life", 3, 1, 3),
            ["1 unmapped, journal", "2 group 1", "3 group 2"]
        );
        assert_eq!(text("life", 3, 1, 2), ["1 unmapped, journal", "2 group 1"]);
        assert_eq!(text("life", 3, 1, 1), ["0 not stamped"]);
        assert_eq!(text("dsm", 3, 1, 1), ["0 not stamped"]);
        assert_eq!(text("dsm", 3, 1, 0), ["0 not stamped"]);
    }

    /// A module that is newer may have one.
    #[test]
    fn nothing_is_said_of_a_policy_that_is_not_known() {
        assert_eq!(text("best", 3, 1, 8), [""; 0]);
    }
}

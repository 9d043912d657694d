// SPDX-License-Identifier: GPL-2.0-or-later
//! What to try for fewer flash writes, in the order of what it should save here at least.

use std::fmt::Write;

use serde::Serialize;

use super::forecast::{percent, Measure, Outlook, Range};
use runtime::pages::page;

/// mongod's own, in seconds: three times this is what was measured.
const USUAL_INTERVAL: f64 = 60.0;
/// A longer one has had its share, and its journal is long.
const LONG_INTERVAL: f64 = 150.0;
/// From this on a drive has little spare space.
const RATHER_FULL: f64 = 0.8;

/// What is known of the database and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here {
    /// Of the size of collections and of indexes, in files whose leaf pages could be smaller.
    pub large_leaves: f64,
    pub large_index_leaves: f64,
    /// Seconds between the last two checkpoints, as dsmd has seen: not what mongod is set to.
    /// Its start, fsync and backups make some that come early.
    pub interval: Option<f64>,
    /// How much of the file system is in use.
    pub full: Option<f64>,
    /// The share that is listed as free, and what discards can save then.
    pub listed: f64,
    pub outlook: Outlook,
    /// Whether discards are possible here, and whether they are on, or are audited first.
    pub may_discard: bool,
    pub discards: bool,
    /// Whether streams are in use.
    pub streams: bool,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Advice {
    what: String,
    /// Shares of the flash writes: the least and the most that were measured.
    saves: Range,
    /// False: what was measured lies too far apart.
    known: bool,
    command: String,
    page: &'static str,
}

pub(super) fn advice(h: &Here) -> Vec<Advice> {
    let leaves = |of: &str| format!(r#"storage.wiredTiger.{of}.configString: "leaf_page_max=8KB""#);
    let seen = h.interval.unwrap_or(USUAL_INTERVAL);
    let longer = 3.0 * seen.max(USUAL_INTERVAL);
    let said = match h.interval {
        Some(seen) => format!("dsmd saw {seen:.0} s between the last two checkpoints"),
        None => "dsmd does not serve this database".into(),
    };
    let all_if = |so: bool| if so { 1.0 } else { 0.0 };
    // Behind each measure: of what part of the writes it is, as far as that is known.
    let all = [
        (
            Measure::Leaves,
            h.large_leaves,
            "leaf pages of 8 KiB, for new collections".into(),
            leaves("collectionConfig"),
            "before.md#leaf-pages",
        ),
        (
            Measure::IndexLeaves,
            h.large_index_leaves,
            "leaf pages of 8 KiB, for new indexes".into(),
            leaves("indexConfig"),
            "before.md#leaf-pages",
        ),
        (
            Measure::Interval,
            all_if(seen < LONG_INTERVAL),
            format!(
                "{longer:.0} s between checkpoints, with buffered I/O, where it is MongoDB's {USUAL_INTERVAL:.0} s now \
                 ({said}); db.adminCommand({{getParameter: 1, syncdelay: 1}}) shows it"
            ),
            format!(
                "db.adminCommand({{setParameter: 1, syncdelay: {longer:.0}}}), and sysctl vm.dirty_expire_centisecs={:.0}",
                100.0 * (longer + 20.0)
            ),
            "before.md#interval-between-checkpoints",
        ),
        (
            Measure::Discards,
            all_if(h.may_discard && !h.discards),
            "discards by dsm".into(),
            "discard = true, in /etc/dsm/NAME.toml".into(),
            "mongodb.md",
        ),
        (
            Measure::Spare,
            all_if(h.full.is_some_and(|full| full > RATHER_FULL)),
            "a tenth of the drive left empty".into(),
            "fstrim, after files were moved away".into(),
            "before.md#spare-space",
        ),
        (
            Measure::Streams,
            all_if(!h.streams),
            "streams by dsm, on a drive with FDP".into(),
            "dsmctl create".into(),
            "drives.md#how-many-streams",
        ),
    ];
    let advised = all
        .into_iter()
        .filter_map(|(measure, part, what, command, page)| {
            let saves = match measure {
                Measure::Discards => h.outlook.saved(h.full),
                measure => measure.range(h.listed),
            };
            (part * saves[1] >= 0.005).then(|| Advice {
                what,
                saves: saves.map(|share| part * share),
                known: measure.is_known(saves),
                command,
                page,
            })
        });
    let mut advised: Vec<Advice> = advised.collect();
    advised.sort_by(|a, b| f64::total_cmp(&b.saves[0], &a.saves[0]));
    advised
}

pub(super) fn text(all: &[Advice], dbpath: &str) -> String {
    let mut s = String::from(
        "What to try, in the order of what it should save of the flash writes here at least. This is modelled,\n\
         and does not add up: each leaves less for the next.\n",
    );
    for a in all {
        let saves = match a.known {
            true => percent(a.saves),
            false => "?".into(),
        };
        let _ = writeln!(
            s,
            "\n{saves:>10}  {}\n            {}\n            {}",
            a.what,
            a.command,
            page(a.page)
        );
    }
    if all.iter().any(|a| !a.known) {
        let _ = writeln!(
            s,
            "\n?: cannot be foretold, what was measured lies too far apart. For discards and streams record an hour:\n\
             \x20           dsmctl record {dbpath} /tmp/hour.rec --seconds 3600 && dsmctl simulate /tmp/hour.rec"
        );
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Here = Here {
        large_leaves: 1.0,
        large_index_leaves: 1.0,
        interval: None,
        full: Some(0.95),
        listed: 0.3,
        outlook: Outlook {
            saved_on_full_drive: [0.14, 0.3],
            saved_at_80_percent: [0.03, 0.2],
        },
        may_discard: true,
        discards: false,
        streams: false,
    };

    fn order(h: &Here) -> Vec<String> {
        let first = |a: &Advice| format!("{}{}", if a.known { "" } else { "?" }, a.command);
        let word = |all: String| all.split([',', ' ', '=']).next().unwrap_or_default().to_owned();
        advice(h).iter().map(first).map(word).collect()
    }

    #[test]
    fn the_greatest_least_comes_first() {
        let all = advice(&HERE);
        assert_eq!(all.len(), 6);
        assert!(all[0].command.contains("collectionConfig"), "{all:?}");
        assert!(all.is_sorted_by(|a, b| a.saves[0] >= b.saves[0]), "{all:?}");
    }

    #[test]
    fn what_is_on_is_not_advised() {
        let done = Here {
            large_leaves: 0.0,
            large_index_leaves: 0.0,
            interval: Some(180.0),
            full: None,
            discards: true,
            streams: true,
            ..HERE
        };
        assert!(order(&done).is_empty());
        let refused = Here {
            discards: false,
            may_discard: false,
            ..done
        };
        assert!(order(&refused).is_empty());
        let roomy = Here {
            discards: false,
            full: Some(0.8),
            ..done
        };
        assert_eq!(order(&roomy), ["?discard"], "3 to 20 %");
    }

    #[test]
    fn never_shorter_than_three_times_mongods_own() {
        for (seen, wanted) in [(0.1, 180), (6.0, 180), (8.0, 180), (60.0, 180), (100.0, 300)] {
            let here = Here {
                interval: Some(seen),
                ..HERE
            };
            let text = text(&advice(&here), "/db");
            assert!(
                text.contains(&format!("setParameter: 1, syncdelay: {wanted}}})")),
                "{text}"
            );
        }
    }

    #[test]
    fn each_has_its_command_and_page() {
        let all = advice(&HERE);
        let text = text(&all, "/db");
        let first = format!(
            "\n{:>10}  leaf pages of 8 KiB, for new collections\n",
            percent(all[0].saves)
        );
        assert!(text.contains(&first), "{text}");
        assert!(text.contains("\n         ?  streams by dsm"), "{text}");
        assert!(
            text.contains("dsmctl record /db /tmp/hour.rec --seconds 3600"),
            "{text}"
        );
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Documentation/");
        for a in all {
            let (page, title) = a.page.split_once('#').unwrap_or((a.page, ""));
            let text = std::fs::read_to_string(pages.to_owned() + page).unwrap();
            let titles = text.lines().filter_map(|l| l.strip_prefix('#'));
            let mut titles = titles.map(|t| {
                let t = t.trim_start_matches('#').trim().to_lowercase();
                t.replace(' ', "-")
            });
            assert!(
                title.is_empty() || titles.any(|t| t == title),
                "{page} has no {title}"
            );
        }
    }
}

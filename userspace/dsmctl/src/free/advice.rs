// SPDX-License-Identifier: GPL-2.0-or-later
//! What to try for fewer flash writes, in the order of what it should bring here.

use std::fmt::Write;

use serde::Serialize;

use wiredtiger::avail::outlook::{percent, Outlook, Range};

/// mongod's own, in seconds.
const USUAL_INTERVAL: f64 = 60.0;
/// The kernel's own vm.dirty_expire_centisecs.
const USUAL_EXPIRE: f64 = 3000.0;
/// A longer one has had its share, and its journal is long.
const LONG_INTERVAL: f64 = 150.0;
/// From this on a drive has little spare space.
const RATHER_FULL: f64 = 0.8;
/// What leaf pages of 8 KiB have saved of pages of 32, in our tables and below a mongod.
const LEAVES: Range = [0.39, 0.58];
/// Three times the interval, with buffered I/O, where the kernel keeps dirty pages as long: uniform
/// updates, and LinkBench's.
const INTERVAL: Range = [0.13, 0.46];
/// A tenth and a fifth of a full drive that is trimmed.
const SPARE: Range = [0.26, 0.38];
const STREAMS: Range = [0.0, 0.05];

/// What is known of the database and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here {
    /// Of what is listed as free, in files whose leaf pages should be smaller.
    pub large_leaves: f64,
    /// Seconds between the last two checkpoints, as dsmd has seen.
    pub interval: Option<f64>,
    /// How much of the file system is in use.
    pub full: Option<f64>,
    pub outlook: Outlook,
    /// Whether discards are possible here, and whether dsmd sends them already.
    pub may_discard: bool,
    pub discards: bool,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Advice {
    what: String,
    /// Shares of the flash writes: the least and the most that were measured.
    saves: Range,
    command: String,
    page: &'static str,
}

pub(super) fn advice(h: &Here) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut add = |what: String, saves: Range, command: String, page| {
        if saves[1] >= 0.005 {
            all.push(Advice {
                what,
                saves,
                command,
                page,
            });
        }
    };
    add(
        "leaf pages of 8 KiB, for new collections".into(),
        LEAVES.map(|s| s * h.large_leaves),
        r#"storage.wiredTiger.collectionConfig.configString: "leaf_page_max=8KB""#.into(),
        "before.md#leaf-pages",
    );
    let interval = h.interval.unwrap_or(USUAL_INTERVAL);
    if interval < LONG_INTERVAL {
        let seen = match h.interval {
            Some(_) => "as dsmd has seen",
            None => "mongod's default; dsmd does not serve this database",
        };
        add(
            format!("three times the interval between checkpoints, which is {interval:.0} s ({seen}), with buffered I/O"),
            INTERVAL,
            format!(
                "db.adminCommand({{setParameter: 1, syncdelay: {:.0}}}), and sysctl vm.dirty_expire_centisecs={:.0}",
                3.0 * interval,
                (100.0 * (3.0 * interval + 20.0)).max(USUAL_EXPIRE)
            ),
            "before.md#interval-between-checkpoints",
        );
    }
    if h.may_discard && !h.discards {
        add(
            "discards by dsm".into(),
            h.outlook.saved(h.full),
            "discard = true, in /etc/dsmd.toml".into(),
            "mongodb.md",
        );
    }
    if h.full.is_some_and(|full| full > RATHER_FULL) {
        add(
            "a tenth or a fifth of the drive left empty".into(),
            SPARE,
            "fstrim, after files were moved away".into(),
            "before.md#spare-space",
        );
    }
    add(
        "streams by dsm, on a drive with FDP".into(),
        STREAMS,
        "dsmctl create".into(),
        "drives.md#how-many-streams",
    );
    all.sort_by(|a, b| (b.saves[0] + b.saves[1]).total_cmp(&(a.saves[0] + a.saves[1])));
    all
}

pub(super) fn text(all: &[Advice]) -> String {
    let mut s = String::from(
        "What to try, in the order of what it should save of the flash writes here. This is modelled,\n\
         and does not add up: each leaves less for the next.\n",
    );
    for a in all {
        let _ = writeln!(
            s,
            "\n{:>10}  {}\n            {}\n            Documentation/{}",
            percent(a.saves),
            a.what,
            a.command,
            a.page
        );
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Here = Here {
        large_leaves: 1.0,
        interval: None,
        full: Some(0.95),
        outlook: Outlook {
            saved_on_full_drive: [0.1, 0.3],
            saved_at_80_percent: [0.05, 0.1],
        },
        may_discard: true,
        discards: false,
    };

    fn order(h: &Here) -> Vec<String> {
        let first = |a: &Advice| a.what.split([',', ' ']).next().unwrap_or_default().to_owned();
        advice(h).iter().map(first).collect()
    }

    #[test]
    fn the_most_comes_first() {
        assert_eq!(order(&HERE), ["leaf", "a", "three", "discards", "streams"]);
        let few = Here {
            large_leaves: 0.2,
            full: Some(0.5),
            ..HERE
        };
        assert_eq!(order(&few), ["three", "leaf", "discards", "streams"]);
        let done = Here {
            large_leaves: 0.0,
            interval: Some(180.0),
            full: None,
            discards: true,
            ..HERE
        };
        assert_eq!(order(&done), ["streams"]);
        let refused = Here {
            may_discard: false,
            ..done
        };
        assert_eq!(order(&refused), ["streams"]);
    }

    #[test]
    fn each_has_its_command_and_page() {
        let here = Here {
            interval: Some(20.0),
            ..HERE
        };
        let text = text(&advice(&here));
        assert!(
            text.contains(
                "\n13 to 46 %  three times the interval between checkpoints, which is 20 s (as dsmd has seen), with buffered I/O\n"
            ),
            "{text}"
        );
        assert!(text.contains(
            "\n            db.adminCommand({setParameter: 1, syncdelay: 60}), and sysctl vm.dirty_expire_centisecs=8000\n"
        ));
        assert!(text.contains("Documentation/before.md#leaf-pages\n"));
        assert!(self::text(&advice(&HERE)).contains("which is 60 s (mongod's default; "));
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Documentation/");
        for a in advice(&HERE) {
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

// SPDX-License-Identifier: GPL-2.0-or-later
//! The texts of the turtle and of the metadata.

use super::cookie::Cookie;
use super::{damaged, unsupported, Refusal, TurtleId, Version};
use crate::wiredtiger::turtle::{items, value_of};

/// What a file's entry says of its newest checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    pub order: u64,
    pub cookie: Option<Cookie>,
    /// `run_write_gen`, which WiredTiger has from 10 on.
    pub generation: Option<u64>,
    /// `leaf_page_max`, in bytes.
    pub leaf_page: Option<u32>,
}

/// The value of `file:...` in the metadata.
pub fn newest(config: &str) -> Result<Newest, Refusal> {
    let (mut checkpoints, mut alloc, mut leaf_page) = ("", 4096, None);
    let mut all = items(config);
    for (key, value) in all.by_ref() {
        match key {
            "allocation_size" => {
                alloc = size(value).ok_or_else(|| damaged(format!("allocation_size={value}")))?;
            }
            "leaf_page_max" => leaf_page = size(value),
            "checkpoint" => checkpoints = value,
            "block_manager" if value != "default" => {
                return Err(unsupported(format!("its files have block_manager={value}")));
            }
            _ => {}
        }
    }
    if all.is_cut() {
        return Err(damaged("its entry is cut off"));
    }
    let mut newest: Option<(u64, &str, &str)> = None;
    for (_, checkpoint) in items(checkpoints) {
        let bad = || damaged("a checkpoint has no addr or no order");
        let addr = value_of(checkpoint, "addr").ok_or_else(bad)?;
        let order = value_of(checkpoint, "order").ok_or_else(bad)?;
        let order: u64 = order.parse().map_err(|_| bad())?;
        if newest.is_none_or(|(o, ..)| order >= o) {
            newest = Some((order, addr, checkpoint));
        }
    }
    let (order, addr, checkpoint) = newest.unwrap_or((0, "", ""));
    // Without an address: of a file that is being loaded, or was never written.
    let cookie = match addr {
        "" => None,
        hex => Some(Cookie::parse(hex, alloc)?),
    };
    let generation = value_of(checkpoint, "run_write_gen").and_then(|n| n.parse().ok());
    Ok(Newest {
        order,
        cookie,
        generation,
        leaf_page,
    })
}

/// As WiredTiger writes sizes: 4KB, 512B, 4096.
fn size(text: &str) -> Option<u32> {
    let text = text.strip_suffix('B').unwrap_or(text);
    let (digits, shift) = match text.chars().last()? {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    digits.parse::<u32>().ok()?.checked_mul(1 << shift)
}

/// Whether a text that has a configuration of WiredTiger's in it says that checkpoints
/// need not wait for their data.
pub fn unsynced(text: &str) -> bool {
    let bare = text.replace(|c: char| c.is_whitespace() || "\"'\\".contains(c), "");
    bare.split("checkpoint_sync").skip(1).any(|rest| {
        let value = rest.strip_prefix(['=', ':']);
        value.is_some_and(|v| !v.starts_with("true") && !v.starts_with('1'))
    })
}

/// The turtle, as far as it concerns the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turtle {
    pub id: TurtleId,
    pub version: Version,
    /// Of the newest checkpoint of the metadata file: each has one more.
    pub order: u64,
    pub cookie: Option<Cookie>,
    /// Each opening of the database has another.
    pub generation: Option<u64>,
}

/// What a turtle has of a live restore that is over.
const RESTORED: &str = "WTI_LIVE_RESTORE_STATE_COMPLETE";

pub fn turtle(text: &str) -> Result<Turtle, Refusal> {
    if !text.ends_with('\n') {
        return Err(damaged("WiredTiger.turtle: its entry is cut off"));
    }
    let (mut version, mut metadata) = (None, None);
    let mut lines = text.lines();
    while let Some(key) = lines.next() {
        let value = lines
            .next()
            .ok_or_else(|| damaged("WiredTiger.turtle: a key without a value"))?;
        match key {
            "WiredTiger version" => version = Some(value),
            "file:WiredTiger.wt" => metadata = Some(value),
            "Live Restore" if value_of(value, "state") != Some(RESTORED) => {
                return Err(unsupported("a live restore of the database is in progress"));
            }
            _ => {}
        }
    }
    let version = version
        .and_then(version_of)
        .ok_or_else(|| damaged("WiredTiger.turtle: it does not say which WiredTiger wrote it"))?;
    // Cookies and lists have versions of their own.
    if !matches!(version.major, 3 | 10..) {
        return Err(unsupported(format!(
            "the database is of WiredTiger {version}, and 3 and 10 and later are supported"
        )));
    }
    let metadata = metadata.ok_or_else(|| {
        unsupported("WiredTiger.turtle has no WiredTiger.wt: it is cut off, or the database is not in files")
    })?;
    let checkpoint = value_of(metadata, "checkpoint")
        .ok_or_else(|| damaged("WiredTiger.turtle: its entry is cut off, or has no checkpoint"))?;
    let newest = newest(metadata).map_err(|e| e.of("WiredTiger.turtle".as_ref()))?;
    Ok(Turtle {
        id: TurtleId(checkpoint.to_owned()),
        version,
        order: newest.order,
        cookie: newest.cookie,
        generation: newest.generation,
    })
}

fn version_of(config: &str) -> Option<Version> {
    let number = |key| value_of(config, key)?.parse().ok();
    Some(Version {
        major: number("major")?,
        minor: number("minor")?,
        patch: number("patch")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    const OLD: &str = "018181e43f4454d38281e4eba6a0d58381e4ae2cc2a0808080e23fc0cfc0";
    const NEW: &str = "018281e43f4454d38381e4eba6a0d58481e4ae2cc2a0808080e23fc0cfc0";

    fn entry(checkpoints: &str) -> String {
        format!(
            "access_pattern_hint=none,allocation_size=4KB,app_metadata=\"checkpoint=(x=(addr=\\\"00\\\",order=99))\",\
             block_allocation=best,checkpoint=({checkpoints}),checkpoint_backup_info=,checkpoint_lsn=(4,128)"
        )
    }

    #[test]
    fn the_newest_checkpoint_is_the_one_of_the_greatest_order() {
        let checkpoints = format!(
            "WiredTigerCheckpoint.12=(addr=\"{NEW}\",order=12,time=1,size=8192),\
             before=(addr=\"{OLD}\",order=9,time=2,size=8192)"
        );
        let found = newest(&entry(&checkpoints)).unwrap();
        assert_eq!((found.order, found.generation), (12, None));
        let run = entry(&checkpoints.replace("size=8192", "size=8192,write_gen=22,run_write_gen=20"));
        assert_eq!(newest(&run).unwrap().generation, Some(20));
        assert_eq!(found.cookie, Some(Cookie::parse(NEW, 4096).unwrap()));
        assert_eq!(found.leaf_page, None);
        let leaves = |text: &str| newest(&(entry(&checkpoints) + text)).unwrap().leaf_page;
        assert_eq!(leaves(",leaf_page_max=32KB"), Some(32 << 10));
        assert_eq!(leaves(",leaf_page_max=x"), None, "it is only shown");
        let smaller = entry(&checkpoints).replace("=4KB", "=512B");
        assert_eq!(newest(&smaller).unwrap().cookie.unwrap().alloc, 512);
    }

    #[test]
    fn files_without_a_list() {
        for checkpoints in ["", "WiredTigerCheckpoint.1=(addr=\"\",order=1,time=1,size=0)"] {
            assert_eq!(newest(&entry(checkpoints)).unwrap().cookie, None, "{checkpoints}");
        }
        assert_eq!(
            newest("key_format=S").unwrap(),
            Newest {
                order: 0,
                cookie: None,
                generation: None,
                leaf_page: None,
            }
        );
    }

    #[test]
    fn entries_that_are_refused() {
        let why = |config: &str| newest(config).unwrap_err().message;
        let whole = entry("x=(addr=\"\",order=1)");
        let inside = whole.find(",order=1").unwrap();
        assert_eq!(why(&whole[..inside]), "its entry is cut off");
        assert_eq!(why(&entry("x=(order=1)")), "a checkpoint has no addr or no order");
        assert_eq!(
            why(&entry("x=(addr=\"\",order=-1)")),
            "a checkpoint has no addr or no order"
        );
        assert_eq!(why(&entry("").replace("4KB", "4KiB")), "allocation_size=4KiB");
        // Longer than a message
        let long = why(&entry("").replace("4KB", &"é".repeat(1 << 20)));
        assert!(long.starts_with("allocation_size=éé") && long.ends_with("é ...") && long.len() <= 1028);
        assert_eq!(
            why("block_manager=disagg,checkpoint="),
            "its files have block_manager=disagg"
        );
    }

    #[test]
    fn configurations_that_do_not_wait_for_data() {
        for text in [
            "checkpoint_sync=false",
            "create,checkpoint_sync = false,x",
            "checkpoint_sync=0",
            r#"{"checkpoint_sync":false}"#,
            r#"\"checkpoint_sync\" : \"false\""#,
            "checkpoint_sync=true,checkpoint_sync=false",
        ] {
            assert!(unsynced(text), "{text}");
        }
        for text in [
            "",
            "checkpoint_sync",
            "checkpoint_sync=true,x=false",
            "checkpoint_sync: 1",
        ] {
            assert!(!unsynced(text), "{text}");
        }
    }

    #[test]
    fn turtles() {
        let text = |version: &str, more: &str| {
            format!(
                "{more}WiredTiger version string\nWiredTiger\nWiredTiger version\n{version}\nfile:WiredTiger.wt\n{}\n",
                entry(&format!("WiredTigerCheckpoint.3=(addr=\"{OLD}\",order=3)"))
            )
        };
        let t = turtle(&text("major=11,minor=3,patch=1", "")).unwrap();
        assert_eq!(t.version.to_string(), "11.3.1");
        assert_eq!(t.cookie, Some(Cookie::parse(OLD, 4096).unwrap()));
        assert_eq!(t.id.0, format!("WiredTigerCheckpoint.3=(addr=\"{OLD}\",order=3)"));
        // Of a version that nobody has seen
        assert_eq!(turtle(&text("major=13,minor=0,patch=0", "")).unwrap().order, 3);
        let restored = |state: &str| {
            let entry = format!("Live Restore\nstate=WTI_LIVE_RESTORE_STATE_{state}\n");
            text("major=12,minor=0,patch=0", &entry)
        };
        assert_eq!(turtle(&restored("COMPLETE")).unwrap().order, 3);
        for (text, kind, why) in [
            (
                text("major=9,minor=0,patch=0", ""),
                Kind::Unsupported,
                "the database is of WiredTiger 9.0.0, and 3 and 10 and later are supported",
            ),
            (
                text("major=2,minor=9,patch=2", ""),
                Kind::Unsupported,
                "the database is of WiredTiger 2.9.2, and 3 and 10 and later are supported",
            ),
            (
                restored("BACKGROUND_MIGRATION"),
                Kind::Unsupported,
                "a live restore of the database is in progress",
            ),
            (
                text("major=12,minor=0,patch=0", "Live Restore\n1\n"),
                Kind::Unsupported,
                "a live restore of the database is in progress",
            ),
            (
                "WiredTiger version\nmajor=12,minor=0,patch=0\n".into(),
                Kind::Unsupported,
                "WiredTiger.turtle has no WiredTiger.wt: it is cut off, or the database is not in files",
            ),
            (
                text("major=11", ""),
                Kind::Damaged,
                "WiredTiger.turtle: it does not say which WiredTiger wrote it",
            ),
            (
                "file:WiredTiger.wt\n".into(),
                Kind::Damaged,
                "WiredTiger.turtle: a key without a value",
            ),
            (
                text("major=11,minor=3,patch=1", "").replace("checkpoint=(Wired", "x=(Wired"),
                Kind::Damaged,
                "WiredTiger.turtle: its entry is cut off, or has no checkpoint",
            ),
            (
                text("major=11,minor=3,patch=1", "").replace(OLD, "0x"),
                Kind::Damaged,
                "WiredTiger.turtle: the address of a checkpoint is not hexadecimal",
            ),
        ] {
            let e = turtle(&text).unwrap_err();
            assert_eq!((e.kind, e.message.as_str()), (kind, why));
        }
        // Of no length is a part taken for a database without files.
        let whole = text("major=11,minor=3,patch=1", "");
        let entry = whole.find("access_pattern").unwrap();
        for length in 0..whole.len() {
            let e = turtle(&whole[..length]).unwrap_err();
            if length > entry {
                assert_eq!(e.message, "WiredTiger.turtle: its entry is cut off", "{length}");
            }
        }
    }
}

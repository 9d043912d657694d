// SPDX-License-Identifier: GPL-2.0-or-later
//! The target's replies, as described in Documentation/dsm.rst, as structs.
//!
//! The `Serialize` forms are the JSON that `dsmctl` prints; their names are
//! stable.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::class::Class;
use crate::mode::Mode;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    #[error("the kernel's {0} line ends too early")]
    Short(&'static str),
    #[error("the kernel's {line} line is not understood: {why}")]
    Wrong { line: &'static str, why: String },
}

/// The writes that were stamped with one stream since `reset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCount {
    pub stream: u32,
    pub writes: u64,
    pub sectors: u64,
}

/// An upload that has begun and has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadState {
    pub number: u64,
    pub files: u64,
    pub extents: u64,
    /// Since its last message.
    pub idle_ms: u64,
}

/// The `status` line.  Names are the kernel's, here, in JSON and as metrics; those that begin
/// with `discard_` and `upload_` lose that in a struct of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub policy: String,
    pub layout: String,
    pub groups: u32,
    pub device_streams: u32,
    pub source: String,
    /// How many streams the layout uses.
    pub streams_used: u32,
    pub files: u64,
    pub regions: u64,
    pub extents: u64,
    pub generation: u64,
    pub windows: u64,
    pub window_ms: u64,
    pub unmapped_writes: u64,
    pub unmapped_sectors: u64,
    pub split: u64,
    pub foreign: u64,
    #[serde(default)]
    pub streams: Vec<StreamCount>,
    pub upload: Option<UploadState>,
    pub discard: Discard,
    /// The kernel's I/O carries no lifetime hints, whatever the table says of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hints_unsupported: bool,
}

/// Discards of what a checkpoint has freed; all zero if `state` is neither `on` nor `watch`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Discard {
    pub state: Mode,
    /// The current write window; 0: none was begun.
    pub window: u64,
    /// The oldest window that `discard` takes; 0: none.
    pub valid: u64,
    /// Ranges that wait, and discards in flight.
    pub queued: u64,
    pub discarded: u64,
    pub discarded_sectors: u64,
    /// Written, or perhaps.
    pub refused_sectors: u64,
    /// Not written, and in no piece that is long enough.
    pub short_sectors: u64,
    /// Bytes: discards are multiples of the first, and start at `offset` or multiples of
    /// `alignment` behind it.
    pub granularity: u64,
    pub alignment: u64,
    pub offset: u64,
    pub failed: u64,
    /// Writes that waited for a discard, and the longest that one did.
    pub held: u64,
    pub held_max_us: u64,
    /// The longest that a batch of discards took.
    pub plug_max_us: u64,
}

/// A word as JSON has it: a number where it is one; `-` is nothing.
fn value(word: &str) -> Value {
    match word {
        "-" => Value::Null,
        word => word.parse().map_or_else(|_| word.into(), Value::Number),
    }
}

fn understood<T: DeserializeOwned>(line: &'static str, said: impl Into<Value>) -> Result<T, ParseError> {
    serde_json::from_value(said.into()).map_err(|e| ParseError::Wrong {
        line,
        why: e.to_string(),
    })
}

/// A reply of names and values.
pub(crate) fn named<T: DeserializeOwned>(line: &'static str, text: &str) -> Result<T, ParseError> {
    let mut words = text.split_ascii_whitespace();
    let mut said = Map::new();
    while let Some(name) = words.next() {
        let word = words.next().ok_or(ParseError::Short(line))?;
        said.insert(name.to_owned(), value(word));
    }
    understood(line, said)
}

impl FromStr for Status {
    type Err = ParseError;

    /// Names that are not known are skipped.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const LINE: &str = "status";
        let (mut status, mut discard, mut upload) = (Map::new(), Map::new(), Map::new());
        let mut streams: Vec<Value> = Vec::new();
        let mut words = text.split_ascii_whitespace();
        while let Some(name) = words.next() {
            let mut next = || words.next().ok_or(ParseError::Short(LINE));
            let said = value(next()?);
            let (of, name) = match name {
                "stream" => {
                    streams.push(vec![said, value(next()?), value(next()?)].into());
                    continue;
                }
                "discard" => (&mut discard, "state"),
                "discarded" | "discarded_sectors" => (&mut discard, name),
                "upload" => (&mut upload, "number"),
                _ => match (name.strip_prefix("discard_"), name.strip_prefix("upload_")) {
                    (Some(name), _) => (&mut discard, name),
                    (_, Some(name)) => (&mut upload, name),
                    _ => (&mut status, name),
                },
            };
            of.insert(name.to_owned(), said);
        }
        let hints_unsupported = status.get("hints").is_some_and(|h| h == "unsupported");
        status.insert("hints_unsupported".into(), hints_unsupported.into());
        if upload.get("number").is_some_and(|n| n != 0) {
            status.insert("upload".into(), upload.into());
        }
        status.insert("discard".into(), discard.into());
        status.insert("streams".into(), streams.into());
        understood(LINE, status)
    }
}

impl Status {
    /// Sectors of all writes that carried data.
    pub fn sectors(&self) -> u64 {
        self.streams.iter().map(|s| s.sectors).sum()
    }

    /// Whether the policy asks on which side of its boundary a file is written.
    pub fn has_boundaries(&self) -> bool {
        ["boundary", "dsm"].contains(&self.policy.as_str())
    }
}

/// A side of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Bottom,
    Top,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bottom => "bottom",
            Self::Top => "top",
        })
    }
}

/// What the policy found a region to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Group {
    /// 1 (coldest) to K (hottest).
    Number(u32),
    #[serde(with = "primary")]
    Primary,
    /// The class has no groups.
    None,
}

mod primary {
    use serde::{de::Error, Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str("primary")
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<(), D::Error> {
        match String::deserialize(d)?.as_str() {
            "primary" => Ok(()),
            _ => Err(D::Error::custom("it is no group")),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Primary => f.pad("primary"),
            Self::None => f.pad("-"),
        }
    }
}

/// A line of the reply to `regions`: the words are the fields but for the name, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    pub id: u64,
    /// Its path, where somebody who knows it has set it.
    #[serde(skip_deserializing)]
    pub file: Option<String>,
    pub class: Class,
    /// Bytes.
    pub boundary: Option<u64>,
    pub side: Side,
    /// What its extents add up to.
    pub bytes: u64,
    /// 4 KiB pages written in the last window.
    pub pages: u64,
    /// Bytes over which they were spread.
    pub range: u64,
    pub hotness: Option<f64>,
    pub group: Group,
    /// The group whose stream the region has now.
    pub next: Group,
    pub stream: u32,
    pub hint: u32,
    /// 4 KiB pages written since the file is in the table.
    pub total: u64,
}

impl FromStr for Region {
    type Err = ParseError;

    fn from_str(line: &str) -> Result<Self, ParseError> {
        const WORDS: usize = 13;
        let words = line.split_ascii_whitespace().take(WORDS).map(value);
        understood("regions", words.collect::<Vec<_>>())
    }
}

/// The reply to `checkpoint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub window: u64,
    pub ms: u64,
    /// Regions that were written in the window.
    pub written: u64,
    /// Regions whose stream changed.
    pub moved: u64,
}

/// The reply to `begin`.
#[derive(Deserialize)]
pub(crate) struct Begun {
    pub upload: u64,
}

/// The reply to `window`.
#[derive(Deserialize)]
pub(crate) struct Window {
    pub window: u64,
}

/// The reply to `commit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub generation: u64,
    pub files: u64,
    pub extents: u64,
}

/// The parameters of a `dsm` line of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableLine {
    /// The underlying device, as the kernel prints it (`major:minor`).
    pub below: String,
    /// The sector of it at which the target begins.
    pub start: u64,
    /// Features by name, in the kernel's order.
    #[serde(with = "pairs")]
    pub features: Vec<(String, String)>,
}

/// Names and values, in JSON an object.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(all: &[(String, String)], s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(all.iter().map(|(name, value)| (name, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<(String, String)>, D::Error> {
        BTreeMap::deserialize(d).map(|all: BTreeMap<_, _>| all.into_iter().collect())
    }
}

impl FromStr for TableLine {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const LINE: &str = "table";
        let mut words = text.split_ascii_whitespace();
        let mut next = || words.next().ok_or(ParseError::Short(LINE));
        let below = next()?.to_owned();
        let start = understood(LINE, value(next()?))?;
        let mut features = Vec::new();
        if let Ok(count) = next() {
            let count: usize = understood(LINE, value(count))?;
            for _ in 0..count / 2 {
                features.push((next()?.to_owned(), next()?.to_owned()));
            }
        }
        Ok(Self {
            below,
            start,
            features,
        })
    }
}

impl TableLine {
    pub fn feature(&self, name: &str) -> Option<&str> {
        self.features
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "version 1 policy dsm layout dsm groups 3 device_streams 8 source queue \
        streams_used 8 files 12 regions 24 extents 310 generation 2 windows 5 window_ms 41250 \
        unmapped_writes 77 unmapped_sectors 616 split 3 foreign 1 \
        stream 1 80 640 stream 3 10 4096 upload 0";

    #[test]
    fn the_status_line_of_the_documentation() {
        let s: Status = STATUS.parse().unwrap();
        assert_eq!((s.policy.as_str(), s.layout.as_str()), ("dsm", "dsm"));
        assert_eq!((s.groups, s.device_streams, s.streams_used), (3, 8, 8));
        assert_eq!((s.files, s.regions, s.extents), (12, 24, 310));
        assert_eq!((s.windows, s.window_ms), (5, 41250));
        assert_eq!((s.unmapped_writes, s.unmapped_sectors), (77, 616));
        assert_eq!(s.streams.len(), 2);
        assert_eq!(s.streams[1].sectors, 4096);
        assert_eq!(s.sectors(), 4736);
    }

    #[test]
    fn an_upload_under_way() {
        let s: Status = STATUS.parse().unwrap();
        assert_eq!(s.upload, None);
        let s: Status = format!("{STATUS} upload 7 upload_files 3 upload_extents 12 upload_idle_ms 250")
            .parse()
            .unwrap();
        let upload = s.upload.unwrap();
        assert_eq!((upload.number, upload.files), (7, 3));
        assert_eq!((upload.extents, upload.idle_ms), (12, 250));
        assert_eq!(named::<Begun>("begin", "upload 9").unwrap().upload, 9);
        assert!(named::<Begun>("begin", "").is_err());
    }

    #[test]
    fn discards() {
        let s: Status = format!(
            "{STATUS} discard on discard_window 7 discarded 3 discarded_sectors 24 discard_held_max_us 9"
        )
        .parse()
        .unwrap();
        let wanted = Discard {
            state: Mode::On,
            window: 7,
            discarded: 3,
            discarded_sectors: 24,
            held_max_us: 9,
            ..Discard::default()
        };
        assert_eq!(s.discard, wanted);
        assert_eq!(
            serde_json::from_str::<Status>(&serde_json::to_string(&s).unwrap()).unwrap(),
            s
        );
    }

    #[test]
    fn a_newer_kernels_names_are_passed_over() {
        let s: Status = format!("{STATUS} sparkle 9").parse().unwrap();
        assert_eq!(s.split, 3);
    }

    #[test]
    fn a_kernel_without_hints_says_so() {
        let of = |line: &str| line.parse::<Status>().unwrap().hints_unsupported;
        assert!(!of(STATUS));
        assert!(of(&format!("{STATUS} discard off hints unsupported")));
    }

    #[test]
    fn a_status_line_that_lacks_something_is_an_error() {
        assert_eq!(
            "version 1 policy dsm".parse::<Status>().unwrap_err().to_string(),
            "the kernel's status line is not understood: missing field `layout`"
        );
        assert_eq!("version".parse::<Status>(), Err(ParseError::Short("status")));
        assert!(STATUS.replace("split 3", "split x").parse::<Status>().is_err());
    }

    #[test]
    fn region_lines_of_the_documentation() {
        let r: Region = "1234 collection 1048576 bottom 1048576 200 524288 -3.322 2 1 4 3 9000"
            .parse()
            .unwrap();
        assert_eq!(
            (r.id, r.class, r.boundary),
            (1234, Class::Collection, Some(1 << 20))
        );
        assert_eq!(
            (r.side, r.bytes, r.pages, r.range),
            (Side::Bottom, 1 << 20, 200, 524_288)
        );
        assert_eq!(r.hotness, Some(-3.322));
        assert_eq!((r.group, r.next), (Group::Number(2), Group::Number(1)));
        assert_eq!((r.stream, r.hint, r.total), (4, 3, 9000));

        let r: Region = "18446744073709551615 index - top 0 0 0 - primary primary 2 4 0"
            .parse()
            .unwrap();
        assert_eq!((r.id, r.boundary, r.hotness), (u64::MAX, None, None));
        assert_eq!((r.side, r.group), (Side::Top, Group::Primary));

        let r: Region = "7 journal - bottom 0 0 0 - - - 2 2 0".parse().unwrap();
        assert_eq!(r.group, Group::None);
        assert!("7 journal - bottom 0 0 0 - - - 2 2".parse::<Region>().is_err());
        assert!("7 jornal - bottom 0 0 0 - - - 2 2 0".parse::<Region>().is_err());
    }

    #[test]
    fn groups_in_json() {
        let json = serde_json::to_string(&[Group::Number(3), Group::Primary, Group::None]).unwrap();
        assert_eq!(json, r#"[3,"primary",null]"#);
    }

    #[test]
    fn replies_of_checkpoint_and_commit() {
        let c: Checkpoint = named("checkpoint", "window 7 ms 60012 written 9 moved 2").unwrap();
        assert_eq!((c.window, c.ms, c.written, c.moved), (7, 60012, 9, 2));
        let c: Commit = named("commit", "generation 4 files 2 extents 9").unwrap();
        assert_eq!((c.generation, c.files, c.extents), (4, 2, 9));
    }

    #[test]
    fn the_table_line() {
        let t: TableLine = "259:0 2048 4 policy dsm stream_base 1".parse().unwrap();
        assert_eq!((t.below.as_str(), t.start), ("259:0", 2048));
        assert_eq!(t.feature("stream_base"), Some("1"));
        assert_eq!(t.feature("groups"), None);
        assert!("259:0 0".parse::<TableLine>().unwrap().features.is_empty());
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What `serverStatus` says.

use std::collections::BTreeMap;

use serde::Deserialize;

use proto::feed::{clipped, ServerStatus, MAX_OPERATIONS};

/// The count of checkpoints has moved: the section, and its name there.
const CHECKPOINTS: [(&str, &str); 2] = [
    // From 8.0 on.
    ("checkpoint", "total succeed number of checkpoints"),
    ("transaction", "transaction checkpoints"),
];

/// Integers and floats of any size come, and other things between them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Other(serde::de::IgnoredAny),
}

impl Value {
    fn count(&self) -> Option<u64> {
        match self {
            Self::Number(n) => Some(*n as u64),
            Self::Other(_) => None,
        }
    }
}

type Section = BTreeMap<String, Value>;

#[derive(Debug, Deserialize)]
pub struct Reply {
    version: String,
    #[serde(default)]
    opcounters: Section,
    #[serde(rename = "wiredTiger")]
    wired_tiger: Option<WiredTiger>,
}

#[derive(Debug, Deserialize)]
struct WiredTiger {
    #[serde(default)]
    checkpoint: Section,
    #[serde(default)]
    transaction: Section,
}

impl WiredTiger {
    fn checkpoints(&self) -> Option<u64> {
        CHECKPOINTS.iter().find_map(|(section, name)| {
            let section = match *section {
                "checkpoint" => &self.checkpoint,
                _ => &self.transaction,
            };
            section.get(*name)?.count()
        })
    }
}

impl From<Reply> for ServerStatus {
    fn from(r: Reply) -> Self {
        let counts = r
            .opcounters
            .iter()
            .filter_map(|(k, v)| Some((clipped(k), v.count()?)))
            .take(MAX_OPERATIONS);
        Self {
            version: clipped(&r.version),
            checkpoints: r.wired_tiger.as_ref().and_then(WiredTiger::checkpoints),
            operations: counts.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn status(v: Value) -> ServerStatus {
        serde_json::from_value::<Reply>(v).unwrap().into()
    }

    #[test]
    fn checkpoints_of_every_version() {
        let seven = status(json!({"version": "7.0.14", "wiredTiger": {
            "transaction": {"transaction checkpoints": 41, "transaction checkpoint generation": 42}}}));
        assert_eq!((seven.version.as_str(), seven.checkpoints), ("7.0.14", Some(41)));
        let eight = status(json!({"version": "8.0.4", "wiredTiger": {
            "checkpoint": {"total succeed number of checkpoints": 7.0, "number of checkpoints started by api": 9},
            "transaction": {"transaction begins": 1}}}));
        assert_eq!(eight.checkpoints, Some(7));
        assert_eq!(status(json!({"version": "x"})).checkpoints, None);
    }

    #[test]
    fn operations() {
        let s = status(json!({"version": "6.0.1", "opcounters": {
            "insert": 3, "query": 4.0, "deprecated": {"query": 1}}}));
        assert_eq!(
            s.operations,
            BTreeMap::from([("insert".into(), 3), ("query".into(), 4)])
        );
    }
}

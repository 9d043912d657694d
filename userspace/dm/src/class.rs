// SPDX-License-Identifier: GPL-2.0-or-later
//! The classes of files, by the kernel's names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    Collection,
    Index,
    /// An index known to be an `_id` index.
    Primary,
    Journal,
    Oplog,
    Other,
}

impl Class {
    pub const ALL: [Self; 6] = [
        Self::Collection,
        Self::Index,
        Self::Primary,
        Self::Journal,
        Self::Oplog,
        Self::Other,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Collection => "collection",
            Self::Index => "index",
            Self::Primary => "primary",
            Self::Journal => "journal",
            Self::Oplog => "oplog",
            Self::Other => "other",
        }
    }

    /// Whether a file of the one may turn out to be of the other: what is known of
    /// an index grows.
    pub fn kin(self, other: Self) -> bool {
        let plain = |c| if c == Self::Primary { Self::Index } else { c };
        plain(self) == plain(other)
    }

    /// Whether a boundary divides files of this class into regions that are
    /// placed apart.
    pub const fn has_boundary(self) -> bool {
        matches!(self, Self::Collection | Self::Index | Self::Primary)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("class '{0}': must be collection, index, primary, journal, oplog or other")]
pub struct NoSuchClass(String);

impl FromStr for Class {
    type Err = NoSuchClass;

    fn from_str(s: &str) -> Result<Self, NoSuchClass> {
        Self::ALL
            .into_iter()
            .find(|c| c.name() == s)
            .ok_or_else(|| NoSuchClass(s.to_owned()))
    }
}

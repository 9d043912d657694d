// SPDX-License-Identifier: GPL-2.0-or-later
//! The classes of files, by the kernel's names.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use thiserror::Error;

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    EnumString,
    Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = NoSuchClass, parse_err_fn = no_such_class)]
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
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
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

#[derive(Debug, Error, PartialEq, Eq)]
#[error("class '{0}': must be collection, index, primary, journal, oplog or other")]
pub struct NoSuchClass(String);

fn no_such_class(word: &str) -> NoSuchClass {
    NoSuchClass(word.to_owned())
}

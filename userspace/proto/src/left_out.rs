// SPDX-License-Identifier: GPL-2.0-or-later
//! What is left out of what dsmd places, counts and discards of a database: the list of all
//! reasons.  Why a database is not served at all is its [`State`](crate::device::State).

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::control::Info;
use crate::device::DeviceView;

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Omission {
    Symlink,
    Special,
    OtherFileSystem,
    TooDeep,
    Unreadable,
    Unwatched,
    Refused,
    NoBirthTime,
    NoPlace,
    Inline,
    Encoded,
    Elsewhere,
    Shared,
    NoList,
    DeviceSilent,
    DriveSilent,
}

impl Omission {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The value of the metric's label.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What is counted, and what becomes of it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Symlink => "symbolic links, which are not followed",
            Self::Special => "entries that are not regular files",
            Self::OtherFileSystem => "entries on another file system",
            Self::TooDeep => "directories that are nested too deeply",
            Self::Unreadable => "files or directories that cannot be read: writes to them are unmapped",
            Self::Unwatched => "directories that cannot be watched, and are looked at now and then",
            Self::Refused => "files whose places the kernel has refused: it has older ones",
            Self::NoBirthTime => "files without a birth time: their boundaries do not outlive dsmd",
            Self::NoPlace => "extents that have no place yet: writes to them are unmapped",
            Self::Inline => "extents inside an inode or a part of a block",
            Self::Encoded => "extents that are compressed or encrypted",
            Self::Elsewhere => "extents on another device",
            Self::Shared => "extents that files share: they count for one of these",
            Self::NoList => "files of whose free blocks there is no list: nothing of them is discarded",
            Self::DeviceSilent => "device whose counters cannot be read",
            Self::DriveSilent => "drive whose counters cannot be read",
        }
    }

    /// Nobody has set it up so, and something does not work.
    pub const fn is_wrong(self) -> bool {
        matches!(self, Self::Unreadable | Self::DeviceSilent)
    }

    /// It comes and goes as things are, or is said elsewhere.
    pub const fn is_usual(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::NoPlace | Self::Inline | Self::Shared | Self::DriveSilent
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub reason: Omission,
    pub count: u64,
    /// One of them, or why.
    pub example: Option<String>,
}

impl LeftOut {
    /// Nothing, if there is none.
    pub fn some(reason: Omission, count: u64, example: Option<String>) -> Option<Self> {
        (count > 0).then_some(Self {
            reason,
            count,
            example,
        })
    }

    /// For people, who are shown an example in this way.
    pub fn text(&self, show: &dyn Fn(&str) -> String) -> String {
        let example = self.example.as_deref().map(|e| format!(" ({})", show(e)));
        format!(
            "{} {}{}",
            self.count,
            self.reason.text(),
            example.unwrap_or_default()
        )
    }
}

/// Of what an agent says.
pub fn of_agent(info: &Info) -> Vec<LeftOut> {
    let mut all = info.left_out.clone();
    let listless = info.discard.as_ref().map_or(0, |d| d.listless);
    all.extend(LeftOut::some(Omission::NoList, listless, None));
    all
}

/// Of all that is known of a database.
pub fn of(view: &DeviceView) -> Vec<LeftOut> {
    let mut all = view.agent.as_ref().map(of_agent).unwrap_or_default();
    let silent = match &view.kernel {
        Some(k) => k
            .media
            .as_ref()
            .err()
            .map(|why| (Omission::DriveSilent, why.clone())),
        None => {
            let why = view.unseen.as_ref().map(ToString::to_string);
            Some((Omission::DeviceSilent, why.unwrap_or_default()))
        }
    };
    all.extend(silent.map(|(reason, why)| LeftOut {
        reason,
        count: 1,
        example: Some(why),
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_one_name_and_a_text() {
        for reason in Omission::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
            // Bytes have metrics of their own.
            assert!(!reason.text().contains("bytes"), "{reason:?}");
            assert!(!(reason.is_wrong() && reason.is_usual()), "{reason:?}");
        }
    }
}

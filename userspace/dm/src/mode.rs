// SPDX-License-Identifier: GPL-2.0-or-later
//! How far the discards of a device are.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

/// Of what is configured, of the target's switch, and of what dsmd makes of both.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, VariantArray, IntoStaticStr, Display,
)]
#[strum(serialize_all = "lowercase", const_into_str)]
#[serde(from = "String", into = "&str")]
pub enum Mode {
    /// Nothing is known of it.
    #[default]
    #[strum(serialize = "")]
    Unknown,
    Off,
    /// dsmd sends nothing yet; its target is at `Watch`, unless a trial has it on.
    Audit,
    /// The target follows writes, and discards nothing.
    Watch,
    On,
    /// What lies below the target takes no discards.
    Unsupported,
}

impl Mode {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The word of the kernel and of JSON.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    /// What the target is set to for it.
    pub const fn of_target(self) -> Self {
        match self {
            Self::Audit => Self::Watch,
            mode => mode,
        }
    }
}

impl From<&str> for Mode {
    fn from(word: &str) -> Self {
        let found = Self::ALL.iter().find(|mode| mode.name() == word);
        found.copied().unwrap_or_default()
    }
}

impl From<String> for Mode {
    fn from(word: String) -> Self {
        word.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for &mode in Mode::ALL {
            let json = serde_json::to_string(&mode).unwrap();
            assert_eq!(json, format!("\"{mode}\""));
            assert_eq!(serde_json::from_str::<Mode>(&json).unwrap(), mode);
        }
        assert_eq!(Mode::from("of a newer kernel"), Mode::Unknown);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! How far the discards of a device are.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Of what is configured, of the target's switch, and of what dsmd makes of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&str")]
pub enum Mode {
    /// Nothing is known of it.
    #[default]
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
    pub const ALL: [Self; 6] = [
        Self::Unknown,
        Self::Off,
        Self::Audit,
        Self::Watch,
        Self::On,
        Self::Unsupported,
    ];

    /// The word of the kernel and of JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Off => "off",
            Self::Audit => "audit",
            Self::Watch => "watch",
            Self::On => "on",
            Self::Unsupported => "unsupported",
        }
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
        let found = Self::ALL.into_iter().find(|mode| mode.name() == word);
        found.unwrap_or_default()
    }
}

impl From<String> for Mode {
    fn from(word: String) -> Self {
        word.as_str().into()
    }
}

impl From<Mode> for &str {
    fn from(mode: Mode) -> Self {
        mode.name()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for mode in Mode::ALL {
            let json = serde_json::to_string(&mode).unwrap();
            assert_eq!(json, format!("\"{mode}\""));
            assert_eq!(serde_json::from_str::<Mode>(&json).unwrap(), mode);
        }
        assert_eq!(Mode::from("of a newer kernel"), Mode::Unknown);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Why something is not done: a kind, which programs go by, and a sentence, which people read.

use std::fmt;
use std::io::ErrorKind::PermissionDenied;

use dm::device::NoDevice;
use dm::ioctl::DmError;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReasonKind {
    /// No program goes by it.
    #[default]
    Other,
    /// Somebody has switched discards off.
    SwitchedOff,
    /// A trial has, for a period.
    Trial,
    /// A probe has the switch.
    Probe,
    /// The database has made no checkpoint yet.
    Early,
    Backup,
    /// What is below takes no discards, at least for now.
    Unsupported,
    /// No process has the database open.
    Closed,
    /// Another process has opened it.
    Restarted,
    /// The audit has failed, when something had been discarded.
    AuditFailed,
    /// The audit has failed before anything was discarded.
    AuditFailedInTime,
    NotServed,
    /// The directory is no data directory.
    NoDatabase,
    /// It is not on the device.
    NotMounted,
    NoDevice,
    NoDeviceMapper,
    /// Who asks may not look at it.
    Hidden,
}

pub const SWITCHED_OFF: &str = "discards were switched off on the device";
pub const PROBED: &str = "a probe is at work";
pub const OFF_FOR_A_TRIAL: &str = "a trial is at work, and has discards off for a period";
/// What is said of a device before the reason.
pub const AUDIT_FAILED: &str = "the audit of its database has failed";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub kind: ReasonKind,
    pub text: String,
}

impl Reason {
    pub fn new(kind: ReasonKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, text }
    }

    /// Why something has failed.
    pub fn of(e: &anyhow::Error) -> Self {
        let kind = match (e.downcast_ref::<Self>(), e.downcast_ref::<DmError>()) {
            (Some(reason), _) => reason.kind,
            (_, Some(DmError::Control(io))) if io.kind() != PermissionDenied => ReasonKind::NoDeviceMapper,
            _ if e.is::<NoDevice>() => ReasonKind::NoDevice,
            _ => ReasonKind::Other,
        };
        Self::new(kind, format!("{e:#}"))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// In a chain of errors it is what [`Reason::of`] looks for.
impl std::error::Error for Reason {}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::new(ReasonKind::Other, text)
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{anyhow, Context};
    use std::io;

    #[test]
    fn an_error_keeps_its_kind_with_what_is_said_around_it() {
        let reason = Reason::new(ReasonKind::NotMounted, "/db: cannot open it");
        let wanted = |text: &str| Reason::new(ReasonKind::NotMounted, text);
        let e = anyhow!(reason.clone()).context("d");
        assert_eq!(Reason::of(&e), wanted("d: /db: cannot open it"));
        let e = Err::<(), _>(anyhow!("no such file")).context(reason).unwrap_err();
        assert_eq!(Reason::of(&e), wanted("/db: cannot open it: no such file"));
        assert_eq!(Reason::of(&anyhow!("x")), Reason::new(ReasonKind::Other, "x"));
        let control = |kind| Reason::of(&DmError::Control(io::Error::from(kind)).into()).kind;
        assert_eq!(control(io::ErrorKind::NotFound), ReasonKind::NoDeviceMapper);
        assert_eq!(control(PermissionDenied), ReasonKind::Other);
    }
}

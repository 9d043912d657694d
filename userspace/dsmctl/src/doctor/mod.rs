// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl doctor`: what is right on a machine and what is not, from the kernel up to the
//! discards, and the command that fixes it.
//!
//! [`look`] asks those who know; [`machine`] and [`device`] judge what they said, and know
//! nothing of where it came from.

mod database;
mod device;
mod facts;
mod form;
mod ink;
mod look;
mod machine;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::{self as args, Doctor, Output};
use crate::create::block_device;
use crate::device_file;
use crate::view::Viewer;
use drive::identity::Identities;
use facts::{Configuration, Facts};
use ink::Ink;
use look::look;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Right,
    /// Right, with something to know.
    Note,
    Wrong,
    /// It could not be looked at.
    Unknown,
}

/// Texts of findings have names, which a report leaves out: see [`ink`].
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// Nothing: it is about the machine.
    pub device: Option<String>,
    pub check: &'static str,
    pub level: Level,
    pub text: String,
    /// Commands, in their order.
    pub fix: Vec<String>,
    /// What to know before them.
    pub hint: Option<String>,
    /// Figures, with names that stay.
    pub values: Map<String, Value>,
}

/// The findings in the order in which they depend on each other.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// A checkpoint is late when it is older than this, while data is written.
    pub(crate) fn of(facts: &Facts, late: Duration) -> Self {
        let mut findings = machine::judge(facts);
        for d in &facts.devices {
            findings.extend(device::judge(d, late));
        }
        Self { findings }
    }

    pub(crate) fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|f| f.level == level).count()
    }

    /// 0: all is right; 1: something is wrong; 2: nothing is, as far as could be seen.
    pub(crate) fn status(&self) -> u8 {
        match (self.count(Level::Wrong), self.count(Level::Unknown)) {
            (0, 0) => 0,
            (0, _) => 2,
            _ => 1,
        }
    }
}

impl Finding {
    fn new(device: Option<&str>, check: &'static str, level: Level, text: impl Into<String>) -> Self {
        Self {
            device: device.map(str::to_owned),
            check,
            level,
            text: text.into(),
            fix: Vec::new(),
            hint: None,
            values: Map::new(),
        }
    }

    fn fix(mut self, command: impl Into<String>) -> Self {
        self.fix.push(command.into());
        self
    }

    fn fixes(mut self, commands: impl IntoIterator<Item = String>) -> Self {
        self.fix.extend(commands);
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Of an object; `null` has none.
    fn values(mut self, values: Value) -> Self {
        if let Value::Object(values) = values {
            self.values.extend(values);
        }
        self
    }
}

/// The exit status.
pub(crate) fn doctor(a: &Doctor, out: Output) -> Result<u8> {
    let facts = look(&a.names, configuration(&args::config_dir()), &Viewer::new());
    let diagnosis = Diagnosis::of(&facts, a.checkpoint_seconds.0);
    let ink = if a.report { Ink::hiding() } else { Ink::plain() };
    let json = match out {
        Output::Json => diagnosis.json(&ink),
        Output::Text => Value::Null,
    };
    crate::print(out, &json, || diagnosis.text(&ink))?;
    Ok(diagnosis.status())
}

/// What files say that there is to be; one that is not there says nothing.
fn configuration(dir: &Path) -> Configuration {
    let all = device_file::all(dir);
    let files = all.as_deref().unwrap_or_default();
    let mut bad_lines = device_file::problems(&Identities::default(), files, &block_device);
    bad_lines.extend(all.as_ref().err().map(|e| format!("{e:#}")));
    let right = all.into_iter().flatten();
    Configuration {
        files: right
            .filter_map(|(name, file)| Some((name, file.ok()?)))
            .collect(),
        bad_lines,
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The placement policies, by name.

mod autostream;
mod filestream;
mod group;
mod kernel;
mod objects;
mod oracle;
mod plain;
mod rules;

use std::fmt;
use std::str::FromStr;

use anyhow::{anyhow, bail};
use serde::Serialize;

use super::files::Files;
use super::play::WriteRequest;
use super::profile::Profile;
use super::{Model, SimError};
use crate::trace::{FileNo, Trace};
use ::policies::filestream::divider::Modules;
use filestream::Modification;
use kernel::{KernelFeatures, KernelPlacement, Prediction, Range, When};

/// 1 and more; 0 is a write without a stream.
pub type Stream = u8;

pub trait Policy {
    fn named(&mut self, _files: &Files, _file: FileNo, _us: u64) {}
    fn deleted(&mut self, _files: &Files, _file: FileNo, _us: u64) {}
    /// In the trace, the writes that follow carry this stream.
    fn placed(&mut self, _stream: Stream) {}
    /// A write begins; its pages follow.
    fn request(&mut self, _files: &Files, _request: &WriteRequest) {}
    fn place(&mut self, files: &Files, file: FileNo, page: u32) -> Stream;
    fn begins(&mut self, _files: &Files, _us: u64) {}
    fn checkpoint(&mut self, _files: &Files, _us: u64) {}
    /// Group and stream of the bottom and the top of a file, for those that have groups.
    fn groups(&self, _file: FileNo) -> Option<[(u8, Stream); 2]> {
        None
    }
    fn predictions(&self) -> Predictions {
        Predictions::default()
    }
}

/// Regions that were written in a window whose group was given before it, and their pages;
/// and those whose group the window has confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Predictions {
    pub regions: u64,
    pub pages: u64,
    pub right_regions: u64,
    pub right_pages: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum PolicyKind {
    Kernel(KernelFeatures),
    /// The layout that the drive can afford.
    Auto,
    PerFile,
    Extension,
    AutoStreamSfr {
        decay: Option<f64>,
    },
    AutoStreamMq,
    FileStream {
        seconds: Option<f64>,
        modules: Modules,
        count: Modification,
    },
    PerObject,
    Rules,
    Recorded,
    Oracle,
}

/// A policy as the command line names it: `NAME[:FEATURE=VALUE,...]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    kind: PolicyKind,
    text: String,
}

/// Each that the module does not have: its name, its source, and what it is without features.
const OTHERS: [(&str, &str, PolicyKind); 10] = [
    (
        "per-file",
        "DSM paper, sec. 3.2: a stream for each file while streams last",
        PolicyKind::PerFile,
    ),
    (
        "f2fs",
        "F2FS: hot, warm and cold by file extension",
        PolicyKind::Extension,
    ),
    (
        "autostream-sfr",
        "AutoStream (SYSTOR '17): sequentiality, frequency, recency",
        PolicyKind::AutoStreamSfr { decay: None },
    ),
    (
        "autostream-mq",
        "AutoStream (SYSTOR '17): multi-queue",
        PolicyKind::AutoStreamMq,
    ),
    (
        "filestream",
        "FileStream (HotStorage '21): mapper, remapper, divider",
        PolicyKind::FileStream {
            seconds: None,
            modules: Modules::All,
            count: Modification::Request,
        },
    ),
    (
        "per-object",
        "Don't mix pages with different lifetimes (EDBT '18), knowing the run",
        PolicyKind::PerObject,
    ),
    ("rules", "the objects of --rules", PolicyKind::Rules),
    (
        "recorded",
        "the streams that the writes of the trace carry",
        PolicyKind::Recorded,
    ),
    (
        "oracle",
        "when each page is written next, knowing the run",
        PolicyKind::Oracle,
    ),
    (
        "auto",
        "the most streams that the drive can afford",
        PolicyKind::Auto,
    ),
];

fn other(name: &str) -> Option<&'static (&'static str, &'static str, PolicyKind)> {
    OTHERS.iter().find(|(other, ..)| *other == name)
}

/// The module's, then the others.
fn names() -> impl Iterator<Item = &'static str> {
    policies::names()
        .into_iter()
        .chain(OTHERS.iter().map(|(name, ..)| *name))
}

impl Spec {
    /// What is compared when nothing is asked for.
    pub fn all(rules: bool) -> Vec<Self> {
        names()
            .filter(|name| !["auto", "recorded"].contains(name) && (rules || *name != "rules"))
            .map(|name| name.parse().expect("the names are known"))
            .collect()
    }

    pub fn source(&self) -> &'static str {
        match self.text.split(':').next().unwrap_or_default() {
            "none" => "the drive without streams",
            "file" => "DSM paper, sec. 3.1: a stream for each type of file",
            "boundary" => "DSM paper, Fig. 4",
            "dsm" => "DSM paper, Figs. 7 and 9: dm-dsm/policies/policies.c",
            "life" => "files of all types by how soon they are rewritten: dm-dsm/policies/life.c",
            name => other(name).map_or("dm-dsm/policies", |(_, source, _)| source),
        }
    }

    /// As it was given.
    pub fn name(&self) -> &str {
        &self.text
    }

    pub fn is_auto(&self) -> bool {
        self.kind == PolicyKind::Auto
    }

    /// What the module has, and a user can choose.
    pub fn is_of_the_module(&self) -> bool {
        matches!(self.kind, PolicyKind::Kernel(_) | PolicyKind::Auto)
    }

    fn kind(&self, model: &Model, profile: &Profile) -> PolicyKind {
        match self.kind {
            PolicyKind::Auto => {
                let drive = model.drive_units(model.wanted_pages(profile));
                PolicyKind::Kernel(KernelFeatures::of_layout(drive.choose()))
            }
            kind => kind,
        }
    }

    /// Streams that it uses at most.
    pub fn streams(&self, model: &Model, profile: &Profile) -> u8 {
        match self.kind(model, profile) {
            PolicyKind::Kernel(f) => f.streams(model.streams),
            _ => model.streams,
        }
    }

    pub fn build<'a>(
        &self,
        trace: &Trace,
        model: &'a Model,
        profile: &Profile,
    ) -> Result<Box<dyn Policy + 'a>, SimError> {
        let n = model.streams;
        Ok(match self.kind(model, profile) {
            PolicyKind::Kernel(features) if features.when == When::Begin && !trace.begins => {
                return Err(SimError::NoBegins(self.to_string()))
            }
            PolicyKind::Kernel(features) => Box::new(KernelPlacement::new(features, n)),
            PolicyKind::Auto => unreachable!("kind() has chosen"),
            PolicyKind::PerFile => Box::new(plain::PerFile::new(n)),
            PolicyKind::Extension => Box::new(plain::Extension { streams: n }),
            PolicyKind::AutoStreamSfr { decay } => Box::new(autostream::Sfr::new(n, decay, profile)),
            PolicyKind::AutoStreamMq => Box::new(autostream::MultiQueue::new(n)),
            PolicyKind::FileStream {
                seconds,
                modules,
                count,
            } => Box::new(filestream::Adapter::new(n, seconds, modules, count, profile)),
            PolicyKind::PerObject => Box::new(objects::PerObject::new(n, profile)),
            PolicyKind::Recorded if !trace.placed => return Err(SimError::NoStreams),
            PolicyKind::Recorded => Box::new(plain::Recorded::default()),
            PolicyKind::Rules => Box::new(rules::ByRules::new(&model.rules, n)),
            PolicyKind::Oracle => Box::new(oracle::Oracle::new(trace, model, profile)?),
        })
    }

    /// Bytes of memory that it takes for each page that is written.
    pub(crate) fn bytes_per_write(&self) -> u64 {
        u64::from(self.kind == PolicyKind::Oracle)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Spec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, features) = text.split_once(':').unwrap_or((text, ""));
        let of_module = |name| policies::names().into_iter().find(|n| *n == name);
        let mut kind = match (other(name), of_module(name)) {
            (Some((.., kind)), _) => *kind,
            (None, Some(name)) => PolicyKind::Kernel(KernelFeatures::of(name)),
            (None, None) => {
                let all: Vec<&str> = names().collect();
                bail!("there is no policy '{name}'; there are {}", all.join(", "))
            }
        };
        for feature in features.split(',').filter(|f| !f.is_empty()) {
            let (key, value) = feature.split_once('=').unwrap_or((feature, ""));
            set(&mut kind, key, value).map_err(|must| match must {
                Some(must) => anyhow!("policy {name}: {key} '{value}': it must be {must}"),
                None => anyhow!("policy {name} has no feature '{key}'"),
            })?;
        }
        Ok(Self {
            kind,
            text: text.to_owned(),
        })
    }
}

/// `Err(None)`: there is no such feature; otherwise what the value must be.
fn set(kind: &mut PolicyKind, key: &str, value: &str) -> Result<(), Option<&'static str>> {
    match (kind, key) {
        (PolicyKind::Kernel(f), "streams") if f.policy != "none" => {
            f.streams = Some(number(value, 1, 255).ok_or(Some("a number from 1 to 255"))? as u8);
        }
        (PolicyKind::Kernel(f), "groups") if f.has_groups() => {
            f.groups = number(value, 2, 16).ok_or(Some("a number from 2 to 16"))?;
        }
        (PolicyKind::Kernel(f), "when") if f.has_groups() => {
            f.when = one_of(value, "begin or end", &[When::Begin, When::End])?;
        }
        (PolicyKind::Kernel(f), _) if f.policy == "dsm" => set_dsm(f, key, value)?,
        (PolicyKind::FileStream { modules, .. }, "modules") => {
            let all = [Modules::Mapper, Modules::Remapper, Modules::Halves, Modules::All];
            *modules = one_of(value, "mapper, remapper, halves or all", &all)?;
        }
        (PolicyKind::FileStream { count, .. }, "count") => {
            let all = [Modification::Request, Modification::Page];
            *count = one_of(value, "requests or pages", &all)?;
        }
        (PolicyKind::FileStream { seconds, .. }, "t") => {
            *seconds = Some(positive(value).ok_or(Some("a number of seconds above 0"))?);
        }
        (PolicyKind::AutoStreamSfr { decay }, "decay") => {
            *decay = Some(positive(value).ok_or(Some("a number of windows above 0"))?);
        }
        _ => return Err(None),
    }
    Ok(())
}

fn set_dsm(f: &mut KernelFeatures, key: &str, value: &str) -> Result<(), Option<&'static str>> {
    match key {
        "alpha" => f.alpha = Some(number(value, 2, 64).ok_or(Some("a number from 2 to 64"))?),
        "prediction" => {
            use Prediction::{Computed, Literal, Off, Predicted};
            let all = [Off, Predicted, Computed, Literal];
            f.prediction = one_of(value, "off, predicted, computed or literal", &all)?;
        }
        "range" => f.range = one_of(value, "written or region", &[Range::Written, Range::Region])?,
        "primary_filter" => f.primary_filter = one_of(value, "on or off", &[true, false])?,
        "threshold1" => f.threshold1 = number(value, 0, 20000).ok_or(Some("0 to 20000, in 0.01 %"))?,
        "threshold2" => f.threshold2 = number(value, 0, 10000).ok_or(Some("0 to 10000, in 0.01 %"))?,
        _ => return Err(None),
    }
    Ok(())
}

/// What has that place in the list of words.
fn one_of<T: Copy>(value: &str, words: &'static str, all: &[T]) -> Result<T, Option<&'static str>> {
    let at = words
        .split(", ")
        .flat_map(|w| w.split(" or "))
        .position(|w| w == value);
    at.map(|at| all[at]).ok_or(Some(words))
}

fn number(s: &str, min: u32, max: u32) -> Option<u32> {
    s.parse().ok().filter(|n| (min..=max).contains(n))
}

fn positive(s: &str) -> Option<f64> {
    s.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0)
}

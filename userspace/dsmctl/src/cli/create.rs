// SPDX-License-Identifier: GPL-2.0-or-later
//! The arguments of `create`, `insert` and `grow`: the features of the target.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use dm::mode::Mode;
use dm::name;
use dm::reply::TableLine;
use runtime::sizes;

#[derive(Debug, clap::Args)]
pub struct CreateNow {
    #[command(flatten)]
    pub create: Create,
    #[command(flatten)]
    pub dry: DryRun,
    /// Keep all this in /etc/dsm/NAME.toml, with the drive's wwid: the device is made again when
    /// the system starts
    #[arg(long, conflicts_with = "on")]
    pub save: bool,
    /// The data directory that dsmd@NAME.service is to serve on it
    #[arg(long, value_name = "DIR", requires = "save")]
    pub dbpath: Option<PathBuf>,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Create {
    /// 1 to 80 letters, digits and -.:@_, as an instance of systemd's units has them
    #[arg(value_parser = name::parse)]
    pub name: String,
    /// The underlying device: a flash device with write streams, or what leads to one
    pub dev: PathBuf,
    #[command(flatten)]
    pub features: Features,
    /// Sector of DEV at which the device begins; with a suffix, bytes: 1MiB
    #[arg(long, value_name = "SECTOR", default_value_t = 0, value_parser = sector)]
    pub start: u64,
    /// Length in sectors; with a suffix, bytes: 100GiB [default: to the end of DEV]
    #[arg(long, value_name = "SECTORS", value_parser = length)]
    pub size: Option<u64>,
    /// The drive that DEV must be, as `wwid` of it in sysfs has it, with -partN of a partition
    #[arg(long, value_name = "WWID")]
    pub wwid: Option<String>,
}

/// What the target's feature may be asked to be.
const MODES: [Mode; 3] = [Mode::On, Mode::Audit, Mode::Off];

/// The features of the target; what is not given is the kernel's default.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct Features {
    /// How streams are assigned [default: as the drive affords, see --groups]
    #[arg(long, value_parser = PossibleValuesParser::new(policies::names()))]
    pub policy: Option<String>,
    /// K, groups of hotness, or auto
    ///
    /// With auto, and when neither this nor --policy nor --streams is given, it is life with
    /// K = 3, life with K = 2, file with two streams, or none: the first whose streams hold
    /// less than a tenth of the drive's spare erase units (a 25th where handles are initially
    /// isolated); and none on drives of less than 300 units, or that do not tell. Which, and
    /// why, is said.
    #[arg(long, value_name = "K|auto", value_parser = count)]
    pub groups: Option<Auto<u32>>,
    /// Streams to use: auto takes all that are known, N at most so many
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = count)]
    pub streams: Auto<u32>,
    /// Whether the target keeps track of writes, so that it can discard what
    /// checkpoints free
    #[arg(long, value_parser = PossibleValuesParser::new(MODES.map(Mode::name)).map(Mode::from))]
    pub discard: Option<Mode>,
    /// What the length of a discard is a multiple of, a power of two
    ///
    /// This is for what was measured of a drive that says something else. Pages that are
    /// free are discarded when so many lie side by side.
    #[arg(long, value_name = "auto|BYTES", value_parser = piece)]
    pub discard_granularity: Option<Auto<u64>>,
    /// What the start of a discard is a multiple of, a power of two [default: as the drive
    /// says, where it prefers a smaller alignment than length (NVMe's NPDA and NPDG);
    /// otherwise auto, the granularity]
    #[arg(long, value_name = "auto|BYTES", value_parser = piece)]
    pub discard_alignment: Option<Auto<u64>>,
    /// Another feature of the target, such as prediction=off; may be repeated
    ///
    /// It goes to the kernel as it is. dsm.rst has all of them, their values and
    /// defaults.
    #[arg(short, long = "feature", value_name = "NAME=VALUE", value_parser = feature)]
    pub features: Vec<(String, String)>,
}

#[derive(Debug, clap::Args)]
pub struct Insert {
    /// The device: a name of device-mapper's, such as vg-lv, or a path that leads to it
    pub device: String,
    #[command(flatten)]
    pub features: Features,
    #[command(flatten)]
    pub dry: DryRun,
}

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct DryRun {
    /// Check all and print the table that the device would get, and change nothing
    #[arg(long = "dry-run")]
    pub on: bool,
}

#[derive(Debug, clap::Args)]
pub struct Grow {
    pub name: String,
    /// The new length in sectors; with a suffix, bytes: 100GiB [default: to the end of what it
    /// lies on]
    #[arg(long, value_name = "SECTORS", value_parser = length)]
    pub size: Option<u64>,
    #[command(flatten)]
    pub dry: DryRun,
}

pub(crate) fn filler(s: &str) -> Result<u64, String> {
    sizes::bytes(s).ok_or_else(|| "it must be a number of bytes, such as 0 or 1G".into())
}

pub(crate) fn sector(s: &str) -> Result<u64, String> {
    sizes::sectors(s)
        .ok_or_else(|| "it must be a number of sectors, or of bytes with a suffix, such as 1MiB".into())
}

pub(crate) fn length(s: &str) -> Result<u64, String> {
    match sector(s)? {
        0 => Err("it must be one sector or more".into()),
        n => Ok(n),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auto<T> {
    /// As the drive or what lies below affords.
    #[default]
    Auto,
    Number(T),
}

impl<T> Auto<T> {
    /// Nothing: auto.
    pub fn number(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Number(n) => Some(n),
        }
    }
}

impl<T: std::fmt::Display> std::fmt::Display for Auto<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Number(n) => n.fmt(f),
        }
    }
}

fn auto<T>(word: &str, number: Option<T>, what: &str) -> Result<Auto<T>, String> {
    match number {
        _ if word == "auto" => Ok(Auto::Auto),
        Some(n) => Ok(Auto::Number(n)),
        None => Err(format!("it must be auto or {what}")),
    }
}

pub(crate) fn count(s: &str) -> Result<Auto<u32>, String> {
    auto(s, s.parse().ok(), "a number")
}

pub(crate) fn piece(s: &str) -> Result<Auto<u64>, String> {
    auto(s, sizes::bytes(s), "a number of bytes, such as 128K")
}

/// The features that have an option.
const OPTIONS: [&str; 6] = [
    "policy",
    "groups",
    "streams",
    "discard",
    "discard_granularity",
    "discard_alignment",
];

pub(crate) fn feature(s: &str) -> Result<(String, String), String> {
    let is_word = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_graphic());
    let Some((name, value)) = s.split_once('=').filter(|(n, v)| is_word(n) && is_word(v)) else {
        return Err("it must be NAME=VALUE".into());
    };
    let name = name.to_ascii_lowercase().replace('-', "_");
    if OPTIONS.contains(&name.as_str()) {
        return Err(format!("this is the option --{}", name.replace('_', "-")));
    }
    Ok((name, value.to_owned()))
}

/// The options of `dsmctl insert` and `dsmctl create` that give a table its features.
pub fn options(table: &TableLine) -> Vec<String> {
    // Disks are found again, and auto is what is not said.
    let said = table
        .features
        .iter()
        .filter(|(name, value)| name.as_str() != "leaves" && value.as_str() != "auto");
    said.map(|(name, value)| match (name.as_str(), value.as_str()) {
        ("discard", word) if Mode::from(word) == Mode::Watch => format!("--discard {}", Mode::Audit),
        (name, value) if OPTIONS.contains(&name) => format!("--{} {value}", name.replace('_', "-")),
        (name, value) => format!("-f {name}={value}"),
    })
    .collect()
}

impl Features {
    /// Nobody has asked for any.
    pub fn are_defaults(&self) -> bool {
        *self == Self::default()
    }

    /// Those that have an option, and were given.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let values = [
            self.policy.clone(),
            self.groups.map(|n| n.to_string()),
            self.streams.number().map(|n| n.to_string()),
            self.discard.map(|mode| mode.to_string()),
            self.discard_granularity.map(|n| n.to_string()),
            self.discard_alignment.map(|n| n.to_string()),
        ];
        let all = OPTIONS.into_iter().zip(values);
        all.filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The first stream to use.
    pub fn stream_base(&self) -> u32 {
        let found = self.features.iter().find(|(name, _)| name == "stream_base");
        found.and_then(|(_, value)| value.parse().ok()).unwrap_or(1)
    }

    /// Whether the drive decides how streams are assigned, or why that is not clear.
    pub fn follow_drive(&self) -> Result<bool, String> {
        match (self.groups, &self.policy) {
            (Some(Auto::Auto), Some(policy)) => Err(format!(
                "groups auto chooses the policy, too: it cannot be given with policy {policy}"
            )),
            (Some(Auto::Auto), None) => Ok(true),
            (None, None) => Ok(self.streams == Auto::Auto),
            _ => Ok(false),
        }
    }
}

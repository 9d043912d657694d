// SPDX-License-Identifier: GPL-2.0-or-later
//! The arguments of `create`, `insert`, `upgrade` and `attach`: the features of the target.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use crate::dsmtab::TAB;
use dm::name;
use runtime::sizes;
use simulate::flash::PAGE;

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
}

/// The features of the target; what is not given is the kernel's default.
#[derive(Clone, Debug, clap::Args)]
pub struct Features {
    /// How streams are assigned [default: as the drive affords, see --groups]
    #[arg(long, value_parser = PossibleValuesParser::new(policies::names()))]
    pub policy: Option<String>,
    /// K, groups of hotness [kernel: 3], or auto
    ///
    /// With auto, and when neither this nor --policy nor --streams is given, it is life with
    /// K = 3, life with K = 2, file with two streams, or none: the first whose streams hold
    /// less than a tenth of the drive's spare erase units (a 25th where handles are initially
    /// isolated); and none on drives of less than 300 units, or that do not tell. Which, and
    /// why, is said.
    #[arg(long, value_name = "K|auto", value_parser = groups)]
    pub groups: Option<Groups>,
    /// Weight of the outer groups [kernel: K]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=64))]
    pub alpha: Option<u8>,
    /// How the next window's group is predicted
    ///
    /// predicted is the paper's Fig. A.5 where both sides of a file were written, literal
    /// Fig. A.5 as it stands, whether they were or not; computed compares with the group of the
    /// window before, and off takes the group just computed.
    #[arg(long, value_parser = ["off", "predicted", "computed", "literal"])]
    pub prediction: Option<String>,
    /// What writes are divided by: the written span or the region
    #[arg(long, value_parser = ["written", "region"])]
    pub range: Option<String>,
    /// Whether indexes that are hardly written count as primary
    #[arg(long, value_parser = ["on", "off"])]
    pub primary_filter: Option<String>,
    /// Share of all index writes up to which an index is primary [kernel: 10]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub threshold1: Option<u32>,
    /// Share in either region up to which it is [kernel: 0.05]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub threshold2: Option<u32>,
    /// Streams to use: auto takes all that are known, N at most so many
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = streams)]
    pub streams: Streams,
    /// The first stream to use [kernel: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub stream_base: Option<u8>,
    /// Whether lifetime hints are stamped, too
    #[arg(long, value_parser = ["on", "off"])]
    pub hints: Option<String>,
    /// What becomes of a stream or hint that a write brings along
    #[arg(long, value_parser = ["keep", "override", "class"])]
    pub foreign: Option<String>,
    /// Whether the target keeps track of writes, so that it can discard what
    /// checkpoints free [kernel: off]
    #[arg(long, value_parser = ["on", "audit", "off"])]
    pub discard: Option<String>,
    /// What the length of a discard is a multiple of, a power of two [kernel: the device's]
    ///
    /// This is for what was measured of a drive that says something else. Pages that are
    /// free are discarded when so many lie side by side.
    #[arg(long, value_name = "auto|BYTES", value_parser = piece)]
    pub discard_granularity: Option<PieceSize>,
    /// What the start of a discard is a multiple of, a power of two [default: as the drive
    /// says, where it prefers a smaller alignment than length (NVMe's NPDA and NPDG);
    /// otherwise auto, the granularity]
    #[arg(long, value_name = "auto|BYTES", value_parser = piece)]
    pub discard_alignment: Option<PieceSize>,
}

#[derive(Debug, clap::Args)]
pub struct Insert {
    /// The device: a name of device-mapper's, such as vg-lv, or a path that leads to it
    pub device: String,
    #[command(flatten)]
    pub features: Features,
}

#[derive(Debug, clap::Args)]
pub struct Upgrade {
    /// The module's file [default: the one that modprobe finds]
    #[arg(long, value_name = "FILE")]
    pub module: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["name", "all", "check"])))]
pub struct Attach {
    #[arg(value_parser = name::parse)]
    pub name: Option<String>,
    /// Make all devices of the table that are not noauto
    #[arg(long)]
    pub all: bool,
    /// Say what is wrong with the table, and end
    #[arg(long)]
    pub check: bool,
    /// The table
    #[arg(long, value_name = "FILE", default_value = TAB)]
    pub tab: PathBuf,
}

pub(super) fn filler(s: &str) -> Result<u64, String> {
    sizes::bytes(s).ok_or_else(|| "it must be a number of bytes, such as 0 or 1G".into())
}

pub(super) fn sector(s: &str) -> Result<u64, String> {
    sizes::sectors(s)
        .ok_or_else(|| "it must be a number of sectors, or of bytes with a suffix, such as 1MiB".into())
}

pub(super) fn length(s: &str) -> Result<u64, String> {
    match sector(s)? {
        0 => Err("it must be one sector or more".into()),
        n => Ok(n),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// As the drive affords; this is about the policy and the streams, too.
    Auto,
    Number(u8),
}

fn groups(s: &str) -> Result<Groups, String> {
    match (s, s.parse::<u8>()) {
        ("auto", _) => Ok(Groups::Auto),
        (_, Ok(k @ 2..=16)) => Ok(Groups::Number(k)),
        (_, Ok(_)) => Err(format!("{s} is not in 2..=16")),
        (_, Err(_)) => Err("it must be auto or a number in 2..=16".into()),
    }
}

impl Features {
    /// Nobody has asked for any.
    pub fn are_defaults(&self) -> bool {
        let Self {
            policy: None,
            groups: None,
            alpha: None,
            prediction: None,
            range: None,
            primary_filter: None,
            threshold1: None,
            threshold2: None,
            streams: Streams::Auto,
            stream_base: None,
            hints: None,
            foreign: None,
            discard: None,
            discard_granularity: None,
            discard_alignment: None,
        } = self
        else {
            return false;
        };
        true
    }

    /// Whether the drive decides how streams are assigned, or why that is not clear.
    pub fn follow_drive(&self) -> Result<bool, String> {
        match (self.groups, &self.policy) {
            (Some(Groups::Auto), Some(policy)) => Err(format!(
                "groups auto chooses the policy, too: it cannot be given with policy {policy}"
            )),
            (Some(Groups::Auto), None) => Ok(true),
            (None, None) => Ok(self.streams == Streams::Auto),
            _ => Ok(false),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    Auto,
    Number(u8),
}

/// A size that discards have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceSize {
    Auto,
    Bytes(u32),
}

/// As the kernel takes it.
pub(crate) const MOST_PIECE: u64 = 64 << 20;

fn piece(s: &str) -> Result<PieceSize, String> {
    if s == "auto" {
        return Ok(PieceSize::Auto);
    }
    sizes::bytes(s)
        .filter(|n| n.is_power_of_two() && (PAGE..=MOST_PIECE).contains(n))
        .map(|n| PieceSize::Bytes(n as u32))
        .ok_or_else(|| "it must be auto or a power of two from 4K to 64M".into())
}

fn streams(s: &str) -> Result<Streams, String> {
    if s == "auto" {
        return Ok(Streams::Auto);
    }
    s.parse()
        .map(Streams::Number)
        .map_err(|_| "it must be auto or a number from 0 to 255".into())
}

/// A percentage in units of 0.01 %, as the kernel takes it.
pub fn percent(s: &str) -> Result<u32, String> {
    let error = || format!("'{s}': it must be a percentage with at most two decimals, such as 0.05");
    let number = s.strip_suffix('%').unwrap_or(s).trim();
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 4 || part.len() > 2 || !digits(whole) || !digits(part) {
        return Err(error());
    }
    let whole: u32 = whole.parse().map_err(|_| error())?;
    let part: u32 = format!("{part:0<2}").parse().map_err(|_| error())?;
    Ok(whole * 100 + part)
}

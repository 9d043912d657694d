// SPDX-License-Identifier: GPL-2.0-or-later
//! The arguments of `record` and `simulate`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;

use database::rules::Source;
use runtime::sizes;
use simulate::flash::{Destination, Gc, PAGE};
use simulate::sim::policies::Spec;
use simulate::sim::LoadStream;

#[derive(Debug, clap::Args)]
pub struct Record {
    /// The database's data directory
    pub dbpath: PathBuf,
    /// The file to write, best on another device
    pub recording: PathBuf,
    /// Stop after this time [default: at SIGINT or SIGTERM]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// The directory of an engine other than WiredTiger: the length of a window
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub window: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub struct Simulate {
    /// What dsmctl record wrote, an iolog of fio, or what blkparse prints
    pub recording: PathBuf,
    /// auto, none, file, boundary, dsm, per-file, f2fs, autostream-sfr, autostream-mq,
    /// filestream, per-object, life, rules, recorded or oracle; several with commas between them, or
    /// given several times [default: all but auto and recorded]
    ///
    /// recorded takes the streams that the writes of the recording carry.
    ///
    /// auto is the first of life with K = 3, life with K = 2, the journal apart and none
    /// whose streams hold less than a tenth of the drive's spare erase units (a 25th where
    /// garbage collection mixes all streams); none on drives of less than 300 units.
    ///
    /// Features follow a colon, as in none,dsm:groups=4,prediction=off,file. file,
    /// boundary, dsm and life have streams, the most that they use; those of dsm
    /// are groups, alpha, prediction, range, primary_filter, threshold1 and
    /// threshold2 (in 0.01 %); those of filestream are t (seconds), modules
    /// (mapper, remapper, halves or all) and count, of what a modification is one (requests, as in
    /// the paper, or pages, as dsmd counts) [default: requests], that of life is groups, that of autostream-sfr is
    /// decay (in windows from checkpoint to checkpoint). dsm and life have when: begin, where
    /// the trace says when checkpoints begin, or end, at which dsmd computes streams [default: end].
    #[arg(long, value_name = "POLICY")]
    pub policy: Vec<Specs>,
    /// With discards of what checkpoints free, without, or both; discards
    /// need a recording with WiredTiger's lists
    #[arg(long, value_enum, default_value_t = Discards::Both)]
    pub discard: Discards,
    /// What the length of a discard is a multiple of, as dsm makes them for a drive that
    /// reports it (discard_granularity; 128K is common)
    ///
    /// Above 4K, shorter pieces are discarded later, together with their neighbours.
    #[arg(long, value_name = "BYTES", default_value = "4K", value_parser = size)]
    pub discard_granularity: u64,
    /// What the start of a discard is a multiple of [default: the granularity]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub discard_alignment: Option<u64>,
    /// Streams of the drive
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    pub streams: u8,
    /// Over-provisioning, as a share of the drive's size
    #[arg(long, value_name = "SHARE", default_value_t = 0.15, value_parser = op)]
    pub op: f64,
    /// How much of the drive the trace's data fills
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = fill)]
    pub fill: f64,
    /// Size of the drive, in place of --fill
    #[arg(long, value_name = "BYTES", value_parser = size, conflicts_with = "fill")]
    pub size: Option<u64>,
    /// Erase unit (reclaim unit), 256K to 1G [default: 1M, less for a drive that is
    /// too small for its streams]
    #[arg(long, value_name = "BYTES", value_parser = unit)]
    pub unit: Option<u64>,
    /// How units to be erased are chosen
    #[arg(long, value_enum, default_value_t = Gc::Greedy)]
    pub gc: Gc,
    /// Whether pages that are copied stay in their stream, as on the papers' drives
    /// and with FDP's persistently isolated handles, are mixed (initially isolated
    /// handles), or share erase units with what the host writes to their stream, as a
    /// plain drive may do it
    #[arg(long, value_enum, default_value_t = Destination::Stream)]
    pub gc_destination: Destination,
    /// Erase units that garbage collection keeps free, as a share of all, out of the
    /// over-provisioning [default: one unit]
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, hide_default_value = true, value_parser = share)]
    pub keep_free: f64,
    /// Pages of deleted files: they are discarded at once, as in our tables, or the drive keeps
    /// them until they are written again, as on a mount without "-o discard"
    #[arg(long, value_enum, default_value_t = DeletedFiles::Discarded)]
    pub deleted_files: DeletedFiles,
    /// Share of what is written after the load phase that is not counted
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub warmup: f64,
    /// The stream of the load phase's writes, for every policy; or policy: where
    /// it says
    #[arg(long, value_name = "N|policy", default_value = "1", value_parser = load_stream)]
    pub load_stream: LoadStream,
    /// Write the drive's commands, page by page with their streams, for another model of
    /// a drive; with one policy, and --discard on or off
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// Write more than the table as JSON: what each stream was written, erases,
    /// wear, the write amplification over time, and how often the group of a region was
    /// the one that its window has shown
    #[arg(long, value_name = "FILE")]
    pub details: Option<PathBuf>,
    /// How many policies to play at a time [default: one per processor, as long as half of the
    /// free memory has room for them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Which index files are _id indexes
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    pub primary: Vec<glob::Pattern>,
    /// Rules, as dsmd reads them: classes, and the objects of the policy rules
    #[arg(long, value_name = "[BELOW=]FILE")]
    pub rules: Vec<Source>,
}

/// Policies with commas between them, as their features have.
#[derive(Clone, Debug)]
pub struct Specs(pub Vec<Spec>);

impl FromStr for Specs {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut each: Vec<String> = Vec::new();
        for part in text.split(',') {
            let is_feature = part.split(':').next().is_some_and(|name| name.contains('='));
            match each.last_mut().filter(|_| is_feature) {
                Some(last) => *last = format!("{last},{part}"),
                None => each.push(part.to_owned()),
            }
        }
        each.iter()
            .map(|spec| spec.parse())
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Discards {
    Both,
    Off,
    On,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeletedFiles {
    Kept,
    Discarded,
}

fn number(s: &str, good: impl Fn(f64) -> bool, must: &str) -> Result<f64, String> {
    s.parse()
        .ok()
        .filter(|n| good(*n))
        .ok_or_else(|| format!("it must be {must}"))
}

fn op(s: &str) -> Result<f64, String> {
    number(
        s,
        |n| n > 0.0 && n <= 10.0,
        "more than 0 and at most 10, such as 0.15",
    )
}

fn fill(s: &str) -> Result<f64, String> {
    number(s, |n| n > 0.0 && n <= 1.0, "more than 0 and at most 1")
}

fn share(s: &str) -> Result<f64, String> {
    number(s, |n| (0.0..1.0).contains(&n), "0 or more and less than 1")
}

/// Whole pages.
pub(super) fn size(s: &str) -> Result<u64, String> {
    sizes::bytes(s)
        .filter(|n| *n > 0 && n % PAGE == 0)
        .ok_or_else(|| format!("it must be whole pages of {PAGE} bytes, such as 4194304 or 4MiB"))
}

/// The smallest erase unit that can be asked for, and what is taken if none is.
pub const MIN_UNIT: u64 = 256 << 10;
pub const UNIT: u64 = 1 << 20;

pub(super) fn unit(s: &str) -> Result<u64, String> {
    let bytes = size(s)?;
    if (MIN_UNIT..=1 << 30).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("it must be from 256KiB to 1GiB".into())
    }
}

fn load_stream(s: &str) -> Result<LoadStream, String> {
    if s == "policy" {
        return Ok(LoadStream::Policy);
    }
    let number = s.parse().ok().filter(|n| *n > 0);
    number
        .map(LoadStream::Stream)
        .ok_or_else(|| "it must be policy or a number from 1 to 255".into())
}

fn glob(s: &str) -> Result<glob::Pattern, String> {
    glob::Pattern::new(s).map_err(|e| e.to_string())
}

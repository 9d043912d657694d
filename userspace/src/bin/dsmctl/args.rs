// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use dsm::class::Class;

/// Make, fill and watch dsm devices: device-mapper targets that stamp write
/// streams for an unmodified MongoDB.
///
/// A sector is 512 bytes. All commands need root.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 80)]
pub struct Args {
    /// How data is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text, global = true)]
    pub output: Output,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the device /dev/mapper/NAME on DEV
    Create(Box<Create>),
    /// Take a device away; what is on the device below stays
    Remove { name: String },
    /// Tell the kernel where files lie: upload a table of their extents
    ///
    /// The extents are read with FIEMAP; nothing is synced, so that data which
    /// was not written back yet has no place. On a live database use dsmd.
    Load(Load),
    /// Take files out of the table
    Drop {
        name: String,
        /// Ids (inode numbers), or paths of files
        #[arg(value_name = "ID|FILE", required = true)]
        files: Vec<String>,
    },
    /// End the window and assign the streams anew
    Checkpoint { name: String },
    /// Change a feature of the policy
    ///
    /// The features are those of `create`: policy, groups, alpha, prediction,
    /// range, primary-filter, threshold1 and threshold2 (percent), streams,
    /// stream-base, hints, foreign.
    Set {
        name: String,
        feature: String,
        value: String,
    },
    /// Set the counters of `status` to zero
    Reset { name: String },
    /// Show devices: policy, table, writes of each stream
    ///
    /// In the text form, MiB are 1048576 bytes, pages are 4 KiB, and shares are
    /// of all bytes that were written.
    ///
    /// With `-o json`: {"devices": [{name, device, sectors, below, start,
    /// features {}, policy, layout, groups, device_streams, source,
    /// streams_used, files, regions, extents, generation, windows, window_ms,
    /// unmapped_writes, unmapped_sectors, split, foreign, streams [{stream,
    /// writes, sectors, used_for []}], region_list [{file, id, class, boundary,
    /// side, bytes, pages, range, hotness, group, next, stream, hint, total}]}]}.
    /// The names mean what Documentation/dsm.rst says; what does not apply is
    /// null.
    #[command(verbatim_doc_comment)]
    Status(Status),
    /// Boundaries between the bottom and the top of files (asks dsmd)
    Boundary {
        #[command(subcommand)]
        command: BoundaryCommand,
    },
    /// Prove by the device's own counters that stamps arrive
    ///
    /// Writes 2 MiB or so of each class into files without a name, in a
    /// directory on the device, and reads the device's counters before and
    /// after. NVMe with FDP counts by placement handle; a SCSI disk does not
    /// count. The exit status is 0 when the stamps arrive, and 1 when they do
    /// not or when nothing can be proved.
    Verify(Verify),
    /// Have dsmd read all extents again
    Refresh { name: String },
}

#[derive(Debug, Subcommand)]
pub enum BoundaryCommand {
    /// Give every collection and index file that has none its present size
    ///
    /// From then on new files get theirs at their own first checkpoint. A
    /// boundary that is set stays.
    Mark { name: String },
    /// Show the boundary of each file
    Show { name: String },
}

#[derive(Debug, clap::Args)]
pub struct Create {
    pub name: String,
    /// The device below: a flash device with write streams, or what leads to one
    pub dev: PathBuf,
    /// How streams are assigned
    #[arg(long, value_parser = ["none", "file", "boundary", "dsm"])]
    pub policy: Option<String>,
    /// K, groups of hotness for collections and for indexes [kernel: 3]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub groups: Option<u8>,
    /// Weight of the outer groups [kernel: K]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=64))]
    pub alpha: Option<u8>,
    /// How the next window's group is predicted
    #[arg(long, value_parser = ["off", "predicted", "computed"])]
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
    /// Streams to use: auto finds out, also below device-mapper and md
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = streams)]
    pub streams: Streams,
    /// The first stream to use [kernel: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub stream_base: Option<u8>,
    /// Whether lifetime hints are stamped, too
    #[arg(long, value_parser = ["on", "off"])]
    pub hints: Option<String>,
    /// What becomes of a stream or hint that a write brings along
    #[arg(long, value_parser = ["keep", "override"])]
    pub foreign: Option<String>,
    /// Sector of DEV at which the device begins
    #[arg(long, value_name = "SECTOR", default_value_t = 0)]
    pub start: u64,
    /// Length in sectors [default: to the end of DEV]
    #[arg(long, value_name = "SECTORS", value_parser = clap::value_parser!(u64).range(1..))]
    pub size: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    Auto,
    Number(u8),
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

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["files", "dbpath"])))]
pub struct Load {
    pub name: String,
    /// Files to load
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Load all files of a MongoDB data directory, with classes by their names
    #[arg(long, value_name = "DIR")]
    pub dbpath: Option<PathBuf>,
    /// Class of the files: collection, index, primary, journal, oplog or other
    /// [default: by their names]
    #[arg(long, conflicts_with = "dbpath")]
    pub class: Option<Class>,
    /// Boundary of the files: mark (their present size), none, or bytes
    /// [default: what the table has, else none]
    ///
    /// With --dbpath it goes to collection and index files only.
    #[arg(long, value_name = "mark|none|BYTES", value_parser = boundary)]
    pub boundary: Option<Boundary>,
    /// Add to the table, or replace files in it, instead of replacing all of it
    #[arg(long)]
    pub update: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    Mark,
    None,
    Bytes(u64),
}

fn boundary(s: &str) -> Result<Boundary, String> {
    match s {
        "mark" => Ok(Boundary::Mark),
        "none" => Ok(Boundary::None),
        n => n
            .parse()
            .map(Boundary::Bytes)
            .map_err(|_| "it must be mark, none or a number of bytes".into()),
    }
}

#[derive(Debug, clap::Args)]
pub struct Status {
    /// [default: all dsm devices]
    pub name: Option<String>,
    /// A row for each region: a side of a file
    #[arg(long)]
    pub regions: bool,
    /// Take the names of files from this directory [default: from dsmd]
    #[arg(long, value_name = "DIR", requires = "regions", requires = "name")]
    pub dbpath: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct Verify {
    pub name: String,
    /// A directory on the device [default: where the device is mounted]
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

/// Where the control sockets are.
pub fn run_dir() -> PathBuf {
    std::env::var_os("DSMD_RUN_DIR").map_or_else(|| dsm::control::RUN_DIR.into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn percentages() {
        for (s, n) in [
            ("10", 1000),
            ("0.05", 5),
            ("0.5", 50),
            ("10%", 1000),
            ("200", 20_000),
        ] {
            assert_eq!(percent(s), Ok(n), "{s}");
        }
        for s in ["", "x", "0.005", "-1", "1.2.3", "1e3", "+1", "99999", ".5"] {
            assert!(percent(s).is_err(), "{s}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `dsmctl`.

mod create;
mod simulation;
mod trial;

pub use create::*;
pub use simulation::*;
pub use trial::*;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use dm::name;
use runtime::pages;
use runtime::sizes::Seconds;

/// Make, fill and watch dsm devices: device-mapper targets that stamp write
/// streams for an unmodified MongoDB.
///
/// A sector is 512 bytes. All commands need root, except check; doctor, which sees less
/// without it; and free and simulate, which only need to be able to read the files.
#[derive(Debug, Parser)]
#[command(name = "dsmctl", version, after_help = pages::help(), after_long_help = help())]
pub struct Args {
    /// How data is printed: by status, boundary show, doctor, verify, probe-discard, free,
    /// simulate and trial report. Other commands print none, and take only text.
    #[arg(short, long, value_enum, default_value_t = Output::Text, global = true)]
    pub output: Output,
    #[command(subcommand)]
    pub command: Command,
}

fn help() -> String {
    format!(
        "Examples:\n  dsmctl create dsm /dev/nvme1n1\n  dsmctl status\n  dsmctl doctor\n\n{}",
        pages::help()
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the device /dev/mapper/NAME on DEV
    #[command(
        after_long_help = "Examples:\n  dsmctl create mongo /dev/nvme1n1 --dry-run\n  dsmctl create mongo /dev/disk/by-id/nvme-eui.EXAMPLE --dbpath /var/lib/mongodb --save"
    )]
    Create(Box<CreateNow>),
    /// Make the device of /etc/dsm/NAME.toml; dsm@NAME.service calls this
    ///
    /// An existing device is left unchanged.
    #[command(after_long_help = "Example:\n  dsmctl attach mongo")]
    Attach {
        #[arg(value_parser = name::parse)]
        name: String,
    },
    /// Say what is wrong with the files in /etc/dsm, before the system starts by them
    ///
    /// Keys and values; the drive, if it is there and the right one; whether the data directory is on
    /// a file system on the device; rules. The exit status is 1 when something is wrong.
    #[command(after_long_help = "Examples:\n  dsmctl check\n  dsmctl check mongo")]
    Check {
        /// The device; all that have a file, without
        #[arg(value_parser = name::parse)]
        name: Option<String>,
    },
    /// Remove a device; the data on the underlying device stays
    #[command(after_long_help = "Example:\n  dsmctl remove dsm")]
    Remove { name: String },
    /// Replace dm-linear with dsm, while the file system is mounted and in use
    ///
    /// For an LVM volume, or any other linear device-mapper device: its
    /// table becomes dsm's on the same sectors. In-flight I/O is drained, new I/O
    /// is queued; nothing is lost, and the database does not notice. If there
    /// are several segments, they become the table of an underlying device, NAME-dsm, which the
    /// kernel removes when the volume no longer needs it. Refused where the table is
    /// anything but linear, the segments lie on devices that differ in their number of
    /// write streams, or another program is changing the table. It lasts until LVM sets up the volume again, as it does
    /// when the machine starts and when the volume is extended, moved or has a snapshot
    /// taken: dsm is gone from it then, dsmd says so, and this command puts it back.
    #[command(
        after_long_help = "Examples:\n  dsmctl insert /dev/vg/mongodb --dry-run\n  dsmctl insert /dev/vg/mongodb"
    )]
    Insert(Box<Insert>),
    /// Replace dsm with dm-linear, while the file system is mounted and in use
    ///
    /// On the same sectors, in the same way as insert does. The command that puts dsm
    /// back, with the features that the device had, is printed. insert and this can be called
    /// again when they were killed, at whatever step.
    #[command(after_long_help = "Example:\n  dsmctl withdraw vg-mongodb")]
    Withdraw {
        /// The device: a device-mapper name, or a path to it
        device: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Make a device as long as what it lies on has become, while it is in use
    ///
    /// For a device that `create` has made on a volume or a namespace that has grown. The
    /// database does not notice, and dsmd follows. The file system on it is left unchanged: the
    /// command that extends it is printed.
    #[command(after_long_help = "Example:\n  dsmctl grow dsm")]
    Grow(Grow),
    /// Change a feature of the target
    ///
    /// dsm.rst has all of them, and their values; sizes are in bytes. Discards are turned by the
    /// dsmd that serves the device, if there is one; what is off stays off until this command
    /// has it on, also over restarts. `discard allow` takes away the marks of the device and of
    /// the drives below it, with which nothing is discarded, whoever asks for it: probe-discard
    /// marks a drive on which a page beside a discarded piece has changed, dsmd a device whose
    /// database uses pages that it has not written. Data may be lost if the drive, or the
    /// database, is as it was. Marks are files in /var/lib/dm-dsm, and `status` shows them.
    #[command(after_long_help = "Examples:\n  dsmctl set dsm discard off\n  dsmctl set dsm policy none")]
    Set {
        name: String,
        feature: String,
        value: String,
    },
    /// Show devices: policy, table, writes of each stream
    ///
    /// In the text form, MiB are 1048576 bytes, pages are 4 KiB, shares are of all
    /// bytes that were written, and HOTNESS is the decimal logarithm of how often a
    /// second a region was written over.
    ///
    /// --watch shows over and over what was written in between, by stream and by region.
    ///
    /// With `-o json`: {"devices": [DEVICE]}, and with --watch a DEVICE on each line. It is what
    /// dsmd publishes in /run/dsm/NAME.json, and dsm-exporter serves: {name, at {wall,
    /// monotonic}, service {state, since, reason {kind, text}, pid, restarts, cpu, memory},
    /// kernel {devno, sectors, below, table {below, start, features {}}, status {policy, layout,
    /// groups, device_streams, source, streams_used, files, regions, extents, generation,
    /// windows, window_ms, unmapped_writes, unmapped_sectors, split, foreign, streams [{stream,
    /// writes, sectors}], upload {number, files, extents, idle_ms}, discard {state, window,
    /// valid, queued, discarded, discarded_sectors, refused_sectors, short_sectors, granularity,
    /// alignment, offset, failed, held, held_max_us, plug_max_us}}, uses {STREAM []}, media {Ok
    /// {drive, counters {source, host, media, erased, unit}}} or {Err}, last_checkpoint}, unseen
    /// {kind, text}, agent {dbpath, pid, version, boundary, marked, files, bytes, boundaries,
    /// outgrown, checkpoints, last_window_ms, window_from_bytes, uploads, refusals, refused,
    /// last_refresh_ms, delalloc, shared, left_out [{reason, count, example}], discard {},
    /// server {}}, silent {kind, text}, last_error {at, level, message, reason}, barred {kind,
    /// text}, affords {policy, groups, streams, drive {units, spare, handles, copies}, why}, regions [{id, file, class, boundary, side,
    /// bytes, pages, range, hotness, group, next, stream, hint, total}], rates {seconds, writes,
    /// bytes, unmapped_bytes, checkpoints, streams {STREAM {writes, bytes}}, regions [{...,
    /// written_bytes}], drive {name, source, seconds, host_bytes, media_bytes,
    /// write_amplification}}, nameless}. Names of status mean what dsm.rst says; what does not
    /// apply is null.
    #[command(verbatim_doc_comment)]
    #[command(
        after_long_help = "Examples:\n  dsmctl status\n  dsmctl status dsm --regions\n  dsmctl status dsm --watch\n  dsmctl status -o json"
    )]
    Status(StatusArgs),
    /// Check the setup and print a fix for each problem
    ///
    /// Looks at the kernel, the module, the drive, what lies between, the file system, the
    /// data directory, the table, dsmd, unmapped writes, checkpoints, boundaries and
    /// discards of all dsm devices, or of those named: also of devices that are configured
    /// and not there. Nothing is changed. Checks that need root are reported as unknown.
    ///
    /// The exit status is 0 when all is right, 1 when something is wrong, and 2 when nothing
    /// wrong was seen, but not all could be looked at.
    ///
    /// With `-o json`: {version, status, wrong, unknown, findings [{device, check, level,
    /// text, fix [], hint, values {}}]}. status is right, wrong or unknown; level is right,
    /// note, wrong or unknown; device is null for the machine; check is kernel, module,
    /// configuration, devices, disk, device, drive, written, size, below, streams, table, filesystem,
    /// dbpath, dsmd, last_error, left-out, unmapped, checkpoints, boundaries,
    /// discard, left, leaf-pages, semaphores or server. Names
    /// stay, also those in values; texts may change.
    #[command(after_long_help = "Examples:\n  dsmctl doctor\n  dsmctl doctor dsm --report")]
    Doctor(Doctor),
    /// Boundaries between the bottom and the top of files (asks dsmd)
    Boundary {
        #[command(subcommand)]
        command: BoundaryCommand,
    },
    /// Prove by the device's own counters that stamps arrive
    ///
    /// Writes about 2 MiB of each class into unnamed files, in a
    /// directory on the device, and reads the device's counters before and
    /// after. NVMe with FDP counts by placement handle; a SCSI disk does not
    /// count.
    ///
    /// The exit status is 0 when the stamps arrive, 1 when they do
    /// not or when nothing can be proved, and 3 when there is nothing to verify, since
    /// no streams are in use (policy none).
    #[command(after_long_help = "Example:\n  dsmctl verify dsm")]
    Verify(Verify),
    /// Measure which lengths and alignments of discards the drive takes
    ///
    /// A drive reports the discards that it prefers, which may be larger than it needs.
    /// Here a pattern is written, pieces of 4 to 512 KiB are discarded, and all of it is read
    /// back. What is gone was taken; where the drive counts its allocated blocks (NUSE) or
    /// what its flash writes, these have to agree. A page beside a piece that changes ends
    /// it, the drive is marked, and discards are switched off on it, until `set NAME discard
    /// allow`. The
    /// commands that set what was
    /// measured are printed; they change nothing by themselves.
    ///
    /// A scratch file of 128 MiB without a name is used, on the file system that is mounted
    /// from the device, and its sectors are discarded through the target. A device with a
    /// trial at work, and a drive that is marked, are refused.
    ///
    /// The exit status is 0 when a length that the drive takes was found, and 1 otherwise.
    ///
    /// With `-o json`: {device, disks, verdict, proof, reason, granularity, alignment,
    /// changed_beside_bytes, slowest_ms, pieces [{bytes, offset, sent, gone_bytes, odd_bytes}],
    /// trials [{bytes, discarded_bytes, gone_bytes, nuse_fell_bytes, media_wrote_bytes,
    /// others_bytes, freed}], queue_granularity, says {block, size, capacity, used, promise,
    /// write_zeroes, granularity, alignment}, commands [], tab}.
    /// verdict is taken, not-taken, not-decidable or broken; proof is what it rests on: reads,
    /// promise, nuse, media or errors. What does not apply is null.
    #[command(verbatim_doc_comment)]
    #[command(after_long_help = "Example:\n  dsmctl probe-discard dsm")]
    ProbeDiscard(ProbeDiscard),
    /// Show what WiredTiger lists as free in a database's files
    ///
    /// Each checkpoint of a file has a list of the blocks that it does not use. The
    /// drive does not know of them, and copies them when it collects: dsmd can
    /// discard what a checkpoint has freed. This reads the lists of the newest
    /// checkpoint, whether the database runs or not, and changes nothing. Root is
    /// only needed to read the files.
    ///
    /// WiredTiger 3, 10, 11 and 12 are understood (MongoDB 3.6 to 8); encryption,
    /// tiered storage and a live restore are refused.
    ///
    /// With `-o json`: {dbpath, wiredtiger, discard, discard_refused, audit, discard_note, files
    /// [{path, size, free, share, extents, leaf_page, document, smaller_leaves, refused}],
    /// total {files, size, free, share, extents}, full, outlook {saved_on_full_drive [least,
    /// most], saved_at_80_percent [least, most]}, summary, interval, advice [{what, saves
    /// [least, most], known, command, page}]}; sizes are bytes, shares are of 1, document is the mean
    /// size as mongod has stored it, full is that of the file system, interval the seconds
    /// between checkpoints as dsmd has seen, and what does not apply is null.
    #[command(after_long_help = "Example:\n  dsmctl free /var/lib/mongodb")]
    Free(Free),
    /// Record what a running database writes, for simulate
    ///
    /// Nothing is changed or stopped: the kernel's trace reports every write and
    /// discard on the device, FIEMAP says whose it was, and the turtle shows
    /// checkpoints, and what they have freed. What is there when it begins counts as
    /// the load phase. A recording that is there already is not overwritten.
    #[command(after_long_help = "Example:\n  dsmctl record /var/lib/mongodb /root/hour.rec --seconds 3600")]
    Record(Record),
    /// Play a recording of a database's writes onto a model of a flash drive, under
    /// several policies
    ///
    /// Root is only needed to read it.
    ///
    /// Each policy is played as it is and, if there are lists of free blocks, with the
    /// discards that dsmd would have made; the drive's size is that of the run without them.
    /// With `-o json`: [{policy, discard, streams_used, waf, unmapped_share, host_pages,
    /// gc_pages, erases, open_units, spare_units, reason}]; a page is 4 KiB, and pages are
    /// counted after the load phase and the warm-up. A policy whose streams do not fit the
    /// drive has null figures and the reason; that of auto says what it is, and why.
    #[command(after_long_help = "Example:\n  dsmctl simulate /root/hour.rec")]
    Simulate(Box<Simulate>),
    /// Measure on a production server what discards or streams save, by the drive's own counters
    ///
    /// They are switched on and off in periods of random order, in pairs, and nothing else
    /// is changed. What is written after each switch until the drive has forgotten what was
    /// before (the washout) does not count. From the differences within the pairs comes
    /// what is saved, with a confidence interval of 95 %, or that it cannot be said yet.
    ///
    /// The drive's counters are FDP's statistics, the SMART log of OCP's specification, the
    /// additional SMART log of Intel's and Solidigm's drives, attributes of SATA drives
    /// (by smartctl), or what a command prints. A drive without any shows latency only.
    Trial {
        #[command(subcommand)]
        command: TrialCommand,
    },
    /// What dsmd does by itself, and commands for tests
    Debug {
        #[command(subcommand)]
        command: DebugCommand,
    },
}

impl Command {
    /// What it prints can be JSON.
    pub fn has_data(&self) -> bool {
        match self {
            Self::Boundary { command } => matches!(command, BoundaryCommand::Show { .. }),
            Self::Trial { command } => matches!(command, TrialCommand::Report(_)),
            Self::Status(_) | Self::Doctor(_) | Self::Verify(_) | Self::ProbeDiscard(_) => true,
            Self::Free(_) | Self::Simulate(_) => true,
            _ => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum DebugCommand {
    /// Undo what a command that was killed has left of its work: features, and scratch files in
    /// the table
    #[command(after_long_help = "Example:\n  dsmctl debug restore dsm")]
    Restore { name: String },
    /// Set the counters of `status` to zero
    #[command(after_long_help = "Example:\n  dsmctl debug reset dsm")]
    Reset { name: String },
    /// Have dsmd read all extents again
    #[command(after_long_help = "Example:\n  dsmctl debug refresh dsm")]
    Refresh { name: String },
}

#[derive(Debug, Subcommand)]
pub enum BoundaryCommand {
    /// Give every collection and index file that has none its present size
    ///
    /// From then on new files get theirs at their own first checkpoint. A
    /// boundary that is set stays.
    #[command(after_long_help = "Example:\n  dsmctl boundary mark dsm")]
    Mark { name: String },
    /// Move the boundaries of files that have outgrown theirs to their present
    /// size
    ///
    /// A file has outgrown its boundary when more of it lies above than below,
    /// and at least 1 MiB.
    #[command(after_long_help = "Example:\n  dsmctl boundary move dsm")]
    Move {
        name: String,
        /// Move those of these files, whether they have outgrown them or not;
        /// paths as `boundary show` has them
        #[arg(value_name = "FILE")]
        files: Vec<String>,
    },
    /// Show the boundary of each file
    #[command(after_long_help = "Example:\n  dsmctl boundary show dsm")]
    Show { name: String },
}

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// [default: all dsm devices]
    pub name: Option<String>,
    /// A row for each region: a side of a file
    #[arg(long)]
    pub regions: bool,
    /// What is written, over and over until it is interrupted
    #[arg(long, requires = "name")]
    pub watch: bool,
    /// Seconds between looks
    #[arg(long, value_name = "N", default_value = "2")]
    pub interval: Seconds,
    /// End after this many looks
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// [default: all dsm devices]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Print the same as a form for a report to others, with figures, and without names,
    /// paths, serial numbers and commands
    #[arg(long)]
    pub report: bool,
    /// The age from which a checkpoint is reported as old, while data is written
    #[arg(long, value_name = "N", default_value = "300")]
    pub checkpoint_seconds: Seconds,
}

#[derive(Debug, clap::Args)]
pub struct Verify {
    pub name: String,
    /// A directory on the device [default: where the device is mounted]
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct ProbeDiscard {
    /// A dsm device with a mounted file system
    pub name: String,
    /// A directory on the device [default: where the device is mounted]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// How much to write between a pattern and its discards, to push the pattern out of the
    /// drive's write buffer
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = filler)]
    pub filler: u64,
    /// How long a drive may be late with a discard
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(..=600))]
    pub wait: u16,
    /// How long the discards of a round may take together: a drive that needs longer is not
    /// suitable for discards
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub limit: u32,
}

#[derive(Debug, clap::Args)]
pub struct Free {
    /// The database's data directory
    pub dbpath: PathBuf,
    /// List every file, not only the 20 with the most free space
    #[arg(long)]
    pub all: bool,
    /// With -o json: the ranges themselves, {start, end} in bytes
    #[arg(long)]
    pub ranges: bool,
}

/// Where the control sockets are.
pub fn run_dir() -> PathBuf {
    directory("DSMD_RUN_DIR", proto::control::RUN_DIR)
}

/// Where the files of devices are.
pub fn config_dir() -> PathBuf {
    directory("DSM_CONFIG_DIR", database::config::DIR)
}

fn directory(variable: &str, usual: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| usual.into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::simulation::{size, unit};
    use super::*;
    use clap::CommandFactory;
    use simulate::sim::policies::Spec;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn sizes() {
        for (s, n) in [
            ("4096", 4096),
            ("256K", 1 << 18),
            ("1M", 1 << 20),
            ("2g", 2 << 30),
            ("1T", 1 << 40),
            ("16MiB", 16 << 20),
        ] {
            assert_eq!(size(s), Ok(n), "{s}");
        }
        for s in ["", "0", "K", "4095", "1.5M", "-1M", "99999999T", "4096B"] {
            assert!(size(s).is_err(), "{s}");
        }
        assert!(unit("128K").is_err() && unit("2G").is_err());
    }

    #[test]
    fn lengths() {
        assert_eq!(length("8"), Ok(8));
        assert_eq!(sector("1GiB"), Ok(2 << 20));
        assert!(length("0").is_err() && sector("1.5G").is_err() && sector("").is_err());
    }

    #[test]
    fn a_list_of_policies() {
        let specs = |text: &str| -> Vec<String> {
            let Specs(all) = text.parse().unwrap();
            all.iter().map(Spec::to_string).collect()
        };
        assert_eq!(specs("dsm"), ["dsm"]);
        assert_eq!(
            specs("none,dsm:groups=4,prediction=off,file"),
            ["none", "dsm:groups=4,prediction=off", "file"]
        );
        for (text, wanted) in [
            ("none,", "''"),
            ("none,best", "'best'"),
            ("groups=4", "'groups=4'"),
            ("none,groups=4", "groups"),
        ] {
            let said = text.parse::<Specs>().unwrap_err().to_string();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}

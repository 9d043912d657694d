// SPDX-License-Identifier: GPL-2.0-or-later
//! The arguments of `trial`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::trial::state::Amount;
use dm::name;

/// That of dsmd.
pub const TRIALS: &str = "/var/lib/dsmd";

#[derive(Debug, Subcommand)]
pub enum TrialCommand {
    /// Start a trial, and run it until it is over or interrupted
    ///
    /// dsm-trial@NAME.service goes on with it when the machine has started again. The file
    /// of a trial that was begun before is kept as trial/NAME.old.
    ///
    /// Whoever switches off meanwhile (`dsmctl set NAME discard off`, or probe-discard on
    /// a drive that is broken) ends the trial for good, and the switch stays off. So does a
    /// period with discards on in which none was made.
    ///
    /// The exit status is 0 when the trial is over or was interrupted, and 3 when it has ended for
    /// good.
    #[command(after_long_help = "Example:\n  dsmctl trial start dsm --washout 4h --measure 8h --pairs 6")]
    Start(TrialStart),
    /// Resume a trial that was interrupted or stopped; the current period starts over
    ///
    /// A finished trial is reported, one that has ended for good is refused with the
    /// reason; neither changes anything.
    #[command(after_long_help = "Example:\n  dsmctl trial resume dsm")]
    Resume(TrialResume),
    /// Stop the process that runs a trial, and restore the setting
    ///
    /// Unless somebody else has switched it off. This also works after the process was
    /// killed.
    #[command(after_long_help = "Example:\n  dsmctl trial stop dsm")]
    Stop(TrialOf),
    /// Report a trial's progress, measurements and savings
    ///
    /// It can be sent to others: it names the drive, its firmware, the kernel and the
    /// device's features, and neither files nor serial numbers. With `-o json`: {machine
    /// {model, firmware, bytes, kernel, module, features}, switch {feature, on, off}, washout,
    /// measure, pairs, seed, pair_seconds, progress {period, on, washed_out, share, seconds_left},
    /// runner, stopped, ended, periods [{on, seconds, host_bytes, waf, write_ms, read_ms}], again [], no_counters,
    /// flash, write_time, read_time {saved, low, high, pairs, pairs_needed}, left_out []}.
    /// saved, low and high are shares; runner is the process that runs it (0: in another
    /// container), ended why it has ended before it was over; what does not apply is null.
    #[command(verbatim_doc_comment)]
    #[command(after_long_help = "Example:\n  dsmctl trial report dsm")]
    Report(TrialReport),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switched {
    Discard,
    Streams,
}

#[derive(Debug, clap::Args)]
pub struct TrialOf {
    #[arg(value_parser = name::parse)]
    pub name: String,
    /// The directory of the trial's file
    #[arg(long, value_name = "DIR", default_value = TRIALS)]
    pub state_dir: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct TrialResume {
    #[command(flatten)]
    pub of: TrialOf,
    /// Leave one that was stopped or has ended as it is, without an error; for its unit
    #[arg(long)]
    pub at_boot: bool,
}

#[derive(Debug, clap::Args)]
pub struct TrialReport {
    #[command(flatten)]
    pub of: TrialOf,
    /// Write a picture of the periods, as SVG
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct TrialStart {
    #[command(flatten)]
    pub of: TrialOf,
    /// What is switched: discards, or the policy that the device has and none
    #[arg(long, value_enum, default_value_t = Switched::Discard)]
    pub switch: Switched,
    /// What to skip after each switch: an amount written, or a time such as 4h [default:
    /// four times the size of the device]
    #[arg(long, value_name = "BYTES|TIME")]
    pub washout: Option<Amount>,
    /// What is measured in each period [default: the size of the device]
    #[arg(long, value_name = "BYTES|TIME")]
    pub measure: Option<Amount>,
    /// Pairs of periods, 2 to 1000
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub pairs: u16,
    /// Of the random order [default: another one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// A shell command that prints the writes of the host and of the drive's flash, as
    /// two numbers of bytes [default: the drive's counters]
    #[arg(long, value_name = "COMMAND")]
    pub counters: Option<String>,
    /// Start another trial although one is not over
    #[arg(long)]
    pub restart: bool,
}

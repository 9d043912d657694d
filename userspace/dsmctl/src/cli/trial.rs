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
    /// Start a trial: check that it can be made, and begin its first period
    ///
    /// dsm-trial@NAME.timer, to be enabled then, has a sample taken each minute (`dsmctl trial
    /// step`), which switches when a period is over. The file of a trial that was begun before is
    /// kept as trial/NAME.old.
    ///
    /// Whoever switches off meanwhile (`dsmctl set NAME discard off`, or probe-discard on
    /// a drive that is broken) ends the trial for good, and the switch stays off. So does a
    /// period with discards on in which none was made.
    #[command(after_long_help = "Example:\n  dsmctl trial start dsm --washout 4h --measure 8h --pairs 6")]
    Start(TrialStart),
    /// Take a sample of a trial, and switch if a period is over; for its timer
    ///
    /// What happens while none is taken for five minutes, or while the machine is restarted, is
    /// left out of the period, which begins over if it has discards off and some were made.
    /// Of a trial that is over nothing is done.
    #[command(after_long_help = "Example:\n  dsmctl trial step dsm")]
    Step(TrialOf),
    /// End a trial before it is over, and restore the setting
    ///
    /// Unless somebody else has switched it off. What was measured can still be reported.
    #[command(after_long_help = "Example:\n  dsmctl trial stop dsm")]
    Stop(TrialOf),
    /// Report a trial's progress, measurements and savings
    ///
    /// It can be sent to others: it names the drive, its firmware, the kernel and the
    /// device's features, and neither files nor serial numbers. With `-o json`: {machine
    /// {model, firmware, bytes, kernel, module, features}, switch {feature, on, off}, washout,
    /// measure, pairs, seed, pair_seconds, progress {period, on, washed_out, share, seconds_left},
    /// idle_seconds, ended, periods [{on, seconds, host_bytes, waf, write_ms, read_ms}], again [],
    /// missed [], no_counters, known_by_size, flash, write_time, read_time {saved, low, high, pairs, pairs_needed}, left_out []}.
    /// saved, low and high are shares; idle_seconds is how long no sample was taken, if that is
    /// too long, again names periods that began over, missed what is left out of them, ended why it
    /// has ended before it was over; what does not apply is null.
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
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The arguments of `cost`.

use std::path::PathBuf;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("life").required(true).args(["used", "tbw"])))]
pub struct Cost {
    /// What `dsmctl trial report` or `dsmctl simulate` has printed with -o json
    pub file: PathBuf,
    /// Of what simulate has played: with this policy [default: auto, or the last]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// And with discards or without
    #[arg(long, value_enum, default_value_t = OnOff::On)]
    pub discard: OnOff,
    /// Percentage Used of the drive's SMART log, in so many years (--years)
    #[arg(long, value_name = "PERCENT", requires = "years", value_parser = positive)]
    pub used: Option<f64>,
    #[arg(long, value_name = "YEARS", requires = "used", value_parser = positive)]
    pub years: Option<f64>,
    /// What the drive is rated for, in TB of host writes
    #[arg(long, value_name = "TB", requires = "written", value_parser = positive)]
    pub tbw: Option<f64>,
    /// What the host writes, in TB a day
    #[arg(long, value_name = "TB", requires = "tbw", value_parser = positive)]
    pub written: Option<f64>,
    /// What a drive costs
    #[arg(long, value_name = "MONEY", value_parser = positive)]
    pub price: Option<f64>,
    /// How long the machine is kept at most
    #[arg(long, value_name = "YEARS", default_value = "5", value_parser = positive)]
    pub keep: f64,
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| "a number greater than 0".to_owned())
}

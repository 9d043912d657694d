// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `dsm-mongo`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{anyhow, bail, Result};
use clap::Parser;

use dm::name;
use proto::feed::RUN_DIR;
use runtime::log::Format;

/// Ask the mongod of a dsm device for its _id indexes, its oplog and its counters, and report
/// them to dsmd
///
/// It needs no privileges. The server's address, with user and password, comes from a file
/// that nobody else can read, or from systemd's credential "uri"; it is never an argument,
/// because arguments are public.
#[derive(Debug, Parser)]
#[command(name = "dsm-mongo", version)]
pub struct Args {
    /// Name of the dsm device that the server's data directory is on
    #[arg(long, value_name = "NAME")]
    pub device: String,
    /// File with the server's address, mongodb://..., in one line [default: systemd's
    /// credential "uri"]
    #[arg(long, value_name = "FILE")]
    pub uri_file: Option<PathBuf>,
    /// Ask the server once, print what it says or why it does not, and end
    #[arg(long)]
    pub check: bool,
    /// Format of the log on stderr
    #[arg(long, value_enum, env = "DSM_MONGO_LOG_FORMAT", default_value = "text")]
    pub log_format: Format,
    /// Directory in which it listens, in one of the device's name
    #[arg(long, value_name = "DIR", env = "DSM_MONGO_RUN_DIR", default_value = RUN_DIR, hide = true)]
    pub run_dir: PathBuf,
    /// Taken so that it can be refused without being shown.
    #[arg(long, hide = true)]
    uri: Option<OsString>,
}

impl Args {
    pub fn check(&self) -> Result<()> {
        if self.uri.is_some() {
            bail!("--uri: everybody can see arguments: write the address into a file that only you can read, and give --uri-file");
        }
        name::check(&self.device)
            .map_err(|rule| anyhow!("the name {:?} of a device cannot be one: {rule}", self.device))
    }
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
    fn no_address_on_the_command_line() {
        let check = |words: &str| Args::try_parse_from(words.split(' ')).unwrap().check();
        assert!(check("dsm-mongo --device d").is_ok());
        let said = check("dsm-mongo --device d --uri mongodb://u:geheim@db1")
            .unwrap_err()
            .to_string();
        assert!(said.contains("--uri-file") && !said.contains("geheim"), "{said}");
        for device in ["a/b", "..", "a\nb", "--check"] {
            assert!(
                check(&format!("dsm-mongo --device={device}")).is_err(),
                "{device}"
            );
        }
    }
}

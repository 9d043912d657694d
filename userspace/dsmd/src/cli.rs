// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `dsmd`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;

use database::config::{self, Config};
use dm::name;
use proto::control::RUN_DIR;
use proto::feed;

use crate::Run;

/// Keep a dsm device's table equal to what is in a MongoDB data directory, and
/// tell the device of checkpoints.
///
/// Nothing is written into the directory (but see the key write-hints), and neither the
/// database nor the device waits for dsmd: when it ends, the table is kept and becomes
/// stale.
///
/// What is served, and how, is in /etc/dsm/NAME.toml, which dsm.toml(5) describes.
#[derive(Debug, Parser)]
#[command(
    name = "dsmd",
    version,
    after_long_help = "Examples:\n  dsmd mongo\n  dsmd mongo -o dbpath=/var/lib/mongodb -o discard=audit"
)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["name", "config"])))]
pub struct Args {
    /// The device, of /etc/dsm/NAME.toml
    #[arg(value_parser = device_name)]
    pub name: Option<String>,
    /// The file, whose name is that of the device, where it is not in /etc/dsm
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A key of dsm.toml(5), in place of what the file says; may be given several times
    ///
    /// Where a dbpath is given, there need be no file. A key alone is "true".
    #[arg(short, value_name = "KEY[=VALUE]")]
    pub options: Vec<String>,
    /// Print the regions that were written to stdout after each checkpoint
    #[arg(long)]
    pub show_regions: bool,
    /// Directory of the control socket and of what is published
    #[arg(long, value_name = "DIR", env = "DSMD_RUN_DIR", default_value = RUN_DIR, hide = true)]
    pub run_dir: PathBuf,
    /// Directory in which dsm-mongo writes
    #[arg(long, value_name = "DIR", env = "DSM_MONGO_RUN_DIR", default_value = feed::RUN_DIR, hide = true)]
    pub mongo_dir: PathBuf,
}

impl Args {
    /// What is to be done.
    pub fn config(&self) -> Result<Config> {
        let named = |name: &String| config::path_of(Path::new(config::DIR), name);
        let file = self.config.clone().or_else(|| self.name.as_ref().map(named));
        Config::read_with(&file.expect("clap asks for one of them"), &self.options)
    }

    /// The working directory changes: these are not relative to it.
    pub fn run(&self) -> Run {
        let absolute = |dir: &PathBuf| std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        Run {
            run_dir: absolute(&self.run_dir),
            mongo_dir: absolute(&self.mongo_dir),
            show_regions: self.show_regions,
        }
    }
}

fn device_name(name: &str) -> Result<String, String> {
    name::check(name)?;
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use database::config::BoundaryMode;
    use dm::mode::Mode;

    fn config(words: &str) -> Result<Config> {
        Args::parse_from(words.split(' ')).config()
    }

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        for words in [
            "dsmd",
            "dsmd d --config /d.toml",
            "dsmd -o dbpath=/db",
            "dsmd a/b",
        ] {
            assert!(Args::try_parse_from(words.split(' ')).is_err(), "{words}");
        }
        let args = Args::parse_from("dsmd d --run-dir r".split(' '));
        assert!(args.run().run_dir.is_absolute());
    }

    #[test]
    fn a_database_without_a_file() {
        let c =
            config("dsmd d -o dbpath=/db -o boundary=manual -o refresh-seconds=0.5 -o discard=audit -o auto")
                .unwrap();
        assert_eq!((c.device.as_str(), c.boundary), ("d", BoundaryMode::Manual));
        assert_eq!((c.dbpath, c.discard), (Some(PathBuf::from("/db")), Mode::Audit));
        assert!(c.wait && c.auto);
        assert_eq!(c.state_dir, PathBuf::from("/var/lib/dsmd"));
        for (words, reason) in [
            (
                "dsmd d -o dbpath=db",
                "dbpath: the path \"db\" does not begin with '/'",
            ),
            ("dsmd d -o wait=false", "/etc/dsm/d.toml: cannot read it"),
            (
                "dsmd d -o dbpath=/db -o wait=no",
                "wait: invalid type: string \"no\"",
            ),
            (
                "dsmd d -o dbpath=/db -o dpath=/db",
                "dpath: unknown field `dpath`",
            ),
            (
                "dsmd d -o dbpath=/db -o discard=on",
                "discard: it must be true, false",
            ),
        ] {
            let said = format!("{:#}", config(words).unwrap_err());
            assert!(said.contains(reason), "{words}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    #[test]
    fn options_override_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("d.toml");
        std::fs::write(&file, "dbpath = '/db'\nwait = false\ndiscard = true\n").unwrap();
        let file = file.to_str().unwrap();
        let args = |options: &str| format!("dsmd --config {file} {options}");
        let c = config(&args("-o discard=false -o verbose")).unwrap();
        assert_eq!((c.device.as_str(), c.discard), ("d", Mode::Off));
        assert!(!c.wait && c.verbose);
        std::fs::write(file, "dbpath = 7\n").unwrap();
        assert!(config(&args("-o dbpath=/db")).is_ok());
        let said = format!("{:#}", config(&args("-o verbose")).unwrap_err());
        assert!(said.contains("d.toml: line 1: "), "{said}");
    }
}

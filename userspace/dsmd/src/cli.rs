// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `dsmd`.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, Result};
use clap::Parser;

use database::config::{self, discard, BoundaryMode, Config, Outgrown, AUDIT_PAGES};
use database::rules::Source;
use dm::mode::Mode;
use proto::control::RUN_DIR;
use proto::feed;
use runtime::log::Format;
use runtime::sizes::Seconds;

use crate::Run;

/// Keep a dsm device's table equal to what is in a MongoDB data directory, and
/// tell the device of checkpoints.
///
/// Nothing is written into the directory (but see --write-hints), and neither the
/// database nor the device waits for dsmd: when it ends, the table is kept and becomes
/// stale.
///
/// The database is that of /etc/dsm/NAME.toml, or the one that --device and --dbpath name.
#[derive(Debug, Parser)]
#[command(
    name = "dsmd",
    version,
    after_long_help = "Examples:\n  dsmd mongo\n  dsmd --device dsm --dbpath /var/lib/mongodb --discard=audit"
)]
#[command(group(clap::ArgGroup::new("where").args(["dbpath", "auto"])))]
#[command(group(clap::ArgGroup::new("file").args(["name", "config"])))]
#[command(group(clap::ArgGroup::new("what").required(true).args(["name", "config", "device"])))]
pub struct Args {
    /// The device, of /etc/dsm/NAME.toml
    pub name: Option<String>,
    /// Name of the dsm device
    #[arg(long, value_name = "NAME", requires = "where")]
    pub device: Option<String>,
    /// MongoDB's data directory, on a file system on the device
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub dbpath: Option<PathBuf>,
    /// A directory of any application, on a file system on the device, whose files
    /// get streams by what is seen of them
    ///
    /// Files that are opened for writing get the stream in which they are mixed least
    /// with data of other lifetimes; those that stay open are grouped by how often
    /// they are modified for their size.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub auto: Option<PathBuf>,
    /// How long a file must be open to be grouped, and how often all are regrouped,
    /// in seconds
    #[arg(
        long,
        value_name = "N",
        default_value = "60",
        conflicts_with_all = ["file", "dbpath"]
    )]
    pub period_seconds: Seconds,
    /// When files get boundaries: at the end of the load phase, at `dsmctl
    /// boundary mark`, or at once
    ///
    /// The load phase is over with the second window in a row in which at least
    /// 1 MiB was written and the collections and indexes grew by less than a
    /// tenth of that; or with `dsmctl boundary mark`. Files that come later get
    /// theirs at their own first checkpoint.
    #[arg(long, value_enum, default_value_t, conflicts_with = "file")]
    pub boundary: BoundaryMode,
    /// What to do with a boundary when more of its file lies above than below
    #[arg(long, value_enum, default_value_t, conflicts_with = "file")]
    pub outgrown: Outgrown,
    /// Rules for files and parts of files, for all of the directory or for BELOW;
    /// may be given several times
    ///
    /// A file whose name ends in .toml has objects with streams or lifetimes, any
    /// other a pattern and a class on each line.
    #[arg(long, value_name = "[BELOW=]FILE", conflicts_with = "file")]
    pub rules: Vec<Source>,
    /// How often growing files are looked for, in seconds
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "file")]
    pub refresh_seconds: Seconds,
    /// Give files the write hint that names their class, so that writes to where
    /// they grow have the stream of the class
    ///
    /// A hint is a property of the inode in memory, and is gone with it.
    #[arg(long, conflicts_with = "file")]
    pub write_hints: bool,
    /// Discard on the device what a checkpoint has freed; with =audit, only see whether that
    /// would be safe
    ///
    /// Off by default. dsmd switches the feature on in the target. If a precondition does not hold,
    /// it discards nothing, and `dsmctl status` says why. It begins in audit, and does so again
    /// when another process opens the database.
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = discard,
        default_value = "false",
        hide_default_value = true,
        conflicts_with = "file"
    )]
    pub discard: Mode,
    /// How many pages must be seen to be written before they are used again, before anything is
    /// discarded; 0: it begins at once
    #[arg(long, value_name = "N", default_value_t = AUDIT_PAGES, conflicts_with = "file")]
    pub audit_pages: u64,
    /// Wait for the database to be made, and to come back, instead of ending
    #[arg(long, conflicts_with = "file")]
    pub wait: bool,
    /// The file, whose name is that of the device, where it is not in /etc/dsm
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the regions that were written to stdout after each checkpoint
    #[arg(long)]
    pub show_regions: bool,
    /// Form of the log on stderr [default: text]
    #[arg(long, value_enum)]
    pub log_format: Option<Format>,
    /// Log every upload, too
    #[arg(short, long)]
    pub verbose: bool,
    /// Directory in which boundaries are kept [default: /var/lib/dsmd]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Directory of the control socket and of what is published
    #[arg(long, value_name = "DIR", env = "DSMD_RUN_DIR", default_value = RUN_DIR, hide = true)]
    pub run_dir: PathBuf,
    /// Directory in which dsm-mongo writes
    #[arg(long, value_name = "DIR", env = "DSM_MONGO_RUN_DIR", default_value = feed::RUN_DIR, hide = true)]
    pub mongo_dir: PathBuf,
}

impl Args {
    /// What is to be done: the configuration file, with what the command line
    /// says beside it.
    pub fn config(&self) -> Result<Config> {
        let directory = self.dbpath.as_ref().or(self.auto.as_ref());
        let mut config = match (&self.config, &self.name, &self.device, directory) {
            (Some(path), ..) => Config::read(path)?,
            (None, Some(name), ..) => Config::read(&config::path_of(Path::new(config::DIR), name))?,
            (None, None, Some(device), Some(dbpath)) => Config {
                boundary: self.boundary,
                outgrown: self.outgrown,
                rules: self.rules.iter().map(absolute).collect::<Result<_>>()?,
                refresh_seconds: self.refresh_seconds,
                write_hints: self.write_hints,
                discard: self.discard,
                audit_pages: self.audit_pages,
                auto: self.auto.is_some(),
                period_seconds: self.period_seconds,
                wait: self.wait,
                ..Config::of(device, &std::path::absolute(dbpath)?)
            },
            _ => unreachable!("clap asks for one of them"),
        };
        config.log_format = self.log_format.unwrap_or(config.log_format);
        config.verbose |= self.verbose;
        if let Some(dir) = &self.state_dir {
            config.state_dir = std::path::absolute(dir)?;
        }
        config.check().map_err(|reason| anyhow!(reason))?;
        Ok(config)
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

/// The working directory changes.
fn absolute(s: &Source) -> Result<Source> {
    Ok(Source {
        below: s.below.clone(),
        file: std::path::absolute(&s.file)?,
    })
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
    fn the_command_line_is_checked_as_the_file_is() {
        let config = |words: &str| Args::parse_from(words.split(' ')).config();
        let said = config("dsmd --device a/b --dbpath /db").unwrap_err().to_string();
        assert!(
            said.contains("the name \"a/b\" of a device cannot be one"),
            "{said}"
        );
        let args = Args::parse_from("dsmd --device d --dbpath db --state-dir s --run-dir r".split(' '));
        let c = args.config().unwrap();
        for path in [&c.dbpath.unwrap(), &c.state_dir, &args.run().run_dir] {
            assert!(path.is_absolute(), "{}", path.display());
        }
    }

    #[test]
    fn a_database_on_the_command_line() {
        let words = "dsmd --device d --dbpath /db --boundary manual --refresh-seconds 0.5";
        let c = Args::parse_from(words.split(' ')).config().unwrap();
        assert_eq!((c.device.as_str(), c.boundary), ("d", BoundaryMode::Manual));
        assert!(!c.wait);
        assert_eq!(c.state_dir, PathBuf::from("/var/lib/dsmd"));
    }

    #[test]
    fn a_directory_to_follow() {
        let parse = |words: &str| Args::try_parse_from(words.split(' '));
        let c = parse("dsmd --device d --auto /srv").unwrap().config().unwrap();
        assert_eq!((c.auto, c.period_seconds.0.as_secs()), (true, 60));
        assert_eq!(c.dbpath, Some(PathBuf::from("/srv")));
        for words in [
            "dsmd --device d --auto /srv --dbpath /db",
            "dsmd --device d --dbpath /db --period-seconds 5",
            "dsmd --auto /srv",
            "dsmd --device d",
            "dsmd d --dbpath /db",
            "dsmd d --config /d.toml",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! `dsmd`: the agent of one device and one dbpath.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use clap::Parser;

use dsm::agent::run::{self, Signals, Surroundings, Waker};
use dsm::agent::watch::Watch;
use dsm::agent::{Agent, BoundaryMode, TURTLE};
use dsm::control::{FileInfo, Server, RUN_DIR};
use dsm::device::{Device, Target};
use dsm::fiemap::{self, Fiemap};
use dsm::log::Format;
use dsm::report::{checkpoint_text, written_text, Names};
use dsm::status::Checkpoint;
use dsm::walk::Root;
use dsm::{log, place};

/// Keep a dsm device's table equal to what is in a MongoDB data directory, and
/// tell the device of checkpoints.
///
/// Nothing is written into the directory, and neither the database nor the
/// device waits for dsmd: when it ends, the table stays as it was and grows
/// old.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 80)]
struct Args {
    /// Name of the dsm device
    #[arg(long, value_name = "NAME")]
    device: String,
    /// MongoDB's data directory, on a file system on the device
    #[arg(long, value_name = "DIR")]
    dbpath: PathBuf,
    /// When files get boundaries: at `dsmctl boundary mark`, or at once
    ///
    /// Files that come later get theirs at their own first checkpoint.
    #[arg(long, value_enum, default_value_t = BoundaryMode::Manual)]
    boundary: BoundaryMode,
    /// Print the regions that were written to stdout after each checkpoint
    #[arg(long)]
    show_regions: bool,
    /// Form of the log on stderr
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// Log every upload, too
    #[arg(short, long)]
    verbose: bool,
    /// How often growing files are looked for, in seconds
    #[arg(long, value_name = "N", default_value = "1", value_parser = seconds)]
    refresh_seconds: Duration,
    /// Wait for the database to be made, instead of refusing a directory
    /// without one
    #[arg(long)]
    wait: bool,
    /// Directory of the control socket
    #[arg(long, value_name = "DIR", env = "DSMD_RUN_DIR", default_value = RUN_DIR, hide = true)]
    run_dir: PathBuf,
}

fn seconds(s: &str) -> Result<Duration, String> {
    match s.parse::<f64>() {
        Ok(n) if (0.1..=3600.0).contains(&n) => Ok(Duration::from_secs_f64(n)),
        _ => Err("it must be a number of seconds from 0.1 to 3600".into()),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    log::init(args.log_format, args.verbose);
    match serve(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            log!(Error, "ended", device = args.device, reason = format!("{e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> Result<()> {
    let signals = Signals::new()?;
    let device = Device::open(&args.device)?;
    // Nothing of the file system may stay in use because of us.
    std::env::set_current_dir("/").context("cannot go to /")?;
    let dbpath = std::path::absolute(&args.dbpath)?;
    if !database_is_there(args, &dbpath, &signals)? {
        return Ok(());
    }
    let found = place::find(&dbpath, &device.name, device.devno, device.sectors)?;
    if let Some(warning) = &found.warning {
        log!(Warn, warning);
    }
    let waker = Waker::new()?;
    let wake = waker.clone();
    let server = Server::start(&args.run_dir, &device.name, move || wake.wake())?;

    let root = Root::open(&dbpath).with_context(|| format!("{}: cannot open it", dbpath.display()))?;
    let mut watch = Watch::new().context("cannot use inotify")?;
    let mut agent = Agent::new(device, Fiemap::new(found.place), root, args.boundary);
    let outcome = agent.attach(&mut |path, dir| watch.add(path, dir))?;
    log!(
        Info,
        "attached",
        device = args.device,
        dbpath = agent.root().path().display(),
        files = agent.len(),
        extents = outcome.commit.map_or(0, |c| c.extents),
        boundaries = agent.boundaries(),
        ms = outcome.took.as_millis(),
    );
    let mut on_checkpoint = |target: &dyn Target, done: &Checkpoint, files: &dyn Fn() -> Vec<FileInfo>| {
        if args.show_regions {
            show_regions(target, done, files());
        }
    };
    let mut surroundings = Surroundings {
        device: args.device.clone(),
        server,
        waker,
        signals,
        watch,
        refresh: args.refresh_seconds,
        on_checkpoint: &mut on_checkpoint,
        held: None,
    };
    run::run(&mut agent, &mut surroundings)?;
    log!(Info, "ended", device = args.device, reason = "signal");
    Ok(())
}

/// Whether there is a database to serve; without one, an error or a wait for it
/// or for a signal.
fn database_is_there(args: &Args, dbpath: &Path, signals: &Signals) -> Result<bool> {
    let mut told = false;
    loop {
        match check_dbpath(dbpath) {
            Ok(()) => return Ok(true),
            Err(e) if !args.wait => return Err(e),
            Err(e) => {
                if !told {
                    log!(Info, "waiting", reason = e);
                    told = true;
                }
            }
        }
        if signals.wait(Duration::from_millis(500)) {
            return Ok(false);
        }
    }
}

fn check_dbpath(dbpath: &Path) -> Result<()> {
    let shown = dbpath.display();
    let meta = std::fs::metadata(dbpath).with_context(|| format!("{shown}: cannot look at it"))?;
    if !meta.is_dir() {
        bail!("{shown}: it is not a directory");
    }
    let regular = |name: &str| std::fs::symlink_metadata(dbpath.join(name)).is_ok_and(|m| m.is_file());
    if !regular("WiredTiger") || !regular(TURTLE) {
        bail!("{shown}: it is not a data directory of MongoDB: there is no WiredTiger and {TURTLE} in it");
    }
    let file = std::fs::File::open(dbpath.join("WiredTiger"))
        .with_context(|| format!("{shown}: cannot open its file WiredTiger"))?;
    if !fiemap::supported(&file)? {
        bail!("{shown}: its file system does not tell extents (no FIEMAP); XFS or ext4 is needed");
    }
    Ok(())
}

fn show_regions(target: &dyn Target, done: &Checkpoint, files: Vec<FileInfo>) {
    match target.regions() {
        Ok(regions) => {
            let names: Names = files.into_iter().map(|f| (f.id, f.path)).collect();
            run::print(&format!(
                "{}{}\n",
                checkpoint_text(done),
                written_text(&regions, &names)
            ));
        }
        Err(e) => log!(Warn, "cannot show the regions", reason = e),
    }
}

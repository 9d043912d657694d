// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmd`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;

use dsmd::cli::Args;
use dsmd::Local;
use files::config::Config;
use files::rules::Rules;
use runtime::log;
use runtime::panic;

fn main() -> ExitCode {
    let args = Args::parse();
    let config = match args.config().and_then(|c| check_rules(&c).map(|()| c)) {
        Ok(config) => config,
        Err(e) => {
            eprintln!("dsmd: {e:#}");
            return ExitCode::FAILURE;
        }
    };
    if args.check {
        return ExitCode::SUCCESS;
    }
    log::init(config.log_format, config.verbose);
    panic::abort_on_panic();
    match run(&config, args.show_regions) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            log!(Error, "ended", reason = format!("{e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn check_rules(config: &Config) -> Result<()> {
    for database in &config.databases {
        Rules::read(&database.rules)?;
    }
    Ok(())
}

fn run(config: &Config, show_regions: bool) -> Result<bool> {
    // Nothing of a file system may stay in use because of us.
    std::env::set_current_dir("/").context("cannot go to /")?;
    dsmd::serve_all(&Arc::new(Local), config, show_regions)
}

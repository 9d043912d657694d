// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmd`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Parser;

use dsmd::cli::Args;
use dsmd::Local;
use files::config::Config;
use files::rules::Rules;
use runtime::log;
use runtime::panic;

fn main() -> ExitCode {
    if let Some(code) = dsmd::is_worker(&Arc::new(Local)) {
        return code;
    }
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
    match dsmd::serve_all(&config, args.show_regions) {
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

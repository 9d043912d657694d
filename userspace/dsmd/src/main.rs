// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmd`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Parser;

use dsmd::cli::Args;
use dsmd::Local;
use files::config::{Config, Database};
use files::rules::Rules;
use runtime::log;
use runtime::panic;
use runtime::text::{self, printable};

fn main() -> ExitCode {
    if let Some(code) = dsmd::is_worker(&Arc::new(Local)) {
        return code;
    }
    let args = Args::parse();
    let config = match args.config().and_then(|c| check_rules(&c).map(|()| c)) {
        Ok(config) => config,
        Err(e) => {
            eprintln!("dsmd: {}", text::error(&e));
            return ExitCode::FAILURE;
        }
    };
    if args.check {
        for missing in config.databases.iter().flat_map(missing) {
            eprintln!("dsmd: note: {missing}");
        }
        return ExitCode::SUCCESS;
    }
    log::init(config.log_format, config.verbose);
    panic::abort_on_panic();
    match dsmd::serve_all(&config, args.show_regions) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            log!(Error, "ended", reason = text::error(&e));
            ExitCode::FAILURE
        }
    }
}

/// They may come later, and their names are what is mistyped.
fn missing(database: &Database) -> Vec<String> {
    let (device, dbpath) = (&database.device, &database.dbpath);
    let mut missing = Vec::new();
    if !Path::new("/dev/mapper").join(device).exists() {
        missing.push(format!("there is no device {device} in /dev/mapper"));
    }
    if !dbpath.is_dir() {
        missing.push(printable(&format!("there is no directory {}", dbpath.display())));
    }
    missing
}

fn check_rules(config: &Config) -> Result<()> {
    for database in &config.databases {
        Rules::read(&database.rules)?;
    }
    Ok(())
}

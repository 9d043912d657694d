// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmd`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use database::rules::Rules;
use dsmd::cli::Args;
use dsmd::Local;
use runtime::log;
use runtime::panic;
use runtime::text;

fn main() -> ExitCode {
    let args = Args::parse();
    let config = match args.config().and_then(|c| Rules::read(&c.rules).map(|_| c)) {
        Ok(config) => config,
        Err(e) => {
            eprintln!("dsmd: {}", text::error(&e));
            return ExitCode::FAILURE;
        }
    };
    log::init(config.log_format, config.verbose);
    panic::abort_on_panic();
    match dsmd::serve(&Arc::new(Local), &config, args.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            log!(Error, "ended", device = config.device, reason = text::error(&e));
            ExitCode::FAILURE
        }
    }
}

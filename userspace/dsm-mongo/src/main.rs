// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsm-mongo`: asks a mongod, and reports to `dsmd`.

mod client;
mod listed;
mod session;
mod status;
#[cfg(test)]
mod tests;
mod uri;

use std::process::ExitCode;

use anyhow::{anyhow, Context, Result};
use clap::Parser;
use sd_notify::NotifyState;

use dsm_mongo::cli::Args;
use runtime::log;
use runtime::panic;
use runtime::text::printable;

use uri::Uri;

fn main() -> ExitCode {
    let args = Args::parse();
    let uri = match args.check().and_then(|()| uri::find(args.uri_file.as_deref())) {
        Ok(uri) => uri,
        Err(e) => {
            eprintln!("dsm-mongo: {e:#}");
            return ExitCode::FAILURE;
        }
    };
    if args.check {
        return check(&uri);
    }
    log::init(args.log_format, false);
    log::of_device(&args.device, false);
    panic::abort_on_panic();
    match run(&args, &uri) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            log!(Error, "ended", reason = format!("{e:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether the server answers, with which of its files is whose.
fn check(uri: &Uri) -> ExitCode {
    let said = runtime().and_then(|r| r.block_on(client::check(uri)).map_err(|why| anyhow!(why)));
    match said {
        Ok(said) => {
            println!("{uri}: {said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("dsm-mongo: {uri}: {}", printable(&format!("{why:#}")));
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

fn run(args: &Args, uri: &Uri) -> Result<()> {
    std::env::set_current_dir("/").context("cannot go to /")?;
    runtime()?.block_on(async {
        let door = session::Door::open(&args.run_dir, &args.device)?;
        log!(Info, "waiting for dsmd", device = args.device, server = uri);
        // Without a service manager there is nobody to tell.
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        door.serve(uri).await
    })
}

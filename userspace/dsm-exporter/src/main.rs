// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsm-exporter`.

mod http;
mod pages;
mod server;

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use sd_notify::NotifyState;

use dsm_exporter::cli::Args;
use runtime::log;
use runtime::panic;
use runtime::text;

use pages::ServedPages;

fn main() -> ExitCode {
    let args = Args::parse();
    log::init(args.log_format, false);
    panic::abort_on_panic();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            log!(Error, "ended", reason = text::error(&e));
            ExitCode::FAILURE
        }
    }
}

fn cannot_serve(address: SocketAddr, taken: bool) -> String {
    let other = match taken {
        true => ": another program has the port; choose one with --listen, or DSM_EXPORTER_LISTEN by `systemctl edit dsm-exporter`",
        false => "",
    };
    format!("cannot serve at {address}{other}")
}

fn run(args: &Args) -> Result<()> {
    std::env::set_current_dir("/").context("cannot go to /")?;
    let address = args.listen;
    let listener = TcpListener::bind(address).map_err(|e| {
        let taken = e.kind() == std::io::ErrorKind::AddrInUse;
        anyhow::Error::new(e).context(cannot_serve(address, taken))
    })?;
    let pages = Arc::new(ServedPages::new(&args.run_dir, address.ip().is_loopback()));
    pages.follow()?;
    log!(Info, "serving", address = listener.local_addr()?);
    // Without a service manager there is nobody to tell.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    let answers: server::Answers = Arc::new(move |head: &http::RequestHead| pages.answer(head));
    server::serve(&listener, &answers)
}

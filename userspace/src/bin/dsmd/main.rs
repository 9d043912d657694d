// SPDX-License-Identifier: GPL-2.0-only
//! `dsmd`: the agents of all databases, a thread for each.

mod serve;
mod web;

use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use sd_notify::NotifyState;

use dsm::agent::run::Pulse;
use dsm::cli::dsmd::Args;
use dsm::config::Config;
use dsm::log;
use dsm::rules::Rules;

/// What a thread tells of its database.
pub enum Event {
    /// It is served, or waited for.
    Ready,
    Ended(Result<()>),
}

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
    match serve_all(&config, args.show_regions) {
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

/// Serves until all databases are given up, or a signal comes; whether none
/// failed.
fn serve_all(config: &Config, show_regions: bool) -> Result<bool> {
    // Nothing of a file system may stay in use because of us.
    std::env::set_current_dir("/").context("cannot go to /")?;
    if let Some(address) = config.metrics {
        web::start(address.0, config)?;
    }
    let (sender, events) = mpsc::channel();
    let several = config.databases.len() > 1;
    let mut pulses = Vec::new();
    for database in &config.databases {
        let pulse = Pulse::default();
        pulses.push(pulse.clone());
        let served = serve::Served {
            database: database.clone(),
            state_dir: config.state_dir.clone(),
            run_dir: config.run_dir.clone(),
            show_regions,
            pulse,
            events: sender.clone(),
        };
        thread::Builder::new()
            .name(database.device.clone())
            .spawn(move || {
                if several {
                    log::of_device(&served.database.device);
                }
                let result = serve::serve(&served);
                // The receiver lives as long as the threads.
                let _ = served.events.send(Event::Ended(result));
            })
            .context("cannot start a thread")?;
    }
    drop(sender);
    supervise(&events, &pulses, config)
}

fn supervise(events: &mpsc::Receiver<Event>, pulses: &[Pulse], config: &Config) -> Result<bool> {
    let watchdog = sd_notify::watchdog_enabled();
    let period = watchdog.map_or(Duration::from_secs(3600), |w| w / 3);
    let (mut waiting_for, mut all_well) = (pulses.len(), true);
    loop {
        match events.recv_timeout(period) {
            Ok(Event::Ready) => {
                waiting_for = waiting_for.saturating_sub(1);
                if waiting_for == 0 {
                    tell(&[NotifyState::Ready]);
                }
            }
            Ok(Event::Ended(Ok(()))) => {}
            Ok(Event::Ended(Err(e))) => {
                all_well = false;
                let device = match config.databases.as_slice() {
                    [only] => only.device.as_str(),
                    _ => "",
                };
                log!(Error, "ended", device = device, reason = format!("{e:#}"));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(all_well),
        }
        // A thread that is stuck takes the process down, after which all are
        // served again.
        let stuck = |w: Duration| pulses.iter().any(|p| p.busy() > w);
        if watchdog.is_some_and(|w| !stuck(w)) {
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(states) {
        log!(Warn, "cannot notify the service manager", reason = e);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The process of one database: what is stuck, dies or grows here is this database's alone.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use rustix::process::{set_parent_process_death_signal, Signal};
use serde::{Deserialize, Serialize};

use super::report::{Board, Report, Reporter};
use super::serve::{self, ServePace, Served};
use super::Machine;
use files::config::Config;
use proto::device::State;
use proto::reason::Reason;
use runtime::pulse::Pulses;
use runtime::wake::Signals;
use runtime::{log, panic};

/// The argument that makes a dsmd a worker; its task is the first line of stdin.
pub(crate) const WORKER: &str = "--worker";
/// The database is given up: another process would not fare better.
pub(crate) const GIVEN_UP: u8 = 1;
/// There was no process that could serve it.
const CANNOT_START: u8 = 3;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// With one database.
    pub config: Config,
    /// There are others, so that lines of the log for people name this one.
    pub several: bool,
    pub show_regions: bool,
    /// Who is served for.
    pub parent: u32,
}

/// Serves the database that the process which started this one names.
pub(crate) fn main<M: Machine>(machine: &Arc<M>) -> ExitCode {
    let run = || -> Result<Result<()>> {
        // Who is killed leaves nobody behind.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The kernel has the name of /proc/self/exe otherwise.
        std::fs::write("/proc/self/comm", "dsmd")?;
        let line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut text = String::new();
        BufReader::new(&line).read_line(&mut text)?;
        let task: Task = serde_json::from_str(&text).context("dsmd starts it, and nobody else")?;
        // It may have ended before this process was to end with it.
        let parent = std::os::unix::process::parent_id();
        ensure!(parent == task.parent, "the process that has started it is gone");
        log::init(task.config.log_format, task.config.verbose);
        panic::abort_on_panic();
        work(machine, task, move |report| {
            let mut text = serde_json::to_string(report)?;
            text.push('\n');
            (&line).write_all(text.as_bytes())
        })
    };
    match run() {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) => GIVEN_UP.into(),
        Err(e) => {
            log!(Error, "ended", reason = format!("{e:#}"));
            CANNOT_START.into()
        }
    }
}

/// Serves a database until a signal comes, or it is given up; `Err`: it could not begin.
pub(crate) fn work<M: Machine>(
    machine: &Arc<M>,
    task: Task,
    send: impl FnMut(&Report) -> io::Result<()> + Send + 'static,
) -> Result<Result<()>> {
    let Task {
        mut config,
        several,
        show_regions,
        ..
    } = task;
    let database = config.databases.pop().context("there is no database")?;
    let device = database.device.clone();
    log::of_device(&device, several);
    let served = Served {
        database,
        state_dir: config.state_dir,
        run_dir: config.run_dir,
        mongo_dir: config.mongo_dir,
        board: Arc::default(),
        show_regions,
        pulses: Pulses::default(),
        signals: Signals::new()?,
        pace: ServePace::default(),
    };
    report(machine, &served, send)
}

/// Serves it, and reports that.
pub(crate) fn report<M: Machine>(
    machine: &Arc<M>,
    served: &Served,
    send: impl FnMut(&Report) -> io::Result<()> + Send + 'static,
) -> Result<Result<()>> {
    let (board, device): (&Arc<Board>, _) = (&served.board, &served.database.device);
    let _reporter = Reporter::start(machine, board, &served.pulses, device, send)?;
    let result = serve::serve(&**machine, served);
    let reason = result.as_ref().err().map(Reason::of);
    if let Some(reason) = &reason {
        log!(Error, "ended", device = device, reason = reason);
    }
    board.without(State::Ended, reason);
    Ok(result)
}

/// Serves the one database of a configuration in this process, and reports to nobody.
pub fn serve_here<M: Machine>(machine: &Arc<M>, config: &Config) -> Result<()> {
    let task = Task {
        config: config.clone(),
        several: false,
        show_regions: false,
        parent: 0,
    };
    work(machine, task, |_| Ok(()))?
}

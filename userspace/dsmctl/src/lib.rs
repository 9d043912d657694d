// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl`: makes and watches dsm devices.

mod borrowed;
pub mod cli;
mod create;
mod device_file;
mod doctor;
mod free;
mod grow;
mod insert;
mod probe;
mod progress;
mod record;
mod report;
mod show;
mod simulate;
mod switch;
pub mod trial;
mod verify;
mod view;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use clap::Parser;
use serde::Serialize;

use crate::cli::{self as args, Args, BoundaryCommand, Command, DebugCommand, Output};
use dm::device::{Device, MessageError, Target};
use dm::mode::Mode;
use proto::control::{self, Request};
use runtime::text;

pub fn main() -> ExitCode {
    let args = Args::parse();
    let status = run(&args).unwrap_or_else(|e| {
        // Nobody may read it.
        let _ = writeln!(std::io::stderr(), "dsmctl: {}", text::error(&e));
        NO
    });
    ExitCode::from(status)
}

/// The exit status when what was asked is not so, or cannot be done.
const NO: u8 = 1;

fn yes_or_no(so: Result<bool>) -> Result<u8> {
    so.map(|so| if so { 0 } else { NO })
}

/// The exit status.
fn run(args: &Args) -> Result<u8> {
    let out = args.output;
    ensure!(
        out == Output::Text || args.command.has_data(),
        "-o json: this command has no data to print; nothing was done"
    );
    let _progress = match &args.command {
        // They have a screen, or more to say.
        Command::Status(_) | Command::Simulate(_) => None,
        Command::Record(a) => {
            let of = a.seconds.map_or_else(String::new, |n| format!(" of {n}"));
            progress::begin(move || of.clone())
        }
        _ => progress::begin(String::new),
    };
    let done = match &args.command {
        Command::Verify(a) => return verify::verify(a, out),
        Command::ProbeDiscard(a) => return yes_or_no(probe::probe(a, out)),
        Command::Attach { name } => create::attach(name),
        Command::Check { name } => return yes_or_no(device_file::check(name.as_deref())),
        Command::Create(a) => create::create_now(a),
        Command::Insert(a) => insert::insert(a),
        Command::Withdraw { device, dry } => insert::withdraw(device, *dry),
        Command::Grow(a) => grow::grow(a),
        Command::Remove { name } => create::remove(name),
        Command::Set { name, feature, value } => set(name, feature, value),
        Command::Status(a) => show::status(a, out),
        Command::Doctor(a) => return doctor::doctor(a, out),
        Command::Boundary { command } => match command {
            BoundaryCommand::Mark { name } => boundaries(name, Request::BoundaryMark, "files marked"),
            BoundaryCommand::Move { name, files } => {
                let request = Request::BoundaryMove { paths: files.clone() };
                boundaries(name, request, "boundaries moved")
            }
            BoundaryCommand::Show { name } => show::boundaries(name, out),
        },
        Command::Record(a) => record::record(a),
        Command::Free(a) => free::free(a, out),
        Command::Trial { command } => trial::trial(command, out),
        Command::Debug { command } => debug(command),
        Command::Simulate(a) => {
            simulate::check(a)?;
            simulate::simulate(a, out)
        }
    };
    done.map(|()| 0)
}

fn boundaries(name: &str, request: Request, done: &str) -> Result<()> {
    let m: control::Marked = ask(name, request)?;
    let (marked, all) = (m.marked, m.boundaries);
    print_text(&format!("{name}: {marked} {done}, {all} have a boundary\n"))
}

fn debug(command: &DebugCommand) -> Result<()> {
    match command {
        DebugCommand::Restore { name } => borrowed::claim(&Device::open(name)?).map(drop),
        DebugCommand::Reset { name } => {
            let done = Device::open(name)?.message("reset");
            done.map(|_| ()).map_err(|e| refused(name, e))
        }
        DebugCommand::Refresh { name } => {
            let r: control::Refreshed = ask(name, Request::Refresh)?;
            print_text(&format!(
                "{name}: {} files, {} extents; {} changed, {} dropped\n",
                r.files, r.extents, r.changed, r.dropped
            ))
        }
    }
}

/// A request to the dsmd of a device that exists.
fn ask<T: for<'de> serde::Deserialize<'de>>(name: &str, request: Request) -> Result<T> {
    let device = Device::open(name)?;
    control::ask(&args::run_dir(), &device.name, request)
}

/// The same of who may be stuck: nobody waits for long.
fn ask_soon<T: for<'de> serde::Deserialize<'de>>(name: &str, request: Request) -> Result<T> {
    control::ask_within(Duration::from_secs(10), &args::run_dir(), name, request)
}

fn set(name: &str, feature: &str, value: &str) -> Result<()> {
    // The kernel takes both as they are, in letters of either case.
    let feature = feature.to_ascii_lowercase().replace('-', "_");
    let device = Device::open(name)?;
    if feature == "discard" {
        if value.eq_ignore_ascii_case("allow") {
            return switch::allow(&device);
        }
        let wanted = Mode::from(value.to_ascii_lowercase()).of_target();
        if matches!(wanted, Mode::Off | Mode::Watch | Mode::On) {
            return switch::turn(&device, wanted, &by());
        }
    }
    device
        .message(&format!("set {feature} {value}"))
        .map(drop)
        .map_err(|e| match (&e, device.table_line()) {
            (MessageError::Refused(why), Ok(table)) if why.contains("Unknown feature") => {
                let all: Vec<&str> = table.features.iter().map(|(name, _)| name.as_str()).collect();
                anyhow::anyhow!(
                    "{name}: there is no feature {feature}; there are {}; nothing was changed",
                    all.join(", ")
                )
            }
            _ => refused(name, e),
        })
}

/// Who asks, also behind sudo.
fn by() -> String {
    let login = std::fs::read_to_string("/proc/self/loginuid").unwrap_or_default();
    match login.trim() {
        // No session
        "" | "4294967295" => "`dsmctl set`".to_owned(),
        uid => format!("`dsmctl set`, user {uid}"),
    }
}

/// A message that the kernel refused, as an error.
fn refused(name: &str, e: MessageError) -> anyhow::Error {
    match e {
        MessageError::Refused(reason) => anyhow::anyhow!("{name}: {reason}; nothing was changed"),
        MessageError::Stale(reason) => {
            anyhow::anyhow!(
                "{name}: {reason}; somebody else changes the table, and nothing was changed by this"
            )
        }
        e => anyhow::Error::new(e).context(name.to_owned()),
    }
}

/// Prints data in the form that was asked for.
fn print<T: Serialize>(output: Output, data: &T, text: impl FnOnce() -> String) -> Result<()> {
    let text = match output {
        Output::Text => text(),
        Output::Json => serde_json::to_string_pretty(data)? + "\n",
    };
    print_text(&text)
}

fn print_text(text: &str) -> Result<()> {
    write(text).map(drop)
}

/// Prints text at once; whether somebody reads it.
fn write(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        // `dsmctl status | head`
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e).context("cannot write to stdout"),
    }
}

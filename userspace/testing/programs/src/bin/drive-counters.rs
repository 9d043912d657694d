// SPDX-License-Identifier: GPL-2.0-or-later
//! Prints what a drive counts of host and of flash writes, as JSON, in bytes: `drive-counters DRIVE
//! [COMMAND]`, where the command prints them, as `dsmctl trial start --counters` takes it.

use std::env::args;

use anyhow::{Context, Result};
use drive::counters::{of_command, of_drive};

fn main() -> Result<()> {
    let drive = args().nth(1).context("usage: drive-counters DRIVE [COMMAND]")?;
    let found = match args().nth(2) {
        Some(command) => of_command(&command),
        None => of_drive(drive.as_ref()),
    };
    println!("{}", serde_json::to_string(&found.context(drive)?)?);
    Ok(())
}

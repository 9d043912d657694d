// SPDX-License-Identifier: GPL-2.0-or-later
//! The command lines of the programs: here, and not with them, so that their man
//! pages and completions can be made from what they are.

pub mod dsmctl;
pub mod dsmd;
pub mod exporter;
pub mod mongo;
pub mod tab;
mod wrap;

use clap::error::ErrorKind;
use clap::Parser;

/// The command line; help is wrapped to the width of the terminal.
pub fn parse<T: Parser>() -> T {
    let e = match T::try_parse() {
        Ok(args) => return args,
        Err(e) => e,
    };
    let help = [
        ErrorKind::DisplayHelp,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    match wrap::terminal().filter(|_| help.contains(&e.kind())) {
        Some(width) => {
            let text = wrap::wrap(&e.render().to_string(), width);
            if e.use_stderr() {
                eprint!("{text}");
            } else {
                print!("{text}");
            }
            std::process::exit(e.exit_code())
        }
        None => e.exit(),
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What the command lines of the programs share.

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
    match crate::wrap::terminal().filter(|_| help.contains(&e.kind())) {
        Some(width) => {
            let text = crate::wrap::wrap(&e.render().to_string(), width);
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

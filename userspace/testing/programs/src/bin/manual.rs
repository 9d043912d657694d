// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the man pages, one a command, and the completions of shells:
//! `make man`.

use std::path::Path;
use std::{env, fs, io};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

fn pages(command: &Command, dir: &Path) -> io::Result<()> {
    Man::new(command.clone())
        .section("8")
        .manual("dm-dsm")
        .generate_to(dir)?;
    command
        .get_subcommands()
        .filter(|c| c.get_name() != "help")
        .try_for_each(|c| pages(c, dir))
}

fn main() -> io::Result<()> {
    let dir = env::args_os()
        .nth(1)
        .ok_or_else(|| io::Error::other("usage: manual DIR"))?;
    let dir = Path::new(&dir);
    fs::create_dir_all(dir)?;
    let commands = [
        dsmctl::cli::Args::command(),
        dsmd::cli::Args::command(),
        dsm_exporter::cli::Args::command(),
    ];
    for mut command in commands {
        let name = command.get_name().to_owned();
        command.build();
        pages(&command, dir)?;
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            clap_complete::generate_to(shell, &mut command, &name, dir)?;
        }
    }
    Ok(())
}

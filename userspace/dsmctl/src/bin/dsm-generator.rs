// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsm-generator`: makes systemd's units of the devices in /etc/dsm, see
//! systemd.generator(7), each file for itself.  A mount of /dev/mapper/NAME then waits for
//! dsm@NAME.service, and that for the underlying device; dsmd@NAME.service serves it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};

use database::config::{self, Config};
use dm::{node, unit_name};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match generate(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            tell(&format!("{e:#}"));
            ExitCode::FAILURE
        }
    }
}

/// A generator's stderr goes nowhere when systemd calls it, and there is no journal
/// yet: what it says goes into the kernel log, as an error.
fn tell(reason: &str) {
    let line = format!("dsm-generator: {reason}\n");
    eprint!("{line}");
    if std::env::var_os("SYSTEMD_SCOPE").is_some_and(|scope| scope == "system") {
        // There is nobody else to tell.
        let _ = fs::write("/dev/kmsg", format!("<3>{line}"));
    }
}

/// Whether all files are right.  What is wrong with an option `dsmctl attach` says, which then is
/// the failed unit's last word.
fn generate(args: &[OsString]) -> Result<bool> {
    ensure!(
        args.len() == 3,
        "systemd calls this with three directories; use `dsmctl attach`"
    );
    // The templates are installed beside this program's folder.
    let me = std::env::current_exe().context("cannot determine where this program is")?;
    let templates = me.ancestors().nth(2).map(|lib| lib.join("system"));
    let templates = templates.context("the path of this program has no parent directory")?;
    let dir = PathBuf::from(std::env::var_os("DSM_CONFIG_DIR").unwrap_or_else(|| config::DIR.into()));
    let mut good = true;
    for name in config::devices(&dir)? {
        let made = Config::read(&config::path_of(&dir, &name))
            .and_then(|config| units(&config, Path::new(&args[0]), &templates).with_context(|| name));
        if let Err(e) = made {
            tell(&format!("{e:#}"));
            good = false;
        }
    }
    Ok(good)
}

fn units(config: &Config, dir: &Path, templates: &Path) -> Result<()> {
    // A name that was checked needs no escaping.
    let name = &config.device;
    let wanted = |template: &str| {
        let unit = format!("{template}{name}.service");
        let template = templates.join(format!("{template}.service"));
        match config.boot {
            true => link(&template, &dir.join("multi-user.target.wants").join(unit)),
            false => Ok(()),
        }
    };
    if let Some(drive) = &config.drive {
        let unit = format!("dsm@{name}.service");
        let below = unit_name::device(drive);
        let target = unit_name::target(name);
        write(
            &dir.join(format!("{unit}.d/50-device.conf")),
            &format!("[Unit]\nBindsTo={below}\nAfter={below}\nWants={target}\nBefore={target}\n"),
        )?;
        let node = unit_name::device(&node::path(name));
        let template = templates.join("dsm@.service");
        link(&template, &dir.join(format!("{node}.requires")).join(&unit))?;
        wanted("dsm@")?;
    }
    if config.dbpath.is_some() {
        wanted("dsmd@")?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    make_parent(path)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("{}: cannot write it", path.display()))
}

fn link(template: &Path, path: &Path) -> Result<()> {
    make_parent(path)
        .and_then(|()| symlink(template, path))
        .with_context(|| format!("{}: cannot link it", path.display()))
}

fn make_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

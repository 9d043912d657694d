// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsm-generator`: makes systemd's units of the devices in /etc/dsmtab, see
//! systemd.generator(7), each line for itself.  A mount of /dev/mapper/NAME then waits for
//! dsm@NAME.service, and that for the underlying device.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};

use dm::dsmtab::{Tab, TabLine, TAB};
use dm::unit_name;

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

/// Whether the form of the whole table was good.  What is wrong with an option `dsmctl attach`
/// says, which then is the failed unit's last word.
fn generate(args: &[OsString]) -> Result<bool> {
    ensure!(
        args.len() == 3,
        "systemd calls this with three directories; use `dsmctl attach`"
    );
    // The template is installed beside this program's folder.
    let me = std::env::current_exe().context("cannot determine where this program is")?;
    let template = me.ancestors().nth(2).map(|lib| lib.join("system/dsm@.service"));
    let template = template.context("the path of this program has no parent directory")?;
    let table = PathBuf::from(std::env::var_os("DSMTAB").unwrap_or_else(|| TAB.into()));
    let tab = Tab::read(&table, Ok)?;
    let shown = table.display();
    let mut good = tab.bad.is_empty();
    for bad in &tab.bad {
        tell(&format!("{shown}: {bad}"));
    }
    for line in &tab.entries {
        if let Err(e) = units(line, Path::new(&args[0]), &template) {
            tell(&format!("{shown}: {}: {e:#}", line.name));
            good = false;
        }
    }
    Ok(good)
}

fn units(line: &TabLine, dir: &Path, template: &Path) -> Result<()> {
    // A name that was checked needs no escaping.
    let unit = format!("dsm@{}.service", line.name);
    let below = unit_name::device(&line.dev);
    let target = unit_name::target(&line.name);
    let drop_in = dir.join(format!("{unit}.d/50-dsmtab.conf"));
    write(
        &drop_in,
        &format!("[Unit]\nBindsTo={below}\nAfter={below}\nWants={target}\nBefore={target}\n"),
    )?;
    let node = unit_name::device(&unit_name::node(&line.name));
    link(template, &dir.join(format!("{node}.requires")).join(&unit))?;
    if !line.noauto {
        link(template, &dir.join("multi-user.target.wants").join(&unit))?;
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

// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl upgrade`: the kernel module is exchanged below mounted file systems.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice::from_ref;

use anyhow::{anyhow, ensure, Context, Result};
use serde_json::json;

use crate::cli::{run_dir, Output, Upgrade};
use dm::exchange::{self, Guard};
use dm::ioctl::{Dm, Id, Line};
use dm::journal::{Claim, Journal, Withdrawn};
use dm::lvm;
use dm::reply::{Status, TableLine};
use proto::control::{self, Holding};
use runtime::text::printable;

use crate::{claim, insert};

const MODULE: &str = "dm_dsm";

/// A device and its table before.
struct Held {
    name: String,
    claim: Claim,
    dsm: Line,
    table: TableLine,
    linear: Line,
    /// Nothing: an upgrade that was killed had dm-linear in its place.
    on: bool,
    /// Whether a dsmd serves it, which waits meanwhile.
    served: bool,
    /// Files in its table.
    files: u64,
}

pub(crate) fn upgrade(a: &Upgrade, out: Output) -> Result<()> {
    let dm = Dm::open()?;
    let guard = Guard::new()?;
    let before = dm.target_version("dsm")?;
    let names = names(&dm)?;
    ensure!(
        before.is_some() || !names.is_empty(),
        "the module {MODULE} is not loaded; `modprobe dm-dsm` loads the new one"
    );
    check_module(a.module.as_deref())?;
    let _locks = lock_groups(&dm, &names)?;
    let devices = devices(&dm, &names)?;
    if before.is_some() {
        check_users(&devices)?;
    }
    let served = devices.iter().filter(|d| d.served);
    let _holding = Holding::begin(&run_dir(), served.map(|d| d.name.clone()).collect())?;
    withdraw_all(&dm, &devices, &guard)?;
    if before.is_some() {
        if let Err(e) = run(Command::new("rmmod").arg(MODULE)) {
            let e = anyhow!("the module cannot be unloaded: {e:#}");
            return Err(put_back(&dm, &devices, e));
        }
    }
    let instead = load(a.module.as_deref(), &devices)?;
    insert_all(&dm, &devices)?;
    tell_of_tables(&devices);
    if let Some(e) = instead {
        return Err(e.context(
            "the new module cannot be loaded; the installed one was, and every device is on dsm again",
        ));
    }
    let after = dm.target_version("dsm")?;
    let names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    let [before, after] = [before, after].map(|v| {
        let shown = v.map(|v| v.map(|n| n.to_string()).join("."));
        shown.unwrap_or_else(|| "none".into())
    });
    let data = json!({ "from": before, "to": after, "devices": names });
    crate::print(out, &data, || {
        let of = match names.as_slice() {
            [] => "no device uses it".to_owned(),
            names => names.join(", "),
        };
        format!("the module was exchanged: target version {before} before, {after} now; {of}\n")
    })
}

/// What stdout says of a command that must work.
fn run(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}").replace('"', "");
    let done = command.output().with_context(|| format!("cannot run {shown}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    ensure!(
        done.status.success(),
        "{shown}: {}",
        match text(&done.stderr) {
            said if said.is_empty() => done.status.to_string(),
            said => said.replace('\n', "; "),
        }
    );
    Ok(text(&done.stdout))
}

/// What can be known of the new module before the old one is unloaded.
fn check_module(file: Option<&Path>) -> Result<()> {
    let what = match file {
        Some(file) => {
            let shown = file.display();
            ensure!(
                fs::metadata(file)
                    .with_context(|| format!("{shown}: cannot stat it"))?
                    .is_file(),
                "{shown}: it is not a file; nothing was changed"
            );
            fs::canonicalize(file)?
        }
        None => PathBuf::from("dm-dsm"),
    };
    let shown = what.display();
    let field = |name: &str| {
        run(Command::new("modinfo").args(["-F", name]).arg(&what))
            .with_context(|| format!("{shown}: it cannot be read as a module; nothing was changed"))
    };
    let (name, magic) = (field("name")?, field("vermagic")?);
    ensure!(
        name == MODULE,
        "{shown}: it is the module {name}, not {MODULE}; nothing was changed"
    );
    let made_for = magic.split(' ').next().unwrap_or_default();
    let running =
        fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot determine the running kernel")?;
    let running = running.trim();
    ensure!(
        made_for == running,
        "{shown}: it was built for the kernel {made_for}, and {running} is running; nothing was changed"
    );
    Ok(())
}

/// Every device that has a dsm table, or had one before an upgrade that was killed.
fn names(dm: &Dm) -> Result<Vec<String>> {
    let withdrawn = Journal::default().withdrawn(dm);
    let mut names = Vec::new();
    for (name, _) in dm.list().context("cannot list the device-mapper devices")? {
        // One that went away meanwhile has no table to exchange.
        let has_dsm = |lines: &[Line]| lines.iter().any(|l| l.target == "dsm");
        if withdrawn.contains(&name) || dm.table(Id::Name(&name)).is_ok_and(|(_, lines)| has_dsm(&lines)) {
            names.push(name);
        }
    }
    Ok(names)
}

fn devices(dm: &Dm, names: &[String]) -> Result<Vec<Held>> {
    let run_dir = run_dir();
    let mut found = Vec::new();
    for name in names {
        let (claim, info, lines) = claim::take(dm, name)?;
        let on = lines.iter().any(|l| l.target == "dsm");
        let dsm = match (on, claim.record()?.withdrawn) {
            (true, _) => exchange::only_line(name, &info, &lines)?.clone(),
            (
                false,
                Some(Withdrawn {
                    dsm, upgrade: true, ..
                }),
            ) => insert::dsm(exchange::sectors(&lines), dsm),
            (false, _) => continue,
        };
        let table: TableLine = dsm.params.parse()?;
        let linear = exchange::linear_line(&dsm, &table);
        if !on && lines != [linear.clone()] {
            let back = insert::command(name, &table);
            eprintln!("dsmctl: note: {name}: LVM has set it up again since an upgrade was killed; the way back: {back}");
            claim.change(|r| r.withdrawn = None)?;
            continue;
        }
        found.push(Held {
            name: name.clone(),
            claim,
            linear,
            served: control::serves(&run_dir, name),
            files: if on { files(dm, name)? } else { 0 },
            on,
            dsm,
            table,
        });
    }
    Ok(found)
}

fn files(dm: &Dm, name: &str) -> Result<u64> {
    let (_, lines) = dm.status(Id::Name(name))?;
    let line = lines
        .first()
        .with_context(|| format!("{name}: the device is gone"))?;
    let status: Status = line.params.parse()?;
    Ok(status.files)
}

/// Every user of the module must be a device that is known.
fn check_users(devices: &[Held]) -> Result<()> {
    let file = format!("/sys/module/{MODULE}/refcnt");
    let text = fs::read_to_string(&file)
        .with_context(|| format!("{file}: the module cannot be unloaded; nothing was changed"))?;
    let users: usize = text.trim().parse().with_context(|| format!("{file}: {text}"))?;
    let names: Vec<&str> = devices.iter().filter(|d| d.on).map(|d| d.name.as_str()).collect();
    ensure!(
        users == names.len(),
        "the module has {users} users, of which only {} are known (devices: {}): a table that is loaded and not active, or another program, holds it; nothing was changed",
        names.len(),
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    );
    Ok(())
}

/// A lock for each volume group, not for each volume.
fn lock_groups(dm: &Dm, names: &[String]) -> Result<Vec<lvm::MetadataLock>> {
    let mut volumes = BTreeMap::new();
    for name in names {
        if lvm::is_volume(&dm.info(Id::Name(name))?.uuid) {
            volumes.entry(lvm::group(name)).or_insert(name);
        }
    }
    volumes.values().map(|name| lvm::lock(name)).collect()
}

fn withdraw_all(dm: &Dm, devices: &[Held], guard: &Guard) -> Result<()> {
    for (n, d) in devices.iter().enumerate() {
        let done = match guard.came() {
            true => Err(anyhow!("interrupted")),
            false => withdraw(dm, d),
        };
        if let Err(e) = done {
            return Err(put_back(dm, &devices[..n], e));
        }
    }
    Ok(())
}

fn withdraw(dm: &Dm, d: &Held) -> Result<()> {
    if !d.on {
        return Ok(());
    }
    let withdrawn = Withdrawn {
        dsm: d.dsm.params.clone(),
        upgrade: true,
        by_agent: false,
    };
    d.claim.change(|r| r.withdrawn = Some(withdrawn))?;
    let done = exchange::exchange(dm, &d.name, from_ref(&d.dsm), from_ref(&d.linear));
    if done.is_err() {
        // The reason is in the error.
        let _ = d.claim.change(|r| r.withdrawn = None);
    }
    done
}

/// Undoes what was done to some devices, with the module that is loaded.
fn put_back(dm: &Dm, devices: &[Held], e: anyhow::Error) -> anyhow::Error {
    let left = insert_back(dm, devices);
    if left.is_empty() {
        e.context("the module was not exchanged, and every device is as it was")
    } else {
        e.context(format!("the module was not exchanged; {}", on_linear(&left)))
    }
}

/// Puts dsm back, the last first; those where it cannot be.
fn insert_back<'a>(dm: &Dm, devices: &'a [Held]) -> Vec<(&'a Held, anyhow::Error)> {
    let again = |d: &'a Held| {
        let done = exchange::exchange(dm, &d.name, from_ref(&d.linear), from_ref(&d.dsm));
        Some((
            d,
            done.and_then(|()| d.claim.change(|r| r.withdrawn = None)).err()?,
        ))
    };
    devices.iter().rev().filter_map(again).collect()
}

/// Prints how to go on with devices that were left as dm-linear, each in a line of its
/// own, and says which they are.
fn on_linear(left: &[(&Held, anyhow::Error)]) -> String {
    for (d, e) in left {
        eprintln!("dsmctl: note: {}", printable(&format!("{e:#}")));
        eprintln!("{}", insert::command(&d.name, &d.table));
    }
    let names: Vec<&str> = left.iter().map(|(d, _)| d.name.as_str()).collect();
    format!(
        "these devices go on as dm-linear, and `dsmctl upgrade` or the commands above put dsm back: {}",
        names.join(", ")
    )
}

/// Loads the new module.  When that fails, and it is not the installed one, that is
/// better than none: the reason is returned.
fn load(file: Option<&Path>, devices: &[Held]) -> Result<Option<anyhow::Error>> {
    let installed = || run(Command::new("modprobe").arg("dm-dsm"));
    let loaded = match file {
        Some(file) => run(Command::new("insmod").arg(file)),
        None => installed(),
    };
    let Err(e) = loaded else { return Ok(None) };
    if file.is_some() && installed().is_ok() {
        return Ok(Some(e));
    }
    let none = |d| (d, anyhow!("no module is loaded"));
    let left: Vec<_> = devices.iter().map(none).collect();
    Err(anyhow!(
        "the new module cannot be loaded: {e:#}; when there is one, {}",
        on_linear(&left)
    ))
}

fn insert_all(dm: &Dm, devices: &[Held]) -> Result<()> {
    let left = insert_back(dm, devices);
    ensure!(
        left.is_empty(),
        "the module was exchanged, but the new one refuses a table that the old one had; {}",
        on_linear(&left)
    );
    Ok(())
}

/// A table that no dsmd knows is gone with the module.
fn tell_of_tables(devices: &[Held]) {
    for d in devices.iter().filter(|d| !d.served && d.files > 0) {
        let (name, files) = (&d.name, d.files);
        eprintln!(
            "dsmctl: note: no dsmd serves {name}: the table that it had, of {files} files, is to be loaded again"
        );
    }
}

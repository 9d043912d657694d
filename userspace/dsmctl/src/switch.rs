// SPDX-License-Identifier: GPL-2.0-or-later
//! The switch of a device's discards, and the marks of drives and devices on which nothing may be
//! discarded.

use std::path::Path;

use anyhow::{bail, Result};
use serde_json::Value;

use crate::trial;
use dm::device::Device;
use dm::devno::DevNo;
use dm::mode::Mode;
use dm::sysfs::Sysfs;
use drive::switch::{self, DIR};
use proto::control::Request;
use proto::reason::{Reason, ReasonKind};
use runtime::text::{self, printable};

/// The marks of a device and of its drives are gone.
pub(crate) fn allow(device: &Device) -> Result<()> {
    let (name, sysfs) = (&device.name, Sysfs::default());
    let marks = switch::allow(Path::new(DIR), &sysfs, name, device.devno)?;
    if marks.is_empty() {
        bail!("{name}: neither it nor a drive below it is marked; nothing was changed");
    }
    for m in marks {
        let disk = printable(&m.disk);
        eprintln!("dsmctl: {disk}: the mark is gone; `dsmctl set {name} discard on` switches discards on");
    }
    Ok(())
}

/// Discards may be switched on.
pub(crate) fn check(shown: &str, dev: DevNo) -> Result<()> {
    match switch::marked(Path::new(DIR), &Sysfs::default(), shown, dev) {
        Some(why) => bail!("{shown}: {why}; nothing was changed"),
        None => Ok(()),
    }
}

/// A probe needs discards, and the switch to itself.
pub(crate) fn check_for_probe(device: &Device) -> Result<()> {
    let name = &device.name;
    if trial::is_at_work(name) {
        bail!("{name}: a trial is at work (`dsmctl trial stop {name}` ends it); nothing was changed");
    }
    check(name, device.devno)
}

/// What a probe has found: discards are switched off on all devices of the drive, and stay
/// so.  All of it is tried, whatever fails.
pub(crate) fn bar(dev: DevNo, why: &str) -> Result<()> {
    let (dir, sysfs) = (Path::new(DIR), Sysfs::default());
    let marks = switch::mark_drives(dir, &sysfs, dev, why);
    let mut done = Ok(());
    for name in Device::all()? {
        let Ok(device) = Device::open(&name) else { continue };
        if device.devno == dev || switch::marked(dir, &sysfs, &name, device.devno).is_some() {
            done = done.and(switch_off(&device));
        }
    }
    let marks = marks?;
    for m in &marks {
        eprintln!(
            "dsmctl: {}: IT IS MARKED: nothing is discarded on it until `dsmctl set NAME discard allow`",
            m.disk
        );
    }
    done
}

/// By the device's dsmd, if there is one.
pub(crate) fn turn(device: &Device, mode: Mode, who: &str) -> Result<()> {
    let (name, by) = (&device.name, who.to_owned());
    match crate::ask_soon::<Value>(name, Request::Discard { mode, who: by }) {
        Ok(_) => return Ok(()),
        Err(e) if Reason::of(&e).kind == ReasonKind::NotServed => {}
        // It waits for nobody.
        Err(e) if mode == Mode::Off => eprintln!("dsmctl: note: {}", text::error(&e)),
        Err(e) => return Err(e),
    }
    let at = (name.as_str(), device.devno);
    switch::turn(Path::new(DIR), &Sysfs::default(), at, device, mode, who)
}

fn switch_off(device: &Device) -> Result<()> {
    let name = &device.name;
    turn(device, Mode::Off, "`dsmctl probe-discard`")?;
    eprintln!(
        "dsmctl: {name}: DISCARDS ARE SWITCHED OFF on it; take `discard = true` out of \
         /etc/dsm/{name}.toml"
    );
    Ok(())
}

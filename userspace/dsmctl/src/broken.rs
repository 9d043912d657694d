// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl broken`: the marks of drives and devices on which nothing may be discarded.

use std::path::Path;

use anyhow::{bail, Context, Result};
use serde_json::json;

use crate::cli::Output;
use crate::refused;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::sysfs::Sysfs;
use drive::broken::{self, DIR};
use drive::switch;
use proto::runner::{self, Who};
use runtime::text::printable;

pub(crate) fn broken(remove: Option<&str>, out: Output) -> Result<()> {
    let dir = Path::new(DIR);
    if let Some(name) = remove {
        let mark = broken::remove(dir, name)?;
        return crate::print(out, &mark, || {
            format!(
                "{name}: the mark is gone; where discards were switched off, \
                 `dsmctl set NAME discard on` has them on again\n"
            )
        });
    }
    let marks = broken::all(dir)?;
    let named = |m: &broken::Mark| {
        let mut value = json!(m);
        value["name"] = m.name().into();
        value
    };
    let data = json!({ "marks": marks.iter().map(named).collect::<Vec<_>>() });
    crate::print(out, &data, || {
        if marks.is_empty() {
            return "nothing is marked\n".to_owned();
        }
        let line = |m: &broken::Mark| {
            let (disk, model) = (printable(&m.disk), printable(&m.model));
            let what = if m.is_device() { "its database" } else { &model };
            format!("{}: {disk} {what}: {}\n", m.name(), printable(&m.why))
        };
        marks.iter().map(line).collect()
    })
}

/// Discards may be switched on.
pub(crate) fn check(shown: &str, dev: DevNo) -> Result<()> {
    match broken::below(Path::new(DIR), &Sysfs::default(), shown, dev) {
        Some(why) => bail!("{shown}: {why}; nothing was changed"),
        None => Ok(()),
    }
}

/// A probe has the switch to itself, and needs discards.
pub(crate) fn hold_for_probe(device: &Device) -> Result<runner::Lock> {
    let name = &device.name;
    check(name, device.devno)?;
    runner::lock(Path::new(DIR), name, Who::Probe).with_context(|| {
        format!("{name}: the probe needs the switch of discards (`dsmctl trial stop {name}` ends a trial); nothing was changed")
    })
}

/// What a probe has found: discards are switched off on all devices of the drive, and stay
/// so.  All of it is tried, whatever fails.
pub(crate) fn bar(dev: DevNo, why: &str) -> Result<()> {
    let (dir, sysfs) = (Path::new(DIR), Sysfs::default());
    let marks = broken::mark(dir, &sysfs, dev, why);
    let mut done = Ok(());
    for name in Device::all()? {
        let Ok(device) = Device::open(&name) else { continue };
        if device.devno == dev || broken::below(dir, &sysfs, &name, device.devno).is_some() {
            done = done.and(switch_off(dir, &device));
        }
    }
    let marks = marks?;
    for m in &marks {
        eprintln!(
            "dsmctl: {}: IT IS MARKED: nothing is discarded on it until `dsmctl broken --remove {}`",
            m.disk,
            m.name()
        );
    }
    done
}

fn switch_off(dir: &Path, device: &Device) -> Result<()> {
    let name = &device.name;
    // Whatever comes of the switch, dsmd leaves it off.
    switch::set_off(dir, name, "`dsmctl probe-discard`")?;
    let done = device.message("set discard off");
    done.map_err(|e| refused(name, e))?;
    eprintln!(
        "dsmctl: {name}: DISCARDS ARE SWITCHED OFF on it; take the line `discard = true` of \
         device = \"{name}\" out of /etc/dsmd.toml"
    );
    Ok(())
}

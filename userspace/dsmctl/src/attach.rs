// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl attach`: the devices of /etc/dsmtab.

use std::path::Path;

use anyhow::{anyhow, Context, Result};

use crate::cli::{Attach, DryRun, Output};
use crate::tab::{self, TabEntry};
use dm::device::Device;
use dm::mode::Mode;
use dm::node;
use drive::identity::{self, Identities};
use runtime::text::printable;

use crate::broken;
use crate::create;

/// Whether all went well; what did not is reported line by line.
pub(crate) fn attach(a: &Attach, out: Output) -> Result<bool> {
    let shown = a.tab.display();
    let tab = tab::read(&a.tab)?;
    if let Some(name) = &a.name {
        let entry = match tab::find(&tab, name) {
            Some(found) => found.map_err(|bad| anyhow!("{shown}: {bad}; nothing was changed"))?,
            None => Err(anyhow!("{shown}: it has no line for {name}; nothing was changed"))?,
        };
        return attach_one(entry, a.accept, out).map(|()| true);
    }
    for bad in &tab.bad {
        eprintln!("dsmctl: {shown}: {bad}");
    }
    let mut good = tab.bad.is_empty();
    if a.check {
        let block = |path: &Path| create::block_device(path).ok();
        let problems = tab::problems(&Identities::default(), &tab, &block);
        for problem in &problems {
            eprintln!("dsmctl: {shown}: {}", printable(problem));
        }
        return Ok(good && problems.is_empty());
    }
    for entry in tab.entries.iter().filter(|e| !e.noauto) {
        if let Err(e) = attach_one(entry, false, out) {
            eprintln!("dsmctl: {}", runtime::text::error(&e));
            good = false;
        }
    }
    Ok(good)
}

fn attach_one(entry: &TabEntry, accept: bool, out: Output) -> Result<()> {
    let name = &entry.create.name;
    if let Ok(device) = Device::open(name) {
        // Who was killed may not have come to it.
        node::ensure(name, device.devno)?;
        eprintln!("dsmctl: note: {name} is there already, and is left as it is");
        return Ok(());
    }
    let mut wanted = entry.create.clone();
    if wanted.features.discard == Some(Mode::On) {
        // A machine starts all the same.
        if let Err(e) = create::block_device(&wanted.dev).and_then(|dev| broken::check(name, dev)) {
            eprintln!("dsmctl: {e:#} but this: it is made without discards");
            wanted.features.discard = None;
        }
    }
    let identities = Identities::default();
    let found = create::block_device(&wanted.dev)
        .ok()
        .and_then(|dev| identity::of(&identities.sysfs, dev));
    let kept = match accept {
        true => None,
        false => identities.kept(name)?,
    };
    wanted.kept = kept.clone().or_else(|| found.clone());
    create::create(&wanted, DryRun::default(), out).with_context(|| format!("cannot attach {name}"))?;
    if let Some(found) = found.filter(|found| kept.as_ref() != Some(found)) {
        if let Err(e) = identities.keep(name, &found) {
            eprintln!("dsmctl: note: {name}: which drive it is of is not kept for the next time: {e:#}");
        }
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl attach`: makes the device of /etc/dsm/NAME.toml.

use anyhow::{Context, Result};

use crate::cli::{Attach, DryRun};
use crate::create;
use crate::device_file;
use crate::switch;
use dm::device::Device;
use dm::node;

pub(crate) fn attach(a: &Attach) -> Result<()> {
    let name = &a.name;
    let file = device_file::read(&a.dir, name).context("nothing was changed")?;
    if let Ok(device) = Device::open(name) {
        // Who was killed may not have come to it.
        node::ensure(name, device.devno)?;
        eprintln!("dsmctl: note: {name} is there already, and is left as it is");
        return Ok(());
    }
    let mut wanted = file.create.with_context(|| {
        format!("{name}: its file has no drive: somebody else makes it; nothing was changed")
    })?;
    if wanted.features.discard.is_some() {
        // A machine starts all the same.
        if let Err(e) = create::block_device(&wanted.dev).and_then(|dev| switch::check(name, dev)) {
            eprintln!("dsmctl: {e:#} but this: it is made without discards");
            wanted.features.discard = None;
        }
    }
    create::create(&wanted, DryRun::default()).with_context(|| format!("cannot attach {name}"))
}

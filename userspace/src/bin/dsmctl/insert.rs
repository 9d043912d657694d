// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl insert` and `dsmctl withdraw`: dsm and dm-linear, each in the place of the
//! other, under a file system that is in use.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use anyhow::{bail, ensure, Context, Result};
use rustix::io::Errno;
use serde_json::json;

use dsm::cli::dsmctl::{Insert, Output};
use dsm::kernel::devno::DevNo;
use dsm::kernel::dm::{Dm, Id, Info, Line};
use dsm::kernel::exchange::{self, Guard};
use dsm::kernel::lvm;
use dsm::kernel::reply::TableLine;
use dsm::kernel::sysfs::Sysfs;

use crate::create::Stamped;

pub fn insert(a: &Insert, out: Output) -> Result<()> {
    let sysfs = Sysfs::default();
    let dm = Dm::open()?;
    let _guard = Guard::new()?;
    let found = Found::lock(&dm, &a.device)?;
    let (name, old) = (&found.name, &found.line);
    if old.target == "dsm" {
        eprintln!("dsmctl: note: {name} is on dsm already, and is left as it is");
        return Ok(());
    }
    let (below, start) = exchange::linear(name, old)?;
    check_size(&sysfs, &found)?;
    let stamped = Stamped::on(&sysfs, &dm, name, below, &a.features)?;
    let new = Line {
        target: "dsm".into(),
        params: format!("{below} {start}{}", stamped.words()),
        ..old.clone()
    };
    exchange::exchange(&dm, name, old, &new)?;
    stamped.tell(name);
    let data = json!({
        "name": name, "device": found.dev.to_string(), "sectors": old.length,
        "below": below.to_string(), "start": start, "leaves": stamped.leaves, "chosen": stamped.chosen,
    });
    crate::print(out, &data, || {
        format!(
            "{name}: dsm is in the place of dm-linear, on {} from sector {start} on\n",
            sysfs.name(below)
        )
    })
}

pub fn withdraw(device: &str, out: Output) -> Result<()> {
    let dm = Dm::open()?;
    let _guard = Guard::new()?;
    let found = Found::lock(&dm, device)?;
    let (name, old) = (&found.name, &found.line);
    if old.target == "linear" {
        eprintln!("dsmctl: note: {name} is on dm-linear already, and is left as it is");
        return Ok(());
    }
    ensure!(
        old.target == "dsm",
        "{name}: the device's target is {}, not dsm; nothing was changed",
        old.target
    );
    let table: TableLine = old.params.parse()?;
    exchange::exchange(&dm, name, old, &exchange::linear_line(old, &table))?;
    let again = command(name, &table);
    let data = json!({
        "name": name, "device": found.dev.to_string(), "sectors": old.length,
        "below": table.below, "start": table.start, "insert": again,
    });
    crate::print(out, &data, || {
        format!("{name}: dm-linear is in the place of dsm; the way back:\n{again}\n")
    })
}

/// The command that puts dsm back as it was.
pub fn command(name: &str, table: &TableLine) -> String {
    let mut words = vec![format!("dsmctl insert {name}")];
    words.extend(exchange::options(table));
    words.join(" ")
}

/// A device whose table can be exchanged, which LVM leaves alone as long as this lives.
struct Found {
    name: String,
    dev: DevNo,
    line: Line,
    _lock: Option<lvm::Lock>,
}

impl Found {
    fn lock(dm: &Dm, device: &str) -> Result<Self> {
        let info = find(dm, device)?;
        let lock = lvm::is_volume(&info.uuid)
            .then(|| lvm::lock(&info.name))
            .transpose()?;
        let name = info.name;
        let (info, lines) = dm
            .table(Id::Name(&name))
            .with_context(|| format!("{name}: cannot read its table"))?;
        let line = exchange::only_line(&name, &info, &lines)?.clone();
        Ok(Self {
            name,
            dev: info.dev,
            line,
            _lock: lock,
        })
    }
}

/// The device of a name of device-mapper's, or of a path.
fn find(dm: &Dm, device: &str) -> Result<Info> {
    let id = if device.contains('/') {
        Id::Dev(number(device)?)
    } else {
        Id::Name(device)
    };
    match (dm.info(id), id) {
        (Ok(info), _) => Ok(info),
        (Err(e), Id::Name(_)) if e.errno() == Some(Errno::NXIO) => {
            bail!("{device}: there is no device-mapper device of this name; nothing was changed")
        }
        (Err(e), Id::Dev(_)) if e.errno() == Some(Errno::NXIO) => {
            bail!("{device}: it is not a device-mapper device, and dsm can only take the place of dm-linear, as below a volume of LVM's; unmount it, and make a device with `dsmctl create`; nothing was changed")
        }
        (Err(e), _) => Err(e).with_context(|| format!("{device}: cannot look at it")),
    }
}

fn number(path: &str) -> Result<DevNo> {
    let meta = fs::metadata(path).with_context(|| format!("{path}: cannot look at it"))?;
    ensure!(
        meta.file_type().is_block_device(),
        "{path}: it is not a block device; nothing was changed"
    );
    Ok(DevNo::from_stat(meta.rdev()))
}

/// A table that does not span the device is about to be exchanged.
fn check_size(sysfs: &Sysfs, found: &Found) -> Result<()> {
    let size: Option<u64> = sysfs.number(found.dev, "size");
    ensure!(
        size.is_none_or(|s| s == found.line.length),
        "{}: the device has {} sectors and its table {}; nothing was changed",
        found.name,
        size.unwrap_or(0),
        found.line.length
    );
    Ok(())
}

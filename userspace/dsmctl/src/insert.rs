// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl insert` and `dsmctl withdraw`: dsm and dm-linear, each in the place of the
//! other, under a file system that is in use.

use std::path::Path;
use std::slice::from_ref;

use anyhow::{bail, ensure, Context, Result};
use clap::Parser;
use rustix::io::Errno;

use crate::cli::{options, Args, Command, DryRun, Features, Insert};
use dm::devno::DevNo;
use dm::exchange::{self, Guard};
use dm::ioctl::{self, Dm, Id, Line};
use dm::journal::DeviceClaim;
use dm::lvm;
use dm::name;
use dm::reply::TableLine;
use dm::segments;
use dm::streams;
use dm::sysfs::Sysfs;
use proto::control::{Info, Request};

use crate::borrowed;
use crate::create::{block_device, would_be, Stamped};

pub(crate) fn insert(a: &Insert) -> Result<()> {
    let sysfs = Sysfs::default();
    let dm = Dm::open()?;
    let _guard = Guard::new()?;
    let found = FoundDevice::lock(&dm, &a.device, a.dry)?;
    let (name, old) = (found.name(), found.lines.as_slice());
    if matches!(old, [line] if line.target == "dsm") {
        eprintln!("dsmctl: note: {name} is on dsm already, and is left as it is");
        return found.forget();
    }
    if let Err(rule) = name::check(name) {
        bail!("{name}: a dsm device cannot have this name: {rule}; nothing was changed");
    }
    let on = old
        .iter()
        .map(|line| exchange::linear(name, line))
        .collect::<Result<Vec<_>>>()?;
    check_size(&sysfs, &found)?;
    let asked = features(name, &a.features, found.claim.record()?.withdrawn)?;
    // Of one line dsm takes the place; several become the table of a device below.
    let single = match (old, on.as_slice()) {
        ([line], &[on]) => Some((line, on)),
        _ => None,
    };
    let stamped = match single {
        Some((_, (below, _))) => Stamped::on(&sysfs, &dm, name, below, &asked)?,
        None => {
            alike(&sysfs, &dm, name, &on)?;
            // The disks below what is to be are those below the device.
            Stamped::on(&sysfs, &dm, name, found.info.dev, &asked)?
        }
    };
    let (on, start) = match single {
        Some((_, (below, start))) => (below.to_string(), start),
        None => (format!("{name}-dsm"), 0),
    };
    let params = format!("{on} {start}{}", stamped.words());
    let dsm = Line::dsm(exchange::sectors(old), params);
    if a.dry.on {
        return would_be(name, &[dsm], Some(&stamped));
    }
    let on = match single {
        Some((line, (below, start))) => {
            exchange::exchange(&dm, name, from_ref(line), &[dsm])?;
            format!("on {} from sector {start} on", sysfs.name(below))
        }
        None => {
            let lower = segments::insert(&dm, &found.info, &found.lines, &stamped.words())?;
            format!("on {}, which has its {} segments", lower.name, lower.lines.len())
        }
    };
    found.forget()?;
    stamped.tell(name);
    crate::print_text(&format!("{name}: replaced dm-linear with dsm, {on}\n"))
}

/// What is asked for: without a word that is what a dsm had which a command that was killed has
/// withdrawn.
fn features(name: &str, asked: &Features, withdrawn: Option<String>) -> Result<Features> {
    let Some(again) = withdrawn.filter(|_| asked.are_defaults()) else {
        return Ok(asked.clone());
    };
    match Args::try_parse_from(again.split(' ')).map(|args| args.command) {
        Ok(Command::Insert(a)) => {
            eprintln!("dsmctl: note: {name}: a command was killed that had withdrawn dsm, which gets the features that it had");
            Ok(a.features)
        }
        _ => bail!("{name}: the features of a dsm that a command had withdrawn when it was killed are not understood: {again}"),
    }
}

fn alike(sysfs: &Sysfs, dm: &Dm, name: &str, on: &[(DevNo, u64)]) -> Result<()> {
    let devices: Vec<DevNo> = on.iter().map(|(dev, _)| *dev).collect();
    if let Some(each) = streams::differing(sysfs, dm, &devices)? {
        bail!("{name}: its segments lie on devices that differ in write streams ({each}), and dsm could only use the smallest number; nothing was changed");
    }
    Ok(())
}

pub(crate) fn withdraw(device: &str, dry: DryRun) -> Result<()> {
    let dm = Dm::open()?;
    let _guard = Guard::new()?;
    let found = FoundDevice::lock(&dm, device, dry)?;
    let (name, old) = (found.name(), found.lines.as_slice());
    let lower = segments::below(&dm, &found.info, old)?;
    let dsm = match old {
        [line] if line.target == "dsm" => Some((line, before(&line.params, discards_are_by_agent(name))?)),
        _ => None,
    };
    let withdrawn = match &dsm {
        Some((_, table)) => Some(command(name, table)),
        None => found.claim.record()?.withdrawn,
    };
    let on_linear = match (&lower, &dsm) {
        (Some(lower), _) => lower.lines.clone(),
        (None, Some((line, table))) => vec![exchange::linear_line(line, table)],
        (None, None) => {
            let kinds = exchange::kinds(old);
            ensure!(
                kinds == "linear",
                "{name}: the device's target is {kinds}, not dsm; nothing was changed"
            );
            eprintln!("dsmctl: note: {name} is on dm-linear already, and is left as it is");
            if let Some(again) = &withdrawn {
                eprintln!("dsmctl: note: a command was killed; the way back to what it was before: {again}");
            }
            return found.forget();
        }
    };
    if dry.on {
        return would_be(name, &on_linear, None);
    }
    if dsm.is_some() {
        found.claim.change(|r| r.withdrawn.clone_from(&withdrawn))?;
    }
    let exchanged = match &lower {
        Some(lower) => segments::withdraw(&dm, name, old, lower).map(|gone| {
            if !gone {
                eprintln!(
                    "dsmctl: note: {}, which had the segments of {name}, is in use; the kernel removes it when it is not",
                    lower.name
                );
            }
        }),
        None => exchange::exchange(&dm, name, old, &on_linear),
    };
    if exchanged.is_err() && dsm.is_some() {
        found.forget()?;
    }
    exchanged?;
    let again = withdrawn.unwrap_or_else(|| format!("dsmctl insert {name}"));
    crate::print_text(&format!(
        "{name}: replaced dsm with dm-linear; the way back:\n{again}\n"
    ))?;
    found.forget()
}

/// Whether dsmd has switched discards on, which were off before it.
fn discards_are_by_agent(name: &str) -> bool {
    let answer = crate::ask_soon::<Info>(name, Request::Info).ok();
    let discard = answer.and_then(|info| info.discard);
    discard.is_some_and(|d| d.switched_on)
}

/// A table as it was without what dsmd has set.
fn before(dsm: &str, by_agent: bool) -> Result<TableLine> {
    let mut table: TableLine = dsm.parse()?;
    table
        .features
        .retain(|(name, _)| !(by_agent && name == "discard"));
    Ok(table)
}

/// The command that puts dsm back as it was.
fn command(name: &str, table: &TableLine) -> String {
    let mut words = vec![format!("dsmctl insert {name}")];
    words.extend(options(table));
    words.join(" ")
}

/// A device whose table can be exchanged, which LVM does not touch as long as this lives.
struct FoundDevice {
    info: ioctl::Info,
    lines: Vec<Line>,
    claim: DeviceClaim,
    dry: DryRun,
    _lock: Option<lvm::MetadataLock>,
}

impl FoundDevice {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn lock(dm: &Dm, device: &str, dry: DryRun) -> Result<Self> {
        let info = find(dm, device)?;
        let lock = lvm::is_volume(&info.uuid)
            .then(|| lvm::lock(&info.name))
            .transpose()?;
        let (claim, info, lines) = borrowed::take(dm, &info.name)?;
        Ok(Self {
            info,
            lines,
            claim,
            dry,
            _lock: lock,
        })
    }

    /// Its table is what somebody wants, whatever a command that was killed had begun.
    fn forget(&self) -> Result<()> {
        if self.dry.on {
            return Ok(());
        }
        self.claim.change(|r| r.withdrawn = None)
    }
}

/// The device of a name of device-mapper's, or of a path.
fn find(dm: &Dm, device: &str) -> Result<ioctl::Info> {
    let id = if device.contains('/') {
        Id::Dev(block_device(Path::new(device))?)
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
        (Err(e), _) => Err(e).with_context(|| format!("{device}: cannot query it")),
    }
}

/// A table that does not span the device is about to be exchanged.
fn check_size(sysfs: &Sysfs, found: &FoundDevice) -> Result<()> {
    let size: Option<u64> = sysfs.number(found.info.dev, "size");
    let sectors = exchange::sectors(&found.lines);
    ensure!(
        size.is_none_or(|s| s == sectors),
        "{}: the device has {} sectors and its table {sectors}; nothing was changed",
        found.name(),
        size.unwrap_or(0)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_what_was_there_before_dsmd() {
        let dsm = "259:0 2048 6 policy dsm discard on groups 3";
        let back = |by_agent| command("vg-db", &before(dsm, by_agent).unwrap());
        assert_eq!(
            back(false),
            "dsmctl insert vg-db --policy dsm --discard on --groups 3"
        );
        assert_eq!(back(true), "dsmctl insert vg-db --policy dsm --groups 3");
    }
}

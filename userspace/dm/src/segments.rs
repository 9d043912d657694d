// SPDX-License-Identifier: GPL-2.0-or-later
//! A volume of several lines of dm-linear, as `lvextend` makes them.
//!
//! A table has one map of files, so that the target is on one device: the lines become the
//! table of a device of their own, and dsm on that is the volume's table.
//!
//! ```text
//! vg-db        0 300 dsm 253:9 0 ...
//! vg-db-dsm    0 200 linear 259:0 2048
//!              200 100 linear 259:0 90000
//! ```
//!
//! The underlying device is nobody else's: udev makes neither links nor mounts of it, and the
//! kernel removes it when the volume does not hold it any more (a deferred removal),
//! whoever has exchanged or removed the volume's table: LVM does not know of it.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context, Result};
use rustix::io::Errno;

use crate::devno::DevNo;
use crate::exchange::{self, Tables};
use crate::ioctl::{Dm, DmError, Id, Info, Line, LONGEST_NAME, LONGEST_UUID};
use crate::reply::TableLine;

const SUFFIX: &str = "-dsm";
/// Of the UUID, before the volume's own.  Not that of dsm devices, for which udev has rules.
const PREFIX: &str = "DSMSEG-";
/// udev's probes keep a device open for a moment.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 50 });

/// What this needs of device-mapper, beside the exchange.
pub trait Devices: Tables {
    fn at(&self, dev: DevNo) -> Result<(Info, Vec<Line>), DmError>;
    fn create(&self, name: &str, uuid: &str) -> Result<(), DmError>;
    /// Starts it, hidden from udev's rules.
    fn start(&self, name: &str) -> Result<Info, DmError>;
    /// As soon as nobody has it open.
    fn remove_deferred(&self, name: &str) -> Result<(), DmError>;
}

impl Devices for Dm {
    fn at(&self, dev: DevNo) -> Result<(Info, Vec<Line>), DmError> {
        self.table(Id::Dev(dev))
    }

    fn create(&self, name: &str, uuid: &str) -> Result<(), DmError> {
        self.create_as(name, uuid).map(|_| ())
    }

    fn start(&self, name: &str) -> Result<Info, DmError> {
        self.resume_hidden(name)
    }

    fn remove_deferred(&self, name: &str) -> Result<(), DmError> {
        Self::remove_deferred(self, name)
    }
}

/// The underlying device of a volume, which has its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lower {
    pub name: String,
    pub dev: DevNo,
    pub lines: Vec<Line>,
}

fn uuid_of(volume: &Info) -> String {
    match volume.uuid.as_str() {
        "" => format!("{PREFIX}{}", volume.name),
        uuid => format!("{PREFIX}{uuid}"),
    }
}

fn is_gone(e: &DmError) -> bool {
    e.errno() == Some(Errno::NXIO)
}

/// Whether it is gone; otherwise the kernel removes it when who holds it lets it go.
fn remove(devices: &dyn Devices, name: &str) -> bool {
    for n in 0..TRIES {
        if n > 0 {
            sleep(PAUSE);
        }
        match devices.remove_deferred(name).and_then(|()| devices.table(name)) {
            Err(e) if is_gone(&e) => return true,
            _ => {}
        }
    }
    false
}

/// Puts dsm, with these words behind its device, in the place of all of a volume's lines.
pub fn insert(devices: &dyn Devices, volume: &Info, old: &[Line], words: &str) -> Result<Lower> {
    let lower = make(devices, volume, old)?;
    let dsm = Line::dsm(exchange::sectors(old), format!("{} 0{words}", lower.dev));
    // Once the new table holds it.
    let loaded = || -> Result<()> {
        devices
            .remove_deferred(&lower.name)
            .with_context(|| format!("{}: cannot be removed later; nothing was changed", lower.name))
    };
    let done = exchange::exchange_with(devices, &volume.name, old, &[dsm], &loaded);
    if done.is_err() {
        // The reason is in the error.
        remove(devices, &lower.name);
    }
    done.map(|()| lower)
}

fn make(devices: &dyn Devices, volume: &Info, lines: &[Line]) -> Result<Lower> {
    let of = &volume.name;
    let (name, uuid) = (format!("{of}{SUFFIX}"), uuid_of(volume));
    ensure!(
        name.len() <= LONGEST_NAME && uuid.len() <= LONGEST_UUID,
        "{of}: its name or UUID is too long for those of a device {name} that is to have its {} segments; nothing was changed",
        lines.len()
    );
    clear(devices, of, &name, &uuid)?;
    match devices.create(&name, &uuid) {
        Ok(()) => {}
        Err(e) if e.errno() == Some(Errno::BUSY) => {
            bail!("{of}: there is a device {name}, or one of the UUID {uuid}, already; nothing was changed")
        }
        Err(e) => return Err(e).with_context(|| format!("{of}: cannot make the device {name}")),
    }
    let start = || -> Result<Info> {
        exchange::load(devices, &name, lines)?;
        devices
            .start(&name)
            .with_context(|| format!("{of}: cannot start the device {name}"))
    };
    match start() {
        Ok(info) => Ok(Lower {
            name,
            dev: info.dev,
            lines: lines.to_vec(),
        }),
        Err(e) => {
            remove(devices, &name);
            Err(e)
        }
    }
}

/// Removes what an insert has left that was killed before the volume held it.
fn clear(devices: &dyn Devices, of: &str, name: &str, uuid: &str) -> Result<()> {
    let mut tries = 0;
    loop {
        let info = match devices.table(name) {
            Ok((info, _)) => info,
            Err(e) if is_gone(&e) => return Ok(()),
            Err(e) => return Err(e).with_context(|| format!("{name}: cannot query it")),
        };
        ensure!(
            info.uuid == uuid,
            "{of}: its segments need a device {name}, and there is another one of this name; nothing was changed"
        );
        tries += 1;
        if info.open_count == 0 && remove(devices, name) {
            return Ok(());
        }
        ensure!(
            tries < TRIES,
            "{of}: its segments need a device {name}, and the one that is there is in use; nothing was changed"
        );
        sleep(PAUSE);
    }
}

/// Removes the device for a volume's segments, where an insert that was killed has left it.
pub fn sweep(devices: &dyn Devices, volume: &Info) -> Result<()> {
    let name = format!("{}{SUFFIX}", volume.name);
    match devices.table(&name) {
        Ok((info, _)) if info.open_count == 0 && info.uuid == uuid_of(volume) => {
            remove(devices, &name);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(e) if is_gone(&e) || matches!(e, DmError::Name(_)) => Ok(()),
        Err(e) => Err(e).with_context(|| format!("{name}: cannot query it")),
    }
}

/// The underlying device that has a volume's lines, where the volume's table is one line on that.
pub fn below(devices: &dyn Devices, volume: &Info, lines: &[Line]) -> Result<Option<Lower>> {
    let [line] = lines else { return Ok(None) };
    let Some((dev, _)) = leads_to(line)? else {
        return Ok(None);
    };
    let (info, lines) = match devices.at(dev) {
        Ok(found) => found,
        Err(e) if is_gone(&e) => return Ok(None),
        Err(e) => return Err(e).with_context(|| format!("{dev}: cannot read its table")),
    };
    if info.uuid != uuid_of(volume) {
        return Ok(None);
    }
    exchange::free(&info.name, &info, &lines)?;
    Ok(Some(Lower {
        name: info.name,
        dev,
        lines,
    }))
}

/// Puts the lines of the underlying device, on all of which `old` lies, in its place.  Whether
/// the underlying device is gone.
pub fn withdraw(devices: &dyn Devices, name: &str, old: &[Line], lower: &Lower) -> Result<bool> {
    let (on, lines) = (&lower.name, lower.lines.as_slice());
    for line in lines {
        exchange::linear(on, line)?;
    }
    let from = old.first().map(leads_to).transpose()?.flatten();
    ensure!(
        from.is_some_and(|(_, start)| start == 0) && exchange::sectors(lines) == exchange::sectors(old),
        "{name}: it is not on all of {on}, which has its segments; nothing was changed"
    );
    let loaded = || -> Result<()> {
        let (info, now) = devices
            .table(on)
            .with_context(|| format!("{on}: cannot read its table"))?;
        ensure!(
            now == lines && !info.inactive,
            "{on}: somebody else changed the device's table at the same moment; nothing was changed by this"
        );
        Ok(())
    };
    exchange::exchange_with(devices, name, old, lines, &loaded)?;
    Ok(remove(devices, on))
}

/// Takes away a table that is loaded and not active, if dsm and dm-linear on the very same
/// sectors are the one and the other, or the same dsm made longer: so leaves it who was killed
/// while it exchanged them.  Whether there was one.
pub fn undo(devices: &dyn Devices, volume: &Info, active: &[Line]) -> Result<bool> {
    let name = &volume.name;
    if !volume.inactive || volume.suspended {
        return Ok(false);
    }
    let loaded = devices
        .loaded(name)
        .with_context(|| format!("{name}: cannot read the table that is loaded"))?;
    let is_dsm = |lines: &[Line]| matches!(lines, [line] if line.target == "dsm");
    let ours = match is_dsm(active) == is_dsm(&loaded) {
        true => is_longer(active, &loaded),
        false => {
            let places = bottom(devices, volume, active)?;
            places.is_some() && places == bottom(devices, volume, &loaded)?
        }
    };
    if !ours {
        return Ok(false);
    }
    devices
        .clear(name)
        .with_context(|| format!("{name}: cannot take away the table that is loaded"))?;
    Ok(true)
}

/// Whether the second table is the line of dsm that the first one is, but for its length.
fn is_longer(active: &[Line], loaded: &[Line]) -> bool {
    let ([a], [b]) = (active, loaded) else {
        return false;
    };
    let same = (a.start, &a.target, &a.params) == (b.start, &b.target, &b.params);
    same && a.target == "dsm" && a.length < b.length
}

/// Where each piece of a volume lies, below dsm and the device that has its segments: first
/// sector, length, device, sector of it.  Nothing where something else is in between.
fn bottom(devices: &dyn Devices, volume: &Info, lines: &[Line]) -> Result<Option<Vec<Place>>> {
    let place = |line: &Line| -> Result<Option<Place>> {
        Ok(leads_to(line)?.map(|(dev, at)| (line.start, line.length, dev, at)))
    };
    let places = |lines: &[Line]| lines.iter().map(place).collect::<Result<Option<Vec<_>>>>();
    let places_here = places(lines)?;
    let Some([(0, length, dev, 0)]) = places_here.as_deref() else {
        return Ok(places_here);
    };
    match devices.at(*dev) {
        Ok((info, lower)) if info.uuid == uuid_of(volume) => {
            let whole = exchange::sectors(&lower) == *length;
            Ok(places(&lower)?.filter(|_| whole))
        }
        // A disk, or another device.
        Ok(_) => Ok(places_here),
        Err(e) if is_gone(&e) => Ok(places_here),
        Err(e) => Err(e).with_context(|| format!("{dev}: cannot read its table")),
    }
}

type Place = (u64, u64, DevNo, u64);

/// Device and sector that a line of dsm or dm-linear leads to.
fn leads_to(line: &Line) -> Result<Option<(DevNo, u64)>> {
    if line.target != "dsm" {
        return Ok(line.linear());
    }
    let table: TableLine = line.params.parse()?;
    let dev = table
        .below
        .parse()
        .map_err(|()| anyhow!("{}: it is not a device number", table.below))?;
    Ok(Some((dev, table.start)))
}

#[cfg(test)]
mod tests;

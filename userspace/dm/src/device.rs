// SPDX-License-Identifier: GPL-2.0-or-later
//! A `dsm` target as the rest of the programs sees it.

use std::os::fd::BorrowedFd;

use anyhow::{bail, Context, Result};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::devno::DevNo;
use crate::ioctl::{Dm, DmError, Id, Info, Line};
use crate::reply::{self, Checkpoint, ParseError, Region, Status, TableLine, Window};
use crate::sysfs::Sysfs;

/// Files a `regions` reply covers.
const PAGE: u32 = 100;

#[derive(Debug, Error)]
pub enum MessageError {
    /// The kernel's reason.
    #[error("{0}")]
    Refused(String),
    /// The same, because somebody else uploads a table, or has.
    #[error("{0}")]
    Stale(String),
    #[error("the device is gone")]
    Gone,
    #[error("the device's length changed from {0} to {1} sectors")]
    Resized(u64, u64),
    #[error("the device's table was exchanged: its target is {0} now, not dsm")]
    Exchanged(String),
    #[error("{0}")]
    Dm(DmError),
    #[error(transparent)]
    Reply(#[from] ParseError),
}

/// What can be done with a target.  The agent knows only this, so that it can
/// be tested with a kernel in memory.
pub trait Target {
    /// Length of the target.
    fn sectors(&self) -> u64;
    fn message(&self, text: &str) -> Result<String, MessageError>;
    fn status(&self) -> Result<Status, MessageError>;

    /// What becomes readable with an event of the target after this, such as that its queue
    /// of discards is empty; also with events of others.  Nothing: there are none.
    fn events(&self) -> Result<Option<BorrowedFd<'_>>, MessageError> {
        Ok(None)
    }

    fn checkpoint(&self) -> Result<Checkpoint, MessageError> {
        Ok(reply::named("checkpoint", &self.message("checkpoint")?)?)
    }

    /// Begins a write window, and returns its number.
    fn window(&self) -> Result<u64, MessageError> {
        let Window { window } = reply::named("window", &self.message("window")?)?;
        Ok(window)
    }

    /// Of the table, as an update names it.
    fn generation(&self) -> Result<u64, MessageError> {
        Ok(self.status()?.generation)
    }

    /// Every region, in the order of their ids.
    fn regions(&self) -> Result<Vec<Region>, MessageError> {
        let mut all: Vec<Region> = Vec::new();
        loop {
            let text = match all.last() {
                Some(r) => format!("regions {} {PAGE}", r.id),
                // Without a number to start after: 0 is an id, too.
                None => "regions".to_owned(),
            };
            let before = all.len();
            for line in self.message(&text)?.lines().filter(|l| !l.is_empty()) {
                all.push(line.parse()?);
            }
            if all.len() == before {
                return Ok(all);
            }
        }
    }
}

/// The line of a table that is dsm's alone.
fn only_dsm<'a>(name: &str, lines: &'a [Line]) -> Result<&'a Line> {
    match lines {
        [line] if line.target == "dsm" => Ok(line),
        [] => bail!("{name}: the device has no table"),
        // A volume that was on dsm, or may be.
        lines if lines.iter().all(|l| l.linear().is_some()) => bail!(
            "{name}: the device's target is linear, not dsm; `dsmctl insert {name}` puts dsm in its place"
        ),
        [line] => bail!("{name}: the device's target is {}, not dsm", line.target),
        _ => bail!("{name}: the device's table has several lines, one of dsm is needed"),
    }
}

/// What a device is, which another is not that has its name or its number later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    uuid: String,
    devno: DevNo,
    /// No two disks of a boot have the same; kernels before 5.15 have none.
    diskseq: Option<u64>,
}

impl Identity {
    pub(crate) fn of(sysfs: &Sysfs, info: &Info) -> Self {
        Self {
            uuid: info.uuid.clone(),
            devno: info.dev,
            diskseq: diskseq(sysfs, info.dev),
        }
    }

    /// Asked before a call: the number may be another's by now.
    fn has_number(&self, sysfs: &Sysfs) -> Result<(), MessageError> {
        let has = diskseq(sysfs, self.devno) == self.diskseq;
        has.then_some(()).ok_or(MessageError::Gone)
    }

    /// Whether a reply is this device's.
    fn has_answered(&self, info: &Info) -> Result<(), MessageError> {
        let has = info.dev == self.devno && info.uuid == self.uuid;
        has.then_some(()).ok_or(MessageError::Gone)
    }
}

fn diskseq(sysfs: &Sysfs, dev: DevNo) -> Option<u64> {
    sysfs.number(dev, "diskseq")
}

#[derive(Debug, Error)]
#[error("{0}: there is no device-mapper device of this name")]
pub struct NoDevice(String);

/// A `dsm` device of this machine.  The name is what it was found by: what is sent goes to the
/// device itself, whatever has the name by then.
pub struct Device {
    dm: Dm,
    sysfs: Sysfs,
    identity: Identity,
    pub name: String,
    pub devno: DevNo,
    pub sectors: u64,
}

impl Device {
    pub fn open(name: &str) -> Result<Self> {
        let dm = Dm::open()?;
        let (info, lines) = match dm.table(Id::Name(name)) {
            Ok(found) => found,
            Err(e) if e.errno() == Some(Errno::NXIO) => return Err(NoDevice(name.to_owned()).into()),
            Err(e) => return Err(e).with_context(|| format!("{name}: cannot read its table")),
        };
        let sectors = only_dsm(&info.name, &lines)?.length;
        let sysfs = Sysfs::default();
        Ok(Self {
            dm,
            identity: Identity::of(&sysfs, &info),
            sysfs,
            name: info.name,
            devno: info.dev,
            sectors,
        })
    }

    /// The names of all devices whose table is one line of `dsm`.
    pub fn all() -> Result<Vec<String>> {
        let dm = Dm::open()?;
        let mut names: Vec<String> = dm
            .list()
            .context("cannot list the device-mapper devices")?
            .into_iter()
            // A device that went away meanwhile is none.
            .filter(|(_, dev)| {
                dm.table(Id::Dev(*dev))
                    .is_ok_and(|(_, lines)| matches!(lines.as_slice(), [l] if l.target == "dsm"))
            })
            .map(|(name, _)| name)
            .collect();
        names.sort();
        Ok(names)
    }

    fn id(&self) -> Id<'static> {
        Id::Dev(self.devno)
    }

    pub fn table_line(&self) -> Result<TableLine> {
        self.identity.has_number(&self.sysfs)?;
        let (info, lines) = self.dm.table(self.id())?;
        self.identity.has_answered(&info)?;
        let line = lines.first().context("the device has no table")?;
        Ok(line.params.parse()?)
    }

    /// Another target than dsm, if the device has one by now.
    fn exchanged(&self) -> Option<MessageError> {
        let (_, lines) = self.dm.table(self.id()).ok()?;
        let other = lines.into_iter().find(|l| l.target != "dsm")?;
        Some(MessageError::Exchanged(other.target))
    }

    fn error(&self, text: &str, e: DmError) -> MessageError {
        match e.errno() {
            Some(Errno::NXIO) => MessageError::Gone,
            Some(errno) => {
                if let Some(other) = self.exchanged() {
                    return other;
                }
                let verb = text.split(' ').next().unwrap_or_default();
                let refused = if errno == Errno::STALE {
                    MessageError::Stale
                } else {
                    MessageError::Refused
                };
                let reason = match self.dm.message(self.id(), "error") {
                    Ok((_, s)) if !s.trim().is_empty() => s.trim().to_owned(),
                    _ => format!("the kernel refused the message '{verb}': {errno}"),
                };
                refused(reason)
            }
            None => MessageError::Dm(e),
        }
    }
}

impl Target for Device {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn message(&self, text: &str) -> Result<String, MessageError> {
        self.identity.has_number(&self.sysfs)?;
        let (info, reply) = self
            .dm
            .message(self.id(), text)
            .map_err(|e| self.error(text, e))?;
        self.identity.has_answered(&info)?;
        Ok(reply)
    }

    fn status(&self) -> Result<Status, MessageError> {
        self.identity.has_number(&self.sysfs)?;
        let (info, lines) = self.dm.status(self.id()).map_err(|e| match e.errno() {
            Some(Errno::NXIO) => MessageError::Gone,
            _ => MessageError::Dm(e),
        })?;
        self.identity.has_answered(&info)?;
        // The table was taken away under us.
        let line = lines.first().ok_or(MessageError::Gone)?;
        if line.target != "dsm" {
            return Err(MessageError::Exchanged(line.target.clone()));
        }
        if line.length != self.sectors {
            return Err(MessageError::Resized(self.sectors, line.length));
        }
        Ok(line.params.parse()?)
    }

    fn events(&self) -> Result<Option<BorrowedFd<'_>>, MessageError> {
        self.dm.arm_poll().map_err(MessageError::Dm)?;
        Ok(Some(self.dm.control()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::sysfs::Tree;

    /// As after `dmsetup rename` of two devices, each to the other's name, and when one was
    /// removed and another has got its number.
    #[test]
    fn another_device_is_not_taken_for_it() {
        let tree = Tree::make();
        let sysfs = Sysfs::at(tree.block());
        tree.add("253:0", "dm-0");
        tree.set("253:0", "diskseq", "7");
        let info = |name: &str, uuid: &str, dev: &str| Info {
            name: name.into(),
            uuid: uuid.into(),
            dev: dev.parse().unwrap(),
            open_count: 0,
            active: true,
            inactive: false,
            suspended: false,
            read_only: false,
        };
        let device = Identity::of(&sysfs, &info("a", "DSM-a", "253:0"));
        let is_gone = |r| matches!(r, Err(MessageError::Gone));
        assert!(device.has_number(&sysfs).is_ok());
        for renamed in ["a", "b"] {
            assert!(device.has_answered(&info(renamed, "DSM-a", "253:0")).is_ok());
        }
        assert!(is_gone(device.has_answered(&info("a", "DSM-b", "253:0"))));
        assert!(is_gone(device.has_answered(&info("a", "DSM-a", "253:1"))));
        tree.set("253:0", "diskseq", "8");
        assert!(is_gone(device.has_number(&sysfs)), "its number is another's");
        std::fs::remove_dir_all(tree.block()).unwrap();
        assert!(is_gone(device.has_number(&sysfs)), "it was removed");
    }

    #[test]
    fn the_way_back_is_said_of_linear_devices() {
        let line = |target: &str, params: &str| Line {
            start: 0,
            length: 8,
            target: target.into(),
            params: params.into(),
        };
        let linear = || line("linear", "259:0 2048");
        let dsm = line("dsm", "259:0 0");
        assert_eq!(only_dsm("d", std::slice::from_ref(&dsm)).unwrap(), &dsm);
        let back = "d: the device's target is linear, not dsm; `dsmctl insert d` puts dsm in its place";
        for (lines, wanted) in [
            (vec![], "d: the device has no table"),
            (vec![linear()], back),
            (vec![linear(), linear()], back),
            (
                vec![line("striped", "")],
                "d: the device's target is striped, not dsm",
            ),
            (
                vec![linear(), dsm],
                "d: the device's table has several lines, one of dsm is needed",
            ),
        ] {
            assert_eq!(only_dsm("d", &lines).unwrap_err().to_string(), wanted);
        }
    }
}

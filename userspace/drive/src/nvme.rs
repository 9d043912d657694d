// SPDX-License-Identifier: GPL-2.0-or-later
//! What an NVMe namespace with Flexible Data Placement says: of its placement
//! handles, by the command I/O Management Receive, and of the bytes that its
//! endurance group has written, by a log page.
//!
//! By hand: libnvme is C, and this is three commands.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use serde::Serialize;

use crate::deallocate::{self, Deallocate};
use dm::bytes;

/// Commands of the two kinds of queues, and the numbers of their ioctls.
const IO: u8 = 0x43;
const IO_MANAGEMENT_RECEIVE: u8 = 0x12;
const ADMIN: u8 = 0x41;
const GET_LOG_PAGE: u8 = 0x02;
const ALL_NAMESPACES: u32 = u32::MAX;
const IDENTIFY: u8 = 0x06;
const GET_FEATURES: u8 = 0x0a;
/// The feature "error recovery", and its bit DULBE.
const ERROR_RECOVERY: u32 = 0x05;
const DULBE: u32 = 1 << 16;
/// The management operation "reclaim unit handle status".
const RUH_STATUS: u32 = 1;
const HEADER: usize = 16;
const DESCRIPTOR: usize = 32;
/// The data of Identify, and where the endurance group's number is in it.
const IDENTIFY_SIZE: usize = 4096;
const ENDGID: usize = 102;
const NAMESPACE: u32 = 0;
/// Identify Controller; its attributes, and the one that says FDP is supported (FDPS).
const CONTROLLER: u32 = 1;
const CTRATT: usize = 96;
const FDPS: u32 = 1 << 19;
/// The feature "Flexible Data Placement", and its bit FDPE.
const FDP: u32 = 0x1d;
const FDPE: u32 = 1;
/// The log page "FDP configurations": its header, the fixed part of a descriptor, where
/// the number of handles and the nominal size of a reclaim unit are in it, and what follows
/// for each handle: its type.
const FDP_CONFIGURATIONS: u32 = 0x20;
const CONFIGURATIONS_HEADER: usize = 16;
const CONFIGURATION: usize = 64;
const NRUH: usize = 8;
const RUNS: usize = 16;
const RUH: usize = 4;
const INITIALLY_ISOLATED: u8 = 1;
/// The log page "Endurance Group Information", as far as where its capacities are.
const ENDURANCE_GROUP: u32 = 0x09;
const ENDURANCE_GROUP_SIZE: usize = 512;
const TEGCAP: usize = 160;
const UEGCAP: usize = 176;
/// A longer page is cut.
const LONGEST_LOG: usize = 64 << 10;
/// A log page of an endurance group.
pub const FDP_STATISTICS: u32 = 0x22;
/// A write stream is a number of one byte.
const MOST: usize = 256;
/// Statuses of a namespace that has no handles.
const INVALID_OPCODE: i32 = 0x1;
const INVALID_FIELD: i32 = 0x2;
const FDP_DISABLED: i32 = 0x29;
const INVALID_LOG_PAGE: i32 = 0x109;
/// Type and code of a status.
const STATUS: i32 = 0x7ff;
const TIMEOUT_MS: u32 = 5000;

/// A placement identifier.  Write stream n is the n-th of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The reclaim unit handle behind it.
    pub ruh: u16,
    /// RUAMW: logical blocks that its reclaim unit can still take.
    pub left: u64,
}

/// Flexible Data Placement, as a controller and the namespace's endurance group have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The controller can do it.
    pub supported: bool,
    pub enabled: bool,
    /// The endurance group; 0: none.
    pub group: u16,
    /// The nominal size of a reclaim unit in bytes, while it is enabled.
    pub reclaim_unit: Option<u64>,
    /// Of the configuration's handles, while it is enabled.
    pub isolated: Option<Isolated>,
}

/// How long a reclaim unit has data of one handle only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolated {
    /// Until it is collected: what is copied may be put together with that of others.
    Initially,
    /// Always, of one handle at least.
    Persistently,
}

/// Of an endurance group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// What namespaces can be made of, and have been.
    pub total: u64,
    /// What no namespace has.
    pub unallocated: u64,
}

/// `struct nvme_passthru_cmd`
#[repr(C)]
#[derive(Default)]
struct Passthru {
    opcode: u8,
    flags: u8,
    rsvd1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// A read of `data`, whose address is in the command.
struct Receive<'a> {
    queue: u8,
    command: &'a mut Passthru,
    data: &'a mut [u8],
}

// SAFETY: NVME_IOCTL_IO_CMD and NVME_IOCTL_ADMIN_CMD take a struct
// nvme_passthru_cmd; `as_ptr` has it point to the whole of `data`, which is
// borrowed for the length of the call.
unsafe impl Ioctl for Receive<'_> {
    /// 0, or the status that the controller gave.
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        rustix::ioctl::opcode::read_write::<Passthru>(b'N', self.queue)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.command.addr = self.data.as_mut_ptr() as u64;
        self.command.data_len = self.data.len() as u32;
        (&raw mut *self.command).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

/// The number of the namespace behind a node.
struct NamespaceId;

// SAFETY: NVME_IOCTL_ID takes no argument and returns the number.
unsafe impl Ioctl for NamespaceId {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        rustix::ioctl::opcode::none(b'N', 0x40)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        Ok(out as u32)
    }
}

pub struct Namespace {
    file: File,
    id: u32,
}

impl Namespace {
    /// `None`: the node is not that of an NVMe namespace.
    pub fn open(node: &Path) -> io::Result<Option<Self>> {
        let file = File::open(node)?;
        // SAFETY: see `NamespaceId`; other drivers refuse the number.
        match unsafe { rustix::ioctl::ioctl(&file, NamespaceId) } {
            Ok(id) => Ok(Some(Self { file, id })),
            Err(Errno::NOTTY | Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// The placement identifiers in the order of the streams.  `None`: the
    /// namespace has none.
    pub fn handles(&self) -> io::Result<Option<Vec<Handle>>> {
        // A controller may refuse room for more than it has.
        let mut data = vec![0u8; HEADER];
        if !self.ruh_status(&mut data)? {
            return Ok(None);
        }
        data.resize(HEADER + count(&data).min(MOST) * DESCRIPTOR, 0);
        if !self.ruh_status(&mut data)? {
            return Ok(None);
        }
        Ok(Some(handles(&data)).filter(|h| !h.is_empty()))
    }

    /// Whether the drive can place data, and does.
    pub fn placement(&self) -> io::Result<Placement> {
        let known = self.identify(0, CONTROLLER)?;
        let attributes = known.map_or(0, |data| u32::from_le_bytes(field(&data, CTRATT)));
        let mut found = Placement {
            supported: attributes & FDPS != 0,
            group: self.group()?,
            ..Placement::default()
        };
        if !found.supported || found.group == 0 {
            return Ok(found);
        }
        let said = self.feature(0, FDP, found.group.into())?;
        if let Some(said) = said.filter(|said| said & FDPE != 0) {
            found.enabled = true;
            let page = self.configurations(found.group)?;
            let read = page.and_then(|data| configuration(&data, (said >> 8) & 0xff));
            (found.reclaim_unit, found.isolated) = read.unwrap_or_default();
        }
        Ok(found)
    }

    /// `None`: the endurance group does not report.
    pub fn capacity(&self, group: u16) -> io::Result<Option<Capacity>> {
        let mut data = vec![0u8; ENDURANCE_GROUP_SIZE];
        let known = group != 0 && self.log_of(0, group, ENDURANCE_GROUP, &mut data)?;
        Ok(known.then(|| capacity(&data)).flatten())
    }

    /// The log page of that name.
    fn configurations(&self, group: u16) -> io::Result<Option<Vec<u8>>> {
        let mut data = vec![0u8; CONFIGURATIONS_HEADER];
        if !self.log_of(0, group, FDP_CONFIGURATIONS, &mut data)? {
            return Ok(None);
        }
        let size = u32::from_le_bytes(field(&data, 4)) as usize;
        let size = size.clamp(CONFIGURATIONS_HEADER, LONGEST_LOG);
        data.resize(size.next_multiple_of(4), 0);
        let known = self.log_of(0, group, FDP_CONFIGURATIONS, &mut data)?;
        Ok(known.then_some(data))
    }

    /// The endurance group of the namespace; 0: none.
    fn group(&self) -> io::Result<u16> {
        let known = self.identify(self.id, NAMESPACE)?;
        Ok(known.map_or(0, |data| u16::from_le_bytes(field(&data, ENDGID))))
    }

    /// What the namespace says of discards, as it is now.  `None`: it does not.
    pub fn deallocate(&self) -> io::Result<Option<Deallocate>> {
        let known = self.identify(self.id, NAMESPACE)?;
        Ok(known.and_then(|data| deallocate::parse(&data)))
    }

    fn identify(&self, nsid: u32, what: u32) -> io::Result<Option<Vec<u8>>> {
        let mut data = vec![0u8; IDENTIFY_SIZE];
        let identify = Passthru {
            opcode: IDENTIFY,
            nsid,
            cdw10: what,
            ..Passthru::default()
        };
        let known = self.send(ADMIN, identify, &mut data)?;
        Ok(known.map(|_| data))
    }

    fn feature(&self, nsid: u32, feature: u32, cdw11: u32) -> io::Result<Option<u32>> {
        let get = Passthru {
            opcode: GET_FEATURES,
            nsid,
            cdw10: feature,
            cdw11,
            ..Passthru::default()
        };
        self.send(ADMIN, get, &mut [])
    }

    /// Reads a log page, of an endurance group or with 0 of none, as long as `data` is.
    fn log_of(&self, nsid: u32, group: u16, page: u32, data: &mut [u8]) -> io::Result<bool> {
        let log = Passthru {
            opcode: GET_LOG_PAGE,
            nsid,
            cdw10: page | (dwords(data) << 16),
            cdw11: u32::from(group) << 16,
            ..Passthru::default()
        };
        Ok(self.send(ADMIN, log, data)?.is_some())
    }

    /// Reads a log page of the controller, or of the namespace's endurance group, as long as
    /// `data` is.
    pub(crate) fn log(&self, page: u32, data: &mut [u8]) -> io::Result<bool> {
        if page == FDP_STATISTICS {
            let group = self.group()?;
            return Ok(group != 0 && self.log_of(0, group, page, data)?);
        }
        self.log_of(ALL_NAMESPACES, 0, page, data)
    }

    /// Whether reads of deallocated blocks are to fail (DULBE).
    pub fn deallocated_reads_fail(&self) -> io::Result<bool> {
        let said = self.feature(self.id, ERROR_RECOVERY, 0)?;
        Ok(said.is_some_and(|said| said & DULBE != 0))
    }

    fn ruh_status(&self, data: &mut [u8]) -> io::Result<bool> {
        let command = Passthru {
            opcode: IO_MANAGEMENT_RECEIVE,
            nsid: self.id,
            cdw10: RUH_STATUS,
            cdw11: dwords(data),
            ..Passthru::default()
        };
        Ok(self.send(IO, command, data)?.is_some())
    }

    /// The command's result.  `None`: the controller does not know it.
    fn send(&self, queue: u8, mut command: Passthru, data: &mut [u8]) -> io::Result<Option<u32>> {
        command.timeout_ms = TIMEOUT_MS;
        let receive = Receive {
            queue,
            command: &mut command,
            data,
        };
        // SAFETY: see `Receive`; `open` has found the driver to be NVMe's.
        let status = unsafe { rustix::ioctl::ioctl(&self.file, receive) }?;
        match status & STATUS {
            0 => Ok(Some(command.result)),
            INVALID_OPCODE | INVALID_FIELD | FDP_DISABLED | INVALID_LOG_PAGE => Ok(None),
            _ => Err(io::Error::other(format!(
                "the controller answers with status {status:#x}"
            ))),
        }
    }
}

/// A field of a reply, whose length was asked for.
fn field<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    bytes::at(data, at).expect("the reply has its length")
}

/// The length in dwords, from 0.
fn dwords(data: &[u8]) -> u32 {
    (data.len() / 4 - 1) as u32
}

/// Size of a reclaim unit and kind of handles of a configuration in the log page, whose
/// descriptors say how long they are.
fn configuration(data: &[u8], index: u32) -> Option<(Option<u64>, Option<Isolated>)> {
    let mut at = CONFIGURATIONS_HEADER;
    for _ in 0..index {
        let size = u16::from_le_bytes(bytes::at(data, at)?);
        at += usize::from(size).max(CONFIGURATION);
    }
    let unit = u64::from_le_bytes(bytes::at(data, at + RUNS)?);
    let handles = u16::from_le_bytes(bytes::at(data, at + NRUH)?);
    let mut kinds = (0..handles.into()).map(|n: usize| data.get(at + CONFIGURATION + n * RUH));
    let isolated = match kinds.all(|kind| kind == Some(&INITIALLY_ISOLATED)) {
        true => Isolated::Initially,
        false => Isolated::Persistently,
    };
    Some(((unit > 0).then_some(unit), (handles > 0).then_some(isolated)))
}

/// Zero is not reported.
fn capacity(data: &[u8]) -> Option<Capacity> {
    let at = |n: usize| u64::try_from(u128::from_le_bytes(field(data, n))).unwrap_or(u64::MAX);
    let found = Capacity {
        total: at(TEGCAP),
        unallocated: at(UEGCAP),
    };
    (found.total > 0).then_some(found)
}

/// How many descriptors there are.
fn count(header: &[u8]) -> usize {
    u16::from_le_bytes(field(header, 14)).into()
}

/// `struct nvme_fdp_ruh_status`
fn handles(data: &[u8]) -> Vec<Handle> {
    data[HEADER..]
        .chunks_exact(DESCRIPTOR)
        .take(count(data))
        .map(|d| Handle {
            ruh: u16::from_le_bytes(field(d, 2)),
            left: u64::from_le_bytes(field(d, 8)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_is_read() {
        assert_eq!(size_of::<Passthru>(), 72);
        let mut data = vec![0u8; HEADER + 3 * DESCRIPTOR];
        data[14] = 2;
        data[HEADER + 2] = 5;
        data[HEADER + 8..HEADER + 16].copy_from_slice(&0x1234_5678_9abc_u64.to_le_bytes());
        data[HEADER + DESCRIPTOR + 2] = 1;
        let handle = |ruh, left| Handle { ruh, left };
        assert_eq!(handles(&data), [handle(5, 0x1234_5678_9abc), handle(1, 0)]);
        // A count beyond the data.
        data[15] = 0xff;
        assert_eq!(handles(&data).len(), 3);
    }

    #[test]
    fn the_size_of_a_reclaim_unit() {
        let reclaim_unit = |data: &[u8], index| configuration(data, index).and_then(|c| c.0);
        // Two configurations: of 72 bytes, with two handles, and of 64.
        let mut data = vec![0u8; CONFIGURATIONS_HEADER + 72 + 64];
        data[16] = 72;
        data[16 + RUNS + 3] = 4;
        data[16 + 72] = 64;
        data[16 + 72 + RUNS + 2] = 0x60;
        assert_eq!(reclaim_unit(&data, 0), Some(64 << 20));
        assert_eq!(reclaim_unit(&data, 1), Some(6 << 20));
        assert_eq!(reclaim_unit(&data, 2), None, "beyond the page");
        data[16] = 0;
        assert_eq!(reclaim_unit(&data, 255), None);
        data[16 + RUNS + 3] = 0;
        assert_eq!(reclaim_unit(&data, 0), None, "not reported");
    }

    #[test]
    fn the_kind_of_handles() {
        let isolated = |data: &[u8], index| configuration(data, index).and_then(|c| c.1);
        let mut data = vec![0u8; CONFIGURATIONS_HEADER + 2 * 72];
        for at in [16, 16 + 72] {
            (data[at], data[at + NRUH], data[at + 64], data[at + 68]) = (72, 2, 1, 1);
        }
        let (initially, persistently) = (Some(Isolated::Initially), Some(Isolated::Persistently));
        assert_eq!([0, 1].map(|n| isolated(&data, n)), [initially; 2]);
        data[16 + 72 + 68] = 2;
        assert_eq!([0, 1].map(|n| isolated(&data, n)), [initially, persistently]);
        // Two handles beyond the page.
        data[16 + 72 + NRUH] = 4;
        data[16 + 72 + 68] = 1;
        assert_eq!(isolated(&data, 1), persistently);
        data[16 + NRUH] = 0;
        assert_eq!(isolated(&data, 0), None, "not reported");
    }

    #[test]
    fn the_capacity_of_an_endurance_group() {
        let mut data = vec![0u8; ENDURANCE_GROUP_SIZE];
        (data[UEGCAP + 5], data[32]) = (1, 7);
        assert_eq!(capacity(&data), None, "not reported");
        data[TEGCAP + 5] = 3;
        let (total, unallocated) = (3 << 40, 1 << 40);
        assert_eq!(capacity(&data), Some(Capacity { total, unallocated }));
        data[TEGCAP + 8] = 1;
        assert_eq!(capacity(&data).unwrap().total, u64::MAX);
    }

    #[test]
    fn other_files_are_no_namespaces() {
        assert!(Namespace::open(Path::new("/dev/null")).unwrap().is_none());
    }
}

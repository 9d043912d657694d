// SPDX-License-Identifier: GPL-2.0-or-later
//! The ioctls of `/dev/mapper/control`, as far as they are needed here.
//!
//! The `devicemapper` crate is not used: its releases for this compiler refuse
//! every call when no udevd runs, and it needs libclang to build.  Headers are
//! read and written as bytes at the offsets of `struct dm_ioctl`, so that the
//! only unsafe code is the system call.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use thiserror::Error;

use crate::bytes::{self, put};
use crate::devno::DevNo;
use crate::udev::{Shown, UdevCookie};

const CONTROL: &str = "/dev/mapper/control";

/// Offsets in `struct dm_ioctl`.
mod at {
    pub(super) const VERSION: usize = 0;
    pub(super) const DATA_SIZE: usize = 12;
    pub(super) const DATA_START: usize = 16;
    pub(super) const TARGET_COUNT: usize = 20;
    pub(super) const OPEN_COUNT: usize = 24;
    pub(super) const FLAGS: usize = 28;
    pub(super) const EVENT_NR: usize = 32;
    pub(super) const DEV: usize = 40;
    pub(super) const NAME: usize = 48;
    pub(super) const UUID: usize = 176;
}
const HEADER: usize = 312;
const NAME_LEN: usize = 128;
const UUID_LEN: usize = 129;
/// Bytes that a name and a UUID may have.
pub(crate) const LONGEST_NAME: usize = NAME_LEN - 1;
pub(crate) const LONGEST_UUID: usize = UUID_LEN - 1;
/// `struct dm_target_spec`: start, length, status, next, type.
const SPEC: usize = 40;
const TYPE_LEN: usize = 16;

#[derive(Clone, Copy)]
enum Cmd {
    ListDevices = 2,
    DevCreate = 3,
    DevRemove = 4,
    DevSuspend = 6,
    DevStatus = 7,
    TableLoad = 9,
    TableClear = 10,
    TableStatus = 12,
    ListVersions = 13,
    TargetMsg = 14,
    DevArmPoll = 16,
}

mod flag {
    pub(super) const READONLY: u32 = 1 << 0;
    pub(super) const SUSPEND: u32 = 1 << 1;
    pub(super) const STATUS_TABLE: u32 = 1 << 4;
    pub(super) const ACTIVE_PRESENT: u32 = 1 << 5;
    pub(super) const INACTIVE_PRESENT: u32 = 1 << 6;
    pub(super) const BUFFER_FULL: u32 = 1 << 8;
    pub(super) const NOFLUSH: u32 = 1 << 11;
    pub(super) const QUERY_INACTIVE: u32 = 1 << 12;
    pub(super) const UEVENT_GENERATED: u32 = 1 << 13;
    pub(super) const DATA_OUT: u32 = 1 << 16;
    pub(super) const DEFERRED_REMOVE: u32 = 1 << 17;
}

/// Room for replies; `regions` with its default count fits.
const ROOM: usize = 64 * 1024;

#[derive(Debug, Error)]
pub enum DmError {
    #[error("{}", no_control(.0))]
    Control(io::Error),
    #[error("{0}")]
    Os(#[from] Errno),
    #[error("the kernel's reply is malformed")]
    Malformed,
    #[error("the name {0:?} is not a device-mapper name: 1 to 127 characters, no '/'; `dsmctl status` shows those of dsm devices")]
    Name(String),
}

fn no_control(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("device-mapper is for root only: cannot open {CONTROL}: {e}")
        }
        io::ErrorKind::NotFound => {
            format!("this kernel has no device-mapper, or has not loaded it (`modprobe dm-mod`): there is no {CONTROL}")
        }
        _ => format!("device-mapper is not available: cannot open {CONTROL}: {e}"),
    }
}

impl DmError {
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Os(e) => Some(*e),
            Self::Control(e) => Errno::from_io_error(e),
            _ => None,
        }
    }
}

/// How a call names its device.
#[derive(Clone, Copy, Debug)]
pub enum Id<'a> {
    Name(&'a str),
    Dev(DevNo),
}

/// A line of a device's table, or of its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// First sector and length, in sectors.
    pub start: u64,
    pub length: u64,
    pub target: String,
    pub params: String,
}

impl Line {
    /// The one line of a dsm device.
    pub fn dsm(length: u64, params: String) -> Self {
        Self {
            start: 0,
            length,
            target: "dsm".into(),
            params,
        }
    }

    /// Where a line of dm-linear leads: `<major>:<minor> <start>`.
    pub fn linear(&self) -> Option<(DevNo, u64)> {
        let (dev, start) = self.params.trim().split_once(' ')?;
        (self.target == "linear").then_some(())?;
        Some((dev.parse().ok()?, start.parse().ok()?))
    }
}

/// What every reply says of the device.
#[derive(Clone, Debug)]
pub struct Info {
    pub name: String,
    pub uuid: String,
    pub dev: DevNo,
    pub open_count: i32,
    pub active: bool,
    /// A table is loaded that takes effect at the next resume.
    pub inactive: bool,
    pub suspended: bool,
    pub read_only: bool,
}

impl Info {
    /// What [`Dm::create`] has left that was killed before the device had a table: nobody can
    /// use it.
    pub fn is_half_made(&self) -> bool {
        !self.active && self.open_count == 0 && self.is_own()
    }

    /// Whether [`Dm::create`] has made it.
    pub fn is_own(&self) -> bool {
        self.uuid == own_uuid(&self.name)
    }
}

/// Of the devices that are made here.  The prefix shows udev's rules whose they are; what is
/// beyond the length of a UUID is cut off.
fn own_uuid(name: &str) -> String {
    let mut uuid = format!("DSM-{name}");
    let most = (0..=LONGEST_UUID.min(uuid.len()))
        .rev()
        .find(|n| uuid.is_char_boundary(*n));
    uuid.truncate(most.unwrap_or(0));
    uuid
}

pub struct Dm {
    control: File,
}

struct Call<'a> {
    opcode: Opcode,
    buf: &'a mut [u8],
}

// SAFETY: the opcodes are those of dm-ioctl.h, whose argument starts with a
// struct dm_ioctl that says how long the buffer is; `Dm::call` sets data_size
// to the length of `buf`, and the kernel neither reads nor writes beyond it.
unsafe impl Ioctl for Call<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.buf.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

fn get_u32(buf: &[u8], at: usize) -> Result<u32, DmError> {
    bytes::at(buf, at)
        .map(u32::from_ne_bytes)
        .ok_or(DmError::Malformed)
}

fn get_u64(buf: &[u8], at: usize) -> Result<u64, DmError> {
    bytes::at(buf, at)
        .map(u64::from_ne_bytes)
        .ok_or(DmError::Malformed)
}

fn get_str(buf: &[u8]) -> String {
    let end = buf.iter().position(|&b| b == 0).unwrap_or(buf.len());
    String::from_utf8_lossy(&buf[..end]).into_owned()
}

fn header(id: Option<Id<'_>>, flags: u32) -> Result<[u8; HEADER], DmError> {
    let mut h = [0u8; HEADER];
    put(&mut h, at::VERSION, &4u32.to_ne_bytes());
    put(&mut h, at::DATA_START, &(HEADER as u32).to_ne_bytes());
    put(&mut h, at::FLAGS, &flags.to_ne_bytes());
    match id {
        Some(Id::Name(name)) => {
            if name.is_empty() || name.len() >= NAME_LEN || name.contains(['/', '\0']) {
                return Err(DmError::Name(name.to_owned()));
            }
            put(&mut h, at::NAME, name.as_bytes());
        }
        Some(Id::Dev(dev)) => put(&mut h, at::DEV, &dev.huge().to_ne_bytes()),
        None => {}
    }
    Ok(h)
}

fn info(reply: &[u8]) -> Result<Info, DmError> {
    let flags = get_u32(reply, at::FLAGS)?;
    Ok(Info {
        name: get_str(&reply[at::NAME..at::NAME + NAME_LEN]),
        uuid: get_str(&reply[at::UUID..at::UUID + UUID_LEN]),
        dev: DevNo::from_huge(get_u64(reply, at::DEV)?),
        open_count: get_u32(reply, at::OPEN_COUNT)? as i32,
        active: flags & flag::ACTIVE_PRESENT != 0,
        inactive: flags & flag::INACTIVE_PRESENT != 0,
        suspended: flags & flag::SUSPEND != 0,
        read_only: flags & flag::READONLY != 0,
    })
}

/// The lines of a table as struct dm_target_spec, each with its parameters behind it.
fn specs(lines: &[Line]) -> Result<Vec<u8>, DmError> {
    let mut specs = Vec::new();
    for line in lines {
        if line.target.len() >= TYPE_LEN {
            return Err(DmError::Malformed);
        }
        let size = (SPEC + line.params.len() + 1).next_multiple_of(8);
        let mut spec = vec![0u8; size];
        put(&mut spec, 0, &line.start.to_ne_bytes());
        put(&mut spec, 8, &line.length.to_ne_bytes());
        // To the next one, counted from this.
        put(&mut spec, 20, &(size as u32).to_ne_bytes());
        put(&mut spec, 24, line.target.as_bytes());
        put(&mut spec, SPEC, line.params.as_bytes());
        specs.extend(spec);
    }
    Ok(specs)
}

/// The part of a reply that follows the header.
fn payload(reply: &[u8]) -> Result<&[u8], DmError> {
    let start = get_u32(reply, at::DATA_START)? as usize;
    let end = get_u32(reply, at::DATA_SIZE)? as usize;
    reply.get(start..end.max(start)).ok_or(DmError::Malformed)
}

/// Finds a target type in a list of struct dm_target_versions: u32 next, version[3], char
/// name[].
fn version(mut list: &[u8], target: &str) -> Result<Option<[u32; 3]>, DmError> {
    while list.len() > 16 {
        if get_str(&list[16..]) == target {
            return Ok(Some([get_u32(list, 4)?, get_u32(list, 8)?, get_u32(list, 12)?]));
        }
        match get_u32(list, 0)? as usize {
            0 => break,
            next => list = list.get(next..).ok_or(DmError::Malformed)?,
        }
    }
    Ok(None)
}

impl Dm {
    pub fn open() -> Result<Self, DmError> {
        let control = File::options()
            .read(true)
            .write(true)
            .open(CONTROL)
            .map_err(DmError::Control)?;
        Ok(Self { control })
    }

    /// The control node becomes readable with the next event of any device.
    pub(crate) fn arm_poll(&self) -> Result<(), DmError> {
        let head = header(None, 0)?;
        self.call(Cmd::DevArmPoll, &head, &[], 0).map(|_| ())
    }

    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Makes a call.  When the reply does not fit, the call is made again with
    /// more room: a message with a long reply must be one that may be repeated.
    fn call(&self, cmd: Cmd, head: &[u8; HEADER], data: &[u8], room: usize) -> Result<Vec<u8>, DmError> {
        let mut size = HEADER + data.len().max(room);
        loop {
            let mut buf = vec![0u8; size];
            buf[..HEADER].copy_from_slice(head);
            buf[HEADER..HEADER + data.len()].copy_from_slice(data);
            let len = u32::try_from(size).map_err(|_| Errno::TOOBIG)?;
            put(&mut buf, at::DATA_SIZE, &len.to_ne_bytes());
            let call = Call {
                opcode: rustix::ioctl::opcode::read_write::<[u8; HEADER]>(0xfd, cmd as u8),
                buf: &mut buf,
            };
            // SAFETY: the file is device-mapper's control node, see `Call`.
            unsafe { rustix::ioctl::ioctl(&self.control, call) }?;
            if get_u32(&buf, at::FLAGS)? & flag::BUFFER_FULL == 0 {
                return Ok(buf);
            }
            size *= 2;
        }
    }

    /// A call after which udev has work to do: returns when it is done.
    fn call_synced(&self, cmd: Cmd, name: &str, flags: u32, shown: Shown) -> Result<Info, DmError> {
        let mut head = header(Some(Id::Name(name)), flags)?;
        let cookie = UdevCookie::new();
        put(&mut head, at::EVENT_NR, &cookie.event_nr(shown).to_ne_bytes());
        let reply = self.call(cmd, &head, &[], 0)?;
        if get_u32(&reply, at::FLAGS)? & flag::UEVENT_GENERATED != 0 {
            cookie.wait();
        }
        info(&reply)
    }

    /// Every device-mapper device.
    pub fn list(&self) -> Result<Vec<(String, DevNo)>, DmError> {
        let reply = self.call(Cmd::ListDevices, &header(None, 0)?, &[], ROOM)?;
        let mut rest = payload(&reply)?;
        let mut found = Vec::new();
        // struct dm_name_list: u64 dev, u32 next, char name[].  With no device
        // there is one entry with dev 0.
        while rest.len() > 12 {
            let dev = get_u64(rest, 0)?;
            if dev == 0 {
                break;
            }
            found.push((get_str(&rest[12..]), DevNo::from_huge(dev)));
            match get_u32(rest, 8)? as usize {
                0 => break,
                next => rest = rest.get(next..).ok_or(DmError::Malformed)?,
            }
        }
        Ok(found)
    }

    /// The version of a target type, if the kernel has it.
    pub fn target_version(&self, target: &str) -> Result<Option<[u32; 3]>, DmError> {
        let reply = self.call(Cmd::ListVersions, &header(None, 0)?, &[], ROOM)?;
        version(payload(&reply)?, target)
    }

    /// A device without a table.
    pub fn create(&self, name: &str) -> Result<Info, DmError> {
        self.create_as(name, &own_uuid(name))
    }

    pub(crate) fn create_as(&self, name: &str, uuid: &str) -> Result<Info, DmError> {
        let mut head = header(Some(Id::Name(name)), 0)?;
        put(
            &mut head,
            at::UUID,
            &uuid.as_bytes()[..uuid.len().min(LONGEST_UUID)],
        );
        info(&self.call(Cmd::DevCreate, &head, &[], 0)?)
    }

    /// Loads a table; it takes effect with [`Dm::resume`].
    pub fn load(&self, name: &str, lines: &[Line]) -> Result<(), DmError> {
        let mut head = header(Some(Id::Name(name)), 0)?;
        put(&mut head, at::TARGET_COUNT, &(lines.len() as u32).to_ne_bytes());
        self.call(Cmd::TableLoad, &head, &specs(lines)?, 0)?;
        Ok(())
    }

    /// Takes away a table that was loaded and has not taken effect.
    pub fn clear(&self, name: &str) -> Result<(), DmError> {
        self.call(Cmd::TableClear, &header(Some(Id::Name(name)), 0)?, &[], 0)?;
        Ok(())
    }

    /// Goes on after a suspend.  With a table loaded it takes the place of the active one:
    /// of a device that is in use, the kernel freezes the file system and waits for
    /// what is in flight before that.
    pub fn resume(&self, name: &str) -> Result<Info, DmError> {
        self.call_synced(Cmd::DevSuspend, name, 0, Shown::Fully)
    }

    /// Starts a device that is part of another.
    pub(crate) fn resume_hidden(&self, name: &str) -> Result<Info, DmError> {
        self.call_synced(Cmd::DevSuspend, name, 0, Shown::Hidden)
    }

    pub fn remove(&self, name: &str) -> Result<(), DmError> {
        self.call_synced(Cmd::DevRemove, name, 0, Shown::Fully).map(drop)
    }

    /// The kernel removes it as soon as nobody has it open, at once if nobody has.
    pub(crate) fn remove_deferred(&self, name: &str) -> Result<(), DmError> {
        self.call_synced(Cmd::DevRemove, name, flag::DEFERRED_REMOVE, Shown::Fully)
            .map(drop)
    }

    pub fn info(&self, id: Id<'_>) -> Result<Info, DmError> {
        info(&self.call(Cmd::DevStatus, &header(Some(id), 0)?, &[], 0)?)
    }

    pub fn table(&self, id: Id<'_>) -> Result<(Info, Vec<Line>), DmError> {
        self.lines(id, flag::STATUS_TABLE)
    }

    /// The table that is loaded and has not taken effect.
    pub fn loaded(&self, id: Id<'_>) -> Result<Vec<Line>, DmError> {
        let (_, lines) = self.lines(id, flag::STATUS_TABLE | flag::QUERY_INACTIVE)?;
        Ok(lines)
    }

    pub fn status(&self, id: Id<'_>) -> Result<(Info, Vec<Line>), DmError> {
        self.lines(id, flag::NOFLUSH)
    }

    fn lines(&self, id: Id<'_>, flags: u32) -> Result<(Info, Vec<Line>), DmError> {
        let reply = self.call(Cmd::TableStatus, &header(Some(id), flags)?, &[], 16 * 1024)?;
        let data = payload(&reply)?;
        let mut lines = Vec::new();
        let mut pos = 0;
        for _ in 0..get_u32(&reply, at::TARGET_COUNT)? {
            let spec = data.get(pos..).ok_or(DmError::Malformed)?;
            if spec.len() < SPEC {
                return Err(DmError::Malformed);
            }
            lines.push(Line {
                start: get_u64(spec, 0)?,
                length: get_u64(spec, 8)?,
                target: get_str(&spec[24..SPEC]),
                params: get_str(&spec[SPEC..]),
            });
            // Counted from the start of the data, not from this entry.
            pos = get_u32(spec, 20)? as usize;
        }
        Ok((info(&reply)?, lines))
    }

    /// Sends a message to the target at sector 0.
    pub fn message(&self, id: Id<'_>, text: &str) -> Result<(Info, String), DmError> {
        if text.contains('\0') {
            return Err(Errno::INVAL.into());
        }
        let mut data = Vec::with_capacity(8 + text.len() + 1);
        data.extend_from_slice(&0u64.to_ne_bytes());
        data.extend_from_slice(text.as_bytes());
        data.push(0);
        let room = if text.starts_with("regions") { ROOM } else { 1024 };
        let reply = self.call(Cmd::TargetMsg, &header(Some(id), 0)?, &data, room)?;
        let text = match get_u32(&reply, at::FLAGS)? & flag::DATA_OUT {
            0 => String::new(),
            _ => get_str(payload(&reply)?),
        };
        Ok((info(&reply)?, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_package_and_programs_have_one_version() {
        let version = env!("CARGO_PKG_VERSION");
        let [major, minor, patch] = [0, 1, 2].map(|n| version.split('.').nth(n).unwrap());
        let target = include_str!("../../../dm-dsm/target.c");
        let line = format!("\t.version = {{ {major}, {minor}, {patch} }},\n");
        assert!(target.contains(&line), "{line}");
        let package = format!("PACKAGE_VERSION=\"{version}\"\n");
        assert!(include_str!("../../../dkms.conf").contains(&package), "{package}");
    }

    #[test]
    fn a_header_has_the_kernels_layout() {
        let h = header(Some(Id::Name("dsm0")), flag::NOFLUSH).unwrap();
        assert_eq!(get_u32(&h, 0).unwrap(), 4);
        assert_eq!(get_u32(&h, 16).unwrap(), 312);
        assert_eq!(get_u32(&h, 28).unwrap(), 1 << 11);
        assert_eq!(&h[48..53], b"dsm0\0");
        let h = header(Some(Id::Dev(DevNo::new(253, 300))), 0).unwrap();
        assert_eq!(info(&h).unwrap().dev, DevNo::new(253, 300));
    }

    #[test]
    fn what_keeps_device_mapper_away_is_distinguished() {
        let said = |errno| DmError::Control(io::Error::from_raw_os_error(errno)).to_string();
        assert!(said(libc::EACCES).starts_with("device-mapper is for root only: "));
        assert!(said(libc::ENOENT).contains("`modprobe dm-mod`"));
        assert!(said(libc::EMFILE).starts_with("device-mapper is not available: "));
    }

    #[test]
    fn names_the_kernel_would_not_take_are_refused() {
        for name in ["", "a/b", "a\0b", &"x".repeat(128)] {
            assert!(matches!(header(Some(Id::Name(name)), 0), Err(DmError::Name(_))));
        }
    }

    #[test]
    fn lines_follow_each_other() {
        let line = |start, length, params: &str| Line {
            start,
            length,
            target: "linear".into(),
            params: params.into(),
        };
        let bytes = specs(&[line(0, 100, "259:0 2048"), line(100, 8, "8:16 0")]).unwrap();
        assert_eq!(
            (get_u64(&bytes, 8).unwrap(), get_u32(&bytes, 20).unwrap()),
            (100, 56)
        );
        let second = &bytes[56..];
        assert_eq!(
            (get_u64(second, 0).unwrap(), get_u64(second, 8).unwrap()),
            (100, 8)
        );
        assert_eq!(
            (get_str(&second[24..SPEC]), get_str(&second[SPEC..])),
            ("linear".into(), "8:16 0".into())
        );
        assert_eq!(second.len(), get_u32(second, 20).unwrap() as usize);
    }

    #[test]
    fn versions_of_targets() {
        let entry = |next: u32, version: [u32; 3], name: &str| {
            let mut bytes = next.to_ne_bytes().to_vec();
            bytes.extend(version.iter().flat_map(|n| n.to_ne_bytes()));
            bytes.extend(name.as_bytes());
            bytes.push(0);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        };
        let first = entry(24, [1, 9, 2], "linear");
        assert_eq!(first.len(), 24);
        let list = [first, entry(0, [1, 0, 3], "dsm"), vec![0; 64]].concat();
        assert_eq!(version(&list, "dsm").unwrap(), Some([1, 0, 3]));
        assert_eq!(version(&list, "linear").unwrap(), Some([1, 9, 2]));
        assert_eq!(version(&list, "striped").unwrap(), None);
        assert_eq!(version(&[], "dsm").unwrap(), None);
        let outside = entry(4096, [1, 9, 2], "linear");
        assert!(matches!(version(&outside, "dsm"), Err(DmError::Malformed)));
    }

    #[test]
    fn a_reply_that_points_outside_is_malformed() {
        let mut h = header(None, 0).unwrap().to_vec();
        put(&mut h, at::DATA_SIZE, &4096u32.to_ne_bytes());
        assert!(matches!(payload(&h), Err(DmError::Malformed)));
    }
}

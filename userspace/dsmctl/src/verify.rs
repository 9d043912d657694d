// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl verify`: whether stamps arrive at the device.
//!
//! Files without a name take a place in the table, one of each class and side.
//! Each is written in place, by direct I/O, and the device's own counters
//! are read before and after.  They count what others write, too: a stamp has
//! arrived when its counter moved by no less than was written.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{ensure, Context, Result};
use serde::Serialize;

use crate::borrowed::{self, Guest};
use crate::cli::{Output, Verify};
use crate::{refused, NO};
use database::fiemap::{Fiemap, Mapper};
use database::place::Directory;
use dm::class::Class;
use dm::device::{Device, Target};
use dm::ioctl::Dm;
use dm::mounts;
use dm::reply::{Region, Side, Status};
use dm::streams;
use dm::streams::LowerStack;
use dm::sysfs::Sysfs;
use dm::table::{Extent, FileRecord, StreamStamp};
use drive::afford::AffordedLayout;
use drive::aligned::Aligned;
use drive::below::{self, Affords};
use drive::nvme::Namespace;
use runtime::grid::{or_dash, Grid};
use runtime::wake::Signals;

/// One write.
const WRITE: usize = 64 * 1024;
/// The n-th probe makes this many writes, and n more.
const WRITES: u64 = 8;
/// A reclaim unit may be changed for another in between.
const ATTEMPTS: u32 = 3;

const PROBES: [(Class, Side); 8] = [
    (Class::Other, Side::Bottom),
    (Class::Journal, Side::Bottom),
    (Class::Oplog, Side::Bottom),
    (Class::Primary, Side::Bottom),
    (Class::Collection, Side::Bottom),
    (Class::Collection, Side::Top),
    (Class::Index, Side::Bottom),
    (Class::Index, Side::Top),
];

/// Logical blocks left by placement identifier, as a drive with FDP counts them.
struct StreamCounters {
    namespace: Namespace,
    block: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum VerifyVerdict {
    Arrive,
    Ignored,
    NotStamped,
    /// No streams are in use.
    Nothing,
    Unknown,
}

/// The exit status when no streams are in use; 2 is that of a wrong command line.
const NOTHING: u8 = 3;

#[derive(Debug, Serialize)]
struct StreamRow {
    class: Class,
    side: Side,
    stream: u32,
    /// The reclaim unit handle.
    handle: u64,
    /// Whether writes without a stamp go elsewhere.
    proof: bool,
    /// Bytes: made here, counted by the target for the file, and by the device for the
    /// handle (`null`: the reclaim unit was changed).
    written: u64,
    target: u64,
    device: Option<u64>,
}

impl StreamRow {
    fn arrived(&self) -> bool {
        self.device.is_some_and(|n| n >= self.written)
    }
}

#[derive(Debug, Serialize)]
struct Verified {
    name: String,
    disk: String,
    verdict: VerifyVerdict,
    reason: String,
    rows: Vec<StreamRow>,
}

/// Whether stamps arrive, as an exit status.
pub(crate) fn verify(a: &Verify, out: Output) -> Result<u8> {
    let v = find(a)?;
    crate::print(out, &v, || text(&v))?;
    Ok(match v.verdict {
        VerifyVerdict::Arrive => 0,
        VerifyVerdict::Nothing => NOTHING,
        _ => NO,
    })
}

/// What there is to say, and what was measured.
fn find(a: &Verify) -> Result<Verified> {
    let (device, sysfs) = (Device::open(&a.name)?, Sysfs::default());
    let below = streams::below(&sysfs, &Dm::open()?, device.devno)?;
    let status = device.status().map_err(|e| refused(&a.name, e))?;
    let disks = below.disks.join(", ");
    let verified = |verdict, reason, rows| Verified {
        name: device.name.clone(),
        disk: disks.clone(),
        verdict,
        reason,
        rows,
    };
    let without = |verdict, reason| Ok(verified(verdict, reason, Vec::new()));
    if status.policy == "none" {
        let affords = below::of_stack(&sysfs, &below, &|all| all);
        return without(VerifyVerdict::Nothing, unused(&affords));
    }
    let ([disk], [leaf]) = (below.disks.as_slice(), below.leaves.as_slice()) else {
        ensure!(
            status.source == "stacked",
            "{}: it lies on several disks ({disks}), whose counts cannot be separated",
            a.name
        );
        return without(VerifyVerdict::NotStamped, unstamped(&status, &below));
    };
    let node = Path::new("/dev").join(disk);
    let opened = Namespace::open(&node).with_context(|| format!("{}: cannot open it", node.display()))?;
    let Some(namespace) = opened else {
        let (verdict, reason) = match disk.starts_with("sd") {
            true => (
                VerifyVerdict::Unknown,
                "a SCSI disk is sent the lifetime hint as a group number, if it has permanent streams; \
                 it does not count by group, so that nothing can be proved",
            ),
            false => (
                VerifyVerdict::Ignored,
                "this device ignores stamps: it is neither an NVMe namespace nor a SCSI disk",
            ),
        };
        return without(verdict, reason.into());
    };
    let handles = namespace
        .handles()
        .with_context(|| format!("{}: cannot ask for its placement handles", node.display()))?;
    if handles.is_none() {
        let reason = "this device ignores stamps: the namespace has no placement handles (FDP)";
        return without(VerifyVerdict::Ignored, reason.into());
    }
    if status.layout == "none" {
        return without(VerifyVerdict::NotStamped, unstamped(&status, &below));
    }
    let block = sysfs.number(*leaf, "queue/logical_block_size");
    let block = block.with_context(|| format!("{disk}: cannot determine its block size"))?;
    let rows = measure(a, &device, &StreamCounters { namespace, block })?;
    let (verdict, reason) = judge(&rows);
    Ok(verified(verdict, reason, rows))
}

/// Why there is nothing to verify.
fn unused(affords: &Affords) -> String {
    let why = match affords.layout {
        AffordedLayout::None => format!(", as `dsmctl create` chooses here: {}", affords.why),
        _ => String::new(),
    };
    format!("nothing to verify: no streams are in use, the policy is none{why}")
}

fn text(v: &Verified) -> String {
    let mut text = String::new();
    if !v.rows.is_empty() {
        let mut grid = Grid::new(
            &["STREAM", "HANDLE", "USED FOR", "WRITTEN", "TARGET", "DEVICE", ""],
            &[true, true, false, true, true, true, false],
        );
        for r in &v.rows {
            let said = match (r.proof, r.arrived()) {
                (false, _) => "as without a stamp",
                (true, true) => "arrived",
                (true, false) => "NOT THERE",
            };
            let used_for = match r.class.has_boundary() {
                true => format!("{} {}", r.class, r.side),
                false => r.class.to_string(),
            };
            let device = or_dash(r.device);
            grid.row(&[
                &r.stream, &r.handle, &used_for, &r.written, &r.target, &device, &said,
            ]);
        }
        text = grid.text() + "\n";
    }
    text + &format!("{} on {}: {}\n", v.name, v.disk, v.reason)
}

impl StreamCounters {
    /// The handle of a stamp, whether unstamped writes go elsewhere, and the blocks left.
    fn read(&self, region: &Region) -> Result<(u64, bool, u64)> {
        let handles = self.namespace.handles()?;
        let handles = handles.context("the placement handles are gone")?;
        // What is not stamped goes to the first identifier.
        let of = |stream: u32| handles.get(stream.max(1) as usize - 1);
        let (first, own) = of(1)
            .zip(of(region.stream))
            .with_context(|| format!("the device has no stream {}", region.stream))?;
        Ok((own.ruh.into(), own.ruh != first.ruh, own.left))
    }
}

/// A file without a name.
struct VerifyFile {
    class: Class,
    side: Side,
    file: File,
    id: u64,
    extents: Vec<Extent>,
    writes: u64,
}

impl VerifyFile {
    fn make(dir: &Directory, n: usize, map: &mut Fiemap, data: &[u8]) -> Result<Self> {
        let (class, side) = PROBES[n];
        let shown = dir.path().display();
        let file = dir.unnamed()?;
        let mut scratch = Self {
            class,
            side,
            id: file.metadata()?.ino(),
            file,
            extents: Vec::new(),
            writes: WRITES + n as u64,
        };
        let first = scratch.file.write_all_at(data, 0);
        let filled = first.and_then(|()| scratch.write(data));
        let synced = filled.and_then(|()| scratch.file.sync_all());
        synced.with_context(|| format!("{shown}: cannot write a file of 1 MiB"))?;
        let seen = map.map(&scratch.file, &mut scratch.extents)?;
        ensure!(
            !seen.pending() && !scratch.extents.is_empty(),
            "{shown}: the file system does not report where a file lies"
        );
        Ok(scratch)
    }

    /// The writes of the probe; they begin at the boundary of a top.
    fn write(&self, data: &[u8]) -> std::io::Result<()> {
        for n in 1..=self.writes {
            self.file.write_all_at(data, n * WRITE as u64)?;
        }
        Ok(())
    }

    fn record(&self) -> FileRecord<'_> {
        FileRecord {
            id: self.id,
            class: self.class,
            boundary: (self.side == Side::Top).then_some(WRITE as u64),
            stamp: StreamStamp::default(),
            extents: &self.extents,
        }
    }
}

fn region(device: &Device, scratch: &VerifyFile) -> Result<Region> {
    let mut all = device.regions()?.into_iter();
    let own = all.find(|r| r.id == scratch.id && r.side == scratch.side);
    own.with_context(|| format!("{}: somebody else changed the table meanwhile", device.name))
}

/// Why a policy has no streams to give.
fn unstamped(status: &Status, below: &LowerStack) -> String {
    match status.source.as_str() {
        "kernel" => "nothing is stamped: this kernel has no write streams".into(),
        "stacked" if below.barring.is_empty() => {
            "nothing is stamped: the disks below were not named when the device was made; \
             remove it and have dsmctl create make it again"
                .into()
        }
        "stacked" => format!(
            "nothing is stamped: only lifetime hints are above {}",
            below.barring.join(", ")
        ),
        _ => format!(
            "nothing is stamped: the policy is {}, and the device has {} streams",
            status.policy, status.device_streams
        ),
    }
}

fn measure(a: &Verify, device: &Device, counters: &StreamCounters) -> Result<Vec<StreamRow>> {
    let dir = directory(device, a.dir.as_deref())?;
    let mut map = Fiemap::new(dir.place().clone());
    let claim = borrowed::claim(device)?;
    let mut data = Aligned::zeroed(WRITE);
    data.fill(0xd5);
    let mut files = Vec::new();
    for n in 0..PROBES.len() {
        files.push(VerifyFile::make(&dir, n, &mut map, &data)?);
    }
    // From here on the table is not left as it is now.
    let signals = Signals::new()?;
    let records: Vec<FileRecord<'_>> = files.iter().map(VerifyFile::record).collect();
    let guest = Guest::enter(device, claim, &records, false)?;
    let mut rows = Vec::new();
    for scratch in &files {
        ensure!(!signals.came(), "interrupted; the table is as it was");
        rows.push(write_and_measure(device, counters, scratch, &data)?);
    }
    drop(guest);
    Ok(rows)
}

/// The one that was named, or where the device is mounted.
pub(crate) fn directory(device: &Device, dir: Option<&Path>) -> Result<Directory> {
    let name = &device.name;
    let path = match dir {
        Some(dir) => dir.to_owned(),
        None => mounts::point_of(device.devno).with_context(|| {
            format!("{name}: no file system is mounted from it directly; name a directory with --dir")
        })?,
    };
    Directory::open(&path, name, device.devno, device.sectors)
}

fn write_and_measure(
    device: &Device,
    counters: &StreamCounters,
    scratch: &VerifyFile,
    data: &[u8],
) -> Result<StreamRow> {
    let mut attempt = 1;
    loop {
        let before = region(device, scratch)?;
        let (handle, proof, count) = counters.read(&before)?;
        scratch.write(data).context("cannot write to the file")?;
        let left = counters.read(&before)?.2;
        let after = region(device, scratch)?;
        let row = StreamRow {
            class: scratch.class,
            side: scratch.side,
            stream: before.stream,
            handle,
            proof,
            written: scratch.writes * WRITE as u64,
            target: (after.total - before.total) * 4096,
            device: count.checked_sub(left).map(|blocks| blocks * counters.block),
        };
        // A checkpoint in between may give it another stream.
        if (row.arrived() && before.stream == after.stream) || attempt == ATTEMPTS {
            return Ok(row);
        }
        attempt += 1;
    }
}

fn judge(rows: &[StreamRow]) -> (VerifyVerdict, String) {
    let telling: Vec<&StreamRow> = rows.iter().filter(|r| r.proof).collect();
    let (arrived, all) = (telling.iter().filter(|r| r.arrived()).count(), telling.len());
    let (verdict, reason) = match arrived {
        _ if all == 0 => (
            VerifyVerdict::Unknown,
            "all stamps lead where writes without a stamp go, so that nothing can be proved",
        ),
        0 => (
            VerifyVerdict::Ignored,
            "this device ignores stamps: it counted none of the writes where they were sent",
        ),
        n if n == all => (
            VerifyVerdict::Arrive,
            "the stamps arrive: the device counted every write where it was sent",
        ),
        n => {
            let reason = format!("the device counted {n} of {all} kinds of writes where they were sent");
            return (VerifyVerdict::Unknown, reason);
        }
    };
    (verdict, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(proof: bool, device: Option<u64>) -> StreamRow {
        StreamRow {
            class: Class::Journal,
            side: Side::Bottom,
            stream: 2,
            handle: 5,
            proof,
            written: 100,
            target: 100,
            device,
        }
    }

    #[test]
    fn without_streams_there_is_nothing_to_verify() {
        let of = |layout| unused(&Affords::new(layout, None, "no streams: it has none".into()));
        assert_eq!(
            of(AffordedLayout::None),
            "nothing to verify: no streams are in use, the policy is none, as `dsmctl create` chooses here: \
             no streams: it has none"
        );
        assert_eq!(
            of(AffordedLayout::Life(2)),
            "nothing to verify: no streams are in use, the policy is none"
        );
    }

    #[test]
    fn what_is_proved() {
        let verdict = |rows: &[StreamRow]| judge(rows).0;
        assert_eq!(verdict(&[row(false, Some(100))]), VerifyVerdict::Unknown);
        assert_eq!(
            verdict(&[row(true, Some(100)), row(true, Some(140))]),
            VerifyVerdict::Arrive
        );
        assert_eq!(
            verdict(&[row(true, Some(99)), row(true, None)]),
            VerifyVerdict::Ignored
        );
        assert_eq!(
            verdict(&[row(true, Some(99)), row(true, Some(100))]),
            VerifyVerdict::Unknown
        );
    }
}

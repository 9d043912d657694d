// SPDX-License-Identifier: GPL-2.0-or-later
//! The writes of a block device, by the tracepoint `block:block_bio_queue`.
//!
//! It sees every bio where a file system hands it to its device, also on devices
//! of device-mapper, which have no requests; and unlike blktrace it can be used
//! by several programs at a time, each with an instance of its own.  It does not
//! report streams or hints: of a dsm device the writes are seen by `dsm:dsm_place`
//! where they leave the target, in the parts and with the stamps that it gave them.
//!
//! By hand: libtracefs is C; a perf ring would need a mapping that is read with unsafe code.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use dm::devno::DevNo;

const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENT: &str = "events/block/block_bio_queue";
const PLACE: &str = "events/dsm/dsm_place";
/// Of each processor.
const BUFFER_KIB: &str = "16384";
/// With the same process number, on one kernel.
const MOST_RECORDERS: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceLine {
    Io {
        us: u64,
        discard: bool,
        sector: u64,
        sectors: u64,
        stream: u8,
        hint: u8,
    },
    /// What a workload writes to the instance's trace_marker when it begins a checkpoint.
    Begins {
        us: u64,
    },
    Lost(u64),
}

/// Makes a folder of that name or, where another recorder has taken it, with a number
/// behind it: in containers processes have the same numbers, and the kernel is one.
fn make_dir(name: &Path) -> Result<PathBuf> {
    let numbered = |n| match n {
        0 => name.to_path_buf(),
        n => PathBuf::from(format!("{}-{n}", name.display())),
    };
    for dir in (0..MOST_RECORDERS).map(numbered) {
        match fs::create_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => {
                return done
                    .map(|()| dir.clone())
                    .with_context(|| format!("cannot make {}", dir.display()))
            }
        }
    }
    bail!(
        "{0} and all up to {0}-{1} are taken",
        name.display(),
        MOST_RECORDERS - 1
    )
}

/// A tracing instance; it goes when it is dropped.
pub(super) struct Instance {
    dir: PathBuf,
    events: Vec<&'static str>,
    pipe: Option<File>,
    /// What was read of a line that is not complete yet.
    rest: Vec<u8>,
}

impl Instance {
    /// `is_dsm`: the device is a dsm target from its first sector to its last.
    pub(super) fn new(dev: DevNo, is_dsm: bool) -> Result<Self> {
        let root = ROOTS.iter().map(Path::new).find(|r| r.join(EVENT).exists());
        let Some(root) = root else {
            bail!(
                "there is no tracepoint block:block_bio_queue: the kernel needs CONFIG_BLK_DEV_IO_TRACE, \
                 and tracefs must be mounted at {}",
                ROOTS[0]
            );
        };
        let dir = make_dir(&root.join(format!("instances/dsmctl-{}", std::process::id())))?;
        let placed = is_dsm && dir.join(PLACE).exists();
        let mut instance = Self {
            dir,
            events: if placed { vec![EVENT, PLACE] } else { vec![EVENT] },
            pipe: None,
            rest: Vec::new(),
        };
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", BUFFER_KIB)?;
        // dev_t as the kernel has it: 20 bits of minor.
        let number = (u64::from(dev.major) << 20) | u64::from(dev.minor);
        let kind = if placed { " && rwbs ~ \"*D*\"" } else { "" };
        instance.set(
            &format!("{EVENT}/filter"),
            &format!("dev == {number} && nr_sector > 0{kind}"),
        )?;
        if placed {
            instance.set(&format!("{PLACE}/filter"), &format!("dev == {number}"))?;
        }
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(instance.dir.join("trace_pipe"))
            .context("cannot open the trace")?;
        instance.pipe = Some(pipe);
        for event in &instance.events {
            instance.set(&format!("{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.dir.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write '{value}' to {}", path.display()))
    }

    /// Gives what is there, without waiting.
    pub(super) fn read(&mut self, mut each: impl FnMut(TraceLine) -> Result<()>) -> Result<()> {
        let mut buf = vec![0; 1 << 16];
        loop {
            let pipe = self.pipe.as_mut().expect("it is open until it is dropped");
            let n = match pipe.read(&mut buf) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e).context("cannot read the trace"),
            };
            self.rest.extend_from_slice(&buf[..n]);
            let Some(end) = self.rest.iter().rposition(|b| *b == b'\n') else {
                continue;
            };
            let text = String::from_utf8_lossy(&self.rest[..end]).into_owned();
            self.rest.drain(..=end);
            for line in text.lines().filter_map(parse) {
                each(line)?;
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        for event in &self.events {
            let _ = self.set(&format!("{event}/enable"), "0");
        }
        self.pipe = None;
        // The directory of an instance is removed with all that is in it.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// A line such as
/// `  mongod-7 [001] ..... 12.345678: block_bio_queue: 7,0 WS 2048 + 8 [mongod]` or
/// `  mongod-7 [001] ..... 12.345678: dsm_place: 254,0 2048 + 8 stream 3 hint 5`.
/// Reads and the rest are skipped.
fn parse(line: &str) -> Option<TraceLine> {
    if let Some((_, lost)) = line.split_once("[LOST ") {
        let number = lost.split(' ').next()?;
        return Some(TraceLine::Lost(number.parse().ok()?));
    }
    let io = |before, discard, [sector, sectors]: [&str; 2], [stream, hint]: [&str; 2]| {
        Some(TraceLine::Io {
            us: time(before)?,
            discard,
            sector: sector.parse().ok()?,
            sectors: sectors.parse().ok()?,
            stream: stream.parse().ok()?,
            hint: hint.parse().ok()?,
        })
    };
    // The name of a program may have any character.
    if let Some((before, event)) = line.rsplit_once(": dsm_place: ") {
        let words: Vec<&str> = event.split(' ').collect();
        let [_device, sector, "+", sectors, "stream", stream, "hint", hint] = words[..] else {
            return None;
        };
        return io(before, false, [sector, sectors], [stream, hint]);
    }
    if let Some((before, "checkpoint begins")) = line.rsplit_once(": tracing_mark_write: ") {
        return Some(TraceLine::Begins { us: time(before)? });
    }
    let (before, event) = line.rsplit_once(": block_bio_queue: ")?;
    let words: Vec<&str> = event.split(' ').collect();
    let [_device, kind, sector, "+", sectors, ..] = words[..] else {
        return None;
    };
    // A flush in front of the data is an F.
    let discard = match kind.strip_prefix('F').unwrap_or(kind).chars().next()? {
        'W' => false,
        'D' => true,
        _ => return None,
    };
    io(before, discard, [sector, sectors], ["0", "0"])
}

/// Microseconds, from what comes before the event's name.
fn time(before: &str) -> Option<u64> {
    let (seconds, micro) = before.rsplit_once(' ')?.1.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000 + micro.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorders_of_the_same_number_have_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("dsmctl-25");
        let made: Vec<PathBuf> = (0..MOST_RECORDERS).map(|_| make_dir(&name).unwrap()).collect();
        assert_eq!(made[0], name);
        assert_eq!(made[2], dir.path().join("dsmctl-25-2"));
        let why = make_dir(&name).unwrap_err().to_string();
        assert!(why.ends_with("dsmctl-25-99 are taken"), "{why}");
        let missing = make_dir(Path::new("/nowhere/dsmctl-1")).unwrap_err();
        assert_eq!(missing.to_string(), "cannot make /nowhere/dsmctl-1");
    }

    #[test]
    fn lines_of_the_trace() {
        let io = |discard, sector, sectors| {
            Some(TraceLine::Io {
                us: 12_345_678,
                discard,
                sector,
                sectors,
                stream: 0,
                hint: 0,
            })
        };
        let head = "     a: b [c]-1234    [001] .....    12.345678: block_bio_queue: 7,0";
        assert_eq!(
            parse(&format!("{head} W 2048 + 8 [a: b [c]]")),
            io(false, 2048, 8)
        );
        assert_eq!(parse(&format!("{head} FWFSM 16 + 24 [x]")), io(false, 16, 24));
        assert_eq!(parse(&format!("{head} D 0 + 4096 [x]")), io(true, 0, 4096));
        assert_eq!(parse(&format!("{head} DE 0 + 4096 [x]")), io(true, 0, 4096));
        assert_eq!(parse(&format!("{head} R 0 + 8 [x]")), None);
        assert_eq!(parse(&format!("{head} RA 0 + 8 [x]")), None);
        assert_eq!(
            parse("a: dsm_place: b-7 [001] ..... 12.345678: dsm_place: 254,0 2048 + 8 stream 3 hint 5"),
            Some(TraceLine::Io {
                us: 12_345_678,
                discard: false,
                sector: 2048,
                sectors: 8,
                stream: 3,
                hint: 5,
            })
        );
        assert_eq!(
            parse("a-7 [001] ..... 12.345678: dsm_place: 254,0 2048 + 8 stream 300 hint 5"),
            None
        );
        let marked = |text| {
            parse(&format!(
                "  <...>-5248    [001] ...1.    12.345678: tracing_mark_write: {text}"
            ))
        };
        assert_eq!(
            marked("checkpoint begins"),
            Some(TraceLine::Begins { us: 12_345_678 })
        );
        assert_eq!(marked("checkpoint ends"), None);
        assert_eq!(parse("CPU:1 [LOST 123 EVENTS]"), Some(TraceLine::Lost(123)));
        assert_eq!(parse("# tracer: nop"), None);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Discards what checkpoints free, by rules that are wrong: `discard-rule RULE DEVICE
//! DBPATH`.  tests/discard must catch them.  With `--audit` before that, nothing is sent, and dsmd's
//! audit must catch what they would have named: this prints `violation` and ends, or `seen`, of each
//! look, the pages that were taken, of them those that were written first, and suspects.
//!
//! `naive`: whatever the newest list has.  `window`: what it has and nobody wrote since
//! the window before.  `nobits`: what it has and the list before has not, also where
//! somebody wrote since.  `difference` is the rule, without anything else that dsmd does:
//! it neither asks how the database was started nor waits until the checkpoint is durable.
//! In audit it does both.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure, Result};
use database::fiemap::{Fiemap, Mapper};
use database::place::Place;
use database::walk::{find_file, open_file, Root};
use database::wiredtiger::avail::{difference, read, FreeList};
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::table::Extent;
use dsmd::agent::discard::{self, Disk, Halt, Look};
use runtime::pulse::Pulse;

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    Naive,
    Window,
    NoBits,
    Difference,
}

/// What becomes of what is found.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Discard,
    Audit,
}

/// Ranges in one message.
const BATCH: usize = 64;
/// Late by a checkpoint and as many sectors of the next, as an agent on a busy machine
/// is; every other time, but for the rule to which that makes no difference.  By the clock
/// a busy database would be as late.
const LATE_SECTORS: u64 = 64;
/// The first stream of pages of the database; those before have the journal.
const PAGES: u32 = 3;

struct Agent {
    rule: Rule,
    device: Device,
    fiemap: Fiemap,
    window: u64,
    prompt: bool,
    known: HashMap<PathBuf, FreeList>,
    root: Root,
}

impl Agent {
    /// Begins a window; the number of the one before.
    fn begin_window(&mut self) -> Result<u64> {
        let window = self.device.window()?;
        Ok(std::mem::replace(&mut self.window, window))
    }

    fn freed(&self, path: &Path, new: &FreeList) -> Vec<Range<u64>> {
        match (self.rule, self.known.get(path)) {
            (Rule::Naive | Rule::Window, _) => new.extents.clone(),
            (_, Some(old)) if old.file == new.file => difference(new, old),
            _ => Vec::new(),
        }
    }

    /// Where the file's bytes are, in sectors of the target.
    fn places(&mut self, root: &Root, path: &Path, bytes: &[Range<u64>]) -> Result<Vec<Extent>> {
        let Some(handle) = root.handle()? else {
            return Ok(Vec::new());
        };
        let Some(found) = find_file(&handle, path, root.device())? else {
            return Ok(Vec::new());
        };
        let Some((file, _)) = open_file(&handle, path, found.ino)? else {
            return Ok(Vec::new());
        };
        let mut extents = Vec::new();
        self.fiemap.map(&file.as_fd(), &mut extents)?;
        let mut places = Vec::new();
        for range in bytes {
            let (from, to) = (range.start / 512, range.end / 512);
            for e in &extents {
                let (first, end) = (from.max(e.offset), to.min(e.offset + e.length));
                if first < end {
                    places.push(Extent::new(first, e.start + first - e.offset, end - first));
                }
            }
        }
        Ok(places)
    }

    fn discard(&self, since: u64, places: &[Extent]) -> Result<()> {
        for some in places.chunks(BATCH) {
            let ranges = some.iter().fold(String::new(), |all, e| {
                all + &format!(" {}:{}", e.start, e.length)
            });
            // Too late is no failure: the bits are gone.
            if let Err(e) = self.device.message(&format!("discard {since}{ranges}")) {
                eprintln!("discard-rule: {e:#}");
                return Ok(());
            }
        }
        Ok(())
    }

    /// Names in audit what the rule would discard; false: the audit has caught it.
    fn audited(&mut self, disk: &mut Disk, audit: &mut discard::Rule) -> Result<bool> {
        self.prompt = !self.prompt;
        if !self.prompt {
            self.be_late(self.root.path())?;
        }
        let found = match audit.look(disk, &self.device) {
            Ok(Look::Found(found)) => found,
            Ok(Look::Waiting(_)) => return Ok(true),
            Err(Halt::Violation(v)) => {
                println!("violation: {v}");
                return Ok(false);
            }
            Err(e) => return Err(e.into()),
        };
        let (seen, suspects) = (found.audit, audit.suspects());
        println!("seen {} {} {suspects}", seen.taken, seen.written);
        let newest = self.device.status()?.discard.window;
        let before = std::mem::replace(&mut self.window, newest);
        match self.rule {
            Rule::Difference => {
                let all = found.granules.clone();
                audit.sent(&found, &all);
            }
            Rule::NoBits => audit.name_by(newest, true),
            Rule::Window => audit.name_by(before, false),
            Rule::Naive => audit.name_by(newest, false),
        }
        Ok(true)
    }

    fn discard_naively(&self, places: &[Extent]) -> Result<()> {
        for e in places {
            let done = std::process::Command::new("blkdiscard")
                .arg("-f")
                .args([
                    "-o",
                    &(e.start * 512).to_string(),
                    "-l",
                    &(e.length * 512).to_string(),
                ])
                .arg(format!("/dev/mapper/{}", self.device.name))
                .status()?;
            ensure!(done.success(), "blkdiscard: {done}");
        }
        Ok(())
    }

    /// Sectors that were written of the database's pages.
    fn written(&self) -> Result<u64> {
        let status = self.device.status()?;
        let pages = status.streams.iter().filter(|s| s.stream >= PAGES);
        Ok(pages.map(|s| s.sectors).sum())
    }

    /// Until another checkpoint is complete and the one after it is running.
    fn be_late(&self, dbpath: &Path) -> Result<()> {
        let first = turtle(dbpath);
        let (mut newest, mut before) = (first.clone(), self.written()?);
        loop {
            std::thread::sleep(Duration::from_millis(1));
            let (now, written) = (turtle(dbpath), self.written()?);
            if now != newest {
                (newest, before) = (now, written);
            } else if newest != first && written >= before + LATE_SECTORS {
                return Ok(());
            }
        }
    }

    fn checkpoint(&mut self, root: &Root) -> Result<()> {
        self.prompt = !self.prompt || self.rule == Rule::Difference;
        if !self.prompt {
            self.be_late(root.path())?;
        }
        let since = match self.rule {
            Rule::Naive | Rule::NoBits => 0,
            _ => self.begin_window()?,
        };
        let (snapshot, lists) = read(root, &mut |_| true)?;
        let mut places = Vec::new();
        for (file, list) in snapshot.files.iter().zip(lists) {
            let Some(Ok(list)) = list else { continue };
            let freed = self.freed(&file.path, &list);
            places.extend(self.places(root, &file.path, &freed)?);
            self.known.insert(file.path.clone(), list);
        }
        if matches!(self.rule, Rule::Naive | Rule::NoBits) {
            self.discard_naively(&places)
        } else if since > 0 {
            self.discard(since, &places)
        } else {
            Ok(())
        }
    }
}

fn turtle(dbpath: &Path) -> String {
    std::fs::read_to_string(dbpath.join("WiredTiger.turtle")).unwrap_or_default()
}

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let how = match words.first().map(String::as_str) {
        Some("--audit") => How::Audit,
        _ => How::Discard,
    };
    if how != How::Discard {
        words.remove(0);
    }
    let [rule, device, dbpath] = &words[..] else {
        bail!("usage: discard-rule [--audit] naive|window|nobits|difference DEVICE DBPATH");
    };
    let rule = match rule.as_str() {
        "naive" => Rule::Naive,
        "window" => Rule::Window,
        "nobits" => Rule::NoBits,
        "difference" => Rule::Difference,
        other => bail!("there is no rule {other}"),
    };
    let device = Device::open(device)?;
    let root = Root::open(Path::new(dbpath))?;
    let mut agent = Agent {
        rule,
        fiemap: Fiemap::new(Place::whole(DevNo::from_stat(root.device()), device.sectors)),
        device,
        window: 0,
        prompt: true,
        known: HashMap::new(),
        root: root.clone(),
    };
    let (name, devno, sectors) = (
        agent.device.name.clone(),
        agent.device.devno,
        agent.device.sectors,
    );
    let mut disk = Disk::new(root.clone(), &name, devno, sectors, Pulse::default());
    let mut audit = discard::Rule::default();
    if how == How::Audit {
        agent.device.message("set discard watch")?;
    }
    let mut seen = String::new();
    loop {
        let now = turtle(root.path());
        if now == seen {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        seen = now;
        let done = match how {
            How::Audit => agent.audited(&mut disk, &mut audit),
            How::Discard => agent.checkpoint(&root).map(|()| true),
        };
        if matches!(done, Ok(false)) {
            return Ok(());
        }
        if let Err(e) = done {
            agent.known.clear();
            eprintln!("discard-rule: {e:#}");
        }
    }
}

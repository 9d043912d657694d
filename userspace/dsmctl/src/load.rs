// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl debug load` and `dsmctl debug drop`.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure, Context, Result};
use rustix::fd::OwnedFd;
use serde_json::json;

use crate::cli::{Boundary, Load, Output};
use crate::refused;
use dm::class::Class;
use dm::device::{Device, Target};
use dm::reply::Commit;
use dm::table::{resolve_overlaps, Extent, FileRecord, StreamStamp, Upload, UploadKind};
use files::fiemap::{self, ExtentCounts, Fiemap, Mapper};
use files::ident;
use files::place::{self, Found};
use files::walk::{open_file, Collector, FoundFile, Root};

struct LoadEntry {
    id: u64,
    class: Class,
    boundary: Option<u64>,
    extents: Box<[Extent]>,
}

#[derive(Default)]
struct Loaded {
    entries: Vec<LoadEntry>,
    seen: ExtentCounts,
}

/// Says which boundary a file gets.
struct LoadedBoundaries {
    asked: Option<Boundary>,
    /// Only collections and indexes are divided.
    by_class: bool,
    present: HashMap<u64, u64>,
}

impl LoadedBoundaries {
    fn of(&self, id: u64, class: Class, size: u64) -> Option<u64> {
        let asked = self.asked.filter(|_| !self.by_class || class.has_boundary());
        match asked {
            None => self.present.get(&id).copied(),
            Some(Boundary::None) => None,
            Some(Boundary::Mark) => Some(size),
            Some(Boundary::Bytes(n)) => Some(n),
        }
    }
}

pub(crate) fn load(a: &Load, out: Output) -> Result<()> {
    let device = Device::open(&a.name)?;
    // Before anything is read: what somebody else commits meanwhile is not known here.
    let generation = device.generation().map_err(|e| refused(&a.name, e))?;
    let mut present = HashMap::new();
    for r in device.regions().map_err(|e| refused(&a.name, e))? {
        if let Some(b) = r.boundary {
            present.insert(r.id, b);
        }
    }
    let boundaries = LoadedBoundaries {
        asked: a.boundary,
        by_class: a.dbpath.is_some(),
        present,
    };
    let mut loaded = match &a.dbpath {
        Some(dbpath) => read_dbpath(&device, dbpath, &boundaries)?,
        None => read_files(&device, &a.files, a.class, &boundaries)?,
    };
    free_of_overlaps(&mut loaded.entries);
    let kind = if a.update {
        UploadKind::Update(generation)
    } else {
        UploadKind::Full
    };
    let commit = upload(&device, kind, &loaded.entries).map_err(|e| refused(&a.name, e))?;
    print_commit(&a.name, &commit, Some(&loaded.seen), out)
}

/// Files that share extents (reflinks) cannot be in the table as they are.
fn free_of_overlaps(entries: &mut [LoadEntry]) {
    let mut extents: Vec<&mut Box<[Extent]>> = entries.iter_mut().map(|e| &mut e.extents).collect();
    let losers = resolve_overlaps(&mut extents);
    if !losers.is_empty() {
        eprintln!(
            "dsmctl: note: {} files share sectors with others; each goes to one of them",
            losers.len()
        );
    }
}

fn upload(
    device: &Device,
    kind: UploadKind,
    entries: &[LoadEntry],
) -> Result<Commit, dm::device::MessageError> {
    let mut upload = Upload::begin(device, kind)?;
    for e in entries {
        upload.file(&FileRecord {
            id: e.id,
            class: e.class,
            boundary: e.boundary,
            stamp: StreamStamp::default(),
            extents: &e.extents,
        })?;
    }
    upload.commit()
}

fn print_commit(name: &str, c: &Commit, seen: Option<&ExtentCounts>, out: Output) -> Result<()> {
    let mut data = json!({"generation": c.generation, "files": c.files, "extents": c.extents});
    if let Some(s) = seen {
        data["seen"] = serde_json::to_value(s)?;
    }
    crate::print(out, &data, || {
        let mut text = format!(
            "{name}: the table has {} files, {} extents; generation {}\n",
            c.files, c.extents, c.generation
        );
        if let Some(s) = seen {
            let skipped = [
                (s.delalloc, "not allocated yet"),
                (s.unknown, "of unknown place"),
                (s.inline, "inline"),
                (s.encoded, "encoded"),
                (s.elsewhere, "on another device"),
            ];
            for (n, what) in skipped.iter().filter(|(n, _)| *n > 0) {
                text.push_str(&format!("{name}: {n} extents skipped: {what}\n"));
            }
        }
        text
    })
}

fn fiemap_for(found: Found) -> Fiemap {
    if let Some(warning) = found.warning {
        eprintln!("dsmctl: note: {warning}");
    }
    Fiemap::new(found.place)
}

fn unreadable(path: &Path, e: &std::io::Error) -> anyhow::Error {
    let shown = path.display();
    if fiemap::is_unsupported(e) {
        anyhow!("{shown}: its file system does not report extents (no FIEMAP); nothing was changed")
    } else {
        anyhow!("{shown}: cannot read its extents: {e}; nothing was changed")
    }
}

fn read_files(
    device: &Device,
    files: &[PathBuf],
    class: Option<Class>,
    boundaries: &LoadedBoundaries,
) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    // One file system after the other, most likely only one.
    let mut maps: HashMap<u64, Fiemap> = HashMap::new();
    for path in files {
        let shown = path.display();
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .with_context(|| format!("{shown}: cannot open it"))?;
        let meta = file.metadata()?;
        ensure!(
            meta.is_file(),
            "{shown}: it is not a regular file; nothing was changed"
        );
        let map = match maps.entry(meta.dev()) {
            std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::hash_map::Entry::Vacant(e) => e.insert(fiemap_for(place::find(
                &file,
                path,
                &device.name,
                device.devno,
                device.sectors,
            )?)),
        };
        let mut extents = Vec::new();
        loaded.seen += map.map(&file, &mut extents).map_err(|e| unreadable(path, &e))?;
        let by_name = || ident::classify(Path::new(path.file_name().unwrap_or_default()));
        let class = class.unwrap_or_else(by_name);
        loaded.entries.push(LoadEntry {
            id: meta.ino(),
            class,
            boundary: boundaries.of(meta.ino(), class, meta.len()),
            extents: extents.into(),
        });
    }
    let mut ids: Vec<u64> = loaded.entries.iter().map(|e| e.id).collect();
    ids.sort_unstable();
    ensure!(
        ids.windows(2).all(|w| w[0] != w[1]),
        "a file was named twice; nothing was changed"
    );
    Ok(loaded)
}

pub(crate) fn open_root(dir: &Path) -> Result<Root> {
    Root::open(dir).with_context(|| format!("{}: cannot open it", dir.display()))
}

/// The files below a directory, each once, and the directory itself.
pub(crate) fn walk(root: &Root) -> Result<(Vec<(PathBuf, FoundFile)>, OwnedFd)> {
    let shown = root.path().display();
    let handle = || -> Result<OwnedFd> { root.handle()?.with_context(|| format!("{shown}: it is gone")) };
    let mut found = Collector {
        files: Vec::new(),
        on_dir: &mut |_, _| {},
        on_skip: &mut |path, why| {
            eprintln!("dsmctl: note: {} was skipped: {}", path.display(), why.reason());
        },
    };
    root.walk(handle()?, &mut found)
        .with_context(|| format!("{shown}: cannot read it"))?;
    let mut files = found.files;
    let mut seen = std::collections::HashSet::new();
    files.retain(|(_, f)| seen.insert(f.ino));
    Ok((files, handle()?))
}

fn read_dbpath(device: &Device, dbpath: &Path, boundaries: &LoadedBoundaries) -> Result<Loaded> {
    let root = open_root(dbpath)?;
    let mut map = fiemap_for(place::of_root(&root, &device.name, device.devno, device.sectors)?);
    let (files, root) = walk(&root)?;
    let mut loaded = Loaded::default();
    for (path, found) in files {
        // Removed meanwhile.
        let Some((file, stamp)) = open_file(&root, &path, found.ino)? else {
            continue;
        };
        let mut extents = Vec::new();
        loaded.seen += map.map(&file, &mut extents).map_err(|e| unreadable(&path, &e))?;
        let class = ident::classify(&path);
        loaded.entries.push(LoadEntry {
            id: found.ino,
            class,
            boundary: boundaries.of(found.ino, class, stamp.size),
            extents: extents.into(),
        });
    }
    Ok(loaded)
}

pub(crate) fn drop_files(name: &str, files: &[String], out: Output) -> Result<()> {
    let device = Device::open(name)?;
    let mut ids = Vec::new();
    for f in files {
        ids.push(match f.parse::<u64>() {
            Ok(id) => id,
            Err(_) => std::fs::metadata(f)
                .with_context(|| format!("{f}: it is neither an id nor a file"))?
                .ino(),
        });
    }
    let drop = || {
        let mut upload = Upload::begin(&device, UploadKind::Update(device.generation()?))?;
        for &id in &ids {
            upload.drop_file(id)?;
        }
        upload.commit()
    };
    let commit = drop().map_err(|e| refused(name, e))?;
    print_commit(name, &commit, None, out)
}

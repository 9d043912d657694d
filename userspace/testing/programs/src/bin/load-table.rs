// SPDX-License-Identifier: GPL-2.0-or-later
//! Tells a dsm device where files lie, without a dsmd: `load-table NAME FILE...`.  Nothing is
//! synced, so that data which was not written back yet has no place.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure, Context, Result};
use clap::Parser;
use rustix::fs::OFlags;

use database::fiemap::{self, Fiemap, Mapper};
use database::ident;
use database::place;
use dm::class::Class;
use dm::device::{Device, Target};
use dm::table::{resolve_overlaps, Extent, FileRecord, StreamStamp, Upload, UploadKind};

#[derive(Debug, Parser)]
#[command(name = "load-table")]
struct Args {
    device: String,
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// [default: by their names]
    #[arg(long)]
    class: Option<Class>,
    /// Of the files, in bytes [default: what the table has, else none]
    #[arg(long)]
    boundary: Option<u64>,
    /// Add to the table, or replace files in it, instead of replacing all of it
    #[arg(long)]
    update: bool,
}

struct Entry {
    id: u64,
    class: Class,
    extents: Box<[Extent]>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let device = Device::open(&args.device)?;
    // Before anything is read: what somebody else commits meanwhile is not known here.
    let generation = device.generation()?;
    let present: HashMap<u64, u64> = device
        .regions()?
        .iter()
        .filter_map(|r| Some((r.id, r.boundary?)))
        .collect();
    let mut entries = read(&device, &args)?;
    // Files that share extents (reflinks) cannot be in the table as they are.
    let mut extents: Vec<&mut Box<[Extent]>> = entries.iter_mut().map(|e| &mut e.extents).collect();
    resolve_overlaps(&mut extents);
    let kind = match args.update {
        true => UploadKind::Update(generation),
        false => UploadKind::Full,
    };
    let mut upload = Upload::begin(&device, kind)?;
    for e in &entries {
        upload.file(&FileRecord {
            id: e.id,
            class: e.class,
            boundary: args.boundary.or_else(|| present.get(&e.id).copied()),
            stamp: StreamStamp::default(),
            extents: &e.extents,
        })?;
    }
    upload.commit()?;
    Ok(())
}

fn read(device: &Device, args: &Args) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in &args.files {
        let shown = path.display();
        let file = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)
            .with_context(|| format!("{shown}: cannot open it"))?;
        let meta = file.metadata()?;
        ensure!(meta.is_file(), "{shown}: it is not a regular file");
        let found = place::find(&file, path, &device.name, device.devno, device.sectors)?;
        let mut extents = Vec::new();
        let mapped = Fiemap::new(found.place).map(&file, &mut extents);
        mapped.map_err(|e| match fiemap::is_unsupported(&e) {
            true => anyhow!("{shown}: its file system does not report extents (no FIEMAP)"),
            false => anyhow!("{shown}: cannot read its extents: {e}"),
        })?;
        let by_name = || ident::classify(Path::new(path.file_name().unwrap_or_default()));
        entries.push(Entry {
            id: meta.ino(),
            class: args.class.unwrap_or_else(by_name),
            extents: extents.into(),
        });
    }
    Ok(entries)
}

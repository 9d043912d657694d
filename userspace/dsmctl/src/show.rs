// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl status` and `dsmctl boundary show`.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{json, Value};

use crate::cli::{self as args, Output, Status};
use crate::load::{open_root, walk};
use crate::refused;
use crate::report::StatusReport;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::ioctl::Dm;
use dm::sysfs::Sysfs;
use drive::{below, broken};
use proto::control::{self, FileInfo, Request};
use proto::regions::Names;
use proto::sample::{Service, State};
use proto::snapshot::Snapshot;

/// A dsmd that takes longer has more to say than this asks for, or does not answer.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn status(a: &Status, out: Output) -> Result<()> {
    let names = match &a.name {
        Some(name) => vec![name.clone()],
        None => Device::all()?,
    };
    let mut reports = Vec::new();
    for name in &names {
        reports.push(report(name, a)?);
    }
    let devices: Vec<Value> = match out {
        Output::Json => reports.iter().map(StatusReport::json).collect(),
        Output::Text => Vec::new(),
    };
    let width = width();
    crate::print(out, &json!({ "devices": devices }), || {
        if reports.is_empty() {
            return "no dsm devices\n".to_owned();
        }
        let texts: Vec<String> = reports.iter().map(|r| r.text(width)).collect();
        texts.join("\n")
    })
}

/// The terminal's; what is no terminal takes lines as they are.
pub(crate) fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |w| w.ws_col);
    match columns {
        0 => usize::MAX,
        n => n.into(),
    }
}

fn report(name: &str, a: &Status) -> Result<StatusReport> {
    let device = Device::open(name)?;
    let table = device.table_line()?;
    let below = table
        .below
        .parse::<DevNo>()
        .map_or_else(|()| table.below.clone(), |d| Sysfs::default().name(d));
    // What lies below changes while it is looked at.
    let affords = match table.below.parse() {
        Ok(dev) => below::of(&Sysfs::default(), &Dm::open()?, dev).ok(),
        Err(()) => None,
    };
    let (regions, (names, nameless)) = if a.regions {
        let regions = device.regions().map_err(|e| refused(name, e))?;
        (Some(regions), file_names(name, a.dbpath.as_deref())?)
    } else {
        (None, (Names::new(), None))
    };
    let service = service(&device.name);
    // One that is stuck would not answer.
    let stuck = service.as_ref().is_some_and(|s| s.state == State::Stuck);
    let (agent, silent) = match stuck {
        true => (None, None),
        false => match control::ask_within(TIMEOUT, &args::run_dir(), &device.name, Request::Info) {
            Ok(info) => (Some(info), None),
            Err(e) => (None, Some(format!("{e:#}"))),
        },
    };
    Ok(StatusReport {
        name: device.name.clone(),
        device: device.devno.to_string(),
        sectors: device.sectors,
        status: device.status().map_err(|e| refused(name, e))?,
        agent,
        silent,
        service,
        table,
        below,
        regions,
        names,
        nameless,
        affords,
        barred: broken::below(
            Path::new(broken::DIR),
            &Sysfs::default(),
            &device.name,
            device.devno,
        ),
    })
}

/// What dsmd publishes of a database.
fn service(device: &str) -> Option<Service> {
    let snapshot = Snapshot::current(&args::run_dir()).ok()?;
    let mut devices = snapshot.devices.into_iter();
    Some(devices.find(|d| d.device == device)?.service)
}

/// From a directory, else from dsmd; without both there are ids only, for this reason.
pub(crate) fn file_names(name: &str, dbpath: Option<&Path>) -> Result<(Names, Option<String>)> {
    if let Some(dir) = dbpath {
        let (files, _) = walk(&open_root(dir)?)?;
        let named = |(path, f): (std::path::PathBuf, files::walk::FoundFile)| {
            (f.ino, path.to_string_lossy().into_owned())
        };
        return Ok((files.into_iter().map(named).collect(), None));
    }
    Ok(
        match control::ask_within::<Vec<FileInfo>>(TIMEOUT, &args::run_dir(), name, Request::Files) {
            Ok(files) => (files.into_iter().map(|f| (f.id, f.path)).collect(), None),
            Err(e) => (Names::new(), Some(format!("{e:#}"))),
        },
    )
}

pub(crate) fn boundaries(name: &str, out: Output) -> Result<()> {
    let files: Vec<FileInfo> = crate::ask(name, Request::Files)?;
    crate::print(out, &json!({ "files": files }), || {
        crate::report::boundaries_text(&files)
    })
}

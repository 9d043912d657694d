// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl status` and `dsmctl boundary show`.

use std::io::{stdout, IsTerminal};
use std::time::Duration;

use anyhow::{bail, Result};
use serde_json::json;

use crate::cli::{Output, StatusArgs};
use crate::report;
use crate::view::{Asks, Viewer};
use proto::control::{FileInfo, Request};
use proto::device::DeviceView;
use proto::rates::Rates;
use proto::regions::{self, Names};
use runtime::wake::Signals;

/// Puts the cursor home and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[J";
/// Of something that is not a terminal.
const ROWS: usize = 40;
/// A drive is not asked more often: SATA's attributes stop its queue.
const DRIVE: Duration = Duration::from_secs(10);

pub(crate) fn status(a: &StatusArgs, out: Output) -> Result<()> {
    if let (true, Some(name)) = (a.watch, &a.name) {
        return watch(name, a, out);
    }
    let viewer = Viewer::new();
    let names = match &a.name {
        Some(name) => [name.clone()].into(),
        None => viewer.names()?,
    };
    let asks = Asks {
        regions: a.regions,
        drive: false,
    };
    let views = names
        .iter()
        .map(|n| seen(&viewer, n, asks))
        .collect::<Result<Vec<_>>>()?;
    crate::print(out, &json!({ "devices": views }), || {
        if views.is_empty() {
            return "no dsm devices\n".to_owned();
        }
        let texts = views.iter().map(|v| report::text(v, screen().1));
        texts.collect::<Vec<_>>().join("\n")
    })
}

/// A device that there is, with names of files.
fn seen(viewer: &Viewer, name: &str, asks: Asks) -> Result<DeviceView> {
    let mut v = viewer.view(name, asks);
    if v.kernel.is_none() {
        bail!(v
            .unseen
            .unwrap_or_else(|| format!("{name}: it cannot be seen").into()));
    }
    if let Some(regions) = &mut v.regions {
        let (names, nameless) = file_names(name);
        regions::name(regions, &names);
        v.nameless = nameless;
    }
    Ok(v)
}

/// What was written between looks, until somebody ends it.
fn watch(name: &str, a: &StatusArgs, out: Output) -> Result<()> {
    let signals = Signals::new()?;
    let look = |drive| {
        let asks = Asks { regions: true, drive };
        seen(&Viewer::new(), name, asks)
    };
    let clear = if stdout().is_terminal() { CLEAR } else { "" };
    let first = look(true)?;
    // The last whose drive was asked.
    let (mut old, mut asked) = (first.clone(), first.clone());
    let mut frames = 0;
    while a.count.is_none_or(|n| frames < n) {
        if signals.wait(a.interval.0) {
            break;
        }
        let due = old.at.monotonic.saturating_sub(asked.at.monotonic) + a.interval.0 >= DRIVE;
        let mut new = look(due)?;
        if due {
            asked = new.clone();
        }
        let mut rates = Rates::between(&old, &new).unwrap_or_default();
        rates.drive = Rates::between(&first, &asked).and_then(|r| r.drive);
        new.rates = Some(rates);
        let text = match out {
            Output::Json => serde_json::to_string(&new)?,
            Output::Text => {
                let (rows, columns) = screen();
                clear.to_owned() + &report::rates_text(&new, rows, columns)
            }
        };
        if !crate::write(&(text + "\n"))? {
            break;
        }
        old = new;
        frames += 1;
    }
    Ok(())
}

/// Lines of the terminal but the cursor's, and its columns; what is no terminal takes lines as they
/// are.
fn screen() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(stdout()) {
        Ok(w) if w.ws_col > 0 => (usize::from(w.ws_row).max(10) - 1, w.ws_col.into()),
        _ => (ROWS, usize::MAX),
    }
}

/// By dsmd; without it there are ids only, for this reason.
fn file_names(name: &str) -> (Names, Option<String>) {
    match crate::ask_soon::<Vec<FileInfo>>(name, Request::Files) {
        Ok(files) => (files.into_iter().map(|f| (f.id, f.path)).collect(), None),
        Err(e) => (Names::new(), Some(format!("{e:#}"))),
    }
}

pub(crate) fn boundaries(name: &str, out: Output) -> Result<()> {
    let files: Vec<FileInfo> = crate::ask(name, Request::Files)?;
    crate::print(out, &json!({ "files": files }), || {
        report::boundaries_text(&files)
    })
}

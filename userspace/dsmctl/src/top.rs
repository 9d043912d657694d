// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl top`

mod frame;

use std::io::{stdout, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::Result;

use self::frame::{Counted, DriveWrites, Frame};
use crate::cli::{Output, Top};
use crate::refused;
use crate::show::{file_names, width};
use dm::device::{Device, Target};
use dm::sysfs::Sysfs;
use drive::media;
use policies::layout::{self, Layout};
use runtime::wake::Signals;

/// Puts the cursor home and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[J";
/// Of something that is not a terminal.
const ROWS: usize = 40;
/// A drive is not asked more often: SATA's attributes stop its queue.
const DRIVE: Duration = Duration::from_secs(10);

pub(crate) fn top(a: &Top, out: Output) -> Result<()> {
    let device = Device::open(&a.name)?;
    let signals = Signals::new()?;
    let look = || -> Result<Counted> {
        Ok(Counted {
            status: device.status().map_err(|e| refused(&a.name, e))?,
            regions: device.regions().map_err(|e| refused(&a.name, e))?,
        })
    };
    let terminal = out == Output::Text && stdout().is_terminal();
    let (mut old, mut then) = (look()?, Instant::now());
    let ask = || (media::of(&Sysfs::default(), device.devno).ok(), Instant::now());
    let began = ask();
    let mut drive = began.clone();
    let mut frames = 0;
    while a.count.is_none_or(|n| frames < n) {
        if signals.wait(a.interval.0) {
            break;
        }
        let (new, now) = (look()?, Instant::now());
        let table = device.table_line()?;
        let uses = layout::uses(&Layout::of(&table, &new.status));
        let (names, nameless) = file_names(&a.name, None)?;
        let mut frame = Frame::new(&device.name, now - then, &old, &new, &uses, &names);
        frame.nameless = nameless;
        if now - drive.1 >= DRIVE {
            drive = ask();
        }
        if let (Some(old), Some(new)) = (&began.0, &drive.0) {
            frame.drive = DriveWrites::between(old, new, drive.1 - began.1);
        }
        let text = match out {
            Output::Json => serde_json::to_string(&frame)?,
            Output::Text if terminal => CLEAR.to_owned() + &frame.text(rows(), width()),
            Output::Text => frame.text(ROWS, usize::MAX),
        };
        if !crate::print_line(&text)? {
            break;
        }
        (old, then) = (new, now);
        frames += 1;
    }
    Ok(())
}

/// Lines of the terminal but the cursor's.
fn rows() -> usize {
    rustix::termios::tcgetwinsize(stdout()).map_or(ROWS, |w| usize::from(w.ws_row).max(10) - 1)
}

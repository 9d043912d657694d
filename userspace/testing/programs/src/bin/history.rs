// SPDX-License-Identifier: GPL-2.0-or-later
//! What `/history` of dsm-exporter would be, from what dsmd has published: `history
//! FILE...`, in their order.  tests/dashboard/pictures draws the page of a run in virtual
//! time with it.

use std::fs;
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use dsm_exporter::page_history::History;
use proto::snapshot::Snapshot;

fn main() -> Result<()> {
    let mut history = History::default();
    let mut files = std::env::args_os().skip(1).map(PathBuf::from).peekable();
    ensure!(files.peek().is_some(), "usage: history FILE...");
    for file in files {
        let context = || format!("cannot read {}", file.display());
        let text = fs::read_to_string(&file).with_context(context)?;
        let sample = serde_json::from_str(&text).with_context(context)?;
        history.add(&Snapshot::of(vec![sample]).with_context(context)?);
    }
    println!("{}", history.json(0, None));
    Ok(())
}

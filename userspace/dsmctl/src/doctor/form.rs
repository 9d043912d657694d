// SPDX-License-Identifier: GPL-2.0-or-later
//! What people and programs are shown of a diagnosis.

use std::fmt::Write as _;

use serde_json::{json, Value};

use super::{Diagnosis, Finding, Ink, Level};
use runtime::text::wrap;

/// Columns of a line, and where texts begin.
const WIDTH: usize = 80;
const TEXT: usize = 24;

const HEAD: &str = "\
dm-dsm: a report from the field

It has no names, no paths and no serial numbers. Take out of it what you would not
like to tell, and fill in what only you know:

  the drive's use so far, and how full it is:
  database, version, and what it does:
  settings that differ from the defaults:
  how long it ran with streams or discards, and how long without:
  what you saw (write amplification, throughput, latency):
  what you did not expect:
";

impl Level {
    fn mark(self) -> &'static str {
        match self {
            Self::Right => "ok",
            Self::Note => "note",
            Self::Wrong => "WRONG",
            Self::Unknown => "?",
        }
    }
}

fn things(n: usize) -> String {
    match n {
        1 => "1 thing is".to_owned(),
        n => format!("{n} things are"),
    }
}

impl Diagnosis {
    pub(crate) fn text(&self, ink: &Ink) -> String {
        let mut text = String::new();
        if ink.hides() {
            text += HEAD;
            writeln!(text, "\ndsmctl {}", env!("CARGO_PKG_VERSION")).expect("strings grow");
        }
        let mut about: Option<&Option<String>> = None;
        for f in &self.findings {
            if about != Some(&f.device) {
                let heading = f.device.as_ref().map_or_else(
                    || "this machine".to_owned(),
                    |name| ink.write(&super::ink::device(name)),
                );
                let blank = if text.is_empty() { "" } else { "\n" };
                writeln!(text, "{blank}{heading}").expect("strings grow");
                about = Some(&f.device);
            }
            finding(&mut text, f, ink);
        }
        writeln!(text, "\n{}", self.summary()).expect("strings grow");
        text
    }

    fn summary(&self) -> String {
        let unknown = match self.count(Level::Unknown) {
            0 => String::new(),
            n => format!(" {} not to be seen: try again as root.", things(n)),
        };
        match self.count(Level::Wrong) {
            0 if unknown.is_empty() => "Nothing is wrong.".to_owned(),
            0 => format!("Nothing wrong was seen.{unknown}"),
            n => format!("{} wrong.{unknown}", things(n)),
        }
    }

    /// The programs' form, see the help of `dsmctl doctor`.
    pub(crate) fn json(&self, ink: &Ink) -> Value {
        let finding = |f: &Finding| {
            let mut v = serde_json::to_value(f).unwrap_or_default();
            if ink.hides() {
                v["device"] = f.device.as_ref().map(super::ink::device).into();
                v["fix"] = json!([]);
            }
            ink.value(&v)
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "status": match self.status() { 0 => "right", 1 => "wrong", _ => "unknown" },
            "wrong": self.count(Level::Wrong),
            "unknown": self.count(Level::Unknown),
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}

fn finding(text: &mut String, f: &Finding, ink: &Ink) {
    let mut head = format!("  {:<5}  {:<13}  ", f.level.mark(), f.check);
    for line in wrap(&ink.write(&f.text), WIDTH - TEXT) {
        text.push_str(&head);
        text.push_str(&line);
        text.push('\n');
        head = " ".repeat(TEXT);
    }
    if ink.hides() {
        let values = f.values.iter().filter(|(_, v)| !v.is_null());
        for (name, value) in values {
            writeln!(text, "{:TEXT$}{name} = {}", "", ink.value(value)).expect("strings grow");
        }
        return;
    }
    let mut word = "fix:";
    for command in &f.fix {
        // Commands are not cut: they are copied.
        writeln!(text, "{:11}{word:<6}{}", "", ink.write(command)).expect("strings grow");
        word = "then:";
    }
    let indent = 17;
    for line in wrap(
        &f.hint.as_deref().map(|h| ink.write(h)).unwrap_or_default(),
        WIDTH - indent - 2,
    ) {
        writeln!(text, "{:indent$}{line}", "").expect("strings grow");
    }
}

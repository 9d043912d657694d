// SPDX-License-Identifier: GPL-2.0-or-later
//! What the options in `/etc/dsmtab` mean: what they do for `dsmctl create`.

use std::path::Path;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use crate::cli::Create;
use crate::dsmtab::{self, Bad, TabLine, NOAUTO};

/// A line as `dsmctl create` would be called: one truth about the options.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    create: Create,
}

#[derive(Debug)]
pub struct TabEntry {
    pub create: Create,
    pub noauto: bool,
}

pub type Tab = dsmtab::Tab<TabEntry>;

/// The table at `path`.  One that is not there is empty.
pub fn read(path: &Path) -> Result<Tab> {
    Tab::read(path, entry)
}

/// The line of a device.
pub fn find<'a>(tab: &'a Tab, name: &str) -> Option<Result<&'a TabEntry, &'a Bad>> {
    let good = tab.entries.iter().find(|e| e.create.name == name).map(Ok);
    good.or_else(|| tab.bad.iter().find(|b| b.name == name).map(Err))
}

fn entry(line: TabLine) -> Result<TabEntry, String> {
    let noauto = line.noauto;
    let mut words = vec![line.name, line.dev.display().to_string()];
    for option in &line.options {
        words.push(word(option)?);
    }
    match Words::try_parse_from(words) {
        Ok(Words { create }) => {
            create.features.follow_drive()?;
            Ok(TabEntry { create, noauto })
        }
        Err(e) => Err(reason(&e)),
    }
}

/// An option as a word of the command line.
fn word(option: &str) -> Result<String, String> {
    let key = dsmtab::key(option);
    let long = key.replace('_', "-");
    let command = Words::command();
    let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    if !known.contains(&long.as_str()) {
        let known = known.join(", ");
        return Err(format!("the option {key:?} is none of {known}, {NOAUTO}"));
    }
    match option.split_once('=') {
        Some((_, value)) if !value.is_empty() => Ok(format!("--{long}={value}")),
        _ => Err(format!("the option {key} has no value, it must be {key}=VALUE")),
    }
}

/// What clap says, without the usage that goes with a command line.
fn reason(e: &clap::Error) -> String {
    let text = |kind| match e.get(kind) {
        Some(ContextValue::String(s)) => Some(s.clone()),
        Some(ContextValue::Strings(s)) => Some(s.join(", ")),
        _ => None,
    };
    let (arg, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let reason = std::error::Error::source(e).map(|s| format!("{s}"));
    let allowed = text(ContextKind::ValidValue).map(|v| format!("it must be one of {v}"));
    match (arg, value, reason.or(allowed)) {
        (Some(arg), Some(value), Some(why)) => {
            let key = arg.trim_start_matches('-').split(' ').next().unwrap_or_default();
            format!("{key}={value}: {why}")
        }
        _ => e.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Auto;

    #[test]
    fn options_are_those_of_create() {
        let tab = Tab::parse(
            "b /dev/x policy=boundary,groups=4,feature=primary_filter=off,feature=threshold2=5,streams=7,noauto,\
             discard_granularity=128K,discard_alignment=auto\n",
            entry,
        );
        assert_eq!(tab.bad, []);
        let b = find(&tab, "b").unwrap().unwrap();
        let c = &b.create.features;
        assert!(b.noauto);
        assert_eq!(b.create.dev, Path::new("/dev/x"));
        assert_eq!((c.groups, c.streams), (Some(Auto::Number(4)), Auto::Number(7)));
        let words = ["primary_filter off", "threshold2 5"];
        assert!(c.features.iter().map(|(n, v)| format!("{n} {v}")).eq(words));
        assert_eq!(
            (c.discard_granularity, c.discard_alignment),
            (Some(Auto::Number(128 << 10)), Some(Auto::Auto))
        );
    }

    #[test]
    fn the_page_has_every_option() {
        let page = include_str!("../../systemd/dsmtab.5").lines();
        let bold = page.filter_map(|l| l.strip_prefix(".B ").or_else(|| l.strip_prefix(".BR ")));
        let bold: Vec<&str> = bold.filter_map(|words| words.split(' ').next()).collect();
        let command = Words::command();
        let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert!(known.contains(&"policy"));
        for option in known {
            assert!(bold.contains(&option), "{option}");
        }
    }

    #[test]
    fn a_line_is_found_by_its_name() {
        let tab = Tab::parse("a /dev/x\nb /dev/y groups=many\n", entry);
        assert!(find(&tab, "a").unwrap().is_ok());
        let b = find(&tab, "b").unwrap().unwrap_err();
        assert_eq!(b.to_string(), "line 2: groups=many: it must be auto or a number");
        assert!(find(&tab, "d").is_none());
    }

    #[test]
    fn refusals() {
        for (option, wanted) in [
            ("colour=red", "the option \"colour\" is none of policy, "),
            ("help", "the option \"help\" is none of"),
            ("groups", "the option groups has no value"),
            ("groups=", "the option groups has no value"),
            ("noauto=1", "the option \"noauto\" is none of"),
            (
                "policy=best",
                &format!("policy=best: it must be one of {}", policies::names().join(", ")),
            ),
            ("alpha=4", "the option \"alpha\" is none of"),
            ("feature=alpha", "feature=alpha: it must be NAME=VALUE"),
            (
                "feature=alpha=4,feature=alpha=5",
                "the option feature=alpha is given twice",
            ),
            (
                "feature=discard-alignment=4K",
                "feature=discard-alignment=4K: this is the option --discard-alignment",
            ),
            ("streams=few", "streams=few: it must be auto or a number"),
            (
                "policy=dsm,groups=auto",
                "groups auto chooses the policy, too: it cannot be given with policy dsm",
            ),
            (
                "discard_granularity=much",
                "discard-granularity=much: it must be auto or a number of bytes",
            ),
        ] {
            let tab = Tab::parse(&format!("a /dev/x {option}"), entry);
            let said = &tab.bad[0].what;
            assert!(said.starts_with(wanted), "{option}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

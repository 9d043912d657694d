// SPDX-License-Identifier: GPL-2.0-or-later
//! What the options in `/etc/dsmtab` mean: what they do for `dsmctl create`.

use std::path::Path;

use anyhow::{bail, Result};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use crate::cli::Create;
use dm::devno::DevNo;
use dm::dsmtab::{self, Bad, TabLine, NOAUTO};
use dm::sysfs::Sysfs;
use drive::identity::{self, Identities};

/// A line as `dsmctl create` would be called: one truth about the options.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    create: Create,
}

#[derive(Debug)]
pub(crate) struct TabEntry {
    pub create: Create,
    pub noauto: bool,
}

pub(crate) type Tab = dsmtab::Tab<TabEntry>;

/// The table at `path`.  One that is not there is empty.
pub(crate) fn read(path: &Path) -> Result<Tab> {
    Tab::read(path, entry)
}

/// The line of a device.
pub(crate) fn find<'a>(tab: &'a Tab, name: &str) -> Option<Result<&'a TabEntry, &'a Bad>> {
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

/// Refuses another drive than the one that is named, or that the line had before.
pub(crate) fn check_drive(sysfs: &Sysfs, a: &Create, dev: DevNo) -> Result<()> {
    let (shown, name) = (a.dev.display(), &a.name);
    let found = identity::of(sysfs, dev);
    let it_is = found.as_ref().map_or_else(
        || "it does not say which drive it is".to_owned(),
        |found| format!("it is {found}"),
    );
    if let Some(wanted) = a.wwid.as_ref().filter(|w| found.as_ref() != Some(w)) {
        bail!("{shown}: {it_is}, and not {wanted}, which wwid names; nothing was changed");
    }
    if let Some(kept) = a.kept.as_ref().filter(|k| found.as_ref() != Some(k)) {
        bail!(
            "{shown}: {it_is}, and {name} was made of {kept} before: `dsmctl attach --accept {name}` takes \
             it from now on; nothing was changed"
        );
    }
    Ok(())
}

/// What is wrong with the lines of a table, by the devices that are there now; `block`
/// gives a path's.
pub(crate) fn problems(known: &Identities, tab: &Tab, block: &dyn Fn(&Path) -> Option<DevNo>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut before: Vec<(DevNo, &Create)> = Vec::new();
    for a in tab.entries.iter().map(|e| &e.create) {
        let Some(dev) = block(&a.dev) else { continue };
        problems.extend(
            known
                .ambiguous(&a.dev, dev)
                .map(|why| format!("{}: {why}", a.name)),
        );
        let mut expected = a.clone();
        match known.kept(&a.name) {
            Ok(kept) => expected.kept = kept,
            Err(e) => problems.push(format!("{e:#}")),
        }
        // Of a device that is there, the path may lead elsewhere already.
        problems.extend(
            check_drive(&known.sysfs, &expected, dev)
                .err()
                .map(|e| format!("{}: {e:#}", a.name)),
        );
        if let Some((_, other)) = before.iter().find(|(d, b)| *d == dev && overlap(a, b)) {
            problems.push(format!(
                "{} and {} are both of {}",
                other.name,
                a.name,
                known.sysfs.name(dev)
            ));
        }
        before.push((dev, a));
    }
    problems
}

fn overlap(a: &Create, b: &Create) -> bool {
    let end = |c: &Create| c.size.map_or(u64::MAX, |size| c.start.saturating_add(size));
    a.start < end(b) && b.start < end(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Auto;
    use std::fs;
    use testing::sysfs::Tree;

    const FIRST: &str = "259:1";
    const SECOND: &str = "259:2";
    const LINK: &str = "/dev/disk/by-id/nvme-MODEL_SERIAL";

    /// Two namespaces, to both of which a link may lead.
    fn machine() -> (Tree, tempfile::TempDir, Identities) {
        let (tree, dir) = (Tree::make(), tempfile::tempdir().unwrap());
        for (dev, name, eui) in [(FIRST, "nvme0n1", "eui.01"), (SECOND, "nvme0n2", "eui.02")] {
            tree.add(dev, name);
            tree.set(dev, "wwid", eui);
            fs::write(
                dir.path().join(format!("b{dev}")),
                "S:disk/by-id/nvme-MODEL_SERIAL\n",
            )
            .unwrap();
        }
        let known = Identities {
            sysfs: tree.sysfs(),
            udev: dir.path().to_owned(),
            kept: dir.path().join("kept"),
        };
        (tree, dir, known)
    }

    fn table(text: &str) -> Tab {
        let tab = Tab::parse(text, entry);
        assert_eq!(tab.bad, []);
        tab
    }

    fn dev(text: &str) -> DevNo {
        text.parse().unwrap()
    }

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

    #[test]
    fn a_line_keeps_its_drive() {
        let (_tree, dir, i) = machine();
        let tab = table(&format!("rs0 {LINK}\n"));
        let at = |d: &'static str| problems(&i, &tab, &move |_| Some(dev(d)));
        assert_eq!(i.kept("rs0").unwrap(), None);
        assert_eq!(at(FIRST).len(), 1, "the name alone");
        i.keep("rs0", &identity::of(&i.sysfs, dev(FIRST)).unwrap())
            .unwrap();
        assert_eq!(i.kept("rs0").unwrap().as_deref(), Some("eui.01"));
        assert_eq!(at(FIRST).len(), 1);
        assert_eq!(
            at(SECOND)[1],
            format!(
                "rs0: {LINK}: it is eui.02, and rs0 was made of eui.01 before: `dsmctl attach --accept rs0` takes \
                 it from now on; nothing was changed"
            )
        );
        // What was torn names no drive.
        fs::write(dir.path().join("kept/drive-rs0"), "").unwrap();
        assert!(i
            .kept("rs0")
            .unwrap_err()
            .to_string()
            .contains("does not name a drive"));
    }

    #[test]
    fn a_line_names_its_drive() {
        let (tree, _dir, i) = machine();
        let tab = table("rs0 /dev/x wwid=eui.01\n");
        let said = |d| check_drive(&i.sysfs, &tab.entries[0].create, dev(d));
        assert!(said(FIRST).is_ok());
        assert_eq!(
            said(SECOND).unwrap_err().to_string(),
            "/dev/x: it is eui.02, and not eui.01, which wwid names; nothing was changed"
        );
        tree.add("7:0", "loop0");
        assert_eq!(
            said("7:0").unwrap_err().to_string(),
            "/dev/x: it does not say which drive it is, and not eui.01, which wwid names; nothing was changed"
        );
    }

    #[test]
    fn two_lines_of_one_disk() {
        let (_tree, _dir, known) = machine();
        let one = |_: &Path| Some(dev(FIRST));
        let problems = |text: &str| problems(&known, &table(text), &one);
        assert_eq!(problems("a /dev/x\nb /dev/y\n"), ["a and b are both of nvme0n1"]);
        assert_eq!(problems("a /dev/x size=8\nb /dev/y start=8\n"), [""; 0]);
        assert_eq!(problems("a /dev/x size=9\nb /dev/y start=8\n").len(), 1);
    }
}

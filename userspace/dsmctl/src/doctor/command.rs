// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl doctor`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{look, Configuration, Diagnosis, Ink, Wanted};
use crate::cli::{self as args, Doctor, Output};
use crate::create::{self, User};
use crate::tab as table;
use crate::view::Viewer;
use dm::device::Device;
use dm::dsmtab::TAB;
use dm::mode::Mode;
use dm::sysfs::Sysfs;
use drive::identity::Identities;
use files::config::Config;

/// The exit status.
pub(crate) fn doctor(a: &Doctor, out: Output) -> Result<u8> {
    let configuration = configuration(&a.config, Path::new(TAB));
    let facts = look(&a.names, configuration, &Viewer::new(args::run_dir()));
    let diagnosis = Diagnosis::of(&facts, a.checkpoint_seconds.0);
    let ink = if a.report { Ink::hiding() } else { Ink::plain() };
    let json = match out {
        Output::Json => diagnosis.json(&ink),
        Output::Text => serde_json::Value::Null,
    };
    crate::print(out, &json, || diagnosis.text(&ink))?;
    Ok(diagnosis.status())
}

/// What files say that there is to be; one that is not there says nothing.
fn configuration(path: &Path, tab: &Path) -> Configuration {
    let mut c = Configuration {
        path: path.to_owned(),
        ..Configuration::default()
    };
    if path.exists() {
        match Config::read(path) {
            Ok(config) => {
                let wanted = config.databases.into_iter().map(|d| {
                    let wanted = Wanted {
                        dbpath: d.dbpath,
                        discard: d.discard != Mode::Off,
                    };
                    (d.device, wanted)
                });
                c.databases = wanted.collect();
            }
            Err(e) => c.wrong = Some(format!("{e:#}")),
        }
    }
    match table::read(tab) {
        Ok(table) => {
            let block = |path: &Path| create::block_device(path).ok();
            let problems = table::problems(&Identities::default(), &table, &block);
            let sized = table.entries.iter().filter(|e| e.create.size.is_some());
            c.sized = sized.map(|e| e.create.name.clone()).collect();
            let lines = table.entries.iter().map(|e| &e.create);
            let without = lines.filter(|c| Device::open(&c.name).is_err());
            c.held = without
                .filter_map(|c| Some((c.name.clone(), held(&c.dev)?)))
                .collect();
            let at_boot = table.entries.into_iter().filter(|e| !e.noauto);
            c.tab = at_boot.map(|e| e.create.name).collect();
            c.bad_lines = table
                .bad
                .iter()
                .map(|bad| format!("{}: {bad}", tab.display()))
                .chain(problems.iter().map(|why| format!("{}: {why}", tab.display())))
                .collect();
        }
        Err(e) => c.bad_lines.push(format!("{e:#}")),
    }
    c
}

/// Who uses the drive of a line.
fn held(path: &Path) -> Option<(PathBuf, User)> {
    let user = User::of(&Sysfs::default(), create::block_device(path).ok()?)?;
    Some((path.to_owned(), user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_say_that_there_is_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let (toml, tab) = (dir.path().join("dsmd.toml"), dir.path().join("dsmtab"));
        let none = configuration(&toml, &tab);
        assert!(none.databases.is_empty() && none.tab.is_empty() && none.wrong.is_none());
        std::fs::write(
            &toml,
            "[[database]]\ndevice = \"a\"\ndbpath = \"/a\"\ndiscard = true\n",
        )
        .unwrap();
        std::fs::write(&tab, "b /dev/x size=8\nc /dev/y noauto\nd /dev/z groups=many\n").unwrap();
        let c = configuration(&toml, &tab);
        assert_eq!((c.databases.len(), c.databases["a"].discard), (1, true));
        assert_eq!((&c.tab, &c.sized), (&vec!["b".to_owned()], &vec!["b".to_owned()]));
        assert_eq!(c.bad_lines.len(), 1);
        assert!(
            c.bad_lines[0].contains("line 3: groups=many"),
            "{:?}",
            c.bad_lines
        );
        std::fs::write(&toml, "[[database]]\n").unwrap();
        assert!(configuration(&toml, &tab)
            .wrong
            .unwrap()
            .contains("dsmd.toml: line 1"));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl doctor`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{look, Configuration, Diagnosis, Ink, Wanted};
use crate::cli::{self as args, Doctor, Output};
use crate::create::{self, User};
use crate::device_file::{self, DeviceFile};
use crate::view::Viewer;
use dm::device::Device;
use dm::mode::Mode;
use dm::sysfs::Sysfs;
use drive::identity::Identities;

/// The exit status.
pub(crate) fn doctor(a: &Doctor, out: Output) -> Result<u8> {
    let facts = look(&a.names, configuration(&a.dir), &Viewer::new(args::run_dir()));
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
fn configuration(dir: &Path) -> Configuration {
    let mut c = Configuration::default();
    let files = match device_file::all(dir) {
        Ok(files) => files,
        Err(e) => {
            c.bad_lines.push(format!("{e:#}"));
            return c;
        }
    };
    let block = |path: &Path| create::block_device(path);
    c.bad_lines = device_file::problems(&Identities::default(), &files, &block);
    for (name, file) in files {
        let Ok(DeviceFile { config, create }) = file else {
            continue;
        };
        if let Some(dbpath) = config.dbpath {
            let discard = config.discard != Mode::Off;
            c.databases.insert(name.clone(), Wanted { dbpath, discard });
        }
        let Some(create) = create else { continue };
        if create.size.is_some() {
            c.sized.push(name.clone());
        }
        if let Some(user) = held(&create.dev).filter(|_| Device::open(&name).is_err()) {
            c.held.insert(name.clone(), user);
        }
        if config.boot {
            c.tab.push(name);
        }
    }
    c
}

/// Who uses a drive.
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
        let none = configuration(&dir.path().join("none"));
        assert!(none.databases.is_empty() && none.tab.is_empty() && none.bad_lines.is_empty());
        for (name, text) in [
            ("a", "dbpath = '/a'\ndiscard = true\n"),
            ("b", "drive = '/dev/null'\nsize = 8\n"),
            ("c", "drive = '/dev/null'\nboot = false\n"),
            ("d", "drive = '/dev/null'\ngroups = 'many'\n"),
        ] {
            std::fs::write(dir.path().join(format!("{name}.toml")), text).unwrap();
        }
        let c = configuration(dir.path());
        assert_eq!((c.databases.len(), c.databases["a"].discard), (1, true));
        assert_eq!((&c.tab, &c.sized), (&vec!["b".to_owned()], &vec!["b".to_owned()]));
        assert!(
            c.bad_lines.iter().any(|l| l.contains("d.toml: groups=many")),
            "{:?}",
            c.bad_lines
        );
    }
}

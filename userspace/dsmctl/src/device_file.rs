// SPDX-License-Identifier: GPL-2.0-or-later
//! What `/etc/dsm/NAME.toml` says of a device, as `dsmctl create` has it; and what is wrong with it,
//! before a reboot does: `dsmctl check`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, ensure, Context, Result};

use crate::cli::{self as args, Create, Features};
use crate::create;
use database::config::{self, Config, Word};
use database::place;
use database::rules::Rules;
use database::walk::Root;
use dm::device::Device;
use dm::devno::DevNo;
use dm::mode::Mode;
use dm::sysfs::Sysfs;
use drive::identity::{self, Identities};
use runtime::text::{self, printable};
use runtime::whole;

/// A device that has a file.
#[derive(Clone, Debug)]
pub(crate) struct DeviceFile {
    pub config: Config,
    /// Nothing: somebody else makes it.
    pub create: Option<Create>,
}

impl DeviceFile {
    pub(crate) fn is_made_at_boot(&self) -> bool {
        self.config.boot && self.create.is_some()
    }
}

pub(crate) fn read(dir: &Path, device: &str) -> Result<DeviceFile> {
    let path = config::path_of(dir, device);
    let config = Config::read(&path)?;
    let create = create_of(&config).map_err(|why| anyhow!("{}: {why}", path.display()))?;
    Ok(DeviceFile { config, create })
}

/// All files, or what is wrong with one.
pub(crate) fn all(dir: &Path) -> Result<Vec<(String, Result<DeviceFile>)>> {
    let names = config::devices(dir)?.into_iter();
    Ok(names.map(|name| (name.clone(), read(dir, &name))).collect())
}

fn create_of(c: &Config) -> Result<Option<Create>, String> {
    let Some(drive) = &c.drive else { return Ok(None) };
    let feature = |(name, Word(value)): (&String, &Word)| {
        let said = format!("{name}={value}");
        args::feature(&said).map_err(|why| format!("feature={said}: {why}"))
    };
    let features = Features {
        policy: option("policy", &c.policy, policy)?,
        groups: option("groups", &c.groups, args::count)?,
        streams: option("streams", &c.streams, args::count)?.unwrap_or_default(),
        // Where dsmd serves it, that switches discards on.
        discard: (c.dbpath.is_none() && c.discard != Mode::Off).then_some(c.discard),
        discard_granularity: option("discard-granularity", &c.discard_granularity, args::piece)?,
        discard_alignment: option("discard-alignment", &c.discard_alignment, args::piece)?,
        features: c.features.iter().map(feature).collect::<Result<_, _>>()?,
    };
    features.follow_drive()?;
    Ok(Some(Create {
        name: c.device.clone(),
        dev: drive.clone(),
        features,
        start: option("start", &c.start, args::sector)?.unwrap_or_default(),
        size: option("size", &c.size, args::length)?,
        wwid: c.wwid.clone(),
    }))
}

/// A key's value, as the option of this name takes it.
fn option<T>(
    key: &str,
    word: &Option<Word>,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let read = |Word(value): &Word| read(value).map_err(|why| format!("{key}={value}: {why}"));
    word.as_ref().map(read).transpose()
}

fn policy(s: &str) -> Result<String, String> {
    let all = policies::names();
    let known = all.contains(&s).then(|| s.to_owned());
    known.ok_or_else(|| format!("it must be one of {}", all.join(", ")))
}

/// Refuses another drive than the one that is named.
pub(crate) fn check_drive(sysfs: &Sysfs, a: &Create, dev: DevNo) -> Result<()> {
    let Some(wanted) = &a.wwid else { return Ok(()) };
    let shown = a.dev.display();
    match identity::of(sysfs, dev) {
        Some(found) if found == *wanted => Ok(()),
        Some(found) => bail!("{shown}: it is {found}, and not {wanted}, which wwid names; nothing was changed"),
        None => bail!(
            "{shown}: it does not say which drive it is, and not {wanted}, which wwid names; nothing was changed"
        ),
    }
}

/// A line of it; strings of JSON are such of TOML.
fn line(key: &str, value: &str) -> String {
    format!("{key} = {}", serde_json::Value::from(value))
}

/// Writes the file of a device that is made.
pub(crate) fn save(a: &Create, dbpath: Option<&Path>, dir: &Path) -> Result<PathBuf> {
    let path = config::path_of(dir, &a.name);
    let shown = path.display().to_string();
    ensure!(
        !path.exists(),
        "{shown}: it is there already, and is left as it is"
    );
    let absolute = |p: &Path| -> Result<String> {
        let absolute = std::path::absolute(p)?;
        Ok(absolute.to_str().context("a path is not UTF-8")?.to_owned())
    };
    let dev = create::block_device(&a.dev)?;
    let f = &a.features;
    let lasting = Identities::default()
        .lasting(dev)
        .filter(|_| !a.dev.starts_with("/dev/disk"));
    let drive = lasting.as_deref().unwrap_or(&a.dev);
    let identity = a.wwid.clone().or_else(|| identity::of(&Sysfs::default(), dev));
    let mut lines = vec![line("drive", &absolute(drive)?)];
    lines.extend(identity.map(|wwid| line("wwid", &wwid)));
    lines.extend((a.start > 0).then(|| format!("start = {}", a.start)));
    lines.extend(a.size.map(|size| format!("size = {size}")));
    lines.extend(dbpath.map(absolute).transpose()?.map(|dir| line("dbpath", &dir)));
    for (name, value) in f.given() {
        match (name, Mode::from(value.as_str())) {
            ("discard", Mode::On) => lines.push("discard = true".to_owned()),
            ("discard", Mode::Off) => {}
            _ => lines.push(line(&name.replace('_', "-"), &value)),
        }
    }
    if !f.features.is_empty() {
        lines.push("\n[features]".to_owned());
        lines.extend(f.features.iter().map(|(name, value)| line(name, value)));
    }
    let text = lines.join("\n") + "\n";
    Config::parse(&a.name, &text).map_err(|why| anyhow!("{shown}: {why}"))?;
    std::fs::create_dir_all(dir).with_context(|| format!("{}: cannot make it", dir.display()))?;
    whole::write(&path, 0o644, text.as_bytes()).with_context(|| format!("{shown}: cannot write it"))?;
    Ok(path)
}

/// Whether all is well; what is not is said line by line.
pub(crate) fn check(name: Option<&str>) -> Result<bool> {
    let dir = args::config_dir();
    let files = match name {
        Some(name) => vec![(name.to_owned(), read(&dir, name))],
        None => all(&dir)?,
    };
    let mut problems = problems(&Identities::default(), &files, &create::block_device);
    for (name, file) in &files {
        let dbpath = file.as_ref().ok().and_then(|f| f.config.dbpath.as_deref());
        if let Some(Err(e)) = dbpath.map(|dbpath| lies_on(dbpath, name)) {
            problems.push(format!("{name}: dbpath: {}", text::error(&e)));
        }
    }
    for problem in &problems {
        eprintln!("dsmctl: {}", printable(problem));
    }
    Ok(problems.is_empty())
}

/// What is wrong with files, by what is there now but for data directories, below which a drive may
/// hang; `block` gives a path's device.
pub(crate) fn problems(
    known: &Identities,
    files: &[(String, Result<DeviceFile>)],
    block: &dyn Fn(&Path) -> Result<DevNo>,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut drives: Vec<(DevNo, &Create)> = Vec::new();
    let mut dbpaths: BTreeMap<&Path, &str> = BTreeMap::new();
    for (name, file) in files {
        let file = match file {
            Ok(file) => file,
            Err(e) => {
                problems.push(text::error(e));
                continue;
            }
        };
        let mut wrong = |key: &str, why: String| problems.push(format!("{name}: {key}: {why}"));
        if let Some(create) = &file.create {
            match block(&create.dev) {
                Ok(dev) => {
                    if let Some(why) = known.ambiguous(&create.dev, dev) {
                        wrong("drive", why);
                    }
                    if let Err(e) = check_drive(&known.sysfs, create, dev) {
                        wrong("wwid", text::error(&e));
                    }
                    if let Some((_, other)) = drives.iter().find(|(d, b)| *d == dev && overlap(create, b)) {
                        wrong(
                            "drive",
                            format!("{} is of {}, too", other.name, known.sysfs.name(dev)),
                        );
                    }
                    drives.push((dev, create));
                }
                Err(e) => wrong("drive", text::error(&e)),
            }
        }
        if let Err(e) = Rules::read(&file.config.rules) {
            wrong("rules", text::error(&e));
        }
        if let Some(dbpath) = &file.config.dbpath {
            if let Some(other) = dbpaths.insert(dbpath, name) {
                wrong("dbpath", format!("it is that of {other}, too"));
            }
        }
    }
    problems
}

/// Whether a directory is on a file system on a device, if both are there.
fn lies_on(dbpath: &Path, device: &str) -> Result<()> {
    let Ok(device) = Device::open(device) else {
        return Ok(());
    };
    let root = Root::open(dbpath).with_context(|| format!("{}: cannot open it", dbpath.display()))?;
    place::of_root(&root, &device.name, device.devno, device.sectors).map(drop)
}

fn overlap(a: &Create, b: &Create) -> bool {
    let end = |c: &Create| c.size.map_or(u64::MAX, |size| c.start.saturating_add(size));
    a.start < end(b) && b.start < end(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Auto;
    use testing::sysfs::Tree;

    const FIRST: &str = "259:1";
    const SECOND: &str = "259:2";

    /// Two namespaces.
    fn machine() -> (Tree, Identities) {
        let tree = Tree::make();
        for (dev, name, eui) in [(FIRST, "nvme0n1", "eui.01"), (SECOND, "nvme0n2", "eui.02")] {
            tree.add(dev, name);
            tree.set(dev, "wwid", eui);
        }
        let known = Identities {
            sysfs: tree.sysfs(),
            udev: "/nonexistent".into(),
        };
        (tree, known)
    }

    fn file(name: &str, text: &str) -> Result<DeviceFile> {
        let config = Config::parse(name, text).map_err(|why| anyhow!("{name}: {why}"))?;
        let create = create_of(&config).map_err(|why| anyhow!("{name}: {why}"))?;
        Ok(DeviceFile { config, create })
    }

    fn dev(text: &str) -> DevNo {
        text.parse().unwrap()
    }

    #[test]
    fn keys_are_the_options_of_create() {
        let text = "drive = '/dev/x'\npolicy = 'boundary'\ngroups = 4\nstreams = 7\nsize = '1MiB'\n\
                    discard-granularity = '128K'\ndiscard-alignment = 'auto'\ndiscard = 'audit'\n\
                    features = { primary_filter = 'off', threshold2 = 5 }\n";
        let b = file("b", text).unwrap().create.unwrap();
        assert_eq!((b.dev.as_path(), b.size), (Path::new("/dev/x"), Some(2048)));
        let c = b.features;
        assert_eq!((c.groups, c.streams), (Some(Auto::Number(4)), Auto::Number(7)));
        let words = ["primary_filter off", "threshold2 5"];
        assert!(c.features.iter().map(|(n, v)| format!("{n} {v}")).eq(words));
        assert_eq!(
            (c.discard_granularity, c.discard_alignment),
            (Some(Auto::Number(128 << 10)), Some(Auto::Auto))
        );
        assert_eq!(c.discard, Some(Mode::Audit));
        let served = file("b", &format!("dbpath = '/db'\n{text}"))
            .unwrap()
            .create
            .unwrap();
        assert_eq!(served.features.discard, None, "dsmd switches it on");
        assert!(file("b", "dbpath = '/db'").unwrap().create.is_none());
    }

    #[test]
    fn refusals_name_file_key_and_limit() {
        for (line, wanted) in [
            ("groups = 'many'", "a: groups=many: it must be auto or a number"),
            (
                "policy = 'best'",
                &format!(
                    "a: policy=best: it must be one of {}",
                    policies::names().join(", ")
                ),
            ),
            (
                "features = { discard-alignment = '4K' }",
                "a: feature=discard-alignment=4K: this is the option --discard-alignment",
            ),
            (
                "policy = 'dsm'\ngroups = 'auto'",
                "a: groups auto chooses the policy, too: it cannot be given with policy dsm",
            ),
            ("size = 0", "a: size=0: it must be one sector or more"),
        ] {
            let said = file("a", &format!("drive = '/dev/x'\n{line}"))
                .unwrap_err()
                .to_string();
            assert!(said.starts_with(wanted), "{line}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    fn problems_of(files: &[(&str, &str)], block: &dyn Fn(&Path) -> Result<DevNo>) -> Vec<String> {
        let (_tree, known) = machine();
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), file(name, text)))
            .collect();
        problems(&known, &files, block)
    }

    #[test]
    fn a_file_names_its_drive() {
        let said = |d: &'static str| {
            problems_of(&[("rs0", "drive = '/dev/x'\nwwid = 'eui.01'")], &move |_| {
                Ok(dev(d))
            })
        };
        assert_eq!(said(FIRST), [""; 0]);
        assert_eq!(
            said(SECOND),
            ["rs0: wwid: /dev/x: it is eui.02, and not eui.01, which wwid names; nothing was changed"]
        );
        assert_eq!(
            said("7:0"),
            ["rs0: wwid: /dev/x: it does not say which drive it is, and not eui.01, which wwid names; nothing was changed"]
        );
        let gone = problems_of(&[("rs0", "drive = '/dev/x'")], &|_| {
            Err(anyhow!("/dev/x: cannot stat it"))
        });
        assert_eq!(gone, ["rs0: drive: /dev/x: cannot stat it"]);
    }

    #[test]
    fn two_files_of_one_disk_or_directory() {
        let one = |_: &Path| Ok(dev(FIRST));
        let both = |a: &str, b: &str| problems_of(&[("a", a), ("b", b)], &one);
        let (x, y) = ("drive = '/dev/x'", "drive = '/dev/y'");
        assert_eq!(both(x, y), ["b: drive: a is of nvme0n1, too"]);
        assert_eq!(
            both(&format!("{x}\nsize = 8"), &format!("{y}\nstart = 8")),
            [""; 0]
        );
        assert_eq!(
            both(&format!("{x}\nsize = 9"), &format!("{y}\nstart = 8")).len(),
            1
        );
        assert_eq!(
            both("dbpath = '/d'", "dbpath = '/d'"),
            ["b: dbpath: it is that of a, too"]
        );
        let rules = both("dbpath = '/d'\nrules = '/nonexistent/r'", "groups = 3");
        assert!(rules[0].starts_with("a: rules: /nonexistent/r: "), "{rules:?}");
        assert!(
            rules[1].starts_with("b: groups: this is for a device"),
            "{rules:?}"
        );
    }
}

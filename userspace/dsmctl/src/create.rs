// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl create`, `dsmctl attach` and `dsmctl remove`.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context, Result};
use rustix::io::Errno;

use crate::cli::{self as args, Auto, Create, CreateNow, DryRun, Features};
use crate::device_file;
use crate::switch;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::exchange;
use dm::ioctl::{Dm, Id, Line};
use dm::journal::Journal;
use dm::lvm;
use dm::mode::Mode;
use dm::mounts;
use dm::node;
use dm::streams::{self, LowerStack};
use dm::sysfs::Sysfs;
use drive::afford::AffordedLayout;
use drive::below::{self, Affords};
use drive::identity::Identities;
use drive::prefer;
use proto::snapshot;
use runtime::sizes;
use runtime::text::printable;

/// udev's probes keep a device open for a moment.
const REMOVE_TRIES: u32 = 20;
const REMOVE_PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn create_now(a: &CreateNow) -> Result<()> {
    if !a.save {
        return create(&a.create, a.dry);
    }
    // Before there is a device that is not made again.
    let path = device_file::save(&a.create, a.dbpath.as_deref(), &args::config_dir())?;
    let made = create(&a.create, a.dry);
    match &made {
        Ok(()) => eprintln!(
            "dsmctl: note: {} says all of it; `systemctl daemon-reload` makes units of it",
            printable(&path.display().to_string())
        ),
        Err(_) => {
            let _ = fs::remove_file(&path);
        }
    }
    made
}

/// The device of /etc/dsm/NAME.toml.
pub(crate) fn attach(name: &str) -> Result<()> {
    let file = device_file::read(&args::config_dir(), name).context("nothing was changed")?;
    if let Ok(device) = Device::open(name) {
        // Who was killed may not have come to it.
        node::ensure(name, device.devno)?;
        eprintln!("dsmctl: note: {name} is there already, and is left as it is");
        return Ok(());
    }
    let mut wanted = file.create.with_context(|| {
        format!("{name}: its file has no drive: somebody else makes it; nothing was changed")
    })?;
    if wanted.features.discard.is_some() {
        // A machine starts all the same.
        if let Err(e) = block_device(&wanted.dev).and_then(|dev| switch::check(name, dev)) {
            eprintln!("dsmctl: {e:#} but this: it is made without discards");
            wanted.features.discard = None;
        }
    }
    create(&wanted, DryRun::default()).with_context(|| format!("cannot attach {name}"))
}

pub(crate) fn create(a: &Create, dry: DryRun) -> Result<()> {
    let sysfs = Sysfs::default();
    let dev = block_device(&a.dev)?;
    device_file::check_drive(&sysfs, a, dev)?;
    let length = length(&sysfs, a, dev)?;
    let (name, dm) = (&a.name, Dm::open()?);
    let _lock = Journal::default().lock(name)?;
    // It may hold the underlying device.
    if !dry.on && dm.info(Id::Name(name)).is_ok_and(|info| info.is_half_made()) {
        let what = "cannot remove what a command that was killed has left";
        dm.remove(name).with_context(|| format!("{name}: {what}"))?;
    }
    check_unused(&sysfs, &a.dev, dev)?;
    let stamped = Stamped::on(&sysfs, &dm, &a.dev.display().to_string(), dev, &a.features)?;
    let line = Line::dsm(length, format!("{dev} {}{}", a.start, stamped.words()));
    let taken = "there is a device-mapper device of this name already; nothing was changed";
    if dry.on {
        ensure!(dm.info(Id::Name(name)).is_err(), "{name}: {taken}");
        return would_be(name, &[line], Some(&stamped));
    }
    match dm.create(name) {
        Ok(_) => {}
        Err(e) if e.errno() == Some(Errno::BUSY) => bail!("{name}: {taken}"),
        Err(e) => return Err(e).with_context(|| format!("{name}: cannot make a device")),
    }
    let made = activate(&dm, name, &line);
    if made.is_err() {
        // The reason is in the error.
        let _ = dm.remove(name);
    }
    let path = made?;
    stamped.tell(name);
    if let Some(why) = Identities::default().ambiguous(&a.dev, dev) {
        eprintln!("dsmctl: note: {name}: {}", printable(&why));
    }
    crate::print_text(&format!("{}\n", path.display()))
}

/// What a dry run prints: the table as dmsetup takes it, and why it is so.
pub(crate) fn would_be(name: &str, lines: &[Line], stamped: Option<&Stamped>) -> Result<()> {
    if let Some(stamped) = stamped {
        stamped.tell_choice(name);
    }
    let row = |l: &Line| format!("{} {} {} {}", l.start, l.length, l.target, l.params);
    let table = lines.iter().map(row).collect::<Vec<_>>().join("\n");
    crate::print_text(&format!(
        "{name}: nothing was changed; the table would be:\n{table}\n"
    ))
}

fn activate(dm: &Dm, name: &str, line: &Line) -> Result<PathBuf> {
    exchange::load(dm, name, std::slice::from_ref(line))?;
    let info = dm
        .resume(name)
        .with_context(|| format!("{name}: cannot start the device"))?;
    node::ensure(name, info.dev)
}

pub(crate) fn block_device(path: &Path) -> Result<DevNo> {
    let shown = path.display();
    let meta = fs::metadata(path).with_context(|| format!("{shown}: cannot stat it"))?;
    ensure!(
        meta.file_type().is_block_device(),
        "{shown}: it is not a block device; nothing was changed"
    );
    Ok(DevNo::from_stat(meta.rdev()))
}

fn length(sysfs: &Sysfs, a: &Create, dev: DevNo) -> Result<u64> {
    let (shown, start) = (a.dev.display(), a.start);
    let size: u64 = sysfs
        .number(dev, "size")
        .with_context(|| format!("{shown}: cannot determine its size"))?;
    ensure!(
        start < size,
        "{shown}: --start {start} is not below its {size} sectors; nothing was changed"
    );
    let rest = size - start;
    let length = a.size.unwrap_or(rest);
    let [wanted, has] = [length, rest].map(|sectors| sizes::shown(sectors.saturating_mul(512)));
    ensure!(
        length <= rest,
        "{shown}: --size {length} sectors ({wanted}) is more than the {rest} ({has}) from sector {start} on; nothing was changed"
    );
    Ok(length)
}

/// An exclusive open shows whether somebody else uses the device.
fn check_unused(sysfs: &Sysfs, path: &Path, dev: DevNo) -> Result<()> {
    let shown = path.display();
    match fs::File::options()
        .read(true)
        .custom_flags(libc::O_EXCL | libc::O_CLOEXEC)
        .open(path)
    {
        Ok(file) => {
            let found = file.metadata()?;
            ensure!(
                found.file_type().is_block_device() && DevNo::from_stat(found.rdev()) == dev,
                "{shown}: it was exchanged meanwhile; nothing was changed"
            );
            Ok(())
        }
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
            bail!("{shown}: it is {}; nothing was changed", used_by(sysfs, dev))
        }
        Err(e) => Err(e).with_context(|| format!("{shown}: cannot open it")),
    }
}

/// The kernel would speak of zones that are not consistent.
fn check_zones(sysfs: &Sysfs, shown: &str, dev: DevNo) -> Result<()> {
    let disk = sysfs.disk_of(dev)?.unwrap_or(dev);
    ensure!(
        sysfs.text(disk, "queue/zoned").as_deref() != Some("host-managed"),
        "{shown}: it is zoned (host-managed), which dsm is not for; nothing was changed"
    );
    Ok(())
}

/// Who uses a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The file system on it is mounted there.
    Mount(String),
    Holders(Vec<String>),
}

impl User {
    /// As far as is known.
    pub(crate) fn of(sysfs: &Sysfs, dev: DevNo) -> Option<Self> {
        if let Some(place) = mounts::point_of(dev) {
            return Some(Self::Mount(printable(&place.to_string_lossy())));
        }
        let holders = sysfs.links(dev, "holders").unwrap_or_default();
        let name = |h: &DevNo| sysfs.given_name(*h);
        (!holders.is_empty()).then(|| Self::Holders(holders.iter().map(name).collect()))
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(place) => write!(f, "in use: it is mounted at {place}"),
            Self::Holders(names) => write!(f, "in use: it is held by {}", names.join(", ")),
        }
    }
}

fn used_by(sysfs: &Sysfs, dev: DevNo) -> String {
    User::of(sysfs, dev).map_or_else(
        || "in use, or a partition of it is".to_owned(),
        |user| user.to_string(),
    )
}

/// The target's parameters of streams.
pub(crate) struct Stamped {
    features: Features,
    /// The disks to name to the kernel, by number.
    leaves: Vec<String>,
    /// As the drive affords, where nobody has said anything else.
    chosen: Option<Affords>,
}

impl Stamped {
    pub(crate) fn on(sysfs: &Sysfs, dm: &Dm, shown: &str, dev: DevNo, asked: &Features) -> Result<Self> {
        let follow = asked
            .follow_drive()
            .map_err(|e| anyhow!("{shown}: {e}; nothing was changed"))?;
        if asked.discard == Some(Mode::On) {
            switch::check(shown, dev)?;
        }
        check_zones(sysfs, shown, dev)?;
        let below = streams::below(sysfs, dm, dev)?;
        let chosen = follow.then(|| below::of_stack(sysfs, &below, &|all| usable(asked, all)));
        let mut features = chosen
            .as_ref()
            .map_or_else(|| asked.clone(), |c| resolved(asked, c));
        let preferred = || prefer::alignment(sysfs, &below.leaves).map(|n| Auto::Number(n.into()));
        features.discard_alignment = features.discard_alignment.or_else(preferred);
        Ok(Self {
            features,
            leaves: leaves_to_name(&below, shown),
            chosen,
        })
    }

    /// The feature words, with their number before them.
    pub(crate) fn words(&self) -> String {
        features(&self.features, &self.leaves)
    }

    fn tell_choice(&self, name: &str) {
        if let Some(chosen) = &self.chosen {
            eprintln!("dsmctl: note: {name}: {}", in_plain_words(chosen, name));
        }
    }

    pub(crate) fn tell(&self, name: &str) {
        self.tell_choice(name);
        let status = Device::open(name).ok().and_then(|d| d.status().ok());
        if let Some(s) = status.filter(|s| s.hints_unsupported && s.policy != "none") {
            eprintln!(
                "dsmctl: note: {name}: this kernel has neither write streams nor lifetime hints: policy {} stamps nothing, what is written is counted",
                s.policy
            );
        }
    }
}

/// What a drive affords, for who has not asked for streams.
fn in_plain_words(chosen: &Affords, name: &str) -> String {
    let said = match (chosen.layout, &chosen.drive) {
        (_, None) => printable(&chosen.why),
        (AffordedLayout::None, _) => {
            "no streams: on this drive they would cost more than they save".to_owned()
        }
        _ => format!("{} streams, as many as this drive affords", chosen.streams),
    };
    format!("{said}. Counters and discards work with and without; `dsmctl status {name}` has the reason, --policy overrides it")
}

/// How many of the streams that there are may be used.
fn usable(asked: &Features, all: u32) -> u32 {
    let rest = all.saturating_sub(asked.stream_base().saturating_sub(1));
    asked.streams.number().map_or(rest, |n| rest.min(n))
}

fn resolved(asked: &Features, chosen: &Affords) -> Features {
    Features {
        policy: Some(chosen.policy.to_owned()),
        groups: chosen.groups.map(Auto::Number),
        streams: match chosen.layout {
            AffordedLayout::None => asked.streams,
            _ => Auto::Number(chosen.streams),
        },
        ..asked.clone()
    }
}

/// The disks to name to the kernel, and a note where that is in vain.
fn leaves_to_name(below: &LowerStack, shown: &str) -> Vec<String> {
    if !below.losing.is_empty() {
        eprintln!(
            "dsmctl: note: {} below {shown} does not pass streams on",
            below.losing.join(", ")
        );
    } else if below.stacked && !below.barring.is_empty() && below.streams.is_some_and(|n| n > 0) {
        eprintln!(
            "dsmctl: note: below {shown} is {}, above which only lifetime hints are stamped, no streams",
            below.barring.join(", ")
        );
    }
    below.leaves_to_name().iter().map(DevNo::to_string).collect()
}

fn features(a: &Features, leaves: &[String]) -> String {
    // Auto is what the kernel does without a word.
    let given = a.given().into_iter().filter(|(_, value)| value != "auto");
    let mut words: Vec<String> = given
        .map(|(name, value)| match name {
            "discard" => format!("{name} {}", Mode::from(value).of_target()),
            _ => format!("{name} {value}"),
        })
        .collect();
    words.extend(a.features.iter().map(|(name, value)| format!("{name} {value}")));
    if !leaves.is_empty() {
        words.push(format!("leaves {}", leaves.join(",")));
    }
    if words.is_empty() {
        return String::new();
    }
    format!(" {} {}", words.len() * 2, words.join(" "))
}

pub(crate) fn remove(name: &str) -> Result<()> {
    let device = Device::open(name)?;
    let dm = Dm::open()?;
    ensure!(
        !lvm::is_volume(&dm.info(Id::Name(name))?.uuid),
        "{name}: the device is LVM's; `dsmctl withdraw {name}` takes dsm away and leaves the volume; nothing was changed"
    );
    for tries in 1.. {
        let for_good = || tries == REMOVE_TRIES || mounts::point_of(device.devno).is_some();
        match dm.remove(name) {
            Ok(()) => break,
            Err(e) if e.errno() == Some(Errno::BUSY) && for_good() => {
                let who = used_by(&Sysfs::default(), device.devno);
                bail!("{name}: the device is {who}; nothing was changed");
            }
            Err(e) if e.errno() == Some(Errno::BUSY) => sleep(REMOVE_PAUSE),
            Err(e) => return Err(e).with_context(|| format!("{name}: cannot remove the device")),
        }
    }
    node::remove(name, device.devno);
    snapshot::remove(&args::run_dir(), name);
    debug_assert!(dm.info(Id::Name(name)).is_err());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::options;
    use clap::Parser;
    use testing::sysfs::Tree;

    fn parsed(words: &str) -> Features {
        let words = format!("dsmctl create d /dev/x {words}");
        match crate::cli::Args::parse_from(words.split_whitespace()).command {
            crate::cli::Command::Create(a) => a.create.features,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_has_a_drive() {
        let tree = Tree::make();
        for (dev, name) in [("259:70", "nvme7n1"), ("253:70", "dm-70"), ("253:71", "dm-71")] {
            tree.add(dev, name);
        }
        tree.set("253:70", "dm/name", "vg-db");
        let user = || User::of(&tree.sysfs(), "259:70".parse().unwrap());
        assert_eq!(user(), None);
        tree.link("259:70", "holders", "253:70");
        tree.link("259:70", "holders", "253:71");
        assert_eq!(user().unwrap().to_string(), "in use: it is held by vg-db, dm-71");
    }

    #[test]
    fn zoned_disks_are_refused_by_name() {
        let tree = Tree::make();
        tree.add("8:16", "sdb");
        let said = || check_zones(&tree.sysfs(), "/dev/sdb", "8:16".parse().unwrap());
        tree.set("8:16", "queue/zoned", "none");
        assert!(said().is_ok());
        tree.set("8:16", "queue/zoned", "host-managed");
        assert!(said().unwrap_err().to_string().contains("it is zoned"));
    }

    #[test]
    fn the_feature_words() {
        assert_eq!(features(&parsed(""), &[]), "");
        assert_eq!(features(&parsed("--streams 8"), &[]), " 2 streams 8");
        let leaves = ["259:0".to_owned(), "259:2".to_owned()];
        assert_eq!(features(&parsed(""), &leaves), " 2 leaves 259:0,259:2");
        assert_eq!(
            features(&parsed("--streams 4"), &leaves[..1]),
            " 4 streams 4 leaves 259:0"
        );
        assert_eq!(
            features(
                &parsed(
                    "--policy dsm --groups 4 -f alpha=6 --feature Primary-Filter=off -f threshold1=1000 \
                     --discard on --discard-granularity 128K --discard-alignment 4096"
                ),
                &[]
            ),
            " 16 policy dsm groups 4 discard on discard_granularity 131072 discard_alignment 4096 \
             alpha 6 primary_filter off threshold1 1000"
        );
    }

    /// Without a word about streams the drive decides; every such word counts.
    #[test]
    fn who_decides() {
        let follow = |words: &str| parsed(words).follow_drive();
        for words in [
            "",
            "--groups auto",
            "--streams auto",
            "--groups auto --streams 8",
            "--discard on -f stream_base=2",
        ] {
            assert_eq!(follow(words), Ok(true), "{words}");
        }
        for words in [
            "--policy none",
            "--policy dsm",
            "--groups 3",
            "--streams 8",
            "--policy file --streams 4",
        ] {
            assert_eq!(follow(words), Ok(false), "{words}");
        }
        assert!(follow("--groups auto --policy dsm")
            .unwrap_err()
            .contains("policy dsm"));
    }

    #[test]
    fn the_words_that_a_drive_affords() {
        let words = |asked: &str, layout| {
            let chosen = Affords::new(layout, None, String::new());
            features(&resolved(&parsed(asked), &chosen), &[])
        };
        assert_eq!(
            words("", AffordedLayout::Life(3)),
            " 6 policy life groups 3 streams 5"
        );
        assert_eq!(
            words("--groups auto", AffordedLayout::Life(2)),
            " 6 policy life groups 2 streams 4"
        );
        assert_eq!(
            words("", AffordedLayout::JournalApart),
            " 4 policy file streams 2"
        );
        assert_eq!(words("", AffordedLayout::None), " 2 policy none");
        assert_eq!(
            words(
                "--groups auto --streams 7 -f stream_base=2 --discard on",
                AffordedLayout::Life(2)
            ),
            " 10 policy life groups 2 streams 4 discard on stream_base 2"
        );
        let left = |asked: &str| usable(&parsed(asked), 8);
        assert_eq!(
            [
                "",
                "--streams 4",
                "-f stream_base=3",
                "-f stream_base=9",
                "-f stream-base=6 --streams 4"
            ]
            .map(left),
            [8, 4, 6, 0, 3]
        );
    }

    /// What `dsmctl withdraw` prints gives the same table.
    #[test]
    fn options_and_back() {
        let all = " 30 policy dsm groups 4 streams 7 discard on discard_granularity 131072 \
                   discard_alignment 4096 alpha 6 prediction off range region primary_filter off \
                   threshold1 1000 threshold2 5 stream_base 2 hints off foreign keep";
        for all in [all, " 2 discard watch"] {
            let table = format!("259:0 0{all} ").parse().unwrap();
            assert_eq!(features(&parsed(&options(&table).join(" ")), &[]), all);
        }
        let table = "259:0 0 10 alpha auto streams auto leaves 259:0 hints on discard_alignment auto"
            .parse()
            .unwrap();
        assert_eq!(options(&table), ["-f hints=on"]);
    }
}

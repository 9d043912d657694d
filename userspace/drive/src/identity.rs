// SPDX-License-Identifier: GPL-2.0-or-later
//! Which drive a path leads to.  A name in /dev/disk may lead to another one after the next
//! boot: udev gives a name that two drives claim to either of them.

use std::fs;
use std::path::{Path, PathBuf};

use dm::devno::DevNo;
use dm::sysfs::Sysfs;

/// udev's database: a file for each block device, with its links.
const UDEV: &str = "/run/udev/data";
/// What the namespace or the unit says of itself, and then what lies between.
const ATTRIBUTES: [&str; 8] = [
    "wwid",
    "uuid",
    "nguid",
    "eui",
    "device/wwid",
    "serial",
    "dm/uuid",
    "md/uuid",
];
/// Beginnings of links that hold what the drive says of itself.
const LASTING: [&str; 4] = ["nvme-eui.", "nvme-uuid.", "nvme-nvme.", "wwn-"];

/// Where to look; elsewhere in tests.
pub struct Identities {
    pub sysfs: Sysfs,
    pub udev: PathBuf,
}

impl Default for Identities {
    fn default() -> Self {
        Self {
            sysfs: Sysfs::default(),
            udev: UDEV.into(),
        }
    }
}

/// Whether a link, without /dev/, is one of these.
fn lasts(link: &str) -> bool {
    let name = link.strip_prefix("disk/by-id/");
    name.is_some_and(|name| LASTING.iter().any(|begin| name.starts_with(begin)))
}

/// As one word.
fn word(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    let words = text.split(|c| !safe(c)).filter(|w| !w.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// `None`: it says nothing of itself, as a loop device.
pub fn of(sysfs: &Sysfs, dev: DevNo) -> Option<String> {
    let said = |dev: DevNo| {
        let texts = ATTRIBUTES.iter().filter_map(|name| sysfs.text(dev, name));
        texts.map(|t| word(&t)).find(|t| !t.is_empty())
    };
    match sysfs.disk_of(dev).ok()? {
        Some(disk) => Some(format!("{}-part{}", said(disk)?, sysfs.text(dev, "partition")?)),
        None => said(dev),
    }
}

impl Identities {
    /// The links that udev's database has of a device, without /dev/.
    fn links(&self, dev: DevNo) -> Vec<String> {
        let text = fs::read_to_string(self.udev.join(format!("b{dev}"))).unwrap_or_default();
        let links = text.lines().filter_map(|line| line.strip_prefix("S:"));
        links.map(str::to_owned).collect()
    }

    /// The devices that claim a link.
    fn claimants(&self, link: &str) -> Vec<DevNo> {
        let claims = |dev: &DevNo| self.links(*dev).iter().any(|l| l == link);
        self.sysfs.all().into_iter().filter(claims).collect()
    }

    /// A link that only this device has, and keeps.
    pub fn lasting(&self, dev: DevNo) -> Option<PathBuf> {
        let alone = |l: &String| self.claimants(l).len() == 1;
        let found = self.links(dev).into_iter().find(|l| lasts(l) && alone(l));
        found.map(|l| Path::new("/dev").join(l))
    }

    /// What is wrong with a path that leads to `dev` now.
    pub fn ambiguous(&self, path: &Path, dev: DevNo) -> Option<String> {
        let link = path.strip_prefix("/dev").ok()?.to_str()?;
        let claimants = self.claimants(link);
        if claimants.len() < 2 {
            return None;
        }
        let names: Vec<String> = claimants.iter().map(|d| self.sysfs.name(*d)).collect();
        let alone = |l: &String| l.starts_with("disk/by-id/") && self.claimants(l).len() == 1;
        let mut other: Vec<String> = self.links(dev).into_iter().filter(alone).collect();
        other.sort_by_key(|l| !lasts(l));
        let instead = other.first().map_or(String::new(), |l| {
            format!(": /dev/{l} is {}'s alone", self.sysfs.name(dev))
        });
        Some(format!(
            "{}: {} both claim this name, and after a reboot it may lead to the other one{instead}",
            path.display(),
            names.join(" and ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::sysfs::Tree;

    const FIRST: &str = "259:1";
    const SECOND: &str = "259:2";
    const LINK: &str = "/dev/disk/by-id/nvme-MODEL_SERIAL";

    /// A drive with two namespaces, as udev 252 links them.
    struct Machine {
        tree: Tree,
        dir: tempfile::TempDir,
    }

    impl Machine {
        fn make() -> Self {
            let tree = Tree::make();
            let dir = tempfile::tempdir().unwrap();
            for (dev, name, eui) in [(FIRST, "nvme0n1", "eui.01"), (SECOND, "nvme0n2", "eui.02")] {
                tree.add(dev, name);
                tree.set(dev, "wwid", eui);
                let links = format!("I:1\nS:disk/by-id/nvme-MODEL_SERIAL\nS:disk/by-id/nvme-{eui}\nE:X=1\n");
                fs::write(dir.path().join(format!("b{dev}")), links).unwrap();
            }
            Self { tree, dir }
        }

        fn identities(&self) -> Identities {
            Identities {
                sysfs: self.tree.sysfs(),
                udev: self.dir.path().to_owned(),
            }
        }
    }

    fn dev(text: &str) -> DevNo {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_that_two_namespaces_claim() {
        let m = Machine::make();
        let of = |link: &str, d| m.identities().ambiguous(Path::new(link), dev(d));
        assert_eq!(
            of(LINK, FIRST).unwrap(),
            format!(
                "{LINK}: nvme0n1 and nvme0n2 both claim this name, and after a reboot it may lead to the other \
                 one: /dev/disk/by-id/nvme-eui.01 is nvme0n1's alone"
            )
        );
        assert_eq!(of("/dev/disk/by-id/nvme-eui.01", FIRST), None);
        assert_eq!(of("/dev/nvme0n1", FIRST), None);
    }

    #[test]
    fn partitions_and_what_lies_between() {
        let m = Machine::make();
        m.tree.add("259:3", "nvme0n1/nvme0n1p2");
        m.tree.set("259:3", "partition", "2");
        m.tree.add("253:0", "dm-0");
        m.tree.set("253:0", "dm/uuid", "LVM-abc");
        m.tree.add("8:0", "sda");
        m.tree.set("8:0", "device/wwid", "t10.ATA     Disk, of 1 TB");
        m.tree.add("7:0", "loop0");
        let said = |d| of(&m.tree.sysfs(), dev(d));
        assert_eq!(said("259:3").as_deref(), Some("eui.01-part2"));
        assert_eq!(said("253:0").as_deref(), Some("LVM-abc"));
        assert_eq!(said("8:0").as_deref(), Some("t10.ATA_Disk_of_1_TB"));
        assert_eq!(said("7:0"), None);
    }
}

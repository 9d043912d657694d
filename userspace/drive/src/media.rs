// SPDX-License-Identifier: GPL-2.0-or-later
//! What the drive below a device says it has written: its write amplification
//! is known when it reports it, and cannot be known otherwise.

use std::path::Path;

use crate::nvme::Namespace;
use dm::devno::DevNo;
use dm::streams;
use dm::sysfs::Sysfs;
use proto::drive::Media;

/// The kernel's name of the one drive that a device lies on, or why there is none.
pub fn drive_of(sysfs: &Sysfs, dev: DevNo) -> Result<String, String> {
    let below = streams::below(sysfs, &streams::Unknown, dev).map_err(|e| format!("{e:#}"))?;
    match below.disks.as_slice() {
        [] => Err("no disk is below the device".to_owned()),
        [drive] => Ok(drive.clone()),
        disks => Err(format!("the device lies on several disks: {}", disks.join(", "))),
    }
}

/// What the drive says, or why it does not.
pub fn of(sysfs: &Sysfs, dev: DevNo) -> Result<Media, String> {
    let drive = drive_of(sysfs, dev)?;
    let node = Path::new("/dev").join(&drive);
    let statistics = Namespace::open(&node)
        .map_err(|e| format!("cannot ask {drive}: {e}"))?
        .ok_or(format!(
            "{drive} is no NVMe drive, and does not report what it writes"
        ))?
        .statistics()
        .map_err(|e| format!("{drive} does not report what it writes: {e}"))?
        .ok_or(format!("{drive} has no FDP statistics"))?;
    Ok(Media { drive, statistics })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::sysfs::Tree;

    #[test]
    fn drives_that_do_not_tell() {
        let tree = Tree::make();
        let add = |dev, name, below: &[&str]| {
            tree.add(dev, name);
            below.iter().for_each(|b| tree.slave(dev, b));
        };
        // /dev/null is a device that every machine has, and no disk.
        add("7:1", "null", &[]);
        add("7:2", "nonesuch", &[]);
        add("253:0", "dm-0", &["7:1"]);
        add("253:1", "dm-1", &["7:2"]);
        add("253:2", "dm-2", &["7:1", "7:2"]);
        let said = |dev: &str| of(&tree.sysfs(), dev.parse().unwrap()).unwrap_err();
        assert_eq!(
            said("253:0"),
            "null is no NVMe drive, and does not report what it writes"
        );
        assert!(said("253:1").starts_with("cannot ask nonesuch: No such file"));
        assert_eq!(said("253:2"), "the device lies on several disks: nonesuch, null");
    }
}

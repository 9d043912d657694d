// SPDX-License-Identifier: GPL-2.0-or-later
//! What the drive below a device counts of its writes.

use std::path::Path;

use crate::counters;
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
    let counters = counters::of_drive(&Path::new("/dev").join(&drive))
        .map_err(|e| format!("{drive} does not report what it writes: {e:#}"))?;
    Ok(Media { drive, counters })
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
            "null does not report what it writes: it is no NVMe drive and no SATA drive"
        );
        assert!(said("253:1").starts_with("nonesuch does not report what it writes: No such file"));
        assert_eq!(said("253:2"), "the device lies on several disks: nonesuch, null");
    }
}

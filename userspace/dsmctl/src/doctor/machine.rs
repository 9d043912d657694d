// SPDX-License-Identifier: GPL-2.0-or-later
//! Judges the machine: its kernel, the module, what is configured, and its drives.

use serde_json::json;

use super::facts::{Examined, Facts};
use super::ink;
use super::Finding;
use super::Level::{self, Note, Right, Unknown, Wrong};
use crate::device_file::DeviceFile;
use dm::module::Module;
use drive::below::LowerDisk;
use runtime::pages::page;
use runtime::sizes;

/// The kernels from which on the module can be built, and NVMe has streams.
const OLDEST: (u32, u32) = (5, 10);
/// From the first to before the second, I/O has no lifetime hint.
const HINTLESS: [(u32, u32); 2] = [(5, 18), (6, 9)];

fn of(check: &'static str, level: Level, text: impl Into<String>) -> Finding {
    Finding::new(None, check, level, text)
}

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![kernel(facts), module(facts)];
    let bad = facts.configuration.bad_lines.iter();
    findings.extend(bad.map(|line| of("configuration", Wrong, ink::reason(line)).fix("dsmctl check")));
    if facts.devices.is_empty() {
        findings.push(no_device(facts));
    }
    if facts.semaphores > 0 {
        let n = facts.semaphores;
        let text = format!("commands that were killed have left {n} semaphores of device-mapper's");
        let hint = "takes those away that are older than 10 minutes; a machine has room for some thousands";
        let finding = of("semaphores", Note, text).fix("dmsetup udevcomplete_all -y 10");
        findings.push(finding.hint(hint));
    }
    findings.extend(facts.disks.iter().map(|d| disk(None, d, false)));
    findings
}

/// Whether somebody wants streams of an NVMe drive.
fn wants_streams(facts: &Facts) -> bool {
    let wants = |d: &Examined| {
        let policy = d.view.status().is_some_and(|s| s.policy != "none");
        policy && d.disks.iter().any(LowerDisk::is_nvme)
    };
    facts.devices.iter().any(wants) || facts.disks.iter().any(LowerDisk::is_nvme)
}

fn kernel(facts: &Facts) -> Finding {
    let k = &facts.kernel;
    let release = &k.release;
    let newer = "apt install -t trixie-backports linux-image-amd64 linux-headers-amd64";
    let finding = |level, what: &str| {
        let values = json!({ "release": release, "write_streams": k.write_streams });
        of("kernel", level, format!("Linux {release}{what}")).values(values)
    };
    if !k.is_from(OLDEST.0, OLDEST.1) {
        return finding(Wrong, " is older than 5.10, which dm_dsm needs")
            .fix(newer)
            .hint("and reboot");
    }
    let hintless = HINTLESS.map(|v| k.is_from(v.0, v.1)) == [true, false];
    match k.write_streams {
        Some(true) => finding(Right, " has write streams"),
        Some(false) if wants_streams(facts) => {
            let what = " has no write streams: it cannot show an NVMe drive which data belong together";
            finding(Wrong, what)
                .fix(newer)
                .hint("6.16 or later has them, on Debian 13 from trixie-backports; then reboot")
        }
        Some(false) if hintless => finding(
            Note,
            " has neither write streams nor lifetime hints; counts and discards need none",
        ),
        Some(false) => {
            let what = " has no write streams; discards, and the lifetime hints of SCSI and UFS, need none";
            finding(Note, what)
        }
        None => finding(Note, ", on which there is no disk"),
    }
}

fn module(facts: &Facts) -> Finding {
    let target = facts.target.map(|[a, b, c]| format!("{a}.{b}.{c}"));
    let loaded = facts.kernel.module == Module::Loaded;
    let finding = |level, text: &str| {
        of("module", level, text).values(json!({ "loaded": loaded, "target_version": &target }))
    };
    match (facts.kernel.module, &target) {
        (Module::Loaded, Some(version)) => {
            let text = format!("dm_dsm is loaded, with version {version} of the target");
            finding(Right, &text)
        }
        (Module::Loaded, None) => finding(Right, "dm_dsm is loaded"),
        (Module::Installed, _) => {
            let refused =
                "dm_dsm is built for this kernel and is not loaded, although devices are to be there";
            let mut files = facts.configuration.files.values();
            let found = match files.any(DeviceFile::is_made_at_boot) {
                false => finding(
                    Note,
                    "dm_dsm is built for this kernel, and is loaded with the first device",
                ),
                true => finding(Wrong, refused),
            };
            let why = match facts.kernel.signed_only {
                true => "a kernel with Secure Boot or a lockdown takes only modules with a signature that it trusts",
                false => "what it answers says why, if it is refused",
            };
            found.fix("modprobe dm-dsm").hint(format!(
                "{why}: {}, \"The module is not loaded\"",
                page("troubleshooting.md")
            ))
        }
        (Module::Missing, _) => finding(Wrong, "there is no dm_dsm for this kernel")
            .fix(format!("apt install linux-headers-{}", facts.kernel.release))
            .fix("dkms autoinstall")
            .fix("modprobe dm-dsm")
            .hint("DKMS builds it (package dm-dsm-dkms) where the kernel's headers are"),
    }
}

fn no_device(facts: &Facts) -> Finding {
    if !facts.permitted {
        let text = "only root can see whether there are dsm devices";
        return of("devices", Unknown, text);
    }
    let takes = |d: &&LowerDisk| !d.used && d.streams.is_some_and(|n| n > 0);
    let finding = of("devices", Wrong, "there is no dsm device");
    let see = page("mongodb.md");
    match facts.disks.iter().find(takes) {
        Some(d) => finding
            .fix(format!("dsmctl create dsm /dev/{}", ink::disk(&d.name)))
            .hint(format!(
                "takes a drive that nobody uses; with data on it see {see}"
            )),
        None => finding
            .fix("dsmctl create dsm DEV")
            .hint(format!("DEV is the drive, or a volume on it: see {see}")),
    }
}

/// What a disk can do; `wanted`: streams are.
pub(super) fn disk(device: Option<&str>, d: &LowerDisk, wanted: bool) -> Finding {
    let name = ink::disk(&d.name);
    let (check, wrong) = match device {
        Some(_) => ("drive", Wrong),
        // Nobody said that it is to take streams.
        None => ("disk", Note),
    };
    let finding = |level, what: &str| {
        let finding = Finding::new(device, check, level, format!("{name}{what}")).values(json!({
            "disk": &name, "model": &d.model, "firmware": &d.firmware, "streams": d.streams,
            "handles": d.handles, "placement": d.placement,
            "discard_granularity_bytes": d.discard_granularity, "discard_max_bytes": d.discard_max,
        }));
        match &d.silent {
            Some(why) if finding.level != Right => {
                finding.hint(format!("{name} itself could not be asked: {}", ink::reason(why)))
            }
            _ => finding,
        }
    };
    let placement = d.placement.unwrap_or_default();
    let fdp = |n: u64| {
        let unit = placement
            .reclaim_unit
            .map(|n| format!(", which erases units of {}", sizes::shown(n)));
        let unit = unit.unwrap_or_default();
        finding(
            Right,
            &format!(" places data by stream (FDP) in {n} streams{unit}"),
        )
    };
    let see = |how| format!("{how} \"Switch FDP on\" in {}: all data on", page("drives.md"));
    if !d.is_nvme() {
        return finding(
            Note,
            " is not an NVMe drive: it may support lifetime hints, but does not report it",
        );
    }
    match (d.streams, d.handles) {
        (Some(n @ 1..), Some(1..)) => fdp(n.into()),
        // The kernel knows no streams, the drive does.
        (None, Some(n @ 1..)) => fdp(n),
        (Some(n @ 1..), _) => finding(Right, &format!(" takes {n} streams")),
        _ if !wanted && device.is_some() => finding(Right, ", without streams as configured"),
        _ if d.placement.is_none() => {
            let controller = ink::disk(controller(&d.name));
            finding(if wanted { Wrong } else { Right }, " takes no streams")
                .fix(format!("nvme id-ctrl /dev/{controller} -H | grep -i placement"))
        }
        _ if !placement.supported => {
            let what = " cannot place data by stream: it has no Flexible Data Placement (FDP)";
            let found = finding(wrong, what);
            match device {
                Some(device) => found
                    .fix(format!("dsmctl set {} policy none", ink::device(device)))
                    .hint("it cannot be enabled; counters and discards work without streams, and policy none silences this message"),
                None => found,
            }
        }
        _ if !placement.enabled => finding(wrong, " can place data by stream (FDP), and it is switched off")
            .fix(configs(d, placement.group))
            .hint(see("shows what to enable, see") + " the drive is lost"),
        _ => {
            let what = " has FDP switched on, and its namespace was made without placement handles";
            finding(wrong, what)
                .fix(configs(d, placement.group))
                .hint(see("shows how many there are; to recreate the namespace, see") + " it is lost")
        }
    }
}

fn configs(d: &LowerDisk, group: u16) -> String {
    let controller = ink::disk(controller(&d.name));
    format!(
        "nvme fdp configs /dev/{controller} --endgrp-id={} -H",
        group.max(1)
    )
}

/// `nvme0` of `nvme0n1`.
fn controller(disk: &str) -> &str {
    let digits = disk.strip_prefix("nvme").map_or(0, |rest| {
        rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
    });
    &disk[..disk.len().min("nvme".len() + digits)]
}

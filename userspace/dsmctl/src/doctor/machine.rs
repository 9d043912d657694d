// SPDX-License-Identifier: GPL-2.0-or-later
//! Judges the machine: its kernel, the module, what is configured, and its drives.

use super::facts::{Examined, Facts};
use super::ink;
use super::{Finding, Level};
use dm::module::Module;
use drive::below::LowerDisk;
use runtime::pages::page;
use runtime::sizes;

/// The kernels from which on the module can be built, and NVMe has streams.
const OLDEST: (u32, u32) = (5, 10);
/// From the first to before the second, I/O has no lifetime hint.
const HINTLESS: [(u32, u32); 2] = [(5, 18), (6, 9)];

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![kernel(facts), module(facts)];
    findings.extend(configuration(facts));
    if facts.devices.is_empty() {
        findings.push(no_device(facts));
    }
    findings.extend(no_agent(facts));
    if facts.semaphores > 0 {
        let text = format!(
            "commands that were killed have left {} semaphores of device-mapper's",
            facts.semaphores
        );
        let finding =
            Finding::new(None, "semaphores", Level::Note, text).fix("dmsetup udevcomplete_all -y 10");
        findings.push(
            finding.hint(
                "takes those away that are older than 10 minutes; a machine has room for some thousands",
            ),
        );
    }
    findings.extend(facts.disks.iter().map(|d| {
        let finding = disk(None, d, false);
        // Nobody said that it is to take streams.
        let level = match finding.level {
            Level::Wrong => Level::Note,
            level => level,
        };
        Finding { level, ..finding }
    }));
    findings
}

/// Whether somebody wants streams of an NVMe drive.
fn wants_streams(facts: &Facts) -> bool {
    let wants = |d: &Examined| {
        let policy = d.view.status().map(|s| s.policy != "none")?;
        Some(policy && d.disks.iter().any(LowerDisk::is_nvme))
    };
    let mut seen = facts.devices.iter().filter_map(wants).peekable();
    if seen.peek().is_some() {
        return seen.any(|wanted| wanted);
    }
    facts.disks.iter().any(LowerDisk::is_nvme)
}

fn kernel(facts: &Facts) -> Finding {
    let k = &facts.kernel;
    let release = &k.release;
    let newer = "apt install -t trixie-backports linux-image-amd64 linux-headers-amd64";
    let finding = |level, text: String| {
        Finding::new(None, "kernel", level, text)
            .value("release", release)
            .value("write_streams", k.write_streams)
    };
    if !k.is_from(OLDEST.0, OLDEST.1) {
        let text = format!("Linux {release} is older than 5.10, which dm_dsm needs");
        return finding(Level::Wrong, text).fix(newer).hint("and reboot");
    }
    match k.write_streams {
        Some(true) => finding(Level::Right, format!("Linux {release} has write streams")),
        Some(false) if wants_streams(facts) => finding(
            Level::Wrong,
            format!("Linux {release} has no write streams: it cannot show an NVMe drive which data belong together"),
        )
        .fix(newer)
        .hint("6.16 or later has them, on Debian 13 from trixie-backports; then reboot"),
        Some(false) => {
            let [from, to] = HINTLESS.map(|v| k.is_from(v.0, v.1));
            let text = if from && !to {
                format!("Linux {release} has neither write streams nor lifetime hints; counts and discards need none")
            } else {
                format!("Linux {release} has no write streams; discards, and the lifetime hints of SCSI and UFS, need none")
            };
            finding(Level::Note, text)
        }
        None => finding(Level::Note, format!("Linux {release}, on which there is no disk")),
    }
}

fn module(facts: &Facts) -> Finding {
    let finding = |level, text: &str| {
        let target = facts.target.as_ref().ok().copied().flatten();
        Finding::new(None, "module", level, text)
            .value("loaded", facts.kernel.module == Module::Loaded)
            .value("target_version", target.map(|[a, b, c]| format!("{a}.{b}.{c}")))
    };
    match (facts.kernel.module, &facts.target) {
        (Module::Loaded, Ok(Some([a, b, c]))) => finding(
            Level::Right,
            &format!("dm_dsm is loaded, with version {a}.{b}.{c} of the target"),
        ),
        (Module::Loaded, _) => finding(Level::Right, "dm_dsm is loaded"),
        (Module::Installed, _) => finding(
            Level::Note,
            "dm_dsm is built for this kernel, and is loaded with the first device",
        )
        .fix("modprobe dm-dsm"),
        (Module::Missing, _) => finding(Level::Wrong, "there is no dm_dsm for this kernel")
            .fix(format!("apt install linux-headers-{}", facts.kernel.release))
            .fix("dkms autoinstall")
            .fix("modprobe dm-dsm")
            .hint("DKMS builds it (package dm-dsm-dkms) where the kernel's headers are"),
    }
}

fn configuration(facts: &Facts) -> Vec<Finding> {
    let c = &facts.configuration;
    let mut findings = Vec::new();
    for line in &c.bad_lines {
        let finding = Finding::new(None, "configuration", Level::Wrong, ink::reason(line));
        findings.push(finding.fix("dsmctl check"));
    }
    findings
}

/// Who may see no device at all learns that its dsmd is gone.
fn no_agent(facts: &Facts) -> Option<Finding> {
    let seen = facts.devices.iter().any(|d| d.view.kernel.is_some());
    if facts.permitted || seen {
        return None;
    }
    let name = facts.configuration.databases.keys().next()?;
    let why = facts.published.as_ref().err()?;
    let finding = Finding::new(None, "dsmd", Level::Wrong, ink::reason(why));
    Some(finding.fix(format!("systemctl start dsmd@{}", ink::path(name))))
}

fn no_device(facts: &Facts) -> Finding {
    if !facts.permitted {
        let text = "only root can see whether there are dsm devices";
        return Finding::new(None, "devices", Level::Unknown, text);
    }
    let takes = |d: &&LowerDisk| !d.used && d.streams.is_some_and(|n| n > 0);
    let finding = Finding::new(None, "devices", Level::Wrong, "there is no dsm device");
    match facts.disks.iter().find(takes) {
        Some(d) => finding
            .fix(format!("dsmctl create dsm /dev/{}", ink::disk(&d.name)))
            .hint(format!(
                "takes a drive that nobody uses; with data on it see {}",
                page("mongodb.md")
            )),
        None => finding.fix("dsmctl create dsm DEV").hint(format!(
            "DEV is the drive, or a volume on it: see {}",
            page("mongodb.md")
        )),
    }
}

/// What a disk can do; `wanted`: streams are.
pub(super) fn disk(device: Option<&str>, d: &LowerDisk, wanted: bool) -> Finding {
    let name = ink::disk(&d.name);
    let check = if device.is_some() { "drive" } else { "disk" };
    let finding = |level, text: String| {
        let finding = Finding::new(device, check, level, text)
            .value("disk", &name)
            .value("model", &d.model)
            .value("firmware", &d.firmware)
            .value("streams", d.streams)
            .value("handles", d.handles)
            .value("placement", d.placement)
            .value("discard_granularity_bytes", d.discard_granularity)
            .value("discard_max_bytes", d.discard_max);
        match &d.silent {
            Some(why) if finding.level != Level::Right => {
                finding.hint(format!("{name} itself could not be asked: {}", ink::reason(why)))
            }
            _ => finding,
        }
    };
    let placement = d.placement.unwrap_or_default();
    let unit = placement.reclaim_unit.map_or(String::new(), |bytes| {
        format!(", which erases units of {}", sizes::shown(bytes))
    });
    let not_wanted = if wanted { Level::Wrong } else { Level::Right };
    if !d.is_nvme() {
        let text =
            format!("{name} is not an NVMe drive: it may support lifetime hints, but does not report it");
        return finding(Level::Note, text);
    }
    match (d.streams, d.handles) {
        (Some(n @ 1..), Some(1..)) => {
            let text = format!("{name} places data by stream (FDP) in {n} streams{unit}");
            finding(Level::Right, text)
        }
        (Some(n @ 1..), _) => finding(Level::Right, format!("{name} takes {n} streams")),
        // The kernel knows no streams, the drive does.
        (None, Some(n @ 1..)) => {
            let text = format!("{name} places data by stream (FDP) in {n} streams{unit}");
            finding(Level::Right, text)
        }
        _ if !wanted && device.is_some() => {
            finding(Level::Right, format!("{name}, without streams as configured"))
        }
        _ if d.placement.is_none() => {
            let text = format!("{name} takes no streams");
            finding(not_wanted, text).fix(format!(
                "nvme id-ctrl /dev/{} -H | grep -i placement",
                ink::disk(controller(&d.name))
            ))
        }
        _ if !placement.supported => {
            let text = format!("{name} cannot place data by stream: it has no Flexible Data Placement (FDP)");
            let found = finding(Level::Wrong, text);
            match device {
                Some(device) => found
                    .fix(format!("dsmctl set {} policy none", ink::device(device)))
                    .hint("it cannot be enabled; counters and discards work without streams, and policy none silences this message"),
                None => found,
            }
        }
        _ if !placement.enabled => finding(
            Level::Wrong,
            format!("{name} can place data by stream (FDP), and it is switched off"),
        )
        .fix(configs(d, placement.group))
        .hint(format!("shows what to enable, see \"Switch FDP on\" in {}: all data on the drive is lost", page("drives.md"))),
        _ => finding(
            Level::Wrong,
            format!("{name} has FDP switched on, and its namespace was made without placement handles"),
        )
        .fix(configs(d, placement.group))
        .hint(format!("shows how many there are; to recreate the namespace, see \"Switch FDP on\" in {}: all data on it is lost", page("drives.md"))),
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

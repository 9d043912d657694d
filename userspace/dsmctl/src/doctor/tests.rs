// SPDX-License-Identifier: GPL-2.0-or-later
//! What is judged, of machines that exist in a test only.

use std::time::Duration;

use super::facts::{Configuration, Examined, Facts, Misplaced};
use super::{configuration, Diagnosis, Finding, Ink, Level};
use crate::create::User;
use crate::device_file::{self, DeviceFile};
use crate::grow::Room;
use crate::view::Viewer;
use dm::mode::Mode;
use dm::module::{KernelRelease, Module};
use dm::mounts;
use dm::reply::Status;
use dm::streams;
use drive::afford::{AffordedLayout, Copies, DriveUnits};
use drive::below::{Affords, LowerDisk};
use drive::nvme::{Isolated, Placement};
use proto::control::{DiscardInfo, Info};
use proto::device::{DeviceView, Kernel, Service, State};
use proto::drive::{Counters, Media, Source};
use proto::feed::{self, Failure, ServerInfo};
use proto::left_out::{LeftOut, Omission};
use proto::reason::{Reason, ReasonKind, OFF_FOR_A_TRIAL, PROBED, SWITCHED_OFF};
use runtime::log::{LastError, Level as LogLevel};
use runtime::time;
use testing::kernel::STATUS;

fn of_line() -> Status {
    let more = "files 12 extents 310 windows 5 unmapped_writes 7 unmapped_sectors 4096 split 3 foreign 1 stream 1 80 6400 \
        stream 3 100 400000 discard on discard_window 5 discard_valid 4 discard_queued 0 discarded 9 \
        discarded_sectors 20480 discard_refused_sectors 2048 discard_failed 0";
    format!("{STATUS} {more}").parse().unwrap()
}

fn disk() -> LowerDisk {
    LowerDisk {
        name: "nvme7n1".into(),
        model: Some("Example 1000".into()),
        firmware: Some("F1".into()),
        streams: Some(8),
        handles: Some(8),
        placement: Some(Placement {
            supported: true,
            enabled: true,
            group: 1,
            reclaim_unit: Some(64 << 20),
            isolated: Some(Isolated::Initially),
        }),
        discard_granularity: Some(4096),
        discard_max: Some(1 << 30),
        ..LowerDisk::default()
    }
}

fn info() -> Info {
    let dbpath = "/srv/geheim/data";
    serde_json::from_value(serde_json::json!({
        "dbpath": dbpath, "pid": 7, "version": env!("CARGO_PKG_VERSION"), "boundary": "auto",
        "marked": true, "files": 12, "boundaries": 10, "outgrown": 0, "checkpoints": 5,
        "last_window_ms": 60000, "window_from_bytes": 400_000 * 512u64, "uploads": 3, "refusals": 0,
        "last_refresh_ms": 2, "delalloc": 0, "shared": 0,
        "discard": DiscardInfo { files: 9, ..DiscardInfo::default() },
    }))
    .unwrap()
}

fn file(text: &str) -> DeviceFile {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("geheim.toml"), text).unwrap();
    device_file::read(dir.path(), "geheim").unwrap()
}

/// That has the device made.
fn of_drive() -> DeviceFile {
    file("drive = '/dev/disk'\n")
}

fn device() -> Examined {
    let mounts = mounts::parse(b"40 27 253:0 / /srv/geheim rw - xfs /dev/mapper/geheim rw,attr2\n");
    let kernel = Kernel {
        media: Ok(Media {
            drive: "nvme7n1".into(),
            counters: Counters {
                source: Source::Fdp,
                host: 1000,
                media: 1500,
                erased: Some(0),
                unit: 1,
            },
        }),
        ..Kernel::new("259:0 0 2 policy dsm".parse().unwrap(), of_line())
    };
    Examined {
        view: DeviceView {
            name: "geheim".into(),
            kernel: Some(kernel),
            affords: Some(affords(AffordedLayout::Life(3), 200)),
            agent: Some(info()),
            service: service(State::Served, None),
            ..DeviceView::default()
        },
        stack: streams::LowerStack {
            streams: Some(8),
            disks: vec!["nvme7n1".into()],
            ..streams::LowerStack::default()
        },
        followed: true,
        disks: vec![disk()],
        mounts,
        file: Some(file("dbpath = '/srv/geheim/data'\ndiscard = true\n")),
        dbpath: Some(Ok(())),
        turtle_age: Some(Duration::from_secs(41)),
        ..Examined::default()
    }
}

fn affords(layout: AffordedLayout, spare: u64) -> Affords {
    let drive = DriveUnits {
        units: 10 * spare,
        spare,
        handles: 8,
        copies: Copies::Apart,
    };
    Affords::new(layout, Some(drive), "what nvme7n1 reports".into())
}

fn good() -> Facts {
    Facts {
        kernel: KernelRelease {
            release: "7.2.0-1".into(),
            write_streams: Some(true),
            module: Module::Loaded,
            signed_only: false,
            disks: vec!["nvme7n1".into()],
        },
        target: Some([0, 1, 0]),
        semaphores: 0,
        permitted: true,
        configuration: Configuration::default(),
        disks: Vec::new(),
        devices: vec![device()],
    }
}

fn diagnosis(change: impl FnOnce(&mut Facts)) -> Diagnosis {
    let mut facts = good();
    change(&mut facts);
    Diagnosis::of(&facts, Duration::from_secs(300))
}

fn of_device(change: impl FnOnce(&mut Examined)) -> Diagnosis {
    diagnosis(|f| change(&mut f.devices[0]))
}

fn kernel(d: &mut Examined) -> &mut Kernel {
    d.view.kernel.as_mut().unwrap()
}

fn status(change: impl FnOnce(&mut Status)) -> Diagnosis {
    of_device(|d| change(&mut kernel(d).status))
}

fn agent(change: impl FnOnce(&mut Info)) -> Diagnosis {
    of_device(|d| change(d.view.agent.as_mut().unwrap()))
}

fn absent(d: &mut Examined, why: Reason) {
    (d.view.kernel, d.view.unseen) = (None, Some(why));
}

fn service(state: State, reason: Option<Reason>) -> Option<Service> {
    let mut service = Service::default();
    service.set(state, reason);
    service.since -= 7.0;
    Some(service)
}

fn find<'a>(d: &'a Diagnosis, check: &str) -> &'a Finding {
    let found = d.findings.iter().find(|f| f.check == check);
    found.unwrap_or_else(|| panic!("{check} is not in {:#?}", d.findings))
}

/// The one thing that is wrong, in a word, and the commands that fix it.
#[track_caller]
fn wrong(d: &Diagnosis, check: &str, says: &str, fix: &[&str]) {
    let wrong: Vec<&str> = d
        .findings
        .iter()
        .filter(|f| f.level == Level::Wrong)
        .map(|f| f.check)
        .collect();
    assert!(wrong.contains(&check), "{wrong:?}");
    let f = find(d, check);
    let text = Ink::plain().write(&f.text);
    assert!(text.contains(says), "{text}");
    let commands: Vec<String> = f.fix.iter().map(|m| Ink::plain().write(m)).collect();
    assert_eq!(commands, fix);
    assert_eq!(d.status(), 1);
}

#[track_caller]
fn right(d: &Diagnosis, check: &str, says: &str) {
    let f = find(d, check);
    let text = Ink::plain().write(&f.text);
    assert!(text.contains(says), "{text}");
    assert_eq!(f.level, Level::Right, "{text}");
}

#[track_caller]
fn note(d: &Diagnosis, check: &str, says: &str) {
    let f = find(d, check);
    let text = Ink::plain().write(&f.text);
    assert!(text.contains(says), "{text}");
    assert_eq!(f.level, Level::Note, "{text}");
    assert_eq!(d.status(), 0, "a note is nothing wrong");
}

#[test]
fn all_is_right() {
    let d = diagnosis(|_| {});
    assert_eq!(d.status(), 0);
    assert!(
        d.findings.iter().all(|f| f.level == Level::Right),
        "{:#?}",
        d.findings
    );
    assert_eq!(
        d.text(&Ink::plain()),
        "\
this machine
  ok     kernel         Linux 7.2.0-1 has write streams
  ok     module         dm_dsm is loaded, with version 0.1.0 of the target

geheim
  ok     drive          nvme7n1 places data by stream (FDP) in 8 streams, which
                        erases units of 64 MiB
  ok     written        1.50 bytes of flash for each from hosts, since nvme7n1
                        was made (FDP statistics)
  ok     below          it lies on nvme7n1
  ok     streams        policy dsm uses 8 of 8
  ok     table          it knows of 12 files, in 310 extents (pieces)
  ok     filesystem     XFS, mounted at /srv/geheim
  ok     dbpath         /srv/geheim/data lies on it
  ok     dsmd           dsmd 0.1.0 serves it
  ok     left-out       nothing is left out but what is usual
  ok     unmapped       1.0 % of what was written was in no known file
  ok     checkpoints    the last was seen 41 s ago, 60 s after the one before; 5
                        since the device was made
  ok     boundaries     10 of 12 files have one, and none has outgrown it
  ok     discard        on: 10 MiB discarded; 1 MiB refused, as rewritten

Nothing is wrong.
"
    );
}

#[test]
fn the_kernel_and_the_module() {
    let old = |policy: &'static str| {
        diagnosis(move |f| {
            f.kernel.release = "6.12.48".into();
            f.kernel.write_streams = Some(false);
            kernel(&mut f.devices[0]).status.policy = policy.into();
        })
    };
    let newer = "apt install -t trixie-backports linux-image-amd64 linux-headers-amd64";
    wrong(
        &old("dsm"),
        "kernel",
        "Linux 6.12.48 has no write streams",
        &[newer],
    );
    note(&old("none"), "kernel", "has no write streams");
    for (release, hints) in [
        ("5.17.9", true),
        ("5.18.0", false),
        ("6.1.0-9", false),
        ("6.9.0", true),
    ] {
        let bare = diagnosis(|f| {
            f.kernel.release = release.into();
            f.kernel.write_streams = Some(false);
            kernel(&mut f.devices[0]).status.policy = "none".into();
        });
        let text = if hints {
            "need none"
        } else {
            "neither write streams nor lifetime hints"
        };
        note(&bare, "kernel", text);
        assert_eq!(bare.text(&Ink::plain()).contains("neither write streams"), !hints);
    }
    let older = diagnosis(|f| f.kernel.release = "5.9.16-1".into());
    wrong(&older, "kernel", "older than 5.10", &[newer]);
    let missing = diagnosis(|f| f.kernel.module = Module::Missing);
    let commands = [
        "apt install linux-headers-7.2.0-1",
        "dkms autoinstall",
        "modprobe dm-dsm",
    ];
    wrong(&missing, "module", "no dm_dsm for this kernel", &commands);
    note(
        &diagnosis(|f| f.kernel.module = Module::Installed),
        "module",
        "is built",
    );
    let refused = diagnosis(|f| {
        (f.kernel.module, f.kernel.signed_only) = (Module::Installed, true);
        f.configuration.files.insert("geheim".into(), of_drive());
    });
    wrong(
        &refused,
        "module",
        "is not loaded, although devices are to be there",
        &["modprobe dm-dsm"],
    );
    assert!(refused.text(&Ink::plain()).contains("a signature that it trusts"));
}

#[test]
fn what_is_configured() {
    let d = diagnosis(|f| {
        f.configuration
            .bad_lines
            .push("/etc/dsm/geheim.toml: line 1: y".into())
    });
    wrong(&d, "configuration", "line 1", &["dsmctl check"]);
    let missing = |tab: bool| {
        diagnosis(move |f| {
            let gone = Reason::new(
                ReasonKind::NoDevice,
                "geheim: there is no device-mapper device of this name",
            );
            absent(&mut f.devices[0], gone);
            if tab {
                f.devices[0].file = Some(of_drive());
            }
        })
    };
    wrong(
        &missing(true),
        "device",
        "there is no device-mapper device",
        &["dsmctl attach geheim"],
    );
    wrong(&missing(false), "device", "geheim", &["dsmctl create geheim DEV"]);
    let bypassed = |user: User| {
        diagnosis(move |f| {
            let gone = Reason::new(
                ReasonKind::NoDevice,
                "geheim: there is no device-mapper device of this name",
            );
            absent(&mut f.devices[0], gone);
            (f.devices[0].file, f.devices[0].held) = (Some(of_drive()), Some(user));
        })
    };
    wrong(
        &bypassed(User::Holders(vec!["vg-db".into()])),
        "device",
        "its drive /dev/disk is used without it: vg-db has it",
        &["dsmctl attach geheim"],
    );
    wrong(
        &bypassed(User::Mount("/db".into())),
        "device",
        "its drive /dev/disk is used without it: it is mounted at /db",
        &["umount /db", "dsmctl attach geheim"],
    );
    for (kind, fix) in [
        (ReasonKind::Other, vec![]),
        (ReasonKind::NoDeviceMapper, vec!["modprobe dm-mod"]),
    ] {
        let other = of_device(|d| {
            absent(d, Reason::new(kind, "it is so"));
        });
        wrong(&other, "device", "it is so", &fix);
    }
}

#[test]
fn a_machine_without_a_device() {
    let none = |change: fn(&mut Facts)| {
        diagnosis(move |f| {
            f.devices.clear();
            f.disks = vec![
                LowerDisk { used: true, ..disk() },
                LowerDisk {
                    name: "nvme8n1".into(),
                    ..disk()
                },
                LowerDisk {
                    name: "sda".into(),
                    ..LowerDisk::default()
                },
            ];
            change(f);
        })
    };
    let d = none(|_| {});
    wrong(
        &d,
        "devices",
        "there is no dsm device",
        &["dsmctl create dsm /dev/nvme8n1"],
    );
    assert_eq!(find(&d, "disk").level, Level::Right);
    let d = none(|f| f.disks.clear());
    wrong(
        &d,
        "devices",
        "there is no dsm device",
        &["dsmctl create dsm DEV"],
    );
    let d = none(|f| f.permitted = false);
    assert_eq!((find(&d, "devices").level, d.status()), (Level::Unknown, 2));
    // Who may see no device learns what its dsmd does all the same.
    let unseen = |service: Option<Service>| {
        diagnosis(move |f| {
            let mut d = device();
            absent(
                &mut d,
                Reason::new(ReasonKind::Hidden, "only root can look at it"),
            );
            (d.view.agent, d.view.service) = (None, service);
            (f.permitted, f.devices) = (false, vec![d]);
        })
    };
    wrong(
        &unseen(None),
        "dsmd",
        "no dsmd serves it",
        &["systemctl start dsmd@geheim"],
    );
    let waits = unseen(service(State::Waiting, Some("it is gone".into())));
    wrong(
        &waits,
        "dsmd",
        "dsmd waits: it is gone",
        &["journalctl -n 50 -u dsmd@geheim"],
    );
}

#[test]
fn drives_that_take_no_streams() {
    let of = |change: fn(&mut LowerDisk)| {
        of_device(move |d| {
            let disk = &mut d.disks[0];
            disk.streams = Some(0);
            disk.handles = Some(0);
            change(disk);
            kernel(d).status.layout = "none".into();
            kernel(d).status.source = "none".into();
            kernel(d).status.device_streams = 0;
        })
    };
    let configs = "nvme fdp configs /dev/nvme7 --endgrp-id=1 -H";
    let off = of(|d| d.placement.as_mut().unwrap().enabled = false);
    wrong(&off, "drive", "it is switched off", &[configs]);
    assert!(find(&off, "drive")
        .hint
        .as_ref()
        .unwrap()
        .contains("all data on the drive is lost"));
    wrong(&off, "streams", "there are none below", &[]);
    wrong(&of(|_| {}), "drive", "without placement handles", &[configs]);
    let never = of(|d| d.placement = Some(Placement::default()));
    wrong(
        &never,
        "drive",
        "no Flexible Data Placement",
        &["dsmctl set geheim policy none"],
    );
    let hidden = of(|d| {
        d.placement = None;
        d.handles = None;
        d.silent = Some("Permission denied".into());
    });
    wrong(
        &hidden,
        "drive",
        "takes no streams",
        &["nvme id-ctrl /dev/nvme7 -H | grep -i placement"],
    );
    assert!(find(&hidden, "drive")
        .hint
        .as_ref()
        .unwrap()
        .contains("Permission denied"));
    // With discards alone, nobody wants streams.
    let none = of_device(|d| {
        d.disks[0].streams = Some(0);
        d.disks[0].handles = None;
        kernel(d).status.policy = "none".into();
        kernel(d).status.layout = "none".into();
    });
    assert_eq!(none.status(), 0, "{:#?}", none.findings);
    assert!(none.findings.iter().all(|f| f.level == Level::Right));
}

#[test]
fn what_lies_between() {
    fn stack(d: &mut Examined) {
        (d.stack.stacked, d.stack.streams) = (true, Some(8));
    }
    let recreate = [
        "umount /dev/mapper/geheim",
        "dsmctl remove geheim",
        "dsmctl create geheim DEV",
    ];
    let crypt = of_device(|d| d.stack.losing.push("dm-3".into()));
    wrong(&crypt, "below", "dm-3 between it and nvme7n1", &recreate);
    let raid = of_device(move |d| {
        stack(d);
        d.stack.barring.push("md0 (raid1)".into());
    });
    wrong(&raid, "below", "is md0 (raid1), above which", &recreate);
    let unnamed = of_device(move |d| {
        stack(d);
        kernel(d).status.source = "stacked".into();
        kernel(d).status.layout = "none".into();
    });
    wrong(&unnamed, "below", "not named when the device was made", &recreate);
    wrong(&unnamed, "streams", "does not report any", &[]);
    let volume = of_device(move |d| {
        stack(d);
        kernel(d).status.source = "leaves".into();
    });
    assert_eq!(volume.status(), 0);
    let text = Ink::plain().write(&find(&volume, "below").text);
    assert_eq!(text, "it lies on a volume of nvme7n1");
    let machine = of_device(move |d| {
        stack(d);
        kernel(d).status.source = "machine".into();
    });
    note(&machine, "below", "another disk here takes fewer");
    let hidden = of_device(move |d| {
        stack(d);
        d.followed = false;
    });
    assert_eq!(
        (find(&hidden, "below").level, hidden.status()),
        (Level::Unknown, 2)
    );
}

#[test]
fn counters_that_cannot_be() {
    let d = of_device(|d| {
        let media = kernel(d).media.as_mut().unwrap();
        (media.counters.host, media.counters.media) = (1 << 20, 5 << 30);
    });
    note(
        &d,
        "written",
        "nvme7n1: its counters say 1048576 bytes from hosts and 5368709120 of flash",
    );
    assert_eq!(
        find(&d, "written").values["write_amplification"],
        serde_json::Value::Null
    );
}

#[test]
fn what_it_lies_on_has_grown() {
    let size = |has: u64, room: u64, kind: &'static str| {
        of_device(move |d| {
            d.mounts[0].kind = kind.into();
            kernel(d).devno = d.mounts[0].dev;
            kernel(d).sectors = has;
            d.room = Some(Room {
                sectors: room,
                below: "vol".into(),
                unclear: None,
            });
        })
    };
    assert!(!size(2048, 2048, "xfs").findings.iter().any(|f| f.check == "size"));
    let fixes = |kind| {
        let d = size(2048, 4096, kind);
        note(&d, "size", "it is 1 MiB long, and vol has 2 MiB for it");
        let fix = find(&d, "size").fix.iter().map(|f| Ink::plain().write(f));
        fix.collect::<Vec<_>>()
    };
    assert_eq!(fixes("xfs"), ["dsmctl grow geheim", "xfs_growfs /srv/geheim"]);
    assert_eq!(
        fixes("ext4"),
        ["dsmctl grow geheim", "resize2fs /dev/mapper/geheim"]
    );
    assert_eq!(fixes("f2fs"), ["dsmctl grow geheim"]);
    wrong(
        &size(4096, 2048, "xfs"),
        "size",
        "it is 2 MiB long, but vol has only 1 MiB for it",
        &[],
    );
}

#[test]
fn streams_and_table() {
    note(
        &status(|s| s.layout = "file".into()),
        "streams",
        "too few for policy dsm",
    );
    wrong(
        &status(|s| s.files = 0),
        "table",
        "knows of no file",
        &["dsmctl debug refresh geheim"],
    );
    let error = |d: &mut Examined| d.error = Some("groups 17: no".into());
    let without_dsmd = of_device(|d| {
        error(d);
        d.view.agent = None;
    });
    let f = find(&without_dsmd, "table");
    assert_eq!(f.level, Level::Note);
    assert!(Ink::plain().write(&f.text).ends_with("refused: groups 17: no"));
    // An upload that was refused once and taken then is no matter any more.
    right(
        &of_device(error),
        "table",
        "it knows of 12 files, in 310 extents (pieces)",
    );
    wrong(
        &agent(|a| a.refused = Some("overlap".into())),
        "table",
        "; the kernel refuses what differs now: overlap",
        &["dsmctl debug refresh geheim"],
    );
}

#[test]
fn streams_that_the_drive_affords() {
    let fixes = |d: &Diagnosis| -> Vec<String> {
        let fix = find(d, "streams").fix.iter();
        fix.map(|m| Ink::plain().write(m)).collect()
    };
    let hint = |d: &Diagnosis| find(d, "streams").hint.as_ref().map(|h| Ink::plain().write(h));
    let of = |policy: &str, found: Option<Affords>| {
        of_device(|d| {
            kernel(d).status.policy = policy.into();
            d.view.affords = found;
            d.view.agent.as_mut().unwrap().discard = None;
            d.file = None;
        })
    };
    // Eight streams hold 17.
    right(
        &of("dsm", Some(affords(AffordedLayout::Life(3), 171))),
        "streams",
        "uses 8 of 8",
    );
    right(&of("dsm", None), "streams", "uses 8 of 8");
    let greedy = of("dsm", Some(affords(AffordedLayout::Life(2), 170)));
    note(
        &greedy,
        "streams",
        "which hold 17 erase units of a drive that has 170 to spare",
    );
    assert_eq!(
        fixes(&greedy),
        [
            "dsmctl set geheim policy life",
            "dsmctl set geheim groups 2",
            "dsmctl set geheim streams 4"
        ]
    );
    assert_eq!(hint(&greedy).unwrap(), "what nvme7n1 reports");
    let none = of("dsm", Some(affords(AffordedLayout::None, 3)));
    assert_eq!(fixes(&none), ["dsmctl set geheim policy none"]);

    let idle = of("none", Some(affords(AffordedLayout::Life(2), 171)));
    note(&idle, "streams", "not stamped");
    let set = ["policy life", "groups 2", "streams 4"].map(|f| format!("dsmctl set geheim {f}"));
    assert_eq!(fixes(&idle), set);
    let rightly = of("none", Some(affords(AffordedLayout::None, 3)));
    right(&rightly, "streams", "not stamped");
    assert_eq!(hint(&rightly).unwrap(), "what nvme7n1 reports");
    let unknown = of(
        "none",
        Some(Affords::new(AffordedLayout::None, None, "silence".into())),
    );
    note(&unknown, "streams", "not stamped");
    assert!(fixes(&unknown).is_empty());
    // Somebody who may not ask it is told no fix.
    for policy in ["dsm", "none"] {
        let silent = Affords {
            silent: true,
            ..affords(AffordedLayout::Life(2), 171)
        };
        let silent = of(policy, Some(silent));
        assert_eq!(find(&silent, "streams").level, Level::Unknown, "{policy}");
        assert!(fixes(&silent).is_empty(), "{policy}");
    }
    let discards = of_device(|d| kernel(d).status.policy = "none".into());
    right(&discards, "streams", "not stamped");
    assert!(fixes(&discards).is_empty());
}

#[test]
fn what_a_killed_command_has_left() {
    let left = |left: &[&str]| {
        let left = left.iter().map(|what| (*what).to_owned()).collect();
        of_device(|d| d.left = Some(Ok(left)))
    };
    assert!(left(&[]).findings.iter().all(|f| f.check != "left"));
    wrong(
        &left(&["discard_granularity 4096, which was auto", "2 scratch files in its table"]),
        "left",
        "a command that was killed has left discard_granularity 4096, which was auto, 2 scratch files in its table",
        &["dsmctl debug restore geheim"],
    );
}

#[test]
fn file_system_and_directory() {
    let gone = of_device(|d| d.mounts.clear());
    wrong(
        &gone,
        "filesystem",
        "no file system",
        &["mount /dev/mapper/geheim /srv/geheim/data"],
    );
    let of = |kind: &'static str| of_device(move |d| d.mounts[0].kind = kind.into());
    wrong(
        &of("btrfs"),
        "filesystem",
        "btrfs",
        &["mkfs.xfs /dev/mapper/geheim"],
    );
    note(&of("f2fs"), "filesystem", "f2fs");
    assert_eq!(of("ext4").status(), 0);
    let reason = "/srv/geheim/data: it is on sda (8:0), not on the dsm device";
    let wrong_place = of_device(|d| d.dbpath = Some(Err(Misplaced::Wrong(reason.into()))));
    wrong(
        &wrong_place,
        "dbpath",
        "it is on sda",
        &["findmnt -T /srv/geheim/data"],
    );
    let hidden = of_device(|d| d.dbpath = Some(Err(Misplaced::Hidden)));
    assert_eq!(
        (find(&hidden, "dbpath").level, hidden.status()),
        (Level::Unknown, 2)
    );
}

#[test]
fn the_agent() {
    let none = "geheim: no dsmd serves this device (nothing answers at /run/dsm/geheim.sock)";
    let without = |change: fn(&mut Facts)| {
        diagnosis(move |f| {
            let view = &mut f.devices[0].view;
            (view.agent, view.service) = (None, None);
            view.silent = Some(Reason::new(ReasonKind::NotServed, none));
            change(f);
        })
    };
    wrong(
        &without(|_| {}),
        "dsmd",
        "no dsmd serves it",
        &["systemctl start dsmd@geheim"],
    );
    let unknown = without(|f| f.devices[0].file = None);
    let line = r#"printf 'dbpath = "%s"\n' /srv/geheim >>/etc/dsm/geheim.toml"#;
    wrong(
        &unknown,
        "dsmd",
        "no dsmd serves it",
        &[line, "systemctl start dsmd@geheim"],
    );
    let waits_since = |kind, reason: &'static str, before: f64| {
        diagnosis(move |f| {
            kernel(&mut f.devices[0]).status.files = 0;
            f.devices[0].view.agent = None;
            f.devices[0].view.silent = Some(Reason::new(ReasonKind::NotServed, none));
            let mut service = service(State::Waiting, Some(Reason::new(kind, reason)));
            service.as_mut().unwrap().since -= before;
            f.devices[0].view.service = service;
        })
    };
    let waits = |kind, reason| waits_since(kind, reason, 60.0);
    let starting = waits_since(ReasonKind::NoDatabase, "/x: it is not", 0.0);
    assert_eq!(find(&starting, "dsmd").level, Level::Note);
    assert_eq!(starting.status(), 0, "{:?}", starting.findings);
    wrong(
        &waits(
            ReasonKind::NoDatabase,
            "/x: it is not a data directory of MongoDB: there is",
        ),
        "dsmd",
        "dsmd waits: /x: it is not",
        &["systemctl start mongod"],
    );
    // One cause is one thing to mend.
    let first = waits(
        ReasonKind::NoDatabase,
        "/x: it is not a data directory of MongoDB: there is",
    );
    assert_eq!(first.count(Level::Wrong), 1, "{:?}", first.findings);
    for (check, says) in [
        ("table", "it knows of no file"),
        ("discard", "dsmd makes none"),
        ("checkpoints", "dsmd sees the next when it serves"),
    ] {
        let found = find(&first, check);
        assert_eq!(found.level, Level::Note, "{check}");
        assert!(
            found.text.contains(says) && found.fix.is_empty(),
            "{}",
            found.text
        );
    }
    wrong(
        &waits(ReasonKind::Other, "the sky"),
        "dsmd",
        "waits: the sky",
        &["journalctl -n 50 -u dsmd@geheim"],
    );
    wrong(
        &waits(ReasonKind::NotMounted, "/x: cannot open it: No such file"),
        "dsmd",
        "cannot open it",
        &["mount /dev/mapper/geheim /srv/geheim/data"],
    );
    let strange = without(|f| f.devices[0].view.service = service(State::Served, None));
    wrong(
        &strange,
        "dsmd",
        "no dsmd serves it",
        &["systemctl restart dsmd@geheim"],
    );
    let stuck = without(|f| f.devices[0].view.silent = Some("geheim: dsmd does not answer".into()));
    wrong(
        &stuck,
        "dsmd",
        "does not answer",
        &["systemctl restart dsmd@geheim"],
    );
    let in_state = |state, reason: &'static str| {
        of_device(move |d| {
            d.view.service = service(state, Some(reason.into()));
            d.dbpath = Some(Err(Misplaced::Unasked));
        })
    };
    let hangs = in_state(State::Stuck, "its agent waits in the kernel");
    wrong(
        &hangs,
        "dsmd",
        "has not answered for 7 s: its agent waits in the kernel",
        &["dmesg | tail -n 50"],
    );
    let dbpath = hangs.findings.iter().find(|f| f.check == "dbpath").unwrap();
    assert_eq!(dbpath.level, Level::Unknown);
    assert!(dbpath.text.contains("was not looked at"), "{}", dbpath.text);
    wrong(
        &in_state(State::Ended, "signal 9 ended its process"),
        "dsmd",
        "has ended, 7 s ago: signal 9",
        &["journalctl -n 50 -u dsmd@geheim"],
    );
    let restarted = of_device(|d| {
        d.view.service = service(State::Served, None);
        d.view.service.as_mut().unwrap().restarts = 3;
    });
    note(&restarted, "dsmd", "restarts: 3");
    let silent = of_device(|d| d.view.service = None);
    wrong(
        &silent,
        "dsmd",
        "publishes nothing",
        &["systemctl restart dsmd@geheim"],
    );
    note(
        &agent(|a| a.version = "0.0.9".into()),
        "dsmd",
        "dsmd 0.0.9 serves it",
    );
    let last_error = of_device(|d| {
        d.view.last_error = Some(LastError {
            at: time::now().as_secs() - 7200,
            level: LogLevel::Error,
            message: "cannot write the state file".into(),
            reason: None,
        });
    });
    note(&last_error, "last_error", "2 h ago: cannot write the state file");
}

#[test]
fn writes_without_a_place() {
    let much = |s: &mut Status| s.unmapped_sectors = 40_000;
    wrong(
        &status(much),
        "unmapped",
        "9.8 % of what was written",
        &["dsmctl debug refresh geheim", "dsmctl debug reset geheim"],
    );
    // A small database, whose files grow
    let growth = |bytes: u64| {
        of_device(move |d| {
            much(&mut kernel(d).status);
            d.view.agent.as_mut().unwrap().bytes = bytes;
        })
    };
    note(
        &growth(40_000 * 512),
        "unmapped",
        "19.5 MiB: no more than the files' own growth",
    );
    assert_eq!(find(&growth(40_000 * 512 - 1), "unmapped").level, Level::Wrong);
    // 5 % of little is nothing.
    let little = status(|s| {
        s.streams.truncate(1);
        s.streams[0].sectors = 2000;
        s.unmapped_sectors = 2000;
    });
    assert_eq!(little.status(), 0);
    let loading = of_device(|d| {
        much(&mut kernel(d).status);
        d.view.agent.as_mut().unwrap().marked = false;
    });
    note(&loading, "unmapped", "normal while data is loaded");
    let alone = of_device(|d| {
        much(&mut kernel(d).status);
        d.view.agent = None;
    });
    wrong(
        &alone,
        "unmapped",
        "9.8 %",
        &["systemctl start dsmd@geheim", "dsmctl debug reset geheim"],
    );
    assert_eq!(status(|s| s.streams.clear()).status(), 0);
}

#[test]
fn checkpoints_that_are_late() {
    let late = |written: u64, turtle: Option<u64>| {
        of_device(move |d| {
            kernel(d).status.window_ms = 900_000;
            d.view.agent.as_mut().unwrap().window_from_bytes = 406_400 * 512 - written;
            d.turtle_age = turtle.map(Duration::from_secs);
        })
    };
    wrong(
        &late(4 << 20, Some(20)),
        "checkpoints",
        "the last was seen 15 min ago, and 4 MiB were written since; the database made one 20 s ago",
        &["systemctl restart dsmd@geheim"],
    );
    let fsync = "mongosh --quiet --eval 'db.adminCommand({fsync: 1})'";
    wrong(
        &late(4 << 20, Some(901)),
        "checkpoints",
        "the database makes none",
        &[fsync],
    );
    wrong(
        &late(4 << 20, None),
        "checkpoints",
        "the database makes none",
        &[fsync],
    );
    assert_eq!(late(4096, Some(20)).status(), 0, "nothing was written");
    // The counters were reset: all that is counted was written since.
    let reset = of_device(|d| {
        kernel(d).status.window_ms = 900_000;
        d.view.agent.as_mut().unwrap().window_from_bytes = u64::MAX;
    });
    wrong(
        &reset,
        "checkpoints",
        "198.4 MiB were written",
        &["systemctl restart dsmd@geheim"],
    );
    note(&status(|s| s.windows = 0), "checkpoints", "none was seen in 41 s");
    let mut facts = good();
    facts.devices[0].view.agent.as_mut().unwrap().window_from_bytes = 0;
    assert_eq!(Diagnosis::of(&facts, Duration::from_secs(30)).status(), 1);
}

/// "ok" is said of what was seen to work.
#[test]
fn discards_of_which_none_are_made() {
    let discard = |change: fn(&mut DiscardInfo)| agent(move |a| change(a.discard.as_mut().unwrap()));
    let fix = &["journalctl -n 50 -u dsmd@geheim"][..];
    let none = discard(|i| (i.idle_looks, i.files) = (14, 0));
    wrong(&none, "discard", "on, 0 bytes in 14 checkpoints: of no file", fix);
    let unplaced = discard(|i| {
        (i.idle_looks, i.freed_bytes, i.unplaced_bytes) = (14, 8 << 20, 8 << 20);
    });
    wrong(
        &unplaced,
        "discard",
        "8 MiB lie in files that have a second name",
        fix,
    );
    let short = discard(|i| {
        (i.idle_looks, i.freed_bytes, i.short_bytes) = (14, 8 << 20, 8 << 20);
    });
    wrong(
        &short,
        "discard",
        "8 MiB are in pieces that are less than the drive discards at a time",
        fix,
    );
    right(&discard(|i| i.idle_looks = 14), "discard", "on: ");
    // It worked once, and nothing was freed since, or much was.
    let since = |bytes| {
        agent(move |a| {
            let i = a.discard.as_mut().unwrap();
            (i.idle_looks, i.files, i.sent_bytes, i.idle_bytes) = (14, 3, 4096, bytes);
        })
    };
    right(&since(0), "discard", "on: ");
    let said = "on, 0 bytes in 14 checkpoints: of 8 MiB that they freed";
    wrong(&since(8 << 20), "discard", said, fix);
}

#[test]
fn what_is_left_out() {
    let left = |reason, count| {
        agent(move |a| {
            a.left_out = LeftOut::some(reason, count, Some("geheim".into()))
                .into_iter()
                .collect()
        })
    };
    right(
        &left(Omission::NoPlace, 7),
        "left-out",
        "nothing is left out but what is usual",
    );
    note(
        &left(Omission::Symlink, 2),
        "left-out",
        "2 symbolic links, which are not followed (geheim)",
    );
    wrong(
        &left(Omission::Unreadable, 3),
        "left-out",
        "3 files or directories that cannot be read: writes to them are unmapped (geheim)",
        &["journalctl -p warning -n 20 -u dsmd@geheim"],
    );
    let usual = left(Omission::NoPlace, 7);
    assert_eq!(find(&usual, "left-out").values["counts"]["no-place"], 7);
}

#[test]
fn mounts_that_cannot_be_read_are_not_none() {
    let hidden = of_device(|d| {
        d.mounts = Vec::new();
        d.unmounted = Some("/proc/self/mountinfo: Permission denied".into());
    });
    let found = find(&hidden, "filesystem");
    assert_eq!(found.level, Level::Unknown);
    assert!(
        found.text.contains("what is mounted cannot be read"),
        "{}",
        found.text
    );
    let left = of_device(|d| d.left = Some(Err("the journal cannot be read".into())));
    let found = find(&left, "left");
    assert_eq!(found.level, Level::Unknown);
}

#[test]
fn a_journal_that_lies_elsewhere() {
    note(
        &of_device(|d| d.journal_linked = true),
        "dbpath",
        "its journal elsewhere, by a symbolic link",
    );
}

#[test]
fn what_killed_commands_leave() {
    let left = diagnosis(|f| f.semaphores = 3);
    note(&left, "semaphores", "have left 3 semaphores");
}

#[test]
fn boundaries_and_discards() {
    // It costs little, as the alert says, and comes with each new database that grows.
    let outgrown = agent(|a| a.outgrown = 3);
    note(&outgrown, "boundaries", "3 of 10 files have outgrown theirs");
    let fix = &find(&outgrown, "boundaries").fix;
    assert_eq!(Ink::plain().write(&fix[0]), "dsmctl boundary move geheim");
    note(&agent(|a| a.marked = false), "boundaries", "when loading is over");
    let discard = |change: fn(&mut DiscardInfo)| agent(move |a| change(a.discard.as_mut().unwrap()));
    let off = of_device(|d| {
        kernel(d).status.discard.state = Mode::Off;
        d.view.agent.as_mut().unwrap().discard.as_mut().unwrap().off =
            Some(Reason::new(ReasonKind::SwitchedOff, SWITCHED_OFF));
    });
    wrong(
        &off,
        "discard",
        "were switched off",
        &["dsmctl set geheim discard on"],
    );
    note(
        &discard(|i| i.off = Some(Reason::new(ReasonKind::Early, "not yet: there is none"))),
        "discard",
        "not yet",
    );
    note(
        &discard(|i| i.off = Some(Reason::new(ReasonKind::Backup, "a backup is running"))),
        "discard",
        "a backup is running",
    );
    note(
        &discard(|i| i.off = Some(Reason::new(ReasonKind::Probe, PROBED))),
        "discard",
        PROBED,
    );
    note(
        &discard(|i| i.off = Some(Reason::new(ReasonKind::Restarted, "another process has it"))),
        "discard",
        "another process has it",
    );
    fn unsupported() -> Option<Reason> {
        Some(Reason::new(ReasonKind::Unsupported, "because of a snapshot"))
    }
    assert_eq!(discard(|i| i.off = unsupported()).status(), 1);
    let snapshot = discard(|i| (i.sent_bytes, i.off) = (1 << 20, unsupported()));
    note(&snapshot, "discard", "because of a snapshot");
    let closed = |ago: f64| {
        of_device(move |d| {
            d.view.service.as_mut().unwrap().since -= ago;
            d.view.agent.as_mut().unwrap().discard.as_mut().unwrap().off =
                Some(Reason::new(ReasonKind::Closed, "no process has it"));
        })
    };
    wrong(
        &closed(60.0),
        "discard",
        "no process",
        &["systemctl start mongod"],
    );
    note(&closed(0.0), "discard", "no process has it");
    wrong(&discard(|i| i.off = Some("dax".into())), "discard", "dax", &[]);
    let coarse = |bytes, table: &'static str| {
        of_device(move |d| {
            d.disks[0].discard_granularity = Some(bytes);
            kernel(d).table = table.parse().unwrap();
        })
    };
    let says = "the drive says 128 KiB, and nobody has measured what it takes";
    for table in [
        "259:0 0 2 policy dsm",
        "259:0 0 4 policy dsm discard_granularity auto",
    ] {
        let asked = coarse(128 << 10, table);
        note(&asked, "discard", says);
        let fix: Vec<String> = find(&asked, "discard")
            .fix
            .iter()
            .map(|m| Ink::plain().write(m))
            .collect();
        assert_eq!(fix, ["dsmctl probe-discard geheim"]);
    }
    right(
        &coarse(4 << 10, "259:0 0 2 policy dsm"),
        "discard",
        "10 MiB discarded",
    );
    let measured = coarse(128 << 10, "259:0 0 4 policy dsm discard_granularity 4096");
    right(&measured, "discard", "10 MiB discarded");
    note(&discard(|i| i.waiting = 2), "discard", "after 2 more checkpoints");
    let audit = |i: &mut DiscardInfo| {
        i.mode = Mode::Audit;
        i.audit.wanted_pages = 1000;
        (i.audit.seen_pages, i.audit.seen_checkpoints) = (640, 2);
    };
    note(
        &discard(audit),
        "discard",
        "audit: 640 of 1000 pages were seen to be written before they were used again, at 2 checkpoints",
    );
    let only = discard(|i| {
        i.mode = Mode::Audit;
        i.audit.only = Some("it is of WiredTiger 13.0.0".into());
        i.audit.suspect_pages = 3;
    });
    note(
        &only,
        "discard",
        "only audited: it is of WiredTiger 13.0.0; 0 pages were seen to be written before they were used again, at 0 checkpoints; 3 are in use and not written yet",
    );
    let sent = discard(|i| i.last_sent = Some(time::now().as_secs() - 7200));
    assert!(find(&sent, "discard")
        .text
        .contains("10 MiB discarded, the last 2 h ago"));
    wrong(
        &status(|s| s.discard.failed = 2),
        "discard",
        "failed 2",
        &["dmesg | grep -i discard", "dsmctl set geheim discard off"],
    );
    wrong(
        &agent(|a| a.discard = None),
        "discard",
        "makes none",
        &["systemctl restart dsmd@geheim"],
    );
    let not = of_device(|d| {
        d.file.as_mut().unwrap().config.discard = Mode::Off;
        d.view.agent.as_mut().unwrap().discard = None;
        kernel(d).status.discard.state = Mode::Off;
    });
    note(&not, "discard", "off: the drive keeps copying");
    let fix: Vec<String> = find(&not, "discard")
        .fix
        .iter()
        .map(|m| Ink::plain().write(m))
        .collect();
    assert_eq!(fix, ["dsmctl free /srv/geheim/data"]);
}

#[test]
fn what_the_server_does_not_do() {
    type Shape = (bool, bool, Option<(feed::FailureKind, &'static str)>);
    let server = |(connected, catalog, failure): Shape| {
        agent(move |a| {
            a.server = Some(ServerInfo {
                address: "mongodb://geheim".into(),
                version: "8.0.4".into(),
                connected,
                catalog,
                failure: failure.map(|(kind, why)| Failure {
                    kind,
                    why: why.into(),
                }),
            });
        })
    };
    right(
        &server((true, true, None)),
        "server",
        "mongod 8.0.4 reports which file is whose",
    );
    wrong(
        &server((
            true,
            false,
            Some((feed::FailureKind::NoCatalog, "not authorized")),
        )),
        "server",
        "mongod 8.0.4 answers, and does not report which file is whose: not authorized",
        &["journalctl -u dsm-mongo@geheim -n 20"],
    );
    wrong(
        &server((
            true,
            true,
            Some((feed::FailureKind::Partial, "config: not authorized")),
        )),
        "server",
        "mongod 8.0.4 does not report the collections of every database: config: not authorized",
        &["journalctl -u dsm-mongo@geheim -n 20"],
    );
    note(
        &server((true, true, Some((feed::FailureKind::NoCatalog, "too slow")))),
        "server",
        "reported which file is whose, and no longer does: too slow",
    );
    note(
        &server((
            true,
            false,
            Some((feed::FailureKind::Recovering, "node is recovering")),
        )),
        "server",
        "mongod 8.0.4 recovers, and reports which file is whose when it has: node is recovering",
    );
    wrong(
        &server((false, true, Some((feed::FailureKind::Refused, "SCRAM failure")))),
        "server",
        "mongod 8.0.4 refuses dsm-mongo: SCRAM failure",
        &["systemctl start dsm-mongo@geheim"],
    );
    wrong(
        &server((false, false, Some((feed::FailureKind::Lost, "refused")))),
        "server",
        "mongod 8.0.4 does not answer dsm-mongo: refused",
        &["systemctl start mongod"],
    );
    wrong(
        &server((false, false, None)),
        "server",
        "does not answer",
        &["systemctl status dsm-mongo@geheim.timer"],
    );
}

/// Nothing that would spoil the period is advised.
#[test]
fn a_trial() {
    let at_work = of_device(|d| {
        kernel(d).status.discard.state = Mode::Watch;
        let discard = d.view.agent.as_mut().unwrap().discard.as_mut().unwrap();
        discard.mode = Mode::Audit;
        discard.audit.only = Some(Reason::new(ReasonKind::Trial, OFF_FOR_A_TRIAL));
    });
    note(&at_work, "discard", "has discards off for a period");
    assert_eq!(at_work.status(), 0);
    assert!(find(&at_work, "discard").fix.is_empty());
}

#[test]
fn a_drive_that_is_marked() {
    let marked = of_device(|d| d.view.barred = Some("it is marked".into()));
    wrong(&marked, "discard", "none may be made: it is marked", &[]);
    let not_wanted = of_device(|d| {
        d.view.barred = Some("it is marked".into());
        d.view.agent.as_mut().unwrap().discard = None;
        d.file.as_mut().unwrap().config.discard = Mode::Off;
    });
    note(&not_wanted, "discard", "it is marked");
    for (kind, wanted) in [
        (ReasonKind::AuditFailed, "resync this member"),
        (ReasonKind::AuditFailedInTime, "nothing is lost"),
    ] {
        let failed = of_device(|d| d.view.barred = Some(Reason::new(kind, "it has failed")));
        wrong(&failed, "discard", "it has failed", &[]);
        let hint = find(&failed, "discard").hint.clone().unwrap();
        assert!(hint.starts_with(wanted), "{hint}");
    }
    assert_eq!(not_wanted.status(), 0);
}

/// Everything that can have a name in it has this one.
#[test]
fn a_report_has_no_names() {
    let secret = "geheim";
    let faulty = diagnosis(|f| {
        f.configuration = Configuration {
            files: [("geheim".into(), of_drive())].into(),
            bad_lines: vec!["geheim".into()],
        };
        let d = &mut f.devices[0];
        d.dbpath = Some(Err(Misplaced::Wrong("geheim is not there".into())));
        d.view.service = service(State::Ended, Some("geheim: it has gone".into()));
        d.view.last_error = Some(LastError {
            at: 1,
            level: LogLevel::Warn,
            message: "skipped".into(),
            reason: Some("geheim".into()),
        });
        let info = d.view.agent.as_mut().unwrap();
        info.outgrown = 1;
        let discard = info.discard.as_mut().unwrap();
        discard.off = Some("geheim".into());
        discard.warning = Some("geheim".into());
        d.view.barred = Some("geheim".into());
        d.error = Some("geheim".into());
        d.disks[0].name = "nvmegeheim".into();
        d.disks[0].silent = Some("/dev/geheim".into());
        d.disks[0].placement = None;
        d.disks[0].streams = Some(0);
        let stack = &mut d.stack;
        stack.disks = vec!["geheim".into()];
        stack.stacked = true;
        stack.barring = vec!["geheim (raid1)".into()];
        let mut gone = Examined::default();
        gone.view.name = "geheim2".into();
        absent(&mut gone, "geheim2: there is none".into());
        let mut silent = device();
        (silent.view.agent, silent.view.silent) = (None, Some("geheim does not answer".into()));
        f.devices.extend([gone, silent]);
    });
    let ink = Ink::hiding();
    for shown in [faulty.text(&ink), faulty.json(&ink).to_string()] {
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains("DEVICE1") && shown.contains("DISK1"), "{shown}");
        assert!(
            shown.contains("Example 1000") && shown.contains("raid1"),
            "{shown}"
        );
    }
    let plain = faulty.text(&Ink::plain());
    assert!(
        plain.contains("geheim2: there is none") && plain.contains("fix:"),
        "{plain}"
    );
    for line in plain
        .lines()
        .filter(|l| !l.contains("fix:") && !l.contains("then:"))
    {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

#[test]
fn the_programs_form() {
    let v = agent(|a| {
        a.outgrown = 1;
        a.server = Some(ServerInfo {
            connected: true,
            ..ServerInfo::default()
        });
    });
    let v = v.json(&Ink::plain());
    assert_eq!(
        (&v["status"], &v["wrong"], &v["unknown"]),
        (&"wrong".into(), &1.into(), &0.into())
    );
    let findings = v["findings"].as_array().unwrap();
    let of = |check: &str| findings.iter().find(|f| f["check"] == check).unwrap();
    assert_eq!(of("kernel")["device"], serde_json::Value::Null);
    let drive = of("drive");
    assert_eq!(drive["device"], "geheim");
    assert_eq!(drive["values"]["disk"], "nvme7n1");
    assert_eq!(drive["values"]["placement"]["reclaim_unit"], 64 << 20);
    assert_eq!(of("written")["values"]["write_amplification"], 1.5);
    assert_eq!(of("written")["values"]["source"], "fdp");
    assert_eq!(of("streams")["values"]["written"][1]["bytes"], 400_000 * 512);
    assert_eq!(of("boundaries")["level"], "note");
    assert_eq!(of("boundaries")["fix"][0], "dsmctl boundary move geheim");
    assert_eq!(of("checkpoints")["values"]["age_ms"], 41250);
}

/// This machine, as it is: nothing of it is known, but that it can be looked at.
#[test]
fn this_machine_can_be_looked_at() {
    let viewer = Viewer::new();
    let facts = super::look(&["no-such-device".into()], Configuration::default(), &viewer);
    assert_eq!(facts.devices.len(), 1);
    let view = &facts.devices[0].view;
    assert!(view.kernel.is_none() && view.unseen.is_some());
}

#[test]
fn leaf_pages_that_may_be_too_large() {
    let with = |n: Option<usize>| of_device(move |d| d.large_leaves = n.map(Ok));
    note(
        &with(Some(3)),
        "leaf-pages",
        "3 collections are rewritten in leaf pages of more than 8 KiB, and have small documents",
    );
    let fix = find(&with(Some(3)), "leaf-pages").fix.clone();
    assert_eq!(fix.len(), 1);
    assert!(fix[0].starts_with("dsmctl free "), "{fix:?}");
    for none in [None, Some(0)] {
        assert!(with(none).findings.iter().all(|f| f.check != "leaf-pages"));
    }
}

/// As who owns the data directory may make it.
#[test]
fn metadata_that_wiredtiger_did_not_write() {
    let dir = tempfile::tempdir().unwrap();
    testing::hostile::visits(dir.path());
    let found = super::look::large_leaves(&database::walk::Root::open(dir.path()).unwrap());
    let why = found.clone().unwrap().unwrap_err();
    assert!(
        why.starts_with("WiredTiger.wt: its tree has the block at "),
        "{why}"
    );
    let said = of_device(move |d| d.large_leaves = found);
    wrong(&said, "leaf-pages", &why, &[]);
}

#[test]
fn what_files_say_that_there_is_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let none = configuration(&dir.path().join("none"));
    assert!(none.files.is_empty() && none.bad_lines.is_empty());
    for (name, text) in [
        ("a", "dbpath = '/a'\ndiscard = true\n"),
        ("b", "drive = '/dev/null'\nsize = 8\n"),
        ("c", "drive = '/dev/null'\nboot = false\n"),
        ("d", "drive = '/dev/null'\ngroups = 'many'\n"),
    ] {
        std::fs::write(dir.path().join(format!("{name}.toml")), text).unwrap();
    }
    let c = configuration(dir.path());
    assert_eq!(c.files.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    let (a, b) = (&c.files["a"], &c.files["b"]);
    assert!(a.config.discard == Mode::On && !a.is_made_at_boot());
    assert!(b.is_made_at_boot() && !c.files["c"].is_made_at_boot());
    assert!(
        c.bad_lines.iter().any(|l| l.contains("d.toml: groups=many")),
        "{:?}",
        c.bad_lines
    );
}

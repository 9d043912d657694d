// SPDX-License-Identifier: GPL-2.0-or-later
//! Judges a dsm device, from the drive up to the database.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::facts::{Examined, Misplaced};
use super::ink;
use super::machine::disk;
use super::Finding;
use super::Level::{self, Note, Right, Unknown, Wrong};
use crate::create::User;
use crate::grow::of_filesystem;
use dm::mounts::Mount;
use drive::afford::AffordedLayout;
use drive::below::Affords;
use proto::control::Info;
use proto::device::{DeviceView, Kernel, State};
use proto::reason::{Reason, ReasonKind};
use runtime::pages::page;
use runtime::sizes;

const SECTOR: u64 = 512;

pub(super) fn judge(d: &Examined, late: Duration) -> Vec<Finding> {
    let v = &d.view;
    let j = Judge { d, v, late };
    let Some(k) = &v.kernel else {
        let mut findings = vec![j.absent()];
        if j.is_hidden() && d.configured().is_some() {
            findings.push(j.agent());
        }
        return findings;
    };
    let mut findings: Vec<Finding> = d
        .disks
        .iter()
        .map(|below| disk(Some(&v.name), below, j.wants(k)))
        .collect();
    findings.push(j.written(k));
    findings.extend(j.leftovers());
    findings.extend(j.length(k));
    findings.extend([j.stack(k), j.streams(k), j.table(k), j.mounted()]);
    findings.extend(j.dbpath());
    findings.push(j.agent());
    findings.extend(j.last_error());
    findings.extend(j.left_out());
    findings.push(j.unmapped(k));
    findings.extend(j.checkpoints(k));
    findings.extend(j.boundaries(k));
    findings.push(j.discards(k));
    findings.extend(j.leaf_pages());
    findings.extend(j.server());
    findings
}

/// What a shell and a TOML file take as it is.
pub(super) fn simple(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || b"/_.-+@:".contains(b))
}

/// Of what comes by itself when dsmd has what it waits for.
pub(super) const WAITS: &str = "by itself, when dsmd has what it waits for: see there";

fn disks(names: &[String]) -> String {
    names.iter().map(ink::disk).collect::<Vec<_>>().join(", ")
}

pub(super) struct Judge<'a> {
    pub d: &'a Examined,
    pub v: &'a DeviceView,
    pub late: Duration,
}

impl Judge<'_> {
    pub(super) fn say(&self, check: &'static str, level: Level, text: impl Into<String>) -> Finding {
        Finding::new(Some(&self.v.name), check, level, text)
    }

    /// What dsmd waits for.
    pub(super) fn waiting(&self) -> Option<&Reason> {
        let service = self.v.service.as_ref().filter(|s| s.state == State::Waiting)?;
        service.reason.as_ref()
    }

    /// dsmd runs, and has said what it waits for: that is the one thing to be mended.
    pub(super) fn waits(&self) -> bool {
        self.v.agent.is_none() && self.waiting().is_some()
    }

    pub(super) fn name(&self) -> String {
        ink::device(&self.v.name)
    }

    /// A command about the device: `dsmctl WORDS NAME`.
    pub(super) fn dsmctl(&self, words: &str) -> String {
        format!("dsmctl {words} {}", self.name())
    }

    fn wants(&self, k: &Kernel) -> bool {
        k.status.policy != "none"
    }

    /// Files have boundaries, and checkpoints mean something.
    pub(super) fn is_mongodb(&self) -> bool {
        let others = |a: &Info| a.auto.is_some() || !a.objects.is_empty();
        !self.v.agent.as_ref().is_some_and(others)
    }

    fn leftovers(&self) -> Option<Finding> {
        match self.d.left.as_ref()? {
            Ok(what) if what.is_empty() => None,
            Ok(what) => {
                let text = format!("a command that was killed has left {}", what.join(", "));
                Some(self.say("left", Wrong, text).fix(self.dsmctl("debug restore")))
            }
            Err(why) => {
                let text = format!("what a killed command left cannot be seen: {}", ink::reason(why));
                Some(self.say("left", Unknown, text))
            }
        }
    }

    /// What dsmd publishes, everybody may see.
    fn is_hidden(&self) -> bool {
        let why = self.v.unseen.as_ref();
        why.is_none_or(|r| r.kind == ReasonKind::Hidden)
    }

    fn absent(&self) -> Finding {
        let Some(reason) = self.v.unseen.as_ref().filter(|_| !self.is_hidden()) else {
            return self.say("device", Unknown, "only root can look at it");
        };
        let finding = self.say("device", Wrong, ink::reason(reason));
        match reason.kind {
            ReasonKind::NoDeviceMapper => return finding.fix("modprobe dm-mod"),
            ReasonKind::NoDevice => {}
            _ => return finding,
        }
        let create = self.d.file.as_ref().and_then(|f| f.create.as_ref());
        match (create, &self.d.held) {
            (Some(create), Some(user)) => self.bypassed(&ink::path(create.dev.display()), user),
            (Some(_), None) => finding.fix(self.dsmctl("attach")),
            (None, _) => finding
                .fix(format!("{} DEV", self.dsmctl("create")))
                .hint("DEV is the drive, or a volume on it"),
        }
    }

    /// There is no device, and somebody uses its drive.
    fn bypassed(&self, drive: &str, user: &User) -> Finding {
        let say = |user: String| {
            let text = format!("there is no such device, and its drive {drive} is used without it: {user}");
            self.say("device", Wrong, text)
        };
        match user {
            User::Mount(place) => {
                let place = ink::path(place);
                say(format!("it is mounted at {place}"))
                    .fix(format!("umount {place}"))
                    .fix(self.dsmctl("attach"))
                    .hint("stop the database before; name the file system by /dev/mapper/... in /etc/fstab")
            }
            User::Holders(names) => {
                let how = format!("{}, \"LVM above the device\", says how", page("dsmd.rst"));
                say(format!("{} has it", disks(names)))
                    .fix(self.dsmctl("attach"))
                    .hint(format!(
                        "stop that before; for LVM, {how} it finds only the dsm device"
                    ))
            }
        }
    }

    /// Since the drive was made.
    fn written(&self, k: &Kernel) -> Finding {
        let media = match &k.media {
            Ok(media) => media,
            Err(why) => return self.say("written", Note, ink::reason(why)),
        };
        let (c, drive) = (&media.counters, ink::disk(&media.drive));
        let impossible = c.impossible();
        let waf = (c.host > 0 && impossible.is_none()).then(|| c.media as f64 / c.host as f64);
        let (source, number) = (c.source, |n: u128| u64::try_from(n).ok());
        let (level, text) = match (impossible, waf) {
            (Some(why), _) => (Note, format!("{drive}: {why}")),
            (None, Some(waf)) => {
                let made = format!("since {drive} was made ({source})");
                (
                    Right,
                    format!("{waf:.2} bytes of flash for each from hosts, {made}"),
                )
            }
            (None, None) => (Right, format!("nothing was written to {drive} yet ({source})")),
        };
        self.say("written", level, text).values(json!({
            "source": source, "host_written_bytes": number(c.host), "media_written_bytes": number(c.media),
            "write_amplification": waf,
        }))
    }

    /// What it lies on has another length than it.
    fn length(&self, k: &Kernel) -> Option<Finding> {
        let found = self.d.room.as_ref().filter(|r| r.sectors != k.sectors)?;
        let (has, room) = (k.sectors, found.sectors);
        let [had, all] = [has, room].map(|sectors| sizes::shown(sectors * SECTOR));
        let finding = |level, text: String| {
            let values = json!({ "bytes": has * SECTOR, "room_bytes": room * SECTOR });
            self.say("size", level, text).values(values)
        };
        let on = ink::disk(&found.below);
        if room < has {
            let text = format!("it is {had} long, but {on} has only {all} for it");
            let hint = "writes to its end fail: give what it lies on its length back";
            return Some(finding(Wrong, text).hint(hint));
        }
        let mount = self.d.mounts.iter().find(|m| m.dev == k.devno);
        let for_it = |m: &Mount| of_filesystem(&m.kind, &ink::path(m.point.display()), &self.name());
        let found = finding(Note, format!("it is {had} long, and {on} has {all} for it"))
            .fix(self.dsmctl("grow"))
            .fixes(mount.and_then(for_it));
        Some(found.hint("after it has grown; if this is meant, size in its file in /etc/dsm says so"))
    }

    fn stack(&self, k: &Kernel) -> Finding {
        let stack = &self.d.stack;
        if let Some(why) = &self.d.lost {
            return self.say("below", Unknown, ink::reason(why));
        }
        let on = disks(&stack.disks);
        let finding = |level, text: String| {
            let each: Vec<String> = stack.disks.iter().map(ink::disk).collect();
            let values = json!({ "disks": each, "stacked": stack.stacked });
            self.say("below", level, text).values(values)
        };
        let wanted = self.wants(k);
        let recreate = |text: String| {
            finding(Wrong, text)
                .fix(format!("umount /dev/mapper/{}", self.name()))
                .fix(self.dsmctl("remove"))
                .fix(format!("{} DEV", self.dsmctl("create")))
        };
        if !stack.losing.is_empty() && wanted {
            let losing = disks(&stack.losing);
            return recreate(format!(
                "{losing} between it and {on} rewrites what it is given, and drops the streams"
            ))
            .hint(
                "DEV is the drive or a partition of it, which has the data then without what lies between",
            );
        }
        if !stack.stacked {
            return finding(Right, format!("it lies on {on}"));
        }
        if !self.d.followed {
            let text = format!("volumes lie between it and {on}, whose tables only root can read");
            return finding(Unknown, text);
        }
        if !stack.barring.is_empty() && wanted {
            // "md0 (raid1)"
            let barring = stack.barring.iter().map(|b| {
                let (name, what) = b.split_once(' ').unwrap_or((b, ""));
                format!("{} {what}", ink::disk(name)).trim_end().to_owned()
            });
            let barring = barring.collect::<Vec<_>>().join(", ");
            return recreate(format!(
                "between it and {on} is {barring}, above which there are only lifetime hints, no streams"
            ))
            .hint("DEV is the drive, a partition of it, or a linear volume");
        }
        let text = format!("it lies on a volume of {on}");
        match k.status.source.as_str() {
            "stacked" if wanted && stack.streams.is_some_and(|n| n > 0) => {
                recreate(format!("{text}, which was not named when the device was made"))
                    .hint("DEV is the volume; dsmctl create names its disks by itself")
            }
            "machine" => finding(
                Note,
                format!("{text}; another disk here takes fewer streams, and the volume may move there"),
            )
            .hint("a device on the disk or a partition of it gets all its streams"),
            _ => finding(Right, text),
        }
    }

    fn streams(&self, k: &Kernel) -> Finding {
        let s = &k.status;
        let policy = &s.policy;
        let written = s.streams.iter();
        let written: Vec<_> = written
            .map(|c| json!({ "stream": c.stream, "bytes": c.sectors * SECTOR }))
            .collect();
        let finding = |level, text: String| {
            self.say("streams", level, text).values(json!({
                "policy": policy, "layout": &s.layout, "used": s.streams_used, "device": s.device_streams,
                "source": &s.source, "written": &written,
            }))
        };
        if !self.wants(k) {
            let text = "none: writes are counted and not stamped, by policy none".to_owned();
            return self.unstamped(finding, text);
        }
        if s.layout == "none" {
            let why = match s.source.as_str() {
                "kernel" if s.hints_unsupported => "this kernel has neither streams nor lifetime hints",
                "kernel" => "this kernel has no streams",
                "stacked" => "the underlying device does not report any",
                _ if s.device_streams == 0 => "there are none below",
                _ => "there are too few",
            };
            // What fixes it is said there.
            return finding(Wrong, format!("policy {policy} stamps nothing: {why}"))
                .hint("see the lines above about the kernel, the drive and the devices below");
        }
        if s.device_streams == 0 {
            return finding(Right, format!("policy {policy} stamps lifetime hints"));
        }
        let (used, all) = (s.streams_used, s.device_streams);
        let uses = format!("policy {policy} uses {used} of {all}");
        let affords = self.v.affords.as_ref();
        if let Some(unknown) = affords.filter(|a| a.silent) {
            let text = format!("{uses}; whether the drive can afford them is not known");
            return finding(Unknown, text).hint(ink::reason(&unknown.why));
        }
        if let Some((affords, (open, spare))) = affords.and_then(|a| Some((a, a.too_many(used)?))) {
            let text = format!(
                "{uses}, which hold {open} erase units of a drive that has {spare} to spare: more than it can afford"
            );
            return self.change(affords, finding(Note, text));
        }
        if s.layout != *policy {
            let text = format!(
                "{all} are too few for policy {policy}: those of {} are used",
                s.layout
            );
            return finding(Note, text);
        }
        finding(Right, uses)
    }

    fn unstamped(&self, finding: impl Fn(Level, String) -> Finding, text: String) -> Finding {
        let discards = self.v.agent.as_ref().is_some_and(|a| a.discard.is_some());
        let Some(affords) = &self.v.affords else {
            return finding(if discards { Right } else { Note }, text);
        };
        if affords.silent && !discards {
            return finding(Unknown, text).hint(ink::reason(&affords.why));
        }
        if affords.layout != AffordedLayout::None && !discards {
            return self.change(affords, finding(Note, text));
        }
        let known = discards || affords.drive.is_some();
        let level = if known { Right } else { Note };
        finding(level, text).hint(ink::reason(&affords.why))
    }

    /// To what the drive affords.
    fn change(&self, affords: &Affords, finding: Finding) -> Finding {
        let (set, features) = (self.dsmctl("set"), affords.features().into_iter());
        let commands = features.map(|(feature, value)| format!("{set} {feature} {value}"));
        finding.fixes(commands).hint(ink::reason(&affords.why))
    }

    fn table(&self, k: &Kernel) -> Finding {
        let s = &k.status;
        let finding = |level, text: String| {
            let error = self.d.error.as_deref().map(ink::reason);
            let values = json!({ "files": s.files, "extents": s.extents, "last_error": error });
            self.say("table", level, text).values(values)
        };
        let agent = self.v.agent.as_ref();
        if s.files == 0 {
            let text = "it knows of no file: every write counts as unmapped".to_owned();
            if self.waits() {
                return finding(Note, text).hint(WAITS);
            }
            let fix = agent.map_or_else(|| self.serve(false), |_| self.dsmctl("debug refresh"));
            return finding(Wrong, text).fix(fix);
        }
        let text = format!("it knows of {} files, in {} extents (pieces)", s.files, s.extents);
        match (agent.map(|a| &a.refused), &self.d.error) {
            (Some(Some(why)), _) => {
                let text = format!(
                    "{text}; the kernel refuses what differs now: {}",
                    ink::reason(why)
                );
                finding(Wrong, text).fix(self.dsmctl("debug refresh"))
            }
            // What was refused before is past, and in dsmd's log.
            (None, Some(e)) => {
                let text = format!("{text}; the last message that it refused: {}", ink::reason(e));
                finding(Note, text)
            }
            _ => finding(Right, text),
        }
    }

    fn mounted(&self) -> Finding {
        let mapper = format!("/dev/mapper/{}", self.name());
        let Some(first) = self.d.mounts.first() else {
            if let Some(why) = &self.d.unmounted {
                let text = format!("what is mounted cannot be read: {}", ink::reason(why));
                return self.say("filesystem", Unknown, text);
            }
            let wanted = self.d.configured().filter(|dbpath| simple(dbpath));
            let at = wanted.map_or_else(|| "DIR".to_owned(), |dbpath| ink::path(dbpath.display()));
            return self
                .say("filesystem", Wrong, "no file system on it is mounted")
                .fix(format!("mount {mapper} {at}"))
                .hint("with the directory that the file system belongs to, before the database starts");
        };
        let kind = &first.kind;
        // Some name other devices, and journals in files.
        let options: Vec<&str> = first.options.split(',').filter(|o| !o.contains('/')).collect();
        let finding = |level, name: &str, but: &str| {
            let text = format!("{name}, mounted at {}{but}", ink::path(first.point.display()));
            let (options, mounts) = (options.join(","), self.d.mounts.len());
            let values = json!({ "type": kind, "options": options, "mounts": mounts });
            self.say("filesystem", level, text).values(values)
        };
        match kind.as_str() {
            "xfs" => finding(Right, "XFS", ""),
            "ext4" => finding(Right, kind, ""),
            "f2fs" => finding(
                Note,
                kind,
                ": it moves data when it is written, and the table lags behind",
            ),
            _ => finding(Wrong, kind, ": it does not report where files lie")
                .fix(format!("mkfs.xfs {mapper}"))
                .hint("all data on it is lost; move the data away before"),
        }
    }

    fn dbpath(&self) -> Option<Finding> {
        let path = ink::path(self.d.served()?.display());
        let say = |level, text: String| self.say("dbpath", level, text);
        Some(match self.d.dbpath.as_ref()? {
            Ok(()) if self.d.journal_linked => say(
                Note,
                format!("{path} lies on it, and its journal elsewhere, by a symbolic link"),
            )
            .hint("dsmd does not follow it: what is written to the journal is in no known file here, if it is here at all"),
            Ok(()) => say(Right, format!("{path} lies on it")),
            Err(Misplaced::Hidden) => say(Unknown, format!("only root can see whether {path} lies on it")),
            Err(Misplaced::Unasked) => say(Unknown, format!("{path} was not looked at: dsmd hangs there")),
            Err(Misplaced::Wrong(why)) if self.d.mounts.is_empty() => {
                say(Wrong, ink::reason(why)).hint("is the file system mounted?")
            }
            Err(Misplaced::Wrong(why)) => say(Wrong, ink::reason(why)).fix(format!("findmnt -T {path}")).hint(
                "shows where it is: mount /dev/mapper/... there, or correct dbpath in its file in /etc/dsm",
            ),
        })
    }
}

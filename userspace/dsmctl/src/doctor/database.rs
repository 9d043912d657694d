// SPDX-License-Identifier: GPL-2.0-or-later
//! Judges what follows the database of a dsm device: dsmd, the places that it uploaded, the
//! checkpoints that it saw, boundaries and discards.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::device::{simple, Judge, WAITS};
use super::ink;
use super::Finding;
use super::Level::{Note, Right, Wrong};
use crate::free::in_large_leaves;
use dm::mode::Mode;
use dm::name;
use proto::control::DiscardInfo;
use proto::device::{Kernel, Service, State};
use proto::feed::FailureKind;
use proto::left_out;
use proto::reason::{Reason, ReasonKind};
use proto::snapshot::Moment;
use runtime::grid::percent;
use runtime::pages::page;
use runtime::sizes;
use runtime::time::{now, span};

/// A larger part of all written bytes is worth a look: the alert DsmUnmappedWrites has the
/// same.
const UNMAPPED: f64 = 0.05;
/// Less was hardly written, in bytes.
const LITTLE: u64 = 1 << 20;
const SECTOR: u64 = 512;

/// A time as people say it.
fn time(t: Duration) -> String {
    span(t.as_secs_f64())
}

/// What the target sends at least, whatever a drive says.
const PAGE: u64 = 4096;

/// Looks after which something is sent wherever it works.
const MANY: u64 = 10;
/// Seconds in which a database that is started with dsmd has made its first files, and opened
/// them.
const STARTS: f64 = 60.0;
const STARTING: &str = "mongod may be starting: ask again in a minute";

/// Why nothing is sent although nothing seems to be wrong.
fn fruitless(i: &DiscardInfo) -> Option<String> {
    if i.idle_looks < MANY {
        return None;
    }
    if i.sent_bytes > 0 {
        let much = i.idle_bytes >= LITTLE;
        return much.then(|| format!("of {} that they freed", sizes::shown(i.idle_bytes)));
    }
    if i.files == 0 {
        return Some("of no file the list of free blocks is known".into());
    }
    let listed = i.short_bytes + i.unplaced_bytes + i.waiting_bytes;
    let all = |part: u64| listed >= LITTLE && part * 10 >= listed * 9;
    if all(i.unplaced_bytes) {
        return Some(format!(
            "of {} that they list, {} lie in files that have a second name, another owner than \
             WiredTiger.lock or blocks in common with other files, or were written meanwhile",
            sizes::shown(listed),
            sizes::shown(i.unplaced_bytes)
        ));
    }
    all(i.short_bytes).then(|| {
        format!(
            "of {} that they list, {} are in pieces that are less than the drive discards at a time",
            sizes::shown(listed),
            sizes::shown(i.short_bytes)
        )
    })
}

impl Judge<'_> {
    /// What the drives say of a discard, if that is much and no feature says what they take.
    fn unmeasured(&self, k: &Kernel) -> Option<u64> {
        let says = self.d.disks.iter().filter_map(|d| d.discard_granularity).max();
        let mut features = k.table.features.iter();
        let measured = features.any(|(name, value)| name == "discard_granularity" && value != "auto");
        says.filter(|bytes| *bytes > PAGE && !measured)
    }

    pub(super) fn agent(&self) -> Finding {
        let of = |s: &Service| json!({ "state": s.state, "since": s.since, "restarts": s.restarts });
        self.serves().values(json!(self.v.service.as_ref().map(of)))
    }

    /// A command for the unit of the device's dsmd.
    pub(super) fn unit(&self, command: &str) -> String {
        format!("{command} dsmd@{}", self.name())
    }

    /// The command that has dsmd serve the device, or serve it anew.
    pub(super) fn serve(&self, runs: bool) -> String {
        self.unit(["systemctl start", "systemctl restart"][usize::from(runs)])
    }

    fn warnings(&self) -> String {
        self.unit("journalctl -p warning -n 20 -u")
    }

    fn journal(&self) -> String {
        self.unit("journalctl -n 50 -u")
    }

    /// One that does not answer, or is not there.
    fn lost(&self, s: &Service) -> Option<Finding> {
        let age = time(Duration::from_secs_f64((Moment::now().wall - s.since).max(0.0)));
        let why = s.reason.as_ref().map(ink::reason).unwrap_or_default();
        let say = |what: &str| self.say("dsmd", Wrong, format!("dsmd has {what}: {why}"));
        match s.state {
            State::Stuck => Some(
                say(&format!("not answered for {age}"))
                    .fix("dmesg | tail -n 50")
                    .hint("shows what the drive does; dsmd goes on by itself when it answers"),
            ),
            State::Ended => Some(say(&format!("ended, {age} ago")).fix(self.journal())),
            _ => None,
        }
    }

    fn serves(&self) -> Finding {
        if let Some(finding) = self.v.service.as_ref().and_then(|s| self.lost(s)) {
            return finding;
        }
        let Some(a) = &self.v.agent else {
            return self.no_agent();
        };
        let finding = |level, text: String| {
            self.say("dsmd", level, text).values(json!({
                "version": &a.version, "uploads": a.uploads, "refusals": a.refusals,
            }))
        };
        let serves = format!("dsmd {} serves it", a.version);
        let own = env!("CARGO_PKG_VERSION");
        if a.version != own {
            let text = format!("{serves}, and this dsmctl is {own}");
            return finding(Note, text).fix(self.serve(true));
        }
        match self.v.service.as_ref().map(|s| s.restarts) {
            Some(0) => finding(Right, serves),
            Some(restarts) => finding(Note, format!("{serves}; restarts: {restarts}"))
                .fix(self.unit("journalctl -p err -n 20 -u")),
            None => finding(Wrong, format!("{serves}, and publishes nothing")).fix(self.serve(true)),
        }
    }

    fn no_agent(&self) -> Finding {
        let silent = self.v.silent.as_ref();
        let stuck = silent.filter(|why| why.kind != ReasonKind::NotServed);
        if let Some(why) = self.waiting() {
            let text = format!("dsmd waits: {}", ink::reason(why));
            if why.kind == ReasonKind::NoDatabase && self.may_start() {
                return self.say("dsmd", Note, text).hint(STARTING);
            }
            let fix = self.waits_for(why).unwrap_or_else(|| self.journal());
            return self.say("dsmd", Wrong, text).fix(fix);
        }
        let text = stuck.map_or_else(
            || "no dsmd serves it: the table becomes stale, and no checkpoint is seen".to_owned(),
            ink::reason,
        );
        let mut finding = self.say("dsmd", Wrong, text);
        if self.d.configured().is_none() {
            let dir = self.d.mounts.first().map(|m| &m.point);
            finding = match dir.filter(|dir| simple(dir) && name::check(&self.v.name).is_ok()) {
                Some(dir) => finding.fix(format!(
                    "printf 'dbpath = \"%s\"\\n' {} >>/etc/dsm/{}.toml",
                    ink::path(dir.display()),
                    self.name()
                )),
                None => finding.hint("give it a dbpath in its file in /etc/dsm"),
            };
        }
        let runs = self.v.service.is_some() || stuck.is_some();
        finding.fix(self.serve(runs))
    }

    /// dsmd was started a moment ago, and maybe the database with it.
    fn may_start(&self) -> bool {
        let age = |s: &Service| Moment::now().wall - s.since;
        self.v.service.as_ref().is_some_and(|s| age(s) < STARTS)
    }

    /// The command for what dsmd waits for.
    fn waits_for(&self, why: &Reason) -> Option<String> {
        let at = self.d.configured().map(|dbpath| ink::path(dbpath.display()));
        match why.kind {
            ReasonKind::NoDatabase => Some("systemctl start mongod".to_owned()),
            ReasonKind::NotMounted => Some(format!("mount /dev/mapper/{} {}", self.name(), at?)),
            _ => None,
        }
    }

    /// A thing of the past, of which the log has more.
    pub(super) fn last_error(&self) -> Option<Finding> {
        let t = self.v.last_error.as_ref().filter(|_| self.v.agent.is_some())?;
        let age = now().saturating_sub(Duration::from_secs(t.at));
        let reason = t.reason.as_ref().map_or_else(String::new, |r| format!(": {r}"));
        let why = ink::reason(format!("{}{reason}", t.message));
        let text = format!("dsmd's last error, {} ago: {why}", time(age));
        let finding = self.say("last_error", Note, text);
        let values = json!({ "level": t.level, "age_s": age.as_secs() });
        Some(finding.fix(self.warnings()).values(values))
    }

    /// What dsmd serves in part only.
    pub(super) fn left_out(&self) -> Option<Finding> {
        let all = left_out::of_agent(self.v.agent.as_ref()?);
        let told = || all.iter().filter(|l| !l.reason.is_usual());
        let texts: Vec<_> = told().map(|l| l.text(&|example| ink::reason(example))).collect();
        let counts: BTreeMap<_, _> = all.iter().map(|l| (l.reason, l.count)).collect();
        let finding = |level, text: String| {
            self.say("left-out", level, text)
                .values(json!({ "counts": &counts }))
        };
        Some(match (texts.is_empty(), told().any(|l| l.reason.is_wrong())) {
            (true, _) => finding(Right, "nothing is left out but what is usual".into()),
            (false, true) => finding(Wrong, texts.join("; ")).fix(self.warnings()),
            (false, false) => finding(Note, texts.join("; ")),
        })
    }

    pub(super) fn unmapped(&self, k: &Kernel) -> Finding {
        let (part, all) = (k.status.unmapped_sectors, k.status.sectors());
        let share = if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let finding = |level, text: String| {
            self.say("unmapped", level, text)
                .values(json!({ "bytes": part * SECTOR, "all_bytes": all * SECTOR, "share": share }))
        };
        let said = format!("{} of what was written was in no known file", percent(part, all));
        if all == 0 {
            return finding(Right, "nothing was written yet".into());
        }
        if share <= UNMAPPED || part * SECTOR < LITTLE {
            return finding(Right, said);
        }
        let Some(agent) = &self.v.agent else {
            if self.waits() {
                return finding(Note, said).hint(WAITS);
            }
            let found = finding(Wrong, said).fix(self.serve(false));
            return found
                .fix(self.dsmctl("debug reset"))
                .hint("dsmd uploads where files are; reset restarts the counters");
        };
        if !agent.marked && self.is_mongodb() {
            let text = format!("{said}, as is normal while data is loaded");
            return finding(Note, text);
        }
        if part * SECTOR <= agent.bytes {
            let text = format!(
                "{said}, {}: no more than the files' own growth, since each block is new once",
                sizes::shown(part * SECTOR)
            );
            return finding(Note, text);
        }
        finding(Wrong, said)
            .fix(self.dsmctl("debug refresh"))
            .fix(self.dsmctl("debug reset"))
            .hint(
                "restarts the counters; where it is more than 5 % again after an hour, have what is \
                 appended carry the hint of its class: write-hints = true in its file in /etc/dsm",
            )
    }

    pub(super) fn checkpoints(&self, k: &Kernel) -> Option<Finding> {
        if !self.is_mongodb() {
            return None;
        }
        let (s, agent) = (&k.status, self.v.agent.as_ref());
        let age = Duration::from_millis(s.window_ms);
        let all = s.sectors() * SECTOR;
        // A reset makes the count smaller.
        let written = all
            .checked_sub(agent.map_or(0, |a| a.window_from_bytes))
            .unwrap_or(all);
        let period = agent.and_then(|a| a.last_window_ms);
        let finding = |level, text: String| {
            self.say("checkpoints", level, text).values(json!({
                "seen": s.windows, "age_ms": s.window_ms, "period_ms": period, "written_since_bytes": written,
                "database_age_s": self.d.turtle_age.map(|t| t.as_secs()),
            }))
        };
        let last = match s.windows {
            0 => format!("none was seen in {}", time(age)),
            _ => format!("the last was seen {} ago", time(age)),
        };
        if agent.is_none() {
            let no_other = match self.waits() {
                true => "dsmd sees the next when it serves the database",
                false => "without dsmd no other will be",
            };
            return Some(finding(Note, format!("{last}; {no_other}")));
        }
        if age > self.late && written >= LITTLE {
            let since = format!("{last}, and {} were written since", sizes::shown(written));
            return Some(match self.d.turtle_age.filter(|made| *made < self.late) {
                Some(made) => {
                    let made = time(made);
                    let text = format!("{since}; the database made one {made} ago, which dsmd did not see");
                    finding(Wrong, text).fix(self.serve(true))
                }
                None => finding(Wrong, format!("{since}: the database makes none"))
                    .fix("mongosh --quiet --eval 'db.adminCommand({fsync: 1})'")
                    .hint(
                        "makes one now; mongod makes one a minute by itself, and its log says what keeps it",
                    ),
            });
        }
        let before = period.map(|ms| format!(", {} after the one before", time(Duration::from_millis(ms))));
        let before = before.unwrap_or_default();
        Some(match s.windows {
            0 => finding(
                Note,
                format!("{last}; mongod makes one a minute while it is written to"),
            ),
            n => finding(Right, format!("{last}{before}; {n} since the device was made")),
        })
    }

    pub(super) fn boundaries(&self, k: &Kernel) -> Option<Finding> {
        let a = self.v.agent.as_ref().filter(|_| self.is_mongodb())?;
        if !k.status.has_boundaries() {
            return None;
        }
        let of = format!("{} of {} files have", a.outgrown, a.boundaries);
        let (level, text, fix) = if a.outgrown > 0 {
            let text = format!("{of} outgrown theirs: most of them is above what they had when it was set");
            (Note, text, Some("boundary move"))
        } else if !a.marked {
            let when = if a.boundary == "manual" {
                "by hand"
            } else {
                "when loading is over"
            };
            let text = format!("no boundaries set yet: files get them {when}");
            (Note, text, Some("boundary mark"))
        } else {
            let text = format!(
                "{} of {} files have one, and none has outgrown it",
                a.boundaries, a.files
            );
            (Right, text, None)
        };
        let finding = self.say("boundaries", level, text).values(json!({
            "mode": &a.boundary, "marked": a.marked, "files": a.files, "boundaries": a.boundaries,
            "outgrown": a.outgrown,
        }));
        Some(finding.fixes(fix.map(|words| self.dsmctl(words))))
    }

    pub(super) fn discards(&self, k: &Kernel) -> Finding {
        let d = &k.status.discard;
        let file = self.d.file.as_ref().filter(|f| f.config.dbpath.is_some());
        let wanted = file.is_some_and(|f| f.config.discard != Mode::Off);
        let info = self.v.agent.as_ref().and_then(|a| a.discard.as_ref());
        let smallest = self.d.disks.iter().filter_map(|d| d.discard_granularity).max();
        let finding = self.of_discards(k, wanted, info).values(json!({
            "state": d.state, "wanted": wanted || info.is_some(), "granularity_bytes": smallest,
            "discarded_bytes": d.discarded_sectors * SECTOR, "refused_bytes": d.refused_sectors * SECTOR,
            "failed": d.failed,
        }));
        finding.values(json!(info.map(|i| json!({
            "freed_bytes": i.freed_bytes, "last_sent": i.last_sent, "mode": i.mode, "audit": &i.audit,
        }))))
    }

    fn of_discards(&self, k: &Kernel, wanted: bool, info: Option<&DiscardInfo>) -> Finding {
        let finding = |level, text: String| self.say("discard", level, text);
        if let Some(why) = &self.v.barred {
            let text = format!("none may be made: {}", ink::reason(why));
            let asked = wanted || info.is_some();
            let found = finding(if asked { Wrong } else { Note }, text);
            let failed = format!("{}, \"The audit has failed\"", page("troubleshooting.md"));
            return match why.kind {
                ReasonKind::AuditFailedInTime => {
                    found.hint(format!("nothing is lost; {failed}, says what to report"))
                }
                ReasonKind::AuditFailed => {
                    found.hint(format!("resync this member, or validate it: {failed}"))
                }
                _ if asked => found.hint("take discard = true out of its file in /etc/dsm"),
                _ => found,
            };
        }
        if let Some(info) = info {
            return self.discards_of(k, info);
        }
        if wanted {
            let text = "they are configured, and dsmd makes none".to_owned();
            if self.waits() {
                return finding(Note, text).hint(WAITS);
            }
            return finding(Wrong, text).fix(self.serve(self.v.agent.is_some()));
        }
        match k.status.discard.state {
            state @ (Mode::On | Mode::Watch) => {
                let text = format!("{state} in the target, and nobody makes any: that costs a little");
                finding(Note, text).fix(format!("{} discard off", self.dsmctl("set")))
            }
            Mode::Off => {
                let text = "off: the drive keeps copying blocks that the database has freed".to_owned();
                finding(Note, text)
                    .fixes(self.free())
                    .hint("`dsmctl free` says how much that is; discard = true in its file in /etc/dsm switches them on")
            }
            _ => finding(Note, "what lies below takes none".into()),
        }
    }

    fn discards_of(&self, k: &Kernel, i: &DiscardInfo) -> Finding {
        let finding = |level, text: String| self.say("discard", level, text);
        let (d, set) = (&k.status.discard, self.dsmctl("set"));
        let needs = || format!("{}, \"Discards\", has what they need", page("dsmd.rst"));
        if let Some(why) = &i.off {
            let text = format!("nothing is discarded: {}", ink::reason(why));
            return match why.kind {
                ReasonKind::Early => finding(Note, why.to_string()),
                // They pass; so does a snapshot below what took discards before.
                ReasonKind::Backup | ReasonKind::Probe | ReasonKind::Restarted => finding(Note, text),
                ReasonKind::Unsupported if i.sent_bytes > 0 => finding(Note, text),
                _ if d.state == Mode::Off => finding(Wrong, text).fix(format!("{set} discard on")),
                ReasonKind::Closed if self.may_start() => finding(Note, text).hint(STARTING),
                ReasonKind::Closed => finding(Wrong, text).fix("systemctl start mongod"),
                _ => finding(Wrong, text).hint(needs()),
            };
        }
        if let Some(why) = i.withheld() {
            return finding(Note, why.to_string());
        }
        if d.failed > 0 {
            let text = format!("the drive failed {} of them; no data is at risk", d.failed);
            let found = finding(Wrong, text).fix("dmesg | grep -i discard");
            return found
                .fix(format!("{set} discard off"))
                .hint("shows why; the second ends them");
        }
        if i.waiting > 0 {
            return finding(Note, format!("they begin after {} more checkpoints", i.waiting));
        }
        if i.mode == Mode::Audit {
            return self.audit_of(i);
        }
        if let Some(why) = fruitless(i) {
            let text = format!("on, 0 bytes in {} checkpoints: {why}", i.idle_looks);
            return finding(Wrong, text).fix(self.journal()).hint(needs());
        }
        let sum = |sectors: u64| sizes::shown(sectors * SECTOR);
        let (discarded, refused) = (sum(d.discarded_sectors), sum(d.refused_sectors));
        let age = |at| time(now().saturating_sub(Duration::from_secs(at)));
        let last = i
            .last_sent
            .map_or_else(String::new, |at| format!(", the last {} ago", age(at)));
        let text = format!("on: {discarded} discarded{last}; {refused} refused, as rewritten");
        if let Some(bytes) = self.unmeasured(k) {
            let says = sizes::shown(bytes);
            let text = format!("{text}; the drive says {says}, and nobody has measured what it takes");
            return finding(Note, text)
                .fix(self.dsmctl("probe-discard"))
                .hint("measures it, in a scratch file");
        }
        match &i.warning {
            Some(warning) => finding(Note, format!("{text}; {}", ink::reason(warning))),
            None => finding(Right, text),
        }
    }

    /// Nothing is sent, so far or for good.
    fn audit_of(&self, i: &DiscardInfo) -> Finding {
        let seen = i.audit.progress();
        let finding = |text: String| self.say("discard", Note, text);
        let see = format!("{}, \"Report it\"", page("drives.md"));
        match &i.audit.only {
            Some(why) => finding(format!("only audited: {}; {seen}", ink::reason(why))).hint(format!(
                "nothing reaches the drive; send what this says with -o json: {see}"
            )),
            None => finding(format!("audit: {seen}"))
                .hint("nothing reaches the drive before; then discards begin by themselves"),
        }
    }

    /// The command that says what its files list as free.
    fn free(&self) -> Option<String> {
        let dbpath = self.d.served().filter(|dbpath| simple(dbpath))?;
        Some(format!("dsmctl free {}", ink::path(dbpath.display())))
    }

    /// What the database's own settings may save, without dsm.
    pub(super) fn leaf_pages(&self) -> Option<Finding> {
        let files = match self.d.large_leaves.as_ref()? {
            Ok(0) => return None,
            Ok(files) => *files,
            Err(why) => {
                let text = format!("the metadata of the database is damaged: {}", ink::reason(why));
                return Some(self.say("leaf-pages", Wrong, text));
            }
        };
        let see = page("before.md");
        let finding = self.say("leaf-pages", Note, in_large_leaves(files));
        let finding = finding.fixes(self.free()).values(json!({ "files": files }));
        Some(finding.hint(format!(
            "smaller pages may save more there than discards do: {see}"
        )))
    }

    pub(super) fn server(&self) -> Option<Finding> {
        let s = self.v.agent.as_ref()?.server.as_ref()?;
        let why = s.failure.as_ref().map(|f| format!(": {}", ink::reason(&f.why)));
        let version = Some(&s.version)
            .filter(|v| !v.is_empty())
            .map(|v| format!(" {v}"));
        let (why, version) = (why.unwrap_or_default(), version.unwrap_or_default());
        let finding = |level| {
            let values = json!({ "connected": s.connected, "version": &s.version, "catalog": s.catalog });
            self.say("server", level, format!("mongod{version} {}{why}", s.text()))
                .values(values)
        };
        let name = self.name();
        let log = format!("journalctl -u dsm-mongo@{name} -n 20");
        let role = |what| format!("{what}: {} has the role that it needs", page("papers.rst"));
        let file = format!("its address, with user and password, is in /etc/dsm-mongo/{name}.uri");
        Some(
            match (s.connected, s.catalog, s.failure.as_ref().map(|f| f.kind)) {
                (true, true, None) => finding(Right),
                (_, _, Some(FailureKind::Recovering)) => finding(Note),
                (true, true, Some(FailureKind::Partial)) => finding(Wrong)
                    .fix(log)
                    .hint(role("their files are known by their names")),
                (true, true, Some(_)) => finding(Note).fix(log),
                (true, false, _) => finding(Wrong)
                    .fix(log)
                    .hint(role("files are known by their names until then")),
                (false, _, Some(FailureKind::Refused)) => finding(Wrong)
                    .fix(format!("systemctl start dsm-mongo@{name}"))
                    .hint(format!("when the file is right: {file}")),
                (false, _, Some(_)) => finding(Wrong)
                    .fix("systemctl start mongod")
                    .hint(format!("if it runs: {file}")),
                (false, _, None) => finding(Wrong).fix(format!("systemctl status dsm-mongo@{name}.timer")),
            },
        )
    }
}

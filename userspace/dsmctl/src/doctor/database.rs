// SPDX-License-Identifier: GPL-2.0-or-later
//! Judges what follows the database of a dsm device: dsmd, the places that it uploaded, the
//! checkpoints that it saw, boundaries and discards.

use std::collections::BTreeMap;
use std::time::Duration;

use super::device::{simple, Judge, WAITS};
use super::ink;
use super::{Finding, Level};
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
        let s = self.v.service.as_ref();
        let finding = self.serves();
        match s {
            Some(s) => finding
                .value("state", s.state)
                .value("since", s.since)
                .value("restarts", s.restarts),
            None => finding,
        }
    }

    /// A command for the unit of the device's dsmd.
    pub(super) fn unit(&self, command: &str) -> String {
        format!("{command} dsmd@{}", self.name())
    }

    fn journal(&self) -> String {
        self.unit("journalctl -n 50 -u")
    }

    /// One that does not answer, or is not there.
    fn lost(&self, s: &Service) -> Option<Finding> {
        let age = time(Duration::from_secs_f64((Moment::now().wall - s.since).max(0.0)));
        let why = s.reason.as_ref().map(ink::reason).unwrap_or_default();
        match s.state {
            State::Stuck => {
                let text = format!("dsmd has not answered for {age}: {why}");
                Some(
                    self.say("dsmd", Level::Wrong, text)
                        .fix("dmesg | tail -n 50")
                        .hint("shows what the drive does; dsmd goes on by itself when it answers"),
                )
            }
            State::Ended => {
                let text = format!("dsmd has ended, {age} ago: {why}");
                Some(self.say("dsmd", Level::Wrong, text).fix(self.journal()))
            }
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
            self.say("dsmd", level, text)
                .value("version", &a.version)
                .value("uploads", a.uploads)
                .value("refusals", a.refusals)
                .value(
                    "snapshot_age_s",
                    self.facts.published.as_ref().ok().map(|p| p.age.as_secs()),
                )
        };
        let restart = self.unit("systemctl restart");
        if a.version != self.facts.version {
            let text = format!(
                "dsmd {} serves it, and this dsmctl is {}",
                a.version, self.facts.version
            );
            return finding(Level::Note, text).fix(restart);
        }
        let restarts = self.v.service.as_ref().map_or(0, |s| s.restarts);
        match &self.facts.published {
            Ok(_) if restarts > 0 => finding(
                Level::Note,
                format!("dsmd {} serves it; restarts: {restarts}", a.version),
            )
            .fix(self.unit("journalctl -p err -n 20 -u")),
            Ok(p) => finding(
                Level::Right,
                format!(
                    "dsmd {} serves it; what it publishes is {} old",
                    a.version,
                    time(p.age)
                ),
            ),
            Err(why) => finding(
                Level::Wrong,
                format!(
                    "dsmd {} serves it, and publishes nothing: {}",
                    a.version,
                    ink::reason(why)
                ),
            )
            .fix(restart),
        }
    }

    fn no_agent(&self) -> Finding {
        let say = |text: String| self.say("dsmd", Level::Wrong, text);
        let configure = |finding: Finding| match self.d.mounts.first().map(|m| m.point.to_string_lossy()) {
            Some(dir) if simple(&dir) && name::check(&self.v.name).is_ok() => finding.fix(format!(
                "printf 'dbpath = \"%s\"\\n' {} >>/etc/dsm/{}.toml",
                ink::path(dir),
                self.name()
            )),
            _ => finding.hint("give it a dbpath in its file in /etc/dsm"),
        };
        let stuck = self
            .v
            .silent
            .as_ref()
            .filter(|why| why.kind != ReasonKind::NotServed);
        let finding = match (&self.facts.published, self.waiting()) {
            (Ok(_), Some(why)) => {
                let finding = say(format!("dsmd waits: {}", ink::reason(why)));
                return match self.waits_for(why) {
                    Some(command) => finding.fix(command),
                    None => finding.fix(self.journal()),
                };
            }
            (Ok(p), None) if self.v.silent.is_some() && self.d.wanted.is_some() => {
                say(format!("dsmd {} runs, and does not serve it", p.version))
            }
            (Ok(p), None) => say(format!("dsmd {} runs, and does not know of it", p.version)),
            (Err(_), _) => match stuck {
                Some(why) => say(ink::reason(why)),
                None => say("no dsmd serves it: the table becomes stale, and no checkpoint is seen".into()),
            },
        };
        let runs = self.facts.published.is_ok() || stuck.is_some();
        let finding = match self.d.wanted {
            Some(_) => finding,
            None => configure(finding),
        };
        finding.fix(self.unit(if runs {
            "systemctl restart"
        } else {
            "systemctl start"
        }))
    }

    /// The command for what dsmd waits for.
    fn waits_for(&self, why: &Reason) -> Option<String> {
        let at = self.d.wanted.as_ref().map(|w| ink::path(w.dbpath.display()));
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
        let why = match &t.reason {
            Some(reason) => format!("{}: {reason}", t.message),
            None => t.message.clone(),
        };
        let text = format!("dsmd's last error, {} ago: {}", time(age), ink::reason(why));
        Some(
            self.say("last_error", Level::Note, text)
                .fix(self.unit("journalctl -p warning -n 20 -u"))
                .value("level", t.level)
                .value("age_s", age.as_secs()),
        )
    }

    /// What dsmd serves in part only.
    pub(super) fn left_out(&self) -> Option<Finding> {
        let all = left_out::of_agent(self.v.agent.as_ref()?);
        let told = all.iter().filter(|l| !l.reason.is_usual());
        let texts = told.clone().map(|l| l.text(&|example| ink::reason(example)));
        let text = texts.collect::<Vec<_>>().join("; ");
        let counts = all
            .iter()
            .map(|l| (l.reason, l.count))
            .collect::<BTreeMap<_, _>>();
        let finding = |level, text| self.say("left-out", level, text).value("counts", &counts);
        Some(
            match (text.is_empty(), told.clone().any(|l| l.reason.is_wrong())) {
                (true, _) => finding(Level::Right, "nothing is left out but what is usual".into()),
                (false, true) => finding(Level::Wrong, text).fix(self.unit("journalctl -p warning -n 20 -u")),
                (false, false) => finding(Level::Note, text),
            },
        )
    }

    pub(super) fn unmapped(&self, k: &Kernel) -> Finding {
        let (part, all) = (k.status.unmapped_sectors, k.status.sectors());
        let share = if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let finding = |level, text: String| {
            self.say("unmapped", level, text)
                .value("bytes", part * SECTOR)
                .value("all_bytes", all * SECTOR)
                .value("share", share)
        };
        let said = format!("{} of what was written was in no known file", percent(part, all));
        if all == 0 {
            return finding(Level::Right, "nothing was written yet".into());
        }
        if share <= UNMAPPED || part * SECTOR < LITTLE {
            return finding(Level::Right, said);
        }
        let Some(agent) = &self.v.agent else {
            if self.waits() {
                return finding(Level::Note, said).hint(WAITS);
            }
            let found = finding(Level::Wrong, said).fix(self.unit("systemctl start"));
            return found
                .fix(self.dsmctl("debug reset"))
                .hint("dsmd uploads where files are; reset restarts the counters");
        };
        if !agent.marked && self.is_mongodb() {
            let text = format!("{said}, as is normal while data is loaded");
            return finding(Level::Note, text);
        }
        if part * SECTOR <= agent.bytes {
            let text = format!(
                "{said}, {}: no more than the files' own growth, since each block is new once",
                sizes::shown(part * SECTOR)
            );
            return finding(Level::Note, text);
        }
        finding(Level::Wrong, said)
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
        let s = &k.status;
        let age = Duration::from_millis(s.window_ms);
        let from = self.v.agent.as_ref().map_or(0, |a| a.window_from_bytes);
        let all = s.sectors() * SECTOR;
        // A reset makes the count smaller.
        let written = all.checked_sub(from).unwrap_or(all);
        let period = self.v.agent.as_ref().and_then(|a| a.last_window_ms);
        let finding = |level, text: String| {
            self.say("checkpoints", level, text)
                .value("seen", s.windows)
                .value("age_ms", s.window_ms)
                .value("period_ms", period)
                .value("written_since_bytes", written)
                .value("database_age_s", self.d.turtle_age.map(|t| t.as_secs()))
        };
        let last = match s.windows {
            0 => format!("none was seen in {}", time(age)),
            _ => format!("the last was seen {} ago", time(age)),
        };
        if self.v.agent.is_none() {
            let no_other = match self.waits() {
                true => "dsmd sees the next when it serves the database",
                false => "without dsmd no other will be",
            };
            return Some(finding(Level::Note, format!("{last}; {no_other}")));
        }
        if age > self.late && written >= LITTLE {
            let since = format!("{last}, and {} were written since", sizes::shown(written));
            return Some(match self.d.turtle_age.filter(|made| *made < self.late) {
                Some(made) => finding(
                    Level::Wrong,
                    format!(
                        "{since}; the database made one {} ago, which dsmd did not see",
                        time(made)
                    ),
                )
                .fix(self.unit("systemctl restart")),
                None => finding(Level::Wrong, format!("{since}: the database makes none"))
                    .fix("mongosh --quiet --eval 'db.adminCommand({fsync: 1})'")
                    .hint(
                        "makes one now; mongod makes one a minute by itself, and its log says what keeps it",
                    ),
            });
        }
        let text = match (s.windows, period) {
            (0, _) => format!("{last}; mongod makes one a minute while it is written to"),
            (n, Some(ms)) => format!(
                "{last}, {} after the one before; {n} since the device was made",
                time(Duration::from_millis(ms))
            ),
            (n, None) => format!("{last}; {n} since the device was made"),
        };
        let level = if s.windows == 0 { Level::Note } else { Level::Right };
        Some(finding(level, text))
    }

    pub(super) fn boundaries(&self, k: &Kernel) -> Option<Finding> {
        let a = self.v.agent.as_ref().filter(|_| self.is_mongodb())?;
        if !k.status.has_boundaries() {
            return None;
        }
        let finding = |level, text: String| {
            self.say("boundaries", level, text)
                .value("mode", &a.boundary)
                .value("marked", a.marked)
                .value("files", a.files)
                .value("boundaries", a.boundaries)
                .value("outgrown", a.outgrown)
        };
        if a.outgrown > 0 {
            let text = format!(
                "{} of {} files have outgrown theirs: most of them is above what they had when it was set",
                a.outgrown, a.boundaries
            );
            return Some(finding(Level::Note, text).fix(self.dsmctl("boundary move")));
        }
        if !a.marked {
            let when = match a.boundary.as_str() {
                "manual" => "by hand",
                _ => "when loading is over",
            };
            let text = format!("no boundaries set yet: files get them {when}");
            return Some(finding(Level::Note, text).fix(self.dsmctl("boundary mark")));
        }
        let text = format!(
            "{} of {} files have one, and none has outgrown it",
            a.boundaries, a.files
        );
        Some(finding(Level::Right, text))
    }

    pub(super) fn discards(&self, k: &Kernel) -> Finding {
        let d = &k.status.discard;
        let wanted = self.d.wanted.as_ref().is_some_and(|w| w.discard);
        let info = self.v.agent.as_ref().and_then(|a| a.discard.as_ref());
        let smallest = self.d.disks.iter().filter_map(|d| d.discard_granularity).max();
        let finding = |level, text: String| {
            let finding = self
                .say("discard", level, text)
                .value("state", d.state)
                .value("wanted", wanted || info.is_some())
                .value("granularity_bytes", smallest)
                .value("discarded_bytes", d.discarded_sectors * SECTOR)
                .value("refused_bytes", d.refused_sectors * SECTOR)
                .value("failed", d.failed);
            match info {
                Some(i) => finding
                    .value("freed_bytes", i.freed_bytes)
                    .value("last_sent", i.last_sent)
                    .value("mode", i.mode)
                    .value("audit", &i.audit),
                None => finding,
            }
        };
        if let Some(why) = &self.v.barred {
            let text = format!("none may be made: {}", ink::reason(why));
            let asked = wanted || info.is_some();
            let found = finding(if asked { Level::Wrong } else { Level::Note }, text);
            return match (why.kind, asked) {
                (ReasonKind::AuditFailedInTime, _) => found.hint(format!(
                    "nothing is lost; {}, \"The audit has failed\", says what to report",
                    page("troubleshooting.md")
                )),
                (ReasonKind::AuditFailed, _) => found.hint(format!(
                    "resync this member, or validate it: {}, \"The audit has failed\"",
                    page("troubleshooting.md")
                )),
                (_, true) => found.hint("take discard = true out of its file in /etc/dsm"),
                (_, false) => found,
            };
        }
        if let Some(info) = info {
            return self.discards_of(k, info, &finding);
        }
        if wanted {
            let text = "they are configured, and dsmd makes none".to_owned();
            if self.waits() {
                return finding(Level::Note, text).hint(WAITS);
            }
            let restart = if self.v.agent.is_some() {
                "restart"
            } else {
                "start"
            };
            return finding(Level::Wrong, text).fix(self.unit(&format!("systemctl {restart}")));
        }
        match d.state {
            Mode::On | Mode::Watch => finding(
                Level::Note,
                format!(
                    "{} in the target, and nobody makes any: that costs a little",
                    d.state
                ),
            )
            .fix(format!("{} discard off", self.dsmctl("set"))),
            Mode::Off => {
                let text = "off: the drive keeps copying blocks that the database has freed".to_owned();
                let served = self.v.agent.as_ref().map(|a| a.dbpath.clone());
                let found = finding(Level::Note, text);
                match served.filter(|dbpath| simple(dbpath)) {
                    Some(dbpath) => found.fix(format!("dsmctl free {}", ink::path(dbpath))).hint(
                        "says how much that is; discard = true in its file in /etc/dsm switches them on",
                    ),
                    None => found.hint("discard = true in its file in /etc/dsm switches them on"),
                }
            }
            _ => finding(Level::Note, "what lies below takes none".into()),
        }
    }

    fn discards_of(
        &self,
        k: &Kernel,
        i: &DiscardInfo,
        finding: &dyn Fn(Level, String) -> Finding,
    ) -> Finding {
        let d = &k.status.discard;
        if let Some(why) = &i.off {
            if why.kind == ReasonKind::Early {
                return finding(Level::Note, why.to_string());
            }
            let text = format!("nothing is discarded: {}", ink::reason(why));
            // They pass; so does a snapshot below what took discards before.
            let passes = match why.kind {
                ReasonKind::Backup | ReasonKind::Probe => true,
                kind => kind == ReasonKind::Unsupported && i.sent_bytes > 0,
            };
            if passes {
                return finding(Level::Note, text);
            }
            let found = finding(Level::Wrong, text);
            return if d.state == Mode::Off {
                found.fix(format!("{} discard on", self.dsmctl("set")))
            } else if why.kind == ReasonKind::Closed {
                found.fix("systemctl start mongod")
            } else {
                found.hint(format!("{}, \"Discards\", has what they need", page("dsmd.rst")))
            };
        }
        if let Some(why) = i.withheld() {
            return finding(Level::Note, why.to_string());
        }
        if d.failed > 0 {
            return finding(
                Level::Wrong,
                format!("the drive failed {} of them; no data is at risk", d.failed),
            )
            .fix("dmesg | grep -i discard")
            .fix(format!("{} discard off", self.dsmctl("set")))
            .hint("shows why; the second ends them");
        }
        if i.waiting > 0 {
            return finding(
                Level::Note,
                format!("they begin after {} more checkpoints", i.waiting),
            );
        }
        if i.mode == Mode::Audit {
            return self.audit_of(i, finding);
        }
        if let Some(why) = fruitless(i) {
            return finding(
                Level::Wrong,
                format!("on, 0 bytes in {} checkpoints: {why}", i.idle_looks),
            )
            .fix(self.journal())
            .hint(format!("{}, \"Discards\", has what they need", page("dsmd.rst")));
        }
        let sum = |sectors: u64| sizes::shown(sectors * SECTOR);
        let last = i.last_sent.map_or_else(String::new, |at| {
            let age = now().saturating_sub(Duration::from_secs(at));
            format!(", the last {} ago", time(age))
        });
        let text = format!(
            "on: {} discarded{last}; {} refused, as rewritten",
            sum(d.discarded_sectors),
            sum(d.refused_sectors)
        );
        if let Some(bytes) = self.unmeasured(k) {
            let text = format!(
                "{text}; the drive says {}, and nobody has measured what it takes",
                sizes::shown(bytes)
            );
            return finding(Level::Note, text)
                .fix(self.dsmctl("probe-discard"))
                .hint("measures it, in a scratch file");
        }
        match &i.warning {
            Some(warning) => finding(Level::Note, format!("{text}; {}", ink::reason(warning))),
            None => finding(Level::Right, text),
        }
    }

    /// Nothing is sent, so far or for good.
    fn audit_of(&self, i: &DiscardInfo, finding: &dyn Fn(Level, String) -> Finding) -> Finding {
        let seen = i.audit.progress();
        match &i.audit.only {
            Some(why) => {
                finding(Level::Note, format!("only audited: {}; {seen}", ink::reason(why))).hint(format!(
                    "nothing reaches the drive; send what this says with -o json: {}, \"Report it\"",
                    page("drives.md")
                ))
            }
            None => finding(Level::Note, format!("audit: {seen}"))
                .hint("nothing reaches the drive before; then discards begin by themselves"),
        }
    }

    /// What the database's own settings may save, without dsm.
    pub(super) fn leaf_pages(&self) -> Option<Finding> {
        let files = match self.d.large_leaves.as_ref()? {
            Ok(0) => return None,
            Ok(files) => *files,
            Err(why) => {
                let text = format!("the metadata of the database is damaged: {}", ink::reason(why));
                return Some(self.say("leaf-pages", Level::Wrong, text));
            }
        };
        let dbpath = self.v.agent.as_ref().map(|a| a.dbpath.clone());
        let dbpath = dbpath.or_else(|| Some(self.d.wanted.as_ref()?.dbpath.display().to_string()));
        let finding = self
            .say("leaf-pages", Level::Note, in_large_leaves(files))
            .hint(format!(
                "smaller pages may save more there than discards do: {}",
                page("before.md")
            ))
            .value("files", files);
        Some(match dbpath.filter(|dir| simple(dir)) {
            Some(dir) => finding.fix(format!("dsmctl free {}", ink::path(dir))),
            None => finding,
        })
    }

    pub(super) fn server(&self) -> Option<Finding> {
        let s = self.v.agent.as_ref()?.server.as_ref()?;
        let why = s.failure.as_ref();
        let why = why.map_or(String::new(), |f| format!(": {}", ink::reason(&f.why)));
        let version = Some(&s.version).filter(|v| !v.is_empty());
        let version = version.map_or(String::new(), |v| format!(" {v}"));
        let text = format!("mongod{version} {}{why}", s.text());
        let finding = |level| {
            self.say("server", level, text.clone())
                .value("connected", s.connected)
                .value("version", &s.version)
                .value("catalog", s.catalog)
        };
        let log = format!("journalctl -u dsm-mongo@{} -n 20", self.name());
        let role = |what| format!("{what}: {} has the role that it needs", page("papers.rst"));
        let file = format!(
            "its address, with user and password, is in /etc/dsm-mongo/{}.uri",
            self.name()
        );
        Some(
            match (s.connected, s.catalog, s.failure.as_ref().map(|f| f.kind)) {
                (true, true, None) => finding(Level::Right),
                (_, _, Some(FailureKind::Recovering)) => finding(Level::Note),
                (true, true, Some(FailureKind::Partial)) => finding(Level::Wrong)
                    .fix(log)
                    .hint(role("their files are known by their names")),
                (true, true, Some(_)) => finding(Level::Note).fix(log),
                (true, false, _) => finding(Level::Wrong)
                    .fix(log)
                    .hint(role("files are known by their names until then")),
                (false, _, Some(FailureKind::Refused)) => finding(Level::Wrong)
                    .fix(format!("systemctl start dsm-mongo@{}", self.name()))
                    .hint(format!("when the file is right: {file}")),
                (false, _, Some(_)) => finding(Level::Wrong)
                    .fix("systemctl start mongod")
                    .hint(format!("if it runs: {file}")),
                (false, _, None) => {
                    finding(Level::Wrong).fix(format!("systemctl status dsm-mongo@{}.timer", self.name()))
                }
            },
        )
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! The plan of a trial and what was measured, in a file that outlives restarts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use dm::diskstat::DiskStat;
use proto::control::TRIAL;
use proto::drive::Counters;
use runtime::{own, whole};

/// How long something lasts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    /// Written to the device.
    Bytes(u64),
    Seconds(f64),
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = |digits: &str, unit: f64| digits.parse::<f64>().ok().map(|n| n * unit);
        let time = [("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)]
            .iter()
            .find_map(|(suffix, unit)| seconds(text.strip_suffix(suffix)?, *unit));
        match (time, runtime::sizes::bytes(text)) {
            (Some(s), _) if s.is_finite() && s > 0.0 => Ok(Self::Seconds(s)),
            (None, Some(bytes)) if bytes > 0 => Ok(Self::Bytes(bytes)),
            _ => Err("what is written, as 100G, or a time, as 30s, 20min, 4h or 1d".to_owned()),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} written", runtime::sizes::shown(*bytes)),
            Self::Seconds(s) => f.write_str(&runtime::time::span(*s)),
        }
    }
}

impl Amount {
    /// What share of it has passed.
    pub fn passed(&self, seen: &Seen) -> f64 {
        match self {
            Self::Bytes(n) => seen.disk.written_bytes as f64 / *n as f64,
            Self::Seconds(n) => seen.seconds / n,
        }
    }
}

/// What is switched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialSwitch {
    /// A feature of the target.
    pub feature: String,
    pub on: String,
    pub off: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialPlan {
    pub device: String,
    pub switch: TrialSwitch,
    /// What is left out after each switch.
    pub washout: Amount,
    /// What is measured then.
    pub measure: Amount,
    pub pairs: usize,
    pub seed: u64,
    /// Prints the drive's counters: "HOST MEDIA" in bytes.
    pub counters: Option<String>,
}

impl TrialPlan {
    /// Whether the period is one with the switch on.  Which of a pair is first is random.
    pub fn is_on(&self, period: usize) -> bool {
        let pair = (period / 2) as u64;
        let first = fastrand::Rng::with_seed(self.seed ^ pair.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bool();
        first == (period % 2 == 0)
    }

    /// How long the washout is for each of what is measured; 1 where that is not known.
    pub fn washout_ratio(&self) -> f64 {
        match (self.washout, self.measure) {
            (Amount::Bytes(s), Amount::Bytes(m)) => s as f64 / m as f64,
            (Amount::Seconds(s), Amount::Seconds(m)) => s / m,
            _ => 1.0,
        }
    }
}

/// Begins the identity of a drive that has neither a wwid nor a serial number: another one of
/// its size has the same.
pub(crate) const BY_SIZE: &str = "size ";

/// The drive and the machine, as a report to others names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub model: String,
    pub firmware: String,
    pub bytes: u64,
    pub kernel: String,
    pub module: String,
    /// Features of the table when the trial began.
    pub features: Vec<(String, String)>,
}

/// What the counters are at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSample {
    /// Seconds of a clock that nobody sets, from the machine's boot on; suspended ones count.
    pub at: f64,
    /// The machine's boot: counters of the block layer begin with it.
    pub boot: String,
    pub disk: DiskStat,
    /// Sectors that the target has discarded, where discards are what is switched.
    pub discarded: Option<u64>,
    /// `None`: the drive does not count.
    pub counters: Option<Counters>,
}

/// What was counted between samples; times between two of which nothing is known are no part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub seconds: f64,
    pub disk: DiskStat,
    pub discarded: Option<u64>,
    pub counters: Option<Counters>,
}

impl TrialSample {
    /// Whether the device is the one of an earlier sample.
    pub fn is_of_device(&self, then: &Self) -> bool {
        self.boot == then.boot && self.disk.since(&then.disk).is_some()
    }
}

impl Seen {
    /// Between two samples, or why nothing is known of that time.
    pub fn between(then: &TrialSample, now: &TrialSample) -> Result<Self, &'static str> {
        let seconds = now.at - then.at;
        if now.boot != then.boot {
            return Err("the machine was restarted");
        }
        let since = |of: fn(&TrialSample) -> Option<u64>| Some(of(now)?.checked_sub(of(then)?));
        let discarded = since(|s| s.discarded);
        let disk = now.disk.since(&then.disk).filter(|_| discarded != Some(None));
        let disk = disk.ok_or("the device was made again")?;
        let counters = match (&now.counters, &then.counters) {
            (Some(now), Some(then)) => Some(now.since(then).ok_or("a counter of the drive went back")?),
            (None, None) => None,
            _ => return Err("the drive's counters came or went"),
        };
        if seconds > TRIAL.as_secs_f64() {
            return Err("no sample was taken for too long");
        }
        let discarded = discarded.flatten();
        Ok(Self {
            seconds,
            disk,
            discarded,
            counters,
        })
    }

    /// Of what came next.
    pub fn add(&mut self, next: &Self) {
        self.seconds += next.seconds;
        self.disk.add(&next.disk);
        self.discarded = match (self.discarded, next.discarded) {
            (Some(sum), Some(next)) => Some(sum + next),
            (sum, next) => sum.or(next),
        };
        match (&mut self.counters, next.counters) {
            (Some(sum), Some(next)) => sum.add(&next),
            (none, next) => *none = next,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.disk.written_bytes
    }

    pub fn bytes_per_second(&self) -> f64 {
        self.bytes() as f64 / self.seconds
    }

    /// The mean time of a write in the block layer; `None`: nothing of it was seen.
    pub fn write_ms(&self) -> Option<f64> {
        mean(self.disk.write_ms, self.disk.writes)
    }

    pub fn read_ms(&self) -> Option<f64> {
        mean(self.disk.read_ms, self.disk.reads)
    }
}

fn mean(ms: u64, count: u64) -> Option<f64> {
    (ms > 0 && count > 0).then(|| ms as f64 / count as f64)
}

/// A period that was measured as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Period {
    pub on: bool,
    pub seen: Seen,
}

/// A period in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Current {
    pub on: bool,
    pub washout: Seen,
    /// From the end of the washout on.
    pub measured: Option<Seen>,
    pub last: TrialSample,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialState {
    pub plan: TrialPlan,
    pub machine: Machine,
    pub drive: String,
    /// Why the drive's counters are not known.
    pub no_counters: Option<String>,
    pub periods: Vec<Period>,
    pub current: Option<Current>,
    /// Periods that began over, and why.
    pub again: Vec<String>,
    /// What is left out of periods.
    pub missed: Vec<String>,
    /// Why it has ended before it was over.
    pub ended: Option<String>,
}

impl TrialState {
    pub fn new(plan: TrialPlan, machine: Machine, drive: String, no_counters: Option<String>) -> Self {
        Self {
            plan,
            machine,
            drive,
            no_counters,
            periods: Vec::new(),
            current: None,
            again: Vec::new(),
            missed: Vec::new(),
            ended: None,
        }
    }

    /// Whether there is something of it to be done yet.
    pub fn is_unfinished(&self) -> bool {
        !self.is_over() && self.ended.is_none()
    }

    pub fn is_over(&self) -> bool {
        self.periods.len() >= 2 * self.plan.pairs
    }
}

/// The file of a device's trial, in a folder of trials alone: no name of a device is that
/// of another file.
pub struct Store {
    path: PathBuf,
}

impl Store {
    pub fn of(dir: &Path, device: &str) -> Self {
        Self {
            path: dir.join("trial").join(format!("{device}.json")),
        }
    }

    /// Held while the state is read and written: who stops a trial and its timer may be two.
    pub fn lock(&self) -> Result<File> {
        let path = self.path.with_extension("lock");
        let named = || format!("cannot lock {}", path.display());
        fs::create_dir_all(path.parent().context("it has no folder")?).with_context(named)?;
        let file = own::file(&path).with_context(named)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive).with_context(named)?;
        Ok(file)
    }

    /// How long ago it was written.
    pub fn age(&self) -> Duration {
        let written = fs::metadata(&self.path).and_then(|m| m.modified());
        written.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default()
    }

    pub fn load(&self) -> Result<Option<TrialState>> {
        let named = || format!("cannot read {}", self.path.display());
        let text = match fs::read(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(named)?,
        };
        serde_json::from_slice(&text).map(Some).with_context(named)
    }

    pub fn save(&self, state: &TrialState) -> Result<()> {
        let written = whole::write(&self.path, 0o644, &serde_json::to_vec(state)?);
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Moves the file of a trial that is over away, if there is one.
    pub fn set_aside(&self) -> Result<()> {
        match fs::rename(&self.path, self.path.with_extension("old")) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.with_context(|| format!("cannot rename {}", self.path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (text, amount) in [
            ("100G", Amount::Bytes(100 << 30)),
            ("4096", Amount::Bytes(4096)),
            ("30s", Amount::Seconds(30.0)),
            ("20min", Amount::Seconds(1200.0)),
            ("1.5h", Amount::Seconds(5400.0)),
            ("1d", Amount::Seconds(86_400.0)),
        ] {
            assert_eq!(text.parse(), Ok(amount), "{text}");
        }
        for text in ["", "0", "0s", "-1h", "infh", "NaNs", "1w", "x"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
    }

    fn plan(seed: u64) -> TrialPlan {
        TrialPlan {
            device: "d".into(),
            switch: TrialSwitch {
                feature: "discard".into(),
                on: "on".into(),
                off: "off".into(),
            },
            washout: Amount::Bytes(1),
            measure: Amount::Bytes(1),
            pairs: 100,
            seed,
            counters: None,
        }
    }

    #[test]
    fn each_pair_has_both_in_random_order() {
        let p = plan(7);
        assert!((0..100).all(|pair| p.is_on(2 * pair) != p.is_on(2 * pair + 1)));
        let first = (0..100).filter(|pair| p.is_on(2 * pair)).count();
        assert!((30..=70).contains(&first), "{first}");
        assert!((0..100).any(|pair| p.is_on(2 * pair) != plan(8).is_on(2 * pair)));
    }

    #[test]
    fn no_name_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let stores = ["x", "x.old", "x.part", "x.lock"].map(|name| Store::of(dir.path(), name));
        for store in &stores {
            fs::create_dir_all(store.path.parent().unwrap()).unwrap();
            fs::write(&store.path, store.path.to_str().unwrap()).unwrap();
        }
        stores[0].set_aside().unwrap();
        assert!(stores[0].load().unwrap().is_none());
        for store in &stores[1..] {
            assert_eq!(
                fs::read_to_string(&store.path).unwrap(),
                store.path.to_str().unwrap()
            );
        }
    }
}

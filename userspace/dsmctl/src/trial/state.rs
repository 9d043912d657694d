// SPDX-License-Identifier: GPL-2.0-or-later
//! The plan of a trial and what was measured, in a file that outlives restarts.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};

use dm::diskstat::DiskStat;
use proto::drive::Counters;
use runtime::whole;

const VERSION: u32 = 1;

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
            Self::Seconds(s) if *s >= 7200.0 => write!(f, "{:.1} hours", s / 3600.0),
            Self::Seconds(s) => write!(f, "{s:.0} seconds"),
        }
    }
}

impl Amount {
    /// What share of it has passed between two samples.
    pub fn passed(&self, from: &TrialSample, to: &TrialSample) -> f64 {
        match self {
            Self::Bytes(n) => {
                to.disk.written_bytes.saturating_sub(from.disk.written_bytes) as f64 / *n as f64
            }
            Self::Seconds(n) => (to.at - from.at) / n,
        }
    }
}

/// What is switched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// A feature of the target.
    pub feature: String,
    pub on: String,
    pub off: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialPlan {
    pub device: String,
    pub switch: Switch,
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

/// At a border of a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSample {
    /// Seconds of a clock that nobody sets, from the machine's boot on; suspended ones count.
    pub at: f64,
    /// The machine's boot: counters of the block layer begin with it.
    pub boot: String,
    pub disk: DiskStat,
    /// Sectors that the target has discarded, where discards are what is switched.
    #[serde(default)]
    pub discarded: Option<u64>,
    /// `None`: the drive does not count.
    pub counters: Option<Counters>,
}

impl TrialSample {
    /// What is not so if `self` was taken after `earlier` of the same drive without a restart.
    pub fn follows(&self, earlier: &Self) -> Result<(), &'static str> {
        let counters = self.counters.as_ref().zip(earlier.counters.as_ref());
        if self.boot != earlier.boot {
            Err("the machine was restarted")
        } else if self.counters.is_some() != earlier.counters.is_some() {
            Err("the drive's counters came or went")
        } else if self.disk.written_bytes < earlier.disk.written_bytes {
            Err("the device was made again")
        } else if counters.is_some_and(|(now, then)| {
            now.source != then.source || now.host < then.host || now.media < then.media
        }) {
            Err("a counter of the drive went back")
        } else {
            Ok(())
        }
    }
}

/// A period that was measured as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Period {
    pub on: bool,
    pub from: TrialSample,
    pub to: TrialSample,
}

impl Period {
    pub fn seconds(&self) -> f64 {
        self.to.at - self.from.at
    }

    pub fn bytes(&self) -> u64 {
        self.to.disk.written_bytes - self.from.disk.written_bytes
    }

    pub fn bytes_per_second(&self) -> f64 {
        self.bytes() as f64 / self.seconds()
    }

    /// The mean time of a write in the block layer.
    pub fn write_ms(&self) -> Option<f64> {
        mean(
            self.from.disk.write_ms,
            self.to.disk.write_ms,
            self.from.disk.writes,
            self.to.disk.writes,
        )
    }

    pub fn read_ms(&self) -> Option<f64> {
        mean(
            self.from.disk.read_ms,
            self.to.disk.read_ms,
            self.from.disk.reads,
            self.to.disk.reads,
        )
    }
}

/// `None`: nothing of it was seen.
fn mean(from_ms: u64, to_ms: u64, from: u64, to: u64) -> Option<f64> {
    let ms = to_ms.checked_sub(from_ms).filter(|ms| *ms > 0)?;
    let count = to.checked_sub(from).filter(|n| *n > 0)?;
    Some(ms as f64 / count as f64)
}

/// A period in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Current {
    pub on: bool,
    pub since: TrialSample,
    /// When the washout was over.
    pub washed_out: Option<TrialSample>,
    pub last: TrialSample,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialState {
    pub version: u32,
    pub plan: TrialPlan,
    pub machine: Machine,
    pub drive: String,
    /// Why the drive's counters are not known.
    pub no_counters: Option<String>,
    pub periods: Vec<Period>,
    pub current: Option<Current>,
    /// Periods that began over, and why.
    pub again: Vec<String>,
    /// Why it has ended before it was over, and does not go on.
    #[serde(default)]
    pub ended: Option<String>,
    /// By `dsmctl trial stop`: it goes on by hand only.
    #[serde(default)]
    pub stopped: bool,
    /// The switch may be off by this trial.
    #[serde(default)]
    pub switched: bool,
    /// Where this process has set the switch last.
    #[serde(skip)]
    pub set: Option<bool>,
}

impl TrialState {
    pub fn new(plan: TrialPlan, machine: Machine, drive: String, no_counters: Option<String>) -> Self {
        Self {
            version: VERSION,
            plan,
            machine,
            drive,
            no_counters,
            periods: Vec::new(),
            current: None,
            again: Vec::new(),
            ended: None,
            stopped: false,
            switched: false,
            set: None,
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

    /// What can be read of all devices' trials.
    pub fn all(dir: &Path) -> Vec<TrialState> {
        let entries = fs::read_dir(dir.join("trial")).into_iter().flatten().flatten();
        let read = |entry: fs::DirEntry| {
            let path = entry.path();
            let state = Self { path: path.clone() }.load().ok()?;
            (Self::of(dir, &state.plan.device).path == path).then_some(state)
        };
        entries.filter_map(read).collect()
    }

    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    pub fn load(&self) -> Result<TrialState> {
        let named = || format!("cannot read {}", self.path.display());
        let text = fs::read(&self.path).with_context(named)?;
        let state: TrialState = serde_json::from_slice(&text).with_context(named)?;
        if state.version != VERSION {
            bail!(
                "{} is of version {}, this is dsmctl for {VERSION}",
                self.path.display(),
                state.version
            );
        }
        Ok(state)
    }

    pub fn save(&self, state: &TrialState) -> Result<()> {
        let written = whole::write(&self.path, 0o644, &serde_json::to_vec(state)?);
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Moves the file of a trial that is over away.
    pub fn set_aside(&self) -> Result<()> {
        let aside = self.path.with_extension("old");
        fs::rename(&self.path, &aside).with_context(|| format!("cannot rename {}", self.path.display()))
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
            switch: Switch {
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
        assert!(!stores[0].exists());
        for store in &stores[1..] {
            assert_eq!(
                fs::read_to_string(&store.path).unwrap(),
                store.path.to_str().unwrap()
            );
        }
    }

    #[test]
    fn trials_of_all_devices() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Store::all(&dir.path().join("nonesuch")).is_empty());
        for device in ["a", "vg-db", "x.old"] {
            let store = Store::of(dir.path(), device);
            let plan = TrialPlan {
                device: device.into(),
                ..plan(7)
            };
            let state = TrialState::new(plan, Machine::default(), "drive".into(), None);
            store.save(&state).unwrap();
            if device == "a" {
                // That of a trial that was before is none.
                store.set_aside().unwrap();
                store.save(&state).unwrap();
            }
        }
        fs::write(dir.path().join("trial/b.json"), "{}").unwrap();
        let mut found: Vec<String> = Store::all(dir.path())
            .into_iter()
            .map(|s| s.plan.device)
            .collect();
        found.sort();
        assert_eq!(found, ["a", "vg-db", "x.old"]);
    }
}

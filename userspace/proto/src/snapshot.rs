// SPDX-License-Identifier: GPL-2.0-or-later
//! What each `dsmd` publishes of its device, in NAME.json of the run directory: written beside the
//! old one and renamed.
//!
//! A file and not a socket: who reads it cannot keep `dsmd` busy, and the process that is
//! root has nobody to answer.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::device::{DeviceView, State};
use crate::envelope;
use runtime::{own, time, whole};

const SUFFIX: &str = ".json";
/// How often it is written though nothing has changed, and the drive is looked at.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// `dsmd` ended, or is stuck, when it is older.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(30);
/// A longer file is none of `dsmd`'s.
const LONGEST: u64 = 16 << 20;

/// What was published of all devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The newest of it.
    pub at: Moment,
    /// Counts the intervals, up to that.
    pub number: u64,
    pub used: Used,
    pub devices: Vec<DeviceView>,
}

/// What all `dsmd` have used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Seconds of processors.
    pub cpu: f64,
    /// Bytes in memory.
    pub memory: u64,
}

/// An instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since 1970, which may jump.
    pub wall: f64,
    /// Which does not, and is the same for all processes of a machine.
    pub monotonic: Duration,
}

impl Moment {
    pub fn now() -> Self {
        let monotonic = Duration::try_from(clock_gettime(ClockId::Monotonic));
        Self {
            wall: time::now().as_secs_f64(),
            monotonic: monotonic.unwrap_or_default(),
        }
    }
}

/// There is nothing to show.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no dsmd runs: there is no file of one in {}", .0.display())]
pub struct Unavailable(pub PathBuf);

fn path_of(dir: &Path, device: &str) -> PathBuf {
    dir.join(format!("{device}{SUFFIX}"))
}

/// What was published last of a device, however old it is; `Err`: it is not understood.
pub fn read(dir: &Path, device: &str) -> Option<Result<DeviceView, String>> {
    let path = path_of(dir, device);
    let strange = |why: String| Some(Err(format!("{} {why}", path.display())));
    let text = match contents(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        Err(e) => return strange(format!("cannot be read: {e}")),
    };
    match envelope::open::<DeviceView>(&text) {
        Ok(view) if view.name == device => Some(Ok(view)),
        Ok(_) => strange("is not understood: it is another device's".into()),
        Err(e) => strange(e.to_string()),
    }
}

/// Publishes what is known of a device.
pub fn publish(dir: &Path, sample: &DeviceView) -> io::Result<()> {
    own::folder(dir, 0o755)?;
    // For dsm-exporter: it is what its port says to every user.
    let text = envelope::first_line(sample);
    whole::write(&path_of(dir, &sample.name), 0o644, text.as_bytes())
}

/// Of a device that is no more.
pub fn remove(dir: &Path, device: &str) {
    let _ = fs::remove_file(path_of(dir, device));
}

impl DeviceView {
    /// Nobody looks at the device any more.
    pub fn end(&mut self, state: State, reason: Option<String>) {
        let since = self.at.wall;
        (self.kernel, self.agent, self.over) = (None, None, true);
        self.unseen = Some("no dsmd looks at it".into());
        if let Some(reason) = reason {
            let service = self.service.get_or_insert_default();
            service.set(state, Some(reason.into()));
            service.since = since;
        }
    }

    pub fn age(&self, now: Moment) -> Duration {
        now.monotonic.saturating_sub(self.at.monotonic)
    }

    /// What it still says.
    fn checked(mut self, now: Moment) -> Self {
        let age = self.age(now);
        // It is from before the machine was started.
        if self.at.monotonic > now.monotonic {
            self.end(
                State::Ended,
                Some("what dsmd published is of another time".into()),
            );
        } else if self.state() == Some(State::Ended) {
            self.end(State::Ended, None);
        } else if age > MAX_AGE {
            let age = age.as_secs();
            let why = format!("dsmd has ended, or is stuck: it published this {age} s ago");
            self.end(State::Stuck, Some(why));
        }
        self
    }
}

impl Snapshot {
    /// What is published now in `dir`.
    pub fn current(dir: &Path) -> Result<Self, Unavailable> {
        Self::at(dir, Moment::now())
    }

    fn at(dir: &Path, now: Moment) -> Result<Self, Unavailable> {
        let files = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<String> = files
            .filter_map(|f| Some(f.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned()))
            .collect();
        names.sort_unstable();
        let sample = |name: &String| {
            Some(read(dir, name)?.map_or_else(
                |why| {
                    let mut strange = DeviceView {
                        name: name.clone(),
                        ..DeviceView::default()
                    };
                    strange.end(State::Ended, Some(why));
                    strange
                },
                |s| s.checked(now),
            ))
        };
        let devices: Vec<DeviceView> = names.iter().filter_map(sample).collect();
        Self::of(devices).ok_or_else(|| Unavailable(dir.to_owned()))
    }

    /// Nothing: of no device.
    pub fn of(devices: Vec<DeviceView>) -> Option<Self> {
        let newest = devices.iter().map(|d| d.at).max_by_key(|at| at.monotonic)?;
        let running = || {
            devices
                .iter()
                .filter(|d| !d.over)
                .filter_map(|d| d.service.as_ref())
        };
        Some(Self {
            at: newest,
            number: newest.monotonic.as_secs() / INTERVAL.as_secs(),
            used: Used {
                cpu: running().map(|s| s.cpu).sum(),
                memory: running().map(|s| s.memory).sum(),
            },
            devices,
        })
    }
}

fn contents(path: &Path) -> io::Result<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{self, Server};
    use crate::device::{Kernel, Service};
    use crate::drive::{Counters, Media, Source};
    use std::os::unix::fs::PermissionsExt;
    use testing::kernel::STATUS;

    fn snapshot() -> Snapshot {
        let status = format!("{STATUS} stream 0 1 0 stream 3 10 6144");
        let table = "259:0 0 2 stream_base 1";
        let kernel = Kernel {
            uses: [(3, vec!["journal".to_owned()])].into(),
            media: Ok(Media {
                drive: "nvme0n1".into(),
                counters: Counters {
                    source: Source::Fdp,
                    host: u128::MAX,
                    media: 1 << 70,
                    erased: Some(0),
                    unit: 1,
                },
            }),
            last_checkpoint: Some(1.5e9),
            ..Kernel::new(table.parse().unwrap(), status.parse().unwrap())
        };
        let silent = Kernel {
            media: Err("sda is no NVMe drive".into()),
            ..kernel.clone()
        };
        let view = |name: &str, kernel| DeviceView {
            name: name.into(),
            // A time of the wall may come back with another last digit.
            at: Moment {
                wall: 1.5e9,
                ..Moment::now()
            },
            kernel,
            service: Some(Service::default()),
            ..DeviceView::default()
        };
        let devices = vec![view("a", Some(kernel)), view("b", Some(silent)), view("c", None)];
        Snapshot::of(devices).unwrap()
    }

    fn published(dir: &Path, s: &Snapshot) {
        s.devices.iter().for_each(|d| publish(dir, d).unwrap());
    }

    #[test]
    fn what_is_published_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            Snapshot::current(dir.path()).unwrap_err().to_string(),
            format!(
                "no dsmd runs: there is no file of one in {}",
                dir.path().display()
            )
        );
        let s = snapshot();
        published(dir.path(), &s);
        assert_eq!(Snapshot::current(dir.path()).unwrap(), s);
        let mode = fs::metadata(path_of(dir.path(), "a"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
        for device in ["a", "b", "c"] {
            remove(dir.path(), device);
        }
        assert!(Snapshot::current(dir.path()).is_err());
    }

    /// Of what is in the directory nothing is another device's.
    #[test]
    fn a_device_may_have_any_name() {
        let dir = tempfile::tempdir().unwrap();
        for device in ["a", "a.json", "a.lock", "a.sock", "hold", "snapshot"] {
            let sample = DeviceView {
                name: device.into(),
                at: Moment::now(),
                ..DeviceView::default()
            };
            publish(dir.path(), &sample).unwrap();
            let lock = control::lock(dir.path(), device).unwrap();
            std::mem::forget(Server::start(lock, dir.path(), device, || {}).unwrap());
        }
        let names = Snapshot::current(dir.path()).unwrap().devices;
        let names: Vec<_> = names.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["a", "a.json", "a.lock", "a.sock", "hold", "snapshot"]);
    }

    #[test]
    fn one_that_is_old_or_of_another_time_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let mut s = snapshot();
        s.devices[1].service.as_mut().unwrap().set(State::Ended, None);
        published(dir.path(), &s);
        let at = |wait: Duration| {
            let monotonic = s.devices[2].at.monotonic + wait;
            let now = Moment { wall: 0.0, monotonic };
            let devices = Snapshot::at(dir.path(), now).unwrap().devices;
            devices.into_iter().map(|d| {
                let service = d.service.unwrap();
                (service.state, service.reason, d.kernel.is_some())
            })
        };
        let states = |wait| at(wait).map(|d| (d.0, d.2)).collect::<Vec<_>>();
        let (starting, ended) = (State::Starting, State::Ended);
        assert_eq!(
            states(Duration::ZERO),
            [(starting, true), (ended, false), (starting, false)]
        );
        assert_eq!(states(Duration::from_secs(29))[0], (starting, true));
        let (state, why, kernel) = at(Duration::from_secs(31)).next().unwrap();
        assert_eq!((state, kernel), (State::Stuck, false));
        let why = why.unwrap().to_string();
        assert!(
            why.starts_with("dsmd has ended, or is stuck: it published this 3"),
            "{why}"
        );
        assert_eq!(
            states(Duration::from_secs(31))[1],
            (ended, false),
            "it has said so"
        );
        let before = Moment {
            wall: 0.0,
            monotonic: Duration::ZERO,
        };
        let found = &Snapshot::at(dir.path(), before).unwrap().devices[0];
        assert_eq!(
            found.service.as_ref().unwrap().reason,
            Some("what dsmd published is of another time".into())
        );
    }

    #[test]
    fn what_is_not_understood() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_of(dir.path(), "a");
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            read(dir.path(), "a").unwrap().unwrap_err()
        };
        let shown = path.display();
        assert_eq!(
            said("{\"protocol\":2,\"device\":7}"),
            format!(
                "{shown} speaks protocol 2, and 1 is understood: are all programs of dm-dsm of one version?"
            )
        );
        for text in ["", "[]", "{\"protocol\":1}", "{\"protocol\":-1}"] {
            assert!(
                said(text).starts_with(&format!("{shown} is not understood: ")),
                "{text}"
            );
        }
        let found = Snapshot::current(dir.path()).unwrap();
        assert_eq!(
            found.devices[0].state().unwrap(),
            State::Ended,
            "and takes no other along"
        );
        // A sparse file of that length.
        File::create(&path).unwrap().set_len(LONGEST + 2).unwrap();
        let long = read(dir.path(), "a").unwrap().unwrap_err();
        assert!(long.ends_with("it is longer than 16777216 bytes"), "{long}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(read(dir.path(), "a")
            .unwrap()
            .unwrap_err()
            .ends_with("it is no file"));
    }
}

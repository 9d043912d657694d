// SPDX-License-Identifier: GPL-2.0-or-later
//! What `dsmd` publishes for `dsm-exporter`: a file in its run directory, written beside the
//! old one and renamed.
//!
//! A file and not a socket: who reads it cannot keep `dsmd` busy, and the process that is
//! root has nobody to answer.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags};
use rustix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::device::DeviceView;
use crate::envelope::{self, Strange};
use runtime::{own, whole};

const NAME: &str = "snapshot.json";
/// How often it is written though nothing has changed, and the drive is looked at.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// `dsmd` ended, or is stuck, when it is older.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(30);
/// A longer file is none of `dsmd`'s.
const LONGEST: u64 = 16 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Of `dsmd`.
    pub version: String,
    pub pid: u32,
    pub at: Moment,
    /// Counts the intervals; what is published in between has the number of the last.
    pub number: u64,
    pub used: Used,
    pub devices: Vec<DeviceView>,
}

/// What `dsmd` has used, in all its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
        let now = clock_gettime(ClockId::Monotonic);
        Self {
            wall: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
            monotonic: Duration::new(
                now.tv_sec.try_into().unwrap_or_default(),
                now.tv_nsec.try_into().unwrap_or_default(),
            ),
        }
    }
}

/// Why there is nothing to show.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unavailable {
    #[error("dsmd does not run: there is no {}", .0.display())]
    Absent(PathBuf),
    #[error("dsmd has ended, or is stuck: {} is {} s old", .path.display(), .age.as_secs())]
    Old { path: PathBuf, age: Duration },
    #[error("{} {why}", .path.display())]
    Strange { path: PathBuf, why: String },
}

fn path_in(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

impl Snapshot {
    /// What was published last in `dir`, however old it is.
    pub fn read(dir: &Path) -> Result<Self, Unavailable> {
        let path = path_in(dir);
        let text = match contents(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Unavailable::Absent(path)),
            Err(e) => {
                let why = format!("cannot be read: {e}");
                return Err(Unavailable::Strange { path, why });
            }
        };
        envelope::open(&text).map_err(|e: Strange| Unavailable::Strange {
            path,
            why: e.to_string(),
        })
    }

    /// What is published now in `dir`.
    pub fn current(dir: &Path) -> Result<Self, Unavailable> {
        let snapshot = Self::read(dir)?;
        snapshot.check(dir, Moment::now())?;
        Ok(snapshot)
    }

    pub fn age(&self, now: Moment) -> Duration {
        now.monotonic.saturating_sub(self.at.monotonic)
    }

    /// Whether it still says what is.
    pub fn check(&self, dir: &Path, now: Moment) -> Result<(), Unavailable> {
        let path = path_in(dir);
        // It is from before the machine was started.
        if self.at.monotonic > now.monotonic {
            let why = "is not understood: its time has not come yet".to_owned();
            return Err(Unavailable::Strange { path, why });
        }
        match self.age(now) {
            age if age > MAX_AGE => Err(Unavailable::Old { path, age }),
            _ => Ok(()),
        }
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

/// Where one `dsmd` publishes.
pub struct PublishDir {
    dir: PathBuf,
    /// Held as long as it does.
    _lock: File,
}

impl PublishDir {
    /// Nothing: another `dsmd` publishes there.
    pub fn take(dir: &Path) -> io::Result<Option<Self>> {
        own::folder(dir, 0o755)?;
        let lock = own::file(&dir.join("snapshot.lock"))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self {
                dir: dir.to_owned(),
                _lock: lock,
            })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub fn publish(&self, snapshot: &Snapshot) -> io::Result<()> {
        // For dsm-exporter: it is what its port says to every user.
        whole::write(
            &path_in(&self.dir),
            0o644,
            envelope::first_line(snapshot).as_bytes(),
        )
    }
}

impl Drop for PublishDir {
    fn drop(&mut self) {
        let _ = fs::remove_file(path_in(&self.dir));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Server;
    use crate::device::Kernel;
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
            kernel,
            ..DeviceView::default()
        };
        Snapshot {
            version: "0.1.0".into(),
            pid: 7,
            // A time of the wall may come back with another last digit.
            at: Moment {
                wall: 1.5e9,
                ..Moment::now()
            },
            number: 3,
            used: Used::default(),
            devices: vec![view("a", Some(kernel)), view("b", Some(silent)), view("c", None)],
        }
    }

    #[test]
    fn what_is_published_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            Snapshot::read(dir.path()).unwrap_err().to_string(),
            format!(
                "dsmd does not run: there is no {}/snapshot.json",
                dir.path().display()
            )
        );
        let place = PublishDir::take(dir.path()).unwrap().unwrap();
        let mut s = snapshot();
        for n in 0..3 {
            s.number = n;
            place.publish(&s).unwrap();
            assert_eq!(Snapshot::read(dir.path()).unwrap(), s);
        }
        let mode = fs::metadata(path_in(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert!(PublishDir::take(dir.path()).unwrap().is_none(), "one at a time");
        drop(place);
        assert!(matches!(Snapshot::read(dir.path()), Err(Unavailable::Absent(_))));
        assert!(PublishDir::take(dir.path()).unwrap().is_some());
    }

    /// Of what is in the directory nothing has a device's name.
    #[test]
    fn a_device_may_have_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let place = PublishDir::take(dir.path()).unwrap().unwrap();
        for name in ["snapshot", "control", "snapshot.json"] {
            drop(Server::start(dir.path(), name, || {}).unwrap());
        }
        let s = snapshot();
        place.publish(&s).unwrap();
        assert_eq!(Snapshot::read(dir.path()).unwrap(), s);
    }

    #[test]
    fn one_that_is_old_or_of_another_time_says_so() {
        let (s, dir) = (snapshot(), Path::new("/run/x"));
        let at = |seconds: u64| Moment {
            wall: 0.0,
            monotonic: s.at.monotonic + Duration::from_secs(seconds),
        };
        assert_eq!(s.check(dir, at(0)), Ok(()));
        assert_eq!(s.check(dir, at(30)), Ok(()));
        assert_eq!(
            s.check(dir, at(31)).unwrap_err().to_string(),
            "dsmd has ended, or is stuck: /run/x/snapshot.json is 31 s old"
        );
        let before = Moment {
            wall: 0.0,
            monotonic: s.at.monotonic - Duration::from_nanos(1),
        };
        assert_eq!(
            s.check(dir, before).unwrap_err().to_string(),
            "/run/x/snapshot.json is not understood: its time has not come yet"
        );
    }

    #[test]
    fn what_is_not_understood() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_in(dir.path());
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            Snapshot::read(dir.path()).unwrap_err().to_string()
        };
        let shown = path.display();
        assert_eq!(
            said("{\"protocol\":2,\"devices\":7}"),
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
        // A sparse file of that length.
        File::create(&path).unwrap().set_len(LONGEST + 2).unwrap();
        let long = Snapshot::read(dir.path()).unwrap_err().to_string();
        assert!(long.ends_with("it is longer than 16777216 bytes"), "{long}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(Snapshot::read(dir.path())
            .unwrap_err()
            .to_string()
            .ends_with("it is no file"));
    }
}

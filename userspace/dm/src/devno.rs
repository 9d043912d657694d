// SPDX-License-Identifier: GPL-2.0-or-later
//! Device numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DevNo {
    pub major: u32,
    pub minor: u32,
}

impl DevNo {
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// From a `st_dev` or `st_rdev`.
    pub fn from_stat(dev: u64) -> Self {
        Self::new(rustix::fs::major(dev), rustix::fs::minor(dev))
    }

    pub(crate) fn to_stat(self) -> u64 {
        rustix::fs::makedev(self.major, self.minor)
    }

    /// The kernel's "huge" encoding, which `struct dm_ioctl` carries.
    pub(crate) fn huge(self) -> u64 {
        let (major, minor) = (u64::from(self.major), u64::from(self.minor));
        (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
    }

    pub(crate) fn from_huge(dev: u64) -> Self {
        Self::new(
            ((dev >> 8) & 0xfff) as u32,
            ((dev & 0xff) | ((dev >> 12) & 0xf_ff00)) as u32,
        )
    }
}

impl fmt::Display for DevNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl From<DevNo> for String {
    fn from(dev: DevNo) -> Self {
        dev.to_string()
    }
}

impl TryFrom<String> for DevNo {
    type Error = &'static str;

    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse().map_err(|()| "a device number is needed, such as 259:0")
    }
}

impl FromStr for DevNo {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        let (major, minor) = s.trim().split_once(':').ok_or(())?;
        Ok(Self::new(
            major.parse().map_err(|_| ())?,
            minor.parse().map_err(|_| ())?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_numbers_go_there_and_back() {
        for dev in [DevNo::new(8, 1), DevNo::new(253, 0), DevNo::new(259, 70000)] {
            assert_eq!(DevNo::from_huge(dev.huge()), dev);
            assert_eq!(DevNo::from_stat(dev.to_stat()), dev);
        }
        assert_eq!(DevNo::new(253, 256).huge(), 0x10_fd00);
        assert_eq!("253:7".parse(), Ok(DevNo::new(253, 7)));
        assert_eq!("253".parse::<DevNo>(), Err(()));
    }
}

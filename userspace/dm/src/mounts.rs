// SPDX-License-Identifier: GPL-2.0-or-later
//! The mounts of this process, `/proc/self/mountinfo`: see proc_pid_mountinfo(5).
//!
//! By hand, since a crate for all of /proc is a dozen others for one line's fields.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::devno::DevNo;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub id: u64,
    pub dev: DevNo,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    pub point: PathBuf,
    /// The file system's type.
    pub kind: String,
    /// The file system's own options, not those of the mount.
    pub options: String,
}

pub fn all() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// Where the file system of a device is mounted.
pub fn point_of(dev: DevNo) -> Option<PathBuf> {
    let mounts = all().ok()?;
    mounts.into_iter().find(|m| m.dev == dev).map(|m| m.point)
}

/// Lines that are not understood are skipped.
pub fn parse(mountinfo: &[u8]) -> Vec<Mount> {
    mountinfo.split(|&b| b == b'\n').filter_map(mount).collect()
}

/// `id parent dev root point options [optional fields] - type source options`
fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let [id, _, dev, root, point, ..] = fields.as_slice() else {
        return None;
    };
    let end = fields.iter().position(|f| *f == b"-")?;
    let [kind, _, options, ..] = fields.get(end + 1..)? else {
        return None;
    };
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Some(Mount {
        id: text(id).parse().ok()?,
        dev: text(dev).parse().ok()?,
        root: path(root),
        point: path(point),
        kind: text(kind),
        options: text(options),
    })
}

/// The kernel writes a blank, a tab, a line feed, a backslash and a `#` as a backslash and
/// three octal digits.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\');
        let escaped = octal.and_then(|o| u8::from_str_radix(std::str::from_utf8(o).ok()?, 8).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn points_are_as_they_were_given() {
        let mounts = parse(
            b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
              rubbish\n\
              40 27 253:0 / /mnt/a\\040b\\011c\\012d\\134040\\043 rw shared:5 master:1 - xfs /dev/mapper/d rw,attr2\n\
              41 27 253:0 /x\\040y /\xff\\0 ro - ext4 /dev/mapper/a\\040b rw\n\
              42 27 253:1 / /cut rw - ext4\n",
        );
        let shown: Vec<_> = mounts.iter().map(|m| (m.id, m.point.as_path())).collect();
        let odd: PathBuf = OsString::from_vec(b"/\xff\\0".to_vec()).into();
        assert_eq!(
            shown,
            [
                (22, "/proc".as_ref()),
                (40, "/mnt/a b\tc\nd\\040#".as_ref()),
                (41, odd.as_path())
            ]
        );
        assert_eq!(mounts[1].dev, "253:0".parse().unwrap());
        assert_eq!(
            (mounts[1].kind.as_str(), mounts[1].options.as_str()),
            ("xfs", "rw,attr2")
        );
        assert_eq!(
            (mounts[2].root.as_path(), mounts[2].kind.as_str()),
            ("/x y".as_ref(), "ext4")
        );
    }

    #[test]
    fn this_process_has_a_root() {
        assert!(all().unwrap().iter().any(|m| m.point == Path::new("/")));
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of systemd's units, as systemd-escape(1) makes them.
//!
//! By hand: libsystemd does not export it.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::node;

/// Of a unit's name, with what it is.
pub const LONGEST: usize = 255;

/// The unit of a node in /dev.
pub fn device(path: &Path) -> String {
    format!("{}.device", escape_path(path))
}

/// Of a dsm device: a file system on it is mounted after this, and unmounted before it.
pub fn target(name: &str) -> String {
    format!("blockdev@{}.target", escape_path(&node::path(name)))
}

/// A path, as it names mounts and devices.
pub fn escape_path(path: &Path) -> String {
    let parts: Vec<&[u8]> = path
        .as_os_str()
        .as_bytes()
        .split(|&b| b == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .collect();
    if parts.is_empty() {
        return "-".to_owned();
    }
    escape_bytes(&parts.join(&b'/'))
}

fn escape_bytes(bytes: &[u8]) -> String {
    let mut name = String::new();
    for (n, &b) in bytes.iter().enumerate() {
        match b {
            b'/' => name.push('-'),
            b'.' if n == 0 => name.push_str("\\x2e"),
            b if b.is_ascii_alphanumeric() || b":_.".contains(&b) => name.push(b.into()),
            b => write!(name, "\\x{b:02x}").expect("strings grow"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What systemd-escape of systemd 257 prints.
    #[test]
    fn as_systemd_escape() {
        for (path, name) in [
            ("/dsm", "dsm"),
            ("/my-db", r"my\x2ddb"),
            ("/.a b", r"\x2ea\x20b"),
            ("/a:b_c.d@e", r"a:b_c.d\x40e"),
            ("/ä", r"\xc3\xa4"),
            ("/dev/nvme0n1", "dev-nvme0n1"),
            ("/dev/disk/by-id/nvme-X_1", r"dev-disk-by\x2did-nvme\x2dX_1"),
            ("//dev/./x/", "dev-x"),
            ("/", "-"),
        ] {
            assert_eq!(escape_path(Path::new(path)), name);
        }
    }

    /// Of those that systemd makes of a device's name, this is the longest.
    #[test]
    fn every_name_fits() {
        let name = format!("{}{}", "a".repeat(31), "-".repeat(49));
        assert!(crate::name::check(&name).is_ok() && crate::name::check(&format!("{name}-")).is_err());
        assert_eq!(target(&name).len(), LONGEST - 1);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel said since a moment: device-mapper gives a refused table's
//! reason to the kernel log only.
//!
//! By hand: readers of the kernel log are whole loggers, and this is one loop.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

pub(crate) struct Since(Option<File>);

impl Since {
    /// Starts to listen.  Without /dev/kmsg nothing will have been said.
    pub(crate) fn now() -> Self {
        let open = || {
            let mut f = File::options()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open("/dev/kmsg")
                .ok()?;
            f.seek(SeekFrom::End(0)).ok()?;
            Some(f)
        };
        Self(open())
    }

    /// The texts of the records since then.
    fn texts(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        let Some(f) = &mut self.0 else { return texts };
        // A read returns one record, up to 8 KiB.
        let mut buf = vec![0u8; 8192];
        for _ in 0..1000 {
            match f.read(&mut buf) {
                Ok(n) => texts.extend(text(&String::from_utf8_lossy(&buf[..n]))),
                // Records were overwritten meanwhile; the next read goes on.
                Err(e) if e.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => break,
            }
        }
        texts
    }

    /// Why the target `dsm`, or device-mapper, refused.
    pub(crate) fn refusals(&mut self) -> Vec<String> {
        let mut found: Vec<String> = self.texts().iter().filter_map(|t| refusal(t)).collect();
        found.dedup();
        found
    }
}

/// `<prio>,<seq>,<usec>,<flags>[,...];<text>\n[ <key>=<value>\n]...`
fn text(record: &str) -> Option<String> {
    let (_, text) = record.split_once(';')?;
    Some(text.lines().next().unwrap_or_default().to_owned())
}

/// `device-mapper: table: 253:0: dsm: <reason> (-EINVAL)` and its kin.
fn refusal(text: &str) -> Option<String> {
    let rest = text.strip_prefix("device-mapper: ")?;
    let reason = match rest.strip_prefix("table: ") {
        Some(of_table) => match of_table.split_once(": ") {
            Some((_, s)) => s.strip_prefix("dsm: ").unwrap_or(s),
            None => of_table,
        },
        None => rest.strip_prefix("dsm: ")?,
    };
    let reason = match reason.rfind(" (-E") {
        Some(at) if reason.ends_with(')') => &reason[..at],
        _ => reason,
    };
    // What dm core adds after a target's own reason says nothing more.
    if reason.is_empty() || reason == "Error adding target to table" {
        return None;
    }
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_reason_is_found() {
        let record = "3,1201,5140900,-;device-mapper: table: 253:0: dsm: groups 17: a number from 2 to 16 (-EINVAL)\n SUBSYSTEM=x\n";
        assert_eq!(
            refusal(&text(record).unwrap()).unwrap(),
            "groups 17: a number from 2 to 16"
        );
        assert_eq!(
            refusal("device-mapper: table: 253:0: dsm: unknown target type (-EINVAL)").unwrap(),
            "unknown target type"
        );
        assert_eq!(
            refusal("device-mapper: dsm: file 7: no such class").unwrap(),
            "file 7: no such class"
        );
        assert_eq!(
            refusal("device-mapper: ioctl: error adding target to table"),
            None
        );
        assert_eq!(refusal("usb 1-1: new device"), None);
    }
}

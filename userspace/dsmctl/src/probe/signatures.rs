// SPDX-License-Identifier: GPL-2.0-or-later
//! What a device has on it, before it is overwritten.

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};

use runtime::text::printable;

/// Refuses a device with a signature that blkid knows, and asks on a terminal.
pub(super) fn check(path: &Path) -> Result<()> {
    let shown = path.display();
    let found = signatures(path).with_context(|| {
        format!("{shown}: what is on it cannot be told (--force does without); nothing was written to it")
    })?;
    ensure!(
        found.is_empty(),
        "{shown}: there is {} on it; --force overwrites it; nothing was written to it",
        found.join(", ")
    );
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        eprint!(
            "dsmctl: {shown}: blkid knows nothing that is on it. ALL DATA on it is lost. Type yes to go on: "
        );
        ensure!(
            is_yes(&mut io::stdin().lock())?,
            "{shown}: nothing was written to it"
        );
    }
    Ok(())
}

fn is_yes(answer: &mut impl BufRead) -> io::Result<bool> {
    let mut line = String::new();
    answer.read_line(&mut line)?;
    Ok(line.trim() == "yes")
}

/// File systems, volumes, swap and tables of partitions.
fn signatures(path: &Path) -> Result<Vec<String>> {
    let mut command = Command::new("blkid");
    command.args(["-p", "-o", "export", "--"]).arg(path);
    let answer = command.output().context("cannot run blkid")?;
    let said = String::from_utf8_lossy(&answer.stdout);
    // A partition's own place in the table is no signature.
    let of = |line: &str| match line.split_once('=')? {
        ("TYPE", kind) => Some(printable(kind)),
        ("PTTYPE", kind) => Some(format!("a partition table ({})", printable(kind))),
        _ => None,
    };
    let found: Vec<String> = said.lines().filter_map(of).collect();
    match answer.status.code() {
        Some(0) => Ok(found),
        // Nothing was found.
        Some(2) if answer.stderr.is_empty() => Ok(found),
        // "ambivalent result"
        Some(8) => Ok(vec!["more than one signature".into()]),
        _ => bail!(
            "blkid: {}",
            printable(String::from_utf8_lossy(&answer.stderr).trim())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// The answer's text, of a file of 1 MiB with that in it.
    fn checked(parts: &[(u64, &[u8])]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        for (at, bytes) in parts {
            file.as_file().write_all_at(bytes, *at).unwrap();
        }
        match signatures(file.path()) {
            Ok(found) => found.join(", "),
            Err(e) => format!("{e:#}"),
        }
    }

    #[test]
    fn what_is_on_a_device() {
        assert_eq!(checked(&[]), "");
        let swap: [(u64, &[u8]); 2] = [(1024, &[1, 0, 0, 0, 255, 0, 0, 0]), (4086, b"SWAPSPACE2")];
        assert_eq!(checked(&swap), "swap");
        let table: [(u64, &[u8]); 2] = [
            (446, &[0, 0, 2, 0, 0x83, 0, 2, 0, 1, 0, 0, 0, 100, 0, 0, 0]),
            (510, &[0x55, 0xaa]),
        ];
        assert_eq!(checked(&table), "a partition table (dos)");
        let both = [swap.as_slice(), &[(32769, b"CD001"), (32774, &[1])]].concat();
        let found = checked(&both);
        assert!(
            ["swap", "more than one signature"].contains(&found.as_str()),
            "{found}"
        );
    }

    #[test]
    fn nothing_but_yes_goes_on() {
        for (answer, so) in [("yes\n", true), ("y\n", false), ("\n", false), ("", false)] {
            assert_eq!(is_yes(&mut answer.as_bytes()).unwrap(), so, "{answer:?}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Traces that other programs write: fio's iologs (versions 2 and 3) and the text
//! of blkparse.
//!
//! In an iolog, files are those that it names.  blkparse knows sectors only, so
//! that a device is one file of class `other`: policies that look at files have
//! nothing to go by.  Neither has checkpoints.

use std::collections::BTreeSet;
use std::io::BufRead;

use anyhow::{bail, ensure, Context, Result};

use super::{Builder, Trace};

const SECTOR: u64 = 512;

pub(crate) const FIO: &str = "fio version ";

/// An iolog.  Version 2 has no times but `wait`, in microseconds; version 3 has
/// microseconds in front of each line, by what fio 3.39 writes: its manual calls them
/// milliseconds.
pub fn fio(memory: u64, input: impl BufRead) -> Result<Trace> {
    let mut builder = Builder::within(memory);
    let (mut us, mut lines) = (0, input.lines());
    let first = lines.next().transpose()?;
    let timed = first.is_some_and(|line| line.starts_with("fio version 3"));
    for (n, line) in (2..).zip(lines) {
        fio_line(&mut builder, &line?, timed, &mut us).with_context(|| format!("line {n}"))?;
    }
    Ok(builder.finish())
}

fn fio_line(builder: &mut Builder, line: &str, timed: bool, us: &mut u64) -> Result<()> {
    let wrong = || {
        let shown: String = line.chars().take(60).collect();
        format!("'{shown}' is not what fio writes: [<us>] <file> <action> [<offset> <length>]")
    };
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let number = |s: &str| s.parse::<u64>().ok().with_context(wrong);
    if timed && !words.is_empty() {
        *us = number(words.remove(0))?;
    }
    match words.as_slice() {
        [file, "write", offset, length] => builder.write(*us, file, number(offset)?, number(length)?)?,
        [file, "trim", offset, length] => builder.discard(*us, file, number(offset)?, number(length)?)?,
        ["wait", time] | [_, "wait", time] | [_, "wait", time, _] => *us = us.saturating_add(number(time)?),
        // All of fio's that move nothing.
        [_, "read" | "sync" | "datasync" | "sync_file_range" | "syncfs", ..]
        | [_, "add" | "open" | "close" | "unlink"]
        | [] => {}
        _ => bail!(wrong()),
    }
    Ok(())
}

/// Whether a line looks as blkparse's do: `8,0 1 1 0.000000000 697 Q W 223490 + 8 [name]`.
pub(crate) fn is_blkparse(line: &str) -> bool {
    parse(line).is_some()
}

struct BlkparseLine<'a> {
    device: &'a str,
    us: u64,
    action: &'a str,
    kind: &'a str,
    /// Sector and sectors.
    range: Option<(u64, u64)>,
    /// Of which device it is a part: `... A W 128 + 8 <- (9,0) 64`.
    above: Option<&'a str>,
}

fn parse(line: &str) -> Option<BlkparseLine<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [device, _cpu, _sequence, time, _pid, action, kind, rest @ ..] = words.as_slice() else {
        return None;
    };
    device.split_once(',')?;
    let (seconds, nanoseconds) = time.split_once('.')?;
    let us =
        seconds.parse::<u64>().ok()?.checked_mul(1_000_000)? + nanoseconds.get(..6)?.parse::<u64>().ok()?;
    let range = match rest {
        [sector, "+", sectors, ..] => Some((sector.parse().ok()?, sectors.parse().ok()?)),
        _ => None,
    };
    let above = line
        .split_once(" <- (")
        .and_then(|(_, from)| from.split_once(')'));
    Some(BlkparseLine {
        device,
        us,
        action,
        kind,
        range,
        above: above.map(|(above, _)| above),
    })
}

/// What blkparse prints.  Its summary at the end, and all but writes and discards
/// that were queued, are skipped.
pub(crate) fn blkparse(memory: u64, input: impl BufRead) -> Result<Trace> {
    let mut events: Vec<(u64, String, bool, u64, u64, usize)> = Vec::new();
    let mut remaps: BTreeSet<(String, String)> = BTreeSet::new();
    for (n, line) in input.lines().enumerate() {
        let line = line?;
        let Some(l) = parse(&line) else { continue };
        match (l.action, l.above, l.range) {
            ("A", Some(above), _) => {
                remaps.insert((l.device.to_owned(), above.to_owned()));
            }
            ("Q", _, Some((sector, sectors))) if sectors > 0 && l.kind.contains(['W', 'D']) => {
                let discard = l.kind.contains('D');
                events.push((l.us, l.device.to_owned(), discard, sector, sectors, n + 1));
            }
            _ => {}
        }
    }
    ensure!(
        !events.is_empty(),
        "there is no write in it that blkparse calls queued (Q)"
    );
    let is_there = |device: &String| events.iter().any(|e| e.1 == *device);
    if let Some((below, above)) = remaps
        .into_iter()
        .find(|(below, above)| is_there(below) && is_there(above))
    {
        bail!("the device {above} is made of {below}, and what is written to it is there twice: trace one of them");
    }
    // Those of several processors are not quite in order.
    events.sort_by_key(|e| e.0);
    let mut builder = Builder::within(memory);
    for (us, device, discard, sector, sectors, line) in &events {
        let range = (sector.saturating_mul(SECTOR), sectors.saturating_mul(SECTOR));
        let done = if *discard {
            builder.discard(*us, device, range.0, range.1)
        } else {
            builder.write(*us, device, range.0, range.1)
        };
        done.with_context(|| format!("line {line}"))?;
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, What};

    #[test]
    fn iologs() {
        let text =
            "fio version 2 iolog\n/d/a add\n/d/a open\n/d/a write 0 4096\n/d/a wait 50\n/d/a read 0 4096\n/d/a sync_file_range 0 4096\n/d/a syncfs 0 0\n\
                    /d/a trim 0 4096\n/d/a close\n";
        let t = fio(u64::MAX, text.as_bytes()).unwrap();
        assert_eq!(t.names, ["/d/a"]);
        assert_eq!(
            t.events().nth(1).unwrap().what,
            What::Write {
                file: 0,
                offset: 0,
                length: 4096
            }
        );
        assert_eq!(
            t.events().nth(2).unwrap(),
            Event {
                us: 50,
                what: What::Discard {
                    file: 0,
                    offset: 0,
                    length: 4096
                }
            }
        );
        let t = fio(
            u64::MAX,
            "fio version 3 iolog\n12 /d/a write 8192 512\n".as_bytes(),
        )
        .unwrap();
        assert_eq!(t.events().nth(1).unwrap().us, 12);
        // As fio 3.39 writes them, at 100 writes a second
        let text = "fio version 3 iolog\n52 f add\n689 f open\n695 f write 8192000 4096\n\
                    11629 f write 7262208 4096\n3990196 f write 1753088 4096\n3990256 f close\n";
        let t = fio(u64::MAX, text.as_bytes()).unwrap();
        let times: Vec<u64> = t.events().skip(1).map(|e| e.us).collect();
        assert_eq!(times, [695, 11_629, 3_990_196]);
        for line in ["/d/a boil", "/d/a write 0", "/d/a write x 1"] {
            let e = fio(u64::MAX, format!("fio version 2 iolog\n{line}\n").as_bytes()).unwrap_err();
            assert!(
                format!("{e:#}").starts_with(&format!("line 2: '{line}' is not what fio writes")),
                "{e}"
            );
        }
    }

    #[test]
    fn blkparse_text() {
        let text = "  8,0    1        2     0.000002500   697  Q  WS 64 + 8 [kjournald]\n\
                    \x20 8,0    0        1     0.000001000   697  Q   W 128 + 16 [x]\n\
                    \x20 8,0    1        3     0.000002000   697  D   W 64 + 8 [x]\n\
                    \x20 8,0    1        4     0.000003000   697  Q   R 64 + 8 [x]\n\
                    \x20 8,0    1        5     0.000004000   697  Q   D 64 + 8 [x]\n\
                    \x20 8,0    1        6     0.000005000   697  Q FWS [x]\n\nCPU0 (8,0):\n Reads Queued:  1\n";
        assert!(is_blkparse(text.lines().next().unwrap()));
        let t = blkparse(u64::MAX, text.as_bytes()).unwrap();
        let whats: Vec<What> = t.events().skip(1).map(|e| e.what).collect();
        assert_eq!(
            whats,
            [
                What::Write {
                    file: 0,
                    offset: 65536,
                    length: 8192
                },
                What::Write {
                    file: 0,
                    offset: 32768,
                    length: 4096
                },
                What::Discard {
                    file: 0,
                    offset: 32768,
                    length: 4096
                },
            ]
        );
        let disk = "8,0 1 2 0.000002500 697 A W 64 + 8 <- (9,0) 0\n8,0 1 3 0.000002600 697 Q W 64 + 8 [x]\n";
        let array = "9,0 1 1 0.000002000 697 Q W 0 + 8 [x]\n";
        let said = blkparse(u64::MAX, (array.to_owned() + disk).as_bytes()).unwrap_err();
        assert_eq!(
            said.to_string(),
            "the device 9,0 is made of 8,0, and what is written to it is there twice: trace one of them"
        );
        assert!(blkparse(u64::MAX, disk.as_bytes()).is_ok(), "one of them");
        let said = blkparse(u64::MAX, "hello\n".as_bytes()).unwrap_err().to_string();
        assert!(said.starts_with("there is no write in it"), "{said}");
        assert!(!is_blkparse("hello"));
    }
}

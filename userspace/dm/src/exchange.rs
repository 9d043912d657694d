// SPDX-License-Identifier: GPL-2.0-or-later
//! One table in the place of another, while the device is in use.
//!
//! The tables are exchanged by one call (a resume with a table loaded): the kernel
//! freezes the file system, drains in-flight I/O, exchanges them and goes on.
//! So there is no moment at which the device is suspended and waits for a program that
//! may have been killed, or may wait for that very device.

use std::slice::from_ref;

use anyhow::{anyhow, bail, ensure, Context, Result};
use rustix::io::Errno;

use crate::devno::DevNo;
use crate::ioctl::{Dm, DmError, Id, Info, Line};
use crate::kmsg::Since;
use crate::reply::TableLine;
use runtime::wake::Signals;

/// What this needs of device-mapper.
pub trait Tables {
    fn table(&self, name: &str) -> Result<(Info, Vec<Line>), DmError>;
    /// A table that waits for the next resume.
    fn loaded(&self, name: &str) -> Result<Vec<Line>, DmError>;
    fn load(&self, name: &str, lines: &[Line]) -> Result<(), DmError>;
    fn clear(&self, name: &str) -> Result<(), DmError>;
    fn resume(&self, name: &str) -> Result<(), DmError>;
}

impl Tables for Dm {
    fn table(&self, name: &str) -> Result<(Info, Vec<Line>), DmError> {
        Self::table(self, Id::Name(name))
    }

    fn loaded(&self, name: &str) -> Result<Vec<Line>, DmError> {
        Self::loaded(self, Id::Name(name))
    }

    fn load(&self, name: &str, lines: &[Line]) -> Result<(), DmError> {
        Self::load(self, name, lines)
    }

    fn clear(&self, name: &str) -> Result<(), DmError> {
        Self::clear(self, name)
    }

    fn resume(&self, name: &str) -> Result<(), DmError> {
        Self::resume(self, name).map(|_| ())
    }
}

/// Signals that would end the process interrupt an exchange instead, which is undone
/// then; and no page of the process is read from a device that is suspended.
pub struct Guard {
    _signals: Signals,
}

impl Guard {
    pub fn new() -> Result<Self> {
        let signals = Signals::new()?;
        // SAFETY: mlockall has no pointers.  Where it is refused, a failed exchange may
        // have to be ended by `dmsetup resume`.
        unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
        Ok(Self { _signals: signals })
    }
}

/// The one line of a table that can be exchanged.
pub fn only_line<'a>(name: &str, info: &Info, lines: &'a [Line]) -> Result<&'a Line> {
    match free(name, info, lines)? {
        [line] => Ok(line),
        several => bail!(
            "{name}: the device's table has {} lines ({}), and dsm must be the only one; nothing was changed",
            several.len(),
            kinds(several)
        ),
    }
}

/// A table that can be exchanged: it is active, and nobody is about to change it.
pub fn free<'a>(name: &str, info: &Info, lines: &'a [Line]) -> Result<&'a [Line]> {
    let quiet = |free: bool, what: &str| -> Result<()> {
        ensure!(free, "{name}: {what}; nothing was changed");
        Ok(())
    };
    quiet(!info.suspended, "the device is suspended")?;
    ensure!(
        !info.inactive,
        "{name}: somebody has loaded another table for the device, which has not taken effect yet, and which `dmsetup clear {name}` takes away; nothing was changed"
    );
    quiet(
        !info.read_only,
        "the device is read-only, so that there is nothing to stamp",
    )?;
    quiet(!lines.is_empty(), "the device has no table")?;
    Ok(lines)
}

/// Sectors of a table.
pub fn sectors(lines: &[Line]) -> u64 {
    lines.iter().map(|l| l.length).sum()
}

pub fn kinds(lines: &[Line]) -> String {
    let mut kinds: Vec<&str> = lines.iter().map(|l| l.target.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(", ")
}

/// Where a line of dm-linear leads, or why it is none.
pub fn linear(name: &str, line: &Line) -> Result<(DevNo, u64)> {
    let what = match line.target.as_str() {
        "linear" => {
            return line.linear().with_context(|| {
                format!(
                    "{name}: the device's table is unexpected: {}; nothing was changed",
                    line.params
                )
            })
        }
        "snapshot-origin" => "a volume that has a snapshot",
        "snapshot" => "a snapshot",
        "snapshot-merge" => "a snapshot that is being merged",
        "thin" | "thin-pool" => "thinly provisioned",
        "striped" => "striped",
        "mirror" | "raid" => "a mirror or RAID",
        "cache" | "writecache" => "cached",
        "crypt" => "encrypted",
        _ => "something else",
    };
    bail!(
        "{name}: the device's table is {}, not linear: it is {what}, and dsm can only take the place of dm-linear; nothing was changed",
        line.target
    )
}

/// dm-linear on the sectors of a dsm line.
pub fn linear_line(dsm: &Line, table: &TableLine) -> Line {
    Line {
        target: "linear".into(),
        params: format!("{} {}", table.below, table.start),
        ..dsm.clone()
    }
}

/// What a refused table is refused for.
pub fn load<T: Tables + ?Sized>(tables: &T, name: &str, lines: &[Line]) -> Result<()> {
    let mut said = Since::now();
    let Err(e) = tables.load(name, lines) else {
        return Ok(());
    };
    let reasons = said.refusals();
    Err(if reasons.is_empty() {
        let shown: Vec<String> = lines
            .iter()
            .map(|l| format!("{} {}", l.target, l.params))
            .collect();
        anyhow::Error::new(e).context(format!(
            "{name}: the kernel refused the table '{}'",
            shown.join(", ")
        ))
    } else {
        anyhow!("{name}: {}; nothing was changed", reasons.join("; "))
    })
}

/// Puts `new` in the place of `old`, which the device's table must be.
pub fn exchange<T: Tables + ?Sized>(tables: &T, name: &str, old: &[Line], new: &[Line]) -> Result<()> {
    exchange_with(tables, name, old, new, &|| Ok(()))
}

/// The same; `loaded` is called while the new table waits to take effect.
pub(crate) fn exchange_with<T: Tables + ?Sized>(
    tables: &T,
    name: &str,
    old: &[Line],
    new: &[Line],
    loaded: &dyn Fn() -> Result<()>,
) -> Result<()> {
    ensure!(
        sectors(old) == sectors(new),
        "{name}: the new table has {} sectors, the old one {}; nothing was changed",
        sectors(new),
        sectors(old)
    );
    put(tables, name, old, new, loaded)
}

/// Makes the line that a device's table is longer.
pub fn lengthen<T: Tables + ?Sized>(tables: &T, name: &str, old: &Line, length: u64) -> Result<()> {
    ensure!(
        length > old.length,
        "{name}: {length} sectors are no more than the {} that it has; nothing was changed",
        old.length
    );
    let new = Line {
        length,
        ..old.clone()
    };
    put(tables, name, from_ref(old), from_ref(&new), &|| Ok(()))
}

fn put<T: Tables + ?Sized>(
    tables: &T,
    name: &str,
    old: &[Line],
    new: &[Line],
    loaded: &dyn Fn() -> Result<()>,
) -> Result<()> {
    load(tables, name, new)?;
    if let Err(e) = loaded().and_then(|()| still(tables, name, old)) {
        let _ = tables.clear(name);
        return Err(e);
    }
    if let Err(e) = tables.resume(name) {
        return Err(go_on_as_before(tables, name, e));
    }
    let (_, lines) = tables
        .table(name)
        .with_context(|| format!("{name}: cannot read its table"))?;
    // The kernel may show parameters in other words than they were given in.
    let alike = |(a, b): (&Line, &Line)| (&a.target, a.start, a.length) == (&b.target, b.start, b.length);
    ensure!(
        lines.len() == new.len() && lines.iter().zip(new).all(alike),
        "{name}: somebody else exchanged the device's table at the same moment: it is {} now",
        kinds(&lines)
    );
    Ok(())
}

/// Whether the active table is what it was when it was looked at.
fn still<T: Tables + ?Sized>(tables: &T, name: &str, old: &[Line]) -> Result<()> {
    let (info, lines) = tables
        .table(name)
        .with_context(|| format!("{name}: cannot read its table"))?;
    ensure!(
        lines == old && !info.suspended,
        "{name}: somebody else changed the device's table at the same moment; nothing was changed by this"
    );
    Ok(())
}

/// After a failure of the exchange itself the old table is in place, but the kernel may
/// have left the device suspended.
fn go_on_as_before<T: Tables + ?Sized>(tables: &T, name: &str, e: DmError) -> anyhow::Error {
    let _ = tables.clear(name);
    let on = tables.resume(name);
    let what = match (on, e.errno()) {
        (Err(again), _) => {
            return anyhow!("{name}: the tables were not exchanged ({e}), and the device stays suspended ({again}): `dmsetup resume {name}`")
        }
        (Ok(()), Some(Errno::INTR)) => "interrupted before the tables were exchanged".to_owned(),
        (Ok(()), _) => format!("the kernel did not exchange the tables: {e}"),
    };
    anyhow!("{name}: {what}; nothing was changed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A device in memory, and what others do to it meanwhile.
    #[derive(Default)]
    struct Fake {
        active: RefCell<Vec<Line>>,
        inactive: RefCell<Option<Vec<Line>>>,
        suspended: RefCell<bool>,
        calls: RefCell<Vec<&'static str>>,
        /// Takes effect when our table is loaded.
        meanwhile: Option<Line>,
        /// Takes effect with the resume.
        last_moment: Option<Line>,
        refuse_load: bool,
        fail_resume: RefCell<Vec<Errno>>,
    }

    impl Fake {
        fn with(line: Line) -> Self {
            Self {
                active: RefCell::new(vec![line]),
                ..Self::default()
            }
        }

        fn active(&self) -> Line {
            self.active.borrow()[0].clone()
        }
    }

    fn info(f: &Fake) -> Info {
        Info {
            name: "vg-lv".into(),
            uuid: "LVM-x".into(),
            dev: DevNo::new(253, 0),
            open_count: 1,
            active: true,
            inactive: f.inactive.borrow().is_some(),
            suspended: *f.suspended.borrow(),
            read_only: false,
        }
    }

    impl Tables for Fake {
        fn table(&self, _: &str) -> Result<(Info, Vec<Line>), DmError> {
            Ok((info(self), self.active.borrow().clone()))
        }

        fn loaded(&self, _: &str) -> Result<Vec<Line>, DmError> {
            Ok(self.inactive.borrow().clone().unwrap_or_default())
        }

        fn load(&self, _: &str, lines: &[Line]) -> Result<(), DmError> {
            self.calls.borrow_mut().push("load");
            if self.refuse_load {
                return Err(Errno::INVAL.into());
            }
            *self.inactive.borrow_mut() = Some(lines.to_vec());
            if let Some(other) = &self.meanwhile {
                *self.active.borrow_mut() = vec![other.clone()];
            }
            Ok(())
        }

        fn clear(&self, _: &str) -> Result<(), DmError> {
            self.calls.borrow_mut().push("clear");
            *self.inactive.borrow_mut() = None;
            Ok(())
        }

        fn resume(&self, _: &str) -> Result<(), DmError> {
            self.calls.borrow_mut().push("resume");
            if let Some(e) = self.fail_resume.borrow_mut().pop() {
                // As dm_swap_table() leaves it
                *self.suspended.borrow_mut() = true;
                return Err(e.into());
            }
            *self.suspended.borrow_mut() = false;
            if let Some(lines) = self.inactive.borrow_mut().take() {
                *self.active.borrow_mut() = self.last_moment.clone().map_or(lines, |line| vec![line]);
            }
            Ok(())
        }
    }

    fn line(target: &str, params: &str, length: u64) -> Line {
        Line {
            start: 0,
            length,
            target: target.into(),
            params: params.into(),
        }
    }

    fn old() -> Line {
        line("linear", "259:0 2048", 1000)
    }

    fn new() -> Line {
        line("dsm", "259:0 2048", 1000)
    }

    fn refusal(f: &Fake) -> String {
        let said = exchange(f, "vg-lv", &[old()], &[new()]).unwrap_err().to_string();
        assert!(f.inactive.borrow().is_none(), "no table is left loaded");
        assert!(!*f.suspended.borrow(), "the device goes on");
        said
    }

    #[test]
    fn one_table_takes_the_place_of_the_other() {
        let f = Fake::with(old());
        exchange(&f, "vg-lv", &[old()], &[new()]).unwrap();
        assert_eq!(f.active(), new());
        assert_eq!(*f.calls.borrow(), ["load", "resume"]);
        exchange(&f, "vg-lv", &[new()], &[old()]).unwrap();
        assert_eq!(f.active(), old());
    }

    #[test]
    fn a_table_that_was_exchanged_meanwhile_stays() {
        for other in [
            line("linear", "259:0 4096", 1000),
            line("linear", "259:0 2048", 2000),
            line("snapshot-origin", "253:4", 1000),
        ] {
            let f = Fake {
                meanwhile: Some(other.clone()),
                ..Fake::with(old())
            };
            assert_eq!(
                refusal(&f),
                "vg-lv: somebody else changed the device's table at the same moment; nothing was changed by this"
            );
            assert_eq!(f.active(), other);
            assert_eq!(*f.calls.borrow(), ["load", "clear"]);
        }
        let f = Fake {
            last_moment: Some(line("striped", "", 1000)),
            ..Fake::with(old())
        };
        let said = refusal(&f);
        assert!(said.contains("at the same moment: it is striped now"), "{said}");
    }

    #[test]
    fn another_size_is_refused() {
        let f = Fake::with(old());
        let longer = line("dsm", "259:0 2048", 1008);
        let said = exchange(&f, "vg-lv", &[old()], &[longer])
            .unwrap_err()
            .to_string();
        assert_eq!(
            said,
            "vg-lv: the new table has 1008 sectors, the old one 1000; nothing was changed"
        );
        assert!(f.calls.borrow().is_empty());
    }

    #[test]
    fn a_line_is_made_longer_only() {
        let f = Fake::with(new());
        lengthen(&f, "d", &new(), 1008).unwrap();
        let longer = line("dsm", "259:0 2048", 1008);
        assert_eq!(f.active(), longer);
        for length in [0, 1000, 1008] {
            let said = lengthen(&f, "d", &longer, length).unwrap_err().to_string();
            let wanted =
                format!("d: {length} sectors are no more than the 1008 that it has; nothing was changed");
            assert_eq!(said, wanted);
        }
        assert_eq!(*f.calls.borrow(), ["load", "resume"]);
    }

    #[test]
    fn what_fails_is_undone() {
        let f = Fake {
            refuse_load: true,
            ..Fake::with(old())
        };
        refusal(&f);
        assert_eq!(*f.calls.borrow(), ["load"]);

        let f = Fake::with(old());
        f.fail_resume.borrow_mut().push(Errno::INTR);
        assert_eq!(
            refusal(&f),
            "vg-lv: interrupted before the tables were exchanged; nothing was changed"
        );
        assert_eq!(f.active(), old());
        assert_eq!(*f.calls.borrow(), ["load", "resume", "clear", "resume"]);

        let f = Fake::with(old());
        f.fail_resume.borrow_mut().extend([Errno::IO, Errno::NOMEM]);
        let said = exchange(&f, "vg-lv", &[old()], &[new()]).unwrap_err().to_string();
        assert!(said.contains("`dmsetup resume vg-lv`"), "{said}");
    }

    #[test]
    fn what_cannot_be_exchanged_is_said() {
        let f = Fake::with(old());
        let free = info(&f);
        let of = |info: &Info, lines: &[Line]| only_line("d", info, lines).unwrap_err().to_string();
        for (info, wanted) in [
            (
                Info {
                    suspended: true,
                    ..free.clone()
                },
                "d: the device is suspended; nothing was changed",
            ),
            (
                Info {
                    inactive: true,
                    ..free.clone()
                },
                "d: somebody has loaded another table for the device, which has not taken effect yet, and which `dmsetup clear d` takes away; nothing was changed",
            ),
            (
                Info {
                    read_only: true,
                    ..free.clone()
                },
                "d: the device is read-only, so that there is nothing to stamp; nothing was changed",
            ),
        ] {
            assert_eq!(of(&info, &[old()]), wanted);
        }
        assert_eq!(of(&free, &[]), "d: the device has no table; nothing was changed");
        assert_eq!(
            of(&free, &[old(), old()]),
            "d: the device's table has 2 lines (linear), and dsm must be the only one; nothing was changed"
        );
        for (target, is) in [
            ("snapshot-origin", "a volume that has a snapshot"),
            ("thin", "thinly provisioned"),
            ("striped", "striped"),
            ("flakey", "something else"),
        ] {
            assert_eq!(
                linear("d", &line(target, "", 8)).unwrap_err().to_string(),
                format!("d: the device's table is {target}, not linear: it is {is}, and dsm can only take the place of dm-linear; nothing was changed")
            );
        }
        assert_eq!(linear("d", &old()).unwrap(), (DevNo::new(259, 0), 2048));
    }

    #[test]
    fn back_to_linear() {
        let t: TableLine = "259:0 2048 2 policy dsm".parse().unwrap();
        let line = linear_line(&new(), &t);
        assert_eq!(
            (line.target.as_str(), line.params.as_str()),
            ("linear", "259:0 2048")
        );
    }
}

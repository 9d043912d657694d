// SPDX-License-Identifier: GPL-2.0-or-later
//! The streams that a drive can afford.
//!
//! Each stream holds an erase unit open, and another one for what is copied out of its
//! units where the drive keeps that apart.  These come out of the spare units, which is
//! what collection lives on: measured on recordings of up to 13 GiB, streams save 2 to 4 %
//! of what the flash writes where they hold less than a tenth of the spare units, nothing
//! from there to a fifth, and cost up to 35 % beyond.

use std::fmt;

use serde::Serialize;

/// The share of the spare units that streams may hold: less than 1 of so many.
const SHARE: u64 = 10;

/// A drive with fewer units gets no streams: on some, two of them cost 2 %.
const FEW: u64 = 300;

/// Where a drive puts what it copies out of a stream's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Copies {
    /// To units of the stream's own: FDP's persistently isolated handles.
    Apart,
    /// To one unit for all: initially isolated.
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Drive {
    /// Its size in units of what it erases (reclaim units).
    pub units: u64,
    /// The units that it has beyond its size.
    pub spare: u64,
    /// Streams (placement handles) that there are.
    pub handles: u32,
    pub copies: Copies,
}

/// How files are laid out on streams, the one with most of them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Policy dsm with K groups.
    Dsm(u32),
    /// Other, journal, collections, indexes.
    File,
    /// Policy file with two streams: collections and indexes, and the rest.
    JournalApart,
    None,
}

impl Layout {
    /// In the order in which they are tried.
    pub const ALL: [Self; 5] = [
        Self::Dsm(3),
        Self::Dsm(2),
        Self::File,
        Self::JournalApart,
        Self::None,
    ];

    /// The feature of the target.
    pub const fn policy(self) -> &'static str {
        match self {
            Self::Dsm(_) => "dsm",
            Self::File | Self::JournalApart => "file",
            Self::None => "none",
        }
    }

    pub const fn groups(self) -> Option<u32> {
        match self {
            Self::Dsm(groups) => Some(groups),
            _ => None,
        }
    }

    /// The streams that it takes; `none` leaves all to one.
    pub const fn streams(self) -> u32 {
        match self {
            Self::Dsm(groups) => 2 * groups + 2,
            Self::File => 4,
            Self::JournalApart => 2,
            Self::None => 1,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dsm(groups) => write!(f, "dsm with K = {groups}"),
            Self::File => f.write_str("file"),
            Self::JournalApart => f.write_str("the journal apart"),
            Self::None => f.write_str("none"),
        }
    }
}

/// The units that streams hold: open ones, and the free one that collection needs.
pub fn open_units(streams: u64, copies: Copies) -> u64 {
    let collected = match copies {
        Copies::Apart => streams,
        Copies::Mixed => 1,
    };
    streams + collected + 1
}

/// Whether streams may hold so many of the spare units.
pub fn affords(open: u64, spare: u64) -> bool {
    open.saturating_mul(SHARE) < spare
}

/// What a drive affords, and why nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub layout: Layout,
    drive: Drive,
}

impl Drive {
    pub fn choose(self) -> Choice {
        let fits = |layout: &Layout| self.lacks(*layout).is_none();
        let layout = Layout::ALL.into_iter().find(fits).unwrap_or(Layout::None);
        Choice { layout, drive: self }
    }

    /// The units that so many streams hold, open and free.
    pub fn open(self, streams: u32) -> u64 {
        open_units(streams.into(), self.copies)
    }

    /// Whether so many streams lose nothing on it.
    pub fn affords(self, streams: u32) -> bool {
        self.units >= FEW && affords(self.open(streams), self.spare)
    }

    /// Why not this one.
    fn lacks(self, layout: Layout) -> Option<String> {
        let (streams, spare) = (layout.streams(), self.spare);
        if layout == Layout::None || streams <= self.handles && self.affords(streams) {
            None
        } else if self.units < FEW {
            Some(format!("streams need {FEW} of them"))
        } else if streams > self.handles {
            Some(format!("{layout} takes {streams} streams of {}", self.handles))
        } else {
            let open = self.open(streams);
            Some(format!(
                "{layout} would hold {open} of its {spare} spare units, a tenth or more"
            ))
        }
    }
}

impl Choice {
    /// One sentence, without its end.
    pub fn why(&self) -> String {
        let Self { layout, drive } = *self;
        let chosen = match layout {
            Layout::None => format!("no streams on a drive of {} erase units", drive.units),
            _ => format!(
                "{layout}, whose {} streams hold {} of the {} spare ones of a drive of {} erase units, less than a tenth",
                layout.streams(),
                drive.open(layout.streams()),
                drive.spare,
                drive.units
            ),
        };
        // The layout before it is the one that was just too large.
        let before = Layout::ALL.into_iter().take_while(|l| *l != layout).last();
        match before.and_then(|l| drive.lacks(l)) {
            Some(lacks) => format!("{chosen}: {lacks}"),
            None => chosen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(units: u64, op: f64) -> Drive {
        Drive {
            units,
            spare: (units as f64 * op) as u64,
            handles: 8,
            copies: Copies::Apart,
        }
    }

    fn layout(units: u64, op: f64) -> Layout {
        drive(units, op).choose().layout
    }

    const K3: Layout = Layout::Dsm(3);
    const K2: Layout = Layout::Dsm(2);

    /// Recordings of LinkBench and YCSB, 0.2 to 13 GiB, erase units of 256 KiB to 64 MiB:
    /// units, over-provisioning, and what `file`, `dsm` with K = 2 and with K = 3 saved of
    /// what the flash writes, in percent; NAN where it was not run.
    const MEASURED: [(u64, f64, [f64; 3]); 39] = [
        (970, 0.15, [2.5, 3.6, 3.4]),
        (242, 0.15, [-2.4, -5.3, -7.0]),
        (972, 0.15, [0.5, -0.4, -0.3]),
        (3575, 0.15, [3.3, 4.6, 3.8]),
        (893, 0.15, [2.9, 3.2, 1.5]),
        (223, 0.15, [-0.2, -6.0, -10.8]),
        (942, 0.15, [1.1, 0.2, -0.1]),
        (235, 0.15, [0.9, -3.9, -6.8]),
        (908, 0.15, [2.0, 2.6, 0.7]),
        (227, 0.15, [-3.1, -9.4, -13.0]),
        (14005, 0.15, [3.4, 3.5, 3.3]),
        (3501, 0.15, [4.0, 3.7, 2.7]),
        (875, 0.15, [3.3, 2.5, 0.0]),
        (218, 0.15, [-2.0, -4.1, -8.0]),
        (3443, 0.15, [1.2, 1.4, 1.1]),
        (860, 0.15, [1.7, 2.1, 0.7]),
        (215, 0.15, [-0.6, -4.0, -7.2]),
        (13745, 0.15, [3.5, 4.1, 3.9]),
        (3436, 0.15, [3.3, 3.5, 3.1]),
        (1718, 0.15, [2.6, f64::NAN, 2.1]),
        (859, 0.15, [2.2, 1.0, 1.0]),
        (214, 0.15, [-4.4, -12.0, -10.5]),
        (1176, 0.15, [-0.5, f64::NAN, -0.5]),
        (294, 0.15, [-2.2, f64::NAN, -2.2]),
        (893, 0.07, [1.8, -0.4, -2.7]),
        (893, 0.28, [3.0, 4.3, 3.3]),
        (223, 0.07, [-8.4, -26.5, -35.5]),
        (223, 0.28, [1.4, 0.5, -1.7]),
        (942, 0.07, [1.5, 0.1, -0.5]),
        (942, 0.28, [0.8, 0.0, -0.2]),
        (3501, 0.07, [3.3, 3.0, 2.0]),
        (3501, 0.28, [3.1, 3.0, 2.5]),
        (875, 0.07, [1.0, -0.7, -2.7]),
        (875, 0.28, [3.3, 3.0, 2.8]),
        (1718, 0.07, [3.3, 2.4, 2.2]),
        (859, 0.07, [1.1, f64::NAN, -0.7]),
        (859, 0.28, [3.4, 2.4, 3.8]),
        (214, 0.07, [-15.7, f64::NAN, -33.4]),
        (214, 0.28, [-0.5, -3.8, -0.9]),
    ];

    #[test]
    fn what_was_measured_is_never_worse_than_no_streams() {
        for (units, op, gains) in MEASURED {
            let gain = gain(layout(units, op), gains);
            assert!(gain >= -0.5, "{units} units, {op}: {gain}");
        }
        // Below 500 units each of them loses somewhere, so that the choice matters there.
        let few = || MEASURED.iter().filter(|(units, ..)| *units < 500);
        for n in 0..3 {
            assert!(few().any(|(.., gains)| gains[n] < -1.0));
        }
        assert!(few().count() >= 10);
    }

    /// Few units: on recordings of LinkBench, YCSB and thirty collections, what the journal apart and `file`
    /// saved (with one collection, `dsm` is `file`).
    #[test]
    fn few_units_lose_no_hundredth() {
        use Copies::{Apart, Mixed};

        for (units, op, copies, [apart, file]) in [
            (242, 0.28, Apart, [3.00, 1.51]),
            (242, 0.28, Mixed, [2.64, 1.75]),
            (244, 0.15, Apart, [2.55, -0.65]),
            (484, 0.15, Apart, [3.52, 1.77]),
            (484, 0.15, Mixed, [3.31, 1.93]),
            (247, 0.28, Apart, [1.26, -0.15]),
            (247, 0.28, Mixed, [0.44, -0.55]),
            (495, 0.15, Apart, [1.31, 0.29]),
            (495, 0.15, Mixed, [0.45, -0.76]),
            (125, 0.28, Apart, [1.77, -1.12]),
            (154, 0.28, Apart, [-0.18, -1.33]),
            (154, 0.28, Mixed, [-0.06, 0.16]),
            (309, 0.28, Mixed, [-0.04, 0.13]),
            (309, 0.15, Apart, [0.05, -1.23]),
            (231, 0.15, Mixed, [-0.16, -0.31]),
            (51, 0.28, Mixed, [2.59, -2.69]),
        ] {
            let drive = Drive {
                copies,
                ..drive(units, op)
            };
            let layout = drive.choose().layout;
            let gain = match layout {
                Layout::JournalApart => apart,
                layout => gain(layout, [file; 3]),
            };
            assert!(gain > -1.0, "{units} units, {op}, {copies:?}: {layout} {gain}");
        }
    }

    /// Initially isolated: what is copied goes to one unit for all.
    #[test]
    fn neither_is_it_where_copies_are_mixed() {
        for (units, gains) in [
            (223, [f64::NAN, f64::NAN, -5.0]),
            (859, [1.7, 1.2, 0.3]),
            (214, [-2.1, -6.3, -6.6]),
        ] {
            let copies = Copies::Mixed;
            let drive = Drive {
                copies,
                ..drive(units, 0.15)
            };
            let gain = gain(drive.choose().layout, gains);
            assert!(gain >= 0.0, "{units} units: {gain}");
        }
    }

    fn gain(layout: Layout, [file, k2, k3]: [f64; 3]) -> f64 {
        match layout {
            Layout::Dsm(3) => k3,
            Layout::Dsm(2) => k2,
            Layout::File => file,
            // With two streams less is lost than with four.
            Layout::JournalApart => file,
            _ => 0.0,
        }
    }

    #[test]
    fn fewer_units_afford_less() {
        for (units, op, expected) in [
            (14005, 0.15, K3),
            (3500, 0.15, K3),
            (1718, 0.15, K3),
            (1140, 0.15, K3),
            (1130, 0.15, K2),
            (893, 0.15, K2),
            (860, 0.15, Layout::File),
            (612, 0.15, Layout::File),
            (500, 0.15, Layout::JournalApart),
            (294, 0.15, Layout::None),
            (235, 0.15, Layout::None),
            (215, 0.15, Layout::None),
            (1718, 0.07, Layout::File),
            (893, 0.28, K3),
            (299, 0.28, Layout::None),
            (300, 0.28, Layout::JournalApart),
            (0, 0.15, Layout::None),
        ] {
            assert_eq!(layout(units, op), expected, "{units} units, {op}");
        }
        // A tenth is too much.
        let spare = |spare| Drive {
            spare,
            ..drive(1000, 0.0)
        };
        assert_eq!([170, 171].map(|n| spare(n).choose().layout), [K2, K3]);
        assert_eq!(
            [50, 51].map(|n| spare(n).choose().layout),
            [Layout::None, Layout::JournalApart]
        );
    }

    #[test]
    fn handles_and_copies_count() {
        let with = |handles| Drive {
            handles,
            ..drive(10_000, 0.15)
        };
        let layouts = [8, 7, 6, 5, 4, 3, 2, 1, 0].map(|n| with(n).choose().layout);
        let apart = Layout::JournalApart;
        let none = Layout::None;
        assert_eq!(
            layouts,
            [K3, K2, K2, Layout::File, Layout::File, apart, apart, none, none]
        );
        // 10 units in place of 17.
        let mixed = Drive {
            copies: Copies::Mixed,
            ..drive(680, 0.15)
        };
        assert_eq!(mixed.choose().layout, K3);
        assert_eq!(layout(680, 0.15), Layout::File);
    }

    #[test]
    fn the_reason_has_both_numbers() {
        assert_eq!(
            drive(3500, 0.15).choose().why(),
            "dsm with K = 3, whose 8 streams hold 17 of the 525 spare ones of a drive of 3500 erase units, \
             less than a tenth"
        );
        assert_eq!(
            drive(893, 0.15).choose().why(),
            "dsm with K = 2, whose 6 streams hold 13 of the 133 spare ones of a drive of 893 erase units, \
             less than a tenth: dsm with K = 3 would hold 17 of its 133 spare units, a tenth or more"
        );
        assert_eq!(
            drive(320, 0.15).choose().why(),
            "no streams on a drive of 320 erase units: the journal apart would hold 5 of its 48 spare units, \
             a tenth or more"
        );
        assert_eq!(
            drive(220, 0.28).choose().why(),
            "no streams on a drive of 220 erase units: streams need 300 of them"
        );
        let few = Drive {
            handles: 4,
            ..drive(9000, 0.15)
        };
        assert_eq!(
            few.choose().why(),
            "file, whose 4 streams hold 9 of the 1350 spare ones of a drive of 9000 erase units, less than a tenth: \
             dsm with K = 2 takes 6 streams of 4"
        );
    }

    /// The layouts are the target's own.
    #[test]
    fn streams_as_the_kernel_lays_them_out() {
        use crate::kernel::class::Class;
        use crate::kernel::layout::Plan;

        let used = |l: Layout| {
            let plan = Plan::new(l.policy(), l.groups().unwrap_or(1), 1, l.streams());
            assert_eq!(plan.groups, l.groups().unwrap_or(1));
            let group = |n| (n > 0).then_some(n);
            let of = |class| (0..=plan.groups).map(move |n| plan.stream(class, group(n)));
            let mut all: Vec<u32> = Class::ALL.into_iter().flat_map(of).map(|n| n.max(1)).collect();
            all.sort_unstable();
            all.dedup();
            all.len() as u32
        };
        for layout in Layout::ALL {
            assert_eq!(used(layout), layout.streams(), "{layout}");
        }
    }
}

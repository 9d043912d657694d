// SPDX-License-Identifier: GPL-2.0-or-later
//! The streams that a drive can afford.
//!
//! Each stream holds an erase unit open, and another one for what is copied out of its
//! units where the drive keeps that apart.  These come out of the spare units, which is
//! what collection lives on: measured on recordings of up to 13 GiB, streams save 2 to 4 %
//! of NAND writes where they hold less than a tenth of the spare units, nothing
//! from there to a fifth, and cost up to 35 % beyond.  Where copies are mixed, what streams
//! have kept apart is so only once, and they lose where they hold more than a 25th.

use std::fmt;

use serde::Serialize;

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

impl Copies {
    /// The share of the spare units that streams may hold: less than 1 of so many.
    const fn share(self) -> u64 {
        match self {
            Self::Apart => 10,
            Self::Mixed => 25,
        }
    }

    pub const fn share_text(self) -> &'static str {
        match self {
            Self::Apart => "a tenth",
            Self::Mixed => "a 25th",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DriveUnits {
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
pub enum AffordedLayout {
    /// Policy life with K groups.
    Life(u32),
    /// Policy file with two streams: collections and indexes, and the rest.
    JournalApart,
    None,
}

impl AffordedLayout {
    /// In the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Life(3), Self::Life(2), Self::JournalApart, Self::None];

    /// The feature of the target.
    pub const fn policy(self) -> &'static str {
        match self {
            Self::Life(_) => "life",
            Self::JournalApart => "file",
            Self::None => "none",
        }
    }

    pub const fn groups(self) -> Option<u32> {
        match self {
            Self::Life(groups) => Some(groups),
            _ => None,
        }
    }

    /// The streams that it takes; `none` leaves all to one.
    pub const fn streams(self) -> u32 {
        match self {
            Self::Life(groups) => groups + 2,
            Self::JournalApart => 2,
            Self::None => 1,
        }
    }
}

impl fmt::Display for AffordedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Life(groups) => write!(f, "life with K = {groups}"),
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
pub fn affords(open: u64, spare: u64, copies: Copies) -> bool {
    open.saturating_mul(copies.share()) < spare
}

impl DriveUnits {
    pub fn choose(self) -> AffordedLayout {
        let fits = |layout: &AffordedLayout| self.lacks(*layout).is_none();
        AffordedLayout::ALL
            .into_iter()
            .find(fits)
            .unwrap_or(AffordedLayout::None)
    }

    /// The units that so many streams hold, open and free.
    pub fn open(self, streams: u32) -> u64 {
        open_units(streams.into(), self.copies)
    }

    /// Whether so many streams lose nothing on it.
    pub fn affords(self, streams: u32) -> bool {
        self.units >= FEW && affords(self.open(streams), self.spare, self.copies)
    }

    /// Why not this one.
    fn lacks(self, layout: AffordedLayout) -> Option<String> {
        let (streams, spare) = (layout.streams(), self.spare);
        if layout == AffordedLayout::None || streams <= self.handles && self.affords(streams) {
            None
        } else if self.units < FEW {
            Some(format!("streams need {FEW} of them"))
        } else if streams > self.handles {
            Some(format!("{layout} takes {streams} streams of {}", self.handles))
        } else {
            let (open, share) = (self.open(streams), self.copies.share_text());
            Some(format!(
                "{layout} would hold {open} of its {spare} spare units, {share} or more"
            ))
        }
    }

    /// Why what is chosen, and nothing more.  Without a full stop.
    pub fn why(self) -> String {
        let layout = self.choose();
        let chosen = match layout {
            AffordedLayout::None => format!("no streams on a drive of {} erase units", self.units),
            _ => format!(
                "{layout}, whose {} streams hold {} of the {} spare ones of a drive of {} erase units, less than {}",
                layout.streams(),
                self.open(layout.streams()),
                self.spare,
                self.units,
                self.copies.share_text()
            ),
        };
        // The layout before it is the one that was just too large.
        let before = AffordedLayout::ALL
            .into_iter()
            .take_while(|l| *l != layout)
            .last();
        match before.and_then(|l| self.lacks(l)) {
            Some(lacks) => format!("{chosen}: {lacks}"),
            None => chosen,
        }
    }
}

/// What is below affords.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Affords {
    #[serde(skip)]
    pub layout: AffordedLayout,
    pub policy: &'static str,
    /// K of policy dsm.
    pub groups: Option<u32>,
    pub streams: u32,
    /// Of the disk that affords the least; `None`: one does not report.
    pub drive: Option<DriveUnits>,
    /// Without a full stop.
    pub why: String,
    /// A disk could not be asked, so that nothing is known.
    #[serde(skip)]
    pub silent: bool,
}

impl Affords {
    pub fn new(layout: AffordedLayout, drive: Option<DriveUnits>, why: String) -> Self {
        Self {
            layout,
            policy: layout.policy(),
            groups: layout.groups(),
            streams: layout.streams(),
            drive,
            why,
            silent: false,
        }
    }

    pub fn nothing(why: String) -> Self {
        Self::new(AffordedLayout::None, None, format!("no streams: {why}"))
    }

    /// The least comes last.
    pub fn rank(&self) -> Option<usize> {
        AffordedLayout::ALL.iter().position(|l| *l == self.layout)
    }

    /// The units that so many streams would hold of the spare ones, where the drive does
    /// not afford them.
    pub fn too_many(&self, streams: u32) -> Option<(u64, u64)> {
        let drive = self.drive.filter(|d| streams > 1 && !d.affords(streams))?;
        Some((drive.open(streams), drive.spare))
    }

    /// The features of the target that take it, in the order in which they are set.
    pub fn features(&self) -> Vec<(&'static str, String)> {
        let mut features = vec![("policy", self.policy.to_owned())];
        features.extend(self.groups.map(|k| ("groups", k.to_string())));
        if self.layout != AffordedLayout::None {
            features.push(("streams", self.streams.to_string()));
        }
        features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(units: u64, op: f64) -> DriveUnits {
        DriveUnits {
            units,
            spare: (units as f64 * op) as u64,
            handles: 8,
            copies: Copies::Apart,
        }
    }

    fn layout(units: u64, op: f64) -> AffordedLayout {
        drive(units, op).choose()
    }

    const K3: AffordedLayout = AffordedLayout::Life(3);
    const K2: AffordedLayout = AffordedLayout::Life(2);

    /// What `make bench-waf` measured: the choice is nowhere worse than no streams by more
    /// than a hundredth, and each of the layouts would be somewhere that it is not chosen.
    #[test]
    fn what_was_measured_is_not_worse_than_no_streams() {
        let mut lost = [0.0_f64; 3];
        let mut seen = [0; 4];
        for json in [
            include_str!("../../../Documentation/figures/waf.json"),
            include_str!("../../../Documentation/figures/waf-4G.json"),
        ] {
            let workloads: serde_json::Map<_, _> = serde_json::from_str(json).unwrap();
            // MongoDB's settings, and the pace of recordings, have drives of their own.
            let workloads = workloads.iter().filter(|(w, _)| *w != "settings" && *w != "pace");
            let drives = workloads.flat_map(|(w, of)| {
                let drives = of["drives"].as_object().unwrap();
                drives.iter().map(move |(name, cells)| (w, name, cells))
            });
            for (workload, name, cells) in drives {
                if name.contains(" in ") {
                    continue; // it is about discards, and has not all policies
                }
                let waf = |policy: &str, discards: &str| cells[format!("{policy}{discards}")][0].as_f64();
                let percent: f64 = name.split(' ').next().unwrap().parse().unwrap();
                let units = cells["units"].as_u64().unwrap();
                let drive = DriveUnits {
                    spare: (units as f64 * percent / 100.0) as u64,
                    copies: if name.contains("mixed") {
                        Copies::Mixed
                    } else {
                        Copies::Apart
                    },
                    ..drive(units, 0.0)
                };
                let chosen = drive.choose();
                seen[AffordedLayout::ALL.iter().position(|l| *l == chosen).unwrap()] += 1;
                for discards in ["", "+discard"] {
                    let Some(none) = waf("none", discards) else {
                        continue;
                    };
                    for (n, (layout, policy)) in [
                        (K3, "life"),
                        (K2, "life:groups=2"),
                        (AffordedLayout::JournalApart, "file:streams=2"),
                    ]
                    .into_iter()
                    .enumerate()
                    {
                        let cost = waf(policy, discards).map_or(f64::INFINITY, |waf| waf / none - 1.0);
                        if layout == chosen {
                            assert!(cost <= 0.01, "{workload} on {name}, {policy}{discards}: {cost}");
                        } else {
                            lost[n] = lost[n].max(cost);
                        }
                    }
                }
            }
        }
        assert!(lost.iter().all(|cost| *cost > 0.01), "{lost:?}");
        assert!(seen.iter().all(|n| *n > 3), "{seen:?}");
    }

    #[test]
    fn fewer_units_afford_less() {
        for (units, op, expected) in [
            (14005, 0.15, K3),
            (3500, 0.15, K3),
            (1718, 0.15, K3),
            (1140, 0.15, K3),
            (740, 0.15, K3),
            (730, 0.15, K2),
            (612, 0.15, K2),
            (500, 0.15, AffordedLayout::JournalApart),
            (294, 0.15, AffordedLayout::None),
            (235, 0.15, AffordedLayout::None),
            (215, 0.15, AffordedLayout::None),
            (1718, 0.07, K3),
            (893, 0.28, K3),
            (299, 0.28, AffordedLayout::None),
            (300, 0.28, AffordedLayout::JournalApart),
            (0, 0.15, AffordedLayout::None),
        ] {
            assert_eq!(layout(units, op), expected, "{units} units, {op}");
        }
        // A tenth is too much.
        let spare = |spare| DriveUnits {
            spare,
            ..drive(1000, 0.0)
        };
        assert_eq!([110, 111].map(|n| spare(n).choose()), [K2, K3]);
        assert_eq!(
            [50, 51].map(|n| spare(n).choose()),
            [AffordedLayout::None, AffordedLayout::JournalApart]
        );
    }

    #[test]
    fn handles_and_copies_count() {
        let with = |handles| DriveUnits {
            handles,
            ..drive(10_000, 0.15)
        };
        let layouts = [8, 7, 6, 5, 4, 3, 2, 1, 0].map(|n| with(n).choose());
        let apart = AffordedLayout::JournalApart;
        let none = AffordedLayout::None;
        assert_eq!(layouts, [K3, K3, K3, K3, K2, apart, apart, none, none]);
        // 7, 6 and 4 units of which there may be a 25th.
        let mixed = |spare| DriveUnits {
            copies: Copies::Mixed,
            spare,
            ..drive(2000, 0.0)
        };
        let layouts = [176, 175, 151, 150, 101, 100].map(|spare| mixed(spare).choose());
        assert_eq!(layouts, [K3, K2, K2, apart, apart, none]);
        assert!(
            mixed(150)
                .why()
                .ends_with("life with K = 2 would hold 6 of its 150 spare units, a 25th or more"),
            "{}",
            mixed(150).why()
        );
    }

    #[test]
    fn the_reason_has_both_numbers() {
        assert_eq!(
            drive(3500, 0.15).why(),
            "life with K = 3, whose 5 streams hold 11 of the 525 spare ones of a drive of 3500 erase units, \
             less than a tenth"
        );
        assert_eq!(
            drive(700, 0.15).why(),
            "life with K = 2, whose 4 streams hold 9 of the 105 spare ones of a drive of 700 erase units, \
             less than a tenth: life with K = 3 would hold 11 of its 105 spare units, a tenth or more"
        );
        assert_eq!(
            drive(320, 0.15).why(),
            "no streams on a drive of 320 erase units: the journal apart would hold 5 of its 48 spare units, \
             a tenth or more"
        );
        assert_eq!(
            drive(220, 0.28).why(),
            "no streams on a drive of 220 erase units: streams need 300 of them"
        );
        let few = DriveUnits {
            handles: 4,
            ..drive(9000, 0.15)
        };
        assert_eq!(
            few.why(),
            "life with K = 2, whose 4 streams hold 9 of the 1350 spare ones of a drive of 9000 erase units, \
             less than a tenth: life with K = 3 takes 5 streams of 4"
        );
    }

    /// The layouts are the target's own.
    #[test]
    fn streams_as_the_kernel_lays_them_out() {
        use dm::class::Class;
        use policies::layout::Plan;

        let used = |l: AffordedLayout| {
            let plan = Plan::new(l.policy(), l.groups().unwrap_or(1), 1, l.streams()).unwrap();
            assert_eq!(plan.groups(), l.groups().unwrap_or(1));
            let group = |n| (n > 0).then_some(n);
            let of = |class| (0..=plan.groups()).map(move |n| plan.stream(class, group(n)));
            let mut all: Vec<u32> = Class::ALL
                .iter()
                .copied()
                .flat_map(of)
                .map(|n| n.max(1))
                .collect();
            all.sort_unstable();
            all.dedup();
            all.len() as u32
        };
        for layout in AffordedLayout::ALL {
            assert_eq!(used(layout), layout.streams(), "{layout}");
        }
    }
}

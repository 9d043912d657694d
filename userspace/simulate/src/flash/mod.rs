// SPDX-License-Identifier: GPL-2.0-or-later
//! A flash drive with streams, as far as write amplification goes: a page map,
//! erase units, over-provisioning, garbage collection.
//!
//! Each stream fills an erase unit of its own.  When fewer free units are left than
//! the drive keeps, a victim is chosen, its valid pages are copied, and it is erased.
//! Copied pages go to units of their own: one for all ([`Destination::Shared`], the
//! "initially isolated" handles of FDP) or one a stream ([`Destination::Stream`],
//! "persistently isolated"); or to the unit that the host's writes of their stream
//! fill ([`Destination::Host`]).
//!
//! The drive does no wear levelling but to use free units in the order of their
//! erasure.

mod units;

use std::collections::VecDeque;

use clap::ValueEnum;
use serde::Serialize;
use thiserror::Error;

use drive::afford::{open_units, Copies};
use units::Units;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

const NONE: u32 = u32::MAX;
/// The stream of a unit that is shared by all.
const MIXED: u8 = u8::MAX;

/// How victims are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Gc {
    /// The unit with the fewest valid pages, found in constant time.
    Greedy,
    /// The greatest age * (1 - u) / 2u, u the share of valid pages and age the
    /// pages that the host has written since a page of the unit was invalidated
    /// last (Kawaguchi, Nishioka, Motoda: A Flash-Memory Based File System).
    /// Looks at all units.
    CostBenefit,
}

/// Where garbage collection copies pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Destination {
    Shared,
    Stream,
    Host,
}

impl From<Destination> for Copies {
    fn from(destination: Destination) -> Self {
        match destination {
            // What streams gain where copies go among the host's writes was not
            // measured: the stricter rule.
            Destination::Shared | Destination::Host => Self::Mixed,
            Destination::Stream => Self::Apart,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Logical pages.
    pub pages: u64,
    /// Pages of an erase unit.
    pub unit: u64,
    /// Over-provisioning: physical pages = (1 + op) * logical pages.
    pub op: f64,
    /// Streams that the drive has; without streams this is 1.
    pub streams: usize,
    pub gc: Gc,
    pub destination: Destination,
    /// Free erase units that garbage collection keeps, as a share of all; at least 2
    /// when the host opens one.
    pub keep_free: f64,
}

#[derive(Debug, Error, PartialEq)]
pub enum GeometryError {
    #[error("a drive without pages cannot be modelled")]
    Empty,
    #[error("an erase unit of {0} pages: it must have 2 pages and more, and less than 2^31")]
    Unit(u64),
    #[error("over-provisioning {0}: it must be more than 0 and at most 10")]
    Op(f64),
    #[error("{0} streams: a drive has 1 to 255")]
    Streams(usize),
    #[error("{0} of the erase units kept free: it must be 0 or more and less than 1")]
    KeepFree(f64),
    #[error(
        "garbage collection keeps {keep} of {units} erase units free, and with {streams} streams \
         over-provisioning leaves {room}: keep fewer free, or give it more over-provisioning"
    )]
    Reserve {
        keep: u64,
        room: u64,
        streams: usize,
        units: u64,
    },
    #[error("the drive would have {0} pages; the model reaches to 2^32 - 2 (16 TiB of 4 KiB)")]
    TooLarge(u64),
    #[error(
        "{streams} streams need {needed} spare erase units, and {spare} is what over-provisioning leaves \
         ({units} units in all): use a smaller unit, more over-provisioning or fewer streams"
    )]
    Spare {
        streams: usize,
        needed: u64,
        spare: u64,
        units: u64,
    },
}

/// Pages written since the beginning, by stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlashCounts {
    pub host: Vec<u64>,
    /// Copied by garbage collection, by the stream that filled the unit.
    pub gc: Vec<u64>,
    /// The same of units shared by all, which have what was copied before.
    pub mixed: u64,
    pub erases: u64,
}

impl FlashCounts {
    pub fn host_pages(&self) -> u64 {
        self.host.iter().sum()
    }

    pub fn gc_pages(&self) -> u64 {
        self.gc.iter().sum::<u64>() + self.mixed
    }

    /// Host pages and collected pages of each stream since `start`.
    pub fn since<'a>(&'a self, start: &'a Self) -> impl Iterator<Item = (u64, u64)> + 'a {
        let before = |counts: &[u64], n: usize| counts.get(n).copied().unwrap_or(0);
        (0..self.host.len()).map(move |n| {
            (
                self.host[n] - before(&start.host, n),
                self.gc[n] - before(&start.gc, n),
            )
        })
    }

    /// Write amplification since `start`; 1 if nothing was written.
    pub fn waf_since(&self, start: &Self) -> f64 {
        let host = self.host_pages() - start.host_pages();
        let gc = self.gc_pages() - start.gc_pages();
        if host == 0 {
            1.0
        } else {
            (host + gc) as f64 / host as f64
        }
    }
}

/// Erases of the units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wear {
    pub min: u32,
    pub max: u32,
    pub mean: f64,
    pub deviation: f64,
}

/// A unit that is being filled.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    next: u32,
    /// The page after the unit's last.
    end: u32,
}

impl Frontier {
    const CLOSED: Self = Self { next: 0, end: 0 };
}

#[derive(Debug)]
pub struct Flash {
    config: Config,
    unit: u32,
    /// Units that are free before the host opens one.
    reserve: usize,
    /// Logical to physical, [`NONE`] if unmapped.
    map: Vec<u32>,
    mapped: u32,
    /// Physical to the logical page that was written there last: valid if that is still there.
    owner: Vec<u32>,
    units: Units,
    free: VecDeque<u32>,
    host: Vec<Frontier>,
    /// Frontiers of copied pages: one, or one a stream, or none.
    collected: Vec<Frontier>,
    counts: FlashCounts,
    /// Pages the host has written; the model's clock.
    now: u64,
}

impl Flash {
    pub fn new(c: &Config) -> Result<Self, GeometryError> {
        let (units, unit) = check(c)?;
        let physical = units * unit as usize;
        let collected = match c.destination {
            Destination::Shared => 1,
            Destination::Stream => c.streams,
            Destination::Host => 0,
        };
        Ok(Self {
            config: *c,
            unit,
            reserve: reserve(c) as usize,
            map: vec![NONE; c.pages as usize],
            mapped: 0,
            owner: vec![NONE; physical],
            units: Units::new(units, unit),
            free: (0..units as u32).collect(),
            host: vec![Frontier::CLOSED; c.streams],
            collected: vec![Frontier::CLOSED; collected],
            counts: FlashCounts {
                host: vec![0; c.streams],
                gc: vec![0; c.streams],
                mixed: 0,
                erases: 0,
            },
            now: 0,
        })
    }

    /// Another stream, numbered after the others, if there are units for it.
    pub(crate) fn add_stream(&mut self) -> Result<(), GeometryError> {
        let streams = self.config.streams + 1;
        check(&Config {
            streams,
            ..self.config
        })?;
        self.config.streams = streams;
        self.host.push(Frontier::CLOSED);
        self.counts.host.push(0);
        self.counts.gc.push(0);
        match self.config.destination {
            Destination::Stream => self.collected.push(Frontier::CLOSED),
            Destination::Host => {}
            Destination::Shared => {
                // The unit that was the first stream's is everybody's from now on.
                let Frontier { next, end } = self.collected[0];
                if streams == 2 && next < end {
                    self.units.set_stream(next / self.unit, MIXED);
                }
            }
        }
        Ok(())
    }

    /// Logical pages.
    pub fn pages(&self) -> u32 {
        self.map.len() as u32
    }

    pub fn counts(&self) -> &FlashCounts {
        &self.counts
    }

    pub fn wear(&self) -> Wear {
        self.units.wear()
    }

    /// Logical pages without data: never written, or trimmed.
    pub fn unmapped(&self) -> u32 {
        self.pages() - self.mapped
    }

    /// The physical page that has the data of a logical one.
    pub fn at(&self, page: u32) -> Option<u32> {
        let at = self.map[page as usize];
        (at != NONE).then_some(at)
    }

    /// The host writes a page of a stream, counted from 0.
    pub fn write(&mut self, page: u32, stream: usize) {
        self.now += 1;
        self.counts.host[stream] += 1;
        self.trim(page);
        self.mapped += 1;
        if self.host[stream].next == self.host[stream].end {
            self.make_room();
            // It may have been opened for copies.
            if self.host[stream].next == self.host[stream].end {
                self.host[stream] = self.open(stream as u8);
            }
        }
        let to = self.host[stream].next;
        self.program(page, to);
        self.host[stream].next = to + 1;
        if to + 1 == self.host[stream].end {
            self.units.close(to / self.unit);
        }
    }

    /// The host needs what is in a page no more.
    pub fn trim(&mut self, page: u32) {
        let at = std::mem::replace(&mut self.map[page as usize], NONE);
        if at != NONE {
            self.mapped -= 1;
            self.units.lose_page(at / self.unit, self.now);
        }
    }

    #[inline]
    fn program(&mut self, page: u32, to: u32) {
        self.map[page as usize] = to;
        self.owner[to as usize] = page;
        self.units.gain_page(to / self.unit);
    }

    fn open(&mut self, stream: u8) -> Frontier {
        let unit = self.free.pop_front().expect("make_room() leaves free units");
        self.units.open(unit, stream, self.now);
        Frontier {
            next: unit * self.unit,
            end: (unit + 1) * self.unit,
        }
    }

    /// Collects until the host may take a unit and enough are left, one at least to copy to.
    fn make_room(&mut self) {
        while self.free.len() < self.reserve {
            let victim = match self.config.gc {
                Gc::Greedy => self.units.fewest_valid(),
                Gc::CostBenefit => self.units.best_value(self.now),
            };
            self.collect(victim);
        }
    }

    fn collect(&mut self, victim: u32) {
        let origin = self.units.stream(victim);
        let (frontier, stream) = match self.config.destination {
            Destination::Shared if self.host.len() > 1 => (0, MIXED),
            _ => (origin as usize, origin),
        };
        let among_hosts = self.config.destination == Destination::Host;
        let count = self.counts.gc.get_mut(origin as usize);
        *count.unwrap_or(&mut self.counts.mixed) += u64::from(self.units.valid(victim));
        self.units.take(victim);

        for from in victim * self.unit..(victim + 1) * self.unit {
            let page = self.owner[from as usize];
            if self.map[page as usize] != from {
                continue;
            }
            let mut open = self.copies(among_hosts)[frontier];
            if open.next == open.end {
                open = self.open(stream);
            }
            let to = open.next;
            self.program(page, to);
            open.next = to + 1;
            if open.next == open.end {
                self.units.close(to / self.unit);
            }
            self.copies(among_hosts)[frontier] = open;
        }
        self.units.erase(victim);
        self.counts.erases += 1;
        self.free.push_back(victim);
    }

    /// The frontiers that copied pages go to.
    #[inline]
    fn copies(&mut self, among_hosts: bool) -> &mut [Frontier] {
        match among_hosts {
            true => &mut self.host,
            false => &mut self.collected,
        }
    }
}

/// Bytes of memory that such a drive takes.
pub fn bytes(c: &Config) -> u64 {
    let units = units(c);
    let physical = units * c.unit;
    c.pages * 4 + physical * 4 + units * Units::BYTES + c.unit * 4
}

/// Whether there can be such a drive: units, and pages of a unit.
pub fn check(c: &Config) -> Result<(usize, u32), GeometryError> {
    if c.pages == 0 {
        return Err(GeometryError::Empty);
    }
    if c.unit < 2 || c.unit >= 1 << 31 {
        return Err(GeometryError::Unit(c.unit));
    }
    if !(c.op > 0.0 && c.op <= 10.0) {
        return Err(GeometryError::Op(c.op));
    }
    if c.streams == 0 || c.streams > usize::from(MIXED) {
        return Err(GeometryError::Streams(c.streams));
    }
    if !(0.0..1.0).contains(&c.keep_free) {
        return Err(GeometryError::KeepFree(c.keep_free));
    }
    let units = units(c);
    let needed = spare_units(c.streams, c.destination);
    let spare = spare(c);
    if spare < needed {
        return Err(GeometryError::Spare {
            streams: c.streams,
            needed,
            spare,
            units,
        });
    }
    // Of those that must be there, one is free.
    let (keep, room) = (reserve(c), spare - needed + 2);
    if keep > room {
        return Err(GeometryError::Reserve {
            keep,
            room,
            streams: c.streams,
            units,
        });
    }
    if units * c.unit >= u64::from(NONE) {
        return Err(GeometryError::TooLarge(units * c.unit));
    }
    Ok((units as usize, c.unit as u32))
}

fn units(c: &Config) -> u64 {
    (c.pages as f64 * (1.0 + c.op) / c.unit as f64).round() as u64
}

/// Units that garbage collection makes free before the host opens one.
fn reserve(c: &Config) -> u64 {
    ((units(c) as f64 * c.keep_free).round() as u64).max(2)
}

/// Units that are left when all logical pages are valid and packed.
pub fn spare(c: &Config) -> u64 {
    units(c).saturating_sub(c.pages.div_ceil(c.unit))
}

/// Units that must be there beyond the logical pages, so that there always is a
/// victim with an invalid page: the open ones and a free one.
pub fn spare_units(streams: usize, destination: Destination) -> u64 {
    match destination {
        Destination::Host => streams as u64 + 1,
        Destination::Shared | Destination::Stream => open_units(streams as u64, destination.into()),
    }
}

#[cfg(test)]
mod tests;

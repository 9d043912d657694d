// SPDX-License-Identifier: GPL-2.0-or-later
//! The erase units, and the choice of a victim.
//!
//! Full units hang in circles by their number of valid pages, so that a unit with
//! the fewest is found, and moved when it loses a page, in constant time.

use super::{Wear, NONE};

#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    valid: u32,
    erases: u32,
    /// Of a full one: the neighbours in the circle of those with as many valid pages.
    next: u32,
    prev: u32,
    /// When a page was invalidated last, or the unit was opened.
    modified: u64,
    stream: u8,
    /// In a circle: it may become a victim.
    full: bool,
}

#[derive(Debug)]
pub(super) struct Units {
    unit: Vec<Unit>,
    /// The full unit that has had this number of valid pages for longest.
    head: Vec<u32>,
    /// No full unit has fewer valid pages.
    lowest: u32,
    pages: u32,
}

impl Units {
    pub(super) fn new(units: usize, pages: u32) -> Self {
        Self {
            unit: vec![Unit::default(); units],
            head: vec![NONE; pages as usize + 1],
            lowest: pages,
            pages,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.unit.len()
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.unit.capacity() * size_of::<Unit>() + self.head.capacity() * size_of::<u32>()
    }

    /// Of each unit.
    pub(super) const BYTES: u64 = size_of::<Unit>() as u64;

    pub(super) fn set_stream(&mut self, unit: u32, stream: u8) {
        self.unit[unit as usize].stream = stream;
    }

    pub(super) fn valid(&self, unit: u32) -> u32 {
        self.unit[unit as usize].valid
    }

    pub(super) fn stream(&self, unit: u32) -> u8 {
        self.unit[unit as usize].stream
    }

    pub(super) fn open(&mut self, unit: u32, stream: u8, now: u64) {
        let u = &mut self.unit[unit as usize];
        u.stream = stream;
        u.modified = now;
    }

    #[inline]
    pub(super) fn gain_page(&mut self, unit: u32) {
        self.unit[unit as usize].valid += 1;
    }

    #[inline]
    pub(super) fn lose_page(&mut self, unit: u32, now: u64) {
        let u = &mut self.unit[unit as usize];
        u.modified = now;
        if u.full {
            self.unlink(unit);
            self.unit[unit as usize].valid -= 1;
            self.link(unit);
        } else {
            u.valid -= 1;
        }
    }

    /// The unit is full.
    pub(super) fn close(&mut self, unit: u32) {
        self.unit[unit as usize].full = true;
        self.link(unit);
    }

    /// The unit is a victim: it leaves its circle.
    pub(super) fn take(&mut self, unit: u32) {
        self.unlink(unit);
        self.unit[unit as usize].full = false;
    }

    pub(super) fn erase(&mut self, unit: u32) {
        let u = &mut self.unit[unit as usize];
        u.valid = 0;
        u.erases += 1;
    }

    pub(super) fn fewest_valid(&mut self) -> u32 {
        while self.head[self.lowest as usize] == NONE {
            self.lowest += 1;
        }
        self.head[self.lowest as usize]
    }

    pub(super) fn best_value(&self, now: u64) -> u32 {
        let mut best = (-1.0, NONE);
        for (n, u) in self.unit.iter().enumerate().filter(|(_, u)| u.full) {
            // An empty unit, which costs nothing, comes before all others.
            let valid = f64::from(u.valid).max(1e-6);
            let invalid = f64::from(self.pages) - valid;
            let value = (now - u.modified + 1) as f64 * invalid / (2.0 * valid);
            if value > best.0 {
                best = (value, n as u32);
            }
        }
        best.1
    }

    pub(super) fn wear(&self) -> Wear {
        let erases = || self.unit.iter().map(|u| u.erases);
        let count = self.unit.len() as f64;
        let mean = erases().map(f64::from).sum::<f64>() / count;
        let variance = erases().map(|e| (f64::from(e) - mean).powi(2)).sum::<f64>() / count;
        Wear {
            min: erases().min().unwrap_or(0),
            max: erases().max().unwrap_or(0),
            mean,
            deviation: variance.sqrt(),
        }
    }

    /// Last in the circle, so that of equals the one that waits longest is taken.
    #[inline]
    fn link(&mut self, unit: u32) {
        let valid = self.unit[unit as usize].valid;
        let head = self.head[valid as usize];
        let (next, prev) = if head == NONE {
            self.head[valid as usize] = unit;
            (unit, unit)
        } else {
            (head, self.unit[head as usize].prev)
        };
        self.unit[prev as usize].next = unit;
        self.unit[next as usize].prev = unit;
        self.unit[unit as usize].next = next;
        self.unit[unit as usize].prev = prev;
        self.lowest = self.lowest.min(valid);
    }

    #[inline]
    fn unlink(&mut self, unit: u32) {
        let Unit {
            next, prev, valid, ..
        } = self.unit[unit as usize];
        self.unit[prev as usize].next = next;
        self.unit[next as usize].prev = prev;
        if self.head[valid as usize] == unit {
            self.head[valid as usize] = if next == unit { NONE } else { next };
        }
    }
}

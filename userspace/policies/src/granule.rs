// SPDX-License-Identifier: GPL-2.0-or-later
//! Which discards the target sends to a device, in sectors.

use std::ops::Range;

/// `struct dsm_granule`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granule {
    unit: u32,
    align: u32,
    shift: u32,
    max: u32,
}

/// `struct dsm_discard_limits`
#[repr(C)]
struct Limits {
    block: u32,
    granularity: u32,
    first: u32,
    max: u32,
    start: u64,
}

// As in shim/sizes.c.
const _: () = assert!(size_of::<Granule>() == 16 && size_of::<Limits>() == 24);

extern "C" {
    fn dsm_granule(limits: *const Limits, granularity: u32, alignment: u32) -> Granule;
    fn dsm_granule_cut(granule: *const Granule, base: u64, start: *mut u64, end: *mut u64);
}

impl Granule {
    /// Of a whole disk with logical blocks of `block` bytes, by the features
    /// `discard_granularity` and `discard_alignment`.
    pub fn new(block: u32, granularity: u32, alignment: u32) -> Self {
        let limits = Limits {
            block,
            granularity: block,
            first: 0,
            max: u32::MAX,
            start: 0,
        };
        // SAFETY: the function reads the structure, and keeps no pointer.
        unsafe { dsm_granule(&raw const limits, granularity, alignment) }
    }

    /// The length of a discard is a multiple of it.
    pub fn unit(&self) -> u64 {
        u64::from(self.unit)
    }

    /// The part of a run that may be discarded; empty if there is none.
    pub fn cut(&self, run: Range<u64>) -> Range<u64> {
        let Range { mut start, mut end } = run;
        // SAFETY: the function reads the structure, writes both numbers, and keeps no pointer.
        unsafe { dsm_granule_cut(self, 0, &raw mut start, &raw mut end) };
        start..end.max(start)
    }
}

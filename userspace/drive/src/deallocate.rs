// SPDX-License-Identifier: GPL-2.0-or-later
//! What an NVMe namespace says of discards: by Identify Namespace.

use serde::Serialize;

use dm::bytes;

const NSZE: usize = 0;
const NCAP: usize = 8;
const NUSE: usize = 16;
const NSFEAT: usize = 24;
/// NPWG to NOWS are valid.
const OPTPERF: u8 = 1 << 4;
const FLBAS: usize = 26;
const DLFEAT: usize = 33;
const NPDG: usize = 68;
const NPDA: usize = 70;
const LBAF: usize = 128;
const LBAF_SIZE: usize = 4;
const LBADS: usize = 2;

/// What reads of a deallocated block give, as the drive promises (DLFEAT, bits 2:0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    Nothing,
    Zeroes,
    Ones,
}

/// Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Deallocate {
    pub block: u64,
    pub size: u64,
    pub capacity: u64,
    /// NUSE: what is allocated; some drives always say the capacity.
    pub used: u64,
    pub promise: Promise,
    /// Write Zeroes with the Deallocate bit (DLFEAT, bit 3).
    pub write_zeroes: bool,
    /// NPDG and NPDA: a length and an alignment that the drive prefers.
    pub granularity: Option<u64>,
    pub alignment: Option<u64>,
}

/// `None`: this is no data of Identify Namespace.
pub fn parse(data: &[u8]) -> Option<Deallocate> {
    let count = |at| Some(u64::from_le_bytes(bytes::at(data, at)?));
    // Bits 3:0 and 6:5 of FLBAS are the number of the format.
    let flbas = usize::from(*data.get(FLBAS)?);
    let format = (flbas & 0xf) | ((flbas >> 1) & 0x30);
    let shift = u32::from(*data.get(LBAF + format * LBAF_SIZE + LBADS)?);
    let block = (9..=16).contains(&shift).then(|| 1 << shift)?;
    let preferred = |at| {
        // Counted from 0.
        let blocks = u64::from(u16::from_le_bytes(bytes::at(data, at)?)) + 1;
        (data.get(NSFEAT)? & OPTPERF != 0).then(|| blocks * block)
    };
    let dlfeat = *data.get(DLFEAT)?;
    Some(Deallocate {
        block,
        size: count(NSZE)?.saturating_mul(block),
        capacity: count(NCAP)?.saturating_mul(block),
        used: count(NUSE)?.saturating_mul(block),
        promise: match dlfeat & 7 {
            1 => Promise::Zeroes,
            2 => Promise::Ones,
            _ => Promise::Nothing,
        },
        write_zeroes: dlfeat & 8 != 0,
        granularity: preferred(NPDG),
        alignment: preferred(NPDA),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The PM9D3 whose figures are public, after a first write.
    #[test]
    fn a_drive_that_prefers_128_kib() {
        let mut data = vec![0u8; 4096];
        data[NCAP..NCAP + 4].copy_from_slice(&0x36b9_d996_u32.to_le_bytes());
        data[NSZE..NSZE + 4].copy_from_slice(&0x36b9_d996_u32.to_le_bytes());
        (data[NUSE], data[NSFEAT], data[DLFEAT], data[NPDG]) = (8, 0x10, 9, 31);
        data[FLBAS] = 1;
        data[LBAF + 4 + 2] = 12;
        let found = parse(&data).unwrap();
        assert_eq!((found.block, found.used), (4096, 32 << 10));
        assert_eq!(found.capacity, 0x36b9_d996 << 12);
        assert_eq!((found.promise, found.write_zeroes), (Promise::Zeroes, true));
        assert_eq!(
            (found.granularity, found.alignment),
            (Some(128 << 10), Some(4096))
        );

        data[NSFEAT] = 0;
        assert_eq!(parse(&data).unwrap().granularity, None, "not valid");
        data[DLFEAT] = 2;
        assert_eq!(parse(&data).unwrap().promise, Promise::Ones);
        data[DLFEAT] = 0;
        assert_eq!(parse(&data).unwrap().promise, Promise::Nothing);
        // Format 17: its upper bits are 6:5.
        data[FLBAS] = 0x21;
        assert_eq!(parse(&data), None, "blocks of no size");
        data[LBAF + 17 * 4 + 2] = 9;
        assert_eq!(parse(&data).unwrap().block, 512);
        assert_eq!(parse(&data[..100]), None);
    }
}

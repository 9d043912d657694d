// SPDX-License-Identifier: GPL-2.0-or-later
//! Databases of few bytes that would take a reader's time or memory, as who owns a data
//! directory can write them.  A block's checksum covers 64 bytes if its owner likes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::cookie::{hex, packed};

const UNIT: u64 = 4096;
const HEADER: usize = 40;
const COVERED: usize = 64;
const LIST: u8 = 1;
const INTERNAL: u8 = 6;
const LEAF: u8 = 7;
/// The address of nothing.
const NOTHING: [u8; 3] = [0x80; 3];
/// Apparent bytes of sparse files.
const SPARSE: u64 = 8 << 40;

/// The blocks of a file, one after the other.
struct Blocks {
    file: File,
    end: u64,
}

impl Blocks {
    fn create(path: &Path) -> Self {
        Self {
            file: File::create(path).unwrap(),
            end: UNIT,
        }
    }

    /// Returns its address.  `count`: cells, or bytes of data.
    fn add(&mut self, kind: u8, count: usize, body: &[u8]) -> Vec<u8> {
        let length = HEADER + body.len();
        let size = (length as u64).next_multiple_of(UNIT);
        let mut block = vec![0; size as usize];
        let mut number = |at: usize, n: usize| block[at..at + 4].copy_from_slice(&(n as u32).to_le_bytes());
        number(16, length);
        number(20, count);
        number(28, size as usize);
        block[24] = kind;
        block[HEADER..length].copy_from_slice(body);
        let checksum = crc32c::crc32c(&block[..COVERED]);
        block[32..36].copy_from_slice(&checksum.to_le_bytes());
        self.file.write_all_at(&block, self.end).unwrap();
        let numbers = [self.end / UNIT - 1, size / UNIT, checksum.into()];
        self.end += size;
        numbers.into_iter().flat_map(packed).collect()
    }

    /// An internal page that has a child so often.
    fn above(&mut self, child: &[u8], times: usize) -> Vec<u8> {
        let cell = [&[0x10][..], &packed(child.len() as u64), child].concat();
        self.add(INTERNAL, times, &cell.repeat(times))
    }

    fn leaf(&mut self, entries: &[(String, String)]) -> Vec<u8> {
        // Beyond 63 bytes the length less 64 follows.
        let cell = |kind: [u8; 2], text: &str| match text.len() {
            n @ ..64 => [&[kind[0] | ((n as u8) << 2)][..], text.as_bytes()].concat(),
            n => [&[kind[1]][..], &packed(n as u64 - 64), text.as_bytes()].concat(),
        };
        let cells = |(key, value): &(String, String)| [cell([1, 0x50], key), cell([3, 0x80], value)].concat();
        let body: Vec<u8> = entries.iter().flat_map(cells).collect();
        self.add(LEAF, 2 * entries.len(), &body)
    }
}

fn checkpoint(root: &[u8], avail: &[u8], size: u64) -> String {
    let size = packed(size);
    let cookie = [&[1][..], root, &NOTHING, avail, &NOTHING, &size, &size].concat();
    let addr = hex(&cookie);
    format!(
        "allocation_size=4KB,checkpoint=(WiredTigerCheckpoint.1=(addr=\"{addr}\",order=1,run_write_gen=1))"
    )
}

/// A turtle of WiredTiger 11.3, whose metadata begins at `root`.
fn turtle(dir: &Path, root: &[u8]) {
    let text = format!(
        "WiredTiger version\nmajor=11,minor=3,patch=1\nfile:WiredTiger.wt\n{}\n",
        checkpoint(root, &NOTHING, 1 << 30)
    );
    fs::write(dir.join("WiredTiger.turtle"), text).unwrap();
}

fn metadata(dir: &Path) -> Blocks {
    Blocks::create(&dir.join("WiredTiger.wt"))
}

/// The entry of a file, and that by which a database is mongod's.
fn entries(names: impl Iterator<Item = String>, value: &str) -> Vec<(String, String)> {
    let catalog = ("file:_mdb_catalog.wt".to_owned(), String::new());
    let named = names.map(|name| (format!("file:{name}"), value.to_owned()));
    std::iter::once(catalog).chain(named).collect()
}

/// 15 pages on top of each other, each with the one below 300 times: 300^15 visits, of 60 KiB.
pub fn visits(dir: &Path) {
    let mut blocks = metadata(dir);
    let mut root = NOTHING.to_vec();
    for _ in 0..15 {
        root = blocks.above(&root, 300);
    }
    blocks.file.set_len(SPARSE).unwrap();
    turtle(dir, &root);
}

/// A leaf with the names of 3,000 files, 250^3 times.
pub fn names(dir: &Path) {
    let mut blocks = metadata(dir);
    let all = entries(
        (0..3000).map(|n| format!("x{n:06}.wt")),
        &checkpoint(&NOTHING, &NOTHING, UNIT),
    );
    let mut root = blocks.leaf(&all);
    for _ in 0..3 {
        root = blocks.above(&root, 250);
    }
    blocks.file.set_len(SPARSE).unwrap();
    turtle(dir, &root);
}

/// As many files as fit, in leaves that are all different: no name is there twice.
pub fn files(dir: &Path, leaves: usize, each: usize) {
    let mut blocks = metadata(dir);
    let children = (0..leaves).map(|leaf| {
        // The first of a leaf has it all; the others a number in place of the last bytes.
        let name = |n: usize| format!("{}{leaf:04}{n:05}.wt", "x".repeat(240));
        let mut body = Vec::new();
        for n in 0..each {
            let key = format!("file:{}", name(n));
            let shared = if n == 0 { 0 } else { key.len() - 8 };
            let rest = &key.as_bytes()[shared..];
            match n {
                0 => body.extend([&[0x50][..], &packed(rest.len() as u64 - 64), rest].concat()),
                _ => body.extend([&[2 | ((rest.len() as u8) << 2), shared as u8][..], rest].concat()),
            }
        }
        blocks.add(LEAF, each, &body)
    });
    let children: Vec<Vec<u8>> = children.collect();
    let cell = |child: &Vec<u8>| [&[0x10][..], &packed(child.len() as u64), child].concat();
    let body: Vec<u8> = children.iter().flat_map(cell).collect();
    let root = blocks.add(INTERNAL, leaves, &body);
    turtle(dir, &root);
}

/// A list of free blocks of so many bytes, and a checkpoint that has it.
fn list(path: &Path, bytes: usize) -> String {
    let mut data = [packed(71002), packed(0)].concat();
    let mut at = UNIT;
    while data.len() + 32 < bytes {
        data.extend(packed(at));
        data.extend(packed(UNIT));
        at += 2 * UNIT;
    }
    data.extend([packed(0), packed(1)].concat());
    let mut blocks = Blocks::create(path);
    let avail = blocks.add(LIST, data.len(), &data);
    checkpoint(&NOTHING, &avail, 1 << 60)
}

/// A file with a list of so many bytes, whose entry is there 300 times.
pub fn twins(dir: &Path, bytes: usize) {
    let value = list(&dir.join("l.wt"), bytes);
    let all = entries(std::iter::repeat_n("l.wt".to_owned(), 300), &value);
    let root = metadata(dir).leaf(&all);
    turtle(dir, &root);
}

/// The same, of 300 names, which are links to it.
pub fn links(dir: &Path, bytes: usize) {
    let name = |n: usize| format!("l{n:03}.wt");
    let value = list(&dir.join(name(0)), bytes);
    (1..300).for_each(|n| fs::hard_link(dir.join(name(0)), dir.join(name(n))).unwrap());
    let root = metadata(dir).leaf(&entries((0..300).map(name), &value));
    turtle(dir, &root);
}

/// A list of which the file has the first page.
pub fn hole(dir: &Path, bytes: usize) {
    let value = list(&dir.join("l.wt"), bytes);
    let file = File::options().write(true).open(dir.join("l.wt")).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(2 * UNIT).unwrap();
    file.set_len(size).unwrap();
    let root = metadata(dir).leaf(&entries(std::iter::once("l.wt".to_owned()), &value));
    turtle(dir, &root);
}

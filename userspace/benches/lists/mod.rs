// SPDX-License-Identifier: GPL-2.0-or-later
//! What it costs to read WiredTiger's lists: of 1,000 files that a checkpoint has
//! changed, and of 10 among 1,000, by one who has read the checkpoint before.
//!
//! The files are copies of one that WiredTiger has made (tests/avail); the metadata
//! that names them is written here, with three entries a file and pages of 32 KiB, as
//! WiredTiger has them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dsm::dbpath::avail::{Cookie, Reader};
use dsm::dbpath::walk::Root;

const FILES: usize = 1000;
const UNIT: usize = 4096;
/// Entries of a leaf.
const ENTRIES: usize = 28;
const TIMES: usize = 50;

fn pack(n: usize) -> Vec<u8> {
    match n {
        0..=63 => vec![0x80 | n as u8],
        64..=8255 => vec![0xc0 | ((n - 64) >> 8) as u8, (n - 64) as u8],
        _ => [&[0xe8], &(n as u64 - 8256).to_be_bytes()[..]].concat(),
    }
}

fn key(text: &[u8]) -> Vec<u8> {
    [&[((text.len() << 2) | 1) as u8], text].concat()
}

fn value(text: &[u8]) -> Vec<u8> {
    [&[0x80], &pack(text.len() - 64)[..], text].concat()
}

/// The metadata file while it is written.
struct Metadata(Vec<u8>);

impl Metadata {
    /// Writes a page; its address.
    fn page(&mut self, kind: u8, cells: &[Vec<u8>]) -> Vec<u8> {
        let body = cells.concat();
        let mut page = vec![0; (40 + body.len()).next_multiple_of(UNIT)];
        let size = page.len();
        page[16..20].copy_from_slice(&(40 + body.len() as u32).to_le_bytes());
        page[20..24].copy_from_slice(&(cells.len() as u32).to_le_bytes());
        page[24] = kind;
        page[28..32].copy_from_slice(&(size as u32).to_le_bytes());
        page[36] = 1;
        page[40..40 + body.len()].copy_from_slice(&body);
        let checksum = crc32c::crc32c(&page);
        page[32..36].copy_from_slice(&checksum.to_le_bytes());
        let at = self.0.len() / UNIT;
        self.0.extend(page);
        [pack(at - 1), pack(size / UNIT), pack(checksum as usize)].concat()
    }
}

/// A leaf of the metadata: its cells, and where it is.
struct Leaf {
    cells: Vec<Vec<u8>>,
    addr: Vec<u8>,
}

/// A database of so many files, all like that of the tests.
struct Database {
    dir: PathBuf,
    turtle: String,
    metadata: Metadata,
    leaves: Vec<Leaf>,
    order: u64,
}

/// What the tests' database says of a file.
fn config_of(made: &Path, key: &[u8]) -> Vec<u8> {
    let all = fs::read(made.join("WiredTiger.wt")).unwrap();
    let at = all.windows(key.len()).rposition(|w| w == key).unwrap() + key.len();
    let config = all[at..].iter().position(|b| *b == b'a').unwrap() + at;
    let end = all[config..].iter().position(|b| *b == 0).unwrap() + config;
    all[config..=end].to_vec()
}

impl Database {
    fn make(dir: &Path) -> Self {
        let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/avail/11.3.1");
        let config = config_of(&made, b"file:index-1-1.wt\0");
        let name = |n: usize| format!("collection-{n:04}-1.wt");
        for n in 0..FILES {
            fs::copy(made.join("index-1-1.wt"), dir.join(name(n))).unwrap();
        }
        fs::write(dir.join("WiredTiger.wt"), [0; UNIT]).unwrap();
        let mut cells = Vec::new();
        for kind in ["colgroup:", "file:", "table:"] {
            for n in 0..FILES {
                cells.push(key(format!("{kind}{}\0", name(n)).as_bytes()));
                cells.push(value(&config));
            }
        }
        let leaf = |some: &[Vec<u8>]| Leaf {
            cells: some.to_vec(),
            addr: Vec::new(),
        };
        let mut database = Self {
            dir: dir.to_owned(),
            turtle: fs::read_to_string(made.join("WiredTiger.turtle")).unwrap(),
            metadata: Metadata(vec![0; UNIT]),
            leaves: cells.chunks(2 * ENTRIES).map(leaf).collect(),
            order: 1000,
        };
        database.checkpoint(1);
        database
    }

    /// Writes the leaves of every `nth` file anew, and what leads to them.
    fn checkpoint(&mut self, nth: usize) {
        let written = self.metadata.0.len();
        for (number, leaf) in self.leaves.iter_mut().enumerate() {
            let mut entries = number * ENTRIES..(number + 1) * ENTRIES;
            let changed = |n: usize| (FILES..2 * FILES).contains(&n) && n % nth == nth - 1;
            if leaf.addr.is_empty() || entries.any(changed) {
                leaf.addr = self.metadata.page(7, &leaf.cells);
            }
        }
        let mut children = Vec::new();
        for (n, leaf) in self.leaves.iter().enumerate() {
            children.push(key(format!("{n:04}").as_bytes()));
            children.push([&[0x30], &pack(leaf.addr.len())[..], &leaf.addr].concat());
        }
        let root = self.metadata.page(6, &children);
        let size = pack(self.metadata.0.len());
        let cookie = [vec![1], root, vec![0x80; 9], size, pack(0)].concat();
        let hex = cookie
            .iter()
            .fold(String::new(), |hex, b| hex + &format!("{b:02x}"));
        Cookie::parse(&hex, UNIT as u32).unwrap();
        self.order += 1;
        let turtle = replaced(&self.turtle, "addr=\"", '"', &hex);
        let turtle = replaced(&turtle, "order=", ',', &self.order.to_string());
        let file = File::options().append(true).open(self.dir.join("WiredTiger.wt"));
        file.unwrap().write_all(&self.metadata.0[written..]).unwrap();
        fs::write(self.dir.join("WiredTiger.turtle"), turtle).unwrap();
    }
}

/// With another value behind the last `key`.
fn replaced(text: &str, key: &str, end: char, value: &str) -> String {
    let begin = text.rfind(key).unwrap() + key.len();
    let end = begin + text[begin..].find(end).unwrap();
    format!("{}{value}{}", &text[..begin], &text[end..])
}

/// The shortest and the middle one of many looks, each after a checkpoint, at the lists
/// of every `nth` file.
fn time(database: &mut Database, nth: usize) -> (Duration, Duration) {
    let root = Root::open(&database.dir).unwrap();
    let mut reader = Reader::default();
    let mut look = || {
        let (begin, mut n) = (Instant::now(), 0);
        let (snapshot, lists) = reader
            .read(&root, &mut |_| {
                n += 1;
                n % nth == 0
            })
            .unwrap();
        let took = begin.elapsed();
        let read = lists.iter().flatten().filter(|l| l.as_ref().unwrap().bytes() > 0);
        assert_eq!((snapshot.files.len(), read.count()), (FILES, FILES / nth));
        took
    };
    look();
    let mut took: Vec<Duration> = (0..TIMES)
        .map(|_| {
            database.checkpoint(nth);
            look()
        })
        .collect();
    took.sort_unstable();
    (took[0], took[TIMES / 2])
}

pub fn measure() -> serde_json::Value {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut database = Database::make(dir.path());
    let mut row = serde_json::Map::new();
    for lists in [FILES, FILES / 100] {
        let (least, median) = time(&mut database, FILES / lists);
        println!(
            "the lists of {lists} of {FILES} files: {:.2} ms, {:.2} ms in the median",
            1000.0 * least.as_secs_f64(),
            1000.0 * median.as_secs_f64()
        );
        row.insert(
            format!("{lists}_lists_ms"),
            (1000.0 * median.as_secs_f64()).into(),
        );
    }
    row.into()
}

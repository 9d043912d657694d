// SPDX-License-Identifier: GPL-2.0-or-later
//! What it costs to read WiredTiger's lists: of 1,000 files that a checkpoint has
//! changed, and of 10 among 1,000.
//!
//! The files are copies of one that WiredTiger has made (tests/avail); the metadata
//! that names them is written here.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use dsm::dbpath::avail::{self, Cookie};
use dsm::dbpath::walk::Root;

const FILES: usize = 1000;
const UNIT: usize = 4096;
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

/// A database of so many files, all like that of the tests.
fn make(dir: &Path) {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/avail/11.3.1");
    let turtle = fs::read_to_string(made.join("WiredTiger.turtle")).unwrap();
    let all = fs::read(made.join("WiredTiger.wt")).unwrap();
    let begin = b"file:index-1-1.wt\0";
    let at = all.windows(begin.len()).rposition(|w| w == begin).unwrap() + begin.len();
    let config = all[at..].iter().position(|b| *b == b'a').unwrap() + at;
    let end = all[config..].iter().position(|b| *b == 0).unwrap() + config;
    let config = &all[config..=end];

    let mut metadata = Metadata(vec![0; UNIT]);
    let mut children = Vec::new();
    let mut cells = Vec::new();
    for n in 0..FILES {
        let name = format!("collection-{n:04}-1.wt");
        fs::copy(made.join("index-1-1.wt"), dir.join(&name)).unwrap();
        cells.push(key(format!("file:{name}\0").as_bytes()));
        cells.push(value(config));
        if cells.len() == 50 || n + 1 == FILES {
            let addr = metadata.page(7, &std::mem::take(&mut cells));
            children.push(key(format!("{n:04}").as_bytes()));
            children.push([&[0x30], &pack(addr.len())[..], &addr].concat());
        }
    }
    let root = metadata.page(6, &children);
    let cookie = [vec![1], root, vec![0x80; 9], pack(metadata.0.len()), pack(0)].concat();
    let hex = cookie
        .iter()
        .fold(String::new(), |hex, b| hex + &format!("{b:02x}"));
    Cookie::parse(&hex, UNIT as u32).unwrap();
    let old = turtle.rfind("addr=\"").unwrap() + 6;
    let end = old + turtle[old..].find('"').unwrap();
    let turtle = format!("{}{hex}{}", &turtle[..old], &turtle[end..]);
    fs::write(dir.join("WiredTiger.turtle"), turtle).unwrap();
    fs::write(dir.join("WiredTiger.wt"), metadata.0).unwrap();
}

/// The shortest and the middle one of many looks at the lists of every `nth` file.
fn time(root: &Root, nth: usize) -> (Duration, Duration) {
    let mut took: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let (begin, mut n) = (Instant::now(), 0);
            let (snapshot, lists) = avail::read(root, &mut |_| {
                n += 1;
                n % nth == 0
            })
            .unwrap();
            let took = begin.elapsed();
            let read = lists.iter().flatten().filter(|l| l.as_ref().unwrap().bytes() > 0);
            assert_eq!((snapshot.files.len(), read.count()), (FILES, FILES / nth));
            took
        })
        .collect();
    took.sort_unstable();
    (took[0], took[TIMES / 2])
}

pub fn measure() -> serde_json::Value {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    make(dir.path());
    let root = Root::open(dir.path()).unwrap();
    let mut row = serde_json::Map::new();
    for lists in [FILES, FILES / 100] {
        let (least, median) = time(&root, FILES / lists);
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

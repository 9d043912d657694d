// SPDX-License-Identifier: GPL-2.0-or-later
//! Walks the tree of the metadata.
//!
//! Who owns the database may have written it: each block is visited once, so that a walk ends
//! with what is on the disk.

use std::collections::BTreeMap;

use super::cookie::Addr;
use super::page::{Block, Cell, INTERNAL, LEAF, OVERFLOW};
use super::{damaged, Refusal};

/// The metadata of a million files has four levels.
const DEPTH: u32 = 16;
/// And fewer blocks than these; where they lie is kept while they are read.
const MOST: usize = 1 << 20;

/// What becomes of a key and its value.
pub type Each<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), Refusal> + 'a;

/// Where blocks come from.
pub trait Blocks {
    fn block(&mut self, addr: &Addr) -> Result<Block, Refusal>;
}

/// Who gets what a tree has, in order.
pub(crate) trait Visit {
    /// Whether it knows what is on the page at `addr`, which is then not read.
    fn knows(&mut self, _addr: &Addr) -> Result<bool, Refusal> {
        Ok(false)
    }
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal>;
    /// The entries since the last page were those of the leaf at `addr`.
    fn leaf(&mut self, _addr: &Addr) {}
}

impl<F: FnMut(&[u8], &[u8]) -> Result<(), Refusal> + ?Sized> Visit for F {
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        self(key, value)
    }
}

/// A tree of keys and values.
pub struct Tree<'a, B> {
    pub blocks: &'a mut B,
    pub alloc: u32,
    /// Written by WiredTiger 3.
    pub old: bool,
    /// Where the blocks that were visited begin and end: they are disjoint.
    visited: BTreeMap<u64, u64>,
}

impl<'a, B: Blocks> Tree<'a, B> {
    pub fn new(blocks: &'a mut B, alloc: u32, old: bool) -> Self {
        Self {
            blocks,
            alloc,
            old,
            visited: BTreeMap::new(),
        }
    }

    /// Calls `each` with every key and value, in order.
    pub fn walk(&mut self, root: &Addr, each: &mut Each<'_>) -> Result<(), Refusal> {
        self.visit(root, each)
    }

    /// The same, but for pages that are known.
    pub(crate) fn visit(&mut self, root: &Addr, visit: &mut (impl Visit + ?Sized)) -> Result<(), Refusal> {
        self.page(root, 0, visit)
    }

    fn takes(&mut self, addr: &Addr) -> Result<(), Refusal> {
        let before = self.visited.range(..addr.end()).next_back();
        if before.is_some_and(|(_, end)| *end > addr.offset) {
            return Err(damaged(format!(
                "its tree has the block at {} twice, or a part of it",
                addr.offset
            )));
        }
        if self.visited.len() >= MOST {
            return Err(damaged(format!("its tree has more than {MOST} blocks")));
        }
        self.visited.insert(addr.offset, addr.end());
        Ok(())
    }

    fn page(&mut self, addr: &Addr, depth: u32, visit: &mut (impl Visit + ?Sized)) -> Result<(), Refusal> {
        if depth > DEPTH {
            return Err(damaged("its tree is too deep"));
        }
        self.takes(addr)?;
        if visit.knows(addr)? {
            return Ok(());
        }
        let block = self.blocks.block(addr)?;
        match block.kind() {
            INTERNAL => {
                for cell in block.cells(self.old)? {
                    if let Cell::Child(child) = cell? {
                        if let Some(child) = Addr::parse(child, self.alloc)? {
                            self.page(&child, depth + 1, visit)?;
                        }
                    }
                }
                Ok(())
            }
            LEAF => {
                self.leaf(&block, &mut |key, value| visit.entry(key, value))?;
                visit.leaf(addr);
                Ok(())
            }
            other => Err(damaged(format!("a page of type {other}"))),
        }
    }

    fn leaf(&mut self, block: &Block, each: &mut Each<'_>) -> Result<(), Refusal> {
        // The key that has no value yet, and the one that prefixes are of: keys in
        // blocks of their own are not.
        let mut key: Option<Vec<u8>> = None;
        let mut last: Vec<u8> = Vec::new();
        for cell in block.cells(self.old)? {
            match cell? {
                Cell::Key(prefix, rest) => {
                    let prefix = usize::from(prefix);
                    if prefix > last.len() {
                        return Err(damaged("a key has more of the one before than that has"));
                    }
                    last.truncate(prefix);
                    last.extend_from_slice(rest);
                    if let Some(key) = key.replace(last.clone()) {
                        each(&key, b"")?;
                    }
                }
                Cell::KeyAt(addr) => {
                    let whole = self.overflow(addr)?;
                    if let Some(key) = key.replace(whole) {
                        each(&key, b"")?;
                    }
                }
                Cell::Value(value) => {
                    let key = key.take().ok_or_else(|| damaged("a value without a key"))?;
                    each(&key, value)?;
                }
                Cell::ValueAt(addr) => {
                    let key = key.take().ok_or_else(|| damaged("a value without a key"))?;
                    let value = self.overflow(addr)?;
                    each(&key, &value)?;
                }
                Cell::Child(_) => return Err(damaged("a leaf page has pages below it")),
                Cell::Deleted => {}
            }
        }
        match key {
            Some(key) => each(&key, b""),
            None => Ok(()),
        }
    }

    fn overflow(&mut self, addr: &[u8]) -> Result<Vec<u8>, Refusal> {
        let addr = Addr::parse(addr, self.alloc)?.ok_or_else(|| damaged("an overflow without a block"))?;
        self.takes(&addr)?;
        let block = self.blocks.block(&addr)?;
        if block.kind() != OVERFLOW {
            return Err(damaged(format!("an overflow block of type {}", block.kind())));
        }
        Ok(block.data()?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::page;
    use super::*;

    /// Blocks by their place, with their kind, number of cells and body.
    struct Made(Vec<(u8, u32, Vec<u8>)>);

    impl Blocks for Made {
        fn block(&mut self, addr: &Addr) -> Result<Block, Refusal> {
            let (kind, entries, body) = &self.0[addr.offset as usize / 512 - 1];
            let (bytes, made) = page(*kind, 0, *entries, body);
            Block::check(bytes, &made)
        }
    }

    /// The address of the block with this number, of 512 bytes.
    fn addr(number: u8) -> Vec<u8> {
        vec![0x80 | number, 0x81, 0x80]
    }

    fn walk(blocks: Vec<(u8, u32, Vec<u8>)>) -> Result<Vec<(String, String)>, String> {
        let mut made = Made(blocks);
        let mut tree = Tree::new(&mut made, 512, false);
        let root = Addr {
            offset: 512,
            size: 512,
            checksum: 0,
        };
        let mut seen = Vec::new();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let done = tree.walk(&root, &mut |key, value| {
            seen.push((text(key), text(value)));
            Ok(())
        });
        done.map(|()| seen).map_err(|e| e.message)
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn keys_are_prefixes_of_the_one_before_on_the_page() {
        let mut leaf = b"\x15file:\x07x\x06\x05a\x07y".to_vec();
        // A key in a block of its own, whose bytes no prefix is of, and one without a value.
        leaf.extend([&[0x60, 0x83][..], &addr(1), b"\x07z", b"\x06\x06b"].concat());
        let overflow = b"elsewhere".to_vec();
        assert_eq!(
            walk(vec![(LEAF, 7, leaf), (OVERFLOW, 9, overflow)]).unwrap(),
            pairs(&[
                ("file:", "x"),
                ("file:a", "y"),
                ("elsewhere", "z"),
                ("file:ab", "")
            ])
        );
    }

    /// An internal page that leads to these.
    fn internal(children: &[u8]) -> (u8, u32, Vec<u8>) {
        let cells = children
            .iter()
            .map(|n| [&[0x05, b'k', 0x30, 0x83][..], &addr(*n)].concat());
        (
            INTERNAL,
            2 * children.len() as u32,
            cells.collect::<Vec<_>>().concat(),
        )
    }

    #[test]
    fn no_block_is_visited_twice() {
        let leaf = || (LEAF, 2, b"\x05a\x07b".to_vec());
        assert_eq!(
            walk(vec![internal(&[1, 2]), leaf(), leaf()]).unwrap(),
            pairs(&[("a", "b"), ("a", "b")])
        );
        let twice = |at: u32| format!("its tree has the block at {at} twice, or a part of it");
        // Itself, its own child again, and what another page leads to
        assert_eq!(walk(vec![internal(&[0])]).unwrap_err(), twice(512));
        assert_eq!(walk(vec![internal(&[1, 1]), leaf()]).unwrap_err(), twice(1024));
        let other = vec![internal(&[1, 2]), internal(&[3]), internal(&[3]), leaf()];
        assert_eq!(walk(other).unwrap_err(), twice(2048));
        // An overflow block
        let value = [&[0x05, b'k', 0xa0, 0x83][..], &addr(1)].concat();
        let twins = (LEAF, 4, [&value[..], &value].concat());
        assert_eq!(
            walk(vec![twins, (OVERFLOW, 1, b"x".to_vec())]).unwrap_err(),
            twice(1024)
        );
        // Of two units, of which the next has one
        let mut made = Made(vec![leaf()]);
        let mut tree = Tree::new(&mut made, 512, false);
        let at = |offset, size| Addr {
            offset,
            size,
            checksum: 0,
        };
        tree.takes(&at(1024, 1024)).unwrap();
        for part in [at(1536, 512), at(512, 1024), at(512, 4096), at(1024, 512)] {
            assert_eq!(tree.takes(&part).unwrap_err().message, twice(part.offset as u32));
        }
        tree.takes(&at(512, 512)).unwrap();
        tree.takes(&at(2048, 512)).unwrap();
    }

    #[test]
    fn a_tree_is_so_deep_and_no_deeper() {
        let chain = |length: u8| (1..=length).map(|n| internal(&[n])).chain([(LEAF, 0, vec![])]);
        assert_eq!(walk(chain(16).collect()), Ok(vec![]));
        assert_eq!(walk(chain(17).collect()).unwrap_err(), "its tree is too deep");
    }

    #[test]
    fn trees_that_are_refused() {
        let why = |kind, entries, body: &[u8]| walk(vec![(kind, entries, body.to_vec())]).unwrap_err();
        assert_eq!(why(9, 0, b""), "a page of type 9");
        assert_eq!(why(LEAF, 1, b"\x07b"), "a value without a key");
        assert_eq!(
            why(LEAF, 1, b"\x06\x01a"),
            "a key has more of the one before than that has"
        );
        let child = [&[0x30, 0x83][..], &addr(0)].concat();
        assert_eq!(why(LEAF, 1, &child), "a leaf page has pages below it");
        let value = [&[0x05, b'k', 0xa0, 0x83][..], &addr(1)].concat();
        assert_eq!(
            walk(vec![(LEAF, 2, value), (LEAF, 0, vec![])]).unwrap_err(),
            "an overflow block of type 7"
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Walks the tree of the metadata.

use super::cookie::Addr;
use super::page::{Block, Cell, INTERNAL, LEAF, OVERFLOW};
use super::{damaged, Refusal};

/// The metadata of a million files has four levels.
const DEPTH: u32 = 16;

/// What becomes of a key and its value.
pub type Each<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), Refusal> + 'a;

/// Where blocks come from.
pub trait Blocks {
    fn block(&mut self, addr: &Addr) -> Result<Block, Refusal>;
}

/// A tree of keys and values.
pub struct Tree<'a, B> {
    pub blocks: &'a mut B,
    pub alloc: u32,
    /// Written by WiredTiger 3.
    pub old: bool,
    /// Bytes that its blocks may have yet: they are disjoint.
    pub left: u64,
}

impl<B: Blocks> Tree<'_, B> {
    /// Calls `each` with every key and value, in order.
    pub fn walk(&mut self, root: &Addr, each: &mut Each<'_>) -> Result<(), Refusal> {
        self.page(root, 0, each)
    }

    fn block(&mut self, addr: &Addr) -> Result<Block, Refusal> {
        self.left = self
            .left
            .checked_sub(addr.size.into())
            .ok_or_else(|| damaged("its tree has more blocks than the file"))?;
        self.blocks.block(addr)
    }

    fn page(&mut self, addr: &Addr, depth: u32, each: &mut Each<'_>) -> Result<(), Refusal> {
        if depth > DEPTH {
            return Err(damaged("its tree is too deep"));
        }
        let block = self.block(addr)?;
        match block.kind() {
            INTERNAL => {
                for cell in block.cells(self.old)? {
                    if let Cell::Child(child) = cell? {
                        if let Some(child) = Addr::parse(child, self.alloc)? {
                            self.page(&child, depth + 1, each)?;
                        }
                    }
                }
                Ok(())
            }
            LEAF => self.leaf(&block, each),
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
        let block = self.block(&addr)?;
        if block.kind() != OVERFLOW {
            return Err(damaged(format!("an overflow block of type {}", block.kind())));
        }
        Ok(block.data()?.to_vec())
    }
}

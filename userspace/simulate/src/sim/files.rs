// SPDX-License-Identifier: GPL-2.0-or-later
//! The files of a trace while it is played: what a policy may know of them, and
//! which pages of the drive they have.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use glob::Pattern;

use crate::flash::PAGE;
use crate::trace::recording::UNMAPPED;
use crate::trace::FileNo;
use database::rules::Rules;
use dm::class::Class;

const NONE: u32 = u32::MAX;
/// Pages a leaf of a file's page table covers.
const LEAF: usize = 1024;

pub struct File {
    pub name: OsString,
    pub class: Class,
    /// Bytes.
    pub size: u64,
    /// The first page of the top region.
    pub boundary: Option<u32>,
    /// Pages of the drive; sparse, as files may be.
    table: Vec<Option<Box<[u32; LEAF]>>>,
}

impl File {
    /// Not what the file system writes for itself.
    pub(crate) fn is_known(&self) -> bool {
        self.name != UNMAPPED
    }

    /// Whether a page is at or above the boundary.
    pub(crate) fn is_top(&self, page: u32) -> bool {
        self.boundary.is_some_and(|b| page >= b)
    }
}

pub struct Files {
    primary: Vec<Pattern>,
    rules: Rules,
    files: Vec<File>,
    /// Pages of the drive that were given back.
    free: Vec<u32>,
    /// Pages of the drive that were ever used, which is the most that were in
    /// use at a time.
    used: u32,
    loaded: bool,
    /// The drive keeps the pages of deleted files until they are written again.
    pub keep_deleted: bool,
}

impl Files {
    /// `primary`: which index files are of class primary.
    pub fn new(primary: &[Pattern], rules: &Rules) -> Self {
        Self {
            primary: primary.to_vec(),
            rules: rules.clone(),
            files: Vec::new(),
            free: Vec::new(),
            used: 0,
            loaded: false,
            keep_deleted: false,
        }
    }

    pub fn get(&self, file: FileNo) -> &File {
        &self.files[file as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = (FileNo, &File)> {
        (0..).zip(&self.files)
    }

    /// The most pages that were in use at a time.
    pub(crate) fn most_pages(&self) -> u32 {
        self.used
    }

    pub(crate) fn set_name(&mut self, file: FileNo, name: impl AsRef<OsStr>) {
        let name = name.as_ref();
        let mut class = self.rules.classify(Path::new(name));
        if class == Class::Index && self.primary.iter().any(|p| p.matches_path(Path::new(name))) {
            class = Class::Primary;
        }
        if file as usize == self.files.len() {
            self.files.push(File {
                name: OsString::new(),
                class,
                size: 0,
                boundary: None,
                table: Vec::new(),
            });
        }
        let f = &mut self.files[file as usize];
        f.name = name.to_owned();
        f.class = class;
    }

    pub fn grow(&mut self, file: FileNo, end: u64) {
        let f = &mut self.files[file as usize];
        f.size = f.size.max(end);
    }

    /// The drive's page of a file's page, which is made if there is none.  `None`
    /// when the drive would need more than 2^32 - 2 pages.
    pub fn page(&mut self, file: FileNo, page: u32) -> Option<u32> {
        let table = &mut self.files[file as usize].table;
        let (leaf, at) = (page as usize / LEAF, page as usize % LEAF);
        if leaf >= table.len() {
            table.resize_with(leaf + 1, || None);
        }
        let slot = &mut table[leaf].get_or_insert_with(|| Box::new([NONE; LEAF]))[at];
        if *slot == NONE {
            *slot = match self.free.pop() {
                Some(page) => page,
                None if self.used == NONE - 1 => return None,
                None => {
                    self.used += 1;
                    self.used - 1
                }
            };
        }
        Some(*slot)
    }

    /// Gives back whole pages in a range of bytes; `each` is called with the
    /// drive's pages.
    pub fn discard(&mut self, file: FileNo, offset: u64, length: u64, mut each: impl FnMut(u32)) {
        let first = offset.div_ceil(PAGE) as usize;
        let end = ((offset + length) / PAGE) as usize;
        let table = &mut self.files[file as usize].table;
        let leaves = table
            .iter_mut()
            .enumerate()
            .take(end.div_ceil(LEAF))
            .skip(first / LEAF);
        for (leaf, slots) in leaves {
            let Some(slots) = slots else { continue };
            let from = first.saturating_sub(leaf * LEAF).min(LEAF);
            let to = (end - leaf * LEAF).min(LEAF);
            for slot in slots.iter_mut().take(to).skip(from).filter(|s| **s != NONE) {
                each(*slot);
                self.free.push(*slot);
                *slot = NONE;
            }
        }
    }

    /// `each` is called with the drive's pages that are discarded.
    pub fn delete(&mut self, file: FileNo, mut each: impl FnMut(u32)) {
        let pages = self.files[file as usize].table.len() as u64 * LEAF as u64;
        let keep = self.keep_deleted;
        self.discard(file, 0, pages * PAGE, |page| {
            if !keep {
                each(page);
            }
        });
        let f = &mut self.files[file as usize];
        f.size = 0;
        f.boundary = None;
        f.table = Vec::new();
    }

    /// Boundaries are the sizes at the end of the load phase.
    pub(crate) fn load_end(&mut self) {
        self.loaded = true;
        self.mark();
    }

    /// A file made later gets its boundary at its first checkpoint, as from dsmd.
    pub fn checkpoint(&mut self) {
        if self.loaded {
            self.mark();
        }
    }

    fn mark(&mut self) {
        for f in &mut self.files {
            if f.class.has_boundary() && f.boundary.is_none() && f.size > 0 {
                f.boundary = Some(f.size.div_ceil(PAGE) as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_and_go() {
        let mut f = Files::new(&[], &Rules::default());
        f.set_name(0, "a");
        f.set_name(1, "b");
        assert_eq!(
            [f.page(0, 0), f.page(1, 5000), f.page(0, 1)],
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(f.page(1, 5000), Some(1));
        let mut gone = Vec::new();
        // Only whole pages are given back.
        f.discard(0, 1, 2 * PAGE - 2, |p| gone.push(p));
        assert!(gone.is_empty());
        f.discard(0, 1, 2 * PAGE - 1, |p| gone.push(p));
        assert_eq!(gone, [2]);
        f.discard(0, 0, 1 << 44, |p| gone.push(p));
        assert_eq!(gone, [2, 0]);
        f.delete(1, |p| gone.push(p));
        assert_eq!(gone, [2, 0, 1]);
        assert_eq!([f.page(1, 7), f.page(1, 8)], [Some(1), Some(0)]);
        assert_eq!(f.most_pages(), 3);
    }

    #[test]
    fn a_drive_may_keep_what_is_deleted() {
        let mut f = Files::new(&[], &Rules::default());
        f.keep_deleted = true;
        f.set_name(0, "a");
        f.set_name(1, "b");
        assert_eq!([f.page(0, 0), f.page(0, 1)], [Some(0), Some(1)]);
        f.delete(0, |page| panic!("{page} is discarded"));
        // Another file gets the places, and what is discarded is.
        assert_eq!([f.page(1, 0), f.page(1, 1)], [Some(1), Some(0)]);
        let mut gone = Vec::new();
        f.discard(1, 0, PAGE, |p| gone.push(p));
        assert_eq!(gone, [1]);
        assert_eq!(f.most_pages(), 2);
    }

    #[test]
    fn classes_and_boundaries() {
        let mut f = Files::new(&[Pattern::new("index-1-*").unwrap()], &Rules::default());
        for (no, name) in [
            "collection-0-7.wt",
            "index-1-7.wt",
            "index-2-7.wt",
            "WiredTiger.wt",
        ]
        .into_iter()
        .enumerate()
        {
            f.set_name(no as u32, name);
            f.grow(no as u32, 4097);
        }
        let classes: Vec<Class> = f.iter().map(|(_, f)| f.class).collect();
        assert_eq!(
            classes,
            [Class::Collection, Class::Primary, Class::Index, Class::Other]
        );
        f.checkpoint();
        assert_eq!(f.get(0).boundary, None);
        f.load_end();
        f.grow(0, 9000);
        f.set_name(4, "collection-9-7.wt");
        f.grow(4, 1);
        assert_eq!(f.get(0).boundary, Some(2));
        assert!(!f.get(0).is_top(1) && f.get(0).is_top(2));
        assert_eq!(f.get(3).boundary, None);
        assert_eq!(f.get(4).boundary, None);
        f.checkpoint();
        assert_eq!(f.get(4).boundary, Some(1));
        assert_eq!(f.get(0).boundary, Some(2));
    }
}

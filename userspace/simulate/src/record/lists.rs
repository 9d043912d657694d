// SPDX-License-Identifier: GPL-2.0-or-later
//! What WiredTiger's checkpoints list as free, as far as it has changed.

use std::collections::HashMap;
use std::path::PathBuf;

use database::walk::Root;
use database::wiredtiger::avail::{self, Cookie, FileEntry, FreeList, Kind};

/// What a look has found of a file whose checkpoint is another one.
pub(super) type Change = (PathBuf, Option<FreeList>);

#[derive(Default)]
pub(super) struct RecordedLists {
    pub known: HashMap<PathBuf, Cookie>,
    /// Why none are read, or why blocks of this database cannot be discarded.
    pub refused: Option<String>,
    /// Nothing is to be read: no WiredTiger has the directory, or one that is not known.
    pub over: bool,
}

impl RecordedLists {
    /// The lists that have changed; `None`: nothing could be read this time.
    pub(super) fn look(&mut self, root: &Root) -> Option<Vec<Change>> {
        let known = &self.known;
        let changed = |f: &FileEntry| f.cookie.is_some() && f.cookie.as_ref() != known.get(&f.path);
        let (snapshot, lists) = match avail::read(root, &mut |f| changed(f)) {
            Ok(read) => read,
            Err(e) => {
                self.over = e.kind == Kind::Unsupported;
                self.refused = Some(e.message);
                return None;
            }
        };
        self.refused = snapshot.may_discard().err().map(|e| e.message);
        let mut changes = Vec::new();
        for (file, list) in snapshot.files.iter().zip(lists) {
            match (list, &file.cookie) {
                (Some(Ok(list)), Some(cookie)) => {
                    self.known.insert(file.path.clone(), cookie.clone());
                    changes.push((file.path.clone(), Some(list)));
                }
                // It is another checkpoint than the one known, and is not known.
                (Some(_), _) | (None, None) => {
                    if self.known.remove(&file.path).is_some() {
                        changes.push((file.path.clone(), None));
                    }
                }
                (None, Some(_)) => {}
            }
        }
        Some(changes)
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Which file is whose, by the server's own catalog.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dm::class::Class;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    classes: HashMap<PathBuf, Class>,
}

impl Catalog {
    /// Whether the file at `path`, relative to the dbpath, was not there yet.
    pub fn insert(&mut self, path: PathBuf, class: Class) -> bool {
        self.classes.insert(path, class).is_none()
    }

    /// The class of the file at `path`, relative to the dbpath.
    pub fn class(&self, path: &Path) -> Option<Class> {
        self.classes.get(path).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Path, Class)> {
        self.classes.iter().map(|(path, class)| (path.as_path(), *class))
    }

    pub fn len(&self) -> usize {
        self.classes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }
}

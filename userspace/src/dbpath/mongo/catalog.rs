// SPDX-License-Identifier: GPL-2.0-or-later
//! Which file is whose, by the server's own catalog.
//!
//! An ident is the path of a file in the dbpath without its `.wt`, with whatever
//! directories the server's layout has.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::kernel::class::Class;

const OPLOG: &str = "local.oplog.rs";
const ID_INDEX: &str = "_id_";
/// Before the ident in a `uri` of `collStats`.
const TABLE: &str = "statistics:table:";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    classes: HashMap<PathBuf, Class>,
}

/// A document of `$listCatalog`; a view has no ident.
#[derive(Debug, Deserialize)]
pub struct Listed {
    ns: String,
    ident: Option<String>,
    #[serde(rename = "idxIdent", default)]
    indexes: HashMap<String, String>,
}

/// The reply to `collStats`, as servers before `$listCatalog` have it.
#[derive(Debug, Deserialize)]
pub struct Stats {
    ns: String,
    #[serde(rename = "wiredTiger")]
    table: Option<Table>,
    #[serde(rename = "indexDetails", default)]
    indexes: HashMap<String, Table>,
}

#[derive(Debug, Deserialize)]
struct Table {
    uri: Option<String>,
}

impl Table {
    fn ident(&self) -> Option<&str> {
        self.uri.as_deref()?.strip_prefix(TABLE)
    }
}

impl Catalog {
    pub fn add_listed(&mut self, c: &Listed) {
        if let Some(ident) = &c.ident {
            self.add(ident, class_of_collection(&c.ns));
        }
        for (name, ident) in &c.indexes {
            self.add(ident, class_of_index(name));
        }
    }

    pub fn add_stats(&mut self, c: &Stats) {
        if let Some(ident) = c.table.as_ref().and_then(Table::ident) {
            self.add(ident, class_of_collection(&c.ns));
        }
        for (name, table) in &c.indexes {
            if let Some(ident) = table.ident() {
                self.add(ident, class_of_index(name));
            }
        }
    }

    fn add(&mut self, ident: &str, class: Class) {
        self.classes.insert(format!("{ident}.wt").into(), class);
    }

    /// The class of the file at `path`, relative to the dbpath.
    pub fn class(&self, path: &Path) -> Option<Class> {
        self.classes.get(path).copied()
    }

    pub fn len(&self) -> usize {
        self.classes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }
}

fn class_of_collection(ns: &str) -> Class {
    if ns == OPLOG {
        Class::Oplog
    } else {
        Class::Collection
    }
}

fn class_of_index(name: &str) -> Class {
    if name == ID_INDEX {
        Class::Primary
    } else {
        Class::Index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(c: &Catalog, path: &str) -> Option<Class> {
        c.class(Path::new(path))
    }

    #[test]
    fn what_list_catalog_says() {
        let mut c = Catalog::default();
        for listed in [
            json!({"db": "local", "name": "oplog.rs", "type": "collection", "ns": "local.oplog.rs",
                   "md": {"ns": "local.oplog.rs"}, "idxIdent": {}, "ident": "collection-16-77"}),
            json!({"ns": "shop.orders", "ident": "collection-7-77",
                   "idxIdent": {"_id_": "index-8-77", "when_1": "index-9-77"}}),
            json!({"ns": "shop.log", "ident": "shop/collection/1f0e-uuid",
                   "idxIdent": {"_id_": "shop/index/2f0e-uuid"}}),
            // A user's database may have a collection of that name.
            json!({"ns": "shop.oplog.rs", "ident": "collection-10-77"}),
            json!({"ns": "shop.recent", "type": "view"}),
        ] {
            c.add_listed(&serde_json::from_value(listed).unwrap());
        }
        assert_eq!(c.len(), 7);
        assert_eq!(class(&c, "collection-16-77.wt"), Some(Class::Oplog));
        assert_eq!(class(&c, "collection-7-77.wt"), Some(Class::Collection));
        assert_eq!(class(&c, "index-8-77.wt"), Some(Class::Primary));
        assert_eq!(class(&c, "index-9-77.wt"), Some(Class::Index));
        assert_eq!(class(&c, "shop/collection/1f0e-uuid.wt"), Some(Class::Collection));
        assert_eq!(class(&c, "shop/index/2f0e-uuid.wt"), Some(Class::Primary));
        assert_eq!(class(&c, "collection-10-77.wt"), Some(Class::Collection));
        assert_eq!(class(&c, "index-8-77"), None);
    }

    #[test]
    fn what_coll_stats_says() {
        let mut c = Catalog::default();
        for stats in [
            json!({"ns": "shop.orders", "wiredTiger": {"uri": "statistics:table:collection-7-77"},
                   "indexDetails": {"_id_": {"uri": "statistics:table:index-8-77"},
                                    "when_1": {"uri": "statistics:table:index-9-77"}}}),
            json!({"ns": "local.oplog.rs", "wiredTiger": {"uri": "statistics:table:local/collection-1-77"}}),
            // Another engine, and one that does not tell.
            json!({"ns": "shop.memory", "inMemory": {}, "indexDetails": {"_id_": {}}}),
            json!({"ns": "shop.lsm", "wiredTiger": {"uri": "statistics:lsm:x"}}),
        ] {
            c.add_stats(&serde_json::from_value(stats).unwrap());
        }
        assert_eq!(c.len(), 4);
        assert_eq!(class(&c, "collection-7-77.wt"), Some(Class::Collection));
        assert_eq!(class(&c, "index-8-77.wt"), Some(Class::Primary));
        assert_eq!(class(&c, "index-9-77.wt"), Some(Class::Index));
        assert_eq!(class(&c, "local/collection-1-77.wt"), Some(Class::Oplog));
    }
}

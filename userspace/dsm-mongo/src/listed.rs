// SPDX-License-Identifier: GPL-2.0-or-later
//! The forms in which servers tell which file is whose.
//!
//! An ident is the path of a file in the dbpath without its `.wt`, with whatever
//! directories the server's layout has.

use std::collections::HashMap;

use serde::Deserialize;

use dm::class::Class;
use proto::catalog::Catalog;
use proto::feed::is_path;

const OPLOG: &str = "local.oplog.rs";
const ID_INDEX: &str = "_id_";
/// Before the ident in a `uri` of `collStats`.
const TABLE: &str = "statistics:table:";

/// A document of `$listCatalog`; a view has no ident.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    ns: String,
    ident: Option<String>,
    #[serde(rename = "idxIdent", default)]
    indexes: HashMap<String, String>,
}

/// The reply to `collStats`, as servers before `$listCatalog` have it.
#[derive(Debug, Deserialize)]
pub(crate) struct Stats {
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

pub(crate) fn add_listed(to: &mut Catalog, c: &Listed) {
    if let Some(ident) = &c.ident {
        add(to, ident, class_of_collection(&c.ns));
    }
    for (name, ident) in &c.indexes {
        add(to, ident, class_of_index(name));
    }
}

pub(crate) fn add_stats(to: &mut Catalog, c: &Stats) {
    if let Some(ident) = c.table.as_ref().and_then(Table::ident) {
        add(to, ident, class_of_collection(&c.ns));
    }
    for (name, table) in &c.indexes {
        if let Some(ident) = table.ident() {
            add(to, ident, class_of_index(name));
        }
    }
}

/// What cannot be a file is not sent: dsmd would end the connection.
fn add(to: &mut Catalog, ident: &str, class: Class) {
    let path = format!("{ident}.wt");
    if is_path(&path) {
        to.insert(path.into(), class);
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
    use std::path::Path;

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
            json!({"ns": "shop.strange", "ident": "../collection-1"}),
        ] {
            add_listed(&mut c, &serde_json::from_value(listed).unwrap());
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
            // Another engine, and one that does not report.
            json!({"ns": "shop.memory", "inMemory": {}, "indexDetails": {"_id_": {}}}),
            json!({"ns": "shop.lsm", "wiredTiger": {"uri": "statistics:lsm:x"}}),
        ] {
            add_stats(&mut c, &serde_json::from_value(stats).unwrap());
        }
        assert_eq!(c.len(), 4);
        assert_eq!(class(&c, "collection-7-77.wt"), Some(Class::Collection));
        assert_eq!(class(&c, "index-8-77.wt"), Some(Class::Primary));
        assert_eq!(class(&c, "index-9-77.wt"), Some(Class::Index));
        assert_eq!(class(&c, "local/collection-1-77.wt"), Some(Class::Oplog));
    }
}

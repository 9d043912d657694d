// SPDX-License-Identifier: GPL-2.0-or-later
//! What the rules give each file: its class, and its object's stream and lifetime hint.

use std::path::Path;

use super::hint;
use super::parts;
use database::rules::{Parts, Role, Rules};
use dm::table::StreamStamp;
use proto::control::ObjectInfo;
use proto::feed::Catalog;
use runtime::log;

pub(crate) struct Objects {
    rules: Rules,
    /// What the rules' objects are stamped with, on a device with so many streams.
    stamps: Vec<Option<StreamStamp>>,
    /// `None`: not known yet.
    device_streams: Option<u32>,
}

impl Objects {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            stamps: Vec::new(),
            device_streams: None,
        }
    }

    pub(crate) fn parts(&self, path: &Path, ino: u64) -> Parts {
        parts::of(self.rules.parts(path), ino)
    }

    /// Other rules.  `Err`: the reason; nothing was changed.
    pub(crate) fn set_rules(&mut self, mut rules: Rules) -> Result<(), String> {
        self.stamps = rules.stamps(self.streams())?;
        rules.catalog = self.rules.catalog.clone();
        self.rules = rules;
        Ok(())
    }

    /// Whether the catalog is another one.
    pub(crate) fn set_catalog(&mut self, catalog: Catalog) -> bool {
        let other = catalog != self.rules.catalog;
        self.rules.catalog = catalog;
        other
    }

    /// Whether the device takes another number of streams than before.
    pub(crate) fn set_device_streams(&mut self, streams: u32) -> bool {
        if self.device_streams == Some(streams) {
            return false;
        }
        self.device_streams = Some(streams);
        match self.rules.stamps(streams) {
            Ok(stamps) => self.stamps = stamps,
            Err(reason) => log!(
                Error,
                "the rules have streams that are not there",
                reason = reason
            ),
        }
        true
    }

    fn streams(&self) -> u32 {
        self.device_streams.unwrap_or(0)
    }

    /// Streams of the device that no rule states.
    pub(crate) fn free_streams(&self) -> Vec<u8> {
        self.rules.free_streams(self.streams())
    }

    /// Whether objects may have streams or hints of their own.
    pub(crate) fn state_stamps(&self) -> bool {
        !self.stamps.is_empty()
    }

    /// What the rules state for an object.
    pub(crate) fn stated(&self, kind: Role) -> Option<StreamStamp> {
        kind.object.and_then(|n| *self.stamps.get(usize::from(n))?)
    }

    /// Whether the rules state what a file is stamped with.
    pub(crate) fn is_stated(&self, path: &Path) -> bool {
        !self.rules.objects().is_empty() && self.stated(self.rules.parts(path).rest).is_some()
    }

    /// Never a stream that the device does not have: such an upload would be refused.
    pub(crate) fn stamp(&self, kind: Role) -> StreamStamp {
        let mut stamp = self.stated(kind).unwrap_or_default();
        if u32::from(stamp.stream) > self.streams() {
            stamp.stream = 0;
        }
        stamp
    }

    /// The lifetime hint of a file's inode: what is stated, or what names the class.
    pub(crate) fn hint(&self, path: &Path) -> u8 {
        let kind = self.rules.parts(path).rest;
        match self.stamp(kind).hint {
            0 => hint::name(kind.class),
            stated => stated,
        }
    }

    pub(crate) fn name(&self, kind: Role) -> Option<String> {
        Some(self.rules.objects().get(usize::from(kind.object?))?.name.clone())
    }

    /// What the rules give a stream or a lifetime.
    pub(crate) fn infos(&self) -> Vec<ObjectInfo> {
        let objects = self.rules.objects().iter().zip(&self.stamps);
        objects
            .filter_map(|(o, stamp)| {
                stamp.map(|s| ObjectInfo {
                    name: o.name.clone(),
                    stream: s.stream,
                    hint: s.hint,
                })
            })
            .collect()
    }
}

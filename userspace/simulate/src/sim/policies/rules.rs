// SPDX-License-Identifier: GPL-2.0-or-later
//! Objects by rules, as dsmd places them: what has neither a stream nor a
//! lifetime goes by its class, in the layout of `file`.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::{Policy, Stream};
use crate::flash::PAGE;
use crate::sim::files::Files;
use crate::trace::FileNo;
use database::rules::{Role, Rules};
use dm::table::StreamStamp;
use policies::layout::Plan;

/// The streams of a file: of its parts, and of the rest.
struct RuleStreams {
    parts: Vec<(Range<u64>, Stream)>,
    rest: Stream,
}

pub(super) struct ByRules<'a> {
    rules: &'a Rules,
    stamps: Vec<Option<StreamStamp>>,
    plan: Plan,
    files: HashMap<FileNo, RuleStreams>,
}

impl<'a> ByRules<'a> {
    /// The rules state no stream that the drive does not have.
    pub(super) fn new(rules: &'a Rules, streams: u8) -> Self {
        let streams = u32::from(streams);
        Self {
            rules,
            stamps: rules.stamps(streams).expect("they were checked"),
            plan: Plan::new("file", 1, 1, streams).expect("the module has it"),
            files: HashMap::new(),
        }
    }

    fn stream(&self, kind: Role) -> Stream {
        let stamp = kind.object.and_then(|n| self.stamps[usize::from(n)]);
        stamp.map_or_else(|| self.plan.stream(kind.class, Some(1)) as Stream, |s| s.stream)
    }
}

impl Policy for ByRules<'_> {
    fn named(&mut self, files: &Files, file: FileNo, _us: u64) {
        let parts = self.rules.parts(Path::new(&files.get(file).name));
        let streams = RuleStreams {
            parts: parts
                .ranges
                .into_iter()
                .map(|(bytes, kind)| (bytes, self.stream(kind)))
                .collect(),
            rest: self.stream(parts.rest),
        };
        self.files.insert(file, streams);
    }

    fn deleted(&mut self, _files: &Files, file: FileNo, _us: u64) {
        self.files.remove(&file);
    }

    fn place(&mut self, _files: &Files, file: FileNo, page: u32) -> Stream {
        let Some(f) = self.files.get(&file) else {
            return 0;
        };
        let at = u64::from(page) * PAGE;
        f.parts
            .iter()
            .find(|(bytes, _)| bytes.contains(&at))
            .map_or(f.rest, |(_, stream)| *stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNODB: &str = r#"
        [[object]]
        name = "doublewrite"
        stream = 8
        files = ["ibdata1"]
        bytes = "1M-3M"

        [[object]]
        name = "redo"
        lifetime = "short"
        files = ["ib_logfile*"]

        [[object]]
        name = "tables"
        class = "collection"
        files = ["*/*.ibd"]
    "#;

    #[test]
    fn parts_files_and_classes_have_their_streams() {
        let rules = Rules::parse_objects(INNODB).unwrap();
        let mut files = Files::new(&[], &rules);
        let mut policy = ByRules::new(&rules, 8);
        for (n, name) in ["ibdata1", "ib_logfile0", "tpcc/stock.ibd", "aria_log.00000001"]
            .into_iter()
            .enumerate()
        {
            files.set_name(n as FileNo, name);
            policy.named(&files, n as FileNo, 0);
        }
        let at = |policy: &mut ByRules<'_>, file, page| policy.place(&files, file, page);
        let ibdata = [255, 256, 767, 768].map(|page| at(&mut policy, 0, page));
        assert_eq!(ibdata, [1, 8, 8, 1]);
        assert_eq!(at(&mut policy, 1, 0), 7, "the greatest that no object states");
        assert_eq!(at(&mut policy, 2, 0), 3, "that of collections");
        assert_eq!(at(&mut policy, 3, 0), 1);
        policy.deleted(&files, 2, 0);
        assert_eq!(at(&mut policy, 2, 0), 0);
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Which group and stream each checkpoint gave to each side of a file: Figs. 7 and
//! 9 of the DSM paper at work.

use std::collections::BTreeMap;

use super::files::Files;
use super::play::{play, Player};
use super::policies::{Policy, Predictions, Spec, Stream};
use super::profile::Profile;
use super::{Model, SimError};
use crate::trace::{FileNo, Trace};
use dm::class::Class;

/// One side of a file, from the first checkpoint after which it was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySide {
    pub file: String,
    pub class: Class,
    pub top: bool,
    /// Checkpoints before the first of these.
    pub from: usize,
    pub groups: Vec<u8>,
    pub streams: Vec<Stream>,
}

struct Historian<'a> {
    policy: Box<dyn Policy + 'a>,
    checkpoints: usize,
    sides: BTreeMap<(FileNo, bool), HistorySide>,
}

/// Empty for a policy without groups; beside it how often these were what was predicted.
pub fn history(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    spec: &Spec,
) -> Result<(Vec<HistorySide>, Predictions), SimError> {
    let mut historian = Historian {
        policy: spec.build(trace, model, profile)?,
        checkpoints: 0,
        sides: BTreeMap::new(),
    };
    play(
        trace,
        &mut Files::new(&model.primary, &model.rules),
        &mut historian,
    )?;
    let predictions = historian.policy.predictions();
    Ok((historian.sides.into_values().collect(), predictions))
}

impl Player for Historian<'_> {
    fn policy(&mut self) -> Option<&mut dyn Policy> {
        Some(self.policy.as_mut())
    }

    fn write(&mut self, files: &Files, file: FileNo, page: u32, _at: u32) {
        self.policy.place(files, file, page);
    }

    fn checkpoint(&mut self, files: &Files, _us: u64) {
        for (number, file) in files.iter() {
            let Some(sides) = self.policy.groups(number) else {
                continue;
            };
            for (top, (group, stream)) in [false, true].into_iter().zip(sides) {
                if top && file.boundary.is_none() {
                    continue;
                }
                let side = self.sides.entry((number, top)).or_insert_with(|| HistorySide {
                    file: file.name.to_string_lossy().into_owned(),
                    class: file.class,
                    top,
                    from: self.checkpoints,
                    groups: Vec::new(),
                    streams: Vec::new(),
                });
                side.groups.push(group);
                side.streams.push(stream);
            }
        }
        self.checkpoints += 1;
    }
}

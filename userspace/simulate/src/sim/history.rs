// SPDX-License-Identifier: GPL-2.0-or-later
//! Which group and stream each checkpoint gave to each side of a file: Figs. 7 and
//! 9 of the DSM paper at work.

use std::collections::BTreeMap;

use serde::Serialize;

use super::files::Files;
use super::play::{play, Player};
use super::policies::{Policy, Predictions, Spec, Stream};
use super::profile::Profile;
use super::{Model, SimError};
use crate::trace::{FileNo, Trace};
use dm::class::Class;
use dm::reply::Side;

/// One side of a file, from the first checkpoint after which it was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistorySide {
    pub file: String,
    pub class: Class,
    pub side: Side,
    /// Checkpoints before the first of these.
    pub from: usize,
    pub groups: Vec<u8>,
    pub streams: Vec<Stream>,
}

struct Historian<'a> {
    policy: Box<dyn Policy + 'a>,
    checkpoints: usize,
    sides: BTreeMap<(FileNo, Side), HistorySide>,
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
    play(trace, &mut model.files(), &mut historian)?;
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
            for (side, (group, stream)) in [Side::Bottom, Side::Top].into_iter().zip(sides) {
                if side == Side::Top && file.boundary.is_none() {
                    continue;
                }
                let row = self.sides.entry((number, side)).or_insert_with(|| HistorySide {
                    file: file.name.to_string_lossy().into_owned(),
                    class: file.class,
                    side,
                    from: self.checkpoints,
                    groups: Vec::new(),
                    streams: Vec::new(),
                });
                row.groups.push(group);
                row.streams.push(stream);
            }
        }
        self.checkpoints += 1;
    }
}

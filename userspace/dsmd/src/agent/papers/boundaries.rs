// SPDX-License-Identifier: GPL-2.0-or-later
//! When files get their boundaries, when boundaries move, and which ones outlive the agent.

use std::collections::HashMap;

use super::load_phase::{LoadPhase, Sums};
use super::state::{born, Directory, Kept, State};
use crate::agent::tracked::Tracked;
use database::config::{BoundaryMode, Outgrown};
use dm::class::Class;
use dm::reply::Region;
use runtime::log;

pub(crate) struct Boundaries {
    pub mode: BoundaryMode,
    outgrown: Outgrown,
    load: LoadPhase,
    /// Whether files get boundaries at their first checkpoint.
    pub marked: bool,
    /// The database was empty: also in mode `attach` it is loaded first.
    empty: bool,
    /// Those that the kernel had when the agent started.
    inherited: HashMap<u64, (Class, u64)>,
    /// Those that an agent before this one had kept.
    kept: HashMap<u64, Kept>,
    /// The state to keep is another one.
    unsaved: bool,
}

impl Boundaries {
    /// `state`: what an agent before this one left.
    pub(crate) fn new(mode: BoundaryMode, outgrown: Outgrown, state: Option<State>) -> Self {
        let marked = state.as_ref().is_some_and(|s| s.marked);
        Self {
            mode,
            outgrown,
            load: LoadPhase::default(),
            marked: marked || mode == BoundaryMode::Attach,
            empty: false,
            inherited: HashMap::new(),
            kept: state.map(State::by_ino).unwrap_or_default(),
            unsaved: false,
        }
    }

    /// Takes over what the kernel has.  Whether a dsmd was here before: boundaries are
    /// known, from the kernel or from the state.
    pub(crate) fn inherit(&mut self, regions: &[Region]) -> bool {
        for r in regions {
            if let Some(b) = r.boundary {
                self.inherited.insert(r.id, (r.class, b));
            }
        }
        let continues = !self.inherited.is_empty() || !self.kept.is_empty();
        self.marked |= continues;
        continues
    }

    /// The files that were there have been found: what comes now is new.
    pub(crate) fn begin(&mut self) {
        self.inherited = HashMap::new();
        self.kept = HashMap::new();
        self.unsaved = self.marked;
    }

    /// The boundary that a file had before this agent knew it.
    pub(crate) fn known(&self, ino: u64, class: Class, btime: i128) -> Option<u64> {
        let inherited = self.inherited.get(&ino).filter(|(c, _)| c.kin(class));
        let inherited = inherited.map(|(_, b)| *b);
        // Without a birth time, the number alone may be another file's by now.
        let boundary = match self.kept.get(&ino).filter(|k| k.born != 0) {
            // Of a file that had the number before.
            Some(k) if i128::from(k.born) != btime => None,
            Some(k) => inherited.or(Some(k.boundary)),
            None => inherited,
        };
        boundary.filter(|_| class.has_boundary())
    }

    /// The state must be written: a boundary went, or what was given was lost.
    pub(crate) fn changed(&mut self) {
        self.unsaved = true;
    }

    /// What an agent after this one must know, when it is not what the last call gave.
    pub(crate) fn unsaved_state<'a>(
        &mut self,
        device: &str,
        root: Directory,
        files: impl Iterator<Item = (u64, &'a Tracked)>,
    ) -> Option<State> {
        if !std::mem::take(&mut self.unsaved) {
            return None;
        }
        let kept = |(ino, f): (u64, &Tracked)| {
            f.boundary.map(|boundary| Kept {
                ino,
                born: born(f.stamp.btime),
                boundary,
            })
        };
        Some(State::new(
            device,
            root,
            self.marked,
            files.filter_map(kept).collect(),
        ))
    }

    /// From now on files get boundaries.
    pub(crate) fn mark(&mut self) {
        self.marked = true;
        self.unsaved = true;
    }

    /// Whether files wait for the end of the load phase.
    pub(crate) fn awaits_load(&self) -> bool {
        !self.marked && (self.mode == BoundaryMode::Auto || self.empty)
    }

    /// There is nothing yet that could have a boundary: as if the mode were `auto`.
    pub(crate) fn await_first_load(&mut self) {
        log!(
            Info,
            "the database is empty; files get their boundaries when it is loaded"
        );
        self.empty = true;
        self.marked = false;
        self.unsaved = false;
    }

    /// A checkpoint during the load phase, which may be over with it.
    pub(crate) fn loaded(&mut self, sums: Sums) {
        if self.load.checkpoint(sums) {
            self.mark();
            log!(Info, "the load phase is over; files get their boundaries");
        }
    }

    /// Gives boundaries to those of `files` that want one.
    pub(crate) fn give<'a>(&mut self, files: impl Iterator<Item = &'a mut Tracked>) -> u64 {
        self.set(files.filter(|f| f.wants_boundary()))
    }

    /// Gives boundaries to all `files`, or moves theirs.
    pub(crate) fn set<'a>(&mut self, files: impl Iterator<Item = &'a mut Tracked>) -> u64 {
        let mut given = 0;
        for f in files {
            f.set_boundary();
            given += 1;
        }
        self.unsaved |= given > 0;
        given
    }

    /// Reports files that have outgrown their boundaries, each once, or moves these.
    pub(crate) fn look_for_outgrown<'a>(&mut self, files: impl Iterator<Item = &'a mut Tracked>) {
        let outgrown = files.filter(|f| f.outgrown());
        if self.outgrown == Outgrown::Move {
            self.set(outgrown);
            return;
        }
        let (mut more, mut example) = (0, None);
        for f in outgrown.filter(|f| !f.reported) {
            f.reported = true;
            more += 1;
            example = Some(f.path.clone());
        }
        if let Some(path) = example {
            log!(
                Warn,
                "files have outgrown their boundaries; `dsmctl boundary move` moves them",
                files = more,
                one = path.display(),
            );
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! `none`, `file`, `boundary`, `dsm` and `life`: the module's own source, compiled in.

use std::collections::HashMap;
use std::mem::MaybeUninit;

use super::{Policy, Predictions, Stream};
use crate::flash::PAGE;
use crate::sim::files::{File, Files};
use crate::trace::FileNo;
use drive::afford::AffordedLayout;
use policies::layout::Plan;

/// dm-dsm/policies/policies.h
mod ffi {
    pub(super) const GROUP_NONE: u8 = 0;
    pub(super) const GROUP_PRIMARY: u8 = 255;

    #[repr(C)]
    pub(super) struct Params {
        pub policy: u32,
        pub prediction: u32,
        pub groups: u32,
        pub alpha: u32,
        pub threshold1: u32,
        pub threshold2: u32,
        pub primary_filter: bool,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct KernelRegion {
        pub pages: u64,
        pub range: u64,
        pub hotness: i32,
        pub group: u8,
        pub next: u8,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct FileWindow {
        pub region: [KernelRegion; 2],
        pub mapped: u64,
        pub written: u64,
        pub class: u8,
    }

    /// `struct dsm_life`, of which only the size matters here.
    pub(super) type LifeScratch = [u64; 691];

    // As in policies/shim/sizes.c.
    const _: () = assert!(size_of::<FileWindow>() == 72 && size_of::<LifeScratch>() == 5528);

    extern "C" {
        pub(super) fn dsm_policy_initial(params: *const Params, class: u32, side: u32) -> u8;
        pub(super) fn dsm_policy_checkpoint(
            params: *const Params,
            files: *mut FileWindow,
            nr_files: usize,
            ms: u64,
            life: *mut LifeScratch,
        );
    }
}

/// The features of the constructor line that concern a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelFeatures {
    /// By its name.
    pub policy: &'static str,
    /// At most so many; `None`: all that there are.
    pub streams: Option<u8>,
    pub groups: u32,
    /// `None`: K.
    pub alpha: Option<u32>,
    pub prediction: Prediction,
    pub range: Range,
    pub primary_filter: bool,
    /// In 0.01 %.
    pub threshold1: u32,
    pub threshold2: u32,
    pub when: When,
}

/// Numbered as `enum dsm_prediction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prediction {
    Off,
    Predicted,
    Computed,
    Literal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    Written,
    Region,
}

/// At which end of a checkpoint a window ends: dsmd sees the one, the DSM paper's MongoDB
/// knows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Begin,
    End,
}

impl KernelFeatures {
    pub(super) const fn of(policy: &'static str) -> Self {
        Self {
            policy,
            streams: None,
            groups: 3,
            alpha: None,
            prediction: Prediction::Predicted,
            range: Range::Written,
            primary_filter: true,
            threshold1: 1000,
            threshold2: 5,
            when: When::End,
        }
    }

    /// Those of a layout.
    pub(super) fn of_layout(layout: AffordedLayout) -> Self {
        let policy = match layout {
            AffordedLayout::Life(_) => "life",
            AffordedLayout::JournalApart => "file",
            AffordedLayout::None => "none",
        };
        let plain = Self::of(policy);
        Self {
            streams: u8::try_from(layout.streams()).ok(),
            groups: layout.groups().unwrap_or(plain.groups),
            ..plain
        }
    }

    /// Whether checkpoints compute them.
    pub(super) fn has_groups(&self) -> bool {
        ["dsm", "life"].contains(&self.policy)
    }

    /// The streams it uses at most, of those that there are.
    pub(super) fn streams(&self, has: u8) -> u8 {
        match self.policy {
            "none" => 1,
            _ => self.streams.map_or(has, |n| n.min(has)),
        }
    }
}

/// What is counted of a file in a window; page numbers are those of the file.
#[derive(Clone, Copy, Debug)]
struct Window {
    pages: [u64; 2],
    low: [u32; 2],
    high: [u32; 2],
    state: ffi::FileWindow,
    stream: [Stream; 2],
}

impl Window {
    /// One that begins.
    fn of(state: ffi::FileWindow) -> Self {
        Self {
            pages: [0; 2],
            low: [u32::MAX; 2],
            high: [0; 2],
            state,
            stream: [0; 2],
        }
    }
}

pub(super) struct KernelPlacement {
    features: KernelFeatures,
    params: ffi::Params,
    plan: Plan,
    files: HashMap<FileNo, Window>,
    window_start: u64,
    predictions: Predictions,
}

impl KernelPlacement {
    pub(super) fn new(features: KernelFeatures, streams: u8) -> Self {
        let streams = features.streams(streams);
        let known = "policies are named by the module";
        let plan = Plan::new(features.policy, features.groups, 1, u32::from(streams)).expect(known);
        let policy = match features.policy {
            "boundary" | "dsm" if plan.groups() < 2 => "file",
            policy => policy,
        };
        Self {
            features,
            params: ffi::Params {
                policy: policies::number(policy).expect(known),
                prediction: features.prediction as u32,
                groups: plan.groups(),
                alpha: features.alpha.unwrap_or(plan.groups().max(2)),
                threshold1: features.threshold1,
                threshold2: features.threshold2,
                primary_filter: features.primary_filter,
            },
            plan,
            files: HashMap::new(),
            window_start: 0,
            predictions: Predictions::default(),
        }
    }

    fn initial(&self, file: &File) -> Window {
        let class = file.class;
        let mut w = Window::of(ffi::FileWindow {
            class: class as u8,
            ..Default::default()
        });
        for side in 0..2 {
            // SAFETY: the function reads the parameters, which outlive the call.
            let group = unsafe { ffi::dsm_policy_initial(&self.params, class as u32, side as u32) };
            w.state.region[side].next = group;
        }
        self.restamp(file, &mut w);
        w
    }

    fn restamp(&self, file: &File, w: &mut Window) {
        for side in 0..2 {
            let group = w.state.region[side].next;
            let group = (group != ffi::GROUP_PRIMARY).then_some(u32::from(group));
            w.stream[side] = self.plan.stream(file.class, group) as Stream;
        }
    }

    fn range(&self, w: &Window, file: &File, side: usize) -> u64 {
        let pages = match self.features.range {
            Range::Written => u64::from(w.high[side].saturating_sub(w.low[side])),
            Range::Region => {
                let size = file.size.div_ceil(PAGE);
                let bottom = file.boundary.map_or(size, u64::from).min(size);
                [bottom, size - bottom][side]
            }
        };
        pages * PAGE
    }

    fn window_ends(&mut self, files: &Files, us: u64) {
        let mut numbers: Vec<FileNo> = self.files.keys().copied().collect();
        numbers.sort_unstable();
        let mut windows: Vec<ffi::FileWindow> = Vec::with_capacity(numbers.len());
        for n in &numbers {
            let w = &self.files[n];
            let mut state = w.state;
            state.mapped = files.get(*n).size.div_ceil(PAGE);
            for side in 0..2 {
                state.region[side].pages = w.pages[side];
                state.region[side].range = self.range(w, files.get(*n), side);
            }
            windows.push(state);
        }
        let ms = us.saturating_sub(std::mem::replace(&mut self.window_start, us)) / 1000;
        let mut life = MaybeUninit::<ffi::LifeScratch>::uninit();
        // SAFETY: the array has as many elements as is said, of the layout of
        // struct dsm_file_window; the function keeps no pointer, and reads nothing of the
        // scratch that it has not written.
        unsafe {
            ffi::dsm_policy_checkpoint(
                &self.params,
                windows.as_mut_ptr(),
                windows.len(),
                ms,
                life.as_mut_ptr(),
            );
        }
        for (n, state) in numbers.iter().zip(windows) {
            let before = self.files[n].state;
            self.confirm(&before, &state);
            let mut w = Window::of(state);
            self.restamp(files.get(*n), &mut w);
            self.files.insert(*n, w);
        }
    }

    /// What the window has shown of regions that had a group before it.
    fn confirm(&mut self, before: &ffi::FileWindow, after: &ffi::FileWindow) {
        for (before, after) in before.region.iter().zip(&after.region) {
            let grouped = |group| ![ffi::GROUP_NONE, ffi::GROUP_PRIMARY].contains(&group);
            if after.pages > 0 && grouped(before.group) && grouped(after.group) {
                let right = u64::from(before.next == after.group);
                let p = &mut self.predictions;
                p.regions += 1;
                p.pages += after.pages;
                p.right_regions += right;
                p.right_pages += right * after.pages;
            }
        }
    }
}

impl Policy for KernelPlacement {
    fn named(&mut self, files: &Files, file: FileNo, _us: u64) {
        let of = files.get(file);
        let had = self.files.get(&file).map(|w| w.state.class);
        if of.is_known() && had != Some(of.class as u8) {
            self.files.insert(file, self.initial(of));
        }
    }

    fn deleted(&mut self, _files: &Files, file: FileNo, _us: u64) {
        self.files.remove(&file);
    }

    fn place(&mut self, files: &Files, file: FileNo, page: u32) -> Stream {
        let side = usize::from(files.get(file).is_top(page));
        let Some(w) = self.files.get_mut(&file) else {
            return self.plan.unmapped() as Stream;
        };
        w.pages[side] += 1;
        w.low[side] = w.low[side].min(page);
        w.high[side] = w.high[side].max(page + 1);
        w.stream[side]
    }

    fn groups(&self, file: FileNo) -> Option<[(u8, Stream); 2]> {
        let w = self.files.get(&file)?;
        Some([0, 1].map(|side| (w.state.region[side].next, w.stream[side])))
    }

    fn predictions(&self) -> Predictions {
        self.predictions
    }

    fn begins(&mut self, files: &Files, us: u64) {
        if self.features.when == When::Begin {
            self.window_ends(files, us);
        }
    }

    fn checkpoint(&mut self, files: &Files, us: u64) {
        if self.features.when == When::End {
            self.window_ends(files, us);
        }
    }
}

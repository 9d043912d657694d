// SPDX-License-Identifier: GPL-2.0-or-later
//! Plays a trace through a placement policy onto the flash model.
//!
//! The drive's logical pages are those that the trace uses at most at a time,
//! divided by the fill.  A page of a file keeps its place until it is discarded.
//! What the load phase writes goes to one stream for every policy unless told
//! otherwise, so that the policies are compared on the run alone.

pub mod discard;
pub mod files;
pub mod history;
pub mod objects;
pub mod play;
pub mod policies;
pub mod profile;

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::dbpath::rules::Rules;
use crate::drive::afford::{Choice, Drive};
use crate::whatif::flash::{self, Config, Counts, Destination, Flash, Gc, GeometryError, Wear, PAGE};
use crate::whatif::trace::{FileNo, Trace};
use files::Files;
use play::{play, Player};
use policies::{Policy, Spec, Stream};
use profile::Profile;

#[derive(Debug, Error, PartialEq)]
pub enum SimError {
    #[error("the trace needs more than 2^32 - 2 pages of a drive (16 TiB)")]
    TooManyPages,
    #[error("the trace has no writes")]
    NoWrites,
    #[error("nothing is written after the load phase")]
    NoRun,
    #[error("the trace uses {0} pages at a time, and the drive has {1}")]
    TooLarge(u64, u64),
    #[error("{0}")]
    Rules(String),
    #[error("policy {0}: {1}")]
    Geometry(String, GeometryError),
}

impl SimError {
    /// The policy has more streams than the drive can have units open; another one may fit.
    pub fn is_lack_of_units(&self) -> bool {
        matches!(self, Self::Geometry(_, GeometryError::Spare { .. }))
    }
}

/// Where load data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStream {
    Stream(u8),
    /// Where the policy says.
    Policy,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub streams: u8,
    pub op: f64,
    /// How much of the drive the trace fills, or
    pub fill: f64,
    /// the drive's logical size in pages.
    pub pages: Option<u64>,
    /// Pages of an erase unit.
    pub unit: u64,
    pub gc: Gc,
    pub destination: Destination,
    /// Share of the run's pages that is not counted.
    pub warmup: f64,
    pub load_stream: LoadStream,
    pub primary: Vec<glob::Pattern>,
    pub rules: Rules,
}

impl Model {
    /// The drive's logical pages for a trace.
    pub fn pages_for(&self, profile: &Profile) -> Result<u64, SimError> {
        let (used, pages) = (u64::from(profile.pages), self.wanted_pages(profile));
        if used > pages {
            return Err(SimError::TooLarge(used, pages));
        }
        Ok(pages)
    }

    fn wanted_pages(&self, profile: &Profile) -> u64 {
        self.pages
            .unwrap_or_else(|| (f64::from(profile.pages) / self.fill).round() as u64)
    }

    /// Erase units that a drive of so many logical pages has beyond them.
    pub fn spare_units(&self, pages: u64) -> u64 {
        flash::spare(&self.config(pages, usize::from(self.streams)))
    }

    /// The streams that a drive of so many logical pages can afford.
    pub fn choose(&self, pages: u64) -> Choice {
        let drive = Drive {
            units: pages / self.unit,
            spare: self.spare_units(pages),
            handles: u32::from(self.streams),
            copies: self.destination.into(),
        };
        drive.choose()
    }

    /// Whether all streams can be open at a time.
    pub fn has_room(&self, pages: u64) -> bool {
        Flash::fits(&self.config(pages, usize::from(self.streams)))
    }

    fn config(&self, pages: u64, streams: usize) -> Config {
        Config {
            pages,
            unit: self.unit,
            op: self.op,
            streams,
            gc: self.gc,
            destination: self.destination,
        }
    }
}

/// The pages written until a moment, and the write amplification since the one
/// before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub host_pages: u64,
    pub waf: f64,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub policy: String,
    /// Streams that the run's writes went to.  Writes without a stream share one
    /// with stream 1, as on an FDP drive.
    pub streams_used: u32,
    /// Erase units that its streams hold, those of the load as well.
    pub open_units: u64,
    pub waf: f64,
    pub host_pages: u64,
    pub gc_pages: u64,
    pub erases: u64,
    /// Streams, and the pages the host wrote to them and that were copied from
    /// their units.
    pub by_stream: Vec<(Stream, (u64, u64))>,
    pub wear: Wear,
    pub series: Vec<Sample>,
}

/// Points of a series.
const SAMPLES: usize = 200;

/// Checks what can be checked before anything runs.
pub fn check(profile: &Profile, model: &Model) -> Result<u64, SimError> {
    if profile.writes() == 0 {
        return Err(SimError::NoWrites);
    }
    if profile.run_writes == 0 {
        return Err(SimError::NoRun);
    }
    model
        .rules
        .stamps(u32::from(model.streams))
        .map_err(SimError::Rules)?;
    model.pages_for(profile)
}

/// Plays the trace under one policy.  `progress` counts pages.
pub fn run(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    spec: &Spec,
    progress: &AtomicU64,
) -> Result<Outcome, SimError> {
    let placement = place(trace, profile, model, spec)?;
    write(profile, model, spec, &placement, progress)
}

/// The stream of each page written, which the drive has no influence on.
pub fn place(trace: &Trace, profile: &Profile, model: &Model, spec: &Spec) -> Result<Vec<Stream>, SimError> {
    let mut placer = Placer {
        policy: spec.build(model, profile),
        load: match model.load_stream {
            LoadStream::Stream(n) if trace.has_load_end() => Some(n),
            _ => None,
        },
        streams: spec.streams(model, profile),
        placement: Vec::with_capacity(profile.script.len()),
    };
    play(trace, &mut Files::new(&model.primary, &model.rules), &mut placer)?;
    Ok(placer.placement)
}

/// Writes the pages to the drive.
pub fn write(
    profile: &Profile,
    model: &Model,
    spec: &Spec,
    placement: &[Stream],
    progress: &AtomicU64,
) -> Result<Outcome, SimError> {
    let pages = check(profile, model)?;
    let mut handles = Handles::default();
    for stream in placement {
        handles.add(*stream);
    }
    let config = model.config(pages, handles.count());
    let mut flash = Flash::new(&config).map_err(|e| SimError::Geometry(spec.to_string(), e))?;

    let warmup = (profile.run_writes as f64 * model.warmup) as u64;
    let begin = (profile.load_writes + warmup) as usize;
    let step = (placement.len() / SAMPLES).max(1);
    let mut series = Vec::new();
    let mut sampled = flash.counts().clone();
    let mut start = Counts::default();
    let mut discards = profile.discards.iter().peekable();
    for (n, (page, stream)) in profile.script.iter().zip(placement).enumerate() {
        while let Some((_, gone)) = discards.next_if(|d| d.0 == n as u64) {
            flash.trim(*gone);
        }
        if n == begin {
            start = flash.counts().clone();
        }
        flash.write(*page, handles.of(*stream));
        if (n + 1) % step == 0 {
            series.push(Sample {
                host_pages: n as u64 + 1,
                waf: flash.counts().waf_since(&sampled),
            });
            sampled = flash.counts().clone();
            progress.fetch_add(step as u64, Ordering::Relaxed);
        }
    }

    let counts = flash.counts();
    let host_pages = counts.host_pages() - start.host_pages();
    let gc_pages = counts.gc_pages() - start.gc_pages();
    let mut used = Handles::default();
    for stream in &placement[begin..] {
        used.add(*stream);
    }
    Ok(Outcome {
        policy: spec.to_string(),
        streams_used: used.count() as u32,
        open_units: flash::spare_units(config.streams, config.destination),
        waf: counts.waf_since(&start),
        host_pages,
        gc_pages,
        erases: counts.erases - start.erases,
        by_stream: handles.streams().zip(counts.since(&start)).collect(),
        wear: flash.wear(),
        series,
    })
}

/// The drive's reclaim unit handles that streams lead to, numbered as they are
/// needed.  Writes without a stream share one with stream 1, as with FDP.
struct Handles {
    of: [Option<u8>; 256],
    streams: Vec<Stream>,
}

impl Default for Handles {
    fn default() -> Self {
        Self {
            of: [None; 256],
            streams: Vec::new(),
        }
    }
}

impl Handles {
    fn add(&mut self, stream: Stream) {
        let stream = stream.max(1);
        if self.of[usize::from(stream)].is_none() {
            self.of[usize::from(stream)] = Some(self.streams.len() as u8);
            self.streams.push(stream);
        }
    }

    fn of(&self, stream: Stream) -> usize {
        usize::from(self.of[usize::from(stream.max(1))].expect("every stream was added"))
    }

    fn count(&self) -> usize {
        self.streams.len()
    }

    fn streams(&self) -> impl Iterator<Item = Stream> + '_ {
        self.streams.iter().copied()
    }
}

struct Placer<'a> {
    policy: Box<dyn Policy + 'a>,
    /// The stream of everything until the load phase ends.
    load: Option<Stream>,
    streams: Stream,
    placement: Vec<Stream>,
}

impl Player for Placer<'_> {
    fn policy(&mut self) -> Option<&mut dyn Policy> {
        Some(self.policy.as_mut())
    }

    fn write(&mut self, files: &Files, file: FileNo, page: u32, _at: u32) {
        let stream = self.policy.place(files, file, page);
        self.placement.push(self.load.unwrap_or(stream).min(self.streams));
    }

    fn load_end(&mut self, files: &Files, us: u64) {
        self.load = None;
        self.policy.load_end(files, us);
    }
}

/// Bytes of so many pages.
pub fn bytes(pages: u64) -> u64 {
    pages * PAGE
}

#[cfg(test)]
mod tests;

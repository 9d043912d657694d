// SPDX-License-Identifier: GPL-2.0-or-later
//! Plays a trace through a placement policy onto the flash model.
//!
//! The drive's logical pages are those that the trace uses at most at a time,
//! divided by the fill.  A page of a file keeps its place until it is discarded.
//! What the load phase writes goes to one stream for every policy unless set
//! otherwise, so that the policies are compared on the run alone.

pub mod discard;
pub mod dump;
pub mod files;
pub mod history;
pub mod pieces;
pub mod play;
pub mod policies;
pub mod profile;

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::flash::{self, Config, Destination, Flash, FlashCounts, Gc, GeometryError, Wear};
use crate::trace::{FileNo, Trace};
use database::rules::Rules;
use drive::afford::DriveUnits;
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
    #[error("policy recorded: no write of the trace carries a stream")]
    NoStreams,
    #[error("policy {0}: the trace does not say when checkpoints begin")]
    NoBegins(String),
    #[error("policy {0}: {1}")]
    Memory(String, MemoryError),
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("to play it on this drive takes {needed} MiB of memory, and there are {available} MiB")]
pub struct MemoryError {
    pub needed: u64,
    pub available: u64,
}

impl SimError {
    /// What one policy lacks and another one may not: erase units for its streams, or
    /// memory.
    pub fn lack(&self) -> Option<String> {
        match self {
            Self::Geometry(_, e @ (GeometryError::Spare { .. } | GeometryError::Reserve { .. })) => {
                Some(e.to_string())
            }
            Self::Memory(_, e) => Some(e.to_string()),
            _ => None,
        }
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
    /// Free erase units that garbage collection keeps, as a share of all.
    pub keep_free: f64,
    /// Share of the run's pages that is not counted.
    pub warmup: f64,
    pub load_stream: LoadStream,
    /// The pages of deleted files are not discarded, as on a mount without `-o discard`.
    pub keep_deleted: bool,
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

    /// What a drive of so many logical pages has for streams.
    pub fn drive_units(&self, pages: u64) -> DriveUnits {
        DriveUnits {
            units: pages / self.unit,
            spare: self.spare_units(pages),
            handles: u32::from(self.streams),
            copies: self.destination.into(),
        }
    }

    /// Whether all streams can be open at a time.
    pub fn has_room(&self, pages: u64) -> bool {
        flash::check(&self.config(pages, usize::from(self.streams))).is_ok()
    }

    fn config(&self, pages: u64, streams: usize) -> Config {
        Config {
            pages,
            unit: self.unit,
            op: self.op,
            streams,
            gc: self.gc,
            destination: self.destination,
            keep_free: self.keep_free,
        }
    }

    fn files(&self) -> Files {
        let mut files = Files::new(&self.primary, &self.rules);
        files.keep_deleted = self.keep_deleted;
        files
    }

    /// The page from which on writes count.
    fn counted_from(&self, profile: &Profile) -> u64 {
        profile.load_writes + (profile.run_writes as f64 * self.warmup) as u64
    }
}

#[derive(Clone, Debug)]
pub struct Simulated {
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
    /// The share of the drive that had no data when a page was written, on average.
    pub unmapped_share: f64,
    pub wear: Wear,
    /// The pages written until a moment, and the write amplification since the one before.
    pub series: Vec<(u64, f64)>,
}

/// Points of a series.
const SAMPLES: u64 = 200;

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
) -> Result<Simulated, SimError> {
    // What looks ahead is done with that before there is a drive.
    let policy = spec.build(trace, model, profile)?;
    let mut run = SimRun::new(profile, model, progress)?;
    let streams = spec.streams(model, profile);
    place_by(policy, streams, trace, model, &mut run)?;
    run.finish(spec)
}

/// Bytes of memory that it takes to play a policy.
pub fn bytes_needed(profile: &Profile, model: &Model, spec: &Spec, pages: u64) -> u64 {
    let places = u64::from(profile.pages) * size_of::<u32>() as u64;
    let drive = flash::bytes(&model.config(pages, usize::from(model.streams)));
    places + drive + spec.bytes_per_write() * profile.writes()
}

/// What takes the pages that are written, with their streams, and discarded.
pub trait Sink {
    fn write(&mut self, page: u32, stream: Stream);
    fn discard(&mut self, _page: u32) {}
}

/// The stream of each page written, which the drive has no influence on.
pub fn place(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    spec: &Spec,
    sink: &mut impl Sink,
) -> Result<(), SimError> {
    let policy = spec.build(trace, model, profile)?;
    place_by(policy, spec.streams(model, profile), trace, model, sink)
}

fn place_by(
    policy: Box<dyn Policy + '_>,
    streams: Stream,
    trace: &Trace,
    model: &Model,
    sink: &mut impl Sink,
) -> Result<(), SimError> {
    let mut placer = Placer {
        policy,
        load: match model.load_stream {
            LoadStream::Stream(n) if trace.loaded => Some(n),
            _ => None,
        },
        streams,
        sink,
    };
    play(trace, &mut model.files(), &mut placer)
}

/// Pages on their way to the drive, and what is counted of them.
struct SimRun<'a> {
    model: &'a Model,
    pages: u64,
    /// Or why there is none.
    flash: Result<Flash, GeometryError>,
    handles: Handles,
    /// Pages written so far, the one from which on they count, and those from one sample
    /// to the next.
    now: u64,
    begin: u64,
    step: u64,
    series: Vec<(u64, f64)>,
    sampled: FlashCounts,
    start: FlashCounts,
    /// Pages without data, added up over the writes that count.
    unmapped: u128,
    /// Since the beginning.
    used: Handles,
    progress: &'a AtomicU64,
}

impl<'a> SimRun<'a> {
    fn new(profile: &Profile, model: &'a Model, progress: &'a AtomicU64) -> Result<Self, SimError> {
        let pages = check(profile, model)?;
        Ok(Self {
            model,
            pages,
            flash: Flash::new(&model.config(pages, 1)),
            handles: Handles::default(),
            now: 0,
            begin: model.counted_from(profile),
            step: (profile.writes() / SAMPLES).max(1),
            series: Vec::new(),
            sampled: FlashCounts::default(),
            start: FlashCounts::default(),
            unmapped: 0,
            used: Handles::default(),
            progress,
        })
    }

    /// The handle of a stream; the drive gets one more for a new one, if it has room.
    #[inline]
    fn handle(&mut self, stream: Stream) -> usize {
        let known = self.handles.count();
        let handle = self.handles.of(stream);
        if handle == known && handle > 0 {
            if let Ok(flash) = &mut self.flash {
                if let Err(e) = flash.add_stream() {
                    self.flash = Err(e);
                }
            }
        }
        handle
    }

    fn finish(self, spec: &Spec) -> Result<Simulated, SimError> {
        let config = self.model.config(self.pages, self.handles.count());
        let flash = self.flash.map_err(|e| {
            // The play went on: now it is known how many streams there are.
            let all = flash::check(&config).err();
            SimError::Geometry(spec.to_string(), all.unwrap_or(e))
        })?;
        let (counts, start) = (flash.counts(), self.start);
        let host_pages = counts.host_pages() - start.host_pages();
        Ok(Simulated {
            streams_used: self.used.count() as u32,
            open_units: flash::spare_units(config.streams, config.destination),
            waf: counts.waf_since(&start),
            host_pages,
            unmapped_share: self.unmapped as f64 / (host_pages.max(1) as f64 * self.pages as f64),
            gc_pages: counts.gc_pages() - start.gc_pages(),
            erases: counts.erases - start.erases,
            by_stream: self.handles.streams().zip(counts.since(&start)).collect(),
            wear: flash.wear(),
            series: self.series,
        })
    }
}

impl Sink for SimRun<'_> {
    #[inline]
    fn write(&mut self, page: u32, stream: Stream) {
        let handle = self.handle(stream);
        let Ok(flash) = &mut self.flash else { return };
        if self.now == self.begin {
            self.start = flash.counts().clone();
        }
        flash.write(page, handle);
        if self.now >= self.begin {
            self.used.of(stream);
            self.unmapped += u128::from(flash.unmapped());
        }
        self.now += 1;
        if self.now % self.step == 0 {
            self.series
                .push((self.now, flash.counts().waf_since(&self.sampled)));
            self.sampled = flash.counts().clone();
            self.progress.fetch_add(self.step, Ordering::Relaxed);
        }
    }

    fn discard(&mut self, page: u32) {
        if let Ok(flash) = &mut self.flash {
            flash.trim(page);
        }
    }
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
    #[inline]
    fn of(&mut self, stream: Stream) -> usize {
        let stream = stream.max(1);
        let Self { of, streams } = self;
        usize::from(*of[usize::from(stream)].get_or_insert_with(|| {
            streams.push(stream);
            streams.len() as u8 - 1
        }))
    }

    fn count(&self) -> usize {
        self.streams.len()
    }

    fn streams(&self) -> impl Iterator<Item = Stream> + '_ {
        self.streams.iter().copied()
    }
}

struct Placer<'a, S> {
    policy: Box<dyn Policy + 'a>,
    /// The stream of everything until the load phase ends.
    load: Option<Stream>,
    streams: Stream,
    sink: &'a mut S,
}

impl<S: Sink> Player for Placer<'_, S> {
    fn policy(&mut self) -> Option<&mut dyn Policy> {
        Some(self.policy.as_mut())
    }

    fn write(&mut self, files: &Files, file: FileNo, page: u32, at: u32) {
        let stream = self.policy.place(files, file, page);
        self.sink.write(at, self.load.unwrap_or(stream).min(self.streams));
    }

    fn discard(&mut self, at: u32) {
        self.sink.discard(at);
    }

    fn load_end(&mut self, _us: u64) {
        self.load = None;
    }
}

#[cfg(test)]
mod tests;

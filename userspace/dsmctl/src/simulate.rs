// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl simulate`.

mod answer;
mod text;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use anyhow::{bail, Context, Result};
use serde_json::json;

use crate::cli::{DeletedFiles, Discards, Output, Simulate, MIN_UNIT, UNIT};
use crate::progress;
use database::rules::Rules;
use dm::class::Class;
use dm::memory;
use drive::afford::affords;
use simulate::flash::PAGE;
use simulate::sim::discard;
use simulate::sim::pieces::Pieces;
use simulate::sim::policies::Spec;
use simulate::sim::profile::Profile;
use simulate::sim::{self, MemoryError, Model, SimError, Simulated};
use simulate::trace::{self, Trace};

use answer::{Found, Missing};
use text::*;

pub(crate) fn simulate(a: &Simulate, out: Output) -> Result<()> {
    let named = || a.recording.display().to_string();
    let file = BufReader::with_capacity(1 << 20, File::open(&a.recording).with_context(named)?);
    let mut trace = trace::read_within(memory::available(), file).with_context(named)?;
    let mut model = model(a)?;
    if a.discard == Discards::On && !trace.has_lists() {
        bail!(
            "{}: it has no lists of free blocks: record it with this dsmctl, of a WiredTiger database",
            named()
        );
    }
    let listed = discard::listed(&trace);
    let with = a.discard != Discards::Off && trace.has_lists();
    // As the target would discard.
    let alignment = a.discard_alignment.unwrap_or(a.discard_granularity);
    let pieces = Pieces::new(a.discard_granularity, alignment);
    let mut discarded = with.then(|| discard::discarded(&trace, pieces));
    // There may be as much of them as of the events, and all is known that they tell.
    for trace in [Some(&mut trace), discarded.as_mut()].into_iter().flatten() {
        trace.drop_lists();
    }
    let profile = Profile::of(&trace, &model.primary, &model.rules).with_context(named)?;
    let pages = sim::check(&profile, &model).with_context(named)?;
    while a.unit.is_none() && model.unit * PAGE > MIN_UNIT && !model.has_room(pages) {
        model.unit /= 2;
    }
    let specs = if a.policy.is_empty() {
        usual(model.streams, !a.rules.is_empty())
    } else {
        a.policy.iter().flat_map(|specs| specs.0.clone()).collect()
    };
    // The drive is that of the run without discards: what these give back is room.
    model.pages = Some(pages);
    let all = f64::from(profile.pages);
    let mut found = Found {
        missing: None,
        interval: profile.interval.map(|i| (i.seconds, i.pages / all)),
        listed,
        fill: all / pages as f64,
    };
    let mut played = vec![Played {
        discard: false,
        trace,
        profile,
    }];
    if let Some(trace) = discarded {
        played.push(Played {
            discard: true,
            profile: Profile::of(&trace, &model.primary, &model.rules).with_context(named)?,
            trace,
        });
    }
    let plain = &played[0];
    let (spare, copies) = (model.spare_units(pages), model.destination.into());
    let greedy = |o: &Simulated| o.by_stream.len() > 1 && !affords(o.open_units, spare, copies);
    let mut outcomes = Vec::new();
    for p in played.iter().filter(|p| p.discard || a.discard != Discards::On) {
        let done = run_all(p, &model, &specs, a.jobs).with_context(named)?;
        outcomes.extend(specs.iter().zip(done).map(|(spec, outcome)| PolicyRun {
            spec,
            discard: p.discard,
            greedy: outcome.as_ref().is_ok_and(greedy),
            outcome,
        }));
    }
    if text::done(&outcomes).all(|(_, o)| o.erases == 0) {
        found.missing = Some(missing(&plain.profile, pages, model.op));
    }
    // Another policy may fit where one does not; if none does, the drive is what is wrong.
    if outcomes.iter().all(|r| r.outcome.is_err()) {
        let first = outcomes.into_iter().find_map(|r| r.outcome.err());
        return first.map_or(Ok(()), |e| Err(e).with_context(named));
    }
    if let Some(path) = &a.dump {
        let p = played.iter().find(|p| p.discard == (a.discard == Discards::On));
        let p = p.expect("check() has seen to it that it is played");
        dump(p, &model, &specs[0], pages, path)?;
    }
    if let Some(path) = &a.details {
        let mut details = details(&plain.profile, &found, pages, &outcomes);
        let policies = details["policies"].as_array_mut().into_iter().flatten();
        for (spec, policy) in specs.iter().cycle().zip(policies) {
            let done = sim::history::history(&plain.trace, &plain.profile, &model, spec);
            let (sides, predictions) = done.with_context(named)?;
            (policy["regions"], policy["predictions"]) = (json!(sides), json!(predictions));
        }
        let text = serde_json::to_string_pretty(&details)?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    let fewer = match (out, best(&outcomes)) {
        (Output::Text, Some((run, best))) if a.policy.is_empty() => {
            let p = played.iter().find(|p| p.discard == run.discard).unwrap_or(plain);
            fewer_streams(&p.trace, &p.profile, &model, run.spec, best).with_context(named)?
        }
        _ => Vec::new(),
    };
    let chosen = model.drive_units(pages).why();
    crate::print(out, &rows(&outcomes, spare, &chosen), || {
        answered(&outcomes, &found, &fewer)
            + &text(&plain.trace, &plain.profile, &model, pages, &specs, &outcomes)
            + &fit(&outcomes, spare, copies, &chosen)
    })
}

/// What would have to be written before the drive is full once, and as much as it has is counted
/// after that.
fn missing(profile: &Profile, pages: u64, op: f64) -> Missing {
    let (pages, written) = (pages as f64, profile.writes() as f64);
    let missing = (pages * (2.0 + op) - written).max(pages);
    Missing {
        gib: missing * PAGE as f64 / f64::from(1 << 30),
        hours: profile.interval.map(|i| missing * i.seconds / i.pages / 3600.0),
    }
}

fn dump(played: &Played, model: &Model, spec: &Spec, pages: u64, path: &Path) -> Result<()> {
    let named = || path.display().to_string();
    let out = BufWriter::with_capacity(1 << 20, File::create(path).with_context(named)?);
    sim::dump::dump(&played.trace, &played.profile, model, spec, pages, out)?.with_context(named)
}

/// The recording as it is, or with what dsmd would have discarded.
struct Played {
    discard: bool,
    trace: Trace,
    profile: Profile,
}

/// What a policy has come to, with or without discards.
struct PolicyRun<'a> {
    spec: &'a Spec,
    discard: bool,
    /// Whether its streams hold more spare units than the drive can afford.
    greedy: bool,
    /// Or why it does not fit the drive.
    outcome: Result<Simulated, SimError>,
}

impl PolicyRun<'_> {
    fn name(&self) -> String {
        match self.discard {
            true => format!("{} + discard", self.spec),
            false => self.spec.to_string(),
        }
    }
}

/// What is compared when nothing is asked for: with the values of K that fit.
fn usual(streams: u8, rules: bool) -> Vec<Spec> {
    let fits = |groups: &u8| 2 * groups + 2 <= streams;
    let of = |groups: u8| format!("dsm:groups={groups}").parse();
    let others = [2, 4, 5, 7].into_iter().filter(fits);
    let others = others.map(|k| of(k).expect("K is in range"));
    Spec::all(rules).into_iter().chain(others).collect()
}

/// The write amplification of a policy with ever more streams.
fn fewer_streams(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    spec: &Spec,
    best: &Simulated,
) -> Result<Vec<(u8, f64)>, SimError> {
    let progress = AtomicU64::new(0);
    [2, 4, 6, 8, 12, 16]
        .into_iter()
        .filter(|streams| *streams < model.streams)
        .map(|streams| {
            let model = Model {
                streams,
                ..model.clone()
            };
            Ok((streams, sim::run(trace, profile, &model, spec, &progress)?.waf))
        })
        .chain([Ok((model.streams, best.waf))])
        .collect()
}

fn model(a: &Simulate) -> Result<Model> {
    Ok(Model {
        streams: a.streams,
        op: a.op,
        fill: a.fill,
        pages: a.size.map(|bytes| bytes / PAGE),
        unit: a.unit.unwrap_or(UNIT) / PAGE,
        gc: a.gc,
        destination: a.gc_destination,
        keep_free: a.keep_free,
        warmup: a.warmup,
        load_stream: a.load_stream,
        keep_deleted: a.deleted_files == DeletedFiles::Kept,
        primary: a.primary.clone(),
        rules: Rules::read(&a.rules)?,
    })
}

/// Plays all policies, as many at a time as there are processors, and half of the memory
/// has room for.  What does not fit the drive is no error of the others.
fn run_all(
    played: &Played,
    model: &Model,
    specs: &[Spec],
    jobs: Option<u16>,
) -> Result<Vec<Result<Simulated, SimError>>> {
    let Played { trace, profile, .. } = played;
    memory::give_back();
    let pages = model.pages_for(profile)?;
    let available = memory::available();
    let needed = |spec: &Spec| sim::bytes_needed(profile, model, spec, pages);
    let most = specs.iter().map(needed).max().unwrap_or(1);
    let total = (profile.writes() * specs.len() as u64).max(1);
    let played_pages = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&played_pages);
    let _line = progress::begin(move || {
        let done = seen.load(Ordering::Relaxed) * 100 / total;
        format!(": {} %", done.min(100))
    });
    let run = |spec: &Spec| {
        let bytes = [needed(spec), available];
        let [needed, available] = bytes.map(|n| n >> 20);
        match bytes[0] > bytes[1] {
            true => Err(SimError::Memory(
                spec.to_string(),
                MemoryError { needed, available },
            )),
            false => sim::run(trace, profile, model, spec, &played_pages),
        }
    };
    let next = AtomicUsize::new(0);
    let outcomes: Vec<OnceLock<_>> = specs.iter().map(|_| OnceLock::new()).collect();
    let work = || loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        let Some(spec) = specs.get(n) else { return };
        outcomes[n].get_or_init(|| run(spec));
    };
    let processors = || thread::available_parallelism().map_or(1, |n| n.get());
    let threads = match jobs {
        Some(jobs) => usize::from(jobs),
        None => processors().min((available / 2 / most) as usize).max(1),
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(specs.len()) {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes.into_iter().filter_map(OnceLock::into_inner);
    let fits = |outcome| match outcome {
        Err(e) if SimError::lack(&e).is_none() => Err(e),
        outcome => Ok(outcome),
    };
    Ok(outcomes.map(fits).collect::<Result<Vec<_>, SimError>>()?)
}

/// `null`: the policy does not fit the drive.
fn rows(runs: &[PolicyRun<'_>], spare: u64, chosen: &str) -> serde_json::Value {
    let row = |r: &PolicyRun<'_>| {
        let o = r.outcome.as_ref().ok();
        json!({
            "policy": r.spec.name(), "discard": r.discard, "streams_used": o.map(|o| o.streams_used),
            "waf": o.map(|o| o.waf), "unmapped_share": o.map(|o| o.unmapped_share),
            "host_pages": o.map(|o| o.host_pages), "gc_pages": o.map(|o| o.gc_pages),
            "erases": o.map(|o| o.erases), "open_units": o.map(|o| o.open_units), "spare_units": spare,
            "reason": match &r.outcome {
                Err(e) => Some(e.to_string()),
                Ok(_) => r.spec.is_auto().then(|| chosen.to_owned()),
            },
        })
    };
    runs.iter().map(row).collect()
}

fn details(profile: &Profile, found: &Found, pages: u64, runs: &[PolicyRun]) -> serde_json::Value {
    let shares: serde_json::Map<String, serde_json::Value> = Class::ALL
        .iter()
        .zip(profile.classes)
        .map(|(class, n)| (class.to_string(), (n as f64 / profile.run_writes as f64).into()))
        .collect();
    let policies: Vec<serde_json::Value> = runs
        .iter()
        .map(|r| match &r.outcome {
            Err(e) => json!({ "policy": r.spec.name(), "discard": r.discard, "reason": e.to_string() }),
            Ok(o) => json!({
                "policy": r.spec.name(),
                "discard": r.discard,
                "streams": o.by_stream.iter().map(|(stream, (host, gc))| json!({
                    "stream": stream, "host_pages": host, "gc_pages": gc,
                })).collect::<Vec<_>>(),
                "erases": o.erases,
                "wear": o.wear,
                "series": o.series,
            }),
        })
        .collect();
    json!({
        "drive_pages": pages,
        "load_pages": profile.load_writes,
        "run_pages": profile.run_writes,
        "checkpoints": profile.checkpoints,
        "interval_seconds": found.interval.map(|i| i.0),
        "interval_share": found.interval.map(|i| i.1),
        "listed_share": found.listed,
        "shares": shares,
        "policies": policies,
    })
}

fn mib(pages: u64) -> u64 {
    (pages * PAGE) >> 20
}

/// Checks of the command line that its parser cannot make.
pub(crate) fn check(a: &Simulate) -> Result<()> {
    if let sim::LoadStream::Stream(n) = a.load_stream {
        if n > a.streams {
            bail!("--load-stream {n}: the drive has {} streams", a.streams);
        }
    }
    let policies: usize = a.policy.iter().map(|specs| specs.0.len()).sum();
    if a.dump.is_some() && (policies != 1 || a.discard == Discards::Both) {
        bail!("--dump: it takes one --policy, and --discard on or off");
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-2.0-only
//! `dsmctl simulate`.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use serde::Serialize;
use serde_json::json;

use dsm::class::Class;
use dsm::cli::dsmctl::{Collection, GcDestination, Output, Simulate, MIN_UNIT, UNIT};
use dsm::flash::{Destination, Gc, PAGE};
use dsm::rules::Rules;
use dsm::sim::policies::Spec;
use dsm::sim::profile::Profile;
use dsm::sim::{self, Model, Outcome};
use dsm::trace::{self, Trace};

#[derive(Serialize)]
struct Row<'a> {
    policy: &'a str,
    streams_used: u32,
    waf: f64,
    host_pages: u64,
    gc_pages: u64,
}

pub fn simulate(a: &Simulate, out: Output) -> Result<()> {
    let path = a
        .trace
        .as_ref()
        .or(a.recording.as_ref())
        .context("there is nothing to play")?;
    let named = || path.display().to_string();
    let trace = read(a.trace.is_some(), path)?;
    let mut model = model(a)?;
    let profile = Profile::of(&trace, &model.primary, &model.rules).with_context(named)?;
    let pages = sim::check(&profile, &model).with_context(named)?;
    while a.unit.is_none() && model.unit * PAGE > MIN_UNIT && !model.has_room(pages) {
        model.unit /= 2;
    }
    let specs = if a.policy.is_empty() {
        usual(model.streams, !a.rules.is_empty())
    } else {
        a.policy.clone()
    };
    let outcomes = run_all(&trace, &profile, &model, &specs).with_context(named)?;
    if let Some(path) = &a.details {
        let mut details = details(&profile, pages, &outcomes);
        for (spec, policy) in specs
            .iter()
            .zip(details["policies"].as_array_mut().into_iter().flatten())
        {
            policy["regions"] = history(&trace, &profile, &model, spec).with_context(named)?;
        }
        let text = serde_json::to_string_pretty(&details)?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    let fewer = match (out, best(&outcomes)) {
        (Output::Text, Some(best)) if a.policy.is_empty() => {
            fewer_streams(&trace, &profile, &model, best).with_context(named)?
        }
        _ => Vec::new(),
    };
    crate::print(out, &rows(&outcomes), || {
        text(&trace, &profile, &model, pages, &specs, &outcomes) + &advice(&outcomes, &fewer)
    })
}

/// What is compared when nothing is asked for: with the values of K that fit.
fn usual(streams: u8, rules: bool) -> Vec<Spec> {
    let fits = |groups: &u8| 2 * groups + 2 <= streams;
    let of = |groups: u8| format!("dsm:groups={groups}").parse();
    let mut specs = Spec::all(rules);
    let at = specs
        .iter()
        .position(|s| s.to_string() == "dsm")
        .map_or(0, |n| n + 1);
    specs.splice(
        at..at,
        [2, 4, 5, 7]
            .into_iter()
            .filter(fits)
            .map(|k| of(k).expect("K is in range")),
    );
    specs
}

/// The write amplification of a policy with ever more streams.
fn fewer_streams(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    best: &Outcome,
) -> Result<Vec<(u8, f64)>, sim::SimError> {
    let spec: Spec = best.policy.parse().expect("it has run");
    let progress = AtomicU64::new(0);
    [2, 4, 6, 8, 12, 16]
        .into_iter()
        .filter(|streams| *streams < model.streams)
        .map(|streams| {
            let model = Model {
                streams,
                ..model.clone()
            };
            Ok((streams, sim::run(trace, profile, &model, &spec, &progress)?.waf))
        })
        .chain([Ok((model.streams, best.waf))])
        .collect()
}

/// A recording, or a trace that is text.
pub fn read(is_text: bool, path: &Path) -> Result<Trace> {
    let named = || path.display().to_string();
    if path == Path::new("-") {
        return trace::text::read(io::stdin().lock()).context("stdin");
    }
    let file = BufReader::with_capacity(1 << 20, File::open(path).with_context(named)?);
    if is_text {
        return trace::text::read(file).with_context(named);
    }
    trace::read(file).with_context(named)
}

pub fn print_trace(path: &Path) -> Result<()> {
    let named = || path.display().to_string();
    let file = BufReader::with_capacity(1 << 20, File::open(path).with_context(named)?);
    let trace = trace::read(file).with_context(named)?;
    match trace::text::write(&trace, BufWriter::new(io::stdout().lock())) {
        // `dsmctl trace | head`
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to stdout"),
    }
}

fn model(a: &Simulate) -> Result<Model> {
    Ok(Model {
        streams: a.streams,
        op: a.op,
        fill: a.fill,
        pages: a.size.map(|bytes| bytes / PAGE),
        unit: a.unit.unwrap_or(UNIT) / PAGE,
        gc: match a.gc {
            Collection::Greedy => Gc::Greedy,
            Collection::CostBenefit => Gc::CostBenefit,
        },
        destination: match a.gc_destination {
            GcDestination::Shared => Destination::Shared,
            GcDestination::Stream => Destination::Stream,
        },
        warmup: a.warmup,
        load_stream: a.load_stream,
        primary: a.primary.clone(),
        rules: Rules::read(&a.rules)?,
    })
}

/// Plays all policies, as many at a time as there are processors.
fn run_all(trace: &Trace, profile: &Profile, model: &Model, specs: &[Spec]) -> Result<Vec<Outcome>> {
    let progress = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let next = AtomicU64::new(0);
    let outcomes: Mutex<Vec<Option<Result<Outcome, sim::SimError>>>> =
        Mutex::new(specs.iter().map(|_| None).collect());
    let work = || loop {
        let n = next.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(spec) = specs.get(n) else { break };
        let outcome = sim::run(trace, profile, model, spec, &progress);
        outcomes.lock().expect("no thread has panicked")[n] = Some(outcome);
    };
    let threads = thread::available_parallelism()
        .map_or(1, |n| n.get())
        .min(specs.len());
    let total = profile.writes() * specs.len() as u64;
    thread::scope(|scope| {
        let bar = io::stderr()
            .is_terminal()
            .then(|| scope.spawn(|| show_progress(&progress, total, &over)));
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().expect("a policy does not panic");
        }
        over.store(true, Ordering::Relaxed);
        if let Some(bar) = bar {
            bar.thread().unpark();
        }
    });
    let outcomes = outcomes.into_inner().expect("no thread has panicked");
    Ok(outcomes
        .into_iter()
        .flatten()
        .collect::<Result<Vec<Outcome>, _>>()?)
}

/// On runs of more than a second.
fn show_progress(progress: &AtomicU64, total: u64, over: &AtomicBool) {
    thread::park_timeout(Duration::from_secs(1));
    let mut shown = false;
    while !over.load(Ordering::Relaxed) {
        let done = (progress.load(Ordering::Relaxed) * 100 / total.max(1)).min(100) as usize;
        eprint!("\r[{:<50}] {done:3} %", "#".repeat(done / 2));
        shown = true;
        thread::park_timeout(Duration::from_millis(200));
    }
    if shown {
        eprint!("\r{:60}\r", "");
    }
}

fn rows(outcomes: &[Outcome]) -> Vec<Row<'_>> {
    outcomes
        .iter()
        .map(|o| Row {
            policy: &o.policy,
            streams_used: o.streams_used,
            waf: o.waf,
            host_pages: o.host_pages,
            gc_pages: o.gc_pages,
        })
        .collect()
}

fn details(profile: &Profile, pages: u64, outcomes: &[Outcome]) -> serde_json::Value {
    let shares: serde_json::Map<String, serde_json::Value> = Class::ALL
        .iter()
        .zip(profile.classes)
        .map(|(class, n)| (class.to_string(), (n as f64 / profile.run_writes as f64).into()))
        .collect();
    let policies: Vec<serde_json::Value> = outcomes
        .iter()
        .map(|o| {
            json!({
                "policy": o.policy,
                "streams": o.by_stream.iter().map(|(stream, (host, gc))| json!({
                    "stream": stream, "host_pages": host, "gc_pages": gc,
                })).collect::<Vec<_>>(),
                "erases": o.erases,
                "wear": {
                    "min": o.wear.min, "max": o.wear.max,
                    "mean": o.wear.mean, "deviation": o.wear.deviation,
                },
                "mib_per_second": o.times.mib_per_second,
                "mean_us": o.times.mean_us,
                "p99_us": o.times.p99_us,
                "series": o.series.iter().map(|s| json!([s.host_pages, s.waf])).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "drive_pages": pages,
        "load_pages": profile.load_writes,
        "run_pages": profile.run_writes,
        "checkpoints": profile.checkpoints,
        "shares": shares,
        "policies": policies,
    })
}

/// Group and stream of each region after each checkpoint.
fn history(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    spec: &Spec,
) -> Result<serde_json::Value, sim::SimError> {
    let sides = sim::history::history(trace, profile, model, spec)?;
    Ok(sides
        .iter()
        .map(|s| {
            json!({
                "file": s.file, "class": s.class.to_string(), "side": if s.top { "top" } else { "bottom" },
                "from": s.from, "groups": s.groups, "streams": s.streams,
            })
        })
        .collect())
}

fn mib(pages: u64) -> u64 {
    sim::bytes(pages) >> 20
}

fn text(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    pages: u64,
    specs: &[Spec],
    outcomes: &[Outcome],
) -> String {
    let mut s = format!(
        "{} files, {} MiB; {} MiB written in the load phase, {} MiB after it\n\
         of these: {}\n\
         drive: {} MiB and {:.0} % over-provisioning, erase units of {} KiB, {} streams, {}\n\n",
        trace.files,
        mib(u64::from(profile.pages)),
        mib(profile.load_writes),
        mib(profile.run_writes),
        shares(profile),
        mib(pages),
        model.op * 100.0,
        model.unit * PAGE / 1024,
        model.streams,
        match model.gc {
            Gc::Greedy => "greedy collection",
            Gc::CostBenefit => "cost-benefit collection",
        },
    );
    let width = outcomes.iter().map(|o| o.policy.len()).max().unwrap_or(0).max(6);
    let most = outcomes.iter().map(|o| o.waf).fold(1.0, f64::max);
    let _ = writeln!(s, "{:<width$}  streams    WAF  erases  copied MiB", "policy");
    for o in outcomes {
        let bar = "#".repeat((40.0 * (o.waf - 1.0) / (most - 1.0).max(1e-9)).round() as usize);
        let _ = writeln!(
            s,
            "{:<width$}  {:7} {:6.3} {:7} {:11}  {bar}",
            o.policy,
            o.streams_used,
            o.waf,
            o.erases,
            mib(o.gc_pages)
        );
    }
    let _ = writeln!(
        s,
        "\nThe bars show what is copied beside each page that the host writes."
    );
    for spec in specs.iter().filter(|s| !s.to_string().starts_with("dsm:")) {
        let _ = writeln!(s, "{:<width$}  {}", spec.to_string(), spec.source());
    }
    s
}

fn shares(profile: &Profile) -> String {
    let written = Class::ALL.iter().zip(profile.classes).filter(|(_, n)| *n > 0);
    let share = |n: u64| 100.0 * n as f64 / profile.run_writes as f64;
    let shares: Vec<String> = written
        .map(|(class, n)| format!("{class} {:.1} %", share(n)))
        .collect();
    shares.join(", ")
}

/// The best of those that a user can have: the module's policies.
fn best(outcomes: &[Outcome]) -> Option<&Outcome> {
    let name = |o: &Outcome| o.policy.split(':').next().unwrap_or_default().to_owned();
    outcomes
        .iter()
        .filter(|o| ["file", "boundary", "dsm"].contains(&name(o).as_str()))
        .min_by(|a, b| a.waf.total_cmp(&b.waf))
}

/// What follows for a user.  `fewer`: the best policy with ever more streams.
fn advice(outcomes: &[Outcome], fewer: &[(u8, f64)]) -> String {
    let none = outcomes.iter().find(|o| o.policy == "none");
    let (Some(none), Some(best)) = (none, best(outcomes)) else {
        return String::new();
    };
    let gain = 100.0 * (1.0 - best.waf / none.waf);
    let mut s = if gain < 2.0 {
        format!(
            "\nStreams buy little here: {} lowers what the flash writes by {:.1} %.\n",
            best.policy,
            gain.max(0.0)
        )
    } else {
        format!(
            "\nUse policy {}: the flash writes {gain:.1} % less than without streams, with {} streams.\n",
            best.policy, best.streams_used
        )
    };
    let enough = fewer.iter().find(|(_, waf)| *waf < 1.01 * best.waf);
    if let (true, Some((enough, _))) = (gain >= 2.0 && fewer.len() > 1, enough) {
        let wafs: Vec<String> = fewer.iter().map(|(n, waf)| format!("{n}: {waf:.3}")).collect();
        let _ = writeln!(
            s,
            "Its WAF by the number of streams: {}; {enough} are enough.",
            wafs.join(", ")
        );
    }
    if none.waf > 1.5 {
        s += "If the collections' leaf pages are larger than 4 KiB, smaller ones write less: record such a\n\
              database and compare the MiB written.\n";
    }
    s
}

/// Checks of the command line that its parser cannot make.
pub fn check(a: &Simulate) -> Result<()> {
    if let sim::LoadStream::Stream(n) = a.load_stream {
        if n > a.streams {
            bail!("--load-stream {n}: the drive has {} streams", a.streams);
        }
    }
    Ok(())
}

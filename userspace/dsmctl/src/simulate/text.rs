// SPDX-License-Identifier: GPL-2.0-or-later
//! What `dsmctl simulate` prints for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use dm::class::Class;
use drive::afford::Copies;
use runtime::grid::{or_dash, Grid};
use runtime::text::wrap;
use simulate::flash::{Gc, PAGE};
use simulate::sim::policies::Spec;
use simulate::sim::profile::Profile;
use simulate::sim::{Model, SimError, Simulated};
use simulate::trace::Trace;

use super::answer::{Answer, AnswerCell, Found};
use super::{mib, PolicyRun};

pub(super) fn text(
    trace: &Trace,
    profile: &Profile,
    model: &Model,
    pages: u64,
    specs: &[Spec],
    runs: &[PolicyRun],
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
            Gc::Greedy => "greedy garbage collection",
            Gc::CostBenefit => "cost-benefit garbage collection",
        },
    );
    let most = done(runs).map(|(_, o)| o.waf).fold(1.0, f64::max);
    let heading = ["policy", "streams", "WAF", "erases", "copied MiB", ""];
    let mut grid = Grid::new(&heading, &[false, true, true, true, true, false]);
    for r in runs {
        let o = r.outcome.as_ref().ok();
        let copied = |o: &Simulated| (40.0 * (o.waf - 1.0) / (most - 1.0).max(1e-9)).round() as usize;
        let bar = o.map_or_else(String::new, |o| "#".repeat(copied(o)));
        let waf = or_dash(o.map(|o| format!("{:.3}", o.waf)));
        let figures = [
            o.map(|o| o.streams_used.into()),
            o.map(|o| o.erases),
            o.map(|o| mib(o.gc_pages)),
        ];
        let [streams, erases, mib] = figures.map(or_dash);
        grid.row(&[&r.name(), &streams, &waf, &erases, &mib, &bar]);
    }
    s += &grid.text();
    s += "\nThe bars show what is copied beside each page that the host writes.\n";
    let mut grid = Grid::new(&[], &[false; 2]);
    for spec in specs.iter().filter(|s| !s.to_string().starts_with("dsm:")) {
        grid.row(&[spec, &spec.source()]);
    }
    s + grid.text().trim_start()
}

pub(super) fn shares(profile: &Profile) -> String {
    let written = Class::ALL.iter().zip(profile.classes).filter(|(_, n)| *n > 0);
    let share = |n: u64| 100.0 * n as f64 / profile.run_writes as f64;
    let shares: Vec<String> = written
        .map(|(class, n)| format!("{class} {:.1} %", share(n)))
        .collect();
    shares.join(", ")
}

/// The runs that fit the drive.
pub(super) fn done<'a, 'b>(
    runs: &'a [PolicyRun<'b>],
) -> impl Iterator<Item = (&'a PolicyRun<'b>, &'a Simulated)> {
    runs.iter().filter_map(|r| Some((r, r.outcome.as_ref().ok()?)))
}

/// What `auto` has chosen; what does not fit, and what takes more spare units than streams
/// are worth.
pub(super) fn fit(runs: &[PolicyRun], spare: u64, copies: Copies, chosen: &str) -> String {
    let mut s = String::new();
    if runs.iter().any(|r| r.spec.is_auto()) {
        let _ = writeln!(s, "\n{}", filled(&format!("auto is {chosen}.")));
    }
    // With and without discards a policy has the same streams.
    let mut lacking: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for r in runs {
        if let Some(why) = r.outcome.as_ref().err().and_then(SimError::lack) {
            lacking.entry(why).or_default().insert(r.spec.name());
        }
    }
    for (why, names) in lacking {
        let names: Vec<&str> = names.into_iter().collect();
        let line = format!("Skipped, too few spare units: {}. {why}.", names.join(", "));
        let _ = writeln!(s, "\n{}", filled(&line));
    }
    let holds = |(r, o): (&PolicyRun<'_>, &Simulated)| (o.open_units, r.spec.name().to_owned());
    let greedy = done(runs).filter(|(r, _)| r.greedy);
    let greedy: BTreeSet<(u64, String)> = greedy.map(holds).collect();
    if !greedy.is_empty() {
        let each: Vec<String> = greedy
            .iter()
            .map(|(open, name)| format!("{name} ({open})"))
            .collect();
        let line = format!(
            "Warning: {} or more of the drive's {spare} spare erase units is held by the streams of {}; \
             collection lacks them, and on a drive with more units these policies do better.",
            copies.share_text(),
            each.join(", ")
        );
        let _ = writeln!(s, "\n{}", filled(&line));
    }
    s
}

/// In lines of at most 90 characters.
pub(super) fn filled(text: &str) -> String {
    wrap(text, 90).join("\n")
}

/// The best of those that a user can have: the module's policies, or none of them.
pub(super) fn best<'a>(runs: &'a [PolicyRun<'_>]) -> Option<(&'a PolicyRun<'a>, &'a Simulated)> {
    let can = |r: &(&PolicyRun, &Simulated)| r.0.spec.is_of_the_module();
    done(runs).filter(can).min_by(|a, b| a.1.waf.total_cmp(&b.1.waf))
}

/// What streams and discards save, and what follows.  `fewer`: the best with ever more
/// streams.
pub(super) fn answered(runs: &[PolicyRun<'_>], found: &Found, fewer: &[(u8, f64)]) -> String {
    let cells: Vec<AnswerCell<'_>> = done(runs)
        .filter(|(r, _)| r.spec.is_of_the_module())
        .map(|(r, o)| AnswerCell {
            policy: r.spec.name(),
            discard: r.discard,
            streams: o.by_stream.len() > 1,
            greedy: r.greedy,
            waf: o.waf,
            unmapped: o.unmapped_share,
        })
        .collect();
    let Some(answer) = Answer::of(&cells) else {
        return "To see what is saved, play policy none as well, and without discards.\n\n".into();
    };
    let mut s = answer.text(found);
    let best = answer.best();
    let enough = fewer.iter().find(|(_, waf)| *waf < 1.01 * best.waf);
    if let (true, true, Some((enough, _))) = (best.streams, fewer.len() > 1, enough) {
        let wafs: Vec<String> = fewer.iter().map(|(n, waf)| format!("{n}: {waf:.3}")).collect();
        let line = format!(
            "The WAF of {} by the number of streams: {}; {enough} are enough.",
            best.policy,
            wafs.join(", ")
        );
        let _ = writeln!(s, "\n{}", filled(&line));
    }
    if answer.base_waf() > 1.5 {
        s += "If the collections' leaf pages are larger than 4 KiB, smaller ones write less: record such a\n\
              database and compare the MiB written.\n";
    }
    s + "\n"
}

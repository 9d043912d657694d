// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl group`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use serde_json::json;

use crate::cli::{Group, Output};
use crate::{refused, simulate};
use ::simulate::group::{self, is_small, Object, Why};
use ::simulate::sim::objects;
use dm::device::{Device, Target};
use dm::reply::Region;
use files::rules::Rules;
use proto::control::{FileInfo, Request};
use runtime::grid::{percent, Grid};
use runtime::text::printable;

pub(crate) fn group(a: &Group, out: Output) -> Result<()> {
    let (objects, has) = match &a.name {
        Some(name) => live(name, a.seconds.0)?,
        None => recorded(a)?,
    };
    let streams = a.streams.or(has).context("--streams is required")?;
    let total: u64 = objects.iter().map(|o| o.pages).sum();
    if total == 0 {
        bail!("nothing was written");
    }
    let groups = group::group(&objects, streams);
    let share = |o: &Object| o.pages as f64 / total as f64;
    let rows: Vec<_> = groups
        .iter()
        .flat_map(|g| g.objects.iter().map(|n| (g.stream, &objects[*n])))
        .map(|(stream, o)| {
            json!({
                "name": o.name, "stream": stream, "interval": o.interval,
                "pages": o.pages, "share": share(o), "small": is_small(o, total),
            })
        })
        .collect();
    let named = |g: &group::Group| {
        let names: Vec<&str> = g.objects.iter().map(|n| objects[*n].name.as_str()).collect();
        json!({ "stream": g.stream, "objects": names, "why": g.why })
    };
    let grouped: Vec<_> = groups.iter().map(named).collect();
    let data = json!({ "streams": streams, "pages": total, "objects": rows, "groups": grouped });
    crate::print(out, &data, || text(&objects, &groups, streams, total))
}

fn text(objects: &[Object], groups: &[group::Group], streams: u8, total: u64) -> String {
    let mut grid = Grid::new(
        &["STREAM", "OBJECT", "INTERVAL", "PAGES", "SHARE"],
        &[true, false, true, true, true],
    );
    for g in groups {
        for o in g.objects.iter().map(|n| &objects[*n]) {
            grid.row(vec![
                g.stream.to_string(),
                printable(&o.name),
                format!("{:.0}", o.interval),
                o.pages.to_string(),
                percent(o.pages, total),
            ]);
        }
    }
    let mut text = grid.text();
    let written = objects.iter().filter(|o| o.pages > 0).count();
    writeln!(text, "\n{written} objects, {streams} streams; an interval is the pages written to all objects\nfrom one update of a page to the next.").expect("strings grow");
    for g in groups {
        let why = match g.why {
            Why::ExtremelyHot { times } => {
                format!("updated {times:.0} times as often as anything else: split off first")
            }
            Why::Alone => "by itself: there is a stream for it".to_owned(),
            Why::Alike { factor } => {
                format!(
                    "{} objects that are alike: their intervals differ by a factor of {factor:.2}",
                    g.objects.len()
                )
            }
        };
        writeln!(text, "stream {}: {why}", g.stream).expect("strings grow");
    }
    let small = objects
        .iter()
        .filter(|o| o.pages > 0 && is_small(o, total))
        .count();
    if small > 0 {
        writeln!(
            text,
            "{small} objects have less than 1 % of the writes each; they are where their like is."
        )
        .expect("strings grow");
    }
    text
}

/// From a recording: exact.
fn recorded(a: &Group) -> Result<(Vec<Object>, Option<u8>)> {
    let (path, is_text) = match (&a.trace, &a.recording) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => bail!("there is nothing to read"),
    };
    let trace = simulate::read(is_text, path)?;
    let rules = Rules::read(&a.rules)?;
    let objects = objects::measure(&trace, &rules).with_context(|| path.display().to_string())?;
    Ok((objects, None))
}

/// What a running dsmd's files were written within some time.  A page of an object is
/// taken to be updated as often as any other of it.
fn live(name: &str, time: Duration) -> Result<(Vec<Object>, Option<u8>)> {
    let device = Device::open(name)?;
    let regions = || device.regions().map_err(|e| refused(name, e));
    let pages = |r: Vec<Region>| {
        let mut pages: HashMap<u64, u64> = HashMap::new();
        for r in r {
            *pages.entry(r.id).or_default() += r.total;
        }
        pages
    };
    let before = pages(regions()?);
    thread::sleep(time);
    let after = regions()?;
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    for r in &after {
        *sizes.entry(r.id).or_default() += r.bytes;
    }
    let after = pages(after);
    let files: Vec<FileInfo> = crate::ask(name, Request::Files)?;
    let has_rules = files.iter().any(|f| f.object.is_some());
    // Pages written, and pages that there are.
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for f in files {
        let object = match f.object {
            Some(object) => object,
            None if has_rules => f.class.name().to_owned(),
            None => f.path,
        };
        let sum = sums.entry(object).or_default();
        let total = |of: &HashMap<u64, u64>| of.get(&f.id).copied().unwrap_or(0);
        // A file that came meanwhile began with nothing.
        sum.0 += total(&after).saturating_sub(total(&before));
        sum.1 += total(&sizes).div_ceil(4096);
    }
    let all: u64 = sums.values().map(|s| s.0).sum();
    let object = |(name, (pages, size)): (String, (u64, u64))| Object {
        name,
        interval: size as f64 * all as f64 / pages.max(1) as f64,
        pages,
    };
    let streams = device.status().map_err(|e| refused(name, e))?.device_streams;
    let objects = sums.into_iter().map(object).collect();
    Ok((objects, u8::try_from(streams).ok().filter(|n| *n > 0)))
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! `dsmctl cost`: what a saving is worth, by the formulas of cost-of-ownership.md.

use std::fmt::Write;

use anyhow::{bail, Context, Result};
use serde::Serialize;
use serde_json::Value;

use crate::cli::{Cost, OnOff, Output};

/// A share of flash writes that is saved, and between what it lies.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Saving {
    saved: f64,
    low: f64,
    high: f64,
    /// Write amplification without it.
    waf: Option<f64>,
    /// Where it comes from.
    by: String,
}

/// A figure as it is, and with the saving, its least and its most.
#[derive(Debug, PartialEq, Serialize)]
struct Years {
    now: f64,
    then: f64,
    low: f64,
    high: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    flash: Saving,
    years: Years,
    /// A year and drive.
    money: Option<f64>,
    assumed: Vec<String>,
}

pub(crate) fn cost(a: &Cost, out: Output) -> Result<()> {
    let named = || a.file.display().to_string();
    let text = std::fs::read(&a.file).with_context(named)?;
    let json: Value = serde_json::from_slice(&text).with_context(named)?;
    let report = report(a, &saving(a, &json).with_context(named)?)?;
    crate::print(out, &report, || report.text(a))
}

fn saving(a: &Cost, json: &Value) -> Result<Saving> {
    match json {
        Value::Array(rows) => simulated(a, rows),
        Value::Object(_) => measured(json),
        _ => bail!("it is neither what dsmctl trial report nor what dsmctl simulate prints with -o json"),
    }
}

fn measured(json: &Value) -> Result<Saving> {
    let of = |name| json["flash"][name].as_f64();
    let (Some(saved), Some(low), Some(high)) = (of("saved"), of("low"), of("high")) else {
        bail!("it has no saving of flash writes: the trial cannot tell yet, or the drive does not count");
    };
    let periods = json["periods"].as_array().map_or(&[][..], Vec::as_slice);
    let off: Vec<f64> = periods
        .iter()
        .filter(|p| p["on"] == false)
        .filter_map(|p| p["waf"].as_f64())
        .collect();
    Ok(Saving {
        saved,
        low,
        high,
        waf: (!off.is_empty()).then(|| off.iter().sum::<f64>() / off.len() as f64),
        by: format!(
            "measured by a trial on {}, {} pairs of periods, 95 % interval",
            json["machine"]["model"].as_str().unwrap_or("a drive"),
            json["flash"]["pairs"]
        ),
    })
}

fn simulated(a: &Cost, rows: &[Value]) -> Result<Saving> {
    let waf = |policy: &str, discard: bool| {
        let row = rows
            .iter()
            .find(|r| r["policy"] == policy && r["discard"] == discard)?;
        row["waf"].as_f64()
    };
    let last = rows
        .last()
        .and_then(|r| r["policy"].as_str())
        .context("it has no policies")?;
    let has_auto = rows.iter().any(|r| r["policy"] == "auto");
    let policy = a
        .policy
        .as_deref()
        .unwrap_or(if has_auto { "auto" } else { last });
    let discard = a.discard == OnOff::On;
    let now =
        waf("none", false).context("it has no figure of policy none without discards to compare with")?;
    let then = waf(policy, discard).with_context(|| {
        let with = if discard { "with" } else { "without" };
        format!("it has no figure of policy {policy} {with} discards")
    })?;
    let saved = 1.0 - then / now;
    Ok(Saving {
        saved,
        low: saved,
        high: saved,
        waf: Some(now),
        by: format!(
            "modelled by simulate, policy {policy}, discards {}",
            if discard { "on" } else { "off" }
        ),
    })
}

fn report(a: &Cost, flash: &Saving) -> Result<Report> {
    let mut assumed = vec!["the load stays as it is".to_owned()];
    let now = match (a.used, a.years, a.tbw, a.written) {
        (Some(used), Some(years), ..) => {
            if used >= 100.0 {
                bail!("--used {used}: the rated endurance is used up, so that no years are left to compare");
            }
            assumed.push("the drive is worn out at 100 % of its rated endurance".to_owned());
            (100.0 - used) * years / used
        }
        (_, _, Some(tbw), Some(written)) => {
            let waf = flash
                .waf
                .context("it does not say the write amplification that there is now")?;
            assumed.push(format!(
                "the flash takes {tbw} TB, as if the maker had rated it for a write amplification of 1"
            ));
            assumed.push(format!("write amplification is {waf:.2} now"));
            tbw / (written * waf * 365.0)
        }
        _ => bail!("--used with --years, or --tbw with --written, is needed"),
    };
    let then = |saved: f64| now / (1.0 - saved);
    let years = Years {
        now,
        then: then(flash.saved),
        low: then(flash.low),
        high: then(flash.high),
    };
    let money = a
        .price
        .map(|price| price / now.min(a.keep) - price / years.then.min(a.keep));
    if money.is_some() {
        assumed.push(format!("a drive is kept {} years at most", a.keep));
    }
    Ok(Report {
        flash: flash.clone(),
        years,
        money,
        assumed,
    })
}

impl Report {
    fn text(&self, a: &Cost) -> String {
        let (f, y) = (&self.flash, &self.years);
        let between = |low: String, high: String| {
            if f.low == f.high {
                String::new()
            } else {
                format!(" ({low} to {high})")
            }
        };
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let mut s = format!(
            "Flash writes saved: {}{}, {}\n",
            percent(f.saved),
            between(percent(f.low), percent(f.high)),
            f.by
        );
        let figure = |years: f64| format!("{years:.1}");
        let _ = writeln!(
            s,
            "Years of the drive: {} now, {}{} then",
            figure(y.now),
            figure(y.then),
            between(figure(y.low), figure(y.high))
        );
        if let (Some(money), Some(price)) = (self.money, a.price) {
            let _ = writeln!(
                s,
                "Money saved: {money:.2} a year and drive, of a price of {price}"
            );
        }
        let _ = writeln!(s, "Assumed: {}.", self.assumed.join("; "));
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Args, Command};
    use clap::Parser;

    fn args(words: &str) -> Cost {
        let line = format!("dsmctl cost FILE {words}");
        match Args::try_parse_from(line.split(' ')).unwrap().command {
            Command::Cost(a) => a,
            _ => unreachable!(),
        }
    }

    fn run(words: &str, json: &Value) -> Result<Report> {
        let a = args(words);
        report(&a, &saving(&a, json)?)
    }

    /// The examples of cost-of-ownership.md
    #[test]
    fn the_page_says_the_same() {
        let trial = serde_json::json!({"flash": {"saved": 0.25, "low": 0.2, "high": 0.3, "pairs": 6}, "periods": [],
            "machine": {"model": "M"}});
        let found = run("--used 30 --years 1.5", &trial).unwrap();
        assert!(
            (found.years.now - 3.5).abs() < 0.01 && (found.years.then - 4.67).abs() < 0.01,
            "{found:?}"
        );
        assert!((found.years.low - 4.375).abs() < 0.01 && (found.years.high - 5.0).abs() < 0.01);
        assert_eq!(found.money, None);

        let rows = serde_json::json!([
            {"policy": "none", "discard": false, "waf": 2.0}, {"policy": "none", "discard": true, "waf": 1.8},
            {"policy": "life", "discard": false, "waf": 1.9}, {"policy": "life", "discard": true, "waf": 1.4}]);
        let a = "--tbw 3504 --written 2 --price 400";
        let found = run(a, &rows).unwrap();
        assert!(
            (found.years.now - 2.4).abs() < 0.01 && (found.years.then - 3.43).abs() < 0.01,
            "{found:?}"
        );
        assert!((found.money.unwrap() - 50.0).abs() < 0.1, "{found:?}");
        assert!(found.flash.by.contains("policy life"));
        let without = run(&format!("{a} --policy none"), &rows).unwrap();
        assert!((without.flash.saved - 0.1).abs() < 1e-9);
        assert!(run(&format!("{a} --policy oracle"), &rows).is_err());
        let text = found.text(&args(a));
        assert!(
            text.starts_with("Flash writes saved: 30.0 %, modelled by simulate"),
            "{text}"
        );
    }

    #[test]
    fn what_says_nothing() {
        for (words, json) in [
            ("--used 30 --years 1", serde_json::json!({"flash": null})),
            ("--used 30 --years 1", serde_json::json!([])),
            ("--used 30 --years 1", serde_json::json!("x")),
            (
                "--used 100 --years 1",
                serde_json::json!({"flash": {"saved": 0.1, "low": 0.1, "high": 0.1}}),
            ),
            (
                "--tbw 1 --written 1",
                serde_json::json!({"flash": {"saved": 0.1, "low": 0.1, "high": 0.1}}),
            ),
        ] {
            assert!(run(words, &json).is_err(), "{words} {json}");
        }
        for words in [
            "",
            "--used 30",
            "--tbw 5",
            "--used 0 --years 1",
            "--used 1 --years 1 --tbw 1 --written 1",
        ] {
            let line = format!("dsmctl cost FILE {words}");
            assert!(Args::try_parse_from(line.split_whitespace()).is_err(), "{words}");
        }
    }
}

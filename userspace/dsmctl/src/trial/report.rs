// SPDX-License-Identifier: GPL-2.0-or-later
//! What is said of a trial: as data, as text, and as a picture.  It names the drive and the
//! machine's software, and nothing of the data.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::trial::estimate::{amplification, outcome, Outcome, Saving, LEAST_PAIRS};
use crate::trial::state::{Current, Machine, Period, TrialState, TrialSwitch, BY_SIZE};
use proto::control::TRIAL;
use runtime::grid::{or_dash, Grid};
use runtime::sizes;
use runtime::time::span;

#[derive(Debug, Serialize)]
pub struct Report<'a> {
    pub machine: &'a Machine,
    pub switch: &'a TrialSwitch,
    pub washout: String,
    pub measure: String,
    pub pairs: usize,
    pub seed: u64,
    /// Of a pair, as long as those so far.
    pub pair_seconds: Option<f64>,
    /// `null`: it is over, or has ended.
    pub progress: Option<Progress>,
    /// Since the last sample, if the next one is overdue.
    pub idle_seconds: Option<u64>,
    /// Why it does not go on.
    pub ended: Option<&'a str>,
    pub periods: Vec<PeriodRow>,
    /// Periods that began over.
    pub again: &'a [String],
    /// What is left out of periods.
    pub missed: &'a [String],
    pub no_counters: Option<&'a str>,
    /// The drive has neither a wwid nor a serial number: another one would not be noticed.
    pub known_by_size: bool,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Debug, Serialize)]
pub struct Progress {
    /// Of the period in progress, from 1; what is switched.
    pub period: usize,
    pub on: bool,
    pub washed_out: bool,
    /// Of the washout, or of what is measured.
    pub share: f64,
    pub seconds_left: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct PeriodRow {
    pub on: bool,
    pub seconds: f64,
    pub host_bytes: u64,
    /// Of the flash; null: the drive does not count, or too coarsely.
    pub waf: Option<f64>,
    pub write_ms: Option<f64>,
    pub read_ms: Option<f64>,
}

impl<'a> Report<'a> {
    pub fn of(state: &'a TrialState, age: Duration) -> Self {
        let plan = &state.plan;
        let row = |p: &Period| PeriodRow {
            on: p.on,
            seconds: p.seen.seconds,
            host_bytes: p.seen.bytes(),
            waf: amplification(&p.seen).ok().flatten(),
            write_ms: p.seen.write_ms(),
            read_ms: p.seen.read_ms(),
        };
        Self {
            machine: &state.machine,
            switch: &plan.switch,
            washout: plan.washout.to_string(),
            measure: plan.measure.to_string(),
            pairs: plan.pairs,
            seed: plan.seed,
            pair_seconds: pair_seconds(state),
            progress: state.is_unfinished().then(|| Progress::of(state)),
            idle_seconds: (state.is_unfinished() && age > TRIAL).then_some(age.as_secs()),
            ended: state.ended.as_deref(),
            periods: state.periods.iter().map(row).collect(),
            again: &state.again,
            missed: &state.missed,
            no_counters: state.no_counters.as_deref(),
            known_by_size: state.drive.starts_with(BY_SIZE),
            outcome: outcome(state),
        }
    }
}

impl Progress {
    fn of(state: &TrialState) -> Self {
        let current = state.current.as_ref();
        let share = |c: &Current| match &c.measured {
            None => state.plan.washout.passed(&c.washout),
            Some(seen) => state.plan.measure.passed(seen),
        };
        Self {
            period: state.periods.len() + 1,
            on: state.plan.is_on(state.periods.len()),
            washed_out: current.is_some_and(|c| c.measured.is_some()),
            share: current.map_or(0.0, share).min(1.0),
            seconds_left: seconds_left(state),
        }
    }
}

/// At the speed so far: of what is measured, and of the washout as well.
fn seconds_left(state: &TrialState) -> Option<f64> {
    let (washout, measure) = (state.plan.washout, state.plan.measure);
    let (mut seconds, mut shares) = (0.0, 0.0);
    for p in &state.periods {
        seconds += p.seen.seconds;
        shares += measure.passed(&p.seen);
    }
    let mut in_progress = 0.0;
    let scale = state.plan.washout_ratio();
    if let Some(c) = &state.current {
        let washout = washout.passed(&c.washout) * scale;
        let measured = c.measured.as_ref().map_or(0.0, |seen| measure.passed(seen));
        seconds += c.washout.seconds + c.measured.as_ref().map_or(0.0, |seen| seen.seconds);
        shares += washout + measured;
        in_progress = washout.min(scale) + measured;
    }
    let left = (2 * state.plan.pairs - state.periods.len()) as f64 * (1.0 + scale) - in_progress;
    (shares > 0.0 && seconds > 0.0).then(|| left.max(0.0) * seconds / shares)
}

fn pair_seconds(state: &TrialState) -> Option<f64> {
    let n = state.periods.len();
    let measured: f64 = state.periods.iter().map(|p| p.seen.seconds).sum();
    (n > 0).then(|| 2.0 * (1.0 + state.plan.washout_ratio()) * measured / n as f64)
}

fn on_off(on: bool) -> &'static str {
    ["off", "on"][usize::from(on)]
}

impl Report<'_> {
    pub fn text(&self) -> String {
        let (m, switch) = (self.machine, self.switch);
        // A virtual drive may have neither.
        let of = |what: &str, word: &str| match word {
            "" => String::new(),
            word => format!("{what}{word}, "),
        };
        let mut lines = vec![
            format!(
                "{}{}{}; Linux {}, dm-dsm {} (target {})",
                of("", &m.model),
                of("firmware ", &m.firmware),
                sizes::shown(m.bytes),
                m.kernel,
                env!("CARGO_PKG_VERSION"),
                m.module
            ),
            format!(
                "{} {} and {} in random order, {} pairs of periods; washout {}, measured {}",
                switch.feature, switch.on, switch.off, self.pairs, self.washout, self.measure
            ),
        ];
        lines.push(self.stage());
        lines.extend(self.idle_seconds.map(|seconds| {
            let since = span(seconds as f64);
            format!("NO SAMPLE FOR {since}: is dsm-trial@NAME.timer enabled, and what does its service say?")
        }));
        if !self.periods.is_empty() {
            lines.push(format!("\n{}", self.periods_text().trim_end()));
        }
        lines.extend(self.again.iter().map(|why| format!("began over: {why}")));
        lines.extend(self.missed.iter().map(|why| format!("left out: {why}")));
        if self.known_by_size {
            let text = "The drive has neither a wwid nor a serial number: another one of its size would not be noticed.";
            lines.push(text.to_owned());
        }
        lines.extend(self.outcome.left_out.iter().map(|why| format!("left out: {why}")));
        lines.push(String::new());
        let Outcome {
            flash,
            write_time,
            read_time,
            ..
        } = &self.outcome;
        lines.push(match self.no_counters {
            Some(why) => {
                format!("Flash writes: not known: {why}. What is measured is latency and host writes.")
            }
            None => self.line("Flash writes for the same host writes", flash.as_ref()),
        });
        lines.push(self.line("Mean time of a write", write_time.as_ref()));
        lines.push(self.line("Mean time of a read", read_time.as_ref()));
        lines.join("\n") + "\n"
    }

    /// How far it is.
    pub fn stage(&self) -> String {
        match (&self.progress, self.ended) {
            (Some(p), _) => {
                let left = p.seconds_left.map_or("not known yet".to_owned(), span);
                let phase = if p.washed_out { "measured" } else { "washout" };
                let (n, on, percent) = (p.period, on_off(p.on), 100.0 * p.share);
                let all = 2 * self.pairs;
                format!("Period {n} of {all} ({on}): {phase}, {percent:.0} %; time left: {left}")
            }
            (None, Some(why)) => format!("ENDED before it was over: {why}"),
            (None, None) => "The trial is over".to_owned(),
        }
    }

    fn periods_text(&self) -> String {
        let heading = [
            "PERIOD", "SWITCH", "TIME", "WRITTEN", "WAF", "WRITE ms", "READ ms",
        ];
        let mut grid = Grid::new(&heading, &[true; 7]);
        for (n, r) in (1..).zip(&self.periods) {
            let figures = [r.waf, r.write_ms, r.read_ms].map(|f| or_dash(f.map(|f| format!("{f:.3}"))));
            let ([waf, write, read], bytes) = (figures, sizes::shown(r.host_bytes));
            grid.row(&[&n, &on_off(r.on), &span(r.seconds), &bytes, &waf, &write, &read]);
        }
        grid.text()
    }

    fn line(&self, what: &str, saving: Option<&Saving>) -> String {
        let v = match saving {
            Some(v) if v.pairs >= LEAST_PAIRS => v,
            few => {
                let has = few.map(|v| format!("{} of the {LEAST_PAIRS} that", v.pairs));
                let has = has.unwrap_or_else(|| LEAST_PAIRS.to_string());
                return format!("{what}: too few pairs yet, {has} are needed at least");
            }
        };
        let [saved, low, high] = [v.saved, v.low, v.high].map(|share| {
            let p = 100.0 * share;
            format!("{:.1} % {}", p.abs(), if p < 0.0 { "more" } else { "less" })
        });
        let interval = format!("95 % interval: {low} to {high}, {} pairs", v.pairs);
        if v.is_significant() {
            let TrialSwitch { feature, on, .. } = self.switch;
            return format!("{what}: {saved} with {feature} {on} ({interval})");
        }
        let more = match v.pairs_needed {
            Some(n) if n > v.pairs => {
                let time = self.pair_seconds.map(|s| span(s * (n - v.pairs) as f64));
                let time = time.map_or_else(String::new, |time| format!(", {time} more"));
                format!("it would take about {n} pairs for such a difference{time}")
            }
            _ => "no number of pairs within reason would be enough for such a difference".to_owned(),
        };
        format!("{what}: no significant effect ({saved}; {interval}); {more}")
    }

    /// Write amplification by period, and what is saved.
    pub fn picture(&self) -> String {
        const LEFT: usize = 60;
        const BAR: usize = 34;
        const HIGH: f64 = 240.0;
        let most = self.periods.iter().filter_map(|r| r.waf).fold(1.0, f64::max) * 1.1;
        let width = (LEFT + BAR * self.periods.len().max(8) + 30).max(520);
        let mut s = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"360\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">Write amplification by period, {} {} and {}</text>\n",
            self.switch.feature, self.switch.on, self.switch.off
        );
        let y = |waf: f64| 40.0 + HIGH * (1.0 - waf / most);
        for tick in 0..=4 {
            let waf = most * f64::from(tick) / 4.0;
            let _ = writeln!(
                s,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{waf:.2}</text><line x1=\"{LEFT}\" x2=\"{}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
                LEFT - 6,
                y(waf) + 4.0,
                width - 20,
                y(waf),
                y(waf)
            );
        }
        for (n, r) in self.periods.iter().enumerate() {
            let Some(waf) = r.waf else { continue };
            let _ = writeln!(
                s,
                "<rect x=\"{}\" y=\"{:.1}\" width=\"{}\" height=\"{:.1}\" fill=\"{}\"/><text x=\"{}\" y=\"296\" text-anchor=\"middle\">{}</text>",
                LEFT + BAR * n + 4,
                y(waf),
                BAR - 8,
                HIGH + 40.0 - y(waf),
                if r.on { "#2a7f62" } else { "#b0b0b0" },
                LEFT + BAR * n + BAR / 2,
                n + 1
            );
        }
        let flash = self.line("Flash writes", self.outcome.flash.as_ref());
        for (at, line) in flash.split(" (").enumerate() {
            let line = if at == 0 {
                line.to_owned()
            } else {
                line.replace([')', '<', '&'], "")
            };
            let _ = writeln!(s, "<text x=\"{LEFT}\" y=\"{}\">{line}</text>", 324 + 20 * at);
        }
        s + "</svg>\n"
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What a user wants to know first: what discards and streams save on this drive.

use std::fmt::Write;

use super::filled;

/// A run of a policy that a user can have.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerCell<'a> {
    pub policy: &'a str,
    pub discard: bool,
    /// Whether it used streams; without, it is as `none`.
    pub streams: bool,
    /// Whether these hold more spare units than the drive can afford.
    pub greedy: bool,
    pub waf: f64,
    /// The share of the drive without data when a page is written.
    pub unmapped: f64,
}

/// What was found in the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Seconds between checkpoints, and the share of the database that is written meanwhile.
    pub interval: Option<(f64, f64)>,
    /// The share of the files that checkpoints list as free.
    pub listed: Option<f64>,
    /// The share of the drive that the files fill.
    pub fill: f64,
    /// Nothing was erased.
    pub missing: Option<Missing>,
}

/// What is missing in a recording before anything can be said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub gib: f64,
    /// At the pace of the recording.
    pub hours: Option<f64>,
}

impl Missing {
    fn text(&self) -> String {
        let digits = |n: f64| usize::from(n < 10.0);
        let mut s = format!(
            "Too short to say: nothing was erased. Record {:.*} GiB more",
            digits(self.gib),
            self.gib
        );
        if let Some(hours) = self.hours {
            s += &format!(", {hours:.*} hours at this pace", digits(hours));
        }
        filled(&(s + "; or play a smaller drive (--size).")) + "\n"
    }
}

/// Less than this is nothing, in percent.
const LITTLE: f64 = 2.0;

pub(super) struct Answer<'a> {
    /// Neither streams nor discards.
    base: AnswerCell<'a>,
    discard: Option<AnswerCell<'a>>,
    /// The best with streams, without discards and with them.
    streams: Option<AnswerCell<'a>>,
    both: Option<AnswerCell<'a>>,
}

fn less(a: f64, b: f64) -> f64 {
    100.0 * (1.0 - a / b)
}

fn said(saves: f64) -> String {
    match format!("{:.1}", saves.abs()).as_str() {
        "0.0" => "as much".into(),
        percent if saves < 0.0 => format!("worse by {percent} %"),
        percent => format!("{percent} % less"),
    }
}

impl<'a> Answer<'a> {
    /// `None` if nothing was played without streams and discards.
    pub(super) fn of(cells: &[AnswerCell<'a>]) -> Option<Self> {
        let best = |discard: bool, streams: bool| {
            let all = cells
                .iter()
                .filter(|c| (c.discard, c.streams) == (discard, streams));
            all.min_by(|a, b| a.waf.total_cmp(&b.waf)).copied()
        };
        Some(Self {
            base: best(false, false)?,
            discard: best(true, false),
            streams: best(false, true),
            both: best(true, true),
        })
    }

    /// The best of all; of equals the one with less to it.
    pub(super) fn best(&self) -> AnswerCell<'a> {
        let more = [self.discard, self.streams, self.both].into_iter().flatten();
        more.fold(self.base, |best, c| if c.waf < best.waf { c } else { best })
    }

    pub(super) fn base_waf(&self) -> f64 {
        self.base.waf
    }

    fn saves(&self, c: AnswerCell<'_>) -> f64 {
        less(c.waf, self.base.waf)
    }

    pub(super) fn text(&self, found: &Found) -> String {
        let mut s = String::from(
            "What the flash of this drive would write, compared with no streams and no discards:\n\n",
        );
        let rows = [
            ("with discards", self.discard),
            ("with streams", self.streams),
            ("with both", self.both),
        ];
        for (with, cell) in rows {
            if let Some(c) = cell {
                let policy = if c.streams { c.policy } else { "" };
                let line = format!(
                    "  {with:<14} {:<17} WAF {:.3} in place of {:.3}  {policy}",
                    said(self.saves(c)),
                    c.waf,
                    self.base.waf
                );
                let _ = writeln!(s, "{}", line.trim_end());
            }
        }
        if self.streams.is_none() {
            s += "  with streams   not known: no policy of the module was played that has streams and fits\n";
        }
        let verdict = found
            .missing
            .as_ref()
            .map_or_else(|| self.verdict(), Missing::text);
        s + "\n" + &verdict + &self.found(found)
    }

    fn verdict(&self) -> String {
        let best = self.best();
        let named = |c: AnswerCell<'_>| match (c.discard, c.streams) {
            (true, true) => format!("discards and policy {}", c.policy),
            (true, false) => "discards, and no streams".into(),
            (false, true) => format!("policy {}, and no discards", c.policy),
            (false, false) => "neither".into(),
        };
        // What streams add to the best without them.
        let without = match self.discard {
            Some(d) if d.waf < self.base.waf => d,
            _ => self.base,
        };
        if self.saves(best) < LITTLE {
            let (discards, streams) = (self.discard.is_some(), self.streams.or(self.both).is_some());
            return match (discards, streams) {
                (true, true) => format!("Best is {}: nothing here saves {LITTLE} %.\n", named(without)),
                (true, false) => format!("Discards do not save {LITTLE} % here; streams were not played.\n"),
                (false, true) => format!("Streams do not save {LITTLE} % here; discards were not played.\n"),
                (false, false) => "Nothing was compared: neither discards nor streams were played.\n".into(),
            };
        }
        let mut s = format!("Best is {}.", named(best));
        let with = match without.discard {
            true => self.both,
            false => self.streams,
        };
        if let Some(with) = with {
            let added = less(with.waf, without.waf);
            let beside = if without.discard { " beside discards" } else { "" };
            s += &match added {
                more if more >= LITTLE => String::new(),
                more if more > 0.0 => {
                    format!(" The streams{beside} are hardly worth it: they save {more:.1} %.")
                }
                more if said(more) == "as much" => format!(" Streams{beside} save nothing."),
                more => format!(
                    " Streams{beside} are not worth it: the best policy with them, {}, is worse by {:.1} %.",
                    with.policy, -more
                ),
            };
        }
        if best.greedy {
            s += " Its streams take many of the drive's spare units: see the warning below.";
        }
        filled(&s) + "\n"
    }

    fn found(&self, found: &Found) -> String {
        let percent = |share: f64| match 100.0 * share {
            p if p < 10.0 => format!("{p:.1} %"),
            p => format!("{p:.0} %"),
        };
        let mut s = String::new();
        if let Some((seconds, share)) = found.interval {
            let mut line = format!(
                "From checkpoint to checkpoint, {seconds:.*} s, {} of the database's size is written",
                usize::from(seconds < 10.0),
                percent(share)
            );
            if let Some(listed) = found.listed {
                line += &format!(", and {} of its files is listed as free", percent(listed));
            }
            line += &format!("; the drive is {} full.", percent(found.fill));
            let _ = writeln!(s, "\n{}", filled(&line));
        }
        s += &match (self.discard, found.listed) {
            (Some(discard), Some(_)) => {
                let line = format!(
                    "When a page is written, {} of the drive has no data, and {} with discards, on average.",
                    percent(self.base.unmapped),
                    percent(discard.unmapped)
                );
                filled(&line) + "\n"
            }
            (None, None) => {
                "What discards would save is not known: the recording has no lists of free blocks.\n".into()
            }
            _ => String::new(),
        };
        if let Some((seconds, _)) = found.interval {
            let line = format!(
                "What a longer interval would save is not in this recording: make one with {:.0} s, and compare \
                 what is written for as much work.",
                3.0 * seconds
            );
            s += &(filled(&line) + "\n");
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: Found = Found {
        interval: Some((60.2, 0.182)),
        listed: Some(0.385),
        fill: 1.0,
        missing: None,
    };

    fn cell(policy: &str, discard: bool, waf: f64) -> AnswerCell<'_> {
        AnswerCell {
            policy,
            discard,
            streams: policy != "none",
            greedy: policy == "boundary",
            waf,
            unmapped: if discard { 0.118 } else { 0.018 },
        }
    }

    fn answer(cells: &[(&'static str, bool, f64)]) -> String {
        let cells: Vec<AnswerCell> = cells.iter().map(|(p, d, w)| cell(p, *d, *w)).collect();
        Answer::of(&cells).unwrap().text(&FOUND)
    }

    #[test]
    fn all_four_are_reported() {
        let said = answer(&[
            ("none", false, 2.63),
            ("file", false, 2.55),
            ("dsm", false, 2.59),
            ("none", true, 1.46),
            ("file", true, 1.43),
            ("dsm", true, 1.44),
        ]);
        assert_eq!(
            said,
            "What the flash of this drive would write, compared with no streams and no discards:\n\n\
             \x20 with discards  44.5 % less       WAF 1.460 in place of 2.630\n\
             \x20 with streams   3.0 % less        WAF 2.550 in place of 2.630  file\n\
             \x20 with both      45.6 % less       WAF 1.430 in place of 2.630  file\n\
             \n\
             Best is discards and policy file.\n\
             \n\
             From checkpoint to checkpoint, 60 s, 18 % of the database's size is written, and 38 % of\n\
             its files is listed as free; the drive is 100 % full.\n\
             When a page is written, 1.8 % of the drive has no data, and 12 % with discards, on\n\
             average.\n\
             What a longer interval would save is not in this recording: make one with 181 s, and\n\
             compare what is written for as much work.\n"
        );
    }

    fn verdict(cells: &[(&'static str, bool, f64)]) -> String {
        let said = answer(cells);
        let paragraph = said.split("\n\n").nth(2);
        paragraph.unwrap().replace('\n', " ").trim_end().to_owned()
    }

    #[test]
    fn none_may_be_the_best() {
        let few_units = [
            ("none", false, 2.9),
            ("dsm", false, 3.2),
            ("none", true, 1.5),
            ("dsm", true, 1.53),
        ];
        assert_eq!(
            verdict(&few_units),
            "Best is discards, and no streams. Streams beside discards are not worth it: the best policy with \
             them, dsm, is worse by 2.0 %."
        );
        assert!(answer(&few_units)
            .contains("\n  with streams   worse by 10.3 %   WAF 3.200 in place of 2.900  dsm\n"));
        assert_eq!(
            verdict(&[("none", false, 2.0), ("file", false, 2.1), ("none", true, 2.0)]),
            "Best is neither: nothing here saves 2 %."
        );
        assert_eq!(
            verdict(&[("none", false, 1.2), ("none", true, 1.19), ("file", true, 1.18)]),
            "Best is discards, and no streams: nothing here saves 2 %."
        );
    }

    #[test]
    fn what_was_not_played_is_no_evidence() {
        let said = |cells| verdict(cells);
        assert_eq!(
            said(&[("none", false, 7.1)]),
            "Nothing was compared: neither discards nor streams were played."
        );
        assert_eq!(
            said(&[("none", false, 7.1), ("file", false, 7.1)]),
            "Streams do not save 2 % here; discards were not played."
        );
        assert_eq!(
            said(&[("none", false, 7.1), ("none", true, 7.1)]),
            "Discards do not save 2 % here; streams were not played."
        );
    }

    #[test]
    fn without_garbage_collection_there_is_no_verdict() {
        let cells = [cell("none", false, 1.0), cell("file", true, 1.0)];
        let said = |hours| {
            let missing = Some(Missing { gib: 12.34, hours });
            Answer::of(&cells).unwrap().text(&Found { missing, ..FOUND })
        };
        assert_eq!(
            said(Some(1.52)).split("\n\n").nth(2).unwrap().replace('\n', " "),
            "Too short to say: nothing was erased. Record 12 GiB more, 1.5 hours at this pace; or play a \
             smaller drive (--size)."
        );
        let unpaced = said(None);
        assert!(unpaced.contains("Record 12 GiB more; or play"), "{unpaced}");
        assert!(!unpaced.contains("Best is"), "{unpaced}");
    }

    #[test]
    fn little_is_said_to_be_little() {
        let with = |waf| verdict(&[("none", false, 2.0), ("none", true, 1.5), ("file", true, waf)]);
        assert_eq!(
            with(1.48),
            "Best is discards and policy file. The streams beside discards are hardly worth it: they save 1.3 %."
        );
        assert_eq!(with(1.4), "Best is discards and policy file.");
        assert_eq!(
            verdict(&[("none", false, 2.0), ("boundary", false, 1.5)]),
            "Best is policy boundary, and no discards. Its streams take many of the drive's spare units: see the \
             warning below."
        );
        assert_eq!(
            with(1.5),
            "Best is discards, and no streams. Streams beside discards save nothing."
        );
        assert_eq!(
            verdict(&[
                ("none", false, 2.0),
                ("none", true, 2.1),
                ("file", false, 1.7),
                ("file", true, 1.8)
            ]),
            "Best is policy file, and no discards."
        );
    }

    #[test]
    fn what_is_not_known_is_not_reported() {
        let cells = [cell("none", false, 2.0), cell("file", false, 1.9)];
        let nothing = Found {
            interval: None,
            listed: None,
            ..FOUND
        };
        let said = Answer::of(&cells).unwrap().text(&nothing);
        assert!(
            !said.contains("checkpoint") && !said.contains("with discards"),
            "{said}"
        );
        assert!(said.ends_with(
            "What discards would save is not known: the recording has no lists of free blocks.\n"
        ));
        assert!(Answer::of(&cells[1..]).is_none());
        let said = Answer::of(&cells[..1]).unwrap().text(&nothing);
        assert!(said.contains("\n  with streams   not known: no policy"), "{said}");
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Permission to discard is a value that only evidence can make.
//!
//! A [`Batch`] takes a [`Permit`], and a permit takes what the audit has seen of the process that
//! has the database open now; [`Rule::forget`](super::Rule::forget) destroys that.  No switch,
//! lock or restart can stand for it.

use std::fmt::Write as _;

use database::config::AUDIT_PAGES;
use database::wiredtiger::avail::Standing;
use dm::table::SectorRange;
use proto::reason::Reason;

use super::audit::Evidence;
use super::{tidy, Piece, Plan, Rule};

/// At so many checkpoints pages must have been seen to be written before anything is sent.
pub(super) const CHECKPOINTS: u32 = 3;
pub(super) const ONLY_ASKED: &str = "discard = \"audit\" asks for no more";

/// One batch may be sent.
pub struct Permit(());

/// Why there is no permit, as far as the audit is concerned.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Withheld {
    /// Not enough was seen yet.
    NotYet,
    /// Whatever is seen.
    Always(Reason),
}

/// So many pages must be seen to be written; 0: none.
pub(super) fn wanted(plan: &Plan, evidence: &Evidence) -> u64 {
    match evidence.standing {
        Some(Standing::Prove(_)) => plan.audit_pages.max(AUDIT_PAGES),
        _ => plan.audit_pages,
    }
}

impl Permit {
    /// `refused`: a mark, a person or somebody who measures keeps discards off.
    pub(super) fn of(plan: &Plan, rule: &Rule, refused: Option<&Reason>) -> Result<Self, Withheld> {
        let evidence = rule.evidence();
        match (&evidence.standing, refused) {
            (_, Some(why)) => Err(Withheld::Always(why.clone())),
            _ if !plan.send => Err(Withheld::Always(ONLY_ASKED.into())),
            (Some(Standing::Audit(why) | Standing::Refused(why)), _) => {
                Err(Withheld::Always(why.as_str().into()))
            }
            (None, _) => Err(Withheld::NotYet),
            _ => {
                let wanted = wanted(plan, evidence);
                let seen = evidence.pages >= wanted && evidence.checkpoints >= CHECKPOINTS;
                match wanted == 0 || (seen && rule.suspects() == 0) {
                    true => Ok(Self(())),
                    false => Err(Withheld::NotYet),
                }
            }
        }
    }
}

/// What is sent in one message.
#[derive(Debug)]
pub struct Batch {
    message: String,
    ranges: Vec<SectorRange>,
}

impl Batch {
    /// Of pieces that are sorted by place.
    pub(super) fn new(_: Permit, pieces: &[Piece]) -> Self {
        let asked: Vec<(u64, SectorRange)> = pieces.iter().map(|p| (p.since, p.extent.at())).collect();
        let mut ranges: Vec<SectorRange> = asked.iter().map(|(_, at)| *at).collect();
        tidy(&mut ranges);
        Self {
            message: message("discard", &asked),
            ranges,
        }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Sorted by place, apart from each other.
    pub(super) fn ranges(&self) -> &[SectorRange] {
        &self.ranges
    }
}

/// A message about ranges, each with the window that it goes by.
pub(super) fn message(verb: &str, ranges: &[(u64, SectorRange)]) -> String {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    // Neighbours are one.
    ranges.dedup_by(|(since, next), (of, last)| {
        let joins = since == of && last.end() == next.start;
        if joins {
            last.length += next.length;
        }
        joins
    });
    let (mut text, mut of) = (verb.to_owned(), None);
    for (since, s) in ranges {
        if of.replace(since) != Some(since) {
            write!(text, " {since}").expect("strings grow");
        }
        write!(text, " {}:{}", s.start, s.length).expect("strings grow");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_each_window_once() {
        let at = |start, length| SectorRange { start, length };
        let ranges = [
            (8, at(64, 8)),
            (7, at(0, 8)),
            (8, at(16, 8)),
            (7, at(8, 8)),
            (7, at(24, 8)),
        ];
        assert_eq!(message("written", &ranges), "written 7 0:16 24:8 8 16:8 64:8");
        assert_eq!(message("written", &[]), "written");
    }
}

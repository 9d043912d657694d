// SPDX-License-Identifier: GPL-2.0-or-later
//! What the pieces have in common that a drive took whole.

use super::{ProbedPiece, LARGEST, PAGE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Pieces whose length is a multiple of the granularity, and that begin at a multiple
    /// of the alignment, are gone as a whole.
    Whole {
        granularity: u64,
        alignment: u64,
    },
    /// Whole units are gone, which those two cannot state.
    Units {
        unit: u64,
        begin: u64,
    },
    Nothing,
    /// Some of it is gone, by no rule.
    Irregular,
}

pub(super) fn of(pieces: &[ProbedPiece]) -> Shape {
    let sent: Vec<&ProbedPiece> = pieces.iter().filter(|p| p.sent).collect();
    if sent.iter().all(|p| p.gone_bytes == 0) {
        return Shape::Nothing;
    }
    powers(LARGEST)
        .flat_map(|granularity| powers(granularity).map(move |alignment| (granularity, alignment)))
        .find(|&(granularity, alignment)| fits(&sent, granularity, alignment))
        .map(|(granularity, alignment)| Shape::Whole {
            granularity,
            alignment,
        })
        .or_else(|| units(&sent))
        .unwrap_or(Shape::Irregular)
}

/// From a page to `most`.
fn powers(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(PAGE), |n| Some(n * 2)).take_while(move |n| *n <= most)
}

/// There is a piece of just that length, or nothing is known of it.
fn fits(pieces: &[&ProbedPiece], granularity: u64, alignment: u64) -> bool {
    let aligned = |p: &&&ProbedPiece| p.bytes % granularity == 0 && p.device % alignment == 0;
    let mut aligned = pieces.iter().filter(aligned).peekable();
    pieces
        .iter()
        .any(|p| p.bytes == granularity && p.device % alignment == 0)
        && aligned.peek().is_some()
        && aligned.all(|p| p.is_whole())
}

fn units(pieces: &[&ProbedPiece]) -> Option<Shape> {
    let pages = |most: u64| (0..most / PAGE).map(|n| n * PAGE);
    pages(LARGEST + PAGE)
        .skip(1)
        .flat_map(|unit| pages(unit).map(move |begin| (unit, begin)))
        .find(|&(unit, begin)| pieces.iter().all(|p| is_in_units(p, unit, begin)))
        .map(|(unit, begin)| Shape::Units { unit, begin })
}

/// Whether just those pages of a piece are gone that are in whole units of it.
fn is_in_units(p: &ProbedPiece, unit: u64, begin: u64) -> bool {
    // Before the first of them nothing begins.
    let first = |at: u64| (at + unit - begin).next_multiple_of(unit) + begin - unit;
    let last = |at: u64| (at + unit - begin) / unit * unit + begin - unit;
    let end = p.device + p.bytes;
    let whole = first(p.device)..last(end).max(first(p.device));
    (0..).zip(&p.pages).all(|(n, page)| {
        let at = p.device + n * PAGE;
        page.is_gone() == whole.contains(&at)
    })
}

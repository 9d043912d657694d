// SPDX-License-Identifier: GPL-2.0-or-later
//! Help texts, wrapped to the terminal.
//!
//! By hand: what clap has for it brings a crate of its own for the width, which rustix
//! says, and breaks tables.

use std::io::{stdout, IsTerminal};

/// Narrower ones are taken for this.
const LEAST: usize = 40;
/// Lines that are longer are hard to read.
const MOST: usize = 100;
/// What is indented by more than half of the width is indented by this.
const FAR: &str = "    ";

/// Columns of the terminal that stdout is, if it is one.
pub fn terminal() -> Option<usize> {
    let out = stdout();
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    (out.is_terminal() && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Every line that is too long goes on below, indented as its text is.
pub fn wrap(text: &str, width: usize) -> String {
    let width = width.clamp(LEAST, MOST);
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        wrap_line(line, width, &mut out);
    }
    out
}

fn wrap_line(line: &str, width: usize, out: &mut String) {
    let text = line.trim_start_matches(' ');
    let (mut rest, mut column) = (line, 0);
    if line.len() - text.len() > width / 2 {
        out.push_str(FAR);
        (rest, column) = (text, FAR.len());
    }
    let margin = match margin(line) {
        margin if margin > width / 2 => FAR.len(),
        margin => margin,
    };
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        if blanks == rest.len() {
            break;
        }
        let word = rest[blanks..].find(' ').map_or(rest.len(), |at| blanks + at);
        let length = rest[..word].chars().count();
        if column > margin && column + length > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', margin));
            out.push_str(&rest[blanks..word]);
            column = margin + length - blanks;
        } else {
            out.push_str(&rest[..word]);
            column += length;
        }
        rest = &rest[word..];
    }
    out.push('\n');
}

/// Where the text of a line begins: behind the blanks, or behind the name in a table.
fn margin(line: &str) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let name = &line[indent..];
    match name.find("  ") {
        Some(at) if indent > 0 => {
            let gap = &name[at..];
            indent + name[..at].chars().count() + gap.len() - gap.trim_start_matches(' ').len()
        }
        _ => indent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_below() {
        let text = "Make, fill and watch dsm devices that stamp write streams\n\n\
                    Commands:\n  create    Make the device /dev/mapper/NAME on DEV, which is flash\n";
        assert_eq!(
            wrap(text, 40),
            "Make, fill and watch dsm devices that\nstamp write streams\n\nCommands:\n  \
             create    Make the device\n            /dev/mapper/NAME on DEV,\n            which is flash\n"
        );
        assert_eq!(wrap(text, 1000), text);
    }

    #[test]
    fn what_does_not_fit_stays_whole() {
        let long = format!("  {}", "x".repeat(80));
        assert_eq!(wrap(&long, 40), format!("{long}\n"));
        let named = format!(
            "  --an-option-with-a-very-long-name-indeed  {}",
            "word ".repeat(10)
        );
        for line in wrap(&named, 40).lines().skip(1) {
            assert!(
                line.starts_with("    word") && line.chars().count() <= 40,
                "{line}"
            );
        }
    }
}

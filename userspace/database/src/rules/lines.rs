// SPDX-License-Identifier: GPL-2.0-or-later
//! The short form: a pattern and a class on each line.  Empty lines, and lines
//! that begin with `#`, say nothing.

use super::{pattern, PathRule, Role, Rules, WHOLE};

impl Rules {
    pub(super) fn add_lines(&mut self, text: &str, from: &str, below: &str) -> Result<(), String> {
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = format!("{from}line {}", n + 1);
            let rule = rule(line, below, &place).map_err(|e| format!("{place}: {e}"))?;
            self.add(rule)?;
        }
        Ok(())
    }
}

fn rule(line: &str, below: &str, place: &str) -> Result<PathRule, String> {
    let (text, class) = line
        .rsplit_once(char::is_whitespace)
        .ok_or_else(|| format!("'{line}': a pattern and a class are needed"))?;
    let class = class.parse().map_err(|e| format!("{e}"))?;
    Ok(PathRule {
        pattern: pattern(text.trim_end(), below)?,
        bytes: WHOLE,
        kind: Role { class, object: None },
        place: place.to_owned(),
    })
}

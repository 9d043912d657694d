// SPDX-License-Identifier: GPL-2.0-or-later
//! Names in texts, which are shown to who asks, and left out of a report to others.
//!
//! A text is made with its names between marks; [`Ink`] writes it.  Marks are control
//! characters, which no name has once it is printable.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::Value;

use runtime::text::printable;

const BEGIN: char = '\u{2}';
const END: char = '\u{3}';

fn mark(kind: char, name: impl Display) -> String {
    format!("{BEGIN}{kind}{}{END}", printable(&name.to_string()))
}

/// The name of a dsm device.
pub(super) fn device(name: impl Display) -> String {
    mark('n', name)
}

/// The kernel's name of a disk, or of what lies between.
pub(super) fn disk(name: impl Display) -> String {
    mark('d', name)
}

/// A path in the file system.
pub(super) fn path(path: impl Display) -> String {
    mark('p', path)
}

/// What somebody else said, and may have any names in it.
pub(super) fn reason(reason: impl Display) -> String {
    mark('s', reason)
}

/// Writes texts; one for all of a report, in which a name has the same number everywhere.
#[derive(Debug, Default)]
pub(crate) struct Ink {
    hides: bool,
    known: RefCell<BTreeMap<(char, String), usize>>,
}

impl Ink {
    /// With all names.
    pub(crate) fn plain() -> Self {
        Self::default()
    }

    /// With none.
    pub(crate) fn hiding() -> Self {
        Self {
            hides: true,
            ..Self::default()
        }
    }

    pub(crate) fn hides(&self) -> bool {
        self.hides
    }

    pub(crate) fn write(&self, text: &str) -> String {
        let mut parts = text.split(BEGIN);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (marked, rest) = part.split_once(END).unwrap_or((part, ""));
            let mut name = marked.chars();
            let kind = name.next().unwrap_or_default();
            out.push_str(&self.name(kind, name.as_str()));
            out.push_str(rest);
        }
        out
    }

    fn name(&self, kind: char, name: &str) -> String {
        let word = match kind {
            _ if !self.hides => return name.to_owned(),
            'n' => "DEVICE",
            'd' => "DISK",
            'p' => "PATH",
            _ => return "(left out)".to_owned(),
        };
        let mut known = self.known.borrow_mut();
        let of_kind = known.keys().filter(|(k, _)| *k == kind).count();
        let number = known.entry((kind, name.to_owned())).or_insert(of_kind + 1);
        format!("{word}{number}")
    }

    /// The same for all texts of a value.
    pub(crate) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.write(text).into(),
            Value::Array(list) => list.iter().map(|v| self.value(v)).collect(),
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(name, v)| (name.clone(), self.value(v)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_or_left_out() {
        let text = format!(
            "{} on {} and {}: {}",
            device("db\u{3}1"),
            disk("nvme0n1"),
            disk("nvme1n1"),
            reason("/secret\u{2} is gone")
        );
        assert_eq!(
            Ink::plain().write(&text),
            "db\\u{3}1 on nvme0n1 and nvme1n1: /secret\\u{2} is gone"
        );
        let ink = Ink::hiding();
        assert_eq!(ink.write(&text), "DEVICE1 on DISK1 and DISK2: (left out)");
        let v = serde_json::json!({"a": [disk("nvme1n1"), 7, path("/x")]});
        assert_eq!(ink.value(&v), serde_json::json!({"a": ["DISK2", 7, "PATH1"]}));
    }
}

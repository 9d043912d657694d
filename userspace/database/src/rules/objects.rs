// SPDX-License-Identifier: GPL-2.0-or-later
//! The long form, in TOML: objects, their files or parts of files, and where they
//! are to be placed.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{pattern, PathRule, Role, Rules, WHOLE};
use crate::config::{line_of, toml_error};
use dm::class::Class;
use runtime::sizes::bytes;

/// What an engine writes that has a lifetime of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub name: String,
    pub class: Class,
    pub stream: Option<u8>,
    pub lifetime: Option<Lifetime>,
    /// Where it is written, for error messages.
    pub(super) place: String,
}

/// How long data lives, as the kernel's lifetime hints say it; hottest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    Extreme,
    Long,
    Medium,
    Short,
}

impl Lifetime {
    /// The kernel's `enum rw_hint`.
    pub const fn hint(self) -> u8 {
        match self {
            Self::Short => 2,
            Self::Medium => 3,
            Self::Long => 4,
            Self::Extreme => 5,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    engine: Option<Spanned<String>>,
    #[serde(rename = "object", default)]
    objects: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    #[serde(default)]
    class: Option<Class>,
    #[serde(default)]
    stream: Option<Spanned<i64>>,
    #[serde(default)]
    lifetime: Option<Lifetime>,
    files: Vec<Spanned<String>>,
    #[serde(default)]
    bytes: Option<Spanned<String>>,
}

impl Rules {
    pub(super) fn add_objects(&mut self, text: &str, from: &str, below: &str) -> Result<(), String> {
        let file: File = toml::from_str(text).map_err(|e| format!("{from}{}", toml_error(text, &e)))?;
        let place = |span: Range<usize>| format!("{from}line {}", line_of(text, span.start));
        let at = |span: Range<usize>, e: String| format!("{}: {e}", place(span));
        if file.objects.is_empty() {
            return Err(format!("{from}line 1: it has no [[object]]"));
        }
        if let Some(engine) = &file.engine {
            check_name("engine", engine.get_ref()).map_err(|e| at(engine.span(), e))?;
        }
        for entry in file.objects {
            let span = entry.name.span();
            let name = entry.name.into_inner();
            check_name("object", &name).map_err(|e| at(span.clone(), e))?;
            let name = match &file.engine {
                Some(engine) => format!("{}.{name}", engine.get_ref()),
                None => name,
            };
            let stream = match entry.stream {
                Some(n) => Some(stream(*n.get_ref()).map_err(|e| at(n.span(), e))?),
                None => None,
            };
            let object = Object {
                name,
                class: entry.class.unwrap_or(Class::Other),
                stream,
                lifetime: entry.lifetime,
                place: place(span.clone()),
            };
            let range = match &entry.bytes {
                Some(b) => range(b.get_ref()).map_err(|e| at(b.span(), e))?,
                None => WHOLE,
            };
            if entry.files.is_empty() {
                return Err(at(span, format!("the object '{}' has no files", object.name)));
            }
            let kind = Role {
                class: object.class,
                object: Some(self.object(object)?),
            };
            for text in entry.files {
                self.add(PathRule {
                    pattern: pattern(text.get_ref(), below).map_err(|e| at(text.span(), e))?,
                    bytes: range.clone(),
                    kind,
                    place: place(text.span()),
                })?;
            }
        }
        Ok(())
    }

    /// The number of an object, which may be there already.
    fn object(&mut self, object: Object) -> Result<u16, String> {
        let known = self.objects.iter().position(|o| o.name == object.name);
        let n = known.unwrap_or(self.objects.len());
        match known {
            None => self.objects.push(object),
            Some(n) => {
                let first = &self.objects[n];
                if (first.class, first.stream, first.lifetime)
                    != (object.class, object.stream, object.lifetime)
                {
                    return Err(format!(
                        "{}: the object '{}' has another class, stream or lifetime on {}",
                        object.place, object.name, first.place
                    ));
                }
            }
        }
        u16::try_from(n).map_err(|_| "there are more than 65536 objects".to_owned())
    }
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 63 || !name.chars().all(good) {
        return Err(format!(
            "the {what} '{}' must have a name of 1 to 63 letters, digits, '-' and '_'",
            name.escape_default()
        ));
    }
    Ok(())
}

fn stream(n: i64) -> Result<u8, String> {
    u8::try_from(n)
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("stream {n}: it must be a number from 1 to 255"))
}

/// `FROM-TO` or `FROM-`, in whole pages.
fn range(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once('-').and_then(|(from, to)| {
        let to = if to.trim().is_empty() {
            Some(u64::MAX)
        } else {
            bytes(to)
        };
        Some(bytes(from)?..to?)
    });
    let page = |n: u64| n % 4096 == 0 || n == u64::MAX;
    parsed
        .filter(|r| page(r.start) && page(r.end) && r.start < r.end && *r != WHOLE)
        .ok_or_else(|| {
            format!(
                "bytes '{}': it must be a range of whole 4 KiB pages, such as 1M-3M or 64M-",
                text.escape_default()
            )
        })
}

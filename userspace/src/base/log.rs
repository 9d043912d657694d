// SPDX-License-Identifier: GPL-2.0-or-later
//! The structured log of `dsmd`, on stderr: `level message key=value ...`, or
//! one JSON object a line.
//!
//! By hand: `tracing` and its subscribers are some twenty crates for two forms of a line.

use std::cell::OnceCell;
use std::fmt::{self, Display, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Left out unless asked for.
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    format: Format,
    verbose: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Chooses the format, and whether `debug` is shown; later calls have no
/// effect.
pub fn init(format: Format, verbose: bool) {
    let _ = SETTINGS.set(Settings { format, verbose });
}

thread_local! {
    static DEVICE: OnceCell<String> = const { OnceCell::new() };
}

/// What this thread logs is about a device, when there are several.
pub fn of_device(name: &str) {
    DEVICE.with(|d| {
        let _ = d.set(name.to_owned());
    });
}

/// The device that this thread logs about, when there are several.
pub fn device() -> Option<String> {
    DEVICE.with(|d| d.get().cloned())
}

/// A value as it is logged.  Names come from other people's directories, so
/// that control characters are escaped.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=';
        if !self.0.is_empty() && self.0.chars().all(plain) {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

fn line(format: Format, level: Level, message: &str, fields: &[(&str, &dyn Display)]) -> String {
    match format {
        Format::Text => {
            let mut text = format!("{} {message}", level.name());
            for (key, value) in fields {
                write!(text, " {key}={}", Quoted(&value.to_string())).expect("strings grow");
            }
            text
        }
        Format::Json => {
            let mut map = Map::new();
            map.insert("level".into(), level.name().into());
            map.insert("message".into(), message.into());
            for (key, value) in fields {
                let text = value.to_string();
                let value = text.parse::<u64>().map_or(Value::from(text), Value::from);
                map.insert((*key).into(), value);
            }
            Value::Object(map).to_string()
        }
    }
}

pub fn event(level: Level, message: &str, fields: &[(&str, &dyn Display)]) {
    let settings = SETTINGS.get().copied().unwrap_or(Settings {
        format: Format::Text,
        verbose: false,
    });
    if level == Level::Debug && !settings.verbose {
        return;
    }
    let text = DEVICE.with(|device| match device.get() {
        Some(name) if !fields.iter().any(|(key, _)| *key == "device") => {
            let mut fields = fields.to_vec();
            fields.insert(0, ("device", name));
            line(settings.format, level, message, &fields)
        }
        _ => line(settings.format, level, message, fields),
    });
    // Without stderr there is nowhere to report it.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// `log!(Info, "table uploaded", files = n, extents = m)`
#[macro_export]
macro_rules! log {
    ($level:ident, $message:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::base::log::event(
            $crate::base::log::Level::$level,
            $message,
            &[$((stringify!($key), &$value as &dyn std::fmt::Display)),*],
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json() {
        let fields: &[(&str, &dyn Display)] = &[("files", &3), ("path", &"a b\u{1b}[31m"), ("empty", &"")];
        assert_eq!(
            line(Format::Text, Level::Warn, "skipped", fields),
            r#"warn skipped files=3 path="a b\u{1b}[31m" empty="""#
        );
        assert_eq!(
            line(Format::Json, Level::Info, "skipped", fields),
            r#"{"level":"info","message":"skipped","files":3,"path":"a b\u001b[31m","empty":""}"#
                .to_string()
                .replace(
                    r#""level":"info","message":"skipped","files":3,"path":"a b\u001b[31m","empty":"""#,
                    r#""empty":"","files":3,"level":"info","message":"skipped","path":"a b\u001b[31m""#
                )
        );
    }
}

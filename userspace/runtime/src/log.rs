// SPDX-License-Identifier: GPL-2.0-or-later
//! The structured log of the programs that go on, on stderr.
//!
//! - To a terminal or a file: `time level message key=value ...`.
//! - To journald, which has a time of its own: the same without it, behind the priority that
//!   sd-daemon(3) describes, so that `journalctl -p warning` finds it.
//! - As JSON: an object a line with `time`, `level`, `message` and the values.
//!
//! By hand: `tracing` and its subscribers are some twenty crates for three forms of a line.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::IntoStaticStr;

use super::text::deceives;
use super::time::{self, iso};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Level {
    /// Left out unless asked for.
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        self.into()
    }

    /// As syslog(3) counts.
    const fn priority(self) -> u8 {
        match self {
            Self::Debug => 7,
            Self::Info => 6,
            Self::Warn => 4,
            Self::Error => 3,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Settings {
    format: Format,
    /// journald reads it, which takes the priority off.
    journal: bool,
    verbose: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Chooses the format, and whether `debug` is shown; later calls have no
/// effect.
pub fn init(format: Format, verbose: bool) {
    let journal = is_journal(io::stderr(), std::env::var("JOURNAL_STREAM").ok().as_deref());
    let _ = SETTINGS.set(Settings {
        format,
        journal,
        verbose,
    });
}

/// Whether a descriptor is the one that systemd made to journald: `JOURNAL_STREAM` names it
/// as `device:inode`, and may be inherited beside another stderr.
fn is_journal(fd: impl AsFd, stream: Option<&str>) -> bool {
    let named = stream.and_then(|s| s.split_once(':'));
    let is = |s: rustix::fs::Stat| {
        named.is_some_and(|(dev, ino)| dev == s.st_dev.to_string() && ino == s.st_ino.to_string())
    };
    rustix::fs::fstat(fd).is_ok_and(is)
}

thread_local! {
    static ABOUT: OnceCell<String> = const { OnceCell::new() };
}

/// What this thread logs is about a device.
pub fn of_device(name: &str) {
    ABOUT.with(|a| {
        let _ = a.set(name.to_owned());
    });
}

/// A line of level `warn` or `error`, without its values but the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// Seconds since 1970.
    pub at: u64,
    pub level: Level,
    pub message: String,
    pub reason: Option<String>,
}

static LAST_ERRORS: Mutex<BTreeMap<String, LastError>> = Mutex::new(BTreeMap::new());

fn last_errors() -> MutexGuard<'static, BTreeMap<String, LastError>> {
    LAST_ERRORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last warning or error of a device.
pub fn last_error(device: &str) -> Option<LastError> {
    last_errors().get(device).cloned()
}

/// What was wrong with a device is over.
pub fn clear_error(device: &str) {
    last_errors().remove(device);
}

/// A value as it is logged.  Names come from other people's directories: what could
/// command a terminal, or reverse its text, is escaped.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| !c.is_whitespace() && !deceives(c) && c != '"' && c != '=';
        if !self.0.is_empty() && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' | '\n' | '\r' | '\t' => write!(f, "{}", c.escape_default())?,
                c if deceives(c) => write!(f, "{}", c.escape_unicode())?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

type Fields<'a> = [(&'a str, &'a dyn Display)];

fn line(settings: Settings, now: Duration, level: Level, message: &str, fields: &Fields<'_>) -> String {
    let text = match settings.format {
        Format::Text => {
            let mut text = format!("{} {message}", level.name());
            if !settings.journal {
                text = format!("{} {text}", iso(now));
            }
            for (key, value) in fields {
                write!(text, " {key}={}", Quoted(&value.to_string())).expect("strings grow");
            }
            text
        }
        Format::Json => {
            let mut map = Map::new();
            for (key, value) in fields {
                let text = value.to_string();
                let value = text.parse::<u64>().map_or(Value::from(text), Value::from);
                map.insert((*key).into(), value);
            }
            map.insert("time".into(), iso(now).into());
            map.insert("level".into(), level.name().into());
            map.insert("message".into(), message.into());
            if let Some(device) = map.get_mut("device").filter(|d| !d.is_string()) {
                *device = device.to_string().into();
            }
            Value::Object(map).to_string()
        }
    };
    if settings.journal {
        format!("<{}>{text}", level.priority())
    } else {
        text
    }
}

pub fn event(level: Level, message: &str, fields: &Fields<'_>) {
    let settings = SETTINGS.get().copied().unwrap_or_default();
    if level == Level::Debug && !settings.verbose {
        return;
    }
    let now = time::now();
    let named = fields.iter().find(|(key, _)| *key == "device");
    let about = ABOUT.with(|a| a.get().cloned());
    if matches!(level, Level::Warn | Level::Error) {
        let device = named.map(|(_, name)| name.to_string());
        if let Some(device) = device.or_else(|| about.clone()) {
            let reason = fields.iter().find(|(key, _)| *key == "reason");
            let error = LastError {
                at: now.as_secs(),
                level,
                message: message.to_owned(),
                reason: reason.map(|(_, value)| value.to_string()),
            };
            last_errors().insert(device, error);
        }
    }
    let text = match &about {
        // Programs always get the database's name.
        Some(name) if named.is_none() && settings.format == Format::Json => {
            let mut fields = fields.to_vec();
            fields.insert(0, ("device", name));
            line(settings, now, level, message, &fields)
        }
        _ => line(settings, now, level, message, fields),
    };
    // A program's line is never a panic; a test's is what its harness captures.
    match SETTINGS.get() {
        Some(_) => put(io::stderr(), text),
        None => eprintln!("{text}"),
    }
}

/// In one write: others who write to the same file come between lines only.
fn put(mut to: impl Write, mut text: String) {
    text.push('\n');
    // Without stderr there is nowhere to report it.
    let _ = to.write_all(text.as_bytes());
}

/// `log!(Info, "table uploaded", files = n, extents = m)`
#[macro_export]
macro_rules! log {
    ($level:ident, $message:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::log::event(
            $crate::log::Level::$level,
            $message,
            &[$((stringify!($key), &$value as &dyn std::fmt::Display)),*],
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_millis(1_763_823_784_123);

    fn style(format: Format, journal: bool) -> Settings {
        Settings {
            format,
            journal,
            verbose: false,
        }
    }

    #[test]
    fn the_forms_of_a_line() {
        let fields: &Fields<'_> = &[
            ("files", &3),
            ("path", &"a b\u{1b}[31m"),
            ("empty", &""),
            ("turned", &"a\u{202e}txt.exe"),
        ];
        let of = |style| line(style, NOW, Level::Warn, "skipped", fields);
        let text = r#"warn skipped files=3 path="a b\u{1b}[31m" empty="" turned="a\u{202e}txt.exe""#;
        assert_eq!(
            of(style(Format::Text, false)),
            format!("2025-11-22T15:03:04.123Z {text}")
        );
        assert_eq!(of(style(Format::Text, true)), format!("<4>{text}"));
        let json = of(style(Format::Json, false));
        assert_eq!(of(style(Format::Json, true)), format!("<4>{json}"));
        let v: Value = serde_json::from_str(&json).unwrap();
        let wanted = serde_json::json!({
            "time": "2025-11-22T15:03:04.123Z", "level": "warn", "message": "skipped", "files": 3,
            "path": "a b\u{1b}[31m", "empty": "", "turned": "a\u{202e}txt.exe",
        });
        assert_eq!(v, wanted);
    }

    #[test]
    fn a_device_is_no_number_and_a_value_is_no_level() {
        let fields: &Fields<'_> = &[("device", &7), ("level", &"none")];
        let json = line(style(Format::Json, false), NOW, Level::Info, "m", fields);
        let v: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&v["device"], &v["level"]), (&"7".into(), &"info".into()));
    }

    #[test]
    fn a_line_is_one_write() {
        struct Writes(Vec<Vec<u8>>);
        impl Write for Writes {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(bytes.to_vec());
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writes = Writes(Vec::new());
        put(&mut writes, "info m a=1".into());
        assert_eq!(writes.0, [b"info m a=1\n"]);
    }

    #[test]
    fn priorities_are_those_of_syslog() {
        for (level, priority) in [
            (Level::Debug, "<7>"),
            (Level::Info, "<6>"),
            (Level::Warn, "<4>"),
            (Level::Error, "<3>"),
        ] {
            let text = line(style(Format::Text, true), NOW, level, "m", &[]);
            assert!(text.starts_with(priority), "{text}");
        }
    }

    #[test]
    fn journald_is_known_by_its_stream() {
        let file = tempfile::tempfile().unwrap();
        let s = rustix::fs::fstat(&file).unwrap();
        let named = format!("{}:{}", s.st_dev, s.st_ino);
        assert!(is_journal(&file, Some(&named)));
        for stream in [
            None,
            Some(""),
            Some("8:1"),
            Some(&*format!("{}:{}", s.st_dev + 1, s.st_ino)),
            Some(&*format!("{}:{}", s.st_dev, s.st_ino + 1)),
            Some(&*format!("{named} ")),
        ] {
            assert!(!is_journal(&file, stream), "{stream:?}");
        }
    }

    #[test]
    fn the_last_error_of_a_device_is_known() {
        let name = "the-last-error";
        assert_eq!(last_error(name), None);
        event(
            Level::Warn,
            "waiting",
            &[("device", &name), ("reason", &"for this")],
        );
        event(Level::Info, "nothing", &[("device", &name)]);
        let last = last_error(name).unwrap();
        assert_eq!(
            (last.level, last.message.as_str(), last.reason.as_deref()),
            (Level::Warn, "waiting", Some("for this"))
        );
        std::thread::spawn(move || {
            of_device(name);
            event(Level::Error, "it is worse", &[]);
        })
        .join()
        .unwrap();
        assert_eq!(last_error(name).unwrap().message, "it is worse");
        clear_error(name);
        assert_eq!(last_error(name), None);
    }
}

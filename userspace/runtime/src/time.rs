// SPDX-License-Identifier: GPL-2.0-or-later
//! Times as logs have them.
//!
//! By hand: a library of calendars for one division.

use std::time::{Duration, SystemTime};

const DAY: u64 = 86_400;
/// Of the Gregorian calendar: 400 years.
const ERA: u64 = 146_097;
/// From 1 March 0000 to 1 January 1970.
const EPOCH: u64 = 719_468;

/// The time since 1970.
pub fn now() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// A time since 1970 as ISO 8601 has it, in UTC: `2025-11-22T15:03:04.123Z`.
pub(crate) fn iso(since_1970: Duration) -> String {
    let (seconds, ms) = (since_1970.as_secs(), since_1970.subsec_millis());
    let (year, month, day) = date(seconds / DAY);
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
}

/// The same without what nobody reads in a sentence: `2025-11-22 15:03 UTC`.
pub fn shown(seconds_since_1970: u64) -> String {
    let text = iso(Duration::from_secs(seconds_since_1970));
    format!("{} {} UTC", &text[..10], &text[11..16])
}

/// How long something takes, as people say it.
pub fn span(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// The date of a day since 1970.  Years begin in March, so that the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // March to January have 153 days in each five months.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (400 * era + year + later, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `date -u -d @SECONDS` prints.
    #[test]
    fn as_date_has_it() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(Duration::from_secs(seconds)), text);
        }
        assert!(iso(Duration::from_millis(7)).ends_with("00.007Z"));
        assert_eq!(shown(951_782_400), "2000-02-29 00:00 UTC");
        let spans = [0.2, 119.0, 120.0, 7199.0, 7200.0, 172_799.0, 172_800.0].map(span);
        assert_eq!(
            spans,
            ["0 s", "119 s", "2 min", "120 min", "2 h", "48 h", "2.0 days"]
        );
    }
}

//! Points in time.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, SecondsFormat};

use super::text::clean;

/// A point in time, in seconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From seconds since 1970-01-01 UTC.
    pub const fn from_seconds(seconds: i64) -> Timestamp {
        Timestamp(seconds)
    }

    /// Seconds since 1970-01-01 UTC.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// The day in UTC: `2026-11-01`. A time that no calendar has is 1970-01-01.
    pub fn day(self) -> String {
        DateTime::from_timestamp(self.0, 0).unwrap_or_default().format("%Y-%m-%d").to_string()
    }
}

/// The day that a text such as `2026-11-01` states.
fn date(text: &str) -> Option<NaiveDate> {
    // chrono takes signs and spaces, too.
    let is_form = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(at, b)| if at == 4 || at == 7 { b == b'-' } else { b.is_ascii_digit() });
    is_form.then(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok())?
}

/// Whether a text is a day: `2026-11-01`. Days compare as their texts do.
pub fn is_day(text: &str) -> bool {
    date(text).is_some()
}

/// The days from one to a time; `None` if the text is not a day.
pub fn days_since(day: &str, now: Timestamp) -> Option<i64> {
    Some(now.seconds().div_euclid(86_400) - date(day)?.and_hms_opt(0, 0, 0)?.and_utc().timestamp() / 86_400)
}

/// RFC 3339 in UTC: `2026-11-01T00:00:00Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = DateTime::from_timestamp(self.0, 0).unwrap_or_default();
        f.write_str(&time.to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

/// Not a time in RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time such as `2026-11-01T00:00:00Z`")]
pub struct InvalidTimestamp(String);

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    fn from_str(text: &str) -> Result<Timestamp, InvalidTimestamp> {
        let time = DateTime::parse_from_rfc3339(text).map_err(|_| InvalidTimestamp(clean(text, 40)))?;
        Ok(Timestamp(time.timestamp()))
    }
}

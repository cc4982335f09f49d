//! `exclude-newer`: the time after which an uploaded file is no candidate.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDate;

use super::limit::Limit;
use super::text::{clean, normalized_name};
use super::timestamp::Timestamp;

const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// A date, a time or an age, as written, and the time that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cutoff {
    /// As written: `2026-11-01`, `2026-11-01T12:00:00Z`, `7 days`.
    pub text: String,
    /// A file uploaded at this time or later is no candidate.
    pub at: Timestamp,
    /// Whether it was written as an age, which stands for another time tomorrow.
    pub is_age: bool,
}

/// Neither a date nor a time nor an age.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a date such as `2026-11-01`, a time such as `2026-11-01T12:00:00Z`, or an age such as `7 days`"
)]
pub struct InvalidCutoff(String);

impl Cutoff {
    /// Parses a date (until its end in UTC), a time in RFC 3339, or an age in hours, days or weeks, which is counted from
    /// `now`: `7 days`, `P7D`.
    ///
    /// # Errors
    /// See [`InvalidCutoff`].
    pub fn parse(text: &str, now: Timestamp) -> Result<Cutoff, InvalidCutoff> {
        let text = text.trim();
        let found = |at, is_age| Cutoff { text: text.to_owned(), at, is_age };
        let age = |seconds: i64| {
            now.seconds().checked_sub(seconds).map(|at| found(Timestamp::from_seconds(at), true))
        };
        let parsed = match (text.parse::<Timestamp>(), text.parse::<NaiveDate>()) {
            (Ok(at), _) => Some(found(at, false)),
            // `NaiveDate` also reads `2026-11-1`.
            (_, Ok(date)) if text.len() == 10 => {
                let next = date.succ_opt().and_then(|next| next.and_hms_opt(0, 0, 0));
                next.map(|next| found(Timestamp::from_seconds(next.and_utc().timestamp()), false))
            }
            _ => seconds(text).and_then(age),
        };
        // A lock must be able to state the time: years have four digits there.
        let is_stated = |cutoff: &Cutoff| cutoff.at.to_string().parse() == Ok(cutoff.at);
        parsed.filter(is_stated).ok_or_else(|| InvalidCutoff(clean(text, 60)))
    }
}

/// The seconds of an age: `7 days`, `24 hours`, `2w`, `P7D`, `PT24H`. Months and years have no fixed length.
fn seconds(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = match lower.strip_prefix('p') {
        Some(iso) => {
            let (time, rest) = iso.strip_prefix('t').map_or((false, iso), |rest| (true, rest));
            let (number, unit) = rest.split_at_checked(rest.len().checked_sub(1)?)?;
            (time == (unit == "h")).then_some((number, unit))?
        }
        None => {
            let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
            let (number, unit) = lower.split_at(digits);
            (number, unit.trim_start())
        }
    };
    let unit = match unit {
        "h" | "hour" | "hours" => HOUR,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => WEEK,
        _ => return None,
    };
    // Digits alone: `parse` also reads a sign.
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(())?;
    number.parse::<i64>().ok()?.checked_mul(unit)
}

/// Until when files of which packages and indexes are candidates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExcludeNewer {
    /// For packages without their own.
    pub general: Option<Limit<Cutoff>>,
    /// By package: its own, or none.
    pub packages: BTreeMap<String, Option<Cutoff>>,
    /// Indexes whose files are candidates at any time, by name.
    pub exempt: BTreeSet<String>,
}

impl ExcludeNewer {
    /// The cutoff for a package on an index (`pypi`, `pytorch/cu126`).
    pub fn of(&self, index: &str, package: &str) -> Option<&Cutoff> {
        let family = index.split('/').next().unwrap_or(index);
        if self.exempt.contains(family) {
            return None;
        }
        match self.packages.get(package) {
            Some(own) => own.as_ref(),
            None => self.general.as_ref().map(|limit| &limit.value),
        }
    }

    /// Sets a package's own cutoff; none lifts the general one.
    pub fn set(&mut self, package: &str, cutoff: Option<Cutoff>) {
        self.packages.insert(normalized_name(package), cutoff);
    }

    /// Ages written as in `before` keep the time that they stood for then: a lock stays the same until it is upgraded.
    pub fn keep_times_of(&mut self, before: &ExcludeNewer) {
        let keep = |own: &mut Cutoff, old: Option<&Cutoff>| {
            if let Some(old) = old.filter(|old| own.is_age && old.text == own.text) {
                own.at = old.at;
            }
        };
        if let Some(own) = &mut self.general {
            keep(&mut own.value, before.general.as_ref().map(|limit| &limit.value));
        }
        for (package, own) in &mut self.packages {
            if let Some(own) = own {
                keep(own, before.packages.get(package).and_then(Option::as_ref));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_times_and_ages() {
        let now: Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
        for (text, at, is_age) in [
            ("2026-11-01", "2026-11-02T00:00:00Z", false),
            ("2024-02-29", "2024-03-01T00:00:00Z", false),
            ("2026-11-01T12:00:00Z", "2026-11-01T12:00:00Z", false),
            ("2026-11-01T12:00:00.5+02:00", "2026-11-01T10:00:00Z", false),
            ("7 days", "2026-11-16T12:00:00Z", true),
            ("1 week", "2026-11-16T12:00:00Z", true),
            ("24h", "2026-11-22T12:00:00Z", true),
            ("P7D", "2026-11-16T12:00:00Z", true),
            ("PT24H", "2026-11-22T12:00:00Z", true),
            ("P2W", "2026-11-09T12:00:00Z", true),
        ] {
            let cutoff = Cutoff::parse(text, now).unwrap();
            assert_eq!((cutoff.at.to_string().as_str(), cutoff.is_age), (at, is_age), "{text}");
        }
        for text in [
            "",
            "7",
            "days",
            "-7 days",
            "+7 days",
            "7 months",
            "P1M",
            "P1H",
            "PT1D",
            "PT",
            "p",
            "2026-13-01",
            "2026-02-29",
            "2026-1-1",
            "01.11.2026",
            "yesterday",
            "99999999999999999999 days",
            "99999999999999999 weeks",
            "9999999999999 weeks é",
            "99999999 weeks",
            "9999-12-31",
            "pé",
            "é",
        ] {
            assert!(Cutoff::parse(text, now).is_err(), "{text}");
        }
    }

    #[test]
    fn the_package_comes_before_the_general_and_the_index_before_both() {
        let now = Timestamp::from_seconds(0);
        let cutoff = |text: &str| Cutoff::parse(text, now).unwrap();
        let mut all = ExcludeNewer::default();
        assert!(all.of("pypi", "numpy").is_none());
        all.general = Some(Limit { value: cutoff("2026-11-01"), origin: "envlock.toml".into() });
        all.set("vLLM", Some(cutoff("2026-11-20")));
        all.set("mine", None);
        all.exempt.insert("pytorch".to_owned());
        let text = |index, package| all.of(index, package).map(|c| c.text.as_str());
        assert_eq!(text("pypi", "numpy"), Some("2026-11-01"));
        assert_eq!(text("pypi", "vllm"), Some("2026-11-20"));
        assert_eq!(text("pypi", "mine"), None);
        assert_eq!(text("pytorch/cu126", "numpy"), None);
    }

    #[test]
    fn an_age_keeps_its_time_until_it_is_written_otherwise() {
        let with = |text: &str, now: i64| {
            let cutoff = |text| Cutoff::parse(text, Timestamp::from_seconds(now)).unwrap();
            let general = Some(Limit { value: cutoff(text), origin: "envlock.toml".into() });
            let packages = BTreeMap::from([("a".to_owned(), Some(cutoff("1 week"))), ("b".to_owned(), None)]);
            ExcludeNewer { general, packages, exempt: BTreeSet::new() }
        };
        let mut new = with("7 days", 9 * DAY);
        new.keep_times_of(&with("7 days", 8 * DAY));
        assert_eq!(new, with("7 days", 8 * DAY));
        let mut new = with("7 days", 9 * DAY);
        new.keep_times_of(&with("6 days", 8 * DAY));
        assert_eq!(new.general.unwrap().value.at, Timestamp::from_seconds(2 * DAY));
        assert_eq!(new.packages["a"].as_ref().unwrap().at, Timestamp::from_seconds(DAY));
        let mut date = with("2026-11-01", 9 * DAY);
        date.keep_times_of(&with("2026-11-01", 0));
        assert_eq!(date.general, with("2026-11-01", 0).general);
    }
}

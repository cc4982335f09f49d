//! What a signature states of the data: the trusted comment of minisign's format.

use std::fmt;
use std::str::FromStr;

use semver::Version as Semver;

use crate::model::text::clean;
use crate::model::timestamp::is_day;
use crate::registry::Registry;

/// The words that the comment begins with: a signature made for something else states something else.
const SUBJECT: &str = "envlock registry";

/// The date, format and digest of signed data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The day of the newest row, `2026-11-27`.
    pub date: String,
    /// The format of the rows.
    pub schema: Semver,
    /// SHA-256 of the rows, 64 hexadecimal digits.
    pub sha256: String,
}

impl Statement {
    /// What is true of a registry.
    pub fn of(registry: &Registry) -> Statement {
        let meta = registry.meta();
        let sha256 = registry.digest().to_owned();
        Statement { date: meta.date.clone(), schema: meta.schema.clone(), sha256 }
    }

    /// The version of the data wheel: `2026.11.27`.
    pub fn version(&self) -> String {
        self.date.split('-').map(|part| part.trim_start_matches('0')).collect::<Vec<_>>().join(".")
    }
}

/// `envlock registry date=2026-11-27 schema=2.0.0 sha256=...`
impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SUBJECT} date={} schema={} sha256={}", self.date, self.schema, self.sha256)
    }
}

impl FromStr for Statement {
    type Err = String;

    fn from_str(text: &str) -> Result<Statement, String> {
        let shown = || clean(text, 200);
        let rest =
            text.strip_prefix(SUBJECT).ok_or_else(|| format!("`{}` is not about a registry", shown()))?;
        let words: Vec<(&str, &str)> = rest.split(' ').filter_map(|word| word.split_once('=')).collect();
        let [("date", date), ("schema", schema), ("sha256", sha256)] = words[..] else {
            return Err(format!("`{}` has not just a date, a schema and a sha256", shown()));
        };
        if !is_day(date) {
            return Err(format!("`{}` is not a day", clean(date, 40)));
        }
        if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(format!("`{}` is not a SHA-256", clean(sha256, 80)));
        }
        let schema = schema.parse().map_err(|e| format!("`{}`: {e}", clean(schema, 40)))?;
        let statement = Statement { date: date.to_owned(), schema, sha256: sha256.to_owned() };
        // Nothing else, in no other form.
        match statement.to_string() == text {
            true => Ok(statement),
            false => Err(format!("`{}` is not of the form `{statement}`", shown())),
        }
    }
}

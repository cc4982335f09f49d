//! A limit of a request, and where a part of a request was written.

use std::fmt;

use serde::{Serialize, Serializer};

/// Where a part of a request was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A package named on the command line.
    CommandLine,
    /// An option of this run: `--python`.
    Option(&'static str),
    /// A file: `envlock.toml`, `requirements.txt`.
    File(String),
    /// `envlock.lock`, where there is no manifest.
    Lock,
    /// A query by envlock itself, as in `why`; it is not reported as a reason.
    Question,
}

impl Origin {
    /// Whether it applies only to one run.
    pub fn is_option(&self) -> bool {
        matches!(self, Origin::Option(_))
    }
}

impl From<&str> for Origin {
    fn from(file: &str) -> Self {
        Origin::File(file.to_owned())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::CommandLine => f.write_str("command line"),
            Origin::Option(name) => f.write_str(name),
            Origin::File(name) => f.write_str(name),
            Origin::Lock => f.write_str("envlock.lock"),
            Origin::Question => f.write_str("the question"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A limit and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit<T> {
    /// The limit itself.
    pub value: T,
    /// Where it was written.
    pub origin: Origin,
}

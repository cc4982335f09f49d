//! The parts of a project that are installed on demand: its extras (PEP 621) and its dependency groups (PEP 735).

use std::fmt;

use serde::{Serialize, Serializer};

use super::text::normalized_name;

/// An extra or a dependency group, by its normalized name. A project may have both of one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A dependency group.
    Group(String),
    /// An extra.
    Extra(String),
}

/// What marks an extra in a lock; a package name has no colon.
const EXTRA: &str = "extra:";

impl Part {
    /// A dependency group.
    pub fn group(name: &str) -> Part {
        Part::Group(normalized_name(name))
    }

    /// An extra.
    pub fn extra(name: &str) -> Part {
        Part::Extra(normalized_name(name))
    }

    /// The name of the extra or group.
    pub fn name(&self) -> &str {
        match self {
            Part::Group(name) | Part::Extra(name) => name,
        }
    }

    /// As a lock writes it: `dev` is a group, `extra:gpu` an extra.
    pub fn code(&self) -> String {
        match self {
            Part::Group(name) => name.clone(),
            Part::Extra(name) => format!("{EXTRA}{name}"),
        }
    }

    /// Reads [`Part::code`]. The name is not checked.
    pub fn of_code(code: &str) -> Part {
        match code.strip_prefix(EXTRA) {
            Some(name) => Part::Extra(name.to_owned()),
            None => Part::Group(code.to_owned()),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Group(name) => write!(f, "group {name}"),
            Part::Extra(name) => write!(f, "extra {name}"),
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.code())
    }
}

//! How programs with their own GPU code, toolkits and containers are repaired: by place, and by what the text states.

use serde::Deserialize;

use super::RowError;
use super::errors::{Condition, Offer, fixes};
use crate::model::fix::Fix;
use crate::registry::table::Fault;

/// A package with its own GPU code, by the modules that a traceback names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// The package on PyPI.
    pub package: String,
    /// Its modules, and other words by which logs name it, in lower case.
    pub modules: Vec<String>,
}

impl Extension {
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        let is_small = |word: &String| word.len() > 2 && *word == word.to_lowercase();
        let is_listed = !self.modules.is_empty() && self.modules.iter().all(is_small);
        (!is_listed)
            .then(|| Fault::at("modules", "`modules` has words of three letters or more in lower case"))
    }
}

/// A library of the system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemLibrary {
    /// Its name: `libGL.so.1`.
    pub name: String,
    /// The package of Debian and Ubuntu that brings it.
    pub debian: String,
}

/// The fixes of one offer where some conditions hold. Of several rows, the first that applies counts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawRepair")]
pub struct Repair {
    /// Which offer.
    pub offer: Offer,
    /// The package that failed, if the row is about one.
    pub package: Option<String>,
    /// All of them must hold.
    pub conditions: Vec<Condition>,
    /// The fixes, with placeholders.
    pub fix: Vec<Fix>,
    /// The conditions as written.
    pub written: Vec<String>,
}

/// The keys of a row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRepair {
    offer: String,
    package: Option<String>,
    #[serde(default, rename = "if")]
    conditions: Vec<String>,
    fix: Vec<String>,
}

impl TryFrom<RawRepair> for Repair {
    type Error = RowError;

    fn try_from(raw: RawRepair) -> Result<Self, RowError> {
        if raw.fix.is_empty() {
            return Err("`fix` is empty".to_owned());
        }
        Ok(Repair {
            offer: Offer::parse(&raw.offer)?,
            package: raw.package,
            conditions: raw.conditions.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
            fix: fixes(&raw.fix)?,
            written: raw.conditions,
        })
    }
}

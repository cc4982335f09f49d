//! A row that was read from a wheel: its value, and its text as it would stand in the registry.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pep440_rs::{Operator, Version, VersionSpecifiers};

use super::Cited;
use super::rows::{Build, Companion, FrameworkBuild};
use super::table::Row;
use crate::model::index_owner::local_of;
use crate::model::platform::Platform;

/// The source of learned rows. It names no index: what answers to `pypi` may be a mirror.
pub const LEARNED_SOURCE: &str = "learned-wheel";

/// A row of torch, a companion or another framework that was read from a wheel.
#[derive(Debug, Clone)]
pub struct LearnedRow {
    text: String,
    value: LearnedValue,
}

#[derive(Debug, Clone)]
pub(super) enum LearnedValue {
    Build(Box<Cited<Build>>),
    Companion(Box<Cited<Companion>>),
    Framework(Box<Cited<FrameworkBuild>>),
}

impl LearnedRow {
    /// Parses the TOML of exactly one row of this package.
    ///
    /// # Errors
    /// What is wrong with it, one phrase.
    pub fn parse(package: &str, text: String) -> Result<LearnedRow, String> {
        // The table says whether the package is a framework.
        let is_build =
            toml::from_str::<toml::Table>(&text).is_ok_and(|all| all.contains_key(FrameworkBuild::TABLE));
        let value = match (package, is_build) {
            ("torch", _) => LearnedValue::Build(Box::new(only(&text)?)),
            (_, true) => LearnedValue::Framework(Box::new(only(&text)?)),
            (_, false) => LearnedValue::Companion(Box::new(only(&text)?)),
        };
        let row = LearnedRow { text, value };
        if row.package() != package {
            return Err(format!("it is not a row of {package}"));
        }
        Ok(row)
    }

    /// Whether it is the row of this release on this platform: of PyPI's build, or with a local version (`2.9.1+cu126`) of that of
    /// the pytorch index.
    pub fn is_of(&self, version: &Version, platform: Platform) -> bool {
        let plain = version.clone().without_local();
        match &self.value {
            LearnedValue::Build(build) => {
                let is_variant =
                    if version.is_local() { build.variant == local_of(version) } else { build.on_pypi };
                build.version == plain && build.platform == platform && is_variant
            }
            LearnedValue::Companion(row) => row.version == *version && row.platform == platform,
            LearnedValue::Framework(row) => row.platform == platform && pinned(&row.versions) == Some(&plain),
        }
    }

    /// The package.
    pub fn package(&self) -> &str {
        match &self.value {
            LearnedValue::Build(_) => "torch",
            LearnedValue::Companion(row) => &row.package,
            LearnedValue::Framework(row) => &row.package,
        }
    }

    /// The version, if it is a build of torch.
    pub fn torch(&self) -> Option<&Version> {
        match &self.value {
            LearnedValue::Build(build) => Some(&build.version),
            LearnedValue::Companion(_) | LearnedValue::Framework(_) => None,
        }
    }

    /// Whether it is a companion whose wheel says neither for which CUDA it was built nor for which release of torch.
    pub fn is_of_unknown_cuda(&self) -> bool {
        let LearnedValue::Companion(row) = &self.value else { return false };
        let is_pin = |bounds: &VersionSpecifiers| bounds.iter().any(|one| *one.operator() == Operator::Equal);
        row.variant.is_none() && !row.torch.as_ref().is_some_and(is_pin)
    }

    /// Whether it is of a framework other than torch.
    pub fn is_of_framework(&self) -> bool {
        matches!(self.value, LearnedValue::Framework(_))
    }

    /// The release for a message: `torch 2.15.0`.
    pub fn release(&self) -> String {
        match &self.value {
            LearnedValue::Build(build) => format!("torch {}", build.version),
            LearnedValue::Companion(row) => format!("{} {}", row.package, row.version),
            LearnedValue::Framework(row) => match pinned(&row.versions) {
                Some(version) => format!("{} {version}", row.package),
                None => format!("{} {}", row.package, row.versions),
            },
        }
    }

    /// The TOML block.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn value(&self) -> &LearnedValue {
        &self.value
    }
}

/// The release that bounds admit, if they are a pin.
fn pinned(bounds: &VersionSpecifiers) -> Option<&Version> {
    match &bounds[..] {
        [one] if *one.operator() == Operator::Equal => Some(one.version()),
        _ => None,
    }
}

/// The one row that a text has.
fn only<R: Row>(text: &str) -> Result<Cited<R>, String> {
    let mut tables: BTreeMap<String, Vec<Cited<R>>> =
        toml::from_str(text).map_err(|e| e.message().to_owned())?;
    match (tables.remove(R::TABLE).as_mut().map(|rows| (rows.pop(), rows.is_empty())), tables.is_empty()) {
        (Some((Some(row), true)), true) => Ok(row),
        _ => Err(format!("it is not one row of the table `{}`", R::TABLE)),
    }
}

impl PartialEq for LearnedRow {
    fn eq(&self, other: &LearnedRow) -> bool {
        self.text == other.text
    }
}

impl Eq for LearnedRow {}

impl PartialOrd for LearnedRow {
    fn partial_cmp(&self, other: &LearnedRow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LearnedRow {
    fn cmp(&self, other: &LearnedRow) -> Ordering {
        self.text.cmp(&other.text)
    }
}

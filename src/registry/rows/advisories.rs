//! Advisories: known incompatibilities that no metadata declares.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::RowError;
use crate::model::capability::ComputeCapability;
use crate::model::platform::Platform;
use crate::model::timestamp::Timestamp;

/// The effect of an advisory.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Constrains another package if both are selected.
    Constrain(Box<Requirement<VerbatimUrl>>),
    /// The same where there is another answer, else a warning: the package fails as it was published, and projects that
    /// pin both have their own remedy.
    Avoid(Box<Requirement<VerbatimUrl>>),
    /// Only a warning.
    Warn,
}

impl Effect {
    /// What it requires of another package.
    pub fn requirement(&self) -> Option<&Requirement<VerbatimUrl>> {
        match self {
            Effect::Constrain(requirement) | Effect::Avoid(requirement) => Some(requirement),
            Effect::Warn => None,
        }
    }
}

/// A known incompatibility that no metadata declares.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawAdvisory")]
pub struct Advisory {
    /// Id.
    pub id: String,
    /// Its effect.
    pub effect: Effect,
    /// The package it is about.
    pub package: String,
    /// The affected versions.
    pub versions: VersionSpecifiers,
    /// Whether the package does not work without the constrained one, although its metadata does not require it.
    pub needed: bool,
    /// Whether only a part of what uses the package fails: torch without triton compiles nothing, and works.
    pub partial: bool,
    /// The affected platform; `None`: all.
    pub platform: Option<Platform>,
    /// The affected compute capabilities; empty: all.
    pub capabilities: Vec<ComputeCapability>,
    /// The message.
    pub text: String,
}

impl Advisory {
    /// Whether it is about a machine: its platform, and one of the compute capabilities of its GPUs.
    pub fn applies_to(
        &self,
        platform: Platform,
        mut capabilities: impl Iterator<Item = ComputeCapability>,
    ) -> bool {
        self.platform.is_none_or(|own| own == platform)
            && (self.capabilities.is_empty() || capabilities.any(|c| self.capabilities.contains(&c)))
    }

    /// Whether the row excludes two releases beside each other.
    pub fn excludes(&self, version: &Version, other: &str, other_version: &Version) -> bool {
        let is_outside = |requirement: &Requirement<VerbatimUrl>| {
            requirement.name.as_ref() as &str == other
                && matches!(&requirement.version_or_url, Some(VersionOrUrl::VersionSpecifier(s)) if !s.contains(other_version))
        };
        self.versions.contains(version) && self.effect.requirement().is_some_and(is_outside)
    }
}

/// A package whose releases changed their C interface: an extension that was compiled for the ones before does not load
/// beside the ones from then on, and its metadata seldom says so.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbiBreak {
    /// The package, `numpy`.
    pub package: String,
    /// The first release with the new interface.
    pub from: Version,
    /// The time before which nothing was compiled for them, that of the first pre-release: `2024-03-10T00:00:00Z`.
    #[serde(deserialize_with = "timestamp")]
    pub built_before: Timestamp,
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// The keys of a row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAdvisory {
    id: String,
    effect: String,
    package: String,
    versions: VersionSpecifiers,
    platform: Option<Platform>,
    #[serde(default)]
    capabilities: Vec<ComputeCapability>,
    #[serde(default, deserialize_with = "crate::model::requirement::optional")]
    requires: Option<Requirement<VerbatimUrl>>,
    #[serde(default)]
    needed: bool,
    #[serde(default)]
    partial: bool,
    text: String,
}

impl TryFrom<RawAdvisory> for Advisory {
    type Error = RowError;

    fn try_from(raw: RawAdvisory) -> Result<Self, RowError> {
        let effect = match (raw.effect.as_str(), raw.requires) {
            ("constrain", Some(requirement)) => Effect::Constrain(Box::new(requirement)),
            ("avoid", Some(requirement)) => Effect::Avoid(Box::new(requirement)),
            ("warn", None) => Effect::Warn,
            _ => return Err("`effect` must be `warn`, or `constrain` or `avoid` with `requires`".to_owned()),
        };
        if raw.needed && !matches!(effect, Effect::Constrain(_)) {
            return Err("`needed` belongs to the effect `constrain`".to_owned());
        }
        Ok(Advisory {
            id: raw.id,
            effect,
            package: raw.package,
            versions: raw.versions,
            needed: raw.needed,
            partial: raw.partial,
            platform: raw.platform,
            capabilities: raw.capabilities,
            text: raw.text,
        })
    }
}

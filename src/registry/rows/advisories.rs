//! Advisories: known incompatibilities that no metadata declares.

use pep440_rs::VersionSpecifiers;
use pep508_rs::{Requirement, VerbatimUrl};

use super::super::schema::RawAdvisory;
use super::{RowError, parse, parse_option};
use crate::model::capability::ComputeCapability;
use crate::model::evidence::Evidence;
use crate::model::platform::Platform;

/// The effect of an advisory.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Constrains another package if both are selected.
    Constrain(Box<Requirement<VerbatimUrl>>),
    /// Only a warning.
    Warn,
}

/// A known incompatibility that no metadata declares.
#[derive(Debug, Clone)]
pub struct Advisory {
    /// Id.
    pub id: String,
    /// Its effect.
    pub effect: Effect,
    /// The package it is about.
    pub package: String,
    /// The affected versions.
    pub versions: VersionSpecifiers,
    /// The affected platform; `None`: all.
    pub platform: Option<Platform>,
    /// The affected compute capabilities; empty: all.
    pub capabilities: Vec<ComputeCapability>,
    /// The message.
    pub text: String,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

impl TryFrom<&RawAdvisory> for Advisory {
    type Error = RowError;

    fn try_from(raw: &RawAdvisory) -> Result<Self, RowError> {
        let effect = match (raw.effect.as_str(), &raw.requires) {
            ("constrain", Some(text)) => Effect::Constrain(Box::new(parse("requires", text)?)),
            ("warn", None) => Effect::Warn,
            _ => return Err("`effect` must be `warn`, or `constrain` with `requires`".to_owned()),
        };
        Ok(Advisory {
            id: raw.id.clone(),
            effect,
            package: raw.package.clone(),
            versions: parse("versions", &raw.versions)?,
            platform: parse_option("platform", raw.platform.as_deref())?,
            capabilities: raw
                .capabilities
                .iter()
                .map(|c| parse("capabilities", c))
                .collect::<Result<_, _>>()?,
            text: raw.text.clone(),
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

//! Match specs of conda, as rattler reads them.

use rattler_conda_types::{MatchSpec, PackageNameMatcher, ParseMatchSpecOptions, Version};

use super::channel::name_of;
use crate::model::text::clean;

/// A match spec that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a match spec of conda: {why}")]
pub struct InvalidSpec {
    /// As written.
    pub text: String,
    /// The parse error, one phrase.
    pub why: String,
}

/// Reads a match spec.
///
/// # Errors
/// When conda would not read it.
pub fn parse(text: &str) -> Result<MatchSpec, InvalidSpec> {
    let invalid = |why: String| InvalidSpec { text: clean(text, 80), why: clean(&why, 120) };
    if !crate::model::text::is_line(text) {
        return Err(invalid("it is not one line of text".to_owned()));
    }
    if text.len() > 500 {
        return Err(invalid("it is longer than 500 bytes".to_owned()));
    }
    MatchSpec::from_str(text, ParseMatchSpecOptions::lenient()).map_err(|error| invalid(error.to_string()))
}

/// Reads a match spec of a request: of one package by name, from wherever the channels have it.
///
/// # Errors
/// When conda would not read it, or it names a file or a platform folder.
pub fn parse_request(text: &str) -> Result<MatchSpec, InvalidSpec> {
    let parsed = parse(text)?;
    let why = match (&parsed.url, &parsed.subdir, &parsed.name) {
        (Some(_), ..) => "it is an address: packages come from `channels`, by name",
        (_, Some(_), _) => "it names a platform folder: a target's platform says which is used",
        (.., PackageNameMatcher::Exact(_)) => return Ok(parsed),
        _ => "it names no package",
    };
    Err(InvalidSpec { text: clean(text, 80), why: why.to_owned() })
}

/// The channel that a match spec names by itself: `bioconda` of `bioconda::samtools`.
pub fn channel_of_spec(spec: &str) -> Option<String> {
    let channel = parse(spec).ok()?.channel?;
    Some(name_of(&channel.canonical_name()).to_owned())
}

/// Whether a spec admits a version and build of its package.
pub(super) fn admits(spec: &MatchSpec, version: &Version, build: &str) -> bool {
    spec.version.as_ref().is_none_or(|bounds| bounds.matches(version))
        && spec.build.as_ref().is_none_or(|own| own.matches(build))
}

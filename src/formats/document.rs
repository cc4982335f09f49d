//! What the formats have in common: names, versions, markers, addresses and file names, from outside until parsed.

use pep440_rs::Version;
use pep508_rs::{ExtraName, MarkerEnvironment, MarkerTree, PackageName};
use serde::Deserialize;

use super::error::{ForeignError, MAX_PARTS, MAX_TOML};
use crate::model::requirement::parse_requirement;
use crate::model::secrets::masked;
use crate::model::solution::ChosenFile;
use crate::model::source::Source;
use crate::model::text::{MAX_VALUES, toml_values};
use crate::model::text::{clean, without_logins};
use crate::model::wheel::{Python, WheelName};

/// The newest Python series that is tried where a lock leaves it open.
pub(super) const NEWEST: Python = Python::new(14);

/// Reads a TOML document of which each requirement and file is an inline table.
pub(super) fn of_toml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ForeignError> {
    if text.bytes().filter(|byte| *byte == b'{').count() > MAX_PARTS {
        return Err(ForeignError::TooManyParts(MAX_PARTS));
    }
    if toml_values(text) > MAX_VALUES {
        return Err(ForeignError::TooManyValues(MAX_VALUES));
    }
    if text.len() > MAX_TOML {
        return Err(ForeignError::TooLong(MAX_TOML >> 20));
    }
    toml::from_str(text).map_err(|error| ForeignError::Syntax(error.message().to_owned()))
}

pub(super) fn invalid(key: impl std::fmt::Display, value: &str) -> ForeignError {
    ForeignError::Value(quoted(&key.to_string()), quoted(value))
}

/// A text of the lock for a message: without logins and tokens.
pub(super) fn quoted(text: &str) -> String {
    clean(&masked(text), 80)
}

/// A normalized package name.
#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
pub(super) fn name(text: &str) -> Result<String, ForeignError> {
    PackageName::new(text.to_owned()).map(|name| name.to_string()).map_err(|_| invalid("name", text))
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
pub(super) fn version(package: &str, text: &str) -> Result<Version, ForeignError> {
    text.parse().map_err(|_| invalid(format!("version of {package}"), text))
}

/// A marker; every environment fulfils an absent one.
pub(super) fn marker(package: &str, text: Option<&str>) -> Result<MarkerTree, ForeignError> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(MarkerTree::TRUE) };
    let parsed = parse_requirement(&format!("x ; {text}"));
    let invalid = |error| ForeignError::Requirement(format!("marker of {package}"), quoted(text), error);
    parsed.map(|requirement| requirement.marker).map_err(invalid)
}

pub(super) fn holds(marker: &MarkerTree, environment: &MarkerEnvironment, extras: &[ExtraName]) -> bool {
    marker.evaluate(environment, extras)
}

/// An index by its address: the last two parts of its path, as in `whl/cu128`. Which server it is on does not matter.
pub(super) fn index(address: &str) -> Source {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let path =
        path.split_once("://").map_or(path, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let last = match parts.as_slice() {
        [] => "/".to_owned(),
        parts => parts[parts.len().saturating_sub(2)..].join("/"),
    };
    Source::Index(clean(&last, 80))
}

/// The index of a file by the file's address: PyPI's files lie in folders named by their hash.
pub(super) fn index_of_file(address: &str) -> Source {
    let folder = address.rsplit_once('/').map_or(address, |(folder, _)| folder);
    let is_digest = |part: &str| part.len() >= 50 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    match folder.rsplit('/').next().is_some_and(is_digest) && folder.contains("/packages/") {
        true => Source::Index(PYPI.to_owned()),
        false => index(folder),
    }
}

/// The path of PyPI's index, and of its plain mirrors.
pub(super) const PYPI: &str = "simple";

/// Whether an index by its path is PyPI or a mirror of it, as far as its name says. Vendors have builds of their own under
/// other names. A format that names no index means PyPI.
pub fn is_pypi(path: &str) -> bool {
    ["", PYPI, "pypi", "root/pypi", "pypi/simple", "pypi/+simple", "pypi/web/simple", "web/simple"]
        .contains(&path)
}

/// The name that envlock's own locks have for an index of another tool's lock: `pypi`, `pytorch/cu126`.
pub fn own_name(source: Source) -> Source {
    match source {
        Source::Index(path) if is_pypi(&path) => Source::Index("pypi".to_owned()),
        Source::Index(path) => match path.strip_prefix("whl/") {
            Some(variant) => Source::Index(format!("pytorch/{variant}")),
            None => Source::Index(path),
        },
        direct => direct,
    }
}

/// A direct address, without logins.
pub(super) fn url(address: &str) -> Source {
    Source::Url(clean(&without_logins(address), 400))
}

/// `https://host/owner/name?subdirectory=x&rev=y#COMMIT`, as uv and pixi write it.
pub(super) fn git(address: &str) -> Source {
    let (address, commit) = address.rsplit_once('#').unwrap_or((address, ""));
    let (repository, options) = address.split_once('?').unwrap_or((address, ""));
    let subdirectory = options.split('&').find_map(|option| option.strip_prefix("subdirectory="));
    Source::Git {
        repository: clean(&without_logins(repository.trim_start_matches("git+")), 400),
        commit: clean(commit, 64),
        subdirectory: subdirectory.map(|folder| clean(folder, 200)),
    }
}

/// The last part of an address or path, decoded: a file's name.
pub(super) fn file_name(address: &str) -> String {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    let decoded = percent_encoding::percent_decode_str(last).decode_utf8_lossy();
    clean(&decoded, 300)
}

/// A wheel, if the name is one.
pub(super) fn wheel(name: String, sha256: Option<&str>, size: Option<u64>) -> Option<ChosenFile> {
    let _: WheelName = name.parse().ok()?;
    let sha256 = sha256.map(|hash| hash.strip_prefix("sha256:").unwrap_or(hash));
    let is_digest = |hash: &&str| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sha256 = sha256.filter(is_digest).map(str::to_ascii_lowercase);
    Some(ChosenFile { name, sha256, hash_computed: false, size })
}

/// The format version of a YAML document.
pub(super) fn format_version(text: &str) -> Result<u64, ForeignError> {
    #[derive(Deserialize)]
    struct RawVersion {
        version: u64,
    }
    yaml(text).map(|RawVersion { version }| version)
}

/// A version: YAML reads `1.2` as a number.
pub(super) fn text_of(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads YAML. A lock of several thousand packages for several platforms has more nodes than the reader's usual limit.
pub(super) fn yaml<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, ForeignError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 4_000_000, max_events: 8_000_000 },
    };
    let read = serde_saphyr::from_str_with_options(text, options);
    // The first line says where and what; the rest quotes the text.
    read.map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        ForeignError::Syntax(clean(line.trim_start_matches("error: "), 200))
    })
}

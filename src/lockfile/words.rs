//! The texts of a lock, validated when they are read: what a lock holds can be written into line-based files and command
//! lines as it is. A text that is not what its key says is refused, and named.

use pep440_rs::Version;

use super::error::LockError;
use crate::model::direct::is_plain_path;
use crate::model::project::archive_stem;
use crate::model::secrets::{secret_parameter, shown_requirement};
use crate::model::solution::Edge;
use crate::model::text::{clean, is_file_name, is_line, normalized_name, requirement_name, without_logins};
use crate::model::wheel::WheelName;

/// Size limit of a text in a lock, in bytes.
const MAX_TEXT: usize = 2000;

/// A relative path.
pub(super) fn folder(path: String) -> Result<String, LockError> {
    let is_relative =
        !path.is_empty() && path.len() <= MAX_TEXT && !path.starts_with('/') && is_plain_path(&path);
    if is_relative { Ok(path) } else { Err(not(&path, "a relative path")) }
}

pub(super) fn not(text: &str, what: &str) -> LockError {
    let shown = clean(&shown_requirement(text), 60);
    LockError::Malformed(format!("`{shown}` is not {what}"))
}

pub(super) fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

pub(super) fn digest(text: String, digits: usize) -> Result<String, LockError> {
    match text.len() == digits && is_hex(&text) {
        true => Ok(text),
        false => Err(not(&text, &format!("a digest of {digits} lower-case hexadecimal digits"))),
    }
}

/// Whether an address can stand in a requirement as it is: pip expands `${NAME}`, and reads `;` as the start of a marker,
/// `#` as that of options, `[` as that of extras.
fn is_plain_address(text: &str, more: &[u8]) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/@!*+,=%".contains(&b) || more.contains(&b);
    text.len() <= MAX_TEXT && text.bytes().all(is_plain)
}

/// An http or https URL without credentials, fragment, and characters that pip reads in another way.
pub(super) fn address(text: &str) -> Result<String, LockError> {
    let parsed = url::Url::parse(text).ok().filter(|url| {
        ["http", "https"].contains(&url.scheme())
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    });
    match parsed {
        Some(_) if secret_parameter(text).is_some() => Err(not(text, "an address without a token")),
        Some(_) if is_plain_address(text, b"?&()") => Ok(text.to_owned()),
        _ => Err(not(text, "an http or https URL without credentials")),
    }
}

/// The URL of a git repository without credentials.
pub(super) fn repository(text: &str) -> Result<String, LockError> {
    let is_plain = is_plain_address(text, b"");
    if !is_plain {
        return Err(not(text, "the URL of a git repository"));
    }
    let has_scheme = ["ssh://", "file://"].iter().any(|scheme| text.starts_with(scheme));
    if has_scheme && crate::model::direct::shown_repository(text) == text {
        return Ok(text.to_owned());
    }
    address(text)
}

/// A normalized name of PyPI (PEP 503).
pub(super) fn name(text: String) -> Result<String, LockError> {
    let is_name = !text.is_empty()
        && text.len() <= 200
        && normalized_name(&text) == text
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_name { Ok(text) } else { Err(not(&text, "a normalized package name")) }
}

/// A name, version, build string or channel of conda.
pub(super) fn word(text: String) -> Result<String, LockError> {
    let is_word = !text.is_empty()
        && text.len() <= 200
        && !text.starts_with(['-', '!'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+!/".contains(&b))
        && !text.split('/').any(|part| part.is_empty() || part == "..");
    if is_word { Ok(text) } else { Err(not(&text, "a name, version, build or channel of conda")) }
}

pub(super) fn file_name(text: String) -> Result<String, LockError> {
    if is_file_name(&text) { Ok(text) } else { Err(not(&text, "a file name")) }
}

/// The name of a wheel or source distribution of a package, of the same version.
pub(super) fn file_of(text: String, package: &str, version: &Version) -> Result<String, LockError> {
    let text = file_name(text)?;
    let is_of_package = match text.parse::<WheelName>() {
        Ok(wheel) => normalized_name(&wheel.project) == package && wheel.version == *version,
        Err(_) => archive_stem(&text).and_then(|stem| stem.rsplit_once('-')).is_some_and(|(name, found)| {
            normalized_name(name) == package && found.parse().is_ok_and(|found: Version| found == *version)
        }),
    };
    match is_of_package {
        true => Ok(text),
        false => Err(not(&text, &format!("a file of {package} {version}"))),
    }
}

/// A conda match specification: one line of printable ASCII characters.
pub(super) fn match_spec(text: String) -> Result<String, LockError> {
    let is_spec = !text.trim().is_empty()
        && text.len() <= MAX_TEXT
        && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if is_spec { Ok(text) } else { Err(not(&text, "a match spec of conda")) }
}

/// The name of an index, with the sub-index of a variant: `pypi`, `pytorch/cu126`.
pub(super) fn index(text: String) -> Result<String, LockError> {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['-', '.'])
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let is_index = text.len() <= 200 && text.split('/').count() <= 2 && text.split('/').all(is_part);
    if is_index { Ok(text) } else { Err(not(&text, "the name of an index")) }
}

/// The CUDA flavour of a build: `cpu`, `cu126`.
pub(super) fn variant(text: String) -> Result<String, LockError> {
    let is_variant =
        !text.is_empty() && text.len() <= 40 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
    if is_variant { Ok(text) } else { Err(not(&text, "a CUDA variant")) }
}

/// A requirement of a package on another, as PEP 508 writes it, on one line.
pub(super) fn edge(text: String) -> Result<Edge, LockError> {
    let is_line = text.len() <= MAX_TEXT && is_line(&text);
    let to = requirement_name(&text);
    match is_line && name(to.clone()).is_ok() {
        true if has_login(&text) => Err(not(&text, "a requirement without a login")),
        true => Ok(Edge { to, requirement: text }),
        false => Err(not(&text, "a requirement")),
    }
}

/// Whether an address in a text has a login; `git` is that of everybody.
fn has_login(text: &str) -> bool {
    let text = text.replace("ssh://git@", "ssh://");
    without_logins(&text) != text
}

/// A text for people, on one line.
pub(super) fn line(text: String) -> Result<String, LockError> {
    let is_line = text.len() <= MAX_TEXT && is_line(&text);
    if is_line { Ok(text) } else { Err(not(&text, "one line of text")) }
}

/// The name of a target, as in a manifest.
pub(super) fn target_name(text: String) -> Result<String, LockError> {
    let is_name = !text.is_empty()
        && text.len() <= 120
        && !text.starts_with(['-', '.'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if is_name { Ok(text) } else { Err(not(&text, "the name of a target")) }
}

/// The name of a conda package with an optional version, `cudnn=9.1`, as a plain YAML text.
pub(super) fn conda_pin(text: String) -> Result<String, LockError> {
    let is_pin = text.len() <= 200
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-=<>,*".contains(&b));
    if is_pin { Ok(text) } else { Err(not(&text, "a conda package")) }
}

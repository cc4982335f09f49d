//! Format 2: sources of packages that are not wheels from an index, and conda packages. Every text is validated
//! when it is parsed, so that exports can write it without escaping.

use super::error::LockError;
use super::schema::{RawBuildRequirement, RawCondaPackage, RawPackage};
use crate::model::source::{BuildRequirement, CondaPackage, Source, SourceBuild};
use crate::model::text::{clean, normalized_name};

/// Size limit of a text in a lock, in bytes.
const MAX_TEXT: usize = 2000;

/// The source of a package. `has_format_2`: whether the lock's format allows sources other than an index.
pub(super) fn source(raw: &mut RawPackage, has_format_2: bool) -> Result<Source, LockError> {
    let stated = [raw.index.is_some(), raw.url.is_some(), raw.git.is_some(), raw.path.is_some()];
    if stated.iter().filter(|is_stated| **is_stated).count() != 1 {
        let name = clean(&raw.name, 60);
        return Err(LockError::Malformed(format!(
            "`{name}` needs exactly one of `index`, `url`, `git` and `path`"
        )));
    }
    if let Some(index) = raw.index.take() {
        return Ok(Source::Index(index));
    }
    require_format_2(has_format_2, &raw.name)?;
    if let Some(url) = raw.url.take() {
        return Ok(Source::Url(address(&url)?));
    }
    if let Some(git) = raw.git.take() {
        let is_commit = [40, 64].contains(&git.commit.len()) && is_hex(&git.commit);
        return match is_commit {
            true => Ok(Source::Git {
                repository: repository(&git.repository)?,
                commit: git.commit,
                subdirectory: git.subdirectory.map(folder).transpose()?,
            }),
            false => Err(not(&git.commit, "a commit of 40 or 64 hexadecimal digits")),
        };
    }
    Ok(Source::Path(folder(raw.path.take().unwrap_or_default())?))
}

/// A relative path.
fn folder(path: String) -> Result<String, LockError> {
    let is_relative = !path.is_empty()
        && path.len() <= MAX_TEXT
        && !path.starts_with(['/', '-'])
        && !path.contains(['\\', ':', '#', '"', '\''])
        && !path.chars().any(char::is_control);
    if is_relative { Ok(path) } else { Err(not(&path, "a relative path")) }
}

/// The build data of a package; `None` for wheels.
pub(super) fn build(raw: &mut RawPackage, has_format_2: bool) -> Result<Option<SourceBuild>, LockError> {
    let needs = std::mem::take(&mut raw.build_needs);
    let requires = std::mem::take(&mut raw.build_requires);
    match (raw.build, raw.metadata_from) {
        (None, None) if needs.is_empty() && requires.is_empty() => Ok(None),
        (Some(kind), Some(metadata_from)) => {
            require_format_2(has_format_2, &raw.name)?;
            Ok(Some(SourceBuild {
                metadata_from,
                kind,
                newest_wheel: None,
                asks: Vec::new(),
                needs: needs.into_iter().map(name).collect::<Result<_, _>>()?,
                requires: requires.into_iter().map(build_requirement).collect::<Result<_, _>>()?,
            }))
        }
        _ => {
            let name = clean(&raw.name, 60);
            Err(LockError::Malformed(format!("`{name}` needs both `build` and `metadata-from`, or neither")))
        }
    }
}

/// The extras and dependency groups that a package belongs to.
pub(super) fn groups(raw: &mut RawPackage, has_format_2: bool) -> Result<Vec<String>, LockError> {
    let groups = std::mem::take(&mut raw.groups);
    if !groups.is_empty() {
        require_format_2(has_format_2, &raw.name)?;
    }
    groups.into_iter().map(name).collect()
}

fn build_requirement(raw: RawBuildRequirement) -> Result<BuildRequirement, LockError> {
    Ok(BuildRequirement {
        name: name(raw.name)?,
        version: raw.version,
        file: file_name(raw.file)?,
        sha256: digest(raw.sha256, 64)?,
    })
}

/// A package of a conda channel.
pub(super) fn conda_package(raw: RawCondaPackage) -> Result<CondaPackage, LockError> {
    Ok(CondaPackage {
        name: word(raw.name)?,
        version: word(raw.version)?,
        build: word(raw.build)?,
        channel: word(raw.channel)?,
        subdir: word(raw.subdir)?,
        file: file_name(raw.file)?,
        sha256: digest(raw.sha256, 64)?,
        md5: digest(raw.md5, 32)?,
        size: raw.size,
        depends: raw.depends.into_iter().map(match_spec).collect::<Result<_, _>>()?,
    })
}

pub(super) fn require_format_2(has_format_2: bool, name: &str) -> Result<(), LockError> {
    match has_format_2 {
        true => Ok(()),
        false => Err(LockError::Malformed(format!(
            "`{}` has keys of format 2.0.0, but the lock has an older format",
            clean(name, 60)
        ))),
    }
}

fn not(text: &str, what: &str) -> LockError {
    LockError::Malformed(format!("`{}` is not {what}", clean(text, 60)))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn digest(text: String, digits: usize) -> Result<String, LockError> {
    match text.len() == digits && is_hex(&text) {
        true => Ok(text),
        false => Err(not(&text, &format!("a digest of {digits} lower-case hexadecimal digits"))),
    }
}

/// An http or https URL without credentials, whitespace and control characters.
fn address(text: &str) -> Result<String, LockError> {
    let parsed = url::Url::parse(text).ok().filter(|url| {
        ["http", "https"].contains(&url.scheme())
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    });
    let is_plain = text.len() <= MAX_TEXT && text.bytes().all(|b| b.is_ascii_graphic());
    match parsed {
        Some(_) if is_plain => Ok(text.to_owned()),
        _ => Err(not(text, "an http or https URL without credentials")),
    }
}

/// The URL of a git repository without credentials.
fn repository(text: &str) -> Result<String, LockError> {
    let is_plain = text.len() <= MAX_TEXT && text.bytes().all(|b| b.is_ascii_graphic());
    let has_scheme = ["ssh://", "file://"].iter().any(|scheme| text.starts_with(scheme));
    if has_scheme && is_plain && crate::model::direct::shown_repository(text) == text {
        return Ok(text.to_owned());
    }
    address(text)
}

/// A normalized name of PyPI (PEP 503).
fn name(text: String) -> Result<String, LockError> {
    let is_name = !text.is_empty()
        && text.len() <= 200
        && normalized_name(&text) == text
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_name { Ok(text) } else { Err(not(&text, "a normalized package name")) }
}

/// A name, version, build string or channel of conda.
fn word(text: String) -> Result<String, LockError> {
    let is_word = !text.is_empty()
        && text.len() <= 200
        && !text.starts_with('-')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+!/".contains(&b))
        && !text.split('/').any(|part| part.is_empty() || part == "..");
    if is_word { Ok(text) } else { Err(not(&text, "a name, version, build or channel of conda")) }
}

fn file_name(text: String) -> Result<String, LockError> {
    let is_file = !text.is_empty()
        && text.len() <= 300
        && !text.starts_with(['-', '.'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+!".contains(&b));
    if is_file { Ok(text) } else { Err(not(&text, "a file name")) }
}

/// A conda match specification: one line of printable ASCII characters.
fn match_spec(text: String) -> Result<String, LockError> {
    let is_spec = !text.trim().is_empty()
        && text.len() <= MAX_TEXT
        && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if is_spec { Ok(text) } else { Err(not(&text, "a match spec of conda")) }
}

//! Format 2: sources of packages that are not wheels from an index, and conda packages.

use super::error::LockError;
use super::schema::{RawBuildRequirement, RawCondaPackage, RawPackage};
use super::words::{
    address, digest, file_name, file_of, folder, index, is_hex, match_spec, name, not, repository, word,
};
use crate::model::part::Part;
use crate::model::solution::ChosenFile;
use crate::model::source::{BuildRequirement, CondaPackage, Source, SourceBuild};
use crate::model::text::{clean, normalized_name};

/// The source of a package. `has_format_2`: whether the lock's format allows sources other than an index.
pub(super) fn source(raw: &mut RawPackage, has_format_2: bool) -> Result<Source, LockError> {
    let stated = [raw.index.is_some(), raw.url.is_some(), raw.git.is_some(), raw.path.is_some()];
    if stated.iter().filter(|is_stated| **is_stated).count() != 1 {
        let name = clean(&raw.name, 60);
        return Err(LockError::Malformed(format!(
            "`{name}` needs exactly one of `index`, `url`, `git` and `path`"
        )));
    }
    if let Some(text) = raw.index.take() {
        return Ok(Source::Index(index(text)?));
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

/// What is built says how, and a wheel does not: who installs decides by that whether code of the package runs.
pub(super) fn require_build(
    source: &Source,
    files: &[ChosenFile],
    has_build: bool,
    name: &str,
) -> Result<(), LockError> {
    let is_built = match (source, files.first()) {
        (Source::Git { .. }, _) | (Source::Path(_), None) => true,
        (_, Some(file)) => !file.name.ends_with(".whl"),
        // A lock of the stack alone has no files.
        (Source::Index(_) | Source::Url(_), None) => return Ok(()),
    };
    if files.iter().any(|file| file.name.ends_with(".whl") == is_built) {
        let text = format!("`{name}` has wheels and sources: one of them would be installed unseen");
        return Err(LockError::Malformed(text));
    }
    // What is downloaded is the address's file, whatever the lock calls it.
    if let (Source::Url(url), Some(file)) = (source, files.first())
        && file_of_address(url).as_deref() != Some(&file.name)
    {
        return Err(LockError::Malformed(format!("the address of `{name}` is not that of `{}`", file.name)));
    }
    match is_built == has_build {
        true => Ok(()),
        false if is_built => {
            Err(LockError::Malformed(format!("`{name}` is built from source and needs `build`")))
        }
        false => Err(LockError::Malformed(format!("`{name}` is a wheel and cannot have `build`"))),
    }
}

/// The name of the file that an address leads to.
fn file_of_address(url: &str) -> Option<String> {
    let parsed = url::Url::parse(url).ok()?;
    let last = parsed.path_segments()?.next_back()?;
    Some(percent_encoding::percent_decode_str(last).decode_utf8().ok()?.into_owned())
}

/// The extras and dependency groups that a package belongs to.
pub(super) fn groups(raw: &mut RawPackage, has_format_2: bool) -> Result<Vec<Part>, LockError> {
    let groups = std::mem::take(&mut raw.groups);
    if !groups.is_empty() {
        require_format_2(has_format_2, &raw.name)?;
    }
    groups
        .into_iter()
        .map(|code| {
            let part = Part::of_code(&code);
            name(part.name().to_owned()).map(|_| part)
        })
        .collect()
}

fn build_requirement(raw: RawBuildRequirement) -> Result<BuildRequirement, LockError> {
    Ok(BuildRequirement {
        file: file_of(raw.file, &normalized_name(&raw.name), &raw.version)?,
        name: name(raw.name)?,
        version: raw.version,
        sha256: digest(raw.sha256, 64)?,
    })
}

/// A package of a conda channel.
pub(super) fn conda_package(raw: RawCondaPackage) -> Result<CondaPackage, LockError> {
    // conda reads name, version and build out of the name of the file.
    let stem = format!("{}-{}-{}", raw.name, raw.version, raw.build);
    if ![".conda", ".tar.bz2"].iter().any(|end| raw.file.strip_suffix(end) == Some(&stem)) {
        return Err(not(&raw.file, &format!("a file of `{}`", clean(&stem, 120))));
    }
    Ok(CondaPackage {
        name: word(raw.name)?,
        version: word(raw.version)?,
        build: word(raw.build)?,
        channel: word(raw.channel)?,
        subdir: word(raw.subdir)?,
        file: file_name(raw.file)?,
        sha256: digest(raw.sha256, 64)?,
        md5: if raw.md5.is_empty() { raw.md5 } else { digest(raw.md5, 32)? },
        size: raw.size,
        depends: raw.depends.into_iter().map(match_spec).collect::<Result<_, _>>()?,
        constrains: raw.constrains.into_iter().map(match_spec).collect::<Result<_, _>>()?,
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

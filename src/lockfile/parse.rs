//! Reads a lockfile: checks the format first, then the checksum, then the structure.

use std::collections::BTreeSet;

use super::error::LockError;
use super::render::{CHECKSUM_KEY, checksum, request_digest};
use super::schema::*;
use super::{FORMAT, FORMAT_WITH_SOURCES, Lockfile, Target, source_rows, words};
use crate::model::capability::CodeTargets;
use crate::model::choice::Choice;
use crate::model::host::{Driver, FoundBy, Gpu, Host, System};
use crate::model::level::Level;
use crate::model::owner::{Owner, PackageLock};
use crate::model::patches::Patches;
use crate::model::platform::{Libc, Platform};
use crate::model::solution::{ChosenFile, ChosenPackage, Coverage, Envelope, Framework, Stack};
use crate::model::source::Source;
use crate::model::text::{MAX_VALUES, clean, conflict_marker, toml_values};
use crate::model::wheel::Python;

/// Limit of targets, above what any project has; each target may contain every package.
const MAX_TARGETS: usize = 256;

/// Limit of packages, above what any project has: the largest have some hundred.
const MAX_PACKAGES: usize = 5000;

/// Maximum number of requirements of its packages together. A package has ten, one with many extras some hundred.
const MAX_REQUIREMENTS: usize = 100_000;

/// Reads a lockfile's text.
///
/// # Errors
/// See [`LockError`]. An edited lock is also an error, because its content is not reliable.
pub fn parse(text: &str) -> Result<Lockfile, LockError> {
    parse_with(text, true)
}

/// Reads a text that git merged, without verifying its checksum. The result is used only for the preferences of a
/// new solve.
pub(super) fn parse_unchecked(text: &str) -> Result<Lockfile, LockError> {
    parse_with(text, false)
}

fn parse_with(text: &str, checked: bool) -> Result<Lockfile, LockError> {
    // git may have changed the line ends on checkout.
    let unix = text.replace("\r\n", "\n");
    let text = unix.as_str();
    if let Some(line) = conflict_marker(text) {
        return Err(LockError::MergeConflict { line });
    }
    let malformed = |e: &toml::de::Error| {
        let line = e.span().map_or(1, |s| text[..s.start.min(text.len())].matches('\n').count() + 1);
        LockError::Malformed(format!("line {line}: {}", clean(e.message(), 120)))
    };
    if toml_values(text) > MAX_VALUES {
        return Err(LockError::Malformed(format!("it has more than {MAX_VALUES} values and lines")));
    }
    let head: RawFormat = toml::from_str(text).map_err(|e| malformed(&e))?;
    let format: semver::Version = head.format.parse().map_err(|e| {
        LockError::Malformed(format!("`{}` is not a format version: {e}", clean(&head.format, 40)))
    })?;
    let understood = FORMAT.major..=FORMAT_WITH_SOURCES.major;
    if !understood.contains(&format.major) || !format.pre.is_empty() {
        return Err(LockError::Newer {
            found: format.to_string(),
            understood: format!("{}.x and {}.x", understood.start(), understood.end()),
        });
    }
    let has_format_2 = format.major >= FORMAT_WITH_SOURCES.major;
    let stated = text.lines().find_map(|l| l.strip_prefix(CHECKSUM_KEY)).map(|v| v.trim().trim_matches('"'));
    let body = text.find(CHECKSUM_KEY).and_then(|i| text[i..].find('\n').map(|n| &text[i + n + 1..]));
    match (stated, body) {
        (Some(stated), Some(body)) if !checked || stated == checksum(body) => {}
        (Some(_), Some(_)) => return Err(LockError::Edited),
        _ => return Err(LockError::Malformed("it has no checksum".to_owned())),
    }
    let raw: RawLock = toml::from_str(text).map_err(|e| malformed(&e))?;
    if checked && raw.request.sha256 != request_digest(&raw.request.lines) {
        return Err(LockError::Edited);
    }
    if raw.target.is_empty() {
        return Err(LockError::Malformed("it has no target".to_owned()));
    }
    if raw.target.len() > MAX_TARGETS {
        return Err(LockError::Malformed(format!("it has more than {MAX_TARGETS} targets")));
    }
    if raw.package.len() + raw.conda_package.len() > MAX_PACKAGES {
        return Err(LockError::Malformed(format!("it has more than {MAX_PACKAGES} packages")));
    }
    if raw.package.iter().map(|package| package.requires.len()).sum::<usize>() > MAX_REQUIREMENTS {
        return Err(LockError::Malformed(format!(
            "its packages have more than {MAX_REQUIREMENTS} requirements"
        )));
    }
    let mut targets = raw.target.into_iter().map(target).collect::<Result<Vec<_>, _>>()?;
    let packages_in = raw.packages_in.map(package_lock).transpose()?;
    if packages_in.is_some() && targets.iter().any(|target| target.level == Level::Full) {
        return Err(LockError::Malformed("`packages-in` is set, and a target has packages".to_owned()));
    }
    for mut raw in raw.package {
        let members = members(raw.targets.take(), &targets)?;
        let package = package(raw, has_format_2)?;
        for member in members {
            if targets[member].package(&package.name).is_some() {
                let name = &package.name;
                return Err(LockError::Malformed(format!("a target has `{name}` twice")));
            }
            targets[member].packages.push(package.clone());
        }
    }
    for mut raw in raw.conda_package {
        source_rows::require_format_2(has_format_2, &raw.name)?;
        let members = members(raw.targets.take(), &targets)?;
        let package = source_rows::conda_package(raw)?;
        for member in members {
            if targets[member].conda.iter().any(|own| own.name == package.name) {
                let name = &package.name;
                return Err(LockError::Malformed(format!("a target has conda's `{name}` twice")));
            }
            targets[member].conda.push(package.clone());
        }
    }
    Ok(Lockfile {
        format,
        registry_digest: words::digest(raw.registry.sha256, 64)?,
        registry_date: words::line(raw.registry.date)?,
        packages_in,
        request: raw.request.lines.into_iter().map(words::line).collect::<Result<_, _>>()?,
        files: raw.request.files.into_iter().map(words::line).collect::<Result<_, _>>()?,
        targets,
    })
}

fn package_lock(raw: RawPackageLock) -> Result<PackageLock, LockError> {
    let owner =
        Owner::of_file(&raw.file).ok_or_else(|| words::not(&raw.file, "a lock that holds packages"))?;
    Ok(PackageLock { owner, sha256: words::digest(raw.sha256, 64)? })
}

/// The positions of the targets that a package belongs to; all if it names none.
fn members(names: Option<Vec<String>>, targets: &[Target]) -> Result<Vec<usize>, LockError> {
    let Some(names) = names else { return Ok((0..targets.len()).collect()) };
    let find = |name: &String| {
        let found = targets.iter().position(|target| target.name == *name);
        found.ok_or_else(|| LockError::Malformed(format!("`{}` is not one of its targets", clean(name, 40))))
    };
    let positions: BTreeSet<usize> = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok(positions.into_iter().collect())
}

/// What is not what its key must have.
fn wrong(what: &str, value: &str) -> LockError {
    LockError::Malformed(format!("`{}` is not a valid {what}", clean(value, 40)))
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn target(raw: RawTarget) -> Result<Target, LockError> {
    let level = match raw.level.as_str() {
        "full" => Level::Full,
        "stack" => Level::Stack,
        other => return Err(wrong("level", other)),
    };
    let frameworks = raw.framework.into_iter().map(framework).collect::<Result<Vec<_>, LockError>>()?;
    let names: BTreeSet<&str> = frameworks.iter().map(|framework| framework.package.as_str()).collect();
    if names.len() < frameworks.len() {
        return Err(LockError::Malformed("a target has a framework twice".to_owned()));
    }
    let python: Python = raw.python.parse().map_err(|_| wrong("Python version", &raw.python))?;
    Ok(Target {
        python,
        patches: Patches::of(python.minor, raw.python_patches.iter()),
        name: words::target_name(raw.name)?,
        platform: raw.platform,
        level,
        stack: raw.stack.map(stack).transpose()?,
        frameworks,
        envelope: Envelope {
            driver: raw.envelope.driver,
            glibc: raw.envelope.glibc,
            platform: raw.platform,
            coverage: raw
                .envelope
                .coverage
                .into_iter()
                .map(|c| Coverage {
                    compute_capability: c.capability,
                    via: c.via,
                    driver_min: c.driver_min,
                    driver_below: c.driver_below,
                })
                .collect(),
        },
        host: host(raw.host, raw.platform)?,
        image: raw.image,
        packages: Vec::new(),
        conda: Vec::new(),
    })
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn stack(s: RawStack) -> Result<Stack, LockError> {
    Ok(Stack {
        framework: "torch".to_owned(),
        cuda: match &s.cuda {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| wrong("CUDA version", text))?),
        },
        version: s.torch,
        variant: words::variant(s.variant)?,
        cudnn: s.cudnn,
        nccl: s.nccl,
        triton: s.triton.map(words::line).transpose()?,
        companions: s.companions,
        index: words::index(s.index)?,
        evidence: s.evidence,
        driver_mode: None,
        native_driver: s.native_driver,
        wheel_bytes: None,
    })
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn framework(x: RawFramework) -> Result<Framework, LockError> {
    Ok(Framework {
        cuda: x.cuda.parse().map_err(|_| wrong("CUDA version", &x.cuda))?,
        name: words::name(x.name)?,
        package: words::name(x.package)?,
        version: x.version,
        cudnn: x.cudnn,
        cuda_from_system: x.cuda_from_system,
        conda: x.conda.into_iter().map(words::conda_pin).collect::<Result<_, _>>()?,
        evidence: x.evidence,
        driver_mode: None,
        native_driver: x.native_driver,
    })
}

fn host(mut host: RawHost, platform: Platform) -> Result<Host, LockError> {
    for gpu in host.gpus.iter_mut().flatten() {
        gpu.name = gpu.name.take().map(words::line).transpose()?;
    }
    let libc = host
        .glibc
        .map(Libc::Glibc)
        .or_else(|| host.musl.map(Libc::Musl))
        .or_else(|| host.macos.map(Libc::Macos));
    Ok(Host {
        driver: host.driver.map(|version| Driver {
            version,
            cuda: None,
            compat: host.driver_compat,
            found_by: FoundBy::of_code(&clean(host.driver_found_by.as_deref().unwrap_or("lock"), 200)),
        }),
        gpus: host.gpus.map(|list| {
            list.into_iter()
                .enumerate()
                .map(|(i, g)| Gpu {
                    index: i as u32,
                    name: g.name,
                    capability: g.capability,
                    memory_mib: None,
                    uuid: None,
                    pci_id: None,
                    found_by: "lock".into(),
                })
                .collect()
        }),
        system: System { platform, libc, found_by: FoundBy::of_code(&clean(&host.found_by, 200)) },
        notes: Vec::new(),
    })
}

fn package(mut raw: RawPackage, has_format_2: bool) -> Result<ChosenPackage, LockError> {
    let name = words::name(raw.name.clone())?;
    let source = source_rows::source(&mut raw, has_format_2)?;
    let file = |f: RawFile| {
        Ok(ChosenFile {
            hash_computed: f.hash_from.as_deref() == Some("computed"),
            // The file of a direct reference is named as its author likes.
            name: match &source {
                Source::Index(_) => words::file_of(f.name, &name, &raw.version)?,
                _ => words::file_name(f.name)?,
            },
            sha256: f.sha256.map(|digest| words::digest(digest, 64)).transpose()?,
            size: f.size,
        })
    };
    let files =
        std::mem::take(&mut raw.files).into_iter().map(file).collect::<Result<Vec<_>, LockError>>()?;
    let build = source_rows::build(&mut raw, has_format_2)?;
    source_rows::require_build(&source, &files, build.is_some(), &name)?;
    Ok(ChosenPackage {
        source,
        build,
        groups: source_rows::groups(&mut raw, has_format_2)?,
        requires: raw.requires.into_iter().map(words::edge).collect::<Result<_, _>>()?,
        name,
        version: raw.version,
        variant: raw.variant.map(words::variant).transpose()?,
        reason: Choice::of_code(&clean(&raw.reason, 200)),
        metadata_sha256: raw.metadata.map(|digest| words::digest(digest, 64)).transpose()?,
        targets: raw
            .code
            .zip(raw.code_evidence)
            .map(|(sass, evidence)| (CodeTargets { sass, ptx: raw.code_ptx }, evidence)),
        files,
    })
}

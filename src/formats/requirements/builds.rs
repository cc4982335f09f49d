//! What is built from source: the packages that are built after the others, and the pinned build requirements.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::formats::written::BUILD_CONSTRAINTS_MARK;
use crate::formats::written::REQUIREMENTS_BUILD_MARK;
use crate::formats::written::{ExportError, in_two_steps, installable, pinned};
use crate::lockfile::Target;
use crate::model::source::BuildRequirement;

/// What the builds in the environment require and the lock does not have, as lines of a requirements file: installed
/// before the packages of `part` are built. `None` if they require no more.
pub fn build_requirements(part: &Target, whole: &Target) -> Option<String> {
    let mut lines = BTreeMap::new();
    let built_last = part.packages.iter().filter(|package| package.is_built_after_others());
    for requirement in built_last.filter_map(|package| package.build.as_ref()).flat_map(|b| &b.requires) {
        if whole.package(&requirement.name).is_none() {
            lines.insert(&requirement.name, requirement);
        }
    }
    let mut out = String::new();
    for (name, requirement) in lines {
        let _ = writeln!(out, "{name}=={} --hash=sha256:{}", requirement.version, requirement.sha256);
    }
    Some(out).filter(|out| !out.is_empty())
}

/// `requirements-build.txt`: the packages that are built in the environment. `None` if there are none.
///
/// # Errors
/// See [`ExportError`].
pub fn requirements_to_build(
    target: &Target,
    addresses: &[(String, String)],
) -> Result<Option<String>, ExportError> {
    let (_, built) = in_two_steps(&installable(target)?);
    if built.is_empty() {
        return Ok(None);
    }
    let mut needs: Vec<&str> =
        built.iter().filter_map(|p| p.build.as_ref()).flat_map(|b| &b.needs).map(String::as_str).collect();
    needs.sort_unstable();
    needs.dedup();
    let mut out = format!(
        "{}, from envlock.lock: built from source in the environment, from which the builds import {}.\n\
         # After requirements.txt is installed, with one of\n\
         #   pip install --no-build-isolation --no-deps -r requirements-build.txt\n\
         #   uv pip install --no-build-isolation --no-deps -r requirements-build.txt\n",
        REQUIREMENTS_BUILD_MARK,
        needs.join(", "),
    );
    for package in built {
        let (requirement, hashes) = pinned(package, addresses)?;
        out.push_str(&requirement);
        for hash in hashes {
            let _ = write!(out, " \\\n    --hash=sha256:{hash}");
        }
        out.push('\n');
    }
    Ok(Some(out))
}

/// `build-constraints.txt`: the versions of what builds require, for `--build-constraint` of pip and uv. The hashes are
/// comments: with them, pip refuses builds whose own requirements state no version.
/// `None` if nothing is built in isolation, or the build requirements are not locked.
///
/// A package that two builds require in different versions is left out, with a comment: constraints apply to all builds.
///
/// # Errors
/// See [`ExportError`].
pub fn build_constraints(target: &Target) -> Result<Option<String>, ExportError> {
    let mut rows: BTreeMap<&str, Vec<&BuildRequirement>> = BTreeMap::new();
    let packages = installable(target)?;
    let isolated = packages.iter().filter(|package| !package.is_built_after_others());
    let builds = isolated.filter_map(|package| package.build.as_ref());
    for requirement in builds.flat_map(|build| &build.requires) {
        let of_name = rows.entry(&requirement.name).or_default();
        if !of_name.contains(&requirement) {
            of_name.push(requirement);
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let mut out = format!(
        "{}, from envlock.lock: what the builds of its source distributions require.\n\
         #   pip install --build-constraint build-constraints.txt -r requirements.txt\n",
        BUILD_CONSTRAINTS_MARK
    );
    for (name, requirements) in rows {
        match requirements.as_slice() {
            [one] => {
                let _ = writeln!(out, "{name}=={}  # sha256:{}", one.version, one.sha256);
            }
            several => {
                let versions: Vec<String> = several.iter().map(|r| r.version.to_string()).collect();
                let _ =
                    writeln!(out, "# {name}: builds require different versions ({})", versions.join(", "));
            }
        }
    }
    Ok(Some(out))
}

//! Compares installed packages with the lock: versions, CUDA variants, METADATA, missing and extra packages.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use super::findings::WrongPython;
use super::{Area, AreaKind, findings};
use crate::lockfile::Target;
use crate::model::finding::Finding;
use crate::model::installed::{Distribution, Installed, InstalledVersion};
use crate::model::level::Level;
use crate::model::solution::{ChosenFile, ChosenPackage};
use crate::model::wheel::WheelName;

/// Packages that are preinstalled in environments, so they are not reported as extra.
pub const PREINSTALLED_PACKAGES: [&str; 4] = ["pip", "setuptools", "wheel", "uv"];

pub(super) fn check(target: &Target, installed: &Installed) -> Area {
    let mut found = Vec::new();
    if let Some(python) = installed.python
        && python.minor != target.python.minor
    {
        found.push(findings::wrong_python(WrongPython::Lock { installed: python, locked: target.python }));
    }
    if target.level == Level::Stack {
        found.push(findings::stack_only_lock());
    }
    let mut by_name: BTreeMap<&str, Vec<&Distribution>> = BTreeMap::new();
    for distribution in &installed.distributions {
        by_name.entry(&distribution.name).or_default().push(distribution);
    }
    found.extend(duplicates(installed));
    let mut as_locked = 0;
    for package in &target.packages {
        let name = package.name.as_str();
        let Some(own) = by_name.get(name).and_then(|l| l.first()) else {
            match installed.visible.iter().find(|visible| visible.name == name) {
                Some(visible) if same_version(&package.version, &visible.version) => as_locked += 1,
                Some(visible) => {
                    found.push(findings::wrong_version(name, &visible.version, &package.version, installed));
                }
                None => found.push(findings::missing_package(name, &package.version, installed)),
            }
            continue;
        };
        let before = found.len();
        if !same_version(&package.version, &own.version) {
            found.push(findings::wrong_version(name, &own.version, &package.version, installed));
        } else if let (Some(expected), Some(digest)) = (&package.metadata_sha256, &own.metadata_sha256)
            && expected != digest
            // What a build writes is not known before it is run.
            && package.build.is_none()
            && !is_of_another_file(package, own)
        {
            found.push(findings::wrong_metadata(name, &own.version));
        }
        if let (Some(locked), Some(variant)) = (&package.variant, &own.variant)
            && locked != variant
        {
            found.push(findings::wrong_variant(name, variant, locked, installed));
        }
        if found.len() == before {
            as_locked += 1;
        }
    }
    for name in by_name.keys() {
        if target.package(name).is_none()
            && !PREINSTALLED_PACKAGES.contains(name)
            && target.level == Level::Full
        {
            found.push(findings::extra_package(name));
        }
    }
    let summary = format!("{as_locked} of {} as locked", target.packages.len());
    let as_locked = Some((as_locked, target.packages.len()));
    Area { kind: AreaKind::Packages, findings: found, summary, as_locked }
}

/// Packages that are installed more than once: Python reads the metadata of whichever it finds first.
pub(super) fn duplicates(installed: &Installed) -> Vec<Finding> {
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for distribution in &installed.distributions {
        by_name.entry(&distribution.name).or_default().push(distribution.version.to_string());
    }
    let several = by_name.into_iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, versions)| findings::duplicate_package(name, &versions)).collect()
}

/// Whether the installed wheel is another locked file of the package than the one whose METADATA is locked: a release can
/// have wheels with different METADATA.
fn is_of_another_file(package: &ChosenPackage, installed: &Distribution) -> bool {
    let tags_of = |file: &ChosenFile| -> BTreeSet<String> {
        let Ok(wheel) = file.name.parse::<WheelName>() else { return BTreeSet::new() };
        wheel.tags().collect()
    };
    let tags: BTreeSet<String> = installed.tags.iter().cloned().collect();
    let mut files = package.files.iter().map(tags_of);
    let is_chosen = files.next().is_some_and(|chosen| chosen == tags);
    !is_chosen && files.any(|other| other == tags)
}

/// Number of packages of a target that are installed with the locked version and variant; a matching Python counts as
/// one.
pub(super) fn count_as_locked(target: &Target, installed: &Installed) -> usize {
    let found: BTreeMap<&str, &Distribution> =
        installed.distributions.iter().map(|d| (d.name.as_str(), d)).collect();
    let packages = target.packages.iter().filter(|package| {
        found.get(package.name.as_str()).is_some_and(|d| {
            same_version(&package.version, &d.version)
                && (package.variant.is_none() || d.variant.is_none() || package.variant == d.variant)
        })
    });
    packages.count() + usize::from(installed.python.is_some_and(|p| p.minor == target.python.minor))
}

/// PEP 440 equality; local versions are compared only if the lock has one.
fn same_version(locked: &Version, installed: &InstalledVersion) -> bool {
    installed.valid().is_some_and(|installed| {
        locked == installed || (!locked.is_local() && *locked == installed.clone().without_local())
    })
}

#[cfg(test)]
mod tests {
    use super::same_version;

    #[test]
    fn a_local_version_counts_only_where_the_lock_has_one() {
        for (locked, installed, same) in [
            ("2.9.1", "2.9.1", true),
            ("2.9.1", "2.9.1+cu128", true),
            ("2.9.1+cu126", "2.9.1", false),
            ("1.0", "1.0.0", true),
            ("1.0", "1.1", false),
            ("1.0", "not a version", false),
        ] {
            assert_eq!(
                same_version(&locked.parse().unwrap(), &installed.into()),
                same,
                "{locked} {installed}"
            );
        }
    }
}

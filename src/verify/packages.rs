//! Compares installed packages with the lock: versions, CUDA variants, METADATA, missing and extra packages.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{OtherFile, Unreadable, WrongPython};
use super::{Area, AreaKind, findings};
use crate::lockfile::{Difference, PREINSTALLED_PACKAGES, Target, differences, same_version};
use crate::model::finding::Finding;
use crate::model::installed::{Distribution, Installed};
use crate::model::level::Level;
use crate::model::part::Part;
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::clean;

pub(super) fn check(target: &Target, installed: &Installed) -> Area {
    let mut found = Vec::new();
    let locked = target.wanted_python();
    if let Some(python) = installed.python.map(|_| installed.marker_python())
        && !locked.allows(python)
    {
        found.push(findings::wrong_python(WrongPython::Lock { installed: python, locked }));
    }
    if target.level == Level::Stack {
        found.push(findings::stack_only_lock());
    }
    let mut by_name: BTreeMap<&str, Vec<&Distribution>> = BTreeMap::new();
    for distribution in &installed.distributions {
        by_name.entry(&distribution.name).or_default().push(distribution);
    }
    found.extend(duplicates(installed));
    let (mut as_locked, mut expected) = (0, target.packages.len());
    for package in &target.packages {
        let name = package.name.as_str();
        let Some(own) = by_name.get(name).and_then(|l| l.first()) else {
            let egg = installed.eggs.iter().find(|egg| egg.name == name);
            if let Some(egg) = egg.filter(|egg| same_version(&package.version, &egg.version)) {
                match egg.egg_link() {
                    // A folder that is locked is installed to be developed.
                    Some(_) if matches!(package.source, Source::Path(_)) => as_locked += 1,
                    Some(link) => {
                        let by = OtherFile::Linked(egg, link, installed);
                        found.push(findings::wrong_metadata(name, &egg.version, &by));
                    }
                    None => found.push(findings::unreadable_record(&Unreadable::Egg(egg, installed))),
                }
                continue;
            }
            match installed.visible.iter().find(|visible| visible.name == name) {
                Some(visible) if same_version(&package.version, &visible.version) => as_locked += 1,
                Some(visible) => {
                    found.push(findings::wrong_version(name, &visible.version, &package.version, installed));
                }
                // Of an extra or group that is not installed.
                None if !package.groups.is_empty() => expected -= 1,
                None => found.push(findings::missing_package(name, &package.version, installed)),
            }
            continue;
        };
        let differences = differences(package, own);
        if differences.is_empty() {
            as_locked += 1;
        }
        found.extend(differences.into_iter().map(|difference| match difference {
            Difference::Version => findings::wrong_version(name, &own.version, &package.version, installed),
            Difference::Commit { installed: own, locked } => {
                let short = |commit: &str| format!("commit {}", clean(commit, 12));
                findings::wrong_version(name, short(&own), short(&locked), installed)
            }
            Difference::Metadata => {
                findings::wrong_metadata(name, &own.version, &OtherFile::Differs("its METADATA differs"))
            }
            Difference::File => {
                let how = OtherFile::Differs("`direct_url.json` has the hash of another one");
                findings::wrong_metadata(name, &own.version, &how)
            }
            Difference::Variant(own, locked) => findings::wrong_variant(name, &own, &locked, installed),
        }));
    }
    let of_builds = target.brought_by_builds();
    let is_extra = |name: &str| {
        target.package(name).is_none()
            && !PREINSTALLED_PACKAGES.contains(&name)
            && !of_builds.contains(name)
            && installed.own_package.as_deref() != Some(name)
            && !installed.conda.locked.contains(name)
            && target.level == Level::Full
    };
    found
        .extend(by_name.keys().filter(|name| is_extra(name)).map(|name| findings::extra_package(name, None)));
    let eggs = installed.eggs.iter().filter(|egg| !by_name.contains_key(egg.name.as_str()));
    found.extend(
        eggs.filter(|egg| is_extra(&egg.name))
            .map(|egg| findings::extra_package(&egg.name, Some((egg, installed)))),
    );
    let summary = format!("{as_locked} of {expected} as locked");
    let as_locked = Some((as_locked, expected));
    Area { kind: AreaKind::Packages, findings: found, summary, as_locked }
}

/// Packages that are installed more than once: Python reads the metadata of whichever it finds first.
pub(super) fn duplicates(installed: &Installed) -> Vec<Finding> {
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for distribution in &installed.distributions {
        by_name.entry(&distribution.name).or_default().push(distribution.version.to_string());
    }
    for egg in &installed.eggs {
        by_name.entry(&egg.name).or_default().push(egg.version.to_string());
    }
    let several = by_name.into_iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, versions)| findings::duplicate_package(name, &versions)).collect()
}

/// The extras and groups that an environment has beside what was asked for, so that none of their packages is removed: of a
/// package of several the first, where none of them is there anyway. Its version may be that of an earlier lock.
pub fn installed_parts(target: &Target, installed: &Installed) -> BTreeSet<Part> {
    let is_installed =
        |package: &&ChosenPackage| installed.distributions.iter().any(|own| own.name == package.name);
    let mut of_parts: Vec<&ChosenPackage> =
        target.packages.iter().filter(|package| !package.groups.is_empty()).filter(is_installed).collect();
    of_parts.sort_by_key(|package| package.groups.len());
    let mut out: BTreeSet<Part> = BTreeSet::new();
    for package in of_parts {
        if !package.groups.iter().any(|part| out.contains(part)) {
            out.extend(package.groups.first().cloned());
        }
    }
    out
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

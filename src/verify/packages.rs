//! Compares installed packages with the lock: versions, CUDA variants, METADATA, missing and extra packages.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Contents, Facts, Need};
use super::findings::{NotJudged, OtherFile, Unreadable, WrongPlatform, WrongPython};
use super::locked::{CondaPin, Locked, WrittenBy};
use super::{Area, AreaKind, findings};
use crate::lockfile::{Difference, Lockfile, PREINSTALLED_PACKAGES, Target, differences, same_version};
use crate::model::finding::Finding;
use crate::model::installed::{Distribution, Installed, Visible};
use crate::model::level::Level;
use crate::model::part::Part;
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::clean;

/// Compares what is installed with what is locked.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let (locked, contents) = (facts.packages?, facts.contents?);
    let (target, installed) = (&*locked.target, contents.installed);
    let mut found = Vec::new();
    // Where another tool locks the packages, for each of its Pythons, envlock's lock is for one of them.
    let of_envlock = facts.lock.and_then(|lock| lock.python).filter(|_| locked.conda.is_empty());
    let wanted = [Some(target.wanted_python()), of_envlock];
    if let Some(python) = installed.python.map(|_| installed.marker_python())
        && let Some(wanted) = wanted.into_iter().flatten().find(|wanted| !wanted.allows(python))
    {
        found.push(findings::wrong_python(WrongPython::Lock { installed: python, locked: wanted }));
    }
    if target.level == Level::Stack {
        found.push(findings::stack_only_lock());
    }
    found.extend(duplicates(installed));
    let mut counts = of_python(locked, installed, &mut found);
    found.extend(extra(facts, locked, installed));
    let pins = locked.conda_pins();
    if !pins.is_empty() {
        let (as_locked, all) = of_conda(&pins, facts, contents, &mut found);
        counts = (counts.0 + as_locked, counts.1 + all);
    }
    let refused = locked.excluded.iter().map(|text| WrongPlatform::NoFile(text.clone()));
    found.extend(refused.map(findings::wrong_platform));
    let summary = match counts.0 == counts.1 {
        true => format!("{} as locked", counts.1),
        false => format!("{} of {} as locked", counts.0, counts.1),
    };
    Some(Area { findings: found, summary, as_locked: Some(counts), ..Area::of(AreaKind::Packages) })
}

/// What is there of a locked package.
enum There<'i> {
    /// It is installed in the environment.
    Installed(&'i Distribution),
    /// It has an `.egg-info` or an `.egg-link` of the locked version.
    Egg(&'i Visible),
    /// Python finds it in another folder.
    Visible(&'i Visible),
    /// It belongs to an extra or group that is not installed.
    OfOtherPart,
    /// It is missing.
    Nowhere,
}

impl<'i> There<'i> {
    fn of(package: &ChosenPackage, installed: &'i Installed) -> There<'i> {
        let name = package.name.as_str();
        if let Some(own) = installed.distributions.iter().find(|own| own.name == name) {
            return There::Installed(own);
        }
        let is_same = |egg: &&Visible| egg.name == name && same_version(&package.version, &egg.version);
        if let Some(egg) = installed.eggs.iter().find(is_same) {
            return There::Egg(egg);
        }
        match installed.visible.iter().find(|visible| visible.name == name) {
            Some(visible) => There::Visible(visible),
            None if !package.groups.is_empty() => There::OfOtherPart,
            None => There::Nowhere,
        }
    }
}

/// The first locked package that is missing: a library that is not found may be its.
pub(super) fn first_missing(facts: &Facts<'_>) -> Option<Finding> {
    let (locked, contents) = (facts.packages?, facts.contents?);
    let installed = contents.installed;
    let is_missing = |package: &&ChosenPackage| {
        matches!(There::of(package, installed), There::Nowhere) && !is_project(locked, package)
    };
    if let Some(package) = locked.target.packages.iter().find(is_missing) {
        return Some(findings::missing_package(&package.name, &package.version, installed));
    }
    let is_here = |pin: &CondaPin<'_>| contents.traces.conda.iter().any(|own| own.name == pin.name);
    let pin = locked.conda_pins().into_iter().find(|pin| !is_here(pin))?;
    Some(findings::missing_package(pin.name, pin.version, installed))
}

/// Whether a package is the project whose lock another tool wrote.
fn is_project(locked: &Locked<'_>, package: &ChosenPackage) -> bool {
    let is_here = matches!(&package.source, Source::Path(folder) if folder.is_empty() || folder == ".");
    locked.by == WrittenBy::OtherTool && is_here
}

/// Compares the packages of Python. Returns the number of packages as locked, and of all.
fn of_python(locked: &Locked<'_>, installed: &Installed, found: &mut Vec<Finding>) -> (usize, usize) {
    let target = &locked.target;
    let (mut as_locked, mut expected) = (0, target.packages.len());
    for package in &target.packages {
        let name = package.name.as_str();
        let own = match There::of(package, installed) {
            There::Installed(own) => own,
            There::Egg(egg) => {
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
            There::Visible(visible) if same_version(&package.version, &visible.version) => {
                as_locked += 1;
                continue;
            }
            There::Visible(visible) => {
                found.push(findings::wrong_version(name, &visible.version, &package.version, installed));
                continue;
            }
            There::OfOtherPart => {
                expected -= 1;
                continue;
            }
            // The project itself may be left out: `uv sync --no-install-project`.
            There::Nowhere if is_project(locked, package) => {
                expected -= 1;
                continue;
            }
            There::Nowhere => {
                found.push(findings::missing_package(name, &package.version, installed));
                continue;
            }
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
    // The versions of these are not in the lock; that they are there is.
    let is_here = |name: &str| installed.distributions.iter().any(|own| own.name == name);
    for name in &locked.unversioned {
        expected += 1;
        match is_here(name) || installed.own_package.as_ref() == Some(name) {
            true => as_locked += 1,
            false => found.push(findings::missing_package(name, "", installed)),
        }
    }
    let unnamed = locked.unnamed.iter().map(|line| {
        NotJudged::Locked(format!("`{line}` names no package: whether it is installed was not checked"))
    });
    found.extend(unnamed.map(|what| findings::not_judged(what, false)));
    (as_locked, expected)
}

/// Packages that are installed and not locked.
fn extra(facts: &Facts<'_>, locked: &Locked<'_>, installed: &Installed) -> Vec<Finding> {
    let target = &locked.target;
    if target.level != Level::Full {
        return Vec::new();
    }
    let of_builds = target.brought_by_builds();
    // conda's own records say what it installed of Python's packages too.
    let has_conda = locked.by == WrittenBy::OtherTool || !target.conda.is_empty();
    let is_of_conda = |name: &str| {
        let mut own = installed.distributions.iter().filter(|own| own.name == name);
        has_conda && own.any(|own| own.installer.as_deref() == Some("conda"))
    };
    let is_extra = |name: &str| {
        target.package(name).is_none()
            && !PREINSTALLED_PACKAGES.contains(&name)
            && !of_builds.contains(name)
            && installed.own_package.as_deref() != Some(name)
            && !installed.conda.locked.contains(name)
            && !facts.lock.is_some_and(|lock| lock.mentions.contains(name))
            && !is_of_conda(name)
    };
    let names: BTreeSet<&str> = installed.distributions.iter().map(|own| own.name.as_str()).collect();
    let eggs = installed.eggs.iter().filter(|egg| !names.contains(egg.name.as_str()));
    let exact = facts.demands.exact;
    let own = names.iter().filter(|name| is_extra(name));
    let own = own.map(|name| findings::extra_package(name, None, exact));
    own.chain(
        eggs.filter(|egg| is_extra(&egg.name))
            .map(|egg| findings::extra_package(&egg.name, Some((egg, installed)), exact)),
    )
    .collect()
}

/// Compares conda's records with the locked ones, by name, version and build. Returns the number of packages as locked, and
/// of all.
fn of_conda(
    locked: &[CondaPin<'_>],
    facts: &Facts<'_>,
    contents: Contents<'_>,
    found: &mut Vec<Finding>,
) -> (usize, usize) {
    let Contents { installed, traces, .. } = contents;
    let mut as_locked = 0;
    for one in locked {
        let CondaPin { name, version, build } = one;
        let Some(own) = traces.conda.iter().find(|own| own.name == *name) else {
            found.push(findings::missing_package(name, version, installed));
            continue;
        };
        let whole = |version: &str, build: &str| clean(format!("{version} {build}").trim(), 80);
        match one.is(own) {
            true => as_locked += 1,
            false => {
                let (own, locked) = (whole(&own.version, &own.build), whole(version, build));
                found.push(findings::wrong_version(name, own, locked, installed));
            }
        }
    }
    let is_mentioned = |name: &str| facts.lock.is_some_and(|lock| lock.mentions.contains(name));
    for own in &traces.conda {
        if !locked.iter().any(|one| one.name == own.name) && !is_mentioned(&own.name) {
            found.push(findings::extra_package(&own.name, None, facts.demands.exact));
        }
    }
    (as_locked, locked.len())
}

/// That the lock is not that of the manifest.
pub(super) fn stale(facts: &Facts<'_>) -> Option<Area> {
    let first = facts.lock?.stale.as_ref().filter(|_| facts.has(Need::Contents))?;
    Some(Area { findings: vec![findings::stale_lock(first, None, false)], ..Area::of(AreaKind::Packages) })
}

/// That the lock of the tool that holds the packages is another one than the stack was chosen for.
pub(super) fn changed(facts: &Facts<'_>) -> Option<Area> {
    let (owner, other) = facts.lock?.changed.as_ref()?;
    let finding = findings::package_lock_changed(*owner, other.as_ref());
    Some(Area { findings: vec![finding], ..Area::of(AreaKind::Packages) })
}

/// Where packages that lie outside the environment are imported from.
pub(super) fn outside(facts: &Facts<'_>) -> Option<Area> {
    let outside = facts.contents?.outside;
    (!outside.is_empty()).then(|| Area { summary: outside.join("; "), ..Area::of(AreaKind::Packages) })
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
fn count_as_locked(target: &Target, installed: &Installed) -> usize {
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

/// The targets that a machine is held against where none is named. Where a GPU is required, those for machines without one
/// are left out, if the lock has others.
pub fn candidates(lock: &Lockfile, require_gpu: bool) -> Vec<&Target> {
    let is_for_gpus = |target: &&Target| !target.host.has_no_gpu();
    match require_gpu && lock.targets.iter().any(|target| is_for_gpus(&target)) {
        true => lock.targets.iter().filter(is_for_gpus).collect(),
        false => lock.targets.iter().collect(),
    }
}

/// The target that an environment was most likely installed from: the first one with the most matching packages.
pub fn installed_target<'l>(
    lock: &'l Lockfile,
    installed: &Installed,
    require_gpu: bool,
) -> Option<&'l Target> {
    // `max_by_key` returns the last maximum, hence `rev`.
    candidates(lock, require_gpu).into_iter().rev().max_by_key(|target| count_as_locked(target, installed))
}

/// Whether an environment has any package of a target as it is locked.
pub fn has_packages_of(target: &Target, installed: &Installed) -> bool {
    count_as_locked(target, installed) > 0
}

//! Requested packages that are far behind the newest release that the request allows, and who keeps them there.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use pep440_rs::Version;
use pep508_rs::VersionOrUrl;

use super::closure::Unusable;
use super::problem::{Candidate, Problem};
use super::tables::Set;
use crate::model::request::UserRequirement;
use crate::model::requirement::parse_requirement;
use crate::model::solution::{ChosenPackage, Note};
use crate::model::version::{minor_line, public};
use crate::registry::{AbiBreak, Advisory, COMPANIONS, Cited};

/// A step back of so many minor lines (x.y) is told. One of a major version always is.
const MANY_LINES: usize = 10;
/// From here on, the first number of a version is a year.
const FIRST_YEAR: u64 = 1990;

/// One note for each requested package that is far behind. What the old lock holds is not looked at: the user kept it.
pub(super) fn notes(problem: &Problem<'_>, packages: &[ChosenPackage]) -> Vec<Note> {
    let mut told: BTreeSet<&str> = BTreeSet::new();
    let mut notes = Vec::new();
    for user in problem.user_requirements() {
        let name = user.name();
        let is_kept = problem.asked.preferences.versions.contains_key(name);
        let Some(package) = packages.iter().find(|package| package.name == name) else { continue };
        // An override is the user's own word, against what packages require.
        let is_overridden = |other: &UserRequirement| other.requirement.name == user.requirement.name;
        let is_set = is_kept || problem.asked.request.overrides.iter().any(is_overridden);
        if is_set || problem.universe.direct(name).is_some() || !told.insert(name) {
            continue;
        }
        let newer = newer(problem, name, &public(&package.version));
        let Some(newest) = newer.iter().max() else { continue };
        let Some(distance) = distance(&package.version, newest, &newer) else { continue };
        // A companion without a bound follows torch, not the other way round.
        let is_bound = |package: &ChosenPackage| {
            let mut users = problem.user_requirements();
            users.any(|user| {
                user.name() == package.name && user.specifiers().is_some_and(|bounds| !bounds.is_empty())
            })
        };
        let follows = |package: &&ChosenPackage| {
            name == "torch" && COMPANIONS.contains(&package.name.as_str()) && !is_bound(package)
        };
        let others: Vec<ChosenPackage> =
            packages.iter().filter(|package| !follows(package)).cloned().collect();
        let cause = cause(problem, &others, name, newest, &newer);
        let (own, newest) = (dated(problem, name, &package.version), dated(problem, name, newest));
        let text = format!("{name} {own} is {distance} behind {newest}: {cause}");
        notes.push(Note { text, source: None });
    }
    notes
}

/// The final releases newer than the chosen one that the request allows and some allowed Python could have.
fn newer(problem: &Problem<'_>, name: &str, chosen: &Version) -> Vec<Version> {
    let asked = problem.user_requirements().filter(|user| user.name() == name);
    let sets: Result<Vec<Set>, _> = asked.map(|user| problem.matching(name, user.specifiers())).collect();
    let Ok(sets) = sets else { return Vec::new() };
    let admitted = sets.iter().fold(Set::full(), |all, set| all.intersection(set));
    let is_newer = |version: &Version| {
        version > chosen
            && !version.any_prerelease()
            && problem.bound(name, version).is_none_or(|set| !set.is_empty())
    };
    if let Some(table) = problem.stack.get(name) {
        let versions = table.versions.iter().enumerate();
        let admitted = versions.filter(|(i, _)| admitted.contains(&(*i as u32)));
        return admitted.map(|(_, version)| version).filter(|v| is_newer(v)).cloned().collect();
    }
    let candidates = problem.candidates(name).unwrap_or_default();
    let is_candidate = |(i, candidate): &(usize, &Candidate<'_>)| {
        admitted.contains(&(*i as u32))
            && is_newer(&candidate.release.version)
            && problem.pythons.allowed.iter().any(|python| problem.has_usable(candidate, *python))
    };
    let newer = candidates.iter().enumerate().filter(is_candidate);
    newer.map(|(_, candidate)| candidate.release.version.clone()).collect()
}

/// A version and the day on which it was uploaded, if its index states it: `0.2.2 (2023-11-19)`.
fn dated(problem: &Problem<'_>, name: &str, version: &Version) -> String {
    let shown = public(version);
    let candidates = match problem.stack.contains_key(name) {
        true => Rc::default(),
        false => problem.candidates(name).unwrap_or_default(),
    };
    let release = candidates.iter().find(|candidate| candidate.release.version == *version);
    match release.and_then(|candidate| candidate.page.first_upload(candidate.release)) {
        Some(time) => format!("{shown} ({})", time.day()),
        None => shown.to_string(),
    }
}

/// How far a version is behind, if that is worth a word: `a major version`, `12 minor lines`.
fn distance(chosen: &Version, newest: &Version, newer: &[Version]) -> Option<String> {
    let major = |version: &Version| version.release().first().copied().unwrap_or(0);
    // Of a project that counts in the last part alone, each release is a line of its own: 0.0.3, 0.0.35.
    let is_early = newest.release().iter().take(2).all(|part| *part == 0);
    let line = |version: &Version| match is_early {
        true => version.release().iter().take(3).copied().collect(),
        false => minor_line(version),
    };
    let own = line(chosen);
    let lines: BTreeSet<Vec<u64>> = newer.iter().map(line).filter(|line| *line != own).collect();
    let is_dated = major(chosen) >= FIRST_YEAR;
    match major(newest).saturating_sub(major(chosen)) {
        1 if !is_dated => Some("a major version".to_owned()),
        // From a number to a year is one step.
        n if n > 1 && !is_dated && major(newest) >= FIRST_YEAR => Some("a major version".to_owned()),
        n if n > 1 && !is_dated => Some(format!("{n} major versions")),
        _ if lines.len() >= MANY_LINES => Some(format!("{} minor lines", lines.len())),
        _ => None,
    }
}

/// What excludes the newest release, as far as the answer shows it; else the command that tells. `newer`: the releases that
/// are newer than the chosen one.
fn cause(
    problem: &Problem<'_>,
    packages: &[ChosenPackage],
    name: &str,
    newest: &Version,
    newer: &[Version],
) -> String {
    // Of what metadata and advisories exclude, the tightest bound is named: without it, the next one may be hardly above.
    let by_metadata = tightest(packages, name, newest, newer);
    let of_row = |row: &&Cited<Advisory>| {
        let rows = packages.iter().filter(|package| package.name == row.package);
        let count = |package: &ChosenPackage| {
            newer.iter().filter(|newer| row.excludes(&package.version, name, newer)).count()
        };
        let excludes = rows.filter(|package| row.excludes(&package.version, name, newest));
        Some((excludes.map(count).max()?, row.text.clone()))
    };
    let rows = problem.advisories.iter().filter_map(|row| of_row(&&**row));
    let by_advisory = rows.max_by_key(|(count, _)| *count);
    match (by_metadata, by_advisory) {
        (Some((count, _)), Some((other, text))) if other > count => return text,
        (Some((_, text)), _) | (None, Some((_, text))) => return text,
        (None, None) => {}
    }
    let is_new = |row: &&Cited<AbiBreak>| row.package == name && *newest >= row.from;
    if let Some(row) = problem.registry.abi_breaks().iter().find(is_new)
        && let Some(older) = problem.older_than(packages, row).first()
    {
        let version = public(&older.version);
        return format!("{} {version} was built before {name} {} existed", older.name, row.from);
    }
    let ask = |version: &Version| format!("see `envlock why --not '{name}=={version}'`");
    if problem.stack.contains_key(name) {
        return ask(newest);
    }
    let python = problem.pythons.series[0];
    let candidates = problem.candidates(name).unwrap_or_default();
    let of = |version: &Version| candidates.iter().rfind(|candidate| candidate.release.version == *version);
    let is_here =
        |version: &&Version| of(version).is_some_and(|candidate| problem.has_usable(candidate, python));
    match newer.iter().filter(is_here).max() {
        None => format!("it has no file for Python {python}"),
        // The newest that this Python could have decides, not one for another Python.
        Some(here) => {
            let unknown = of(here).and_then(|candidate| match problem.metadata_of(candidate, name) {
                Ok(Err(Unusable::UnknownMetadata(why) | Unusable::UnknownHere(why))) => Some(why),
                _ => None,
            });
            match unknown {
                Some(why) => format!(
                    "the requirements of {here} are not known ({why}): state them with `[[metadata]]`"
                ),
                None => excluded_by(packages, name, here, newer)
                    .or_else(|| problem.excludes_by_extra(of(here)?, name, packages))
                    .unwrap_or_else(|| ask(here)),
            }
        }
    }
}

/// The packages of the answer whose requirements exclude a release. The one that excludes the most of the `newer` ones is
/// named: without it, the next bound may be hardly above the chosen release.
fn excluded_by(
    packages: &[ChosenPackage],
    name: &str,
    version: &Version,
    newer: &[Version],
) -> Option<String> {
    tightest(packages, name, version, newer).map(|(_, text)| text)
}

/// The same, with the number of newer releases that it excludes.
fn tightest(
    packages: &[ChosenPackage],
    name: &str,
    version: &Version,
    newer: &[Version],
) -> Option<(usize, String)> {
    let bound = |requirement: &str| match parse_requirement(requirement).ok()?.version_or_url? {
        VersionOrUrl::VersionSpecifier(specifiers) => (!specifiers.contains(version)).then_some(specifiers),
        VersionOrUrl::Url(_) => None,
    };
    let of_package = |package: &ChosenPackage| {
        let of_it = package.requires.iter().filter(|edge| edge.to == name);
        let specifiers = of_it.filter_map(|edge| bound(&edge.requirement)).next()?;
        let excluded = newer.iter().filter(|newer| !specifiers.contains(newer)).count();
        Some((excluded, format!("{} {} requires `{name}{specifiers}`", package.name, package.version)))
    };
    let mut excluding: Vec<(usize, String)> = packages.iter().filter_map(of_package).collect();
    // Stable: of equal ones the first is named.
    excluding.sort_by_key(|(excluded, _)| Reverse(*excluded));
    let count = excluding.len();
    let (excluded, tightest) = excluding.into_iter().next()?;
    let text = match count {
        1 => tightest,
        2 => format!("{tightest}; 1 more package excludes it"),
        n => format!("{tightest}; {} more packages exclude it", n - 1),
    };
    Some((excluded, text))
}

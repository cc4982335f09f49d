//! The requested packages: their releases, what the newest require, how far an answer is behind it.

use std::collections::BTreeSet;
use std::rc::Rc;

use pep440_rs::Version;

use super::newest::best_on_any;
use super::problem::{Candidate, Problem};
use super::tables::Set;
use crate::model::solution::{Need, Solution};
use crate::model::version::{minor_line, public};

/// A requested package.
pub(super) struct Asked<'p> {
    pub name: String,
    /// The releases that the request allows and that some Python could have, newest first.
    releases: Releases<'p>,
    /// The packages that its newest release requires, or of which the registry knows that it refuses releases.
    pub requires: Vec<String>,
}

enum Releases<'p> {
    /// The versions, and the number of each in the tables.
    OfStack(Vec<(u32, Version)>),
    /// The admitted candidates. Whether some Python could have one is looked up when it is needed: most are years old.
    OfPage { problem: &'p Problem<'p>, candidates: Rc<[Candidate<'p>]>, newest_first: Vec<u32> },
}

impl Asked<'_> {
    /// Its releases, newest first.
    pub fn versions(&self) -> Box<dyn Iterator<Item = &Version> + '_> {
        match &self.releases {
            Releases::OfStack(versions) => Box::new(versions.iter().map(|(_, version)| version)),
            Releases::OfPage { problem, candidates, newest_first } => {
                let admitted = newest_first.iter().map(|i| &candidates[*i as usize]);
                let usable = admitted
                    .filter(|c| problem.pythons.series.iter().any(|python| problem.has_usable(c, *python)));
                Box::new(usable.map(|candidate| &candidate.release.version))
            }
        }
    }

    /// Its releases newer than a public version, as candidates; `None` if there are none.
    pub fn newer_than(&self, chosen: &Version) -> Option<Set> {
        let numbers: Vec<u32> = match &self.releases {
            Releases::OfStack(versions) => {
                versions.iter().take_while(|(_, version)| version > chosen).map(|(i, _)| *i).collect()
            }
            Releases::OfPage { problem, candidates, newest_first } => {
                let newer = newest_first
                    .iter()
                    .take_while(|i| public(&candidates[**i as usize].release.version) > *chosen);
                let is_usable = |i: &&u32| {
                    let candidate = &candidates[**i as usize];
                    problem.pythons.series.iter().any(|python| problem.has_usable(candidate, *python))
                };
                newer.filter(is_usable).copied().collect()
            }
        };
        // They are in order, the newest first.
        let set: Set = numbers.into_iter().rev().collect();
        (!set.is_empty()).then_some(set)
    }
}

/// The requested packages and their releases; the needs if a page or its metadata must be fetched first.
pub(super) fn asked<'p>(problem: &'p Problem<'p>) -> Result<Vec<Asked<'p>>, Vec<Need>> {
    let mut out: Vec<Asked<'p>> = Vec::new();
    for user in problem.user_requirements() {
        let name = user.name().to_owned();
        if out.iter().any(|one| one.name == name) || problem.universe.direct(&name).is_some() {
            continue;
        }
        let (mut releases, mut requires) = (Releases::OfStack(Vec::new()), Vec::new());
        let admitted = problem.matching(&name, user.specifiers());
        if let (Some(table), Ok(set)) = (problem.stack.get(name.as_str()), &admitted) {
            let is_possible = |i: u32| table.builds_of(i).iter().any(|build| problem.machine_allows(build));
            let ordinals = (0..table.versions.len() as u32).rev().filter(|i| set.contains(i));
            let possible = ordinals.filter(|i| name != "torch" || is_possible(*i));
            releases = Releases::OfStack(possible.map(|i| (i, table.versions[i as usize].clone())).collect());
        } else if let (Ok(candidates), Ok(set)) = (problem.candidates(&name), &admitted) {
            let best = best_on_any(problem, &name, &candidates, set, &problem.pythons.series).ok().flatten();
            let metadata = best.map(|i| problem.metadata_of(&candidates[i as usize], &name));
            let newest_first = (0..best.map_or(0, |i| i + 1)).rev().filter(|i| set.contains(i)).collect();
            releases = Releases::OfPage { problem, candidates: candidates.clone(), newest_first };
            if let Some(Ok(Ok(metadata))) = metadata {
                let environment = problem.pythons.environments.last();
                let lines = environment.into_iter().flat_map(|e| metadata.requirements(e, &[])).flatten();
                requires.extend(lines.map(|(requirement, _)| requirement.name.to_string()));
            }
            // What the registry knows to be refused is a requirement too.
            let newest = best.map(|i| &candidates[i as usize].release.version);
            let rows = problem.advisories.iter().filter(|row| row.package == name);
            let rows = rows.filter(|row| newest.is_some_and(|version| row.versions.contains(version)));
            requires.extend(rows.filter_map(|row| Some(row.effect.requirement()?.name.to_string())));
        }
        out.push(Asked { name, releases, requires });
    }
    let needs: Vec<Need> = problem.memo.needs.take().into_iter().collect();
    if needs.is_empty() { Ok(out) } else { Err(needs) }
}

/// The version of a package in a solution.
pub(super) fn version_of<'s>(solution: &'s Solution, name: &str) -> Option<&'s Version> {
    solution.packages.iter().find(|package| package.name == name).map(|package| &package.version)
}

/// The minor lines in which a package has newer releases than the chosen one, its own included.
pub(super) fn steps_back(one: &Asked<'_>, solution: &Solution) -> usize {
    let Some(chosen) = version_of(solution, &one.name).map(public) else { return 0 };
    let newer = one.versions().take_while(|version| public(version) > chosen);
    newer.map(minor_line).collect::<BTreeSet<_>>().len()
}

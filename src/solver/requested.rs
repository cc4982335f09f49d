//! Several requested packages: none is sacrificed for another.
//!
//! The ranked solve decides torch first, and lets the other requested packages step back: `torch vllm` would give the
//! newest torch and a vllm of years ago, which had no upper bound yet. So a package whose newest release needs an older
//! release of another requested one is decided before that one, the newest that is still possible. Where all packages
//! but the stack can be the newest, those that do not depend on the stack step back only if their largest step, counted
//! in minor lines (x.y), is not larger than that of the stack.

use std::collections::BTreeSet;
use std::rc::Rc;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::VersionOrUrl;

use super::inputs::{Depth, Inputs, allowed_pythons};
use super::newest::best_on_any;
use super::problem::{Candidate, Problem};
use super::pythons::{Newest, Outcome, attempt, with_all_newest};
use super::tables::{Tables, is_stack_package};
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::solution::{Need, Solution};
use crate::model::version::{minor_line, public};
use crate::registry::STACK_PACKAGES;

/// Maximum number of additional solves.
const MAX_SOLVES: usize = 20;
/// The newest releases of a package that are tried one by one; of older ones, the newest of each minor line.
const ONE_BY_ONE: usize = 4;

/// A requested package.
struct Asked<'p> {
    name: String,
    /// The releases that the request allows and that some Python could have, newest first.
    releases: Releases<'p>,
    /// What its newest release requires of other packages.
    requires: Vec<(String, VersionSpecifiers)>,
}

enum Releases<'p> {
    OfStack(Vec<Version>),
    /// The admitted candidates. Whether some Python could have one is looked up when it is needed: most are years old.
    OfPage {
        problem: &'p Problem<'p>,
        candidates: Rc<[Candidate<'p>]>,
        newest_first: Vec<u32>,
    },
}

impl Asked<'_> {
    fn versions(&self) -> Box<dyn Iterator<Item = &Version> + '_> {
        match &self.releases {
            Releases::OfStack(versions) => Box::new(versions.iter()),
            Releases::OfPage { problem, candidates, newest_first } => {
                let admitted = newest_first.iter().map(|i| &candidates[*i as usize]);
                let usable = admitted
                    .filter(|c| problem.pythons.series.iter().any(|python| problem.has_usable(c, *python)));
                Box::new(usable.map(|candidate| &candidate.release.version))
            }
        }
    }
}

/// Like [`attempt`], but no requested package is sacrificed for another.
pub(super) fn attempt_fairly<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>, depth: Depth) -> Outcome {
    let names = || inputs.request.requirements.iter().map(|user| user.requirement.name.as_ref() as &str);
    if depth == Depth::Stack || names().count() < 2 || names().all(is_stack_package) {
        return attempt(inputs, tables, depth);
    }
    let found = match names().any(is_stack_package) {
        true => beside_a_stack(inputs, tables),
        false => one_after_the_other(inputs, tables),
    };
    found.unwrap_or_else(Outcome::Need)
}

/// torch or a companion and other packages are requested.
fn beside_a_stack<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>) -> Result<Outcome, Vec<Need>> {
    match with_all_newest(inputs, tables) {
        Newest::Best(solution) => Ok(Outcome::Solved(solution)),
        Newest::Need(needs) => Err(needs),
        Newest::OlderStack(solution) => {
            let problem = of_any_python(inputs, tables);
            let asked = asked(&problem)?;
            compared_with_a_newer_stack(inputs, tables, &asked, solution)
        }
        Newest::None => one_after_the_other(inputs, tables),
    }
}

/// The ranked answer, or where it sacrifices packages for others that they depend on, the one in which these are
/// decided first.
fn one_after_the_other<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>) -> Result<Outcome, Vec<Need>> {
    let first = match attempt(inputs, tables, Depth::Full) {
        Outcome::Solved(solution) => solution,
        other => return Ok(other),
    };
    let problem = of_any_python(inputs, tables);
    let asked = asked(&problem)?;
    // The newest release of a package needs an older release of another one than the first answer has.
    let gives_way_to = |a: &Asked<'_>, b: &Asked<'_>| {
        let Some(chosen) = version_of(&first, &b.name).map(public) else { return false };
        a.requires.iter().filter(|(name, _)| *name == b.name).any(|(_, allowed)| {
            !allowed.contains(&chosen) && b.versions().any(|v| public(v) < chosen && allowed.contains(v))
        })
    };
    let mut sacrificed: Vec<&Asked<'_>> = asked
        .iter()
        .filter(|one| !is_stack_package(&one.name) && steps_back(one, &first) > 0)
        // What the old lock holds is kept where it fits.
        .filter(|one| !inputs.preferences.versions.contains_key(&one.name))
        .filter(|one| asked.iter().any(|other| gives_way_to(one, other)))
        .collect();
    sacrificed
        .sort_by_key(|one| asked.iter().filter(|other| depends(&first, &other.name, &one.name)).count());
    Ok(Outcome::Solved(in_order(inputs, tables, &sacrificed, first)?))
}

/// Decides packages one after the other, each the newest that is still possible. None of them gets older than in the
/// first answer.
fn in_order<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    order: &[&Asked<'_>],
    first: Box<Solution>,
) -> Result<Box<Solution>, Vec<Need>> {
    let mut solves = 0;
    let mut best = first;
    let mut request = inputs.request.clone();
    for one in order {
        let Some(reached) = version_of(&best, &one.name).cloned() else { continue };
        for version in tried(one.versions()).take_while(|version| **version > reached) {
            if solves == MAX_SOLVES {
                return Ok(best);
            }
            let mut pinned = request.clone();
            bound(&mut pinned, &one.name, "==", version);
            solves += 1;
            match attempt(&Inputs { request: &pinned, ..*inputs }, tables, Depth::Full) {
                Outcome::Solved(solution) => {
                    best = solution;
                    break;
                }
                Outcome::Need(needs) => return Err(needs),
                Outcome::Impossible | Outcome::TooLong => {}
            }
        }
        if let Some(version) = version_of(&best, &one.name) {
            bound(&mut request, &one.name, "==", version);
        }
    }
    Ok(best)
}

/// The answer that was reached with the other packages first: that one, unless the packages that do not depend on the
/// stack could step back less than the stack does.
fn compared_with_a_newer_stack<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    asked: &[Asked<'_>],
    reached: Box<Solution>,
) -> Result<Outcome, Vec<Need>> {
    let is_dependant =
        |one: &Asked<'_>| STACK_PACKAGES.iter().any(|stack| depends(&reached, &one.name, stack));
    let (dependants, unrelated): (Vec<&Asked<'_>>, Vec<&Asked<'_>>) =
        asked.iter().filter(|one| !is_stack_package(&one.name)).partition(|one| is_dependant(one));
    let limit = largest_step(asked, &reached);
    if unrelated.is_empty() || limit == 0 {
        return Ok(Outcome::Solved(reached));
    }
    let mut request = inputs.request.clone();
    for one in dependants {
        if let Some(version) = version_of(&reached, &one.name) {
            bound(&mut request, &one.name, "==", version);
        }
    }
    for one in unrelated {
        // Nothing that steps back further can be the answer.
        let mut lines = BTreeSet::new();
        let within = one.versions().take_while(|version| {
            lines.insert(minor_line(version));
            lines.len() <= limit + 1
        });
        if let Some(oldest) = within.last() {
            bound(&mut request, &one.name, ">=", oldest);
        }
    }
    match attempt(&Inputs { request: &request, ..*inputs }, tables, Depth::Full) {
        Outcome::Solved(other) => {
            let has_newer_stack = STACK_PACKAGES.iter().any(|stack| is_newer(&other, &reached, stack));
            let is_better = has_newer_stack && largest_step(asked, &other) <= limit;
            Ok(Outcome::Solved(if is_better { other } else { reached }))
        }
        Outcome::Need(needs) => Err(needs),
        Outcome::Impossible | Outcome::TooLong => Ok(Outcome::Solved(reached)),
    }
}

/// The problem with all Python series that the request allows.
fn of_any_python<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>) -> Problem<'a> {
    let pythons = allowed_pythons(inputs.catalogue.registry, inputs.request);
    Problem::new(inputs, tables, Depth::Full, pythons)
}

/// The requested packages and their releases; the needs if a page or its metadata must be fetched first.
fn asked<'p>(problem: &'p Problem<'p>) -> Result<Vec<Asked<'p>>, Vec<Need>> {
    let mut out: Vec<Asked<'p>> = Vec::new();
    for user in problem.user_requirements() {
        let name = user.requirement.name.to_string();
        if out.iter().any(|one| one.name == name) || problem.universe.direct(&name).is_some() {
            continue;
        }
        let (mut releases, mut requires) = (Releases::OfStack(Vec::new()), Vec::new());
        let admitted = problem.matching(&name, user.specifiers());
        if let (Some(table), Ok(set)) = (problem.stack.get(name.as_str()), &admitted) {
            let is_possible = |i: u32| table.builds_of(i).iter().any(|build| problem.machine_allows(build));
            let ordinals = (0..table.versions.len() as u32).rev().filter(|i| set.contains(i));
            let possible = ordinals.filter(|i| name != "torch" || is_possible(*i));
            releases = Releases::OfStack(possible.map(|i| table.versions[i as usize].clone()).collect());
        } else if let (Ok(candidates), Ok(set)) = (problem.candidates(&name), &admitted) {
            let best = best_on_any(problem, &name, &candidates, set, &problem.pythons.series).ok().flatten();
            let metadata = best.map(|i| problem.metadata_of(&candidates[i as usize], &name));
            let newest_first = (0..best.map_or(0, |i| i + 1)).rev().filter(|i| set.contains(i)).collect();
            releases = Releases::OfPage { problem, candidates: candidates.clone(), newest_first };
            if let Some(Ok(Ok(metadata))) = metadata {
                let environment = problem.pythons.environments.last();
                let lines = environment.into_iter().flat_map(|e| metadata.requirements(e, &[])).flatten();
                requires.extend(lines.filter_map(|(requirement, _)| match &requirement.version_or_url {
                    Some(VersionOrUrl::VersionSpecifier(s)) => {
                        Some((requirement.name.to_string(), s.clone()))
                    }
                    _ => None,
                }));
            }
        }
        out.push(Asked { name, releases, requires });
    }
    let needs: Vec<Need> = problem.memo.needs.take().into_iter().collect();
    if needs.is_empty() { Ok(out) } else { Err(needs) }
}

/// The versions to try, newest first: a few one by one, then the newest of each minor line.
fn tried<'v>(versions: impl Iterator<Item = &'v Version>) -> impl Iterator<Item = &'v Version> {
    let mut lines: BTreeSet<Vec<u64>> = BTreeSet::new();
    let is_tried =
        move |(i, version): &(usize, &Version)| lines.insert(minor_line(version)) || *i < ONE_BY_ONE;
    versions.enumerate().filter(is_tried).map(|(_, version)| version)
}

/// Adds a bound of the search: no reason ever quotes it.
fn bound(request: &mut Request, name: &str, operator: &str, version: &Version) {
    if let Ok(requirement) = format!("{name}{operator}{version}").parse() {
        request.constraints.push(UserRequirement::new(requirement, Origin::Question));
    }
}

fn version_of<'s>(solution: &'s Solution, name: &str) -> Option<&'s Version> {
    solution.packages.iter().find(|package| package.name == name).map(|package| &package.version)
}

/// Whether a package is newer in one solution than in another.
fn is_newer(a: &Solution, b: &Solution, name: &str) -> bool {
    match (version_of(a, name), version_of(b, name)) {
        (Some(a), Some(b)) => public(a) > public(b),
        _ => false,
    }
}

/// The largest step back of a requested package.
fn largest_step(asked: &[Asked<'_>], solution: &Solution) -> usize {
    asked.iter().map(|one| steps_back(one, solution)).max().unwrap_or(0)
}

/// The minor lines in which a package has newer releases than the chosen one, its own included.
fn steps_back(one: &Asked<'_>, solution: &Solution) -> usize {
    let Some(chosen) = version_of(solution, &one.name).map(public) else { return 0 };
    let newer = one.versions().take_while(|version| public(version) > chosen);
    newer.map(minor_line).collect::<BTreeSet<_>>().len()
}

/// Whether a package requires another, through others too.
fn depends(solution: &Solution, from: &str, to: &str) -> bool {
    if from == to {
        return false;
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut queue = vec![from];
    while let Some(name) = queue.pop() {
        if name == to {
            return true;
        }
        if !seen.insert(name) {
            continue;
        }
        let package = solution.packages.iter().find(|package| package.name == name);
        queue.extend(package.iter().flat_map(|package| &package.requires).map(|edge| edge.to.as_str()));
    }
    false
}

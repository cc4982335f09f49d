//! Several requested packages: none is sacrificed for another.
//!
//! The ranked solve decides torch first, and lets the other requested packages step back: `torch vllm` would give the
//! newest torch and a vllm of years ago, which had no upper bound yet. So the requested packages are decided one after
//! the other instead, dependants before what they depend on, each the newest that is still possible. Between packages
//! that do not depend on each other, the answer is taken in which the largest step back is smaller, counted in minor
//! lines (x.y).

use std::collections::BTreeSet;
use std::rc::Rc;

use pep440_rs::Version;

use super::closure::best_on_any;
use super::inputs::{Depth, Inputs, allowed_pythons};
use super::problem::Problem;
use super::pythons::{Newest, Outcome, attempt, with_all_newest};
use super::tables::{Tables, is_stack_package};
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::solution::{Need, Solution};
use crate::model::text::requirement_name;
use crate::model::version::public;
use crate::registry::STACK_PACKAGES;

/// Maximum number of additional solves.
const MAX_SOLVES: usize = 50;
/// The newest releases of a package that are tried one by one; of older ones, the newest of each minor line.
const ONE_BY_ONE: usize = 6;

/// A requested package.
struct Asked {
    name: String,
    /// The releases that the request allows, newest first.
    versions: Vec<Version>,
    /// What its newest release requires.
    requires: BTreeSet<String>,
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
    let newest = match with_all_newest(inputs, tables) {
        Newest::Best(solution) => return Ok(Outcome::Solved(solution)),
        Newest::Need(needs) => return Err(needs),
        Newest::OlderStack(solution) => Some(solution),
        Newest::None => None,
    };
    let asked = asked(inputs, tables)?;
    let reached = match newest {
        Some(solution) => Some(solution),
        None => in_order(inputs, tables, &asked, |a, b| a.requires.contains(&b.name))?,
    };
    match reached {
        Some(reached) => compared_with_a_newer_stack(inputs, tables, &asked, reached),
        None => Ok(attempt(inputs, tables, Depth::Full)),
    }
}

/// Only packages other than the stack are requested.
fn one_after_the_other<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>) -> Result<Outcome, Vec<Need>> {
    let first = match attempt(inputs, tables, Depth::Full) {
        Outcome::Solved(solution) => solution,
        other => return Ok(other),
    };
    let asked = asked(inputs, tables)?;
    if asked.iter().all(|one| steps_back(one, &first) == 0) {
        return Ok(Outcome::Solved(first));
    }
    let reached = in_order(inputs, tables, &asked, |a, b| depends(&first, &a.name, &b.name))?;
    let Some(reached) = reached else { return Ok(Outcome::Solved(first)) };
    // A package that another one requires took its place.
    let is_sacrificed = asked.iter().any(|one| {
        steps_back(one, &first) > steps_back(one, &reached)
            && asked.iter().any(|other| {
                depends(&reached, &one.name, &other.name) && is_newer(&first, &reached, &other.name)
            })
    });
    let is_better = is_sacrificed || largest_step(&asked, &reached) < largest_step(&asked, &first);
    Ok(Outcome::Solved(if is_better { reached } else { first }))
}

/// Decides the requested packages other than the stack one after the other, dependants first, each the newest that is
/// still possible. `None` if one of them has no release that is possible.
fn in_order<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    asked: &[Asked],
    requires: impl Fn(&Asked, &Asked) -> bool,
) -> Result<Option<Box<Solution>>, Vec<Need>> {
    let mut order: Vec<&Asked> = asked.iter().filter(|one| !is_stack_package(&one.name)).collect();
    order.sort_by_key(|one| asked.iter().filter(|other| requires(other, one)).count());
    // What the old lock holds is kept where it fits.
    order.retain(|one| !inputs.preferences.versions.contains_key(&one.name));
    let mut solves = 0;
    let mut best: Option<Box<Solution>> = None;
    let mut request = inputs.request.clone();
    for one in order {
        let reached = best.as_deref().and_then(|solution| version_of(solution, &one.name)).cloned();
        for version in tried(&one.versions) {
            if reached.as_ref() == Some(version) || solves == MAX_SOLVES {
                break;
            }
            let mut pinned = request.clone();
            bound(&mut pinned, &one.name, "==", version);
            solves += 1;
            match attempt(&Inputs { request: &pinned, ..*inputs }, tables, Depth::Full) {
                Outcome::Solved(solution) => {
                    best = Some(solution);
                    break;
                }
                Outcome::Need(needs) => return Err(needs),
                Outcome::Impossible | Outcome::TooLong => {}
            }
        }
        let Some(version) = best.as_deref().and_then(|solution| version_of(solution, &one.name)) else {
            return Ok(None);
        };
        bound(&mut request, &one.name, "==", version);
    }
    Ok(best)
}

/// The answer that was reached with the other packages first: that one, unless the packages that do not depend on the
/// stack could step back less than the stack does.
fn compared_with_a_newer_stack<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    asked: &[Asked],
    reached: Box<Solution>,
) -> Result<Outcome, Vec<Need>> {
    let is_dependant = |one: &Asked| STACK_PACKAGES.iter().any(|stack| depends(&reached, &one.name, stack));
    let (dependants, unrelated): (Vec<&Asked>, Vec<&Asked>) =
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
        let within = one.versions.iter().take_while(|version| {
            lines.insert(line(version));
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

/// The requested packages and their releases; the needs if a page or its metadata must be fetched first.
fn asked<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>) -> Result<Vec<Asked>, Vec<Need>> {
    let pythons = allowed_pythons(inputs.catalogue.registry, inputs.request);
    let problem = Problem::new(inputs, tables, Depth::Full, pythons.clone());
    let mut out: Vec<Asked> = Vec::new();
    for user in problem.user_requirements() {
        let name = user.requirement.name.to_string();
        if out.iter().any(|one| one.name == name) || inputs.universe.direct(&name).is_some() {
            continue;
        }
        let (mut versions, mut requires) = (Vec::new(), BTreeSet::new());
        let admitted = problem.matching(&name, user.specifiers());
        if let (Some(table), Ok(set)) = (problem.stack.get(name.as_str()), &admitted) {
            let is_possible = |i: u32| table.builds_of(i).iter().any(|build| problem.machine_allows(build));
            let ordinals = (0..table.versions.len() as u32).rev().filter(|i| set.contains(i));
            let possible = ordinals.filter(|i| name != "torch" || is_possible(*i));
            versions.extend(possible.map(|i| table.versions[i as usize].clone()));
        } else if let (Ok(candidates), Ok(set)) = (problem.candidates(&name), &admitted) {
            let best = best_on_any(&problem, &name, &candidates, set, &pythons).ok().flatten();
            let newest = best.map_or(&candidates[..0], |i| &candidates[..=i as usize]);
            let is_usable = |i: usize| {
                set.contains(&(i as u32)) && pythons.iter().any(|p| problem.has_usable(&newest[i], *p))
            };
            let usable = (0..newest.len()).rev().filter(|i| is_usable(*i));
            versions.extend(usable.map(|i| newest[i].release.version.clone()));
            let metadata = newest.last().map(|candidate| problem.metadata_of(candidate, &name));
            if let Some(Ok(Ok(metadata))) = metadata {
                requires.extend(metadata.lines().map(requirement_name));
            }
        }
        out.push(Asked { name, versions, requires });
    }
    let needs: Vec<Need> = problem.memo.needs.take().into_iter().collect();
    if needs.is_empty() { Ok(out) } else { Err(needs) }
}

/// The versions to try, newest first: a few one by one, then the newest of each minor line.
fn tried(versions: &[Version]) -> impl Iterator<Item = &Version> {
    let mut lines: BTreeSet<Vec<u64>> = BTreeSet::new();
    let is_tried = move |(i, version): &(usize, &Version)| lines.insert(line(version)) || *i < ONE_BY_ONE;
    versions.iter().enumerate().filter(is_tried).map(|(_, version)| version)
}

/// Adds a bound of the search: no reason ever quotes it.
fn bound(request: &mut Request, name: &str, operator: &str, version: &Version) {
    if let Ok(requirement) = format!("{name}{operator}{version}").parse() {
        request.constraints.push(UserRequirement { requirement, origin: Origin::Question });
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
fn largest_step(asked: &[Asked], solution: &Solution) -> usize {
    asked.iter().map(|one| steps_back(one, solution)).max().unwrap_or(0)
}

/// The minor lines in which a package has newer releases than the chosen one, its own included.
fn steps_back(one: &Asked, solution: &Solution) -> usize {
    let Some(chosen) = version_of(solution, &one.name).map(public) else { return 0 };
    let newer = one.versions.iter().filter(|version| public(version) > chosen);
    newer.map(line).collect::<BTreeSet<_>>().len()
}

/// The minor line of a version, `[2, 9]`.
fn line(version: &Version) -> Vec<u64> {
    version.release().iter().take(2).copied().collect()
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

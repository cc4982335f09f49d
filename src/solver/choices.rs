//! Explains why each package of a solution has its version.

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use petgraph::Direction;
use petgraph::graphmap::DiGraphMap;

use super::node::{Node, Selected};
use super::problem::Problem;
use crate::model::choice::Choice;
use crate::model::request::{Origin, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::solution::{ChosenPackage, Edge};
use crate::registry::COMPANIONS;

/// Sets the reason of each package.
pub(super) fn of_requirements(problem: &Problem<'_>, packages: &mut [ChosenPackage]) {
    let snapshot: Vec<(String, Vec<Edge>)> =
        packages.iter().map(|p| (p.name.clone(), p.requires.clone())).collect();
    let mut graph: DiGraphMap<&str, &str> = DiGraphMap::new();
    for (name, edges) in &snapshot {
        graph.add_node(name);
        for edge in edges {
            graph.add_edge(name, &edge.to, &edge.requirement);
        }
    }
    for package in packages.iter_mut() {
        let dependents: Vec<(&str, &str)> = graph
            .edges_directed(&package.name, Direction::Incoming)
            .map(|(from, _, requirement)| (from, *requirement))
            // A companion is chosen for torch, not the other way round.
            .filter(|(from, _)| package.name != "torch" || !COMPANIONS.contains(from))
            .collect();
        let pinned_by = dependents.iter().find_map(|(from, requirement)| {
            let series = pin(requirement)?;
            Some(Choice::PinnedBy { package: (*from).to_owned(), series })
        });
        let request = &problem.asked.request;
        // A line for another Python says nothing here.
        let is_own = |user: &&UserRequirement| {
            let marker = &user.requirement.marker;
            user.name() == package.name
                && problem.pythons.environments.iter().any(|environment| marker.evaluate(environment, &[]))
        };
        // An override stands in the place of every requirement.
        let overridden: Vec<_> = request.overrides.iter().filter(is_own).collect();
        let is_overridden = !overridden.is_empty();
        let pinned_by = pinned_by.filter(|_| !is_overridden);
        let requested: Vec<_> = match is_overridden {
            true => overridden,
            false => request.requirements.iter().filter(is_own).collect(),
        };
        let mut asked: Vec<_> = requested.iter().filter_map(|user| specifiers(&user.requirement)).collect();
        if !is_overridden {
            // Those of envlock itself, such as one torch for all targets, are nobody's bounds.
            let constraints = request.constraints.iter().filter(is_own);
            let constraints = constraints.filter(|user| user.origin != Origin::Question);
            asked.extend(constraints.filter_map(|user| specifiers(&user.requirement)));
        }
        let mut allowed: Vec<String> = asked.iter().map(ToString::to_string).collect();
        allowed.dedup();
        let allowed = allowed.join(",");
        let names_one = asked.iter().flat_map(|specifiers| specifiers.iter()).any(pins_release);
        package.reason = match pinned_by {
            _ if names_one => Choice::Asked,
            Some(pinned) => pinned,
            None if !allowed.is_empty() && is_newest_allowed(problem, package, &asked) => {
                Choice::NewestAllowed(allowed)
            }
            None if !requested.is_empty() => Choice::Newest,
            None => match dependents.as_slice() {
                [] => Choice::Newest,
                [(one, _), rest @ ..] => Choice::NewestFor { package: (*one).to_owned(), others: rest.len() },
            },
        };
    }
}

/// Whether no newer release that the request allows is known: then the request alone decided, not another package or
/// the machine.
fn is_newest_allowed(problem: &Problem<'_>, package: &ChosenPackage, asked: &[&VersionSpecifiers]) -> bool {
    let chosen = package.version.clone().without_local();
    let is_newer = |version: &Version, yanked: bool| {
        let version = version.clone().without_local();
        version > chosen
            && !yanked
            && (!version.any_prerelease() || chosen.any_prerelease())
            && asked.iter().all(|specifiers| specifiers.contains(&version))
    };
    match problem.stack.get(package.name.as_str()) {
        Some(table) => !table.versions.iter().any(|version| is_newer(version, false)),
        None => {
            let candidates = problem.candidates(&package.name).unwrap_or_default();
            !candidates.iter().any(|c| is_newer(&c.release.version, c.release.yanked))
        }
    }
}

/// The version specifiers of a requirement, if any.
fn specifiers(requirement: &Requirement<VerbatimUrl>) -> Option<&VersionSpecifiers> {
    match &requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
        _ => None,
    }
}

/// Whether a specifier pins one release, or one series with `==2.9.*`.
fn pins_release(specifier: &VersionSpecifier) -> bool {
    use pep440_rs::Operator::{Equal, EqualStar, ExactEqual};
    matches!(specifier.operator(), Equal | EqualStar | ExactEqual)
}

/// Whether a package's requirement pins a version; the inner value is the specifier of `~=`.
fn pin(requirement: &str) -> Option<Option<String>> {
    let requirement = parse_requirement(requirement).ok()?;
    let specifiers = specifiers(&requirement)?;
    if specifiers.iter().any(pins_release) {
        return Some(None);
    }
    let series = specifiers.iter().find(|s| *s.operator() == Operator::TildeEqual)?;
    Some(Some(series.to_string()))
}

/// Sets the reason of companions: built with this torch, compatible by its wheel's requirement, or no requirement.
pub(super) fn of_companions(problem: &Problem<'_>, selected: &Selected, packages: &mut [ChosenPackage]) {
    let Some(torch) = selected.get(&Node::build("torch")) else { return };
    let torch = &problem.stack["torch"].builds[*torch as usize];
    let beside = |name: &str| torch.torch.and_then(|row| row.companion(name));
    for package in packages.iter_mut().filter(|p| p.reason != Choice::Asked) {
        let Some(build) = selected.get(&Node::build(&package.name)) else { continue };
        let build = &problem.stack[package.name.as_str()].builds[*build as usize];
        if package.name == "torch" {
            continue;
        }
        package.reason = match &build.torch_requirement {
            _ if beside(&package.name) == Some(&build.version) => {
                Choice::BuiltWithTorch(torch.version.clone())
            }
            Some(requirement) => {
                Choice::FitsTorch { torch: torch.version.clone(), needs: requirement.to_string() }
            }
            None => Choice::NoTorchRequirement,
        };
    }
}

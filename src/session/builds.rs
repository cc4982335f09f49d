//! Locks what builds require: the build requirements of source distributions, solved for the same Python.

use std::collections::BTreeMap;

use super::failure::Failure;
use crate::model::request::{Limit, Origin, PythonAllowed, PythonRequest, Request, UserRequirement};
use crate::model::solution::{Answer, ChosenPackage, Note, Solution};
use crate::model::source::BuildRequirement;
use crate::model::text::requirement_name;
use crate::model::wheel::Python;

/// Solves a request for the target that the packages belong to.
pub(crate) type Solve<'s> = dyn FnMut(&Request) -> Result<Answer, Failure> + 's;

/// Packages by name.
type Solved = BTreeMap<String, ChosenPackage>;

/// Adds the solved build requirements to the packages of a solution that are built. All isolated builds get the same
/// versions if possible, since constraints apply to all; else each its own. Packages that are built in the environment
/// have the locked packages there. A package whose build requirements have no solution is named in a note; those of which
/// none fits the locked packages are returned, as `name==version`: their builds cannot be what their authors tested.
///
/// # Errors
/// If the index does not answer.
pub(crate) fn lock(
    solution: &mut Solution,
    request: &Request,
    solve: &mut Solve<'_>,
) -> Result<Vec<String>, Failure> {
    let locked: Vec<String> =
        solution.packages.iter().map(|p| format!("{}=={}", p.name, p.version)).collect();
    lock_builds(solution, false, &Build { request, beside: &[] }, solve)?;
    lock_builds(solution, true, &Build { request, beside: &locked }, solve)
}

/// Where build requirements are solved.
struct Build<'a> {
    request: &'a Request,
    /// The packages that are there, as requirements.
    beside: &'a [String],
}

/// Locks the builds that take place in the environment, or the others. Returns the packages whose build requirements have no
/// solution.
fn lock_builds(
    solution: &mut Solution,
    is_in_environment: bool,
    place: &Build<'_>,
    solve: &mut Solve<'_>,
) -> Result<Vec<String>, Failure> {
    let python = solution.python;
    let is_meant = |package: &&mut ChosenPackage| package.is_built_after_others() == is_in_environment;
    let meant = solution.packages.iter_mut().filter(is_meant);
    let mut all: Vec<String> =
        meant.filter_map(|package| package.build.as_ref()).flat_map(|build| build.asks.clone()).collect();
    all.sort();
    all.dedup();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let common = requirements(&all, place, python, solve)?;
    let (mut notes, mut without) = (Vec::new(), Vec::new());
    for package in solution.packages.iter_mut().filter(is_meant) {
        let Some(build) = &mut package.build else { continue };
        let own = match &common {
            Some(_) => None,
            None => requirements(&build.asks, place, python, solve)?,
        };
        match common.as_ref().or(own.as_ref()) {
            Some(solved) => build.requires = reachable(solved, &build.asks),
            None => {
                let name = &package.name;
                let beside = if is_in_environment { " beside the locked packages" } else { "" };
                let text =
                    format!("what the build of {name} requires has no solution{beside}, so it is not locked");
                notes.push(Note { text, source: None });
                without.push(format!("{name}=={}", package.version));
            }
        }
    }
    solution.notes.extend(notes);
    Ok(without)
}

/// The packages that satisfy the lines; `None` if there is no solution.
fn requirements(
    lines: &[String],
    place: &Build<'_>,
    python: Python,
    solve: &mut Solve<'_>,
) -> Result<Option<Solved>, Failure> {
    let parse = |line: &String| UserRequirement::parse(line, Origin::Question).ok();
    let Some(requirements) = lines.iter().map(parse).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let exact = PythonAllowed::Exact(python);
    let request = place.request;
    let asked = Request {
        requirements,
        constraints: place.beside.iter().filter_map(parse).collect(),
        python: Some(PythonRequest { allowed: exact, text: python.to_string(), origin: Origin::Question }),
        only_index: request.only_index.clone(),
        owners: request.owners.clone(),
        exclude_newer: request.exclude_newer.clone(),
        // A build requirement that has to be built itself would need another round.
        no_sources: Some(Limit { value: (), origin: Origin::Question }),
        ..Request::default()
    };
    Ok(match solve(&asked)? {
        Answer::Solution(solution) => {
            Some(solution.packages.into_iter().map(|package| (package.name.clone(), package)).collect())
        }
        _ => None,
    })
}

/// The build requirements of one package: those that its lines ask for, and what these require.
fn reachable(solved: &Solved, lines: &[String]) -> Vec<BuildRequirement> {
    let mut names: Vec<String> = lines.iter().map(|line| requirement_name(line)).collect();
    let mut out: BTreeMap<String, BuildRequirement> = BTreeMap::new();
    while let Some(name) = names.pop() {
        let Some(package) = solved.get(&name).filter(|_| !out.contains_key(&name)) else { continue };
        names.extend(package.requires.iter().map(|edge| edge.to.clone()));
        let Some(file) = package.files.first() else { continue };
        let Some(sha256) = file.sha256.clone() else { continue };
        let version = package.version.clone();
        out.insert(name.clone(), BuildRequirement { name, version, file: file.name.clone(), sha256 });
    }
    out.into_values().collect()
}

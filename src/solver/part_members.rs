//! Which packages belong to extras and dependency groups of the project: those that an installation without them does
//! not need.
//!
//! Followed by requirements, not by the edges of the lock: the edges of `jax` in a lock are those with all extras that
//! anything requires, but without the project's extra that requires `jax[cuda12]`, its CUDA packages are not installed.

use std::collections::{BTreeMap, BTreeSet};

use pep508_rs::ExtraName;

use super::node::Selected;
use super::problem::Problem;
use super::release;
use crate::model::metadata::CoreMetadata;
use crate::model::part::Part;
use crate::model::request::UserRequirement;
use crate::model::solution::ChosenPackage;

/// Sets the parts of the packages that only these need.
pub(super) fn label(problem: &Problem<'_>, selected: &Selected, packages: &mut [ChosenPackage]) {
    let users: Vec<&UserRequirement> = problem.user_requirements().collect();
    let parts: BTreeSet<&Part> = users.iter().filter_map(|user| user.part.as_ref()).collect();
    if parts.is_empty() {
        return;
    }
    let metadata: BTreeMap<String, Option<&CoreMetadata>> = packages
        .iter()
        .map(|package| (package.name.clone(), release::metadata(problem, selected, &package.name)))
        .collect();
    let needed = |part: Option<&Part>| {
        let installed = |user: &&&UserRequirement| user.part.is_none() || user.part.as_ref() == part;
        needed(problem, &metadata, users.iter().filter(installed).copied())
    };
    let always = needed(None);
    for part in parts {
        let with = needed(Some(part));
        for package in packages.iter_mut().filter(|package| !always.contains(&package.name)) {
            if with.contains(&package.name) {
                package.groups.push(part.clone());
            }
        }
    }
}

/// The packages that requirements need, by what they and their packages require with the extras that are asked for.
fn needed<'a>(
    problem: &Problem<'_>,
    metadata: &BTreeMap<String, Option<&CoreMetadata>>,
    users: impl Iterator<Item = &'a UserRequirement>,
) -> BTreeSet<String> {
    let mut active: BTreeMap<String, BTreeSet<ExtraName>> = BTreeMap::new();
    let mut queue: Vec<(String, Vec<ExtraName>)> =
        users.map(|user| (user.name().to_owned(), user.requirement.extras.clone())).collect();
    while let Some((name, asked)) = queue.pop() {
        let is_new = !active.contains_key(&name);
        let extras = active.entry(name.clone()).or_default();
        let before = extras.len();
        extras.extend(asked);
        if !is_new && extras.len() == before {
            continue;
        }
        let extras: Vec<ExtraName> = extras.iter().cloned().collect();
        let Some(Some(metadata)) = metadata.get(&name) else { continue };
        let lines = metadata.requirements(&problem.pythons.environments[0], &extras).flatten();
        let kept = lines.filter(|(requirement, _)| !problem.is_left_out(requirement.name.as_ref()));
        queue.extend(kept.map(|(requirement, _)| (requirement.name.to_string(), requirement.extras.clone())));
    }
    active.into_keys().collect()
}

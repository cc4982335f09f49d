//! What a selection has of a package: the build, the release on its index, the METADATA.

use pep508_rs::ExtraName;

use super::inputs::Depth;
use super::node::{Node, Selected};
use super::problem::{Candidate, Problem};
use super::tables::is_stack_package;
use crate::model::metadata::CoreMetadata;

/// The ordinal of the selected build of a stack package.
pub(super) fn build(selected: &Selected, name: &str) -> Option<usize> {
    is_stack_package(name).then(|| selected.get(&Node::build(name))).flatten().map(|b| *b as usize)
}

/// The selected release of a package, with its index; `None` at stack depth.
pub(super) fn candidate<'p>(
    problem: &'p Problem<'_>,
    selected: &Selected,
    name: &str,
) -> Option<Candidate<'p>> {
    match (build(selected, name), problem.asked.depth) {
        (_, Depth::Stack) => None,
        (Some(i), Depth::Full) => problem.build_candidate(name, i).ok().flatten(),
        (None, Depth::Full) => {
            let ordinal = *selected.get(&Node::package(name))?;
            problem.candidates(name).ok().and_then(|c| c.get(ordinal as usize).copied())
        }
    }
}

/// The METADATA of the selected release of a package.
pub(super) fn metadata<'p>(
    problem: &'p Problem<'_>,
    selected: &Selected,
    name: &str,
) -> Option<&'p CoreMetadata> {
    let candidate = candidate(problem, selected, name)?;
    problem.metadata_of(&candidate, name).ok().and_then(Result::ok).map(|m| m.as_ref())
}

/// The extras of a package that are selected.
pub(super) fn extras(selected: &Selected, name: &str) -> Vec<ExtraName> {
    let of_package = selected.keys().filter_map(|node| match node {
        Node::Extra(package, extra) if package.as_ref() == name => extra.parse().ok(),
        _ => None,
    });
    of_package.collect()
}

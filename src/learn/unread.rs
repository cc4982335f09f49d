//! Finds packages of a solution that may have GPU code without a row in the registry.

use crate::model::nvidia::is_of_nvidia;
use crate::model::solution::{ChosenFile, ChosenPackage, Edge, Solution};
use crate::model::wheel::WheelName;
use crate::registry::{Registry, STACK_PACKAGES};

/// Maximum size of a wheel that is read automatically, in bytes.
const MAX_WHEEL: u64 = 64 << 20;

/// The packages of a solution for a GPU that have no row: releases of a framework, and what
/// depends on torch or NVIDIA's libraries and has a small platform wheel.
pub fn unread<'s>(solution: &'s Solution, registry: &Registry) -> impl Iterator<Item = &'s ChosenPackage> {
    let uses_gpu =
        solution.stack.as_ref().is_some_and(|s| s.cuda.is_some()) || !solution.frameworks.is_empty();
    solution.packages.iter().filter(move |package| {
        is_unread_framework(package, solution, registry) || uses_gpu && is_unread(package, solution, registry)
    })
}

fn is_unread_framework(package: &ChosenPackage, solution: &Solution, registry: &Registry) -> bool {
    package.source.index() == Some("pypi")
        && registry.is_unread_framework(&package.name, &package.version, solution.platform)
}

fn is_unread(package: &ChosenPackage, solution: &Solution, registry: &Registry) -> bool {
    let name = package.name.as_str();
    let needs_gpu = |edge: &Edge| edge.to == "torch" || is_of_nvidia(&edge.to);
    let is_native = |file: &ChosenFile| {
        let wheel: Option<WheelName> = file.name.parse().ok();
        wheel.is_some_and(|wheel| wheel.platforms.iter().all(|tag| tag != "any"))
            && file.size.is_some_and(|size| size <= MAX_WHEEL)
    };
    package.targets.is_none()
        && package.source.index() == Some("pypi")
        && !STACK_PACKAGES.contains(&name)
        && !is_of_nvidia(name)
        && package.requires.iter().any(needs_gpu)
        && package.files.first().is_some_and(is_native)
        && registry.framework(name, &package.version, solution.platform).is_none()
}

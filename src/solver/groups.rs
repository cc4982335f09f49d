//! Which requested packages are decided before which.

use std::collections::{BTreeMap, BTreeSet};

use super::requested_packages::Asked;
use super::tables::is_stack_package;
use crate::model::solution::{ChosenPackage, Solution};

/// The requested packages in groups, those that depend on others before these: first those that none of the others depends
/// on. The packages of the stack are one unit: their releases belong together.
pub(super) fn groups<'s, 'p>(asked: &'s [Asked<'p>], solution: &Solution) -> Vec<Vec<&'s Asked<'p>>> {
    let (stack, others): (Vec<_>, Vec<_>) = asked.iter().partition(|one| is_stack_package(&one.name));
    let mut units: Vec<Vec<&Asked<'p>>> = others.into_iter().map(|one| vec![one]).collect();
    units.extend((!stack.is_empty()).then_some(stack));
    let packages: BTreeMap<&str, &ChosenPackage> =
        solution.packages.iter().map(|package| (package.name.as_str(), package)).collect();
    let reached: Vec<BTreeSet<&str>> = units.iter().map(|unit| reached(unit, &packages)).collect();
    let requires = |from: usize, to: usize| units[to].iter().any(|one| reached[from].contains(&*one.name));
    // Units that require each other are not above each other.
    let is_above: Vec<Vec<bool>> = (0..units.len())
        .map(|a| (0..units.len()).map(|b| a != b && requires(a, b) && !requires(b, a)).collect())
        .collect();
    let mut depths = vec![0usize; units.len()];
    // The longest chain has fewer steps than there are units.
    for _ in 0..units.len() {
        for unit in 0..units.len() {
            let above = (0..units.len()).filter(|other| is_above[*other][unit]);
            depths[unit] = above.map(|other| depths[other] + 1).max().unwrap_or(0).min(units.len());
        }
    }
    let of = |depth: usize| -> Vec<&'s Asked<'p>> {
        let is_of = |unit: &usize| depths[*unit] == depth;
        (0..units.len()).filter(is_of).flat_map(|unit| units[unit].iter().copied()).collect()
    };
    (0..=units.len()).map(of).filter(|group| !group.is_empty()).collect()
}

/// What the packages of a unit require, through others too: in the solution, or in their newest releases.
fn reached<'n>(unit: &[&'n Asked<'_>], packages: &BTreeMap<&'n str, &'n ChosenPackage>) -> BTreeSet<&'n str> {
    let edges = |name: &str| {
        let package = packages.get(name).copied();
        package.into_iter().flat_map(|package| &package.requires).map(|edge| edge.to.as_str())
    };
    let newest = |one: &&'n Asked<'_>| one.requires.iter().map(String::as_str);
    let mut queue: Vec<&'n str> =
        unit.iter().flat_map(|one| edges(&one.name).chain(newest(one)).collect::<Vec<_>>()).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = queue.pop() {
        if seen.insert(name) {
            queue.extend(edges(name));
        }
    }
    seen
}

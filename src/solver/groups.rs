//! Which requested packages are decided before which.

use super::asked::{Asked, depends};
use super::tables::is_stack_package;
use crate::model::solution::Solution;

/// The requested packages in groups, those that depend on others before these. The packages of the stack are one unit:
/// their releases belong together.
pub(super) fn groups<'s, 'p>(asked: &'s [Asked<'p>], solution: &Solution) -> Vec<Vec<&'s Asked<'p>>> {
    let (stack, others): (Vec<_>, Vec<_>) = asked.iter().partition(|one| is_stack_package(&one.name));
    let mut units: Vec<Vec<&Asked<'p>>> = others.into_iter().map(|one| vec![one]).collect();
    units.extend((!stack.is_empty()).then_some(stack));
    let requires = |from: usize, to: usize| {
        units[from].iter().any(|a| units[to].iter().any(|b| requires(solution, a, b)))
    };
    // Units that require each other are not above each other.
    let is_above: Vec<Vec<bool>> = (0..units.len())
        .map(|a| (0..units.len()).map(|b| a != b && requires(a, b) && !requires(b, a)).collect())
        .collect();
    let mut heights = vec![0usize; units.len()];
    // The longest chain has fewer steps than there are units.
    for _ in 0..units.len() {
        for unit in 0..units.len() {
            let below = (0..units.len()).filter(|other| is_above[unit][*other]);
            heights[unit] = below.map(|other| heights[other] + 1).max().unwrap_or(0).min(units.len());
        }
    }
    let of = |height: usize| -> Vec<&'s Asked<'p>> {
        let is_of = |unit: &usize| heights[*unit] == height;
        (0..units.len()).filter(is_of).flat_map(|unit| units[unit].iter().copied()).collect()
    };
    (0..=units.len()).rev().map(of).filter(|group| !group.is_empty()).collect()
}

/// Whether a package requires another, through others too: in a solution, or in its newest release.
fn requires(solution: &Solution, a: &Asked<'_>, b: &Asked<'_>) -> bool {
    depends(solution, &a.name, &b.name)
        || a.requires.iter().any(|next| *next == b.name || depends(solution, next, &b.name))
}

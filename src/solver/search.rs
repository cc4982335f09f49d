//! Runs pubgrub on a problem, ranked or unranked.

use std::rc::Rc;

use pubgrub::{DerivationTree, PubGrubError};

use super::memory::Ended;
use super::node::{Node, Selected};
use super::problem::Problem;
use super::provider::{Provider, Stop, Why};
use super::tables::Set;
use crate::model::solution::Need;

/// The proof that there is no solution.
pub(super) type Proof = DerivationTree<Node, Set, Why>;

/// The result of a search.
pub(super) enum Found {
    Selected(Selected),
    Impossible(Box<Proof>),
    Need(Vec<Need>),
    /// The step limit was reached: neither an answer nor a proof.
    TooLong,
}

/// Searches for the answer: decisions in the order of preference. The error is the data that must be fetched first.
pub(super) fn ranked(problem: &Problem<'_>) -> Result<Ended, Vec<Need>> {
    if let Some(known) = problem.memory.find(&problem.question(), &problem.search()) {
        return Ok(known);
    }
    if problem.budget.is_spent() {
        return Ok(Ended::TooLong);
    }
    let (found, steps) = run(problem, true);
    let ended = match found {
        Found::Selected(selected) => Ended::Selected(Rc::new(selected)),
        Found::Impossible(_) => Ended::Impossible(steps),
        Found::TooLong => Ended::TooLong,
        Found::Need(needs) => {
            problem.memory.needs_more(&problem.search());
            return Err(needs);
        }
    };
    problem.memory.keep(problem.question(), problem.search(), ended.clone());
    Ok(ended)
}

/// Searches for a short proof: the most constrained nodes first.
pub(super) fn unranked(problem: &Problem<'_>) -> Found {
    run(problem, false).0
}

/// The result, and the steps that it took.
fn run(problem: &Problem<'_>, ranked: bool) -> (Found, u32) {
    let provider = Provider::new(problem, ranked);
    let found = match pubgrub::resolve(&provider, Node::Root, 0u32) {
        Ok(selected) => {
            let selected = selected.into_iter().collect();
            match problem.unread_sources(&selected) {
                needs if needs.is_empty() => Found::Selected(selected),
                needs => return (Found::Need(needs), 0),
            }
        }
        Err(PubGrubError::NoSolution(error)) => Found::Impossible(Box::new(error)),
        Err(
            PubGrubError::ErrorRetrievingDependencies { source, .. }
            | PubGrubError::ErrorChoosingVersion { source, .. }
            | PubGrubError::ErrorInShouldCancel(source),
        ) => match source {
            // Its steps count when it has what it needs, and comes to its end.
            Stop::Missing => return (Found::Need(problem.memo.needs.take().into_iter().collect()), 0),
            Stop::TooLong => Found::TooLong,
        },
    };
    problem.budget.count(provider.steps());
    (found, provider.steps())
}

//! The newest release of a requested package that any Python could have, and how far an answer is behind it.

use std::rc::Rc;
use std::sync::Arc;

use pep508_rs::VersionOrUrl;

use super::closure::Missing;
use super::memory::Admitted;
use super::node::{Node, Selected};
use super::problem::{Candidate, Problem};
use super::rank::finals_first;
use super::tables::{Set, is_stack_package};
use crate::model::request::UserRequirement;
use crate::model::solution::Need;
use crate::model::wheel::Python;

/// Restricts a requested package to the newest release that any of the Python series could have. `None` if it is a
/// stack package, locked, or its page was not fetched yet.
pub(super) fn only_newest(
    problem: &Problem<'_>,
    request: &UserRequirement,
    pythons: &[Python],
) -> Option<(Node, Set)> {
    let name = request.name();
    if is_stack_package(name) || problem.asked.preferences.versions.contains_key(name) {
        return None;
    }
    let specifiers = match &request.requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(s)) => Some(s),
        _ => None,
    };
    let candidates = problem.candidates(name).ok()?;
    let set = problem.matching(name, specifiers).ok()?;
    let best = best_on_any(problem, name, &candidates, &set, pythons).ok()??;
    Some((Node::package(name), Set::singleton(best)))
}

/// The best candidate of a set that any of the Python series could have.
pub(super) fn best_on_any(
    problem: &Problem<'_>,
    name: &str,
    candidates: &[Candidate<'_>],
    set: &Set,
    pythons: &[Python],
) -> Result<Option<u32>, Missing> {
    let is_usable = |i: &u32| {
        let candidate = &candidates[*i as usize];
        set.contains(i)
            && problem.bound(name, &candidate.release.version).is_none_or(|s| !s.is_empty())
            && pythons.iter().any(|p| problem.has_usable(candidate, *p))
    };
    let usable = || (0..candidates.len() as u32).rev().filter(is_usable);
    problem.wheel_before_source(name, candidates, || finals_first(candidates, usable))
}

/// The number of releases not newer than those of an answer that are compared.
const OLDER: usize = 8;

/// The releases of the requested packages outside the stack that some Python could have.
#[derive(Default)]
pub(super) struct Releases {
    admitted: Rc<Admitted>,
}

impl Releases {
    /// The requested packages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.admitted.iter().map(|(name, _)| &**name)
    }

    /// The releases for the requirements of a problem, down to some older than in its answer. The error is the data that
    /// must be fetched first.
    pub fn of(problem: &Problem<'_>, selected: &Selected, pythons: &[Python]) -> Result<Releases, Vec<Need>> {
        if let Some(admitted) = problem.memory.admitted(&problem.question(), &problem.search()) {
            return Ok(Releases { admitted });
        }
        let mut admitted = Vec::new();
        for request in problem.user_requirements() {
            let name = request.name();
            if is_stack_package(name) {
                continue;
            }
            let Some(chosen) = selected.get(&Node::package(name)) else { continue };
            let Ok(candidates) = problem.candidates(name) else { continue };
            let Ok(set) = problem.matching(name, request.specifiers()) else { continue };
            let Ok(Some(best)) = best_on_any(problem, name, &candidates, &set, pythons) else { continue };
            let is_admitted = |i: &u32| {
                let candidate = &candidates[*i as usize];
                set.contains(i)
                    && problem.bound(name, &candidate.release.version).is_none_or(|s| !s.is_empty())
                    && pythons.iter().any(|p| problem.has_usable(candidate, *p))
            };
            let mut newest_first = (0..=best).rev().filter(is_admitted).peekable();
            let mut listed: Vec<u32> = Vec::new();
            while let Some(newer) = newest_first.next_if(|i| i > chosen) {
                listed.push(newer);
            }
            listed.extend(newest_first.take(OLDER));
            admitted.push((name.into(), listed));
        }
        let needs: Vec<Need> = problem.memo.needs.take().into_iter().collect();
        if !needs.is_empty() {
            return Err(needs);
        }
        let admitted = Rc::new(admitted);
        problem.memory.keep_admitted(problem.question(), problem.search(), admitted.clone());
        Ok(Releases { admitted })
    }

    /// The number of releases that the requested packages of an answer are behind the newest.
    pub fn steps_back(&self, selected: &Selected) -> usize {
        let behind = |(name, admitted): &(Arc<str>, Vec<u32>)| {
            let chosen = selected.get(&Node::Package(name.clone()))?;
            Some(admitted.iter().take_while(|newer| *newer > chosen).count())
        };
        self.admitted.iter().filter_map(behind).sum()
    }

    /// The oldest release of each requested package with which an answer of the problem is fewer than `limit` steps
    /// behind; `None` if there can be no such answer, because too many releases lack a wheel for its Python.
    pub fn within(&self, problem: &Problem<'_>, limit: usize) -> Option<Vec<(Node, u32)>> {
        let python = problem.pythons.series[0];
        let least: Vec<usize> = self
            .admitted
            .iter()
            .map(|(name, admitted)| {
                let candidates = problem.candidates(name).ok()?;
                let is_usable = |i: &u32| problem.has_usable(&candidates[*i as usize], python);
                Some(admitted.iter().position(is_usable).unwrap_or(admitted.len()))
            })
            .collect::<Option<_>>()?;
        let spare = limit.checked_sub(1 + least.iter().sum::<usize>())?;
        let oldest = |((name, admitted), least): (&(Arc<str>, Vec<u32>), &usize)| {
            Some((Node::Package(name.clone()), *admitted.get(spare + least)?))
        };
        Some(self.admitted.iter().zip(&least).filter_map(oldest).collect())
    }
}

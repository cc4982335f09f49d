//! Ways out of the conflict of one target, held against the other ones: the command of a way asks for all.

use std::collections::BTreeSet;

use pep440_rs::{Operator, Version, VersionSpecifiers};

use super::Edit;
use super::joint::Joint;
use crate::model::conflict::{Change, Conflict, Party, WayOut};
use crate::model::level::Level;

/// The maximum number of releases that are tried for all targets: each costs a search of the registry for each of them.
const MAX_RELEASES: usize = 40;

impl Joint<'_> {
    /// Marks the ways that another target refuses by the registry, and puts them last. Where they are of a pin of torch, the nearest
    /// release that runs on every target comes first.
    pub fn hold_ways_against_all(&self, conflict: &mut Conflict) {
        let own = self.members.iter().position(|member| member.name == conflict.target);
        let Some(own) = own.filter(|_| self.members.len() > 1 && !self.request.has_stack_of_conda()) else {
            return;
        };
        let ways = match conflict.also.is_empty() {
            true => &mut conflict.would_work_if,
            false => &mut conflict.resolves_all,
        };
        for way in ways.iter_mut() {
            way.is_of_one_target = self.is_refused_beside(own, &way.change);
        }
        ways.sort_by_key(|way| (way.party == Party::Gpu, way.is_of_one_target));
        let is_pin_of_torch = |way: &WayOut| way.is_of_one_target && way.party == Party::package("torch");
        let has_one = ways.iter().any(|way| !way.is_of_one_target && way.party == Party::package("torch"));
        if ways.iter().any(is_pin_of_torch)
            && !has_one
            && let Some(way) = self.release_for_all(own)
        {
            ways.insert(0, way);
        }
    }

    /// Whether another target has no solution with a change, or none that is known.
    fn is_refused_beside(&self, own: usize, change: &Change) -> bool {
        let Some(edit) = self.edit_of(change) else { return false };
        let mut others = (0..self.members.len()).filter(|i| *i != own);
        others.any(|i| self.stack_after(i, Some(edit.clone())).is_none())
    }

    /// A change of the request, as it is made for every target; `None` for one of a machine.
    fn edit_of(&self, change: &Change) -> Option<Edit> {
        match change {
            Change::Release { package, version } => self.with_bounds(package, &format!("=={version}")),
            Change::Below { package, version } => self.with_bounds(package, &format!("<{version}")),
            Change::Series { package, releases } => self.with_bounds(package, &format!("=={releases}")),
            Change::WithoutConstraint(bound) => Some(Edit::WithoutConstraint((**bound).clone())),
            Change::Together(changes) => {
                let edits = changes.iter().map(|change| self.edit_of(change));
                Some(Edit::Together(edits.collect::<Option<_>>()?))
            }
            _ => None,
        }
    }

    /// A requirement with other bounds; `None` for a package that is not required.
    fn with_bounds(&self, package: &str, bounds: &str) -> Option<Edit> {
        let bounds: VersionSpecifiers = bounds.parse().ok()?;
        Some(Edit::Near(self.request.find(package)?.clone(), bounds))
    }

    /// The release of torch nearest to the pinned one for which every target has a stack, else the older ones together.
    fn release_for_all(&self, own: usize) -> Option<WayOut> {
        let bounds = self.request.find("torch")?.specifiers()?;
        let [pin] = &**bounds else { return None };
        if !matches!(pin.operator(), Operator::Equal | Operator::ExactEqual) {
            return None;
        }
        let known: BTreeSet<&Version> = self.registry.builds().iter().map(|build| &build.version).collect();
        let known: Vec<&Version> = known.into_iter().collect();
        let place = known.partition_point(|version| *version < pin.version());
        let mut near: Vec<usize> = (0..known.len()).collect();
        near.sort_by_key(|at| (at.abs_diff(place), std::cmp::Reverse(*at)));
        let of_release = near.into_iter().take(MAX_RELEASES).find_map(|at| {
            self.for_all(own, Change::Release { package: "torch".to_owned(), version: known[at].clone() })
        });
        // None for all of them: each its own.
        let below = Change::Below { package: "torch".to_owned(), version: pin.version().clone() };
        of_release.or_else(|| self.for_all(own, below))
    }

    /// A change of torch for which every target has a stack.
    fn for_all(&self, own: usize, change: Change) -> Option<WayOut> {
        let edit = self.edit_of(&change)?;
        let solution = self.stack_after(own, Some(edit.clone()))?;
        let mut others = (0..self.members.len()).filter(|i| *i != own);
        let is_for_all = others.all(|i| self.stack_after(i, Some(edit.clone())).is_some());
        is_for_all.then(|| solution.reached_by(change, Party::package("torch"), Level::Stack))
    }
}

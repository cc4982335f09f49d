//! Ways out of a conflict between the halves: a package from PyPI and not from conda, and the stack from PyPI.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Asked, Session};
use crate::model::conda::name_of_spec;
use crate::model::conflict::{Change, Conflict, Party, WayOut};
use crate::model::level::Level;
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::solution::Answer;
use crate::model::source::CondaPackage;
use crate::registry::conda_names::{framework_of, pypi_name};

/// The package that is asked of conda and needs another one: itself, or the first that leads to it.
pub(super) fn requested_for<'p>(
    name: &str,
    asked: impl Iterator<Item = &'p str>,
    packages: &[CondaPackage],
) -> Option<&'p str> {
    let leads_to = |start: &str| {
        let mut seen = BTreeSet::from([start.to_owned()]);
        let mut left = VecDeque::from([start.to_owned()]);
        while let Some(next) = left.pop_front() {
            if next == name {
                return true;
            }
            let package = packages.iter().find(|package| package.name == next);
            for needed in package.iter().flat_map(|package| &package.depends) {
                let needed = name_of_spec(needed).to_lowercase();
                if seen.insert(needed.clone()) {
                    left.push_back(needed);
                }
            }
        }
        false
    };
    asked.into_iter().find(|asked| leads_to(&asked.to_lowercase()))
}

impl Session<'_> {
    /// Adds the changes between the halves that have a solution.
    pub(super) fn add_ways_between(&mut self, conflict: &mut Conflict, asked: &Asked<'_>) {
        let mut found = Vec::new();
        for spec in &asked.request.conda.specs {
            let name = spec.name().to_lowercase();
            let is_party = conflict
                .reasons
                .iter()
                .flat_map(|reason| &reason.parties)
                .any(|party| party.as_str() == name);
            let of_pypi = asked.request.conda.channels.iter().find_map(|channel| pypi_name(channel, &name));
            let (true, None, Some(package)) = (is_party, framework_of(&name), of_pypi) else { continue };
            let mut request = asked.request.clone();
            request.conda.specs.retain(|own| own.text != spec.text);
            let requirement = UserRequirement::parse(&package, Origin::Question);
            request.requirements.extend(requirement.ok());
            let change = Change::FromPypi(package.clone());
            found.extend(self.way_between(asked, &request, change, Party::package(package)));
        }
        let names_stack = asked.request.conda.specs.iter().any(|spec| framework_of(spec.name()).is_some());
        if asked.request.conda.stack.is_some() && !names_stack {
            let mut request = asked.request.clone();
            request.conda.stack = None;
            request.conda.stack_of_targets = BTreeMap::new();
            found.extend(self.way_between(
                asked,
                &request,
                Change::StackFrom("pypi".to_owned()),
                Party::Index,
            ));
        }
        match conflict.also.is_empty() {
            true => conflict.would_work_if.extend(found),
            false => conflict.resolves_all.extend(found),
        }
    }

    /// A change of the request as a way out, if the changed request has a solution.
    fn way_between(
        &mut self,
        asked: &Asked<'_>,
        request: &Request,
        change: Change,
        party: Party,
    ) -> Option<WayOut> {
        let changed = Asked { request, ..*asked };
        let answer = match request.conda.is_empty() {
            true => self.solve(asked.host, request, asked.preferences),
            false => self.both(&changed),
        };
        let Ok(Answer::Solution(solution)) = answer else { return None };
        Some(solution.reached_by(change, party, Level::Full))
    }
}

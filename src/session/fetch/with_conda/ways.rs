//! Ways out of a conflict between the halves: a package from PyPI and not from conda, and the stack from PyPI.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::{Purpose, Session};
use crate::conda::Records;
use crate::model::conda::{CondaSpec, is_python_package, name_of_spec};
use crate::model::conflict::{Change, Conflict, Party, WayOut};
use crate::model::level::Level;
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::solution::{Answer, Solution};
use crate::model::source::CondaPackage;
use crate::registry::conda_names::{framework_of, pypi_name};
use crate::solver::Question;

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
    pub(super) fn add_ways_between(&mut self, conflict: &mut Conflict, asked: &Question<'_>) {
        let mut found = Vec::new();
        let records = self.records(&asked.request, asked.host.system.platform).ok();
        for spec in &asked.request.conda.specs {
            let name = spec.name().to_lowercase();
            let is_party = conflict
                .reasons
                .iter()
                .flat_map(|reason| &reason.parties)
                .any(|party| party.as_str() == name);
            // What is no Python package in the channel is another program than PyPI's of that name.
            let is_python = |records: &Rc<Records>| records.of(&name).iter().any(is_python_package);
            let of_pypi = asked.request.conda.channels.iter().find_map(|channel| pypi_name(channel, &name));
            let of_pypi = of_pypi.filter(|_| records.as_ref().is_some_and(is_python));
            let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && !name.starts_with('_');
            let (true, true, None, Some(package)) = (is_party, is_plain, framework_of(&name), of_pypi) else {
                continue;
            };
            let mut request = asked.request.clone().into_owned();
            request.conda.specs.retain(|own| own.text != spec.text);
            let requirement = UserRequirement::parse(&package, Origin::Question);
            request.requirements.extend(requirement.ok());
            let change = Change::FromPypi(package.clone());
            let way = self.solved_between(asked, &request);
            // conda installs it all the same where another of its packages needs it.
            let way = way.filter(|solution| solution.packages.iter().any(|own| own.name == package));
            found.extend(
                way.map(|solution| solution.reached_by(change, Party::package(package), Level::Full)),
            );
        }
        self.add_ways_of_conda(conflict, asked, &mut found);
        let names_stack = asked.request.conda.specs.iter().any(|spec| framework_of(spec.name()).is_some());
        if asked.request.conda.stack.is_some() && !names_stack {
            let mut request = asked.request.clone().into_owned();
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

    /// Adds another release of what is asked of conda, the request without it, and without a constraint, where they are
    /// parties of a conflict and nothing else about them is a way out.
    fn add_ways_of_conda(&mut self, conflict: &Conflict, asked: &Question<'_>, found: &mut Vec<WayOut>) {
        let is_party = |name: &str| {
            let mut parties = conflict.reasons.iter().flat_map(|reason| &reason.parties);
            parties.any(|party| party.as_str() == name)
        };
        let known = conflict.would_work_if.iter().chain(&conflict.resolves_all);
        let known: BTreeSet<String> = known.map(|way| way.party.as_str().to_owned()).collect();
        let specs = &asked.request.conda.specs;
        let names: BTreeSet<String> = specs.iter().map(|spec| spec.name().to_lowercase()).collect();
        for name in names.iter().filter(|name| is_party(name) && !known.contains(*name)) {
            if framework_of(name).is_some() || name.starts_with("__") {
                continue;
            }
            let mut without = asked.request.clone().into_owned();
            without.conda.specs.retain(|spec| spec.name().to_lowercase() != *name);
            let mut any = without.clone();
            any.conda.specs.extend(
                specs
                    .iter()
                    .find(|spec| spec.name().to_lowercase() == *name)
                    .map(|spec| CondaSpec { text: name.clone(), origin: spec.origin.clone() }),
            );
            let party = Party::package(name.as_str());
            let is_bounded =
                specs.iter().any(|spec| spec.name().to_lowercase() == *name && spec.text != *name);
            let solution = is_bounded.then(|| self.solved_between(asked, &any)).flatten();
            if let Some(solution) = solution {
                let release = solution.conda.iter().find(|package| package.name == *name);
                let releases = release.map(|package| package.version.clone()).unwrap_or_default();
                let change = Change::Series { package: name.clone(), releases };
                found.push(solution.reached_by(change, party, Level::Full));
            } else {
                found.extend(self.way_between(asked, &without, Change::WithoutRequest(name.clone()), party));
            }
        }
        for bound in &asked.request.constraints {
            let name = bound.name();
            let change = Change::WithoutConstraint(Box::new(bound.clone()));
            let ways = conflict.would_work_if.iter().chain(&conflict.resolves_all);
            if !is_party(name) || ways.into_iter().any(|way| way.change == change) {
                continue;
            }
            let mut request = asked.request.clone().into_owned();
            request.constraints.retain(|own| own.requirement != bound.requirement);
            found.extend(self.way_between(asked, &request, change, Party::package(name)));
        }
    }

    /// A change of the request as a way out, if the changed request has a solution.
    fn way_between(
        &mut self,
        asked: &Question<'_>,
        request: &Request,
        change: Change,
        party: Party,
    ) -> Option<WayOut> {
        let solution = self.solved_between(asked, request)?;
        Some(solution.reached_by(change, party, Level::Full))
    }

    /// The solution of a changed request, over both halves where it asks for conda packages.
    fn solved_between(&mut self, asked: &Question<'_>, request: &Request) -> Option<Box<Solution>> {
        let changed = asked.with_request(request);
        let answer = match request.conda.is_empty() {
            true => self.solve(&asked.with_request(request)),
            false => self.for_purpose(Purpose::Way, |session| session.both(&changed)),
        };
        let Ok(Answer::Solution(solution)) = answer else { return None };
        Some(solution)
    }
}

//! Ways out of a conflict were solved for one of the halves: here they are solved for both.

use pep440_rs::Version;
use pep508_rs::VersionOrUrl;

use super::{Purpose, Session};
use crate::model::conflict::{Change, Conflict, Party, WayOut};
use crate::model::host::{Driver, FoundBy, Host};
use crate::model::level::Level;
use crate::model::limit::Limit;
use crate::model::request::{Origin, Request, UserRequirement};
use crate::model::solution::{Answer, Solution};
use crate::model::text::clean;
use crate::registry::conda_names::pypi_name;
use crate::solver::Question;

impl Session<'_> {
    /// Keeps the ways out that both halves have an answer for, with the releases of that answer. One that cannot be tried is
    /// a way out for the stack alone.
    pub(super) fn check_over_both(&mut self, conflict: &mut Conflict, asked: &Question<'_>) {
        // Of several causes, the changes for one leave the others.
        let ways = match conflict.also.is_empty() {
            true => &mut conflict.would_work_if,
            false => &mut conflict.resolves_all,
        };
        let unchecked = std::mem::take(ways);
        let mut checked: Vec<WayOut> = Vec::new();
        for way in unchecked {
            let way = self.over_both(way, asked);
            checked.extend(way.filter(|way| !checked.iter().any(|own| own.change == way.change)));
        }
        *ways = checked;
    }

    /// Several changes together, if both halves have an answer with them.
    pub(super) fn all_over_both(&mut self, ways: &[WayOut], asked: &Question<'_>) -> Option<WayOut> {
        let solution = self.with_changes(ways, asked)??;
        let mut changes: Vec<Change> = Vec::new();
        for way in ways {
            let change = of_solution(way.change.clone(), &solution);
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
        let change = Change::Together(changes);
        Some(solution.reached_by(change, ways.first()?.party.clone(), Level::Full))
    }

    fn over_both(&mut self, way: WayOut, asked: &Question<'_>) -> Option<WayOut> {
        let Some(solution) = self.with_changes(std::slice::from_ref(&way), asked) else {
            return Some(WayOut { level: Level::Stack, ..way });
        };
        let solution = solution?;
        let change = of_solution(way.change, &solution);
        Some(WayOut { set: way.set, ..solution.reached_by(change, way.party, Level::Full) })
    }

    /// The solution over both halves with some changes, if there is one; the outer value is `None` where one cannot be made
    /// here.
    fn with_changes(&mut self, ways: &[WayOut], asked: &Question<'_>) -> Option<Option<Box<Solution>>> {
        let mut changed = (asked.host.clone().into_owned(), asked.request.clone().into_owned());
        if !ways.iter().all(|way| apply(&way.change, &way.party, &mut changed)) {
            return None;
        }
        let (host, request) = changed;
        let changed = Question::new(&host, &request, &asked.preferences);
        match self.for_purpose(Purpose::Way, |session| session.both(&changed)) {
            Ok(Answer::Solution(solution)) => Some(Some(solution)),
            _ => Some(None),
        }
    }
}

/// Makes a change, or lets go of what it replaces. `false`: it cannot be made here.
fn apply(change: &Change, party: &Party, changed: &mut (Host, Request)) -> bool {
    let (host, request) = &mut *changed;
    match change {
        Change::Driver(version) => {
            let found_by = FoundBy::Source("a way out".to_owned());
            host.driver = Some(Driver { version: version.clone(), cuda: None, compat: None, found_by });
        }
        Change::Below { package, .. } | Change::Release { package, .. } | Change::Series { package, .. } => {
            let is_own = |user: &&mut UserRequirement| user.name() == package.as_str();
            let mut is_changed = false;
            if package == "python" && request.python.is_some() {
                request.python = None;
                is_changed = true;
            }
            for spec in request.conda.specs.iter_mut().filter(|spec| spec.name() == package) {
                is_changed |= spec.text != *package;
                spec.text.clone_from(package);
            }
            // The line of the half that is at fault, not that of the other one.
            if is_changed {
                return true;
            }
            for user in request.requirements.iter_mut().filter(is_own) {
                if let Some(VersionOrUrl::VersionSpecifier(_)) = user.requirement.version_or_url.take() {
                    is_changed = true;
                }
            }
            return is_changed;
        }
        Change::WithoutRequest(name) => {
            let before = request.requirements.len() + request.conda.specs.len();
            let is_meant = |user: &UserRequirement| {
                user.name() == name.as_str() || clean(&user.requirement.to_string(), 60) == *name
            };
            request.requirements.retain(|user| !is_meant(user));
            request.conda.specs.retain(|spec| spec.text != *name && spec.name() != name);
            let is_changed = before != request.requirements.len() + request.conda.specs.len();
            // The stack that it asked for is still asked for.
            if let Party::Package(asked_for) = party
                && asked_for == crate::registry::conda_builds::PYTORCH
            {
                let torch = UserRequirement::parse("torch", Origin::Question);
                request.requirements.extend(torch.ok());
            }
            return is_changed;
        }
        Change::FromChannel { channel, spec } => {
            let mut own = request.conda.specs.iter_mut().filter(|own| own.text == *spec);
            let Some(own) = own.next() else { return false };
            own.text = format!("{channel}::{spec}");
        }
        Change::WithoutConstraint(meant) => request.constraints.retain(|bound| bound != &**meant),
        Change::WithoutOverride(text) => {
            request.overrides.retain(|own| clean(&own.requirement.to_string(), 60) != *text);
        }
        Change::AllowSources => request.no_sources = None,
        Change::WithoutLimit { what: "cuda", .. } => request.cuda = None,
        Change::WithoutLimit { what: "cudnn", .. } => request.cudnn = None,
        Change::WithoutLimit { what: "nccl", .. } => request.nccl = None,
        Change::WithoutLimit { what: "exclude-newer", .. } => request.exclude_newer.general = None,
        Change::Variant(name) => {
            request.variant = Some(Limit { value: name.clone(), origin: Origin::Question });
        }
        Change::OtherVariant(_) => request.variant = None,
        Change::AllowCompatibilityMode => request.native_driver_only = None,
        Change::Python(_) => request.python = None,
        // Both halves together may need a newer one: what the answer needs is told.
        Change::Glibc(_) => host.system.libc = None,
        Change::Together(changes) => return changes.iter().all(|one| apply(one, party, changed)),
        Change::WithoutLimit { .. }
        | Change::CudaCompat { .. }
        | Change::Extras { .. }
        | Change::WithoutExtra { .. }
        | Change::AllowIndexes(_)
        | Change::FromPypi(_)
        | Change::StackFrom(_)
        | Change::OnlyGpus { .. }
        | Change::OtherGpu(_) => return false,
    }
    true
}

/// The change with the releases that a solution has.
fn of_solution(change: Change, solution: &Solution) -> Change {
    match change {
        Change::Release { package, .. } | Change::Series { package, .. } if package == "python" => {
            Change::Python(solution.python)
        }
        Change::Release { package, .. } => match release_in(&package, solution) {
            Some(version) => Change::Release { package, version },
            None => Change::WithoutRequest(package),
        },
        Change::Below { package, version } => match release_in(&package, solution) {
            Some(found) if found >= version => Change::Release { package, version: found },
            _ => Change::Below { package, version },
        },
        Change::Series { package, releases } => match release_in(&package, solution) {
            Some(version) if !is_of_series(&releases, &version) => Change::Release { package, version },
            _ => Change::Series { package, releases },
        },
        Change::Variant(name) => {
            Change::Variant(solution.stack.as_ref().map_or(name, |stack| stack.variant.clone()))
        }
        Change::Python(_) => Change::Python(solution.python),
        Change::Glibc(floor) => Change::Glibc(solution.envelope.glibc.clone().unwrap_or(floor)),
        Change::Together(changes) => {
            Change::Together(changes.into_iter().map(|one| of_solution(one, solution)).collect())
        }
        change => change,
    }
}

fn is_of_series(releases: &str, version: &Version) -> bool {
    format!("=={releases}").parse().is_ok_and(|bounds: pep440_rs::VersionSpecifiers| bounds.contains(version))
}

/// The release of a package in a solution, from PyPI, a companion of the stack, or from conda.
fn release_in(package: &str, solution: &Solution) -> Option<Version> {
    let of_stack = solution.stack.as_ref().and_then(|stack| match stack.framework == package {
        true => Some(stack.version.clone()),
        false => stack.companions.get(package).cloned(),
    });
    let of_pypi = || solution.packages.iter().find(|own| own.name == package).map(|own| own.version.clone());
    let of_conda = || {
        let is_it = |name: &str, channel: &str| pypi_name(channel, name).is_some_and(|own| own == package);
        let found = solution.conda.iter().find(|own| is_it(&own.name, &own.channel));
        found.and_then(|own| own.version.parse().ok())
    };
    of_stack.or_else(of_pypi).or_else(of_conda)
}

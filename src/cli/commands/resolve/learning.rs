//! Releases of torch and its companions that the index has and the registry does not: read from their wheels.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::VersionOrUrl;

use super::machines::Machine;
use super::task::Task;
use crate::cli::error::{CliError, Failure};
use crate::cli::kept;
use crate::cli::learning;
use crate::compatibility::{Policy, required_driver};
use crate::index::IndexClient;
use crate::learn::{self, Kept, Learned};
use crate::model::conflict::Party;
use crate::model::platform::Platform;
use crate::model::request::{Preferences, Request};
use crate::model::solution::{Answer, ChosenPackage, Solution};
use crate::registry::Registry;
use crate::registry::STACK_PACKAGES;
use crate::solver::solve_stack;

/// The registry with the newest releases of the stack that only the index has; `None` if the registry has them.
pub(super) fn extended(
    task: &Task<'_>,
    client: &IndexClient,
    registry: &Registry,
) -> Result<Option<Registry>, CliError> {
    let &Task { request, printer, .. } = task;
    if !allows_pypi(request) {
        return Ok(None);
    }
    let learner = Learner { task, client, registry };
    let mut rows: Vec<(String, String)> = Vec::new();
    for (machine, preferences) in task.machines.iter().zip(task.preferences) {
        let platform = machine.host.system.platform;
        if fails_because_of_driver(registry, machine, request, preferences) {
            continue;
        }
        for name in STACK_PACKAGES.iter().filter(|name| request.find(name).is_some()) {
            match learner.row(name, platform, preferences.versions.get(*name)) {
                Ok(Some(row)) if !rows.contains(&row) => rows.push(row),
                Ok(_) => {}
                // A locked release must not be dropped because its wheel cannot be read.
                Err(error) if preferences.versions.contains_key(*name) => return Err(error),
                // The builds in the registry can still be used.
                Err(error) => printer.warning(&error.message),
            }
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    Ok(match registry.with_rows(&rows) {
        Ok(extended) => Some(extended),
        Err(why) => {
            printer.warning(&format!("the data read from wheels does not fit the registry: {why}"));
            None
        }
    })
}

/// The registry with the GPU code of small wheels that were just chosen and that no row describes, so that GPUs are
/// checked against them and the envelope includes them. `None` if there are none. Larger wheels are read on request,
/// by `registry learn`.
pub(super) fn with_code_of_companions(
    task: &Task<'_>,
    client: &IndexClient,
    solutions: &[Solution],
    registry: &Registry,
) -> Option<Registry> {
    let mut rows: Vec<(String, String)> = Vec::new();
    for solution in solutions {
        for package in learn::unread(solution, registry) {
            let row = companion_row(task, client, package, solution.platform);
            rows.extend(row.filter(|row| !rows.contains(row)));
        }
    }
    if rows.is_empty() { None } else { registry.with_rows(&rows).ok() }
}

fn companion_row(
    task: &Task<'_>,
    client: &IndexClient,
    package: &ChosenPackage,
    platform: Platform,
) -> Option<(String, String)> {
    let &Task { global, printer, .. } = task;
    let version = &package.version;
    let file = package.files.first()?;
    let place = kept::store(global).place(&package.name, version, platform);
    match place.read() {
        Kept::Row(row) => return Some(row),
        Kept::NoCode => return None,
        Kept::Nothing if global.offline => {
            printer.note(&format!(
                "{} {version} may have GPU code, but its wheel cannot be read with `--offline`; it is not checked",
                package.name
            ));
            return None;
        }
        Kept::Nothing => {}
    }
    let page = learning::page(client, &package.name).ok().flatten()?;
    let found = page.find(&file.name)?;
    match learning::address(client, &found.url, &file.name, file.size, platform, printer) {
        Ok(learned) => {
            let row = learn::render(&learned);
            place.keep(Some(&row));
            Some((learn::file_of_release(&package.name, version), row))
        }
        Err(error) => {
            // A wheel that cannot be read is not checked, like one that was not read.
            if error.code == Failure::NoCode {
                place.keep(None);
            }
            None
        }
    }
}

/// Whether the request fails because of the driver. Then no newer release helps, and the index is not queried.
fn fails_because_of_driver(
    registry: &Registry,
    machine: &Machine,
    request: &Request,
    preferences: &Preferences,
) -> bool {
    match solve_stack(registry, &machine.host, request, preferences) {
        Answer::Conflict(conflict) => {
            conflict.reasons.iter().any(|reason| reason.parties.contains(&Party::Driver))
        }
        _ => false,
    }
}

fn allows_pypi(request: &Request) -> bool {
    request.only_index.as_ref().is_none_or(|only| only.value.admits("pypi"))
}

struct Learner<'a> {
    task: &'a Task<'a>,
    client: &'a IndexClient,
    registry: &'a Registry,
}

impl Learner<'_> {
    /// Registry file and row of the newest release that the registry does not have, or of the locked release.
    fn row(
        &self,
        name: &str,
        platform: Platform,
        locked: Option<&Version>,
    ) -> Result<Option<(String, String)>, CliError> {
        let newest_known = self.registry.newest_release(name, platform);
        let locked = locked.map(|version| version.clone().without_local());
        if locked.as_ref().is_some_and(|locked| Some(locked) <= newest_known.as_ref()) {
            return Ok(None);
        }
        if let Some(locked) = &locked
            && let Some(row) = kept::store(self.task.global).place(name, locked, platform).row()
        {
            return Ok(Some(row));
        }
        if self.task.global.offline || (self.task.args.no_learn && locked.is_some()) {
            return match locked {
                None => Ok(None),
                Some(locked) => Err(CliError::new(Failure::UnknownRow, format!("the lock has {name} {locked}, which the registry does not know, and reading its wheel is disabled"),
                )
                .hint("run once without `--offline` and `--no-learn`, or replace it with `--upgrade`")),
            };
        }
        // The solve reports an index that does not answer.
        let Ok(Some(page)) = learning::page(self.client, name) else { return Ok(None) };
        let wanted = match &locked {
            Some(locked) => Some(
                format!("=={locked}")
                    .parse::<VersionSpecifiers>()
                    .map_err(|e| CliError::lock(format!("`{locked}` is not a valid version: {e}")))?,
            ),
            None => self.specifiers(name),
        };
        let Some((release, file)) = page.newest_for(platform, wanted.as_ref()) else {
            return Ok(None);
        };
        let version = release.version.clone();
        if version.any_prerelease() || Some(&version) <= newest_known.as_ref() {
            return Ok(None);
        }
        if self.task.args.no_learn {
            self.task.printer.note(&format!(
                "the index has {name} {version}, which the registry does not know; without `--no-learn` it would be read from its wheel"
            ));
            return Ok(None);
        }
        let place = kept::store(self.task.global).place(name, &version, platform);
        let row = match place.row() {
            Some(row) => row,
            None => {
                let learned =
                    learning::release(self.client, &page, (release, file), platform, self.task.printer)?;
                if let Some(cuda) = self.unknown_cuda(&learned) {
                    self.task.printer.note(&format!(
                        "{name} {version} is skipped: the registry does not know which driver its CUDA {cuda} needs"
                    ));
                    return Ok(None);
                }
                let row = learn::render(&learned);
                place.keep(Some(&row));
                (learn::file_of(&learned), row)
            }
        };
        self.task.printer.note(&format!(
            "{name} {version} is newer than the registry: its compatibility data was read from its wheel"
        ));
        Ok(Some(row))
    }

    /// The CUDA version of a release, if the registry has no driver floor for it.
    fn unknown_cuda(&self, learned: &Learned) -> Option<String> {
        let text = learned.cuda.clone()?;
        let cuda = crate::model::version::cuda_version(&text).ok();
        let os = learned.platform.os;
        let floor = cuda.and_then(|cuda| required_driver(self.registry, &cuda, os, Policy::Minor));
        floor.is_none().then_some(text)
    }

    fn specifiers(&self, name: &str) -> Option<VersionSpecifiers> {
        match &self.task.request.find(name)?.requirement.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers.clone()),
            _ => None,
        }
    }
}

//! A release of torch that the index has and the registry does not: yesterday's binary reads it out of the wheel.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::VersionOrUrl;

use super::machines::Machine;
use crate::cli::args::{GlobalArgs, SolveArgs};
use crate::cli::error::{CliError, Failure};
use crate::cli::kept;
use crate::cli::learning;
use crate::cli::printer::Printer;
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

/// The registry with the newest releases of the stack that the index has and it has not; nothing where it has all.
pub(super) fn extended(
    global: &GlobalArgs,
    args: &SolveArgs,
    client: &IndexClient,
    request: &Request,
    (machines, preferences): (&[Machine], &[Preferences]),
    registry: &Registry,
    printer: &Printer,
) -> Result<Option<Registry>, CliError> {
    if !allows_pypi(request) {
        return Ok(None);
    }
    let learner = Learner { global, args, client, request, registry, printer };
    let mut rows: Vec<(String, String)> = Vec::new();
    for (machine, preferences) in machines.iter().zip(preferences) {
        let platform = machine.host.system.platform;
        if is_the_drivers(registry, machine, request, preferences) {
            continue;
        }
        for name in STACK_PACKAGES.iter().filter(|name| request.find(name).is_some()) {
            match learner.row(name, platform, preferences.versions.get(*name)) {
                Ok(Some(row)) if !rows.contains(&row) => rows.push(row),
                Ok(_) => {}
                // What the lock names must not be lost over it.
                Err(error) if preferences.versions.contains_key(*name) => return Err(error),
                // The registry's own builds are there all the same.
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
            printer.warning(&format!("what was learned does not fit the registry: {why}"));
            None
        }
    })
}

/// The registry with the code for GPUs of small wheels that were just chosen and that nobody has read: then GPUs are
/// held against them too, and the envelope says it. Nothing where there is none. What is larger is read on request, by
/// `registry learn`.
pub(super) fn with_code_of_companions(
    global: &GlobalArgs,
    client: &IndexClient,
    solutions: &[Solution],
    registry: &Registry,
    printer: &Printer,
) -> Option<Registry> {
    let mut rows: Vec<(String, String)> = Vec::new();
    for solution in solutions {
        for package in learn::unread(solution, registry) {
            let row = companion_row(global, client, package, solution.platform, printer);
            rows.extend(row.filter(|row| !rows.contains(row)));
        }
    }
    if rows.is_empty() { None } else { registry.with_rows(&rows).ok() }
}

fn companion_row(
    global: &GlobalArgs,
    client: &IndexClient,
    package: &ChosenPackage,
    platform: Platform,
    printer: &Printer,
) -> Option<(String, String)> {
    let version = &package.version;
    let file = package.files.first()?;
    let place = kept::store(global).place(&package.name, version, platform);
    match place.read() {
        Kept::Row(row) => return Some(row),
        Kept::NoCode => return None,
        Kept::Nothing if global.offline => {
            printer.note(&format!(
                "{} {version} may have code for GPUs, and its wheel cannot be read `--offline`: it is not judged",
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
            // What cannot be read is not judged, as if nobody had tried.
            if error.code == Failure::NoCode {
                place.keep(None);
            }
            None
        }
    }
}

/// Whether the driver is what stands against the request: then no newer release helps, and no index is asked.
fn is_the_drivers(
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
    request.only_index.as_ref().is_none_or(|only| only.value == "pypi")
}

struct Learner<'a> {
    global: &'a GlobalArgs,
    args: &'a SolveArgs,
    client: &'a IndexClient,
    request: &'a Request,
    registry: &'a Registry,
    printer: &'a Printer,
}

impl Learner<'_> {
    /// The file and the row of the newest release that the registry does not have; of the locked one, where there is one.
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
            && let Some(row) = kept::store(self.global).place(name, locked, platform).row()
        {
            return Ok(Some(row));
        }
        if self.global.offline || (self.args.no_learn && locked.is_some()) {
            return match locked {
                None => Ok(None),
                Some(locked) => Err(CliError::new(Failure::UnknownRow, format!("the lock has {name} {locked}, which the registry does not know, and it may not be read now"),
                )
                .hint("run once without `--offline` and `--no-learn`, or let go of it with `--upgrade`")),
            };
        }
        // An index that does not answer is the solve's to report.
        let Ok(Some(page)) = learning::page(self.client, name) else { return Ok(None) };
        let wanted = match &locked {
            Some(locked) => Some(
                format!("=={locked}")
                    .parse::<VersionSpecifiers>()
                    .map_err(|e| CliError::lock(format!("`{locked}` is no version: {e}")))?,
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
        if self.args.no_learn {
            self.printer.note(&format!(
                "the index has {name} {version}, which the registry does not know; without `--no-learn` it would be read from its wheel"
            ));
            return Ok(None);
        }
        let place = kept::store(self.global).place(name, &version, platform);
        let row = match place.row() {
            Some(row) => row,
            None => {
                let learned = learning::release(self.client, &page, (release, file), platform, self.printer)?;
                if let Some(cuda) = self.unknown_cuda(&learned) {
                    self.printer.note(&format!(
                        "{name} {version} is built with CUDA {cuda}, and which driver that needs the registry does not know: it is left out"
                    ));
                    return Ok(None);
                }
                let row = learn::render(&learned);
                place.keep(Some(&row));
                (learn::file_of(&learned), row)
            }
        };
        self.printer.note(&format!(
            "{name} {version} is newer than the registry: what it needs was read from its wheel"
        ));
        Ok(Some(row))
    }

    /// The CUDA of a release where no driver's floor is known for it.
    fn unknown_cuda(&self, learned: &Learned) -> Option<String> {
        let text = learned.cuda.clone()?;
        let cuda = crate::model::version::cuda_version(&text).ok();
        let os = learned.platform.os;
        let floor = cuda.and_then(|cuda| required_driver(self.registry, &cuda, os, Policy::Minor));
        floor.is_none().then_some(text)
    }

    fn specifiers(&self, name: &str) -> Option<VersionSpecifiers> {
        match &self.request.find(name)?.requirement.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers.clone()),
            _ => None,
        }
    }
}

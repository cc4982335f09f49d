//! What changed on a machine since a host file was saved.

use std::path::{Path, PathBuf};

use super::chosen_host;
use super::failure::Failure;
use super::options::Global;
use super::project_lock;
use super::settings::Project;
use super::variables;
use crate::drift::{self, Broken, Change};
use crate::inspect::{self, ThisMachine};
use crate::lockfile::Lockfile;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::model::saved_host::{LoaderFacts, SavedHost, Unstated, VARIABLES};
use crate::model::text::clean;
use crate::registry::Registry;
use crate::verify::{self, Facts, Locked, Verdict};

/// The changes between two host files, or one and this machine as it is now, whether or not there is a lock. `prefix`: the
/// environment to compare with the one that the old file keeps.
///
/// # Errors
/// When a file, the lock or the environment cannot be read, or an environment is named for a saved machine.
pub(crate) fn changes(
    global: &Global,
    old: &Path,
    new: Option<&Path>,
    prefix: Option<&Path>,
) -> Result<Vec<Change>, Failure> {
    if new.is_some() && prefix.is_some() {
        return Err(Failure::usage(
            "`--prefix` names an environment of this machine, not of a saved host file",
        )
        .hint("without NEW, the machine as it is now is compared"));
    }
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let mut before = chosen_host::read_saved_host(old)?;
    let mut gone = None;
    let after = match new {
        Some(path) => chosen_host::read_saved_host(path)?,
        None => {
            // The environment that was kept is looked at again.
            let kept = before.environment.as_mut().map(|environment| {
                let prefix = canonical(Path::new(&environment.prefix));
                environment.prefix = prefix.display().to_string();
                prefix
            });
            let asked = prefix.map(Path::to_path_buf).or_else(|| kept.clone());
            if prefix.is_none() {
                gone = kept.filter(|prefix| !prefix.is_dir());
            }
            now(chosen_host::seen(), asked.as_deref().filter(|_| gone.is_none()))?
        }
    };
    let lock = project_lock::read(&project)?;
    let broken = lock.as_ref().and_then(|lock| broken(lock, &before.host, &after.host, &registry));
    let mut changes = drift::between(&before, &after, broken.as_ref());
    if let Some(prefix) = gone {
        changes.insert(0, drift::environment_gone(&prefix.display().to_string()));
    }
    Ok(changes)
}

/// This machine with all that a host file keeps. `prefix`: the environment.
///
/// # Errors
/// When the environment cannot be read.
pub(crate) fn now(host: Host, prefix: Option<&Path>) -> Result<SavedHost, Failure> {
    let root = chosen_host::root();
    let machine = host.system.platform.arch_name();
    let variables = VARIABLES.iter().filter_map(|name| {
        let value = variables::raw(name)?.to_string_lossy().into_owned();
        // Empty lists of folders are none; an empty list of GPUs hides all.
        (!value.is_empty() || name.ends_with("_VISIBLE_DEVICES"))
            .then(|| ((*name).to_owned(), clean(&value, 8_192)))
    });
    let loader = LoaderFacts {
        variables: variables.collect(),
        libraries: inspect::libraries_of_cuda(&ThisMachine, &root, machine),
    };
    let environment = match prefix {
        None => None,
        Some(prefix) => {
            // The same environment whatever folder the command is run in.
            let prefix = canonical(prefix);
            let installed = inspect::read(&ThisMachine, &prefix, inspect::Depth::Sizes)
                .map_err(|error| Failure::input(error.to_string()))?;
            Some(inspect::environment_facts(&ThisMachine, &installed))
        }
    };
    Ok(SavedHost {
        host,
        loader: Some(loader),
        environment,
        modes: chosen_host::modes(),
        unstated: Unstated::default(),
    })
}

/// The folder without links, or as it is written if it does not exist.
fn canonical(folder: &Path) -> PathBuf {
    let absolute = || std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    fs_err::canonicalize(folder).unwrap_or_else(|_| absolute())
}

/// Why the lock does not run on the machine as it is, if it certainly ran there before.
fn broken(lock: &Lockfile, before: &Host, after: &Host, registry: &Registry) -> Option<Broken> {
    let all: Vec<Locked<'_>> =
        lock.targets.iter().map(|target| project_lock::locked(lock, target, registry)).collect();
    let findings = |machine: &Host| -> Option<Vec<Vec<Finding>>> {
        let machine = chosen_host::finish(machine.clone(), registry).ok()?;
        let of = |locked: &Locked<'_>| {
            let areas = verify::judge(&Facts::of_lock(locked, registry).on(&machine));
            areas.into_iter().flat_map(|area| area.findings).collect()
        };
        Some(all.iter().map(of).collect())
    };
    if !findings(before)?.iter().any(|found| Verdict::of(found, false) == Verdict::Ok) {
        return None;
    }
    if let Err(why) = chosen_host::finish(after.clone(), registry) {
        let fact = if after.system.libc != before.system.libc { "libc" } else { "driver" };
        return Some(Broken { fact, why: why.message });
    }
    // A lock runs where one of its targets does.
    let error = |found: Vec<Finding>| found.into_iter().find(|one| one.severity == Severity::Error);
    let errors: Option<Vec<Finding>> = findings(after)?.into_iter().map(error).collect();
    let first = errors?.into_iter().next()?;
    let fact = match first.code {
        Code::DriverTooOld | Code::DriverTooNew => "driver",
        Code::GpuNotCovered => "gpus",
        Code::LibcTooOld => "libc",
        Code::WrongPlatform => "platform",
        _ => "machine",
    };
    Some(Broken { fact, why: first.message })
}

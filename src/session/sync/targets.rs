//! Which target of the lock is installed.

use super::target_environment;
use super::types::SyncOptions;
use crate::inspect;
use crate::lockfile::{Lockfile, Target};
use crate::model::level::Level;
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::settings::Project;
use crate::session::{chosen_host, project_lock};
use crate::verify::{self, Facts};

/// The target to install, and why it is this one.
pub(super) struct Choice<'l> {
    pub target: &'l Target,
    why: Why,
}

/// Why a target is chosen.
#[derive(Clone, Copy)]
enum Why {
    /// It is named, or the only one.
    Asked,
    /// It was locked for a machine like this one.
    Machine,
    /// None was locked for a machine like this one, and the environment has its packages.
    Environment,
    /// None was locked for a machine like this one, and there is no environment yet.
    First,
}

impl Choice<'_> {
    /// Why it was chosen, where there was a choice.
    pub fn why(&self) -> Option<&'static str> {
        match self.why {
            Why::Asked => None,
            Why::Machine => Some("the one for a machine like this one"),
            Why::Environment => {
                Some("none was locked for a machine like this one, and the environment has its packages")
            }
            Why::First => Some("none was locked for a machine like this one, and it is the first"),
        }
    }
}

/// The named target; else of those that run on this machine the one for a machine with the same GPUs, the nearest driver
/// first; else the one that the environment was installed from, so that it is not made again for another machine; else the
/// first for its platform.
///
/// # Errors
/// When the target is not there, not for this platform, or has no packages.
pub(super) fn choose<'l>(
    lock: &'l Lockfile,
    options: &SyncOptions,
    project: &Project,
    registry: &Registry,
) -> Result<Choice<'l>, Failure> {
    let machine = chosen_host::seen();
    let here = machine.system.platform;
    let refused = |target: &Target| {
        Failure::usage(format!("the target `{}` is for {}, and this is {here}", target.name, target.platform))
            .hint("lock for this machine too: add a `[target.NAME]` to envlock.toml, then `envlock resolve`")
    };
    let of_platform = |target: &&Target| target.platform == here;
    let chosen = match options.target.as_deref() {
        Some(name) => Choice { target: project_lock::target(lock, Some(name))?, why: Why::Asked },
        None => {
            let fitting: Vec<&Target> = lock.targets.iter().filter(of_platform).collect();
            let Some(first) = fitting.first() else { return Err(refused(&lock.targets[0])) };
            let machine = chosen_host::filled(machine, registry).ok();
            let runs = |target: &&&Target| {
                machine.as_ref().is_some_and(|machine| {
                    let locked = project_lock::locked(lock, target, registry);
                    !verify::has_errors(&verify::judge(&Facts::of_lock(&locked, registry).on(machine)))
                })
            };
            let is_like =
                |target: &&&Target| machine.as_ref().is_some_and(|machine| !target.host.distance(machine).0);
            let running = fitting.iter().filter(runs);
            let nearest = running
                .clone()
                .filter(is_like)
                .min_by_key(|target| target.host.distance(machine.as_ref().unwrap_or(&target.host)));
            match (fitting.as_slice(), nearest) {
                ([only], _) => Choice { target: only, why: Why::Asked },
                (_, Some(nearest)) => Choice { target: nearest, why: Why::Machine },
                _ => match of_environment(lock, options, project).filter(|target| of_platform(target)) {
                    Some(target) => Choice { target, why: Why::Environment },
                    None => Choice { target: running.clone().next().unwrap_or(first), why: Why::First },
                },
            }
        }
    };
    match (of_platform(&chosen.target), chosen.target.level) {
        (false, _) => Err(refused(chosen.target)),
        (true, Level::Stack) if lock.packages_in.is_some() => Ok(chosen),
        (true, Level::Stack) => Err(crate::formats::write::ExportError::StackOnly.into()),
        (true, Level::Full) => Ok(chosen),
    }
}

/// The target that the environment was most likely installed from, if there is an environment.
fn of_environment<'l>(lock: &'l Lockfile, options: &SyncOptions, project: &Project) -> Option<&'l Target> {
    let is_of_conda = lock.targets.iter().all(|target| !target.conda.is_empty());
    let environment = target_environment::chosen(options, project, is_of_conda).ok()?;
    let installed = inspect::read(&inspect::ThisMachine, &environment.prefix, inspect::Depth::Sizes).ok()?;
    verify::installed_target(lock, &installed, false)
        .filter(|target| verify::has_packages_of(target, &installed))
}

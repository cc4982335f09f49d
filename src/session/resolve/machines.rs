//! The machines to lock for: described, kept from the lock, or this machine.

use crate::lockfile::{self, Lockfile};
use crate::model::host::Host;
use crate::model::request::{Preferences, PythonRequest};
use crate::registry::Registry;
use crate::session::chosen_host;
use crate::session::failure::Failure;
use crate::session::options::SolveOptions;
use crate::session::settings::{self, Project};
use crate::solver::Member;

/// The target's name if envlock.toml describes no target.
const DEFAULT_TARGET: &str = "default";

/// A machine to lock for.
#[derive(Clone)]
pub(crate) struct Machine {
    /// The target's name in the lock.
    pub name: String,
    pub host: Host,
    /// The same machine with the ignored GPUs. The lock stores it, so that a later run can stop ignoring them.
    pub seen: Host,
    /// Whether it was taken from the lock.
    pub kept: bool,
    /// The target's own limit on Python.
    pub python: Option<PythonRequest>,
}

impl Machine {
    /// This machine, or one described instead of it.
    fn at_hand(seen: Host, ignored: &[String], kept: bool, registry: &Registry) -> Result<Machine, Failure> {
        let host = chosen_host::finish(chosen_host::without(seen.clone(), ignored, registry)?, registry)?;
        // A GPU that the driver does not support makes the machine invalid, unless the GPU is ignored.
        let seen = chosen_host::finish(seen, registry).unwrap_or_else(|_| host.clone());
        Ok(Machine { name: DEFAULT_TARGET.to_owned(), host, seen, kept, python: None })
    }

    /// The machine as the solver's input, with the preferences from the old lock.
    pub fn member(&self, preferences: &Preferences) -> Member<'_> {
        Member {
            name: &self.name,
            host: &self.host,
            python: self.python.as_ref(),
            preferences: preferences.clone(),
        }
    }
}

/// The machines that a project is locked for, the default first.
pub(crate) fn machines(
    project: &Project,
    args: &SolveOptions,
    old: Option<&Lockfile>,
    registry: &Registry,
) -> Result<Vec<Machine>, Failure> {
    let ignored = project.manifest.as_ref().map(|m| m.request.ignored_gpus.as_slice()).unwrap_or_default();
    let targets = project.manifest.as_ref().map(|m| m.targets.as_slice()).unwrap_or_default();
    if args.host.describe_a_machine() {
        if !targets.is_empty() && !args.dry_run {
            let names: Vec<String> = targets.iter().map(|t| format!("[target.{}]", t.name)).collect();
            return Err(Failure::usage(format!(
                "envlock.toml already defines the targets {}",
                names.join(", ")
            ))
            .hint("pass `--dry-run` to solve for another machine, or add a `[target.NAME]` table for it"));
        }
        let seen = chosen_host::as_described(&args.host, registry)?;
        return Ok(vec![Machine::at_hand(seen, ignored, false, registry)?]);
    }
    if !targets.is_empty() {
        return targets
            .iter()
            .map(|row| {
                settings::check_python(row.python.as_ref(), registry)?;
                let host = chosen_host::from_table(row, registry)?;
                Ok(Machine {
                    name: row.name.clone(),
                    seen: host.clone(),
                    host,
                    kept: false,
                    python: row.python.clone(),
                })
            })
            .collect();
    }
    // A target that an earlier envlock.toml described is dropped with its table.
    let looked_at = |lock: &&Lockfile| !lockfile::names_targets(&lock.request);
    match old.filter(looked_at).and_then(|lock| lock.target(None)) {
        Some(target) if !args.redetect => {
            Ok(vec![Machine::at_hand(target.host.clone(), ignored, true, registry)?])
        }
        _ => Ok(vec![Machine::at_hand(chosen_host::seen(), ignored, false, registry)?]),
    }
}

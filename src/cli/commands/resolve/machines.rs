//! Which machines to lock for: described, kept from the lock, or the one at hand.

use crate::cli::args::SolveArgs;
use crate::cli::error::CliError;
use crate::cli::host;
use crate::cli::settings::{self, Project};
use crate::lockfile::Lockfile;
use crate::model::host::Host;
use crate::model::request::{Preferences, PythonRequest};
use crate::registry::Registry;
use crate::solver::Member;

/// The target's name where envlock.toml describes none.
const AT_HAND: &str = "default";

/// A machine to lock for.
pub(super) struct Machine {
    /// The target's name in the lock.
    pub name: String,
    pub host: Host,
    /// The same with the GPUs that are ignored: what the lock holds, so that they can count again.
    pub seen: Host,
    /// Whether it is the lock's.
    pub kept: bool,
    /// The target's own limit on Python.
    pub python: Option<PythonRequest>,
}

impl Machine {
    /// The machine at hand, or one in its place.
    fn at_hand(seen: Host, ignored: &[String], kept: bool, registry: &Registry) -> Result<Machine, CliError> {
        let host = host::finish(host::without(seen.clone(), ignored, registry)?, registry)?;
        // A card that the driver cannot know is no machine to lock for, unless it is ignored.
        let seen = host::finish(seen, registry).unwrap_or_else(|_| host.clone());
        Ok(Machine { name: AT_HAND.to_owned(), host, seen, kept, python: None })
    }

    /// What the solver looks at, with what the old lock holds for it.
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
pub(super) fn machines(
    project: &Project,
    args: &SolveArgs,
    old: Option<&Lockfile>,
    registry: &Registry,
) -> Result<Vec<Machine>, CliError> {
    let ignored = project.manifest.as_ref().map(|m| m.request.ignored_gpus.as_slice()).unwrap_or_default();
    let targets = project.manifest.as_ref().map(|m| m.targets.as_slice()).unwrap_or_default();
    if args.host.describe_a_machine() {
        if !targets.is_empty() && !args.dry_run {
            let names: Vec<String> = targets.iter().map(|t| format!("[target.{}]", t.name)).collect();
            return Err(CliError::usage(format!("envlock.toml says what to lock for: {}", names.join(", ")))
                .hint("see the answer for another machine with `--dry-run`, or give it a table of its own"));
        }
        let seen = host::as_described(&args.host, registry)?;
        return Ok(vec![Machine::at_hand(seen, ignored, false, registry)?]);
    }
    if !targets.is_empty() {
        return targets
            .iter()
            .map(|row| {
                settings::check_python(row.python.as_ref(), registry)?;
                let host = host::from_table(row, registry)?;
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
    // A target that a former envlock.toml described is gone with its table.
    let looked_at = |lock: &&Lockfile| !lock.request.iter().any(|line| line.starts_with("target "));
    match old.filter(looked_at).and_then(|lock| lock.target(None)) {
        Some(target) if !args.redetect => {
            Ok(vec![Machine::at_hand(target.host.clone(), ignored, true, registry)?])
        }
        _ => Ok(vec![Machine::at_hand(host::seen(), ignored, false, registry)?]),
    }
}

//! `envlock drift OLD [NEW]`: what changed on a machine since a host file was saved.

use std::path::Path;

use crate::cli::args::{DriftArgs, GlobalArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::cli::settings::{self, Project};
use crate::cli::{host, lock};
use crate::drift::{self, Change};
use crate::inspect::{self, ThisMachine};
use crate::lockfile::Lockfile;
use crate::model::finding::Severity;
use crate::model::host::Host;
use crate::model::saved_host::{LoaderFacts, SavedHost, VARIABLES};
use crate::model::text::clean;
use crate::registry::Registry;
use crate::verify;

pub(super) fn run(global: &GlobalArgs, args: &DriftArgs, printer: &Printer) -> Result<u8, CliError> {
    if args.new.is_some() && args.prefix.is_some() {
        return Err(CliError::usage(
            "`--prefix` names an environment of this machine, not of a saved host file",
        )
        .hint("without NEW, the machine as it is now is compared"));
    }
    let registry = settings::registry(global)?;
    let before = host::read_saved_host(&args.old)?;
    let after = match &args.new {
        Some(path) => host::read_saved_host(path)?,
        None => {
            // The environment that was kept is looked at again.
            let kept = before.environment.as_ref().map(|environment| Path::new(&environment.prefix));
            let is_there = |prefix: &&Path| prefix.is_dir();
            now(host::seen(), args.prefix.as_deref().or(kept.filter(is_there)))?
        }
    };
    let project = Project::find(global, true)?;
    let lock = lock::read(&project)?;
    let broken = lock.as_ref().and_then(|lock| broken(lock, &before.host, &after.host, &registry));
    let changes = drift::between(&before, &after, broken.as_deref());
    match printer.json {
        true => printer.json(&serde_json::json!({ "changes": changes })),
        false => tell(&changes, printer),
    }
    let any_error = changes.iter().any(|change| change.severity == Severity::Error);
    Ok(if any_error { exit::NO } else { exit::YES })
}

/// This machine with all that a host file keeps. `prefix`: the environment.
///
/// # Errors
/// When the environment cannot be read.
pub(super) fn now(host: Host, prefix: Option<&Path>) -> Result<SavedHost, CliError> {
    let root = host::root();
    let machine = host.system.platform.arch_name();
    let variables = VARIABLES.iter().filter_map(|name| {
        let value = std::env::var_os(name)?.to_string_lossy().into_owned();
        (!value.is_empty()).then(|| ((*name).to_owned(), clean(&value, 8_192)))
    });
    let loader = LoaderFacts {
        variables: variables.collect(),
        libraries: inspect::libraries_of_cuda(&ThisMachine, &root, machine),
    };
    let environment = match prefix {
        None => None,
        Some(prefix) => {
            // The same environment whatever folder the command is run in.
            let prefix = std::path::absolute(prefix).unwrap_or_else(|_| prefix.to_path_buf());
            let installed = inspect::read(&ThisMachine, &prefix, inspect::Depth::Sizes)
                .map_err(|error| CliError::input(error.to_string()))?;
            Some(inspect::environment_facts(&ThisMachine, &installed))
        }
    };
    Ok(SavedHost { host, loader: Some(loader), environment, modes: host::modes() })
}

/// Why the lock does not run on the machine as it is, if it ran there before.
fn broken(lock: &Lockfile, before: &Host, after: &Host, registry: &Registry) -> Option<String> {
    let why = |machine: &Host| -> Option<String> {
        let machine = host::finish(machine.clone(), registry).ok()?;
        let areas = lock.targets.iter().map(|target| verify::check_host(target, &machine, false));
        let mut errors = Vec::new();
        for area in areas {
            match area.findings.into_iter().find(|finding| finding.severity == Severity::Error) {
                // A lock runs where one of its targets does.
                None => return None,
                Some(error) => errors.push(error.message),
            }
        }
        errors.into_iter().next()
    };
    match why(before) {
        None => why(after),
        Some(_) => None,
    }
}

fn tell(changes: &[Change], p: &Printer) {
    if changes.is_empty() {
        return p.out("nothing changed");
    }
    for change in changes {
        let (word, style) = match change.severity {
            Severity::Error => ("error", ERROR),
            Severity::Warning => ("warning", WARN),
            Severity::Info => ("info", GOOD),
        };
        let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { clean(text, 300) };
        let head = format!("{word}:");
        let text = format!(
            "{head} {}: {} -> {}: {}",
            clean(&change.fact, 100),
            shown(&change.before),
            shown(&change.after),
            clean(&change.effect, 400)
        );
        p.out(&format!("{}{}", p.paint(style, &head), &wrap(&text, 2)[head.len()..]));
    }
}

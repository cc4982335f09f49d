//! The environment of another tool's lock that an installed one is compared with.

use std::path::Path;

use pep440_rs::Version;

use crate::cli::error::CliError;
use crate::foreign::{self, Environment, ForeignLock, Judged, Tool};
use crate::lockfile::same_version;
use crate::model::host::Host;
use crate::model::installed::Installed;
use crate::model::text::{clean, shell_word};
use crate::model::wheel::Python;
use crate::registry::Registry;

/// The named environment of a lock, else the one that was installed, with the command that installs it.
///
/// # Errors
/// When the lock has no such environment, or none for the machine's platform.
pub(super) fn of(
    lock: &ForeignLock,
    path: &Path,
    name: Option<&str>,
    installed: &mut Installed,
    machine: &Host,
    registry: &Registry,
) -> Result<Judged, CliError> {
    let platform = machine.system.platform;
    let python = installed.python.unwrap_or(Python::new(12));
    let has = |name: &str, version: &Version| {
        let mut own = installed.distributions.iter().filter(|own| own.name == name);
        own.any(|own| same_version(version, &own.version))
    };
    let all = || lock.environments(platform, Some(python));
    let found = match name {
        Some(name) => all().into_iter().find(|environment| environment.name == name),
        None => lock.installed(platform, python, &has),
    };
    let environment = found.ok_or_else(|| {
        let names: Vec<String> = all().iter().map(|e| format!("`{}`", clean(&e.name, 60))).collect();
        match name {
            Some(name) if !names.is_empty() => {
                CliError::usage(format!("the lock has no environment `{}`", clean(name, 40)))
                    .hint(format!("it has {}", names.join(", ")))
            }
            _ => CliError::input(format!("the lock has no environment for {platform}")),
        }
    })?;
    installed.lock_command = Some(command(lock, path, &environment, &installed.prefix));
    Ok(foreign::judge(&environment, platform, registry))
}

/// The command that installs an environment of a lock with the tool that wrote it.
fn command(lock: &ForeignLock, path: &Path, environment: &Environment, prefix: &str) -> String {
    let file = shell_word(&path.to_string_lossy());
    let prefix = shell_word(prefix.trim_end_matches('/'));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = shell_word(&folder.map_or(".".into(), |folder| folder.to_string_lossy()));
    let options =
        environment.options.iter().map(|(option, name)| format!(" --{option} {}", shell_word(name)));
    let options: String = options.collect();
    match lock.tool {
        Tool::Uv => {
            format!(
                "UV_PROJECT_ENVIRONMENT=\"$(realpath {prefix})\" uv sync --project {folder} --locked{options}"
            )
        }
        Tool::Pylock => format!("uv pip sync --python {prefix} {file}"),
        Tool::Requirements => {
            let hashes = if lock.has_hashes() { " --require-hashes" } else { "" };
            format!("uv pip install --python {prefix}{hashes} -r {file}")
        }
        Tool::Pixi => {
            format!("pixi install --manifest-path {folder} --locked{options}")
        }
        Tool::CondaLock => format!("conda-lock install --prefix {prefix} {file}"),
    }
}

//! The environment of another tool's lock that an installed one is compared with.

use std::path::Path;

use pep440_rs::Version;

use crate::formats::uv::DefaultGroups;
use crate::formats::{Environment, ForeignLock, Tool};
use crate::lockfile::same_version;
use crate::model::host::Host;
use crate::model::installed::Installed;
use crate::model::solution::ChosenPackage;
use crate::model::text::{clean, normalized_name, shell_word};
use crate::model::wheel::Python;
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::options::Parts;
use crate::verify::Locked;

/// The named environment of a lock, else the one that was installed, with the command that installs it.
///
/// # Errors
/// When the lock has no such environment, or none for the machine's platform.
pub(crate) fn of(
    lock: &ForeignLock,
    path: &Path,
    name: Option<&str>,
    installed: &mut Installed,
    machine: &Host,
    registry: &Registry,
) -> Result<Locked<'static>, Failure> {
    let platform = machine.system.platform;
    // Markers can depend on the patch release.
    let python = installed.marker_python();
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
                Failure::usage(format!("the lock has no environment `{}`", clean(name, 40)))
                    .hint(format!("it has {}", names.join(", ")))
            }
            _ => Failure::input(format!("the lock has no environment for {platform}")),
        }
    })?;
    installed.lock_command = Some(command(lock, path, &environment, &installed.prefix));
    let series = Python { patch: None, ..environment.python };
    Ok(Locked::of_tool(&Environment { python: series, ..environment }, platform, registry))
}

/// Adds the extras and groups that are asked for to what was installed of a project's own lock, and those of `usual`, the
/// groups that its tool installs unasked, of which anything is installed: a package that is missing of them is missed.
///
/// # Errors
/// When the lock does not have one that is asked for.
pub(crate) fn add_parts(
    locked: &mut Locked<'_>,
    lock: &ForeignLock,
    (parts, usual): (&Parts, &DefaultGroups),
    installed: &Installed,
    registry: &Registry,
) -> Result<(), Failure> {
    let (platform, python) = (locked.target.platform, installed.marker_python());
    let all = lock.environments(platform, Some(python));
    let named = |kind: &str, names: &[String]| -> Vec<String> {
        names.iter().map(|name| format!("{kind} {}", normalized_name(name))).collect()
    };
    let mut asked = named("extra", &parts.extra);
    asked.extend(named("group", &parts.group));
    let has = |name: &String| all.iter().any(|environment| environment.name == *name);
    if let Some(absent) = asked.iter().find(|name| !has(name)) {
        let is_part = |name: &&str| name.starts_with("extra ") || name.starts_with("group ");
        let known: Vec<&str> = all.iter().map(|e| e.name.as_str()).filter(is_part).collect();
        let hint = match known.is_empty() {
            true => "it has no extras and groups".to_owned(),
            false => format!("it has {}", clean(&known.join(", "), 200)),
        };
        return Err(Failure::usage(format!("the lock has no {}", clean(absent, 80))).hint(hint));
    }
    for environment in &all {
        let is_asked = asked.contains(&environment.name)
            || parts.all_extras && environment.name.starts_with("extra ")
            || parts.all_groups && environment.name.starts_with("group ");
        let is_usual = environment.name.strip_prefix("group ").is_some_and(|group| usual.has(group));
        if !is_asked && !is_usual {
            continue;
        }
        let more = Locked::of_tool(environment, platform, registry).target.into_owned().packages;
        let more: Vec<ChosenPackage> =
            more.into_iter().filter(|package| locked.target.package(&package.name).is_none()).collect();
        let is_there =
            |package: &ChosenPackage| installed.distributions.iter().any(|own| own.name == package.name);
        if is_asked || more.iter().any(is_there) {
            locked.target.to_mut().packages.extend(more);
        }
    }
    locked.target.to_mut().packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(())
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

//! Reads the project's lock and selects its targets.

use std::path::Path;

use super::Interface;
use super::data_folder;
use super::exit;
use super::failure::Failure;
use super::files;
use super::owner;
use super::requirements;
use super::settings::Project;
use crate::formats::{ForeignLock, Tool};
use crate::lockfile::{self, Lockfile, Target};
use crate::model::level::Level;
use crate::model::part::Part;
use crate::model::text::clean;
use crate::registry::Registry;
use crate::session::options::{Global, Parts};
use crate::verify::Locked;

/// The project's lock; `None` when there is none.
pub(crate) fn read(project: &Project) -> Result<Option<Lockfile>, Failure> {
    match files::read(&project.lock_path())? {
        Some(text) => Ok(Some(lockfile::parse(&text)?)),
        None => Ok(None),
    }
}

/// The project, its data and its lock, with the packages that another tool holds.
///
/// # Errors
/// When there is no lock, or one of these cannot be read.
pub(crate) fn of_project(global: &Global) -> Result<(Project, Registry, Lockfile), Failure> {
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let lock = read(&project)?.ok_or_else(missing)?;
    let lock = owner::with_packages(&project, lock, &registry)?;
    Ok((project, registry, lock))
}

/// A lock of envlock or of another tool.
pub(crate) enum AnyLock {
    Own(Lockfile),
    Foreign(ForeignLock),
}

impl AnyLock {
    /// Whether a package of this name is locked for any machine.
    pub fn mentions(&self, name: &str) -> bool {
        match self {
            AnyLock::Own(lock) => mentions(&lock.targets.iter().collect::<Vec<_>>(), name),
            AnyLock::Foreign(lock) => lock.mentions(name),
        }
    }
}

/// Whether any of these targets has a package of this name, or its stack.
pub(crate) fn mentions(targets: &[&Target], name: &str) -> bool {
    let is_of_stack = |target: &&Target| {
        target.stack.as_ref().is_some_and(|s| s.framework == name || s.companions.contains_key(name))
    };
    targets.iter().any(|target| target.package(name).is_some() || is_of_stack(target))
}

/// Reads a lock of any tool that envlock judges.
pub(crate) fn read_any(path: &Path) -> Result<AnyLock, Failure> {
    let shown = clean(&path.display().to_string(), 200);
    let text = files::read(path)?.ok_or_else(|| Failure::input(format!("`{shown}` does not exist")))?;
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if text.starts_with(lockfile::MARK) || name == files::LOCK {
        return Ok(AnyLock::Own(lockfile::parse(&text)?));
    }
    let Some(tool) = Tool::of(&name, &text) else {
        return Err(Failure::input(format!("`{shown}` is not a lock that envlock reads")).hint(
            "it reads envlock.lock, uv.lock, pylock.toml, pixi.lock, conda-lock.yml, and requirements with exact versions; export another lock to one of these",
        ));
    };
    let lock = ForeignLock::parse(tool, &text).map_err(|error| {
        Failure::input(format!("`{shown}` cannot be read as a lock of {}: {error}", tool.name()))
    })?;
    Ok(AnyLock::Foreign(lock))
}

/// The packages on which a lock's project replaces requirements, and those whose own it states.
pub(crate) fn overridden(lock: &Lockfile) -> Vec<String> {
    let request = lockfile::read_request(&lock.request).unwrap_or_default();
    let replaced = request.overrides.iter().map(|user| user.name().to_owned());
    replaced.chain(request.metadata.iter().map(|stated| stated.name.clone())).collect()
}

/// A target of a lock, to be judged.
pub(crate) fn locked<'l>(lock: &Lockfile, target: &'l Target, registry: &Registry) -> Locked<'l> {
    Locked::own(target, registry).replacing(overridden(lock))
}

/// The lock as it is installed with the extras and groups that are asked for.
///
/// # Errors
/// When the lock does not have one of them.
pub(crate) fn with_parts(lock: Lockfile, args: &Parts) -> Result<Lockfile, Failure> {
    let known = lock.parts();
    let mut parts: Vec<Part> = args.extra.iter().map(|name| Part::extra(name)).collect();
    parts.extend(args.group.iter().map(|name| Part::group(name)));
    if let Some(part) = parts.iter().find(|part| !known.contains(part)) {
        let names: Vec<String> = known.iter().map(ToString::to_string).collect();
        let hint = match names.is_empty() {
            true => "extras and groups are locked where the manifest is a pyproject.toml that has them; then `envlock resolve`".to_owned(),
            false => format!("it has {}", names.join(", ")),
        };
        return Err(Failure::usage(format!("the lock has no {}", clean(&part.to_string(), 80))).hint(hint));
    }
    let is_asked = |part: &Part| match part {
        Part::Extra(_) => args.all_extras,
        Part::Group(_) => args.all_groups,
    };
    parts.extend(known.into_iter().filter(is_asked));
    Ok(lock.with_parts(&parts))
}

/// The lock as it is installed with the extras and groups that are asked for. What another tool holds has those of that tool,
/// which envlock does not lock.
///
/// # Errors
/// Those of [`with_parts`].
pub(crate) fn as_installed(lock: Lockfile, args: &Parts) -> Result<Lockfile, Failure> {
    match lock.packages_in.is_some() {
        true => Ok(lock),
        false => with_parts(lock, args),
    }
}

/// Warns if the manifest no longer matches the lock, because the command's output is about the lock.
pub(crate) fn warn_if_stale(
    project: &Project,
    lock: &Lockfile,
    registry: &Registry,
    interface: &dyn Interface,
) {
    if let Some(first) = staleness(project, lock, registry) {
        interface.warning(&stale_text(&first));
    } else if lockfile::needs_newer_data(lock, registry) {
        interface.warning(&format!("{}; {}", data_folder::behind(lock, registry), data_folder::newer()));
    }
}

/// The first reason why the manifest no longer matches the lock.
pub(crate) fn staleness(project: &Project, lock: &Lockfile, registry: &Registry) -> Option<String> {
    let Some(manifest) = &project.manifest else {
        let files = requirements::remembered(&project.folder, lock);
        return requirements::difference(&project.folder, &files, (lock, registry)).ok().flatten();
    };
    lockfile::stale(lock, &manifest.request, registry).first().map(ToString::to_string)
}

/// The warning about a stale lock.
pub(crate) fn stale_text(first: &str) -> String {
    format!("the lock is stale: {first}; update it with `envlock resolve`")
}

/// The error of a command that needs a lock if there is none.
pub(crate) fn missing() -> Failure {
    Failure::lock("there is no envlock.lock").hint(
        "create it with `envlock resolve`; where there is no envlock.toml yet, `envlock init` writes one",
    )
}

/// The target that `--target` names; without it, the first.
pub(crate) fn target<'l>(lock: &'l Lockfile, name: Option<&str>) -> Result<&'l Target, Failure> {
    lock.target(name).ok_or_else(|| {
        let names: Vec<&str> = lock.targets.iter().map(|t| t.name.as_str()).collect();
        Failure::usage(format!("the lock has no target `{}`", clean(name.unwrap_or(""), 40)))
            .hint(format!("its targets are {}", names.join(", ")))
    })
}

/// The error of a question about a package that is not locked: no.
pub(crate) fn has_no_package(name: &str, level: Level) -> Failure {
    let error = Failure::usage(format!("the lock has no package `{}`", clean(name, 60)));
    let error = match level {
        Level::Stack => error.hint("it was made with `--stack-only`; `envlock resolve` locks all packages"),
        Level::Full => error.hint("`envlock list` names the locked packages"),
    };
    Failure { exit: exit::NO, ..error }
}

/// The target that `--target` names; without it, all of them.
pub(crate) fn targets<'l>(lock: &'l Lockfile, name: Option<&str>) -> Result<Vec<&'l Target>, Failure> {
    match name {
        Some(_) => target(lock, name).map(|target| vec![target]),
        None => Ok(lock.targets.iter().collect()),
    }
}

/// The conda environment file of a target: `environment.yml` for the first, `environment.NAME.yml` for the others.
pub(crate) fn environment_file(is_first: bool, target: &str) -> String {
    if is_first { files::ENVIRONMENT.to_owned() } else { format!("environment.{target}.yml") }
}

/// The conda name of a target's environment: the project's name, followed by the target's name for all targets
/// but the first.
pub(crate) fn environment_name(project: &Project, lock: &Lockfile, target: &Target) -> String {
    match lock.target(None) {
        Some(first) if first.name == target.name => project.name(),
        _ => format!("{}-{}", project.name(), target.name),
    }
}

//! Projects whose packages another tool resolves and installs: uv with `uv.lock`, pixi with `pixi.lock`. envlock chooses
//! the stack, writes it into that tool's tables, and judges what the tool locked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Interface;
use super::disk::Disk;
use super::exit;
use super::failure::{Failure, FailureKind};
use super::files;
use super::settings::Project;
use crate::formats::uv::{self, DefaultGroups, Settings, Workspace};
use crate::formats::{ForeignLock, Tool, own_name};
use crate::inspect;
use crate::lockfile::{self, Lockfile, Target};
use crate::model::choice::Choice;
use crate::model::level::Level;
use crate::model::owner::{Owner, PackageLock};
use crate::model::part::Part;
use crate::model::request::{Origin, PythonAllowed, PythonRequest};
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::{clean, conflict_marker};
use crate::model::wheel::Python;
use crate::probe::pythons::{self, Places};
use crate::registry::Registry;
use crate::session::variables;
use crate::sync::env_allowlist::{self, EnvAllowlist};
use crate::verify::Locked;

/// The tool that holds a project's packages ([`files::owner_in`]).
pub(crate) fn of(project: &Project) -> Option<Owner> {
    files::owner_in(&project.folder).filter(|_| !project.is_beside)
}

/// The folder above a project whose `uv.lock` has its packages: the root of its workspace.
pub(crate) fn workspace_with_lock(folder: &Path) -> Option<PathBuf> {
    let root = Workspace::of(&Disk, folder)?.root().to_path_buf();
    let is_above = std::path::absolute(folder).is_ok_and(|own| own != root);
    (is_above && root.join(Owner::Uv.file()).is_file()).then_some(root)
}

/// The variable with the folder of the environment that uv uses for a project, relative to the project.
pub(crate) const UV_ENVIRONMENT: &str = "UV_PROJECT_ENVIRONMENT";

/// The environment that `sync` makes for a lock with conda packages, beside the lock.
pub(crate) const CONDA_ENVIRONMENT: &str = ".envlock/env";

/// The environment of the project in a folder, absolute or relative to that folder: that of the tool that holds the
/// packages, that of a lock with conda packages, else `.venv`.
pub(crate) fn environment(folder: &Path) -> PathBuf {
    let of_uv = || variables::path(UV_ENVIRONMENT);
    match files::owner_in(folder) {
        Some(Owner::Uv) => of_uv().unwrap_or_else(|| PathBuf::from(".venv")),
        Some(Owner::Pixi) => PathBuf::from(".pixi/envs/default"),
        None if has_conda_packages(folder) => PathBuf::from(CONDA_ENVIRONMENT),
        None => PathBuf::from(".venv"),
    }
}

/// Whether the lock in a folder has conda packages.
fn has_conda_packages(folder: &Path) -> bool {
    let text = files::read(&folder.join(files::LOCK)).ok().flatten();
    text.is_some_and(|text| lockfile::has_conda_packages(&text))
}

/// Reads variables to choose an environment by. An active venv is none for conda packages.
pub(crate) fn variable_of(of_conda: bool) -> impl Fn(&str) -> Option<String> {
    move |name: &str| variables::text(name).filter(|_| !of_conda || name != "VIRTUAL_ENV")
}

/// The program of a tool; for a command that runs nothing of a project, one outside of it.
///
/// # Errors
/// When it is not there, with the command that installs it.
pub(crate) fn program(owner: Owner, outside: Option<&Project>) -> Result<PathBuf, Failure> {
    let search = |places: &Places<'_>| {
        let outside = outside.map(|project| places.outside(&whole(project)));
        let places = outside.as_ref().unwrap_or(places);
        match owner {
            Owner::Uv => pythons::uv(places),
            Owner::Pixi => pythons::pixi(places),
        }
    };
    with_places(search).ok_or_else(|| {
        let (file, name) = (owner.file(), owner.program());
        let how = match owner {
            Owner::Uv if outside.is_some() => {
                "`resolve` runs no program below the project: install it elsewhere, as `pipx install uv` does"
            }
            Owner::Uv => "install it: `pip install uv`",
            Owner::Pixi => "install it: https://pixi.prefix.dev",
        };
        let place = outside.map_or("", |_| " outside the project");
        Failure::new(
            FailureKind::Installer,
            format!("{name} holds the packages (`{file}`), and it was not found{place}"),
        )
        .hint(how)
    })
}

/// Lets only the variables of [`passed`] reach a program that installs, and names the others with `--verbose`.
pub(crate) fn restrict(command: &mut Command, passing: EnvAllowlist<'_>, interface: &dyn Interface) {
    command.env_clear();
    let mut dropped = Vec::new();
    for (name, value) in variables::all() {
        match name.to_str().is_some_and(|name| passing.allows(name)) {
            true => _ = command.env(name, value),
            false => dropped.push(name.to_string_lossy().into_owned()),
        }
    }
    dropped.retain(|name| !name.starts_with("ENVLOCK_"));
    dropped.sort();
    if interface.is_verbose() && !dropped.is_empty() {
        let names: Vec<String> = dropped.iter().map(|name| clean(name, 60)).collect();
        interface.note(&format!("variables that are not passed on: {}", names.join(", ")));
    }
}

/// Runs a tool in a project's folder, with its output among the talk. Returns whether it succeeded.
///
/// # Errors
/// When it cannot be started, or a signal ended it.
pub(crate) fn start(
    program: &Path,
    options: &[String],
    project: &Project,
    variables: &[(&str, OsString)],
    interface: &dyn Interface,
) -> Result<bool, Failure> {
    let failed = |why: String| Failure::new(FailureKind::Installer, why);
    let mut command = Command::new(program);
    command.args(options).current_dir(&project.folder);
    command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
    let passing = EnvAllowlist {
        purpose: env_allowlist::Purpose::OfTheProject,
        builds: true,
        more: project.passed_variables(),
    };
    restrict(&mut command, passing, interface);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let status =
        command.status().map_err(|e| failed(format!("cannot start `{}`: {e}", program.display())))?;
    match exit::signal_of(status) {
        Some(signal) => Err(Failure::killed(&program.to_string_lossy(), signal)),
        None => Ok(status.success()),
    }
}

/// The folder that a project is part of: the root of its workspace, else its own.
pub(crate) fn whole(project: &Project) -> PathBuf {
    Workspace::of(&Disk, &project.folder)
        .map_or_else(|| project.folder.clone(), |all| all.root().to_path_buf())
}

/// `PATH` without the folders below a project, for a command that runs nothing of it.
pub(crate) fn path_outside(project: &Project) -> (&'static str, OsString) {
    let path = with_places(|places| std::env::join_paths(places.outside(&whole(project)).path));
    ("PATH", path.unwrap_or_default())
}

/// Calls a search with this machine's places.
pub(crate) fn with_places<T>(search: impl FnOnce(&Places<'_>) -> T) -> T {
    let path = variables::paths("PATH");
    search(&Places { path, home: files::home(), variable: &|name| variables::text(name) })
}

/// A tool's lock as it is now.
pub(crate) struct Current {
    pub path: PathBuf,
    pub lock: ForeignLock,
    /// Its digest.
    pub state: PackageLock,
}

/// Reads the tool's lock of a project; `None` if it is not there.
///
/// # Errors
/// When it cannot be read as a lock of that tool.
pub(crate) fn read(project: &Project, owner: Owner) -> Result<Option<Current>, Failure> {
    let path = project.folder.join(owner.file());
    let Some(text) = files::read(&path)? else { return Ok(None) };
    parsed(path, owner, &text).map(Some)
}

/// The text of a tool's lock.
///
/// # Errors
/// When it cannot be read as a lock of that tool.
pub(crate) fn parsed(path: PathBuf, owner: Owner, text: &str) -> Result<Current, Failure> {
    let tool = match owner {
        Owner::Uv => Tool::Uv,
        Owner::Pixi => Tool::Pixi,
    };
    let lock = ForeignLock::parse(tool, text).map_err(|error| {
        let (file, program) = (owner.file(), owner.program());
        if conflict_marker(text).is_some() {
            return Failure::input(format!("`{}` has conflict markers of a merge", path.display())).hint(format!(
                "resolve those of the manifest, take one side of the lock with `git checkout --ours {file}`, then run `envlock resolve`"
            ));
        }
        Failure::input(format!("`{}` cannot be read as a lock of {}: {error}", path.display(), tool.name()))
            .hint(format!("restore it with `git checkout {file}`, or remove it and run `{program} lock`"))
    })?;
    Ok(Current { path, lock, state: PackageLock::of(owner, text) })
}

/// The tool's lock that holds the packages of a lock of envlock.
///
/// # Errors
/// When it is not there or cannot be read.
pub(crate) fn held(project: &Project, lock: &Lockfile) -> Result<Option<Current>, Failure> {
    let Some(held) = &lock.packages_in else { return Ok(None) };
    let file = held.owner.file();
    let missing = || {
        Failure::lock(format!("envlock.lock leaves the packages to `{file}`, which does not exist"))
            .hint(format!("make it again with `{} lock`, then `envlock resolve`", held.owner.program()))
    };
    read(project, held.owner)?.ok_or_else(missing).map(Some)
}

/// A lock with the packages that another tool's lock holds for its targets, as they are now.
///
/// # Errors
/// When that lock is not there or cannot be read.
pub(crate) fn with_packages(
    project: &Project,
    lock: Lockfile,
    registry: &Registry,
) -> Result<Lockfile, Failure> {
    let Some(current) = held(project, &lock)? else { return Ok(lock) };
    if current.state.owner == Owner::Pixi {
        return Err(Failure::lock("`pixi.lock` holds the packages").hint("pixi shows them: `pixi tree`"));
    }
    Ok(filled(lock, &current, registry))
}

/// A lock with the packages that another tool's lock has for its targets.
pub(crate) fn filled(mut lock: Lockfile, current: &Current, registry: &Registry) -> Lockfile {
    for target in &mut lock.targets {
        let mut packages: Vec<ChosenPackage> = Vec::new();
        for environment in current.lock.environments(target.platform, Some(target.python)) {
            let part = match environment.name.split_once(' ') {
                Some(("extra", name)) => Some(Part::extra(name)),
                Some(("group", name)) => Some(Part::group(name)),
                Some(_) => continue,
                None => None,
            };
            for mut package in
                Locked::of_tool(&environment, target.platform, registry).target.into_owned().packages
            {
                // The project itself is no package of it.
                if package.source == Source::Path(".".to_owned()) {
                    continue;
                }
                // A requirement stands once for each of its markers.
                package.requires.sort();
                package.requires.dedup();
                match packages.iter_mut().find(|own| own.name == package.name) {
                    // Nothing of an extra is new where the project alone has it.
                    Some(own) if own.groups.is_empty() => {}
                    Some(own) => own.groups.extend(part.clone()),
                    None => {
                        let groups = part.clone().into_iter().collect();
                        packages.push(ChosenPackage { groups, ..with_reason(package, target) });
                    }
                }
            }
        }
        target.packages = packages;
        target.packages.sort_by(|a, b| a.name.cmp(&b.name));
        target.level = Level::Full;
    }
    lock
}

/// A package of the tool's lock, with what envlock knows of it.
fn with_reason(package: ChosenPackage, target: &Target) -> ChosenPackage {
    match target.package(&package.name) {
        Some(own) => ChosenPackage {
            reason: own.reason.clone(),
            targets: own.targets.clone(),
            source: own.source.clone(),
            ..package
        },
        None => ChosenPackage { reason: Choice::Kept, source: own_name(package.source), ..package },
    }
}

/// The Python series that the `.python-version` of a folder names, which uv and pyenv take.
pub(crate) fn pinned_python(folder: &Path) -> Option<Python> {
    uv::pinned_python(&files::read(&folder.join(files::PYTHON_VERSION)).ok().flatten()?)
}

/// The Python series that uv takes for a project, and why: `.python-version`, else that of its environment, which is not
/// run, or the first that it finds.
pub(crate) fn python_of_uv(project: &Project) -> Option<(Python, &'static str)> {
    if let Some(pinned) = pinned_python(&project.folder) {
        return Some((pinned, "of `.python-version`"));
    }
    let allows = |python: &Python| {
        let limit = project.manifest.as_ref().and_then(|manifest| manifest.request.python.as_ref());
        limit.is_none_or(|limit| limit.allows(Python::new(python.minor)))
    };
    let environment = project.folder.join(environment(&project.folder));
    let own = inspect::python_of(&inspect::ThisMachine, &environment).filter(allows);
    let found = own.or_else(|| {
        let requires = project.about().and_then(|own| own.requires_python);
        Some(with_places(|places| pythons::of_uv(places, &whole(project), requires.as_deref()))?.version)
    })?;
    Some((Python::new(found.minor), "the one that uv takes here"))
}

/// The Python for which newer releases are taken in a project of uv that has a lock: the one that uv takes, else the locked one;
/// a newer one is not taken for newer releases, as uv locks them for its own. `None` if the request names one.
pub(crate) fn python_of_upgrade(
    of_uv: Option<(Python, &'static str)>,
    locked: Option<Python>,
    asked: Option<&PythonRequest>,
) -> Option<PythonRequest> {
    if asked.is_some_and(|asked| matches!(asked.allowed, PythonAllowed::Exact(_))) {
        return None;
    }
    let own = of_uv.map(|(python, why)| (python, why.into()));
    let (python, origin) = own.or(locked.map(|python| (python, Origin::Lock)))?;
    Some(PythonRequest::exactly(python, origin))
}

/// The groups that uv installs when none is named.
pub(crate) fn default_groups(project: &Project) -> DefaultGroups {
    // A file that cannot be read is told where the packages are read from it.
    let settings = settings_of_uv(&project.folder.join(files::PYPROJECT)).ok().flatten();
    settings.unwrap_or_default().default_groups()
}

/// The packages that uv's settings of a project have built from source although they have wheels: those of the first
/// `uv.toml` or `[tool.uv]` at or above the project, by their normalized names.
///
/// # Errors
/// A file of settings that is there and cannot be read: what uv takes from it is not known.
pub(crate) fn built_by_settings(project: &Project) -> Result<Vec<String>, Failure> {
    let folder = fs_err::canonicalize(&project.folder).unwrap_or_else(|_| project.folder.clone());
    let files =
        folder.ancestors().flat_map(|folder| [UV_TOML, files::PYPROJECT].map(|name| folder.join(name)));
    for file in files {
        if let Some(settings) = settings_of_uv(&file)? {
            return Ok(settings.built());
        }
    }
    Ok(Vec::new())
}

/// uv's settings in a file of their own.
const UV_TOML: &str = "uv.toml";

/// uv's settings in a `uv.toml` or a pyproject.toml.
fn settings_of_uv(file: &Path) -> Result<Option<Settings>, Failure> {
    let Some(text) = files::read(file)? else { return Ok(None) };
    let settings = match file.file_name().is_some_and(|name| name == UV_TOML) {
        true => Settings::of_uv_toml(&text).map(Some),
        false => Settings::of_pyproject(&text),
    };
    settings.map_err(|error| Failure::input(format!("{}: {}", file.display(), clean(error.message(), 200))))
}

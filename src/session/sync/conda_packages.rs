//! conda's half of an environment, by the client of conda that is there, before PyPI's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::target_environment::{self, ChosenEnvironment, MARK, OWN_FOLDER, mark_of};
use super::types::{Plan, SyncOptions, counted};
use super::work::Work;
use crate::formats;
use crate::inspect::{self, Depth, Environment, ThisMachine};
use crate::lockfile::Target;
use crate::model::conda::{is_python_package, name_of_file};
use crate::model::source::CondaPackage;
use crate::probe::conda_client::{self, CondaProgram};
use crate::probe::pythons;
use crate::registry::conda_names::pypi_name;
use crate::session::Interface;
use crate::session::failure::{Failure, FailureKind};
use crate::session::installers;
use crate::session::owner::{self, with_places};
use crate::session::settings::Project;
use crate::session::write;
use crate::sync::env_allowlist::{self, EnvAllowlist};
use crate::sync::{self, Changes, Place, Step, Talk, conda_changes, conda_steps};

/// The list of what is installed, in [`OWN_FOLDER`] of the project.
const LIST: &str = "conda-explicit.txt";

/// What is to be done about conda's half.
pub(super) struct Half {
    pub environment: Environment,
    pub changes: Changes,
    pub steps: Vec<Step>,
    /// The client; `None` if there is nothing to do.
    program: Option<CondaProgram>,
    /// The explicit file and its text.
    list: (PathBuf, String),
    /// The packages of the lock.
    locked: Vec<CondaPackage>,
    /// Records that cannot be read, of packages that are installed again.
    unread: Vec<PathBuf>,
    is_new: bool,
    /// Whether this run makes it, or completes what an earlier one began.
    is_ours: bool,
}

/// Compares conda's half of an environment with a target that has conda packages. `alias`: the address below which its channels are.
///
/// # Errors
/// When the environment is none of conda's, or something is to be done and no client is here.
pub(super) fn half(
    options: &SyncOptions,
    project: &Project,
    target: &Target,
    (talk, alias): (Talk, &str),
) -> Result<Half, Failure> {
    if options.python.is_some() {
        return Err(Failure::usage("`--python` is for a venv, and conda installs the Python of this lock")
            .hint("remove `--python`; `envlock resolve --python 3.12` locks another one"));
    }
    let environment = target_environment::chosen(options, project, true)?;
    let environment =
        Environment { prefix: target_environment::from_here(environment.prefix), ..environment };
    let prefix = &environment.prefix;
    let is_new = !prefix.join("conda-meta").is_dir();
    let is_empty = std::fs::read_dir(prefix).is_ok_and(|mut entries| entries.next().is_none());
    // An earlier run was interrupted while the client made it.
    let is_unfinished = target_environment::making(prefix).is_file();
    if is_new && !is_empty && !is_unfinished && fs_err::symlink_metadata(prefix).is_ok() {
        return Err(Failure::new(
            FailureKind::Installer,
            format!(
                "`{}` is not a conda environment, and the lock has {} conda packages",
                prefix.display(),
                target.conda.len()
            ),
        )
        .hint("name another folder, or none: `envlock sync` makes `.envlock/env`"));
    }
    if prefix.join("condabin").is_dir() {
        return Err(target_environment::of_base(prefix));
    }
    let own = target_environment::own_folder(&project.folder)?;
    let list = target_environment::from_here(own.join(LIST));
    let removes = options.exact || target_environment::is_ours(prefix, project);
    let here = inspect::conda_records(&ThisMachine, prefix, Depth::Sizes);
    let mut changes = conda_changes(&target.conda, &records(prefix), &here.packages, removes);
    // Of these, files are removed with what pip put over them: they are repaired after that.
    let waiting = match changes.again.is_empty() {
        true => BTreeSet::new(),
        false => put_over(prefix, &target.conda),
    };
    changes.replace.retain(|name| !waiting.contains(name));
    changes.again.retain(|name| !waiting.contains(name));
    let is_again = |name: &&String| name_of_file(name).is_some_and(|own| changes.puts(own));
    let unread =
        here.unread.iter().filter(is_again).map(|name| prefix.join("conda-meta").join(name)).collect();
    let half = Half {
        environment,
        changes,
        steps: Vec::new(),
        program: None,
        list: (list, String::new()),
        locked: target.conda.iter().filter(|own| !waiting.contains(&own.name)).cloned().collect(),
        unread,
        is_new,
        is_ours: is_new || is_unfinished,
    };
    if half.changes.is_empty() {
        return Ok(half);
    }
    let program = with_places(conda_client::program).ok_or_else(|| no_client(target))?;
    let mut part = target.clone();
    part.conda.retain(|package| half.changes.puts(&package.name));
    let text = match part.conda.is_empty() {
        true => String::new(),
        false => formats::write::conda_explicit(&part, &project.name(), alias)?,
    };
    let prefix = &half.environment.prefix;
    let steps = conda_steps(&program.path, prefix, is_new, &half.changes, &half.list.0, talk);
    Ok(Half { steps, program: Some(program), list: (half.list.0, text), ..half })
}

/// The packages of conda, by its names, that pip or uv put others over.
fn put_over(prefix: &Path, locked: &[CondaPackage]) -> BTreeSet<String> {
    let installed = inspect::read(&ThisMachine, prefix, Depth::Sizes).ok();
    let distributions = installed.iter().flat_map(|installed| &installed.distributions);
    let over = sync::put_over(&names_on_pypi(locked), distributions);
    let is_over = |own: &&CondaPackage| name_on_pypi(own).is_some_and(|name| over.contains(&name));
    locked.iter().filter(is_over).map(|own| own.name.clone()).collect()
}

/// What conda's packages are on PyPI, those that are Python packages.
pub(super) fn names_on_pypi(locked: &[CondaPackage]) -> BTreeSet<String> {
    locked.iter().filter_map(name_on_pypi).collect()
}

fn name_on_pypi(package: &CondaPackage) -> Option<String> {
    is_python_package(package).then(|| pypi_name(&package.channel, &package.name))?
}

fn no_client(target: &Target) -> Failure {
    let count = target.conda.len();
    Failure::new(
        FailureKind::Installer,
        format!("the lock has {count} conda packages, and neither conda, mamba nor micromamba was found"),
    )
    .hint("put one of them on PATH; `envlock export conda-explicit` writes the list that it installs elsewhere: `conda create -p DIR --file LIST`, then `envlock sync --prefix DIR`")
}

/// The names of conda's records in a prefix.
fn records(prefix: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(prefix.join("conda-meta")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

impl Half {
    /// The client's name; `None` if there is nothing to do.
    pub fn client(&self) -> Option<&'static str> {
        self.program.as_ref().map(|program| program.name)
    }

    /// The environment as it will be, for the commands of PyPI's half; `None` if it is as it is now.
    pub fn to_come(&self) -> Option<ChosenEnvironment> {
        let has_python = !self.changes.puts("python");
        if self.steps.is_empty() || !self.is_new && has_python {
            return None;
        }
        let prefix = self.environment.prefix.clone();
        let python = pythons::interpreter(&prefix);
        Some(ChosenEnvironment {
            place: Place { prefix, python, make: None },
            chosen: self.environment.chosen,
            installed: None,
            is_ours: true,
            made_with: None,
        })
    }

    /// Runs the commands. A new environment is marked as made by `sync`.
    pub fn execute(
        &self,
        project: &Project,
        start: Instant,
        interface: &dyn Interface,
    ) -> Result<(), Failure> {
        let Some(program) = &self.program else { return Ok(()) };
        let (list, text) = &self.list;
        let folder = list.parent().unwrap_or(&project.folder);
        fs_err::create_dir_all(folder)?;
        // As a venv of uv has it: what is below is not for version control.
        write::replace(&folder.join(".gitignore"), "*\n")?;
        write::replace_private(list, text)?;
        let prefix = &self.environment.prefix;
        let making = target_environment::making(prefix);
        if self.is_new {
            if let Some(folder) = making.parent() {
                fs_err::create_dir_all(folder)?;
            }
            write::replace(&making, "")?;
        }
        // A client cannot read them either, and changes nothing then.
        for record in &self.unread {
            fs_err::remove_file(record)?;
        }
        for step in &self.steps {
            let mut command = installers::command(&step.command);
            let more = project.passed_variables();
            owner::restrict(
                &mut command,
                EnvAllowlist { purpose: env_allowlist::Purpose::Install, builds: false, more },
                interface,
            );
            installers::run(command, step, program.name, interface)?;
        }
        let here = inspect::conda_records(&ThisMachine, prefix, Depth::Sizes);
        let removes = !self.changes.remove.is_empty();
        let left = conda_changes(&self.locked, &records(prefix), &here.packages, removes);
        if let Some(name) = left.install.iter().chain(&left.replace).chain(&left.remove).next() {
            return Err(Failure::new(
                FailureKind::Installer,
                format!(
                    "{} ended without an error, and `{name}` is not in `{}` as it is locked",
                    program.name,
                    prefix.display()
                ),
            )
            .hint(format!("its records are in `{}`", prefix.join("conda-meta").display())));
        }
        if self.is_ours {
            fs_err::create_dir_all(prefix.join(OWN_FOLDER))?;
            write::replace(&prefix.join(OWN_FOLDER).join(MARK), &mark_of(&project.folder))?;
            let _ = fs_err::remove_file(&making);
        }
        let parts = counted(&self.changes);
        let seconds = start.elapsed().as_secs_f64();
        interface.done(&format!("{} with {} in {seconds:.1} s", parts.join(", "), program.name));
        Ok(())
    }

    /// What is to be done: the changes of this half, and of PyPI's after it.
    pub fn plan(&self, work: Option<&Work<'_>>) -> Result<Plan, Failure> {
        let mut changes = self.changes.clone();
        let mut commands: Vec<Vec<String>> = self.steps.iter().map(|step| step.command.clone()).collect();
        if let Some(work) = work {
            changes.install.extend(work.changes.install.iter().cloned());
            changes.replace.extend(work.changes.replace.iter().cloned());
            changes.remove.extend(work.changes.remove.iter().cloned());
            commands.extend(work.prepared()?.1.into_iter().map(|step| step.command));
        }
        Ok(Plan {
            installer: Some(self.client().unwrap_or("conda")),
            prefix: self.environment.prefix.clone(),
            is_begun: false,
            made_with: None,
            commands,
            changes,
            writes: Some("the lists of packages".to_owned()),
        })
    }

    /// Whether this run makes the environment.
    pub fn is_made(&self) -> bool {
        self.is_new
    }
}

//! Writing the answer into a project whose packages uv holds: the tables of `pyproject.toml`, then `uv.lock` by uv itself,
//! then the lock of the stack. All or none: where uv refuses, the files are as they were.

use std::path::Path;
use std::process::{Command, Stdio};

use super::writing::NewManifest;
use crate::cli::args::{GlobalArgs, SolveArgs};
use crate::cli::error::{CliError, Failure};
use crate::cli::owner::{self, Current};
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::cli::{exit, files, write};
use crate::export::{UvError, UvTables};
use crate::foreign::{OtherBuild, other_builds};
use crate::lockfile::{self, Lockfile, Target};
use crate::model::owner::Owner;
use crate::model::project::specifiers_allow;
use crate::model::request::{Preferences, PythonAllowed, Request};
use crate::model::text::shell_word;
use crate::model::wheel::Python;
use crate::registry::Registry;

/// A project whose packages uv holds.
pub(super) struct Owned<'o> {
    pub global: &'o GlobalArgs,
    pub project: &'o Project,
    pub args: &'o SolveArgs,
    pub request: &'o Request,
    pub registry: &'o Registry,
    pub printer: &'o Printer,
}

/// Adds what the tool's lock and files say to what the old lock holds: the versions of its packages, and the Python that
/// it takes (`python`).
pub(super) fn prefer(
    preferences: &mut Preferences,
    python: Option<(Python, &str)>,
    current: Option<&Current>,
    machine: &crate::model::host::Host,
    args: &SolveArgs,
) {
    preferences.python = python.map(|(python, _)| python).or(preferences.python);
    if args.upgrade.iter().any(String::is_empty) {
        return;
    }
    let Some(current) = current else { return };
    let environments = current.lock.environments(machine.system.platform, preferences.python);
    let upgraded =
        |name: &str| args.upgrade.iter().any(|asked| crate::model::text::normalized_name(asked) == name);
    for package in environments.into_iter().flat_map(|environment| environment.packages) {
        if !upgraded(&package.name) {
            preferences.versions.entry(package.name).or_insert(package.version);
        }
    }
}

impl Owned<'_> {
    /// A text of pyproject.toml with the tables that the targets need: for every Python, or from each target's series on.
    fn tables(&self, targets: &[Target], text: &str, from_the_series: bool) -> Result<String, CliError> {
        let (addresses, _) = settings::indexes(self.project, self.args.index_url.as_deref());
        let below = |target: &Target| from_the_series && self.allows_below(target.python);
        let tables = UvTables::of(targets, &addresses, &below).map_err(error)?;
        tables.written_into(text).map_err(error)
    }

    /// Whether the project allows a Python older than this one.
    fn allows_below(&self, python: Python) -> bool {
        let Some(request) = &self.request.python else { return true };
        match &request.allowed {
            PythonAllowed::Exact(_) => false,
            PythonAllowed::Range(range) => {
                (0..python.minor).any(|minor| specifiers_allow(range, Python::new(minor)))
            }
        }
    }

    /// Writes pyproject.toml, `uv.lock` and the lock of the stack. Returns the names of the files.
    pub fn write(&self, lock: Lockfile, manifest: Option<NewManifest>) -> Result<Vec<String>, CliError> {
        let uv = owner::program(Owner::Uv)?;
        let path = self.project.folder.join(files::PYPROJECT);
        let lock_path = self.project.folder.join(Owner::Uv.file());
        let before = files::read(&path)?.unwrap_or_default();
        if manifest.as_ref().is_some_and(|manifest| manifest.before != before) {
            return Err(CliError::files(format!(
                "`{}` was changed while the packages were resolved",
                path.display()
            ))
            .hint("nothing was changed; run the command again"));
        }
        let lock_before = files::read(&lock_path)?;
        let asked = manifest.map_or(before.clone(), |manifest| manifest.after);
        let undo = || {
            if files::read(&path).ok().flatten().as_ref() != Some(&before) {
                let _ = write::write(&path, &before);
            }
            let is_other = |text: &&String| files::read(&lock_path).ok().flatten().as_ref() != Some(*text);
            if let Some(text) = lock_before.as_ref().filter(is_other) {
                let _ = write::write(&lock_path, text);
            }
        };
        let mut after = self.tables(&lock.targets, &asked, false)?;
        let attempt = |text: &str| {
            if text != before {
                write::write(&path, text)?;
            }
            self.locked_by_uv(&uv, &lock)
        };
        let mut held = attempt(&after).inspect_err(|_| undo());
        if let (Err(first), Some(oldest)) = (&held, self.oldest_left_to_uv(&lock))
            && first.exit != exit::INTERRUPTED
        {
            // The build may not exist for the oldest Pythons that the project allows.
            after = self.tables(&lock.targets, &asked, true)?;
            self.printer.note(&format!("uv locks again, with the stack from Python {oldest} on"));
            held = attempt(&after).inspect_err(|_| undo());
            if held.is_ok() {
                self.printer.warning(&format!(
                    "the stack is locked from Python {oldest} on, and older ones are uv's to choose: `requires-python = \">={oldest}\"` leaves them out"
                ));
            }
        }
        let held = held?;
        let lock = lock.with_packages_in(held.state);
        let there = files::read(&self.project.lock_path())?;
        let is_same =
            |text: &String| lockfile::parse(text).is_ok_and(|old| lockfile::same_answer(&old, &lock));
        if !there.as_ref().is_some_and(is_same) {
            write::write(&self.project.lock_path(), &lockfile::render(&lock))?;
        }
        let mut written = vec![files::LOCK.to_owned(), Owner::Uv.file().to_owned()];
        if after != before {
            written.push(files::PYPROJECT.to_owned());
        }
        Ok(written)
    }

    /// The series from which on the stack can be locked, where the project allows older ones.
    fn oldest_left_to_uv(&self, lock: &Lockfile) -> Option<Python> {
        let mut below =
            lock.targets.iter().map(|target| target.python).filter(|python| self.allows_below(*python));
        below.next()
    }

    /// Lets uv lock, and reads what it locked.
    fn locked_by_uv(&self, uv: &Path, lock: &Lockfile) -> Result<Current, CliError> {
        self.start(uv, &self.options())?;
        let current = owner::read(self.project, Owner::Uv)?
            .ok_or_else(|| CliError::new(Failure::Installer, "uv wrote no `uv.lock`"))?;
        for target in &lock.targets {
            let stack = target.of_the_stack();
            if let Some(other) = other_builds(&current.lock, &stack, self.registry).first() {
                return Err(other_build(other, target));
            }
        }
        Ok(current)
    }

    fn options(&self) -> Vec<String> {
        let mut options = vec!["lock".to_owned()];
        for name in &self.args.upgrade {
            match name.is_empty() {
                true => options.push("--upgrade".to_owned()),
                false => options.extend(["--upgrade-package".to_owned(), name.clone()]),
            }
        }
        let given = [
            (self.global.offline, "--offline"),
            (self.global.no_progress, "--no-progress"),
            (self.printer.quiet || self.printer.json, "--quiet"),
        ];
        options.extend(given.into_iter().filter(|(given, _)| *given).map(|(_, option)| option.to_owned()));
        options
    }

    fn start(&self, uv: &Path, options: &[String]) -> Result<(), CliError> {
        let words: Vec<String> =
            std::iter::once("uv").chain(options.iter().map(String::as_str)).map(shell_word).collect();
        let shown = words.join(" ");
        let failed = |why: String| CliError::new(Failure::Installer, why);
        let mut command = Command::new(uv);
        command.args(options).current_dir(&self.project.folder);
        command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
        let status = command.status().map_err(|e| failed(format!("cannot start `{}`: {e}", uv.display())))?;
        match status.success() {
            true => Ok(()),
            false if exit::was_interrupted(status) => {
                Err(CliError { exit: exit::INTERRUPTED, ..failed("interrupted".to_owned()) })
            }
            false => Err(failed(format!("`{shown}` does not lock the project with this stack"))
                .hint("what uv says above names the packages; pyproject.toml and uv.lock are as they were")),
        }
    }
}

/// Why what the tool holds is not what the stack was chosen for: its lock, or envlock's entries in `pyproject.toml`.
pub(super) fn changed(project: &Project, lock: &Lockfile) -> Result<Vec<String>, CliError> {
    let Some(held) = &lock.packages_in else { return Ok(Vec::new()) };
    let file = held.owner.file();
    let mut out = Vec::new();
    match owner::read(project, held.owner)? {
        None => out.push(format!("`{file}`, which holds the packages, does not exist")),
        Some(current) if current.state != *held => {
            out.push(format!("`{file}` changed since the stack was chosen for it"));
        }
        Some(_) => {}
    }
    Ok(out)
}

fn other_build(other: &OtherBuild, target: &Target) -> CliError {
    let OtherBuild { package, theirs, ours } = other;
    let is_absent = theirs.is_none();
    let theirs =
        theirs.as_ref().map_or_else(|| format!("no {package}"), |version| format!("{package} {version}"));
    CliError::new(
        Failure::Installer,
        format!("uv locks {theirs} for {}, and the stack is {package} {ours}", target.platform),
    )
    .hint(if is_absent { "make it a dependency: `uv add torch`; the files are as they were" } else { "an entry under `[tool.uv]` in pyproject.toml decides otherwise, for example in `sources` or `override-dependencies`: remove it; the files are as they were" })
}

fn error(error: UvError) -> CliError {
    let hint = match &error {
        UvError::Export(_) => None,
        UvError::Syntax(_) | UvError::Type(_) => Some("https://docs.astral.sh/uv/reference/settings describes the tables".to_owned()),
        UvError::TwoBuilds { .. } => Some(
            "uv.lock has one build per platform: keep one of the targets, or let envlock hold the packages: move `[tool.envlock]` to an envlock.toml".to_owned(),
        ),
        UvError::OtherSource { package, .. } => Some(format!(
            "remove that line, and envlock writes it; or ask for that build: `variant` under `[tool.envlock.stack]` (`{package}` is then taken from there)"
        )),
    };
    let new = match &error {
        UvError::Export(export) => return export.clone().into(),
        UvError::TwoBuilds { .. } => CliError::usage(error.to_string()),
        _ => CliError::input(error.to_string()),
    };
    CliError { hint, ..new }
}

//! The files that the installer reads, and the run of its commands.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Work;
use super::place::{MARK, OWN_FOLDER};
use super::tell;
use crate::cli::error::{CliError, Failure};
use crate::cli::exit;
use crate::cli::printer::Printer;
use crate::cli::write;
use crate::export;
use crate::lockfile::Target;
use crate::model::solution::ChosenPackage;
use crate::model::text::shell_word;
use crate::sync::{Lists, Purpose, Step, steps};

/// Variables of pip and uv that would change what is installed, or where.
const NOT_PASSED_ON: [&str; 22] = [
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_PYTHON",
    "PIP_CONSTRAINT",
    "PIP_REQUIREMENT",
    "PIP_EDITABLE",
    "PIP_NO_BINARY",
    "PIP_ONLY_BINARY",
    "PIP_DRY_RUN",
    "PIP_UPGRADE",
    "PIP_FORCE_REINSTALL",
    "PIP_IGNORE_INSTALLED",
    "PIP_PRE",
    "UV_SYSTEM_PYTHON",
    "UV_CONSTRAINT",
    "UV_OVERRIDE",
    "UV_NO_BINARY",
    "UV_EXCLUDE_NEWER",
    "UV_TORCH_BACKEND",
    "PYTHONHOME",
];

/// A list and its text.
type Texts = Vec<(PathBuf, String)>;

impl Work<'_> {
    /// The lists with their texts, and the commands.
    pub fn prepared(&self) -> Result<(Texts, Vec<Step>), CliError> {
        let folder = self.found.place.prefix.join(OWN_FOLDER);
        let packages = self.target.packages.iter().filter(|package| self.changes.puts(&package.name));
        let part = Target { packages: packages.cloned().collect(), ..self.target.clone() };
        let (addresses, _) = &self.addresses;
        let mut texts: Texts = Vec::new();
        let mut list = |name: &str, text: Option<String>| {
            let text = text
                .filter(|text| text.lines().any(|line| !line.starts_with(['#', '-']) && !line.is_empty()))?;
            let path = folder.join(name);
            texts.push((path.clone(), text));
            Some(path)
        };
        let (direct, hashed) = part.packages.iter().cloned().partition(|package| package.files.is_empty());
        let of = |packages: Vec<ChosenPackage>| {
            let part = Target { packages, ..part.clone() };
            export::requirements(&part, addresses).map(|text| Some(absolute(&text, self.folder)))
        };
        let lists = Lists {
            requirements: list("requirements.txt", of(hashed)?),
            direct: list("direct.txt", of(direct)?),
            builds: part.packages.iter().any(|package| package.build.is_some()),
            build_constraints: list("build-constraints.txt", export::build_constraints(&part)?),
            build_requirements: list("build-requirements.txt", build_requirements(&part, self.target)),
            requirements_build: list(
                "requirements-build.txt",
                export::requirements_to_build(&part, addresses)?.map(|text| absolute(&text, self.folder)),
            ),
            project: self.project.clone(),
        };
        let steps = steps(&self.installer, &self.found.place, self.changes, &lists, self.talk);
        Ok((texts, steps))
    }

    /// Runs the commands.
    pub fn execute(&self, start: Instant, printer: &Printer) -> Result<(), CliError> {
        let (texts, steps) = self.prepared()?;
        let lists = |marked: bool| -> Result<(), CliError> {
            let folder = self.found.place.prefix.join(OWN_FOLDER);
            fs_err::create_dir_all(&folder)?;
            if marked {
                write::replace(
                    &folder.join(MARK),
                    "envlock sync made this environment and may remove packages.\n",
                )?;
            }
            texts.iter().try_for_each(|(path, text)| write::replace_private(path, text))
        };
        let (make, others): (Vec<&Step>, Vec<&Step>) =
            steps.iter().partition(|step| step.purpose == Purpose::MakeEnvironment);
        for step in &make {
            self.start(step, printer)?;
        }
        lists(!make.is_empty())?;
        for step in others {
            self.start(step, printer)?;
        }
        tell::done(self, start, printer);
        Ok(())
    }

    fn start(&self, step: &Step, printer: &Printer) -> Result<(), CliError> {
        let [program, arguments @ ..] = step.command.as_slice() else { return Ok(()) };
        let shown = shown(&step.command);
        if printer.verbose {
            printer.note(&shown);
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
        for name in NOT_PASSED_ON {
            command.env_remove(name);
        }
        if let Some(pypi) = &self.addresses.1 {
            // In variables, because other users can read a command line, and the URL may have a login.
            command
                .env_remove("UV_INDEX_URL")
                .env("UV_DEFAULT_INDEX", &pypi.url)
                .env("PIP_INDEX_URL", &pypi.url);
        }
        let failed =
            |why: String| CliError::new(Failure::Installer, why).hint(format!("the command was `{shown}`"));
        let status = command.status().map_err(|e| failed(format!("cannot start `{program}`: {e}")))?;
        if status.success() {
            return Ok(());
        }
        if was_interrupted(status) {
            return Err(CliError { exit: exit::INTERRUPTED, ..failed("interrupted".to_owned()) });
        }
        let name = self.installer.name();
        Err(failed(match step.purpose {
            Purpose::MakeEnvironment => "the environment could not be made".to_owned(),
            Purpose::Remove => format!("{name} could not remove the packages that are not locked"),
            Purpose::Install | Purpose::InstallBuildRequirements => {
                format!("{name} could not install the packages")
            }
            Purpose::Build => format!("{name} could not build a package"),
            Purpose::InstallProject => format!("{name} could not install the project itself"),
        }))
    }
}

/// A command as one types it.
pub(super) fn shown(command: &[String]) -> String {
    command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// Folders are locked relative to the lock, and the lists lie elsewhere.
fn absolute(requirements: &str, folder: &Path) -> String {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let line = |line: &str| match line.strip_prefix("./") {
        Some(rest) => format!("{}\n", folder.join(rest).display()),
        None => format!("{line}\n"),
    };
    requirements.lines().map(line).collect()
}

/// What is installed before packages are built in the environment: what their builds require and the lock does not have.
fn build_requirements(part: &Target, whole: &Target) -> Option<String> {
    let mut lines = std::collections::BTreeMap::new();
    for build in part.packages.iter().filter_map(|package| package.build.as_ref()) {
        for requirement in build.requires.iter().filter(|_| !build.needs.is_empty()) {
            if whole.package(&requirement.name).is_none() {
                lines.insert(&requirement.name, requirement);
            }
        }
    }
    let mut out = String::new();
    for (name, requirement) in lines {
        let _ = writeln!(out, "{name}=={} --hash=sha256:{}", requirement.version, requirement.sha256);
    }
    Some(out).filter(|out| !out.is_empty())
}

#[cfg(unix)]
fn was_interrupted(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal() == Some(libc::SIGINT) || status.code() == Some(i32::from(exit::INTERRUPTED))
}

#[cfg(not(unix))]
fn was_interrupted(_status: std::process::ExitStatus) -> bool {
    false
}

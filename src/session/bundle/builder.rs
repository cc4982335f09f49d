//! Wheels of locked source distributions, built here: for machines that shall not build.

use std::path::{Path, PathBuf};

use crate::bundle::{from_one_folder, is_source, is_wheel_of};
use crate::formats::write;
use crate::lockfile::Target;
use crate::model::solution::ChosenPackage;
use crate::probe::pythons;
use crate::session::Interface;
use crate::session::chosen_host;
use crate::session::failure::{Failure, FailureKind};
use crate::session::files;
use crate::session::installers;
use crate::session::owner::with_places;
use crate::session::scratch::Scratch;
use crate::session::settings::{self, Project};
use crate::sync::env_allowlist::{self, EnvAllowlist};
use crate::sync::{self, Changes, Installer, Interpreter, Lists, Place, Purpose, Step, Talk};

/// What is built, and for whom.
pub(super) struct Builder<'b> {
    pub project: &'b Project,
    pub target: &'b Target,
    /// The program that builds; else what is here.
    pub uv: Option<PathBuf>,
    /// The folder with all files of the target: what builds import is installed from it.
    pub links: &'b Path,
    /// The address of the index `pypi`, where it is given.
    pub index_url: Option<&'b str>,
    pub offline: bool,
    pub interface: &'b dyn Interface,
}

impl Builder<'_> {
    /// Builds packages out of the source distributions that `sdist` names: with the locked build requirements, which pip cannot hold to
    /// before 25.3, and after the packages that it imports, in an environment that is removed afterwards. The wheels lie in the folder.
    ///
    /// # Errors
    /// When the target is not for this machine, its Python is not here, or a package cannot be built.
    pub fn wheels(
        &self,
        packages: &[&ChosenPackage],
        sdist: &dyn Fn(&ChosenPackage) -> Option<PathBuf>,
        out: &Path,
    ) -> Result<Vec<PathBuf>, Failure> {
        let here = chosen_host::seen().system.platform;
        if self.target.platform != here {
            return Err(Failure::usage(format!(
                "wheels for the target `{}` are built on {}, and this is {here}",
                self.target.name, self.target.platform
            ))
            .hint("run `envlock bundle --build` on such a machine"));
        }
        let wanted = self.target.wanted_python();
        let python = with_places(|places| pythons::python(places, wanted)).ok_or_else(|| {
            let text = format!("wheels for Python {wanted} are built with it, and it was not found here");
            Failure::new(FailureKind::Installer, text)
                .hint(format!("install it, for example with `uv python install {}`", wanted.python))
        })?;
        let python = python.path;
        let folder = Scratch::new("build")?;
        let installer = match self.uv.clone().or_else(|| with_places(pythons::uv)) {
            Some(uv) => Installer::Uv(uv),
            None => {
                let words = [&*python.to_string_lossy(), "-I", "-m", "pip"].map(str::to_owned);
                Installer::Pip(words.to_vec(), None)
            }
        };
        let has_to_be_there = packages.iter().any(|package| package.is_built_after_others());
        let environment = match has_to_be_there {
            true => Some(self.environment(&installer, &python, &folder)?),
            false => None,
        };
        let constraints = write::build_constraints(self.target)?;
        let constraints =
            constraints.map(|text| text_in(&folder, "build-constraints.txt", &text)).transpose()?;
        let mut wheels = Vec::new();
        for package in packages {
            let sdist = sdist(package).ok_or_else(|| {
                Failure::internal(format!("the source distribution of `{}` is not there", package.name))
            })?;
            let python =
                environment.as_deref().filter(|_| package.is_built_after_others()).unwrap_or(&python);
            let step = self.build(&installer, (package, &sdist), (python, constraints.as_deref()), out);
            self.run(&step, &installer)?;
            wheels.push(self.made(package, out)?);
        }
        Ok(wheels)
    }

    /// The command that builds one package.
    fn build(
        &self,
        installer: &Installer,
        (package, sdist): (&ChosenPackage, &Path),
        (python, constraints): (&Path, Option<&Path>),
        out: &Path,
    ) -> Step {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut command: Vec<String> = match installer {
            Installer::Uv(uv) => {
                let words = ["build", "--wheel", "--no-config", "--python"].map(str::to_owned);
                let end = [text(python), "--out-dir".to_owned(), text(out)];
                std::iter::once(text(uv)).chain(words).chain(end).collect()
            }
            // The environment's own pip builds in it.
            Installer::Pip(words, _) => {
                let words = std::iter::once(text(python)).chain(words.iter().skip(1).cloned());
                let options =
                    ["wheel", "--no-deps", "--disable-pip-version-check", "--wheel-dir"].map(str::to_owned);
                words.chain(options).chain([text(out)]).collect()
            }
        };
        match (package.is_built_after_others(), constraints) {
            (true, _) => command.push("--no-build-isolation".to_owned()),
            (false, Some(file)) if installer.constrains_builds() => {
                command.extend(["--build-constraint".to_owned(), text(file)]);
            }
            _ => {}
        }
        if self.offline && matches!(installer, Installer::Uv(_)) {
            command.push("--offline".to_owned());
        }
        command.push(text(sdist));
        Step { purpose: Purpose::Build, command }
    }

    /// The wheel that was made of a package.
    fn made(&self, package: &ChosenPackage, out: &Path) -> Result<PathBuf, Failure> {
        let entries = fs_err::read_dir(out)?.filter_map(Result::ok).map(|entry| entry.path());
        let is_of = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| is_wheel_of(&name, (&package.name, &package.version)))
        };
        entries.into_iter().find(is_of).ok_or_else(|| {
            let text = format!("the build of `{}` made no wheel of {}", package.name, package.version);
            Failure::new(FailureKind::Installer, text)
        })
    }

    /// An environment with all packages of the target that are not built; the path of its Python.
    fn environment(
        &self,
        installer: &Installer,
        python: &Path,
        folder: &Scratch,
    ) -> Result<PathBuf, Failure> {
        let prefix = folder.path().join("env");
        let place = Place {
            python: pythons::interpreter(&prefix),
            prefix,
            make: Some(Interpreter { python: python.to_path_buf(), replaces: false }),
        };
        let is_file = |package: &&ChosenPackage| !package.files.is_empty() && !is_source(package);
        let packages = self.target.packages.iter().filter(is_file).cloned().collect();
        let part = from_one_folder(Target { packages, ..self.target.clone() }, &[]);
        let text = write::packages(&part, &[], files::REQUIREMENTS)?;
        let of_builds = write::build_requirements(self.target, self.target);
        let lists = Lists {
            requirements: Some(text_in(folder, files::REQUIREMENTS, &text)?),
            build_requirements: of_builds
                .map(|text| text_in(folder, "build-requirements.txt", &text))
                .transpose()?,
            links: Some(std::path::absolute(self.links)?),
            ..Lists::default()
        };
        let talk = Talk {
            quiet: self.interface.is_quiet(),
            no_progress: !self.interface.shows_progress(),
            offline: self.offline,
        };
        let made = match installer {
            Installer::Uv(uv) => Installer::Uv(uv.clone()),
            Installer::Pip(words, version) => {
                let own = std::iter::once(place.python.to_string_lossy().into_owned());
                Installer::Pip(own.chain(words.iter().skip(1).cloned()).collect(), *version)
            }
        };
        for step in sync::steps(&made, &place, &Changes::default(), &lists, talk) {
            // pip makes no environment: that is the Python's own part.
            let mut step = step;
            if let (Purpose::MakeEnvironment, Installer::Pip(..)) = (step.purpose, installer) {
                step.command[0] = python.to_string_lossy().into_owned();
            }
            self.run(&step, installer)?;
        }
        Ok(place.python)
    }

    fn run(&self, step: &Step, installer: &Installer) -> Result<(), Failure> {
        let mut command = installers::command(&step.command);
        let passed = self.project.passed_variables();
        let builds = step.purpose != Purpose::MakeEnvironment;
        let passing = EnvAllowlist { purpose: env_allowlist::Purpose::Install, builds, more: passed };
        let (_, pypi) = settings::indexes(self.project, self.index_url);
        installers::isolate(&mut command, passing, pypi.as_ref(), self.interface);
        installers::run(command, step, installer.name(), self.interface)
    }
}

/// A text as a file in a folder.
fn text_in(folder: &Scratch, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let path = folder.path().join(name);
    fs_err::write(&path, text)?;
    Ok(path)
}

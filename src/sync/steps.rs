//! The commands of an installer, in the order in which they run.

use std::path::{Path, PathBuf};

use super::changes::Changes;

/// The program that installs packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installer {
    /// uv, by its path.
    Uv(PathBuf),
    /// The words that start pip for the environment, `.venv/bin/python -I -m pip`, and the version of pip.
    Pip(Vec<String>, Option<(u32, u32)>),
}

impl Installer {
    /// Its name in `--json`.
    pub fn name(&self) -> &'static str {
        match self {
            Installer::Uv(_) => "uv",
            Installer::Pip(..) => "pip",
        }
    }

    /// Whether it can pin what isolated builds require: pip since 25.3.
    pub fn constrains_builds(&self) -> bool {
        match self {
            Installer::Uv(_) => true,
            Installer::Pip(_, version) => version.is_some_and(|version| version >= (25, 3)),
        }
    }
}

/// The environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its folder.
    pub prefix: PathBuf,
    /// Its Python.
    pub python: PathBuf,
    /// How to make it first, if it does not exist or has another Python.
    pub make: Option<Interpreter>,
}

/// A Python to make an environment with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The Python.
    pub python: PathBuf,
    /// Whether an environment of the same name is replaced.
    pub replaces: bool,
}

/// The files that the commands read. Each is `None` if it would be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// What is installed or replaced by hash.
    pub requirements: Option<PathBuf>,
    /// What is installed from repositories and folders, which have no hash.
    pub direct: Option<PathBuf>,
    /// The packages that are built, by name; all others come as wheels.
    pub builds: Vec<String>,
    /// What isolated builds may require.
    pub build_constraints: Option<PathBuf>,
    /// What builds in the environment require.
    pub build_requirements: Option<PathBuf>,
    /// What is built in the environment.
    pub requirements_build: Option<PathBuf>,
    /// The project itself, if it is a package.
    pub project: Option<PathBuf>,
    /// The folder with all files, where no index is asked.
    pub links: Option<PathBuf>,
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Installs the Python to make the environment with.
    InstallPython,
    /// Makes the environment.
    MakeEnvironment,
    /// Removes packages that are not locked, or that are damaged and installed again.
    Remove,
    /// Installs packages.
    Install,
    /// Installs what builds in the environment require.
    InstallBuildRequirements,
    /// Builds packages that need a framework for it.
    Build,
    /// Installs the project itself.
    InstallProject,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it is for.
    pub purpose: Purpose,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// Options of the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Talk {
    /// Without output but errors.
    pub quiet: bool,
    /// Without progress bars.
    pub no_progress: bool,
    /// Without the network.
    pub offline: bool,
}

/// No package is built but those that are named.
const ONLY_WHEELS: [&str; 2] = ["--only-binary", ":all:"];

/// The commands that make the changes.
pub fn steps(
    installer: &Installer,
    place: &Place,
    changes: &Changes,
    lists: &Lists,
    talk: Talk,
) -> Vec<Step> {
    let commands = Commands { installer, python: &place.python, talk, links: lists.links.as_deref() };
    let again = match installer {
        Installer::Uv(_) => changes.again.iter().flat_map(|name| ["--reinstall-package", name]).collect(),
        // For the whole list: pip has no such option for one package.
        Installer::Pip(..) if changes.again.is_empty() => Vec::new(),
        Installer::Pip(..) => vec!["--force-reinstall"],
    };
    // The installer holds to it, whatever the lock says a file is: a source distribution of any other package, and of what
    // builds require, is refused.
    let built = lists.builds.iter().flat_map(|name| ["--no-binary", name]);
    let only_wheels: Vec<&str> = ONLY_WHEELS.into_iter().chain(built).collect();
    let mut steps = Vec::new();
    let mut push = |purpose, command| steps.push(Step { purpose, command });
    if let Some(interpreter) = &place.make {
        push(Purpose::MakeEnvironment, commands.make(interpreter, &place.prefix));
    }
    if !changes.remove.is_empty() {
        push(Purpose::Remove, commands.remove(&changes.remove));
    }
    if let Some(file) = &lists.requirements {
        let mut options = vec!["--no-deps", "--require-hashes"];
        options.extend(&only_wheels);
        options.extend(&again);
        push(Purpose::Install, commands.install_list(&options, lists, file));
    }
    if let Some(file) = &lists.direct {
        let mut options = vec!["--no-deps"];
        options.extend(&only_wheels);
        options.extend(&again);
        push(Purpose::Install, commands.install_list(&options, lists, file));
    }
    if let Some(file) = &lists.build_requirements {
        let options = ["--no-deps", "--require-hashes", ONLY_WHEELS[0], ONLY_WHEELS[1], "-r"];
        push(Purpose::InstallBuildRequirements, commands.install_with(&options, file));
    }
    if let Some(file) = &lists.requirements_build {
        let mut options = vec!["--no-deps", "--no-build-isolation"];
        options.extend(&only_wheels);
        options.extend(&again);
        options.push("-r");
        push(Purpose::Build, commands.install_with(&options, file));
    }
    if let Some(folder) = &lists.project {
        push(Purpose::InstallProject, commands.install_with(&["--no-deps", "-e"], folder));
    }
    steps
}

struct Commands<'c> {
    installer: &'c Installer,
    python: &'c Path,
    talk: Talk,
    links: Option<&'c Path>,
}

impl Commands<'_> {
    fn make(&self, interpreter: &Interpreter, prefix: &Path) -> Vec<String> {
        let python = text(&interpreter.python);
        let mut command = match self.installer {
            Installer::Uv(uv) => vec![text(uv), "venv".to_owned(), "--python".to_owned(), python],
            Installer::Pip(..) => vec![python, "-I".to_owned(), "-m".to_owned(), "venv".to_owned()],
        };
        if interpreter.replaces {
            command.push("--clear".to_owned());
        }
        if let Installer::Uv(_) = self.installer {
            command.extend(self.global_options());
        }
        command.push(text(prefix));
        command
    }

    /// The start of an installation.
    fn install(&self) -> Vec<String> {
        let mut command = self.start("install");
        command.extend(self.global_options());
        if let Some(links) = self.links {
            command.extend(["--no-index".to_owned(), "--find-links".to_owned(), text(links)]);
        }
        command
    }

    /// Installs a list, of which some may be built.
    fn install_list(&self, options: &[&str], lists: &Lists, file: &Path) -> Vec<String> {
        let constraints = lists.build_constraints.as_ref().filter(|_| self.installer.constrains_builds());
        let constraints = constraints.map(|file| text(file));
        let mut options = options.to_vec();
        if let Some(file) = &constraints {
            options.extend(["--build-constraint", file]);
        }
        options.push("-r");
        self.install_with(&options, file)
    }

    fn install_with(&self, options: &[&str], file: &Path) -> Vec<String> {
        let mut command = self.install();
        command.extend(options.iter().map(|option| (*option).to_owned()));
        command.push(text(file));
        command
    }

    fn remove(&self, names: &[String]) -> Vec<String> {
        let mut command = self.start("uninstall");
        match self.installer {
            Installer::Uv(_) => command.extend(self.global_options()),
            // It has no progress bar and no network to turn off.
            Installer::Pip(..) => command.extend(["--yes", "--quiet"].map(str::to_owned)),
        }
        command.extend(names.iter().cloned());
        command
    }

    fn start(&self, what: &str) -> Vec<String> {
        match self.installer {
            Installer::Uv(uv) => {
                vec![text(uv), "pip".to_owned(), what.to_owned(), "--python".to_owned(), text(self.python)]
            }
            Installer::Pip(words, _) => words
                .iter()
                .cloned()
                .chain([what.to_owned(), "--disable-pip-version-check".to_owned()])
                .collect(),
        }
    }

    fn global_options(&self) -> Vec<String> {
        let Talk { quiet, no_progress, offline } = self.talk;
        let is_uv = matches!(self.installer, Installer::Uv(_));
        let options: [(bool, &[&str]); 4] = [
            (quiet, &["--quiet"]),
            (no_progress && is_uv, &["--no-progress"]),
            (no_progress && !is_uv, &["--progress-bar", "off"]),
            (offline && is_uv, &["--offline"]),
        ];
        let given = options.iter().filter(|(given, _)| *given);
        given.flat_map(|(_, words)| words.iter()).map(|word| (*word).to_owned()).collect()
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

//! The file system that an environment lies in, and what programs in it find: this machine's, or another root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::inspect::loader::Surroundings;
use crate::inspect::{self, Chosen, Environment, FileTree, ThisMachine};
use crate::model::count::Count;
use crate::model::host::System;
use crate::model::platform::Platform;
use crate::model::text::{clean, shell_word};
use crate::session::chosen_host;
use crate::session::failure::{Failure, FailureKind};
use crate::session::variables;

/// Maximum number of environments that an error names.
const NAMED: usize = 10;

/// The file system that an environment lies in, and what programs in it find.
pub(crate) struct Place<'p> {
    pub tree: &'p dyn FileTree,
    /// Where its system folders are: `/`, or `ENVLOCK_SYSROOT`.
    pub root: PathBuf,
    /// The environment variables of its programs; `None` for those of this process.
    variables: Option<BTreeMap<String, String>>,
    pub working_folder: PathBuf,
    conda: Vec<PathBuf>,
    /// The platform that its programs are for, where something states it.
    stated: Option<Platform>,
}

impl Place<'static> {
    /// This machine.
    pub fn here() -> Place<'static> {
        Place {
            tree: &ThisMachine,
            root: chosen_host::root(),
            variables: None,
            working_folder: std::env::current_dir().unwrap_or_default(),
            conda: conda_folders(),
            stated: None,
        }
    }
}

impl<'p> Place<'p> {
    /// A root file system whose programs are started with these variables in this folder.
    pub fn rooted(
        tree: &'p dyn FileTree,
        mut variables: BTreeMap<String, String>,
        working_folder: PathBuf,
    ) -> Place<'p> {
        // Python takes relative folders from where it is started.
        if let Some(path) = variables.get_mut("PYTHONPATH") {
            let absolute = |entry: &str| match entry.is_empty() || entry.starts_with('/') {
                true => entry.to_owned(),
                false => working_folder.join(entry).display().to_string(),
            };
            *path = path.split(':').map(absolute).collect::<Vec<_>>().join(":");
        }
        Place {
            tree,
            root: PathBuf::from("/"),
            variables: Some(variables),
            working_folder,
            conda: Vec::new(),
            stated: None,
        }
    }

    /// The same, whose programs are said to be for a platform.
    #[must_use]
    pub fn stating(self, platform: Option<Platform>) -> Place<'p> {
        Place { stated: platform, ..self }
    }

    /// Whether it is this machine's own file system.
    pub fn is_here(&self) -> bool {
        self.variables.is_none()
    }

    /// An environment variable of its programs. Invalid UTF-8 is replaced, so that the other entries of a path list stay
    /// usable.
    pub fn variable(&self, name: &str) -> Option<String> {
        match &self.variables {
            Some(variables) => variables.get(name).cloned(),
            None => variables::raw(name).map(|value| value.to_string_lossy().into_owned()),
        }
    }

    /// What the loader finds in it besides the environment.
    pub fn surroundings(&self) -> Surroundings<'p> {
        Surroundings {
            tree: self.tree,
            root: self.root.clone(),
            library_path: self.variable("LD_LIBRARY_PATH"),
            preload: self.variable("LD_PRELOAD"),
            conda: self.conda.clone(),
            working_folder: self.working_folder.clone(),
        }
    }

    /// The system of its interpreter, if that can be read.
    pub fn system(&self, environment: &Path) -> Option<System> {
        let site = inspect::site_packages(self.tree, environment)?;
        inspect::system_of(self.tree, &inspect::interpreter_of(self.tree, environment, &site)?)
    }

    /// The system of its programs: the interpreter's, else the one that is stated.
    pub fn system_or_stated(&self, environment: &Path) -> Option<System> {
        let stated = || Some(System { platform: self.stated?, libc: None, found_by: "the image".into() });
        self.system(environment).or_else(stated)
    }

    /// The environment that is judged: the named one, else the only one there is.
    ///
    /// # Errors
    /// When there is none, or a choice.
    pub fn environment(&self, named: Option<&Path>, shown: &str) -> Result<Environment, Failure> {
        if let Some(named) = named {
            return Ok(Environment { prefix: Path::new("/").join(named), chosen: Chosen::Named });
        }
        let inspect::Environments { found, is_complete, unreadable } = inspect::environments(self.tree);
        let mut prefixes = found.keys();
        match (prefixes.next(), found.len()) {
            (Some(only), 1) => Ok(Environment { prefix: only.clone(), chosen: Chosen::Found }),
            (None, _) => Err(Failure::new(
                FailureKind::Environment,
                match (is_complete, unreadable) {
                    (true, _) => format!("`{shown}` contains no Python environment with packages"),
                    (_, Some(folder)) => format!(
                        "no Python environment was found in `{shown}`, and {} of it cannot be read: permission denied",
                        clean(&folder.display().to_string(), 200)
                    ),
                    _ => {
                        format!("`{shown}` has too many folders to search all of it for a Python environment")
                    }
                },
            )
            .hint("`--prefix DIR` names one, as a path in that root")),
            (Some(first), _) => {
                let all = found.iter().take(NAMED);
                let all: Vec<String> = all
                    .map(|(prefix, one)| {
                        format!(
                            "`{}` ({})",
                            clean(&prefix.display().to_string(), 200),
                            Count(one.packages).of("package")
                        )
                    })
                    .collect();
                Err(Failure::new(
                    FailureKind::Environment,
                    format!("`{shown}` contains {} Python environments: {}", found.len(), all.join(", ")),
                )
                .hint(format!(
                    "name one as a path in that root: `--prefix {}`",
                    shell_word(&clean(&first.display().to_string(), 200))
                )))
            }
        }
    }
}

/// The library folders of conda: of the active environment and of the usual installations.
fn conda_folders() -> Vec<PathBuf> {
    let active = variables::path("CONDA_PREFIX");
    let home = variables::raw("HOME").map(PathBuf::from);
    let usual = ["miniconda3", "anaconda3", "miniforge3", "mambaforge"];
    let usual = usual.iter().filter_map(|name| Some(home.as_ref()?.join(name)));
    active.into_iter().chain(usual).map(|folder| folder.join("lib")).collect()
}

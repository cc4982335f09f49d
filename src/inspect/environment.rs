//! Chooses the environment for a command: one rule for `verify`, `run` and `diagnose --here`.

use std::path::{Path, PathBuf};

/// An environment, and how it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Its folder.
    pub prefix: PathBuf,
    /// How it was chosen.
    pub chosen: Chosen,
}

/// How an environment was chosen, in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// Named with `--prefix`.
    Named,
    /// Activated as a venv: `VIRTUAL_ENV`.
    ActiveVenv,
    /// Activated with conda, and not conda's base environment: `CONDA_PREFIX`.
    ActiveConda,
    /// The project's own: `.venv` in its folder, or what its package manager uses. It is neither named nor active, so
    /// its code runs only on request.
    Found,
}

/// Why no environment was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoEnvironment {
    /// No environment is named or active, and the project has none of its own here.
    #[error("no environment is active, and the project has none in `{0}`")]
    None(String),
    /// Only conda's base environment is active, which contains conda itself.
    #[error("only conda's base environment is active: `{0}`")]
    CondaBase(String),
}

impl Environment {
    /// Chooses the environment: the named one, else the active venv, else the active conda environment unless it is
    /// conda's base, else the project's own, which is `own` in its folder. `variable` reads one environment variable.
    ///
    /// # Errors
    /// When there is no such environment.
    pub fn choose(
        named: Option<&Path>,
        (project, own): (&Path, &Path),
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Environment, NoEnvironment> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(named) = named {
            return Ok(Environment { prefix: named.to_path_buf(), chosen: Chosen::Named });
        }
        if let Some(prefix) = set("VIRTUAL_ENV") {
            return Ok(Environment { prefix, chosen: Chosen::ActiveVenv });
        }
        let conda = set("CONDA_PREFIX");
        let is_base = conda.as_ref().is_some_and(|prefix| is_conda_base(prefix, variable));
        if let (Some(prefix), false) = (&conda, is_base) {
            return Ok(Environment { prefix: prefix.clone(), chosen: Chosen::ActiveConda });
        }
        let beside = project.join(own);
        // PEP 405: a venv has a pyvenv.cfg. conda keeps its records in conda-meta.
        if beside.join("pyvenv.cfg").is_file() || beside.join("conda-meta").is_dir() {
            return Ok(Environment { prefix: beside, chosen: Chosen::Found });
        }
        Err(match conda {
            Some(base) => NoEnvironment::CondaBase(base.display().to_string()),
            None => NoEnvironment::None(own.display().to_string()),
        })
    }

    /// Whether the user named or activated it.
    pub fn is_explicit(&self) -> bool {
        self.chosen != Chosen::Found
    }
}

/// Whether a prefix is conda's base environment: `CONDA_DEFAULT_ENV` is `base`, or it has `condabin`, which only the
/// base environment has.
fn is_conda_base(prefix: &Path, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    variable("CONDA_DEFAULT_ENV").as_deref() == Some("base")
        || prefix.join("condabin").is_dir() && prefix.join("conda-meta").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A project with a `.venv`, and the folder of a conda installation.
    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (project, conda) = (dir.path().join("project"), dir.path().join("conda"));
        fs_err::create_dir_all(project.join(".venv")).unwrap();
        fs_err::write(project.join(".venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
        fs_err::create_dir_all(conda.join("condabin")).unwrap();
        fs_err::create_dir_all(conda.join("conda-meta")).unwrap();
        (dir, project, conda)
    }

    #[test]
    fn the_first_of_named_active_and_found_is_chosen() {
        let (_dir, project, conda) = folders();
        let conda = conda.display().to_string();
        let own = Path::new(".venv");
        type Variables<'v> = &'v [(&'v str, &'v str)];
        let table: [(Option<&str>, Variables<'_>, Chosen); 7] = [
            (Some("x"), &[("VIRTUAL_ENV", "/v"), ("CONDA_PREFIX", "/c")], Chosen::Named),
            (None, &[("VIRTUAL_ENV", "/v"), ("CONDA_PREFIX", "/c")], Chosen::ActiveVenv),
            (None, &[("VIRTUAL_ENV", ""), ("CONDA_PREFIX", "/c/envs/a")], Chosen::ActiveConda),
            (None, &[("CONDA_PREFIX", "/c"), ("CONDA_DEFAULT_ENV", "base")], Chosen::Found),
            (None, &[("CONDA_PREFIX", &conda)], Chosen::Found),
            (None, &[("VIRTUAL_ENV", "/v"), ("CONDA_DEFAULT_ENV", "base")], Chosen::ActiveVenv),
            (None, &[], Chosen::Found),
        ];
        for (named, variables, expected) in table {
            let variable = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            let found = Environment::choose(named.map(Path::new), (&project, own), &variable).unwrap();
            assert_eq!(found.chosen, expected, "{named:?} {variables:?}");
        }
    }

    #[test]
    fn error_names_condas_base_environment() {
        let (_dir, project, conda) = folders();
        let base = conda.display().to_string();
        let none = |_: &str| None;
        let (elsewhere, own) = (project.join("src"), Path::new(".venv"));
        let nothing = NoEnvironment::None(".venv".to_owned());
        assert_eq!(Environment::choose(None, (&elsewhere, own), &none), Err(nothing.clone()));
        let variable = |name: &str| (name == "CONDA_PREFIX").then(|| base.clone());
        assert_eq!(
            Environment::choose(None, (&elsewhere, own), &variable),
            Err(NoEnvironment::CondaBase(base.clone()))
        );
        // A `.venv` folder that is not a venv is ignored.
        fs_err::remove_file(project.join(".venv/pyvenv.cfg")).unwrap();
        assert_eq!(Environment::choose(None, (&project, own), &none), Err(nothing));
    }
}

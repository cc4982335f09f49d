//! `pyproject.toml` of a source tree: `[build-system]` and the static part of `[project]` (PEP 518, PEP 621).

use serde::Deserialize;

use super::Unreadable;
use crate::model::text::clean;

/// What `pyproject.toml` states.
#[derive(Debug, Default)]
pub(super) struct Pyproject {
    /// `[build-system] requires`, if the table is there.
    pub requires: Option<Vec<String>>,
    /// `[build-system] build-backend`.
    pub backend: Option<String>,
    /// `[project]`.
    pub project: Option<Project>,
    /// Whether the backend is a module of the tree.
    pub has_backend_path: bool,
    /// `[tool]`.
    tool: toml::Table,
}

/// The static part of `[project]`.
#[derive(Debug)]
pub(super) struct Project {
    pub name: Option<String>,
    pub version: Option<String>,
    pub requires_python: Option<String>,
    pub requires: Vec<String>,
    pub extras: Vec<String>,
    /// Neither dependencies nor extras nor Python are `dynamic`.
    pub states_requirements: bool,
    dynamic: Vec<String>,
}

impl Project {
    /// Whether the build backend supplies a field.
    pub fn is_dynamic(&self, field: &str) -> bool {
        self.dynamic.iter().any(|name| name == field)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Raw {
    build_system: Option<RawBuild>,
    project: Option<RawProject>,
    #[serde(default)]
    tool: toml::Table,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawBuild {
    #[serde(default)]
    requires: Vec<String>,
    build_backend: Option<String>,
    backend_path: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawProject {
    name: Option<String>,
    version: Option<String>,
    requires_python: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    optional_dependencies: std::collections::BTreeMap<String, Vec<String>>,
    #[serde(default)]
    dynamic: Vec<String>,
}

impl Pyproject {
    pub fn parse(text: &str) -> Result<Pyproject, Unreadable> {
        let raw: Raw = toml::from_str(text).map_err(|e| {
            Unreadable::Other(format!("its `pyproject.toml` is not valid: {}", clean(e.message(), 120)))
        })?;
        let project = raw.project.map(|project| {
            let is_dynamic = |key: &str| project.dynamic.iter().any(|d| d == key);
            let states_requirements = !["dependencies", "optional-dependencies", "requires-python"]
                .iter()
                .any(|key| is_dynamic(key));
            let mut requires = project.dependencies;
            for (extra, lines) in &project.optional_dependencies {
                for line in lines {
                    requires.push(match line.split_once(';') {
                        None => format!("{line}; extra == '{extra}'"),
                        Some((requirement, marker)) => {
                            format!("{}; ({}) and extra == '{extra}'", requirement.trim(), marker.trim())
                        }
                    });
                }
            }
            Project {
                name: project.name,
                version: project.version,
                requires_python: project.requires_python,
                requires,
                extras: project.optional_dependencies.into_keys().collect(),
                states_requirements,
                dynamic: project.dynamic,
            }
        });
        let has_backend_path = raw.build_system.as_ref().is_some_and(|build| build.backend_path.is_some());
        let (requires, backend) = match raw.build_system {
            Some(build) => (Some(build.requires), build.build_backend),
            None => (None, None),
        };
        Ok(Pyproject { requires, backend, project, has_backend_path, tool: raw.tool })
    }

    /// `[tool.NAME]`.
    pub fn tool(&self, name: &str) -> Option<&toml::Value> {
        self.tool.get(name)
    }

    /// A value below `[tool]`.
    pub fn tool_at(&self, path: &[&str]) -> Option<&toml::Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.tool.get(*first)?, |value, key| value.get(key))
    }

    /// Whether poetry builds the project, without a plugin that computes a version.
    pub fn is_of_poetry(&self) -> bool {
        /// The build backends that read the tables as they stand.
        const BACKENDS: [&str; 2] = ["poetry.core.masonry.api", "poetry.masonry.api"];
        !self.has_backend_path && self.backend.as_deref().is_some_and(|backend| BACKENDS.contains(&backend))
    }

    /// A text of `[tool.poetry]` where poetry builds the project: `name`, `version`.
    pub fn text_of_poetry(&self, key: &str) -> Option<String> {
        let text = self.tool_at(&["poetry", key]).and_then(toml::Value::as_str);
        text.map(str::to_owned).filter(|_| self.is_of_poetry())
    }

    /// Whether setuptools builds the project, which runs its `setup.py`.
    pub fn is_of_setuptools(&self) -> bool {
        let is_own = |backend: &str| backend.starts_with("setuptools.build_meta");
        !self.has_backend_path && self.backend.as_deref().is_none_or(is_own)
    }

    /// What the build requires: `[build-system] requires`, else setuptools and wheel, as in PEP 517's fallback.
    pub fn build_requires(&self) -> Vec<String> {
        let fallback = || vec!["setuptools".to_owned(), "wheel".to_owned()];
        self.requires.clone().unwrap_or_else(fallback)
    }
}

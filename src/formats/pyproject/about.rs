//! What a pyproject.toml says of the project itself.

use serde::Deserialize;

use crate::model::text::normalized_name;

/// The project that a pyproject.toml describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its normalized name.
    pub name: Option<String>,
    /// The Pythons that it runs on: `>=3.10`.
    pub requires_python: Option<String>,
    /// Whether it can be built, and so is a package.
    pub has_build_system: bool,
}

/// Reads the tables `[project]` and `[build-system]`; `None` if they cannot be read, or there is no `[project]`.
pub fn about(text: &str) -> Option<About> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Document {
        project: Option<Project>,
        build_system: Option<serde::de::IgnoredAny>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Project {
        name: Option<String>,
        requires_python: Option<String>,
    }
    let read: Document = toml::from_str(text).ok()?;
    let project = read.project?;
    Some(About {
        name: project.name.as_deref().map(normalized_name),
        requires_python: project.requires_python,
        has_build_system: read.build_system.is_some(),
    })
}

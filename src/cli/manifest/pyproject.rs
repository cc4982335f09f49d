//! `pyproject.toml` as a manifest: `[project]` of PEP 621, and envlock's tables under `[tool.envlock]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::target::TargetTable;
use super::{RawIndex, RawManifest, RawMetadata, RawProject, RawResolve, RawSync};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawPyproject {
    project: Option<RawPep621>,
    /// PEP 735.
    #[serde(default)]
    dependency_groups: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    tool: RawTool,
}

/// The part of PEP 621 that envlock reads.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct RawPep621 {
    name: Option<String>,
    requires_python: Option<Spanned<String>>,
    #[serde(default)]
    dependencies: Vec<Spanned<String>>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    dynamic: Vec<String>,
}

#[derive(Deserialize, Default)]
struct RawTool {
    #[serde(default)]
    envlock: RawEnvlock,
}

/// The tables of envlock.toml. `[project]` is PEP 621's here, except for the keys `python` and `constraints`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawEnvlock {
    /// Replaces the project's `requires-python`.
    python: Option<Spanned<String>>,
    #[serde(default)]
    constraints: Vec<Spanned<String>>,
    #[serde(default)]
    stack: BTreeMap<String, Spanned<toml::Value>>,
    #[serde(default)]
    target: BTreeMap<String, Spanned<TargetTable>>,
    #[serde(default)]
    index: Vec<Spanned<RawIndex>>,
    resolve: Option<RawResolve>,
    sync: Option<RawSync>,
    #[serde(default)]
    metadata: Vec<Spanned<RawMetadata>>,
}

/// Reads a pyproject.toml as if it were an envlock.toml.
pub(super) fn parse(text: &str) -> Result<RawManifest, toml::de::Error> {
    let raw: RawPyproject = toml::from_str(text)?;
    let project = raw.project.unwrap_or_default();
    let ours = raw.tool.envlock;
    let mut not_locked: Vec<String> = project
        .optional_dependencies
        .keys()
        .map(|name| format!("project.optional-dependencies.{name}"))
        .collect();
    not_locked.extend(raw.dependency_groups.keys().map(|name| format!("dependency-groups.{name}")));
    let is_of_dependencies =
        |key: &&String| ["dependencies", "optional-dependencies"].contains(&key.as_str());
    not_locked.extend(project.dynamic.iter().filter(is_of_dependencies).map(|key| format!("dynamic {key}")));
    Ok(RawManifest {
        project: Some(RawProject {
            name: project.name,
            python: ours.python.or(project.requires_python),
            dependencies: project.dependencies,
            constraints: ours.constraints,
        }),
        stack: ours.stack,
        target: ours.target,
        index: ours.index,
        resolve: ours.resolve,
        sync: ours.sync,
        metadata: ours.metadata,
        not_locked,
    })
}

//! `pyproject.toml` as a manifest: `[project]` of PEP 621, and envlock's tables under `[tool.envlock]`.

use std::collections::{BTreeMap, BTreeSet};

use pep508_rs::ExtraName;
use serde::Deserialize;
use toml::Spanned;

use super::NotLocked;
use super::conda_table::RawConda;
use super::index_table::RawIndex;
use super::schedule_table::RawSchedule;
use super::target::TargetTable;
use super::{RawExport, RawManifest, RawMetadata, RawProject, RawRegistry, RawResolve, RawSync};
use crate::formats::pyproject::parts::{Entry, Lists};
use crate::model::part::Part;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawPyproject {
    project: Option<RawPep621>,
    /// PEP 735.
    #[serde(default)]
    dependency_groups: BTreeMap<String, Vec<Spanned<toml::Value>>>,
    #[serde(default)]
    tool: RawTool,
}

/// The part of PEP 621 that envlock reads.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct RawPep621 {
    name: Option<String>,
    requires_python: Option<Spanned<String>>,
    /// No key of PEP 621, but one of envlock.toml.
    python: Option<Spanned<toml::Value>>,
    #[serde(default)]
    dependencies: Vec<Spanned<String>>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, Vec<Spanned<String>>>,
    #[serde(default)]
    dynamic: Vec<String>,
}

#[derive(Deserialize, Default)]
struct RawTool {
    #[serde(default)]
    envlock: RawEnvlock,
    #[serde(default)]
    uv: toml::Table,
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
    conda: Option<RawConda>,
    resolve: Option<RawResolve>,
    registry: Option<RawRegistry>,
    export: Option<RawExport>,
    sync: Option<RawSync>,
    schedule: Option<RawSchedule>,
    #[serde(default)]
    metadata: Vec<Spanned<RawMetadata>>,
}

/// Reads a pyproject.toml as if it were an envlock.toml.
pub(super) fn parse(text: &str) -> Result<RawManifest, toml::de::Error> {
    let raw: RawPyproject = toml::from_str(text)?;
    let project = raw.project.unwrap_or_default();
    let ours = raw.tool.envlock;
    let is_of_dependencies =
        |key: &&String| ["dependencies", "optional-dependencies"].contains(&key.as_str());
    let dynamic = project.dynamic.iter().filter(is_of_dependencies);
    let not_locked = dynamic.map(|key| NotLocked::Dynamic(key.clone())).collect();
    let mut parts: Lists<usize> = Lists::new();
    if project.python.is_some() {
        return Err(<toml::de::Error as serde::de::Error>::custom(
            "`[project]` of a pyproject.toml has no `python`: `requires-python` says what the package runs on, and `python` under `[tool.envlock]` what is locked",
        ));
    }
    let names = project.optional_dependencies.keys().chain(raw.dependency_groups.keys());
    // The names of groups have the same form (PEP 735).
    let is_part_name = |name: &&String| name.parse::<ExtraName>().is_ok();
    if let Some(name) = names.clone().find(|name| !is_part_name(name)) {
        let shown = crate::model::text::clean(name, 60);
        return Err(<toml::de::Error as serde::de::Error>::custom(format!(
            "`{shown}` is not the name of an extra or group: letters, digits, `-`, `_` and `.`"
        )));
    }
    for (name, lines) in project.optional_dependencies {
        let entry = |line: Spanned<String>| {
            let start = line.span().start;
            (Entry::Line(line.into_inner()), start)
        };
        parts.insert(Part::extra(&name), lines.into_iter().map(entry).collect());
    }
    for (name, values) in raw.dependency_groups {
        let entry = |value: &Spanned<toml::Value>| (Entry::of_group(value.as_ref()), value.span().start);
        parts.insert(Part::group(&name), values.iter().map(entry).collect());
    }
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
        conda: ours.conda,
        resolve: ours.resolve,
        registry: ours.registry,
        export: ours.export,
        sync: ours.sync,
        schedule: ours.schedule,
        metadata: ours.metadata,
        not_locked,
        parts,
        conflicting: conflicting(&raw.tool.uv),
    })
}

/// The parts of `[tool.uv] conflicts`: those of a set cannot be installed together.
fn conflicting(uv: &toml::Table) -> BTreeSet<Part> {
    let sets = uv.get("conflicts").and_then(toml::Value::as_array).into_iter().flatten();
    let members = sets.filter_map(toml::Value::as_array).filter(|set| set.len() > 1).flatten();
    members
        .filter_map(|member| {
            let text = |key: &str| member.get(key).and_then(toml::Value::as_str);
            text("extra").map(Part::extra).or_else(|| text("group").map(Part::group))
        })
        .collect()
}

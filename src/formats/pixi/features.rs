//! The features of a pixi manifest, and the environment whose features are taken.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::formats::imported::{ImportError, Imported};
use crate::model::request::STACK_PACKAGES;
use crate::model::text::clean;
use crate::registry::conda_names::framework_of;

/// The environment of a manifest that names none.
const DEFAULT: &str = "default";

/// The names of a platform's tables for linux-64, which is locked for where none is named.
const LINUX: [&str; 3] = ["linux-64", "linux", "unix"];

/// What a feature asks for. The tables at the top of a manifest are a feature too.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Feature {
    pub system_requirements: toml::Table,
    pub host_dependencies: toml::Table,
    pub build_dependencies: toml::Table,
    pub dependencies: BTreeMap<String, toml::Value>,
    pub pypi_dependencies: BTreeMap<String, toml::Value>,
    pub pypi_options: toml::Table,
    pub constraints: toml::Table,
    pub channels: Vec<toml::Value>,
    pub platforms: Vec<toml::Value>,
    pub target: BTreeMap<String, Feature>,
    pub tasks: toml::Table,
    pub activation: toml::Table,
    #[serde(flatten)]
    pub others: toml::Table,
}

impl Feature {
    /// What the table is called in messages: `[feature.gpu.dependencies]`.
    pub fn table(feature: Option<&str>, table: &str) -> String {
        match feature {
            Some(name) => format!("[feature.{name}.{table}]"),
            None => format!("[{table}]"),
        }
    }

    /// The parts of it that count on linux-64: its own tables, and those of its platform.
    pub fn on_linux(&self) -> impl Iterator<Item = &Feature> {
        std::iter::once(self).chain(LINUX.iter().filter_map(|name| self.target.get(*name)))
    }

    /// The platforms whose tables do not count.
    pub fn other_platforms(&self) -> impl Iterator<Item = &str> {
        self.target.keys().map(String::as_str).filter(|name| !LINUX.contains(name))
    }

    /// Whether it asks for a framework: an environment without it is another one.
    fn decides_stack(&self) -> bool {
        let names = |part: &Feature| -> Vec<String> {
            part.dependencies.keys().chain(part.pypi_dependencies.keys()).cloned().collect()
        };
        let is_one = |name: &str| STACK_PACKAGES.contains(&name) || framework_of(name).is_some();
        self.on_linux().flat_map(names).any(|name| is_one(&name))
    }
}

/// A row of `[environments]`: its features, and whether the tables at the top count.
fn features_of(row: &toml::Value) -> (Vec<String>, bool) {
    let list = row.as_array().or_else(|| row.get("features").and_then(toml::Value::as_array));
    let names = list.into_iter().flatten().filter_map(toml::Value::as_str).map(str::to_owned).collect();
    let without = row.get("no-default-feature").and_then(toml::Value::as_bool).unwrap_or(false);
    (names, !without)
}

/// The features of an environment, by name; the one at the top of the manifest has none.
///
/// # Errors
/// When there is no such environment or feature, or none is asked for and only named ones have the stack.
pub(super) fn chosen<'f>(
    out: &mut Imported,
    (top, features, environments): (&'f Feature, &'f BTreeMap<String, Feature>, &toml::Table),
    (name, asked): (&str, Option<&str>),
) -> Result<Vec<(Option<&'f str>, &'f Feature)>, ImportError> {
    let names = || environments.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let row = environments.get(asked.unwrap_or(DEFAULT));
    let (chosen, has_top) = match (row, asked) {
        (Some(row), _) => features_of(row),
        (None, None | Some(DEFAULT)) => (Vec::new(), true),
        (None, Some(asked)) => {
            return Err(ImportError::usage(format!(
                "{} has no environment `{}`; it has {}",
                clean(name, 80),
                clean(asked, 60),
                if environments.is_empty() { "none".to_owned() } else { clean(&names(), 200) }
            )));
        }
    };
    let in_named = || features.values().any(Feature::decides_stack);
    if row.is_none() && asked.is_none() && !environments.is_empty() && !top.decides_stack() && in_named() {
        return Err(ImportError::usage(format!(
            "the frameworks of {} are in its environments {}, and no `default` is among them: pass `--environment NAME`",
            clean(name, 80),
            clean(&names(), 200)
        )));
    }
    let mut taken = Vec::new();
    if has_top {
        taken.push((None, top));
    }
    for one in chosen.iter().filter(|one| *one != DEFAULT) {
        let Some((own, feature)) = features.get_key_value(one) else {
            return Err(ImportError::usage(format!(
                "{} has no feature `{}`, which its environment names",
                clean(name, 80),
                clean(one, 60)
            )));
        };
        taken.push((Some(own.as_str()), feature));
    }
    let others: Vec<&str> =
        environments.keys().map(String::as_str).filter(|own| *own != asked.unwrap_or(DEFAULT)).collect();
    if !others.is_empty() {
        out.leave_out_because(
            &format!("[environments] {}", others.join(", ")),
            "`--environment NAME` takes another one",
        );
    }
    let used: Vec<&str> = taken.iter().filter_map(|(own, _)| *own).collect();
    let in_others = |own: &&String| {
        others
            .iter()
            .any(|other| environments.get(*other).is_some_and(|row| features_of(row).0.contains(own)))
    };
    for own in features.keys().filter(|own| !used.contains(&own.as_str()) && !in_others(own)) {
        out.leave_out_because(&format!("[feature.{own}]"), "the environment does not have it");
    }
    Ok(taken)
}

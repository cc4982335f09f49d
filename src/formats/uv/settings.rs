//! What uv is told: all of a `uv.toml`, or `[tool.uv]` of a pyproject.toml.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::sources::Sources;
use crate::model::text::normalized_name;
use crate::model::wheel::Python;

/// The settings that bound versions, say where packages come from, or let them be built.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub struct Settings {
    /// Bounds of packages that are not required.
    #[serde(default)]
    pub constraint_dependencies: Vec<String>,
    /// Requirements in place of those of packages.
    #[serde(default)]
    pub override_dependencies: Vec<String>,
    /// The day or the age after which files are not taken.
    pub exclude_newer: Option<toml::Value>,
    /// That of single packages.
    pub exclude_newer_package: Option<toml::Value>,
    #[serde(default)]
    sources: BTreeMap<String, toml::Value>,
    /// The rows of `[[tool.uv.index]]`.
    #[serde(default)]
    pub index: Vec<toml::Value>,
    default_groups: Option<toml::Value>,
    #[serde(default)]
    no_binary_package: Vec<String>,
    /// Which parts exclude each other.
    pub conflicts: Option<toml::Value>,
    /// All others.
    #[serde(flatten)]
    pub others: toml::Table,
}

/// The groups that uv installs when none is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultGroups {
    /// Every group.
    All,
    /// By their normalized names.
    Named(Vec<String>),
}

impl DefaultGroups {
    /// Whether a group is one, by its normalized name.
    pub fn has(&self, group: &str) -> bool {
        match self {
            DefaultGroups::All => true,
            DefaultGroups::Named(names) => names.iter().any(|name| name == group),
        }
    }
}

impl Settings {
    /// Reads `[tool.uv]` of a pyproject.toml; `None` if it has none.
    ///
    /// # Errors
    /// When it is not TOML, or a key has another type than uv reads.
    pub fn of_pyproject(text: &str) -> Result<Option<Settings>, toml::de::Error> {
        #[derive(Deserialize)]
        struct Document {
            #[serde(default)]
            tool: Tool,
        }
        #[derive(Deserialize, Default)]
        struct Tool {
            uv: Option<Settings>,
        }
        Ok(toml::from_str::<Document>(text)?.tool.uv)
    }

    /// Reads a `uv.toml`.
    ///
    /// # Errors
    /// As [`Settings::of_pyproject`].
    pub fn of_uv_toml(text: &str) -> Result<Settings, toml::de::Error> {
        toml::from_str(text)
    }

    /// Where packages come from.
    pub fn sources(&self) -> Sources {
        Sources::new(&self.sources)
    }

    /// The groups that are installed when none is named: `default-groups`, else `dev`.
    pub fn default_groups(&self) -> DefaultGroups {
        match &self.default_groups {
            Some(toml::Value::String(all)) if all == "all" => DefaultGroups::All,
            Some(toml::Value::Array(groups)) => DefaultGroups::Named(
                groups.iter().filter_map(toml::Value::as_str).map(normalized_name).collect(),
            ),
            _ => DefaultGroups::Named(vec!["dev".to_owned()]),
        }
    }

    /// The packages that are built from source although they have wheels, by their normalized names.
    pub fn built(&self) -> Vec<String> {
        self.no_binary_package.iter().map(|name| normalized_name(name)).collect()
    }
}

/// The Python series that a `.python-version` names.
pub fn pinned_python(text: &str) -> Option<Python> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let version = lines.next()?;
    let version: Python = version.strip_prefix("cpython@").unwrap_or(version).parse().ok()?;
    Some(Python::new(version.minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_both_files() {
        let text =
            "default-groups = [\"Dev_Tools\"]\nno-binary-package = [\"Flash_Attn\"]\nnative-tls = true\n";
        let own = Settings::of_uv_toml(text).unwrap();
        assert_eq!(own.built(), ["flash-attn"]);
        assert!(own.default_groups().has("dev-tools") && !own.default_groups().has("dev"));
        let pyproject = format!("[project]\nname = \"x\"\n[tool.uv]\n{text}");
        assert_eq!(Settings::of_pyproject(&pyproject).unwrap().unwrap().built(), ["flash-attn"]);
        assert!(Settings::of_pyproject("[tool.ruff]\n").unwrap().is_none());
        // What uv builds is not guessed.
        for wrong in ["no-binary-package = 1\n", "no-binary-package = [1]\n", "[["] {
            assert!(Settings::of_uv_toml(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Settings::default().default_groups(), DefaultGroups::Named(vec!["dev".to_owned()]));
        let all = Settings::of_uv_toml("default-groups = \"all\"\n").unwrap();
        assert!(all.default_groups().has("any"));
    }

    #[test]
    fn pinned_pythons() {
        for (text, series) in [
            ("3.12\n", Some("3.12")),
            ("# why\n\ncpython@3.11.4\n", Some("3.11")),
            ("pypy@3.10\n", None),
            ("", None),
        ] {
            assert_eq!(pinned_python(text).map(|python| python.to_string()).as_deref(), series, "{text:?}");
        }
    }
}

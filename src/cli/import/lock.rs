//! The locks of uv and poetry, and the `pyproject.toml` beside them: what is required stands there, and the lock bounds the
//! versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pep440_rs::Version;
use serde::Deserialize;

use super::{Imported, Optional, pyproject, text, unreadable};
use crate::cli::error::CliError;
use crate::model::text::{clean, normalized_name};

/// Names of files with such a lock.
pub(super) const NAMES: [&str; 2] = ["uv.lock", "poetry.lock"];

/// What the build of torch brings with it: their versions follow from the build, which the hardware decides.
const OF_THE_BUILD: [&str; 3] = ["nvidia-", "cuda-", "triton"];

#[derive(Deserialize)]
struct Lock {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: Option<String>,
    source: Option<toml::Value>,
}

impl Package {
    /// Whether it comes from an index: not from git, an address or a folder, and not the project itself.
    fn is_of_index(&self) -> bool {
        let Some(source) = &self.source else { return true };
        let kind = source.get("type").and_then(toml::Value::as_str);
        source.get("registry").is_some() || matches!(kind, Some("legacy" | "pypi"))
    }
}

/// Reads a lock and the `pyproject.toml` in its folder.
///
/// # Errors
/// When one of them is not there or cannot be read.
pub(super) fn read(
    out: Imported,
    file: &Path,
    name: &str,
    base: &Path,
    optional: &Optional,
) -> Result<Imported, CliError> {
    let project = base.join("pyproject.toml");
    if !project.is_file() {
        return Err(CliError::input(format!("`{}` does not say what the project requires", clean(name, 80)))
            .hint("its pyproject.toml does, and is not beside it"));
    }
    let document = text(file)?;
    let lock: Lock = toml::from_str(&document).map_err(|error| unreadable(name, &document, &error))?;
    let mut out = pyproject::read(out, &text(&project)?, "pyproject.toml", base, optional)?;
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock.package.iter().filter(|package| package.is_of_index()) {
        let name = normalized_name(&package.name);
        // What is no version or name bounds nothing.
        let version = package.version.as_ref().and_then(|version| version.parse::<Version>().ok());
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let is_of_build = OF_THE_BUILD.iter().any(|start| name.starts_with(start));
        if let Some(version) = version.filter(|_| is_name && !is_of_build) {
            // `+cu128` is chosen for the hardware.
            let public = version.without_local().to_string();
            versions.entry(name).or_default().insert(public);
        }
    }
    let mut several = Vec::new();
    for (name, versions) in versions {
        match versions.len() {
            1 => out.constraints.extend(versions.into_iter().map(|version| format!("{name}=={version}"))),
            _ => several.push(name),
        }
    }
    if !several.is_empty() {
        let why = format!("{} has several of each, for different machines", clean(name, 80));
        out.leave_out_because(&format!("the version of {}", several.join(", ")), &why);
    }
    Ok(out)
}

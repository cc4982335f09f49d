//! The locks of uv and poetry, and the `pyproject.toml` beside them: what is required stands there, and the lock bounds the
//! versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pep440_rs::Version;
use serde::Deserialize;

use super::{bound, is_of_a_build, leave_out_several};
use crate::formats::imported::{Context, ImportError, Imported, Optional, unreadable};
use crate::formats::pyproject;
use crate::model::text::{clean, normalized_name};

/// Names of files with such a lock.
pub(in crate::formats) const NAMES: [&str; 2] = ["uv.lock", "poetry.lock"];

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
    /// uv: a list of tables with a name; poetry: a table by name.
    dependencies: Option<toml::Value>,
}

impl Package {
    /// The packages that it requires.
    fn requires(&self) -> Vec<String> {
        let names: Vec<&str> = match &self.dependencies {
            Some(toml::Value::Array(rows)) => {
                rows.iter().filter_map(|row| row.get("name")?.as_str()).collect()
            }
            Some(toml::Value::Table(rows)) => rows.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        names.into_iter().map(normalized_name).collect()
    }

    /// Whether it comes from a repository.
    fn is_of_git(&self) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|source| {
            source.get("git").is_some() || source.get("type").and_then(toml::Value::as_str) == Some("git")
        })
    }

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
pub(in crate::formats) fn read(
    out: Imported,
    context: Context<'_>,
    file: &Path,
    (name, base): (&str, &Path),
    optional: &Optional,
) -> Result<Imported, ImportError> {
    let project = base.join("pyproject.toml");
    if !context.files.is_file(&project) {
        return Err(ImportError::input(format!(
            "`{}` does not say what the project requires",
            clean(name, 80)
        ))
        .hint("its pyproject.toml does, and is not beside it"));
    }
    let document = context.text(file)?;
    let lock: Lock = toml::from_str(&document).map_err(|error| unreadable(name, &document, &error))?;
    let stated = context.text(&project)?;
    let mut out = pyproject::read(out, context, &stated, ("pyproject.toml", base), optional)?;
    if out.requirements.is_empty() && is_of_workspace(&stated) {
        return Err(workspace_without_requirements());
    }
    let direct: BTreeSet<String> = out.requirements.iter().map(|(_, one)| one.name().to_owned()).collect();
    let of_build = of_the_build(&lock.package, &direct);
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock.package.iter().filter(|package| package.is_of_index()) {
        let name = normalized_name(&package.name);
        // What is no version or name bounds nothing.
        let version = package.version.as_ref().and_then(|version| version.parse::<Version>().ok());
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if let Some(version) = version.filter(|_| is_name && !of_build.contains(&name)) {
            // `+cu128` is chosen for the hardware.
            let public = version.without_local().to_string();
            versions.entry(name).or_default().insert(public);
        }
    }
    let several = bound(&mut out, versions);
    let of_git = lock.package.iter().filter(|package| package.is_of_git());
    // A requirement that names the commit keeps it.
    let names_commit = |name: &str| {
        let own = out.requirements.iter().find(|(_, one)| one.name() == name);
        own.is_some_and(|(text, _)| text.rsplit('@').next().is_some_and(is_commit))
    };
    let of_git = of_git.map(|package| normalized_name(&package.name)).filter(|name| !names_commit(name));
    let of_git: Vec<String> = of_git.collect();
    if !of_git.is_empty() {
        let why = "`resolve` takes what its branch or tag is now; name the commit in envlock.toml to keep it";
        out.leave_out_because(&format!("the commit of {}", of_git.join(", ")), why);
    }
    leave_out_several(&mut out, &several, name);
    Ok(out)
}

/// Whether a text is the full hash of a commit, with what follows it in a reference.
fn is_commit(text: &str) -> bool {
    let hash = text.split(['#', ' ', ';']).next().unwrap_or(text);
    hash.len() == 40 && hash.bytes().all(|b| b.is_ascii_hexdigit())
}

/// That the root of a workspace has nothing to import.
pub(in crate::formats) fn workspace_without_requirements() -> ImportError {
    ImportError::input("pyproject.toml is that of a workspace and requires nothing itself").hint(
        "`envlock init` adds `[tool.envlock]` to it, for all members; `envlock init --from MEMBER/pyproject.toml` imports one",
    )
}

/// Whether a pyproject.toml is that of a workspace of uv.
pub(in crate::formats) fn is_of_workspace(pyproject: &str) -> bool {
    let table = pyproject.parse::<toml::Table>().ok();
    let workspace = table.as_ref().and_then(|table| table.get("tool")?.get("uv")?.get("workspace"));
    workspace.is_some()
}

/// The packages that torch requires, directly or through each other, and that follow from its build. What the project
/// requires itself is its own.
fn of_the_build(packages: &[Package], direct: &BTreeSet<String>) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut queue = vec!["torch".to_owned()];
    while let Some(name) = queue.pop() {
        for package in packages.iter().filter(|package| normalized_name(&package.name) == name) {
            let mut wanted = package.requires();
            wanted.retain(|name| is_of_a_build(name) && !direct.contains(name));
            queue.extend(wanted.into_iter().filter(|name| out.insert(name.clone())));
        }
    }
    out
}

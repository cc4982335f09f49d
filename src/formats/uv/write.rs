//! The tables of `pyproject.toml` by which uv resolves to what is locked: where the stack comes from, and which versions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::tables::marker;
use crate::formats::own_entries::OWN;
use crate::formats::written::{ExportError, address, extra_indexes, is_from_pytorch};
use crate::lockfile::Target;
use crate::model::listing::Listing;
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::toml_string;

/// The start of what envlock writes for uv.
pub const UV_MARK: &str = "# Written by envlock for uv";

/// The tables of a target: `[tool.uv]` with the platform and a constraint for every package of an index, the indexes as
/// explicit ones, and `[tool.uv.sources]` for what comes from them, from git, an address or a folder.
///
/// `overrides` are those of the manifest.
///
/// # Errors
/// See [`ExportError`].
pub fn uv(
    target: &Target,
    addresses: &[(String, String)],
    overrides: &[String],
) -> Result<String, ExportError> {
    crate::formats::written::check(target)?;
    // uv locks all extras and groups.
    let packages: Vec<&ChosenPackage> = target.packages.iter().collect();
    let marker = marker(target);
    // uv solves for every Python of `requires-python` at once, unless it is told which.
    let environment = format!("{marker} and python_version == '3.{}'", target.python.minor);
    let mut out = format!(
        "{UV_MARK}, from envlock.lock: Python {}, {}. Append it to pyproject.toml, then run `uv sync`.\n\
         # uv takes sources for what the project itself requires: its `dependencies` must name those below.\n\n",
        target.python, target.platform
    );
    let _ = writeln!(
        out,
        "[tool.uv]\nenvironments = [{}]\nconstraint-dependencies = [",
        toml_string(&environment)
    );
    for package in packages.iter().filter(|package| package.source.index().is_some()) {
        let _ =
            writeln!(out, "    {}, {OWN}", toml_string(&format!("{}=={}", package.name, package.version)));
    }
    out.push_str("]\n");
    if !overrides.is_empty() {
        let overrides: Vec<String> = overrides.iter().map(|line| toml_string(line)).collect();
        let _ = writeln!(out, "override-dependencies = [{}]", overrides.join(", "));
    }
    // By name: those of pytorch first, in the order of the lock.
    let mut indexes: BTreeMap<&str, String> = BTreeMap::new();
    for package in packages.iter().filter(|package| is_from_pytorch(package)) {
        if let Some(index) = package.source.index() {
            indexes.insert(index, address(addresses, index, &package.name)?);
        }
    }
    for (index, package) in extra_indexes(&packages) {
        indexes.insert(index, address(addresses, index, package)?);
    }
    for (index, url) in &indexes {
        let name = toml_string(&index.replace('/', "-"));
        let format = match Listing::of_address(url) {
            Listing::Index => "",
            Listing::Links => "format = \"flat\"\n",
        };
        let url = toml_string(url);
        let _ =
            writeln!(out, "\n[[tool.uv.index]] {OWN}\nname = {name}\nurl = {url}\n{format}explicit = true");
    }
    let sources: Vec<String> = packages
        .iter()
        .filter_map(|package| {
            let value = match &package.source {
                Source::Index(index) if indexes.contains_key(index.as_str()) => {
                    format!("index = {}", toml_string(&index.replace('/', "-")))
                }
                Source::Index(_) => return None,
                Source::Url(url) => format!("url = {}", toml_string(url)),
                Source::Git { repository, commit, subdirectory } => {
                    let folder = subdirectory.as_ref();
                    let folder = folder.map(|folder| format!(", subdirectory = {}", toml_string(folder)));
                    format!(
                        "git = {}, rev = {}{}",
                        toml_string(repository),
                        toml_string(commit),
                        folder.unwrap_or_default()
                    )
                }
                Source::Path(path) => format!("path = {}", toml_string(path)),
            };
            Some(format!("{} = {{ {value}, marker = {} }} {OWN}", package.name, toml_string(&marker)))
        })
        .collect();
    if !sources.is_empty() {
        let _ = writeln!(out, "\n[tool.uv.sources]\n{}", sources.join("\n"));
    }
    Ok(out)
}

//! pixi's `pixi.lock`, format 6: every conda package and every file of PyPI by URL and hash, as pixi installs them.
//!
//! Source of the format: rattler_lock, `LockFile` of version 6. That crate reads it, and writes format 7 alone, which pixi reads from
//! 0.68 (2026-05-07) on: `crate::conda::in_newest_format`.

use std::fmt::Write as _;

use crate::formats::written::{ExportError, address_of_file, beside_conda, channels};
use crate::lockfile::Target;
use crate::model::source::Source;
use crate::model::text::{channel_without_secrets, without_logins};

/// The start of every pixi.lock that envlock writes.
pub const PIXI_LOCK_MARK: &str = "# Written by envlock as pixi.lock";

/// Where the packages of a lock are.
pub struct Places<'p> {
    /// What the names of channels are appended to.
    pub channel_alias: &'p str,
    /// The URL of the index `pypi`.
    pub pypi: Option<&'p str>,
    /// The URL of a file by index, project and file name.
    pub file: &'p dyn Fn(&str, &str, &str) -> Option<String>,
}

/// The lock of a target. It belongs to the manifest that [`super::write::pixi`] writes.
///
/// # Errors
/// When the target has no conda packages: Python is one of them in pixi's environments. See [`ExportError`] besides.
pub fn pixi_lock(target: &Target, places: &Places<'_>) -> Result<String, ExportError> {
    if target.conda.is_empty() {
        return Err(ExportError::NoConda);
    }
    // A JSON string is one of YAML.
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    let alias = channel_without_secrets(places.channel_alias.trim_end_matches('/'));
    let (mut listed, mut packages) = (String::new(), String::new());
    for package in &target.conda {
        let url = quote(&format!("{alias}/{}/{}/{}", package.channel, package.subdir, package.file));
        let _ = writeln!(listed, "      - conda: {url}");
        let _ = writeln!(packages, "- conda: {url}\n  sha256: {}", package.sha256);
        if !package.md5.is_empty() {
            let _ = writeln!(packages, "  md5: {}", package.md5);
        }
        for (key, specs) in [("depends", &package.depends), ("constrains", &package.constrains)] {
            if !specs.is_empty() {
                let _ = writeln!(packages, "  {key}:");
                specs.iter().for_each(|spec| packages.push_str(&format!("  - {}\n", quote(spec))));
            }
        }
        let _ = writeln!(packages, "  size: {}", package.size);
    }
    for package in beside_conda(target)? {
        let file = package.files.first();
        let url = match (&package.source, file) {
            (Source::Index(index), Some(file)) => {
                address_of_file(package, index, (places.file)(index, &package.name, &file.name))?
            }
            (source, _) => source.to_string(),
        };
        let url = quote(&without_logins(&url));
        let _ = writeln!(listed, "      - pypi: {url}");
        let _ = writeln!(
            packages,
            "- pypi: {url}\n  name: {}\n  version: {}",
            package.name,
            quote(&package.version.to_string())
        );
        if let Some(sha256) = file.and_then(|file| file.sha256.as_ref()) {
            let _ = writeln!(packages, "  sha256: {sha256}");
        }
        if !package.requires.is_empty() {
            packages.push_str("  requires_dist:\n");
            for edge in &package.requires {
                let _ = writeln!(packages, "  - {}", quote(&edge.requirement));
            }
        }
    }
    let mut out = format!(
        "{PIXI_LOCK_MARK}, from envlock.lock, for the pixi.toml of `envlock export pixi`.\nversion: 6\nenvironments:\n  default:\n    channels:\n"
    );
    for channel in channels(target) {
        let _ = writeln!(out, "    - url: {}", quote(&format!("{alias}/{channel}/")));
    }
    if let Some(pypi) = places.pypi {
        let _ = writeln!(out, "    indexes:\n    - {}", quote(&without_logins(pypi)));
    }
    let _ = write!(
        out,
        "    packages:\n      {}:\n{listed}packages:\n{packages}",
        target.platform.conda_subdir()
    );
    Ok(out)
}

//! conda's `@EXPLICIT` file: every conda package by URL and SHA-256. It consults no channel and solves nothing.
//!
//! Source of the format: conda's manual, "Building identical conda environments"; CEP 23.

use std::fmt::Write as _;

use super::write::environment_name;
use crate::formats::written::ExportError;
use crate::lockfile::Target;

/// The start of every explicit file that envlock writes.
pub const EXPLICIT_MARK: &str = "# Written by envlock as conda-explicit.txt";

/// The explicit file of a target. `alias` is what the names of channels are appended to.
///
/// # Errors
/// When the target has no conda packages.
pub fn conda_explicit(target: &Target, name: &str, alias: &str) -> Result<String, ExportError> {
    if target.conda.is_empty() {
        return Err(ExportError::NoConda);
    }
    let mut out = format!(
        "{EXPLICIT_MARK}; change the manifest and run `envlock resolve`.\n\
         # conda create -n {} --file FILE, then the packages of PyPI: envlock sync --prefix DIR\n\
         # platform: {}\n@EXPLICIT\n",
        environment_name(name),
        target.platform.conda_subdir()
    );
    let alias = crate::model::text::channel_without_secrets(alias.trim_end_matches('/'));
    for package in &target.conda {
        let address = format!("{alias}/{}/{}/{}", package.channel, package.subdir, package.file);
        let _ = writeln!(out, "{address}#sha256:{}", package.sha256);
    }
    Ok(out)
}

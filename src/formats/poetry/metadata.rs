//! `[tool.poetry]` of a source tree, as poetry writes it into metadata.

use super::project::alternatives;
use super::specifier;
use crate::formats::imported::extras_of;
use crate::model::metadata::SourceRequirements;
use crate::model::requirement::parse_requirement;
use crate::model::text::{clean, normalized_name};

/// The requirements of `[tool.poetry.dependencies]`, or why they are not known.
///
/// # Errors
/// Why they are not known.
pub fn requirements(poetry: &toml::Table) -> Result<SourceRequirements, String> {
    let mut out = SourceRequirements::default();
    let table = |key| poetry.get(key).and_then(toml::Value::as_table);
    let extras = table("extras");
    out.extras = extras.into_iter().flatten().map(|(name, _)| name.clone()).collect();
    for (package, value) in table("dependencies").into_iter().flatten() {
        let unread = || format!("`{}` of poetry is not read", clean(package, 60));
        for value in alternatives(value) {
            let part = |key: &str| value.get(key);
            let text = |key: &str| part(key).and_then(toml::Value::as_str);
            let version = value.as_str().or_else(|| text("version")).ok_or_else(unread)?;
            let is_other =
                ["git", "path", "url", "file", "python", "platform"].iter().any(|key| part(key).is_some());
            if is_other || !is_plain(version) {
                return Err(unread());
            }
            let specifier = specifier(version);
            if package == "python" {
                out.requires_python = Some(specifier).filter(|python| !python.is_empty());
                continue;
            }
            let mut line = format!("{package}{}{specifier}", extras_of(value));
            let marker = text("markers").map(|marker| format!("({marker})"));
            let is_optional = part("optional").and_then(toml::Value::as_bool) == Some(true);
            // What an extra names is of the extra, optional or not.
            let of_extras: Vec<String> =
                extras_with(extras, package).map(|extra| format!("extra == '{extra}'")).collect();
            // Older releases of poetry-core write it without a marker, newer ones leave it out.
            if is_optional && of_extras.is_empty() {
                return Err(format!("`{}` of poetry is optional and of no extra", clean(package, 60)));
            }
            let of_extras = (!of_extras.is_empty()).then(|| format!("({})", of_extras.join(" or ")));
            let markers: Vec<String> = marker.into_iter().chain(of_extras).collect();
            if !markers.is_empty() {
                line.push_str(&format!("; {}", markers.join(" and ")));
            }
            if parse_requirement(&line).is_err() {
                return Err(unread());
            }
            out.lines.push(line);
        }
    }
    Ok(out)
}

/// The extras that a package belongs to.
fn extras_with<'t>(extras: Option<&'t toml::Table>, package: &str) -> impl Iterator<Item = &'t String> {
    let package = normalized_name(package);
    let has = move |value: &toml::Value| {
        let names = value.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
        names.into_iter().any(|name| normalized_name(name) == package)
    };
    extras.into_iter().flatten().filter(move |(_, value)| has(value)).map(|(extra, _)| extra)
}

/// Whether a specifier has no alternatives and, where its upper bound is computed, numbers alone.
fn is_plain(text: &str) -> bool {
    let is_number = |version: &str| version.trim().split('.').all(|part| part.parse::<u64>().is_ok());
    !text.contains('|')
        && text.split(',').all(|part| {
            let part = part.trim();
            let computed =
                part.strip_prefix('^').or(part.strip_prefix('~').filter(|rest| !rest.starts_with('=')));
            computed.is_none_or(is_number)
        })
}

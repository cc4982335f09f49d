//! `[tool.poetry]` of a source tree, as poetry writes it into metadata.

use super::published::Requirements;
use super::pyproject::Pyproject;
use crate::formats::specifier_of_poetry as specifier;
use crate::model::requirement::parse_requirement;
use crate::model::text::{clean, normalized_name};

/// The build backends that read the tables as they stand.
const BACKENDS: [&str; 2] = ["poetry.core.masonry.api", "poetry.masonry.api"];

/// Whether poetry builds the project, without a plugin that computes a version.
pub(super) fn builds(pyproject: &Pyproject) -> bool {
    !pyproject.has_backend_path
        && pyproject.backend.as_deref().is_some_and(|backend| BACKENDS.contains(&backend))
}

/// A text of `[tool.poetry]`: `name`, `version`.
pub(super) fn text(pyproject: &Pyproject, key: &str) -> Option<String> {
    pyproject.tool_at(&["poetry", key]).and_then(toml::Value::as_str).map(str::to_owned)
}

/// The requirements of `[tool.poetry.dependencies]`, or why they are not known.
pub(super) fn requirements(pyproject: &Pyproject) -> Result<Requirements, String> {
    let mut out = Requirements::default();
    let table = |key| pyproject.tool_at(&["poetry", key]).and_then(toml::Value::as_table);
    let extras = table("extras");
    out.extras = extras.into_iter().flatten().map(|(name, _)| name.clone()).collect();
    for (package, value) in table("dependencies").into_iter().flatten() {
        let unread = || format!("`{}` of poetry is not read", clean(package, 60));
        let alternatives = match value {
            toml::Value::Array(list) => list.iter().collect(),
            one => vec![one],
        };
        for value in alternatives {
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
            let own_extras: Vec<&str> = match part("extras") {
                None => Vec::new(),
                Some(list) => list.as_array().into_iter().flatten().filter_map(toml::Value::as_str).collect(),
            };
            let own_extras =
                if own_extras.is_empty() { String::new() } else { format!("[{}]", own_extras.join(",")) };
            let mut line = format!("{package}{own_extras}{specifier}");
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

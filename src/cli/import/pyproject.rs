//! pyproject.toml: PEP 621, and the tables of uv and poetry.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Imported, unreadable};
use crate::cli::error::CliError;

#[derive(Deserialize, Default)]
struct Document {
    #[serde(default)]
    project: Project,
    #[serde(default)]
    tool: Tool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct Project {
    requires_python: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize, Default)]
struct Tool {
    #[serde(default)]
    uv: Uv,
    #[serde(default)]
    poetry: Poetry,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct Uv {
    #[serde(default)]
    constraint_dependencies: Vec<String>,
    #[serde(default)]
    sources: BTreeMap<String, toml::Value>,
    #[serde(default)]
    index: Vec<toml::Value>,
}

#[derive(Deserialize, Default)]
struct Poetry {
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    source: Vec<toml::Value>,
}

pub(super) fn read(text: &str, name: &str) -> Result<Imported, CliError> {
    let document: Document = toml::from_str(text).map_err(|e| unreadable(name, text, &e))?;
    let mut out = Imported { python: document.project.requires_python, ..Imported::default() };
    for dependency in &document.project.dependencies {
        out.push(dependency, name)?;
    }
    for group in document.project.optional_dependencies.keys() {
        out.leave_out(&format!("[project.optional-dependencies] {group}"));
    }
    for bound in document.tool.uv.constraint_dependencies {
        out.constraints.push(bound);
    }
    for source in document.tool.uv.sources.keys() {
        out.leave_out(&format!("[tool.uv.sources] {source}"));
    }
    if !document.tool.uv.index.is_empty() {
        out.leave_out_index("[[tool.uv.index]]");
    }
    if !document.tool.poetry.source.is_empty() {
        out.leave_out_index("[[tool.poetry.source]]");
    }
    for (package, value) in &document.tool.poetry.dependencies {
        poetry(&mut out, package, value, name)?;
    }
    Ok(out)
}

/// One of poetry's dependencies: a specifier, or a table with `version`, `extras`, `markers`.
fn poetry(out: &mut Imported, package: &str, value: &toml::Value, name: &str) -> Result<(), CliError> {
    let table = value.as_table();
    let text = |key: &str| table.and_then(|t| t.get(key)).and_then(toml::Value::as_str);
    let Some(version) = value.as_str().or_else(|| text("version")) else {
        out.leave_out(&format!("[tool.poetry.dependencies] {package}"));
        return Ok(());
    };
    let specifier = specifier(version);
    if package == "python" {
        out.python.get_or_insert(specifier);
        return Ok(());
    }
    if table.and_then(|t| t.get("optional")).and_then(toml::Value::as_bool) == Some(true) {
        out.leave_out(&format!("[tool.poetry.dependencies] {package} (optional)"));
        return Ok(());
    }
    let extras: Vec<&str> = table
        .and_then(|t| t.get("extras"))
        .and_then(toml::Value::as_array)
        .map(|list| list.iter().filter_map(toml::Value::as_str).collect())
        .unwrap_or_default();
    let extras = if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
    let marker = text("markers").map(|m| format!(" ; {m}")).unwrap_or_default();
    out.push(&format!("{package}{extras}{specifier}{marker}"), name)
}

/// Converts poetry's specifiers to PEP 440: `^1.2` is `>=1.2,<2`, `~1.2` is `>=1.2,<1.3`, a bare version is exact.
fn specifier(text: &str) -> String {
    let parts: Vec<String> = text.split(',').map(|part| one(part.trim())).filter(|p| !p.is_empty()).collect();
    parts.join(",")
}

fn one(part: &str) -> String {
    let numbers = |version: &str| -> Vec<u64> { version.split('.').map_while(|n| n.parse().ok()).collect() };
    // The exclusive upper bound: the component at `place`, plus one.
    let below = |list: &[u64], place: usize| {
        let mut upper: Vec<u64> = list[..=place].to_vec();
        upper[place] += 1;
        upper.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
    };
    if let Some(version) = part.strip_prefix('^') {
        let list = numbers(version.trim());
        let place = list.iter().position(|n| *n != 0).unwrap_or(list.len().saturating_sub(1));
        return match list.is_empty() {
            true => String::new(),
            false => format!(">={},<{}", version.trim(), below(&list, place)),
        };
    }
    if let Some(version) = part.strip_prefix('~').filter(|rest| !rest.starts_with('=')) {
        let list = numbers(version.trim());
        return match list.is_empty() {
            true => String::new(),
            false => format!(">={},<{}", version.trim(), below(&list, 1.min(list.len() - 1))),
        };
    }
    match part {
        "" | "*" => String::new(),
        bare if bare.starts_with(|c: char| c.is_ascii_digit()) => format!("=={bare}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poetry_specifiers() {
        for (theirs, ours) in [
            ("^1.2.3", ">=1.2.3,<2"),
            ("^0.2.3", ">=0.2.3,<0.3"),
            ("^0.0.3", ">=0.0.3,<0.0.4"),
            ("^0", ">=0,<1"),
            ("~1.2.3", ">=1.2.3,<1.3"),
            ("~1", ">=1,<2"),
            ("~=1.2", "~=1.2"),
            ("1.2", "==1.2"),
            ("1.*", "==1.*"),
            ("*", ""),
            (">=1, <3", ">=1,<3"),
            ("^", ""),
        ] {
            assert_eq!(specifier(theirs), ours, "{theirs}");
        }
    }

    #[test]
    fn every_dialect_in_one_file() {
        let text = r#"
[project]
requires-python = ">=3.11"
dependencies = ["torch>=2.8", "numpy"]
[project.optional-dependencies]
dev = ["pytest"]
[tool.uv]
constraint-dependencies = ["numpy<3"]
[tool.uv.sources]
torch = { index = "x" }
[tool.poetry.dependencies]
python = "^3.10"
requests = { version = "^2.30", extras = ["socks"] }
mine = { git = "https://x/" }
"#;
        let out = read(text, "pyproject.toml").unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["torch>=2.8", "numpy", "requests[socks]>=2.30,<3"]);
        assert_eq!(
            (out.python.as_deref(), out.constraints.as_slice()),
            (Some(">=3.11"), ["numpy<3".to_owned()].as_slice())
        );
        assert_eq!(
            out.left_out,
            [
                "[project.optional-dependencies] dev",
                "[tool.uv.sources] torch",
                "[tool.poetry.dependencies] mine"
            ]
        );
        let error = read("[project]\ndependencies = 3\n", "pyproject.toml").unwrap_err();
        assert!(error.message.starts_with("pyproject.toml:2: "), "{}", error.message);
    }
}

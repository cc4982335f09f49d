//! pixi.toml: its conda packages as those of environment.yml, its PyPI packages as they are.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::conda::conda_part;
use super::reference::extras_of;
use super::{Imported, Optional, unreadable};
use crate::cli::error::CliError;
use crate::cli::{clock, uv_sources};
use crate::model::cutoff::Cutoff;
use crate::model::text::clean;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Pixi {
    #[serde(default)]
    system_requirements: toml::Table,
    #[serde(default)]
    host_dependencies: toml::Table,
    #[serde(default)]
    build_dependencies: toml::Table,
    #[serde(default)]
    constraints: toml::Table,
    #[serde(default)]
    workspace: Option<toml::Table>,
    #[serde(default)]
    project: Option<toml::Table>,
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    pypi_dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    feature: BTreeMap<String, toml::Value>,
    #[serde(default)]
    target: BTreeMap<String, toml::Value>,
    #[serde(default)]
    pypi_options: toml::Table,
    #[serde(default)]
    tasks: toml::Table,
    #[serde(default)]
    activation: toml::Table,
}

/// Reads a pixi.toml.
pub(super) fn read(
    mut out: Imported,
    text: &str,
    (name, base): (&str, &Path),
    optional: &Optional,
) -> Result<Imported, CliError> {
    if let Some(group) = optional.groups.iter().chain(&optional.extras).next() {
        return Err(CliError::usage(format!(
            "{}: there is no group or extra `{}`; pixi has features, which are not imported",
            clean(name, 80),
            clean(group, 60)
        )));
    }
    let document: Pixi = toml::from_str(text).map_err(|e| unreadable(name, text, &e))?;
    let project = document.workspace.as_ref().or(document.project.as_ref());
    let cutoff = project.and_then(|table| table.get("exclude-newer")).and_then(toml::Value::as_str);
    match cutoff {
        Some(cutoff) if Cutoff::parse(cutoff, clock::now()).is_ok() => {
            out.exclude_newer = Some(cutoff.to_owned())
        }
        Some(cutoff) => out.leave_out(&format!("exclude-newer: {cutoff}")),
        None => {}
    }
    let channels = project.and_then(|table| table.get("channels")).and_then(toml::Value::as_array);
    let channels = channels.into_iter().flatten();
    let channels =
        channels.filter_map(|channel| channel.as_str().or_else(|| channel.get("channel")?.as_str()));
    let mut specs: Vec<String> = Vec::new();
    let version = |value: &toml::Value| -> Option<String> {
        value.as_str().or_else(|| value.get("version")?.as_str()).map(str::to_owned)
    };
    for (package, value) in &document.dependencies {
        match version(value) {
            Some(version) => {
                let channel = value.get("channel").and_then(toml::Value::as_str);
                let channel = channel.map(|channel| format!("{channel}::")).unwrap_or_default();
                let build = value.get("build").and_then(toml::Value::as_str);
                let build = build.map(|build| format!(" {build}")).unwrap_or_default();
                specs.push(format!("{channel}{package} {version}{build}"));
            }
            None => out.leave_out(&format!("[dependencies] {package}")),
        }
    }
    conda_part(&mut out, &specs, channels, name, optional.conda)?;
    for (package, value) in &document.pypi_dependencies {
        let marker = value.get("env-markers").and_then(toml::Value::as_str);
        let marker = marker.map(|marker| format!(" ; {marker}")).unwrap_or_default();
        let Some(version) = version(value) else {
            match uv_sources::reference(value) {
                Some(reference) => {
                    let line = format!("{package}{} @ {reference}{marker}", extras_of(value));
                    out.push_line(&line, base, name)?;
                }
                None => out.leave_out(&format!("[pypi-dependencies] {package}")),
            }
            continue;
        };
        if let Some(index) = value.get("index") {
            out.indexes(&format!("[pypi-dependencies] {package}: index"), index);
        }
        let extras = extras_of(value);
        let specifier = if version.trim() == "*" { "" } else { version.trim() };
        out.push(&format!("{package}{extras}{specifier}{marker}"), name)?;
    }
    for key in ["index-url", "extra-index-urls", "find-links"] {
        if let Some(value) = document.pypi_options.get(key) {
            out.indexes(&format!("[pypi-options] {key}"), value);
        }
    }
    let tables = [
        ("system-requirements", &document.system_requirements),
        ("host-dependencies", &document.host_dependencies),
        ("build-dependencies", &document.build_dependencies),
        ("constraints", &document.constraints),
    ];
    for (table, rows) in tables {
        for key in rows.keys() {
            out.leave_out(&format!("[{table}] {key}"));
        }
    }
    for (table, rows, why) in [
        ("tasks", &document.tasks, "envlock runs no tasks"),
        ("activation", &document.activation, "envlock sets no variables and runs no scripts"),
    ] {
        if !rows.is_empty() {
            let names = rows.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            out.leave_out_because(&format!("[{table}] {names}"), why);
        }
    }
    if let Some(no_build) = document.pypi_options.get("no-build") {
        out.leave_out(&format!("[pypi-options] no-build = {no_build}"));
    }
    for (table, rows) in [("feature", &document.feature), ("target", &document.target)] {
        for key in rows.keys() {
            out.leave_out(&format!("[{table}.{key}]"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::CondaPart;
    use super::*;

    #[test]
    fn pixi_files() {
        let text = r#"
[workspace]
name = "x"
exclude-newer = "2026-01-01"
[dependencies]
python = ">=3.11,<3.14"
pytorch = { version = ">=2.5", build = "*cpu*" }
cuda-version = "12.6.*"
[pypi-dependencies]
transformers = "*"
datasets = { version = ">=2", extras = ["audio"], env-markers = "sys_platform == 'linux'" }
mine = { path = "./mine", editable = true }
far = { git = "https://x.example/far.git", rev = "abc" }
wheel = { url = "https://x.example/wheel-1-py3-none-any.whl" }
[system-requirements]
cuda = "12"
[host-dependencies]
cmake = "*"
[feature.dev]
"#;
        let read = |optional: &Optional| {
            let out = Imported { folder: ".".into(), ..Imported::default() };
            super::read(out, text, ("pixi.toml", Path::new(".")), optional)
        };
        let optional = Optional { conda: CondaPart::Pypi, ..Optional::default() };
        let out = read(&optional).unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        let expected = [
            "torch>=2.5",
            "datasets[audio]>=2 ; sys_platform == 'linux'",
            "far @ git+https://x.example/far.git@abc",
            "mine @ ./mine",
            "transformers",
            "wheel @ https://x.example/wheel-1-py3-none-any.whl",
        ];
        assert_eq!(written, expected);
        assert_eq!(
            (out.python.as_deref(), out.limits),
            (Some(">=3.11,<3.14"), vec![("cuda", "12.6".to_owned()), ("variant", "cpu".to_owned())])
        );
        assert_eq!(out.exclude_newer.as_deref(), Some("2026-01-01"));
        assert_eq!(
            out.left_out,
            [
                "`[system-requirements] cuda` is not supported in envlock.toml",
                "`[host-dependencies] cmake` is not supported in envlock.toml",
                "`[feature.dev]` is not supported in envlock.toml"
            ]
        );
        assert!(read(&Optional { groups: vec!["nosuch".into()], ..optional }).is_err());
    }
}

//! pixi.toml: its conda packages as those of environment.yml, its PyPI packages as they are.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::formats::conda::conda_part;
use crate::formats::imported::{
    CondaPart, Context, ImportError, Imported, Listing, Optional, extras_of, unreadable,
};
use crate::formats::uv;
use crate::model::cutoff::Cutoff;
use crate::model::text::{clean, normalized_name};

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
    #[serde(default)]
    environments: toml::Table,
    #[serde(flatten)]
    others: toml::Table,
}

/// Keys of `[workspace]` that say nothing of what is installed, or that are taken.
const WITHOUT_EFFECT: [&str; 13] = [
    "name",
    "channels",
    "exclude-newer",
    "version",
    "description",
    "authors",
    "license",
    "license-file",
    "readme",
    "homepage",
    "repository",
    "documentation",
    "requires-pixi",
];

/// The table `[tool.pixi]` of a pyproject.toml, if it has one.
///
/// # Errors
/// When it is not as pixi has it.
pub(in crate::formats) fn add_of_pyproject(
    out: &mut Imported,
    context: Context<'_>,
    text: &str,
    (name, base): (&str, &Path),
    part: CondaPart,
) -> Result<(), ImportError> {
    #[derive(Deserialize)]
    struct Document {
        #[serde(default)]
        tool: Tool,
    }
    #[derive(Deserialize, Default)]
    struct Tool {
        pixi: Option<Pixi>,
    }
    let document: Document = toml::from_str(text).map_err(|error| unreadable(name, text, &error))?;
    match document.tool.pixi {
        Some(pixi) => {
            add(out, context, &pixi, (name, base), part)?;
            // Its own folder is what `[project]` describes.
            if let Some(own) = out.name.as_deref().map(normalized_name) {
                out.requirements.retain(|(_, one)| one.name() != own);
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// Whether a pyproject.toml has a table `[tool.pixi]`.
pub(in crate::formats) fn is_in(pyproject: &str) -> bool {
    let table = pyproject.parse::<toml::Table>().ok();
    table.as_ref().and_then(|table| table.get("tool")?.get("pixi")).is_some()
}

/// Reads a pixi.toml.
pub(in crate::formats) fn read(
    mut out: Imported,
    context: Context<'_>,
    text: &str,
    (name, base): (&str, &Path),
    optional: &Optional,
) -> Result<Imported, ImportError> {
    if let Some(group) = optional.groups.iter().chain(&optional.extras).next() {
        return Err(ImportError::usage(format!(
            "{}: there is no group or extra `{}`; pixi has features, which are not imported",
            clean(name, 80),
            clean(group, 60)
        )));
    }
    let document: Pixi = toml::from_str(text).map_err(|e| unreadable(name, text, &e))?;
    add(&mut out, context, &document, (name, base), optional.conda)?;
    Ok(out)
}

/// Whether a platform is the one that is locked for where none is named.
fn is_linux(platform: &toml::Value) -> bool {
    platform.as_str() == Some("linux-64")
}

/// Adds what a manifest of pixi asks for.
fn add(
    out: &mut Imported,
    context: Context<'_>,
    document: &Pixi,
    (name, base): (&str, &Path),
    part: CondaPart,
) -> Result<(), ImportError> {
    let workspace = document.workspace.as_ref().or(document.project.as_ref());
    add_workspace(out, context, workspace);
    let specs = conda_specs(out, &document.dependencies);
    let channels = workspace.map(channels).unwrap_or_default();
    conda_part(out, context, (&specs, channels.into_iter()), name, part)?;
    for (package, value) in &document.pypi_dependencies {
        add_of_pypi(out, context, (package, value), (name, base))?;
    }
    add_pypi_options(out, &document.pypi_options);
    leave_out(out, document);
    Ok(())
}

/// Adds what `[workspace]` says, but for its channels.
fn add_workspace(out: &mut Imported, context: Context<'_>, workspace: Option<&toml::Table>) {
    let text = |key: &str| workspace.and_then(|table| table.get(key)).and_then(toml::Value::as_str);
    match text("exclude-newer") {
        Some(cutoff) if Cutoff::parse(cutoff, context.now).is_ok() => {
            out.exclude_newer = Some(cutoff.to_owned());
        }
        Some(cutoff) => out.leave_out(&format!("exclude-newer: {cutoff}")),
        None => {}
    }
    out.name = out.name.take().or(text("name").map(|name| clean(name, 60)));
    for (key, value) in workspace.into_iter().flatten() {
        match key.as_str() {
            key if WITHOUT_EFFECT.contains(&key) => {}
            "platforms" if value.as_array().is_some_and(|all| all.iter().all(is_linux)) => {}
            "platforms" => out.leave_out_because(
                &format!("[workspace] platforms = {value}"),
                "a `[target.NAME]` table describes a machine",
            ),
            key => out.leave_out(&format!("[workspace] {key} = {value}")),
        }
    }
}

/// The channels of a workspace. The highest priority first; without one it is 0, and equal ones stay in their order.
fn channels(workspace: &toml::Table) -> Vec<&str> {
    let priority =
        |channel: &&toml::Value| channel.get("priority").and_then(toml::Value::as_integer).unwrap_or(0);
    let channels = workspace.get("channels").and_then(toml::Value::as_array);
    let mut channels: Vec<&toml::Value> = channels.into_iter().flatten().collect();
    channels.sort_by_key(|channel| std::cmp::Reverse(priority(channel)));
    let channels = channels.into_iter();
    channels.filter_map(|channel| channel.as_str().or_else(|| channel.get("channel")?.as_str())).collect()
}

/// The version of a dependency, which is its value or a key of it.
fn version(value: &toml::Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("version")?.as_str())
}

/// The conda packages, as environment.yml has them.
fn conda_specs(out: &mut Imported, dependencies: &BTreeMap<String, toml::Value>) -> Vec<String> {
    let mut specs = Vec::new();
    for (package, value) in dependencies {
        let Some(version) = version(value) else {
            out.leave_out(&format!("[dependencies] {package}"));
            continue;
        };
        let channel = value.get("channel").and_then(toml::Value::as_str);
        let channel = channel.map(|channel| format!("{channel}::")).unwrap_or_default();
        let build = value.get("build").and_then(toml::Value::as_str);
        let build = build.map(|build| format!(" {build}")).unwrap_or_default();
        specs.push(format!("{channel}{package} {version}{build}"));
        let others = value.as_table().into_iter().flatten().map(|(key, _)| key.as_str());
        let others = others.filter(|key| !["version", "channel", "build"].contains(key));
        others.for_each(|key| out.leave_out(&format!("[dependencies] {package}: {key}")));
    }
    specs
}

/// Adds a package from PyPI.
fn add_of_pypi(
    out: &mut Imported,
    context: Context<'_>,
    (package, value): (&str, &toml::Value),
    (name, base): (&str, &Path),
) -> Result<(), ImportError> {
    let marker = value.get("env-markers").and_then(toml::Value::as_str);
    let marker = marker.map(|marker| format!(" ; {marker}")).unwrap_or_default();
    let extras = extras_of(value);
    let Some(version) = version(value) else {
        let Some(reference) = uv::reference(value) else {
            out.leave_out(&format!("[pypi-dependencies] {package}"));
            return Ok(());
        };
        return out.push_line(context, &format!("{package}{extras} @ {reference}{marker}"), base, name);
    };
    if let Some(index) = value.get("index") {
        out.indexes(&format!("[pypi-dependencies] {package}: index"), index, Listing::Index);
    }
    out.push(&format!("{package}{extras}{}{marker}", bound(version)), name)
}

/// A version as a requirement has it: `*` is none.
fn bound(version: &str) -> &str {
    match version.trim() {
        "*" => "",
        version => version,
    }
}

/// Adds indexes and overrides of `[pypi-options]`.
fn add_pypi_options(out: &mut Imported, options: &toml::Table) {
    for (key, value) in options {
        match (key.as_str(), value) {
            ("index-url" | "extra-index-urls" | "find-links", value) => {
                out.indexes(&format!("[pypi-options] {key}"), value, Listing::of(key));
            }
            ("dependency-overrides", toml::Value::Table(rows)) => {
                for (package, value) in rows {
                    match version(value) {
                        Some(version) => {
                            let extras = extras_of(value);
                            out.overrides.push(format!("{package}{extras}{}", bound(version)));
                        }
                        None => out.leave_out(&format!("[pypi-options.dependency-overrides] {package}")),
                    }
                }
            }
            (key, value) => out.leave_out(&format!("[pypi-options] {key} = {value}")),
        }
    }
}

/// Says which tables are not taken.
fn leave_out(out: &mut Imported, document: &Pixi) {
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
        ("environments", &document.environments, "they are sets of features, which are not imported"),
    ] {
        if !rows.is_empty() {
            let names = rows.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            out.leave_out_because(&format!("[{table}] {names}"), why);
        }
    }
    for key in document.others.keys() {
        out.leave_out(&format!("[{key}]"));
    }
    for (table, rows) in [("feature", &document.feature), ("target", &document.target)] {
        for key in rows.keys() {
            out.leave_out(&format!("[{table}.{key}]"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::imported::nothing;

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
            let out = Imported::into_folder(Path::new("."));
            super::read(out, nothing(), text, ("pixi.toml", Path::new(".")), optional)
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
            (Some(">=3.11,<3.14"), vec![("variant", "cpu".to_owned())])
        );
        assert_eq!(out.exclude_newer.as_deref(), Some("2026-01-01"));
        assert_eq!(
            out.left_out,
            [
                "`cuda 12.6`: the file asks for torch's CPU build",
                "`[system-requirements] cuda` is not supported in envlock.toml",
                "`[host-dependencies] cmake` is not supported in envlock.toml",
                "`[feature.dev]` is not supported in envlock.toml"
            ]
        );
        assert!(read(&Optional { groups: vec!["nosuch".into()], ..optional }).is_err());
    }

    #[test]
    fn of_a_pyproject() {
        let text = "[project]\nname = \"x\"\nrequires-python = \">=3.9\"\ndependencies = [\"einops\"]\n[tool.pixi.workspace]\nchannels = [\"conda-forge\"]\nplatforms = [\"osx-arm64\"]\nchannel-priority = \"disabled\"\n[tool.pixi.dependencies]\npython = \"<3.13\"\ngdal = \"*\"\nnumpy = { version = \"2.*\", build-number = \">=1\" }\n[tool.pixi.pypi-options.dependency-overrides]\npandas = \"==2.3.3\"\n[tool.pixi.environments]\ndefault = [\"a\"]\n[tool.pixi.dev]\n";
        let mut out = Imported::default();
        out.python = Some(">=3.9".to_owned());
        add_of_pyproject(&mut out, nothing(), text, ("pyproject.toml", Path::new(".")), CondaPart::Pypi)
            .unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["gdal", "numpy==2.*"]);
        assert_eq!(out.python.as_deref(), Some(">=3.9,<3.13"));
        assert_eq!(out.overrides, ["pandas==2.3.3"]);
        let told = out.left_out.join("\n");
        for what in
            ["platforms", "channel-priority", "numpy: build-number", "[environments] default", "[dev]"]
        {
            assert!(told.contains(what), "{what}: {told}");
        }
    }
}

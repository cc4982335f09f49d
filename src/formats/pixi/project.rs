//! pixi.toml: its conda packages as those of environment.yml, its PyPI packages as they are.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::features::{self, Feature};
use crate::formats::conda::conda_part;
use crate::formats::imported::{Context, ImportError, Imported, Optional, extras_of, unreadable};
use crate::formats::uv;
use crate::model::cutoff::Cutoff;
use crate::model::listing::Listing;
use crate::model::text::{clean, normalized_name};

#[derive(Deserialize)]
struct Pixi {
    workspace: Option<toml::Table>,
    project: Option<toml::Table>,
    #[serde(default)]
    feature: BTreeMap<String, Feature>,
    #[serde(default)]
    environments: toml::Table,
    #[serde(flatten)]
    top: Feature,
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
    optional: &Optional,
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
            add(out, context, &pixi, (name, base), optional)?;
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
            "{}: there is no group or extra `{}`; pixi has environments: `--environment NAME`",
            clean(name, 80),
            clean(group, 60)
        )));
    }
    let document: Pixi = toml::from_str(text).map_err(|e| unreadable(name, text, &e))?;
    add(&mut out, context, &document, (name, base), optional)?;
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
    optional: &Optional,
) -> Result<(), ImportError> {
    let workspace = document.workspace.as_ref().or(document.project.as_ref());
    add_workspace(out, context, workspace);
    let all = (&document.top, &document.feature, &document.environments);
    let features = features::chosen(out, all, (name, optional.environment.as_deref()))?;
    let mut specs = Vec::new();
    for (own, feature) in &features {
        for part in feature.on_linux() {
            specs.extend(conda_specs(out, *own, &part.dependencies));
        }
    }
    // Those of a feature come before those of the workspace.
    let mut listed: Vec<&str> =
        features.iter().flat_map(|(_, feature)| channels(&feature.channels)).collect();
    let of_workspace = workspace.and_then(|table| table.get("channels")).and_then(toml::Value::as_array);
    listed.extend(of_workspace.map(|all| channels(all)).unwrap_or_default());
    conda_part(out, context, (&specs, listed.into_iter()), name, optional.conda)?;
    for (own, feature) in features {
        for part in feature.on_linux() {
            for (package, value) in &part.pypi_dependencies {
                add_of_pypi(out, context, (package, value), (name, base))?;
            }
            add_pypi_options(out, &part.pypi_options);
            add_system(out, own, &part.system_requirements);
        }
        leave_out(out, own, feature);
    }
    Ok(())
}

/// Adds the CUDA that the machine must support: builds of an older or the same major version run on it. What the packages say of
/// CUDA says more.
fn add_system(out: &mut Imported, feature: Option<&str>, requirements: &toml::Table) {
    for (key, value) in requirements {
        let version = value.as_str().or_else(|| value.get("driver")?.as_str());
        let major = version.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
        let is_limited = out.limits.iter().any(|(own, _)| ["cuda", "variant"].contains(own));
        match (key.as_str(), major) {
            ("cuda", Some(major)) if !is_limited => out.limit("cuda", format!("<{}", major + 1)),
            ("cuda", Some(_)) => {}
            _ => out.leave_out(&format!("{} {key}", Feature::table(feature, "system-requirements"))),
        }
    }
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

/// The channels of a list. The highest priority first; without one it is 0, and equal ones stay in their order.
fn channels(list: &[toml::Value]) -> Vec<&str> {
    let priority =
        |channel: &&toml::Value| channel.get("priority").and_then(toml::Value::as_integer).unwrap_or(0);
    let mut channels: Vec<&toml::Value> = list.iter().collect();
    channels.sort_by_key(|channel| std::cmp::Reverse(priority(channel)));
    let channels = channels.into_iter();
    channels.filter_map(|channel| channel.as_str().or_else(|| channel.get("channel")?.as_str())).collect()
}

/// The version of a dependency, which is its value or a key of it.
fn version(value: &toml::Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("version")?.as_str())
}

/// The conda packages, as environment.yml has them.
fn conda_specs(
    out: &mut Imported,
    feature: Option<&str>,
    dependencies: &BTreeMap<String, toml::Value>,
) -> Vec<String> {
    let table = Feature::table(feature, "dependencies");
    let mut specs = Vec::new();
    for (package, value) in dependencies {
        let Some(version) = version(value) else {
            out.leave_out(&format!("{table} {package}"));
            continue;
        };
        let channel = value.get("channel").and_then(toml::Value::as_str);
        let channel = channel.map(|channel| format!("{channel}::")).unwrap_or_default();
        let build = value.get("build").and_then(toml::Value::as_str);
        let build = build.map(|build| format!(" {build}")).unwrap_or_default();
        specs.push(format!("{channel}{package} {version}{build}"));
        let others = value.as_table().into_iter().flatten().map(|(key, _)| key.as_str());
        let others = others.filter(|key| !["version", "channel", "build"].contains(key));
        others.for_each(|key| out.leave_out(&format!("{table} {package}: {key}")));
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
                out.indexes(&format!("[pypi-options] {key}"), value, Listing::of_option(key));
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

/// Says which tables of a feature are not taken.
fn leave_out(out: &mut Imported, name: Option<&str>, feature: &Feature) {
    let table = |table: &str| Feature::table(name, table);
    let tables = [
        ("host-dependencies", &feature.host_dependencies),
        ("build-dependencies", &feature.build_dependencies),
        ("constraints", &feature.constraints),
    ];
    for (own, rows) in tables {
        for key in rows.keys() {
            out.leave_out(&format!("{} {key}", table(own)));
        }
    }
    for (own, rows, why) in [
        ("tasks", &feature.tasks, "envlock runs no tasks"),
        ("activation", &feature.activation, "envlock sets no variables and runs no scripts"),
    ] {
        if !rows.is_empty() {
            let names = rows.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            out.leave_out_because(&format!("{} {names}", table(own)), why);
        }
    }
    for key in feature.others.keys() {
        out.leave_out(&table(key));
    }
    for platform in feature.other_platforms() {
        out.leave_out(&table(&format!("target.{platform}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::imported::{CondaPart, nothing};

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
                "`[feature.dev]`: the environment does not have it",
                "`cuda 12.6`: the file asks for torch's CPU build",
                "`[host-dependencies] cmake` is not supported in envlock.toml",
            ]
        );
        assert!(read(&Optional { groups: vec!["nosuch".into()], ..optional }).is_err());
    }

    #[test]
    fn of_a_pyproject() {
        let text = "[project]\nname = \"x\"\nrequires-python = \">=3.9\"\ndependencies = [\"einops\"]\n[tool.pixi.workspace]\nchannels = [\"conda-forge\"]\nplatforms = [\"osx-arm64\"]\nchannel-priority = \"disabled\"\n[tool.pixi.dependencies]\npython = \"<3.13\"\ngdal = \"*\"\nnumpy = { version = \"2.*\", build-number = \">=1\" }\n[tool.pixi.pypi-options.dependency-overrides]\npandas = \"==2.3.3\"\n[tool.pixi.environments]\ndefault = [\"a\"]\ncpu = []\n[tool.pixi.feature.a.pypi-dependencies]\ntqdm = \"*\"\n[tool.pixi.dev]\n";
        let mut out = Imported::default();
        out.python = Some(">=3.9".to_owned());
        let optional = Optional { conda: CondaPart::Pypi, ..Optional::default() };
        add_of_pyproject(&mut out, nothing(), text, ("pyproject.toml", Path::new(".")), &optional).unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["gdal", "numpy==2.*", "tqdm"]);
        assert_eq!(out.python.as_deref(), Some(">=3.9,<3.13"));
        assert_eq!(out.overrides, ["pandas==2.3.3"]);
        let told = out.left_out.join("\n");
        for what in ["platforms", "channel-priority", "numpy: build-number", "[environments] cpu", "[dev]"] {
            assert!(told.contains(what), "{what}: {told}");
        }
    }

    #[test]
    fn features_of_environments() {
        let text = r#"
[workspace]
name = "x"
[dependencies]
python = "3.11.*"
[target.linux-64.pypi-dependencies]
tqdm = "*"
[target.osx-arm64.pypi-dependencies]
rich = "*"
[feature.gpu.system-requirements]
cuda = "12.4"
[feature.gpu.pypi-dependencies]
torch = "==2.8.0"
[feature.old.pypi-dependencies]
torch = "==1.13.1"
[feature.test.dependencies]
pytest = "*"
"#;
        let read = |environments: &str, environment: Option<&str>| {
            let text = format!("{text}\n[environments]\n{environments}");
            let optional = Optional {
                conda: CondaPart::Pypi,
                environment: environment.map(str::to_owned),
                ..Optional::default()
            };
            let out = Imported::into_folder(Path::new("."));
            super::read(out, nothing(), &text, ("pixi.toml", Path::new(".")), &optional)
        };
        let taken = |environments: &str, environment: Option<&str>| {
            let out = read(environments, environment).unwrap();
            let texts: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
            (texts.join(" "), out.limits, out.left_out.join("; "))
        };
        let limit = vec![("cuda", "<13".to_owned())];
        let (of_default, limits, told) = taken("default = [\"gpu\"]\nold = [\"old\"]", None);
        assert_eq!((of_default.as_str(), limits), ("tqdm torch==2.8.0", limit));
        for what in ["[environments] old", "[target.osx-arm64]", "[feature.test]"] {
            assert!(told.contains(what), "{what}: {told}");
        }
        let row = "old = { features = [\"old\", \"test\"], no-default-feature = true }";
        assert_eq!(taken(row, Some("old")).0, "pytest torch==1.13.1");
        // The tables at the top are an environment too, where it is not the frameworks that are in others.
        assert_eq!(taken("test = [\"test\"]\ngpu = [\"gpu\"]", Some("default")).0, "tqdm");
        let refused = |environments: &str, environment: Option<&str>| {
            read(environments, environment).err().map(|error| error.message).unwrap_or_default()
        };
        assert!(refused("gpu = [\"gpu\"]", None).contains("pass `--environment NAME`"));
        assert!(refused("gpu = [\"gpu\"]", Some("cpu")).contains("no environment `cpu`; it has gpu"));
        assert!(refused("gpu = [\"nosuch\"]", Some("gpu")).contains("no feature `nosuch`"));
    }
}

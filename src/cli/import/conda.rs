//! conda's environment.yml and pixi.toml: converts conda names and specifiers to those of PyPI.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Imported, unreadable};
use crate::cli::error::CliError;
use crate::model::request::UserRequirement;
use crate::model::text::clean;
use crate::registry::{CondaName, Registry};

#[derive(Deserialize)]
struct Environment {
    #[serde(default)]
    dependencies: Option<Vec<serde_json::Value>>,
}

/// Reads an environment.yml.
pub(super) fn environment(
    mut out: Imported,
    text: &str,
    name: &str,
    base: &Path,
) -> Result<Imported, CliError> {
    let document: Environment = serde_saphyr::from_str(text).map_err(|e| {
        let message = e.to_string();
        CliError::input(format!("{}: {}", clean(name, 80), clean(message.lines().next().unwrap_or(""), 200)))
    })?;
    let registry = Registry::embedded();
    for dependency in document.dependencies.unwrap_or_default() {
        match dependency {
            serde_json::Value::String(spec) => {
                let (package, version) = split(&spec);
                conda(&mut out, &registry, package, version, name)?;
            }
            // `- pip:` and its list, which may be empty.
            serde_json::Value::Object(map) => {
                for (installer, list) in map {
                    let Some(list) = list.as_array().map(Vec::as_slice).or(list.is_null().then_some(&[]))
                    else {
                        return Err(CliError::input(format!(
                            "{}: `{}` is not a list",
                            clean(name, 80),
                            clean(&installer, 40)
                        )));
                    };
                    for item in list {
                        match item.as_str() {
                            Some(item) if installer == "pip" => pip_line(&mut out, item, name, base)?,
                            _ => out.leave_out(&item.to_string()),
                        }
                    }
                }
            }
            other => out.leave_out(&other.to_string()),
        }
    }
    Ok(out)
}

/// One line of the pip section: as in a requirements file.
fn pip_line(out: &mut Imported, item: &str, name: &str, base: &Path) -> Result<(), CliError> {
    let item = item.trim();
    let included = ["--requirement", "--constraint", "-r", "-c"].iter().find_map(|o| item.strip_prefix(o));
    if let Some(file) = included {
        let is_bound = item.starts_with("-c") || item.starts_with("--c");
        let file = file.trim_start_matches('=').trim();
        return super::requirements::include(out, &base.join(file), is_bound);
    }
    if item.starts_with('-') && !item.starts_with("-e") && !item.starts_with("--editable") {
        out.leave_out_option(item.split_whitespace().next().unwrap_or(item));
        return Ok(());
    }
    let line = super::requirements::without_options(out, item);
    out.push_line(&line, base, name)
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Pixi {
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    pypi_dependencies: BTreeMap<String, toml::Value>,
    #[serde(default)]
    feature: BTreeMap<String, toml::Value>,
    #[serde(default)]
    target: BTreeMap<String, toml::Value>,
}

/// Reads a pixi.toml.
pub(super) fn pixi(mut out: Imported, text: &str, name: &str) -> Result<Imported, CliError> {
    let document: Pixi = toml::from_str(text).map_err(|e| unreadable(name, text, &e))?;
    let registry = Registry::embedded();
    let version = |value: &toml::Value| -> Option<String> {
        value.as_str().or_else(|| value.get("version")?.as_str()).map(str::to_owned)
    };
    for (package, value) in &document.dependencies {
        match version(value) {
            Some(version) => conda(&mut out, &registry, package, &version, name)?,
            None => out.leave_out(&format!("[dependencies] {package}")),
        }
    }
    for (package, value) in &document.pypi_dependencies {
        let Some(version) = version(value) else {
            out.leave_out(&format!("[pypi-dependencies] {package}"));
            continue;
        };
        let extras: Vec<&str> = value
            .get("extras")
            .and_then(toml::Value::as_array)
            .map(|list| list.iter().filter_map(toml::Value::as_str).collect())
            .unwrap_or_default();
        let extras = if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
        let specifier = if version.trim() == "*" { "" } else { version.trim() };
        out.push(&format!("{package}{extras}{specifier}"), name)?;
    }
    for (table, rows) in [("feature", &document.feature), ("target", &document.target)] {
        for key in rows.keys() {
            out.leave_out(&format!("[{table}.{key}]"));
        }
    }
    Ok(out)
}

/// Splits a match specification into name and version. Channel and build string have no counterpart on PyPI.
fn split(spec: &str) -> (&str, &str) {
    let spec = spec.rsplit_once("::").map_or(spec, |(_, rest)| rest).trim();
    let spec = spec.split('[').next().unwrap_or(spec);
    let end = spec.find([' ', '=', '<', '>', '!', '~']).unwrap_or(spec.len());
    (spec[..end].trim(), spec[end..].trim())
}

/// Imports one conda package. CUDA and cuDNN packages become limits of the stack, because torch's wheels need them.
fn conda(
    out: &mut Imported,
    registry: &Registry,
    package: &str,
    version: &str,
    name: &str,
) -> Result<(), CliError> {
    let Some(specifier) = specifier(version) else {
        out.leave_out(&format!("{package} {version}"));
        return Ok(());
    };
    let bare = |specifier: &str| specifier.trim_start_matches("==").trim_end_matches(".*").to_owned();
    match package {
        "pip" | "setuptools" | "wheel" | "cpuonly" => {}
        "python" => out.python = Some(bare(&specifier)).filter(|p| !p.is_empty()),
        "pytorch-cuda" | "cudatoolkit" | "cuda-version" | "cuda-toolkit" if !specifier.is_empty() => {
            out.limits.push(("cuda", bare(&specifier)));
        }
        "pytorch-cuda" | "cudatoolkit" | "cuda-version" | "cuda-toolkit" => {}
        "cudnn" if !specifier.is_empty() => out.limits.push(("cudnn", bare(&specifier))),
        "cudnn" => {}
        "pytorch" | "pytorch-gpu" => out.push(&format!("torch{specifier}"), name)?,
        other => match registry.conda_name(other) {
            None if UserRequirement::parse(&format!("{other}{specifier}"), name.into()).is_err() => {
                out.leave_out_because(
                    &format!("{package} {version}"),
                    "it is no requirement of a package on PyPI",
                );
            }
            None => out.push(&format!("{other}{specifier}"), name)?,
            Some(CondaName { pypi: Some(pypi), .. }) => out.push(&format!("{pypi}{specifier}"), name)?,
            Some(CondaName { pypi: None, .. }) => {
                out.leave_out_because(other, "it is no Python package: install it with conda or the system");
            }
        },
    }
    Ok(())
}

/// Converts conda version specifiers to PEP 440; `None` for alternatives (`|`), which PEP 440 does not have.
fn specifier(text: &str) -> Option<String> {
    let text = text.trim();
    if text.contains('|') {
        return None;
    }
    // `=1.26=py311_0`, `1.26 py311_0`: the build is the last part.
    let version = |rest: &str| rest.split(['=', ' ']).next().unwrap_or("").trim_end_matches(".*").to_owned();
    Some(if text.is_empty() || text == "*" {
        String::new()
    } else if let Some(rest) = text.strip_prefix("==") {
        format!("=={}", version(rest))
    } else if let Some(rest) = text.strip_prefix('=') {
        format!("=={}.*", version(rest))
    } else if text.starts_with(|c: char| c.is_ascii_digit()) {
        let wild = text.split(' ').next().is_some_and(|v| v.ends_with('*'));
        format!("=={}{}", version(text), if wild { ".*" } else { "" })
    } else {
        text.split_whitespace().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_specifications() {
        for (theirs, package, ours) in [
            ("numpy", "numpy", Some("")),
            ("numpy=1.26", "numpy", Some("==1.26.*")),
            ("numpy=1.26.4=py311_0", "numpy", Some("==1.26.4.*")),
            ("numpy==1.26.4", "numpy", Some("==1.26.4")),
            ("conda-forge::numpy >=1.26,<2", "numpy", Some(">=1.26,<2")),
            ("numpy 1.26.*", "numpy", Some("==1.26.*")),
            ("numpy 1.26 py311_0", "numpy", Some("==1.26")),
            ("numpy>=1.26|<1", "numpy", None),
            ("pytorch[version='>=2']", "pytorch", Some("")),
        ] {
            let (name, version) = split(theirs);
            assert_eq!((name, specifier(version).as_deref()), (package, ours), "{theirs}");
        }
    }

    #[test]
    fn an_environment() {
        let text = "name: x\nchannels: [pytorch, nvidia]\ndependencies:\n  - python=3.11\n  - pytorch=2.5\n  - pytorch-cuda=12.4\n  - pip\n  - numpy>=1.26|<1\n  - ffmpeg\n  - opencv=4.9\n  - pip:\n    - transformers>=4 --hash=sha256:00\n    - --extra-index-url https://x/\n";
        let out = environment(Imported::default(), text, "environment.yml", Path::new(".")).unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["torch==2.5.*", "opencv-python==4.9.*", "transformers>=4"]);
        assert_eq!((out.python.as_deref(), out.limits), (Some("3.11"), vec![("cuda", "12.4".to_owned())]));
        assert_eq!(
            out.left_out,
            [
                "`numpy >=1.26|<1` is not supported in envlock.toml",
                "`ffmpeg`: it is no Python package: install it with conda or the system",
                "`--extra-index-url` is not supported in envlock.toml"
            ]
        );
        for bad in ["dependencies: 3", "a: [", "dependencies:\n  - {pip: 3}", "\u{0}"] {
            assert!(
                environment(Imported::default(), bad, "environment.yml", Path::new(".")).is_err(),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn pixi_files() {
        let text = "[workspace]\nname = \"x\"\n[dependencies]\npython = \">=3.11,<3.14\"\npytorch = \">=2.5\"\ncuda-version = \"12.6.*\"\n[pypi-dependencies]\ntransformers = \"*\"\ndatasets = { version = \">=2\", extras = [\"audio\"] }\nmine = { path = \".\" }\n[feature.dev]\n";
        let out = pixi(Imported::default(), text, "pixi.toml").unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["torch>=2.5", "datasets[audio]>=2", "transformers"]);
        assert_eq!(
            (out.python.as_deref(), out.limits),
            (Some(">=3.11,<3.14"), vec![("cuda", "12.6".to_owned())])
        );
        assert_eq!(
            out.left_out,
            [
                "`[pypi-dependencies] mine` is not supported in envlock.toml",
                "`[feature.dev]` is not supported in envlock.toml"
            ]
        );
    }
}

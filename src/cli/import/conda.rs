//! conda's environment.yml and pixi.toml: converts conda names and specifiers to those of PyPI.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::reference::extras_of;
use super::{Imported, unreadable};
use crate::cli::error::CliError;
use crate::model::request::UserRequirement;
use crate::model::text::clean;
use crate::registry::conda_names::{OnPypi, on_pypi};
use crate::registry::{CondaName, Registry};

#[derive(Deserialize)]
struct Environment {
    name: Option<serde_json::Value>,
    #[serde(default)]
    channels: Option<Vec<serde_json::Value>>,
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
        let first = message.lines().next().unwrap_or("").trim_start_matches("error: ");
        CliError::input(format!("{}: {}", clean(name, 80), clean(first, 200)))
    })?;
    // `base` is an environment of conda itself, no project.
    let of_project =
        document.name.as_ref().and_then(serde_json::Value::as_str).filter(|name| *name != "base");
    out.name = out.name.take().or(of_project.map(|name| clean(name, 60)));
    let channels = document.channels.iter().flatten().filter_map(serde_json::Value::as_str);
    let mut names = Names::of_channels(channels);
    for dependency in document.dependencies.unwrap_or_default() {
        match dependency {
            serde_json::Value::String(spec) => {
                conda(&mut out, &mut names, &spec, name)?;
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
    names.leave_out_without_python(&mut out);
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
        out.option(item);
        return Ok(());
    }
    let line = super::requirements::without_options(out, item);
    out.push_line(&line, base, name)
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Pixi {
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
}

/// Reads a pixi.toml.
pub(super) fn pixi(mut out: Imported, text: &str, name: &str) -> Result<Imported, CliError> {
    let document: Pixi = toml::from_str(text).map_err(|e| unreadable(name, text, &e))?;
    let project = document.workspace.as_ref().or(document.project.as_ref());
    let channels = project.and_then(|table| table.get("channels")).and_then(toml::Value::as_array);
    let channels = channels.into_iter().flatten();
    let channels =
        channels.filter_map(|channel| channel.as_str().or_else(|| channel.get("channel")?.as_str()));
    let mut names = Names::of_channels(channels);
    let version = |value: &toml::Value| -> Option<String> {
        value.as_str().or_else(|| value.get("version")?.as_str()).map(str::to_owned)
    };
    for (package, value) in &document.dependencies {
        match version(value) {
            Some(version) => {
                let channel = value.get("channel").and_then(toml::Value::as_str);
                let channel = channel.map(|channel| format!("{channel}::")).unwrap_or_default();
                conda(&mut out, &mut names, &format!("{channel}{package} {version}"), name)?;
            }
            None => out.leave_out(&format!("[dependencies] {package}")),
        }
    }
    names.leave_out_without_python(&mut out);
    for (package, value) in &document.pypi_dependencies {
        let Some(version) = version(value) else {
            out.leave_out(&format!("[pypi-dependencies] {package}"));
            continue;
        };
        if let Some(index) = value.get("index") {
            out.indexes(&format!("[pypi-dependencies] {package}: index"), index);
        }
        let extras = extras_of(value);
        let specifier = if version.trim() == "*" { "" } else { version.trim() };
        out.push(&format!("{package}{extras}{specifier}"), name)?;
    }
    for key in ["index-url", "extra-index-urls", "find-links"] {
        if let Some(value) = document.pypi_options.get(key) {
            out.indexes(&format!("[pypi-options] {key}"), value);
        }
    }
    for (table, rows) in [("feature", &document.feature), ("target", &document.target)] {
        for key in rows.keys() {
            out.leave_out(&format!("[{table}.{key}]"));
        }
    }
    Ok(out)
}

/// A match specification: `channel::name version build`. The build string has no counterpart on PyPI.
struct Spec<'t> {
    channel: Option<&'t str>,
    package: &'t str,
    version: &'t str,
}

impl<'t> Spec<'t> {
    fn of(spec: &'t str) -> Spec<'t> {
        let (channel, rest) = match spec.rsplit_once("::") {
            Some((channel, rest)) => (Some(last_part(channel)), rest),
            None => (None, spec),
        };
        let (rest, keys) = rest.trim().split_once('[').unwrap_or((rest, ""));
        let rest = rest.trim();
        let end = rest.find([' ', '=', '<', '>', '!', '~']).unwrap_or(rest.len());
        let version = match keys.split_once("version=") {
            // `numpy[version='>=1.26,<2', build=...]`: quoted, since a version has commas.
            Some((_, stated)) => {
                let quote = stated.starts_with(['\'', '"']).then(|| &stated[..1]);
                let bare = || stated.split([',', ']']).next().unwrap_or(stated);
                let quoted = quote.map(|quote| stated[1..].split(quote).next().unwrap_or(""));
                quoted.unwrap_or_else(bare)
            }
            None => &rest[end..],
        };
        Spec { channel, package: rest[..end].trim(), version: version.trim() }
    }
}

/// The channel's name, without its address and platform: `https://host/bioconda/linux-64` and `bioconda`.
fn last_part(channel: &str) -> &str {
    let is_platform = |part: &str| part == "noarch" || part.starts_with("linux-") || part.starts_with("osx-");
    channel.trim().split('/').rev().find(|part| !part.is_empty() && !is_platform(part)).unwrap_or("")
}

/// What names of conda mean: the registry's rows, then the list of the package's channel, else of the file's channels.
struct Names {
    registry: Registry,
    channels: Vec<String>,
    /// What was met so far that holds no Python package.
    without_python: Vec<String>,
}

impl Names {
    /// For the channels of a file.
    fn of_channels<'t>(channels: impl Iterator<Item = &'t str>) -> Names {
        Names {
            registry: Registry::embedded(),
            channels: channels.map(|channel| last_part(channel).to_owned()).collect(),
            without_python: Vec::new(),
        }
    }

    /// Leaves out what holds no Python package, in one line.
    fn leave_out_without_python(self, out: &mut Imported) {
        const WHY: &str = "to install with conda or the system";
        match self.without_python.as_slice() {
            [] => {}
            [one] => out.leave_out_because(one, &format!("conda's package holds no Python package: {WHY}")),
            list => out.left_out.push(clean(
                &format!(
                    "{} conda packages that hold no Python package, {WHY}: {}",
                    list.len(),
                    list.join(", ")
                ),
                600,
            )),
        }
    }

    fn on_pypi<'a>(&'a self, channel: Option<&str>, package: &'a str) -> Option<&'a str> {
        match self.registry.conda_name(package) {
            Some(CondaName { pypi, .. }) => pypi.as_deref(),
            None => {
                let said = match channel {
                    Some(channel) => on_pypi(channel, package),
                    None => match on_pypi("conda-forge", package) {
                        OnPypi::SameName if self.channels.iter().any(|channel| channel == "bioconda") => {
                            on_pypi("bioconda", package)
                        }
                        said => said,
                    },
                };
                match said {
                    OnPypi::Named(pypi) => Some(pypi),
                    OnPypi::Nothing => None,
                    OnPypi::SameName => Some(package),
                }
            }
        }
    }
}

/// Imports one conda package. CUDA and cuDNN packages become limits of the stack, because torch's wheels need them.
fn conda(out: &mut Imported, names: &mut Names, spec: &str, name: &str) -> Result<(), CliError> {
    let Spec { channel, package, version } = Spec::of(spec);
    // conda's names are in lower case, and it takes them in any.
    let package = &*package.to_ascii_lowercase();
    let Some(specifier) = specifier(version) else {
        out.leave_out(&format!("{package} {version}"));
        return Ok(());
    };
    let bare = |specifier: &str| specifier.trim_start_matches("==").trim_end_matches(".*").to_owned();
    match package {
        "pip" | "setuptools" | "wheel" => {}
        // conda's switch between builds: the build of torch is chosen for the hardware.
        "pytorch-mutex" => {}
        "python" => out.python = Some(bare(&specifier)).filter(|p| !p.is_empty()),
        "pytorch-cuda" | "cudatoolkit" | "cuda-version" | "cuda-toolkit" | "cuda"
            if !specifier.is_empty() =>
        {
            out.limits.push(("cuda", bare(&specifier)));
        }
        "pytorch-cuda" | "cudatoolkit" | "cuda-version" | "cuda-toolkit" | "cuda" => {}
        "cudnn" if !specifier.is_empty() => out.limits.push(("cudnn", bare(&specifier))),
        "cudnn" => {}
        "cpuonly" => out.limits.push(("variant", "cpu".to_owned())),
        "pytorch" | "pytorch-gpu" => out.push(&format!("torch{specifier}"), name)?,
        "pytorch-cpu" => {
            out.limits.push(("variant", "cpu".to_owned()));
            out.push(&format!("torch{specifier}"), name)?;
        }
        other => match names.on_pypi(channel, other) {
            None => names.without_python.push(other.to_owned()),
            Some(pypi) if UserRequirement::parse(&format!("{pypi}{specifier}"), name.into()).is_err() => {
                out.leave_out_because(&format!("{package} {version}"), "PyPI has no such name and version");
            }
            Some(pypi) => out.push(&format!("{pypi}{specifier}"), name)?,
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
        // With a build the version is exact, and PEP 440 has no prefix of a post-release.
        let is_exact =
            rest.trim().contains(['=', ' ']) || version(rest).contains(|c: char| c.is_alphabetic());
        format!("=={}{}", version(rest), if is_exact { "" } else { ".*" })
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
            ("numpy=1.26.4=py311_0", "numpy", Some("==1.26.4")),
            ("pytz=2023.3.post1=pyhd8ed1ab_0", "pytz", Some("==2023.3.post1")),
            ("pytz=2023.3.post1", "pytz", Some("==2023.3.post1")),
            ("numpy==1.26.4", "numpy", Some("==1.26.4")),
            ("conda-forge::numpy >=1.26,<2", "numpy", Some(">=1.26,<2")),
            ("numpy 1.26.*", "numpy", Some("==1.26.*")),
            ("numpy 1.26 py311_0", "numpy", Some("==1.26")),
            ("numpy>=1.26|<1", "numpy", None),
            ("pytorch[version='>=2,<3', build=cuda*]", "pytorch", Some(">=2,<3")),
            ("numpy [version=\"1.26.*\"]", "numpy", Some("==1.26.*")),
            ("numpy[version=1.26,build=py311_0]", "numpy", Some("==1.26")),
            ("numpy[version='", "numpy", Some("")),
            ("numpy[build=py311_0]", "numpy", Some("")),
        ] {
            let spec = Spec::of(theirs);
            assert_eq!((spec.package, specifier(spec.version).as_deref()), (package, ours), "{theirs}");
        }
    }

    #[test]
    fn names_by_channel() {
        let text = "channels: [conda-forge, https://host/bioconda/linux-64]\ndependencies:\n  - xz\n  - samtools\n  - bioconda::hmmer\n  - conda-forge::samtools\n  - Matplotlib-Base\n  - pytorch::pytorch-cpu=2.5\n  - cuda\n";
        let out = environment(Imported::default(), text, "environment.yml", Path::new(".")).unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["samtools", "matplotlib", "torch==2.5.*"]);
        assert_eq!(out.limits, [("variant", "cpu".to_owned())]);
        assert_eq!(
            out.left_out,
            [
                "3 conda packages that hold no Python package, to install with conda or the system: xz, samtools, hmmer"
            ]
        );
        for (channel, name) in
            [("bioconda", "bioconda"), ("https://h/bioconda/linux-64/", "bioconda"), ("", "")]
        {
            assert_eq!(last_part(channel), name);
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
                "`--extra-index-url https://x/` is not supported in envlock.toml",
                "`ffmpeg`: conda's package holds no Python package: to install with conda or the system"
            ]
        );
        for bad in ["dependencies: 3", "a: [", "dependencies:\n  - {pip: 3}", "\u{0}"] {
            assert!(
                environment(Imported::default(), bad, "environment.yml", Path::new("."))
                    .is_err_and(|e| !e.message.contains("error:")),
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

//! conda's environment.yml and pixi.toml: converts conda names and specifiers to those of PyPI.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::kept::{self, CondaPart};
use super::reference::extras_of;
use super::translated::{Names, conda};
use super::{Imported, unreadable};
use crate::cli::error::CliError;
use crate::model::text::clean;

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
    part: CondaPart,
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
    let mut specs: Vec<String> = Vec::new();
    let mut of_pip = Imported { folder: out.folder.clone(), ..Imported::default() };
    for dependency in document.dependencies.unwrap_or_default() {
        match dependency {
            serde_json::Value::String(spec) => specs.push(spec),
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
                            Some(item) if installer == "pip" => pip_line(&mut of_pip, item, name, base)?,
                            _ => out.leave_out(&item.to_string()),
                        }
                    }
                }
            }
            other => out.leave_out(&other.to_string()),
        }
    }
    conda_part(&mut out, &specs, channels, name, part)?;
    out.join(of_pip);
    Ok(out)
}

/// The conda packages of a file: as PyPI's, or kept as they are.
fn conda_part<'t>(
    out: &mut Imported,
    specs: &[String],
    channels: impl Iterator<Item = &'t str>,
    name: &str,
    part: CondaPart,
) -> Result<(), CliError> {
    let mut names = Names::of_channels(channels);
    let channels = names.channels.clone();
    let mut translated = Imported { folder: out.folder.clone(), ..Imported::default() };
    for spec in specs {
        conda(&mut translated, &mut names, spec, name)?;
    }
    let is_kept = match part {
        CondaPart::Conda => true,
        CondaPart::Pypi => false,
        CondaPart::Auto => {
            // What `conda env export` writes is an installation on one system, with builds that may be gone.
            let is_export = specs.iter().any(|spec| kept::names_a_build(spec));
            cfg!(feature = "conda") && !names.without_python.is_empty() && !is_export
        }
    };
    if is_kept {
        return kept::keep(out, &mut names, (specs, &channels), name);
    }
    names.leave_out_without_python(&mut translated);
    out.join(translated);
    Ok(())
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
pub(super) fn pixi(mut out: Imported, text: &str, name: &str, part: CondaPart) -> Result<Imported, CliError> {
    let document: Pixi = toml::from_str(text).map_err(|e| unreadable(name, text, &e))?;
    let project = document.workspace.as_ref().or(document.project.as_ref());
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
                specs.push(format!("{channel}{package} {version}"));
            }
            None => out.leave_out(&format!("[dependencies] {package}")),
        }
    }
    conda_part(&mut out, &specs, channels, name, part)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_channel() {
        let text = "channels: [conda-forge, https://host/bioconda/linux-64]\ndependencies:\n  - xz\n  - samtools\n  - bioconda::hmmer\n  - conda-forge::samtools\n  - Matplotlib-Base\n  - pytorch::pytorch-cpu=2.5\n  - cuda\n";
        let out = environment(Imported::default(), text, "environment.yml", Path::new("."), CondaPart::Pypi)
            .unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["samtools", "matplotlib", "torch==2.5.*"]);
        assert_eq!(out.limits, [("variant", "cpu".to_owned())]);
        assert_eq!(
            out.left_out,
            [
                "3 conda packages that hold no Python package, to install with conda or the system: xz, samtools, hmmer"
            ]
        );
    }

    #[test]
    fn an_environment() {
        let text = "name: x\nchannels: [pytorch, nvidia]\ndependencies:\n  - python=3.11\n  - pytorch=2.5\n  - pytorch-cuda=12.4\n  - pip\n  - numpy>=1.26|<1\n  - ffmpeg\n  - opencv=4.9\n  - pip:\n    - transformers>=4 --hash=sha256:00\n    - --extra-index-url https://x/\n";
        let out = environment(Imported::default(), text, "environment.yml", Path::new("."), CondaPart::Pypi)
            .unwrap();
        let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(written, ["torch==2.5.*", "opencv-python==4.9.*", "transformers>=4"]);
        assert_eq!((out.python.as_deref(), out.limits), (Some("3.11"), vec![("cuda", "12.4".to_owned())]));
        assert_eq!(
            out.left_out,
            [
                "`numpy >=1.26|<1` is not supported in envlock.toml",
                "`ffmpeg`: conda's package holds no Python package: to install with conda or the system",
                "`--hash`: the lock has the hashes that the index states",
                "`--extra-index-url https://x/` is not supported in envlock.toml"
            ]
        );
        for bad in ["dependencies: 3", "a: [", "dependencies:\n  - {pip: 3}", "\u{0}"] {
            assert!(
                environment(Imported::default(), bad, "environment.yml", Path::new("."), CondaPart::Pypi)
                    .is_err_and(|e| !e.message.contains("error:")),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn the_conda_part_is_kept() {
        let of = |text: &str, part: CondaPart| {
            let out =
                environment(Imported::default(), text, "environment.yml", Path::new("."), part).unwrap();
            let written: Vec<String> = out.requirements.into_iter().map(|(text, _)| text).collect();
            (written, out.limits, out.conda)
        };
        let old = "channels: [pytorch, nvidia, defaults, bioconda]\ndependencies:\n  - python=3.11\n  - pytorch=2.5\n  - pytorch-cuda=12.4\n  - nvidia::cuda-nvcc=12.4\n  - bioconda::samtools\n  - numpy>=1.26|<1\n  - pip:\n    - einops\n";
        let (written, limits, kept) = of(old, CondaPart::Conda);
        // torch of the old channel is PyPI's.
        assert_eq!(written, ["torch==2.5.*", "einops"]);
        assert_eq!(limits, [("cuda", "12.4".to_owned())]);
        let kept = kept.unwrap();
        assert_eq!((kept.channels.as_slice(), kept.has_stack), (["bioconda".to_owned()].as_slice(), false));
        assert_eq!(kept.specs, ["cuda-nvcc=12.4", "bioconda::samtools", "numpy>=1.26|<1"]);
        // PyPI's, as long as it has all of them.
        let plain = "channels: [conda-forge]\ndependencies:\n  - pytorch=2.9=cuda*\n  - cuda-version=12.9\n  - numpy\n";
        assert_eq!(of(plain, CondaPart::Auto).2, None);
        let with_compiler = format!("{plain}  - gcc_linux-64\n");
        assert_eq!(of(&with_compiler, CondaPart::Pypi).2, None);
        #[cfg(feature = "conda")]
        {
            let (written, limits, kept) = of(&with_compiler, CondaPart::Auto);
            assert_eq!((written, limits), (vec!["torch==2.9".to_owned()], vec![]));
            let kept = kept.unwrap();
            assert!(kept.has_stack);
            assert_eq!(kept.specs, ["cuda-version=12.9", "numpy", "gcc_linux-64"]);
        }
    }

    #[test]
    fn pixi_files() {
        let text = "[workspace]\nname = \"x\"\n[dependencies]\npython = \">=3.11,<3.14\"\npytorch = \">=2.5\"\ncuda-version = \"12.6.*\"\n[pypi-dependencies]\ntransformers = \"*\"\ndatasets = { version = \">=2\", extras = [\"audio\"] }\nmine = { path = \".\" }\n[feature.dev]\n";
        let out = pixi(Imported::default(), text, "pixi.toml", CondaPart::Pypi).unwrap();
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

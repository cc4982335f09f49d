//! conda packages as packages of PyPI: match specs as requirements, names by the registry.

use super::Imported;
use super::channel::name_of_channel;
use super::match_spec::Spec;
use crate::cli::error::CliError;
use crate::model::conda::last_part_of_channel;
use crate::model::conda::{CONDA_FORGE, cuda_of_build, is_cpu_build};
use crate::model::request::UserRequirement;
use crate::model::text::{channel_without_secrets, clean};
use crate::registry::conda_names::{OnPypi, framework_of, on_pypi};
use crate::registry::{CondaName, Registry};

/// What names of conda mean: the registry's rows, then the list of the package's channel, else of the file's channels.
pub(super) struct Names {
    registry: Registry,
    pub channels: Vec<String>,
    /// What was met so far that holds no Python package.
    pub without_python: Vec<String>,
}

impl Names {
    /// For the channels of a file.
    pub fn of_channels<'t>(channels: impl Iterator<Item = &'t str>) -> Names {
        Names {
            registry: Registry::embedded(),
            channels: channels.map(|channel| last_part_of_channel(channel).to_owned()).collect(),
            without_python: Vec::new(),
        }
    }

    /// Leaves out what holds no Python package, in one line.
    pub fn leave_out_without_python(self, out: &mut Imported) {
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
                    None => match on_pypi(CONDA_FORGE, package) {
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

/// conda's packages whose version is that of CUDA.
const OF_CUDA: [&str; 5] = ["pytorch-cuda", "cudatoolkit", "cuda-version", "cuda-toolkit", "cuda"];

/// Imports one conda package. CUDA and cuDNN packages become limits of the stack, because torch's wheels need them.
pub(super) fn conda(out: &mut Imported, names: &mut Names, text: &str, name: &str) -> Result<(), CliError> {
    let spec = Spec::of(text);
    // conda's names are in lower case, and it takes them in any.
    let package = &*spec.package.to_ascii_lowercase();
    let written = format!("{package} {}", spec.written());
    if spec.channel.is_some_and(|channel| name_of_channel(channel).is_none()) {
        let why = "its channel has an address of its own: PyPI may have another package of that name";
        out.leave_out_because(&channel_without_secrets(text), why);
        return Ok(());
    }
    let Some(specifier) = spec.specifier() else {
        out.leave_out(&written);
        return Ok(());
    };
    let bare = |specifier: &str| specifier.trim_start_matches("==").trim_end_matches(".*").to_owned();
    let is_torch = matches!(package, "pytorch" | "pytorch-gpu" | "pytorch-cpu");
    match package {
        // What builds a package has its own; a bound is about what runs.
        "setuptools" if !specifier.is_empty() && spec.build.is_none() => {
            out.push(&format!("setuptools{specifier}"), name)?;
        }
        "pip" | "setuptools" | "wheel" => {}
        // conda's switch between builds: the build of torch is chosen for the hardware.
        "pytorch-mutex" => {}
        "python" => out.python = Some(python(&bare(&specifier))).filter(|p| !p.is_empty()),
        // Without a version they limit nothing.
        name if name == "cudnn" || OF_CUDA.contains(&name) => {
            let limit = if name == "cudnn" { "cudnn" } else { "cuda" };
            if !specifier.is_empty() {
                out.limit(limit, bare(&specifier));
            }
        }
        "cpuonly" => out.limit("variant", "cpu".to_owned()),
        _ if is_torch => {
            if package == "pytorch-cpu"
                || spec.build.is_some_and(|build| is_cpu_build(build.trim_matches('*')))
            {
                out.limit("variant", "cpu".to_owned());
            } else if let Some((major, minor)) = spec.build.and_then(cuda_of_build) {
                out.limit("cuda", format!("{major}.{minor}"));
            }
            out.push(&format!("torch{specifier}"), name)?;
        }
        other => match names.on_pypi(spec.channel.map(last_part_of_channel), other) {
            None => names.without_python.push(other.to_owned()),
            Some(pypi) if UserRequirement::parse(&format!("{pypi}{specifier}"), name.into()).is_err() => {
                out.leave_out_because(&written, "PyPI has no such name and version");
            }
            Some(pypi) => {
                // TensorFlow's wheels have its CUDA libraries as an extra.
                let extra = if other == "tensorflow-gpu" { "[and-cuda]" } else { "" };
                out.push(&format!("{pypi}{extra}{specifier}"), name)?;
            }
        },
    }
    let is_wish = |build: &&str| build.contains('*') && !names_a_python(build);
    if let Some(build) = spec.build.filter(is_wish).filter(|_| !is_torch && package != "python") {
        let why = "a build of conda's: PyPI's package has one build, or another name for each";
        out.leave_out_because(&format!("{package}: {build}"), why);
    }
    Ok(())
}

/// Whether a pattern of builds names a Python alone: `py311*`, `*_cpython`.
fn names_a_python(build: &str) -> bool {
    let word = build.trim_matches('*').trim_matches('_');
    word == "cpython" || word.strip_prefix("py").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

/// A version of Python as envlock.toml states it: `3` is `>=3,<4`.
fn python(version: &str) -> String {
    match version.parse::<u32>() {
        Ok(major) => format!(">={major},<{}", major + 1),
        Err(_) => version.to_owned(),
    }
}

/// Whether a conda package becomes something else than a conda package where these are kept: Python, torch and its CUDA, other
/// frameworks. With torch from conda-forge, its CUDA is conda's too.
pub(super) fn is_translated(package: &str, has_stack: bool) -> bool {
    match package {
        "pip" | "setuptools" | "wheel" | "python" | "pytorch-mutex" | "cpuonly" | "pytorch-cuda" => true,
        "cudnn" => !has_stack,
        other if OF_CUDA.contains(&other) => !has_stack,
        other => framework_of(other).is_some(),
    }
}

//! conda packages as packages of PyPI: match specs as requirements, names by the registry.

use pep440_rs::VersionSpecifiers;

use super::channel::{name_of_channel, names_are_known};
use super::match_spec::Spec;
use crate::formats::imported::{ImportError, Imported};
use crate::model::conda::{CONDA_FORGE, cuda_of_build, is_cpu_build, last_part_of_channel};
use crate::model::request::UserRequirement;
use crate::model::text::{channel_without_secrets, clean, normalized_name};
use crate::registry::conda_names::{OnPypi, framework_of, is_channel_of_torch, is_of_anaconda, on_pypi};
use crate::registry::{Cited, FrameworkBuild, Registry};

/// What names of conda mean: the registry's rows, then the list of the package's channel, else of the file's channels.
pub(super) struct Names {
    registry: Registry,
    /// What the names of channels are appended to.
    alias: String,
    pub channels: Vec<String>,
    /// Whether the file has a channel whose names are not known: a package of it may be another one than PyPI's of its name.
    has_others: bool,
    /// What was met so far that holds no Python package.
    pub without_python: Vec<String>,
    /// What was met so far that may not be what PyPI has under its name.
    pub uncertain: Vec<String>,
    /// What belongs to every environment and was asked for in one version: `setuptools 58.0.4`.
    tools: Vec<String>,
}

impl Names {
    /// For the channels of a file.
    pub fn of_channels<'t>(alias: &str, channels: impl Iterator<Item = &'t str> + Clone) -> Names {
        Names {
            registry: Registry::embedded(),
            alias: alias.to_owned(),
            has_others: !channels.clone().all(|channel| names_are_known(alias, channel)),
            channels: channels.map(|channel| last_part_of_channel(channel).to_owned()).collect(),
            without_python: Vec::new(),
            uncertain: Vec::new(),
            tools: Vec::new(),
        }
    }

    /// The name of a channel that a file states.
    pub fn channel(&self, text: &str) -> Option<String> {
        name_of_channel(&self.alias, text)
    }

    /// Whether a channel that a file states is one of Anaconda's: by its name, or by an address that has it.
    pub fn is_of_anaconda(&self, channel: &str) -> bool {
        is_of_anaconda(channel) || self.channel(channel).is_some_and(|name| is_of_anaconda(&name))
    }

    /// Forgets what was met.
    pub fn clear(&mut self) {
        for list in [&mut self.without_python, &mut self.uncertain, &mut self.tools] {
            list.clear();
        }
    }

    /// Leaves out what may not be PyPI's package of its name, and the tools of an environment, in one line each.
    pub fn leave_out_others(&mut self, out: &mut Imported) {
        if !self.uncertain.is_empty() {
            let names = std::mem::take(&mut self.uncertain);
            let text = format!(
                "{} conda packages: PyPI may have others of these names, and a channel of the file has names of its own: {}",
                names.len(),
                names.join(", ")
            );
            out.left_out.push(clean(&text, 4000));
        }
        if !self.tools.is_empty() {
            let why = "what builds a package has its own";
            out.leave_out_because(&std::mem::take(&mut self.tools).join(", "), why);
        }
    }

    /// Whether a package may be another one than PyPI's of its name.
    fn is_uncertain(&self, channel: Option<&str>, package: &str, pypi: &str) -> bool {
        let may_be_of_others = match channel {
            // A package that is asked of it by name may be one that it alone has.
            Some(channel) => {
                !names_are_known(&self.alias, channel)
                    || self.channel(channel).is_some_and(|name| is_channel_of_torch(&name))
            }
            None => self.has_others,
        };
        may_be_of_others && pypi == package && !self.registry.is_popular(&normalized_name(pypi))
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
                4000,
            )),
        }
    }

    /// What PyPI has for conda's `tensorflow-gpu`: what the registry says to ask for, for releases that it knows.
    fn tensorflow_for_gpus(&self, specifier: &str) -> String {
        let admitted: Option<VersionSpecifiers> = specifier.parse().ok();
        let rows = self.registry.frameworks().iter().filter(|row| row.package == "tensorflow");
        let is_admitted = |row: &&Cited<FrameworkBuild>| {
            let series = row.versions.iter().next().map(|bound| bound.version());
            admitted.as_ref().is_none_or(|all| series.is_some_and(|series| all.contains(series)))
        };
        match rows
            .filter(is_admitted)
            .max_by_key(|row| row.versions.iter().next().map(|b| b.version().clone()))
        {
            Some(row) => row.ask.clone().unwrap_or_else(|| row.package.clone()),
            None => "tensorflow-gpu".to_owned(),
        }
    }

    fn on_pypi<'a>(&'a self, channel: Option<&str>, package: &'a str) -> Option<&'a str> {
        match self.registry.conda_name(package) {
            Some(row) => row.pypi.as_deref(),
            None => {
                let said = match channel {
                    Some(channel) => on_pypi(channel, package),
                    None => match on_pypi(CONDA_FORGE, package) {
                        // bioconda has old copies of packages that conda-forge has, and its list knows no name for some.
                        OnPypi::SameName
                            if self.channels.iter().any(|channel| channel == "bioconda")
                                && !self.registry.is_popular(&normalized_name(package)) =>
                        {
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
pub(super) fn conda(
    out: &mut Imported,
    names: &mut Names,
    text: &str,
    name: &str,
) -> Result<(), ImportError> {
    let spec = Spec::of(text);
    // conda's names are in lower case, and it takes them in any.
    let package = &*spec.package.to_ascii_lowercase();
    let written = format!("{package} {}", spec.written());
    if spec.channel.is_some_and(|channel| names.channel(channel).is_none()) {
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
        "pip" | "setuptools" | "wheel" => names.tools.extend((!specifier.is_empty()).then_some(written)),
        // conda's switch between builds: the build of torch is chosen for the hardware.
        "pytorch-mutex" => {}
        "python" => out.python = Some(python(&bare(&specifier))).filter(|p| !p.is_empty()),
        name if name == "cudnn" || OF_CUDA.contains(&name) => match specifier.is_empty() {
            // The switch of the channel `pytorch` between its builds.
            true if name == "pytorch-cuda" => {}
            true if name == "cudnn" => {
                out.leave_out_because(name, "without a version it limits nothing; torch's wheels bring it");
            }
            true => {
                let why = "without a version it limits nothing; torch's wheels bring CUDA's libraries, and no compiler";
                out.leave_out_because(name, why);
            }
            false if name == "cudnn" => out.limit("cudnn", bare(&specifier)),
            false => out.limit("cuda", minor(&bare(&specifier))),
        },
        "cpuonly" => out.limit("variant", "cpu".to_owned()),
        _ if is_torch => {
            if package == "pytorch-cpu"
                || spec.build.is_some_and(|build| is_cpu_build(build.trim_matches('*')))
            {
                out.limit("variant", "cpu".to_owned());
            } else if let Some((major, minor)) = spec.build.and_then(cuda_of_build) {
                out.limit("cuda", format!("{major}.{minor}"));
            }
            // `py3.10_cuda12.1_cudnn8.9.2_0` is for that Python alone.
            let series = spec.build.and_then(|build| build.split('_').next()?.strip_prefix("py3."));
            let series =
                series.filter(|minor| minor.bytes().all(|b| b.is_ascii_digit()) && !minor.is_empty());
            out.python = out.python.take().or(series.map(|minor| format!("3.{minor}")));
            out.push(&format!("torch{specifier}"), name)?;
        }
        other => match names.on_pypi(spec.channel.map(last_part_of_channel), other) {
            None => names.without_python.push(other.to_owned()),
            Some(pypi) if UserRequirement::parse(&format!("{pypi}{specifier}"), name.into()).is_err() => {
                out.leave_out_because(&written, "PyPI has no such name and version");
            }
            Some(pypi) if names.is_uncertain(spec.channel, other, pypi) => {
                names.uncertain.push(other.to_owned());
            }
            Some(_) if other == "tensorflow-gpu" => {
                out.push(&format!("{}{specifier}", names.tensorflow_for_gpus(&specifier)), name)?;
            }
            Some(pypi) => out.push(&format!("{pypi}{specifier}"), name)?,
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

/// A version of CUDA as builds of torch name it: `11.3` of `11.3.1`. Bounds stay as they are.
fn minor(version: &str) -> String {
    let is_plain = version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match version.match_indices('.').nth(1) {
        Some((at, _)) if is_plain => version[..at].to_owned(),
        _ => version.to_owned(),
    }
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
        // What is asked of torch's builds is asked of conda's, as it is.
        other => framework_of(other).is_some_and(|one| !(has_stack && one.framework == "torch")),
    }
}

//! conda packages as packages of PyPI: match specs as requirements, names by the registry.

use super::Imported;
use crate::cli::error::CliError;
use crate::model::conda::CONDA_FORGE;
use crate::model::request::UserRequirement;
use crate::model::text::clean;
use crate::registry::conda_names::{OnPypi, framework_of, on_pypi};
use crate::registry::{CondaName, Registry};

/// A match specification: `channel::name version build`. The build string has no counterpart on PyPI.
pub(super) struct Spec<'t> {
    pub channel: Option<&'t str>,
    pub package: &'t str,
    version: &'t str,
}

impl<'t> Spec<'t> {
    pub fn of(spec: &'t str) -> Spec<'t> {
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
pub(super) fn last_part(channel: &str) -> &str {
    let is_platform = |part: &str| part == "noarch" || part.starts_with("linux-") || part.starts_with("osx-");
    channel.trim().split('/').rev().find(|part| !part.is_empty() && !is_platform(part)).unwrap_or("")
}

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
            channels: channels.map(|channel| last_part(channel).to_owned()).collect(),
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
pub(super) fn conda(out: &mut Imported, names: &mut Names, spec: &str, name: &str) -> Result<(), CliError> {
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
        // Without a version they limit nothing.
        name if name == "cudnn" || OF_CUDA.contains(&name) => {
            let limit = if name == "cudnn" { "cudnn" } else { "cuda" };
            out.limits.extend((!specifier.is_empty()).then(|| (limit, bare(&specifier))));
        }
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
    fn names_of_channels() {
        for (channel, name) in
            [("bioconda", "bioconda"), ("https://h/bioconda/linux-64/", "bioconda"), ("", "")]
        {
            assert_eq!(last_part(channel), name);
        }
    }
}

//! Packages of conda channels: what a request asks for, and what a build string tells.

use std::collections::BTreeMap;

use super::limit::Origin;
use super::source::CondaPackage;
use super::version::DottedVersion;

/// The channel whose builds of torch the registry knows.
pub const CONDA_FORGE: &str = "conda-forge";
/// Where channels are, unless a variable says otherwise.
pub const CONDA_CHANNELS: &str = "https://conda.anaconda.org";
/// conda's names of cuDNN, of the library alone first.
pub const CUDNN: [&str; 2] = ["libcudnn", "cudnn"];
/// conda's name of NCCL.
pub const NCCL: &str = "nccl";

/// Whether a text is a channel's name, without an address: `conda-forge`, `conda-forge/label/main`.
pub fn is_channel_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    !text.is_empty()
        && text.chars().all(is_plain)
        && !text.contains("..")
        && !text.starts_with(['/', '.', '-'])
}

/// What a request asks of conda channels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CondaRequest {
    /// The channels by name, the most preferred first.
    pub channels: Vec<String>,
    /// Match specs: `ffmpeg >=6`, `gcc_linux-64`.
    pub specs: Vec<CondaSpec>,
    /// Where it is written that torch and its companions come from the channels; from PyPI and the pytorch index if absent.
    pub stack: Option<Origin>,
    /// The same of targets that state it themselves, by the target's name.
    pub stack_of_targets: BTreeMap<String, Option<Origin>>,
}

impl CondaRequest {
    /// Whether nothing is asked of any channel.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty() && self.stack.is_none()
    }
}

/// A match spec and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct CondaSpec {
    /// As written, on one line, the name in lower case.
    pub text: String,
    /// Where it was written.
    pub origin: Origin,
}

impl CondaSpec {
    /// A spec as written. conda compares names without regard to case.
    pub fn new(text: &str, origin: Origin) -> CondaSpec {
        CondaSpec { text: with_lower_name(text), origin }
    }

    /// The name of the package: `ffmpeg` of `conda-forge::ffmpeg >=6`.
    pub fn name(&self) -> &str {
        name_of_spec(&self.text)
    }
}

/// Whether a conda package installs a Python package: it depends on Python.
pub fn is_python_package(package: &CondaPackage) -> bool {
    let mut needed = package.depends.iter().map(|spec| name_of_spec(spec));
    package.name != "python" && needed.any(|name| ["python", "python_abi"].contains(&name))
}

/// The server whose channels conda names without an address.
const HOST_OF_NAMES: &str = "conda.anaconda.org";

/// The name by which conda finds a channel: of `https://conda.anaconda.org/bioconda/linux-64` and `bioconda/label/main` it is
/// `bioconda`; another label stays in it. `None` for another address: another server may have another channel of that name.
pub fn channel_name(text: &str) -> Option<&str> {
    let text = text.trim().trim_end_matches('/');
    let path = match text.split_once("://") {
        None => text,
        Some((_, rest)) => rest.strip_prefix(HOST_OF_NAMES)?.strip_prefix('/')?,
    };
    let path = without_platform(path);
    let name = path.strip_suffix("/label/main").unwrap_or(path);
    let is_label = |(_, rest): (&str, &str)| rest.starts_with("label/");
    let is_name = !name.contains([':', '\\']) && name.split_once('/').is_none_or(is_label);
    is_name.then_some(name)
}

/// The place of a channel that a record states: its name as [`channel_name`] has it, else its address without a platform's
/// folder.
pub fn channel_place(text: &str) -> &str {
    channel_name(text).unwrap_or(without_platform(text.trim().trim_end_matches('/')))
}

fn without_platform(path: &str) -> &str {
    path.rsplit_once('/').filter(|(_, last)| is_platform_folder(last)).map_or(path, |(path, _)| path)
}

/// The last word of a channel without its platform, for what a mirror's packages are called: `bioconda` of
/// `https://host/bioconda/linux-64`; empty if it has none. It does not say whose channel it is.
pub fn last_part_of_channel(channel: &str) -> &str {
    channel.trim().split('/').rev().find(|part| !part.is_empty() && !is_platform_folder(part)).unwrap_or("")
}

/// Whether a part of a channel's path is the folder of a platform: `linux-64`, `noarch`.
pub fn is_platform_folder(part: &str) -> bool {
    part == "noarch" || ["linux-", "osx-", "win-"].iter().any(|os| part.starts_with(os))
}

/// A match spec with its name in lower case: `pytorch =2.8` of `PyTorch =2.8`. Names are lower-case in channels.
pub fn with_lower_name(spec: &str) -> String {
    let name = name_of_spec(spec);
    let start = name.as_ptr() as usize - spec.as_ptr() as usize;
    let (before, rest) = spec.split_at(start);
    let (name, after) = rest.split_at(name.len());
    format!("{before}{}{after}", name.to_ascii_lowercase())
}

/// The name in a match spec, as the spec writes it.
pub fn name_of_spec(spec: &str) -> &str {
    let plain = spec.rsplit_once("::").map_or(spec, |(_, rest)| rest).trim_start();
    plain.split([' ', '=', '<', '>', '!', '~', '[', '@']).next().unwrap_or(plain)
}

/// The name of the package in the name of a file: `libcudnn-dev` of `libcudnn-dev-9.10.2.21-h58dd1b1_0.conda`.
pub fn name_of_file(file: &str) -> Option<&str> {
    file.rsplitn(3, '-').nth(2)
}

/// What packages require of others and of the machine, with the names of the packages: `depends` and `constrains`.
pub fn specs_of(packages: &[CondaPackage]) -> impl Iterator<Item = (&str, &str)> {
    packages.iter().flat_map(|package| {
        let specs = package.depends.iter().chain(&package.constrains);
        specs.map(|spec| (package.name.as_str(), spec.as_str()))
    })
}

/// What a package asks of a virtual package: `__cuda >=12.8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineSpec {
    /// `__cuda`, `__glibc`, `__archspec`.
    pub name: String,
    /// The lowest version, if it states one.
    pub at_least: Option<DottedVersion>,
    /// The build, as of `__archspec 1 x86_64_v3`.
    pub build: Option<String>,
}

/// Reads a match spec on a virtual package. An upper bound is not read: the machine's versions only grow.
pub fn machine_spec(text: &str) -> Option<MachineSpec> {
    let (name, rest) = text
        .split_once([' ', '=', '>', '<', '~'])
        .map_or((text, ""), |(name, _)| (name, &text[name.len()..]));
    let mut words = rest.split_whitespace();
    let lower = lower_bound(words.next().unwrap_or_default());
    let build = words.next().map(str::to_owned);
    name.starts_with("__").then(|| MachineSpec { name: name.to_owned(), at_least: lower, build })
}

/// The lowest version of a package that match specs admit: `9.10.2.21` of `cudnn >=9.10.2.21,<10.0a0`.
pub fn lowest(specs: &[String], name: &str) -> Option<DottedVersion> {
    let of_name = specs.iter().filter(|spec| name_of_spec(spec) == name);
    of_name.filter_map(|spec| lower_bound(spec.split_once(' ')?.1.split(' ').next()?)).max()
}

/// The lowest version of bounds as match specs write them: `>=12|>=11.8,<12` is 11.8.
fn lower_bound(bounds: &str) -> Option<DottedVersion> {
    let lower_of = |alternative: &str| -> Option<DottedVersion> {
        let bounds = alternative.split(',').filter_map(|bound| {
            let version = bound.strip_prefix(">=").or_else(|| bound.strip_prefix("=="));
            let version = version.or_else(|| bound.strip_prefix('=')).or_else(|| bound.strip_prefix('>'))?;
            version.trim_end_matches(".*").trim_end_matches('*').parse().ok()
        });
        bounds.max()
    };
    // One of the alternatives suffices: the lowest, and none if one of them has no lower bound.
    bounds.split('|').map(lower_of).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min())
}

/// The CUDA version that a build string names, as major and minor: `cuda129_...` and `py3.12_cuda12.9_...` are 12.9.
pub fn cuda_of_build(build: &str) -> Option<(u64, u64)> {
    let at = build.find("cuda")? + "cuda".len();
    let text: String = build[at..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    match text.trim_end_matches('.').split_once('.') {
        Some((major, minor)) => Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?)),
        // The major version has two digits.
        None if text.len() >= 3 => Some((text[..2].parse().ok()?, text[2..].parse().ok()?)),
        None => None,
    }
}

/// The recipe's build number of a conda-forge build for CUDA: 4 of `cuda129_mkl_py312_h6bb0a4e_304`, to which 200 is added
/// for CUDA and 100 for MKL. Other channels write other build strings.
pub fn recipe_build(build: &str) -> Option<u32> {
    let number: u32 = build.rsplit('_').next()?.parse().ok()?;
    (build.starts_with("cuda") && (200..400).contains(&number)).then_some(number % 100)
}

/// Whether a build string names a CPU build: `cpu_mkl_py313_h1_100`.
pub fn is_cpu_build(build: &str) -> bool {
    build.split('_').any(|part| part.starts_with("cpu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mirrors() {
        for (channel, name) in [
            ("bioconda", "bioconda"),
            ("https://h/bioconda/linux-64/", "bioconda"),
            ("x/win-64", "x"),
            ("https://h/conda-forge/", "conda-forge"),
            ("", ""),
        ] {
            assert_eq!(last_part_of_channel(channel), name);
        }
    }

    #[test]
    fn names_of_specs() {
        for (spec, name) in [
            ("ffmpeg", "ffmpeg"),
            ("ffmpeg >=6", "ffmpeg"),
            ("pytorch=*=cuda*", "pytorch"),
            ("conda-forge::numpy[version='>=2']", "numpy"),
            ("gcc_linux-64>=12", "gcc_linux-64"),
            ("conda-forge/linux-64::cudnn", "cudnn"),
        ] {
            assert_eq!(name_of_spec(spec), name, "{spec}");
        }
    }

    #[test]
    fn names_are_lower_case() {
        for (spec, lower) in [
            ("PyTorch =2.8", "pytorch =2.8"),
            ("conda-forge::PyTorch[build='CUDA*']", "conda-forge::pytorch[build='CUDA*']"),
            ("", ""),
        ] {
            assert_eq!(with_lower_name(spec), lower);
        }
    }

    #[test]
    fn what_build_strings_tell() {
        for (build, cuda, recipe, is_cpu) in [
            ("cuda129_mkl_py312_h6bb0a4e_304", Some((12, 9)), Some(4), false),
            ("cuda118_py310h1234567_200", Some((11, 8)), Some(0), false),
            ("py3.10_cuda11.7_cudnn8.5.0_0", Some((11, 7)), None, false),
            ("cpu_mkl_py313_h1_100", None, None, true),
            ("py312h72c5963_0", None, None, false),
            ("cuda", None, None, false),
        ] {
            assert_eq!(
                (cuda_of_build(build), recipe_build(build), is_cpu_build(build)),
                (cuda, recipe, is_cpu)
            );
        }
    }

    #[test]
    fn what_is_asked_of_the_machine() {
        let of =
            |text: &str| machine_spec(text).map(|s| (s.name, s.at_least.map(|v| v.to_string()), s.build));
        let some = |name: &str, version: Option<&str>, build: Option<&str>| {
            Some((name.to_owned(), version.map(str::to_owned), build.map(str::to_owned)))
        };
        assert_eq!(of("__cuda"), some("__cuda", None, None));
        assert_eq!(of("__cuda >=12.8"), some("__cuda", Some("12.8"), None));
        assert_eq!(of("__glibc >=2.17,<3.0.a0"), some("__glibc", Some("2.17"), None));
        assert_eq!(of("__glibc>=2.28"), some("__glibc", Some("2.28"), None));
        assert_eq!(of("__archspec 1 x86_64_v3"), some("__archspec", None, Some("x86_64_v3")));
        assert_eq!(of("__cuda =12"), some("__cuda", Some("12"), None));
        assert_eq!(of("__cuda >=12|>=11.8,<12"), some("__cuda", Some("11.8"), None));
        assert_eq!(of("__cuda >=12|<9"), some("__cuda", None, None));
        assert_eq!(of("python >=3"), None);
    }
}

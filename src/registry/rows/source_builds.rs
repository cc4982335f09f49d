//! Packages that are built from source, and backports of the standard library.

use std::collections::BTreeMap;

use pep440_rs::{Version, VersionSpecifiers};
use serde::Deserialize;

use crate::model::platform::Platform;
use crate::model::requirement::parse_requirement;
use crate::model::source::BuildKind;
use crate::model::wheel::Python;
use crate::registry::table::Fault;

/// What is known of building a package beyond what its archive says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePackage {
    /// Normalized name.
    pub package: String,
    /// The releases.
    pub versions: VersionSpecifiers,
    /// Whether `setup.py` was read by a person: what it computes does not change the requirements on another machine.
    #[serde(default, rename = "reviewed")]
    pub is_reviewed: bool,
    /// The platforms that this holds for; all of them if there are none.
    #[serde(default)]
    pub platforms: Vec<Platform>,
    /// Why the build always fails, one phrase: a placeholder.
    pub never_builds: Option<String>,
    /// What the build makes, if the archive's files suggest something else.
    pub kind: Option<BuildKind>,
    /// Frameworks that the build imports, instead of those that `setup.py` imports somewhere.
    pub build_needs: Option<Vec<String>>,
    /// Build requirements that the project does not list, or whose version it does not bound.
    #[serde(default)]
    pub build_requires: Vec<String>,
}

impl SourcePackage {
    /// Whether the row is about a release.
    pub fn is_about(&self, package: &str, version: &Version) -> bool {
        self.package == package && self.versions.contains(version)
    }

    /// Whether the published requirements are those of a build on a platform, whatever `setup.py` computes.
    pub fn is_reviewed_on(&self, platform: Platform) -> bool {
        self.is_reviewed && (self.platforms.is_empty() || self.platforms.contains(&platform))
    }
}

/// What a build requires if its `setup.py` imports a module: authors forget to list it, and an isolated build fails.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildModule {
    /// The top-level module.
    pub module: String,
    /// The requirement that brings it, PEP 508.
    pub requires: String,
}

/// A package that provides a module of the standard library to older Pythons. Beside that module it breaks imports.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backport {
    /// Normalized name.
    pub package: String,
    /// The module in the standard library.
    pub module: String,
    /// The first Python series that has the module.
    pub python: Python,
    /// Whether it does nothing beside that module: Python finds its own first, and nothing puts this one before it.
    #[serde(default, rename = "harmless")]
    pub is_harmless: bool,
}

/// A name on PyPI that is another project's than the one that is meant by it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherProject {
    /// Normalized name.
    pub package: String,
    /// What it is on PyPI: `a toolkit for web applications`.
    pub is: String,
    /// What is meant: `NVIDIA's Apex`.
    pub meant: String,
    /// Where that is.
    pub place: String,
}

impl OtherProject {
    /// As a predicate: `a toolkit for web applications on PyPI, not NVIDIA's Apex, which ...`.
    pub fn text(&self) -> String {
        format!("{} on PyPI, not {}, which {}", self.is, self.meant, self.place)
    }
}

/// Releases of a package that cannot be imported with newer Pythons, although their metadata admits these.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonLimit {
    /// Normalized name.
    pub package: String,
    /// The releases.
    pub versions: VersionSpecifiers,
    /// The first Python series that they fail with.
    pub below: Python,
    /// Why, as a sentence: `Python 3.11 refuses the defaults of a dataclass`.
    pub why: String,
}

/// What releases of a package need and their metadata does not require: they fail when they are imported.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undeclared {
    /// Normalized name.
    pub package: String,
    /// The releases.
    pub versions: VersionSpecifiers,
    /// The requirement, PEP 508; `{version}` is the release's own version.
    pub requires: String,
}

/// What Python's standard library had once: a `setup.py` that uses it fails with newer Pythons.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removed {
    /// A module (`imp`), a name in a module (`configparser.SafeConfigParser`), or a behaviour in words.
    pub name: String,
    /// The first Python series without it.
    pub python: Python,
    /// Packages that bring it back: a build that requires one of them does not fail.
    #[serde(default)]
    pub backports: Vec<String>,
}

impl Removed {
    /// Whether a dotted name is this, or in it.
    pub fn has(&self, name: &str) -> bool {
        name.strip_prefix(&self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// A package of conda-forge whose name on PyPI is another, or that is no Python package.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CondaName {
    /// conda's name of it.
    pub name: String,
    /// Its name on PyPI; none if it is no Python package.
    pub pypi: Option<String>,
}

/// Wheels that a project publishes beside its source distributions, outside the index, one for each torch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prebuilt {
    /// Normalized name.
    pub package: String,
    /// The releases whose wheels are named this way.
    pub versions: VersionSpecifiers,
    /// The URL, with `{version}`, `{cuda}`, `{torch}`, `{abi}`, `{python}` and `{machine}`.
    pub url: String,
    /// What stands for `{cuda}`, by CUDA major; the major itself if empty.
    #[serde(default)]
    pub cuda: BTreeMap<String, String>,
}

/// What a wheel outside the index is for.
#[derive(Debug, Clone, Copy)]
pub struct PrebuiltFor<'v> {
    /// The release.
    pub version: &'v Version,
    /// The release of torch.
    pub torch: &'v Version,
    /// The CUDA major of torch.
    pub cuda_major: u64,
    /// Whether torch uses the C++11 ABI.
    pub cxx11_abi: bool,
    /// The Python series.
    pub python: Python,
    /// The platform.
    pub platform: Platform,
}

impl Undeclared {
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        let example = self.requires.replace("{version}", "1.0");
        parse_requirement(&example)
            .is_err()
            .then(|| Fault::at("requires", format!("`{}` is not a requirement", self.requires)))
    }
}

impl Prebuilt {
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        let places = ["{version}", "{cuda}", "{torch}", "{abi}", "{python}", "{machine}"];
        let bare = places.iter().fold(self.url.clone(), |url, place| url.replace(place, ""));
        (bare.contains(['{', '}']) || !self.url.starts_with("http"))
            .then(|| Fault::at("url", format!("`{}` is not a URL with known places", self.url)))
    }

    /// The URL of the wheel; `None` if the project makes none for this CUDA.
    pub fn url(&self, of: &PrebuiltFor<'_>) -> Option<String> {
        let major = of.cuda_major.to_string();
        let cuda = if self.cuda.is_empty() { &major } else { self.cuda.get(&major)? };
        let torch = of.torch.release();
        let abi = if of.cxx11_abi { "TRUE" } else { "FALSE" };
        let machine = of.platform.to_string();
        let machine = machine.split_once('-')?.1.to_owned();
        let values = [
            ("{version}", of.version.to_string()),
            ("{cuda}", cuda.clone()),
            ("{torch}", format!("{}.{}", torch.first()?, torch.get(1).unwrap_or(&0))),
            ("{abi}", abi.to_owned()),
            ("{python}", format!("cp3{}", of.python.minor)),
            ("{machine}", machine),
        ];
        Some(values.iter().fold(self.url.clone(), |url, (place, value)| url.replace(place, value)))
    }
}

/// Which builds of torch use the C++11 ABI of libstdc++: extensions must use the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cxx11Abi {
    /// The releases of torch.
    pub torch: VersionSpecifiers,
    /// The platform; all if absent.
    pub platform: Option<Platform>,
    /// The CUDA variants; all if empty.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Whether they use it.
    pub cxx11_abi: bool,
}

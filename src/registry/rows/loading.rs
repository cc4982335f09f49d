//! Data on what libraries load at run time.

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};
use semver::Version as Semver;
use serde::{Deserialize, Deserializer};

use super::cuda;
use crate::model::native::FrameworkLoads;
use crate::registry::table::Fault;

/// A PTX ISA version, and the first CUDA release whose driver compiles it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PtxIsa {
    /// Major and minor, `(8, 7)`.
    #[serde(deserialize_with = "isa")]
    pub isa: (u16, u16),
    /// `12.8.0`.
    #[serde(deserialize_with = "cuda")]
    pub cuda: Semver,
}

/// A part of cuDNN that works only with another part of the same release.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudnnPart {
    /// `DT_SONAME` of the part: `libcudnn_ops.so.9`.
    pub name: String,
    /// `DT_SONAME` of the other one: `libcudnn_graph.so.9`.
    pub with: String,
    /// What fails if their releases differ: `recurrent layers`.
    pub fails: Vec<String>,
}

/// Functions of torch's stable C interface.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TorchShim {
    /// The first release that has them.
    pub torch: Version,
    /// Their names.
    pub names: Vec<String>,
}

/// The libraries of a package of NVIDIA.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaLibraries {
    /// The package on PyPI.
    pub package: String,
    /// Its releases; all if absent.
    pub versions: Option<VersionSpecifiers>,
    /// The CUDA major version that it is for.
    pub cuda: u64,
    /// `DT_SONAME` of each.
    pub names: Vec<String>,
    /// Their names on Windows, for which not all of these packages have wheels.
    #[serde(default)]
    pub dlls: Vec<String>,
}

/// A package that works only with the same release of another one, which it does not require.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SameRelease {
    /// The package.
    pub package: String,
    /// The other package.
    pub r#as: String,
    /// What happens otherwise.
    pub effect: String,
}

/// The package that releases of another one require: their METADATA says it, and a lock that names no requirements does not.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The package.
    pub package: String,
    /// Its releases.
    pub versions: VersionSpecifiers,
    /// What they require: `torch`, `jaxlib`.
    pub with: String,
    /// The releases of it that they require.
    pub requires: VersionSpecifiers,
}

/// The modules of Python itself that importing a package loads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StdlibImport {
    /// The package.
    pub package: String,
    /// The modules, by their first name.
    pub modules: Vec<String>,
}

/// A package whose import raises if torch was built for another CUDA version.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SameCuda {
    /// The package.
    pub package: String,
    /// The part of the version that it compares.
    pub part: CudaPart,
}

/// A part of a CUDA version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CudaPart {
    /// `13`.
    Major,
    /// `13.2`.
    Minor,
}

impl Pair {
    /// The newest of its releases: `0.0.22` of `>=0.0.20,<=0.0.22`; `None` if it has no last one.
    pub fn newest(&self) -> Option<&Version> {
        let ends = [Operator::Equal, Operator::LessThanEqual];
        self.versions.iter().find(|bound| ends.contains(bound.operator())).map(VersionSpecifier::version)
    }
}

/// `8.7` as its two numbers.
fn isa<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(u16, u16), D::Error> {
    let text = String::deserialize(deserializer)?;
    let parts =
        text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| serde::de::Error::custom("`isa` must have the form `8.7`"))
}

impl TorchShim {
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        unsorted(&self.names)
    }
}

impl CudaLibraries {
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        unsorted(&self.names).or_else(|| unsorted(&self.dlls))
    }
}

/// The complaint about names that are not sorted, or not each of them once.
fn unsorted(names: &[String]) -> Option<Fault> {
    let is_sorted = names.is_sorted_by(|one, next| one < next);
    (!is_sorted).then(|| Fault::at("names", "`names` must be sorted, each of them once"))
}

/// What is wrong with what a framework loads.
pub(in crate::registry) fn problems_of_loads(row: &FrameworkLoads) -> Vec<Fault> {
    let mut problems = Vec::new();
    if row.starts.is_empty() {
        problems.push(Fault::at("starts", "`starts` is empty"));
    }
    if row.starts.iter().any(|pattern| pattern.matches('*').count() > 1) {
        problems.push(Fault::at("starts", "a pattern in `starts` can have at most one `*`"));
    }
    problems
}

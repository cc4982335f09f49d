//! Data on what libraries load at run time.

use pep440_rs::{Version, VersionSpecifiers};
use semver::Version as Semver;
use serde::{Deserialize, Deserializer};

use super::{SameFile, cuda};
use crate::model::evidence::Evidence;
use crate::model::native::{FrameworkLoads, Opened, Provider};

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
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// The rows of loading.toml.
#[derive(Debug, Clone, Default)]
pub(in crate::registry) struct LoadingRows {
    pub opens: Vec<Opened>,
    pub frameworks: Vec<FrameworkLoads>,
    pub ptx_isa: Vec<PtxIsa>,
    pub same_file: Vec<SameFile>,
    pub same_cuda: Vec<SameCuda>,
    pub same_release: Vec<SameRelease>,
    pub stdlib_imports: Vec<StdlibImport>,
    pub providers: Vec<Provider>,
    pub cuda_libraries: Vec<CudaLibraries>,
    pub torch_shims: Vec<TorchShim>,
}

/// Functions of torch's stable C interface.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TorchShim {
    /// The first release that has them.
    pub torch: Version,
    /// Their names.
    pub names: Vec<String>,
    /// Evidence.
    #[allow(dead_code, reason = "every row states it")]
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
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
    /// Evidence.
    #[allow(dead_code, reason = "every row states it")]
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
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
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// The modules of Python itself that importing a package loads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StdlibImport {
    /// The package.
    pub package: String,
    /// The modules, by their first name.
    pub modules: Vec<String>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// A package whose import raises if torch was built for another CUDA version.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SameCuda {
    /// The package.
    pub package: String,
    /// The part of the version that it compares.
    pub part: CudaPart,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
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

/// `8.7` as its two numbers.
fn isa<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(u16, u16), D::Error> {
    let text = String::deserialize(deserializer)?;
    let parts =
        text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| serde::de::Error::custom("`isa` must have the form `8.7`"))
}

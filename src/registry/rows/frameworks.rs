//! Frameworks other than torch that use CUDA (TensorFlow, JAX's plugins), and files that several packages install.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl};
use semver::Version as Semver;
use serde::Deserialize;

use super::{RowError, cuda};
use crate::model::capability::{CodeTarget, CodeTargets};
use crate::model::evidence::Evidence;
use crate::model::platform::Platform;
use crate::model::version::DottedVersion;
use crate::registry::table::Fault;

/// What releases of a package that uses CUDA were built with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawFrameworkBuild")]
pub struct FrameworkBuild {
    /// The framework: `tensorflow`, `jax`.
    pub framework: String,
    /// The package with the GPU code: `tensorflow`, `jax-cuda12-plugin`.
    pub package: String,
    /// The releases of the row.
    pub versions: VersionSpecifiers,
    /// Platform of the wheels.
    pub platform: Platform,
    /// CUDA it was built with.
    pub cuda: Semver,
    /// cuDNN it was built with, which is the lowest minor of its major that it runs with.
    pub cudnn: Option<DottedVersion>,
    /// The origin of CUDA and cuDNN.
    pub cuda_from: CudaFrom,
    /// The conda-forge packages that provide them if they must be on the system: `cudatoolkit=11.2`.
    pub conda: Vec<String>,
    /// The requirement that installs it with CUDA, if not the bare package name: `tensorflow[and-cuda]`.
    pub ask: Option<String>,
    /// Device code of its own kernels.
    pub targets: CodeTargets,
    /// Evidence of the targets.
    pub targets_evidence: Evidence,
    /// The package of the same release whose library has that code, if it is another: `jax-cuda13-pjrt`.
    pub code_in: Option<String>,
}

/// The origin of a framework's CUDA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CudaFrom {
    /// The system or conda: the libraries are opened by name.
    System,
    /// Packages that an extra requires; without the extra the framework runs on the CPU.
    Extra(String),
    /// Packages that it requires, or that are installed with it.
    Packages,
}

impl FrameworkBuild {
    /// Whether the row is about a release of a package.
    pub fn is_of(&self, package: &str, version: &Version) -> bool {
        self.package == package && self.versions.contains(version)
    }
}

/// A file that several packages install: the one installed last overwrites the others.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SameFile {
    /// The file, relative to site-packages.
    pub file: String,
    /// The packages, with the versions that install it.
    #[serde(deserialize_with = "crate::model::requirement::listed")]
    pub packages: Vec<Requirement<VerbatimUrl>>,
    /// Whether they are locked beside each other with a warning: people do so, and mostly it works. Otherwise they exclude
    /// each other.
    #[serde(default, rename = "tolerated")]
    pub is_tolerated: bool,
}

impl SameFile {
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        (self.packages.len() < 2).then(|| Fault::at("packages", "`packages` must have at least two packages"))
    }
}

/// The keys of a row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFrameworkBuild {
    framework: String,
    package: String,
    versions: VersionSpecifiers,
    platform: Platform,
    #[serde(deserialize_with = "cuda")]
    cuda: Semver,
    cudnn: Option<DottedVersion>,
    cuda_from: String,
    extra: Option<String>,
    #[serde(default)]
    conda: Vec<String>,
    ask: Option<String>,
    targets: Vec<CodeTarget>,
    #[serde(default)]
    ptx: Vec<CodeTarget>,
    targets_evidence: Evidence,
    code_in: Option<String>,
}

impl TryFrom<RawFrameworkBuild> for FrameworkBuild {
    type Error = RowError;

    fn try_from(raw: RawFrameworkBuild) -> Result<Self, RowError> {
        let cuda_from = match (raw.cuda_from.as_str(), raw.extra) {
            ("system", None) => CudaFrom::System,
            ("packages", None) => CudaFrom::Packages,
            ("extra", Some(extra)) => CudaFrom::Extra(extra),
            (other, _) => {
                return Err(format!(
                    "invalid `cuda_from = \"{other}\"`: expected `system` or `packages`, or `extra` with `extra`"
                ));
            }
        };
        Ok(FrameworkBuild {
            framework: raw.framework,
            package: raw.package,
            versions: raw.versions,
            platform: raw.platform,
            cuda: raw.cuda,
            cudnn: raw.cudnn,
            cuda_from,
            conda: raw.conda,
            ask: raw.ask,
            targets: CodeTargets { sass: raw.targets, ptx: raw.ptx },
            targets_evidence: raw.targets_evidence,
            code_in: raw.code_in,
        })
    }
}

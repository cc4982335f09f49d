//! Frameworks other than torch that use CUDA (TensorFlow, JAX's plugins), and files that several packages install.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl};
use semver::Version as Semver;

use super::super::schema::{RawFrameworkBuild, RawSameFile};
use super::{RowError, cuda, parse, parse_option};
use crate::model::capability::{CodeTarget, CodeTargets};
use crate::model::evidence::Evidence;
use crate::model::platform::Platform;
use crate::model::version::DottedVersion;

/// What releases of a package that uses CUDA were built with.
#[derive(Debug, Clone, PartialEq)]
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
    /// Device code of its own kernels; `None`: unknown.
    pub targets: Option<CodeTargets>,
    /// Evidence of the targets.
    pub targets_evidence: Option<Evidence>,
    /// Evidence of the row.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
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

/// A file that several packages install, so that they exclude each other.
#[derive(Debug, Clone, PartialEq)]
pub struct SameFile {
    /// The file, relative to site-packages.
    pub file: String,
    /// The packages, with the versions that install it.
    pub packages: Vec<Requirement<VerbatimUrl>>,
    /// Source ids.
    pub source: Vec<String>,
}

impl TryFrom<&RawFrameworkBuild> for FrameworkBuild {
    type Error = RowError;

    fn try_from(raw: &RawFrameworkBuild) -> Result<Self, RowError> {
        let list = |field: &str, texts: &[String]| -> Result<Vec<CodeTarget>, RowError> {
            texts.iter().map(|text| parse(field, text)).collect()
        };
        let targets = match &raw.targets {
            None => None,
            Some(sass) => Some(CodeTargets { sass: list("targets", sass)?, ptx: list("ptx", &raw.ptx)? }),
        };
        if targets.is_some() != raw.targets_evidence.is_some() {
            return Err("`targets` and `targets_evidence` must be set together".to_owned());
        }
        let cuda_from = match (raw.cuda_from.as_str(), &raw.extra) {
            ("system", None) => CudaFrom::System,
            ("packages", None) => CudaFrom::Packages,
            ("extra", Some(extra)) => CudaFrom::Extra(extra.clone()),
            (other, _) => {
                return Err(format!(
                    "invalid `cuda_from = \"{other}\"`: expected `system` or `packages`, or `extra` with `extra`"
                ));
            }
        };
        Ok(FrameworkBuild {
            framework: raw.framework.clone(),
            package: raw.package.clone(),
            versions: parse("versions", &raw.versions)?,
            platform: parse("platform", &raw.platform)?,
            cuda: cuda("cuda", &raw.cuda)?,
            cudnn: parse_option("cudnn", raw.cudnn.as_deref())?,
            cuda_from,
            conda: raw.conda.clone(),
            ask: raw.ask.clone(),
            targets,
            targets_evidence: raw.targets_evidence,
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawSameFile> for SameFile {
    type Error = RowError;

    fn try_from(raw: &RawSameFile) -> Result<Self, RowError> {
        let packages: Vec<Requirement<VerbatimUrl>> =
            raw.packages.iter().map(|text| parse("packages", text)).collect::<Result<_, _>>()?;
        if packages.len() < 2 {
            return Err("`packages` must have at least two packages".to_owned());
        }
        Ok(SameFile { file: raw.file.clone(), packages, source: raw.source.clone() })
    }
}

//! Frameworks beside torch that use CUDA: TensorFlow, JAX's plugins. And files that several packages bring.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl};
use semver::Version as Semver;

use super::super::schema::{RawFrameworkBuild, RawSameFile};
use super::{RowError, cuda, parse, parse_option};
use crate::model::capability::{CodeTarget, CodeTargets};
use crate::model::evidence::Evidence;
use crate::model::platform::Platform;
use crate::model::version::DottedVersion;

/// What releases of a package that uses CUDA were built for.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameworkBuild {
    /// The framework: `tensorflow`, `jax`.
    pub framework: String,
    /// The package with the code for GPUs: `tensorflow`, `jax-cuda12-plugin`.
    pub package: String,
    /// The releases that the row speaks of.
    pub versions: VersionSpecifiers,
    /// Platform of the wheels.
    pub platform: Platform,
    /// CUDA it was built with.
    pub cuda: Semver,
    /// cuDNN it was built with: the lowest minor of its major that it runs with.
    pub cudnn: Option<DottedVersion>,
    /// Where CUDA and cuDNN come from.
    pub cuda_from: CudaFrom,
    /// conda-forge's packages that bring them, where the system is to have them: `cudatoolkit=11.2`.
    pub conda: Vec<String>,
    /// How one asks for it with CUDA, `tensorflow[and-cuda]`, where that is not the package's bare name.
    pub ask: Option<String>,
    /// Device code of its own kernels; `None` unknown.
    pub targets: Option<CodeTargets>,
    /// How the targets are known.
    pub targets_evidence: Option<Evidence>,
    /// How the row is known.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// Where a framework's CUDA comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CudaFrom {
    /// From the machine or from conda: the libraries are opened by name.
    System,
    /// From packages that an extra asks for; without it the framework runs on the CPU.
    Extra(String),
    /// From packages that it asks for itself, or that stand beside it.
    Packages,
}

impl FrameworkBuild {
    /// Whether the row speaks of a release of a package.
    pub fn is_of(&self, package: &str, version: &Version) -> bool {
        self.package == package && self.versions.contains(version)
    }
}

/// A file that several packages install: only one of them can be there.
#[derive(Debug, Clone, PartialEq)]
pub struct SameFile {
    /// The file, below site-packages.
    pub file: String,
    /// The packages, with the versions that have it.
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
            return Err("`targets` and `targets_evidence` come together".to_owned());
        }
        let cuda_from = match (raw.cuda_from.as_str(), &raw.extra) {
            ("system", None) => CudaFrom::System,
            ("packages", None) => CudaFrom::Packages,
            ("extra", Some(extra)) => CudaFrom::Extra(extra.clone()),
            (other, _) => return Err(format!("`cuda_from = \"{other}\"` is not understood here")),
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
            return Err("`packages` names fewer than two".to_owned());
        }
        Ok(SameFile { file: raw.file.clone(), packages, source: raw.source.clone() })
    }
}

//! Builds of torch and of its companions.

use pep440_rs::{Version, VersionSpecifiers};
use semver::Version as Semver;

use super::super::schema::{RawBuild, RawCompanion};
use super::{RowError, cuda, parse, parse_option};
use crate::model::capability::{CodeTarget, CodeTargets};
use crate::model::evidence::Evidence;
use crate::model::platform::Platform;
use crate::model::version::DottedVersion;

/// One build of torch: a version for a platform and a CUDA variant.
#[derive(Debug, Clone)]
pub struct Build {
    /// Public version.
    pub version: Version,
    /// CUDA variant: `cpu`, `cu128`.
    pub variant: String,
    /// Platform of the wheels.
    pub platform: Platform,
    /// Whether it is on PyPI (otherwise on a sub-index of the pytorch index).
    pub on_pypi: bool,
    /// Whether the pytorch index lists it.
    pub on_pytorch_index: bool,
    /// CUDA it was built with.
    pub cuda: Option<Semver>,
    /// cuDNN it was built with.
    pub cudnn: Option<DottedVersion>,
    /// NCCL it was built with.
    pub nccl: Option<DottedVersion>,
    /// Its requirement on triton.
    pub triton: Option<String>,
    /// Device code of its own kernels; `None`: unknown.
    pub targets: Option<CodeTargets>,
    /// Evidence of the targets.
    pub targets_evidence: Option<Evidence>,
    /// CPython minors with a wheel (with the global interpreter lock); `None`: unknown.
    pub pythons: Option<Vec<u32>>,
    /// `Requires-Python`.
    pub requires_python: Option<VersionSpecifiers>,
    /// Lowest glibc of the wheel's platform tag.
    pub glibc: Option<DottedVersion>,
    /// Size of the largest wheel in bytes.
    pub wheel_bytes: Option<u64>,
    /// The torchvision built for it.
    pub torchvision: Option<Version>,
    /// The torchaudio built for it.
    pub torchaudio: Option<Version>,
    /// Evidence of the build's existence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
    /// Why the row was withdrawn.
    pub yanked: Option<String>,
}

impl Build {
    /// The index of the build: `pypi`, or the variant's sub-index `pytorch/cu126`.
    pub fn index(&self) -> String {
        if self.on_pypi { "pypi".to_owned() } else { format!("pytorch/{}", self.variant) }
    }

    /// The companion release that was built for this torch, by package name.
    pub fn companion(&self, package: &str) -> Option<&Version> {
        match package {
            "torchaudio" => self.torchaudio.as_ref(),
            "torchvision" => self.torchvision.as_ref(),
            _ => None,
        }
    }

    /// The weaker evidence of existence and, if `gpus_matter`, targets.
    pub fn weakest_evidence(&self, gpus_matter: bool) -> Evidence {
        match self.targets_evidence {
            Some(targets) if gpus_matter => targets.min(self.evidence),
            _ => self.evidence,
        }
    }
}

/// The packages that are released with each torch release.
pub const COMPANIONS: [&str; 2] = ["torchaudio", "torchvision"];

/// The packages with one build per CUDA variant, all of which are in the registry.
pub const STACK_PACKAGES: [&str; 3] = ["torch", "torchaudio", "torchvision"];

/// A release of a companion package.
#[derive(Debug, Clone)]
pub struct Companion {
    /// `torchvision`, `torchaudio`.
    pub package: String,
    /// Public version.
    pub version: Version,
    /// The torch that it requires.
    pub torch: Option<VersionSpecifiers>,
    /// The CUDA variant of the wheel on PyPI.
    pub variant: Option<String>,
    /// Device code, if read.
    pub targets: Option<CodeTargets>,
    /// Platform that the row was read for.
    pub platform: Platform,
    /// Why the row was withdrawn.
    pub yanked: Option<String>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

fn code_targets(sass: Option<&[String]>, ptx: &[String]) -> Result<Option<CodeTargets>, RowError> {
    let list = |field: &str, l: &[String]| -> Result<Vec<CodeTarget>, RowError> {
        l.iter().map(|t| parse(field, t)).collect()
    };
    match sass {
        None if ptx.is_empty() => Ok(None),
        sass => {
            Ok(Some(CodeTargets { sass: list("targets", sass.unwrap_or_default())?, ptx: list("ptx", ptx)? }))
        }
    }
}

impl TryFrom<&RawBuild> for Build {
    type Error = RowError;

    fn try_from(raw: &RawBuild) -> Result<Self, RowError> {
        let on_pypi = match raw.index.as_str() {
            "pypi" => true,
            "pytorch" => false,
            other => return Err(format!("`index`: `{other}` is neither `pypi` nor `pytorch`")),
        };
        let variant_ok = raw.variant == "cpu"
            || raw
                .variant
                .strip_prefix("cu")
                .is_some_and(|d| d.len() >= 2 && d.bytes().all(|b| b.is_ascii_digit()));
        if !variant_ok {
            return Err(format!("`variant`: `{}` is neither `cpu` nor `cuNNN`", raw.variant));
        }
        if (raw.variant == "cpu") != raw.cuda.is_none() {
            return Err("`cuda` must be set if and only if the variant is not `cpu`".to_owned());
        }
        let pythons = raw.python.as_ref().map(|tags| {
            tags.iter().filter_map(|t| t.strip_prefix("cp3")).filter_map(|minor| minor.parse().ok()).collect()
        });
        Ok(Build {
            version: parse("version", &raw.version)?,
            variant: raw.variant.clone(),
            platform: parse("platform", &raw.platform)?,
            on_pypi,
            on_pytorch_index: !on_pypi || raw.also_on.iter().any(|i| i == "pytorch"),
            cuda: raw.cuda.as_deref().map(|t| cuda("cuda", t)).transpose()?,
            cudnn: parse_option("cudnn", raw.cudnn.as_deref())?,
            nccl: parse_option("nccl", raw.nccl.as_deref())?,
            triton: raw.triton.clone(),
            targets: code_targets(raw.targets.as_deref(), &raw.ptx)?,
            targets_evidence: raw.targets_evidence,
            pythons,
            requires_python: parse_option("requires_python", raw.requires_python.as_deref())?,
            glibc: parse_option("glibc", raw.glibc.as_deref())?,
            wheel_bytes: raw.wheel_bytes,
            torchvision: parse_option("torchvision", raw.torchvision.as_deref())?,
            torchaudio: parse_option("torchaudio", raw.torchaudio.as_deref())?,
            evidence: raw.evidence,
            source: raw.source.clone(),
            yanked: raw.yanked.clone(),
        })
    }
}

impl TryFrom<&RawCompanion> for Companion {
    type Error = RowError;

    fn try_from(raw: &RawCompanion) -> Result<Self, RowError> {
        Ok(Companion {
            package: raw.package.clone(),
            version: parse("version", &raw.version)?,
            torch: parse_option("torch", raw.torch.as_deref())?,
            variant: raw.variant.clone(),
            targets: code_targets(raw.targets.as_deref(), &raw.ptx)?,
            platform: parse("platform", &raw.platform)?,
            yanked: raw.yanked.clone(),
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

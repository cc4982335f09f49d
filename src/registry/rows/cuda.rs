//! CUDA toolkits: their own and their minimum drivers, and the targets that they compile for.

use semver::Version as Semver;
use serde::Deserialize;

use super::cuda;
use crate::model::capability::{CodeTarget, ComputeCapability};
use crate::model::version::DottedVersion;

/// The lowest driver that runs machine code of a CUDA major (minor-version compatibility).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MinorVersionCompatibility {
    /// CUDA major.
    pub cuda_major: u64,
    /// Lowest Linux driver.
    pub linux: DottedVersion,
    /// Lowest Windows driver.
    pub windows: Option<DottedVersion>,
}

/// A toolkit release with its own driver.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitDriver {
    /// Three-part version.
    #[serde(deserialize_with = "cuda")]
    pub version: Semver,
    /// Branch of its driver.
    pub driver_branch: u32,
    /// Linux driver, if documented.
    pub linux: Option<DottedVersion>,
    /// Windows driver.
    pub windows: Option<DottedVersion>,
}

/// A package on PyPI that is the CUDA runtime: major and minor of its version are those of CUDA.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimePackage {
    /// Normalized name.
    pub package: String,
}

/// The last series of torch with builds for older GPUs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastBuild {
    /// For GPUs of a lower compute capability.
    pub capability_below: ComputeCapability,
    /// The series, `2.14`.
    pub torch: String,
    /// The variant of these builds.
    pub variant: String,
}

/// The compute capabilities that a toolkit series can compile for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitTargets {
    /// Series, `12.8`.
    #[serde(deserialize_with = "cuda")]
    pub cuda: Semver,
    /// Lowest capability.
    #[serde(rename = "capability_min")]
    pub min: ComputeCapability,
    /// Highest capability.
    #[serde(rename = "capability_max")]
    pub max: ComputeCapability,
    /// The full list, if measured.
    pub targets: Option<Vec<CodeTarget>>,
}

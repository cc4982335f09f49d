//! cuDNN releases and the compute capabilities that they support.

use serde::Deserialize;

use crate::model::capability::ComputeCapability;
use crate::model::version::DottedVersion;

/// The lowest compute capability from a cuDNN release on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudnnFloor {
    /// First release that it applies to.
    pub from: DottedVersion,
    /// Lowest capability.
    #[serde(rename = "capability_min")]
    pub min: ComputeCapability,
}

/// A cuDNN release.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudnnRelease {
    /// Four-part version.
    pub version: DottedVersion,
    /// CUDA majors that it is built for; empty: unknown.
    #[serde(default)]
    pub cuda_majors: Vec<u64>,
    /// Why it was withdrawn.
    pub yanked: Option<String>,
}

//! Container images, and tags that never existed.

use serde::Deserialize;

use crate::model::capability::ComputeCapability;
use crate::model::version::DottedVersion;

/// A container image and its contents.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// `pytorch/pytorch`, `nvcr.io/nvidia/pytorch`.
    pub repository: String,
    /// `2.5.0-cuda12.4-cudnn9-runtime`.
    pub tag: String,
    /// `torch` or `tensorflow`.
    pub framework: String,
    /// The framework's version; `2.4.0a0+07cecf4168` for NVIDIA's builds.
    pub version: Option<String>,
    /// The CUDA version, `12.4`.
    pub cuda: Option<DottedVersion>,
    /// The cuDNN version, or only its major.
    pub cudnn: Option<DottedVersion>,
    /// `runtime` or `devel`.
    pub kind: Option<String>,
    /// The lowest documented driver.
    pub driver_min: Option<DottedVersion>,
    /// The driver branch that the release notes require for all GPUs.
    pub driver_branch: Option<u32>,
    /// Older drivers that are supported on data-centre GPUs by forward compatibility: the lowest of each branch.
    #[serde(default)]
    pub data_centre_drivers: Vec<DottedVersion>,
    /// The lowest compute capability in the release notes.
    pub capability_min: Option<ComputeCapability>,
}

/// A tag that is mentioned in articles but never existed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NonexistentImage {
    /// The repository.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// Why it does not exist.
    pub reason: String,
}

//! Container images, and tags that never existed.

use super::super::schema::{RawImage, RawNever};
use super::{RowError, parse, parse_option};
use crate::model::capability::ComputeCapability;
use crate::model::evidence::Evidence;
use crate::model::version::DottedVersion;

/// A container image and its contents.
#[derive(Debug, Clone, PartialEq)]
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
    pub data_centre_drivers: Vec<DottedVersion>,
    /// The lowest compute capability in the release notes.
    pub capability_min: Option<ComputeCapability>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// A tag that is mentioned in articles but never existed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonexistentImage {
    /// The repository.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// Why it does not exist.
    pub reason: String,
    /// Source ids.
    pub source: Vec<String>,
}

#[derive(Debug)]
pub(in crate::registry) struct ContainerRows {
    pub images: Vec<Image>,
    pub never: Vec<NonexistentImage>,
}

impl TryFrom<&RawImage> for Image {
    type Error = RowError;

    fn try_from(raw: &RawImage) -> Result<Self, RowError> {
        let drivers = raw.data_centre_drivers.iter().map(|text| parse("data_centre_drivers", text));
        Ok(Image {
            repository: raw.repository.clone(),
            tag: raw.tag.clone(),
            framework: raw.framework.clone(),
            version: raw.version.clone(),
            cuda: parse_option("cuda", raw.cuda.as_deref())?,
            cudnn: parse_option("cudnn", raw.cudnn.as_deref())?,
            kind: raw.kind.clone(),
            driver_min: parse_option("driver_min", raw.driver_min.as_deref())?,
            driver_branch: raw.driver_branch,
            data_centre_drivers: drivers.collect::<Result<_, _>>()?,
            capability_min: parse_option("capability_min", raw.capability_min.as_deref())?,
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawNever> for NonexistentImage {
    type Error = RowError;

    fn try_from(raw: &RawNever) -> Result<Self, RowError> {
        Ok(NonexistentImage {
            repository: raw.repository.clone(),
            tag: raw.tag.clone(),
            reason: raw.reason.clone(),
            source: raw.source.clone(),
        })
    }
}

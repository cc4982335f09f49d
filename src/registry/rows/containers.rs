//! Container images, and tags that never were.

use super::super::schema::{RawImage, RawNever};
use super::{RowError, parse, parse_option};
use crate::model::capability::ComputeCapability;
use crate::model::evidence::Evidence;
use crate::model::version::DottedVersion;

/// A container image, and what is inside.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// `pytorch/pytorch`, `nvcr.io/nvidia/pytorch`.
    pub repository: String,
    /// `2.5.0-cuda12.4-cudnn9-runtime`.
    pub tag: String,
    /// `torch` or `tensorflow`.
    pub framework: String,
    /// The framework's version, `2.4.0a0+07cecf4168` where NVIDIA built it.
    pub version: Option<String>,
    /// CUDA, `12.4`.
    pub cuda: Option<DottedVersion>,
    /// cuDNN, or its major alone.
    pub cudnn: Option<DottedVersion>,
    /// `runtime` or `devel`.
    pub kind: Option<String>,
    /// The lowest driver that the maker names.
    pub driver_min: Option<DottedVersion>,
    /// The driver branch that the release notes demand on every GPU.
    pub driver_branch: Option<u32>,
    /// Older drivers that data-centre GPUs may have, by forward compatibility: each the lowest of its branch.
    pub data_centre_drivers: Vec<DottedVersion>,
    /// The lowest compute capability that the release notes name.
    pub capability_min: Option<ComputeCapability>,
    /// How the row is known.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// A tag that people name and that never existed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeverImage {
    /// The repository.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// Why not.
    pub reason: String,
    /// Source ids.
    pub source: Vec<String>,
}

#[derive(Debug)]
pub(in crate::registry) struct ContainerRows {
    pub images: Vec<Image>,
    pub never: Vec<NeverImage>,
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

impl TryFrom<&RawNever> for NeverImage {
    type Error = RowError;

    fn try_from(raw: &RawNever) -> Result<Self, RowError> {
        Ok(NeverImage {
            repository: raw.repository.clone(),
            tag: raw.tag.clone(),
            reason: raw.reason.clone(),
            source: raw.source.clone(),
        })
    }
}

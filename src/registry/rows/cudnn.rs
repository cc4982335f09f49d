//! cuDNN releases and the compute capabilities that they support.

use super::super::schema::{RawFloor, RawRelease};
use super::{RowError, parse};
use crate::model::capability::ComputeCapability;
use crate::model::version::DottedVersion;

/// The lowest compute capability from a cuDNN release on.
#[derive(Debug, Clone)]
pub struct CudnnFloor {
    /// First release that it applies to.
    pub from: DottedVersion,
    /// Lowest capability.
    pub min: ComputeCapability,
    /// Source ids.
    pub source: Vec<String>,
}

/// A cuDNN release.
#[derive(Debug, Clone)]
pub struct CudnnRelease {
    /// Four-part version.
    pub version: DottedVersion,
    /// CUDA majors that it is built for; empty: unknown.
    pub cuda_majors: Vec<u64>,
    /// Source ids.
    pub source: Vec<String>,
}

#[derive(Debug)]
pub(in crate::registry) struct CudnnRows {
    pub floors: Vec<CudnnFloor>,
    pub releases: Vec<CudnnRelease>,
}

impl TryFrom<&RawFloor> for CudnnFloor {
    type Error = RowError;

    fn try_from(raw: &RawFloor) -> Result<Self, RowError> {
        Ok(CudnnFloor {
            from: parse("from", &raw.from)?,
            min: parse("capability_min", &raw.capability_min)?,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawRelease> for CudnnRelease {
    type Error = RowError;

    fn try_from(raw: &RawRelease) -> Result<Self, RowError> {
        Ok(CudnnRelease {
            version: parse("version", &raw.version)?,
            cuda_majors: raw.cuda_majors.clone(),
            source: raw.source.clone(),
        })
    }
}

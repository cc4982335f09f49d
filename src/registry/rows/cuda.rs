//! CUDA toolkits: their own and their minimum drivers, and the targets that they compile for.

use semver::Version as Semver;

use super::super::schema::{RawCompatibility, RawTargets, RawToolkit};
use super::{RowError, cuda, parse, parse_option};
use crate::model::capability::{CodeTarget, ComputeCapability};
use crate::model::evidence::Evidence;
use crate::model::version::DottedVersion;

/// The lowest driver that runs machine code of a CUDA major (minor-version compatibility).
#[derive(Debug, Clone)]
pub struct MinorVersionCompatibility {
    /// CUDA major.
    pub cuda_major: u64,
    /// Lowest Linux driver.
    pub linux: DottedVersion,
    /// Lowest Windows driver.
    pub windows: Option<DottedVersion>,
    /// Source ids.
    pub source: Vec<String>,
}

/// A toolkit release with its own driver.
#[derive(Debug, Clone)]
pub struct ToolkitDriver {
    /// Three-part version.
    pub version: Semver,
    /// Branch of its driver.
    pub driver_branch: u32,
    /// Linux driver, if documented.
    pub linux: Option<DottedVersion>,
    /// Windows driver.
    pub windows: Option<DottedVersion>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// The compute capabilities that a toolkit series can compile for.
#[derive(Debug, Clone)]
pub struct ToolkitTargets {
    /// Series, `12.8`.
    pub cuda: Semver,
    /// Lowest capability.
    pub min: ComputeCapability,
    /// Highest capability.
    pub max: ComputeCapability,
    /// The full list, if measured.
    pub targets: Option<Vec<CodeTarget>>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

#[derive(Debug)]
pub(in crate::registry) struct CudaRows {
    pub compatibility: Vec<MinorVersionCompatibility>,
    pub toolkits: Vec<ToolkitDriver>,
    pub targets: Vec<ToolkitTargets>,
}

impl TryFrom<&RawCompatibility> for MinorVersionCompatibility {
    type Error = RowError;

    fn try_from(raw: &RawCompatibility) -> Result<Self, RowError> {
        Ok(MinorVersionCompatibility {
            cuda_major: raw.cuda_major,
            linux: parse("linux", &raw.linux)?,
            windows: parse_option("windows", raw.windows.as_deref())?,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawToolkit> for ToolkitDriver {
    type Error = RowError;

    fn try_from(raw: &RawToolkit) -> Result<Self, RowError> {
        Ok(ToolkitDriver {
            version: cuda("version", &raw.version)?,
            driver_branch: raw.driver_branch,
            linux: parse_option("linux", raw.linux.as_deref())?,
            windows: parse_option("windows", raw.windows.as_deref())?,
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawTargets> for ToolkitTargets {
    type Error = RowError;

    fn try_from(raw: &RawTargets) -> Result<Self, RowError> {
        Ok(ToolkitTargets {
            cuda: cuda("cuda", &raw.cuda)?,
            min: parse("capability_min", &raw.capability_min)?,
            max: parse("capability_max", &raw.capability_max)?,
            targets: raw
                .targets
                .as_ref()
                .map(|l| l.iter().map(|t| parse("targets", t)).collect())
                .transpose()?,
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

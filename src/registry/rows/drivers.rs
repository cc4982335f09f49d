//! Driver branches with the GPUs and the CUDA that they support, and cuda-compat packages.

use semver::Version as Semver;

use super::super::schema::{RawArchitecture, RawBranch, RawForwardCompatibility};
use super::{RowError, cuda, parse};
use crate::model::capability::ComputeCapability;
use crate::model::evidence::Evidence;

/// A cuda-compat package: the user-mode driver of a newer CUDA for kernel drivers of older branches.
#[derive(Debug, Clone)]
pub struct ForwardCompatibility {
    /// `cuda-compat-12-4`.
    pub package: String,
    /// The CUDA that it supports natively.
    pub cuda: Semver,
    /// The kernel driver branches that it supports.
    pub bases: Vec<u32>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// A driver branch.
#[derive(Debug, Clone)]
pub struct Branch {
    /// Number: 535.
    pub branch: u32,
    /// Newest CUDA that it supports natively.
    pub cuda: Semver,
    /// `LTS`, `production`, `new feature`.
    pub kind: Option<String>,
    /// Month of its end of life, or `ended`.
    pub end_of_life: Option<String>,
    /// Source ids.
    pub source: Vec<String>,
}

/// A GPU architecture and the driver branches that support it.
#[derive(Debug, Clone)]
pub struct Architecture {
    /// `Volta`.
    pub name: String,
    /// Its capabilities.
    pub capabilities: Vec<ComputeCapability>,
    /// First branch, inferred; `None`: unknown.
    pub first_branch: Option<u32>,
    /// Last branch, documented; `None`: unknown or not ended.
    pub last_branch: Option<u32>,
    /// Source ids.
    pub source: Vec<String>,
}

#[derive(Debug)]
pub(in crate::registry) struct DriverRows {
    pub branches: Vec<Branch>,
    pub forward: Vec<ForwardCompatibility>,
    pub architectures: Vec<Architecture>,
}

impl TryFrom<&RawForwardCompatibility> for ForwardCompatibility {
    type Error = RowError;

    fn try_from(raw: &RawForwardCompatibility) -> Result<Self, RowError> {
        Ok(ForwardCompatibility {
            package: raw.package.clone(),
            cuda: cuda("cuda", &raw.cuda)?,
            bases: raw.bases.clone(),
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawBranch> for Branch {
    type Error = RowError;

    fn try_from(raw: &RawBranch) -> Result<Self, RowError> {
        Ok(Branch {
            branch: raw.branch,
            cuda: cuda("cuda", &raw.cuda)?,
            kind: raw.kind.clone(),
            end_of_life: raw.end_of_life.clone(),
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawArchitecture> for Architecture {
    type Error = RowError;

    fn try_from(raw: &RawArchitecture) -> Result<Self, RowError> {
        if raw.first_branch.is_some() != raw.first_branch_evidence.is_some() {
            return Err("`first_branch` and `first_branch_evidence` must be set together".to_owned());
        }
        Ok(Architecture {
            name: raw.name.clone(),
            capabilities: raw
                .capabilities
                .iter()
                .map(|c| parse("capabilities", c))
                .collect::<Result<_, _>>()?,
            first_branch: raw.first_branch,
            last_branch: raw.last_branch,
            source: raw.source.clone(),
        })
    }
}

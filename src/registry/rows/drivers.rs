//! Driver branches with the GPUs and the CUDA that they support, and cuda-compat packages.

use semver::Version as Semver;
use serde::Deserialize;

use super::cuda;
use crate::model::capability::ComputeCapability;
use crate::model::evidence::Evidence;
use crate::registry::table::Fault;

/// A cuda-compat package: the user-mode driver of a newer CUDA for kernel drivers of older branches.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardCompatibility {
    /// `cuda-compat-12-4`.
    pub package: String,
    /// The CUDA that it supports natively.
    #[serde(deserialize_with = "cuda")]
    pub cuda: Semver,
    /// The kernel driver branches that it supports.
    pub bases: Vec<u32>,
}

/// A driver branch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Number: 535.
    pub branch: u32,
    /// Newest CUDA that it supports natively.
    #[serde(deserialize_with = "cuda")]
    pub cuda: Semver,
    /// `LTS`, `production`, `new feature`.
    pub kind: Option<String>,
    /// Month of its end of life, or `ended`.
    pub end_of_life: Option<String>,
}

/// A GPU architecture and the driver branches that support it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// `Volta`.
    pub name: String,
    /// Its capabilities.
    pub capabilities: Vec<ComputeCapability>,
    /// First branch, inferred; `None`: unknown.
    pub first_branch: Option<u32>,
    /// Evidence of the first branch.
    pub first_branch_evidence: Option<Evidence>,
    /// Last branch, documented; `None`: unknown or not ended.
    pub last_branch: Option<u32>,
}

impl Branch {
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        (!(100..=9_999).contains(&self.branch))
            .then(|| Fault::at("branch", format!("{} is no driver branch", self.branch)))
    }
}

impl Architecture {
    pub(in crate::registry) fn problems(&self) -> Option<Fault> {
        (self.first_branch.is_some() != self.first_branch_evidence.is_some()).then(|| {
            Fault::at("first_branch", "`first_branch` and `first_branch_evidence` must be set together")
        })
    }
}

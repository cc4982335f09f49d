//! The file as serde reads it.

use pep440_rs::{Version, VersionSpecifiers};
use serde::Deserialize;

use crate::model::capability::{CodeTarget, ComputeCapability, Via};
use crate::model::evidence::Evidence;
use crate::model::image_digest::ImageDigest;
use crate::model::platform::Platform;
use crate::model::source::{BuildKind, MetadataFrom};
use crate::model::version::DottedVersion;

#[derive(Debug, Deserialize)]
pub(super) struct RawFormat {
    pub format: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawLock {
    pub registry: RawRegistry,
    pub packages_in: Option<RawPackageLock>,
    pub request: RawRequest,
    #[serde(default)]
    pub target: Vec<RawTarget>,
    #[serde(default)]
    pub package: Vec<RawPackage>,
    #[serde(default)]
    pub conda_package: Vec<RawCondaPackage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawRegistry {
    pub date: String,
    pub sha256: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawPackageLock {
    pub file: String,
    pub sha256: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawRequest {
    pub sha256: String,
    pub lines: Vec<String>,
    #[serde(default)]
    pub files: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawTarget {
    pub name: String,
    pub python: String,
    pub python_patches: Option<VersionSpecifiers>,
    pub platform: Platform,
    pub level: String,
    pub image: Option<ImageDigest>,
    pub stack: Option<RawStack>,
    #[serde(default)]
    pub framework: Vec<RawFramework>,
    pub envelope: RawEnvelope,
    pub host: RawHost,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawStack {
    pub torch: Version,
    pub variant: String,
    pub index: String,
    pub evidence: Evidence,
    pub cuda: Option<String>,
    pub cudnn: Option<DottedVersion>,
    pub nccl: Option<DottedVersion>,
    pub triton: Option<String>,
    pub native_driver: Option<DottedVersion>,
    #[serde(default)]
    pub companions: std::collections::BTreeMap<String, Version>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawFramework {
    pub name: String,
    pub package: String,
    pub version: Version,
    pub cuda: String,
    pub cudnn: Option<DottedVersion>,
    pub cuda_from_system: bool,
    #[serde(default)]
    pub conda: Vec<String>,
    pub evidence: Evidence,
    pub native_driver: Option<DottedVersion>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawEnvelope {
    pub driver: Option<DottedVersion>,
    pub glibc: Option<DottedVersion>,
    #[serde(default)]
    pub coverage: Vec<RawCoverage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawCoverage {
    pub capability: ComputeCapability,
    pub via: Via,
    pub driver_min: Option<DottedVersion>,
    pub driver_below: Option<DottedVersion>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawHost {
    pub driver: Option<DottedVersion>,
    /// An active cuda-compat; without it, a later run would solve for an older driver.
    pub driver_compat: Option<DottedVersion>,
    pub driver_found_by: Option<String>,
    pub gpus: Option<Vec<RawGpu>>,
    pub glibc: Option<DottedVersion>,
    pub musl: Option<DottedVersion>,
    pub macos: Option<DottedVersion>,
    pub found_by: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawGpu {
    pub name: Option<String>,
    pub capability: Option<ComputeCapability>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawPackage {
    pub name: String,
    pub version: Version,
    /// Exactly one of these four keys is set: the source of the package.
    pub index: Option<String>,
    pub url: Option<String>,
    pub git: Option<RawGit>,
    pub path: Option<String>,
    pub variant: Option<String>,
    pub reason: String,
    #[serde(default)]
    pub groups: Vec<String>,
    pub build: Option<BuildKind>,
    pub metadata_from: Option<MetadataFrom>,
    #[serde(default)]
    pub build_needs: Vec<String>,
    #[serde(default)]
    pub build_requires: Vec<RawBuildRequirement>,
    /// The targets that it belongs to; all if the key is absent.
    pub targets: Option<Vec<String>>,
    pub metadata: Option<String>,
    pub code: Option<Vec<CodeTarget>>,
    #[serde(default)]
    pub code_ptx: Vec<CodeTarget>,
    pub code_evidence: Option<Evidence>,
    #[serde(default)]
    pub requires: Vec<String>,
    #[serde(default)]
    pub files: Vec<RawFile>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawGit {
    pub repository: String,
    pub commit: String,
    pub subdirectory: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawBuildRequirement {
    pub name: String,
    pub version: Version,
    pub file: String,
    pub sha256: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawCondaPackage {
    pub name: String,
    pub version: String,
    pub build: String,
    pub channel: String,
    pub subdir: String,
    pub file: String,
    pub sha256: String,
    #[serde(default)]
    pub md5: String,
    pub size: u64,
    #[serde(default)]
    pub depends: Vec<String>,
    #[serde(default)]
    pub constrains: Vec<String>,
    pub targets: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawFile {
    pub name: String,
    pub sha256: Option<String>,
    pub hash_from: Option<String>,
    pub size: Option<u64>,
}

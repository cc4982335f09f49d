//! The serde types of the registry's TOML files, before validation.

#![allow(dead_code, reason = "the format has fields that no query uses yet; lint reads them all")]

use serde::Deserialize;
use toml::Spanned;

use crate::model::evidence::Evidence;

/// A list of rows under one key, each with its position in the file.
pub(super) type Rows<T> = Vec<Spanned<T>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetaFile {
    pub schema: String,
    pub date: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourcesFile {
    pub sources: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TorchFile {
    #[serde(default)]
    pub build: Rows<RawBuild>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBuild {
    pub version: String,
    pub variant: String,
    pub platform: String,
    pub index: String,
    #[serde(default)]
    pub also_on: Vec<String>,
    pub cuda: Option<String>,
    pub cudnn: Option<String>,
    pub nccl: Option<String>,
    pub triton: Option<String>,
    pub targets: Option<Vec<String>>,
    #[serde(default)]
    pub ptx: Vec<String>,
    pub targets_evidence: Option<Evidence>,
    pub python: Option<Vec<String>>,
    pub requires_python: Option<String>,
    pub glibc: Option<String>,
    pub wheel_bytes: Option<u64>,
    pub torchvision: Option<String>,
    pub torchaudio: Option<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
    pub yanked: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompanionsFile {
    #[serde(default)]
    pub companion: Rows<RawCompanion>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCompanion {
    pub package: String,
    pub version: String,
    pub torch: Option<String>,
    pub variant: Option<String>,
    pub targets: Option<Vec<String>>,
    #[serde(default)]
    pub ptx: Vec<String>,
    pub yanked: Option<String>,
    pub platform: String,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CudaFile {
    #[serde(default)]
    pub minor_version_compatibility: Rows<RawCompatibility>,
    #[serde(default)]
    pub toolkit: Rows<RawToolkit>,
    #[serde(default)]
    pub targets: Rows<RawTargets>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCompatibility {
    pub cuda_major: u64,
    pub linux: String,
    pub windows: Option<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawToolkit {
    pub version: String,
    pub driver_branch: u32,
    pub linux: Option<String>,
    pub windows: Option<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTargets {
    pub cuda: String,
    pub capability_min: String,
    pub capability_max: String,
    pub targets: Option<Vec<String>>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriversFile {
    #[serde(default)]
    pub branch: Rows<RawBranch>,
    #[serde(default)]
    pub architecture: Rows<RawArchitecture>,
    #[serde(default)]
    pub forward_compatibility: Rows<RawForwardCompatibility>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawForwardCompatibility {
    pub package: String,
    pub cuda: String,
    pub bases: Vec<u32>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBranch {
    pub branch: u32,
    pub cuda: String,
    pub kind: Option<String>,
    pub end_of_life: Option<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArchitecture {
    pub name: String,
    pub capabilities: Vec<String>,
    pub first_branch: Option<u32>,
    pub first_branch_evidence: Option<Evidence>,
    pub last_branch: Option<u32>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CudnnFile {
    #[serde(default)]
    pub floor: Rows<RawFloor>,
    #[serde(default)]
    pub release: Rows<RawRelease>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFloor {
    pub from: String,
    pub capability_min: String,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRelease {
    pub version: String,
    #[serde(default)]
    pub cuda_majors: Vec<u64>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpusFile {
    pub tegra: RawTegra,
    #[serde(default)]
    pub gpu: Rows<RawGpu>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTegra {
    pub capabilities: Vec<String>,
    pub note: String,
    pub note_source: Vec<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGpu {
    pub name: String,
    pub capability: String,
    pub class: Option<String>,
    #[serde(default)]
    pub pci: Vec<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainersFile {
    #[serde(default)]
    pub image: Rows<RawImage>,
    #[serde(default)]
    pub never: Rows<RawNever>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawImage {
    pub repository: String,
    pub tag: String,
    pub framework: String,
    pub version: Option<String>,
    pub cuda: Option<String>,
    pub cudnn: Option<String>,
    pub kind: Option<String>,
    pub driver_min: Option<String>,
    pub driver_branch: Option<u32>,
    #[serde(default)]
    pub data_centre_drivers: Vec<String>,
    pub capability_min: Option<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNever {
    pub repository: String,
    pub tag: String,
    pub reason: String,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FrameworkFile {
    #[serde(default)]
    pub build: Rows<RawFrameworkBuild>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFrameworkBuild {
    pub framework: String,
    pub package: String,
    pub versions: String,
    pub platform: String,
    pub cuda: String,
    pub cudnn: Option<String>,
    pub cuda_from: String,
    pub extra: Option<String>,
    #[serde(default)]
    pub conda: Vec<String>,
    pub ask: Option<String>,
    pub targets: Option<Vec<String>>,
    #[serde(default)]
    pub ptx: Vec<String>,
    pub targets_evidence: Option<Evidence>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSameFile {
    pub file: String,
    pub packages: Vec<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorsFile {
    #[serde(default)]
    pub error: Rows<RawErrorRule>,
    #[serde(default)]
    pub surroundings: Rows<RawSurroundings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawErrorRule {
    pub id: String,
    pub component: String,
    #[serde(rename = "match")]
    pub matches: Vec<String>,
    pub cause: String,
    #[serde(default)]
    pub fix: Vec<String>,
    #[serde(default)]
    pub offer: Vec<String>,
    pub weight: f64,
    pub check: Option<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
    #[serde(default)]
    pub when: Vec<RawErrorCase>,
    #[serde(default)]
    pub or: Vec<RawErrorAnswer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawErrorAnswer {
    pub component: String,
    pub cause: String,
    #[serde(default)]
    pub fix: Vec<String>,
    #[serde(default)]
    pub offer: Vec<String>,
    pub weight: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawErrorCase {
    #[serde(rename = "if")]
    pub conditions: Vec<String>,
    pub component: Option<String>,
    pub cause: Option<String>,
    pub fix: Option<Vec<String>>,
    pub offer: Option<Vec<String>>,
    pub weight: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSurroundings {
    pub name: String,
    pub words: Vec<String>,
    #[serde(default)]
    pub unless: Vec<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadingFile {
    #[serde(default)]
    pub opens: Rows<RawOpens>,
    #[serde(default)]
    pub framework: Rows<RawFrameworkLoads>,
    #[serde(default)]
    pub ptx_isa: Rows<RawPtxIsa>,
    #[serde(default)]
    pub same_file: Rows<RawSameFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOpens {
    pub by: String,
    pub name: String,
    pub from: Option<String>,
    pub required: bool,
    #[serde(default)]
    pub versioned: bool,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFrameworkLoads {
    pub package: String,
    pub starts: Vec<String>,
    pub opens: Vec<String>,
    pub by: LoadsBy,
    #[serde(default)]
    pub from: Vec<String>,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LoadsBy {
    Name,
    Path,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPtxIsa {
    pub isa: String,
    pub cuda: String,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PythonsFile {
    #[serde(default)]
    pub python: Rows<RawPython>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPython {
    pub version: String,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdvisoriesFile {
    #[serde(default)]
    pub advisory: Rows<RawAdvisory>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdvisory {
    pub id: String,
    pub effect: String,
    pub package: String,
    pub versions: String,
    pub platform: Option<String>,
    #[serde(default)]
    pub capabilities: Vec<String>,
    pub requires: Option<String>,
    pub text: String,
    pub evidence: Evidence,
    pub source: Vec<String>,
}

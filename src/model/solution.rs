//! What a solve answers: a solution, a conflict with ways out, or a list of what it must know first.

use std::collections::BTreeMap;

use pep440_rs::Version;
use serde::Serialize;

use super::capability::{CodeTargets, ComputeCapability, Via};
use super::choice::Choice;
use super::conflict::Conflict;
use super::evidence::Evidence;
use super::platform::Platform;
use super::source::{Source, SourceBuild};
use super::version::DottedVersion;
use super::wheel::Python;

/// The answer of one call of the solver.
#[derive(Debug)]
pub enum Answer {
    /// It can be done, like this.
    Solution(Box<Solution>),
    /// It cannot be done, because.
    Conflict(Box<Conflict>),
    /// Some pages or metadata are needed first; solve again when they are there.
    NeedMetadata(Vec<Need>),
    /// The search exceeded its step limit.
    TooLong,
    /// It cannot be done; with these pages and metadata more ways out could be checked.
    ConflictSoFar(Box<Conflict>, Vec<Need>),
}

/// Something the solver must know and does not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// A project's page.
    Page {
        /// Index name, `pypi` or `pytorch/cu126`.
        index: String,
        /// Normalized project name.
        project: String,
    },
    /// A wheel's METADATA.
    Metadata {
        /// Index name.
        index: String,
        /// Normalized project name.
        project: String,
        /// The wheel's file name.
        filename: String,
    },
}

impl Need {
    /// The index that is to be asked.
    pub fn index(&self) -> &str {
        match self {
            Need::Page { index, .. } | Need::Metadata { index, .. } => index,
        }
    }
}

/// A complete choice for one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// The Python series.
    pub python: Python,
    /// The platform it is for.
    pub platform: Platform,
    /// The framework build, where a stack package was asked for.
    pub stack: Option<Stack>,
    /// Frameworks beside torch that use CUDA, by package.
    pub frameworks: Vec<Framework>,
    /// What any host must have.
    pub envelope: Envelope,
    /// Every package, sorted by name.
    pub packages: Vec<ChosenPackage>,
    /// What the user should know, one sentence each.
    pub notes: Vec<Note>,
}

/// Something worth saying about a solution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The sentence.
    pub text: String,
    /// Where the fact comes from, if from outside.
    pub source: Option<String>,
}

/// The framework build of a solution.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// The framework, `torch`.
    pub framework: String,
    /// Its plain version, `2.9.1`.
    pub version: Version,
    /// The flavour, `cu128` or `cpu`.
    pub variant: String,
    /// The CUDA version, absent for `cpu`.
    pub cuda: Option<semver::Version>,
    /// cuDNN, where known.
    pub cudnn: Option<DottedVersion>,
    /// NCCL, where known.
    pub nccl: Option<DottedVersion>,
    /// triton's requirement as the registry has it.
    pub triton: Option<String>,
    /// Companions by name: torchvision, torchaudio.
    pub companions: BTreeMap<String, Version>,
    /// The index it comes from.
    pub index: String,
    /// The weakest evidence among the facts that decided.
    pub evidence: Evidence,
    /// How the host's driver relates to the toolkit; `None` where the driver is open or none is needed.
    pub driver_mode: Option<DriverMode>,
    /// The driver from which on everything works (native mode), where known.
    pub native_driver: Option<DottedVersion>,
    /// The largest wheel's size in bytes, where known.
    pub wheel_bytes: Option<u64>,
}

/// A framework beside torch that uses CUDA.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Framework {
    /// The framework: `tensorflow`, `jax`.
    pub name: String,
    /// The package with its code for GPUs: `tensorflow`, `jax-cuda12-plugin`.
    pub package: String,
    /// The package's version.
    pub version: Version,
    /// CUDA it was built with.
    pub cuda: semver::Version,
    /// cuDNN it was built with: it runs with this minor of the major and newer ones.
    pub cudnn: Option<DottedVersion>,
    /// Whether CUDA and cuDNN have to be on the machine, for no package brings them.
    pub cuda_from_system: bool,
    /// conda-forge's packages that bring them then: `cudatoolkit=11.2`.
    pub conda: Vec<String>,
    /// The weakest evidence among the facts that decided.
    pub evidence: Evidence,
    /// How the host's driver relates to its CUDA; `None` where the driver is open or none is needed.
    #[serde(skip)]
    pub driver_mode: Option<DriverMode>,
    /// The driver from which on everything works, where known.
    pub native_driver: Option<DottedVersion>,
}

/// Releases of a framework beside torch as the registry alone knows them: what they were built for, and not which
/// releases there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The framework: `tensorflow`, `jax`.
    pub name: String,
    /// The package with its code for GPUs.
    pub package: String,
    /// The releases: `2.9.*`, `>=0.6, <0.7.1`.
    pub releases: String,
    /// How one asks for them with CUDA, where the request does not.
    pub ask: Option<String>,
    /// CUDA they were built with.
    pub cuda: semver::Version,
    /// cuDNN they were built with: they run with this minor of the major and newer ones.
    pub cudnn: Option<DottedVersion>,
    /// Whether CUDA and cuDNN have to be on the machine, for no package brings them.
    pub cuda_from_system: bool,
    /// conda-forge's packages that bring them then: `cudatoolkit=11.2`.
    pub conda: Vec<String>,
    /// How the row is known.
    pub evidence: Evidence,
    /// How the host's driver relates to their CUDA; `None` where the driver is open or none is needed.
    #[serde(skip)]
    pub driver_mode: Option<DriverMode>,
    /// The driver from which on everything works, where known.
    pub native_driver: Option<DottedVersion>,
    /// What any machine must have.
    #[serde(skip)]
    pub envelope: Envelope,
}

/// How a driver relates to a toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverMode {
    /// At least the toolkit's own driver: machine code and PTX run.
    Native,
    /// Above the floor of minor-version compatibility only: machine code runs, that toolkit's PTX
    /// does not.
    Compatibility,
}

impl std::fmt::Display for DriverMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DriverMode::Native => "native",
            DriverMode::Compatibility => "compatibility",
        })
    }
}

/// What a lock needs of any host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Envelope {
    /// The lowest driver of all coverage rows.
    pub driver: Option<DottedVersion>,
    /// Per compute capability, what it takes.
    pub coverage: Vec<Coverage>,
    /// The lowest glibc, where a wheel states one.
    pub glibc: Option<DottedVersion>,
    /// The platform.
    pub platform: Platform,
}

/// One compute capability that a lock serves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// The capability.
    pub compute_capability: ComputeCapability,
    /// By machine code or by PTX.
    pub via: Via,
    /// The lowest driver.
    pub driver_min: Option<DottedVersion>,
    /// The first driver branch that no longer knows the GPU.
    pub driver_below: Option<DottedVersion>,
}

/// One package of a solution.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenPackage {
    /// Normalized name.
    pub name: String,
    /// Version as the index has it (a local version only where the file carries one).
    pub version: Version,
    /// Where its files come from.
    pub source: Source,
    /// What is known of its build, for a package that has to be built.
    pub build: Option<SourceBuild>,
    /// The extras and dependency groups that brought it, where not every installation needs it.
    pub groups: Vec<String>,
    /// Usable files, the chosen one first. Empty in a stack-only solution.
    pub files: Vec<ChosenFile>,
    /// Digest of the chosen file's METADATA.
    pub metadata_sha256: Option<String>,
    /// Requirements on other packages, `(name, as written)`.
    pub requires: Vec<Edge>,
    /// Why this version.
    pub reason: Choice,
    /// Device code, where known.
    pub targets: Option<(CodeTargets, Evidence)>,
    /// The flavour, for packages built per CUDA version.
    pub variant: Option<String>,
}

impl ChosenPackage {
    /// The version with its flavour, `2.9.1+cu128`: builds of PyPI do not carry it in their version, those
    /// of the pytorch index do.
    pub fn version_and_flavour(&self) -> String {
        match &self.variant {
            Some(variant) if !self.version.is_local() => format!("{}+{variant}", self.version),
            _ => self.version.to_string(),
        }
    }
}

/// An edge of the locked graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The package that is needed.
    pub to: String,
    /// The requirement as written.
    pub requirement: String,
}

/// A wheel of a chosen package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenFile {
    /// File name.
    pub name: String,
    /// SHA-256; absent only where the index states none.
    pub sha256: Option<String>,
    /// Whether the hash was computed from the file, because the index states none.
    pub hash_computed: bool,
    /// Size in bytes, where it is known.
    pub size: Option<u64>,
}

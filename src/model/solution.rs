//! The results of a solve: a solution, a conflict, or the list of metadata to fetch first.

use std::collections::BTreeMap;

use pep440_rs::Version;
use serde::Serialize;

use super::capability::{CodeTargets, ComputeCapability, Via};
use super::choice::Choice;
use super::conflict::{Change, Conflict, Party, WayOut};
use super::count::Count;
use super::evidence::Evidence;
use super::level::Level;
use super::part::Part;
use super::patches::Patches;
use super::platform::Platform;
use super::request::STACK_PACKAGES;
use super::source::{CondaPackage, Source, SourceBuild};
use super::version::{DottedVersion, cuda_short};
use super::wheel::Python;

/// The result of one call of the solver.
#[derive(Debug)]
pub enum Answer {
    /// A solution.
    Solution(Box<Solution>),
    /// A conflict: there is no solution.
    Conflict(Box<Conflict>),
    /// These pages or metadata must be fetched first; then solve again.
    NeedMetadata(Vec<Need>),
    /// The search ended at its limit of steps or time.
    TooLong,
    /// A conflict. With these pages and metadata, more changes that resolve it could be checked.
    ConflictSoFar(Box<Conflict>, Vec<Need>),
}

/// A page or METADATA that the solver needs.
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
    /// The index to fetch from.
    pub fn index(&self) -> &str {
        match self {
            Need::Page { index, .. } | Need::Metadata { index, .. } => index,
        }
    }
}

/// A complete solution for one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// The Python series.
    pub python: Python,
    /// A newer series with the same build, on which requested packages would be older releases.
    pub newer_python: Option<Python>,
    /// The series that the machine would have alone, where one for all targets is another.
    pub python_alone: Option<Python>,
    /// The patch releases of the series that the request and the packages allow.
    pub patches: Patches,
    /// The platform.
    pub platform: Platform,
    /// The torch stack, if a stack package is required.
    pub stack: Option<Stack>,
    /// Frameworks other than torch that use CUDA, by package.
    pub frameworks: Vec<Framework>,
    /// The requirements on any host.
    pub envelope: Envelope,
    /// Every package, sorted by name.
    pub packages: Vec<ChosenPackage>,
    /// The packages of conda channels, sorted by name.
    pub conda: Vec<CondaPackage>,
    /// Notes for the user, one sentence each.
    pub notes: Vec<Note>,
    /// Those of the notes that say that a package fails beside another one; there was no answer without.
    pub known_failures: Vec<Note>,
    /// Requested packages that are far behind their newest release, and who keeps them there.
    pub behind: Vec<Note>,
}

impl Solution {
    /// A change that leads here, as a way out of a conflict.
    pub fn reached_by(&self, change: Change, party: Party, level: Level) -> WayOut {
        let release = match &party {
            Party::Package(name) => self.packages.iter().find(|own| own.name == *name),
            _ => None,
        };
        let release = release.map(|own| own.version.clone());
        // How old a stack is, the machine decides.
        let is_of_stack = STACK_PACKAGES.contains(&party.as_str()) || party.is_machine_fact();
        let is_far_behind = !is_of_stack && !self.behind.is_empty();
        WayOut {
            release,
            is_far_behind,
            index: self.stack.as_ref().map(|stack| stack.index.clone()),
            ..WayOut::new(change, party, level, self.in_words()).with(self.parts())
        }
    }

    /// What it is, in short: `torch 2.9.1 cu128`, `jax 0.7.2 with CUDA 12.9`, `31 packages on Python 3.13`.
    fn in_words(&self) -> String {
        let of_stack = self.stack.iter().map(|own| {
            let note = match own.evidence {
                Evidence::Inferred => " (inferred: not read from the wheel)",
                _ => "",
            };
            format!("{} {} {}{note}", own.framework, own.version, own.variant)
        });
        let of_frameworks = self
            .frameworks
            .iter()
            .map(|own| format!("{} {} with CUDA {}", own.package, own.version, cuda_short(&own.cuda)));
        let words: Vec<String> = of_stack.chain(of_frameworks).collect();
        match words.is_empty() {
            true => format!("{} on Python {}", Count(self.packages.len()).of("package"), self.python),
            false => words.join(", "),
        }
    }

    /// The versions of its stack, by part.
    fn parts(&self) -> BTreeMap<String, String> {
        let mut parts = BTreeMap::from([("python".to_owned(), self.python.to_string())]);
        if let Some(own) = &self.stack {
            parts.insert(own.framework.clone(), own.version.to_string());
            parts.insert("variant".to_owned(), own.variant.clone());
            parts.extend(own.cuda.iter().map(|cuda| ("cuda".to_owned(), cuda_short(cuda))));
            parts.extend(own.cudnn.iter().map(|cudnn| ("cudnn".to_owned(), cudnn.to_string())));
            parts.extend(own.companions.iter().map(|(name, version)| (name.clone(), version.to_string())));
        }
        for own in &self.frameworks {
            parts.insert(own.package.clone(), own.version.to_string());
            if self.stack.is_none() {
                parts.insert("cuda".to_owned(), cuda_short(&own.cuda));
            }
        }
        parts
    }
}

/// A note about a solution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The sentence.
    pub text: String,
    /// The source of the fact, if it is external.
    pub source: Option<String>,
}

/// The framework build of a solution.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// The framework, `torch`.
    pub framework: String,
    /// Its public version, `2.9.1`.
    pub version: Version,
    /// The CUDA variant, `cu128` or `cpu`.
    pub variant: String,
    /// The CUDA version; `None` for `cpu`.
    pub cuda: Option<semver::Version>,
    /// The cuDNN version, if known.
    pub cudnn: Option<DottedVersion>,
    /// The NCCL version, if known.
    pub nccl: Option<DottedVersion>,
    /// The requirement on triton in the registry.
    pub triton: Option<String>,
    /// Companions by name: torchvision, torchaudio.
    pub companions: BTreeMap<String, Version>,
    /// Its index.
    pub index: String,
    /// The weakest evidence among the facts that decided.
    pub evidence: Evidence,
    /// How the host's driver supports the toolkit; `None` if the driver is unknown or not needed.
    pub driver_mode: Option<DriverMode>,
    /// The lowest driver for native mode, if known.
    pub native_driver: Option<DottedVersion>,
    /// The size of the largest wheel in bytes, if known.
    pub wheel_bytes: Option<u64>,
}

/// A framework other than torch that uses CUDA.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Framework {
    /// The framework: `tensorflow`, `jax`.
    pub name: String,
    /// The package with its GPU code: `tensorflow`, `jax-cuda12-plugin`.
    pub package: String,
    /// The package's version.
    pub version: Version,
    /// CUDA it was built with.
    pub cuda: semver::Version,
    /// cuDNN it was built with. It also runs with newer minors of the same major.
    pub cudnn: Option<DottedVersion>,
    /// Whether CUDA and cuDNN must be installed on the machine, because no package contains them.
    pub cuda_from_system: bool,
    /// The conda-forge packages that provide them in that case: `cudatoolkit=11.2`.
    pub conda: Vec<String>,
    /// The weakest evidence among the facts that decided.
    pub evidence: Evidence,
    /// How the host's driver supports its CUDA; `None` if the driver is unknown or not needed.
    #[serde(skip)]
    pub driver_mode: Option<DriverMode>,
    /// The lowest driver for native mode, if known.
    pub native_driver: Option<DottedVersion>,
}

/// A series of releases of a framework other than torch, from the registry alone. The registry does not list the
/// individual releases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The framework: `tensorflow`, `jax`.
    pub name: String,
    /// The package with its GPU code.
    pub package: String,
    /// The releases: `2.9.*`, `>=0.6, <0.7.1`.
    pub releases: String,
    /// The requirement that installs them with CUDA, if the request does not.
    pub ask: Option<String>,
    /// CUDA they were built with.
    pub cuda: semver::Version,
    /// cuDNN they were built with. They also run with newer minors of the same major.
    pub cudnn: Option<DottedVersion>,
    /// Whether CUDA and cuDNN must be installed on the machine, because no package contains them.
    pub cuda_from_system: bool,
    /// The conda-forge packages that provide them in that case: `cudatoolkit=11.2`.
    pub conda: Vec<String>,
    /// The evidence of the registry row.
    pub evidence: Evidence,
    /// How the host's driver supports their CUDA; `None` if the driver is unknown or not needed.
    #[serde(skip)]
    pub driver_mode: Option<DriverMode>,
    /// The lowest driver for native mode, if known.
    pub native_driver: Option<DottedVersion>,
    /// The requirements on any host.
    #[serde(skip)]
    pub envelope: Envelope,
}

/// How a driver supports a toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverMode {
    /// At least the toolkit's own driver: machine code and PTX run.
    Native,
    /// Minor-version compatibility: the toolkit's machine code runs, its PTX does not.
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

/// The requirements of a lock on any host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Envelope {
    /// The lowest driver of all coverage rows.
    pub driver: Option<DottedVersion>,
    /// The requirements for each supported compute capability.
    pub coverage: Vec<Coverage>,
    /// The lowest glibc, if any wheel requires one.
    pub glibc: Option<DottedVersion>,
    /// The platform.
    pub platform: Platform,
}

/// A compute capability that a lock supports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// The capability.
    pub compute_capability: ComputeCapability,
    /// By machine code or by PTX.
    pub via: Via,
    /// The lowest driver.
    pub driver_min: Option<DottedVersion>,
    /// The first driver branch that no longer supports the GPU.
    pub driver_below: Option<DottedVersion>,
}

impl Coverage {
    /// By which code and with which drivers: `machine code, driver >= 525.60.13, driver < 590`.
    pub fn support(&self) -> String {
        let mut out = match self.via {
            Via::Sass => "machine code".to_owned(),
            Via::Ptx => "PTX, which the driver compiles at first use".to_owned(),
        };
        out.extend(self.driver_min.iter().map(|min| format!(", driver >= {min}")));
        out.extend(self.driver_below.iter().map(|below| format!(", driver < {below}")));
        out
    }
}

/// One package of a solution.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenPackage {
    /// Normalized name.
    pub name: String,
    /// Version on the index (with a local version only if the file has one).
    pub version: Version,
    /// Where its files come from.
    pub source: Source,
    /// What is known of its build, for a package that has to be built.
    pub build: Option<SourceBuild>,
    /// The extras and dependency groups that require it, if it is not part of every installation.
    pub groups: Vec<Part>,
    /// Compatible files, the selected one first. Empty in a stack-only solution.
    pub files: Vec<ChosenFile>,
    /// SHA-256 of the selected file's METADATA.
    pub metadata_sha256: Option<String>,
    /// Requirements on other packages.
    pub requires: Vec<Edge>,
    /// Why this version was chosen.
    pub reason: Choice,
    /// Device code, if known.
    pub targets: Option<(CodeTargets, Evidence)>,
    /// The CUDA variant, for packages with a build for each CUDA version.
    pub variant: Option<String>,
}

impl ChosenPackage {
    /// Whether it must be installed after the others, because its build imports a framework among them.
    pub fn is_built_after_others(&self) -> bool {
        self.build.as_ref().is_some_and(|build| !build.needs.is_empty())
    }

    /// The version with its variant, `2.9.1+cu128`. Versions on PyPI do not include the variant, those on the pytorch
    /// index do.
    pub fn version_with_variant(&self) -> String {
        match &self.variant {
            Some(variant) if !self.version.is_local() => format!("{}+{variant}", self.version),
            _ => self.version.to_string(),
        }
    }
}

/// An edge of the locked graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The required package.
    pub to: String,
    /// The requirement as written.
    pub requirement: String,
}

/// A wheel of a chosen package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChosenFile {
    /// File name.
    pub name: String,
    /// SHA-256; `None` only if the index has none.
    pub sha256: Option<String>,
    /// Whether the hash was computed from the file because the index has none.
    #[serde(skip)]
    pub hash_computed: bool,
    /// Size in bytes, if known.
    pub size: Option<u64>,
}

//! Why a request cannot be met, and which changes were solved and work.

use std::collections::BTreeMap;
use std::fmt;

use pep440_rs::Version;
use serde::{Serialize, Serializer};

use super::capability::ComputeCapability;
use super::level::Level;
use super::request::Origin;
use super::version::DottedVersion;
use super::wheel::Python;

/// Why there is no solution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conflict {
    /// The first line.
    #[serde(skip)]
    pub headline: String,
    /// The target it is about.
    pub target: String,
    /// The facts, two to seven.
    pub reasons: Vec<Reason>,
    /// Changes that were solved and work.
    pub would_work_if: Vec<WayOut>,
}

/// Who is concerned by a fact, or would have to change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// The NVIDIA driver.
    Driver,
    /// A GPU.
    Gpu,
    /// The C library.
    Glibc,
    /// Operating system and processor.
    Platform,
    /// Python's series.
    Python,
    /// The CUDA release of a build.
    Cuda,
    /// cuDNN.
    Cudnn,
    /// NCCL.
    Nccl,
    /// The CUDA variant that was pinned.
    Variant,
    /// The index that packages come from.
    Index,
    /// A package, by normalized name.
    Package(String),
}

impl Party {
    /// The party of a package.
    pub fn package(name: impl Into<String>) -> Party {
        Party::Package(name.into())
    }

    /// Whether it is a part of the machine, or the Python on it.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Party::Driver | Party::Gpu | Party::Glibc | Party::Platform | Party::Python)
    }

    /// The word that the contract has for it.
    pub fn as_str(&self) -> &str {
        match self {
            Party::Driver => "driver",
            Party::Gpu => "gpu",
            Party::Glibc => "glibc",
            Party::Platform => "platform",
            Party::Python => "python",
            Party::Cuda => "cuda",
            Party::Cudnn => "cudnn",
            Party::Nccl => "nccl",
            Party::Variant => "variant",
            Party::Index => "index",
            Party::Package(name) => name,
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Party {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One fact of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// What kind of fact it is.
    #[serde(skip)]
    pub kind: ReasonKind,
    /// One sentence.
    pub text: String,
    /// Who is concerned.
    pub parties: Vec<Party>,
    /// Where the fact comes from.
    pub source: String,
}

/// What kind of fact a reason is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReasonKind {
    /// True of builds, packages or the machine, whatever is asked.
    Fact,
    /// Which releases of a package there are.
    Available,
    /// A part of the request.
    Asked {
        /// Where it was written.
        origin: Origin,
        /// Whether it excludes releases newer than some.
        bounds_above: bool,
    },
}

/// A change that was solved and works.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WayOut {
    /// The change.
    pub change: Change,
    /// Who has to change.
    pub party: Party,
    /// How far it was solved.
    pub level: Level,
    /// The stack it gives.
    pub stack: BTreeMap<String, String>,
    /// The release of the party that it gives, where the party is a package.
    #[serde(skip)]
    pub release: Option<Version>,
    /// The environment variable that makes the change, where one does.
    pub set: Option<String>,
    /// What it gives, in a few words.
    #[serde(skip)]
    pub gives: String,
}

/// One change of the machine or of the request.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A driver of at least this version.
    Driver(DottedVersion),
    /// A cuda-compat package on a kernel driver of this branch.
    CudaCompat {
        /// `cuda-compat-12-4`.
        package: String,
        /// The kernel driver's branch.
        branch: u32,
    },
    /// Releases of a package below one.
    Below {
        /// The package.
        package: String,
        /// The first release that does not work.
        version: Version,
    },
    /// Another release of a package.
    Release {
        /// The package.
        package: String,
        /// The release that works.
        version: Version,
    },
    /// Another series of a package's releases.
    Series {
        /// The package.
        package: String,
        /// The series: `2.9.*`.
        releases: String,
    },
    /// A package with other extras.
    Extras {
        /// The package.
        package: String,
        /// The extras.
        extras: Vec<String>,
    },
    /// A package without one of its extras.
    WithoutExtra {
        /// The package.
        package: String,
        /// The extra.
        extra: String,
    },
    /// The request without a package.
    WithoutRequest(String),
    /// The request without a constraint, as it was written.
    WithoutConstraint(String),
    /// The request without a limit of the stack: `cuda`, `>=12.6`.
    WithoutLimit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        value: String,
    },
    /// A CUDA variant.
    Variant(String),
    /// Any CUDA variant but one.
    OtherVariant(String),
    /// Minor-version compatibility allowed: `driver-policy = "minor"`.
    AllowCompatibilityMode,
    /// A Python series.
    Python(Python),
    /// Packages from one more index.
    AllowIndex(String),
    /// Some of the machine's GPUs alone.
    OnlyGpus {
        /// NVML's indexes.
        indexes: Vec<u32>,
        /// What they are called.
        labels: Vec<String>,
    },
    /// A GPU of another compute capability: the lowest and the highest that would do.
    OtherGpu(ComputeCapability, ComputeCapability),
    /// A glibc of at least this version.
    Glibc(DottedVersion),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Driver(floor) => write!(f, "driver >= {floor}"),
            Change::CudaCompat { package, branch } => write!(f, "{package} on driver {branch}"),
            Change::Below { package, version } => write!(f, "{package} <{version}"),
            Change::Release { package, version } => write!(f, "{package} {version}"),
            Change::Series { package, releases } => write!(f, "{package} {releases}"),
            Change::Extras { package, extras } => write!(f, "{package}[{}]", extras.join(",")),
            Change::WithoutExtra { package, extra } => write!(f, "{package} without [{extra}]"),
            Change::WithoutRequest(package) => write!(f, "without {package}"),
            Change::WithoutConstraint(text) => write!(f, "without the constraint {text}"),
            Change::WithoutLimit { what, value } => write!(f, "without {what} {value}"),
            Change::Variant(name) => write!(f, "variant {name}"),
            Change::OtherVariant(name) => write!(f, "another variant than {name}"),
            Change::AllowCompatibilityMode => f.write_str("driver-policy = \"minor\""),
            Change::Python(python) => write!(f, "Python {python}"),
            Change::AllowIndex(index) => write!(f, "allow the {index} index"),
            Change::OnlyGpus { indexes, labels } => {
                let s = if indexes.len() == 1 { "" } else { "s" };
                let numbers: Vec<String> = indexes.iter().map(ToString::to_string).collect();
                write!(f, "GPU{s} {} alone ({})", numbers.join(", "), labels.join(", "))
            }
            Change::OtherGpu(low, high) if low == high => write!(f, "a GPU of {low}"),
            Change::OtherGpu(low, high) => write!(f, "a GPU of {low} to {high}"),
            Change::Glibc(floor) => write!(f, "glibc >= {floor}"),
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

//! What the user asks for, settled: requirements, stack limits, which indexes may be used.

use pep440_rs::VersionSpecifiers;
use pep508_rs::{PackageName, Requirement, VerbatimUrl};

use super::version::{DottedRange, SemverRange};
use super::wheel::Python;

/// A request to solve, settled from command line, manifest and defaults.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Packages asked for, stack packages among them.
    pub requirements: Vec<UserRequirement>,
    /// Bounds that ask for nothing.
    pub constraints: Vec<UserRequirement>,
    /// The Python series allowed.
    pub python: Option<PythonRequest>,
    /// Limit on the CUDA version of the stack.
    pub cuda: Option<Limit<SemverRange>>,
    /// Limit on cuDNN.
    pub cudnn: Option<Limit<DottedRange>>,
    /// Limit on NCCL.
    pub nccl: Option<Limit<DottedRange>>,
    /// A pinned flavour, `cu126` or `cpu`.
    pub variant: Option<Limit<String>>,
    /// Refuse compatibility mode.
    pub native_driver_only: Option<Limit<()>>,
    /// Take packages from this index only.
    pub only_index: Option<Limit<String>>,
    /// Machines that the manifest describes, one canonical line each.
    pub targets: Vec<String>,
    /// GPUs that are no party, by product name or compute capability: a display card beside the others.
    pub ignored_gpus: Vec<String>,
    /// Indexes that own packages by name pattern, beside `pypi` and `pytorch`.
    pub owners: Vec<IndexOwner>,
}

/// A requirement and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct UserRequirement {
    /// The requirement.
    pub requirement: Requirement<VerbatimUrl>,
    /// Where it stands: `command line`, `envlock.toml`.
    pub origin: String,
}

/// A limit and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit<T> {
    /// The limit itself.
    pub value: T,
    /// Where it stands.
    pub origin: String,
}

/// Which Pythons are allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct PythonRequest {
    /// Specifiers of `requires-python` form, or one exact series.
    pub allowed: PythonAllowed,
    /// As written.
    pub text: String,
    /// Where it stands.
    pub origin: String,
}

/// The two forms of a Python limit.
#[derive(Debug, Clone, PartialEq)]
pub enum PythonAllowed {
    /// `>=3.11,<3.14`.
    Range(VersionSpecifiers),
    /// `3.12` or `3.12.4`.
    Exact(Python),
}

/// An index that owns the packages matching its patterns: they come from it and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOwner {
    /// The index's name in envlock.toml.
    pub index: String,
    /// Package names, `*` at the end matches any rest.
    pub patterns: Vec<String>,
}

impl IndexOwner {
    /// Whether the index owns `package`.
    pub fn owns(&self, package: &PackageName) -> bool {
        let name: &str = package.as_ref();
        self.patterns.iter().any(|p| match p.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == p,
        })
    }
}

/// The index that a package comes from: the first owner whose patterns match, else `pypi`.
pub fn owner<'o>(package: &str, owners: &'o [IndexOwner]) -> &'o str {
    let owned = package.parse().ok().and_then(|name| owners.iter().find(|o| o.owns(&name)));
    owned.map_or("pypi", |o| &o.index)
}

impl Request {
    /// The requirement on `package`, if it was asked for.
    pub fn find(&self, package: &str) -> Option<&UserRequirement> {
        self.requirements.iter().find(|r| r.requirement.name.as_ref() as &str == package)
    }
}

/// The versions and files that an earlier lock holds, preferred while they still fit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preferences {
    /// Package name to version.
    pub versions: std::collections::BTreeMap<String, pep440_rs::Version>,
    /// The Python series.
    pub python: Option<Python>,
    /// The variant of the stack.
    pub variant: Option<String>,
}

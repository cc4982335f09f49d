//! Where a locked package comes from, and what is known of a package that is built from source.

use std::collections::BTreeSet;

use pep440_rs::Version;
use serde::{Deserialize, Serialize};

/// Where a package's files come from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An index by name: `pypi`, `pytorch/cu126`. Which address serves it is configuration.
    Index(String),
    /// A direct reference to a wheel or an sdist, an http or https address without credentials. Its hash is that of the
    /// package's only file.
    Url(String),
    /// A git repository at one commit.
    Git {
        /// The repository's address, without credentials.
        repository: String,
        /// The commit, 40 hexadecimal digits (64 for SHA-256 repositories).
        commit: String,
        /// The folder of the project in the repository.
        subdirectory: Option<String>,
    },
    /// A folder, relative to the lock, with `/` as separator. It is not hashed.
    Path(String),
}

impl Source {
    /// The index that the package comes from; nothing for direct references.
    pub fn index(&self) -> Option<&str> {
        match self {
            Source::Index(name) => Some(name),
            Source::Url(_) | Source::Git { .. } | Source::Path(_) => None,
        }
    }

    /// Whether it is a direct reference (PEP 440): an address, a repository or a folder.
    pub fn is_direct(&self) -> bool {
        self.index().is_none()
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Index(name) => f.write_str(name),
            Source::Url(url) => f.write_str(url),
            Source::Git { repository, commit, subdirectory } => {
                write!(f, "git+{repository}@{commit}")?;
                subdirectory.iter().try_for_each(|folder| write!(f, "#subdirectory={folder}"))
            }
            Source::Path(path) => f.write_str(path),
        }
    }
}

/// What is known of a package that is installed by building it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBuild {
    /// How its requirements are known.
    pub metadata_from: MetadataFrom,
    /// What the build makes.
    pub kind: BuildKind,
    /// Packages that the build imports and an isolated environment would not have: `torch`, or what the project does not
    /// list. It is built in the environment, after the other packages are installed.
    pub needs: Vec<String>,
    /// The newest release that the same Python could install as a wheel, if there is one. Not in the lock.
    pub newest_wheel: Option<Version>,
    /// What it requires to be built, as PEP 508 requirements. Not in the lock.
    pub asks: Vec<String>,
    /// Its build requirements, solved for the same Python.
    pub requires: Vec<BuildRequirement>,
}

/// What a source distribution says of itself, read from the archive. Nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFacts {
    /// How its requirements are known.
    pub metadata_from: MetadataFrom,
    /// What its build makes.
    pub kind: BuildKind,
    /// Frameworks that its build imports: `torch`.
    pub needs: Vec<String>,
    /// What its build requires, as PEP 508 requirements: `[build-system] requires`, else setuptools and wheel.
    pub requires: Vec<String>,
    /// The modules that its `setup.py` imports at the top level, whether or not `requires` brings them.
    pub modules: Vec<String>,
    /// The dotted names that its `setup.py` certainly uses (`imp`, `configparser.SafeConfigParser`), each with the names
    /// that it may have instead: a module that is imported in one of two ways has two.
    pub uses: BTreeSet<Vec<String>>,
    /// Why its requirements cannot be known without running it, one phrase; the lines of the metadata are then those
    /// that its author published.
    pub unknown: Option<String>,
    /// What its build fetches from elsewhere instead of building, if it is such a stub, one phrase.
    pub fetches: Option<String>,
    /// The URL of the index that a stub names for what it fetches.
    pub index: Option<String>,
}

impl SourceFacts {
    /// Whether its `setup.py` imports a module whatever the machine.
    pub fn certainly_imports(&self, module: &str) -> bool {
        let of_module = |name: &String| name.split('.').next() == Some(module);
        self.uses.iter().any(|names| names.iter().all(of_module))
    }
}

/// How the requirements of a source distribution are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetadataFrom {
    /// Stated statically: `PKG-INFO` of Metadata 2.2 or newer without `Dynamic`, or `[project]` of pyproject.toml.
    Exact,
    /// As its author's build wrote them into the archive; another machine's build may write others.
    AsPublished,
    /// Stated by hand in the manifest, `[[metadata]]`.
    Manifest,
}

/// What building a source distribution makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildKind {
    /// Python files alone.
    Pure,
    /// Machine code of the CPU: a compiler is needed.
    Native,
    /// Code for GPUs: the CUDA toolkit is needed.
    Cuda,
}

/// A package that a build requires, as locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequirement {
    /// Normalized name.
    pub name: String,
    /// Version.
    pub version: Version,
    /// The wheel's file name.
    pub file: String,
    /// The wheel's SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// A package of a conda channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CondaPackage {
    /// conda's name of it.
    pub name: String,
    /// Its version, in conda's own ordering.
    pub version: String,
    /// The build string: `py312h72c5963_0`.
    pub build: String,
    /// The channel by name: `conda-forge`.
    pub channel: String,
    /// The platform folder of the channel: `linux-64`, `noarch`.
    pub subdir: String,
    /// The archive's file name.
    pub file: String,
    /// SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// MD5, 32 lower-case hexadecimal digits; empty if the channel does not state it.
    pub md5: String,
    /// Size in bytes.
    pub size: u64,
    /// Its dependencies, as conda's match specs.
    pub depends: Vec<String>,
    /// What must hold of packages that it does not require, as match specs.
    pub constrains: Vec<String>,
}

impl MetadataFrom {
    /// The word in the lock.
    pub fn code(self) -> &'static str {
        match self {
            MetadataFrom::Exact => "exact",
            MetadataFrom::AsPublished => "as-published",
            MetadataFrom::Manifest => "manifest",
        }
    }
}

impl BuildKind {
    /// The word in the lock.
    pub fn code(self) -> &'static str {
        match self {
            BuildKind::Pure => "pure",
            BuildKind::Native => "native",
            BuildKind::Cuda => "cuda",
        }
    }
}

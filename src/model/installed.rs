//! What is installed in a Python environment, as its files say.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use pep440_rs::Version;

use super::version::DottedVersion;
use super::wheel::Python;

/// A Python environment on disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Installed {
    /// The environment's folder.
    pub prefix: String,
    /// Its site-packages.
    pub site_packages: std::path::PathBuf,
    /// Its Python series, where it can be told without running it.
    pub python: Option<Python>,
    /// The installed distributions, sorted by name.
    pub distributions: Vec<Distribution>,
    /// Number of recorded files that were looked at.
    pub files_seen: usize,
}

/// One installed distribution (a `.dist-info` folder).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// Normalized name.
    pub name: String,
    /// Version as METADATA states it, else as the folder's name does.
    pub version: InstalledVersion,
    /// The `.dist-info` folder's name.
    pub dist_info: String,
    /// SHA-256 of the METADATA file.
    pub metadata_sha256: Option<String>,
    /// The requirements that apply without extras: `Requires-Dist` lines as written.
    pub requires: Vec<String>,
    /// The flavour by the package's own `version.py` (`cu128`, `cpu`), for torch and its companions.
    pub variant: Option<String>,
    /// Who installed it (`pip`, `uv`, `conda`).
    pub installer: Option<String>,
    /// The shared libraries that it records, relative to site-packages.
    pub libraries: Vec<String>,
    /// What is wrong with its recorded files.
    pub faults: Vec<FileFault>,
    /// Whether RECORD was there and readable.
    pub record_readable: bool,
}

/// A version as an installed package states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstalledVersion {
    /// A version by PEP 440.
    Valid(Version),
    /// A text that is not one; it is only shown.
    Invalid(String),
}

impl InstalledVersion {
    /// The version, where it is one.
    pub fn valid(&self) -> Option<&Version> {
        match self {
            InstalledVersion::Valid(version) => Some(version),
            InstalledVersion::Invalid(_) => None,
        }
    }
}

impl Default for InstalledVersion {
    fn default() -> Self {
        InstalledVersion::Invalid(String::new())
    }
}

impl FromStr for InstalledVersion {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.parse() {
            Ok(version) => InstalledVersion::Valid(version),
            Err(_) => InstalledVersion::Invalid(super::text::clean(text, 60)),
        })
    }
}

impl From<&str> for InstalledVersion {
    fn from(text: &str) -> Self {
        let Ok(version) = text.parse();
        version
    }
}

impl fmt::Display for InstalledVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstalledVersion::Valid(version) => version.fmt(f),
            InstalledVersion::Invalid(text) => f.write_str(text),
        }
    }
}

/// A recorded file that is not as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFault {
    /// The file is gone.
    Missing(String),
    /// The size differs: path, recorded, found.
    Size(String, u64, u64),
    /// The hash differs.
    Hash(String),
    /// It is there and cannot be read: path, why.
    Unreadable(String, String),
    /// The file is recorded by another distribution too: path, the other's name.
    OwnedTwice(String, String),
}

/// What lies around an environment's packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traces {
    /// Packages that conda installed, sorted by name.
    pub conda: Vec<CondaPackage>,
    /// Packages that Python would find before the environment's own.
    pub shadowing: Vec<Shadowing>,
    /// Folders that an installer left behind, `~orch`.
    pub leftovers: Vec<String>,
    /// Libraries beside recorded ones of CUDA and torch that no package records.
    pub unrecorded: Vec<String>,
    /// The CUDA toolkit that extensions would be built with.
    pub toolkit: Option<Toolkit>,
}

/// A package in a folder that Python looks at before site-packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowing {
    /// The package.
    pub name: String,
    /// Its version there; absent where it is a folder without metadata.
    pub version: Option<InstalledVersion>,
    /// The folder.
    pub folder: String,
    /// What makes Python look there.
    pub by: SearchedFirst,
}

/// Why Python looks at a folder before the environment's site-packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchedFirst {
    /// The variable `PYTHONPATH` names it.
    PythonPath,
    /// It is the user's own site-packages (PEP 370), and the environment does not switch that off.
    UserSite,
}

impl fmt::Display for SearchedFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SearchedFirst::PythonPath => "PYTHONPATH",
            SearchedFirst::UserSite => "the user's own site-packages",
        })
    }
}

/// A package as conda's own record states it (`conda-meta/*.json`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CondaPackage {
    /// conda's name for it: `pytorch`.
    pub name: String,
    /// Its version, in conda's syntax.
    pub version: String,
    /// The build string, `py3.12_cuda12.4_cudnn9.1.0_0`; empty where the record has none.
    pub build: String,
}

/// A CUDA toolkit with its compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolkit {
    /// What names it: a variable, or the usual folder.
    pub by: String,
    /// Its folder.
    pub home: String,
    /// Its CUDA version, `12.8.1`.
    pub version: DottedVersion,
}

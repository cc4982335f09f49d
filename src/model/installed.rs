//! What is installed in a Python environment, as its files say.

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
    /// Version as METADATA states it.
    pub version: String,
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

/// A recorded file that is not as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFault {
    /// The file is gone.
    Missing(String),
    /// The size differs: path, recorded, found.
    Size(String, u64, u64),
    /// The hash differs.
    Hash(String),
    /// The file is recorded by another distribution too: path, the other's name.
    OwnedTwice(String, String),
}

//! Builds of frameworks on conda channels.

use pep440_rs::VersionSpecifiers;
use semver::Version as Semver;
use serde::Deserialize;

use super::cuda;
use crate::model::capability::{CodeTarget, CodeTargets};
use crate::model::platform::Platform;
use crate::model::version::DottedVersion;

/// What is known of conda-forge's builds of a framework for one CUDA.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawCondaBuild")]
pub struct CondaBuild {
    /// conda's name of the package.
    pub package: String,
    /// Its version as conda writes it.
    pub version: String,
    /// CUDA it was built with.
    pub cuda: Semver,
    /// The platform.
    pub platform: Platform,
    /// The build numbers of the recipe.
    pub builds: Vec<u32>,
    /// The major version of the cuDNN that they link, if it is known.
    pub cudnn: Option<u64>,
    /// The lowest glibc that they run on, if it is known.
    pub glibc: Option<DottedVersion>,
    /// Its code.
    pub targets: CodeTargets,
}

impl CondaBuild {
    /// The numbers of the version, for the order of rows.
    pub(in crate::registry) fn release(&self) -> Vec<u64> {
        self.version.split('.').filter_map(|part| part.parse().ok()).collect()
    }
}

/// Whether conda-forge's builds of a package use the C++11 ABI of libstdc++.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CondaCxx11Abi {
    /// conda's name of the package.
    pub package: String,
    /// Its releases.
    pub versions: VersionSpecifiers,
    /// Whether they use it.
    pub cxx11_abi: bool,
}

/// The keys of a row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCondaBuild {
    package: String,
    version: String,
    #[serde(deserialize_with = "cuda")]
    cuda: Semver,
    platform: Platform,
    builds: Vec<u32>,
    cudnn: Option<u64>,
    glibc: Option<DottedVersion>,
    targets: Vec<CodeTarget>,
    #[serde(default)]
    ptx: Vec<CodeTarget>,
}

impl TryFrom<RawCondaBuild> for CondaBuild {
    type Error = super::RowError;

    fn try_from(raw: RawCondaBuild) -> Result<Self, super::RowError> {
        if raw.builds.is_empty() || raw.targets.is_empty() {
            return Err("`builds` and `targets` must not be empty".to_owned());
        }
        Ok(CondaBuild {
            package: raw.package,
            version: raw.version,
            cuda: raw.cuda,
            platform: raw.platform,
            builds: raw.builds,
            cudnn: raw.cudnn,
            glibc: raw.glibc,
            targets: CodeTargets { sass: raw.targets, ptx: raw.ptx },
        })
    }
}

//! Rows, parsed from TOML into the domain types and validated. Each file of the registry has a
//! module of the same name.

mod advisories;
mod conda;
mod containers;
mod cuda;
mod cudnn;
mod drivers;
mod errors;
mod frameworks;
mod gpus;
mod loading;
mod packages;
mod torch;

use semver::Version as Semver;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::model::evidence::Evidence;
use crate::model::native::{FrameworkLoads, Opened, Provider};
use crate::model::text::clean;
use crate::model::version::cuda_version;
use crate::model::wheel::Python;

pub use advisories::{AbiBreak, Advisory, Effect};
pub use conda::{CondaBuild, CondaCxx11Abi};
pub(super) use containers::ContainerRows;
pub use containers::{Image, NonexistentImage};
pub(super) use cuda::CudaRows;
pub use cuda::{LastBuild, MinorVersionCompatibility, RuntimePackage, ToolkitDriver, ToolkitTargets};
pub(super) use cudnn::CudnnRows;
pub use cudnn::{CudnnFloor, CudnnRelease};
pub(super) use drivers::DriverRows;
pub use drivers::{Architecture, Branch, ForwardCompatibility};
pub(super) use errors::ErrorRows;
pub use errors::{
    CodeFamily, Condition, ErrorAnswer, ErrorCase, ErrorRule, Mechanics, Offer, Predicate, SurroundingWords,
};
pub use frameworks::{CudaFrom, FrameworkBuild, SameFile};
pub use gpus::{GpuNames, GpuRow, Tegra};
pub(super) use loading::LoadingRows;
pub use loading::{CudaLibraries, CudaPart, PtxIsa, SameCuda, SameRelease, StdlibImport, TorchShim};
pub(super) use packages::PackageRows;
pub use packages::{
    Backport, BuildModule, CondaName, Cxx11Abi, Prebuilt, PrebuiltFor, PythonLimit, Removed, SourcePackage,
    Undeclared,
};
pub use torch::{Build, COMPANIONS, Companion, STACK_PACKAGES};
pub(super) use torch::{sort_builds, sort_companions};

/// The registry as a whole.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawMeta")]
pub struct Meta {
    /// Format version of the rows.
    pub schema: Semver,
    /// The day up to which releases are included, `2026-11-21`.
    pub date: String,
}

/// The error message for an invalid row.
pub(super) type RowError = String;

/// A row, which names its sources.
pub(super) trait Row: DeserializeOwned {
    /// Source ids.
    fn source(&self) -> &[String];
}

macro_rules! rows {
    ($($row:ty),+ $(,)?) => {
        $(impl Row for $row {
            fn source(&self) -> &[String] {
                &self.source
            }
        })+
    };
}

rows!(
    AbiBreak,
    Advisory,
    Architecture,
    Backport,
    Branch,
    Build,
    BuildModule,
    Companion,
    CondaBuild,
    CondaCxx11Abi,
    CondaName,
    CudaLibraries,
    Cxx11Abi,
    CudnnFloor,
    CudnnRelease,
    CodeFamily,
    ErrorRule,
    ForwardCompatibility,
    FrameworkBuild,
    FrameworkLoads,
    GpuRow,
    Image,
    MinorVersionCompatibility,
    NonexistentImage,
    Opened,
    Prebuilt,
    Provider,
    PtxIsa,
    PythonRow,
    PythonLimit,
    Removed,
    SameCuda,
    SameRelease,
    StdlibImport,
    SameFile,
    SourcePackage,
    SurroundingWords,
    LastBuild,
    RuntimePackage,
    ToolkitDriver,
    ToolkitTargets,
    TorchShim,
    Undeclared,
);

/// A CUDA version as people write it, `12.8`, as three numbers.
fn cuda<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Semver, D::Error> {
    cuda_version(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn cuda_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Semver>, D::Error> {
    cuda(deserializer).map(Some)
}

/// A Python series that a solve can choose.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonRow {
    /// The series, `3.12`.
    pub version: Python,
    /// Evidence.
    #[allow(dead_code, reason = "every row states it")]
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

impl TryFrom<RawMeta> for Meta {
    type Error = RowError;

    fn try_from(raw: RawMeta) -> Result<Self, RowError> {
        let understood = semver::VersionReq::parse("^1").expect("a constant");
        if !understood.matches(&raw.schema) {
            return Err(format!(
                "the registry has format {}, but this program supports {understood}",
                raw.schema
            ));
        }
        if raw.date.len() != 10 {
            return Err(format!("`date`: `{}` is not a valid date", clean(&raw.date, 40)));
        }
        Ok(Meta { schema: raw.schema, date: raw.date })
    }
}

/// The keys of registry.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMeta {
    schema: Semver,
    date: String,
}

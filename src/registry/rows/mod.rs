//! Validated rows: each raw row of [`super::schema`] parsed into the domain types. Each file of the registry has a
//! module of the same name.

mod advisories;
mod containers;
mod cuda;
mod cudnn;
mod drivers;
mod errors;
mod frameworks;
mod gpus;
mod loading;
mod torch;

use semver::Version as Semver;

use super::schema::{MetaFile, RawPython};
use crate::model::version::cuda_version;

pub use advisories::{Advisory, Effect};
pub(super) use containers::ContainerRows;
pub use containers::{Image, NonexistentImage};
pub(super) use cuda::CudaRows;
pub use cuda::{MinorVersionCompatibility, ToolkitDriver, ToolkitTargets};
pub(super) use cudnn::CudnnRows;
pub use cudnn::{CudnnFloor, CudnnRelease};
pub(super) use drivers::DriverRows;
pub use drivers::{Architecture, Branch, ForwardCompatibility};
pub(super) use errors::ErrorRows;
pub use errors::{
    Condition, ErrorAnswer, ErrorCase, ErrorRule, Mechanics, Offer, Predicate, SurroundingWords,
};
pub use frameworks::{CudaFrom, FrameworkBuild, SameFile};
pub use gpus::{GpuRow, Tegra};
pub(super) use loading::LoadingRows;
pub use loading::PtxIsa;
pub use torch::{Build, COMPANIONS, Companion, STACK_PACKAGES};

/// The registry as a whole.
#[derive(Debug, Clone)]
pub struct Meta {
    /// Format version of the rows.
    pub schema: Semver,
    /// The day up to which releases are included, `2026-11-21`.
    pub date: String,
}

/// The error message for an invalid row.
pub(super) type RowError = String;

fn parse<T: std::str::FromStr>(field: &str, text: &str) -> Result<T, RowError> {
    text.parse().map_err(|_| format!("`{field}`: `{}` is invalid", crate::model::text::clean(text, 80)))
}

fn parse_option<T: std::str::FromStr>(field: &str, text: Option<&str>) -> Result<Option<T>, RowError> {
    text.map(|t| parse(field, t)).transpose()
}

fn cuda(field: &str, text: &str) -> Result<Semver, RowError> {
    cuda_version(text).map_err(|e| format!("`{field}`: {e}"))
}

impl TryFrom<&MetaFile> for Meta {
    type Error = RowError;

    fn try_from(raw: &MetaFile) -> Result<Self, RowError> {
        let schema: Semver = parse("schema", &raw.schema)?;
        let understood = semver::VersionReq::parse("^1").expect("a constant");
        if !understood.matches(&schema) {
            return Err(format!("the registry has format {schema}, but this program supports {understood}"));
        }
        if raw.date.len() != 10 {
            return Err(format!(
                "`date`: `{}` is not a valid date",
                crate::model::text::clean(&raw.date, 40)
            ));
        }
        Ok(Meta { schema, date: raw.date.clone() })
    }
}

impl TryFrom<&RawPython> for u32 {
    type Error = RowError;

    fn try_from(raw: &RawPython) -> Result<Self, RowError> {
        parse::<crate::model::wheel::Python>("version", &raw.version).map(|p| p.minor)
    }
}

//! Rows, parsed from TOML into the domain types and validated. Each file of the registry has a
//! module of the same name.

mod advisories;
mod bundled_libraries;
mod conda;
mod containers;
mod cuda;
mod cudnn;
mod drivers;
mod errors;
mod frameworks;
mod gpus;
mod loading;
mod repairs;
mod source_builds;
mod torch;

use std::collections::BTreeMap;

use semver::Version as Semver;
use serde::{Deserialize, Deserializer};

use crate::model::text::clean;
use crate::model::timestamp::is_day;
use crate::model::version::cuda_version;
use crate::model::wheel::Python;
use crate::registry::table::Fault;

pub use advisories::{AbiBreak, Advisory, Effect};
pub use bundled_libraries::BundledLibrary;
pub use conda::{CondaBuild, CondaCxx11Abi};
pub use containers::{Image, NonexistentImage};
pub use cuda::{LastBuild, MinorVersionCompatibility, RuntimePackage, ToolkitDriver, ToolkitTargets};
pub use cudnn::{CudnnFloor, CudnnRelease};
pub use drivers::{Architecture, Branch, ForwardCompatibility};
pub use errors::{
    CodeFamily, Condition, ErrorAnswer, ErrorCase, ErrorRule, Mechanics, Offer, Predicate, SurroundingWords,
    Words, WordsOf,
};
pub use frameworks::{CudaFrom, FrameworkBuild, SameFile};
pub use gpus::{GpuNames, GpuRow, NodeLabel, OtherMaker, Tegra};
pub(super) use loading::problems_of_loads;
pub use loading::{
    CudaLibraries, CudaPart, CudnnPart, Pair, PtxIsa, SameCuda, SameRelease, StdlibImport, TorchShim,
};
pub use repairs::{Extension, Repair, SystemLibrary};
pub use source_builds::{
    Backport, BuildModule, CondaName, Cxx11Abi, OtherProject, Prebuilt, PrebuiltFor, PythonLimit, Removed,
    SourcePackage, Undeclared,
};
pub use torch::{Build, COMPANIONS, Companion, STACK_PACKAGES, SourceCode};
pub(super) use torch::{sort_builds, sort_companions, variant_on_pypi};

/// The registry as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Format version of the rows.
    pub schema: Semver,
    /// The day of the newest row, `2026-11-21`: a row is as new as the newest of its sources.
    pub date: String,
}

/// The formats that this program reads.
const FORMATS: &str = ">=1, <3";

impl Meta {
    /// Whether this program reads a format.
    pub fn understands(schema: &Semver) -> bool {
        semver::VersionReq::parse(FORMATS).expect("a constant").matches(schema)
    }

    /// The format and the date: the one that `registry.toml` states (format 1), or the newest day on which a source was
    /// read.
    ///
    /// # Errors
    /// The format is none of those that this program reads, or no date is stated.
    pub fn new<'s>(
        schema: &str,
        stated: Option<&'s str>,
        sources: &'s BTreeMap<String, String>,
    ) -> Result<Meta, RowError> {
        let version: Semver =
            schema.parse().map_err(|e| format!("`schema`: `{}` is not a version: {e}", clean(schema, 40)))?;
        if !Meta::understands(&version) {
            return Err(format!(
                "the registry has format {version}, but this program reads formats {FORMATS}"
            ));
        }
        let of_source = |text: &'s String| {
            let days = text.match_indices("read 20").filter_map(|(at, _)| text.get(at + 5..at + 15));
            days.filter(|day| is_day(day)).max()
        };
        let newest = match stated {
            Some(day) => Some(day)
                .filter(|day| is_day(day))
                .ok_or(format!("`date`: `{}` is not a day", clean(day, 40)))?,
            None => sources
                .values()
                .filter_map(of_source)
                .max()
                .ok_or("no source states the day on which it was read")?,
        };
        Ok(Meta { schema: version, date: newest.to_owned() })
    }
}

/// The error message for an invalid row.
pub(super) type RowError = String;

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
    /// The day of its first final release, `2023-10-02`, if the registry states it.
    pub released: Option<String>,
}

impl PythonRow {
    pub(super) fn problems(&self) -> Option<Fault> {
        let day = self.released.as_ref().filter(|day| !is_day(day))?;
        Some(Fault::at("released", format!("`{}` is not a day", clean(day, 40))))
    }

    /// Whether it was released at least two years before a day.
    pub fn is_settled_on(&self, day: &str) -> bool {
        let year = day.get(..4).and_then(|year| year.parse::<u32>().ok());
        let two_years_before = year.and_then(|year| year.checked_sub(2));
        let Some((year, rest)) = two_years_before.zip(day.get(4..)) else { return true };
        // Days are in the order of their texts.
        self.released.as_ref().is_none_or(|released| *released <= format!("{year:04}{rest}"))
    }
}

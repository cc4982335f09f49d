//! Data on what libraries load at run time.

use semver::Version as Semver;

use super::super::schema::{LoadsBy, RawFrameworkLoads, RawOpens, RawPtxIsa};
use super::{RowError, SameFile, parse, parse_option};
use crate::model::native::{FrameworkLoads, Opened};
use crate::model::version::cuda_version;

/// A PTX ISA version, and the first CUDA release whose driver compiles it.
#[derive(Debug, Clone)]
pub struct PtxIsa {
    /// Major and minor, `(8, 7)`.
    pub isa: (u16, u16),
    /// `12.8.0`.
    pub cuda: Semver,
}

/// The rows of loading.toml.
#[derive(Debug, Clone, Default)]
pub(in crate::registry) struct LoadingRows {
    pub opens: Vec<Opened>,
    pub frameworks: Vec<FrameworkLoads>,
    pub ptx_isa: Vec<PtxIsa>,
    pub same_file: Vec<SameFile>,
}

impl TryFrom<&RawOpens> for Opened {
    type Error = RowError;

    fn try_from(raw: &RawOpens) -> Result<Self, RowError> {
        Ok(Opened {
            by: raw.by.clone(),
            name: raw.name.clone(),
            from: parse_option("from", raw.from.as_deref())?,
            required: raw.required,
            versioned: raw.versioned,
        })
    }
}

impl TryFrom<&RawFrameworkLoads> for FrameworkLoads {
    type Error = RowError;

    fn try_from(raw: &RawFrameworkLoads) -> Result<Self, RowError> {
        if raw.starts.is_empty() {
            return Err("`starts` is empty".into());
        }
        if raw.starts.iter().any(|pattern| pattern.matches('*').count() > 1) {
            return Err("a pattern in `starts` can have at most one `*`".into());
        }
        Ok(FrameworkLoads {
            package: raw.package.clone(),
            starts: raw.starts.clone(),
            opens: raw.opens.clone(),
            by_path: raw.by == LoadsBy::Path,
            from: raw.from.clone(),
        })
    }
}

impl TryFrom<&RawPtxIsa> for PtxIsa {
    type Error = RowError;

    fn try_from(raw: &RawPtxIsa) -> Result<Self, RowError> {
        let (major, minor) = raw.isa.split_once('.').ok_or("`isa` must have the form `8.7`")?;
        Ok(PtxIsa {
            isa: (parse("isa", major)?, parse("isa", minor)?),
            cuda: cuda_version(&raw.cuda).map_err(|e| format!("`cuda`: {e}"))?,
        })
    }
}

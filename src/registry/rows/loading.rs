//! What libraries do when they are loaded.

use semver::Version as Semver;

use super::super::schema::{LoadsBy, RawFrameworkLoads, RawOpens, RawPtxIsa};
use super::{RowError, SameFile, parse, parse_option};
use crate::model::native::{FrameworkLoads, Opened};
use crate::model::version::cuda_version;

/// A version of the PTX language, and the CUDA release from which on drivers compile it.
#[derive(Debug, Clone)]
pub struct PtxIsa {
    /// Major and minor, `(8, 7)`.
    pub isa: (u16, u16),
    /// `12.8.0`.
    pub cuda: Semver,
}

/// What libraries do when they are loaded.
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
            return Err("`starts` names no library".into());
        }
        if raw.starts.iter().any(|pattern| pattern.matches('*').count() > 1) {
            return Err("a pattern of `starts` has one `*` at most".into());
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
        let (major, minor) = raw.isa.split_once('.').ok_or("`isa` is like `8.7`")?;
        Ok(PtxIsa {
            isa: (parse("isa", major)?, parse("isa", minor)?),
            cuda: cuda_version(&raw.cuda).map_err(|e| format!("`cuda`: {e}"))?,
        })
    }
}

//! `[target.NAME]`: a described machine to lock for.

use serde::Deserialize;

use super::conda_table::is_of_channels;
use super::python_request;
use crate::model::conda::CONDA_FORGE;
use crate::model::image_digest::ImageDigest;
use crate::model::project::specifiers_allow;
use crate::model::request::{PythonAllowed, PythonRequest, Request};
use crate::model::text::clean;

/// A `[target.NAME]` table as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetTable {
    pub gpus: Option<Vec<String>>,
    pub driver: Option<String>,
    pub glibc: Option<String>,
    pub platform: Option<String>,
    python: Option<String>,
    /// Where the stack comes from, if not from where the project's does.
    source: Option<String>,
    /// The container image that the target is locked for.
    pub image: Option<ImageDigest>,
}

/// A machine that the manifest describes.
#[derive(Debug, Clone)]
pub(crate) struct TargetRow {
    pub name: String,
    pub table: TargetTable,
    /// Its own limit on Python, within the project's.
    pub python: Option<PythonRequest>,
    /// Whether its stack comes from conda channels, if it says so itself.
    pub of_channels: Option<bool>,
    /// Where the table begins, for messages: `envlock.toml:12`.
    pub place: String,
}

/// Whether a name can be part of a file name, `environment.NAME.yml`.
fn is_target_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 60 && name.chars().all(allowed) && !name.starts_with('.')
}

/// The limit on Python of a target: the project's limit combined with its own.
///
/// # Errors
/// A sentence, if no Python is within both.
pub(crate) fn narrowed(
    project: Option<&PythonRequest>,
    own: Option<PythonRequest>,
) -> Result<Option<PythonRequest>, String> {
    let (Some(project), Some(own)) = (project, own.clone()) else { return Ok(own) };
    let disjoint = || format!("Python `{}` is not within the project's `{}`", own.text, project.text);
    let allowed = match (&project.allowed, &own.allowed) {
        (PythonAllowed::Range(range), PythonAllowed::Exact(series)) => {
            if !specifiers_allow(range, *series) {
                return Err(disjoint());
            }
            own.allowed.clone()
        }
        (PythonAllowed::Exact(series), PythonAllowed::Range(range)) => {
            if !specifiers_allow(range, *series) {
                return Err(disjoint());
            }
            project.allowed.clone()
        }
        (PythonAllowed::Exact(a), PythonAllowed::Exact(b)) => {
            if a != b {
                return Err(disjoint());
            }
            own.allowed.clone()
        }
        (PythonAllowed::Range(a), PythonAllowed::Range(b)) => {
            PythonAllowed::Range(a.iter().chain(b.iter()).cloned().collect())
        }
    };
    Ok(Some(PythonRequest { allowed, ..own }))
}

impl TargetTable {
    /// A machine of which GPUs, driver, glibc and platform are stated.
    pub(super) fn of_machine(
        gpus: &[String],
        [driver, glibc, platform]: [Option<&String>; 3],
    ) -> TargetTable {
        TargetTable {
            gpus: Some(gpus.to_vec()),
            driver: driver.cloned(),
            glibc: glibc.cloned(),
            platform: platform.cloned(),
            python: None,
            source: None,
            image: None,
        }
    }

    /// The table as one line, for comparing.
    pub(super) fn line(&self, name: &str) -> String {
        let mut parts = vec![clean(name, 60)];
        let keys = [
            ("driver", &self.driver),
            ("glibc", &self.glibc),
            ("platform", &self.platform),
            ("python", &self.python),
            ("source", &self.source),
        ];
        for (key, value) in keys {
            parts.extend(value.as_ref().map(|v| format!("{key}={}", clean(v, 60))));
        }
        parts.extend(self.image.as_ref().map(|image| format!("image={image}")));
        parts.extend(self.gpus.as_ref().map(|g| format!("gpus={}", clean(&g.join(";"), 400))));
        parts.join(" ")
    }
}

/// Checks a table and combines its limit on Python with the project's.
pub(super) fn target_row(
    request: &Request,
    target: String,
    table: TargetTable,
    origin: &str,
    place: String,
) -> Result<TargetRow, String> {
    if !is_target_name(&target) {
        return Err(format!(
            "`{}` is not a valid target name: use letters, digits, `-`, `_` and `.`",
            clean(&target, 60)
        ));
    }
    if table.gpus.as_ref().is_some_and(Vec::is_empty) {
        return Err(format!(
            "the target `{target}` names no GPU: set `gpus = [\"none\"]` for a machine without a GPU, or remove the key to allow any GPU"
        ));
    }
    let of_channels = table.source.as_deref().map(is_of_channels).transpose()?;
    let channels = &request.conda.channels;
    // Without a table of channels, it is conda-forge that is asked.
    if of_channels == Some(true) && !channels.is_empty() && !channels.iter().any(|name| name == CONDA_FORGE) {
        return Err(format!("`channels` under `[conda]` does not name `{CONDA_FORGE}`"));
    }
    let own = table.python.as_ref().map(|text| python_request(text, origin)).transpose()?;
    Ok(TargetRow { python: narrowed(request.python.as_ref(), own)?, name: target, table, of_channels, place })
}

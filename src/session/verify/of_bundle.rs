//! `verify --bundle`: a bundle held against the lock.

use std::path::Path;

use super::{Answer, VerifyOptions};
use crate::model::bytes::Bytes;
use crate::model::count::Count;
use crate::session::bundle::OpenBundle;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::project_lock;
use crate::session::settings::Project;
use crate::verify::{Area, AreaKind, findings};

/// Checks a bundle: every file is hashed. It may have fewer targets than the lock, unless one is named.
///
/// # Errors
/// When there is no lock, or the bundle cannot be read.
pub(super) fn check(global: &Global, path: &Path, options: &VerifyOptions) -> Result<Answer, Failure> {
    let project = Project::find(global, true)?;
    let bundle = OpenBundle::open(path, options.pubkey.as_deref())?;
    let (own, text) = match project_lock::read(&project)? {
        Some(own) => (own, fs_err::read(project.lock_path())?),
        None => bundle.own_lock()?,
    };
    let targets: Vec<&str> = match &options.target {
        Some(name) => vec![project_lock::target(&own, Some(name))?.name.as_str()],
        None => {
            let is_bundled = |name: &&str| bundle.manifest.targets.iter().any(|own| own == name);
            own.targets.iter().map(|target| target.name.as_str()).filter(is_bundled).collect()
        }
    };
    let faults = bundle.faults((&own, &text), &targets)?;
    let files = bundle.manifest.files.len();
    let summary =
        format!("{}, {}, {}", Count(files).of("file"), Bytes(bundle.manifest.size()), targets.join(", "));
    let command = bundle.command();
    let differs = |fault| findings::bundle_differs(fault, &bundle.shown, &command);
    let findings = faults.iter().map(differs).collect();
    let area = Area { findings, summary, ..Area::of(AreaKind::Bundle) };
    Ok(Answer::Bundle { areas: vec![area], path: bundle.shown.clone() })
}
